package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/group"
	"github.com/godwitdb/godwit/leader"
	"github.com/godwitdb/godwit/owner"
)

// Who leads a group is decided by its present leader, from what it counts and what pulses tell, once in leaderBeat. Rows and leaders
// do not chase each other: where the policy of homes may move rows, each goes to the region that uses it, and
// groups are led from their homes. Groups follow their load where it may not: with home.mode = never, and where nearly all that a group is
// asked for are rows of tables that are homed as a whole.

// leaderBeat is a heartbeat of the policy: GeoLM's, and the unit of its windows.
const leaderBeat = 200 * time.Millisecond

const (
	maxLeaderMoves = 256
	leastLoad      = 0.1 // requests a beat below which a group counts as idle
	handTries      = 10  // beats in which a hand-over is tried: a follower may just not have answered
	wholeShare     = .99 // of a group's requests: with that many for tables homed as a whole it follows its load
	wholeBeats     = 10  // so long a leader away from home finds out whether it is to be there
)

// LeaderParams are the settings leader.*.
type LeaderParams struct {
	Mode         string  `json:"mode"` // on, off, dry_run
	Window       int     `json:"window"`
	MaxWindow    int     `json:"max_window"`
	HoldDown     int     `json:"hold_down"`
	MinGainMs    float64 `json:"min_gain_ms"`
	MinGainShare float64 `json:"min_gain_share"`
	Commit       string  `json:"commit"`
	Load         string  `json:"load"`
	MayLead      string  `json:"may_lead"` // regions, with commas; empty: all
	Pin          string  `json:"pin"`      // GROUP=NODE, with blanks
}

// DefaultLeaderParams are the settings' defaults.
func DefaultLeaderParams() LeaderParams {
	return LeaderParams{Mode: "on", Window: 40, MaxWindow: 640, HoldDown: 10, MinGainMs: 1, MinGainShare: .05, Commit: string(leader.Quorum), Load: string(leader.Measured)}
}

func (p *LeaderParams) policy() leader.Params {
	return leader.Params{Window: p.Window, MaxWindow: p.MaxWindow, HoldDown: p.HoldDown, MinGain: time.Duration(p.MinGainMs * float64(time.Millisecond)),
		MinGainShare: p.MinGainShare, Commit: leader.Commit(p.Commit), Load: leader.Load(p.Load)}
}

// Validate reports every bad setting.
func (p *LeaderParams) Validate() error {
	var errs []error
	if p.Mode != "on" && p.Mode != "off" && p.Mode != "dry_run" {
		errs = append(errs, base.Errorf(base.CodeInvalid, "leader.mode is %q; it must be on, off or dry_run", p.Mode))
	}
	if _, err := leader.New(p.policy()); err != nil {
		errs = append(errs, err)
	}
	if _, err := ParsePins(p.Pin); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// ParsePins reads "s1@r2=5 meta=1": groups and the nodes that are to lead them.
func ParsePins(s string) (map[base.GroupID]base.NodeID, error) {
	out := map[base.GroupID]base.NodeID{}
	for _, f := range strings.Fields(s) {
		name, node, ok := strings.Cut(f, "=")
		g, err := ParseGroup(name)
		n, err2 := strconv.ParseUint(node, 10, 16)
		if !ok || err != nil || err2 != nil || n == 0 {
			return nil, base.Errorf(base.CodeInvalid, "leader.pin: %q is not GROUP=NODE, like s1@r2=5", f)
		}
		out[g] = base.NodeID(n)
	}
	return out, nil
}

// FormatPins is the other way round.
func FormatPins(pins map[base.GroupID]base.NodeID) string {
	var out []string
	for g, n := range pins {
		out = append(out, fmt.Sprintf("%v=%d", g, n))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// ParseGroup reads a group's name: meta, or SHARD@REGION as in s1@r2.
func ParseGroup(s string) (base.GroupID, error) {
	if s == base.MetaGroup.String() {
		return base.MetaGroup, nil
	}
	a, b, ok := strings.Cut(s, "@")
	shard, err := strconv.ParseUint(strings.TrimPrefix(a, "s"), 10, 16)
	region, err2 := strconv.ParseUint(strings.TrimPrefix(b, "r"), 10, 8)
	if !ok || err != nil || err2 != nil || shard == 0 || region == 0 || region > base.MaxRegions {
		return 0, base.Errorf(base.CodeInvalid, "%q is not a group: meta, or like s1@r2 (SELECT name FROM godwit.groups)", s)
	}
	return base.DataGroup(base.ShardID(shard), base.RegionID(region)), nil
}

// leaders is the controller of one node.
type leaders struct {
	mu     sync.Mutex
	p      LeaderParams
	pins   map[base.GroupID]base.NodeID
	groups map[base.GroupID]*led
	moves  []*LeaderMove // newest last
}

// led is a group that this node leads.
type led struct {
	pol    *leader.Policy
	meters map[base.NodeID]*leader.Meter
	seen   map[owner.Asker]owner.Load
	facts  leader.Facts
	dec    leader.Decision
	mean   map[base.NodeID]float64 // of the utilities, over about a window, in ns
	kinds  leader.Meter            // of the requests, and those for tables homed as a whole
	whole  bool                    // that is nearly all
	beats  int
	to     base.NodeID // to be handed over to
	tries  int
	move   *LeaderMove // what is being carried out
}

// LeaderMove is one decision to move a lead.
type LeaderMove struct {
	At        time.Time          `json:"at"`
	Group     base.GroupID       `json:"group"`
	From      base.NodeID        `json:"from"`
	To        base.NodeID        `json:"to"`
	Reason    string             `json:"reason"`
	Gain      time.Duration      `json:"gain"`
	Window    int                `json:"window"`
	Utilities map[string]float64 `json:"utilities"` // ms that an average request would save, by node
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

func newLeaders() *leaders {
	return &leaders{p: DefaultLeaderParams(), pins: map[base.GroupID]base.NodeID{}, groups: map[base.GroupID]*led{}}
}

// SetLeaderParams changes the settings; they have been validated.
func (c *Cluster) SetLeaderParams(p LeaderParams) error {
	if err := p.Validate(); err != nil {
		return err
	}
	pins, _ := ParsePins(p.Pin)
	x := c.leaders
	x.mu.Lock()
	defer x.mu.Unlock()
	old := x.p
	x.p, x.pins = p, pins
	if old.policy() == p.policy() {
		return nil
	}
	for _, l := range x.groups {
		if err := l.pol.SetParams(p.policy()); err != nil {
			return err
		}
	}
	return nil
}

// free reports whether a group follows its load: no policy moves its rows to where they are used. l is what is known of its load; nil: nothing.
func (c *Cluster) free(g base.GroupID, l *led) bool {
	return g != base.MetaGroup && (c.o.RowsStay != nil && c.o.RowsStay() || l != nil && l.whole)
}

// mayLead reports whether the settings let a region lead.
func (p *LeaderParams) mayLead(t *base.Topology, r base.RegionID) bool {
	in := p.regions(t)
	return len(in) == 0 || slices.Contains(in, r)
}

// regions are those that may lead; empty: all.
func (p *LeaderParams) regions(t *base.Topology) (out []base.RegionID) {
	for _, name := range strings.Split(p.MayLead, ",") {
		for _, r := range t.Regions {
			if r.Name == strings.TrimSpace(name) {
				out = append(out, r.ID)
			}
		}
	}
	return out
}

// HandTo is the node that this leader of a group should hand its lead to, for another reason than its load; 0 if none.
func (c *Cluster) HandTo(g base.GroupID) base.NodeID {
	x := c.leaders
	x.mu.Lock()
	defer x.mu.Unlock()
	if n := x.pins[g]; n != 0 {
		return n
	}
	to := c.Preferred(g)
	l := x.groups[g]
	if x.p.Mode != "on" || g == base.MetaGroup {
		return to
	}
	t := c.Topology()
	away := t.RegionOf(to) != t.RegionOf(c.o.Self)
	switch {
	case c.free(g, l), away && !x.p.mayLead(t, t.RegionOf(to)):
		return 0
	case away && (l == nil || l.beats < wholeBeats && !l.mixed()):
		return 0 // its load may be what has brought the lead here
	case away || l == nil:
		return to
	}
	// Within the home region the lead goes back to where it is meant to be, so that the nodes share the work, unless its load is served
	// better where it is. That takes a window to know.
	if !l.dec.Idle && (l.beats < x.p.Window || l.mean[to] < -float64(x.p.policy().MinGain)/2) {
		return 0
	}
	return to
}

// mixed reports whether rows were asked for that the policy of homes may move, or that are homed otherwise.
func (l *led) mixed() bool {
	all, whole := l.kinds.Load()
	return whole < wholeShare*all
}

// beat has the policies look at the groups led here.
func (c *Cluster) beat() {
	t := c.Topology()
	if len(t.Nodes) < 2 {
		return
	}
	x := c.leaders
	for _, g := range c.o.Replicas.Held() {
		grp := c.o.Replicas.Group(g)
		leads := false
		if grp != nil && c.o.Replicas.Leased(g) {
			_, leads = grp.Leads()
		}
		x.mu.Lock()
		l := x.groups[g]
		if !leads {
			if l != nil && l.move != nil {
				if n := c.Leader(g); n != c.o.Self {
					l.move.Took = time.Since(l.move.At)
				}
			}
			if l != nil && (l.move == nil || l.move.Took > 0 || time.Since(l.move.At) > 5*time.Second) {
				delete(x.groups, g)
			}
			x.mu.Unlock()
			continue
		}
		if l == nil {
			pol, err := leader.New(x.p.policy())
			if err != nil { // validated before
				x.mu.Unlock()
				continue
			}
			l = &led{pol: pol, kinds: leader.Meter{RatioMemory: 25}, meters: map[base.NodeID]*leader.Meter{}, mean: map[base.NodeID]float64{}, seen: c.o.Replicas.Loads(g)}
			x.groups[g] = l
		}
		p, pin := x.p, x.pins[g]
		x.mu.Unlock()
		c.look(t, g, grp, l, &p, pin)
	}
}

// look is one heartbeat of one group. Only this goroutine changes l, under mu.
func (c *Cluster) look(t *base.Topology, g base.GroupID, grp *group.Group, l *led, p *LeaderParams, pin base.NodeID) {
	f := c.facts(t, g, grp, l, p)
	x := c.leaders
	x.mu.Lock()
	dec, err := l.pol.Observe(&f)
	if err != nil {
		x.mu.Unlock()
		c.o.Logger.Warn("who should lead cannot be judged", "group", g, "err", err)
		return
	}
	l.facts, l.dec = f, dec
	l.beats++
	for _, s := range dec.Standings {
		l.mean[s.Node] += (float64(s.Utility) - l.mean[s.Node]) / float64(min(l.beats, max(1, p.Window)))
	}
	if l.move != nil && l.tries == 0 && time.Since(l.move.At) > 3*time.Second {
		l.move.Error, l.move = cmp.Or(l.move.Error, "the lead has not moved"), nil
	}
	if dec.Move() && p.Mode != "off" && pin == 0 && g != base.MetaGroup {
		m := &LeaderMove{At: time.Now(), Group: g, From: dec.From, To: dec.To, Reason: string(dec.Reason), Gain: dec.Gain, Window: dec.Window,
			Utilities: map[string]float64{}, Dry: p.Mode == "dry_run"}
		for _, s := range dec.Standings {
			if s.Known {
				m.Utilities[fmt.Sprint(s.Node)] = float64(s.Utility.Microseconds()) / 1000
			}
		}
		x.remember(m)
		c.o.Logger.Info("leader policy", "group", g.String(), "decision", dec.String(), "dry_run", m.Dry)
		if !m.Dry {
			l.to, l.tries, l.move = dec.To, handTries, m
		}
	}
	to := l.to
	if l.tries == 0 {
		to = 0
	}
	x.mu.Unlock()
	if to == 0 {
		return
	}
	err = grp.Transfer(to)
	x.mu.Lock()
	defer x.mu.Unlock()
	if l.tries--; err == nil {
		l.tries = 0
	} else if l.tries == 0 {
		l.move.Error, l.move = err.Error(), nil
	}
}

func (x *leaders) remember(m *LeaderMove) {
	if len(x.moves) >= maxLeaderMoves {
		x.moves = append(x.moves[:0], x.moves[maxLeaderMoves/2:]...)
	}
	x.moves = append(x.moves, m)
}

// facts are what is known of a group now.
func (c *Cluster) facts(t *base.Topology, g base.GroupID, grp *group.Group, l *led, p *LeaderParams) leader.Facts {
	st := grp.Status()
	now := c.o.Replicas.Loads(g)
	fresh := map[base.NodeID]owner.Load{} // since the last beat
	for a, have := range now {
		was := l.seen[a]
		if a.Node == 0 {
			a.Node = stands(t, a.Region, st.Voters)
		}
		sum := fresh[a.Node]
		sum.Requests += have.Requests - min(was.Requests, have.Requests)
		sum.Writes += have.Writes - min(was.Writes, have.Writes)
		sum.Whole += have.Whole - min(was.Whole, have.Whole)
		fresh[a.Node] = sum
	}
	var kinds owner.Load
	for _, d := range fresh {
		kinds.Requests += d.Requests
		kinds.Whole += min(d.Whole, d.Requests)
	}
	c.leaders.mu.Lock()
	l.kinds.Add(float64(kinds.Requests), float64(kinds.Whole), 1)
	if rate, _ := l.kinds.Load(); rate >= leastLoad { // else it stays as it was
		l.whole = !l.mixed()
	}
	c.leaders.mu.Unlock()
	f := leader.Facts{Leader: c.o.Self, MayLead: p.regions(t)}
	if !c.free(g, l) {
		f.Home = t.Home(g)
	}
	for _, n := range t.Nodes {
		voter := slices.Contains(st.Voters, n.ID)
		m := l.meters[n.ID]
		if d, ok := fresh[n.ID]; ok || m != nil {
			if m == nil {
				m = new(leader.Meter)
				l.meters[n.ID] = m
			}
			m.Add(float64(d.Requests), float64(min(d.Writes, d.Requests)), 1)
		}
		if n.Gone || !voter && m == nil {
			continue
		}
		x := leader.Node{ID: n.ID, Region: n.Region, Voter: voter}
		if m != nil {
			x.Requests, x.Writes = m.Load()
		}
		if pr := st.Progress[n.ID]; n.ID == c.o.Self {
			x.Able = voter
		} else {
			x.Able = voter && pr.State == "replicate" && c.peers.silence(n.ID) < c.o.SilentAfter
		}
		f.Nodes = append(f.Nodes, x)
	}
	l.seen = now
	all := 0.0
	for _, n := range f.Nodes {
		all += n.Requests
	}
	for i := range f.Nodes {
		if all < leastLoad { // a request now and then is not worth a move
			f.Nodes[i].Requests, f.Nodes[i].Writes = 0, 0
		}
	}
	f.RTT = make([][]time.Duration, len(f.Nodes))
	for i, a := range f.Nodes {
		f.RTT[i] = make([]time.Duration, len(f.Nodes))
		for j, b := range f.Nodes {
			f.RTT[i][j] = c.peers.between(c.o.Self, a.ID, b.ID)
		}
	}
	return f
}

// stands is the node that stands for a region: one that votes if there is one.
func stands(t *base.Topology, r base.RegionID, voters []base.NodeID) (best base.NodeID) {
	for _, n := range t.Nodes {
		if n.Region == r && !n.Gone && (best == 0 || slices.Contains(voters, n.ID) && !slices.Contains(voters, best)) {
			best = n.ID
		}
	}
	return best
}

// LeaderRows are the standings in the groups led here.
func (c *Cluster) LeaderRows() (out []LeaderRow) {
	x := c.leaders
	x.mu.Lock()
	defer x.mu.Unlock()
	for g, l := range x.groups {
		st := l.pol.State()
		if l.facts.Leader == 0 {
			continue
		}
		for i, s := range l.dec.Standings {
			n := l.facts.Nodes[i]
			out = append(out, LeaderRow{Group: g, Leader: c.o.Self, Free: c.free(g, l), Pinned: x.pins[g] == s.Node, Standing: s,
				Requests: n.Requests / leaderBeat.Seconds(), Writes: n.Writes / leaderBeat.Seconds(), Reason: string(l.dec.Reason),
				Window: st.Window, Seen: st.Seen, HoldDown: st.HoldDown, Preferred: c.Preferred(g) == s.Node})
		}
	}
	slices.SortFunc(out, func(a, b LeaderRow) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Standing.Node, b.Standing.Node))
	})
	return out
}

// LeaderMoves are the newest decisions of this node to move a lead, the oldest first.
func (c *Cluster) LeaderMoves() (out []LeaderMove) {
	x := c.leaders
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, m := range x.moves {
		out = append(out, *m)
	}
	return out
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

// AllLeaderRows are the standings in all groups, as the nodes that can be reached say.
func (c *Cluster) AllLeaderRows(ctx context.Context) []LeaderRow {
	out := askAll(ctx, c, askLeaders, c.LeaderRows())
	slices.SortFunc(out, func(a, b LeaderRow) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Standing.Node, b.Standing.Node))
	})
	return out
}

// AllLeaderMoves are the newest decisions of all nodes that can be reached, the oldest first.
func (c *Cluster) AllLeaderMoves(ctx context.Context) []LeaderMove {
	out := askAll(ctx, c, askLeaderMoves, c.LeaderMoves())
	slices.SortFunc(out, func(a, b LeaderMove) int { return a.At.Compare(b.At) })
	return out
}

// askAll asks all other nodes for lists and joins them.
func askAll[T any](ctx context.Context, c *Cluster, name string, own []T) []T {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, n := range c.Topology().Nodes {
		if n.ID == c.o.Self || n.Gone || !c.Live(n.ID) {
			continue
		}
		wg.Go(func() {
			b, err := c.Ask(ctx, n.ID, name, nil)
			var more []T
			if err != nil || json.Unmarshal(b, &more) != nil {
				return // it is not shown
			}
			mu.Lock()
			defer mu.Unlock()
			own = append(own, more...)
		})
	}
	wg.Wait()
	return own
}

// CanLead says why a node cannot lead a group: there is no such group or node, or it does not vote there. A node of 0 stands for any.
func (c *Cluster) CanLead(g base.GroupID, node base.NodeID) error {
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
	if voters, _ := Members(t, g); !slices.Contains(voters, node) {
		return base.Errorf(base.CodeInvalid, "node %d does not vote in group %v and cannot lead it; nodes that do: %s", node, g, strings.Trim(fmt.Sprint(voters), "[]"))
	}
	return nil
}

// MoveLeader has a group's leader hand its lead to a node, and waits until that leads.
func (c *Cluster) MoveLeader(ctx context.Context, g base.GroupID, to base.NodeID) error {
	if err := c.CanLead(g, to); err != nil {
		return err
	}
	body, err := json.Marshal(handQuery{g, to})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		at := c.Leader(g)
		if at == to {
			return nil
		}
		if at == c.o.Self {
			err = c.handLead(handQuery{g, to})
		} else {
			_, err = c.Ask(ctx, at, askHand, body)
		}
		if base.CodeOf(err) == base.CodeInvalid {
			return err
		}
		select {
		case <-ctx.Done():
			return base.Errorf(base.CodeUnavailable, "group %v is still led by node %d: %v", g, c.Leader(g), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (c *Cluster) handLead(q handQuery) error {
	g := c.o.Replicas.Group(q.Group)
	if g == nil {
		return base.Errorf(base.CodeNotLeader, "node %d has no replica of group %v", c.o.Self, q.Group)
	}
	err := g.Transfer(q.To)
	if err == nil {
		x := c.leaders
		x.mu.Lock()
		m := &LeaderMove{At: time.Now(), Group: q.Group, From: c.o.Self, To: q.To, Reason: "ordered"}
		x.remember(m)
		if l := x.groups[q.Group]; l != nil {
			l.move = m
		}
		x.mu.Unlock()
	}
	return err
}

// answerLeaders answers other nodes' questions about leaders.
func (c *Cluster) answerLeaders(name string, body []byte) ([]byte, bool, error) {
	var v any
	switch name {
	case askLeaders:
		v = c.LeaderRows()
	case askLeaderMoves:
		v = c.LeaderMoves()
	case askHand:
		var q handQuery
		if err := json.Unmarshal(body, &q); err != nil {
			return nil, true, base.Errorf(base.CodeInvalid, "malformed request: %v", err)
		}
		if err := c.handLead(q); err != nil {
			return nil, true, err
		}
		v = true
	default:
		return nil, false, nil
	}
	b, err := json.Marshal(v)
	return b, true, err
}

// PathLeader moves or pins the lead of a group: POST LeaderRequest.
const PathLeader = "/cluster/leader"

// LeaderRequest asks for the lead of a group to be moved to a node; with Pin it also stays there, and with node 0 no longer.
type LeaderRequest struct {
	Group string      `json:"group"`
	Node  base.NodeID `json:"node"`
	Pin   bool        `json:"pin"`
}

// LeaderPins are the groups whose leaders are pinned.
func (c *Cluster) LeaderPins() map[base.GroupID]base.NodeID {
	c.leaders.mu.Lock()
	defer c.leaders.mu.Unlock()
	return maps.Clone(c.leaders.pins)
}
