package store

import (
	"hash/maphash"
	"sync"

	"github.com/godwitdb/godwit/base"
)

const (
	rowStripes  = 64
	rowOverhead = 200 // of an entry beside its key and value, about
)

// rowCache holds the newest versions of rows that were read lately: a point read of one looks neither into memtables nor
// into tables. Rule: an entry is the newest version that any finished commit has written.
//
// A commit changes entries after it has become visible in the database and the generation of readers has gone up
// (Batch.CommitAsync). A reader adds what it found only while its own generation is the present one, which the lock of the
// stripe orders: either the commit comes later and replaces what was added, or the reader sees that it is out of date.
type rowCache struct {
	seed    maphash.Seed
	max     int // bytes a stripe
	gen     func() uint64
	stripes [rowStripes]rowStripe
}

// rowStripe evicts like a clock: its hand passes over what was used since it came by last.
type rowStripe struct {
	mu    sync.Mutex
	at    map[string]*rowEntry
	ring  []*rowEntry
	hand  int
	bytes int
	_     [64]byte
}

type rowEntry struct {
	v    Version // its memory never changes
	pos  int     // in ring
	used bool
}

func (e *rowEntry) size() int { return rowOverhead + len(e.v.Key) + len(e.v.Value) }

func newRowCache(bytes int, gen func() uint64) *rowCache {
	c := &rowCache{seed: maphash.MakeSeed(), max: bytes / rowStripes, gen: gen}
	for i := range c.stripes {
		c.stripes[i].at = map[string]*rowEntry{}
	}
	return c
}

func (c *rowCache) stripe(key base.Key) *rowStripe {
	return &c.stripes[maphash.Bytes(c.seed, key)%rowStripes]
}

// get returns the newest version; the caller must not change its memory.
func (c *rowCache) get(key base.Key) (Version, bool) {
	s := c.stripe(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.at[string(key)]
	if e == nil {
		return Version{}, false
	}
	e.used = true
	return e.v, true
}

// add keeps what a reader of a generation found to be the newest version.
func (c *rowCache) add(v *Version, gen uint64) {
	e := &rowEntry{v: *v}
	if e.size() > c.max/8 {
		return
	}
	s := c.stripe(v.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.gen() != gen || s.at[string(v.Key)] != nil {
		return
	}
	e.v.Key, e.v.Value = v.Key.Clone(), clone(v.Value)
	e.pos = len(s.ring)
	s.ring = append(s.ring, e)
	s.at[string(e.v.Key)] = e
	s.bytes += e.size()
	s.shrink(c.max)
}

// put notes a version that was committed.
func (c *rowCache) put(v *Version) {
	s := c.stripe(v.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.at[string(v.Key)]
	if e == nil || e.v.TS >= v.TS {
		return
	}
	s.bytes -= e.size()
	key := e.v.Key
	e.v = *v
	e.v.Key, e.v.Value = key, clone(v.Value)
	s.bytes += e.size()
	s.shrink(c.max)
}

// drop forgets a key.
func (c *rowCache) drop(key base.Key) {
	s := c.stripe(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.at[string(key)]; e != nil {
		s.remove(e)
	}
}

// purge forgets everything.
func (c *rowCache) purge() {
	for i := range c.stripes {
		s := &c.stripes[i]
		s.mu.Lock()
		clear(s.at)
		s.ring, s.hand, s.bytes = nil, 0, 0
		s.mu.Unlock()
	}
}

func (s *rowStripe) shrink(limit int) {
	for s.bytes > limit {
		if s.hand >= len(s.ring) {
			s.hand = 0
		}
		if e := s.ring[s.hand]; e.used {
			e.used = false
			s.hand++
		} else {
			s.remove(e)
		}
	}
}

func (s *rowStripe) remove(e *rowEntry) {
	delete(s.at, string(e.v.Key))
	s.bytes -= e.size()
	last := len(s.ring) - 1
	s.ring[e.pos] = s.ring[last]
	s.ring[e.pos].pos = e.pos
	s.ring[last] = nil
	s.ring = s.ring[:last]
}
