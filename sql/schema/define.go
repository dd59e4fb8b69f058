package schema

import (
	"slices"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/expr/calendar"
	"github.com/godwitdb/godwit/sql/zone"
)

// SetMissing notes the value of the column in rows that do not have it.
func (d *ColumnDesc) SetMissing(ctx *sql.Context, c *sql.Column) error {
	var v any
	var err error
	switch {
	case IsNow(c.Default):
		if v, err = present(ctx, c.Type); err != nil {
			return err
		}
	case c.Default != nil:
		if v, err = c.Default.Eval(ctx, nil); err != nil {
			return err
		}
	case !c.Nullable:
		v = c.Type.Zero()
	}
	if v == nil {
		return nil
	}
	if v, _, err = c.Type.Convert(ctx, v); err != nil {
		return err
	}
	col, err := NewColumn(d)
	if err != nil {
		return err
	}
	if t, ok := v.(types.Timespan); ok && col.Kind == KindTimespan {
		v = roundTime(int64(t), microsOf[col.Digits])
	}
	d.Missing, err = col.AppendPayload(ctx, nil, v)
	return err
}

// IsNow reports whether a default is CURRENT_TIMESTAMP, the same for all rows of a statement.
func IsNow(d *sql.ColumnDefaultValue) bool {
	if d == nil {
		return false
	}
	e := d.Expr
	for w, ok := e.(*expression.Wrapper); ok; w, ok = e.(*expression.Wrapper) {
		e = w.Unwrap()
	}
	_, ok := e.(*function.Now)
	return ok
}

// present is the time of the statement as a column of the type holds it: in UTC, or as the
// session's clock shows it.
func present(ctx *sql.Context, t sql.Type) (any, error) {
	at := zone.Now(ctx).UTC()
	if t.Type() != sqltypes.Timestamp {
		loc, err := zone.Of(ctx)
		if err != nil {
			return nil, err
		}
		at = calendar.ToGo(calendar.FromGo(at.In(loc)), time.UTC)
	}
	unit := time.Second
	if d, ok := t.(sql.DatetimeType); ok {
		for range d.Precision() {
			unit /= 10
		}
	}
	return at.Truncate(unit), nil
}

// Position is where a column goes; old is where it goes without an order.
func (d *TableDesc) Position(order *sql.ColumnOrder, old int) (int, error) {
	switch {
	case order == nil:
		return old, nil
	case order.First:
		return 0, nil
	}
	i := d.ColByName(order.AfterColumn)
	if i < 0 {
		return 0, sql.ErrTableColumnNotFound.New(d.Name, order.AfterColumn)
	}
	return i + 1, nil
}

// Redefine takes over a new definition of a column; the id and the stored values stay.
func (d *ColumnDesc) Redefine(c *sql.Column) error {
	d.Name, d.Nullable = c.Name, c.Nullable && !c.PrimaryKey
	d.Default, d.Generated, d.OnUpdate = DescribeExpr(c.Default), DescribeExpr(c.Generated), DescribeExpr(c.OnUpdate)
	d.Virtual, d.AutoInc, d.Hidden, d.HiddenSystem = c.Virtual, c.AutoIncrement, c.Hidden, c.HiddenSystem
	d.Comment, d.Extra = c.Comment, c.Extra
	if _, ok := timeDigits(d.Type); ok && types.IsTimespan(c.Type) {
		return nil // the engine hands on its own type, which has no digits
	}
	return describeType(d, c.Type)
}

// sameType reports whether two columns have one type.
func (d *ColumnDesc) sameType(o *ColumnDesc) bool {
	return d.Type == o.Type && d.Collation == o.Collation && slices.Equal(d.Values, o.Values) && d.srid() == o.srid()
}

// Widens reports whether values of the old type are stored and ordered alike in the new one.
func Widens(o, n sql.Type) bool {
	var od, nd ColumnDesc
	if describeType(&od, o) != nil || describeType(&nd, n) != nil {
		return false
	}
	if od.sameType(&nd) {
		return true
	}
	oc, err1 := NewColumn(&od)
	nc, err2 := NewColumn(&nd)
	if err1 != nil || err2 != nil || oc.Kind != nc.Kind {
		return false
	}
	switch oc.Kind {
	case KindInt, KindUint:
		return oc.Integer() && nc.Integer() && oc.bits < nc.bits && strings.Contains(n.String(), "int")
	case KindString, KindBytes:
		return oc.Collation == nc.Collation && widensText(o, n)
	}
	return false
}

// widensText reports whether a string type is the same as another one but for its length, which may
// be larger.
func widensText(o, n sql.Type) bool {
	os, ok1 := o.(sql.StringType)
	ns, ok2 := n.(sql.StringType)
	if !ok1 || !ok2 || os.Type() != ns.Type() || types.IsTextOnly(o) != types.IsTextOnly(n) {
		return false
	}
	return !isFixedBinary(o) && !isFixedBinary(n) && os.MaxCharacterLength() <= ns.MaxCharacterLength()
}

// srid is the spatial reference of the type, -1 if none is given.
func (d *ColumnDesc) srid() int64 {
	if d.SRID == nil {
		return -1
	}
	return int64(*d.SRID)
}

func isFixedBinary(t sql.Type) bool { return strings.HasPrefix(t.String(), "binary") }

// DefineIndex adds an index to a descriptor.
func (d *TableDesc) DefineIndex(def sql.IndexDef, state indexState) (*IndexDesc, error) {
	x := IndexDesc{
		ID: base.IndexID(d.NextIndex), Name: def.Name, Constraint: def.Constraint, Comment: def.Comment, State: state,
	}
	if x.Name == "" {
		for _, c := range def.Columns {
			x.Name += c.Name + "_"
		}
	}
	if d.Index(x.Name) != nil {
		return nil, sql.ErrDuplicateKey.New(x.Name)
	}
	for _, c := range def.Columns {
		i := d.ColByName(c.Name)
		if i < 0 {
			return nil, sql.ErrKeyColumnDoesNotExist.New(c.Name)
		}
		col, err := NewColumn(&d.Cols[i])
		if err != nil {
			return nil, err
		}
		if x.Stored() && !indexable(col) {
			return nil, base.Errorf(base.CodeInvalid, "column %s of type %s cannot be in an index", c.Name, col.Type)
		}
		x.Cols = append(x.Cols, IndexedColumn{d.Cols[i].ID, c.Length})
	}
	if d.Locality.Kind == MultiMaster && !x.Stored() {
		return nil, Invalid("MULTI MASTER tables have ordinary and unique indexes only")
	}
	x.Class = d.ClassFor(x.Cols, x.Constraint)
	d.NextIndex++
	d.Indexes = append(d.Indexes, x)
	return &d.Indexes[len(d.Indexes)-1], nil
}

// TakeSuperseded removes the indexes that were made for foreign keys only, and whose columns an
// index that is public now begins with, and returns them: as in MySQL, they go silently.
func (d *TableDesc) TakeSuperseded(by base.IndexID) (out []IndexDesc) {
	x := d.IndexByID(by)
	if x == nil || !x.Stored() {
		return nil
	}
	cols := x.Cols
	d.Indexes = slices.DeleteFunc(d.Indexes, func(y IndexDesc) bool {
		gone := y.Generated && y.ID != by && len(y.Cols) <= len(cols) && slices.Equal(y.Cols, cols[:len(y.Cols)])
		if gone {
			out = append(out, y)
		}
		return gone
	})
	return out
}

// AddColumn puts a column at a position of the schema.
func (t *TableDesc) AddColumn(c *sql.Column, at int) error {
	t.NextCol++
	d := ColumnDesc{
		ID: t.NextCol, Name: c.Name, Nullable: c.Nullable && !c.PrimaryKey, Default: DescribeExpr(c.Default),
		Generated: DescribeExpr(c.Generated), OnUpdate: DescribeExpr(c.OnUpdate), Virtual: c.Virtual,
		AutoInc: c.AutoIncrement, Hidden: c.Hidden, HiddenSystem: c.HiddenSystem, Comment: c.Comment, Extra: c.Extra,
	}
	if err := describeType(&d, c.Type); err != nil {
		return err
	}
	t.Cols = slices.Insert(t.Cols, at, d)
	return nil
}

// indexable reports whether values of a column can be in keys.
func indexable(c *Column) bool {
	switch c.Kind {
	case KindJSON, kindGeometry, kindVector:
		return false
	}
	return !types.IsJSON(c.Type)
}

// DescribeExpr keeps the text of a default or generated value, without table names.
func DescribeExpr(v *sql.ColumnDefaultValue) *ExprDesc {
	if v == nil {
		return nil
	}
	if u, ok := v.Expr.(*sql.UnresolvedColumnDefault); ok {
		return &ExprDesc{Text: u.ExprString, Literal: v.Literal, Parenthesized: v.Parenthesized}
	}
	if l, ok := v.Expr.(*expression.Literal); ok {
		if t, ok := l.Value().(types.Timespan); ok {
			return &ExprDesc{Text: "'" + shortTime(t) + "'", Literal: v.Literal, Parenthesized: v.Parenthesized}
		}
	}
	e, _, err := transform.Expr(sql.NewEmptyContext(), v,
		func(ctx *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
			if f, ok := e.(*expression.GetField); ok {
				return expression.NewGetField(f.Index(), f.Type(ctx), f.Name(), f.IsNullable(ctx)).
					WithQuotedNames(sql.DefaultMySQLSchemaFormatter, f.IsQuotedIdentifier()), transform.NewTree, nil
			}
			return e, transform.SameTree, nil
		})
	if err != nil {
		e = v
	}
	return &ExprDesc{Text: e.String(), Literal: v.Literal, Parenthesized: v.Parenthesized}
}
