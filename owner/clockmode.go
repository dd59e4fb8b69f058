package owner

import (
	"context"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/clock"
	"github.com/godwitdb/godwit/store"
	"github.com/godwitdb/godwit/wire"
)

// The clock mode in force is replicated state of the meta group: an entry of its log without a timestamp, not a row, so
// that a leader whose own clock is of no use can order the mode that needs none.

// clockState is the name of the record of the steps.
const clockState = "clock"

// maxClockOrders steps are remembered.
const maxClockOrders = 64

// applyClock takes a step if it follows the one in force.
func (r *Replica) applyClock(b *store.Batch, o *wire.ClockOrder) (any, error) {
	steps := r.rep.clock
	if o.Epoch != newestClock(steps).Epoch+1 {
		return outcome{state: wire.TxnState_ABORTED}, nil
	}
	steps = append(steps[:len(steps):len(steps)], o)
	if n := len(steps) - maxClockOrders; n > 0 {
		steps = steps[n:]
	}
	r.rep.clock = steps
	val, err := (&wire.ClockOrders{Orders: steps}).MarshalVT()
	if err != nil {
		return nil, err
	}
	b.SetState(r.id, clockState, val)
	return outcome{state: wire.TxnState_COMMITTED}, nil
}

func (r *Replica) loadClock() ([]*wire.ClockOrder, error) {
	b, ok, err := r.store.GetState(r.id, clockState)
	if err != nil || !ok {
		return nil, err
	}
	var o wire.ClockOrders
	if err := o.UnmarshalVT(b); err != nil {
		return nil, base.Errorf(base.CodeCorrupt, "group %v: the record of the clock mode is damaged: restore this replica from the others", r.id)
	}
	return o.Orders, nil
}

// newestClock is the step in force: a cluster begins in GClock mode.
func newestClock(steps []*wire.ClockOrder) *wire.ClockOrder {
	if len(steps) == 0 {
		return &wire.ClockOrder{Mode: uint32(clock.GClock), Target: uint32(clock.GClock), Epoch: 1}
	}
	return steps[len(steps)-1]
}

// ClockSteps are the mode in force as this replica knows it, and the steps that led to it, the oldest first.
func (r *Replica) ClockSteps() (now *wire.ClockOrder, steps []*wire.ClockOrder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return newestClock(r.rep.clock), r.rep.clock
}

// OrderClock logs a step. The oracle has reached raise before it counts.
func (r *Replica) OrderClock(ctx context.Context, o *wire.ClockOrder, raise base.Timestamp) error {
	if err := r.enter(ctx, true, 0); err != nil {
		return err
	}
	term := r.lead.term
	for raise >= r.lead.leaseEnd.Prev() {
		r.mu.Unlock()
		r.stretch(raise)
		if err := r.enter(ctx, true, raise.Next()); err != nil {
			return err
		}
		if r.lead.term != term {
			defer r.mu.Unlock()
			return r.notLeader()
		}
	}
	r.lead.issued = max(r.lead.issued, raise)
	r.mu.Unlock()
	r.clock.Learn(raise) // told with the order
	out, err := r.proposeCommand(ctx, term, func(c *wire.Command) { c.Clock = o }, nil)
	if err == nil && out.state != wire.TxnState_COMMITTED {
		err = base.Errorf(base.CodeAborted, "the clock mode was changed by another leader of the meta group")
	}
	return err
}
