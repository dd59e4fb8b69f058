package rights

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// RenameUser is RENAME USER: accounts and roles get other names, with all that they have.
type RenameUser struct{ Accounts []sqlparser.AccountRename }

func account(n sqlparser.AccountName) session.Role {
	if n.AnyHost || n.Host == "" {
		return session.Role{Name: n.Name, Host: "%"}
	}
	return session.Role{Name: n.Name, Host: n.Host}
}

// Run executes the statement, for all accounts or for none. snap has the programs and views, which
// keep their definers: who may make them in the name of others is warned (4005), others may not
// rename a definer (4006). Errors: 1396 for names that are not there, or taken, 1470 for long ones.
func (x *RenameUser) Run(ctx *sql.Context, users *mysql_db.MySQLDb, snap *schema.Snapshot) error {
	super := Of(ctx, users).Dynamic(SetUserID) // it reads the users
	ed := users.Editor()
	defer ed.Close()
	if err := x.wrong(ed); err != nil {
		return err
	}
	if err := x.definers(ctx, super, snap); err != nil {
		return err
	}
	for _, a := range x.Accounts {
		from, to := account(a.From), account(a.To)
		u, _ := ed.GetUser(key(from))
		named := mysql_db.UserCopy(u)
		named.User, named.Host = to.Name, to.Host
		ed.RemoveUser(key(from))
		ed.PutUser(named)
		renameEdges(ed, from, to)
		if err := renameDefaults(ed, from, to); err != nil {
			return err
		}
	}
	return users.Persist(ctx, ed)
}

// wrong is what is wrong in the names, in the order of the statement.
func (x *RenameUser) wrong(ed *mysql_db.Editor) error {
	moved := map[session.Role]bool{} // false: a name that was given up
	there := func(r session.Role) bool {
		if is, ok := moved[r]; ok {
			return is
		}
		_, ok := ed.GetUser(key(r))
		return ok
	}
	var failed []string
	for _, a := range x.Accounts {
		from, to := account(a.From), account(a.To)
		switch {
		case len(to.Name) > 32:
			return tooLong(to.Name, "user name", 32)
		case len(to.Host) > 255:
			return tooLong(to.Host, "host name", 255)
		case !there(from) || there(to):
			failed = append(failed, quoted(from))
		default:
			moved[from], moved[to] = false, true
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return mysql.NewSQLError(1396, "HY000", "Operation RENAME USER failed for %s", strings.Join(failed, ","))
}

// definers warns of what keeps an account as its definer that there is not any more.
func (x *RenameUser) definers(ctx *sql.Context, super bool, snap *schema.Snapshot) error {
	for _, a := range x.Accounts {
		from := account(a.From)
		for _, kind := range defines(snap, schema.Account{Name: from.Name, Host: from.Host}) {
			if !super {
				return mysql.NewSQLError(4006, "HY000", "Operation RENAME USER failed for %s as it is referenced as a definer account in %s.",
					quoted(from), kind)
			}
			ctx.Session.Warn(&sql.Warning{Level: "Warning", Code: 4005,
				Message: "User " + quoted(from) + " is referenced as a definer account in " + kind + "."})
		}
	}
	return nil
}

// defines are the kinds of what an account is the definer of, each once.
func defines(snap *schema.Snapshot, by schema.Account) (out []string) {
	for _, db := range snap.InOrder() {
		for _, objects := range db.Objects {
			for _, o := range objects {
				kind := ""
				switch {
				case o.Function != nil && o.Function.Made == by:
					kind = "a stored routine"
				case o.Definer == nil || *o.Definer != by:
				case o.View != nil:
					kind = "a view"
				case o.Trigger != nil:
					kind = "a trigger"
				case o.Event != nil:
					kind = "an event"
				default:
					kind = "a stored routine"
				}
				if kind != "" && !slices.Contains(out, kind) {
					out = append(out, kind)
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// renameEdges gives a role, or who has roles, its new name where roles are granted.
func renameEdges(ed *mysql_db.Editor, from, to session.Role) {
	var edges []mysql_db.RoleEdge
	ed.VisitRoleEdges(func(e *mysql_db.RoleEdge) {
		if e.FromUser == from.Name && e.FromHost == from.Host || e.ToUser == from.Name && e.ToHost == from.Host {
			edges = append(edges, *e)
		}
	})
	for _, e := range edges {
		ed.RemoveRoleEdge(mysql_db.RoleEdgesPrimaryKey{FromHost: e.FromHost, FromUser: e.FromUser, ToHost: e.ToHost, ToUser: e.ToUser})
		if e.FromUser == from.Name && e.FromHost == from.Host {
			e.FromUser, e.FromHost = to.Name, to.Host
		}
		if e.ToUser == from.Name && e.ToHost == from.Host {
			e.ToUser, e.ToHost = to.Name, to.Host
		}
		ed.PutRoleEdge(&e)
	}
}

// renameDefaults gives a role its new name among the default roles of accounts.
func renameDefaults(ed *mysql_db.Editor, from, to session.Role) error {
	var have []*mysql_db.User
	ed.VisitUsers(func(u *mysql_db.User) {
		if slices.Contains(defaultRoles(u), from) {
			have = append(have, mysql_db.UserCopy(u))
		}
	})
	for _, u := range have {
		roles := defaultRoles(u)
		for i := range roles {
			if roles[i] == from {
				roles[i] = to
			}
		}
		if err := SetDefaultRoles(u, roles); err != nil {
			return err
		}
		ed.RemoveUser(mysql_db.UserPrimaryKey{Host: u.Host, User: u.User}) // it compares all fields
		ed.PutUser(u)
	}
	return nil
}

func key(r session.Role) mysql_db.UserPrimaryKey {
	return mysql_db.UserPrimaryKey{Host: r.Host, User: r.Name}
}

// quoted is an account as messages have it.
func quoted(r session.Role) string { return "'" + r.Name + "'@'" + r.Host + "'" }

func tooLong(text, what string, most int) error {
	return mysql.NewSQLError(1470, "HY000", "String '%s' is too long for %s (should be no longer than %d)", text, what, most)
}
