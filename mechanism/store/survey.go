package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/cockroachkvs"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/godwitdb/godwit/base"
)

// Pebble reports that a table cannot be read, but not which of its keys are lost. A survey finds
// that out: it reads each table from both ends, up to the first damaged block.

// extent is a range of engine keys, whole keys with all their versions, that may be lost: from lo
// to below hi.
type extent struct{ lo, hi []byte }

// A Survey is what was found to be damaged.
type Survey struct {
	// Files are the damaged ones.
	Files []string
	// Shards have lost something.
	Shards []base.ShardID
	// Local says that records of the node itself are lost, of which no other node has a copy.
	Local bool
	// Epochs says that what this node has promised of the epochs of MULTI MASTER tables is lost,
	// and not only rows.
	Epochs bool

	extents []extent
}

// Empty reports whether nothing is damaged.
func (v *Survey) Empty() bool { return len(v.extents) == 0 }

// Survey reads all tables and says what is lost.
func (s *Store) Survey() (*Survey, error) {
	const attempts = 10 // a compaction may remove tables while they are read
	var err error
	for range attempts {
		var v *Survey
		if v, err = s.survey(); !errors.Is(err, fs.ErrNotExist) {
			return v, err
		}
	}
	return nil, err
}

func (s *Store) survey() (*Survey, error) {
	levels, err := s.db.SSTables()
	if err != nil {
		return nil, s.wrap(err)
	}
	v := &Survey{}
	for _, level := range levels {
		for i := range level {
			x, bad, err := s.tableDamage(&level[i])
			if err != nil {
				return nil, err
			}
			if bad {
				v.extents = append(v.extents, x)
				v.Files = append(v.Files, tableName(&level[i]))
			}
		}
	}
	slices.Sort(v.Files)
	v.Files = slices.Compact(v.Files)
	v.extents = joined(v.extents)
	return v, s.place(v)
}

func tableName(t *pebble.SSTableInfo) string { return fmt.Sprintf("%06d.sst", uint64(t.BackingSSTNum)) }

// tableDamage is what of a table cannot be read.
func (s *Store) tableDamage(t *pebble.SSTableInfo) (x extent, bad bool, err error) {
	whole := extent{prefixOf(t.Smallest.UserKey), after(t.Largest.UserKey)}
	fs := s.fs()
	f, err := fs.Open(fs.PathJoin(s.opts.Dir, tableName(t)))
	if base.CodeOf(err) == base.CodeCorrupt { // the header of an encrypted file
		return whole, true, nil
	}
	if err != nil {
		return x, false, fmt.Errorf("store %s: %w", s.opts.Dir, err)
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		_ = f.Close()
		return x, false, fmt.Errorf("store %s: %w", s.opts.Dir, err)
	}
	r, err := sstable.NewReader(context.Background(), readable, s.readerOptions)
	if err != nil { // it closes the file
		return whole, true, nil
	}
	defer r.Close()
	sums := r.ValidateBlockChecksums()
	if sums == nil {
		return x, false, nil
	}
	lo, hi, bad := readableEnds(r, whole)
	switch {
	case !opens(r, whole) || !bad && !t.Virtual:
		return whole, true, nil // what describes the blocks is damaged
	case bad:
		return extent{lo, hi}, true, nil
	}
	return x, false, nil // the damage lies outside of what is left of the table
}

// readableEnds reads a table from both ends: what lies between lo and hi is lost.
func readableEnds(r *sstable.Reader, whole extent) (lo, hi []byte, bad bool) {
	it, err := r.NewIter(sstable.NoTransforms, whole.lo, whole.hi, sstable.AssertNoBlobHandles)
	if err != nil {
		return whole.lo, whole.hi, true
	}
	lo = whole.lo
	for kv := it.First(); kv != nil; kv = it.Next() {
		lo = append(lo[:0:0], prefixOf(kv.K.UserKey)...)
	}
	bad = it.Error() != nil
	_ = it.Close()
	if !bad {
		return nil, nil, false
	}
	hi = whole.hi
	if it, err = r.NewIter(sstable.NoTransforms, whole.lo, whole.hi, sstable.AssertNoBlobHandles); err != nil {
		return lo, hi, true
	}
	defer it.Close()
	for kv := it.SeekLT(whole.hi, 0); kv != nil; kv = it.Prev() {
		hi = after(kv.K.UserKey)
	}
	return lo, hi, true
}

// opens reports whether all of a table but its rows can be read.
func opens(r *sstable.Reader, whole extent) bool {
	it, err := r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return false
	}
	it.SeekPrefixGE(whole.lo, whole.lo, 0)
	err = it.Error()
	_ = it.Close()
	if err != nil {
		return false
	}
	dels, err := r.NewRawRangeDelIter(context.Background(), sstable.NoFragmentTransforms, sstable.NoReadEnv)
	if err != nil {
		return false
	}
	if dels != nil {
		dels.Close()
	}
	keys, err := r.NewRawRangeKeyIter(context.Background(), sstable.NoFragmentTransforms, sstable.NoReadEnv)
	if err != nil {
		return false
	}
	if keys != nil {
		keys.Close()
	}
	_, err = r.ReadPropertiesBlock(context.Background(), nil)
	return err == nil
}

// after is the least key without a version above all versions of a key.
func after(ek []byte) []byte {
	return cockroachkvs.Comparer.ImmediateSuccessor(nil, prefixOf(ek))
}

// joined sorts extents and joins those that overlap.
func joined(xs []extent) (out []extent) {
	slices.SortFunc(xs, func(a, b extent) int { return compareEngine(a.lo, b.lo) })
	for _, x := range xs {
		if n := len(out); n > 0 && compareEngine(x.lo, out[n-1].hi) <= 0 {
			if compareEngine(x.hi, out[n-1].hi) > 0 {
				out[n-1].hi = x.hi
			}
			continue
		}
		out = append(out, x)
	}
	return out
}

// shardExtents are where everything of a shard lies.
func shardExtents(id base.ShardID) (xs []extent) {
	add := func(lo, hi []byte) { xs = append(xs, extent{lo, hi}) }
	for _, area := range []byte{areaState, areaTxn, areaLog} {
		add(groupsSpan(area, id))
	}
	for _, area := range []byte{areaVersion, areaMark} {
		add(shardSpan(area, id))
	}
	add(areaSpan(stagingPrefix(id)))
	return xs
}

// touches reports whether extents have a key in common with one of others.
func touches(xs, others []extent) bool {
	for _, x := range xs {
		for _, y := range others {
			if compareEngine(x.lo, y.hi) < 0 && compareEngine(y.lo, x.hi) < 0 {
				return true
			}
		}
	}
	return false
}

// place finds the shards, of those that this node knows, that the extents of a survey belong to.
func (s *Store) place(v *Survey) error {
	if v.Empty() {
		return nil
	}
	lo, hi := areaSpan([]byte{areaLocal})
	v.Local = touches(v.extents, []extent{{lo, hi}})
	for _, id := range s.knownShards() {
		if touches(v.extents, shardExtents(id)) {
			v.Shards = append(v.Shards, id)
		}
	}
	var journal []extent
	for _, area := range []byte{areaState, areaTxn} {
		lo, hi := groupsSpan(area, base.EpochShard)
		journal = append(journal, extent{lo, hi})
	}
	v.Epochs = slices.Contains(v.Shards, base.EpochShard) && touches(v.extents, journal)
	return nil
}

// localEpochs begins the names of package multimaster's records: without one, the node has nothing
// of that shard.
const localEpochs = "epoch/"

// localGroup + group is the record that a group has a log here: its own records may be lost.
const localGroup = "group/"

func groupName(g base.GroupID) string { return localGroup + strconv.Itoa(int(g)) }

// knownGroups are the groups that have a log here.
func (s *Store) knownGroups() (out []base.GroupID) {
	s.mirror.each(localGroup, func(name string, _ []byte) {
		if g, err := strconv.ParseUint(name, 10, 32); err == nil {
			out = append(out, base.GroupID(g))
		}
	})
	slices.Sort(out)
	return out
}

// noteGroup writes down that a group has a log here.
func (s *Store) noteGroup(g base.GroupID) error {
	if _, ok := s.mirror.get(groupName(g)); ok {
		return nil
	}
	return s.setLocal(groupName(g), []byte{}, false)
}

// knownShards are those of which anything may be here.
func (s *Store) knownShards() []base.ShardID {
	var ids []base.ShardID
	s.mirror.each(localEpochs, func(string, []byte) { ids = append(ids, base.EpochShard) })
	for _, g := range s.knownGroups() {
		ids = append(ids, g.Shard())
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
