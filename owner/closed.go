package owner

import (
	"context"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/owner/lead"
	"github.com/godwitdb/godwit/wire"
)

// ahead is how far ahead of now a commit timestamp is assigned; mu is held.
func (r *Replica) ahead() time.Duration {
	if r.cfg.QuorumDelay != nil {
		return r.cfg.QuorumDelay(r.id)
	}
	// that one is ahead anyway; and without commit wait nothing may be
	if r.id == base.MetaGroup || r.cfg.Alone() {
		return 0
	}
	// elsewhere a commit waits for the oracle, not for a clock
	if m, _ := r.clock.Mode(); m != clock.GClock || r.clock.Virtual() {
		return 0
	}
	_, bound := r.clock.Source()
	return r.delay.Ahead(bound)
}

// CommitLead is how far ahead of now this node's owners assign commit timestamps, at most, as of
// the last heartbeat.
func (s *Set) CommitLead() (d time.Duration) {
	for _, r := range s.Replicas() {
		d = max(d, time.Duration(r.leadNs.Load()))
	}
	return d
}

// heardClosed notes that the closed timestamp is about to rise to c; mu is held.
func (r *Replica) heardClosed(c base.Timestamp) {
	r.lag.Rose(max(r.clock.Latest().Sub(c), 0))
}

// never is the estimate of a wait whose end is not in sight.
const never = time.Hour

// closedIn estimates how long it takes until the closed timestamp is at least ts.
func (r *Replica) closedIn(ts base.Timestamp) time.Duration {
	if r.Closed() >= ts {
		return 0
	}
	every := r.cfg.Every(r.id)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ready(true, ts) {
		return 0
	}
	mean, ok := r.lag.Mean(every)
	if !ok {
		return never // its leader is silent, or something holds it back
	}
	return max(mean+every-r.clock.Latest().Sub(ts), 0)
}

// ClosedIn estimates how long it takes until a group is closed here up to ts.
func (s *Set) ClosedIn(g base.GroupID, ts base.Timestamp) time.Duration {
	r := s.Replica(g)
	if r == nil || !s.Holds(g.Shard()) {
		return never
	}
	return r.closedIn(ts)
}

// Complete is the timestamp up to which all shards held here are complete; 0 if none is held, or
// one has not begun.
func (s *Set) Complete() base.Timestamp {
	c := base.Timestamp(0)
	for _, shard := range s.table.Whole() {
		x := s.Closed(shard)
		if x == 0 {
			return 0
		}
		if c == 0 || x < c {
			c = x
		}
	}
	return c
}

// ClosedChanged is closed when the closed timestamp of a group has risen since the call.
func (s *Set) ClosedChanged() <-chan struct{} {
	s.rise.mu.Lock()
	defer s.rise.mu.Unlock()
	if s.rise.ch == nil {
		s.rise.ch = make(chan struct{})
		s.rise.on.Store(true)
	}
	return s.rise.ch
}

// closedRose wakes the callers of ClosedChanged.
func (s *Set) closedRose() {
	if !s.rise.on.Load() {
		return
	}
	s.rise.mu.Lock()
	defer s.rise.mu.Unlock()
	if s.rise.ch != nil {
		close(s.rise.ch)
		s.rise.ch = nil
		s.rise.on.Store(false)
	}
}

// WaitClosed waits until a group is closed here up to ts, at most so long; false if it is not.
func (s *Set) WaitClosed(ctx context.Context, g base.GroupID, ts base.Timestamp, atMost time.Duration) bool {
	r := s.Replica(g)
	if r == nil {
		return false
	}
	if r.Closed() >= ts {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	return r.EnsureClosed(ctx, ts) == nil
}

// promise raises the closed timestamp to at most want and returns what holds as of the applied
// index: nothing undecided, and nothing in flight, lies at or below it. What a command in flight
// carries as closed may be higher, since it counts only with that command's own index; sending it
// together with the applied index would hide the very commit in flight (TIME-3). mu is held.
func (r *Replica) promise(want base.Timestamp) base.Timestamp {
	l := &r.lead
	want = min(want, l.LeaseEnd.Prev())
	l.Floor = max(l.Floor, want)
	if !l.State.In(lead.Serves) { // the votes in the log are not pending here yet
		for _, v := range r.rep.Prepared {
			want = min(want, base.Timestamp(v.Lo).Prev())
		}
	}
	applied := r.applied.Load()
	for x := range r.Pending {
		// Else it is visible, and only its commit wait goes on. A reader of it waits as well.
		if x.Index == 0 || x.Index > applied {
			want = min(want, x.TS.Prev())
		}
	}
	l.Announced = max(l.Announced, want)
	r.closeTo(uint64(want))
	return r.Closed()
}

// closeTo raises the closed timestamp; mu is held.
func (r *Replica) closeTo(c uint64) {
	if c <= r.closed.Load() {
		return
	}
	r.closed.Store(c)
	r.wakeWaiting()
	r.set.closedRose()
}

// Lead is what this leader says in heartbeats; nil if it closes nothing under a valid lease.
func (r *Replica) Lead() *wire.GroupLead {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closes(0) {
		r.leadNs.Store(0)
		return nil
	}
	if r.cfg.QuorumRTT != nil {
		r.delay.Most = r.cfg.QuorumRTT(r.id)
	}
	r.leadNs.Store(int64(r.ahead()))
	now := r.clock.Latest()
	if r.id == base.MetaGroup && !r.cfg.Alone() {
		now = now.Add(r.cfg.Ahead())
	}
	// In the meta group, commits under a schema need the closed timestamp to lie ahead.
	if r.order != nil && r.id != base.MetaGroup {
		now = now.Add(-r.cfg.ClosedLag)
	}
	closed, held := r.promise(now), r.hold()
	return &wire.GroupLead{
		Group: uint32(r.id), Term: r.lead.Term, Index: r.applied.Load(),
		Closed: uint64(closed), LeaseEnd: uint64(r.lead.LeaseEnd), Settled: uint64(r.rep.Undecided()), Incarnation: r.incarnation,
		Held: uint64(held),
	}
}

// OnLead takes what a leader says of itself in a heartbeat.
func (r *Replica) OnLead(l *wire.GroupLead) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, held := base.Timestamp(l.Closed), base.Timestamp(l.Held)
	if uint64(c) <= r.closed.Load() && uint64(held) <= r.held.Load() {
		return
	}
	if l.Index <= r.applied.Load() {
		if uint64(c) > r.closed.Load() {
			r.heardClosed(c)
		}
		r.closeTo(uint64(c))
		r.heardHold(held)
		return
	}
	r.heartbeats.Add(lead.Promise{Index: l.Index, Closed: c, Held: held})
}

// Closed is the timestamp at or below which this replica will see no further
// commit of its group: reads at it can be served here.
func (r *Replica) Closed() base.Timestamp {
	c := base.Timestamp(r.closed.Load())
	if r.async() && r.cfg.Held.Away(r.id) {
		_, cut := r.cfg.Held.HeldOf(r.id)
		c = min(c, cut) // OWN-14
	}
	return c
}

// EnsureClosed waits until Closed is at least ts. The leader promises it at
// once, as far as its lease reaches; another replica waits for its leader's word.
func (r *Replica) EnsureClosed(ctx context.Context, ts base.Timestamp) error {
	return r.ensureClosed(ctx, ts, false)
}

// ensureClosed is EnsureClosed for the catalog alone, or for the whole group.
func (r *Replica) ensureClosed(ctx context.Context, ts base.Timestamp, catalog bool) error {
	if r.closedOver(catalog) >= ts {
		return nil
	}
	if err := r.clock.Within(ts, maxAhead); err != nil {
		return err
	}
	patience := kv.PatienceOf(ctx)
	patience.Failed() // as long as it waits, nobody answers
	err := r.await(ctx, min(r.cfg.EnterTimeout, patience.Left()), func() bool {
		if r.closes(ts) {
			r.promise(ts)
		}
		return r.closedOver(catalog) >= ts
	}, "group %v: nothing heard in time that closes %s at node %d", r.id, ts, r.cfg.Self)
	if err == nil {
		patience.Answered()
	}
	return err
}

// closeNow is ensureClosed where that takes no wait.
func (r *Replica) closeNow(ts base.Timestamp, catalog bool) bool {
	if r.closedOver(catalog) >= ts {
		return true
	}
	if r.clock.Within(ts, maxAhead) != nil {
		return false
	}
	r.mu.Lock()
	if r.closes(ts) {
		r.promise(ts)
	}
	r.mu.Unlock()
	return r.closedOver(catalog) >= ts
}
