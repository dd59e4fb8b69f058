package sysschema

import (
	"slices"
	"strings"
	"sync"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/perfschema"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/virtual"
)

// Schema is the name of the database.
const Schema = "sys"

// Env is what the database asks.
type Env struct {
	Perf *perfschema.Env
	// Next is the next value of a table's AUTO_INCREMENT column.
	Next func(*sql.Context, *schema.Table) (uint64, error)
}

// kind is the type of a column.
type kind uint8

const (
	text     kind = iota
	number        // uint64
	signed        // int64
	ratio         // decimal of two digits
	share         // decimal of four
	moment        // time
	duration      // uint64, in picoseconds
	size          // uint64, in bytes
	query         // text of a statement
)

var kinds = map[byte]kind{'#': number, '-': signed, '%': ratio, '/': share, '@': moment, '~': duration, '^': size, '?': query}

// words are the types of kinds: as numbers, and as people read them.
var words = map[kind][2]sql.Type{
	text:     {types.LongText, types.LongText},
	number:   {types.Uint64, types.Uint64},
	signed:   {types.Int64, types.Int64},
	ratio:    {types.MustCreateDecimalType(26, 2), types.MustCreateDecimalType(26, 2)},
	share:    {types.MustCreateDecimalType(27, 4), types.MustCreateDecimalType(27, 4)},
	moment:   {instant, instant},
	duration: {types.Uint64, short},
	size:     {types.Uint64, short},
	query:    {types.LongText, types.LongText},
}

var (
	instant = types.MustCreateDatetimeType(sqltypes.Timestamp, 6)
	short   = types.MustCreateStringWithDefaults(sqltypes.VarChar, 32)
)

// view is a view of the database, and the one with x$ before its name if it has one.
type view struct {
	name string
	// columns are their names in order, each with the sign of its kind before it; none is text.
	columns string
	// rows are without words; nil: there are none.
	rows func(e *Env, ctx *sql.Context) ([]sql.Row, error)
	// plain: there is no view with x$. raw: there is only that one.
	plain, raw bool
}

// column is one of a view.
type column struct {
	name string
	kind kind
}

func (v *view) list() (out []column) {
	for _, name := range strings.Fields(v.columns) {
		k, signed := kinds[name[0]]
		if signed {
			name = name[1:]
		}
		out = append(out, column{name, k})
	}
	return out
}

var views = slices.Concat(statementViews, clientViews, schemaViews, emptyViews)

// schemas are the columns of a view: as numbers, and in words.
var schemas = sync.OnceValue(func() map[string][2]sql.Schema {
	out := map[string][2]sql.Schema{}
	for i := range views {
		var s [2]sql.Schema
		for _, c := range views[i].list() {
			for as := range s {
				s[as] = append(s[as], &sql.Column{Name: c.name, Type: words[c.kind][as], Nullable: true})
			}
		}
		out[views[i].name] = s
	}
	return out
})

// Database is sys.
func (e *Env) Database() sql.Database {
	return &virtual.Database{Called: Schema, ReadOnly: func() error { return ddl.ErrReadOnlySystem(Schema) }, Tables: e.tables, Names: names}
}

var names = sync.OnceValue(func() (out []string) {
	for i := range views {
		if !views[i].raw {
			out = append(out, views[i].name)
		}
		if !views[i].plain {
			out = append(out, "x$"+views[i].name)
		}
	}
	slices.Sort(out)
	return out
})

func (e *Env) tables() (out []virtual.Table) {
	for i := range views {
		v := &views[i]
		s := schemas()[v.name]
		if !v.raw {
			out = append(out, virtual.Table{Name: v.name, Columns: s[1], Rows: func(ctx *sql.Context) ([]sql.Row, error) {
				rows, err := v.read(e, ctx)
				return worded(v.list(), rows), err
			}})
		}
		if !v.plain {
			out = append(out, virtual.Table{Name: "x$" + v.name, Columns: s[0], Rows: func(ctx *sql.Context) ([]sql.Row, error) { return v.read(e, ctx) }})
		}
	}
	return out
}

func (v *view) read(e *Env, ctx *sql.Context) ([]sql.Row, error) {
	if v.rows == nil {
		return nil, nil
	}
	return v.rows(e, ctx)
}

// worded puts the figures of rows into words.
func worded(cols []column, rows []sql.Row) []sql.Row {
	for _, r := range rows {
		for i, c := range cols {
			n, isNumber := r[i].(uint64)
			s, isText := r[i].(string)
			switch {
			case c.kind == duration && isNumber:
				r[i] = formatTime(n)
			case c.kind == size && isNumber:
				r[i] = formatBytes(n)
			case c.kind == query && isText:
				r[i] = formatStatement(s)
			}
		}
	}
	return rows
}

// record is a row of a table of performance_schema.
type record map[string]any

func (r record) n(name string) uint64 {
	switch v := r[name].(type) {
	case uint64:
		return v
	case int64:
		return uint64(v)
	}
	return 0
}

func (r record) s(name string) string {
	s, _ := r[name].(string)
	return s
}

// read is a table of performance_schema, which the session's user needs the right to read.
func (e *Env) read(ctx *sql.Context, table string) (out []record, err error) {
	cols, rows, err := e.Perf.Read(ctx, table)
	for _, row := range rows {
		r := record{}
		for i, c := range cols {
			r[c.Name] = row[i]
		}
		out = append(out, r)
	}
	return out, err
}

// per is a divided by b, rounded; 0 if there is nothing.
func per(a, b uint64) uint64 {
	if b == 0 {
		return 0
	}
	return (a + b/2) / b
}

// percent is what a is of b in hundredths, with so many digits.
func percent(a, b uint64, digits int32) decimal.Decimal {
	if b == 0 {
		return decimal.New(0, 0)
	}
	return decimal.NewFromUint64(a).Mul(decimal.New(100, 0)).DivRound(decimal.NewFromUint64(b), digits)
}

// byDescending orders rows by a column of numbers, the largest first.
func byDescending(rows []sql.Row, at int) []sql.Row {
	slices.SortStableFunc(rows, func(a, b sql.Row) int {
		x, _ := a[at].(uint64)
		y, _ := b[at].(uint64)
		switch {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	return rows
}
