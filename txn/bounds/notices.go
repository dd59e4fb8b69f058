package bounds

import (
	"context"
	"sync/atomic"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/wire"
)

// Notices are what owners tell this node of its transactions.
type Notices struct {
	take atomic.Pointer[func(base.TxnID, base.GroupID, base.Timestamp)]
}

// Listen has a transport deliver notices, before it starts.
func Listen(t interface {
	Handle(kind wire.Kind, h wan.Handler)
}) *Notices {
	n := &Notices{}
	t.Handle(wire.KindBound, n.handle)
	return n
}

// To has a function take the notices from now on. Those that came before are lost.
func (n *Notices) To(take func(base.TxnID, base.GroupID, base.Timestamp)) { n.take.Store(&take) }

func (n *Notices) handle(_ context.Context, _ base.NodeID, body []byte) (wan.Msg, error) {
	var q wire.BoundNotice
	if err := q.UnmarshalVT(body); err != nil || len(q.Txn) != len(base.TxnID{}) {
		return nil, base.Errorf(base.CodeInvalid, "malformed notice of a slot that bounds a transaction: %v", err)
	}
	if take := n.take.Load(); take != nil {
		(*take)(base.TxnID(q.Txn), base.GroupID(q.Group), base.Timestamp(q.Slot))
	}
	return nil, nil
}
