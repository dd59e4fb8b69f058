package sim

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wan"
	"github.com/godwitdb/godwit/wire"
)

// slowed is a transport of a node that may be slow: whatever arrives waits
// before it is handled, in order where order is promised.
type slowed struct {
	wan.Transport
	by *atomic.Int64 // ns
}

func (s slowed) Handle(kind wire.Kind, h wan.Handler) {
	s.Transport.Handle(kind, func(ctx context.Context, from base.NodeID, body []byte) (wan.Msg, error) {
		time.Sleep(time.Duration(s.by.Load()))
		return h(ctx, from, body)
	})
}

func (s slowed) HandleOrdered(kind wire.Kind, h func(from base.NodeID, body []byte)) {
	s.Transport.HandleOrdered(kind, func(from base.NodeID, body []byte) {
		time.Sleep(time.Duration(s.by.Load()))
		h(from, body)
	})
}
