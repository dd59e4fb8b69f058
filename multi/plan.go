package multi

import (
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/collective"
	"github.com/godwitdb/godwit/plan"
)

// plan has the rounds from one on follow a plan, and returns what this node tells the others for theirs. Members need not have
// the same plan. The caller holds mu; plans of many nodes are computed beside the rounds.
func (e *Engine) plan(comm *collective.Comm, num uint64, now time.Time) []uint32 {
	members := e.place.View.Members
	if e.cfg.Plan != nil {
		if p := e.cfg.Plan(members); p != nil {
			e.follows(comm, p, num)
		}
		return nil
	}
	if e.cfg.RTT == nil {
		return nil
	}
	mine := make([]uint32, len(members))
	for i, n := range members {
		if n != e.cfg.Self {
			mine[i] = uint32(min(e.cfg.RTT(n).Microseconds(), 1<<31))
		}
	}
	e.rtts[e.cfg.Self] = mine
	if f := e.facts(members); f != nil {
		keeper, since := e.keeper, now.Sub(e.born)
		e.wg.Go(func() {
			e.planning.Lock()
			defer e.planning.Unlock()
			p, err := keeper.Observe(since, f)
			if err != nil || p == nil {
				return
			}
			e.mu.Lock()
			defer e.mu.Unlock()
			if e.active && e.comm == comm {
				e.follows(comm, p, e.begun+1)
			}
		})
	}
	return mine
}

func (e *Engine) follows(comm *collective.Comm, p *plan.Plan, from uint64) {
	if err := comm.SetPlan(p, from); err != nil {
		e.log.Warn("a plan does not fit", "err", err)
	}
}

// facts are the one-way delays among the members, as far as they have told; nil while somebody has not.
func (e *Engine) facts(members []base.NodeID) *plan.Facts {
	f := &plan.Facts{}
	for i, n := range members {
		told := e.rtts[n]
		if len(told) != len(members) {
			return nil
		}
		row := make([]time.Duration, len(members))
		for j, o := range members {
			us := told[j]
			if back := e.rtts[o]; us == 0 && len(back) == len(members) {
				us = back[i]
			}
			if us == 0 && i != j {
				return nil
			}
			row[j] = time.Duration(us) * time.Microsecond / 2
		}
		f.Latency = append(f.Latency, row)
		f.Region = append(f.Region, int(e.cfg.Region(n)))
	}
	return f
}
