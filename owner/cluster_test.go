package owner_test

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/owner/homing"
	"github.com/godwitdb/godwit/wire"
)

// cluster is a few nodes in virtual time. The test decides what its consensus groups commit and
// apply where, who leads, what its network does with each message, and what its clocks show. It
// drives package owner from the outside only: by requests, by what a consensus group tells its
// state machine, and by messages.
type cluster struct {
	opts  options
	zero  base.Timestamp // when it was made
	nodes map[base.NodeID]*node
	logs  map[base.GroupID]*logbook
	net   *network

	mu     sync.Mutex
	events []event
	copies map[base.GroupID]copied
	advice map[string]homing.Verdict // by key
}

type options struct {
	nodes, regions int
	concurrency    base.Concurrency
	ticks          bool // background work: leases are renewed, silent transactions aborted, ...
	async          bool // the groups of rows replicate asynchronously to other regions
	modes          bool // the clock mode can be changed
	untold         bool // the nodes have not heard of one
	policy         bool // of homes
	alone          bool // the node knows that it is the only one
	waiting        int  // most requests that wait
	unbound        bool // bounds of slots are forgotten
	measured       bool // commits are assigned ahead of now by what replication was seen to take
	passes         bool // a leader that cannot serve finds another node fit to lead
	drowsy         bool // the proposer of a lease transfer entry goes on only when that is applied
}

// event is something that happened beside the answers to requests.
type event struct {
	at   time.Time
	what string
}

// copied is what other regions have of an asynchronous group.
type copied struct {
	index uint64
	cut   base.Timestamp
}

type node struct {
	c       *cluster
	id      base.NodeID
	region  base.RegionID
	store   *store.Store
	source  *clock.Simulated
	clock   *clock.Clock
	running atomic.Pointer[owner.Set] // nil: the node is down
	lanes   map[base.GroupID]*lane

	mu        sync.Mutex
	handlers  map[wire.Kind]wan.Handler
	confirmed bool
}

func newCluster(t testing.TB, o options) *cluster {
	c := &cluster{opts: o, zero: base.FromTime(time.Now()), nodes: map[base.NodeID]*node{},
		logs: map[base.GroupID]*logbook{}, copies: map[base.GroupID]copied{}, advice: map[string]homing.Verdict{}}
	c.net = &network{c: c}
	groups := c.groups()
	for _, g := range groups {
		c.logs[g] = &logbook{c: c, id: g, lanes: map[base.NodeID]*lane{}}
	}
	for i := range o.nodes {
		n := &node{c: c, id: base.NodeID(i + 1), region: base.RegionID(i%o.regions + 1), confirmed: true}
		st, err := store.Open(store.Options{Dir: "db", FS: store.Memory(), Simulation: true})
		if err != nil {
			t.Fatal(err)
		}
		n.store = st
		n.source = clock.NewSimulated(0, uint64(i))
		c.nodes[n.id] = n
		n.start(t)
	}
	for _, g := range groups {
		c.logs[g].win(base.NodeID(max(1, int(g.Region()))), 0, false)
		synctest.Wait()
	}
	return c
}

// groups are those of the meta shard and of shard 1.
func (c *cluster) groups() []base.GroupID {
	gs := []base.GroupID{base.MetaGroup}
	for r := range c.opts.regions {
		gs = append(gs, base.DataGroup(1, base.RegionID(r+1)))
	}
	return gs
}

// each calls f for the nodes in order.
func (c *cluster) each(f func(*node)) {
	for i := range len(c.nodes) {
		f(c.nodes[base.NodeID(i+1)])
	}
}

func (c *cluster) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, event{time.Now(), fmt.Sprintf(format, args...)})
}

// happened takes the events since the last call, by time and then by text: what happens at one
// moment has no order.
func (c *cluster) happened() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.SortFunc(c.events, func(a, b event) int {
		if d := a.at.Compare(b.at); d != 0 {
			return d
		}
		return strings.Compare(a.what, b.what)
	})
	var out []string
	for _, e := range c.events {
		out = append(out, e.what)
	}
	c.events = nil
	return out
}

func (c *cluster) close() {
	for _, l := range c.logs {
		l.abandon()
	}
	c.each(func(n *node) {
		n.stop()
		_ = n.store.Close()
	})
	c.net.close()
}

// set is what the node's process owns.
func (n *node) set() *owner.Set { return n.running.Load() }

// start begins a process of the node over its store.
func (n *node) start(t testing.TB) {
	c := n.c
	n.clock = clock.New(n.source)
	n.mu.Lock()
	n.handlers = map[wire.Kind]wan.Handler{}
	n.mu.Unlock()
	cfg := owner.Config{Self: n.id, Store: n.store, Clock: n.clock, Transport: endpoint{n}, Directory: directory{c},
		Concurrency: c.opts.concurrency, Bounds: owner.Bounds{MaxWaiting: c.opts.waiting},
		Breaks: owner.Breaks{NoBounds: c.opts.unbound}, Timing: owner.Timing{GCInterval: -1},
		Facts: owner.Facts{Groups: func() []base.GroupID { return c.groups() }, Region: func() base.RegionID { return n.region }}}
	if !c.opts.measured {
		cfg.QuorumDelay = func(base.GroupID) time.Duration { return 0 }
	}
	if c.opts.async {
		cfg.Held = heldBy{n}
	}
	if c.opts.alone {
		cfg.Alone = func() bool { return true }
	}
	if c.opts.policy {
		cfg.Homes = policy{n}
		cfg.Proposed = func(p homing.Proposal) { c.note("n%d proposes to move %s to r%d", n.id, keyName(p.Key), p.To) }
	}
	set := owner.NewSet(cfg)
	n.running.Store(set)
	if c.opts.modes {
		n.clock.Wait(set)
	}
	if c.opts.modes && !c.opts.untold {
		n.clock.Confirm()
		n.clock.Adopt(clock.GClock, 1, 0)
		n.clock.Grant(time.Now().Add(time.Hour))
	}
	n.lanes = map[base.GroupID]*lane{}
	for _, g := range c.groups() {
		r, err := set.Add(g)
		if err != nil {
			t.Fatal(err)
		}
		n.lanes[g] = c.logs[g].join(n, r)
	}
	if c.opts.ticks {
		set.Start()
	}
}

// stop ends the process; the store stays.
func (n *node) stop() {
	set := n.running.Swap(nil)
	if set == nil {
		return
	}
	for _, l := range n.lanes {
		l.leave()
	}
	set.Close()
}

// ---- consensus ----

// logbook is the log of one group. Its entries commit when they are proposed, unless it is held.
type logbook struct {
	c  *cluster
	id base.GroupID

	mu        sync.Mutex
	entries   []*entry // index 1 first
	committed uint64
	term      uint64
	leader    base.NodeID
	held      bool
	shown     int // entries that the script has seen
	lanes     map[base.NodeID]*lane
}

type entry struct {
	term uint64
	by   *lane
	cmd  *wire.Command // the proposer's own; nil: the first entry of a term
	data []byte
	done func(any, uint64, error)
	once sync.Once
}

// answer tells the proposer, once.
func (e *entry) answer(res any, index uint64, err error) {
	if e.done != nil {
		e.once.Do(func() { e.done(res, index, err) })
	}
}

// lane is a group at a node: what is package group otherwise. What it tells the replica it tells in
// turns. Fields are guarded by the logbook's mu.
type lane struct {
	log   *logbook
	node  *node
	r     *owner.Replica
	turns chan func()
	over  chan struct{}

	applied   uint64
	lags      bool        // it applies nothing
	lead      base.NodeID // whom it takes for the leader
	term      uint64
	leads     bool
	first     uint64
	told      bool // the replica knows that it leads
	known     [2]uint64
	unaware   bool     // it has not heard of newer terms
	limbo     []*entry // proposed while unaware
	preparing bool     // of a transfer
}

func (l *logbook) join(n *node, r *owner.Replica) *lane {
	a := &lane{log: l, node: n, r: r, turns: make(chan func(), 4096), over: make(chan struct{})}
	applied, err := n.store.Applied(l.id)
	if err != nil {
		panic(err)
	}
	l.mu.Lock()
	a.applied, a.lead, a.term = applied, l.leader, l.term
	l.lanes[n.id] = a
	l.mu.Unlock()
	go func() {
		for {
			select {
			case f := <-a.turns:
				f()
			case <-a.over:
				return
			}
		}
	}()
	r.Attach(a)
	a.later(a.pump)
	return a
}

func (a *lane) leave() {
	l := a.log
	l.mu.Lock()
	defer l.mu.Unlock()
	close(a.over)
	delete(l.lanes, a.node.id)
	if l.leader == a.node.id {
		l.leader = 0
	}
}

// later has the lane do something in its next turn.
func (a *lane) later(f func()) {
	select {
	case a.turns <- f:
	case <-a.over:
	}
}

// pump applies what is committed, or known to be, and tells the replica when it leads.
func (a *lane) pump() {
	l := a.log
	for {
		l.mu.Lock()
		limit := l.committed
		if k := a.known; k[1] > 0 && a.leads && k[1]+1 == a.first && l.entries[k[1]-1].term == k[0] {
			limit = max(limit, k[1])
		}
		if a.lags || a.applied >= limit {
			tell := a.leads && !a.told && a.applied+1 >= a.first
			a.told = a.told || tell
			term, first := a.term, a.first
			l.mu.Unlock()
			if tell {
				a.r.Leading(term, first)
			}
			return
		}
		i := a.applied + 1
		e := l.entries[i-1]
		cmd := e.cmd
		l.mu.Unlock()
		if cmd != nil && e.by != a {
			cmd = new(wire.Command)
			if err := cmd.UnmarshalVT(e.data); err != nil {
				panic(err)
			}
		}
		res := a.apply(i, e.term, cmd)
		l.mu.Lock()
		a.applied = i
		mine := e.by == a
		l.mu.Unlock()
		if mine {
			e.answer(res, i, nil)
		}
	}
}

func (a *lane) apply(index, term uint64, cmd *wire.Command) (res any) {
	b := a.node.store.NewBatch()
	defer b.Close()
	if cmd != nil {
		out, err := a.r.Apply(b, []group.Entry{{Index: index, Term: term, Cmd: cmd}})
		if err != nil {
			a.log.c.note("n%d stops at entry %d: %s", a.node.id, index, base.CodeOf(err))
			return nil
		}
		if out != nil {
			res = out[0]
		}
	}
	b.SetApplied(a.log.id, index)
	if err := b.Commit(false); err != nil {
		panic(err)
	}
	a.r.Applied(index)
	return res
}

// commit commits the next n entries; 0: all there are.
func (l *logbook) commit(n uint64) {
	l.mu.Lock()
	end := uint64(len(l.entries))
	if n > 0 {
		end = min(end, l.committed+n)
	}
	l.committed = max(l.committed, end)
	l.pumpAll()
	l.mu.Unlock()
}

func (l *logbook) isHeld() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

func (l *logbook) hold(on bool) {
	l.mu.Lock()
	l.held = on
	l.mu.Unlock()
	if !on {
		l.commit(0)
	}
}

// pumpAll has all lanes apply; mu is held.
func (l *logbook) pumpAll() {
	for _, a := range l.lanes {
		a.later(a.pump)
	}
}

// win makes a node the leader of the next term. lose of the entries that are not committed are not
// in its log. unaware: the old leader does not hear of it.
func (l *logbook) win(n base.NodeID, lose int, unaware bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ; lose > 0 && uint64(len(l.entries)) > l.committed; lose-- {
		i := len(l.entries)
		e := l.entries[i-1]
		l.entries = l.entries[:i-1]
		if e.by != nil {
			e.by.later(func() {
				e.answer(nil, 0, base.Errorf(base.CodeAborted, "entry %d was overwritten", i))
			})
		}
	}
	l.term++
	for id, a := range l.lanes {
		if id == n || a.unaware {
			continue
		}
		if unaware && a.leads {
			a.unaware = true
			continue
		}
		a.depose(n, l.term)
	}
	l.leader = n
	l.entries = append(l.entries, &entry{term: l.term})
	if a := l.lanes[n]; a != nil {
		a.lead, a.term, a.leads, a.told, a.first = n, l.term, true, false, uint64(len(l.entries))
	}
	if !l.held {
		l.committed = uint64(len(l.entries))
	}
	l.pumpAll()
}

// depose ends what the lane knows of its term: lead, or nobody, leads in the next one. mu is held.
func (a *lane) depose(lead base.NodeID, term uint64) {
	old, led, limbo := a.term, a.leads && a.told, a.limbo
	a.lead, a.term, a.leads, a.told, a.unaware, a.limbo, a.preparing = lead, max(term, a.term), false, false, false, nil, false
	if led {
		a.later(func() { a.r.Stopped(old) })
	}
	for _, e := range limbo {
		a.later(func() { e.answer(nil, 0, base.Errorf(base.CodeAborted, "the entry was overwritten")) })
	}
}

// abandon answers all that waits for the log: the outcome is unknown.
func (l *logbook) abandon() {
	l.mu.Lock()
	var all []*entry
	all = append(all, l.entries...)
	for _, a := range l.lanes {
		all = append(all, a.limbo...)
		a.limbo = nil
	}
	l.mu.Unlock()
	for _, e := range all {
		e.answer(nil, 0, base.Errorf(base.CodeAmbiguous, "nothing is known of the entry"))
	}
}

// transfer has the leader hand its lead over, as package group does.
func (l *logbook) transfer(from, to base.NodeID) {
	l.mu.Lock()
	a := l.lanes[from]
	term := a.term
	a.preparing = true
	l.mu.Unlock()
	a.later(func() {
		a.r.Revoking(term, to, func(told bool, err error) {
			l.mu.Lock()
			late := !a.preparing || a.term != term
			a.preparing = false
			l.mu.Unlock()
			switch {
			case late:
			case err != nil:
				l.c.note("n%d keeps %s: %s", a.node.id, groupName(l.id), base.CodeOf(err))
				a.later(func() { a.r.Leading(term, 0) })
			case told:
				l.c.note("n%d has nothing under way in %s any more", a.node.id, groupName(l.id))
			default:
				l.c.note("n%d lets raft move %s", a.node.id, groupName(l.id))
			}
		})
	})
}

// resume gives a transfer up: the target did not take over in time.
func (l *logbook) resume() {
	l.mu.Lock()
	a := l.lanes[l.leader]
	term := a.term
	a.preparing = false
	l.mu.Unlock()
	a.later(func() { a.r.Leading(term, 0) })
}

func (a *lane) propose(cmd *wire.Command, term uint64, placed func(uint64), done func(any, uint64, error)) {
	data, err := cmd.MarshalVT()
	if err != nil {
		panic(err)
	}
	e := &entry{term: term, by: a, cmd: cmd, data: data, done: done}
	l := a.log
	if placed != nil && l.c.opts.drowsy {
		defer a.asleep(e)()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := a.term
	switch {
	case !a.leads:
		a.later(func() { e.answer(nil, 0, base.Errorf(base.CodeNotLeader, "node %d does not lead", a.node.id)) })
		return
	case term != a.term:
		a.later(func() { e.answer(nil, 0, base.Errorf(base.CodeAborted, "the term is %d", now)) })
		return
	case a.unaware:
		a.limbo = append(a.limbo, e)
		return
	}
	l.entries = append(l.entries, e)
	if index := uint64(len(l.entries)); placed != nil {
		// Replication takes a moment, in which the proposer learns where its entry is.
		a.later(func() { placed(index) })
		go func() {
			time.Sleep(time.Microsecond)
			l.hold(l.isHeld())
		}()
		return
	}
	if !l.held {
		l.committed = uint64(len(l.entries))
		l.pumpAll()
	}
}

// asleep keeps the proposer of an entry, which has not been handed in yet, until the entry has been
// answered.
func (a *lane) asleep(e *entry) (wait func()) {
	answered, done := make(chan struct{}), e.done
	e.done = func(res any, index uint64, err error) {
		done(res, index, err)
		close(answered)
	}
	return func() { <-answered }
}

// The methods of owner.Consensus.

func (a *lane) Propose(_ context.Context, cmd *wire.Command, term uint64) (any, uint64, error) {
	type answer struct {
		res   any
		index uint64
		err   error
	}
	ch := make(chan answer, 1)
	a.propose(cmd, term, nil, func(res any, i uint64, err error) { ch <- answer{res, i, err} })
	got := <-ch
	return got.res, got.index, got.err
}

func (a *lane) ProposeAsync(cmd *wire.Command, term uint64, done func(any, uint64, error)) {
	a.propose(cmd, term, nil, done)
}

func (a *lane) Enqueue(cmd *wire.Command, term uint64, done func(any, uint64, error)) {
	a.propose(cmd, term, nil, done)
}

func (a *lane) ProposePlaced(cmd *wire.Command, term uint64, placed func(uint64), done func(any, uint64, error)) {
	a.propose(cmd, term, placed, done)
}

func (a *lane) Push() {}

func (a *lane) Leader() (base.NodeID, uint64) {
	a.log.mu.Lock()
	defer a.log.mu.Unlock()
	return a.lead, a.term
}

func (a *lane) Stand(term uint64, from base.NodeID, index uint64) error {
	a.log.mu.Lock()
	defer a.log.mu.Unlock()
	if a.leads || a.lead != from || a.term != term {
		return base.Errorf(base.CodeUnavailable, "node %d does not follow node %d in term %d", a.node.id, from, term)
	}
	a.log.c.note("n%d stands for election in %s when its log ends at %d", a.node.id, groupName(a.log.id), index)
	return nil
}

func (a *lane) Committed(term, index uint64) {
	a.log.mu.Lock()
	a.known = [2]uint64{term, index}
	a.log.mu.Unlock()
	a.later(a.pump)
}

// PassOn gives the lead to the node with the next number, if the test has one that is fit.
func (a *lane) PassOn(term uint64) {
	l := a.log
	l.mu.Lock()
	to := base.NodeID(0)
	for n := range l.lanes {
		if n != a.node.id && (to == 0 || (n > a.node.id) == (to > a.node.id) && n < to || n > a.node.id && to < a.node.id) {
			to = n
		}
	}
	l.mu.Unlock()
	if to == 0 || !l.c.opts.passes {
		return
	}
	a.later(func() {
		a.r.Revoking(term, to, func(_ bool, err error) {
			if err != nil {
				l.c.note("n%d cannot pass the lead of %s on to n%d: %s", a.node.id, groupName(l.id), to, base.CodeOf(err))
				a.later(func() { a.r.Leading(term, 0) })
				return
			}
			l.c.note("n%d passes the lead of %s on to n%d", a.node.id, groupName(l.id), to)
			l.win(to, 0, false)
		})
	})
}

func (a *lane) Hops() int      { return 2 }
func (a *lane) FarCopies() int { return 0 }

// ---- network ----

// network delivers messages at once, unless a rule says otherwise.
type network struct {
	c     *cluster
	mu    sync.Mutex
	rules []*rule
	held  []*parcel
}

// rule is what happens to the next messages of a kind.
type rule struct {
	what   string // as messageName says
	do     string // drop, lose-answer, double, hold, late
	by     time.Duration
	times  int
	toward base.NodeID // 0: anybody
}

// parcel is a message that is held back.
type parcel struct {
	what string
	free chan struct{}
}

func (w *network) add(r *rule) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rules = append(w.rules, r)
}

func (w *network) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rules = nil
}

// match takes the first rule for a message.
func (w *network) match(what string, to base.NodeID) *rule {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.rules {
		if r.times > 0 && r.what == what && (r.toward == 0 || r.toward == to) {
			r.times--
			return r
		}
	}
	return nil
}

// deliver frees the messages of a kind that are held back, and says how many.
func (w *network) deliver(what string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = slices.DeleteFunc(w.held, func(p *parcel) bool {
		if p.what != what {
			return false
		}
		close(p.free)
		n++
		return true
	})
	return n
}

func (w *network) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.held {
		close(p.free)
	}
	w.held = nil
}

func (w *network) wait(ctx context.Context, what string) error {
	p := &parcel{what: what, free: make(chan struct{})}
	w.mu.Lock()
	w.held = append(w.held, p)
	w.mu.Unlock()
	select {
	case <-p.free:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// endpoint is a node's end of the network.
type endpoint struct{ n *node }

func (p endpoint) Handle(k wire.Kind, h wan.Handler) {
	p.n.mu.Lock()
	defer p.n.mu.Unlock()
	p.n.handlers[k] = h
}

// handler is what a node does with messages of a kind; nil if it is down.
func (n *node) handler(k wire.Kind) wan.Handler {
	if n == nil || n.running.Load() == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.handlers[k]
}

func (p endpoint) Call(ctx context.Context, to base.NodeID, kind wire.Kind, q, resp wan.Msg) error {
	c := p.n.c
	lost := func(ran bool) error {
		return &wan.CallError{Base: base.Errorf(base.CodeUnavailable, "node %d does not answer", to), Ran: ran, Cause: ctx.Err()}
	}
	body, err := q.MarshalVT()
	if err != nil {
		return err
	}
	what := messageName(kind, q)
	rule := c.net.match(what, to)
	do := ""
	if rule != nil {
		if do = rule.do; do != "late" {
			c.note("n%d to n%d: %s %s", p.n.id, to, what, do)
		}
	}
	switch do {
	case "dropped":
		<-ctx.Done()
		return lost(true)
	case "held":
		if c.net.wait(ctx, what) != nil {
			return lost(true)
		}
	case "late":
		select {
		case <-time.After(rule.by):
		case <-ctx.Done():
			return lost(true)
		}
	}
	h := c.nodes[to].handler(kind)
	if h == nil {
		return lost(false)
	}
	if do == "doubled" {
		again := slices.Clone(body)
		go func() {
			time.Sleep(time.Microsecond) // it comes second
			out, err := h(context.WithoutCancel(ctx), p.n.id, again)
			if s, ok := out.(interface{ GetStatus() *wire.Status }); ok && err == nil {
				err = owner.ErrorOf(s.GetStatus())
			}
			c.note("n%d to n%d: the second %s: %s", p.n.id, to, what, verdict(err))
		}()
	}
	out, err := h(ctx, p.n.id, body)
	if do == "unanswered" {
		<-ctx.Done()
		return lost(true)
	}
	if err != nil {
		return err
	}
	if body, err = out.MarshalVT(); err != nil {
		return err
	}
	return resp.UnmarshalVT(body)
}

func verdict(err error) string {
	if err == nil {
		return "ok"
	}
	return base.CodeOf(err).String()
}

// messageName is the kind of a message, and of those of a hand-over which one it is.
func messageName(kind wire.Kind, q wan.Msg) string {
	if h, ok := q.(*wire.HandoverRequest); ok {
		switch {
		case h.TransferredState != nil:
			return "state"
		case h.Stand != 0:
			return "stand"
		}
		return "ask"
	}
	return kind.String()
}

type directory struct{ c *cluster }

func (d directory) Leader(g base.GroupID) base.NodeID {
	l := d.c.logs[g]
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leader
}

func (d directory) Replicas(base.GroupID) []base.NodeID {
	var out []base.NodeID
	d.c.each(func(n *node) { out = append(out, n.id) })
	return out
}

// ---- asynchronous groups, policy of homes ----

type heldBy struct{ n *node }

func (h heldBy) Async(s base.ShardID) bool { return s != base.MetaShard }
func (h heldBy) Confirmed() bool           { return h.n.confirmed }
func (h heldBy) Away(g base.GroupID) bool  { return g.Region() != h.n.region }
func (h heldBy) AskHeld(g base.GroupID, index uint64, cut base.Timestamp) {
	h.n.c.note("n%d asks whether other regions hold %s up to entry %d and %s", h.n.id, groupName(g), index, h.n.c.at(cut))
}

func (h heldBy) HeldOf(g base.GroupID) (uint64, base.Timestamp) {
	h.n.c.mu.Lock()
	defer h.n.c.mu.Unlock()
	x := h.n.c.copies[g]
	return x.index, x.cut
}

type policy struct{ n *node }

func (p policy) Accessed(a homing.Access) homing.Verdict {
	c := p.n.c
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.advice[string(a.Key)]
	if a.From != v.To {
		v.To, v.Along = 0, nil
	}
	return v
}

func (p policy) Moved(m homing.Move) {
	if m.Alone {
		p.n.c.note("n%d has moved %s from r%d to r%d alone", p.n.id, keyName(m.Key), m.From, m.To)
		return
	}
	p.n.c.note("n%d has moved %s from r%d to r%d with a write", p.n.id, keyName(m.Key), m.From, m.To)
}

// ---- names ----

// at shows a timestamp as milliseconds since the cluster was made, to the microsecond. A sign
// behind it says that the timestamp is up to half a microsecond above or below.
func (c *cluster) at(ts base.Timestamp) string {
	switch {
	case ts == 0:
		return "0"
	case ts == base.MaxTimestamp:
		return "max"
	case ts < 1e9:
		return fmt.Sprintf("%d ns", ts)
	}
	ns := int64(ts) - int64(c.zero)
	us := (ns + 500) / 1000
	if ns < 0 {
		us = (ns - 500) / 1000
	}
	sign := ""
	switch {
	case ns > us*1000:
		sign = "+"
	case ns < us*1000:
		sign = "-"
	}
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.3f", float64(us)/1000), "0"), ".") + sign
}

func groupName(g base.GroupID) string {
	if g == base.MetaGroup {
		return "meta"
	}
	return fmt.Sprintf("g%d", g.Region())
}

// sections are the parts of the key space that scripts know. Rows without a section are of a table
// whose gaps belong to region 1 at first.
var sections = map[string]base.Key{
	"":   base.IndexPrefix(1, base.MakeTableID(3000, 1), 0, 0),
	"B/": base.IndexPrefix(1, base.MakeTableID(3000, 2), 0, 0),
	"x/": base.IndexPrefix(1, base.MakeTableID(3000, 1), 1|base.ByHome, 1),
	"y/": base.IndexPrefix(1, base.MakeTableID(3000, 1), 1|base.ByHome, 2),
	"m/": base.IndexPrefix(0, 16, 0, 0),
}

// keyOf reads "a", "B/a" (a table of region 2), "x/a" and "y/a" (an index by home, of regions 1 and
// 2), "m/a" (the meta shard); "^" is the first key of a section and "$" its end.
func keyOf(s string) base.Key {
	sec, name := "", s
	if i := strings.Index(s, "/"); i >= 0 {
		sec, name = s[:i+1], s[i+1:]
	}
	prefix := sections[sec].Clone()
	switch name {
	case "^":
		return prefix
	case "$":
		return prefix.PrefixEnd()
	}
	return append(prefix, name...)
}

func keyName(k base.Key) string {
	names := make([]string, 0, len(sections))
	for n := range sections {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		p := sections[n]
		if strings.HasPrefix(string(k), string(p)) {
			if len(k) == len(p) {
				return n + "^"
			}
			return n + strings.ReplaceAll(string(k[len(p):]), "\x00", "'")
		}
	}
	for _, n := range names {
		if string(k) == string(sections[n].PrefixEnd()) {
			return n + "$"
		}
	}
	return k.String()
}

func spanName(s base.Span) string {
	if s.IsPoint() {
		return keyName(s.Start)
	}
	return keyName(s.Start) + "-" + keyName(s.End)
}
