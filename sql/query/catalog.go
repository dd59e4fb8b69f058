package query

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/fulltext"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/access"
	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/infile"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/system"
	"github.com/godwitdb/godwit/sql/table"
)

// catalog finds the tables of one statement.
type catalog struct {
	ctx    *sql.Context
	cat    sql.Catalog
	reads  *access.Statement
	tables map[tableKey]*access.Table
	// system are those that are not stored, and t__homes.
	system map[tableKey]algebra.Table
	// changes: the statement changes rows.
	changes bool
	// as are the rights with which tables are looked up; nil: the user's.
	as *rights.Set
	db *mysql_db.MySQLDb
	// facts are what the texts of definitions hang on.
	facts func() *bind.Session
	// caller is the statement that calls the stored functions that are found; nil: none is called.
	caller *statement
	// file is the table of LOAD DATA; nil: it is another statement.
	file algebra.Table
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
	return c.find(db, name, 0)
}

// ResolveAt implements algebra.Historic.
func (c *catalog) ResolveAt(at expr.Node, db, name string) (algebra.Table, *algebra.View, error) {
	ts, err := c.moment(at)
	if err != nil {
		return nil, nil, err
	}
	return c.find(db, name, ts)
}

// maxMoment bounds the characters of the operand of AS OF.
const maxMoment = 64

// moment is the time that the operand of AS OF names.
func (c *catalog) moment(at expr.Node) (base.Timestamp, error) {
	if c.caller == nil {
		return 0, left("AS OF")
	}
	v, err := expr.EvalConst(at, c.caller.env)
	if err == nil {
		v, err = expr.Converted(v, at.Type(), expr.TextType(maxMoment, sql.Collation_utf8mb4_bin, expr.CoerceImplicit), c.caller.env)
	}
	if err != nil {
		return 0, &bind.Refusal{Err: err}
	}
	s := session.Of(c.ctx)
	if s == nil {
		return 0, left("AS OF")
	}
	text := v.S
	if v.IsNull() {
		text = "NULL"
	}
	ts, err := s.PastTime(c.ctx, text)
	if err != nil {
		return 0, &bind.Refusal{Err: mysql.NewSQLError(mysql.ERUnknownError, mysql.SSUnknownSQLState, "%s", err.Error())}
	}
	return ts, nil
}

// tableKey names a table that a statement uses, in lower case; at is the time of the past at which
// it is read, 0 is the present.
type tableKey struct {
	db, name string
	at       base.Timestamp
}

// find finds a table, as it was at a time of the past unless that is 0.
func (c *catalog) find(db, name string, at base.Timestamp) (algebra.Table, *algebra.View, error) {
	if db == infile.Name {
		return c.file, nil, nil
	}
	key := tableKey{strings.ToLower(db), strings.ToLower(name), at}
	if t := c.system[key]; t != nil {
		return t, nil, nil
	}
	if t := c.tables[key]; t != nil {
		return t, nil, nil
	}
	if c.as != nil {
		defer rights.With(c.ctx, c.db, *c.as)()
	}
	of := db
	if rights.IsGrantTable(db, name) {
		of = rights.GrantTables
	}
	d, err := c.cat.Database(c.ctx, of)
	if err != nil {
		if err := c.unseen(db, name); err != nil {
			return nil, nil, err
		}
		return nil, nil, left("unknown database")
	}
	if s := session.Of(c.ctx); s != nil && s.NextAsOf != 0 {
		if _, err := s.Started(c.ctx); err != nil { // the definition is that of its time
			return nil, nil, left("error of the catalog")
		}
	}
	t, ok, err := c.look(d, name, at)
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
	if st == nil {
		t, ok := system.New(c.ctx, c.cat, d.Name(), t)
		if !ok {
			return nil, nil, left("system table")
		}
		return c.only(key, t), nil, nil
	}
	a := c.reads.Table(st)
	if st.Def.HomesOf != nil {
		c.tables[key] = a
		return c.only(key, a.Reading()), nil, nil
	}
	if c.changes && at == 0 {
		if st.Access.AsOf != 0 {
			return nil, nil, left("change of the past")
		}
		a = c.reads.Target(st)
	}
	if err := c.complete(d, a); err != nil {
		return nil, nil, err
	}
	c.tables[key] = a
	return a, nil, nil
}

// only notes a table whose rows the statement does not change.
func (c *catalog) only(key tableKey, t algebra.Table) algebra.Table {
	if c.system == nil {
		c.system = map[tableKey]algebra.Table{}
	}
	c.system[key] = t
	return t
}

// close ends the reads of the statement.
func (c *catalog) close() {
	c.reads.Close()
	for _, t := range c.system {
		if t, ok := t.(*system.Table); ok {
			t.Close()
		}
	}
}

// look asks a database for a table.
func (c *catalog) look(d sql.Database, name string, at base.Timestamp) (sql.Table, bool, error) {
	if at == 0 {
		return d.GetTableInsensitive(c.ctx, name)
	}
	if v, ok := d.(sql.VersionedDatabase); ok {
		return v.GetTableInsensitiveAsOf(c.ctx, name, int64(at))
	}
	return nil, false, left("AS OF")
}

// complete gives a table its virtual columns, and its full-text indexes.
func (c *catalog) complete(d sql.Database, a *access.Table) error {
	st := a.Stored()
	for _, col := range a.Columns() {
		if col.Type.Kind == expr.Opaque {
			return left("column of a type that only the old engine knows")
		}
	}
	if st.Def.Virtual {
		nodes, err := bind.Computed(a, c.facts(), func(pos int) bool { return st.Def.Cols[pos].Desc.Virtual })
		if err != nil {
			return left("virtual columns")
		}
		a.Compute(nodes)
	}
	if !st.Def.HasFulltext() {
		return nil
	}
	if st.Access.AsOf != 0 {
		return left("full text AS OF")
	}
	return c.search(d, a)
}

// search finds the words of the full-text indexes of a table.
func (c *catalog) search(d sql.Database, a *access.Table) error {
	for _, x := range a.Stored().Def.EngineIndexes() {
		i, ok := x.(*schema.EngineIndex)
		if !ok || !i.IsFullText() {
			continue
		}
		keys := i.SearchKey()
		snap, err := session.Of(c.ctx).Snapshot(c.ctx)
		if err != nil {
			return left("error of the catalog")
		}
		def := snap.Table(d.Name(), i.Index.Desc.Fulltext.DocCount)
		if def == nil {
			return left("error of the catalog")
		}
		f := algebra.Fulltext{Cols: i.Positions, Parser: i.Index.Desc.Fulltext.Parser,
			Words: c.reads.Table(table.New(a.Stored().Env, def))}
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
