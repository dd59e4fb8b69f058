package schema

import (
	"context"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
)

// columnOf makes a column of a type as descriptors have it.
func columnOf(t testing.TB, id uint32, typ string, tune ...func(*ColumnDesc)) *Column {
	t.Helper()
	d := descOf(id, typ, tune...)
	c, err := NewColumn(&d)
	if err != nil {
		t.Fatalf("%s: %v", typ, err)
	}
	return c
}

func descOf(id uint32, typ string, tune ...func(*ColumnDesc)) ColumnDesc {
	d := ColumnDesc{ID: id, Name: string(rune('a' + id - 1)), Type: typ, Nullable: true}
	for _, f := range tune {
		f(&d)
	}
	return d
}

func collated(c sql.CollationID) func(*ColumnDesc) {
	return func(d *ColumnDesc) { d.Collation = c }
}

func valued(values ...string) func(*ColumnDesc) {
	return func(d *ColumnDesc) { d.Values, d.Collation = values, sql.Collation_Default }
}

// valueOf is a value as the engine hands it to the columns of a type.
func valueOf(t testing.TB, c *Column, v any) any {
	t.Helper()
	if v == nil {
		return nil
	}
	out, in, err := c.Type.Convert(context.Background(), v)
	if err != nil || in != sql.InRange {
		t.Fatalf("%v is no %s: %v %v", v, c.Type, in, err)
	}
	return out
}

// tableOf makes a table t of columns with the ids 1, 2, ...; the first npk are the primary key.
func tableOf(t testing.TB, npk int, cols []ColumnDesc, indexes ...IndexDesc) *Table {
	t.Helper()
	d := &TableDesc{V: DescVersion, ID: 1601, DB: "d", Name: "t", Cols: cols, Shards: 4, NextCol: uint32(len(cols)), NextIndex: 1}
	for i := range npk {
		d.PK = append(d.PK, cols[i].ID)
		d.Cols[i].Nullable = false
	}
	for i, x := range indexes {
		x.ID = base.IndexID(i + 1)
		x.Class = d.ClassFor(x.Cols, x.Constraint)
		d.Indexes = append(d.Indexes, x)
	}
	tab, err := NewTable(d)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}
