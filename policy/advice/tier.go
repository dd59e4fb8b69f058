package advice

import (
	"fmt"
	"slices"
	"strings"
)

// relays reports whether reads in transactions look at rows of other regions without locks. Ranges
// of them are locked.
func (f *Facts) relays(u *Use) bool {
	return u.Region < len(f.Relays) && f.Relays[u.Region] && !u.Whole
}

// tier is what follows if the setting by which transactions cross regions with locks was left
// alone: reads of other regions' rows would wait for no owner. What others wait for locks less is
// not predicted.
func (f *Facts) tier() Advice {
	tally := newTally(f)
	var about, crossing []string
	waits, waiting := 0.0, uint64(0)
	for i := range f.Tables {
		t := &f.Tables[i]
		for j := range f.Uses {
			u := &f.Uses[j]
			if u.Tables[0] != t.Name || u.Region >= len(f.CouldRelay) || !f.CouldRelay[u.Region] {
				continue
			}
			before, _ := f.predict(u, t, t.Place)
			if c := mean(before); u.Trips <= c.trips+0.25 && u.Crossed < u.Count && u.Mean-c.ms > MinGain {
				waits += (u.Mean - c.ms) * float64(u.Count)
				waiting += u.Count
			}
			if f.locks(u, t) {
				about = append(about, t.Name)
				after := f.looked(u, t)
				tally.add(u, after, f.bytes(u, before, after, t.Place, t.Place))
			}
		}
	}
	for r, share := range f.Crossing {
		if share > 0 && f.CouldRelay[r] {
			crossing = append(crossing, fmt.Sprintf("%.0f %% of those in %s", 100*share, f.Regions[r]))
		}
	}
	a := Advice{Kind: "tier", Subject: strings.Join(slices.Compact(about), ", "), Do: "SET CLUSTER SETTING transaction.tier = DEFAULT",
		Why: "transaction.tier is strict, so transactions that cross regions (" + strings.Join(crossing, ", ") +
			") ask owners for each row that they read there, and lock it until they end",
		GivesUp: "that conflicts show at the statement: COMMIT may answer 1213, try again, and the next attempt locks"}
	if waiting > 0 {
		a.Why += fmt.Sprintf("; %d other statements took %.0f ms longer each than their trips, which is what waits for locks: that is not in the figures",
			waiting, waits/float64(waiting))
	}
	a.sum(tally)
	return a
}

// locks reports whether a use is reads in transactions that lock rows of other regions because the
// transactions cross regions so.
func (f *Facts) locks(u *Use, t *Table) bool {
	return u.Kind == Read && !u.Locks && !u.Past && !u.Whole && u.Inside > 0.5 && len(u.Tables) == 1 && u.Trips >= 0.1 &&
		(t.Locality == ByRow || t.Locality == ByTable)
}

// looked is what such reads would take without locks. How many of their rows are elsewhere is told
// by the trips that they make now, and where these are by the heat of rows, which is also of what
// else uses the table.
func (f *Facts) looked(u *Use, t *Table) (all []outcome) {
	far, sum := min(1, u.Trips), 0.0
	led := f.homes(u, t, t.Place)
	for _, h := range led {
		if h.region != u.Region {
			sum += h.share
		}
	}
	all = append(all, outcome{share: 1 - far})
	if sum == 0 {
		rt := u.Mean / u.Trips
		return append(all, outcome{cost: cost{min(rt, rt/2+f.Tick/2), 0.5}, share: far, tail: f.Tick / 2})
	}
	for _, h := range led {
		if h.region == u.Region {
			continue
		}
		o := outcome{cost: f.read(t.Place, u.Region, h.region), share: far * h.share / sum}
		if o.away = o.trips >= 1; !o.away {
			o.tail = f.Tick / 2
		}
		all = append(all, o)
	}
	return all
}
