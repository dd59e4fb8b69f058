package plan

import (
	"math"
	"slices"
)

// twin evaluates a round the plain way: all ways of up to the whole shortest
// path, all orders of sending. It shares nothing with the model but the words.
type twin struct {
	f    *Facts
	p    Params
	ways map[[2]int][]way
}

type way struct {
	lat, perByte float64
	hops         int
}

func newTwin(f *Facts, p Params) *twin {
	t := &twin{f: f, p: p, ways: map[[2]int][]way{}}
	n := f.N()
	for u := range n {
		for v := range n {
			if u == v {
				continue
			}
			k := [2]int{u, v}
			t.ways[k] = []way{t.walk([]int{u, v})}
			if p.NoRelays || len(f.Region) > 0 && f.Region[u] == f.Region[v] {
				continue
			}
			// The shortest of all simple paths, and all with one relay.
			best := t.ways[k][0]
			var visit func(at []int)
			visit = func(at []int) {
				w := t.walk(append(slices.Clone(at), v))
				if w.lat < best.lat-1e-3 {
					best = w
				}
				if len(at) == 2 {
					t.ways[k] = append(t.ways[k], w)
				}
				for r := range n {
					if r != v && !slices.Contains(at, r) {
						visit(append(slices.Clone(at), r))
					}
				}
			}
			visit([]int{u})
			t.ways[k] = append(t.ways[k], best)
		}
	}
	return t
}

func (t *twin) walk(nodes []int) (w way) {
	for i := 1; i < len(nodes); i++ {
		a, b := nodes[i-1], nodes[i]
		w.lat += float64(t.f.Latency[a][b])
		wan := len(t.f.Region) == 0 || t.f.Region[a] != t.f.Region[b]
		if wan {
			w.hops++
		}
		if wan && i > 1 && len(t.f.Uplink) > 0 && t.f.Uplink[a] > 0 {
			w.perByte += 8e9 / t.f.Uplink[a]
		}
	}
	return w
}

func (t *twin) leg(u, v int, bytes float64, direct bool) (float64, float64) {
	d := t.ways[[2]int{u, v}][0]
	lat, hops := d.lat, float64(d.hops)
	if direct {
		return lat, hops
	}
	for _, w := range t.ways[[2]int{u, v}][1:] {
		if l := w.lat + bytes*w.perByte; l <= d.lat-float64(t.p.RelayGain) && (l < lat) {
			lat, hops = l, float64(w.hops)
		}
	}
	return lat, hops
}

func (t *twin) serial(u, v int, bytes float64) float64 {
	if len(t.f.Uplink) == 0 || t.f.Uplink[u] == 0 || len(t.f.Region) > 0 && t.f.Region[u] == t.f.Region[v] {
		return 0
	}
	return bytes * 8e9 / t.f.Uplink[u]
}

// soonest tries all orders: the smallest possible largest (time sent + tail).
func soonest(serial, tail []float64, at float64) float64 {
	if len(serial) == 0 {
		return at
	}
	best := math.Inf(1)
	for i := range serial {
		rest := func(s []float64) []float64 { return append(slices.Clone(s[:i]), s[i+1:]...) }
		sent := at + serial[i]
		worst := sent + tail[i]
		if len(serial) > 1 {
			worst = max(worst, soonest(rest(serial), rest(tail), sent))
		}
		best = min(best, worst)
	}
	return best
}

// round is for one aggregator a group.
func (t *twin) round(groups []Group, direct bool) (v verdict) {
	f := t.f
	size := make([]float64, len(groups))
	ready := make([]float64, len(groups))
	total := 0.0
	for g, gr := range groups {
		for _, i := range gr.Members {
			size[g] += f.batch(i)
			if a := gr.Aggregators[0]; i != a {
				lat, hops := t.leg(i, a, f.batch(i), direct)
				ready[g] = max(ready[g], t.serial(i, a, f.batch(i))+lat)
				v.cost.WANBytes += hops * f.batch(i)
				v.cost.Messages++
			}
		}
		if len(gr.Members) > 1 {
			size[g] *= f.keep()
		}
		total += size[g]
	}
	down := make([]float64, len(groups))
	free := slices.Clone(ready)
	for g, gr := range groups {
		var serial, tail []float64
		for _, j := range gr.Members {
			if a := gr.Aggregators[0]; j != a {
				bytes := max(0, total-f.keep()*f.batch(j))
				lat, hops := t.leg(a, j, bytes, direct)
				serial, tail = append(serial, t.serial(a, j, bytes)), append(tail, lat)
				v.cost.WANBytes += hops * bytes
				v.cost.Messages++
			}
		}
		down[g] = soonest(serial, tail, 0)
	}
	for g, gr := range groups {
		var serial, tail []float64
		for h, to := range groups {
			if h != g {
				lat, hops := t.leg(gr.Aggregators[0], to.Aggregators[0], size[g], direct)
				s := t.serial(gr.Aggregators[0], to.Aggregators[0], size[g])
				serial, tail = append(serial, s), append(tail, lat+down[h])
				free[g] += s
				v.cost.WANBytes += hops * size[g]
				v.cost.Messages++
			}
		}
		v.time = max(v.time, soonest(serial, tail, ready[g]))
		if len(gr.Members) > 1 {
			v.time = max(v.time, free[g]+down[g])
		}
	}
	return v
}
