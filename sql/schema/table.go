package schema

import (
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
)

// Table is a table descriptor made ready for use: immutable, shared by all
// sessions that use the same catalog snapshot.
type Table struct {
	Desc *TableDesc
	Key  base.Key       // of the descriptor
	TS   base.Timestamp // commit timestamp of the descriptor
	Cols []*Column
	// PK are the positions of the primary-key columns in key order.
	PK []int
	// StoredOrder are the positions of the stored columns in the order of their ids.
	StoredOrder   []int
	Virtual       bool // some columns are not stored
	Indexes       []*Index
	once          sync.Once
	engineIndexes []sql.Index
	HomesOf       *Table // whose rows' homes this table shows; nil: it is none such
	Next          *Table // its successor, which writers write as well; nil: none
	Prev          *Table // whose successor it is

	parts *parts // by which column rows have their placements; nil: all have one

	foreign atomic.Int64 // when a row of a newer definition was first met, Unix ns; 0: never
}

// Index is an index descriptor made ready for use.
type Index struct {
	Desc *IndexDesc
	Cols []IndexPos
}

// IndexPos is a column of an index: its position in the table, and the prefix length, 0 for all.
type IndexPos struct {
	Pos    int
	length int64
}

// Same reports whether two rows certainly have the same values in the columns of the index, and so
// the same entry. It does not look into values of larger types.
func (x *Index) Same(a, b sql.Row) bool {
	for _, c := range x.Cols {
		if !sameValue(a[c.Pos], b[c.Pos]) {
			return false
		}
	}
	return true
}

// SameKey reports whether two rows certainly have the same primary key.
func (t *Table) SameKey(a, b sql.Row) bool {
	for _, p := range t.PK {
		if !sameValue(a[p], b[p]) {
			return false
		}
	}
	return len(t.PK) > 0
}

func sameValue(a, b any) bool {
	switch a.(type) {
	case nil, int8, int16, int32, int64, uint8, uint16, uint32, uint64, string, time.Time:
		return a == b
	}
	return false
}

// NewTable makes a table descriptor, and that of its successor, ready for use.
func NewTable(d *TableDesc) (*Table, error) {
	t := &Table{Desc: d, Key: TableKey(d.DB, d.Name)}
	for i := range d.Cols {
		c, err := NewColumn(&d.Cols[i])
		if err != nil {
			return nil, err
		}
		t.Cols = append(t.Cols, c)
		if c.Desc.Virtual {
			t.Virtual = true
		} else {
			t.StoredOrder = append(t.StoredOrder, i)
		}
	}
	sort.Slice(t.StoredOrder, func(i, j int) bool {
		return t.Cols[t.StoredOrder[i]].Desc.ID < t.Cols[t.StoredOrder[j]].Desc.ID
	})
	for _, id := range d.PK {
		t.PK = append(t.PK, d.Col(id))
	}
	for i := range d.Indexes {
		x := &Index{Desc: &d.Indexes[i]}
		for _, c := range x.Desc.Cols {
			x.Cols = append(x.Cols, IndexPos{d.Col(c.Col), c.Length})
		}
		t.Indexes = append(t.Indexes, x)
	}
	if err := t.makeParts(); err != nil {
		return nil, err
	}
	if d.Next != nil {
		n, err := NewTable(d.successor())
		if err != nil {
			return nil, err
		}
		t.Next, n.Prev = n, t
	}
	return t, nil
}

// Schema makes a schema for one statement; the engine changes it in place.
func (t *Table) Schema() sql.Schema {
	s := make(sql.Schema, len(t.Cols))
	block := make([]sql.Column, len(t.Cols))
	for i, c := range t.Cols {
		d := c.Desc
		block[i] = sql.Column{
			Name: d.Name, Type: c.Type, Source: t.Desc.Name, DatabaseSource: t.Desc.DB, Nullable: d.Nullable,
			Default: d.Default.Default(), Generated: d.Generated.Default(), OnUpdate: d.OnUpdate.Default(),
			Virtual: d.Virtual, AutoIncrement: d.AutoInc, Hidden: d.Hidden, HiddenSystem: d.HiddenSystem,
			Comment: d.Comment, Extra: d.Extra,
		}
		s[i] = &block[i]
	}
	for _, p := range t.PK {
		block[p].PrimaryKey = true
	}
	return s
}

// Default is the expression as the engine wants a default or generated value.
func (e *ExprDesc) Default() *sql.ColumnDefaultValue {
	if e == nil {
		return nil
	}
	v := sql.NewUnresolvedColumnDefaultValue(e.Text)
	v.Literal, v.Parenthesized = e.Literal, e.Parenthesized
	return v
}

// publicIndexes are those that may be read, sorted by name.
func (t *Table) publicIndexes() []*Index {
	out := make([]*Index, 0, len(t.Indexes))
	for _, x := range t.Indexes {
		if x.Desc.State == IndexPublic {
			out = append(out, x)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Desc.Name < out[j].Desc.Name })
	return out
}

// HasFulltext reports whether the table has full-text indexes.
func (t *Table) HasFulltext() bool {
	return slices.ContainsFunc(t.Indexes, func(x *Index) bool { return x.Desc.Fulltext != nil })
}

// HasNull reports whether an indexed column of the row is NULL.
func (x *Index) HasNull(row sql.Row) bool {
	return slices.ContainsFunc(x.Cols, func(c IndexPos) bool { return row[c.Pos] == nil })
}

// InPK reports whether the column at a position is part of the primary key.
func (t *Table) InPK(pos int) bool {
	for _, p := range t.PK {
		if p == pos {
			return true
		}
	}
	return false
}

// HomeFor is the home that a row from a home gets in a shard of the table.
func (t *Table) HomeFor(s base.ShardID, home base.RegionID) base.RegionID {
	switch t.Desc.Locality.Kind {
	case Global:
		return 0
	case ByTable:
		return t.Desc.Locality.Region
	}
	return t.PlacedAt(s).HomeOf(home)
}

// ByHome reports whether an index of the table is keyed by home.
func (t *Table) ByHome() bool {
	for _, x := range t.Indexes {
		if x.Desc.Class == ClassByHome && x.Desc.Stored() {
			return true
		}
	}
	return false
}

// InIndex reports whether entries of some index depend on a column.
func (t *Table) InIndex(pos int) bool {
	return slices.ContainsFunc(t.Indexes, func(x *Index) bool {
		return slices.ContainsFunc(x.Cols, func(c IndexPos) bool { return c.Pos == pos })
	})
}

// CounterID names an AUTO_INCREMENT counter, and how often it was set: values leased before it was
// set are void.
type CounterID struct {
	Key, Epoch uint64
}

// Counter is the counter of the table's AUTO_INCREMENT column.
func (t *Table) Counter() CounterID { return CounterID{t.Desc.AutoKey, t.Desc.AutoEpoch} }
