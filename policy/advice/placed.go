package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Copies is who has copies of rows that do not lie everywhere.
type Copies struct {
	// Regions are those that vote, one vote each. Rows whose clients are in none of them are at
	// home in the first one.
	Regions []int
	// Readers have copies, besides, that do not vote.
	Readers []int
}

// Named is a placement that there is.
type Named struct {
	Name string
	Copies
}

// votes reports whether rows can be at home in a region; nil: in each.
func (c *Copies) votes(r int) bool { return c == nil || slices.Contains(c.Regions, r) }

// holds reports whether a region has copies; nil: each has.
func (c *Copies) holds(r int) bool { return c.votes(r) || slices.Contains(c.Readers, r) }

// home is where a row of a region is at home.
func (c *Copies) home(r int) int {
	if c.votes(r) {
		return r
	}
	return c.Regions[0]
}

// of sums up what is counted of the regions with copies.
func (c *Copies) of(counts []uint64) (sum uint64) {
	for r, n := range counts {
		if c.holds(r) {
			sum += n
		}
	}
	return sum
}

// voters are the votes of each region for rows that live at p.
func (f *Facts) voters(p Place) []int {
	if p.In == nil {
		return f.Voters
	}
	out := make([]int, len(f.Regions))
	for _, r := range p.In.Regions {
		out[r] = 1
	}
	return out
}

// copies is how many times a change is sent to other nodes over the WAN, which is made by a client
// of region g.
func (f *Facts) copies(p Place, g int) (n float64) {
	home := p.In.home(g)
	for r, v := range f.voters(p) {
		if r != home {
			n += float64(v)
		}
	}
	if p.In != nil {
		n += float64(len(p.In.Readers))
	}
	return n
}

// placedVoters is how many regions vote for rows of the placements that are advised: the fewest of
// which one can be lost.
const placedVoters = 3

// The least that an advice has to be worth which saves bytes (ADV-5).
const (
	MinBytesShare = 0.4
	MinBytes      = 50.0 // a statement
)

// placed is the best placement for a table, if one is worth it; more is what is saved for nothing.
func (f *Facts) placed(t *Table, uses []*Use, more float64) (out []Advice) {
	n := 0
	for _, v := range f.Voters {
		n += min(v, 1)
	}
	if !f.Placeable || n <= placedVoters || t.In != nil || t.Async || t.Single != "" || t.Locality != ByRow && t.Locality != ByTable {
		return nil
	}
	var best Advice
	better := func(c *Copies) {
		p := t.Place
		p.In = c
		a := f.judge(t, uses, p)
		if !a.worth(more) && !a.worthBytes() {
			return
		}
		if least := MinGain * float64(a.count()); best.Do == "" || a.Saves > best.Saves+least || a.Saves > best.Saves-least && a.bytes() > best.bytes() {
			a.Kind, a.GivesUp = "placement", f.lost(t, c)
			a.Do = f.place(t, c)
			best = a
		}
	}
	for _, c := range f.subsets(t, uses) {
		better(c)
	}
	if c := f.withReaders(t, uses); c != nil {
		better(c)
	}
	if best.Do == "" {
		return nil
	}
	return []Advice{best}
}

// subsets are the sets of regions in which a table could lie: the first region is where it is used
// most, and the sets whose other regions are near to that come first.
func (f *Facts) subsets(t *Table, uses []*Use) (out []*Copies) {
	first := t.Region
	if t.Locality == ByRow {
		first = f.busiest(uses)
	}
	var others []int
	for r, v := range f.Voters {
		if v > 0 && r != first {
			others = append(others, r)
		}
	}
	f.byDistance(first, others)
	for j := range others {
		for i := range j {
			out = append(out, &Copies{Regions: []int{first, others[i], others[j]}})
		}
	}
	return out
}

func (f *Facts) byDistance(from int, regions []int) {
	slices.SortStableFunc(regions, func(a, b int) int { return cmp.Compare(f.RTT[from][a], f.RTT[from][b]) })
}

// busiest is the region with the most statements.
func (f *Facts) busiest(uses []*Use) (best int) {
	count := make([]uint64, len(f.Regions))
	for _, u := range uses {
		if count[u.Region] += u.Count; count[u.Region] > count[best] {
			best = u.Region
		}
	}
	return best
}

// withReaders is a placement in which the regions nearest to a table vote, and others that read it
// have read replicas; nil: there are no others, or rows would be spread over all regions.
func (f *Facts) withReaders(t *Table, uses []*Use) *Copies {
	if t.Locality != ByTable {
		return nil
	}
	var others []int
	for r, v := range f.Voters {
		if v > 0 && r != t.Region {
			others = append(others, r)
		}
	}
	f.byDistance(t.Region, others)
	c := &Copies{Regions: append([]int{t.Region}, others[:placedVoters-1]...)}
	reads := make([]uint64, len(f.Regions))
	for _, u := range uses {
		if u.Kind == Read && !u.Locks {
			reads[u.Region] += u.Count
		}
	}
	for r, n := range reads {
		if n >= MinStatements && !c.votes(r) {
			c.Readers = append(c.Readers, r)
		}
	}
	if len(c.Readers) == 0 {
		return nil
	}
	return c
}

// place are the statements that give a table a placement: one that there is, or a new one.
func (f *Facts) place(t *Table, c *Copies) string {
	taken := func(name string) bool {
		return slices.ContainsFunc(f.Placements, func(p Named) bool { return strings.EqualFold(p.Name, name) })
	}
	for _, p := range f.Placements {
		if slices.Equal(p.Regions, c.Regions) && slices.Equal(p.Readers, c.Readers) {
			return fmt.Sprintf("ALTER TABLE %s SET PLACEMENT `%s`", t.Quote, p.Name)
		}
	}
	base := "near_" + strings.ReplaceAll(f.Regions[c.Regions[0]], "-", "_")
	name := base
	for i := 2; taken(name); i++ {
		name = fmt.Sprintf("%s_%d", base, i)
	}
	words := "REGIONS (" + f.names(slices.Concat(c.Regions, c.Readers), "'") + ")"
	if len(c.Readers) > 0 {
		words += fmt.Sprintf(" VOTERS %d READ REPLICAS IN (%s)", len(c.Regions), f.names(c.Readers, "'"))
	}
	return fmt.Sprintf("CREATE PLACEMENT `%s` %s; ALTER TABLE %s SET PLACEMENT `%s`", name, words, t.Quote, name)
}

// names are those of regions, in quotes or not.
func (f *Facts) names(regions []int, quote string) string {
	var out []string
	for _, r := range regions {
		out = append(out, quote+f.Regions[r]+quote)
	}
	return strings.Join(out, ", ")
}

// lost says what a placement gives up.
func (f *Facts) lost(t *Table, c *Copies) string {
	before, without := 0, []int{}
	for r, v := range f.Voters {
		if before += min(v, 1); v > 0 && !c.holds(r) {
			without = append(without, r)
		}
	}
	before = (before - 1) / 2
	out := ""
	if before > 1 {
		out = fmt.Sprintf("rows survive the loss of one region instead of %d", before)
	} else {
		out = "rows survive the loss of one region, as before, but of " + f.names(c.Regions, "") + " only"
	}
	if len(without) > 0 {
		out += "; no copies are in " + f.names(without, "") + ", where each read, of the past, too, asks another region"
	}
	return out + "; the table can have no change feed, no full-text index, and no foreign keys to tables elsewhere"
}

// count is how many statements an advice is about.
func (a *Advice) count() (n uint64) {
	for _, e := range a.Effects {
		n += e.Statements
	}
	return n
}

// bytes is how many bytes these would not have sent.
func (a *Advice) bytes() (sum float64) {
	for _, e := range a.Effects {
		sum += float64(e.Statements) * (e.Before.Bytes - e.After.Bytes)
	}
	return sum
}

// worthBytes applies ADV-5.
func (a *Advice) worthBytes() bool {
	sent := 0.0
	for _, e := range a.Effects {
		if e.After.Mean > e.Before.Mean+MinGain {
			return false
		}
		sent += float64(e.Statements) * e.Before.Bytes
	}
	n := a.count()
	return n >= MinStatements && a.bytes() >= MinBytesShare*sent && a.bytes() >= MinBytes*float64(n)
}
