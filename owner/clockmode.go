package owner

import (
	"context"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// ClockSteps are the mode in force as this replica knows it, and the steps that led to it, the
// oldest first.
func (r *Replica) ClockSteps() (now *wire.ClockOrder, steps []*wire.ClockOrder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rep.ClockStep(), r.rep.Clock
}

// OrderClock logs a step. The oracle has reached raise before it counts.
func (r *Replica) OrderClock(ctx context.Context, o *wire.ClockOrder, raise base.Timestamp) error {
	if err := r.enter(ctx, true, 0); err != nil {
		return err
	}
	term := r.lead.Term
	for raise >= r.lead.LeaseEnd.Prev() {
		r.mu.Unlock()
		r.stretch(raise)
		if err := r.enter(ctx, true, raise.Next()); err != nil {
			return err
		}
		if r.lead.Term != term {
			defer r.mu.Unlock()
			return r.notLeader()
		}
	}
	r.lead.Issued = max(r.lead.Issued, raise)
	r.mu.Unlock()
	r.clock.Learn(raise) // the order carries it, too
	out, err := r.proposeCommand(ctx, term, func(c *wire.Command) { c.Clock = o }, nil)
	if err == nil && out.State != wire.TxnState_COMMITTED {
		err = base.Errorf(base.CodeAborted, "the clock mode was changed by another leader of the meta group")
	}
	return err
}
