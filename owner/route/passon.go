package route

import (
	"context"
	"errors"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/wire"
)

// Passing is a hand-over of a group's lead that requests meet. They wait for it, and are passed on
// to the next leader: this node is the helper of GeoLM.
type Passing struct {
	Group        base.GroupID
	Self, Target base.NodeID
	Departed     <-chan struct{} // closed when this node has stopped serving
	Over         <-chan struct{} // closed when some node is known to lead
	AtMost       time.Duration   // for which a leader is looked for
	Caller       Caller
	Heard        func() base.NodeID // the leader that this node has heard of; 0: none
	LeadsAgain   func() bool        // this node
}

// handsOver is how long a hand-over over a long path may take. A request waits for it where it is,
// also one that another node has sent and would soon send again.
const handsOver = time.Second

// PassOn waits until the hand-over has come about and sends a request to whichever node leads then.
// nil, nil: this node leads again and should serve the request. again allows a request to be sent
// twice. Errors say that nothing was done, but for CodeAmbiguous.
//
// AtMost and the statement's patience bound how long a leader is looked for. They do not bound the
// call of a node that has taken the request: it may have to wait there for locks.
func PassOn[T any, A Message[T]](ctx context.Context, p *Passing, kind wire.Kind, q wan.Msg, again bool) (A, error) {
	patience := kv.PatienceOf(ctx)
	patience.Failed() // as long as nobody leads, nobody answers
	timer := time.NewTimer(min(p.AtMost, max(patience.Left(), handsOver)))
	defer timer.Stop()
	select {
	case <-p.Departed:
	case <-p.Over:
	case <-timer.C:
		return nil, p.unled()
	case <-ctx.Done():
		return nil, ended(ctx)
	}
	hop := passHop{p: p, to: p.Target, over: p.Over}
	for backoff := RetryMin; ; backoff = min(2*backoff, RetryMax) {
		if p.LeadsAgain() {
			return nil, nil
		}
		resp := A(new(T))
		err := hop.call(ctx, kind, q, resp, again)
		if err == nil {
			err = ErrorOf(resp.GetStatus())
			switch base.CodeOf(err) {
			case base.CodeNotLeader, base.CodeUnavailable:
			default:
				patience.Answered()
				return resp, nil
			}
		} else if !again && !NeverRan(err) {
			return nil, base.Errorf(base.CodeAmbiguous,
				"group %v: the request was passed on to the new leader, node %d, which did not answer: %v",
				p.Group, hop.to, err)
		}
		hop.next(err)
		select {
		case <-time.After(backoff):
		case <-timer.C:
			return nil, p.unled()
		case <-ctx.Done():
			return nil, ended(ctx)
		}
	}
}

func ended(ctx context.Context) error {
	return base.Errorf(base.CodeCanceled, "request ended: %v", context.Cause(ctx))
}

// unled is the error of a request for which no leader was found in time. It is not the one on which
// the request would be passed on again.
func (p *Passing) unled() error {
	return base.Errorf(base.CodeUnavailable, "group %v: no node has led it within %s since node %d handed its lead to "+
		"node %d: is a majority of its replicas reachable?", p.Group, p.AtMost, p.Self, p.Target)
}

// passHop is where a request goes next.
type passHop struct {
	p    *Passing
	to   base.NodeID
	over <-chan struct{} // of p; nil once it is known that some node leads
}

// next chooses the node to try after an error: the one that the error names, else the leader that
// this node has heard of, else the transfer target.
func (h *passHop) next(err error) {
	if h.over != nil {
		select {
		case <-h.over:
			h.over = nil
			h.to = h.p.Heard()
		default:
		}
	}
	var e *base.Error
	if errors.As(err, &e) && e.Node != 0 {
		h.to = e.Node
	} else if n := h.p.Heard(); n != 0 && h.over == nil {
		h.to = n
	}
	if h.to == 0 || h.to == h.p.Self {
		h.to = h.p.Target
	}
}

// call is Caller.Call. A call of a request that may be sent twice is given up when the hand-over
// has ended with another leader.
func (h *passHop) call(ctx context.Context, kind wire.Kind, q, resp wan.Msg, again bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if over, to := h.over, h.to; again && over != nil {
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			select {
			case <-over:
				if h.p.Heard() != to {
					cancel()
				}
			case <-stop:
			}
		}()
	}
	return h.p.Caller.Call(ctx, h.to, kind, q, resp)
}
