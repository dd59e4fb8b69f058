package query

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/rights"
)

// mayRead checks that the user may read all tables and views of a change. The tables that an UPDATE
// or DELETE changes need that right only if the statement reads a column: which rows a condition
// meets tells what is in them.
func (c *change) mayRead(tree bind.Stmt) error {
	if err := c.mayLock(c.c.Updates); err != nil {
		return err
	}
	err := c.allowed(c.c.Uses)
	if err == nil || c.c.Kind == bind.Insert || c.c.Joined {
		return err
	}
	var others []bind.Use
	for _, u := range c.c.Uses {
		if !c.changes(u) {
			others = append(others, u)
		}
	}
	if len(others) > 0 {
		if err := c.allowed(others); err != nil {
			return err
		}
	}
	col := bind.ReadColumn(tree)
	if col == "" {
		return nil
	}
	return c.unreadable(col)
}

// unreadable is the error of a column that the user may not read.
func (c *change) unreadable(col string) error {
	client := c.ctx.Client()
	return &bind.Refusal{Err: mysql.NewSQLError(1143, "42000",
		"SELECT command denied to user '%s'@'%s' for column '%s' in table '%s'",
		client.User, client.Address, col, c.c.Targets[0].Table.Name())}
}

// mayUpdate refuses ON DUPLICATE KEY UPDATE to users who may only insert. The engine asks for the
// right to insert alone.
func (st *statement) mayUpdate(tree bind.Stmt) error {
	db, name, ok := bind.OnDuplicate(tree)
	if !ok {
		return nil
	}
	if db == "" {
		db = st.ctx.GetCurrentDatabase()
	}
	if st.may(db, name, sql.PrivilegeType_Update) {
		return nil
	}
	client := st.ctx.Client()
	return &bind.Refusal{Err: mysql.NewSQLError(1142, "42000", "UPDATE command denied to user '%s'@'%s' for table '%s'",
		client.User, client.Address, name)}
}

// mayLock refuses FOR UPDATE to users who may only read: their locks would hold up writers. Through
// a view, the one that the statement names counts.
func (st *statement) mayLock(tables []bind.Use) error {
	if len(tables) == 0 {
		return nil
	}
	mine := rights.Of(st.ctx, st.r.Engine.Analyzer.Catalog.MySQLDb)
	for _, u := range tables {
		db, name := u.DB, u.Name
		if len(u.Through) > 0 {
			db, name, _ = strings.Cut(u.Through[0], ".")
		}
		if !mine.Locks(db, name) {
			return &bind.Refusal{Err: rights.LockRefusal(st.ctx, name)}
		}
	}
	return nil
}

// may reports whether the user has rights to a table.
func (st *statement) may(db, table string, needs ...sql.PrivilegeType) bool {
	op := sql.NewPrivilegedOperation(sql.PrivilegeCheckSubject{Database: db, Table: table}, needs...)
	return st.r.Engine.Analyzer.Catalog.MySQLDb.UserHasPrivileges(st.ctx, op)
}

// changes reports whether the statement names a table in order to change its rows.
func (c *change) changes(u bind.Use) bool {
	for _, t := range c.c.Targets {
		if len(u.Through) == 0 && strings.EqualFold(u.DB, t.Table.DB()) && strings.EqualFold(u.Name, t.Table.Name()) {
			return c.c.Kind != bind.Insert
		}
	}
	return false
}
