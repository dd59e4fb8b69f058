package store

import (
	"bytes"
	"hash/maphash"
	"sync"

	"github.com/godwitdb/godwit/base"
)

const (
	rowStripes  = 64
	rowOverhead = 120 // of a row beside its key and value, about
)

// rowCache holds the newest versions of rows that were read lately: a point read of one looks
// neither into memtables nor into tables. Rule: a row is the newest version that any finished
// commit has written.
//
// A commit changes rows after it has become visible in the database and the generation of readers
// has gone up (Batch.CommitAsync). A reader adds what it found only while its own generation is the
// present one, which the lock of the stripe orders: either the commit comes later and replaces what
// was added, or the reader sees that it is out of date.
type rowCache struct {
	seed    maphash.Seed
	max     int // bytes a stripe
	gen     func() uint64
	stripes [rowStripes]rowStripe
}

// rowStripe evicts like a clock: its hand passes over what was used since it came by last. A row
// costs the garbage collector one object without pointers. Of rows whose keys have the same hash it
// holds one.
type rowStripe struct {
	mu    sync.Mutex
	at    map[uint64]uint32 // hash of the key: where in rows
	rows  []cachedRow
	hand  int
	bytes int
	_     [64]byte
}

type cachedRow struct {
	data   []byte // key and value
	hash   uint64
	ts     base.Timestamp
	label  base.Label
	writer base.GroupIndex
	key    uint32 // length
	dead   bool   // a tombstone
	used   bool
}

func (r *cachedRow) size() int { return rowOverhead + len(r.data) }

// set makes the row what v is, in the memory it has if that suffices.
func (r *cachedRow) set(v *Version) {
	n := len(v.Key) + len(v.Value)
	if cap(r.data) < n || cap(r.data) > 2*n {
		r.data = make([]byte, 0, n)
	}
	r.data = append(append(r.data[:0], v.Key...), v.Value...)
	r.key, r.ts, r.label, r.writer, r.dead = uint32(len(v.Key)), v.TS, v.Label, v.Writer, v.Tombstone
}

func newRowCache(bytes int, gen func() uint64) *rowCache {
	c := &rowCache{seed: maphash.MakeSeed(), max: bytes / rowStripes, gen: gen}
	for i := range c.stripes {
		c.stripes[i].at = map[uint64]uint32{}
	}
	return c
}

// stripe locks the stripe of a key.
func (c *rowCache) stripe(key base.Key) (s *rowStripe, hash uint64) {
	hash = maphash.Bytes(c.seed, key)
	s = &c.stripes[hash%rowStripes]
	s.mu.Lock()
	return s, hash
}

// find is the row of a key, nil if there is none.
func (s *rowStripe) find(key base.Key, hash uint64) *cachedRow {
	i, ok := s.at[hash]
	if !ok {
		return nil
	}
	if r := &s.rows[i]; bytes.Equal(r.data[:r.key], key) {
		return r
	}
	return nil
}

// get returns the newest version, in memory of its own but for the key, which is the one passed in.
func (c *rowCache) get(key base.Key) (Version, bool) {
	s, hash := c.stripe(key)
	defer s.mu.Unlock()
	r := s.find(key, hash)
	if r == nil {
		return Version{}, false
	}
	r.used = true
	return Version{Key: key, TS: r.ts, Label: r.label, Tombstone: r.dead, Value: clone(r.data[r.key:]), Writer: r.writer}, true
}

// add keeps what a reader of a generation found to be the newest version.
func (c *rowCache) add(v *Version, gen uint64) {
	if rowOverhead+len(v.Key)+len(v.Value) > c.max/8 {
		return
	}
	s, hash := c.stripe(v.Key)
	defer s.mu.Unlock()
	if c.gen() != gen || s.find(v.Key, hash) != nil {
		return
	}
	if i, ok := s.at[hash]; ok {
		s.remove(int(i))
	}
	r := cachedRow{hash: hash}
	r.set(v)
	s.at[hash] = uint32(len(s.rows))
	s.rows = append(s.rows, r)
	s.bytes += r.size()
	s.shrink(c.max)
}

// put notes a version that was committed.
func (c *rowCache) put(v *Version) {
	s, hash := c.stripe(v.Key)
	defer s.mu.Unlock()
	r := s.find(v.Key, hash)
	if r == nil || r.ts >= v.TS {
		return
	}
	s.bytes -= r.size()
	r.set(v)
	s.bytes += r.size()
	s.shrink(c.max)
}

// drop forgets a key.
func (c *rowCache) drop(key base.Key) {
	s, hash := c.stripe(key)
	defer s.mu.Unlock()
	if s.find(key, hash) != nil {
		s.remove(int(s.at[hash]))
	}
}

// purge forgets everything.
func (c *rowCache) purge() {
	for i := range c.stripes {
		s := &c.stripes[i]
		s.mu.Lock()
		clear(s.at)
		s.rows, s.hand, s.bytes = nil, 0, 0
		s.mu.Unlock()
	}
}

func (s *rowStripe) shrink(limit int) {
	for s.bytes > limit {
		if s.hand >= len(s.rows) {
			s.hand = 0
		}
		if r := &s.rows[s.hand]; r.used {
			r.used = false
			s.hand++
		} else {
			s.remove(s.hand)
		}
	}
}

// remove forgets a row; the last one takes its place.
func (s *rowStripe) remove(i int) {
	r := &s.rows[i]
	s.bytes -= r.size()
	delete(s.at, r.hash)
	last := len(s.rows) - 1
	if i != last {
		*r = s.rows[last]
		s.at[r.hash] = uint32(i)
	}
	s.rows[last] = cachedRow{}
	s.rows = s.rows[:last]
}
