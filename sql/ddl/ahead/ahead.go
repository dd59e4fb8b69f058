package ahead

import (
	"context"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// Needs is the error for who lacks one of some privileges for a table.
type Needs func(ctx *sql.Context, db, name string, ps ...sql.PrivilegeType) error

// Prepare makes a definition one that the engine executes as MySQL does, or says what is wrong in
// it. Who lacks the privileges for it is told so by the engine, and nothing of what is there.
// builtin tells the databases that no client makes.
func Prepare(ctx context.Context, stmt sqlparser.Statement, needs Needs, builtin func(db string) bool) error {
	sc, ok := ctx.(*sql.Context)
	if !ok || !defines(stmt) {
		return nil
	}
	s := session.Of(sc)
	if s == nil {
		return nil
	}
	snap, err := s.Snapshot(sc)
	if err != nil {
		return nil // the engine says what is wrong
	}
	c := &check{ctx: sc, snap: snap, db: s.GetCurrentDatabase(), needs: needs, builtin: builtin}
	if c.wrong(stmt) != nil {
		// Another node may have just made what is not there.
		if c.snap, err = s.Refresh(sc); err != nil {
			return nil
		}
		if err := c.wrong(stmt); err != nil {
			return err
		}
	}
	if n, ok := stmt.(*sqlparser.AlterTable); ok {
		if t := c.table(n.Table); t != nil {
			s.Stmt.IndexNames, s.Stmt.Shortened = nil, nil
			olds := newNames(n)
			if !crossing(t.Desc, n) {
				keepNames(n, t.Desc.Comment)
			}
			own := len(n.Statements)
			if err := shrink(t.Desc, n, s); err != nil {
				return err
			}
			return indexesFirst(t.Desc, n, len(n.Statements)-own, olds, s)
		}
	}
	return nil
}

func defines(stmt sqlparser.Statement) bool {
	switch stmt.(type) {
	case *sqlparser.AlterTable, *sqlparser.DDL, *sqlparser.DBDDL:
		return true
	}
	return false
}

// check looks at one definition.
type check struct {
	ctx   *sql.Context
	snap  *schema.Snapshot
	db    string // the current one
	needs Needs
	// builtin tells the databases that no client makes.
	builtin func(db string) bool
}

func (c *check) dbOf(t sqlparser.TableName) string {
	if db := t.DbQualifier.String(); db != "" {
		return db
	}
	return c.db
}

func (c *check) table(t sqlparser.TableName) *schema.Table {
	return c.snap.Table(c.dbOf(t), t.Name.String())
}

func (c *check) temporary(t sqlparser.TableName) bool {
	s := session.Of(c.ctx)
	return s != nil && s.Temporary(c.dbOf(t), t.Name.String()) != nil
}

func (c *check) view(t sqlparser.TableName) bool {
	return c.snap.View(c.dbOf(t), t.Name.String()) != nil
}

func (c *check) may(t sqlparser.TableName, p sql.PrivilegeType) bool {
	return c.needs(c.ctx, c.dbOf(t), t.Name.String(), p) == nil
}

// wrong is what is wrong in a definition.
func (c *check) wrong(stmt sqlparser.Statement) error {
	switch n := stmt.(type) {
	case *sqlparser.AlterTable:
		if !c.may(n.Table, sql.PrivilegeType_Alter) {
			return nil
		}
		if t := c.table(n.Table); t != nil {
			return alters(c.snap, t.Desc, n)
		}
		if c.view(n.Table) {
			return notA(c.dbOf(n.Table), n.Table, "BASE TABLE")
		}
	case *sqlparser.DBDDL:
		if strings.EqualFold(n.Action, sqlparser.DropStr) && !n.IfExists && c.snap.Database(n.DBName) == nil &&
			!c.builtin(n.DBName) && c.needs(c.ctx, n.DBName, "", sql.PrivilegeType_Drop) == nil {
			return mysql.NewSQLError(1008, "HY000", "Can't drop database '%s'; database doesn't exist", n.DBName)
		}
	case *sqlparser.DDL:
		switch {
		case n.TriggerSpec != nil && strings.EqualFold(n.Action, sqlparser.CreateStr):
			return c.trigger(n)
		case n.TriggerSpec != nil || n.ProcedureSpec != nil || n.EventSpec != nil:
		case strings.EqualFold(n.Action, sqlparser.DropStr):
			return c.drop(n)
		case n.TableSpec != nil && strings.EqualFold(n.Action, sqlparser.CreateStr):
			return created(n.Table.Name.String(), n.TableSpec)
		}
	}
	return nil
}

func notA(db string, t sqlparser.TableName, kind string) error {
	return mysql.NewSQLError(1347, "HY000", "'%s.%s' is not %s", db, t.Name.String(), kind)
}

// drop is what is wrong in DROP [TEMPORARY] TABLE and DROP VIEW: all tables and views are there, or
// none goes, as in MySQL 8.
func (c *check) drop(n *sqlparser.DDL) error {
	var missing []string
	for _, t := range slices.Concat(n.FromTables, n.FromViews) {
		db := c.dbOf(t)
		if db == "" || c.builtin(db) || !c.may(t, sql.PrivilegeType_Drop) {
			return nil
		}
		isTable, isView := c.table(t) != nil && (!n.Temporary || c.temporary(t)), c.view(t)
		switch {
		case len(n.FromViews) > 0 && isTable:
			return notA(db, t, "VIEW")
		case !n.IfExists && !isTable && (len(n.FromTables) > 0 || !isView):
			missing = append(missing, db+"."+t.Name.String())
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return mysql.NewSQLError(1051, "42S02", "Unknown table '%s'", strings.Join(missing, ","))
}

// primaryKey is the option of a column that makes it the primary key. The parser does not name it.
const primaryKey sqlparser.ColumnKeyOption = 1

// created is what is wrong in the definition of a table.
func created(name string, t *sqlparser.TableSpec) error {
	primaries := 0
	names := map[string]bool{}
	for _, c := range t.Columns {
		if c.Type.KeyOpt == primaryKey {
			primaries++
		}
		names[c.Name.Lowered()] = true
	}
	for _, x := range t.Indexes {
		if x.Info.Primary {
			primaries++
		}
	}
	if primaries > 1 {
		return mysql.NewSQLError(1068, "42000", "Multiple primary key defined")
	}
	for _, con := range t.Constraints {
		if f, ok := con.Details.(*sqlparser.ForeignKeyDefinition); ok {
			for _, col := range f.Source {
				if !names[col.Lowered()] {
					return mysql.NewSQLError(1072, "42000", "Key column '%s' doesn't exist in table", col.String())
				}
			}
		}
	}
	return overCounter(name, nil, []*sqlparser.TableSpec{t}, nil, nil)
}
