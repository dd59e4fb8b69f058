package feed

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/schema"
)

// Kind is what happened to a definition.
type Kind uint8

// The kinds, in the order in which they come within a Tx.
const (
	DatabaseCreated Kind = iota + 1
	DatabaseAltered
	ViewDropped
	// Dropped: the table is gone, with its rows.
	Dropped
	// Renamed: the table has another name, or is in another database; it may be altered, too. If
	// tables change their names in a ring, their renames belong together.
	Renamed
	// Altered: columns, keys, or anything else of the definition. The rows are what they were, in
	// the new columns.
	Altered
	// Rewritten: as Altered, but rows may have got other values, or another key.
	Rewritten
	// Truncated: the rows are others, the definition is the same. The new ones follow.
	Truncated
	// Created: the table begins to exist. Its rows follow.
	Created
	ViewCreated // or replaced
	DatabaseDropped
)

// Definition is a change of one.
type Definition struct {
	Kind Kind
	DB   string // the database, as it is named after the change if it is there
	// Old and New are the table before and after; nil where there is none.
	Old, New *schema.Table
	Database *schema.DatabaseDesc // of DatabaseCreated and DatabaseAltered
	// View is that of ViewCreated and ViewDropped.
	View *schema.ObjectDesc
}

// compare finds what has changed in the catalog at the moment of a window.
func (r *Reader) compare(w *window) {
	was, is := r.snap, w.is
	for _, name := range slices.Sorted(maps.Keys(was.Databases)) {
		if old := was.Databases[name]; is.Databases[name] == nil && r.wantsOf(old.Desc.Name) {
			w.defs = append(w.defs, Definition{Kind: DatabaseDropped, DB: old.Desc.Name})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(is.Databases)) {
		d := is.Databases[name].Desc
		switch old := was.Databases[name]; {
		case !r.wantsOf(d.Name):
		case old == nil:
			w.defs = append(w.defs, Definition{Kind: DatabaseCreated, DB: d.Name, Database: d})
		case *old.Desc != *d:
			w.defs = append(w.defs, Definition{Kind: DatabaseAltered, DB: d.Name, Database: d})
		}
	}
	r.compareViews(w)
	r.compareTables(w)
	slices.SortStableFunc(w.defs, func(a, b Definition) int { return cmp.Compare(a.Kind, b.Kind) })
}

// wantsOf reports whether the filter has anything in a database.
func (r *Reader) wantsOf(db string) bool {
	return r.wants(db, "") || slices.ContainsFunc(r.o.Tables, func(n Name) bool { return strings.EqualFold(n.DB, db) })
}

// compareViews looks at those of databases that are followed as a whole.
func (r *Reader) compareViews(w *window) {
	views := func(s *schema.Snapshot) map[string]*schema.ObjectDesc {
		out := map[string]*schema.ObjectDesc{}
		for db, d := range s.Databases {
			if r.wants(db, "") {
				for name, v := range d.Objects[schema.IxView] {
					out[db+"\x00"+name] = v
				}
			}
		}
		return out
	}
	was, is := views(r.snap), views(w.is)
	for _, n := range slices.Sorted(maps.Keys(was)) {
		if is[n] == nil {
			w.defs = append(w.defs, Definition{Kind: ViewDropped, DB: was[n].DB, View: was[n]})
		}
	}
	for _, n := range slices.Sorted(maps.Keys(is)) {
		if was[n] == nil || !bytes.Equal(schema.Marshal(was[n]), schema.Marshal(is[n])) {
			w.defs = append(w.defs, Definition{Kind: ViewCreated, DB: is[n].DB, View: is[n]})
		}
	}
}

func (r *Reader) compareTables(w *window) {
	old, now := r.tables, w.tables
	w.moved = map[base.TableID]bool{}
	after := map[base.TableID]*schema.Table{} // what has become of old tables, by their old ids
	taken := map[base.TableID]bool{}          // new ids that are in it
	for id, t := range old {
		n := now[id]
		if s := t.Desc.Next; n == nil && s != nil {
			n = now[s.ID]
			w.moved[s.ID] = n != nil
		}
		if n == nil {
			if x := w.is.Table(t.Desc.DB, t.Desc.Name); x != nil && now[x.Desc.ID] == x && old[x.Desc.ID] == nil {
				n = x
			}
		}
		if n != nil {
			after[id], taken[n.Desc.ID] = n, true
		}
	}
	add := func(k Kind, o, n *schema.Table) {
		d := Definition{Kind: k, Old: o, New: n}
		if d.DB = cmp.Or(n, o).Desc.DB; n != nil && (k == Created || k == Truncated || k == Rewritten && r.o.Again != nil && r.o.Again(d)) {
			w.fill = append(w.fill, n)
		}
		w.defs = append(w.defs, d)
	}
	for _, id := range slices.Sorted(maps.Keys(old)) {
		o, n := old[id], after[id]
		switch {
		case n == nil:
			add(Dropped, o, nil)
		case n.TS == o.TS && n.Desc.ID == o.Desc.ID:
		case o.Desc.ID == n.Desc.ID || w.moved[n.Desc.ID]:
			k := Altered
			if o.Desc.DB != n.Desc.DB || o.Desc.Name != n.Desc.Name {
				k = Renamed
			}
			add(k, o, n)
		case o.Desc.AutoKey == n.Desc.AutoKey:
			add(Rewritten, o, n)
		case alike(o, n):
			add(Truncated, o, n)
		default:
			add(Dropped, o, nil)
			add(Created, nil, n)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(now)) {
		if old[id] == nil && !taken[id] {
			add(Created, nil, now[id])
		}
	}
}

// alike reports whether two tables differ in nothing but their rows, and where these are.
func alike(a, b *schema.Table) bool {
	text := func(t *schema.Table) []byte {
		d := t.Desc.Clone()
		d.ID, d.V, d.Version, d.AutoKey, d.AutoEpoch, d.Shards, d.Locality, d.Next = 0, 0, 0, 0, 0, 0, schema.Locality{}, nil
		d.Created, d.NextCol, d.NextIndex, d.Dropped = b.Desc.Created, 0, 0, nil
		for i := range d.Cols {
			d.Cols[i].Missing = nil
		}
		for i := range d.Indexes {
			d.Indexes[i].Class = 0
		}
		return schema.Marshal(d)
	}
	return bytes.Equal(text(a), text(b))
}

func sorted(m map[base.Timestamp]bool) []base.Timestamp { return slices.Sorted(maps.Keys(m)) }
