package owner

import (
	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/view"
)

// versionsChanged is called by a replica after new versions have become visible.
func (s *Set) versionsChanged(r *Replica) {
	if r.id == base.MetaGroup {
		s.meta.Happened()
	}
}

// MetaChanged is closed at the next change of the meta shard at this node.
func (s *Set) MetaChanged() <-chan struct{} { return s.meta.Next() }

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
	newest, err := s.meta.Newest(s.cfg.Store, span, r.changes.Load())
	if err != nil {
		return 0, 0
	}
	// What was deleted and collected is a change, too, although nothing is left of it.
	return max(newest, base.Timestamp(r.collected.Load())), complete
}

// ChangedWithin reports whether a key of the span of the meta shard has, at this node, a version
// above from and at or below upTo. Where that cannot be told, because versions above from may have
// been collected, the answer is yes.
func (s *Set) ChangedWithin(span base.Span, from, upTo base.Timestamp) (bool, error) {
	return view.ChangedWithin(s.cfg.Store, span, from, upTo)
}

// MetaNewest is the commit timestamp of the newest version of a key of the meta shard at this node,
// 0 if there is none, and the timestamp up to which the node knows all of them.
func (s *Set) MetaNewest(key base.Key) (newest, complete base.Timestamp) {
	r := s.Replica(base.MetaGroup)
	if r == nil {
		return 0, 0
	}
	complete = r.Closed() // before looking: what is closed is visible
	newest, err := s.meta.Newest(s.cfg.Store, base.PointSpan(key), r.changes.Load())
	if err != nil {
		return 0, 0
	}
	return newest, complete
}
