package rights

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
)

// Dynamic privileges that something here asks for, in lower case as the engine keeps them. The
// engine grants only those that it asks for itself.
const (
	ConnectionAdmin = "connection_admin"
	SessionAdmin    = "session_variables_admin"
	SystemAdmin     = "system_variables_admin"
	BackupAdmin     = "backup_admin"
	RecoverAdmin    = "xa_recover_admin"
)

var dynamicPrivileges = []string{ConnectionAdmin, SessionAdmin, SystemAdmin, SetUserID, BackupAdmin, RecoverAdmin}

// Changer executes what of GRANT and REVOKE the engine does not know.
type Changer struct {
	Catalog *analyzer.Catalog
	// Engine has the engine execute a GRANT or REVOKE.
	Engine func(sql.Node) error
}

// errIllegalLevel: dynamic privileges are global.
func errIllegalLevel(name string) error {
	return mysql.NewSQLError(3619, "HY000", "Illegal privilege level specified for %s", strings.ToUpper(name))
}

// takeDynamic separates our dynamic privileges from those that the engine grants and revokes.
func takeDynamic(privileges []plan.Privilege) (dynamic []string, rest []plan.Privilege) {
	for _, p := range privileges {
		if p.Type == plan.PrivilegeType_Dynamic && slices.Contains(dynamicPrivileges, p.Dynamic) {
			dynamic = append(dynamic, p.Dynamic)
		} else {
			rest = append(rest, p)
		}
	}
	return dynamic, rest
}

// done is the answer to a statement that has no other.
func done() sql.RowIter { return sql.RowsToRowIter(sql.NewRow(types.NewOkResult(0))) }

// Grant executes a GRANT of privileges for columns, or of dynamic ones; others are the engine's
// (nil).
func (c Changer) Grant(ctx *sql.Context, n *plan.Grant) (sql.RowIter, error) {
	if n.ObjectType == plan.ObjectType_Function && n.PrivilegeLevel.TableRoutine != "*" {
		return c.function(ctx, n)
	}
	static := *n
	if columns, rest := Split(n.Privileges); len(columns) > 0 {
		static.Privileges = rest
		return c.columns(ctx, granting(n, c.Catalog), &static, len(rest) > 0)
	}
	dynamic, rest := takeDynamic(n.Privileges)
	if len(dynamic) == 0 {
		return nil, nil
	}
	var others sql.Node
	if len(rest) > 0 {
		static.Privileges, others = rest, &static
	}
	return c.dynamic(ctx, dynamicChange{n.PrivilegeLevel, n.Users, dynamic, others, sql.ErrGrantUserDoesNotExist.New(),
		func(u *mysql_db.User) { u.PrivilegeSet.AddGlobalDynamic(n.WithGrantOption, dynamic...) }})
}

// Revoke executes a REVOKE of privileges for tables and columns, or of dynamic ones; others are the
// engine's (nil).
func (c Changer) Revoke(ctx *sql.Context, n *plan.Revoke) (sql.RowIter, error) {
	static := *n
	columns, rest := Split(n.Privileges)
	if len(columns) > 0 || n.PrivilegeLevel.TableRoutine != "*" && n.ObjectType == plan.ObjectType_Any {
		static.Privileges = rest
		return c.columns(ctx, revoking(n, c.Catalog), &static, len(rest) > 0)
	}
	dynamic, rest := takeDynamic(n.Privileges)
	if len(dynamic) == 0 {
		return nil, nil
	}
	var others sql.Node
	if len(rest) > 0 {
		static.Privileges, others = rest, &static
	}
	return c.dynamic(ctx, dynamicChange{n.PrivilegeLevel, n.Users, dynamic, others,
		sql.ErrRevokeUserDoesNotExist.New("user", "%"),
		func(u *mysql_db.User) { u.PrivilegeSet.RemoveGlobalDynamic(dynamic...) }})
}

// columns changes privileges for columns; the engine does so with those for the table (some).
func (c Changer) columns(ctx *sql.Context, x *columnGrant, tables sql.Node, some bool) (sql.RowIter, error) {
	if err := x.check(ctx); err != nil {
		return nil, err
	}
	if some {
		if err := c.Engine(tables); err != nil {
			return nil, err
		}
	}
	return done(), x.run(ctx)
}

// dynamicChange is a GRANT or REVOKE of dynamic privileges.
type dynamicChange struct {
	at      plan.PrivilegeLevel
	users   []plan.UserName
	names   []string // of the privileges
	others  sql.Node // what of the statement is the engine's; nil: nothing
	unknown error    // that there is no such user
	change  func(*mysql_db.User)
}

// dynamic changes the dynamic privileges of users. Only who may grant them may: who may not changes
// nothing, the others neither.
func (c Changer) dynamic(ctx *sql.Context, x dynamicChange) (sql.RowIter, error) {
	if x.at.Database != "*" || x.at.TableRoutine != "*" {
		return nil, errIllegalLevel(x.names[0])
	}
	db := c.Catalog.MySQLDb
	set := db.UserActivePrivilegeSet(ctx)
	for _, name := range x.names {
		if !set.Has(sql.PrivilegeType_Super) && !slices.Contains(set.ToSliceDynamic(true), name) {
			return nil, ErrNeeds(name + " WITH GRANT OPTION")
		}
	}
	if x.others != nil {
		if err := c.Engine(x.others); err != nil {
			return nil, err
		}
	}
	ed := db.Editor()
	defer ed.Close()
	var found []*mysql_db.User
	for _, n := range x.users {
		u := db.GetUser(ed, n.Name, hostOfUser(n), false)
		if u == nil {
			return nil, x.unknown
		}
		found = append(found, u)
	}
	for _, u := range found {
		x.change(u)
	}
	return done(), db.Persist(ctx, ed)
}

func hostOfUser(n plan.UserName) string {
	if n.AnyHost || n.Host == "" {
		return "%"
	}
	return n.Host
}
