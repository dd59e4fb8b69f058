package store

import (
	"encoding/binary"
	"strconv"

	"github.com/godwitdb/godwit/base"
)

// localIncarnation + group is how often the group was begun anew from what survived the loss of its
// region. The states of two incarnations do not merge: the newer one has taken back some of what
// the older one did.
const localIncarnation = "incarnation/"

// Incarnations are those of the groups of a shard, by region.
type Incarnations [maxWriterRegion + 1]uint32

// Incarnation is that of a group here.
func (s *Store) Incarnation(g base.GroupID) (uint32, error) {
	v, ok := s.mirror.get(localIncarnation + strconv.Itoa(int(g)))
	if !ok {
		return 0, nil
	}
	if len(v) != 4 {
		return 0, s.corrupt(corruptf("store %s: the incarnation of group %s is damaged", s.opts.Dir, g))
	}
	return binary.BigEndian.Uint32(v), nil
}

// Incarnations are those of all groups of a shard.
func (s *Store) Incarnations(id base.ShardID) (out Incarnations, err error) {
	if id == base.MetaShard {
		return out, nil
	}
	for r := range out {
		if out[r], err = s.Incarnation(base.DataGroup(id, base.RegionID(r))); err != nil {
			return out, err
		}
	}
	return out, nil
}

// Numbers is how incarnations travel: nil if all are the first.
func (x Incarnations) Numbers() []uint32 {
	if x == (Incarnations{}) {
		return nil
	}
	return x[:]
}

// IncarnationsOf reads Numbers.
func IncarnationsOf(ns []uint32) (x Incarnations) {
	copy(x[:], ns)
	return x
}

// EachVersion calls fn for every version of every key of a shard; v is valid during the call.
func (s *Store) EachVersion(id base.ShardID, fn func(v *Version) error) error {
	lo, hi := shardSpan(areaVersion, id)
	return s.scan(lo, hi, func(ek, val []byte) error { return eachVersion(s, ek, val, fn) })
}

func eachVersion(s *Store, ek, val []byte, fn func(v *Version) error) error {
	v := Version{TS: versionTS(ek)}
	body, _, ok := splitKey(ek)
	if !ok || !decodeVersionValue(val, &v) {
		return s.corrupt(corruptf("store %s: a version has the malformed key %x", s.opts.Dir, ek))
	}
	v.Key = base.Key(body)
	return fn(&v)
}

// Rewind begins a new incarnation of a group: it removes the versions that the group wrote and that
// drop chooses, and all records of the group, raft's included, and then applies what final adds, as
// one change. The group must not be open.
func (s *Store) Rewind(g base.GroupID, incarnation uint32, drop func(*Version) bool, final func(b *Batch) error) error {
	sh := s.shards.get(g.Shard())
	b, end := s.alone(sh)
	defer end()
	lo, hi := shardSpan(areaVersion, g.Shard())
	err := s.scan(lo, hi, func(ek, val []byte) error {
		return eachVersion(s, ek, val, func(v *Version) error {
			if v.Writer.Region == g.Region() && drop(v) {
				b.del(ek)
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	for _, area := range []byte{areaState, areaTxn, areaLog} {
		b.delRange(areaSpan(groupPrefix(area, g)))
	}
	// What a merge told of the old incarnation's entries says nothing of the new one's.
	seen := sh.context()
	seen[g.Region()] = 0
	b.set(localKey(shardName(sh.id)), shardRecord(base.Timestamp(sh.threshold.Load()), &seen))
	b.set(localKey(localIncarnation+strconv.Itoa(int(g))), binary.BigEndian.AppendUint32(nil, incarnation))
	s.mu.Lock()
	delete(s.logs, g)
	s.mu.Unlock()
	if err := final(b); err != nil {
		return err
	}
	if err := b.Commit(true); err != nil {
		return err
	}
	sh.mu.Lock()
	sh.seen[g.Region()] = 0
	sh.hasSeen.Store(sh.seen != Vector{})
	sh.mu.Unlock()
	return nil
}
