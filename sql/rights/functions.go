package rights

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/session"
)

// function grants privileges for a stored function, of which the engine knows none.
func (c Changer) function(ctx *sql.Context, n *plan.Grant) (sql.RowIter, error) {
	at := n.PrivilegeLevel
	db := DatabaseOf(ctx, at.Database)
	if db == "" {
		return nil, sql.ErrNoDatabaseSelected.New()
	}
	if s := session.Of(ctx); s != nil {
		if o, err := s.Function(ctx, db, at.TableRoutine); err != nil {
			return nil, err
		} else if o == nil {
			return nil, mysql.NewSQLError(1305, "42000", "FUNCTION %s.%s does not exist", db, at.TableRoutine)
		}
	}
	ed := c.Catalog.MySQLDb.Editor()
	defer ed.Close()
	for _, name := range n.Users {
		u := c.Catalog.MySQLDb.GetUser(ed, name.Name, hostOfUser(name), false)
		if u == nil {
			return nil, sql.ErrGrantUserDoesNotExist.New()
		}
		if err := n.HandleRoutinePrivileges(u, db, at.TableRoutine, false); err != nil {
			return nil, err
		}
		if n.WithGrantOption {
			u.PrivilegeSet.AddRoutine(db, at.TableRoutine, false, sql.PrivilegeType_GrantOption)
		}
	}
	return done(), c.Catalog.MySQLDb.Persist(ctx, ed)
}

// mayGrantFunction reports whether a GRANT or REVOKE is of privileges for a stored function that
// the user has WITH GRANT OPTION. The engine refuses all of them.
func mayGrantFunction(ctx *sql.Context, mine Set, n any) bool {
	var at plan.PrivilegeLevel
	var kind plan.ObjectType
	var what []plan.Privilege
	switch n := n.(type) {
	case *plan.Grant:
		at, kind, what = n.PrivilegeLevel, n.ObjectType, n.Privileges
	case *plan.Revoke:
		at, kind, what = n.PrivilegeLevel, n.ObjectType, n.Privileges
	}
	if kind != plan.ObjectType_Function || at.TableRoutine == "*" {
		return false
	}
	db := DatabaseOf(ctx, at.Database)
	one := mine.PrivilegeSet.Database(db).Routine(at.TableRoutine, false)
	has := func(p sql.PrivilegeType) bool { return mine.Database(db, p) || one.Has(p) }
	for _, p := range what {
		execute := p.Type == plan.PrivilegeType_Execute || p.Type == plan.PrivilegeType_All
		alter := p.Type == plan.PrivilegeType_AlterRoutine || p.Type == plan.PrivilegeType_All
		if execute && !has(sql.PrivilegeType_Execute) || alter && !has(sql.PrivilegeType_AlterRoutine) {
			return false
		}
	}
	return has(sql.PrivilegeType_GrantOption)
}
