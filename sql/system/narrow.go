package system

import (
	"slices"
	"sort"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/information_schema"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/table"
)

// names are the columns that name the database and the table that a row is about.
type names struct{ db, table int }

// narrowed are the tables of which each row is about one table of one database, and made of that
// alone.
var narrowed = []string{
	information_schema.ColumnsTableName, information_schema.TablesTableName, information_schema.StatisticsTableName,
	information_schema.KeyColumnUsageTableName, information_schema.TableConstraintsTableName,
}

// narrows finds out whether parts of the table can be read. The columns with the names are an index
// then.
func (t *Table) narrows() {
	if !strings.EqualFold(t.db, sql.InformationSchemaDatabaseName) || !slices.Contains(narrowed, strings.ToLower(t.name)) {
		return
	}
	p := names{-1, -1}
	for i, c := range t.cols {
		switch strings.ToUpper(c.Name) {
		case "TABLE_SCHEMA":
			p.db = i
		case "TABLE_NAME":
			p.table = i
		}
	}
	if _, columns := t.of.(*information_schema.ColumnsTable); p.db < 0 || p.table < 0 || !columns && rights.ReaderOf(t.of) == nil {
		return
	}
	t.part = &p
	t.idx = []algebra.Index{
		{Name: "names", Cols: []algebra.IndexCol{{Col: p.db}, {Col: p.table}}},
		{Name: "tables", Number: 1, Cols: []algebra.IndexCol{{Col: p.table}}},
	}
}

// wanted are databases, and tables in them, of which rows are wanted. Names are in lower case; an
// empty one is any.
type wanted struct{ pairs [][2]string }

// mostNames is how many names are told apart. Of more than that all is read.
const mostNames = 64

// asked is what a read wants; nil: all.
func (t *Table) asked(r exec.Read) *wanted {
	if t.part == nil || r.Index < 0 {
		return nil
	}
	w := &wanted{}
	add := func(vals []expr.Value) bool {
		var p [2]string
		if r.Index == 1 {
			vals = append([]expr.Value{{Kind: expr.Text}}, vals...)
		}
		for i, v := range vals {
			if i < len(p) && v.Kind == expr.Text {
				p[i] = folded(v.S)
			}
		}
		if p == ([2]string{}) || len(w.pairs) >= mostNames {
			return false
		}
		if !slices.Contains(w.pairs, p) {
			w.pairs = append(w.pairs, p)
		}
		return true
	}
	if r.Keys != nil {
		for _, i := range r.Keys.Sel {
			var vals []expr.Value
			for _, c := range r.Keys.Cols {
				vals = append(vals, c.At(i))
			}
			if !add(vals) {
				return nil
			}
		}
		return w
	}
	for _, s := range r.Spans {
		n := 0
		for n < len(s.Lo) && n < len(s.Hi) && s.Lo[n].Kind == expr.Text && s.Hi[n].Kind == expr.Text && s.Lo[n].S == s.Hi[n].S {
			n++
		}
		if s.Begins && n == len(s.Lo) {
			n-- // it begins with that
		}
		if n <= 0 || !add(s.Lo[:n]) {
			return nil
		}
	}
	if len(w.pairs) == 0 {
		return nil
	}
	return w
}

// folded is a name in lower case, as names are compared; empty if it is one that others may equal
// by their collation.
func folded(s string) string {
	s = strings.TrimRight(s, " ")
	for i := range len(s) {
		if s[i] >= 0x80 {
			return ""
		}
	}
	return strings.ToLower(s)
}

// key tells what is wanted apart; empty: all.
func (w *wanted) key() string {
	if w == nil {
		return ""
	}
	var all []string
	for _, p := range w.pairs {
		all = append(all, p[0]+"\x00"+p[1])
	}
	sort.Strings(all)
	return strings.Join(all, "\x01")
}

// is reports whether a name may be the one that is wanted.
func is(want, name string) bool {
	if want == "" {
		return true
	}
	f := folded(name)
	return f == "" || f == want
}

func (w *wanted) database(db string) bool {
	return w == nil || slices.ContainsFunc(w.pairs, func(p [2]string) bool { return is(p[0], db) })
}

func (w *wanted) table(db, name string) bool {
	return w == nil || slices.ContainsFunc(w.pairs, func(p [2]string) bool { return is(p[0], db) && is(p[1], name) })
}

// each reads the table, or the part that is wanted.
func (t *Table) each(w *wanted, do func(sql.RowIter) error) error {
	of := t.of
	cat := t.cat
	if w != nil {
		cat = within{t.cat, w}
	}
	if c, ok := of.(*information_schema.ColumnsTable); ok {
		return t.columns(c, cat, do)
	}
	if w == nil {
		if c, ok := of.(sql.CatalogTable); ok {
			of = c.AssignCatalog(cat)
		}
		return whole(t.ctx, of, do)
	}
	it, err := rights.ReaderOf(of).Reader(t.ctx, cat)
	if err != nil {
		return err
	}
	return do(it)
}

// columns reads information_schema.columns. The engine looks up the columns of each table among
// those of all tables that it is given: so it is given one table at a time.
func (t *Table) columns(c *information_schema.ColumnsTable, cat sql.Catalog, do func(sql.RowIter) error) error {
	for _, d := range cat.AllDatabases(t.ctx) {
		names, err := d.GetTableNames(t.ctx)
		if err != nil {
			return err
		}
		for _, name := range names {
			x, ok, err := d.GetTableInsensitive(t.ctx, name)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			if err := t.columnsOf(c, only{Database: d, t: x}, ofTable(t.ctx, d, x), do); err != nil {
				return err
			}
		}
		if v, ok := d.(sql.ViewDatabase); ok {
			if err := t.columnsOfViews(c, d, v, do); err != nil {
				return err
			}
		}
	}
	return nil
}

// columnsOfViews reads the columns of a database's views, whose texts are of that database.
func (t *Table) columnsOfViews(c *information_schema.ColumnsTable, d sql.Database, v sql.ViewDatabase, do func(sql.RowIter) error) error {
	defer t.ctx.SetCurrentDatabase(t.ctx.GetCurrentDatabase())
	t.ctx.SetCurrentDatabase(d.Name())
	return t.columnsOf(c, views{only{Database: d}, v}, nil, do)
}

func (t *Table) columnsOf(c *information_schema.ColumnsTable, d sql.Database, all sql.Schema, do func(sql.RowIter) error) error {
	it, err := c.RowIter(t.ctx, &single{Catalog: t.cat, db: d}, all)
	if err != nil {
		return err
	}
	return do(it)
}

// ofTable are the columns of a table. Package infoschema says what the defaults of stored ones are.
func ofTable(ctx *sql.Context, d sql.Database, t sql.Table) (out sql.Schema) {
	stored := table.Of(t) != nil
	for _, c := range t.Schema(ctx) {
		c = c.Copy()
		if c.DatabaseSource, c.Source = d.Name(), t.Name(); stored {
			c.Default = nil
		}
		out = append(out, c)
	}
	return out
}

// Whole implements rights.Narrow.
func (c within) Whole() sql.Catalog { return c.Catalog }

// within is a catalog without the databases and tables that are not wanted.
type within struct {
	sql.Catalog
	want *wanted
}

// AllDatabases implements sql.Catalog.
func (c within) AllDatabases(ctx *sql.Context) (out []sql.Database) {
	for _, d := range c.Catalog.AllDatabases(ctx) {
		if !c.want.database(d.Name()) {
			continue
		}
		p := part{Database: d, want: c.want}
		if v, ok := d.(sql.ViewDatabase); ok {
			out = append(out, viewed{p, v})
		} else {
			out = append(out, p)
		}
	}
	return out
}

// part is a database without the tables that are not wanted.
type part struct {
	sql.Database
	want *wanted
}

// GetTableNames implements sql.Database.
func (d part) GetTableNames(ctx *sql.Context) (out []string, err error) {
	all, err := d.Database.GetTableNames(ctx)
	for _, n := range all {
		if d.want.table(d.Name(), n) {
			out = append(out, n)
		}
	}
	return out, err
}

// viewed is one with views.
type viewed struct {
	part
	sql.ViewDatabase
}

// Name implements sql.Database.
func (d viewed) Name() string { return d.part.Name() }

// GetTableInsensitive implements sql.Database.
func (d viewed) GetTableInsensitive(ctx *sql.Context, name string) (sql.Table, bool, error) {
	return d.part.GetTableInsensitive(ctx, name)
}

// GetTableNames implements sql.Database.
func (d viewed) GetTableNames(ctx *sql.Context) ([]string, error) { return d.part.GetTableNames(ctx) }

// AllViews implements sql.ViewDatabase.
func (d viewed) AllViews(ctx *sql.Context) (out []sql.ViewDefinition, err error) {
	all, err := d.ViewDatabase.AllViews(ctx)
	for _, v := range all {
		if d.want.table(d.Name(), v.Name) {
			out = append(out, v)
		}
	}
	return out, err
}

// single is a catalog of one database to the one who asks first: texts of views may need the
// others.
type single struct {
	sql.Catalog
	db    sql.Database
	asked bool
}

// AllDatabases implements sql.Catalog.
func (c *single) AllDatabases(ctx *sql.Context) []sql.Database {
	if c.asked {
		return c.Catalog.AllDatabases(ctx)
	}
	c.asked = true
	return []sql.Database{c.db}
}

// Whole implements rights.Narrow.
func (c *single) Whole() sql.Catalog { return c.Catalog }

// only is a database of one table, or of none.
type only struct {
	sql.Database
	t sql.Table
}

// GetTableNames implements sql.Database.
func (d only) GetTableNames(*sql.Context) ([]string, error) {
	if d.t == nil {
		return nil, nil
	}
	return []string{d.t.Name()}, nil
}

// GetTableInsensitive implements sql.Database.
func (d only) GetTableInsensitive(ctx *sql.Context, name string) (sql.Table, bool, error) {
	if d.t != nil && d.t.Name() == name {
		return d.t, true, nil
	}
	return d.Database.GetTableInsensitive(ctx, name)
}

// views is a database of views alone.
type views struct {
	only
	of sql.ViewDatabase
}

var _ sql.ViewDatabase = views{}

// AllViews implements sql.ViewDatabase.
func (d views) AllViews(ctx *sql.Context) ([]sql.ViewDefinition, error) { return d.of.AllViews(ctx) }

// GetViewDefinition implements sql.ViewDatabase.
func (d views) GetViewDefinition(ctx *sql.Context, name string) (sql.ViewDefinition, bool, error) {
	return d.of.GetViewDefinition(ctx, name)
}

// CreateView implements sql.ViewDatabase.
func (d views) CreateView(ctx *sql.Context, name, text, create string) error {
	return d.of.CreateView(ctx, name, text, create)
}

// DropView implements sql.ViewDatabase.
func (d views) DropView(ctx *sql.Context, name string) error { return d.of.DropView(ctx, name) }
