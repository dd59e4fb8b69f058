package bounds

import (
	"context"
	"sync"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/wire"
)

// Notices take down what owners tell this node of its transactions. Nil, they know of none.
type Notices struct {
	mu sync.Mutex
	of map[base.TxnID]*Bounds
}

// Listen has a transport deliver notices, before it starts.
func Listen(t interface {
	Handle(kind wire.Kind, h wan.Handler)
}) *Notices {
	n := &Notices{of: map[base.TxnID]*Bounds{}}
	t.Handle(wire.KindBound, n.handle)
	return n
}

// Know has the notices of a transaction taken down, until Forget.
func (n *Notices) Know(id base.TxnID, b *Bounds) {
	if n != nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.of[id] = b
	}
}

// Forget ends what Know has begun, if it has.
func (n *Notices) Forget(id base.TxnID) {
	if n != nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.of, id)
	}
}

func (n *Notices) handle(_ context.Context, _ base.NodeID, body []byte) (wan.Msg, error) {
	var q wire.BoundNotice
	if err := q.UnmarshalVT(body); err != nil || len(q.Txn) != len(base.TxnID{}) {
		return nil, base.Errorf(base.CodeInvalid, "malformed notice of a slot that bounds a transaction: %v", err)
	}
	n.mu.Lock()
	b := n.of[base.TxnID(q.Txn)]
	n.mu.Unlock()
	if b != nil {
		b.Add(base.GroupID(q.Group), base.Timestamp(q.Slot))
	}
	return nil, nil
}
