// Package locked judges what a session does between LOCK TABLES and UNLOCK TABLES: a statement may
// use the tables that the session has locked, by the names by which it has locked them, and change
// those that it has locked for WRITE, as in MySQL.
//
// A name in a statement takes a lock of that name, and a second one in the same statement another
// one: that is what aliases of LOCK TABLES are for. Tables of the system need none, and neither do
// temporary ones. What triggers, procedures and functions do is not looked at.
package locked

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

// systems are the databases whose tables need no locks.
var systems = []string{"information_schema", "performance_schema", "mysql", "sys", "godwit"}

// Admit refuses a statement of a session that has locked tables. text is the statement, in which
// others may follow; it may be EXECUTE of a prepared one. What does not parse is left to who parses
// it. Errors: 1100 for a table that is not locked, 1099 for a change of one that is locked for
// READ.
func Admit(ctx context.Context, s *session.Session, text string, snap *schema.Snapshot) error {
	held := s.LockedTables()
	if len(held) == 0 {
		return nil
	}
	if prepared, _, ok := s.Executed(ctx, text); ok {
		text = prepared
	}
	sctx := sql.NewContext(ctx, sql.WithSession(s))
	stmt, _, err := sqlparser.ParseOneWithOptions(ctx, text, sql.LoadSqlMode(sctx).ParserOptions())
	if err != nil {
		return nil
	}
	u := &uses{db: s.BaseSession.GetCurrentDatabase(), snap: snap, ctes: map[string]bool{}}
	u.statement(stmt)
	taken := map[string]bool{}
	for _, x := range u.list {
		if u.free(s, x) {
			continue
		}
		i := slices.IndexFunc(held, func(h session.TableLock) bool { return h.Covers(x.db, x.name, x.alias) })
		key := strings.ToLower(x.db + "." + x.alias)
		switch {
		case i < 0 || taken[key]:
			return mysql.NewSQLError(1100, "HY000", "Table '%s' was not locked with LOCK TABLES", x.alias)
		case x.write && !held[i].Write:
			return mysql.NewSQLError(1099, "HY000", "Table '%s' was locked with a READ lock and can't be updated", x.alias)
		}
		taken[key] = true
	}
	return nil
}

// use is a table that a statement names, and by which name.
type use struct {
	db, name, alias string
	write           bool
}

// uses are those of a statement, in its order.
type uses struct {
	db   string
	snap *schema.Snapshot
	list []use
	ctes map[string]bool // the names of WITH, in lower case
}

// free reports whether a table needs no lock.
func (u *uses) free(s *session.Session, x use) bool {
	lower := strings.ToLower(x.name)
	return slices.Contains(systems, strings.ToLower(x.db)) || lower == "dual" || strings.HasSuffix(lower, "__homes") ||
		u.ctes[lower] || s.Temporary(x.db, x.name) != nil
}

func (u *uses) add(t sqlparser.TableName, as sqlparser.TableIdent, write bool) {
	if t.Name.IsEmpty() {
		return
	}
	x := use{db: t.DbQualifier.String(), name: t.Name.String(), alias: t.Name.String(), write: write}
	if x.db == "" {
		x.db = u.db
	}
	if !as.IsEmpty() {
		x.alias = as.String()
	}
	u.list = append(u.list, x)
}

var none sqlparser.TableIdent

func (u *uses) statement(stmt sqlparser.Statement) {
	switch n := stmt.(type) {
	case *sqlparser.Explain:
		u.statement(n.Statement)
	case *sqlparser.Insert:
		u.add(n.Table, none, true)
		u.read(n.With, n.Rows, n.OnDup)
	case *sqlparser.Update:
		u.read(n.With)
		from := len(u.list)
		u.read(n.TableExprs)
		u.updated(n, from)
		u.read(n.Exprs, n.Where, n.OrderBy)
	case *sqlparser.Delete:
		u.read(n.With)
		from := len(u.list)
		u.read(n.TableExprs)
		for i := from; i < len(u.list); i++ {
			x := &u.list[i]
			x.write = len(n.Targets) == 0 || slices.ContainsFunc(n.Targets, func(t sqlparser.TableName) bool {
				return strings.EqualFold(t.Name.String(), x.alias)
			})
		}
		u.read(n.Where, n.OrderBy)
	case *sqlparser.Load:
		u.add(n.Table, none, true)
	case *sqlparser.AlterTable:
		u.add(n.Table, none, true)
	case *sqlparser.DDL:
		u.definition(n)
	case *sqlparser.Show:
		if strings.EqualFold(n.Type, sqlparser.CreateTableStr) {
			u.add(n.Table, none, false)
		}
	case *sqlparser.LockTables, *sqlparser.UnlockTables:
	default:
		u.read(stmt)
	}
}

// definition is what a definition uses: it changes the table that it makes or drops.
func (u *uses) definition(n *sqlparser.DDL) {
	if n.ViewSpec != nil {
		u.add(n.ViewSpec.ViewName, none, true)
		return
	}
	if !n.Temporary {
		for _, t := range n.FromTables {
			if !n.IfExists || u.snap.Table(u.of(t), t.Name.String()) != nil {
				u.add(t, none, true)
			}
		}
		u.add(n.Table, none, true)
	}
	if n.OptLike != nil {
		for _, t := range n.OptLike.LikeTables {
			u.add(t, none, false)
		}
	}
	if n.OptSelect != nil {
		u.read(n.OptSelect.Select)
	}
}

func (u *uses) of(t sqlparser.TableName) string {
	if db := t.DbQualifier.String(); db != "" {
		return db
	}
	return u.db
}

// read notes the tables in parts of a statement, which reads them.
func (u *uses) read(parts ...sqlparser.SQLNode) {
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		switch n := n.(type) {
		case *sqlparser.With:
			if n == nil {
				return false, nil
			}
			for _, c := range n.Ctes {
				u.ctes[strings.ToLower(c.As.String())] = true
				u.read(c.Expr)
			}
			return false, nil
		case *sqlparser.AliasedTableExpr:
			if t, ok := n.Expr.(sqlparser.TableName); ok {
				u.add(t, n.As, false)
				return false, nil
			}
		}
		return true, nil
	}, parts...) // it never fails
}

// updated marks the tables of an UPDATE, those from from on, whose columns it assigns.
func (u *uses) updated(n *sqlparser.Update, from int) {
	tables := u.list[from:]
	for _, e := range n.Exprs {
		row, column := e.Name.Qualifier.Name.String(), e.Name.Name.String()
		for i := range tables {
			x := &tables[i]
			switch {
			case row != "":
				x.write = x.write || strings.EqualFold(row, x.alias)
			case len(tables) == 1:
				x.write = true
			default:
				t := u.snap.Table(x.db, x.name)
				x.write = x.write || t != nil && t.Desc.ColByName(column) >= 0
			}
		}
	}
}
