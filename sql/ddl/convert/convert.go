// Package convert brings the values of a column to another type when ALTER TABLE changes it, as an
// assignment does. The engine makes seconds of dates, the bytes of a BLOB a number, and a text with
// a time of a DATE.
package convert

import (
	"errors"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/access"
	"github.com/godwitdb/godwit/sql/assign"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/given"
	"github.com/godwitdb/godwit/sql/schema"
)

// Column converts one column of the rows of a table. A nil one leaves them as they are.
type Column struct {
	pos  int
	from *access.Values
	in   expr.Vec
	to   *assign.Setter
	row  int
}

// New converts the column oc of a table to nc, which is one of desc. It returns nil where the
// engine's conversion is right, or is not known to differ.
func New(ctx *sql.Context, t *schema.Table, desc *schema.TableDesc, oc, nc *sql.Column) (*Column, error) {
	if oc == nil || nc == nil || oc.Type.Equals(nc.Type) {
		return nil, nil
	}
	pos, at := t.Desc.ColByName(oc.Name), desc.ColByName(nc.Name)
	if pos < 0 || at < 0 {
		return nil, nil
	}
	col, err := schema.NewColumn(&desc.Cols[at])
	if err != nil {
		return nil, err
	}
	c := &Column{pos: pos, from: access.ValuesOf(ctx, t)}
	from := c.from.Type(pos)
	env, err := given.Environment(ctx, nil)
	if err != nil {
		return nil, err
	}
	if !ours(from, expr.FromSQL(col.Type), env.Mode) {
		return nil, nil
	}
	if c.to, err = assign.New(ctx, env, col, from); err != nil {
		return nil, nil // a pair of types that we do not know
	}
	c.to.Strict, c.to.Nulls = sql.LoadSqlMode(ctx).Strict(), assign.TakeNull
	return c, nil
}

// ours reports whether conversions between two types are ours. Those of times to times are the
// engine's, with the zone of the session, unless fractions are to be cut, and so are those of ENUM
// and SET, whose members it maps.
func ours(from, to expr.Type, mode expr.Mode) bool {
	if from.Kind == expr.Enum || from.Kind == expr.Set {
		return false
	}
	for _, t := range []expr.Type{from, to} {
		if t.Kind == expr.JSON || t.Kind == expr.Opaque {
			return false
		}
	}
	return !from.Temporal() || !to.Temporal() || mode&expr.TruncateFractions != 0
}

// Rows are the rows of an iterator with the column converted.
func (c *Column) Rows(in sql.RowIter) sql.RowIter {
	if c == nil || in == nil {
		return in
	}
	return &rows{in, c}
}

type rows struct {
	sql.RowIter
	c *Column
}

// Next implements sql.RowIter.
func (r *rows) Next(ctx *sql.Context) (sql.Row, error) {
	row, err := r.RowIter.Next(ctx)
	if err != nil {
		return nil, err
	}
	c := r.c
	if c.row++; row[c.pos] == nil {
		return row, nil
	}
	c.in.Reset(c.from.Type(c.pos), 1)
	if err := c.from.Put(&c.in, 0, c.pos, row[c.pos]); err != nil {
		return nil, err
	}
	row[c.pos], err = c.to.Value(&c.in, 0, c.row)
	var wrong *assign.Error
	if errors.As(err, &wrong) {
		err = wrong.Me
	}
	return row, err
}
