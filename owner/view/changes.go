package view

import (
	"bytes"
	"sync"
	"sync/atomic"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
)

// Changes announces changes of a shard, and remembers how new its parts are. It is safe for
// concurrent use.
type Changes struct {
	mu      sync.Mutex
	changed chan struct{}
	at      uint64 // count of changes for which newest holds
	newest  map[string]base.Timestamp
	// last is the newest answer: the span of the catalog, which each statement asks for, mostly.
	last atomic.Pointer[newestOf]
}

// newestOf is the newest change within a span after so many changes of the shard.
type newestOf struct {
	at   uint64
	span base.Span
	ts   base.Timestamp
}

func (n *newestOf) is(at uint64, span base.Span) bool {
	return n.at == at && bytes.Equal(n.span.Start, span.Start) && bytes.Equal(n.span.End, span.End)
}

// NewChanges knows of no change.
func NewChanges() *Changes { return &Changes{changed: make(chan struct{})} }

// Happened is called after new versions have become visible.
func (c *Changes) Happened() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.changed)
	c.changed = make(chan struct{})
}

// Next is closed at the next change.
func (c *Changes) Next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// Newest is the commit timestamp of the newest change within a span, 0 if there is none, after n
// changes of the shard. It looks again only when n has grown.
func (c *Changes) Newest(st *store.Store, span base.Span, n uint64) (base.Timestamp, error) {
	if l := c.last.Load(); l != nil && l.is(n, span) {
		return l.ts, nil
	}
	name := string(span.Start) + "\x00" + string(span.End)
	c.mu.Lock()
	if c.at != n || c.newest == nil || len(c.newest) > 4096 {
		c.at, c.newest = n, map[string]base.Timestamp{}
	}
	ts, ok := c.newest[name]
	c.mu.Unlock()
	if ok {
		c.last.Store(&newestOf{n, span, ts})
		return ts, nil
	}
	ts, err := newestIn(st, span)
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	if c.at == n {
		c.newest[name] = ts
	}
	c.mu.Unlock()
	return ts, nil
}

// newestIn is the largest commit timestamp of the newest versions within a span.
func newestIn(st *store.Store, span base.Span) (ts base.Timestamp, err error) {
	rd := st.NewReader()
	defer rd.Close()
	if span.IsPoint() {
		v, _, err := rd.Newest(span.Start)
		return v.TS, err
	}
	it := rd.Iter(span, base.MaxTimestamp, store.IterOptions{KeysOnly: true})
	defer it.Close()
	for it.Next() {
		ts = max(ts, it.Version().TS)
	}
	return ts, it.Err()
}

// ChangedWithin reports whether a key of a span has a version above from and at or below upTo.
// Where that cannot be told, because versions above from may have been collected, the answer is
// yes.
func ChangedWithin(st *store.Store, span base.Span, from, upTo base.Timestamp) (bool, error) {
	rd := st.NewReader()
	defer rd.Close()
	if from < st.GCThreshold(span.Start.Shard()) { // raised before anything goes
		return true, nil
	}
	if span.IsPoint() {
		v, ok, err := rd.Newest(span.Start)
		if err == nil && ok && v.TS > upTo {
			v, ok, err = rd.Get(span.Start, upTo)
		}
		return ok && v.TS > from, err
	}
	it := rd.Iter(span, upTo, store.IterOptions{KeysOnly: true})
	defer it.Close()
	for it.Next() {
		if it.Version().TS > from {
			return true, nil
		}
	}
	return false, it.Err()
}
