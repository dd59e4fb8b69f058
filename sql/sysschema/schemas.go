package sysschema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/sql/describe"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// schemaViews are made of the catalog, of what the user sees of it.
var schemaViews = []view{
	{name: "schema_auto_increment_columns", columns: "table_schema table_name column_name data_type column_type -is_signed -is_unsigned " +
		"#max_value #auto_increment /auto_increment_ratio", plain: true, rows: autoIncrements},
	{name: "schema_object_overview", columns: "db object_type -count", plain: true, rows: overview},
	{name: "schema_redundant_indexes", columns: "table_schema table_name redundant_index_name redundant_index_columns " +
		"-redundant_index_non_unique dominant_index_name dominant_index_columns -dominant_index_non_unique -subpart_exists sql_drop_index",
		plain: true, rows: redundant},
	{name: "schema_flattened_keys", columns: "table_schema table_name index_name -non_unique -subpart_exists index_columns", raw: true,
		rows: func(e *Env, ctx *sql.Context) (out []sql.Row, err error) {
			err = e.each(ctx, func(t *schema.Table) error {
				for _, x := range flattened(t) {
					out = append(out, sql.Row{t.Desc.DB, t.Desc.Name, x.name, number01(!x.unique), number01(x.partly), x.columns()})
				}
				return nil
			})
			return out, err
		}},
}

// each goes through the tables that the session's user sees, in order.
func (e *Env) each(ctx *sql.Context, do func(*schema.Table) error) error {
	s := session.Of(ctx)
	if s == nil {
		return nil
	}
	snap, err := s.Snapshot(ctx)
	if err != nil {
		return err
	}
	mine := e.Perf.Rights(ctx)
	for _, db := range sortedDatabases(snap) {
		hidden := db.FulltextTables()
		var names []string
		for name, t := range db.Tables {
			if !hidden[name] && mine.Sees(t.Desc.DB, t.Desc.Name) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			if err := do(db.Tables[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

func sortedDatabases(snap *schema.Snapshot) (out []*schema.Database) {
	for _, d := range snap.Databases {
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b *schema.Database) int { return strings.Compare(a.Desc.Name, b.Desc.Name) })
	return out
}

func number01(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// greatest are the largest values of the types of integers.
var greatest = map[string]uint64{"tinyint": 1<<7 - 1, "smallint": 1<<15 - 1, "mediumint": 1<<23 - 1, "int": 1<<31 - 1, "bigint": 1<<63 - 1}

func autoIncrements(e *Env, ctx *sql.Context) (out []sql.Row, err error) {
	err = e.each(ctx, func(t *schema.Table) error {
		for _, c := range describe.Columns(ctx, t, false) {
			if !strings.Contains(c.Extra, "auto_increment") {
				continue
			}
			kind := c.Type
			if i := strings.IndexAny(kind, "( "); i > 0 {
				kind = kind[:i]
			}
			most, unsigned := greatest[kind], strings.Contains(c.Type, "unsigned")
			if unsigned {
				most = 2*most + 1
			}
			next, err := e.Next(ctx, t)
			if err != nil {
				return err
			}
			var share any
			if most > 0 {
				share = decimal.NewFromUint64(next).DivRound(decimal.NewFromUint64(most), 4)
			}
			out = append(out, sql.Row{t.Desc.DB, t.Desc.Name, c.Name, kind, c.Type, number01(!unsigned), number01(unsigned), most, next, share})
		}
		return nil
	})
	slices.SortStableFunc(out, func(a, b sql.Row) int {
		x, _ := a[9].(decimal.Decimal)
		y, _ := b[9].(decimal.Decimal)
		return y.Cmp(x)
	})
	return out, err
}

// objects are the kinds of objects beside tables, as the overview names them.
var objects = []struct {
	kind string
	at   func(*schema.Database) int
}{
	{"EVENT", func(d *schema.Database) int { return len(d.Objects[schema.IxEvent]) }},
	{"FUNCTION", func(d *schema.Database) int { return len(d.Objects[schema.IxFunction]) }},
	{"PROCEDURE", func(d *schema.Database) int { return len(d.Objects[schema.IxProcedure]) }},
	{"TRIGGER", func(d *schema.Database) int { return len(d.Objects[schema.IxTrigger]) }},
	{"VIEW", func(d *schema.Database) int { return len(d.Objects[schema.IxView]) }},
}

// overview counts objects by database. Who has no privilege for a database sees its tables only.
func overview(e *Env, ctx *sql.Context) (out []sql.Row, err error) {
	counts := map[[2]string]int64{}
	err = e.each(ctx, func(t *schema.Table) error {
		counts[[2]string{t.Desc.DB, "BASE TABLE"}]++
		for _, x := range describe.Indexes(t) {
			counts[[2]string{t.Desc.DB, "INDEX (" + string(x.Kind) + ")"}] += int64(len(x.Parts))
		}
		return nil
	})
	s := session.Of(ctx)
	if err != nil || s == nil {
		return nil, err
	}
	snap, err := s.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	mine := e.Perf.Rights(ctx)
	for _, d := range snap.Databases {
		for _, o := range objects {
			if n := o.at(d); n > 0 && mine.Sees(d.Desc.Name, "") {
				counts[[2]string{d.Desc.Name, o.kind}] += int64(n)
			}
		}
	}
	for k, n := range counts {
		out = append(out, sql.Row{k[0], k[1], n})
	}
	slices.SortFunc(out, func(a, b sql.Row) int {
		return strings.Compare(fmt.Sprint(a[0], "\x00", a[1]), fmt.Sprint(b[0], "\x00", b[1]))
	})
	return out, nil
}

// flat is an index by the names of its columns.
type flat struct {
	name           string
	unique, partly bool // partly: a part of it is a prefix
	cols           []string
}

func (f *flat) columns() string { return strings.Join(f.cols, ",") }

// flattened are the B-trees of a table that have no expressions.
func flattened(t *schema.Table) (out []flat) {
next:
	for _, x := range describe.Indexes(t) {
		f := flat{name: x.Name, unique: x.Unique}
		for _, p := range x.Parts {
			if x.Kind != describe.BTree || p.Column == "" {
				continue next
			}
			f.cols = append(f.cols, p.Column)
			f.partly = f.partly || p.Prefix > 0
		}
		out = append(out, f)
	}
	return out
}

// redundantTo reports whether an index does nothing that another one does not do: it has the same
// columns, or those at its beginning and is not unique.
func (f *flat) redundantTo(o *flat) bool {
	if f.partly || o.partly || f.name == o.name || f.name == describe.PrimaryName || len(f.cols) > len(o.cols) {
		return false
	}
	for i := range f.cols {
		if !strings.EqualFold(f.cols[i], o.cols[i]) {
			return false
		}
	}
	switch {
	case len(f.cols) < len(o.cols):
		return !f.unique
	case f.unique != o.unique:
		return !f.unique
	}
	return o.name == describe.PrimaryName || f.name > o.name
}

func redundant(e *Env, ctx *sql.Context) (out []sql.Row, err error) {
	err = e.each(ctx, func(t *schema.Table) error {
		all := flattened(t)
		for i := range all {
			for k := range all {
				f, o := &all[i], &all[k]
				if !f.redundantTo(o) {
					continue
				}
				drop := fmt.Sprintf("ALTER TABLE %s.%s DROP INDEX %s", quoted(t.Desc.DB), quoted(t.Desc.Name), quoted(f.name))
				out = append(out, sql.Row{t.Desc.DB, t.Desc.Name, f.name, f.columns(), number01(!f.unique), o.name, o.columns(), number01(!o.unique),
					number01(f.partly || o.partly), drop})
			}
		}
		return nil
	})
	return out, err
}

func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
