package advice

import (
	"cmp"
	"slices"
)

// cost is what a statement takes: ms, and round trips.
type cost struct{ ms, trips float64 }

func (c cost) plus(o cost) cost { return cost{c.ms + o.ms, c.trips + o.trips} }

// outcome is a cost, and the share of statements that have it.
type outcome struct {
	cost
	share float64
	// tail is how many ms more the slowest hundredth of them takes.
	tail float64
	// away: they go to another region, and wait for its answer.
	away bool
}

// sure is one that all have.
func sure(c cost) []outcome { return []outcome{{cost: c, share: 1}} }

// predict is what the statements of a use would take if the table lived at p, and how many ms of
// COMMIT would be theirs: those of statements inside of transactions.
func (f *Facts) predict(u *Use, t *Table, p Place) (all []outcome, commit float64) {
	switch {
	case u.Past && !p.In.holds(u.Region):
		return f.asked(u, p, f.homes(u, t, p)), 0
	case u.Past, u.Kind == Read && p.Locality == MultiMaster, u.Kind == Read && !u.Locks && p.Locality == Global:
		return sure(cost{}), 0
	case p.Locality == MultiMaster:
		return f.split(u, cost{}, f.exchange(), 1)
	case u.Kind == Read:
		for _, h := range f.homes(u, t, p) {
			c := f.read(p, u.Region, h.region)
			if u.Locks || u.Inside > 0.5 && !f.relays(u) {
				c, _ = f.write(p, u.Region, h.region)
			}
			o := outcome{cost: c, share: h.share, away: c.trips >= 1}
			if c.trips > 0 && c.trips < 1 {
				o.tail = f.Tick / 2 // the next tick is half of one away on average
			}
			all = append(all, o)
		}
		return all, 0
	case p.Locality == ByRow && t.Locality != ByRow && u.Kind == Insert:
		return f.written(u, p, f.made(u, p))
	case p.Locality == ByRow && (u.Whole || u.Kind == Insert): // where they lead is not known
		now := cost{u.Mean, u.Trips}
		was, will := mean(f.now().paths(u, t.Place, f.now().made(u, t.Place))), mean(f.paths(u, p, f.made(u, p)))
		now = cost{max(0, now.ms-was.ms+will.ms), max(0, now.trips-was.trips+will.trips)}
		return sure(now), 0
	}
	return f.written(u, p, f.homes(u, t, p))
}

// written is a change of rows that are led in some regions.
func (f *Facts) written(u *Use, p Place, led []place) (all []outcome, commit float64) {
	for _, h := range led {
		way, quorum := f.write(p, u.Region, h.region)
		if p.Locality == Global { // it waits until its timestamp has come
			quorum.ms = max(quorum.ms, f.Lead-way.ms)
			if way.ms > 0 { // and until a heartbeat of the leader says so
				quorum.ms += f.Beat
			}
		}
		some, c := f.split(u, way, quorum, h.share)
		all, commit = append(all, some...), commit+c
	}
	return all, commit
}

// paths are the trips of a change of rows that are led in some regions.
func (f *Facts) paths(u *Use, p Place, led []place) []outcome {
	all, _ := f.written(u, p, led)
	return all
}

// asked are reads of a region without copies: those who have some are asked.
func (f *Facts) asked(u *Use, p Place, led []place) (all []outcome) {
	for _, h := range led {
		all = append(all, outcome{cost: cost{f.RTT[u.Region][h.region], 1}, share: h.share, away: true})
	}
	return all
}

// made is where a row is led that a use makes: it is at home in the region of its client.
func (f *Facts) made(u *Use, p Place) []place { return f.led(p, []place{{p.In.home(u.Region), 1}}) }

// split is a statement that is sent a way and then waits for a majority; inside transactions it is
// COMMIT that waits.
func (f *Facts) split(u *Use, way, quorum cost, share float64) (all []outcome, commit float64) {
	if u.Inside < 1 {
		all = append(all, outcome{cost: way.plus(quorum), share: share * (1 - u.Inside), away: way.trips > 0})
	}
	if u.Inside > 0 {
		all = append(all, outcome{cost: way, share: share * u.Inside, away: way.trips > 0})
	}
	return all, quorum.ms * share * u.Inside
}

// place is a region and the share of rows that live there.
type place struct {
	region int
	share  float64
}

// homes are where the rows of a use would be led.
func (f *Facts) homes(u *Use, t *Table, p Place) []place {
	switch p.Locality {
	case ByTable:
		return f.led(p, []place{{p.In.home(p.Region), 1}})
	case Global:
		return []place{{f.Meta, 1}}
	}
	known := t.homesOf(u, p)
	switch {
	case u.Whole: // the farthest one decides
		far := place{p.In.home(u.Region), 1}
		for h := range f.Regions {
			if p.In.votes(h) && f.RTT[u.Region][h] > f.RTT[u.Region][far.region] {
				far.region = h
			}
		}
		return []place{far}
	case len(known) == 0:
		known = []place{{u.Region, 1}}
	}
	for i := range known {
		known[i].region = p.In.home(known[i].region)
	}
	return f.led(p, known)
}

// led is where rows of some homes are led. Those of a placement are led at home.
func (f *Facts) led(p Place, homes []place) (out []place) {
	if f.Led == nil || p.In != nil {
		return homes
	}
	for _, h := range homes {
		for l, share := range f.Led[h.region] {
			if share > 0 {
				out = append(out, place{l, h.share * share})
			}
		}
	}
	return out
}

// homesOf is where the rows live that a use means, as shares of one.
func (t *Table) homesOf(u *Use, p Place) (out []place) {
	var homes []float64
	switch {
	case t.Locality != ByRow && p.Locality == ByRow:
		homes = t.Rows.of(u.does(), u.Region)
	case u.Region < len(t.Homes):
		homes = t.Homes[u.Region]
	}
	sum := 0.0
	for _, x := range homes {
		sum += x
	}
	for h, x := range homes {
		if x > 0 {
			out = append(out, place{h, x / sum})
		}
	}
	return out
}

// mean of outcomes.
func mean(all []outcome) (c cost) {
	for _, o := range all {
		c.ms += o.ms * o.share
		c.trips += o.trips * o.share
	}
	return c
}

// weighed is a time of so many statements.
type weighed struct {
	ms, weight float64
}

// quantile is the time that the share q of the statements does not exceed.
func quantile(all []weighed, q float64) float64 {
	slices.SortStableFunc(all, func(a, b weighed) int { return cmp.Compare(a.ms, b.ms) })
	sum := 0.0
	for _, x := range all {
		sum += x.weight
	}
	seen := 0.0
	for _, x := range all {
		if seen += x.weight; seen >= q*sum {
			return x.ms
		}
	}
	return 0
}
