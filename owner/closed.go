package owner

import (
	"context"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/clock"
)

// quorumDelay is how long a group's commits take to be replicated: commit timestamps are assigned so far ahead of now
// (PROTOCOLS A4), and then commit wait costs nothing, and commits under way do not hold back the closed timestamp. Too
// much would delay every commit, too little only makes the closed timestamp a little older: it falls fast and rises slowly.
type quorumDelay struct {
	mean time.Duration
	n    int           // commits seen, up to seenEnough
	last time.Time     // when the last one was
	most time.Duration // what the network alone explains, as of the last pulse; 0: unknown
}

const (
	busyFor    = 10 * time.Second     // a pause after which it begins anew: commits of an idle group hold nobody back for long
	seenEnough = 3                    // before that, one commit that was slow for another reason would slow the next one down
	leastDelay = 2 * time.Millisecond // within one region there is nothing to gain
	mostDelay  = 400 * time.Millisecond
)

func (q *quorumDelay) took(d time.Duration) {
	if now := time.Now(); now.Sub(q.last) > busyFor {
		*q = quorumDelay{last: now, most: q.most}
	} else {
		q.last = now
	}
	q.n = min(q.n+1, seenEnough)
	switch {
	case q.mean == 0 || d < q.mean:
		q.mean = d
	default:
		q.mean += (min(d, mostDelay) - q.mean) / 16
	}
}

// ahead is how far ahead of now a commit timestamp is assigned; mu is held.
func (r *Replica) ahead() time.Duration {
	if r.cfg.QuorumDelay != nil {
		return r.cfg.QuorumDelay(r.id)
	}
	if r.id == base.MetaGroup || r.cfg.Alone() { // that one is ahead anyway; and without commit wait nothing may be
		return 0
	}
	if m, _ := r.clock.Mode(); m != clock.GClock || r.clock.Virtual() { // elsewhere a commit waits for the oracle, not for a clock
		return 0
	}
	if r.delay.n < seenEnough || time.Since(r.delay.last) > busyFor {
		return 0
	}
	_, bound := r.clock.Source()
	d := min(r.delay.mean, mostDelay)
	if r.delay.most > 0 {
		d = min(d, r.delay.most)
	}
	d -= 2 * bound
	if d < leastDelay {
		return 0
	}
	return d
}

// CommitLead is how far ahead of now this node's owners assign commit timestamps, at most, as of the last pulse.
func (s *Set) CommitLead() (d time.Duration) {
	for _, r := range s.Replicas() {
		d = max(d, time.Duration(r.leadNs.Load()))
	}
	return d
}

// lag is how new a replica's closed timestamp is whenever it rises: about the one-way delay from its leader; guarded by mu.
type lag struct {
	mean time.Duration
	last time.Time // when it rose last
}

// heardClosed notes that the closed timestamp is about to rise to c; mu is held.
func (r *Replica) heardClosed(c base.Timestamp) {
	d := max(r.clock.Latest().Sub(c), 0)
	l := &r.lag
	if l.last.IsZero() {
		l.mean = d
	} else {
		l.mean += (d - l.mean) / 4
	}
	l.last = time.Now()
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
	l := &r.lag
	if l.last.IsZero() || time.Since(l.last) > l.mean+5*every {
		return never // its leader is silent, or something holds it back
	}
	return max(l.mean+every-r.clock.Latest().Sub(ts), 0)
}

// ClosedIn estimates how long it takes until a group is closed here up to ts.
func (s *Set) ClosedIn(g base.GroupID, ts base.Timestamp) time.Duration {
	r := s.Replica(g)
	if r == nil || !s.Holds(g.Shard()) {
		return never
	}
	return r.closedIn(ts)
}

// Complete is the timestamp up to which all shards held here are complete; 0 if none is held, or one has not begun.
func (s *Set) Complete() base.Timestamp {
	c := base.Timestamp(0)
	for shard, h := range *s.shards.Load() {
		if !h.whole {
			continue
		}
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

// closedRose tells those who wait in ClosedChanged.
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
