package advice

import (
	"slices"
	"strings"
)

// Stop is a setting that keeps leads from where they would go.
type Stop struct {
	// Why says what it does, Do is the statement that ends that, and GivesUp what it may be for.
	Why, Do, GivesUp string
	// Led is where rows would be led then: see [Facts].
	Led Led
}

// now are the facts as they are, of those that are supposed.
func (f *Facts) now() *Facts {
	if f.was != nil {
		return f.was
	}
	return f
}

// leads is what follows if a setting let leads go.
func (f *Facts) leads(s *Stop) Advice {
	then := *f
	then.Led, then.was = s.Led, f
	a := Advice{Kind: "leads", Why: s.Why, GivesUp: s.GivesUp, Do: s.Do}
	tally := newTally(f)
	commits := 0.0
	var about []string
	for i := range f.Tables {
		t := &f.Tables[i]
		if t.In != nil || t.Locality != ByRow && t.Locality != ByTable {
			continue
		}
		for j := range f.Uses {
			u := &f.Uses[j]
			if !slices.Contains(u.Tables, t.Name) || !f.meets(u, t, s) {
				continue
			}
			before, was := f.predict(u, t, t.Place)
			after, commit := then.after(u, t, t.Place)
			about = append(about, t.Name)
			commits += float64(u.Count) * (was - commit)
			tally.add(u, after, f.bytes(u, before, after, t.Place, t.Place))
		}
	}
	a.Subject = strings.Join(slices.Compact(about), ", ")
	a.sum(tally)
	a.Saves += commits
	a.commits(commits)
	return a
}

// meets reports whether a use is of rows whose leads would move.
func (f *Facts) meets(u *Use, t *Table, s *Stop) bool {
	homes := []place{{u.Region, 1}}
	switch {
	case t.Locality == ByTable:
		homes[0].region = t.Region
	case u.Whole:
		for h := range f.Regions {
			homes = append(homes, place{h, 1})
		}
	case u.Kind != Insert:
		homes = append(homes, t.homesOf(u, t.Place)...)
	}
	return slices.ContainsFunc(homes, func(h place) bool {
		return f.Led == nil || !slices.Equal(f.Led[h.region], s.Led[h.region])
	})
}
