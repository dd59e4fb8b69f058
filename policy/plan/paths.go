package plan

import (
	"slices"
	"time"
)

// path is one way from a node to another.
type path struct {
	relays  []int
	lat     float64 // ns, without the sender's serialisation
	perByte float64 // ns a byte that relays add, storing and forwarding
	hops    int     // hops that cross regions
}

// routed are the largest clusters whose pairs may all have relays; in larger ones
// only pairs of aggregators look for one.
const routed = 128

// paths knows the ways between all pairs. A way is worth keeping if for some
// message size it is the fastest: the direct one, those over one relay, and the
// shortest of all.
type paths struct {
	f     *Facts
	p     Params
	cache [][]path // by u*n+v; the direct path comes first
	next  []int32  // second node of the shortest path, by u*n+v
	dist  []float64
}

func newPaths(f *Facts, p Params) *paths {
	n := f.N()
	ps := &paths{f: f, p: p, cache: make([][]path, n*n)}
	if n <= routed && !p.NoRelays {
		ps.dist, ps.next = shortest(f.Latency)
	}
	return ps
}

// shortest is Floyd and Warshall's: distances and the second node of each path.
func shortest(lat [][]time.Duration) (dist []float64, next []int32) {
	n := len(lat)
	dist, next = make([]float64, n*n), make([]int32, n*n)
	for i := range n {
		for j := range n {
			if i != j {
				dist[i*n+j] = float64(lat[i][j])
			}
			next[i*n+j] = int32(j)
		}
	}
	for k := range n {
		for i := range n {
			ik := dist[i*n+k]
			for j := range n {
				if d := ik + dist[k*n+j]; d < dist[i*n+j] {
					dist[i*n+j], next[i*n+j] = d, next[i*n+k]
				}
			}
		}
	}
	return dist, next
}

// ShortestPaths are the latencies over any number of relays: no delivery is faster.
func ShortestPaths(lat [][]time.Duration) [][]time.Duration {
	dist, _ := shortest(lat)
	n := len(lat)
	out := make([][]time.Duration, n)
	for i := range out {
		out[i] = make([]time.Duration, n)
		for j := range out[i] {
			out[i][j] = time.Duration(dist[i*n+j])
		}
	}
	return out
}

// options are the ways from u to v.
func (ps *paths) options(u, v int) []path {
	n := ps.f.N()
	if c := ps.cache[u*n+v]; c != nil {
		return c
	}
	opts := []path{ps.over(u, v, nil)}
	if !ps.p.NoRelays && !ps.f.local(u, v) {
		limit := opts[0].lat - float64(ps.p.RelayGain)
		if ps.next != nil && ps.dist[u*n+v] < opts[0].lat {
			if r := ps.chain(u, v); len(r) > 1 {
				opts = ps.add(opts, ps.over(u, v, r), limit)
			}
		}
		for r := range n {
			if r != u && r != v && float64(ps.f.Latency[u][r])+float64(ps.f.Latency[r][v]) <= limit {
				opts = ps.add(opts, ps.over(u, v, []int{r}), limit)
			}
		}
	}
	ps.cache[u*n+v] = opts
	return opts
}

// chain are the relays of the shortest path.
func (ps *paths) chain(u, v int) (relays []int) {
	n := ps.f.N()
	for at := int(ps.next[u*n+v]); at != v; at = int(ps.next[at*n+v]) {
		if at == u || slices.Contains(relays, at) {
			return nil // zero distances can lead round in cycles
		}
		relays = append(relays, at)
	}
	return relays
}

// over is the way through the given relays.
func (ps *paths) over(u, v int, relays []int) path {
	w := path{relays: relays}
	at := u
	for _, to := range append(slices.Clone(relays), v) {
		w.lat += float64(ps.f.Latency[at][to])
		if at != u {
			w.perByte += ps.f.perByte(at, to)
		}
		if !ps.f.local(at, to) {
			w.hops++
		}
		at = to
	}
	return w
}

// add keeps the ways that are the fastest for some size.
func (ps *paths) add(opts []path, w path, limit float64) []path {
	if w.lat > limit {
		return opts
	}
	better := func(a, b path) bool { return a.lat <= b.lat && a.perByte <= b.perByte }
	for _, o := range opts {
		if better(o, w) {
			return opts
		}
	}
	keep := opts[:1] // a relayed way never replaces the direct one
	for _, o := range opts[1:] {
		if !better(w, o) {
			keep = append(keep, o)
		}
	}
	return append(keep, w)
}

// best is the fastest way for a message of that size, and its delay after the
// sender's uplink. It uses a relay only if that saves RelayGain.
func (ps *paths) best(u, v int, bytes float64, direct bool) (*path, float64) {
	opts := ps.options(u, v)
	b, t := &opts[0], opts[0].lat+bytes*opts[0].perByte
	if direct {
		return b, t
	}
	limit := t - float64(ps.p.RelayGain)
	for i := range opts[1:] {
		o := &opts[i+1]
		if ot := o.lat + bytes*o.perByte; ot < t && ot <= limit {
			b, t = o, ot
		}
	}
	return b, t
}
