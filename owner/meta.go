package owner

import (
	"sync"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
)

// metaWatch announces changes of the meta shard and remembers how new its parts are.
type metaWatch struct {
	mu      sync.Mutex
	changed chan struct{}
	at      uint64 // count of changes for which newest holds
	newest  map[string]base.Timestamp
}

// versionsChanged is called by a replica after new versions have become visible.
func (s *Set) versionsChanged(r *Replica) {
	if r.id != base.MetaGroup {
		return
	}
	s.meta.mu.Lock()
	close(s.meta.changed)
	s.meta.changed = make(chan struct{})
	s.meta.mu.Unlock()
}

// MetaChanged is closed at the next change of the meta shard at this node.
func (s *Set) MetaChanged() <-chan struct{} {
	s.meta.mu.Lock()
	defer s.meta.mu.Unlock()
	return s.meta.changed
}

// MetaVersion is the commit timestamp of the newest change within a span of the
// meta shard at this node, and the timestamp up to which the node knows all of them.
// Answers are kept until the meta shard changes.
func (s *Set) MetaVersion(span base.Span) (changed, complete base.Timestamp) {
	r := s.Replica(base.MetaGroup)
	if r == nil {
		return 0, 0
	}
	complete = r.Closed() // before looking: what is closed is visible
	if span.InCatalog() {
		complete = max(complete, min(r.clock.Latest(), s.CatalogClosed()))
	}
	newest, err := s.newestMeta(r, span)
	if err != nil {
		return 0, 0
	}
	// What was deleted and collected is a change, too, although nothing is left of it.
	return max(newest, base.Timestamp(r.collected.Load())), complete
}

// newestMeta is newestIn for a span of the meta shard; it looks again only after the shard has
// changed.
func (s *Set) newestMeta(r *Replica, span base.Span) (base.Timestamp, error) {
	n := r.changes.Load()
	name := string(span.Start) + "\x00" + string(span.End)
	s.meta.mu.Lock()
	if s.meta.at != n || s.meta.newest == nil || len(s.meta.newest) > 4096 {
		s.meta.at, s.meta.newest = n, map[string]base.Timestamp{}
	}
	ts, ok := s.meta.newest[name]
	s.meta.mu.Unlock()
	if ok {
		return ts, nil
	}
	ts, err := s.newestIn(span)
	if err != nil {
		return 0, err
	}
	s.meta.mu.Lock()
	if s.meta.at == n {
		s.meta.newest[name] = ts
	}
	s.meta.mu.Unlock()
	return ts, nil
}

// newestIn is the largest commit timestamp of the newest versions within a span.
func (s *Set) newestIn(span base.Span) (ts base.Timestamp, err error) {
	rd := s.cfg.Store.NewReader()
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

// ChangedWithin reports whether a key of the span of the meta shard has, at this node, a version
// above from and at or below upTo. Where that cannot be told, because versions above from may have
// been collected, the answer is yes.
func (s *Set) ChangedWithin(span base.Span, from, upTo base.Timestamp) (bool, error) {
	rd := s.cfg.Store.NewReader()
	defer rd.Close()
	if from < s.cfg.Store.GCThreshold(base.MetaShard) { // raised before anything goes
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

// MetaNewest is the commit timestamp of the newest version of a key of the meta shard at this node,
// 0 if there is none, and the timestamp up to which the node knows all of them.
func (s *Set) MetaNewest(key base.Key) (newest, complete base.Timestamp) {
	r := s.Replica(base.MetaGroup)
	if r == nil {
		return 0, 0
	}
	complete = r.Closed() // before looking: what is closed is visible
	newest, err := s.newestMeta(r, base.PointSpan(key))
	if err != nil {
		return 0, 0
	}
	return newest, complete
}
