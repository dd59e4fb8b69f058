package query

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/information_schema"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/access"
	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/given"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/views"
)

func (c *catalog) view(d sql.Database, name string) (algebra.Table, *algebra.View, error) {
	v, ok := d.(sql.ViewDatabase)
	if !ok {
		return nil, nil, nil
	}
	def, ok, err := v.GetViewDefinition(c.ctx, name)
	if err != nil { // the engine tells it, such as of a view over a table that a temporary one hides
		return nil, nil, left("error of the catalog")
	}
	if !ok {
		return nil, nil, nil
	}
	out := views.Of(d.Name(), &def)
	if a := session.Of(c.ctx).Stmt.ViewDefiner; a != nil {
		out.Definer = [2]string{a.Name, a.Host}
	}
	return nil, out, nil
}

// updatable reports whether rows of a view can be changed. A view that cannot be bound here is not.
func (r *Runner) updatable(ctx *sql.Context, v *algebra.View) bool {
	if s := session.Of(ctx); s != nil {
		was := s.Stmt.ViewDefiner
		defer func() { s.Stmt.ViewDefiner = was }()
	}
	cat := &catalog{ctx: ctx, cat: r.Engine.Analyzer.Catalog, reads: access.New(ctx), tables: map[tableKey]*access.Table{},
		changes: true, db: r.Engine.Analyzer.Catalog.MySQLDb}
	cat.facts = func() *bind.Session { return given.Facts(ctx, ctx, cat, nil) }
	defer cat.reads.Close()
	ok, err := bind.Updatable(v, cat.facts())
	return err == nil && ok
}

// CheckView refuses CHECK OPTION for a view whose rows cannot be changed.
func (r *Runner) CheckView(ctx *sql.Context, db string, def *sql.ViewDefinition) error {
	v := views.Of(db, def)
	if v.Check == algebra.NoCheck || r.updatable(ctx, v) {
		return nil
	}
	return mysql.NewSQLError(1368, "HY000", "CHECK OPTION on non-updatable view '%s.%s'", db, def.Name)
}

// Columns of information_schema.views.
const viewsDB, viewsName, viewsText, viewsCheck, viewsUpdatable = 1, 2, 3, 4, 5

// checkOptions are the values of CHECK_OPTION.
var checkOptions = map[algebra.ViewCheck]string{
	algebra.NoCheck: "NONE", algebra.CheckLocal: "LOCAL", algebra.CheckCascaded: "CASCADED",
}

// DescribeViews lets information_schema.views say which views can be changed, and what is checked
// then.
func (r *Runner) DescribeViews(is sql.Database) {
	t, _, err := is.GetTableInsensitive(sql.NewEmptyContext(), information_schema.ViewsTableName)
	x, ok := t.(*information_schema.InformationSchemaTable)
	if err != nil || !ok {
		panic("the engine has no table of views any more, which package query mends")
	}
	read := x.Reader
	x.Reader = func(ctx *sql.Context, cat sql.Catalog) (sql.RowIter, error) {
		it, err := read(ctx, cat)
		if err != nil {
			return nil, err
		}
		rows, err := sql.RowIterToRows(ctx, it)
		for _, row := range rows {
			r.describe(ctx, cat, row)
		}
		return sql.RowsToRowIter(rows...), err
	}
}

// describe mends a row of information_schema.views.
func (r *Runner) describe(ctx *sql.Context, cat sql.Catalog, row sql.Row) {
	db, _ := row[viewsDB].(string)
	name, _ := row[viewsName].(string)
	d, err := cat.Database(ctx, db)
	if err != nil {
		return
	}
	vd, ok := d.(sql.ViewDatabase)
	if !ok {
		return
	}
	def, ok, err := vd.GetViewDefinition(ctx, name)
	if err != nil || !ok {
		return
	}
	v := views.Of(d.Name(), &def)
	row[viewsText], row[viewsCheck], row[viewsUpdatable] = v.Text, checkOptions[v.Check], "NO"
	if r.updatable(ctx, v) {
		row[viewsUpdatable] = "YES"
	}
}
