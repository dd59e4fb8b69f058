package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/owner/gauge"
	"github.com/godwitdb/godwit/policy/leader"
)

// The present leader of a group decides which node leads it, from what it counts and what
// heartbeats tell, once in leaderBeat. Rows and leaders do not chase each other: where the policy
// of homes may move rows, each goes to the region that uses it, and groups are led from their
// homes. Groups follow their load where it may not: with home.mode = never, and where nearly all
// that a group is asked for are rows of tables that are homed as a whole.
//
// From top to bottom: what is counted (facts), what the policy says of it (look), how the lead is
// handed over (handOver), and what else moves a lead (HandTo).

// leaderBeat is a heartbeat of the policy: GeoLM's, and the unit of its windows.
const leaderBeat = 200 * time.Millisecond

const (
	maxLeaderMoves = 256
	leastLoad      = 0.1 // requests a beat below which a group counts as idle
	// of a group's requests: with that many for tables homed as a whole it follows its load
	wholeShare = .99
	wholeBeats = 10 // so long a leader away from home finds out whether it is to be there
)

// leaderControl is the controller of one node.
type leaderControl struct {
	*env
	requests Requests
	rowsStay func() bool // see Process.RowsStay

	mu          sync.Mutex
	params      LeaderParams
	pins        map[base.GroupID]base.NodeID
	leaderships map[base.GroupID]*leadership
	moves       []*LeaderMove // newest last
}

// leadership is what is known of a group since this node leads it. It is guarded by
// leaderControl.mu, but for meters and seen, which only the goroutine of beat uses.
type leadership struct {
	policy *leader.Policy
	meters map[base.NodeID]*leader.Meter
	seen   map[gauge.Asker]gauge.Load // counts at the last beat

	facts leader.Facts
	dec   leader.Decision
	mean  map[base.NodeID]float64 // of the utilities, over about a window, in ns
	kinds leader.Meter            // of the requests, and those for tables homed as a whole
	whole bool                    // that is nearly all
	beats int
	hand  handOver
}

func newLeaderControl(e *env, r Requests, rowsStay func() bool) *leaderControl {
	if rowsStay == nil {
		rowsStay = func() bool { return false }
	}
	return &leaderControl{env: e, requests: r, rowsStay: rowsStay, params: DefaultLeaderParams(),
		pins: map[base.GroupID]base.NodeID{}, leaderships: map[base.GroupID]*leadership{}}
}

// SetLeaderParams changes the settings; they have been validated.
func (c *leaderControl) SetLeaderParams(p LeaderParams) error {
	if err := p.Validate(); err != nil {
		return err
	}
	pins, _ := leader.ParsePins(p.Pin)
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.params
	c.params, c.pins = p, pins
	if old.policy() == p.policy() {
		return nil
	}
	for _, l := range c.leaderships {
		if err := l.policy.SetParams(p.policy()); err != nil {
			return err
		}
	}
	return nil
}

// LeaderParams are the settings in force.
func (c *leaderControl) LeaderParams() LeaderParams {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.params
}

// LeaderPins are the groups whose leaders are pinned.
func (c *leaderControl) LeaderPins() map[base.GroupID]base.NodeID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.pins)
}

// free reports whether a group follows its load: no policy moves its rows to where they are used. l
// is what is known of its load; nil: nothing.
func (c *leaderControl) free(g base.GroupID, l *leadership) bool {
	return g != base.MetaGroup && (c.rowsStay() || l != nil && l.whole)
}

// mixed reports whether rows were asked for that the policy of homes may move, or that are homed
// otherwise.
func (l *leadership) mixed() bool {
	all, whole := l.kinds.Load()
	return whole < wholeShare*all
}

// # Counting

// beat has the policies look at the groups led here.
func (c *leaderControl) beat() {
	t := c.Topology()
	if len(t.Nodes) < 2 {
		return
	}
	for _, g := range c.groups.Held() {
		grp := c.groups.Group(g)
		if grp != nil && c.groups.Leased(g) {
			if _, leads := grp.Leads(); leads {
				c.look(t, g, grp)
				continue
			}
		}
		c.away(g)
	}
}

// away forgets a group that is not led here any more, but for a hand-over of which it is not known
// yet how it ends.
func (c *leaderControl) away(g base.GroupID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.leaderships[g]
	if l == nil {
		return
	}
	if c.Leader(g) != c.self {
		l.hand.succeeded()
	}
	if l.hand.over() {
		delete(c.leaderships, g)
	}
}

// group is what is known of a group led here.
func (c *leaderControl) group(g base.GroupID) (*leadership, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.leaderships[g]; l != nil {
		return l, nil
	}
	pol, err := leader.New(c.params.policy())
	if err != nil {
		return nil, err
	}
	l := &leadership{policy: pol, kinds: leader.Meter{RatioMemory: 25}, meters: map[base.NodeID]*leader.Meter{},
		mean: map[base.NodeID]float64{}, seen: c.requests.Loads(g)}
	c.leaderships[g] = l
	return l, nil
}

// facts are what is known of a group now.
func (c *leaderControl) facts(t *base.Topology, g base.GroupID, st group.Status, l *leadership) leader.Facts {
	fresh := c.count(t, g, st, l)
	c.mu.Lock()
	l.addKinds(fresh)
	f := leader.Facts{Leader: c.self, MayLead: c.params.regions(t)}
	if !c.free(g, l) {
		f.Home = t.Home(g)
	}
	c.mu.Unlock()
	for _, n := range t.Nodes {
		m := l.meter(n.ID, fresh)
		voter := slices.Contains(st.Voters, n.ID)
		if n.Gone || !voter && m == nil {
			continue
		}
		x := leader.Node{ID: n.ID, Region: n.Region, Voter: voter, Able: voter && c.keepsUp(n.ID, st)}
		if m != nil {
			x.Requests, x.Writes = m.Load()
		}
		f.Nodes = append(f.Nodes, x)
	}
	ignoreIdle(f.Nodes)
	f.RTT = c.roundTrips(f.Nodes)
	return f
}

// count is what each node has asked of a group since the last beat.
func (c *leaderControl) count(t *base.Topology, g base.GroupID, st group.Status, l *leadership) map[base.NodeID]gauge.Load {
	now, fresh := c.requests.Loads(g), map[base.NodeID]gauge.Load{}
	for a, have := range now {
		was := l.seen[a]
		if a.Node == 0 {
			a.Node = deputy(t, a.Region, st.Voters)
		}
		sum := fresh[a.Node]
		sum.Requests += have.Requests - min(was.Requests, have.Requests)
		sum.Writes += have.Writes - min(was.Writes, have.Writes)
		sum.Whole += have.Whole - min(was.Whole, have.Whole)
		fresh[a.Node] = sum
	}
	l.seen = now
	return fresh
}

// deputy is the node that counts as the one that asked, where only its region is known: one that
// votes if there is one.
func deputy(t *base.Topology, r base.RegionID, voters []base.NodeID) (best base.NodeID) {
	for _, n := range t.Nodes {
		if n.Region == r && !n.Gone && (best == 0 || slices.Contains(voters, n.ID) && !slices.Contains(voters, best)) {
			best = n.ID
		}
	}
	return best
}

// addKinds adds to what share of the requests is for tables homed as a whole.
func (l *leadership) addKinds(fresh map[base.NodeID]gauge.Load) {
	var kinds gauge.Load
	for _, d := range fresh {
		kinds.Requests += d.Requests
		kinds.Whole += min(d.Whole, d.Requests)
	}
	l.kinds.Add(float64(kinds.Requests), float64(kinds.Whole), 1)
	if rate, _ := l.kinds.Load(); rate >= leastLoad { // else it stays as it was
		l.whole = !l.mixed()
	}
}

// meter is the load of a node, with what it asked since the last beat; nil if it never asked.
func (l *leadership) meter(n base.NodeID, fresh map[base.NodeID]gauge.Load) *leader.Meter {
	d, asked := fresh[n]
	m := l.meters[n]
	if m == nil && !asked {
		return nil
	}
	if m == nil {
		m = new(leader.Meter)
		l.meters[n] = m
	}
	m.Add(float64(d.Requests), float64(min(d.Writes, d.Requests)), 1)
	return m
}

// keepsUp reports whether a member of a group led here has what the leader has, nearly.
func (e *env) keepsUp(n base.NodeID, st group.Status) bool {
	return n == e.self || st.Progress[n].State == "replicate" && e.peers.silence(n) < e.pace.SilentAfter && e.Fit(n)
}

// ignoreIdle takes a request now and then for none: it is not worth a move.
func ignoreIdle(nodes []leader.Node) {
	all := 0.0
	for _, n := range nodes {
		all += n.Requests
	}
	if all >= leastLoad {
		return
	}
	for i := range nodes {
		nodes[i].Requests, nodes[i].Writes = 0, 0
	}
}

func (e *env) roundTrips(nodes []leader.Node) [][]time.Duration {
	out := make([][]time.Duration, len(nodes))
	for i, a := range nodes {
		out[i] = make([]time.Duration, len(nodes))
		for j, b := range nodes {
			out[i][j] = e.Between(a.ID, b.ID)
		}
	}
	return out
}

// # Deciding

// look is one beat of one group: the policy sees its facts, and a hand-over goes on.
func (c *leaderControl) look(t *base.Topology, g base.GroupID, grp Group) {
	l, err := c.group(g)
	if err != nil {
		return // the parameters were validated
	}
	f := c.facts(t, g, grp.Status(), l)
	to, err := c.decide(g, l, &f, time.Now())
	if err != nil {
		c.log.Warn("who should lead cannot be judged", "group", g, "err", err)
		return
	}
	if to == 0 {
		return
	}
	err = grp.Transfer(to)
	c.mu.Lock()
	defer c.mu.Unlock()
	l.hand.tried(err)
}

// decide takes the facts of a beat. It returns the node to which the lead is to be handed now; 0 if
// none.
func (c *leaderControl) decide(g base.GroupID, l *leadership, f *leader.Facts, now time.Time) (to base.NodeID, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	dec, err := l.policy.Observe(f)
	if err != nil {
		return 0, err
	}
	l.facts, l.dec = *f, dec
	l.beats++
	for _, s := range dec.Standings {
		l.mean[s.Node] += (float64(s.Utility) - l.mean[s.Node]) / float64(min(l.beats, max(1, c.params.Window)))
	}
	l.hand.expire(now)
	if dec.Move() && c.params.Mode != "off" && c.pins[g] == 0 && g != base.MetaGroup {
		m := newMove(g, &dec, now)
		m.Dry = c.params.Mode == "dry_run"
		c.remember(m)
		c.log.Info("leader policy", "group", g.String(), "decision", dec.String(), "dry_run", m.Dry)
		if !m.Dry {
			l.hand.begin(m)
		}
	}
	return l.hand.next(), nil
}

func newMove(g base.GroupID, dec *leader.Decision, now time.Time) *LeaderMove {
	m := &LeaderMove{At: now, Group: g, From: dec.From, To: dec.To, Reason: string(dec.Reason), Gain: dec.Gain,
		Window: dec.Window, Utilities: map[string]float64{}}
	for _, s := range dec.Standings {
		if s.Known {
			m.Utilities[fmt.Sprint(s.Node)] = float64(s.Utility.Microseconds()) / 1000
		}
	}
	return m
}

func (c *leaderControl) remember(m *LeaderMove) {
	if len(c.moves) >= maxLeaderMoves {
		c.moves = append(c.moves[:0], c.moves[maxLeaderMoves/2:]...)
	}
	c.moves = append(c.moves, m)
}

// # Handing over

// handOver is how far the hand-over of a group's lead has come.
//
//	handIdle --begin--> handTrying --tried--> handAsked --succeeded--> handIdle
//	                        |                     |
//	                        +-- tried too often --+-- expire --> handIdle
type handOver struct {
	state handState
	tries int // left, in handTrying
	move  *LeaderMove
}

type handState uint8

const (
	handIdle   handState = iota
	handTrying           // the group has not taken the order yet: a follower may just not have answered
	handAsked            // it has; the lead has not gone yet
)

const (
	handTries = 10              // beats in which a hand-over is tried
	handWait  = 3 * time.Second // for the lead to go, once the group has been asked
	handKnown = 5 * time.Second // for the new leader to be heard, once this node leads no more
)

func (h *handOver) begin(m *LeaderMove)   { *h = handOver{handTrying, handTries, m} }
func (h *handOver) ordered(m *LeaderMove) { *h = handOver{handAsked, 0, m} }

// next is the node to try to hand over to now; 0 if none.
func (h *handOver) next() base.NodeID {
	if h.state != handTrying {
		return 0
	}
	return h.move.To
}

// tried takes what the group said to the order.
func (h *handOver) tried(err error) {
	if h.state != handTrying {
		return
	}
	switch h.tries--; {
	case err == nil:
		h.state = handAsked
	case h.tries == 0:
		h.fail(err.Error())
	}
}

// expire gives up a hand-over that takes too long: the lead has stayed.
func (h *handOver) expire(now time.Time) {
	if h.state == handAsked && now.Sub(h.move.At) > handWait {
		h.fail("the lead has not moved")
	}
}

func (h *handOver) fail(why string) {
	h.move.Error = cmp.Or(h.move.Error, why)
	*h = handOver{}
}

// succeeded ends a hand-over after which another node leads.
func (h *handOver) succeeded() {
	if h.state != handIdle {
		h.move.Took = time.Since(h.move.At)
		*h = handOver{}
	}
}

// over reports, once this node leads no more, whether there is nothing left to learn of how it
// ended.
func (h *handOver) over() bool {
	return h.state == handIdle || time.Since(h.move.At) > handKnown
}

// # Other reasons

// HandTo is the node that this leader of a group should hand its lead to, for another reason than
// its load; 0 if none.
func (c *leaderControl) HandTo(g base.GroupID) base.NodeID {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.pins[g]; n != 0 && c.Fit(n) {
		return n
	}
	to := c.Preferred(g)
	if !c.Fit(to) {
		return 0 // it has its leads back when it is well
	}
	if c.params.Mode != "on" || g == base.MetaGroup {
		return to
	}
	t, l := c.Topology(), c.leaderships[g]
	region := t.RegionOf(to)
	away := region != c.region()
	switch {
	case c.free(g, l), away && !c.params.mayLead(t, region):
		return 0
	case away && (l == nil || l.beats < wholeBeats && !l.mixed()):
		return 0 // its load may be what has brought the lead here
	case away || l == nil:
		return to
	}
	// Within the home region the lead goes back to where it is meant to be, so that the nodes share
	// the work, unless its load is served better where it is. That takes a window to know.
	if !l.dec.Idle && (l.beats < c.params.Window || l.mean[to] < -float64(c.params.policy().MinGain)/2) {
		return 0
	}
	return to
}
