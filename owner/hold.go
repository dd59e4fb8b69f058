package owner

import (
	"context"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/wire"
)

// The catalog hold (OWN-17): the meta group's leader promises that no definition changes for a
// while, so that the statements of other nodes outlive it. It reaches further ahead than closed
// timestamps do, which also bind GLOBAL tables and all else that is in the meta shard.

// hold raises the catalog hold and returns what holds as of the applied index; 0: nothing. mu is
// held.
func (r *Replica) hold() base.Timestamp {
	l := &r.lead
	if r.id != base.MetaGroup || r.cfg.Hold == nil || r.cfg.Alone() || !r.ready(true, 0) {
		return 0
	}
	ahead := min(r.cfg.Hold(), r.quiet()/2)
	if ahead <= 0 {
		return 0
	}
	if !r.clock.Bounded() {
		return 0 // a lease says little of how far ahead of now it ends
	}
	want := min(r.clock.Latest().Add(ahead), l.LeaseEnd.Prev())
	applied := r.applied.Load()
	for x := range r.Pending {
		if changesCatalog(x) && (x.Index == 0 || x.Index > applied) {
			want = min(want, x.TS.Prev())
		}
	}
	l.Held = max(l.Held, want)
	return want
}

// quiet is how long ago the rest after the last change of the catalog was over. Half of that is
// promised at most: of changes that come one after the other each waits for half the time since the
// one before it, and those that come at once do not wait. mu is held.
func (r *Replica) quiet() time.Duration { return time.Since(r.changedCatalog) - r.cfg.HoldRest }

func changesCatalog(x *txns.Txn) bool { return slices.ContainsFunc(x.Keys, base.Key.InCatalog) }

// aboveHold is the timestamp that a commit or a vote must exceed: the catalog hold, if it changes
// the catalog. mu is held.
func (e *evaluation) aboveHold() base.Timestamp {
	r := e.r
	changes := func(w *wire.Write) bool { return base.Key(w.Key).InCatalog() }
	if r.id != base.MetaGroup || r.cfg.NoAboveHold || !slices.ContainsFunc(e.q.Writes, changes) {
		return 0
	}
	r.changedCatalog = time.Now()
	return r.lead.Held
}

// heardHold takes the catalog hold that a leader promises as of an applied index; mu is held.
func (r *Replica) heardHold(held base.Timestamp) {
	if uint64(held) <= r.held.Load() || r.clock.Within(held, maxAhead) != nil {
		return
	}
	r.held.Store(uint64(held))
	r.wakeWaiting()
}

// closedOver is the timestamp up to which all changes are known here: of the catalog alone, or of
// the group.
func (r *Replica) closedOver(catalog bool) base.Timestamp {
	c := r.Closed()
	if catalog && r.id == base.MetaGroup {
		c = max(c, base.Timestamp(r.held.Load()))
	}
	return c
}

// CatalogClosed is the timestamp up to which this node knows all changes of the catalog.
func (s *Set) CatalogClosed() base.Timestamp {
	r := s.Replica(base.MetaGroup)
	if r == nil || !s.Holds(base.MetaShard) {
		return 0
	}
	return r.closedOver(true)
}

// EnsureCatalog waits until this node knows all changes of the catalog up to ts.
func (s *Set) EnsureCatalog(ctx context.Context, ts base.Timestamp) error {
	r := s.Replica(base.MetaGroup)
	if r == nil || !s.Holds(base.MetaShard) {
		return base.Errorf(base.CodeUnavailable, "node %d has no replica of the meta shard yet", s.cfg.Self)
	}
	return r.ensureClosed(ctx, ts, true)
}

// CatalogNow is EnsureCatalog where that takes no wait; false if it does.
func (s *Set) CatalogNow(ts base.Timestamp) bool {
	r := s.Replica(base.MetaGroup)
	return r != nil && s.Holds(base.MetaShard) && r.closeNow(ts, true)
}
