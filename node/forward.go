package node

import (
	"context"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/wire"
)

// forwarder carries statements to the gateways of other regions; it implements server.Forwarder.
type forwarder struct{ n *Node }

// Forward implements server.Forwarder. The request ends with the failure detector, and when another
// node has led the group that settles the statement for a while: there is no other bound, since an
// executor that lives may wait for locks.
func (f forwarder) Forward(ctx context.Context, to base.NodeID, first base.Key, q *wire.ForwardRequest) (*wire.ForwardResponse,
	bool, error) {
	n := f.n
	name, g, ok := n.db.NameStatement(first)
	if !ok {
		return nil, false, base.Errorf(base.CodeUnavailable, "the owner of the statement's rows is not known any more")
	}
	q.Id, q.Group, q.Now = name[:], uint32(g), uint64(n.clock.Now())
	resp := new(wire.ForwardResponse)
	err := n.db.WhileLed(ctx, g, to, func(ctx context.Context) error {
		return n.trans.Call(ctx, to, wire.KindForward, q, resp)
	})
	if err != nil {
		return nil, !wan.NeverRan(err), err
	}
	if err := n.clock.Observe(base.Timestamp(resp.Now)); err != nil {
		n.log.Warn("the clock of the node that executed a statement is too far off", "node", to, "err", err)
	}
	if resp.Status == nil {
		n.stats.Forwarded.Add(1)
	}
	return resp, true, nil
}

// Settle implements server.Forwarder.
func (f forwarder) Settle(ctx context.Context, q *wire.ForwardRequest, sent time.Time, why error) (*wire.ForwardResponse,
	error) {
	got, err := f.n.db.Settle(ctx, base.TxnID(q.Id), base.GroupID(q.Group), sent, why)
	if err != nil || !got.Committed {
		return nil, err
	}
	resp := new(wire.ForwardResponse)
	if err := resp.UnmarshalVT(got.Answer); err != nil {
		return nil, err
	}
	resp.Committed, resp.Ts = 1, uint64(got.TS)
	f.n.stats.Forwarded.Add(1)
	return resp, nil
}

// executeForwarded answers the forwarders of other nodes.
//
// What another node says of a statement's user is believed: the transport knows which node it is,
// and that node has checked the password. A node that was taken out of the cluster still gives its
// replicas away, but its statements are not believed any more.
func (n *Node) executeForwarded(ctx context.Context, from base.NodeID, body []byte) (wan.Msg, error) {
	if x := n.cluster.Topology().Node(from); x != nil && x.Gone {
		return nil, base.Errorf(base.CodeInvalid, "node %d was decommissioned: its statements are not executed", from)
	}
	q := new(wire.ForwardRequest)
	if err := q.UnmarshalVT(body); err != nil {
		return nil, err
	}
	if err := n.clock.Observe(base.Timestamp(q.Now)); err != nil {
		return nil, err
	}
	resp := &wire.ForwardResponse{Status: &wire.Status{Code: uint32(base.CodeUnavailable), Msg: "SQL is not served yet",
		Node: uint32(n.ID())}}
	if srv, err := n.server(); err == nil {
		if resp = srv.Execute(ctx, q); resp.Status == nil {
			n.stats.Executed.Add(1)
		}
	}
	resp.Now = uint64(n.clock.Now())
	return resp, nil
}
