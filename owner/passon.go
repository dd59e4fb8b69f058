package owner

import (
	"context"
	"errors"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/owner/lead"
	"github.com/godwitdb/godwit/owner/route"
	"github.com/godwitdb/godwit/wire"
)

// A request that meets a hand-over of the lead waits for it, and is passed on to the next leader:
// this node is the helper of GeoLM. The client notices only the time that this takes.

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

// passOn waits until the hand-over has come about and sends a request to whichever node leads then.
// nil, nil: this node leads again and should serve the request. again allows a request to be sent
// twice. Errors say that nothing was done, but for CodeAmbiguous.
//
// EnterTimeout and the statement's patience bound how long a leader is looked for. They do not
// bound the call of a node that has taken the request: it may have to wait there for locks.
func passOn[T any, A route.Message[T]](ctx context.Context, r *Replica, t *lead.Transfer, kind wire.Kind, q wan.Msg,
	again bool) (A, error) {
	if err := r.enterPassing(); err != nil {
		return nil, err
	}
	defer r.leavePassing()
	patience := kv.PatienceOf(ctx)
	patience.Failed() // as long as nobody leads, nobody answers
	timer := time.NewTimer(min(r.cfg.EnterTimeout, patience.Left()))
	defer timer.Stop()
	select {
	case <-t.Departed:
	case <-t.Over:
	case <-timer.C:
		return nil, r.unled(t)
	case <-ctx.Done():
		return nil, canceled(ctx)
	}
	hop := passHop{t: t, to: t.Target, over: t.Over}
	for backoff := route.RetryMin; ; backoff = min(2*backoff, route.RetryMax) {
		if r.leadsAgain() {
			return nil, nil
		}
		resp := A(new(T))
		err := callUntil(ctx, r, &hop, kind, q, resp, again)
		if err == nil {
			err = ErrorOf(resp.GetStatus())
			switch base.CodeOf(err) {
			case base.CodeNotLeader, base.CodeUnavailable:
			default:
				patience.Answered()
				return resp, nil
			}
		} else if !again && !route.NeverRan(err) {
			return nil, base.Errorf(base.CodeAmbiguous,
				"group %v: the request was passed on to the new leader, node %d, which did not answer: %v",
				r.id, hop.to, err)
		}
		hop.next(r, err)
		select {
		case <-time.After(backoff):
		case <-timer.C:
			return nil, r.unled(t)
		case <-ctx.Done():
			return nil, canceled(ctx)
		}
	}
}

// unled is the error of a request for which no leader was found in time. It is not t.Err, on which
// the request would be passed on again.
func (r *Replica) unled(t *lead.Transfer) error {
	return base.Errorf(base.CodeUnavailable, "group %v: no node has led it within %s since node %d handed its lead to "+
		"node %d: is a majority of its replicas reachable?", r.id, r.cfg.EnterTimeout, r.cfg.Self, t.Target)
}

// passHop is where a request goes next.
type passHop struct {
	t    *lead.Transfer
	to   base.NodeID
	over <-chan struct{} // of t; nil once it is known that some node leads
}

// next chooses the node to try after an error: the one that the error names, else the leader that
// this node has heard of, else the transfer target.
func (h *passHop) next(r *Replica, err error) {
	if h.over != nil && lead.IsClosed(h.over) {
		h.over = nil
		h.to = r.Heard()
	}
	var e *base.Error
	if errors.As(err, &e) && e.Node != 0 {
		h.to = e.Node
	} else if n := r.Heard(); n != 0 && h.over == nil {
		h.to = n
	}
	if h.to == 0 || h.to == r.cfg.Self {
		h.to = h.t.Target
	}
}

// callUntil is Transport.Call. A call of a request that may be sent twice is given up when the
// hand-over has ended with another leader.
func callUntil(ctx context.Context, r *Replica, hop *passHop, kind wire.Kind, q, resp wan.Msg, again bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if over, to := hop.over, hop.to; again && over != nil {
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			select {
			case <-over:
				if r.Heard() != to {
					cancel()
				}
			case <-stop:
			}
		}()
	}
	return r.cfg.Transport.Call(ctx, hop.to, kind, q, resp)
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
