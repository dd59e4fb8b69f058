package cluster

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/cluster/upgrade"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/owner/gauge"
	"github.com/godwitdb/godwit/policy/placement"
	"github.com/godwitdb/godwit/wire"
)

// world is some Clusters in virtual time, over a network whose messages can be lost, doubled and
// late. Groups are no consensus here: the script says who leads and what each node holds.
type world struct {
	t     *testing.T
	db    *memkv.DB
	began time.Time

	mu       sync.Mutex
	nodes    map[base.NodeID]*testNode
	groups   map[base.GroupID]*testGroup
	links    map[[2]base.NodeID]link
	oracle   base.Timestamp
	steps    []*wire.ClockOrder // of the clock mode, the first is what a cluster begins with
	logFails bool               // steps cannot be logged
	events   []event
	sent     map[base.NodeID]map[wire.Kind]int // messages, since the last look
}

// link is what happens to messages from a node to another one.
type link struct {
	lost, twice bool
	late        time.Duration
}

// event is a line that a node has logged.
type event struct {
	at   time.Duration
	node base.NodeID
	text string
}

// testGroup is a group as all its members would see it.
type testGroup struct {
	leader    base.NodeID
	leased    bool
	closes    bool // without serving
	term      uint64
	voters    []base.NodeID
	learners  []base.NodeID
	transfers bool // the leader hands over when it is told to
}

// testNode is a node: what survives a restart, and the Cluster that runs.
type testNode struct {
	w        *world
	id       base.NodeID
	identity *join.Identity
	stored   *base.Topology
	promise  upgrade.Promise     // on disk, as the next one
	format   base.ClusterVersion // that a build must know to start
	knows    base.ClusterVersion // the build; 0: all
	lives    int

	copies    map[base.GroupID]copyHere // on disk
	open      map[base.GroupID]bool
	lacks     string // what a region waits for here
	frozen    map[base.GroupID]bool
	abandoned map[base.GroupID]bool // hears of no leader
	loads     map[base.GroupID]map[gauge.Asker]gauge.Load

	up      bool
	source  *clock.Simulated
	clock   *clock.Clock
	cluster *Cluster
	tr      *testTransport
	closed  base.Timestamp // the newest that it was told of
}

// copyHere is what a replica holds.
type copyHere struct {
	copyAt
	incarnation uint32
}

const testBound = time.Millisecond

// newWorld starts the nodes of a first topology.
func newWorld(t *testing.T, first base.Topology) *world {
	first = placement.Place(first)
	first.AsyncFirst = first.Replicas[first.Shards:]
	if err := first.Validate(); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, db: memkv.New(1), began: time.Now(), nodes: map[base.NodeID]*testNode{},
		groups: map[base.GroupID]*testGroup{}, links: map[[2]base.NodeID]link{},
		sent:   map[base.NodeID]map[wire.Kind]int{},
		oracle: base.FromTime(time.Now()), steps: []*wire.ClockOrder{{Mode: uint32(clock.GClock),
			Target: uint32(clock.GClock), Epoch: 1}}}
	for _, g := range first.Groups() {
		voters, learners := placement.Members(&first, g)
		w.groups[g] = &testGroup{leader: placement.Preferred(&first, g, everyNode), leased: true, term: 1,
			voters: voters, learners: learners, transfers: true}
	}
	for _, n := range first.Nodes {
		w.add(&join.Identity{ClusterID: "test", Node: n.ID, Founding: true, First: first}).start()
	}
	return w
}

func everyNode(base.NodeID) bool { return true }

func (w *world) add(id *join.Identity) *testNode {
	n := &testNode{w: w, id: id.Node, identity: id, copies: map[base.GroupID]copyHere{},
		frozen: map[base.GroupID]bool{}, abandoned: map[base.GroupID]bool{},
		loads: map[base.GroupID]map[gauge.Asker]gauge.Load{}}
	w.mu.Lock()
	w.nodes[n.id] = n
	w.mu.Unlock()
	return n
}

// start begins a life of the node's process.
func (n *testNode) start() {
	w := n.w
	w.mu.Lock()
	n.lives++
	n.open = map[base.GroupID]bool{}
	if n.source == nil {
		n.source = clock.NewSimulated(testBound, uint64(n.id))
	}
	steady := clock.NewSteady(n.source)
	n.clock = clock.New(steady)
	n.tr = &testTransport{w: w, self: n.id, ordered: map[wire.Kind]func(base.NodeID, []byte){},
		calls: map[wire.Kind]wan.Handler{}}
	w.mu.Unlock()
	n.clock.Wait(testOracle{w})
	n.cluster = New(Options{Self: n.id, Identity: n.identity, Knows: n.knows, Transport: n.tr, Clock: n.clock,
		Replicas: testReplicas{n}, Logger: slog.New(&logHandler{n: n}),
		Disk: Disk{Founding: n.lives == 1 && n.identity.Founding, Stored: n.stored, SaveTopology: func(t *base.Topology) error {
			n.stored = t
			return nil
		}, Promised: n.promise, Promise: func(p upgrade.Promise) error {
			n.promise = p
			return nil
		}, SetVersion: func(v base.ClusterVersion) error {
			n.format = v
			return nil
		}},
		Listeners: Listeners{OnGone: func() { n.event("node is gone for good") },
			OnSilent: func(x base.NodeID) { n.event(fmt.Sprintf("hears nothing of n%d", x)) }},
		Trust: Trust{Steady: steady}})
	if err := n.cluster.OpenFirst(); err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	n.up = true
	w.mu.Unlock()
	// No two nodes do anything at the same instant: what is printed must not depend on the
	// scheduler.
	time.Sleep(7*time.Millisecond + time.Duration(n.id)*13*time.Microsecond)
	n.cluster.Start(w.db)
}

func (n *testNode) stop() {
	n.w.mu.Lock()
	n.up = false
	n.w.mu.Unlock()
	n.cluster.Close()
}

func (w *world) close() {
	for _, n := range w.sorted() {
		if n.up {
			n.stop()
		}
	}
	time.Sleep(time.Minute) // whatever is under way ends
}

func (w *world) sorted() (out []*testNode) {
	for _, id := range slices.Sorted(maps.Keys(w.nodes)) {
		out = append(out, w.nodes[id])
	}
	return out
}

func (n *testNode) event(text string) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	n.w.events = append(n.w.events, event{time.Since(n.w.began), n.id, text})
}

// takeEvents returns what happened since the last time. Nodes that logged the same within a second
// share a line. sorted: in the order of nodes and texts, not of time.
func (w *world) takeEvents(sorted bool) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortStableFunc(w.events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.node, b.node), cmp.Compare(a.text, b.text))
	})
	type line struct {
		at    time.Duration
		nodes []base.NodeID
		text  string
	}
	var lines []*line
	for _, e := range w.events {
		i := slices.IndexFunc(lines, func(l *line) bool {
			return l.text == e.text && e.at-l.at < time.Second && !slices.Contains(l.nodes, e.node)
		})
		if i < 0 {
			lines = append(lines, &line{e.at, []base.NodeID{e.node}, e.text})
		} else {
			lines[i].nodes = append(lines[i].nodes, e.node)
		}
	}
	w.events = nil
	if sorted {
		slices.SortStableFunc(lines, func(a, b *line) int {
			slices.Sort(a.nodes)
			slices.Sort(b.nodes)
			return cmp.Or(slices.Compare(a.nodes, b.nodes), cmp.Compare(a.text, b.text))
		})
	}
	var out strings.Builder
	for _, l := range lines {
		slices.Sort(l.nodes)
		var names []string
		for _, n := range l.nodes {
			names = append(names, fmt.Sprintf("n%d", n))
		}
		fmt.Fprintf(&out, "%s: %s\n", strings.Join(names, " "), l.text)
	}
	return out.String()
}

// fractions are durations too exact for a story.
var fractions = regexp.MustCompile(`\d+\.\d+(ms|s)\b`)

// logHandler makes events of what a node logs for people.
type logHandler struct{ n *testNode }

func (h *logHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (h *logHandler) WithAttrs([]slog.Attr) slog.Handler           { return h }
func (h *logHandler) WithGroup(string) slog.Handler                { return h }
func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	h.n.event(fractions.ReplaceAllStringFunc(text, func(s string) string {
		d, err := time.ParseDuration(s)
		if err != nil {
			return s
		}
		return d.Round(100 * time.Millisecond).String()
	}))
	return nil
}

// # The network

type testTransport struct {
	wan.Transport // of which nothing else is used
	w             *world
	self          base.NodeID
	ordered       map[wire.Kind]func(base.NodeID, []byte)
	calls         map[wire.Kind]wan.Handler
}

// SetLost implements wan.Transport.
func (*testTransport) SetLost(base.NodeID, bool) {}

func (t *testTransport) Self() base.NodeID                 { return t.self }
func (t *testTransport) Handle(k wire.Kind, h wan.Handler) { t.calls[k] = h }
func (t *testTransport) HandleOrdered(k wire.Kind, h func(from base.NodeID, body []byte)) {
	t.ordered[k] = h
}
func (t *testTransport) SetPeer(base.NodeID, string, base.RegionID) {}

// way is how long a message travels, and whether it arrives.
func (t *testTransport) way(from, to base.NodeID) (d time.Duration, l link) {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	l = t.w.links[[2]base.NodeID{from, to}]
	return 20*time.Millisecond + time.Duration(100*from+to)*time.Microsecond + l.late, l
}

// peer is the transport of a node that runs; nil if it does not.
func (t *testTransport) peer(id base.NodeID) *testTransport {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	if n := t.w.nodes[id]; n != nil && n.up {
		return n.tr
	}
	return nil
}

func (t *testTransport) Send(to base.NodeID, kind wire.Kind, m wan.Msg) error {
	body, err := m.MarshalVT()
	if err != nil {
		return err
	}
	d, l := t.way(t.self, to)
	if l.lost {
		return nil
	}
	t.w.mu.Lock()
	if t.w.sent[t.self] == nil {
		t.w.sent[t.self] = map[wire.Kind]int{}
	}
	t.w.sent[t.self][kind]++
	t.w.mu.Unlock()
	deliver := func() {
		if p := t.peer(to); p != nil && t.peer(t.self) == t {
			p.ordered[kind](t.self, slices.Clone(body))
		}
	}
	time.AfterFunc(d, deliver)
	if l.twice {
		time.AfterFunc(d+30*time.Millisecond, deliver)
	}
	return nil
}

func (t *testTransport) Call(ctx context.Context, to base.NodeID, kind wire.Kind, req, resp wan.Msg) error {
	body, err := req.MarshalVT()
	if err != nil {
		return err
	}
	there, l := t.way(t.self, to)
	back, m := t.way(to, t.self)
	silent := func() error {
		<-ctx.Done()
		return base.Errorf(base.CodeUnavailable, "node %d does not answer", to)
	}
	if l.lost {
		return silent()
	}
	time.Sleep(there)
	p := t.peer(to)
	if p == nil || ctx.Err() != nil {
		return silent()
	}
	if l.twice {
		_, _ = p.calls[kind](ctx, t.self, slices.Clone(body))
	}
	a, err := p.calls[kind](ctx, t.self, body)
	if m.lost {
		return silent()
	}
	time.Sleep(back)
	if err != nil {
		return err
	}
	if body, err = a.MarshalVT(); err != nil {
		return err
	}
	return resp.UnmarshalVT(body)
}

// # The replicas of a node

type testReplicas struct{ n *testNode }

func (r testReplicas) Held() []base.GroupID {
	r.n.w.mu.Lock()
	defer r.n.w.mu.Unlock()
	return slices.Sorted(maps.Keys(r.n.open))
}

func (r testReplicas) Group(g base.GroupID) Group {
	r.n.w.mu.Lock()
	defer r.n.w.mu.Unlock()
	if !r.n.open[g] {
		return nil
	}
	return testMember{r.n, g, r.n.w.groups[g]}
}

func (r testReplicas) Leased(g base.GroupID) bool {
	r.n.w.mu.Lock()
	defer r.n.w.mu.Unlock()
	x := r.n.w.groups[g]
	return x != nil && x.leader == r.n.id && x.leased
}

func (r testReplicas) Closes(g base.GroupID) bool {
	r.n.w.mu.Lock()
	defer r.n.w.mu.Unlock()
	x := r.n.w.groups[g]
	return x != nil && x.leader == r.n.id && (x.leased || x.closes)
}

func (r testReplicas) Open(g base.GroupID, _ group.Conf, _ bool) error {
	r.n.w.mu.Lock()
	defer r.n.w.mu.Unlock()
	if !r.n.open[g] {
		r.n.open[g] = true
		if _, ok := r.n.copies[g]; !ok {
			r.n.copies[g] = copyHere{}
		}
	}
	return nil
}

func (r testReplicas) Recount() {}

func (r testReplicas) OldestOpen() base.Timestamp { return base.MaxTimestamp }

func (r testReplicas) Lacks(region base.RegionID) string {
	r.n.w.mu.Lock()
	defer r.n.w.mu.Unlock()
	return r.n.lacks
}

func (r testReplicas) Left() ([]base.GroupID, error) {
	r.n.w.mu.Lock()
	defer r.n.w.mu.Unlock()
	var left []base.GroupID
	for _, g := range slices.Sorted(maps.Keys(r.n.copies)) {
		if !r.n.open[g] {
			left = append(left, g)
		}
	}
	return left, nil
}

func (r testReplicas) Sweep(wanted func(base.ShardID) bool) error {
	r.n.w.mu.Lock()
	defer r.n.w.mu.Unlock()
	for g := range r.n.copies {
		if !r.n.open[g] && !wanted(g.Shard()) {
			delete(r.n.copies, g)
		}
	}
	return nil
}

func (r testReplicas) Leads() (out []*wire.GroupLead) {
	r.n.w.mu.Lock()
	defer r.n.w.mu.Unlock()
	for _, g := range slices.Sorted(maps.Keys(r.n.w.groups)) {
		if x := r.n.w.groups[g]; x.leader == r.n.id {
			out = append(out, &wire.GroupLead{Group: uint32(g), Term: x.term, Index: 1,
				Closed: uint64(base.FromTime(time.Now())), Incarnation: r.n.copies[g].incarnation})
		}
	}
	return out
}

func (r testReplicas) OnLeads(leads []*wire.GroupLead) {
	r.n.w.mu.Lock()
	defer r.n.w.mu.Unlock()
	for _, l := range leads {
		r.n.closed = max(r.n.closed, base.Timestamp(l.Closed))
	}
}

func (r testReplicas) CommitLead() time.Duration      { return 0 }
func (r testReplicas) Complete() base.Timestamp       { return base.FromTime(time.Now()) }
func (r testReplicas) ClosedChanged() <-chan struct{} { return nil }
func (r testReplicas) HeldChanged()                   {}
func (r testReplicas) Released() []*wire.GroupRelease { return nil }

func (r testReplicas) OnReleased(base.NodeID, []*wire.GroupRelease) {}

func (r testReplicas) MetaNewest(k base.Key) (newest, complete base.Timestamp) {
	return r.n.w.db.MetaVersion(base.PointSpan(k))
}

func (r testReplicas) ClockSteps() (*wire.ClockOrder, []*wire.ClockOrder) {
	r.n.w.mu.Lock()
	defer r.n.w.mu.Unlock()
	s := slices.Clone(r.n.w.steps)
	return s[len(s)-1], s[1:]
}

func (r testReplicas) OrderClock(_ context.Context, o *wire.ClockOrder, raise base.Timestamp) error {
	time.Sleep(25 * time.Millisecond)
	if !r.Leased(base.MetaGroup) {
		return base.Errorf(base.CodeNotLeader, "node %d does not lead the meta group", r.n.id)
	}
	r.n.w.mu.Lock()
	defer r.n.w.mu.Unlock()
	if last := r.n.w.steps[len(r.n.w.steps)-1]; r.n.w.logFails || o.Epoch != last.Epoch+1 {
		return base.Errorf(base.CodeUnavailable, "no majority answers")
	}
	r.n.w.oracle = max(r.n.w.oracle, raise)
	r.n.w.steps = append(r.n.w.steps, o)
	return nil
}

func (r testReplicas) Reached() base.Timestamp {
	r.n.w.mu.Lock()
	defer r.n.w.mu.Unlock()
	if r.n.w.groups[base.MetaGroup].leader != r.n.id {
		return 0
	}
	return r.n.w.oracle
}

func (r testReplicas) Loads(g base.GroupID) map[gauge.Asker]gauge.Load {
	r.n.w.mu.Lock()
	defer r.n.w.mu.Unlock()
	return maps.Clone(r.n.loads[g])
}

func (r testReplicas) Describe(_ base.GroupID, s *GroupStatus) { s.Serving = true }

func (r testReplicas) HeldHere(g base.GroupID) (uint64, base.Timestamp, uint32) {
	r.n.w.mu.Lock()
	defer r.n.w.mu.Unlock()
	c := r.n.copies[g]
	return c.index, c.closed, c.incarnation
}

func (r testReplicas) AwaitHeld(ctx context.Context, g base.GroupID, index uint64, closed base.Timestamp) bool {
	for ctx.Err() == nil {
		if i, c, _ := r.HeldHere(g); i >= index && c >= closed {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

func (r testReplicas) Freeze(g base.GroupID, on bool) {
	r.n.w.mu.Lock()
	defer r.n.w.mu.Unlock()
	if r.n.frozen[g] != on {
		r.n.frozen[g] = on
	}
}

func (r testReplicas) Rewind(g base.GroupID, incarnation uint32, p *base.Promotion, source bool) error {
	r.n.w.mu.Lock()
	have, ok := r.n.copies[g]
	if !ok || have.incarnation >= incarnation {
		r.n.w.mu.Unlock()
		return nil
	}
	next := copyHere{incarnation: incarnation}
	if source {
		next.copyAt = copyAt{have.index, min(have.closed, p.Cut)}
	}
	r.n.copies[g] = next
	r.n.frozen[g] = false
	r.n.w.mu.Unlock()
	how := "discards its copy"
	if source {
		how = "begins with its copy"
	}
	r.n.event(fmt.Sprintf("group %v: %s, incarnation %d", g, how, incarnation))
	return nil
}

// testMember is a group as one member sees it.
type testMember struct {
	n *testNode
	g base.GroupID
	x *testGroup // nil: no group of that name was made yet
}

func (m testMember) lock() func() {
	m.n.w.mu.Lock()
	return m.n.w.mu.Unlock
}

// Leader says nothing, so that the directory has to.
func (m testMember) Leader() (base.NodeID, uint64) { return 0, 0 }

func (m testMember) Leads() (uint64, bool) {
	defer m.lock()()
	return m.x.term, m.x.leader == m.n.id
}

func (m testMember) Status() group.Status {
	defer m.lock()()
	s := group.Status{Group: m.g, Term: m.x.term, Leader: m.x.leader, IsLeader: m.x.leader == m.n.id, Serving: m.x.leased,
		Voters: slices.Clone(m.x.voters), Learners: slices.Clone(m.x.learners), Progress: map[base.NodeID]group.Progress{}}
	for _, n := range slices.Concat(m.x.voters, m.x.learners) {
		if p := m.n.w.nodes[n]; p != nil && p.up {
			s.Progress[n] = group.Progress{State: "replicate", Active: true}
		}
	}
	return s
}

func (m testMember) Transfer(to base.NodeID) error {
	defer m.lock()()
	if m.x.leader != m.n.id {
		return base.Errorf(base.CodeNotLeader, "node %d does not lead group %v", m.n.id, m.g)
	}
	if !m.x.transfers {
		return base.Errorf(base.CodeUnavailable, "node %d does not follow", to)
	}
	m.x.leader, m.x.term = to, m.x.term+1
	return nil
}

func (m testMember) ChangeMembers(ctx context.Context, voters, learners []base.NodeID) error {
	for _, n := range slices.Concat(voters, learners) {
		for m.n.w.nodes[n].up && !slices.Contains(m.Status().Voters, n) && !slices.Contains(m.Status().Learners, n) &&
			!m.n.cluster.Fresh(ctx, m.g, n) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	defer m.lock()()
	gone := slices.DeleteFunc(slices.Concat(m.x.voters, m.x.learners),
		func(n base.NodeID) bool { return slices.Contains(slices.Concat(voters, learners), n) })
	m.x.voters, m.x.learners = voters, learners
	for _, n := range gone {
		if x := m.n.w.nodes[n]; x != nil && x.up && !x.abandoned[m.g] {
			delete(x.open, m.g) // it hears of its removal
		}
	}
	return nil
}

func (m testMember) Fresh() bool {
	defer m.lock()()
	return m.n.copies[m.g].index == 0
}

func (m testMember) Abandoned() bool {
	defer m.lock()()
	return m.n.abandoned[m.g]
}

func (m testMember) Abandon() {
	defer m.lock()()
	delete(m.n.open, m.g)
	m.n.copies[m.g] = copyHere{}
	m.n.abandoned[m.g] = false
}

// testOracle is the timestamp oracle, which every node can reach.
type testOracle struct{ w *world }

func (o testOracle) Raise(_ context.Context, least base.Timestamp) (base.Timestamp, int, error) {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	o.w.oracle = max(o.w.oracle, least).Next()
	return o.w.oracle, 2, nil
}
