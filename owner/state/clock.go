package state

import (
	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/wire"
)

// The clock mode in force is replicated state of the meta group: an entry of its log without a
// timestamp, not a row, so that a leader whose own clock is of no use can order the mode that needs
// none.

// clockName is the name of the record of the steps.
const clockName = "clock"

// MaxClockOrders is how many steps of the clock mode are remembered.
const MaxClockOrders = 64

// applyClock takes a step if it follows the one in force.
func (s *State) applyClock(of *Group, b *store.Batch, o *wire.ClockOrder) (any, error) {
	if o.Epoch != s.ClockStep().Epoch+1 {
		return Outcome{State: wire.TxnState_ABORTED}, nil
	}
	steps := append(s.Clock[:len(s.Clock):len(s.Clock)], o)
	if n := len(steps) - MaxClockOrders; n > 0 {
		steps = steps[n:]
	}
	s.Clock = steps
	val, err := (&wire.ClockOrders{Orders: steps}).MarshalVT()
	if err != nil {
		return nil, err
	}
	b.SetState(of.ID, clockName, val)
	return Outcome{State: wire.TxnState_COMMITTED}, nil
}

func loadClock(of *Group) ([]*wire.ClockOrder, error) {
	b, ok, err := of.Store.GetState(of.ID, clockName)
	if err != nil || !ok {
		return nil, err
	}
	var o wire.ClockOrders
	if err := o.UnmarshalVT(b); err != nil {
		return nil, base.Errorf(base.CodeCorrupt, "group %v: the record of the clock mode is damaged: "+
			"restore this replica from the others", of.ID)
	}
	return o.Orders, nil
}

// ClockStep is the step in force: a cluster begins in GClock mode.
func (s *State) ClockStep() *wire.ClockOrder {
	if len(s.Clock) == 0 {
		return &wire.ClockOrder{Mode: uint32(clock.GClock), Target: uint32(clock.GClock), Epoch: 1}
	}
	return s.Clock[len(s.Clock)-1]
}
