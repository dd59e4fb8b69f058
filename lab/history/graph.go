package history

// edgeKind says why one node must come before another.
type edgeKind uint8

const (
	ww      edgeKind = iota // the next version of a key, or a later one
	wr                      // read what the other wrote
	rw                      // read a version that the other replaced
	rwScan                  // the same, seen by a range read
	session                 // the same client, one after the other
	realtime
	wwTime // ww and rw where the order of the two versions is inferred from real time
	rwTime
	inner // leaves an auxiliary node; the edge into the auxiliary node says why
)

var kindNames = [...]string{"ww", "wr", "rw", "rw(range)", "session", "realtime", "ww(time)", "rw(time)", "inner"}

type edge struct {
	from, to int32
	kind     edgeKind
	label    int32 // key for ww, wr, rw; none otherwise
}

// graph has the transactions as nodes 0..txns-1 and auxiliary nodes behind them. An auxiliary node
// stands for a set of pairs: each node with an edge into it comes before each node that it leads
// to. It keeps the number of edges linear.
type graph struct {
	txns  int
	nodes int
	// half is not 0 in a doubled graph (withoutAdjacentRW): node half+n is the second copy of node
	// n.
	half  int
	edges []edge
	start []int32 // edges of node n are edges[start[n]:start[n+1]], after freeze
}

func newGraph(txns int) *graph { return &graph{txns: txns, nodes: txns} }

// txn returns the transaction that node n is, or a copy of, and none for auxiliary nodes.
func (g *graph) txn(n int32) int32 {
	if g.half > 0 && n >= int32(g.half) {
		n -= int32(g.half)
	}
	if n < int32(g.txns) {
		return n
	}
	return none
}

func (g *graph) aux() int32 {
	g.nodes++
	return int32(g.nodes - 1)
}

func (g *graph) add(from, to int32, kind edgeKind, label int32) {
	if from != to {
		g.edges = append(g.edges, edge{from, to, kind, label})
	}
}

// freeze sorts the edges by source (counting sort, stable, so that results do not depend on
// chance).
func (g *graph) freeze() {
	g.start = make([]int32, g.nodes+1)
	for _, e := range g.edges {
		g.start[e.from+1]++
	}
	for i := 1; i <= g.nodes; i++ {
		g.start[i] += g.start[i-1]
	}
	next := append([]int32(nil), g.start...)
	sorted := make([]edge, len(g.edges))
	for _, e := range g.edges {
		sorted[next[e.from]] = e
		next[e.from]++
	}
	g.edges = sorted
}

// cyclic returns the strongly connected components of more than one node, by Tarjan's algorithm
// without recursion. Only edges that keep allows are followed.
func (g *graph) cyclic(keep func(edgeKind) bool) [][]int32 {
	const unseen = int32(0)
	order := make([]int32, g.nodes) // 1 + time of discovery
	low := make([]int32, g.nodes)
	on := make([]bool, g.nodes)
	next := make([]int32, g.nodes)
	var stack, path []int32
	var found [][]int32
	clock := int32(0)
	for root := int32(0); root < int32(g.nodes); root++ {
		if order[root] != unseen {
			continue
		}
		path = append(path[:0], root)
		for len(path) > 0 {
			n := path[len(path)-1]
			if order[n] == unseen {
				clock++
				order[n], low[n] = clock, clock
				next[n] = g.start[n]
				stack, on[n] = append(stack, n), true
			}
			deeper := false
			for ; next[n] < g.start[n+1]; next[n]++ {
				e := &g.edges[next[n]]
				if !keep(e.kind) {
					continue
				}
				if order[e.to] == unseen {
					path = append(path, e.to)
					deeper = true
					break
				}
				if on[e.to] {
					low[n] = min(low[n], low[e.to])
				}
			}
			if deeper {
				continue
			}
			path = path[:len(path)-1]
			if len(path) > 0 {
				up := path[len(path)-1]
				low[up] = min(low[up], low[n])
			}
			if low[n] != order[n] {
				continue
			}
			at := len(stack) - 1
			for stack[at] != n {
				at--
			}
			for _, m := range stack[at:] {
				on[m] = false
			}
			if len(stack)-at > 1 {
				found = append(found, append([]int32(nil), stack[at:]...))
			}
			stack = stack[:at]
		}
	}
	return found
}

// searchStarts bounds how many nodes a shortest cycle is searched from; the cycle found is the
// shortest through one of them.
const searchStarts = 256

// shortCycle returns a short cycle inside the components: fewest transactions, then fewest rw
// edges. The edges come in order; edges through auxiliary nodes are still apart.
func (g *graph) shortCycle(components [][]int32, keep func(edgeKind) bool) []edge {
	in := make([]int32, g.nodes)
	via := make([]int32, g.nodes) // index of the edge that reached the node
	seen := make([]int32, g.nodes)
	var best []edge
	bestCost, starts, stamp := 0, 0, int32(0)
	// Small components first: they are cheap and give the clearest explanations.
	for size := 2; len(components) > 0 && starts < searchStarts; size *= 2 {
		rest := components[:0:0]
		for _, comp := range components {
			if len(comp) > size {
				rest = append(rest, comp)
				continue
			}
			for _, n := range comp {
				in[n] = comp[0] + 1
			}
			for _, n := range comp {
				if n >= int32(g.txns) || starts >= searchStarts {
					continue
				}
				starts++
				stamp++
				cycle := g.cycleFrom(n, in, via, seen, stamp, keep)
				if cost := cycleCost(cycle); cycle != nil && (best == nil || cost < bestCost) {
					best, bestCost = cycle, cost
				}
			}
		}
		components = rest
	}
	return best
}

func cycleCost(cycle []edge) int {
	cost := 0
	for _, e := range cycle {
		switch e.kind {
		case inner:
		case rw, rwScan, rwTime:
			cost += 101
		default:
			cost += 100
		}
	}
	return cost
}

// cycleFrom is a breadth-first search from n back to n inside its component; inner edges cost
// nothing.
func (g *graph) cycleFrom(n int32, in, via, seen []int32, stamp int32, keep func(edgeKind) bool) []edge {
	now, later := []int32{n}, []int32(nil)
	for len(now) > 0 {
		for i := 0; i < len(now); i++ {
			at := now[i]
			for ei := g.start[at]; ei < g.start[at+1]; ei++ {
				e := &g.edges[ei]
				if !keep(e.kind) || in[e.to] != in[n] || seen[e.to] == stamp {
					continue
				}
				seen[e.to], via[e.to] = stamp, ei
				if e.to == n {
					var cycle []edge
					for back := n; ; {
						e := g.edges[via[back]]
						cycle = append(cycle, e)
						back = e.from
						if back == n {
							break
						}
					}
					for a, b := 0, len(cycle)-1; a < b; a, b = a+1, b-1 {
						cycle[a], cycle[b] = cycle[b], cycle[a]
					}
					return cycle
				}
				if e.kind == inner {
					now = append(now, e.to)
				} else {
					later = append(later, e.to)
				}
			}
		}
		now, later = later, now[:0]
	}
	return nil
}
