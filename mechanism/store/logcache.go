package store

import (
	"math"

	pb "go.etcd.io/raft/v3/raftpb"
)

// entryCache holds the newest entries of a log, from an index to its end, up to max bytes.
type entryCache struct {
	max   int64
	bytes int64
	from  uint64 // index of ents[0]; meaningless when empty
	ents  []*pb.Entry
	sizes []int
}

func (c *entryCache) push(e *pb.Entry, size int) {
	if len(c.ents) == 0 {
		c.from = e.GetIndex()
	}
	c.ents = append(c.ents, e)
	c.sizes = append(c.sizes, size)
	c.bytes += int64(size)
	n := 0
	for c.bytes > c.max && n < len(c.ents)-1 {
		c.bytes -= int64(c.sizes[n])
		n++
	}
	c.shift(n)
}

// shift forgets the n oldest entries, whose bytes are already subtracted.
func (c *entryCache) shift(n int) {
	clear(c.ents[:n])
	c.ents, c.sizes = c.ents[n:], c.sizes[n:]
	c.from += uint64(n)
}

// cut forgets entries from index on.
func (c *entryCache) cut(index uint64) {
	if len(c.ents) == 0 {
		return
	}
	n := 0
	if index > c.from {
		n = int(min(index-c.from, uint64(len(c.ents))))
	}
	for _, s := range c.sizes[n:] {
		c.bytes -= int64(s)
	}
	clear(c.ents[n:])
	c.ents, c.sizes = c.ents[:n], c.sizes[:n]
}

// dropTo forgets entries up to and including index.
func (c *entryCache) dropTo(index uint64) {
	if len(c.ents) == 0 || index < c.from {
		return
	}
	n := int(min(index-c.from+1, uint64(len(c.ents))))
	for _, s := range c.sizes[:n] {
		c.bytes -= int64(s)
	}
	c.shift(n)
}

func (c *entryCache) reset() { *c = entryCache{max: c.max} }

// start is the index from which on entries are cached.
func (c *entryCache) start() uint64 {
	if len(c.ents) == 0 {
		return math.MaxUint64
	}
	return c.from
}

// slice returns the cached entries lo..hi-1, which must lie in the cache; the
// result shares no memory that changes.
func (c *entryCache) slice(lo, hi uint64) []*pb.Entry {
	if lo >= hi {
		return nil
	}
	return append([]*pb.Entry(nil), c.ents[lo-c.from:hi-c.from]...)
}
