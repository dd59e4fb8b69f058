// Package rights says what somebody may do, by MySQL's privileges and roles.
//
// The engine asks for privileges itself where it binds a statement. This package is for what it
// does not ask for ([Install]), for what is shown of others ([Cover]), and for what is done in the
// name of somebody else ([OfAccount]): views and procedures have a definer.
package rights

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/session"
)

// systemDatabase reports whether a database is one of those that show what the whole server does:
// a user with PROCESS may read them.
func systemDatabase(name string) bool {
	return strings.EqualFold(name, "godwit") || strings.EqualFold(name, "performance_schema") || strings.EqualFold(name, "sys")
}

// SetUserID is the dynamic privilege to make objects in the name of others.
const SetUserID = "set_user_id"

// Set is what somebody may do: its privileges, and those of its roles.
type Set struct {
	sql.PrivilegeSet
	// own says which tables are temporary ones of the session; nil: there are none.
	own func(db, table string) bool
}

// Of are the rights of the session's user, or of the definer in whose name it executes something.
func Of(ctx *sql.Context, db *mysql_db.MySQLDb) Set {
	return Set{db.UserActivePrivilegeSet(ctx), ownTables(ctx)}
}

// All are the rights of root.
func All() Set {
	all := mysql_db.NewPrivilegeSet()
	for p := sql.PrivilegeType_Select; p <= sql.PrivilegeType_DropRole; p++ {
		all.AddGlobalStatic(p)
	}
	return Set{PrivilegeSet: all}
}

// OfAccount are the rights of an account that is a definer. It is an error if there is none.
func OfAccount(db *mysql_db.MySQLDb, name, host string) (Set, error) {
	rd := db.Reader()
	defer rd.Close()
	// Dumps name root@localhost, which is root@'%' here.
	u := db.GetUser(rd, name, host, false)
	if u == nil || u.User != name {
		return Set{}, mysql.NewSQLError(1449, "HY000", "The user specified as a definer ('%s'@'%s') does not exist", name, host)
	}
	set := u.PrivilegeSet.Copy()
	for _, e := range rd.GetToUserRoleEdges(mysql_db.RoleEdgesToKey{ToHost: u.Host, ToUser: u.User}) {
		if role := db.GetUser(rd, e.FromUser, e.FromHost, true); role != nil {
			set.UnionWith(role.PrivilegeSet)
		}
	}
	return Set{PrivilegeSet: set}, nil
}

// With gives the session other rights than the user's, until the function that it returns is
// called.
func With(ctx *sql.Context, db *mysql_db.MySQLDb, s Set) (restore func()) {
	db.UserActivePrivilegeSet(ctx) // the session knows their version now
	was, version := ctx.GetPrivilegeSet()
	if own := session.Of(ctx); own != nil {
		return own.Act(s.PrivilegeSet, version)
	}
	ctx.SetPrivilegeSet(s.PrivilegeSet, version)
	return func() { ctx.SetPrivilegeSet(was, version) }
}

func (s Set) super() bool { return s.Has(sql.PrivilegeType_Super) }

// Global reports whether one of the privileges is held for everything.
func (s Set) Global(one ...sql.PrivilegeType) bool {
	for _, p := range one {
		if s.Has(p) || s.super() {
			return true
		}
	}
	return false
}

// Dynamic reports whether a dynamic privilege is held; name is in lower case.
func (s Set) Dynamic(name string) bool {
	d, ok := s.PrivilegeSet.(mysql_db.PrivilegeSet)
	return s.super() || ok && d.HasDynamic(name)
}

// Database reports whether one of the privileges is held for a database.
func (s Set) Database(db string, one ...sql.PrivilegeType) bool {
	for _, p := range one {
		if s.Global(p) || s.PrivilegeSet.Database(db).Has(p) {
			return true
		}
	}
	return false
}

// Table reports whether one of the privileges is held for a table.
func (s Set) Table(db, table string, one ...sql.PrivilegeType) bool {
	if s.own != nil && s.own(db, table) {
		return true
	}
	for _, p := range one {
		if s.Database(db, p) || s.PrivilegeSet.Database(db).Table(table).Has(p) {
			return true
		}
	}
	return false
}

// Sees reports whether any privilege is held for a table. Who has none does not learn that it
// exists.
func (s Set) Sees(db, table string) bool {
	d := s.PrivilegeSet.Database(db)
	return s.Count() > 0 || s.own != nil && s.own(db, table) || d.Count() > 0 || d.Table(table).HasPrivileges()
}

// System reports whether all tables of a database may be read since it shows what the whole server
// does, or is there for everybody, who sees in it what they may.
func (s Set) System(db string) bool {
	return strings.EqualFold(db, sql.InformationSchemaDatabaseName) || systemDatabase(db) && s.Global(sql.PrivilegeType_Process)
}

// Locks reports whether rows of a table may be locked for an update.
func (s Set) Locks(db, table string) bool {
	return s.SomeColumn(db, table, sql.PrivilegeType_Update) ||
		s.Table(db, table, sql.PrivilegeType_Delete, sql.PrivilegeType_LockTables)
}

// SeesText asks for the privileges SHOW VIEW and SELECT of a view whose text is shown.
func (s Set) SeesText(ctx *sql.Context, db, name string) error {
	for _, p := range []sql.PrivilegeType{sql.PrivilegeType_Select, sql.PrivilegeType_ShowView} {
		if !s.Table(db, name, p) {
			return Refusal(ctx, strings.ToUpper(strings.ReplaceAll(p.String(), "_", " ")), name)
		}
	}
	return nil
}

// Refusal is MySQL's refusal of a command on a table.
func Refusal(ctx *sql.Context, command, table string) *mysql.SQLError {
	me := ctx.Client()
	return mysql.NewSQLError(1142, "42000", "%s command denied to user '%s'@'%s' for table '%s'", command, me.User,
		me.Address, table)
}

// LockRefusal is the refusal of FOR UPDATE.
func LockRefusal(ctx *sql.Context, table string) *mysql.SQLError {
	return Refusal(ctx, "SELECT with locking clause", table)
}

// ErrNeeds is MySQL's refusal for want of privileges, of which one is enough.
func ErrNeeds(names ...string) error {
	return mysql.NewSQLError(1227, "42000", "Access denied; you need (at least one of) the %s "+
		"privilege(s) for this operation", strings.ToUpper(strings.Join(names, " or ")))
}

func hostOf(n sqlparser.AccountName) string {
	if n.AnyHost || n.Host == "" {
		return "%"
	}
	return n.Host
}
