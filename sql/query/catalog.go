package query

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/fulltext"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"

	"github.com/godwitdb/godwit/sql/access"
	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
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
	// facts are what the texts of definitions hang on.
	facts func() *bind.Session
	// caller is the statement that calls the stored functions that are found; nil: none is called.
	caller *statement
	// command is the first word of a statement of a stored program; empty: it is one of a client.
	command string
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
	if rights.IsGrantTable(db, name) {
		return nil, nil, left("system table")
	}
	d, err := c.cat.Database(c.ctx, db)
	if err != nil {
		if err := c.unseen(db, name); err != nil {
			return nil, nil, err
		}
		return nil, nil, left("unknown database")
	}
	t, ok, err := d.GetTableInsensitive(c.ctx, name)
	if err != nil {
		return nil, nil, left("error of the catalog")
	}
	if !ok {
		if err := c.unseen(db, name); err != nil {
			return nil, nil, err
		}
		return c.view(d, name)
	}
	st := table.Of(t)
	if st == nil || st.Def.HomesOf != nil {
		return nil, nil, left("system table")
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
	if st.Def.Virtual {
		nodes, err := bind.Computed(a, c.facts(), func(pos int) bool { return st.Def.Cols[pos].Desc.Virtual })
		if err != nil {
			return nil, nil, left("virtual columns")
		}
		a.Compute(nodes)
	}
	if st.Def.HasFulltext() {
		if err := c.search(d, a); err != nil {
			return nil, nil, err
		}
	}
	c.tables[key] = a
	return a, nil, nil
}

// search finds the words of the full-text indexes of a table.
func (c *catalog) search(d sql.Database, a *access.Table) error {
	for _, x := range a.Stored().Def.EngineIndexes() {
		i, ok := x.(*schema.EngineIndex)
		if !ok || !i.IsFullText() {
			continue
		}
		keys, err := i.FullTextKeyColumns(c.ctx)
		if err != nil {
			return left("error of the catalog")
		}
		snap, err := session.Of(c.ctx).Snapshot(c.ctx)
		if err != nil {
			return left("error of the catalog")
		}
		def := snap.Table(d.Name(), i.Index.Desc.Fulltext.DocCount)
		if def == nil {
			return left("error of the catalog")
		}
		f := algebra.Fulltext{Cols: i.Positions, Words: c.reads.Table(table.New(a.Stored().Env, def))}
		if keys.Type != fulltext.KeyType_None {
			f.Keys = keys.Positions
		}
		a.Search(f)
	}
	return nil
}

// unseen is the refusal of a table that a program names and its definer does not see; nil: there
// is no such table.
func (c *catalog) unseen(db, name string) error {
	s := session.Of(c.ctx)
	if c.command == "" || s == nil {
		return nil
	}
	if snap, err := s.Snapshot(c.ctx); err != nil || snap.Table(db, name) == nil {
		return nil
	}
	return &bind.Refusal{Err: rights.Refusal(c.ctx, c.command, name)}
}

// ordered reports whether the cluster orders transactions by timestamps. A transaction that reads a
// row twice by an index may fail there, as if the row had changed, though it may see the old value.
func (c *catalog) ordered() bool {
	for _, t := range c.tables {
		return t.Stored().Env.DB.Topology().Concurrency.Ordered()
	}
	return false
}
