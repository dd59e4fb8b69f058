package store

import (
	"encoding/binary"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/godwitdb/godwit/base"
)

// entryOverhead is added to an entry's data to estimate its size: at least
// what its protobuf form adds.
const entryOverhead = 24

// rangeDeleteFrom is how many entries a truncation must remove before one range tombstone is better
// than many point tombstones: each range tombstone slows every later read a little.
const rangeDeleteFrom = 128

// Log is the raft log of one group; it implements raft.Storage. Indexes, terms and recent entries
// are answered from memory, which changes as soon as a batch is filled: the batch must then be
// committed (a dropped one makes the log refuse to work). Safe for concurrent use, but only one
// goroutine may change it.
type Log struct {
	s *Store
	g base.GroupID

	mu       sync.Mutex
	err      error
	hard     *pb.HardState // nil if never set
	conf     *pb.ConfState
	first    uint64 // index of the first entry
	term0    uint64 // term of entry first-1
	terms    []termRun
	sizes    []uint32 // of entries first..last
	bytes    int64
	cache    entryCache
	snapshot func() (*pb.Snapshot, error)
}

// termRun says that entries from an index on are of a term.
type termRun struct{ from, term uint64 }

var _ raft.Storage = (*Log)(nil)

// Log opens the raft log of a group; the same one each time. A group without
// records gets an empty log that starts at index 1. A hole in the log, or one
// that contradicts its records, is base.CodeCorrupt.
func (s *Store) Log(g base.GroupID) (*Log, error) {
	s.mu.Lock()
	l := s.logs[g]
	s.mu.Unlock()
	if l != nil {
		return l, nil
	}
	l = &Log{s: s, g: g, first: 1, conf: &pb.ConfState{}}
	l.cache.max = int64(s.opts.LogCacheKB) << 10
	if err := l.load(); err != nil {
		return nil, err
	}
	if err := s.noteGroup(g); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.logs[g]; other != nil {
		return other, nil
	}
	s.logs[g] = l
	return l, nil
}

// load reads what the store has of the log, and checks that it is whole.
func (l *Log) load() error {
	if err := l.loadRecords(); err != nil {
		return err
	}
	if err := l.loadEntries(); err != nil {
		return err
	}
	if c := l.hard.GetCommit(); c > l.last() {
		return l.damaged("entry %d is committed but the last one is %d", c, l.last())
	}
	applied, err := l.s.Applied(l.g)
	if err != nil {
		return err
	}
	if applied+1 < l.first && l.first > 1 {
		return l.damaged("entries up to %d are truncated but only those up to %d are applied", l.first-1, applied)
	}
	return nil
}

// loadRecords reads where the log begins, the hard state and the membership.
func (l *Log) loadRecords() error {
	if v, ok, err := l.s.GetState(l.g, stateTrunc); err != nil {
		return err
	} else if ok {
		if len(v) != 16 {
			return l.damaged("its truncation record is malformed")
		}
		l.first, l.term0 = binary.BigEndian.Uint64(v)+1, binary.BigEndian.Uint64(v[8:])
	}
	if v, ok, err := l.s.GetState(l.g, stateHard); err != nil {
		return err
	} else if ok {
		l.hard = &pb.HardState{}
		if err := proto.Unmarshal(v, l.hard); err != nil {
			return l.damaged("its hard state is malformed: " + err.Error())
		}
	}
	if v, ok, err := l.s.GetState(l.g, stateConf); err != nil {
		return err
	} else if ok {
		if err := proto.Unmarshal(v, l.conf); err != nil {
			return l.damaged("its membership record is malformed: " + err.Error())
		}
	}
	return nil
}

// loadEntries reads all entries: none is missing, and their terms do not fall.
func (l *Log) loadEntries() error {
	lo, hi := areaSpan(groupPrefix(areaLog, l.g))
	return l.s.scan(lo, hi, func(ek, val []byte) error {
		e, err := l.decode(ek, val)
		if err != nil {
			return err
		}
		if want := l.last() + 1; e.GetIndex() != want {
			return l.damaged("entry %d is missing (the next one is %d)", want, e.GetIndex())
		}
		if e.GetTerm() < l.lastTerm() {
			return l.damaged("entry %d has term %d, below its predecessor's %d", e.GetIndex(), e.GetTerm(), l.lastTerm())
		}
		l.push(e)
		return nil
	})
}

func (l *Log) damaged(format string, args ...any) error {
	return l.s.corrupt(corruptf("store %s: the raft log of group %s is damaged: "+format,
		append([]any{l.s.opts.Dir, l.g}, args...)...))
}

// Entry record: type (1) | term (uvarint) | data.
func appendEntry(dst []byte, e *pb.Entry) []byte {
	dst = append(dst, byte(e.GetType()))
	dst = binary.AppendUvarint(dst, e.GetTerm())
	return append(dst, e.GetData()...)
}

// decode copies.
func (l *Log) decode(ek, val []byte) (*pb.Entry, error) {
	body, _, ok := splitKey(ek)
	if !ok || len(body) != 12 || len(val) < 2 {
		return nil, l.damaged("record %x is malformed", ek)
	}
	term, n := binary.Uvarint(val[1:])
	if n <= 0 {
		return nil, l.damaged("record %x is malformed", ek)
	}
	e := &pb.Entry{
		Type:  pb.EntryType(val[0]).Enum(),
		Term:  new(term),
		Index: new(binary.BigEndian.Uint64(body[4:])),
	}
	if d := val[1+n:]; len(d) > 0 {
		e.Data = append(make([]byte, 0, len(d)), d...)
	}
	return e, nil
}

// push adds an entry to memory.
func (l *Log) push(e *pb.Entry) {
	if e.GetTerm() != l.lastTerm() || len(l.terms) == 0 {
		l.terms = append(l.terms, termRun{e.GetIndex(), e.GetTerm()})
	}
	size := len(e.GetData()) + entryOverhead
	l.sizes = append(l.sizes, uint32(size))
	l.bytes += int64(size)
	l.cache.push(e, size)
}

// cut removes entries from index on from memory.
func (l *Log) cut(from uint64) {
	n := from - l.first
	for _, s := range l.sizes[n:] {
		l.bytes -= int64(s)
	}
	l.sizes = l.sizes[:n]
	for len(l.terms) > 0 && l.terms[len(l.terms)-1].from >= from {
		l.terms = l.terms[:len(l.terms)-1]
	}
	l.cache.cut(from)
}

func (l *Log) last() uint64 { return l.first + uint64(len(l.sizes)) - 1 }

func (l *Log) lastTerm() uint64 {
	if n := len(l.terms); n > 0 {
		return l.terms[n-1].term
	}
	return l.term0
}

// term of an entry in [first-1, last].
func (l *Log) term(i uint64) uint64 {
	for n := len(l.terms) - 1; n >= 0; n-- {
		if i >= l.first && i >= l.terms[n].from {
			return l.terms[n].term
		}
	}
	return l.term0
}

func (l *Log) poison() {
	l.mu.Lock()
	l.err = base.Errorf(base.CodeOther, "the raft log of group %s lost a batch before it was written; restart the node", l.g)
	l.mu.Unlock()
}

func (l *Log) touch(b *Batch) {
	for _, o := range b.logs {
		if o == l {
			return
		}
	}
	b.logs = append(b.logs, l)
}

// Append adds entries, which replace those at and after the first one's index, and
// sets the hard state, if it is not nil. Commit the batch with sync before acting on them.
func (l *Log) Append(b *Batch, hs *pb.HardState, ents []*pb.Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if len(ents) > 0 {
		from := ents[0].GetIndex()
		if from < l.first || from > l.last()+1 {
			return base.Errorf(base.CodeInvalid, "group %s: entry %d does not fit a log of entries %d to %d", l.g, from,
				l.first, l.last())
		}
		term := l.term(from - 1)
		for i, e := range ents {
			if e.GetIndex() != from+uint64(i) || e.GetTerm() < term {
				return base.Errorf(base.CodeInvalid, "group %s: entry %d of term %d cannot follow entry %d of term %d",
					l.g, e.GetIndex(), e.GetTerm(), from+uint64(i)-1, term)
			}
			term = e.GetTerm()
		}
		if old := l.last(); old >= from {
			for i := from + uint64(len(ents)); i <= old; i++ {
				b.del(logKey(l.g, i))
			}
			l.cut(from)
		}
		for _, e := range ents {
			l.put(b, e)
			l.push(e)
		}
		l.touch(b)
	}
	if hs != nil && !raft.IsEmptyHardState(hs) {
		return l.setHard(b, hs)
	}
	return nil
}

func (l *Log) put(b *Batch, e *pb.Entry) {
	var vt [10]byte
	n := binary.PutUvarint(vt[:], e.GetTerm())
	op := b.b.SetDeferred(14, 1+n+len(e.GetData()))
	k := binary.BigEndian.AppendUint32(append(op.Key[:0], areaLog), uint32(l.g))
	seal(binary.BigEndian.AppendUint64(k, e.GetIndex()))
	appendEntry(op.Value[:0], e)
	if err := op.Finish(); err != nil {
		b.fail(l.s.wrap(err))
	}
}

func (l *Log) setHard(b *Batch, hs *pb.HardState) error {
	v, err := proto.Marshal(hs)
	if err != nil {
		return err
	}
	b.set(stateKey(l.g, stateHard), v)
	l.hard = proto.Clone(hs).(*pb.HardState)
	l.touch(b)
	return nil
}

// SetConfState records the membership as of the batch's applied index.
func (l *Log) SetConfState(b *Batch, cs *pb.ConfState) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	v, err := proto.Marshal(cs)
	if err != nil {
		return err
	}
	b.set(stateKey(l.g, stateConf), v)
	l.conf = proto.Clone(cs).(*pb.ConfState)
	l.touch(b)
	return nil
}

// TruncateTo drops entries up to and including index, which must be applied (in
// this or an earlier batch). Lower indexes than already truncated are ignored.
func (l *Log) TruncateTo(b *Batch, index uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if index < l.first {
		return nil
	}
	if index > l.last() || index > l.hard.GetCommit() {
		return base.Errorf(base.CodeInvalid, "group %s: cannot truncate up to %d: "+
			"the log ends at %d and is committed up to %d", l.g, index, l.last(), l.hard.GetCommit())
	}
	l.dropFront(b, index)
	l.touch(b)
	return nil
}

func (l *Log) dropFront(b *Batch, index uint64) {
	term := l.term(index)
	n := index - l.first + 1
	l.erase(b, l.first, index)
	for _, s := range l.sizes[:n] {
		l.bytes -= int64(s)
	}
	l.sizes = append(make([]uint32, 0, len(l.sizes)-int(n)+64), l.sizes[n:]...)
	l.first, l.term0 = index+1, term
	for len(l.terms) > 0 && (len(l.terms) > 1 && l.terms[1].from <= l.first || len(l.sizes) == 0) {
		l.terms = l.terms[1:]
	}
	l.cache.dropTo(index)
	l.setTrunc(b)
}

// erase deletes the records of entries from..to.
func (l *Log) erase(b *Batch, from, to uint64) {
	if to < from {
		return
	}
	if to-from+1 >= rangeDeleteFrom {
		b.delRange(logKey(l.g, from), logKey(l.g, to+1))
		return
	}
	for i := from; i <= to; i++ {
		b.del(logKey(l.g, i))
	}
}

func (l *Log) setTrunc(b *Batch) {
	v := binary.BigEndian.AppendUint64(nil, l.first-1)
	b.set(stateKey(l.g, stateTrunc), binary.BigEndian.AppendUint64(v, l.term0))
}

// ResetToSnapshot makes the log empty, ending at (index, term), with membership
// cs: what a snapshot of that index leaves. The hard state is
// brought in line; its vote stays. Set the applied index in the same batch.
func (l *Log) ResetToSnapshot(b *Batch, index, term uint64, cs *pb.ConfState) error {
	if err := l.SetConfState(b, cs); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.erase(b, l.first, l.last())
	l.first, l.term0 = index+1, term
	l.terms, l.sizes, l.bytes = nil, nil, 0
	l.cache.reset()
	l.setTrunc(b)
	hs := &pb.HardState{Term: new(max(l.hard.GetTerm(), term)), Commit: new(index)}
	if l.hard.GetTerm() == hs.GetTerm() && l.hard != nil {
		hs.Vote = l.hard.Vote
	}
	return l.setHard(b, hs)
}

// SetSnapshot tells where raft gets the snapshot it sends to a follower that needs truncated
// entries. fn may return raft.ErrSnapshotTemporarilyUnavailable, which is also the answer while it
// is not set.
func (l *Log) SetSnapshot(fn func() (*pb.Snapshot, error)) {
	l.mu.Lock()
	l.snapshot = fn
	l.mu.Unlock()
}

// Snapshot implements raft.Storage.
func (l *Log) Snapshot() (*pb.Snapshot, error) {
	l.mu.Lock()
	fn, err := l.snapshot, l.err
	l.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case fn == nil:
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	return fn()
}

// InitialState implements raft.Storage.
func (l *Log) InitialState() (*pb.HardState, *pb.ConfState, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var hs *pb.HardState
	if l.hard != nil {
		hs = proto.Clone(l.hard).(*pb.HardState)
	}
	return hs, proto.Clone(l.conf).(*pb.ConfState), l.err
}

// FirstIndex implements raft.Storage.
func (l *Log) FirstIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first, l.err
}

// LastIndex implements raft.Storage.
func (l *Log) LastIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last(), l.err
}

// Term implements raft.Storage.
func (l *Log) Term(i uint64) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
		return 0, l.err
	case i+1 < l.first:
		return 0, raft.ErrCompacted
	case i > l.last():
		return 0, raft.ErrUnavailable
	}
	return l.term(i), nil
}

// Bytes is the estimated size of the entries kept.
func (l *Log) Bytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

// Entries implements raft.Storage.
func (l *Log) Entries(lo, hi, maxSize uint64) ([]*pb.Entry, error) {
	l.mu.Lock()
	switch {
	case l.err != nil:
		l.mu.Unlock()
		return nil, l.err
	case lo < l.first:
		l.mu.Unlock()
		return nil, raft.ErrCompacted
	case hi > l.last()+1 || lo >= hi:
		l.mu.Unlock()
		return nil, raft.ErrUnavailable
	}
	// How many fit; the first one always.
	n, total := uint64(0), uint64(0)
	for _, s := range l.sizes[lo-l.first : hi-l.first] {
		if total += uint64(s); total > maxSize && n > 0 {
			break
		}
		n++
	}
	hi = lo + n
	ents := make([]*pb.Entry, 0, n)
	split := min(max(l.cache.start(), lo), hi) // entries from here on are cached
	tail := l.cache.slice(split, hi)
	l.mu.Unlock()
	if lo < split {
		var err error
		if ents, err = l.read(ents, lo, split); err != nil {
			return nil, err
		}
	}
	return append(ents, tail...), nil
}

// read gets entries from the disk.
func (l *Log) read(ents []*pb.Entry, lo, hi uint64) ([]*pb.Entry, error) {
	it, err := l.s.newIter(&pebble.IterOptions{LowerBound: logKey(l.g, lo), UpperBound: logKey(l.g, hi)})
	if err != nil {
		return nil, l.s.wrap(err)
	}
	defer it.Close()
	next := lo
	for ok := it.First(); ok; ok = it.Next() {
		val, err := it.ValueAndErr()
		if err != nil {
			return nil, l.s.wrap(err)
		}
		e, err := l.decode(it.Key(), val)
		if err != nil {
			return nil, err
		}
		if e.GetIndex() != next {
			break
		}
		ents = append(ents, e)
		next++
	}
	if err := it.Error(); err != nil {
		return nil, l.s.wrap(err)
	}
	if next < hi {
		// Truncated meanwhile, or lost.
		if first, _ := l.FirstIndex(); lo < first {
			return nil, raft.ErrCompacted
		}
		return nil, l.damaged("entry %d is missing", next)
	}
	return ents, nil
}
