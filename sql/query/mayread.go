package query

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/infile"
	"github.com/godwitdb/godwit/sql/rights"
)

// mayRead checks that the user may read all tables and views of a change, and the columns that it
// reads of them. The tables that an UPDATE or DELETE changes need that right only for columns:
// which rows a condition meets tells what is in them.
func (c *change) mayRead() error {
	if err := c.mayLock(c.c.Updates); err != nil {
		return err
	}
	mine := c.rights()
	for _, t := range c.c.Targets {
		if p := privileges[c.c.Kind]; c.in != nil && !mine.SomeColumn(t.Table.DB(), t.Table.Name(), p) {
			return &bind.Refusal{Err: rights.Refusal(c.ctx, strings.ToUpper(events[c.c.Kind]), t.Table.Name())}
		}
	}
	var others []bind.Use
	for _, u := range c.c.Uses {
		if u.DB == infile.Name {
			continue
		}
		if !c.changes(u) || c.again(u) {
			others = append(others, u)
		} else if err := mine.Reads(c.ctx, u.DB, u.Name, u.Columns.Names, u.Columns.Star); err != nil {
			return &bind.Refusal{Err: err}
		}
	}
	if len(others) > 0 || len(c.c.Uses) == 0 {
		if err := c.allowed(others); err != nil {
			return err
		}
	}
	for _, t := range c.c.Targets {
		if err := mine.Reads(c.ctx, t.Steps[0].DB, t.Steps[0].Name, c.c.Reads.Names, nil); err != nil {
			return &bind.Refusal{Err: err}
		}
	}
	return nil
}

// privileges are what changes take.
var privileges = map[bind.ChangeKind]sql.PrivilegeType{bind.Delete: sql.PrivilegeType_Delete,
	bind.Update: sql.PrivilegeType_Update, bind.Insert: sql.PrivilegeType_Insert}

// mayWrite checks that the user may change a table as the statement does, and that so may the
// definers of the views through which it is changed.
func (c *change) mayWrite(t *bind.Target) error {
	for i, step := range t.Steps {
		mine := c.rights()
		if step.As != ([2]string{}) {
			var err error
			if mine, err = rights.OfAccount(c.r.Engine.Analyzer.Catalog.MySQLDb, step.As[0], step.As[1]); err != nil {
				return &bind.Refusal{Err: err}
			}
		}
		err := c.mayWriteAs(mine, t, step)
		if err != nil && i > 0 {
			err = mysql.NewSQLError(1356, "HY000", "View '%s.%s' references invalid table(s) or column(s) or "+
				"function(s) or definer/invoker of view lack rights to use them", t.Steps[0].DB, t.Steps[0].Name)
		}
		if err != nil {
			return &bind.Refusal{Err: err}
		}
	}
	return nil
}

// mayWriteAs checks one of the names by which a table is changed.
func (c *change) mayWriteAs(mine rights.Set, t *bind.Target, step bind.Step) error {
	writes := func(p sql.PrivilegeType, columns []int, listed bool) error {
		var names []string
		for _, pos := range columns {
			names = append(names, step.Names[pos])
		}
		return mine.Writes(c.ctx, p, step.DB, step.Name, names, listed)
	}
	var updated []int
	switch n := c.c.Insert; {
	case c.c.Kind == bind.Update:
		for _, s := range t.Sets {
			if !s.Derived {
				updated = append(updated, s.Col)
			}
		}
	case c.c.Kind == bind.Delete || n.Replace && !mine.Table(step.DB, step.Name, sql.PrivilegeType_Delete):
		if !mine.Table(step.DB, step.Name, sql.PrivilegeType_Delete) {
			return rights.Refusal(c.ctx, "DELETE", step.Name)
		}
		return nil
	default:
		if err := writes(sql.PrivilegeType_Insert, n.Given, n.Listed); err != nil {
			return err
		}
		for _, f := range n.Updates {
			updated = append(updated, f.Col)
		}
		if len(n.Updates) == 0 {
			return nil
		}
	}
	return writes(sql.PrivilegeType_Update, updated, true)
}

// rights are what the user may do.
func (st *statement) rights() rights.Set {
	return rights.Of(st.ctx, st.r.Engine.Analyzer.Catalog.MySQLDb)
}

// mayLock refuses FOR UPDATE to users who may only read: their locks would hold up writers. Through
// a view, the one that the statement names counts.
func (st *statement) mayLock(tables []bind.Use) error {
	if len(tables) == 0 {
		return nil
	}
	mine := st.rights()
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

// again reports whether the statement reads a table under several names.
func (c *change) again(u bind.Use) bool {
	n := 0
	for _, o := range c.c.Uses {
		if len(o.Through) == 0 && strings.EqualFold(o.DB, u.DB) && strings.EqualFold(o.Name, u.Name) {
			n++
		}
	}
	return n > 1
}

// changes reports whether the statement names a table in order to change its rows.
func (c *change) changes(u bind.Use) bool {
	for _, t := range c.c.Targets {
		if len(u.Through) == 0 && strings.EqualFold(u.DB, t.Steps[0].DB) && strings.EqualFold(u.Name, t.Steps[0].Name) {
			return c.c.Kind != bind.Insert
		}
	}
	return false
}
