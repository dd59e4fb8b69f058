package owner_test

import (
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
	releases       bool // deposed leaders release their leases (TIME-1b)
	breaks         owner.Breaks
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
		Breaks: c.opts.breaks, Timing: owner.Timing{GCInterval: -1},
		Facts: owner.Facts{Groups: func() []base.GroupID { return c.groups() }, Region: func() base.RegionID { return n.region }}}
	cfg.NoBounds, cfg.NoRelease = c.opts.unbound, !c.opts.releases // scripts are about leases that end by themselves
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
