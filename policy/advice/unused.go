package advice

import (
	"slices"
	"strings"
)

// unused are what follows if unique indexes went that nothing looks into: an INSERT into a table BY
// ROW has to look whether its values are new, and where the neighbours of a value in the index live
// in another region, that is a trip.
func (f *Facts) unused(t *Table, uses []*Use) (out []Advice) {
	if t.Locality != ByRow || t.Parent {
		return nil
	}
	for i, cols := range t.Unique {
		if i >= len(t.UniqueNames) || f.mentions(t, uses, cols) {
			continue
		}
		a := Advice{Kind: "index", Subject: t.Name, Do: "ALTER TABLE " + t.Quote + " DROP INDEX " + quoted(t.UniqueNames[i:i+1]),
			Why: "INSERTs look in other regions whether their values of " + strings.Join(cols, ", ") + " are new, and no statement asks for them",
			GivesUp: "that rows with equal values are refused (1062): keep it if nothing else sees to that; and statements " +
				"that were not counted may look for rows by it"}
		tally := newTally(f)
		for _, u := range uses {
			after := f.paths(u, t.Place, f.made(u, t.Place))
			if u.Kind != Insert || len(u.Tables) > 1 || u.Trips <= mean(after).trips+0.25 {
				continue
			}
			before := []outcome{{cost: cost{u.Mean, u.Trips}, share: 1, away: true}}
			tally.add(u, after, f.bytes(u, before, after, t.Place, t.Place))
		}
		a.sum(tally)
		out = append(out, a)
	}
	return out
}

// mentions reports whether a statement that is no INSERT names one of the columns beside the table:
// what only lists them would get them without the index, but that is not told from what looks for
// them.
func (f *Facts) mentions(t *Table, uses []*Use, cols []string) bool {
	any := func(text string) bool {
		text = strings.ToLower(text)
		return slices.ContainsFunc(cols, func(c string) bool {
			return strings.Contains(text, "`"+c+"`") || strings.Contains(text, " "+c+" ")
		})
	}
	if slices.ContainsFunc(uses, func(u *Use) bool { return u.Kind != Insert && any(u.Digest) }) {
		return true
	}
	_, name, _ := strings.Cut(t.Name, ".")
	return slices.ContainsFunc(f.Others, func(text string) bool {
		low := strings.ToLower(text)
		return strings.Contains(low, "`"+name+"`") && any(low)
	})
}
