package rights

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"
	"github.com/dolthub/go-mysql-server/sql/plan"

	"github.com/godwitdb/godwit/sql/session"
)

// ShowGrants are the rows of SHOW GRANTS: of an account, and with USING those of some of its roles.
func ShowGrants(ctx *sql.Context, users *mysql_db.MySQLDb, n *plan.ShowGrants) (sql.RowIter, error) {
	name, host := ctx.Client().User, ctx.Client().Address
	if n.For != nil && !n.CurrentUser {
		name, host = n.For.Name, hostOfUser(*n.For)
	}
	var using []session.Role
	for _, r := range n.Using {
		using = append(using, session.Role{Name: r.Name, Host: hostOfUser(r)})
	}
	granted, _ := rolesOf(users, name, host)
	if err := notGranted(using, granted, name, host); err != nil {
		return nil, err
	}
	rd := users.Reader()
	defer rd.Close()
	u := users.GetUser(rd, name, host, false)
	if u == nil {
		return nil, sql.ErrShowGrantsUserDoesNotExist.New(name, host)
	}
	set := u.PrivilegeSet.Copy()
	for _, r := range using {
		if role := users.GetUser(rd, r.Name, r.Host, true); role != nil {
			set.UnionWith(role.PrivilegeSet)
		}
	}
	to := u.UserHostToString("`")
	lines := privilegeLines(set, to)
	var roles []string
	for _, e := range rd.GetToUserRoleEdges(mysql_db.RoleEdgesToKey{ToHost: u.Host, ToUser: u.User}) {
		roles = append(roles, e.FromString("`"))
	}
	for _, x := range []struct {
		what   []string
		on, as string
	}{
		{roles, "", ""}, {set.ToSliceDynamic(true), " ON *.*", " WITH GRANT OPTION"}, {set.ToSliceDynamic(false), " ON *.*", ""},
	} {
		if len(x.what) > 0 {
			lines = append(lines, "GRANT "+strings.Join(x.what, ", ")+x.on+" TO "+to+x.as)
		}
	}
	var rows []sql.Row
	for _, l := range lines {
		rows = append(rows, sql.Row{l})
	}
	return sql.RowsToRowIter(rows...), nil
}

// privilegeLines are the lines about privileges.
func privilegeLines(set mysql_db.PrivilegeSet, to string) []string {
	lines := []string{levelGrant(set.ToSlice(), "*.*", to)}
	for _, d := range set.GetDatabases() {
		db := "`" + d.Name() + "`"
		if held := d.ToSlice(); len(held) > 0 {
			lines = append(lines, levelGrant(held, db+".*", to))
		}
		for _, t := range d.GetTables() {
			lines = append(lines, tableGrant(db, t, to))
		}
		for _, r := range d.GetRoutines() {
			lines = append(lines, levelGrant(r.ToSlice(), r.RoutineType()+" "+db+".`"+r.RoutineName()+"`", to))
		}
	}
	return slices.DeleteFunc(lines, func(l string) bool { return l == "" })
}

// levelGrant is the line about the privileges at a level.
func levelGrant(held []sql.PrivilegeType, level, to string) string {
	return grantLine(slices.Clone(held), nil, level, to)
}

// tableGrant is the line about a table and its columns.
func tableGrant(db string, t sql.PrivilegeSetTable, to string) string {
	var parts []string
	for _, p := range ofColumns {
		var names []string
		for _, c := range t.GetColumns() {
			if c.Has(p) {
				names = append(names, quote(c.Name()))
			}
		}
		if len(names) > 0 {
			parts = append(parts, p.String()+" ("+strings.Join(names, ", ")+")")
		}
	}
	return grantLine(t.ToSlice(), parts, db+".`"+t.Name()+"`", to)
}

func grantLine(held []sql.PrivilegeType, parts []string, level, to string) string {
	option := ""
	for _, p := range held {
		if p == sql.PrivilegeType_GrantOption {
			option = " WITH GRANT OPTION"
		} else {
			parts = append(parts, p.String())
		}
	}
	if len(parts) == 0 {
		parts = []string{"USAGE"}
	}
	return "GRANT " + strings.Join(parts, ", ") + " ON " + level + " TO " + to + option
}
