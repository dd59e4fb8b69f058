package placing

import (
	"strings"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/schema"
)

// Nowhere is what stands for no placement.
const Nowhere = "NONE"

// Clause is the placement of a table in the syntax that sets it; empty: it has none. show words the
// values of PLACEMENT BY, given as literals.
func Clause(t *base.Topology, tab *schema.Table, show func(literal string) string) string {
	if tab.PartCol() >= 0 {
		return parts(t, tab, show)
	}
	if p := t.Placement(tab.Desc.Locality.Placed.ID); p != nil {
		return "PLACEMENT `" + p.Name + "`"
	}
	return ""
}

// parts is a PLACEMENT BY.
func parts(t *base.Topology, tab *schema.Table, show func(literal string) string) string {
	var entries []string
	col := tab.Cols[tab.PartCol()]
	for _, e := range tab.Desc.Locality.Parts.List {
		what := "DEFAULT"
		if !e.Default {
			var values []string
			for _, v := range e.Values {
				values = append(values, show(col.PartText(v)))
			}
			what = "(" + strings.Join(values, ", ") + ")"
		}
		name := Nowhere
		if p := t.Placement(e.Placed.ID); p != nil {
			name = "`" + p.Name + "`"
			if p.Set != nil {
				name += " AT '" + t.RegionName(p.Regions[0]) + "'"
			}
		}
		entries = append(entries, what+" IN "+name)
	}
	return "PLACEMENT BY (`" + col.Desc.Name + "`) (" + strings.Join(entries, ", ") + ")"
}
