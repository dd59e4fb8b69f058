package owner

import (
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/lead"
)

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

// watchLease is called a few times a second.
func (r *Replica) watchLease(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lapses.Look(now, r.ready(true, 0))
}
