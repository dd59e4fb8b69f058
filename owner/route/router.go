// Package route sends requests to the leaders of groups: it finds them, follows their hints, and
// retries what certainly had no effect. A request to a node that is lost is given up once another
// node has led the group for a while.
package route

import (
	"context"
	"errors"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/owner/state"
	"github.com/godwitdb/godwit/wire"
)

// Server is what a replica of this node serves.
type Server interface {
	Read(ctx context.Context, q *wire.ReadRequest) *wire.ReadResponse
	Commit(ctx context.Context, q *wire.CommitRequest) *wire.CommitResponse
	Finish(ctx context.Context, q *wire.FinishRequest) *wire.FinishResponse
	Resolve(ctx context.Context, q *wire.ResolveRequest) *wire.ResolveResponse
	Order(ctx context.Context, q *wire.OrderRequest) *wire.OrderResponse
	Oracle(ctx context.Context, q *wire.OracleRequest) *wire.OracleResponse
	// Serving reports whether the replica is the owner now, and its term.
	Serving() (term uint64, ok bool)
	// Heard is the leader that the replica knows of; 0 if none.
	Heard() base.NodeID
}

// Directory says where groups are.
type Directory interface {
	// Leader is the node believed to lead a group; 0 if unknown.
	Leader(g base.GroupID) base.NodeID
	// Replicas are the nodes that hold a replica of the group.
	Replicas(g base.GroupID) []base.NodeID
}

// Caller calls other nodes.
type Caller interface {
	Call(ctx context.Context, to base.NodeID, kind wire.Kind, req, resp wan.Msg) error
}

// Router sends a request for a group to its leader: by a plain call if that is
// this node, else over the WAN. It follows hints and retries, until ctx ends,
// what certainly had no effect; the answer's status carries any other error of the owner.
//
// Errors of the methods are of the way there: CodeUnavailable, CodeOverloaded and CodeCanceled with
// Ran false (wan.NeverRan) when nothing can have happened, else the outcome is unknown and for a
// commit Outcome tells.
type Router struct {
	Self      base.NodeID
	Caller    Caller
	Directory Directory
	// Local is this node's replica of a group; nil if it has none.
	Local func(base.GroupID) Server
	// Grace is how long a node that no longer leads has to answer what it was asked before; again:
	// what may be repeated elsewhere meanwhile. Nil: 1 s, and 200 ms.
	Grace   func(to base.NodeID, again bool) time.Duration
	flights flights
}

// Pauses between two tries: they double from RetryMin up to RetryMax.
const (
	RetryMin = 2 * time.Millisecond
	RetryMax = 200 * time.Millisecond
)

// Message is an answer that carries a status.
type Message[T any] interface {
	*T
	wan.Msg
	GetStatus() *wire.Status
}

// Read sends a read. Reads may run twice.
func (rt *Router) Read(ctx context.Context, q *wire.ReadRequest) (*wire.ReadResponse, error) {
	resp, err := route(ctx, rt, base.GroupID(q.Group), wire.KindRead, q, true,
		func(r Server) *wire.ReadResponse { return r.Read(ctx, q) })
	if resp != nil {
		obs.TraceOf(ctx).AddHops(int(resp.Hops))
	}
	return resp, err
}

// Commit sends a one-round commit or a Prepare, at most once effectively.
func (rt *Router) Commit(ctx context.Context, q *wire.CommitRequest) (*wire.CommitResponse, error) {
	resp, err := route(ctx, rt, base.GroupID(q.Group), wire.KindCommit, q, false,
		func(r Server) *wire.CommitResponse { return r.Commit(ctx, q) })
	if resp != nil {
		NoteCost(ctx, resp)
	}
	return resp, err
}

// Finish sends an outcome or a release; it is idempotent, but a repeated release says CodeAborted.
func (rt *Router) Finish(ctx context.Context, q *wire.FinishRequest) (*wire.FinishResponse, error) {
	return route(ctx, rt, base.GroupID(q.Group), wire.KindFinish, q, q.Prepared,
		func(r Server) *wire.FinishResponse { return r.Finish(ctx, q) })
}

// Release is Finish of a transaction whose locks are not needed any more. It is repeated when its
// answer is lost: on a path that was just cut it did not arrive, and as long as its gateway lives
// nobody else would release the locks.
func (rt *Router) Release(ctx context.Context, q *wire.FinishRequest) {
	_, _ = route(ctx, rt, base.GroupID(q.Group), wire.KindFinish, q, true,
		func(r Server) *wire.FinishResponse { return r.Finish(ctx, q) })
}

// Resolve asks how a transaction stands in a group, and settles it there if it is unknown.
func (rt *Router) Resolve(ctx context.Context, q *wire.ResolveRequest) (*wire.ResolveResponse, error) {
	return route(ctx, rt, base.GroupID(q.Group), wire.KindResolve, q, true,
		func(r Server) *wire.ResolveResponse { return r.Resolve(ctx, q) })
}

// Order notes the end of a transaction with the timestamp manager of a region, and asks for the
// newest one.
func (rt *Router) Order(ctx context.Context, q *wire.OrderRequest) (*wire.OrderResponse, error) {
	return route(ctx, rt, base.GroupID(q.Group), wire.KindOrder, q, true,
		func(r Server) *wire.OrderResponse { return r.Order(ctx, q) })
}

// leaderHint is the node that one which is not the leader says is; 0 if it knows none but itself.
func leaderHint(err error, asked base.NodeID) base.NodeID {
	var e *base.Error
	if errors.As(err, &e) && e.Code == base.CodeNotLeader && e.Node != asked {
		return e.Node
	}
	return 0
}

// route finds the leader and calls it. again allows requests whose answer was lost to be repeated.
func route[T any, A Message[T]](ctx context.Context, rt *Router, g base.GroupID, kind wire.Kind, q wan.Msg,
	again bool, local func(Server) A) (A, error) {
	var to, hint base.NodeID
	var last error
	next := 0
	backoff := RetryMin
	patience := kv.PatienceOf(ctx)
	for try := 0; ; try++ {
		to, hint = hint, 0
		if to == 0 {
			to = rt.leader(g, &next, try)
		}
		sent := time.Now()
		resp, err := tryAt(ctx, rt, g, to, kind, q, again, local)
		switch {
		case err == nil:
			if err = refused(resp.GetStatus()); err == nil {
				patience.Answered()
				return resp, nil
			}
			patience.FailedSince(sent) // it waited for a lease there
			if time.Since(sent) > RetryMax {
				backoff = RetryMin // it was kept waiting: there is no need to wait here as well
			}
		case ctx.Err() != nil:
			return nil, lost(err, last)
		case !again && !NeverRan(err):
			return nil, err
		}
		last = err
		if patience.Failed() {
			return nil, unreached(g, last)
		}
		if hint = leaderHint(err, to); hint != 0 && try < 3 {
			continue
		}
		select {
		case <-ctx.Done():
			return nil, unreached(g, last)
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, RetryMax)
	}
}

// tryAt calls one node, or the replica of this one.
func tryAt[T any, A Message[T]](ctx context.Context, rt *Router, g base.GroupID, to base.NodeID, kind wire.Kind,
	q wan.Msg, again bool, local func(Server) A) (A, error) {
	switch to {
	case 0:
		return nil, base.Errorf(base.CodeUnavailable, "no replica of group %v is known", g)
	case rt.Self:
		if r := rt.Local(g); r != nil {
			return local(r), nil
		}
		return nil, base.Errorf(base.CodeNotLeader, "node %d has no replica of group %v", to, g)
	}
	resp := A(new(T))
	return resp, rt.call(ctx, g, to, kind, q, resp, again)
}

// refused is the error of an answer that says that nothing was done there, so that the request may
// be sent to another node; nil for any other answer.
func refused(s *wire.Status) error {
	err := ErrorOf(s)
	switch base.CodeOf(err) {
	case base.CodeNotLeader, base.CodeUnavailable:
		return err
	}
	return nil
}

// NeverRan reports whether a failed call certainly had no effect.
func NeverRan(err error) bool {
	var e *wan.CallError
	return !errors.As(err, &e) || !e.Ran
}

// lost is the error of a call that ended with its context.
func lost(err, last error) error {
	if last != nil && NeverRan(err) {
		return &wan.CallError{Base: base.Errorf(base.CodeUnavailable, "%v (before: %v)", err, last)}
	}
	return err
}

func unreached(g base.GroupID, last error) error {
	return &wan.CallError{Base: base.Errorf(base.CodeUnavailable, "group %v could not be reached in time: %v", g, last)}
}

// leader is the node to try: this one if its replica serves, else the leader that its replica or
// the directory knows, else the replicas in turn.
func (rt *Router) leader(g base.GroupID, next *int, try int) base.NodeID {
	if r := rt.Local(g); r != nil {
		if term, ok := r.Serving(); ok && term != 0 {
			return rt.Self
		}
		if try%2 == 0 {
			if n := r.Heard(); n != 0 {
				return n
			}
		}
	}
	if try%3 < 2 {
		if n := rt.Directory.Leader(g); n != 0 {
			return n
		}
	}
	all := rt.Directory.Replicas(g)
	if len(all) == 0 {
		return 0
	}
	*next++
	return all[(*next-1)%len(all)]
}

// Oracle asks the oracle of GTM mode for a timestamp.
func (rt *Router) Oracle(ctx context.Context, q *wire.OracleRequest) (*wire.OracleResponse, error) {
	return route(ctx, rt, base.GroupID(q.Group), wire.KindOracle, q, true,
		func(r Server) *wire.OracleResponse { return r.Oracle(ctx, q) })
}

// NoteCost adds what an owner says of a commit to the trace of the request.
func NoteCost(ctx context.Context, resp *wire.CommitResponse) {
	t := obs.TraceOf(ctx)
	t.AddHops(int(resp.Hops))
	t.AddBytes(int(resp.Copies), int(resp.Copies*resp.Bytes))
}

// StatusOf is err as it travels; nil for nil.
func StatusOf(err error) *wire.Status {
	if err == nil {
		return nil
	}
	var e *base.Error
	if !errors.As(err, &e) {
		return &wire.Status{Code: uint32(base.CodeOther), Msg: err.Error()}
	}
	return &wire.Status{Code: uint32(e.Code), Msg: e.Msg, Node: uint32(e.Node), Key: e.Key, After: uint64(e.After)}
}

// ErrorOf is the error that a status carries; nil if it says that all is well.
func ErrorOf(s *wire.Status) error {
	if s == nil || s.Code == 0 && s.Msg == "" {
		return nil
	}
	return &base.Error{Code: base.Code(s.Code), Msg: s.Msg, Node: base.NodeID(s.Node), Key: s.Key, After: base.Timestamp(s.After)}
}

// Outcome finds out what became of a transaction that may have prepared in the
// groups given, by the rule that all use (OWN-8). Asking settles it. The first answer that decides
// is enough: a group that does not answer then holds nobody up.
func (rt *Router) Outcome(ctx context.Context, id base.TxnID, groups []base.GroupID) (ts base.Timestamp, commit bool, err error) {
	asked := obs.TraceOf(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		resp *wire.ResolveResponse
		err  error
	}
	ch := make(chan answer, len(groups))
	traces := asked.Parallel(len(groups))
	defer asked.Join(traces)
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
			return base.Timestamp(a.resp.Ts), true, nil
		case a.resp.State == wire.TxnState_PREPARED:
			lo, hi = max(lo, base.Timestamp(a.resp.Ts)), min(hi, base.Timestamp(a.resp.Hi))
		case a.resp.State == wire.TxnState_ABORTED:
			return 0, false, nil
		default:
			unknown++
		}
	}
	switch {
	case err != nil:
		return 0, false, err
	case unknown > 0:
		// So old that its outcome is forgotten, and it did not prepare there. A group that is
		// still prepared keeps all others from forgetting a commit, so this was none.
		if unknown == len(groups) {
			return 0, false, base.Errorf(base.CodeAmbiguous,
				"the outcome of transaction %v has been forgotten (it is older than %s)", id, state.RecordAge)
		}
		return 0, false, nil
	case lo < hi:
		return lo, true, nil
	}
	return 0, false, nil
}
