package owner

import (
	"context"
	"errors"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/wan"
	"github.com/godwitdb/godwit/wire"
)

// Router sends a request for a group to its leader: by a plain call if that is
// this node, else over the WAN. It follows hints and retries, until ctx ends,
// what certainly had no effect; the answer's status carries any other error of the owner.
//
// Errors of the methods are of the way there: CodeUnavailable, CodeOverloaded
// and CodeCanceled with Ran false (wan.NeverRan) when nothing can have happened, else the outcome is unknown
// and for a commit Outcome tells.
type Router struct {
	set     *Set
	cfg     *Config
	flights flights
}

const (
	retryMin = 2 * time.Millisecond
	retryMax = 200 * time.Millisecond
)

type message[T any] interface {
	*T
	wan.Msg
	GetStatus() *wire.Status
}

// Read sends a read. Reads may run twice.
func (rt *Router) Read(ctx context.Context, q *wire.ReadRequest) (*wire.ReadResponse, error) {
	resp, err := route(ctx, rt, base.GroupID(q.Group), wire.KindRead, q, true, func(r *Replica) *wire.ReadResponse { return r.Read(ctx, q) })
	if resp != nil {
		obs.TraceOf(ctx).AddHops(int(resp.Hops))
	}
	return resp, err
}

// Commit sends a one-round commit or a Prepare, at most once effectively.
func (rt *Router) Commit(ctx context.Context, q *wire.CommitRequest) (*wire.CommitResponse, error) {
	resp, err := route(ctx, rt, base.GroupID(q.Group), wire.KindCommit, q, false, func(r *Replica) *wire.CommitResponse { return r.Commit(ctx, q) })
	if resp != nil {
		NoteCost(ctx, resp)
	}
	return resp, err
}

// Finish sends an outcome or a release; it is idempotent, but a repeated release says CodeAborted.
func (rt *Router) Finish(ctx context.Context, q *wire.FinishRequest) (*wire.FinishResponse, error) {
	return route(ctx, rt, base.GroupID(q.Group), wire.KindFinish, q, q.Prepared, func(r *Replica) *wire.FinishResponse { return r.Finish(ctx, q) })
}

// Resolve asks how a transaction stands in a group, and settles it there if it is unknown.
func (rt *Router) Resolve(ctx context.Context, q *wire.ResolveRequest) (*wire.ResolveResponse, error) {
	return route(ctx, rt, base.GroupID(q.Group), wire.KindResolve, q, true, func(r *Replica) *wire.ResolveResponse { return r.Resolve(ctx, q) })
}

// Order tells and asks the timestamp manager of a region.
func (rt *Router) Order(ctx context.Context, q *wire.OrderRequest) (*wire.OrderResponse, error) {
	return route(ctx, rt, base.GroupID(q.Group), wire.KindOrder, q, true, func(r *Replica) *wire.OrderResponse { return r.Order(ctx, q) })
}

// route finds the leader and calls it. again allows requests whose answer was lost to be repeated.
func route[T any, A message[T]](ctx context.Context, rt *Router, g base.GroupID, kind wire.Kind, q wan.Msg, again bool, local func(*Replica) A) (A, error) {
	var to, hint base.NodeID
	var last error
	next := 0
	backoff := retryMin
	for try := 0; ; try++ {
		to, hint = hint, 0
		if to == 0 {
			to = rt.leader(g, &next, try)
		}
		var resp A
		var err error
		if to == rt.cfg.Self {
			if r := rt.set.Replica(g); r != nil {
				resp = local(r)
			} else {
				err = base.Errorf(base.CodeNotLeader, "node %d has no replica of group %v", to, g)
			}
		} else if to == 0 {
			err = base.Errorf(base.CodeUnavailable, "no replica of group %v is known", g)
		} else {
			resp = A(new(T))
			if err = rt.call(ctx, g, to, kind, q, resp); err != nil {
				resp = nil
			}
		}
		if err == nil {
			err = ErrorOf(resp.GetStatus())
			switch base.CodeOf(err) {
			case base.CodeNotLeader, base.CodeUnavailable:
				// Nothing was done there.
			default:
				return resp, nil
			}
		} else if ctx.Err() != nil {
			return nil, lost(err, last)
		} else if !again && !neverRan(err) {
			return nil, err
		}
		last = err
		var e *base.Error
		if errors.As(err, &e) && e.Code == base.CodeNotLeader && e.Node != 0 && e.Node != to {
			hint = e.Node
			if try < 3 {
				continue
			}
		}
		select {
		case <-ctx.Done():
			return nil, unreached(g, last)
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, retryMax)
	}
}

// neverRan reports whether a failed call certainly had no effect.
func neverRan(err error) bool {
	var e *wan.CallError
	return !errors.As(err, &e) || !e.Ran
}

// lost is the error of a call that ended with its context.
func lost(err, last error) error {
	if last != nil && neverRan(err) {
		return &wan.CallError{Base: base.Errorf(base.CodeUnavailable, "%v (before: %v)", err, last)}
	}
	return err
}

func unreached(g base.GroupID, last error) error {
	return &wan.CallError{Base: base.Errorf(base.CodeUnavailable, "group %v could not be reached in time: %v", g, last)}
}

// leader is the node to try: who is known to lead, else this node's own replica's word, else the replicas in turn.
func (rt *Router) leader(g base.GroupID, next *int, try int) base.NodeID {
	if r := rt.set.Replica(g); r != nil {
		if term, ok := r.Serving(); ok && term != 0 {
			return rt.cfg.Self
		}
		if try%2 == 0 {
			if n := r.heard(); n != 0 {
				return n
			}
		}
	}
	if try%3 < 2 {
		if n := rt.cfg.Directory.Leader(g); n != 0 {
			return n
		}
	}
	all := rt.cfg.Directory.Replicas(g)
	if len(all) == 0 {
		return 0
	}
	*next++
	return all[(*next-1)%len(all)]
}

// Outcome finds out what became of a transaction that may have prepared in the
// groups given, by the rule that all use (I8). Asking settles it.
func (rt *Router) Outcome(ctx context.Context, id base.TxnID, groups []base.GroupID) (ts base.Timestamp, commit bool, err error) {
	type answer struct {
		resp *wire.ResolveResponse
		err  error
	}
	ch := make(chan answer, len(groups))
	traces := obs.TraceOf(ctx).Parallel(len(groups))
	for i, g := range groups {
		go func() {
			resp, err := rt.Resolve(obs.WithTrace(ctx, traces[i]), &wire.ResolveRequest{Group: uint32(g), Txn: id[:]})
			if err == nil {
				err = ErrorOf(resp.Status)
				traces[i].AddHops(int(resp.Hops))
			}
			ch <- answer{resp, err}
		}()
	}
	lo, hi := base.Timestamp(0), base.MaxTimestamp
	unknown := 0
	for range groups {
		a := <-ch
		switch {
		case a.err != nil:
			err = a.err
		case a.resp.State == wire.TxnState_COMMITTED:
			ts, commit = base.Timestamp(a.resp.Ts), true
		case a.resp.State == wire.TxnState_PREPARED:
			lo, hi = max(lo, base.Timestamp(a.resp.Ts)), min(hi, base.Timestamp(a.resp.Hi))
		case a.resp.State == wire.TxnState_ABORTED:
			lo = base.MaxTimestamp
		default:
			unknown++
		}
	}
	obs.TraceOf(ctx).Join(traces)
	switch {
	case commit:
		return ts, true, nil
	case lo == base.MaxTimestamp: // one refusal decides, whoever could not be asked
		return 0, false, nil
	case err != nil:
		return 0, false, err
	case unknown > 0:
		// So old that its outcome is forgotten, and it did not prepare there. Whoever is still
		// prepared keeps all others from forgetting a commit, so this was none.
		if unknown == len(groups) {
			return 0, false, base.Errorf(base.CodeAmbiguous, "the outcome of transaction %v has been forgotten (it is older than %s)", id, RecordAge)
		}
		return 0, false, nil
	case lo < hi:
		return lo, true, nil
	}
	return 0, false, nil
}
