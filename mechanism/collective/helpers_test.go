package collective

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/policy/matrix"
	"github.com/godwitdb/godwit/policy/plan"
	"github.com/godwitdb/godwit/wire"
)

var seeds = flag.Int("seeds", 50, "faulty runs of each kind")

// world is n nodes on an emulated network.
type world struct {
	t     testing.TB
	net   *wan.Network
	nodes []base.NodeID
	trs   []*shaky
	comms []*Comm
	facts *plan.Facts
}

// shaky is a transport whose one-way messages a test can lose, repeat, delay or use to end the
// node.
type shaky struct {
	wan.Transport
	mu   sync.Mutex
	sent int
	// deaf loses what this node should pass on for others.
	deaf atomic.Bool
	// fate is called for each message, by number, one at a time; nil: all pass.
	fate func(n int, to base.NodeID) fate
	// got counts collective messages received, relayed ones too.
	got int
}

type fate struct {
	drop  bool
	err   error // Send fails so
	twice bool
	late  time.Duration
	first func() // before it is sent
}

func (s *shaky) Send(to base.NodeID, kind wire.Kind, m wan.Msg) error {
	s.mu.Lock()
	var what fate
	if s.fate != nil {
		what = s.fate(s.sent, to)
	}
	s.sent++
	s.mu.Unlock()
	if frame, ok := m.(*wire.CollectiveFrame); ok && base.NodeID(frame.From) != s.Self() && s.deaf.Load() {
		return nil
	}
	if what.first != nil {
		what.first()
	}
	if what.err != nil {
		return what.err
	}
	if what.drop {
		return nil
	}
	if what.twice {
		time.AfterFunc(7*time.Millisecond, func() { s.Transport.Send(to, kind, m) })
	}
	if what.late > 0 {
		time.AfterFunc(what.late, func() { s.Transport.Send(to, kind, m) })
		return nil
	}
	return s.Transport.Send(to, kind, m)
}

func (s *shaky) HandleOrdered(kind wire.Kind, h func(base.NodeID, []byte)) {
	s.Transport.HandleOrdered(kind, func(from base.NodeID, body []byte) {
		s.mu.Lock()
		s.got++
		s.mu.Unlock()
		h(from, body)
	})
}

// newWorld puts each node in a region of its own, or per nodes in each.
func newWorld(t testing.TB, m *matrix.Matrix, per int, opt Options, nopt wan.NetOptions) *world {
	t.Helper()
	if per > 1 {
		nopt.LAN.Delay = 250 * time.Microsecond
	}
	w := &world{t: t, net: wan.NewNetwork(nopt)}
	w.net.SetOneWay(m.OneWays())
	n := m.Len() * per
	w.facts = &plan.Facts{}
	for i := range n {
		w.nodes = append(w.nodes, base.NodeID(i+1))
		row := make([]time.Duration, n)
		for j := range row {
			if row[j] = m.OneWays()[i/per][j/per]; i/per == j/per && i != j {
				row[j] = nopt.LAN.Delay
			}
		}
		w.facts.Latency = append(w.facts.Latency, row)
		w.facts.Region = append(w.facts.Region, i/per)
	}
	w.trs, w.comms = make([]*shaky, n), make([]*Comm, n)
	for i := range n {
		w.boot(i, opt)
	}
	return w
}

func (w *world) boot(i int, opt Options) {
	per := len(w.nodes) / (w.facts.Region[len(w.nodes)-1] + 1)
	tr := &shaky{Transport: w.net.Join(w.nodes[i], base.RegionID(i/per+1))}
	s := New(tr)
	c, err := s.Join(1, w.nodes, opt)
	if err != nil {
		w.t.Fatal(err)
	}
	for j, id := range w.nodes {
		tr.SetPeer(id, "", base.RegionID(j/per+1))
	}
	if err := tr.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.trs[i], w.comms[i] = tr, c
}

func (w *world) close() {
	for _, c := range w.comms {
		c.Close()
	}
	w.net.Close()
}

func (w *world) setPlan(p *plan.Plan, from uint64) {
	w.t.Helper()
	for _, c := range w.comms {
		if err := c.SetPlan(p, from); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) makePlan(p plan.Params) *plan.Plan {
	w.t.Helper()
	out, err := plan.Make(w.facts, p)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// sharded is a group for each region, in which every node aggregates a slice.
func (w *world) sharded() *plan.Plan {
	var gs []plan.Group
	for i, r := range w.facts.Region {
		if r == len(gs) {
			gs = append(gs, plan.Group{})
		}
		gs[r].Members = append(gs[r].Members, i)
		gs[r].Aggregators = append(gs[r].Aggregators, i)
	}
	return plan.Evaluate(w.facts, plan.Params{}, gs)
}

// all runs f on every node and waits; it returns the time of the slowest.
func (w *world) all(f func(i int, c *Comm) error) (took time.Duration) {
	w.t.Helper()
	begin := time.Now()
	errs := make([]error, len(w.comms))
	var wg sync.WaitGroup
	for i, c := range w.comms {
		wg.Go(func() { errs[i] = f(i, c) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			w.t.Errorf("node %d: %v", i, err)
		}
	}
	return time.Since(begin)
}

// payload is what a node gives to a round.
func payload(round uint64, i int) []byte {
	return []byte(fmt.Sprintf("round %d of node %d: %0*d", round, i, 20+i*7, i))
}

func pair(round uint64, from, to int) []byte {
	return []byte(fmt.Sprintf("round %d from %d to %d", round, from, to))
}

// gathered checks a result of AllGather; nil is expected from those who are out.
func gathered(out [][]byte, round uint64, gone func(int) bool) error {
	for i, b := range out {
		want := string(payload(round, i))
		if gone != nil && gone(i) {
			want = ""
		}
		if string(b) != want {
			return fmt.Errorf("round %d: %q from node %d instead of %q", round, b, i, want)
		}
	}
	return nil
}

func network(t testing.TB, name string, n int) *matrix.Matrix {
	t.Helper()
	m, err := matrix.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = m.First(n); err != nil {
		t.Fatal(err)
	}
	return m
}

func within(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}
