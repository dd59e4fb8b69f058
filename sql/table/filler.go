package table

import (
	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/schema"
)

// IndexFiller writes the entries of one index.
func (t *Table) IndexFiller(ctx *sql.Context, x *schema.Index) sql.RowInserter {
	return &indexFiller{Editor: t.Editor(ctx), x: x}
}

// indexFiller writes the entries of one index for rows that the engine passes.
type indexFiller struct {
	*Editor
	x *schema.Index
}

// Insert implements sql.RowInserter.
func (f *indexFiller) Insert(ctx *sql.Context, row sql.Row) error {
	if f.Err != nil {
		return f.Err
	}
	if err := f.ready(ctx, row); err != nil {
		return err
	}
	var c change
	var err error
	var home base.RegionID
	if len(f.Def.PK) > 0 {
		if c.ref, home, err = f.locate(ctx, row); err != nil {
			return err
		}
	} else {
		return base.Errorf(base.CodeInvalid, "an index over a virtual column needs a primary key")
	}
	c.row = row.Copy()
	k, v, err := f.Def.IndexEntry(ctx, f.x, row, c.ref, home)
	if err != nil {
		return schema.ClientError(err)
	}
	f.entry(&c, f.x, k, v, home, row)
	return f.add(ctx, c)
}

// Filled is the filler of an index that has all its entries.
type Filled struct{}

func (Filled) StatementBegin(*sql.Context)              {}
func (Filled) DiscardChanges(*sql.Context, error) error { return nil }
func (Filled) StatementComplete(*sql.Context) error     { return nil }
func (Filled) Insert(*sql.Context, sql.Row) error       { return nil }
func (Filled) Close(*sql.Context) error                 { return nil }
