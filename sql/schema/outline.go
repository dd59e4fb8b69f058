package schema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
)

// Outline is what an adviser asks of a table: where its rows live, and by which columns they are
// found, in lower case.
type Outline struct {
	DB, Name        string
	Locality        Locality
	Key             []string
	Unique, Indexes [][]string
	UniqueNames     []string // of Unique
	// Linked: foreign keys lead to it, or from it.
	Linked bool
	// Single says why it cannot be MULTI MASTER; empty: it can.
	Single string
}

// IsTable reports whether all rows live in one region.
func (l Locality) IsTable() bool { return l.Kind == ByTable }

// IsGlobal reports whether the table is GLOBAL.
func (l Locality) IsGlobal() bool { return l.Kind == Global }

// IsMultiMaster reports whether the table is MULTI MASTER.
func (l Locality) IsMultiMaster() bool { return l.Kind == MultiMaster }

// Text is the locality in the syntax that sets it; name names regions.
func (l Locality) Text(name func(base.RegionID) string) string {
	switch l.Kind {
	case ByTable:
		return fmt.Sprintf("REGIONAL BY TABLE IN '%s'", name(l.Region))
	case Global:
		return "GLOBAL"
	case MultiMaster:
		return "MULTI MASTER"
	}
	return "REGIONAL BY ROW"
}

// Outlines are those of all tables but those that are being moved to another locality, or have a
// placement.
func (s *Snapshot) Outlines() (out []Outline) {
	parents := map[string]bool{}
	for _, t := range s.ByID {
		for _, fk := range t.Desc.FKs {
			parents[strings.ToLower(fk.ParentDatabase+"."+fk.ParentTable)] = true
		}
	}
	for _, t := range s.ByID {
		if t.Next == nil && t.Prev == nil && t.HomesOf == nil && !t.Desc.Locality.Restricted() {
			out = append(out, t.outline(parents[strings.ToLower(t.Desc.DB+"."+t.Desc.Name)]))
		}
	}
	slices.SortFunc(out, func(a, b Outline) int { return strings.Compare(a.DB+"."+a.Name, b.DB+"."+b.Name) })
	return out
}

func (t *Table) outline(parent bool) Outline {
	o := Outline{DB: t.Desc.DB, Name: t.Desc.Name, Locality: t.Desc.Locality}
	for _, p := range t.PK {
		o.Key = append(o.Key, strings.ToLower(t.Cols[p].Desc.Name))
	}
	special := t.Virtual
	for _, x := range t.publicIndexes() {
		if !x.Desc.Stored() {
			special = true
			continue
		}
		var cols []string
		for _, c := range x.Cols {
			cols = append(cols, strings.ToLower(t.Cols[c.Pos].Desc.Name))
		}
		if x.Desc.Constraint == sql.IndexConstraint_Unique {
			o.Unique, o.UniqueNames = append(o.Unique, cols), append(o.UniqueNames, x.Desc.Name)
		} else {
			o.Indexes = append(o.Indexes, cols)
		}
	}
	o.Linked = parent || len(t.Desc.FKs) > 0
	switch {
	case o.Linked:
		o.Single = "it has foreign keys"
	case special:
		o.Single = "it has indexes or columns that are not stored"
	}
	return o
}
