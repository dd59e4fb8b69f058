package owner

import (
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/lead"
)

// lapse ends the waits for entries of a leader that is cut off from its followers. Its lease ends
// seconds before Raft notices, and then another node may lead: whoever waits is told that the
// outcome is unknown, and asks for it there.
type lapse struct {
	since time.Time     // when this replica was first seen without a lease; zero: it has one
	ch    chan struct{} // closed when that has lasted; nil if nobody waits
}

// watchShard is called a few times a second. A leader that has left another group of its shard, or
// not joined it yet, serves for what names nothing newer of that group only: it passes the lead on
// (OWN-16).
func (r *Replica) watchShard(now time.Time) {
	if r.id == base.MetaGroup {
		return
	}
	r.mu.Lock()
	term, lacks := r.lead.Term, r.lead.State == lead.Serving && !r.set.Holds(r.shard)
	switch {
	case !lacks:
		r.lacks = time.Time{}
	case r.lacks.IsZero():
		r.lacks = now
	}
	lasts := lacks && now.Sub(r.lacks) >= catchUpPatience
	if lasts {
		r.lacks = now
	}
	r.mu.Unlock()
	if lasts {
		r.cfg.Logger.Warn("a leader has no replica of another group of its shard, and passes the lead on", "group", r.id)
		r.group.PassOn(term)
	}
}

// lapseAfter is longer than what a lease that is only renewed late takes.
const lapseAfter = 500 * time.Millisecond

// errLapsed says why.
var errLapsed = base.Errorf(base.CodeUnavailable, "the lease has ended, and this node hears of no majority")

// lapses is closed once this replica has been without a lease for a while.
func (r *Replica) lapses() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lapse.ch == nil {
		r.lapse.ch = make(chan struct{})
	}
	return r.lapse.ch
}

// watchLease is called a few times a second.
func (r *Replica) watchLease(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &r.lapse
	switch {
	case l.ch == nil, r.ready(true, 0):
		l.since = time.Time{}
	case l.since.IsZero():
		l.since = now
	case now.Sub(l.since) >= lapseAfter:
		close(l.ch)
		*l = lapse{}
	}
}
