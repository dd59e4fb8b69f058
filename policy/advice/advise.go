package advice

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// The least that an advice has to be worth (ADV-1, ADV-3).
const (
	MinShare      = 0.2
	MinGain       = 1.0 // ms a statement
	MinStatements = 20
)

// Figures are what statements take, on average but for P50 and P99: ms, round trips waited for,
// bytes sent over the WAN.
type Figures struct {
	P50, P99, Mean, Trips, Bytes float64
}

// Effect is what an advice does for the reads or the writes of a region's clients.
type Effect struct {
	Region        int
	Kind          Kind
	Statements    uint64
	Before, After Figures
}

// Advice is a change, and what follows from it.
type Advice struct {
	Kind    string // locality, replication, placement, staleness, index, leads, tier
	Subject string // the table, or the tables with commas
	Why     string
	GivesUp string // empty: nothing
	Do      string // the statement
	Effects []Effect
	// Saves is how much less time the statements that were counted would have taken, in ms.
	Saves float64

	took float64 // by these statements
}

// Advise says what would save the most time first.
func Advise(f Facts) []Advice {
	var out []Advice
	for i := range f.Tables {
		out = append(out, f.about(&f.Tables[i])...)
	}
	for i := range f.Stops {
		if a := f.leads(&f.Stops[i]); a.worth(0) {
			out = append(out, a)
		}
	}
	if f.Strict {
		if a := f.tier(); a.worth(0) {
			out = append(out, a)
		}
	}
	slices.SortStableFunc(out, func(a, b Advice) int { return cmp.Compare(b.Saves, a.Saves) })
	return out
}

// about is the advice on a table.
func (f *Facts) about(t *Table) (out []Advice) {
	var uses []*Use
	count := uint64(0)
	for i := range f.Uses {
		if u := &f.Uses[i]; slices.Contains(u.Tables, t.Name) {
			uses = append(uses, u)
			count += u.Count
		}
	}
	if count < MinStatements {
		return nil
	}
	best := Advice{}
	for _, p := range f.places(t, uses) {
		if a := f.judge(t, uses, p); a.Saves > best.Saves {
			best = a
		}
	}
	if best.worth(0) {
		out = append(out, best)
	} else {
		best.Saves = 0
	}
	for _, p := range t.loose(uses) {
		if a := f.judge(t, uses, p); a.worth(best.Saves) {
			out = append(out, a)
		}
	}
	out = append(out, f.placed(t, uses, best.Saves)...)
	for _, a := range slices.Concat(f.indexes(t, uses), f.unused(t, uses), []Advice{f.stale(t, uses)}) {
		if a.worth(0) {
			out = append(out, a)
		}
	}
	return out
}

// worth applies ADV-1 and ADV-2: more is what another advice saves for nothing.
func (a *Advice) worth(more float64) bool {
	n := a.count()
	gain := a.Saves - more
	return n >= MinStatements && gain >= MinShare*a.took && gain >= MinGain*float64(n)
}

// places are where a table could live, with nothing given up.
func (f *Facts) places(t *Table, uses []*Use) (out []Place) {
	if t.Locality != MultiMaster {
		for r := range f.Regions {
			out = append(out, Place{Locality: ByTable, Region: r, Async: t.Async})
		}
		if !t.Async {
			out = append(out, Place{Locality: Global})
		}
		out = slices.DeleteFunc(out, func(p Place) bool { return p == t.Place })
	}
	if t.couldBeByRow(uses) { // last: where one region uses all rows, BY TABLE says more
		out = append(out, Place{Locality: ByRow, Async: t.Async})
	}
	return out
}

// loose are places that give something up.
func (t *Table) loose(uses []*Use) (out []Place) {
	if !t.Async && (t.Locality == ByRow || t.Locality == ByTable) {
		out = append(out, Place{Locality: t.Locality, Region: t.Region, Async: true})
	}
	// A transaction cannot write such tables beside others.
	inside := slices.ContainsFunc(uses, func(u *Use) bool { return u.Kind != Read && u.Inside > 0 })
	if t.Single == "" && !t.Async && t.Locality != MultiMaster && !inside {
		out = append(out, Place{Locality: MultiMaster})
	}
	return out
}

// judge is what follows if a table lives at p.
func (f *Facts) judge(t *Table, uses []*Use, p Place) Advice {
	a := Advice{Kind: "locality", Subject: t.Name, Do: "ALTER TABLE " + t.Quote + " SET LOCALITY " + f.Clause(p)}
	switch {
	case p.Async && !t.Async:
		a.Kind, a.Do = "replication", "ALTER TABLE "+t.Quote+" SET REPLICATION ASYNC"
		a.GivesUp = "the last writes before a region is lost: usually tenths of a second"
	case t.Locality == MultiMaster:
		a.Do = f.copied(t)
		a.GivesUp = "reads in all regions without a trip, and writes that come between the copy and the renaming: stop writers meanwhile"
	case p.Locality == MultiMaster:
		a.GivesUp = "strict serializability: reads see the last epoch, and of two that change a row at once one is told 1213"
	}
	if t.Locality == ByRow && p.Locality == ByTable {
		a.GivesUp = "rows that go where they are used"
	}
	a.Why = f.why(t, uses, p)
	tally := newTally(f)
	commits := 0.0
	for _, u := range uses {
		after, commit := f.after(u, t, p)
		before, was := f.predict(u, t, t.Place)
		commits += float64(u.Count) * (was - commit)
		tally.add(u, after, f.bytes(u, before, after, p, t.Place))
	}
	a.sum(tally)
	a.Saves += commits
	a.commits(commits)
	return a
}

// commits says what COMMITs wait less, in ms.
func (a *Advice) commits(ms float64) {
	if ms != 0 {
		a.Why += fmt.Sprintf("; what their transactions' COMMITs wait for changes by %.1f s in sum, which is not in the figures", -ms/1000)
	}
}

// after is what a use would take with one of its tables at p, the others where they are: they are
// read at once.
func (f *Facts) after(u *Use, t *Table, p Place) ([]outcome, float64) {
	all, commit := f.predict(u, t, p)
	rest := f.now().rest(u, t)
	if len(u.Tables) > 1 {
		c := mean(all)
		for _, name := range u.Tables {
			if o := f.table(name); o != nil && o != t {
				other, _ := f.predict(&Use{Region: u.Region, Kind: Read, Whole: true}, o, o.Place)
				m := mean(other)
				c = cost{max(c.ms, m.ms), max(c.trips, m.trips)}
			}
		}
		all = sure(c)
		all[0].away = c.trips >= 1
	}
	all = slices.Clone(all)
	for i := range all {
		all[i].ms += rest
	}
	return all, commit
}

// rest is what the fastest statement of a use took that round trips do not explain.
func (f *Facts) rest(u *Use, t *Table) float64 {
	if u.Crossed < u.Count {
		return u.Least
	}
	all, _ := f.predict(u, t, t.Place)
	if u.Trips > mean(all).trips+0.25 {
		return 0 // it goes other ways than the model has it: what is not explained is no computing
	}
	least := u.Least
	for _, o := range all {
		if o.ms > 0 {
			least = min(least, o.ms)
		}
	}
	return u.Least - least
}

// stale is what follows if the reads of a table that wait for other regions read a moment ago.
func (f *Facts) stale(t *Table, uses []*Use) Advice {
	a := Advice{Kind: "staleness", Subject: t.Name, GivesUp: "freshness: reads show the rows of that moment"}
	age := 0.0
	tally := newTally(f)
	for _, u := range uses {
		if u.Kind != Read || u.Locks || u.Past || u.Trips < 0.1 || t.Locality == MultiMaster {
			continue
		}
		age = max(age, f.Age[u.Region])
		tally.add(u, sure(cost{}), 0)
	}
	a.sum(tally)
	// Twice as old as the rows are, in steps of 100 ms, so that a late heartbeat costs no trip.
	bound := math.Ceil(2*age/100) / 10
	a.Do = fmt.Sprintf("SET read_staleness = '%gs'", max(bound, 0.1))
	a.Why = fmt.Sprintf("reads wait for other regions, and replicas nearby are at most %.0f ms old", age)
	return a
}

// indexes are what follows if columns by which single rows are changed were unique: then the row
// alone is locked, where it lives, and not what all regions have.
func (f *Facts) indexes(t *Table, uses []*Use) (out []Advice) {
	tallies := map[string]*tally{}
	cols := map[string][]string{}
	for _, u := range uses {
		if t.Locality != ByRow || u.Kind != Write || !u.Whole || len(u.Equal) == 0 || len(u.Tables) > 1 || u.Rows > 1 ||
			u.Trips == 0 || slices.ContainsFunc(t.Unique, func(x []string) bool { return within(x, u.Equal) }) {
			continue
		}
		equal := slices.Compact(slices.Sorted(slices.Values(u.Equal)))
		name := strings.Join(equal, ", ")
		if tallies[name] == nil {
			tallies[name], cols[name] = newTally(f), equal
		}
		// The heat of rows does not tell which region means which row, as each statement locks all
		// of them. With the index, rows move to the regions that alone use them.
		all := f.paths(u, t.Place, f.made(u, t.Place))
		before, _ := f.predict(u, t, t.Place)
		tallies[name].add(u, all, f.bytes(u, before, all, t.Place, t.Place))
	}
	for _, name := range slices.Sorted(maps.Keys(tallies)) {
		a := Advice{Kind: "index", Subject: t.Name, Do: "ALTER TABLE " + t.Quote + " ADD UNIQUE INDEX (" + quoted(cols[name]) + ")",
			Why: "statements that change one row by " + name + " lock what all regions have, as nothing says that there is only one",
			GivesUp: "rows with equal values: the change is refused (1062) if there are any; and an INSERT may take a trip more, " +
				"to look whether its value is new"}
		a.sum(tallies[name])
		out = append(out, a)
	}
	return out
}

// within reports whether all of a are in b.
func within(a, b []string) bool {
	return !slices.ContainsFunc(a, func(x string) bool { return !slices.Contains(b, x) })
}

// quoted are names as SQL has them.
func quoted(names []string) string {
	var out []string
	for _, n := range names {
		out = append(out, "`"+strings.ReplaceAll(n, "`", "``")+"`")
	}
	return strings.Join(out, ", ")
}

// sum takes the effects of a tally over, and adds up what they save.
func (a *Advice) sum(t *tally) {
	a.Effects = t.effects()
	for _, e := range a.Effects {
		a.Saves += float64(e.Statements) * (e.Before.Mean - e.After.Mean)
		a.took += float64(e.Statements) * e.Before.Mean
	}
}

// why says in numbers what speaks for a place.
func (f *Facts) why(t *Table, uses []*Use, p Place) string {
	reads, writes := make([]uint64, len(f.Regions)), make([]uint64, len(f.Regions))
	var r, w, far uint64
	for _, u := range uses {
		if u.Kind == Read {
			reads[u.Region] += u.Count
			r += u.Count
		} else {
			writes[u.Region] += u.Count
			w += u.Count
		}
		if u.Trips >= 0.25 {
			far += u.Count
		}
	}
	share := func(n, of uint64) float64 { return 100 * float64(n) / float64(max(of, 1)) }
	all := r + w
	switch {
	case p.Locality == ByRow && t.Locality != ByRow:
		return fmt.Sprintf("%.0f %% of its statements wait for the WAN, and %.0f %% of the uses of its rows come from the region that uses the row most",
			share(far, all), 100*t.mine())
	case p.Locality == Global:
		return fmt.Sprintf("%.0f %% of its statements are reads, and %.0f %% of all wait for the WAN", share(r, all), share(far, all))
	case p.Locality == MultiMaster:
		return fmt.Sprintf("%.0f %% of its statements wait for the WAN, from %d regions", share(far, all), count(reads, writes))
	case p.In != nil:
		home := p.In.Regions[0]
		return fmt.Sprintf("%.0f %% of its statements are writes, and %.0f %% of all come from %s, where copies would be; a majority is "+
			"%.0f ms away from %s, and would be %.0f", share(w, all), share(p.In.of(reads)+p.In.of(writes), all),
			f.names(slices.Concat(p.In.Regions, p.In.Readers), ""), f.quorum(t.Place, home), f.Regions[home], f.quorum(p, home))
	case p.Async && !t.Async:
		return fmt.Sprintf("%.0f %% of its statements are writes, which wait for a majority of the regions", share(w, all))
	}
	mine := share(reads[p.Region]+writes[p.Region], all)
	if mine < 50 {
		return fmt.Sprintf("its statements come from %d regions, and %s is near to them", count(reads, writes), f.Regions[p.Region])
	}
	return fmt.Sprintf("%.0f %% of its statements come from %s", mine, f.Regions[p.Region])
}

// count is how many regions use a table.
func count(reads, writes []uint64) (n int) {
	for r := range reads {
		if reads[r]+writes[r] > 0 {
			n++
		}
	}
	return n
}
