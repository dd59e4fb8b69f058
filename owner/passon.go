package owner

import (
	"context"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/owner/lead"
	"github.com/godwitdb/godwit/owner/route"
	"github.com/godwitdb/godwit/wire"
)

// transferOf is the hand-over that made a request fail; nil if it failed of something else.
func (r *Replica) transferOf(err error) *lead.Transfer {
	if err == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.lastTransfer; t != nil && err == error(t.Err) {
		return t
	}
	return nil
}

// passOn is route.PassOn.
func passOn[T any, A route.Message[T]](ctx context.Context, r *Replica, t *lead.Transfer, kind wire.Kind, q wan.Msg,
	again bool) (A, error) {
	if err := r.enterPassing(); err != nil {
		return nil, err
	}
	defer r.leavePassing()
	return route.PassOn[T, A](ctx, &route.Passing{Group: r.id, Self: r.cfg.Self, Target: t.Target, Departed: t.Departed,
		Over: t.Over, AtMost: r.cfg.EnterTimeout, Caller: r.cfg.Transport, Heard: r.Heard, LeadsAgain: r.leadsAgain},
		kind, q, again)
}

// enterPassing counts a request that is to be passed on.
func (r *Replica) enterPassing() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.passing >= r.cfg.MaxWaiting {
		return base.Errorf(base.CodeOverloaded, "group %v: %d requests wait for the new leader already; retry later",
			r.id, r.cfg.MaxWaiting)
	}
	r.passing++
	r.stats.Helped.Add(1)
	return nil
}

func (r *Replica) leavePassing() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.passing--
}

// leadsAgain reports whether this node leads and is not handing the lead over.
func (r *Replica) leadsAgain() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lead.Term != 0 && !r.lead.State.In(lead.Leaves)
}
