package rights

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/vitess/go/mysql"
)

// columnGrant is what a GRANT or REVOKE says of columns.
type columnGrant struct {
	DB    *mysql_db.MySQLDb
	Level plan.PrivilegeLevel
	Users []plan.UserName
	// Privileges are all that the statement names.
	Privileges []plan.Privilege
	// Option: WITH GRANT OPTION.
	Option bool
	// Revoke: it is a REVOKE.
	Revoke bool
	// Catalog has the tables.
	Catalog sql.Catalog
}

// granting is what a GRANT says of columns.
func granting(n *plan.Grant, cat *analyzer.Catalog) *columnGrant {
	return &columnGrant{DB: cat.MySQLDb, Level: n.PrivilegeLevel, Users: n.Users, Privileges: n.Privileges,
		Option: n.WithGrantOption, Catalog: cat}
}

// revoking is what a REVOKE says of columns, or takes of them with privileges for the table.
func revoking(n *plan.Revoke, cat *analyzer.Catalog) *columnGrant {
	return &columnGrant{DB: cat.MySQLDb, Level: n.PrivilegeLevel, Users: n.Users, Privileges: n.Privileges, Revoke: true,
		Catalog: cat}
}

// columns are the names of the columns of the table or view.
func (g *columnGrant) columns(ctx *sql.Context, db, table string) (out []string, err error) {
	defer With(ctx, g.DB, All())()
	missing := mysql.NewSQLError(1146, "42S02", "Table '%s.%s' doesn't exist", db, table)
	if IsGrantTable(db, table) {
		db = GrantTables
	}
	d, err := g.Catalog.Database(ctx, db)
	if err != nil {
		return nil, missing
	}
	t, ok, err := d.GetTableInsensitive(ctx, table)
	if err != nil {
		return nil, err
	}
	var sch sql.Schema
	if ok {
		sch = t.Schema(ctx)
	} else {
		b := planbuilder.New(ctx, g.Catalog, nil)
		b.DisableAuth()
		n, _, _, _, err := b.Parse("SELECT * FROM "+quote(db)+"."+quote(table), nil, false)
		if err != nil {
			return nil, missing
		}
		sch = n.Schema(ctx)
	}
	for _, c := range sch {
		out = append(out, c.Name)
	}
	return out, nil
}

// Split separates the privileges for columns from the others, which are the engine's.
func Split(privileges []plan.Privilege) (columns, rest []plan.Privilege) {
	for _, p := range privileges {
		if len(p.Columns) > 0 {
			columns = append(columns, p)
		} else {
			rest = append(rest, p)
		}
	}
	return columns, rest
}

// columnPrivilege is the privilege that the parser names; ok is false for those that there are none
// of for columns.
func columnPrivilege(t plan.PrivilegeType) (p sql.PrivilegeType, ok bool) {
	switch t {
	case plan.PrivilegeType_Select:
		return sql.PrivilegeType_Select, true
	case plan.PrivilegeType_Insert:
		return sql.PrivilegeType_Insert, true
	case plan.PrivilegeType_Update:
		return sql.PrivilegeType_Update, true
	case plan.PrivilegeType_References:
		return sql.PrivilegeType_References, true
	}
	return 0, false
}

// check refuses what cannot be granted or revoked, before any of it is.
func (g *columnGrant) check(ctx *sql.Context) error {
	columns, _ := Split(g.Privileges)
	if len(columns) == 0 {
		return nil
	}
	for _, p := range columns {
		if _, ok := columnPrivilege(p.Type); !ok {
			return mysql.NewSQLError(1064, "42000", "there are privileges for columns of SELECT, INSERT, UPDATE and REFERENCES "+
				"only")
		}
	}
	if g.Level.Database == "*" || g.Level.TableRoutine == "*" {
		return mysql.NewSQLError(1144, "42000", "Illegal GRANT/REVOKE command; please consult the manual to see which "+
			"privileges can be used")
	}
	if g.Revoke {
		return nil
	}
	db := DatabaseOf(ctx, g.Level.Database)
	have, err := g.columns(ctx, db, g.Level.TableRoutine)
	if err != nil {
		return err
	}
	for _, p := range columns {
		for _, c := range p.Columns {
			if !slices.ContainsFunc(have, func(h string) bool { return strings.EqualFold(h, c) }) {
				return mysql.NewSQLError(1054, "42S22", "Unknown column '%s' in '%s'", c, g.Level.TableRoutine)
			}
		}
	}
	return nil
}

// run grants or revokes the privileges for columns. REVOKE of a privilege for the table takes those
// for its columns, too.
func (g *columnGrant) run(ctx *sql.Context) error {
	if g.Level.Database == "*" || g.Level.TableRoutine == "*" {
		return nil
	}
	ed := g.DB.Editor()
	defer ed.Close()
	var users []*mysql_db.User
	for _, n := range g.Users {
		host := hostOfUser(n)
		u := g.DB.GetUser(ed, n.Name, host, false)
		if u == nil && g.Revoke {
			return sql.ErrRevokeUserDoesNotExist.New(n.Name, host)
		}
		if u == nil {
			return sql.ErrGrantUserDoesNotExist.New()
		}
		users = append(users, u)
	}
	changed := false
	for _, u := range users {
		did, err := g.change(ctx, u)
		if err != nil {
			return err
		}
		changed = changed || did
	}
	if !changed {
		return nil
	}
	return g.DB.Persist(ctx, ed)
}

// change changes the privileges of one user.
func (g *columnGrant) change(ctx *sql.Context, u *mysql_db.User) (changed bool, err error) {
	// The engine finds tables again by names in lower case only.
	db, table := strings.ToLower(DatabaseOf(ctx, g.Level.Database)), strings.ToLower(g.Level.TableRoutine)
	set := u.PrivilegeSet
	columns, rest := Split(g.Privileges)
	for _, x := range columns {
		p, _ := columnPrivilege(x.Type)
		for _, c := range x.Columns {
			if c = strings.ToLower(c); g.Revoke && set.Database(db).Table(table).Column(c).Count() == 0 {
				return false, mysql.NewSQLError(1147, "42000", "There is no such grant defined for user '%s' on host '%s' "+
					"on table '%s'", u.User, u.Host, g.Level.TableRoutine)
			} else if g.Revoke {
				set.RemoveColumn(db, table, c, p)
			} else {
				set.AddColumn(db, table, c, p)
			}
			changed = true
		}
	}
	if !g.Revoke {
		if g.Option && changed {
			set.AddTable(db, table, sql.PrivilegeType_GrantOption)
		}
		return changed, nil
	}
	for _, x := range rest {
		for _, c := range set.Database(db).Table(table).GetColumns() {
			if p, ok := columnPrivilege(x.Type); ok && c.Has(p) {
				set.RemoveColumn(db, table, c.Name(), p)
				changed = true
			} else if x.Type == plan.PrivilegeType_All {
				set.RemoveColumn(db, table, c.Name(), ofColumns...)
				changed = true
			}
		}
	}
	return changed, nil
}

// mayGrantColumns reports whether the user may pass on the privileges for columns that a GRANT or
// REVOKE names: it has them, and GRANT OPTION for the table.
func mayGrantColumns(ctx *sql.Context, mine Set, extra any) bool {
	var level plan.PrivilegeLevel
	var privileges []plan.Privilege
	switch n := extra.(type) {
	case *plan.Grant:
		level, privileges = n.PrivilegeLevel, n.Privileges
	case *plan.Revoke:
		level, privileges = n.PrivilegeLevel, n.Privileges
	}
	columns, rest := Split(privileges)
	db, table := DatabaseOf(ctx, level.Database), level.TableRoutine
	if len(columns) == 0 || !mine.Table(db, table, sql.PrivilegeType_GrantOption) {
		return false
	}
	for _, x := range rest {
		if p, ok := columnPrivilege(x.Type); !ok || !mine.Table(db, table, p) {
			return false
		}
	}
	for _, x := range columns {
		p, ok := columnPrivilege(x.Type)
		for _, c := range x.Columns {
			if !ok || !mine.Column(db, table, c, p) {
				return false
			}
		}
	}
	return true
}

func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// columnPrivileges are the rows of information_schema.column_privileges: the user's own, or those
// of all.
func columnPrivileges(users *mysql_db.MySQLDb) SchemaReader {
	return func(ctx *sql.Context, _ sql.Catalog) (sql.RowIter, error) {
		mine := Of(ctx, users)
		me := ctx.Client()
		rd := users.Reader()
		defer rd.Close()
		own := users.GetUser(rd, me.User, me.Address, false)
		var rows []sql.Row
		rd.VisitUsers(func(u *mysql_db.User) {
			if u != own && !mine.Database("mysql", sql.PrivilegeType_Select) {
				return
			}
			rows = append(rows, columnRows(u)...)
		})
		return sql.RowsToRowIter(rows...), nil
	}
}

func columnRows(u *mysql_db.User) (rows []sql.Row) {
	for _, d := range u.PrivilegeSet.GetDatabases() {
		for _, t := range d.GetTables() {
			option := "NO"
			if t.Has(sql.PrivilegeType_GrantOption) {
				option = "YES"
			}
			for _, c := range t.GetColumns() {
				for _, p := range c.ToSlice() {
					rows = append(rows, sql.Row{u.UserHostToString("'"), "def", d.Name(), t.Name(), c.Name(), p.String(), option})
				}
			}
		}
	}
	return rows
}
