package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/policy/leader"
	"github.com/godwitdb/godwit/policy/placement"
)

// This file moves leads on command and at the end of a node's life, and shows what was decided.

// PathLeader moves or pins the lead of a group: POST LeaderRequest.
const PathLeader = "/cluster/leader"

// LeaderRequest asks for the lead of a group to be moved to a node; with Pin it also stays there,
// and with node 0 no longer.
type LeaderRequest struct {
	Group string      `json:"group"`
	Node  base.NodeID `json:"node"`
	Pin   bool        `json:"pin"`
}

const (
	askLeaders     = "leaders"
	askLeaderMoves = "leader moves"
	askHand        = "hand the lead"
)

type handQuery struct {
	Group base.GroupID `json:"group"`
	To    base.NodeID  `json:"to"`
}

// movePoll is the pause between attempts of MoveLeader, drainPoll between looks of Drain.
const (
	moveLeadTimeout = 10 * time.Second
	movePoll        = 100 * time.Millisecond
	drainPoll       = 10 * time.Millisecond
)

// CanLead says why a node cannot lead a group: there is no such group or node, or it does not vote
// there. A node of 0 stands for any.
func (c *leaderControl) CanLead(g base.GroupID, node base.NodeID) error {
	t := c.Topology()
	if !slices.Contains(t.Groups(), g) {
		return base.Errorf(base.CodeInvalid, "there is no group %v: SELECT name FROM godwit.groups lists them", g)
	}
	if node == 0 {
		return nil
	}
	if n := t.Node(node); n == nil || n.Gone {
		return base.Errorf(base.CodeInvalid, "there is no node %d: godwit status lists them", node)
	}
	if voters, _ := placement.Members(t, g); !slices.Contains(voters, node) {
		return base.Errorf(base.CodeInvalid, "node %d does not vote in group %v and cannot lead it; nodes that do: %s",
			node, g, strings.Trim(fmt.Sprint(voters), "[]"))
	}
	return nil
}

// MoveLeader has a group's leader hand its lead to a node, and waits until that leads.
func (c *leaderControl) MoveLeader(ctx context.Context, g base.GroupID, to base.NodeID) error {
	if err := c.CanLead(g, to); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, moveLeadTimeout)
	defer cancel()
	for {
		at := c.Leader(g)
		if at == to {
			return nil
		}
		var err error
		if at == c.self {
			err = c.handLead(handQuery{g, to})
		} else {
			_, err = question[bool](ctx, c.env, at, askHand, handQuery{g, to})
		}
		if base.CodeOf(err) == base.CodeInvalid {
			return err
		}
		select {
		case <-ctx.Done():
			return base.Errorf(base.CodeUnavailable, "group %v is still led by node %d: %v", g, c.Leader(g), err)
		case <-time.After(movePoll):
		}
	}
}

func (c *leaderControl) handLead(q handQuery) error {
	g := c.groups.Group(q.Group)
	if g == nil {
		return base.Errorf(base.CodeNotLeader, "node %d has no replica of group %v", c.self, q.Group)
	}
	if err := g.Transfer(q.To); err != nil {
		return err
	}
	m := &LeaderMove{At: time.Now(), Group: q.Group, From: c.self, To: q.To, Reason: "ordered"}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remember(m)
	if l := c.leaderships[q.Group]; l != nil {
		l.hand.ordered(m)
	}
	return nil
}

// Drain hands the groups led here to others, so that they need not wait for this node's leases to
// end once it has stopped, and has all others know that this node is to lead nothing. It takes as
// long as a few commits, and gives up when ctx ends.
func (c *Cluster) Drain(ctx context.Context) {
	c.selfCheck.die()
	c.handAll(ctx, c.peers.longest()+2*c.pace.HeartbeatEvery)
}

// handAll hands over all that is led here. Until the others know better, which takes them settle,
// what was handed over may come back.
func (c *leaderControl) handAll(ctx context.Context, settle time.Duration) {
	begin, handed := time.Now(), false
	for {
		left := 0
		for _, id := range c.groups.Held() {
			g := c.groups.Group(id)
			if g == nil {
				continue
			}
			if _, leads := g.Leads(); !leads {
				continue
			}
			st := g.Status()
			if st.Transfer != 0 {
				left++
				continue
			}
			if to := c.successor(st); to != 0 && g.Transfer(to) == nil {
				left++
			}
		}
		handed = handed || left > 0
		if left == 0 && (!handed || time.Since(begin) > settle) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(drainPoll):
		}
	}
}

// successor is the voter to hand a lead to: one that is alive and keeps up, of this region if there
// is one, then the nearest. One that is well again, and not trusted yet, is better than none.
func (c *leaderControl) successor(st group.Status) (best base.NodeID) {
	t := c.Topology()
	const untrusted = time.Hour
	rank := func(n base.NodeID) (d time.Duration) {
		if c.ailing(n) {
			d = untrusted
		}
		if t.RegionOf(n) == t.RegionOf(c.self) {
			return d
		}
		return d + c.RTT(n) + 1
	}
	for _, n := range st.Voters {
		if p := st.Progress[n]; n != c.self && !c.sick(n) && p.Active && p.State == "replicate" &&
			c.peers.silence(n) < c.pace.SilentAfter && (best == 0 || rank(n) < rank(best)) {
			best = n
		}
	}
	return best
}

// leave hands the lead of a group to another node, because this one is sick; unless most voters
// are. A node that is well again and not trusted yet does not count as sick.
func (c *leaderControl) leave(g base.GroupID, grp Group) {
	st := grp.Status()
	sick := 0
	for _, n := range st.Voters {
		if c.sick(n) {
			sick++
		}
	}
	if !st.IsLeader || st.Transfer != 0 || 2*sick > len(st.Voters) {
		return
	}
	to := c.successor(st)
	if to == 0 {
		return
	}
	m := &LeaderMove{At: time.Now(), Group: g, From: c.self, To: to, Reason: "sick"}
	if err := grp.Transfer(to); err != nil {
		c.log.Warn("the lead cannot be handed over yet, though this node is sick", "group", g.String(), "to", to, "err", err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remember(m)
	if l := c.leaderships[g]; l != nil {
		l.hand.ordered(m)
	}
}

// LeaderMove is one decision to move a lead.
type LeaderMove struct {
	At     time.Time     `json:"at"`
	Group  base.GroupID  `json:"group"`
	From   base.NodeID   `json:"from"`
	To     base.NodeID   `json:"to"`
	Reason string        `json:"reason"`
	Gain   time.Duration `json:"gain"`
	Window int           `json:"window"`
	// ms that an average request would save, by node
	Utilities map[string]float64 `json:"utilities"`
	Dry       bool               `json:"dry"`
	Took      time.Duration      `json:"took"` // until this node led no more; 0: it still does
	Error     string             `json:"error"`
}

// LeaderRow is how one node would do as leader of a group.
type LeaderRow struct {
	Group     base.GroupID    `json:"group"`
	Leader    base.NodeID     `json:"leader"`
	Free      bool            `json:"free"`
	Pinned    bool            `json:"pinned"`
	Standing  leader.Standing `json:"standing"`
	Requests  float64         `json:"requests"` // a second
	Writes    float64         `json:"writes"`
	Reason    string          `json:"reason"`
	Window    int             `json:"window"`
	Seen      int             `json:"seen"`
	HoldDown  int             `json:"hold_down"`
	Preferred bool            `json:"preferred"`
}

// LeaderRows are the standings in the groups led here.
func (c *leaderControl) LeaderRows() (out []LeaderRow) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for g, l := range c.leaderships {
		st := l.policy.State()
		if l.facts.Leader == 0 {
			continue
		}
		for i, s := range l.dec.Standings {
			n := l.facts.Nodes[i]
			out = append(out, LeaderRow{Group: g, Leader: c.self, Free: c.free(g, l), Pinned: c.pins[g] == s.Node, Standing: s,
				Requests: n.Requests / leaderBeat.Seconds(), Writes: n.Writes / leaderBeat.Seconds(),
				Reason: string(l.dec.Reason),
				Window: st.Window, Seen: st.Seen, HoldDown: st.HoldDown, Preferred: c.Preferred(g) == s.Node})
		}
	}
	slices.SortFunc(out, func(a, b LeaderRow) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Standing.Node, b.Standing.Node))
	})
	return out
}

// LeaderMoves are the newest decisions of this node to move a lead, the oldest first.
func (c *leaderControl) LeaderMoves() (out []LeaderMove) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.moves {
		out = append(out, *m)
	}
	return out
}

// AllLeaderRows are the standings in all groups, as the nodes that can be reached say.
func (c *leaderControl) AllLeaderRows(ctx context.Context) []LeaderRow {
	out := askAll(ctx, c.env, askLeaders, c.LeaderRows())
	slices.SortFunc(out, func(a, b LeaderRow) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Standing.Node, b.Standing.Node))
	})
	return out
}

// AllLeaderMoves are the newest decisions of all nodes that can be reached, the oldest first.
func (c *leaderControl) AllLeaderMoves(ctx context.Context) []LeaderMove {
	out := askAll(ctx, c.env, askLeaderMoves, c.LeaderMoves())
	slices.SortFunc(out, func(a, b LeaderMove) int { return a.At.Compare(b.At) })
	return out
}
