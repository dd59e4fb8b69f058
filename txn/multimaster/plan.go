package multimaster

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/collective"
	"github.com/godwitdb/godwit/policy/epoch"
	"github.com/godwitdb/godwit/policy/plan"
)

// links are what a member has reported of its paths.
type links struct {
	rtts   []uint32 // microseconds, by member, 0: unknown
	bytes  uint32   // of its batches of late
	uplink uint32   // kbit/s, 0: no limit is known
}

// planner is how rounds travel in the present view.
type planner struct {
	planning sync.Mutex // one plan at a time
	planned  time.Time  // when plans were last thought of
	paths    map[base.NodeID]links
	bytes    float64 // of own batches, smoothed
	keeper   *plan.Keeper
	inForce  *plan.Plan // the newest that rounds follow
	chosen   string     // the newest that this node has made for all
	next     []byte     // it, until a frame takes it along
}

// batchMemory is over how many epochs the size of batches is averaged.
const batchMemory = 32

// plan is what this node tells the others of its paths. The view's first member makes the plan of
// all of it, beside the rounds, and tells it with a frame. The caller holds mu.
func (e *Engine) plan(comm *collective.Comm, num uint64, now time.Time) (mine links) {
	members := e.place.View.Members
	if e.cfg.Plan != nil {
		if p := e.cfg.Plan(members); p != nil {
			e.follows(comm, p, num)
		}
		return mine
	}
	if e.cfg.RTT == nil {
		return mine
	}
	mine.rtts = make([]uint32, len(members))
	for i, n := range members {
		if n != e.cfg.Self {
			mine.rtts[i] = uint32(min(e.cfg.RTT(n).Microseconds(), 1<<31))
		}
	}
	mine.bytes = uint32(e.bytes)
	if e.cfg.Uplink != nil {
		mine.uplink = uint32(min(e.cfg.Uplink()/1e3, 1<<31))
	}
	e.paths[e.cfg.Self] = mine
	if members[0] != e.cfg.Self {
		return mine
	}
	if f := e.facts(members); f != nil {
		keeper, since := e.keeper, now.Sub(e.born)
		e.wg.Go(func() { e.planAnew(comm, members, keeper, since, f) })
	}
	return mine
}

// planAnew makes a plan if the facts have changed for long enough, and gives it to the next frame.
func (e *Engine) planAnew(comm *collective.Comm, members []base.NodeID, keeper *plan.Keeper, since time.Duration, f *plan.Facts) {
	e.planning.Lock()
	defer e.planning.Unlock()
	p, err := keeper.Observe(since, f)
	if err != nil || p == nil {
		return
	}
	text := describe(p, members)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.active && e.comm == comm && text != e.chosen {
		e.remember(Replan{At: time.Now(), View: e.place.View.Number, From: e.chosen, To: text, Planned: p.Makespan, Flat: p.Flat,
			Bytes: p.Cost.WANBytes, Messages: p.Cost.Messages})
		e.chosen, e.next = text, p.Encode()
	}
}

// maxReplans is how many decisions a node remembers, the newest.
const maxReplans = 64

// Replan is the decision that rounds travel in another way from then on.
type Replan struct {
	At       time.Time
	View     uint64
	From, To string // as Status has them; From is empty for the first plan of a view
	// Planned and Flat are what a round is predicted to take, so and directly; Bytes what it sends
	// between regions, in Messages.
	Planned, Flat time.Duration
	Bytes         float64
	Messages      int
}

// remember keeps a decision. The caller holds mu.
func (e *Engine) remember(r Replan) {
	if len(e.replans) == maxReplans {
		e.replans = slices.Delete(e.replans, 0, 1)
	}
	e.replans = append(e.replans, r)
}

// planLead is how many epochs after the one that tells it a plan holds, so that all members follow
// the same plan in every round. Whoever begins an epoch holds the one a window before; so everybody
// has begun that, and holds the one another window before, which told the plan.
const planLead = 2*window + 1

// adoptPlan takes a frame's plan. Call it in the order of epochs, before the epoch counts as held.
// The caller holds mu.
func (e *Engine) adoptPlan(f *epoch.Frame) {
	p, err := plan.Decode(f.Plan, len(e.place.View.Members))
	if err != nil {
		e.log.Warn("a plan cannot be followed", "err", err)
		return
	}
	e.follows(e.comm, p, f.Epoch+planLead)
}

func (e *Engine) follows(comm *collective.Comm, p *plan.Plan, from uint64) {
	if err := comm.SetPlan(p, from); err != nil {
		e.log.Warn("a plan does not fit", "err", err)
		return
	}
	e.inForce = p
}

// facts are the one-way delays among the members, their uplinks and the sizes of their batches, as
// they have reported; nil until all have. Sizes are rounded to powers of two: plans should not
// follow every wave of the load.
func (e *Engine) facts(members []base.NodeID) *plan.Facts {
	f := &plan.Facts{}
	some := false
	for i, n := range members {
		paths := e.paths[n]
		if len(paths.rtts) != len(members) {
			return nil
		}
		row := make([]time.Duration, len(members))
		for j, o := range members {
			us := paths.rtts[j]
			if back := e.paths[o].rtts; us == 0 && len(back) == len(members) {
				us = back[i]
			}
			if us == 0 && i != j {
				return nil
			}
			row[j] = time.Duration(us) * time.Microsecond / 2
		}
		f.Latency = append(f.Latency, row)
		some = some || paths.bytes > 0
		f.Region = append(f.Region, int(e.cfg.Region(n)))
		f.Uplink = append(f.Uplink, 1e3*float64(paths.uplink))
		f.Batch = append(f.Batch, 1<<bits.Len32(paths.bytes))
	}
	if !some { // plans for batches without bytes would soon be those of others
		return nil
	}
	return f
}

// describe draws a plan in one line: groups of nodes, aggregators with a star, then the relays of
// pairs that have any.
func describe(p *plan.Plan, members []base.NodeID) string {
	if p.Check(len(members)) != nil {
		return ""
	}
	var b strings.Builder
	for i, g := range p.Groups {
		if i > 0 {
			b.WriteByte(' ')
		}
		for k, m := range g.Members {
			if k > 0 {
				b.WriteByte('+')
			}
			fmt.Fprint(&b, members[m])
			if len(g.Members) > 1 && slices.Contains(g.Aggregators, m) {
				b.WriteByte('*')
			}
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(p.Routes), func(a, b [2]int) int { return slices.Compare(a[:], b[:]) }) {
		fmt.Fprintf(&b, " %d", members[k[0]])
		for _, r := range p.Routes[k] {
			fmt.Fprintf(&b, ">%d", members[r])
		}
		fmt.Fprintf(&b, ">%d", members[k[1]])
	}
	return b.String()
}
