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
	case u.Past, u.Kind == Read && p.Locality == MultiMaster, u.Kind == Read && !u.Locks && p.Locality == Global:
		return sure(cost{}), 0
	case p.Locality == MultiMaster:
		return f.split(u, cost{}, f.exchange(), 1)
	case u.Kind == Read:
		for _, h := range f.homes(u, t, p) {
			c := f.read(u.Region, h.region)
			if u.Locks || u.Inside > 0.5 {
				c, _ = f.write(u.Region, h.region)
			}
			o := outcome{cost: c, share: h.share, away: c.trips >= 1}
			if c.trips > 0 && c.trips < 1 {
				o.tail = f.Tick / 2 // the next tick is half of one away on average
			}
			all = append(all, o)
		}
		return all, 0
	case p.Locality == ByRow && t.Locality != ByRow && u.Kind == Insert: // a new row lives where it was made
		way, quorum := f.write(u.Region, u.Region)
		if p.Async {
			quorum = cost{}
		}
		return f.split(u, way, quorum, 1)
	case p.Locality == ByRow && u.Kind != Read && (u.Whole || u.Kind == Insert): // where they lead is not known
		now := cost{u.Mean, u.Trips}
		if p.Async && !t.Async {
			_, q := f.write(u.Region, u.Region)
			now = cost{max(0, now.ms-q.ms), max(0, now.trips-q.trips)}
		}
		return sure(now), 0
	}
	for _, h := range f.homes(u, t, p) {
		way, quorum := f.write(u.Region, h.region)
		if p.Async {
			quorum = cost{}
		}
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

// homes are where the rows of a use would live.
func (f *Facts) homes(u *Use, t *Table, p Place) []place {
	switch p.Locality {
	case ByTable:
		return []place{{p.Region, 1}}
	case Global:
		return []place{{f.Meta, 1}}
	}
	known := t.homesOf(u, p)
	if u.Whole { // the farthest one decides
		far := place{u.Region, 1}
		for h := range f.Regions {
			if f.RTT[u.Region][h] > f.RTT[u.Region][far.region] {
				far.region = h
			}
		}
		return []place{far}
	}
	if len(known) == 0 {
		return []place{{u.Region, 1}}
	}
	return known
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
