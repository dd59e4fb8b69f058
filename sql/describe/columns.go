package describe

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/sql/schema"
)

// Column is what SHOW COLUMNS says of a column.
type Column struct {
	Name, Type, Key, Extra, Comment string
	// Collation and Default may be nil, Generated is empty for columns that are not.
	Collation, Default any
	Nullable           bool
	Generated          string
	// Digits are those of the second, -1 of types that have none.
	Digits int
}

// Columns are those of a table that are not hidden. all also has the hidden ones of indexes over
// expressions, as SHOW EXTENDED COLUMNS.
func Columns(ctx *sql.Context, t *schema.Table, all bool) []Column {
	out := make([]Column, 0, len(t.Cols))
	for i, c := range t.Cols {
		if !c.Desc.HiddenSystem || all {
			out = append(out, column(ctx, t, i))
		}
	}
	return out
}

// ColumnOf is what is said of the column at a position.
func ColumnOf(ctx *sql.Context, t *schema.Table, at int) Column { return column(ctx, t, at) }

func column(ctx *sql.Context, t *schema.Table, at int) Column {
	c := t.Cols[at]
	out := Column{Name: c.Desc.Name, Type: TypeText(c.Desc), Key: key(t, at), Comment: c.Desc.Comment,
		Nullable: c.Desc.Nullable, Digits: digits(c)}
	if hasText(c) {
		out.Collation = c.Desc.Collation.Name()
	}
	text, kind := defaultOf(ctx, c)
	if kind != noDefault && c.Desc.Generated == nil {
		out.Default = text
	}
	if c.Desc.Generated != nil {
		out.Generated = expression(c.Desc.Generated.Text)
	}
	out.Extra = extra(c.Desc, kind)
	return out
}

// hasText reports whether the column has a character set that is shown.
func hasText(c *schema.Column) bool {
	switch c.Type.Type() {
	case sqltypes.Char, sqltypes.VarChar, sqltypes.Text, sqltypes.Enum, sqltypes.Set:
		return true
	}
	return false
}

// digits are those of the second of a type, -1 if it has none.
func digits(c *schema.Column) int {
	if c.Kind == schema.KindTimespan {
		return c.Digits
	}
	if d, ok := c.Type.(sql.DatetimeType); ok && c.Type.Type() != sqltypes.Date {
		return d.Precision()
	}
	return -1
}

func extra(d *schema.ColumnDesc, kind defaultKind) string {
	var words []string
	switch {
	case d.AutoInc:
		words = append(words, "auto_increment")
	case d.Generated != nil && d.Virtual:
		words = append(words, "VIRTUAL GENERATED")
	case d.Generated != nil:
		words = append(words, "STORED GENERATED")
	case kind == nowDefault, kind == exprDefault:
		words = append(words, "DEFAULT_GENERATED")
	}
	if d.OnUpdate != nil {
		if text, ok := now(d.OnUpdate); ok {
			words = append(words, "on update "+text)
		}
	}
	return strings.Join(words, " ")
}

// key is PRI, UNI or MUL as MySQL has it: the first that applies. A unique index of several columns
// allows duplicates of its first one, and the first unique one of columns that cannot be NULL
// stands for a primary key that is missing.
func key(t *schema.Table, at int) string {
	if t.InPK(at) {
		return "PRI"
	}
	first := slices.IndexFunc(t.Indexes, func(x *schema.Index) bool { return x.Desc.Unique() && !nullable(t, x) })
	if len(t.PK) == 0 && first >= 0 && slices.ContainsFunc(t.Indexes[first].Cols,
		func(p schema.IndexPos) bool { return p.Pos == at }) {
		return "PRI"
	}
	out := ""
	for _, x := range t.Indexes {
		if x.Desc.State != schema.IndexPublic || x.Cols[0].Pos != at {
			continue
		}
		if x.Desc.Unique() && len(x.Cols) == 1 {
			return "UNI"
		}
		out = "MUL"
	}
	return out
}

// nullable reports whether a column of an index may be NULL.
func nullable(t *schema.Table, x *schema.Index) bool {
	return slices.ContainsFunc(x.Cols, func(p schema.IndexPos) bool { return t.Cols[p.Pos].Desc.Nullable })
}

// TypeText is the type of a column, without its collation.
func TypeText(d *schema.ColumnDesc) string {
	if d.Type != "enum" && d.Type != "set" {
		return d.Type
	}
	values := make([]string, len(d.Values))
	for i, v := range d.Values {
		values[i] = quote(v)
	}
	return d.Type + "(" + strings.Join(values, ",") + ")"
}
