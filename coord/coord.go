// Package coord estimates round trips between many nodes from few probes: each
// node has a Vivaldi coordinate, of github.com/hashicorp/serf/coordinate, whose
// distances approximate round trips, and sampled pairs are measured to find and
// correct where they do not (GeoCoCo, section 5, "delay monitoring"). Up to some
// dozens of nodes measuring all pairs is cheap and exact; this is for hundreds
// and thousands.
//
// It is a pure core: the caller probes whom [Map.Probes] names and reports to
// [Map.Observe].
//
//   - V1: a node probes at most Near+Far+Sampled peers in a period, however many there are.
//   - V2: a pair whose last sample was off by more than Tolerance is estimated by that sample.
package coord

import (
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

// Map holds the coordinates of all nodes.
type Map struct {
	opt   Options
	rnd   *rand.Rand
	nodes []*coordinate.Client
	names []string
	peers [][]int                 // neighbours of each node
	fixed []map[int]time.Duration // samples that override estimates
	age   [][]int                 // keys of fixed, oldest first
}

// New makes a map of n nodes that knows nothing.
func New(n int, opt Options) (*Map, error) {
	for _, d := range []struct {
		v *int
		d int
	}{{&opt.Near, 12}, {&opt.Far, 20}, {&opt.Sampled, 5}, {&opt.Overrides, 64}} {
		if *d.v == 0 {
			*d.v = d.d
		}
	}
	if opt.Tolerance == 0 {
		opt.Tolerance = 0.1
	}
	m := &Map{opt: opt, rnd: rand.New(rand.NewPCG(opt.Seed, 0xc00d)), peers: make([][]int, n), fixed: make([]map[int]time.Duration, n), age: make([][]int, n)}
	for i := range n {
		c, err := coordinate.NewClient(coordinate.DefaultConfig())
		if err != nil {
			return nil, err
		}
		m.nodes = append(m.nodes, c)
		m.names = append(m.names, fmt.Sprint(i))
		m.fixed[i] = map[int]time.Duration{}
		m.peers[i] = m.lot(i, opt.Far, nil)
	}
	return m, nil
}

// lot draws k peers of node i that are not in but.
func (m *Map) lot(i, k int, but []int) (out []int) {
	n := len(m.nodes)
	k = min(k, n-1-len(but))
	for len(out) < k {
		if j := m.rnd.IntN(n); j != i && !slices.Contains(but, j) && !slices.Contains(out, j) {
			out = append(out, j)
		}
	}
	return out
}

// Settle chooses the neighbours of all nodes anew, now that there are estimates.
func (m *Map) Settle() {
	n := len(m.nodes)
	others := make([]int, 0, n)
	dist := make([]time.Duration, n)
	at := make([]*coordinate.Coordinate, n)
	for i := range n {
		at[i] = m.nodes[i].GetCoordinate()
	}
	for i := range n {
		others = others[:0]
		for j := range n {
			if j != i {
				dist[j] = at[i].DistanceTo(at[j])
				others = append(others, j)
			}
		}
		slices.SortFunc(others, func(a, b int) int {
			if dist[a] != dist[b] {
				return int(min(1, max(-1, dist[a]-dist[b])))
			}
			return a - b
		})
		near := slices.Clone(others[:min(m.opt.Near, len(others))])
		m.peers[i] = append(near, m.lot(i, m.opt.Far, near)...)
		m.forget(i)
	}
}

// forget drops the client's memory of peers that it no longer probes.
func (m *Map) forget(i int) {
	for j := range m.nodes {
		if !slices.Contains(m.peers[i], j) {
			m.nodes[i].ForgetNode(m.names[j])
		}
	}
}

// Probes names whom node i measures in this period: neighbours, which place it,
// and samples, which verify.
func (m *Map) Probes(i int) (neighbours, samples []int) {
	return m.peers[i], m.lot(i, m.opt.Sampled, m.peers[i])
}

// Observe takes a round trip that node i measured to a neighbour j.
func (m *Map) Observe(i, j int, rtt time.Duration) error {
	_, err := m.nodes[i].Update(m.names[j], m.nodes[j].GetCoordinate(), rtt)
	return err
}

// Verify takes a round trip that node i measured to a sample j, and returns the relative error of the estimate.
func (m *Map) Verify(i, j int, rtt time.Duration) float64 {
	raw := m.Raw(i, j)
	off := float64(max(raw-rtt, rtt-raw)) / float64(max(rtt, time.Microsecond))
	_, had := m.fixed[i][j]
	if off <= m.opt.Tolerance {
		if had {
			delete(m.fixed[i], j)
			m.age[i] = slices.DeleteFunc(m.age[i], func(k int) bool { return k == j })
		}
		return off
	}
	if !had {
		m.age[i] = append(m.age[i], j)
		if len(m.age[i]) > m.opt.Overrides {
			delete(m.fixed[i], m.age[i][0])
			m.age[i] = m.age[i][1:]
		}
	}
	m.fixed[i][j] = rtt
	return off
}

// Raw is the distance of the coordinates.
func (m *Map) Raw(i, j int) time.Duration { return m.nodes[i].DistanceTo(m.nodes[j].GetCoordinate()) }

// RTT is the estimate of the round trip between two nodes.
func (m *Map) RTT(i, j int) time.Duration {
	if i == j {
		return 0
	}
	if d, ok := m.fixed[i][j]; ok {
		return d
	}
	if d, ok := m.fixed[j][i]; ok {
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
