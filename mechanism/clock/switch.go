package clock

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/godwitdb/godwit/base"
)

// Policy is what the operator wants.
type Policy struct {
	Mode     Setting
	MaxBound time.Duration // a node whose bound is larger does not issue by its own clock
	// how long all bounds must have been good before the cluster returns to GClock by itself
	Recovery time.Duration
}

// Setting of the mode.
type Setting string

// The settings.
const (
	Auto       Setting = "auto"
	WantGTM    Setting = "gtm"
	WantGClock Setting = "gclock"
)

// DefaultPolicy goes by the clocks.
func DefaultPolicy() Policy {
	return Policy{Mode: Auto, MaxBound: 250 * time.Millisecond, Recovery: 3 * time.Second}
}

// Validate says what is wrong with a policy.
func (p Policy) Validate() error {
	switch {
	case p.Mode != Auto && p.Mode != WantGTM && p.Mode != WantGClock:
		return fmt.Errorf("clock.mode is %q; it must be auto, gtm or gclock", string(p.Mode))
	case p.MaxBound < time.Millisecond || p.MaxBound > 10*time.Second:
		return fmt.Errorf("clock.max_bound is %s; it must be 1ms to 10s", p.MaxBound)
	case p.Recovery < 0 || p.Recovery > 24*time.Hour:
		return fmt.Errorf("clock.recovery is %s; it must be 0s to 24h", p.Recovery)
	}
	return nil
}

// NodeFacts is what the leader of the meta group knows of one node. Times are of the leader's
// monotonic clock.
type NodeFacts struct {
	Node base.NodeID
	// Live: the node may still have the right to issue; a lapsed one has not, and hears of the
	// order in force before it gets it back.
	Live     bool
	Voter    bool      // of the meta group
	Heard    time.Time // when its newest word came; the rest is from that
	Mode     Mode
	Epoch    uint64
	Earliest base.Timestamp
	Latest   base.Timestamp // about what it is now
	Seen     base.Timestamp // at or above all it acknowledged
	Bound    time.Duration
	Fenced   bool
	Unsure   bool // it cannot tell who of two is wrong
}

// bad reports why a node's clock is not fit for GClock mode.
func (n *NodeFacts) bad(limit time.Duration) string {
	switch {
	case n.Fenced:
		return fmt.Sprintf("node %d is fenced: its clock disagrees with most others", n.Node)
	case n.Unsure:
		return fmt.Sprintf("node %d's clock and another one cannot both be right", n.Node)
	case n.Bound > limit:
		return fmt.Sprintf("node %d's bound is %s, over the limit of %s", n.Node, n.Bound.Round(time.Microsecond), limit)
	}
	return ""
}

// Facts are what a decision is made from.
type Facts struct {
	Now    time.Time
	Mode   Mode // ordered, by the log of the meta group
	Epoch  uint64
	Policy Policy
	Nodes  []NodeFacts
	Oracle base.Timestamp // newest issued
	// Lease is how long a node may act by what it was told last.
	Lease time.Duration
}

// Order is what to log next; Mode None is nothing. Where Blocked is set, something is wanted and
// cannot be done now.
type Order struct {
	Mode    Mode
	Target  Mode
	Reason  string
	Raise   base.Timestamp // the oracle must have reached this first
	Blocked string
}

// Switch decides on the mode of a cluster, at the leader of the meta group. It remembers only what
// may be forgotten: a successor begins to count anew, on the safe side.
type Switch struct {
	goodSince time.Time // zero: some clock is bad
	relapses  int       // how often in a row some clock turned bad soon after all had been good again
	epoch     uint64    // of what follows
	began     time.Time // when it was first looked at: nobody is told of an earlier one since
	lapsed    map[base.NodeID]bool
	acked     time.Time // when all had taken over DUAL, or lapsed
	mark      base.Timestamp
	widest    time.Duration // bound seen while in DUAL
}

// slack is how far the oracle may be ahead of the clocks when DUAL begins: commits wait for the
// clocks to catch up.
const slack = 50 * time.Millisecond

// Decide looks at the facts. It is to be called regularly.
func (s *Switch) Decide(f *Facts) Order {
	if f.Epoch != s.epoch {
		s.epoch, s.lapsed, s.acked, s.mark, s.widest = f.Epoch, map[base.NodeID]bool{}, time.Time{}, 0, 0
		s.began = f.Now
	}
	want, why, bad := s.want(f)
	switch f.Mode {
	case GClock:
		if want == GTM {
			return Order{Mode: Dual, Target: GTM, Reason: why}
		}
	case GTM:
		if want != GClock {
			return Order{}
		}
		if bad != "" {
			return Order{Blocked: bad}
		}
		for i := range f.Nodes {
			if n := &f.Nodes[i]; n.Live && n.Mode != None && f.Oracle > n.Latest.Add(slack+2*n.Bound) {
				return Order{Blocked: fmt.Sprintf("the oracle is %s ahead of node %d's clock, which catches up",
					f.Oracle.Sub(n.Latest).Round(time.Millisecond), n.Node)}
			}
		}
		return Order{Mode: Dual, Target: GClock, Reason: why}
	case Dual:
		return s.leaveDual(f, want, why, bad)
	}
	return Order{}
}

// judge says what stands against GClock, and notes since when nothing does.
func (s *Switch) judge(f *Facts) (bad string) {
	known := false
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if !n.Live || n.Heard.IsZero() {
			continue
		}
		known = true
		if b := n.bad(f.Policy.MaxBound); b != "" && bad == "" {
			bad = b
		}
	}
	if bad != "" && !s.goodSince.IsZero() {
		if f.Now.Sub(s.goodSince) < s.recovery(&f.Policy)+relapseWithin {
			s.relapses++
		} else {
			s.relapses = 0
		}
	}
	if bad != "" || !known {
		s.goodSince = time.Time{}
	} else if s.goodSince.IsZero() {
		s.goodSince = f.Now
	}
	return bad
}

// A clock that turns bad within relapseWithin of the return to GClock mode has all wait for twice
// as long the next time, maxRelapses times at most: changes of the mode cost more than trips to the
// oracle.
const relapseWithin, maxRelapses = 8 * time.Second, 5

// recovery is for how long all clocks must have been good.
func (s *Switch) recovery(p *Policy) time.Duration {
	return p.Recovery << min(s.relapses, maxRelapses)
}

// want is the mode to be in, why, and what stands against GClock.
func (s *Switch) want(f *Facts) (want Mode, why, bad string) {
	bad = s.judge(f)
	switch f.Policy.Mode {
	case WantGTM:
		return GTM, "clock.mode is gtm", bad
	case WantGClock:
		return GClock, "clock.mode is gclock", bad
	}
	switch {
	case bad != "":
		return GTM, bad, bad
	case f.Mode == GClock:
		return GClock, "", ""
	case !s.goodSince.IsZero() && f.Now.Sub(s.goodSince) >= s.recovery(&f.Policy):
		return GClock, fmt.Sprintf("all bounds have been within %s for %s", f.Policy.MaxBound, s.recovery(&f.Policy)), ""
	case f.Mode == Dual:
		return None, "", "" // on the way to somewhere: go on
	}
	return GTM, "the clocks have not been good for long enough", ""
}

// leaveDual ends DUAL mode when every node is in it: towards GTM once the oracle is above all that
// was acknowledged by clocks alone, towards GClock once every clock is above all that was
// acknowledged by the oracle alone (MODE-3).
func (s *Switch) leaveDual(f *Facts, want Mode, why, bad string) Order {
	if missing := s.notInDual(f); len(missing) > 0 {
		return Order{Blocked: "waiting for node " + strings.Join(missing, ", ") + " to take over mode dual"}
	}
	if s.acked.IsZero() {
		s.acked, s.mark = f.Now, f.Oracle
	}
	if want == None {
		want, why = GTM, "the clocks are not known to be good"
		if bad == "" {
			want, why = GClock, "all bounds are good"
		}
	}
	if want == GClock {
		if bad != "" {
			return Order{Blocked: bad}
		}
		// The wait is twice the largest bound, as in the paper, so that every clock has passed the
		// mark. Bounds over the limit do not count: no node goes by them.
		if d := s.acked.Add(2 * s.widest).Sub(f.Now); d > 0 {
			return Order{Blocked: fmt.Sprintf("waiting twice the largest bound seen, %s", 2*s.widest)}
		}
	}
	raise, blocked := s.confirmed(f, want)
	if blocked != "" {
		return Order{Blocked: blocked}
	}
	return Order{Mode: want, Target: want, Reason: why, Raise: raise}
}

// notInDual are the nodes that have neither taken over DUAL nor lapsed. It notes who has lapsed,
// and the widest bound of the others. A process that knew of no mode when it was heard last may be
// told of an earlier one by what was sent before, and act by that for a lease (MODE-1c).
func (s *Switch) notInDual(f *Facts) (missing []string) {
	for i := range f.Nodes {
		n := &f.Nodes[i]
		switch {
		case !n.Live:
			s.lapsed[n.Node] = true
		case n.Mode == Dual && n.Epoch == f.Epoch,
			n.Mode == None && !n.Heard.IsZero() && f.Now.Sub(s.began) >= Stretched(f.Lease):
			s.widest = max(s.widest, min(n.Bound, f.Policy.MaxBound))
		case !s.lapsed[n.Node]:
			missing = append(missing, fmt.Sprint(n.Node))
		}
	}
	slices.Sort(missing)
	return missing
}

// confirmed looks at what every live node has said since all were in DUAL. raise is what the oracle
// must be above before it may issue alone. blocked says what is still waited for.
func (s *Switch) confirmed(f *Facts, want Mode) (raise base.Timestamp, blocked string) {
	heard := 0
	for i := range f.Nodes {
		n := &f.Nodes[i]
		switch {
		case !n.Live || n.Mode == None:
			continue
		case !n.Heard.After(s.acked):
			return 0, fmt.Sprintf("waiting for node %d's next word", n.Node)
		case want == GTM:
			raise = max(raise, n.Seen)
		case n.Earliest <= s.mark:
			return 0, fmt.Sprintf("waiting for node %d's clock to pass what the oracle issued", n.Node)
		}
		heard++
	}
	if heard == 0 {
		return 0, "waiting for any node's word"
	}
	if want == GTM {
		return f.contain(raise)
	}
	return 0, ""
}

// contain keeps what the oracle is to be raised to within what most voters' clocks allow (MODE-10):
// at least the upper bound that a majority of them has reached, at most maxAhead more.
func (f *Facts) contain(raise base.Timestamp) (to base.Timestamp, blocked string) {
	var uppers []base.Timestamp
	voters := 0
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if !n.Voter {
			continue
		}
		voters++
		if n.Live && !n.Heard.IsZero() {
			// As much of the bound as the node would go by.
			uppers = append(uppers, n.Latest.Add(-2*max(0, n.Bound-f.Policy.MaxBound)))
		}
	}
	k := voters/2 + 1
	if len(uppers) < k {
		return 0, "waiting for the word of most voters of the meta group"
	}
	slices.Sort(uppers)
	least := uppers[len(uppers)-k]
	return max(least, min(raise, least.Add(maxAhead))), ""
}
