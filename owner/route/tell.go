package route

import (
	"context"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/wire"
)

// Teller is what Tell needs of the WAN.
type Teller interface {
	Send(to base.NodeID, kind wire.Kind, m wan.Msg) error
	Call(ctx context.Context, to base.NodeID, kind wire.Kind, req, resp wan.Msg) error
}

// Tell has the gateways of transactions know that they are bound by a slot of a group (REL-17). It
// does so in the background, since its caller holds the group's mutex. What is lost on the way
// makes those transactions no worse than without it.
func Tell(spawn func(func(context.Context)), t Teller, self base.NodeID, g base.GroupID, slot base.Timestamp,
	bound []base.TxnID) {
	if len(bound) == 0 {
		return
	}
	spawn(func(ctx context.Context) {
		for _, id := range bound {
			q := &wire.BoundNotice{Group: uint32(g), Txn: id[:], Slot: uint64(slot)}
			if to := id.Gateway(); to != self {
				_ = t.Send(to, wire.KindBound, q)
			} else {
				_ = t.Call(ctx, to, wire.KindBound, q, nil)
			}
		}
	})
}
