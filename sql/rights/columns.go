package rights

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
)

// Privileges for columns count where there is none for the table. Who has one for some column may
// name the table, and count its rows. Each engine judges the columns that it has resolved itself:
// our own one those that its binder has noted ([Set.Reads]), go-mysql-server those of its plan
// ([handler.columns]).

// ofColumns are the privileges that there are for columns.
var ofColumns = []sql.PrivilegeType{sql.PrivilegeType_Select, sql.PrivilegeType_Insert, sql.PrivilegeType_Update,
	sql.PrivilegeType_References}

// ofTables are the privileges that there are for tables.
var ofTables = append([]sql.PrivilegeType{sql.PrivilegeType_Delete, sql.PrivilegeType_Create, sql.PrivilegeType_Drop,
	sql.PrivilegeType_Alter, sql.PrivilegeType_Index, sql.PrivilegeType_Trigger, sql.PrivilegeType_CreateView,
	sql.PrivilegeType_ShowView, sql.PrivilegeType_GrantOption}, ofColumns...)

// Column reports whether a privilege is held for a column.
func (s Set) Column(db, table, column string, p sql.PrivilegeType) bool {
	return s.Table(db, table, p) || s.PrivilegeSet.Database(db).Table(table).Column(column).Has(p)
}

// SomeColumn reports whether a privilege is held for a table, or for one of its columns.
func (s Set) SomeColumn(db, table string, p sql.PrivilegeType) bool {
	return s.Table(db, table, p) || slices.ContainsFunc(s.PrivilegeSet.Database(db).Table(table).GetColumns(),
		func(c sql.PrivilegeSetColumn) bool { return c.Has(p) })
}

// SeesColumn reports whether a column shows: any of the privileges that there are for columns is
// held for it.
func (s Set) SeesColumn(db, table, column string) bool {
	return slices.ContainsFunc(ofColumns, func(p sql.PrivilegeType) bool { return s.Column(db, table, column, p) })
}

// SeesWhole asks for some privilege for a table, not for columns of it only, as SHOW CREATE TABLE
// does.
func (s Set) SeesWhole(ctx *sql.Context, db, table string) error {
	if s.Table(db, table, ofTables...) || strings.EqualFold(db, sql.InformationSchemaDatabaseName) ||
		systemDatabase(db) {
		return nil
	}
	return Refusal(ctx, "SHOW", table)
}

// Reads asks for the privilege to read columns of a table. star are those that the statement names
// by * alone: their names are not told.
func (s Set) Reads(ctx *sql.Context, db, table string, columns []string, star map[string]bool) error {
	for _, c := range columns {
		switch {
		case s.Column(db, table, c, sql.PrivilegeType_Select):
		case star[c]:
			return Refusal(ctx, "SELECT", table)
		default:
			return ColumnRefusal(ctx, "SELECT", c, table)
		}
	}
	return nil
}

// Writes asks for a privilege to give columns of a table values. listed is false if the statement
// does not name them.
func (s Set) Writes(ctx *sql.Context, p sql.PrivilegeType, db, table string, columns []string, listed bool) error {
	command := "INSERT"
	if p == sql.PrivilegeType_Update {
		command = "UPDATE"
	}
	if !s.SomeColumn(db, table, p) {
		return Refusal(ctx, command, table)
	}
	for _, c := range columns {
		switch {
		case s.Column(db, table, c, p):
		case !listed:
			return Refusal(ctx, command, table)
		default:
			return ColumnRefusal(ctx, command, c, table)
		}
	}
	return nil
}

// ColumnRefusal is MySQL's refusal of a command on a column.
func ColumnRefusal(ctx *sql.Context, command, column, table string) *mysql.SQLError {
	me := ctx.Client()
	return mysql.NewSQLError(1143, "42000", "%s command denied to user '%s'@'%s' for column '%s' in table '%s'", command,
		me.User, me.Address, column, table)
}
