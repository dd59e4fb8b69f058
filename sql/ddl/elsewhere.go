package ddl

import (
	"context"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/ddl/ahead"
	"github.com/godwitdb/godwit/sql/session"
)

// Prepare makes a statement one that the engine runs as MySQL does: in the database that it names
// (Elsewhere), and as package ahead has definitions. needs is the error for who lacks one of some
// privileges for a table.
func Prepare(ctx context.Context, stmt sqlparser.Statement, needs ahead.Needs) error {
	if err := Elsewhere(ctx, stmt); err != nil {
		return err
	}
	n, ok := stmt.(*sqlparser.Analyze)
	if !ok {
		return ahead.Prepare(ctx, stmt, needs, builtinDB)
	}
	sc, ok := ctx.(*sql.Context)
	for _, t := range n.Tables {
		db := t.DbQualifier.String()
		if db == "" && ok {
			db = sc.GetCurrentDatabase()
		}
		if !ok || db == "" {
			return nil // the engine says what is wrong
		}
		if err := needs(sc, db, t.Name.String(), sql.PrivilegeType_Select, sql.PrivilegeType_Insert); err != nil {
			return err
		}
	}
	return nil
}

// Elsewhere lets a statement run in the database that it names: the engine renames tables, makes
// views and analyzes tables in the current one only, and passes over the database of a name. The
// session is in the other one until the statement ends. Errors: 1046, and 1235 for what would need
// two.
func Elsewhere(ctx context.Context, stmt sqlparser.Statement) error {
	sc, ok := ctx.(*sql.Context)
	if !ok {
		return nil
	}
	s := session.Of(sc)
	if s == nil {
		return nil
	}
	db, err := databaseOf(stmt, s.GetCurrentDatabase())
	if err == nil && db != "" {
		s.Visit(db)
	}
	return err
}

// AuthOf is what a statement that Prepare refuses asks for.
func AuthOf(stmt sqlparser.Statement) sqlparser.AuthInformation {
	switch n := stmt.(type) {
	case *sqlparser.DDL:
		return n.Auth
	case *sqlparser.DBDDL:
		return n.Auth
	case *sqlparser.AlterTable:
		for i, d := range n.Statements {
			if d.Action == sqlparser.RenameStr || i == len(n.Statements)-1 {
				return d.Auth
			}
		}
	}
	return sqlparser.AuthInformation{AuthType: sqlparser.AuthType_IGNORE}
}

// databaseOf is the database that a statement has to run in, if that is not the current one.
func databaseOf(stmt sqlparser.Statement, current string) (string, error) {
	var renames []*sqlparser.DDL
	switch n := stmt.(type) {
	case *sqlparser.Analyze:
		return databaseOfAll(n.Tables, current), nil
	case *sqlparser.DDL:
		if n.ViewSpec != nil && n.Action == sqlparser.CreateStr {
			return databaseOfView(n.ViewSpec, current)
		}
		renames = append(renames, n)
	case *sqlparser.AlterTable:
		renames = n.Statements
	}
	db := ""
	for _, d := range renames {
		if d.Action != sqlparser.RenameStr {
			continue
		}
		for _, t := range append(append(sqlparser.TableNames(nil), d.FromTables...), d.ToTables...) {
			of := t.DbQualifier.String()
			if of == "" {
				of = current
			}
			switch {
			case of == "":
				return "", sql.ErrNoDatabaseSelected.New()
			case db != "" && !strings.EqualFold(of, db):
				return "", mysql.NewSQLError(1235, "42000", "This version of Godwit doesn't yet support 'RENAME of tables "+
					"of several databases, or into another one': name one database, or make the table there by CREATE TABLE ... SELECT")
			}
			db = of
		}
	}
	if strings.EqualFold(db, current) {
		return "", nil
	}
	return db, nil
}

// databaseOfAll is the database that all of several tables are named with, if it is another one
// than the current one.
func databaseOfAll(tables sqlparser.TableNames, current string) string {
	db := ""
	for _, t := range tables {
		of := t.DbQualifier.String()
		if of == "" || db != "" && !strings.EqualFold(of, db) {
			return ""
		}
		db = of
	}
	if strings.EqualFold(db, current) {
		return ""
	}
	return db
}

// databaseOfView is databaseOf for CREATE VIEW. The names in a view are those of its database.
func databaseOfView(v *sqlparser.ViewSpec, current string) (string, error) {
	db := v.ViewName.DbQualifier.String()
	if db == "" || strings.EqualFold(db, current) {
		return "", nil
	}
	bare := bareTables(v.ViewExpr)
	switch {
	case bare != "" && current == "":
		return "", sql.ErrNoDatabaseSelected.New()
	case bare != "":
		return "", mysql.NewSQLError(1235, "42000", "This version of Godwit doesn't yet support 'table names without their "+
			"database in a view of another one': write %s.%s", current, bare)
	case current == "":
		return db, nil
	}
	return "", nil
}

// bareTables is a table that a query names without its database; "" if there is none.
func bareTables(n sqlparser.SQLNode) (bare string) {
	common := map[string]bool{"dual": true}
	var tables []string
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		switch n := n.(type) {
		case *sqlparser.With:
			if n == nil {
				return false, nil
			}
			for _, c := range n.Ctes {
				common[strings.ToLower(c.As.String())] = true
			}
		case *sqlparser.AliasedTableExpr:
			if t, ok := n.Expr.(sqlparser.TableName); ok && t.DbQualifier.IsEmpty() {
				tables = append(tables, t.Name.String())
			}
		}
		return true, nil
	}, n)
	for _, t := range tables {
		if !common[strings.ToLower(t)] {
			return t
		}
	}
	return ""
}
