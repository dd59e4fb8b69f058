// Package coord estimates round trips between many nodes from few probes: each
// node has a Vivaldi coordinate, of github.com/hashicorp/serf/coordinate, whose
// distances approximate round trips, and sampled pairs are measured to find and
// correct where they do not (GeoCoCo, section 5, "delay monitoring"). Up to some
// dozens of nodes measuring all pairs is cheap and exact; this is for more, and
// for hundreds and thousands. Package cluster uses it so.
//
// It is a pure core. A [Node] is what runs at one node: the caller probes whom
// [Node.Probes] names, reports to [Node.Observe] and [Node.Verify], and carries coordinates
// between nodes. A [Map] holds all nodes of a model.
//
//   - COORD-1: a node probes at most Near+Far+Sampled peers in a period, however many there are.
//   - COORD-2: a pair whose last sample was off by more than Tolerance is estimated by that sample.
package coord

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hashicorp/serf/coordinate"
)

// Options; the zero value is the default.
type Options struct {
	// Near and Far are the neighbours of a node that place its coordinate: the nearest
	// ones by the estimates, and others by lot. Defaults 12 and 20.
	Near, Far int
	// Sampled are peers by lot that verify the estimates. Default 5.
	Sampled int
	// Tolerance is the relative error from which a sample overrides the estimate. Default 0.1.
	Tolerance float64
	// Overrides bounds how many of them a node keeps; older ones go first. Default 64.
	Overrides int
	// Seed of the lots.
	Seed uint64
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		v *int
		d int
	}{{&o.Near, 12}, {&o.Far, 20}, {&o.Sampled, 5}, {&o.Overrides, 64}} {
		if *d.v == 0 {
			*d.v = d.d
		}
	}
	if o.Tolerance == 0 {
		o.Tolerance = 0.1
	}
	return o
}

// Coordinate is a node's place; distances approximate round trips.
type Coordinate = coordinate.Coordinate

// Distance is the estimate of the round trip between two places.
func Distance(a, b *Coordinate) time.Duration { return a.DistanceTo(b) }

// dimensions of all coordinates, which could not be compared otherwise.
var dimensions = coordinate.DefaultConfig().Dimensionality

// Encode makes numbers of a coordinate.
func Encode(c *Coordinate) []float32 {
	out := make([]float32, 0, dimensions+3)
	for _, v := range c.Vec {
		out = append(out, float32(v))
	}
	return append(out, float32(c.Error), float32(c.Adjustment), float32(c.Height))
}

// Decode is the opposite of Encode.
func Decode(v []float32) (*Coordinate, error) {
	if len(v) != int(dimensions)+3 {
		return nil, fmt.Errorf("a coordinate of %d numbers", len(v))
	}
	c := &Coordinate{Vec: make([]float64, dimensions)}
	for i := range c.Vec {
		c.Vec[i] = float64(v[i])
	}
	rest := v[dimensions:]
	c.Error, c.Adjustment, c.Height = float64(rest[0]), float64(rest[1]), float64(rest[2])
	if !c.IsValid() {
		return nil, errors.New("a coordinate that is no place")
	}
	return c, nil
}

// Node is one node's part: its place, its neighbours, and what samples have corrected.
type Node struct {
	opt   Options
	rnd   *rand.Rand
	me    *coordinate.Client
	self  int
	peers []int                 // neighbours
	fixed map[int]time.Duration // samples that override estimates
	age   []int                 // keys of fixed, oldest first
}

// NewNode makes the part of a node that knows nobody.
func NewNode(self int, opt Options) (*Node, error) {
	opt = opt.withDefaults()
	return newNode(self, opt, rand.New(rand.NewPCG(opt.Seed, 0xc00d)))
}

func newNode(self int, opt Options, rnd *rand.Rand) (*Node, error) {
	c, err := coordinate.NewClient(coordinate.DefaultConfig())
	if err != nil {
		return nil, err
	}
	return &Node{opt: opt, rnd: rnd, me: c, self: self, fixed: map[int]time.Duration{}}, nil
}

// Coordinate is the node's place.
func (n *Node) Coordinate() *Coordinate { return n.me.GetCoordinate() }

// lot draws k of the others that are not in but.
func (n *Node) lot(others []int, k int, but []int) (out []int) {
	k = min(k, len(others)-len(but))
	for len(out) < k {
		if j := others[n.rnd.IntN(len(others))]; !slices.Contains(but, j) && !slices.Contains(out, j) {
			out = append(out, j)
		}
	}
	return out
}

// Choose chooses the neighbours anew among the others (each once, without the node itself): near
// are those with known places that are nearest.
func (n *Node) Choose(others []int, at func(int) *Coordinate) {
	type far struct {
		j int
		d time.Duration
	}
	me := n.me.GetCoordinate()
	known := make([]far, 0, len(others))
	for _, j := range others {
		if c := at(j); c != nil {
			known = append(known, far{j, me.DistanceTo(c)})
		}
	}
	slices.SortFunc(known, func(a, b far) int { return cmp.Or(cmp.Compare(a.d, b.d), cmp.Compare(a.j, b.j)) })
	var near []int
	for _, x := range known[:min(n.opt.Near, len(known))] {
		near = append(near, x.j)
	}
	old := n.peers
	n.peers = append(near, n.lot(others, n.opt.Far, near)...)
	for _, j := range old {
		if !slices.Contains(n.peers, j) {
			n.me.ForgetNode(fmt.Sprint(j)) // its memory of peers that are not probed any more
		}
	}
}

// Neighbours are those that place the node.
func (n *Node) Neighbours() []int { return n.peers }

// Probes names whom to measure in this period: neighbours, which place the node, and samples of the
// others, which verify.
func (n *Node) Probes(others []int) (neighbours, samples []int) {
	return n.peers, n.lot(others, n.opt.Sampled, n.peers)
}

// Observe takes a round trip measured to a neighbour at a place.
func (n *Node) Observe(j int, at *Coordinate, rtt time.Duration) error {
	_, err := n.me.Update(fmt.Sprint(j), at, rtt)
	return err
}

// Verify takes a round trip measured to a node at a place, and returns the relative error of the
// estimate.
func (n *Node) Verify(j int, at *Coordinate, rtt time.Duration) float64 {
	raw := n.me.DistanceTo(at)
	off := float64(max(raw-rtt, rtt-raw)) / float64(max(rtt, time.Microsecond))
	_, had := n.fixed[j]
	if off <= n.opt.Tolerance {
		if had {
			n.Forget(j)
		}
		return off
	}
	if !had {
		n.age = append(n.age, j)
		if len(n.age) > n.opt.Overrides {
			n.Forget(n.age[0])
		}
	}
	n.fixed[j] = rtt
	return off
}

// Forget drops the correction of a node.
func (n *Node) Forget(j int) {
	delete(n.fixed, j)
	n.age = slices.DeleteFunc(n.age, func(k int) bool { return k == j })
}

// Corrected calls fn with the round trips that samples have corrected, oldest first.
func (n *Node) Corrected(fn func(j int, rtt time.Duration)) {
	for _, j := range n.age {
		fn(j, n.fixed[j])
	}
}

// Map holds the coordinates of all nodes.
type Map struct {
	nodes  []*Node
	others [][]int
}

// New makes a map of n nodes that knows nothing.
func New(n int, opt Options) (*Map, error) {
	opt = opt.withDefaults()
	rnd := rand.New(rand.NewPCG(opt.Seed, 0xc00d))
	m := &Map{others: make([][]int, n)}
	for i := range n {
		x, err := newNode(i, opt, rnd)
		if err != nil {
			return nil, err
		}
		m.nodes = append(m.nodes, x)
		for j := range n {
			if j != i {
				m.others[i] = append(m.others[i], j)
			}
		}
		x.Choose(m.others[i], func(int) *Coordinate { return nil })
	}
	return m, nil
}

// Settle chooses the neighbours of all nodes anew, now that there are estimates.
func (m *Map) Settle() {
	at := make([]*Coordinate, len(m.nodes))
	for i, x := range m.nodes {
		at[i] = x.Coordinate()
	}
	for i, x := range m.nodes {
		x.Choose(m.others[i], func(j int) *Coordinate { return at[j] })
	}
}

// Probes names whom node i measures in this period: neighbours, which place it,
// and samples, which verify.
func (m *Map) Probes(i int) (neighbours, samples []int) { return m.nodes[i].Probes(m.others[i]) }

// Observe takes a round trip that node i measured to a neighbour j.
func (m *Map) Observe(i, j int, rtt time.Duration) error {
	return m.nodes[i].Observe(j, m.nodes[j].Coordinate(), rtt)
}

// Verify takes a round trip that node i measured to a sample j, and returns the relative error of
// the estimate.
func (m *Map) Verify(i, j int, rtt time.Duration) float64 {
	return m.nodes[i].Verify(j, m.nodes[j].Coordinate(), rtt)
}

// Raw is the distance of the coordinates.
func (m *Map) Raw(i, j int) time.Duration { return m.nodes[i].me.DistanceTo(m.nodes[j].Coordinate()) }

// RTT is the estimate of the round trip between two nodes.
func (m *Map) RTT(i, j int) time.Duration {
	if i == j {
		return 0
	}
	if d, ok := m.nodes[i].fixed[j]; ok {
		return d
	}
	if d, ok := m.nodes[j].fixed[i]; ok {
		return d
	}
	return m.Raw(i, j)
}

// OneWays are all estimates as one-way latencies, for package plan.
func (m *Map) OneWays() [][]time.Duration {
	out := make([][]time.Duration, len(m.nodes))
	for i := range out {
		out[i] = make([]time.Duration, len(m.nodes))
		for j := range out[i] {
			out[i][j] = m.RTT(i, j) / 2
		}
	}
	return out
}
