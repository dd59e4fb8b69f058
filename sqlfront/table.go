package sqlfront

import (
	"sort"
	"sync"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
)

// table is a table descriptor made ready for use: immutable, shared by all
// sessions that use the same catalog snapshot.
type table struct {
	desc *tableDesc
	key  base.Key       // of the descriptor
	ts   base.Timestamp // commit timestamp of the descriptor
	cols []*column
	// pk are the positions of the primary-key columns in key order.
	pk []int
	// storedOrder are the positions of the stored columns in the order of their ids.
	storedOrder []int
	virtual     bool // some columns are not stored
	indexes     []*index
	once        sync.Once
	sqlIdx      []sql.Index
	of          *table // whose rows' homes this table shows; nil: it is none such
	next        *table // its successor, which writers write as well; nil: none
	prev        *table // whose successor it is
}

// index is an index descriptor made ready for use.
type index struct {
	desc *indexDesc
	cols []indexPos
}

type indexPos struct {
	pos    int
	length int64
}

func newTable(d *tableDesc) (*table, error) {
	t := &table{desc: d, key: tableKey(d.DB, d.Name)}
	for i := range d.Cols {
		c, err := newColumn(&d.Cols[i])
		if err != nil {
			return nil, err
		}
		t.cols = append(t.cols, c)
		if c.desc.Virtual {
			t.virtual = true
		} else {
			t.storedOrder = append(t.storedOrder, i)
		}
	}
	sort.Slice(t.storedOrder, func(i, j int) bool {
		return t.cols[t.storedOrder[i]].desc.ID < t.cols[t.storedOrder[j]].desc.ID
	})
	for _, id := range d.PK {
		t.pk = append(t.pk, d.col(id))
	}
	for i := range d.Indexes {
		x := &index{desc: &d.Indexes[i]}
		for _, c := range x.desc.Cols {
			x.cols = append(x.cols, indexPos{d.col(c.Col), c.Length})
		}
		t.indexes = append(t.indexes, x)
	}
	if d.Next != nil {
		n, err := newTable(d.successor())
		if err != nil {
			return nil, err
		}
		t.next, n.prev = n, t
	}
	return t, nil
}

// schema makes a schema for one statement; the engine changes it in place.
func (t *table) schema() sql.Schema {
	s := make(sql.Schema, len(t.cols))
	block := make([]sql.Column, len(t.cols))
	for i, c := range t.cols {
		d := c.desc
		block[i] = sql.Column{
			Name: d.Name, Type: c.typ, Source: t.desc.Name, DatabaseSource: t.desc.DB, Nullable: d.Nullable,
			Default: d.Default.expr(), Generated: d.Generated.expr(), OnUpdate: d.OnUpdate.expr(),
			Virtual: d.Virtual, AutoIncrement: d.AutoInc, Hidden: d.Hidden, HiddenSystem: d.HiddenSystem,
			Comment: d.Comment, Extra: d.Extra,
		}
		s[i] = &block[i]
	}
	for _, p := range t.pk {
		block[p].PrimaryKey = true
	}
	return s
}

func (e *exprDesc) expr() *sql.ColumnDefaultValue {
	if e == nil {
		return nil
	}
	v := sql.NewUnresolvedColumnDefaultValue(e.Text)
	v.Literal, v.Parenthesized = e.Literal, e.Parenthesized
	return v
}

// publicIndexes are those that may be read, sorted by name.
func (t *table) publicIndexes() []*index {
	out := make([]*index, 0, len(t.indexes))
	for _, x := range t.indexes {
		if x.desc.State == indexPublic {
			out = append(out, x)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].desc.Name < out[j].desc.Name })
	return out
}
