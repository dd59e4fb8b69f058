package server

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/rights"
)

// Dynamic privileges that something here asks for, in lower case as the engine keeps them. The
// engine grants only those that it asks for itself.
const (
	connectionAdmin = "connection_admin"
	sessionAdmin    = "session_variables_admin"
	systemAdmin     = "system_variables_admin"
)

var dynamicPrivileges = []string{connectionAdmin, sessionAdmin, systemAdmin, rights.SetUserID}

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

// grant executes a GRANT of dynamic privileges; others are the engine's.
func (b *builder) grant(ctx *sql.Context, n *plan.Grant, row sql.Row) (sql.RowIter, error) {
	if err := rights.NoColumns(n.Privileges); err != nil {
		return nil, err
	}
	dynamic, rest := takeDynamic(n.Privileges)
	if len(dynamic) == 0 {
		return nil, nil
	}
	var others sql.Node
	if len(rest) > 0 {
		static := *n
		static.Privileges, others = rest, &static
	}
	return b.changeDynamic(ctx, row, dynamicChange{n.PrivilegeLevel, n.Users, dynamic, others,
		sql.ErrGrantUserDoesNotExist.New(),
		func(u *mysql_db.User) { u.PrivilegeSet.AddGlobalDynamic(n.WithGrantOption, dynamic...) }})
}

// revoke executes a REVOKE of dynamic privileges; others are the engine's.
func (b *builder) revoke(ctx *sql.Context, n *plan.Revoke, row sql.Row) (sql.RowIter, error) {
	if err := rights.NoColumns(n.Privileges); err != nil {
		return nil, err
	}
	dynamic, rest := takeDynamic(n.Privileges)
	if len(dynamic) == 0 {
		return nil, nil
	}
	var others sql.Node
	if len(rest) > 0 {
		static := *n
		static.Privileges, others = rest, &static
	}
	return b.changeDynamic(ctx, row, dynamicChange{n.PrivilegeLevel, n.Users, dynamic, others,
		sql.ErrRevokeUserDoesNotExist.New("user", "%"),
		func(u *mysql_db.User) { u.PrivilegeSet.RemoveGlobalDynamic(dynamic...) }})
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

// changeDynamic changes the dynamic privileges of users. Only who may grant them may: who may not
// changes nothing, the others neither.
func (b *builder) changeDynamic(ctx *sql.Context, row sql.Row, x dynamicChange) (sql.RowIter, error) {
	if x.at.Database != "*" || x.at.TableRoutine != "*" {
		return nil, errIllegalLevel(x.names[0])
	}
	db := b.base.Catalog.MySQLDb
	set := db.UserActivePrivilegeSet(ctx)
	for _, name := range x.names {
		if !set.Has(sql.PrivilegeType_Super) && !slices.Contains(set.ToSliceDynamic(true), name) {
			return nil, rights.ErrNeeds(name + " WITH GRANT OPTION")
		}
	}
	if x.others != nil {
		if _, err := b.base.ExecBuilder.Build(ctx, x.others, row); err != nil {
			return nil, err
		}
	}
	ed := db.Editor()
	defer ed.Close()
	var found []*mysql_db.User
	for _, n := range x.users {
		host := n.Host
		if n.AnyHost || host == "" {
			host = "%"
		}
		u := db.GetUser(ed, n.Name, host, false)
		if u == nil {
			return nil, x.unknown
		}
		found = append(found, u)
	}
	for _, u := range found {
		x.change(u)
	}
	if err := db.Persist(ctx, ed); err != nil {
		return nil, err
	}
	return sql.RowsToRowIter(sql.NewRow(types.NewOkResult(0))), nil
}
