package advice

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Elsewhere is what the statements of a use would take if clients in another region executed them:
// on the same rows, while these live where they live now.
type Elsewhere struct {
	Use    Use // of all nodes of its region
	Region int // where they would be executed
	Figures
	// Unknown says why there are no figures; empty: there are.
	Unknown string
}

// unexplained is how many round trips the model may be off where a use was measured: what goes
// other ways here would go other ways elsewhere, too.
const unexplained = 0.25

// Elsewhere predicts what each use would take in each other region, those first that took longest.
// The leads of the groups of synchronous and of asynchronous tables are where the arguments say.
func (f *Facts) Elsewhere(sync, async Led) (out []Elsewhere) {
	at := *f
	at.Led = nil // each home is asked for by itself
	m := abroad{&at, sync, async}
	for _, u := range f.merged() {
		for r := range f.Regions {
			if r != u.Region {
				out = append(out, m.predict(u, r))
			}
		}
	}
	return out
}

// abroad predicts what uses would take in other regions.
type abroad struct {
	*Facts
	sync, async Led
}

// predict says what a use would take in region r.
func (f abroad) predict(u Use, r int) Elsewhere {
	e := Elsewhere{Use: u, Region: r}
	for _, name := range u.Tables {
		// How long depends on who else does, and on how far regions are from each other.
		if t := f.table(name); t != nil && t.Locality == ByRow && u.Whole && (u.Kind == Write || u.Locks) {
			e.Unknown = "it locks what all regions have, as its conditions name no row by a key"
			return e
		}
	}
	here, place := f.from(&u, u.Region)
	if m := mean(here); math.Abs(m.trips-u.Trips) > unexplained {
		e.Unknown = fmt.Sprintf("it made %.1f round trips in %s, where its tables and rows explain %.1f; if they or their leads have moved "+
			"meanwhile, TRUNCATE TABLE performance_schema.events_statements_summary_by_digest at each node counts anew", u.Trips,
			f.Regions[u.Region], m.trips)
		return e
	}
	there, _ := f.from(&u, r)
	rest := u.Least
	if u.Crossed >= u.Count { // the fastest one has crossed the WAN, too
		least := math.Inf(1)
		for _, o := range here {
			least = min(least, o.ms)
		}
		rest = max(0, u.Least-least)
	}
	var all, tail []weighed
	for _, o := range there {
		all = append(all, weighed{o.ms + rest, o.share})
		tail = append(tail, weighed{o.ms + o.tail + rest, o.share})
	}
	m := mean(there)
	e.Figures = Figures{P50: quantile(all, 0.5), P99: quantile(tail, 0.99), Mean: m.ms + rest, Trips: m.trips,
		Bytes: f.bytes(&u, here, there, place, place)}
	return e
}

// from is what a use takes if the clients are in region r, and where its table lives: of several
// that are read, the one that takes longest.
func (f abroad) from(u *Use, r int) (all []outcome, at Place) {
	worst := -1.0
	for _, name := range u.Tables {
		t := f.table(name)
		if t == nil {
			continue
		}
		some := f.on(u, t, r)
		if m := mean(some).ms; m > worst {
			all, at, worst = some, t.Place, m
		}
	}
	return all, at
}

// on is what a use takes on a table if the clients are in region r: on the same rows.
func (f abroad) on(u *Use, t *Table, r int) (all []outcome) {
	moved := *u
	moved.Region, moved.Whole = r, false
	led := f.sync
	if t.Async {
		led = f.async
	}
	homes := f.rows(u, t)
	if t.Locality == ByRow && u.Kind == Insert { // a new row lives where it is made
		homes = make([]float64, len(f.Regions))
		homes[r] = 1
	}
	if t.Locality == Global || t.Locality == MultiMaster {
		all, _ = f.Facts.predict(&moved, t, t.Place)
		return slices.Clone(all)
	}
	for home, share := range homes {
		for at, part := range led.of(home, len(f.Regions)) {
			if share*part == 0 {
				continue
			}
			some, _ := f.Facts.predict(&moved, t, Place{Locality: ByTable, Region: at, Async: t.Async, In: t.In})
			for _, o := range some {
				o.share *= share * part
				all = append(all, o)
			}
		}
	}
	if u.Whole && u.Kind == Read && t.Locality == ByRow { // it waits for each, and so for the farthest
		far := slices.MaxFunc(all, func(a, b outcome) int { return cmp.Compare(a.ms, b.ms) })
		far.share = 1
		return []outcome{far}
	}
	return all
}

// of are the shares of the regions in which rows of a home are decided.
func (l Led) of(home, regions int) []float64 {
	if home < len(l) && slices.Max(l[home]) > 0 {
		return l[home]
	}
	out := make([]float64, regions)
	out[home] = 1
	return out
}

// rows are the shares of the regions in which the rows live that a use means.
func (f abroad) rows(u *Use, t *Table) []float64 {
	out := make([]float64, len(f.Regions))
	switch {
	case t.Locality == ByTable:
		out[t.Region] = 1
	case t.Locality == ByRow && u.Whole:
		f.around(u, t, out)
	case u.Region < len(t.Homes) && slices.Max(t.Homes[u.Region]) > 0:
		sum := 0.0
		for _, x := range t.Homes[u.Region] {
			sum += x
		}
		for h, x := range t.Homes[u.Region] {
			out[h] = x / sum
		}
	default: // nobody else has used these rows lately, so they are at home
		out[u.Region] = 1
	}
	return out
}

// around marks the regions in which rows live that a use means without naming them: those whose
// rows are known to be used, and the one that explains best what the use has waited for. None is
// farther away than that: a region without rows of the table is not waited for.
func (f abroad) around(u *Use, t *Table, out []float64) {
	best, off := u.Region, math.Inf(1)
	wait := func(h int) float64 { return f.read(t.Place, u.Region, h).ms }
	for h := range f.Regions {
		if d := math.Abs(wait(h) - (u.P50 - u.Least*share(u.Crossed == 0))); d < off {
			best, off = h, d
		}
	}
	out[best] = 1
	for _, homes := range t.Homes {
		for h, heat := range homes {
			if heat > 0 && wait(h) <= wait(best) {
				out[h] = 1
			}
		}
	}
	sum := 0.0
	for _, x := range out {
		sum += x
	}
	for h := range out {
		out[h] /= sum
	}
}

// share is 1 if something is so.
func share(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// merged are the uses with one for each digest and region, in the order in which they come.
func (f *Facts) merged() (out []Use) {
	type key struct {
		region       int
		schema, text string
	}
	at := map[key]int{}
	half, slow := map[int][]weighed{}, map[int][]weighed{}
	for _, u := range f.Uses {
		k := key{u.Region, u.Schema, u.Digest}
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out = append(out, u)
		} else {
			out[i].join(&u)
		}
		half[i] = append(half[i], weighed{u.P50, float64(u.Count)})
		slow[i] = append(slow[i], weighed{u.P99, float64(u.Count)})
		out[i].P50, out[i].P99 = quantile(half[i], 0.5), quantile(slow[i], 0.99)
	}
	slices.SortStableFunc(out, func(a, b Use) int { return cmp.Compare(b.Mean*float64(b.Count), a.Mean*float64(a.Count)) })
	return out
}

// join adds what another node of the region has counted of the same digest.
func (u *Use) join(o *Use) {
	n, m := float64(u.Count), float64(o.Count)
	for _, x := range []struct{ to, of *float64 }{{&u.Inside, &o.Inside}, {&u.Rows, &o.Rows}, {&u.Mean, &o.Mean},
		{&u.Trips, &o.Trips}, {&u.Bytes, &o.Bytes}} {
		*x.to = (*x.to*n + *x.of*m) / (n + m)
	}
	u.Least = min(u.Least, o.Least)
	u.Count, u.Crossed = u.Count+o.Count, u.Crossed+o.Crossed
}
