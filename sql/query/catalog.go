package query

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"

	"github.com/godwitdb/godwit/sql/access"
	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/table"
)

// catalog finds the tables of one statement.
type catalog struct {
	ctx    *sql.Context
	cat    sql.Catalog
	reads  *access.Statement
	tables map[[2]string]*access.Table
	// changes: the statement changes rows.
	changes bool
	// as are the rights with which tables are looked up; nil: the user's.
	as *rights.Set
	db *mysql_db.MySQLDb
}

// As implements algebra.Definers. An account that does not exist is refused later.
func (c *catalog) As(account [2]string) {
	c.as = nil
	if account == ([2]string{}) {
		return
	}
	if set, err := rights.OfAccount(c.db, account[0], account[1]); err == nil {
		c.as = &set
	}
}

func left(reason string) error { return &bind.Unsupported{Reason: reason} }

// Resolve implements algebra.Catalog.
func (c *catalog) Resolve(db, name string) (algebra.Table, *algebra.View, error) {
	key := [2]string{strings.ToLower(db), strings.ToLower(name)}
	if t := c.tables[key]; t != nil {
		return t, nil, nil
	}
	if c.as != nil {
		defer rights.With(c.ctx, c.db, *c.as)()
	}
	d, err := c.cat.Database(c.ctx, db)
	if err != nil {
		return nil, nil, left("unknown database")
	}
	t, ok, err := d.GetTableInsensitive(c.ctx, name)
	if err != nil {
		return nil, nil, left("error of the catalog")
	}
	if !ok {
		return c.view(d, name)
	}
	st := table.Of(t)
	if st == nil || st.Def.HomesOf != nil {
		return nil, nil, left("system table")
	}
	if st.Def.Virtual {
		return nil, nil, left("virtual columns")
	}
	a := c.reads.Table(st)
	if c.changes {
		a = c.reads.Target(st)
	}
	for _, col := range a.Columns() {
		if col.Type.Kind == expr.Opaque {
			return nil, nil, left("column of a type that only the old engine knows")
		}
	}
	c.tables[key] = a
	return a, nil, nil
}

// ordered reports whether the cluster orders transactions by timestamps. A transaction that reads a
// row twice by an index is told there that it has changed, though it may see its old value.
func (c *catalog) ordered() bool {
	for _, t := range c.tables {
		return t.Stored().Env.DB.Topology().Concurrency.Ordered()
	}
	return false
}
