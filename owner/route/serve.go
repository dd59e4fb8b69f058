package route

import (
	"context"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/wire"
)

// Answers is what a replica answers to other nodes.
type Answers interface {
	Server
	// ReadFor and CommitFor are Read and Commit on behalf of a client of another node.
	ReadFor(ctx context.Context, from base.NodeID, q *wire.ReadRequest) *wire.ReadResponse
	CommitFor(ctx context.Context, from base.NodeID, q *wire.CommitRequest) *wire.CommitResponse
	OnHandover(from base.NodeID, q *wire.HandoverRequest) error
	Release(from base.NodeID, q *wire.ReleaseRequest) *wire.ReleaseResponse
}

// handlers serve requests at a node, for the replicas that find knows.
type handlers struct {
	self base.NodeID
	find func(base.GroupID) Answers
}

// Register has handle take the requests for the replicas of a node. find is the node's replica of a
// group; nil: it has none.
func Register(self base.NodeID, handle func(wire.Kind, wan.Handler), find func(base.GroupID) Answers) {
	h := &handlers{self: self, find: find}
	type (
		ctx  = context.Context
		node = base.NodeID
	)
	handle(wire.KindRead, serve(h, func(s *wire.Status) *wire.ReadResponse { return &wire.ReadResponse{Status: s} },
		func(c ctx, n node, r Answers, q *wire.ReadRequest) *wire.ReadResponse { return r.ReadFor(c, n, q) }))
	handle(wire.KindCommit, serve(h, func(s *wire.Status) *wire.CommitResponse { return &wire.CommitResponse{Status: s} },
		func(c ctx, n node, r Answers, q *wire.CommitRequest) *wire.CommitResponse {
			return r.CommitFor(c, n, q)
		}))
	handle(wire.KindFinish, serve(h, func(s *wire.Status) *wire.FinishResponse { return &wire.FinishResponse{Status: s} },
		func(c ctx, _ node, r Answers, q *wire.FinishRequest) *wire.FinishResponse { return r.Finish(c, q) }))
	handle(wire.KindResolve, serve(h, func(s *wire.Status) *wire.ResolveResponse { return &wire.ResolveResponse{Status: s} },
		func(c ctx, _ node, r Answers, q *wire.ResolveRequest) *wire.ResolveResponse { return r.Resolve(c, q) }))
	handle(wire.KindOrder, serve(h, func(s *wire.Status) *wire.OrderResponse { return &wire.OrderResponse{Status: s} },
		func(c ctx, _ node, r Answers, q *wire.OrderRequest) *wire.OrderResponse { return r.Order(c, q) }))
	handle(wire.KindOracle, serve(h, func(s *wire.Status) *wire.OracleResponse { return &wire.OracleResponse{Status: s} },
		func(c ctx, _ node, r Answers, q *wire.OracleRequest) *wire.OracleResponse { return r.Oracle(c, q) }))
	handle(wire.KindHandover, serve(h, func(s *wire.Status) *wire.HandoverResponse { return &wire.HandoverResponse{Status: s} },
		func(_ ctx, n node, r Answers, q *wire.HandoverRequest) *wire.HandoverResponse {
			return &wire.HandoverResponse{Status: StatusOf(r.OnHandover(n, q))}
		}))
	handle(wire.KindRelease, serve(h, func(s *wire.Status) *wire.ReleaseResponse { return &wire.ReleaseResponse{Status: s} },
		func(_ ctx, n node, r Answers, q *wire.ReleaseRequest) *wire.ReleaseResponse { return r.Release(n, q) }))
}

// serve decodes a request, finds its replica and answers.
func serve[Q any, PQ interface {
	*Q
	wan.Msg
	GetGroup() uint32
}, A wan.Msg](h *handlers, none func(*wire.Status) A, do func(context.Context, base.NodeID, Answers, PQ) A) wan.Handler {
	return func(ctx context.Context, from base.NodeID, body []byte) (wan.Msg, error) {
		q := PQ(new(Q))
		if err := q.UnmarshalVT(body); err != nil {
			return nil, base.Errorf(base.CodeInvalid, "malformed request: %v", err)
		}
		g := base.GroupID(q.GetGroup())
		r := h.find(g)
		if r == nil {
			return none(StatusOf(base.Errorf(base.CodeNotLeader, "node %d has no replica of group %v", h.self, g))), nil
		}
		return do(kv.WithPatience(ctx, kv.ForAnother()), from, r, q), nil
	}
}
