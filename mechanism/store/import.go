package store

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/cockroachdb/pebble/v2"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/godwitdb/godwit/base"
)

// localImport + shard is the record of an import that was begun to be merged.
const localImport = "import/"

// mergeBatch is the size of the batches of a merge.
const mergeBatch = 1 << 20

// Import receives an [Export] and merges it into the local shard. Received chunks are
// staged on disk and have no effect; Finish merges them all. One import a shard at a time.
type Import struct {
	s      *Store
	sh     *shardState
	done   bool
	locked bool
	// Incarnations are the sender's: Hold refuses what is not of the same ones.
	Incarnations Incarnations
	// Conflicts counts versions that both sides held with different contents, which means that
	// replicas have diverged; the one with the later writer was kept.
	Conflicts int
}

// ImportShard starts an import; what an unfinished earlier one staged is dropped.
func (s *Store) ImportShard(id base.ShardID) (*Import, error) {
	i := &Import{s: s, sh: s.shards.get(id)}
	return i, i.clear()
}

func (i *Import) clear() error {
	b := i.s.NewBatch()
	defer b.Close()
	lo, hi := areaSpan(stagingPrefix(i.sh.id))
	empty := true
	if err := i.s.scan(lo, hi, func(_, _ []byte) error { empty = false; return errStop }); err != nil && err != errStop {
		return err
	}
	if empty {
		return nil
	}
	b.delRange(lo, hi)
	return b.Commit(false)
}

var errStop = base.Errorf(base.CodeOther, "stop")

// Add stages a chunk. Chunks may come in any order and more than once. Keys
// that do not belong to the shard are base.CodeInvalid.
func (i *Import) Add(keys, vals [][]byte) error {
	if len(keys) != len(vals) {
		return base.Errorf(base.CodeInvalid, "snapshot chunk with %d keys and %d values", len(keys), len(vals))
	}
	b := i.s.NewBatch()
	defer b.Close()
	prefix := stagingPrefix(i.sh.id)
	for n, k := range keys {
		if !i.belongs(k) {
			return base.Errorf(base.CodeInvalid, "snapshot of shard %d: key %x does not belong to it", i.sh.id, k)
		}
		b.set(append(bytes.Clone(prefix), k...), vals[n])
	}
	return b.Commit(false)
}

func (i *Import) belongs(ek []byte) bool {
	if bytes.Equal(ek, headerKey) {
		return true
	}
	body, ts, ok := splitKey(ek)
	if !ok {
		return false
	}
	switch ek[0] {
	case areaState, areaTxn:
		g, _, ok := groupOf(body)
		return ok && ts == 0 && g.Shard() == i.sh.id && (ek[0] == areaTxn || exported(ek))
	case areaVersion, areaMark:
		return ts != 0 && base.Key(body).Shard() == i.sh.id
	}
	return false
}

// Abort drops what was staged. It does nothing after Finish.
func (i *Import) Abort() error {
	if i.done {
		return nil
	}
	i.done = true
	i.release()
	return i.clear()
}

// Hold keeps the incarnations of the shard's groups as they are until Finish or Abort, and fails if
// they are not the sender's: once a group's raft has taken the snapshot, it can no longer do
// without.
func (i *Import) Hold() error {
	if i.locked {
		return nil
	}
	i.sh.gc <- struct{}{}
	i.locked = true
	own, err := i.s.Incarnations(i.sh.id)
	if err == nil && own != i.Incarnations {
		err = base.Errorf(base.CodeUnavailable, "shard %d: the snapshot is of other incarnations of its groups; "+
			"retry later", i.sh.id)
	}
	if err != nil {
		i.release()
	}
	return err
}

func (i *Import) release() {
	if i.locked {
		i.locked = false
		<-i.sh.gc
	}
}

// Finish merges the staged shard (STORE-1 to STORE-4). For each group in adopt whose applied index
// is higher in the snapshot, its state records, applied index and transaction records are replaced
// by the snapshot's; final, which may be nil, can add to the last batch what must change with them
// (Log.ResetToSnapshot). The other groups stay where they are, and go on applying their logs over
// versions that already contain some of it.
//
// While it runs, batches that change rows of the shard wait, reads go on: each key changes at
// once, and a read at or above the threshold and at or below the local consistency point finds
// the same before and after. When Finish has returned, all is durable. After a
// crash in the middle Open finishes the merge.
func (i *Import) Finish(adopt []base.GroupID, final func(b *Batch) error) error {
	if i.done {
		return base.Errorf(base.CodeInvalid, "import of shard %d was finished twice", i.sh.id)
	}
	i.done = true
	h, err := i.header()
	if err == nil {
		err = i.Hold()
	}
	defer i.release()
	if err != nil {
		_ = i.clear()
		return err
	}
	i.sh.beginMerge()
	defer i.sh.endMerge()

	last := i.s.NewBatch()
	defer last.Close()
	last.exclusive = true
	if err := i.lastBatch(last, h, adopt, final); err != nil {
		_ = i.clear()
		return err
	}
	// From here on the import happens, if need be at the next Open.
	redo := i.s.NewBatch()
	defer redo.Close()
	redo.set(localKey(localImport+strconv.Itoa(int(i.sh.id))), last.b.Repr())
	if err := redo.Commit(true); err != nil {
		return err
	}
	return i.merge(h, last)
}

// resumeImports finishes merges that a crash interrupted.
func (s *Store) resumeImports() error {
	type item struct {
		id   base.ShardID
		repr []byte
	}
	var items []item
	err := s.scanLocal(localImport, func(name string, val []byte) error {
		id, err := strconv.ParseUint(name, 10, 16)
		if err != nil {
			return s.corrupt(corruptf("store %s: import record %q is malformed", s.opts.Dir, name))
		}
		items = append(items, item{base.ShardID(id), bytes.Clone(val)})
		return nil
	})
	if err != nil {
		return err
	}
	for _, it := range items {
		i := &Import{s: s, sh: s.shards.get(it.id), done: true}
		h, err := i.header()
		if err != nil {
			return err
		}
		b := s.NewBatch()
		b.exclusive = true
		if err := b.b.SetRepr(it.repr); err != nil {
			b.Close()
			return s.wrap(err)
		}
		err = i.merge(h, b)
		b.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// header of the staged snapshot, with its applied vector.
type header struct {
	threshold base.Timestamp
	applied   Vector // of its groups
	context   Vector // all entries whose effects the versions include
}

func (i *Import) staged(ek []byte) []byte { return append(stagingPrefix(i.sh.id), ek...) }

func (i *Import) header() (h header, err error) {
	v, ok, err := i.s.get(i.staged(headerKey))
	if err != nil {
		return h, err
	}
	if !ok || len(v) < 3 {
		return h, base.Errorf(base.CodeInvalid, "snapshot of shard %d is incomplete: its header is missing", i.sh.id)
	}
	if base.ClusterVersion(v[0]) > i.s.opts.Knows {
		return h, base.Errorf(base.CodeInvalid, "snapshot of shard %d has format %d, this node knows formats up to "+
			"%d: upgrade this node", i.sh.id, v[0], i.s.opts.Knows)
	}
	if id := base.ShardID(binary.BigEndian.Uint16(v[1:])); id != i.sh.id {
		return h, base.Errorf(base.CodeInvalid, "snapshot is of shard %d, not %d", id, i.sh.id)
	}
	if h.threshold, h.context, ok = parseShardRecord(v[3:]); !ok {
		return h, base.Errorf(base.CodeInvalid, "snapshot of shard %d: its header is malformed", i.sh.id)
	}
	for r := range h.applied {
		g := base.DataGroup(i.sh.id, base.RegionID(r))
		v, ok, err := i.s.get(i.staged(stateKey(g, stateApplied)))
		if err != nil {
			return h, err
		}
		if ok && len(v) == 8 {
			h.applied[r] = binary.BigEndian.Uint64(v)
		}
		if i.sh.id == base.MetaShard {
			break
		}
	}
	h.context.Join(&h.applied)
	return h, nil
}

// lastBatch fills the batch that ends the merge: records of adopted groups,
// threshold and context, and the end of the staging.
func (i *Import) lastBatch(b *Batch, h header, adopt []base.GroupID, final func(b *Batch) error) error {
	for _, g := range slices.Compact(slices.Sorted(slices.Values(adopt))) {
		if g.Shard() != i.sh.id || int(g.Region()) > maxWriterRegion {
			return base.Errorf(base.CodeInvalid, "group %s is not of shard %d", g, i.sh.id)
		}
		applied, err := i.s.Applied(g)
		if err != nil {
			return err
		}
		if h.applied[g.Region()] <= applied {
			continue
		}
		if err := i.replace(b, g); err != nil {
			return err
		}
	}
	threshold, seen := max(h.threshold, i.sh.recorded), i.sh.context()
	seen.Join(&h.context)
	b.set(localKey(shardName(i.sh.id)), shardRecord(threshold, &seen))
	b.del(localKey(localImport + strconv.Itoa(int(i.sh.id))))
	b.delRange(areaSpan(stagingPrefix(i.sh.id)))
	if final != nil {
		if err := final(b); err != nil {
			return err
		}
	}
	return b.err
}

// replace puts the snapshot's records of a group in place of the local ones.
func (i *Import) replace(b *Batch, g base.GroupID) error {
	lo, hi := areaSpan(groupPrefix(areaState, g))
	err := i.s.scan(lo, hi, func(ek, _ []byte) error {
		if exported(ek) {
			b.del(ek)
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.delRange(areaSpan(groupPrefix(areaTxn, g)))
	for _, area := range []byte{areaState, areaTxn} {
		lo, hi := areaSpan(groupPrefix(area, g))
		err := i.s.scan(i.staged(lo), i.staged(hi), func(ek, val []byte) error {
			b.set(ek[3:], val)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// merge joins the staged versions with the local ones and ends with the last batch. It is
// idempotent.
func (i *Import) merge(h header, last *Batch) error {
	s, sh := i.s, i.sh
	// Reads that need what is about to go are refused first. The record follows in last; until
	// then the redo record stands for it.
	sh.raise(h.threshold)
	if err := i.mergeMarks(); err != nil {
		return err
	}
	local, err := s.appliedIn(s.db, sh.id)
	if err != nil {
		return err
	}
	seen := sh.context()
	local.Join(&seen)

	lo, hi := shardSpan(areaVersion, sh.id)
	ours, err := s.newIter(&pebble.IterOptions{LowerBound: lo, UpperBound: hi})
	if err != nil {
		return s.wrap(err)
	}
	defer ours.Close()
	theirs, err := s.newIter(&pebble.IterOptions{LowerBound: i.staged(lo), UpperBound: i.staged(hi)})
	if err != nil {
		return s.wrap(err)
	}
	defer theirs.Close()
	m := &merger{i: i, b: s.NewBatch(), local: local, remote: h.context}
	m.b.exclusive, m.b.rows = true, true
	defer func() { m.b.Close() }()
	if err := m.run(ours, theirs); err != nil {
		return err
	}
	if err := m.flush(); err != nil {
		return err
	}
	if err := last.Commit(true); err != nil {
		return err
	}
	sh.recorded = max(sh.recorded, h.threshold)
	sh.join(&h.context)
	s.idle.expire()
	s.rows.purge()
	return nil
}

// mergeMarks adds the snapshot's marks to the local ones.
func (i *Import) mergeMarks() error {
	lo, hi := shardSpan(areaMark, i.sh.id)
	b := i.s.NewBatch()
	defer b.Close()
	err := i.s.scan(i.staged(lo), i.staged(hi), func(ek, _ []byte) error {
		key, below, ok := splitKey(ek[3:])
		if !ok {
			return corruptf("store %s: a staged mark is malformed", i.s.opts.Dir)
		}
		i.sh.mark(bytes.Clone(key), below)
		b.set(ek[3:], nil)
		return nil
	})
	if err != nil {
		return err
	}
	return b.Commit(false)
}

// merger walks local and staged versions in step.
type merger struct {
	i             *Import
	b             *Batch
	local, remote Vector
	prefix        []byte
	mark          base.Timestamp // of the current key
}

func (m *merger) run(ours, theirs *pebble.Iterator) error {
	a, b := ours.First(), theirs.First()
	for a || b {
		c := 0
		switch {
		case !b:
			c = -1
		case !a:
			c = 1
		default:
			c = compareEngine(ours.Key(), theirs.Key()[3:])
		}
		ek := []byte(nil)
		if c <= 0 {
			ek = ours.Key()
		} else {
			ek = theirs.Key()[3:]
		}
		if err := m.enter(ek); err != nil {
			return err
		}
		if err := m.one(c, ek, ours, theirs); err != nil {
			return err
		}
		if c <= 0 {
			a = ours.Next()
		}
		if c >= 0 {
			b = theirs.Next()
		}
	}
	if err := ours.Error(); err != nil {
		return m.i.s.wrap(err)
	}
	return m.i.s.wrap(theirs.Error())
}

// enter starts a key; batches are cut only between keys, so that a key changes at once.
func (m *merger) enter(ek []byte) error {
	p := prefixOf(ek)
	if bytes.Equal(p, m.prefix) {
		return nil
	}
	m.prefix = append(m.prefix[:0], p...)
	m.mark = m.i.sh.markOf(base.Key(p[1 : len(p)-1]))
	if m.b.Len() >= mergeBatch {
		return m.flush()
	}
	return nil
}

func (m *merger) flush() error {
	err := m.b.Commit(false)
	m.b.Close()
	m.b = m.i.s.NewBatch()
	m.b.exclusive, m.b.rows = true, true
	return err
}

// one decides a version that is ours (c < 0), theirs (c > 0) or both sides'.
func (m *merger) one(c int, ek []byte, ours, theirs *pebble.Iterator) error {
	it := ours
	if c > 0 {
		it = theirs
	}
	val, err := it.ValueAndErr()
	if err != nil {
		return m.i.s.wrap(err)
	}
	dot, ok := dotOf(val)
	if !ok {
		return m.i.s.corrupt(corruptf("store %s: version %x is malformed", m.i.s.opts.Dir, ek))
	}
	marked := versionTS(ek) <= m.mark
	switch {
	case c < 0:
		if marked || m.remote.Has(dot) {
			m.b.del(ek)
		}
	case c > 0:
		if !marked && !m.local.Has(dot) {
			m.b.set(ek, val)
		}
	case marked:
		m.b.del(ek)
	default:
		other, err := theirs.ValueAndErr()
		if err != nil {
			return m.i.s.wrap(err)
		}
		if w, conflict := later(val, other); conflict {
			m.i.Conflicts++
			m.i.s.opts.Logger.Error("store: replicas disagree on a version", "key", ek, "ours", val[:min(len(val), 32)],
				"theirs", other[:min(len(other), 32)])
			m.b.set(ek, w)
		}
	}
	return nil
}

// later picks between two contents of one version the same way on every
// replica (HOME-1): written by the group that is its home, later in the log, larger.
func later(a, b []byte) (winner []byte, conflict bool) {
	var va, vb Version
	if !decodeVersionValue(a, &va) || !decodeVersionValue(b, &vb) {
		return a, true
	}
	va.Label, vb.Label = va.Label.WithInTransit(false), vb.Label.WithInTransit(false)
	if va.Label == vb.Label && va.Tombstone == vb.Tombstone && va.Writer == vb.Writer && bytes.Equal(va.Value, vb.Value) {
		return a, false
	}
	own := func(v *Version) bool { return v.Label.Home() == v.Writer.Region }
	switch {
	case own(&va) != own(&vb):
		if own(&va) {
			return a, true
		}
		return b, true
	case va.Writer.Index != vb.Writer.Index:
		if va.Writer.Index > vb.Writer.Index {
			return a, true
		}
		return b, true
	case bytes.Compare(a, b) >= 0:
		return a, true
	}
	return b, true
}

// alone begins a change of a shard of which nothing else may be in use until end is called.
func (s *Store) alone(sh *shardState) (b *Batch, end func()) {
	sh.gc <- struct{}{}
	sh.beginMerge()
	b = s.NewBatch()
	b.exclusive, b.rows = true, true
	return b, func() {
		b.Close()
		sh.endMerge()
		<-sh.gc
	}
}

// ClearShard removes everything of a shard and its groups, logs included: the replica has left this
// node. Nothing of the shard may be in use. Only the groups' terms and votes stay, so that the node
// cannot vote twice in a term if it joins them again.
func (s *Store) ClearShard(id base.ShardID) error {
	sh := s.shards.get(id)
	b, end := s.alone(sh)
	defer end()
	for _, area := range []byte{areaState, areaTxn, areaLog} {
		b.delRange(groupsSpan(area, id))
	}
	for _, area := range []byte{areaVersion, areaMark} {
		b.delRange(shardSpan(area, id))
	}
	b.delRange(areaSpan(stagingPrefix(id)))
	b.del(localKey(shardName(id)))
	b.del(localKey(localImport + strconv.Itoa(int(id))))
	for _, g := range s.knownGroups() {
		if g.Shard() == id {
			b.del(localKey(groupName(g)))
		}
	}
	if s.Fetching(id) {
		if err := s.keepPromises(b, id); err != nil {
			return err
		}
	}
	if err := s.keepVotes(b, id); err != nil {
		return err
	}
	if err := b.Commit(true); err != nil {
		return err
	}
	sh.reset()
	s.mu.Lock()
	for g := range s.logs {
		if g.Shard() == id {
			delete(s.logs, g)
		}
	}
	s.mu.Unlock()
	return nil
}

// keepVotes adds to a batch that has cleared the groups of a shard what each has voted.
func (s *Store) keepVotes(b *Batch, id base.ShardID) error {
	lo, hi := groupsSpan(areaState, id)
	return s.scan(lo, hi, func(ek, val []byte) error {
		body, _, _ := splitKey(ek)
		g, name, ok := groupOf(body)
		if !ok || string(name) != stateHard {
			return nil
		}
		var hs pb.HardState
		if err := proto.Unmarshal(val, &hs); err != nil {
			return s.corrupt(corruptf("store %s: the hard state of group %s is malformed", s.opts.Dir, g))
		}
		v, err := proto.Marshal(&pb.HardState{Term: hs.Term, Vote: hs.Vote, Commit: new(uint64)})
		if err != nil {
			return err
		}
		b.set(stateKey(g, stateHard), v)
		return nil
	})
}
