package query

import (
	"github.com/dolthub/go-mysql-server/sql"
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

// DescribeViews lets information_schema.views say which views can be changed, and what is checked
// then.
func (r *Runner) DescribeViews(is sql.Database) { views.Describe(is, r.updatable) }
