package rights

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/virtual"
)

// GrantTables is the name by which the engine finds the tables of the database mysql that are ours.
// The engine has a fixed list of tables for the name mysql, so that the trees of statements get
// this one ([NameGrantTables]). No client ever sees it.
const GrantTables = "\x00mysql"

const (
	grantSchema     = "mysql"
	columnsPriv     = "columns_priv"
	tablesPriv      = "tables_priv"
	tablesPrivTable = 3 // columns of tables_priv
	tablesPrivTime  = 5
	tablesPrivMask  = 7
)

// IsGrantTable reports whether a table of the database mysql is ours.
func IsGrantTable(db, table string) bool {
	return strings.EqualFold(db, grantSchema) && (strings.EqualFold(table, columnsPriv) || strings.EqualFold(table, tablesPriv))
}

// grantTables is the database mysql as far as it is ours. The engine judges it by its alias.
type grantTables struct {
	*virtual.Database
	users *mysql_db.MySQLDb
}

var _ sql.AliasedDatabase = grantTables{}

// OpenGrantTables is the database with the name [GrantTables].
func OpenGrantTables(users *mysql_db.MySQLDb) sql.Database {
	d := grantTables{users: users}
	d.Database = &virtual.Database{Called: grantSchema, Tables: d.tables, ReadOnly: func() error {
		return mysql.NewSQLError(1290, "HY000", "mysql.columns_priv shows privileges and takes no writes: use GRANT and REVOKE")
	}}
	return d
}

// IsReadOnly implements sql.ReadOnlyDatabase. Views may be made of the tables; they take no writes.
func (grantTables) IsReadOnly() bool { return false }

// AliasedName implements sql.AliasedDatabase.
func (grantTables) AliasedName() string { return grantSchema }

// GetTableNames implements sql.Database: those of the engine are among them.
func (d grantTables) GetTableNames(ctx *sql.Context) ([]string, error) {
	names, err := d.users.GetTableNames(ctx)
	names = append(names, columnsPriv)
	slices.Sort(names)
	return names, err
}

func (d grantTables) tables() []virtual.Table {
	t, ok, err := d.users.GetTableInsensitive(nil, tablesPriv)
	if err != nil || !ok {
		return nil
	}
	of := t.Schema(nil)
	name := *of[tablesPrivTable]
	name.Name = "Column_name"
	columns := append(slices.Clone(of[:tablesPrivTable+1]), &name, of[tablesPrivTime], of[tablesPrivMask])
	return []virtual.Table{
		{Name: columnsPriv, Columns: columns, Rows: d.rows(columnsPrivRows)},
		{Name: tablesPriv, Columns: of, Rows: d.rows(tablesPrivRows)},
	}
}

// rows are what the users have.
func (d grantTables) rows(of func(*sql.Context, *mysql_db.User) ([]sql.Row, error)) func(*sql.Context) ([]sql.Row, error) {
	return func(ctx *sql.Context) (rows []sql.Row, err error) {
		rd := d.users.Reader()
		defer rd.Close()
		rd.VisitUsers(func(u *mysql_db.User) {
			if err == nil {
				var more []sql.Row
				more, err = of(ctx, u)
				rows = append(rows, more...)
			}
		})
		return rows, err
	}
}

// noTime is the time of a privilege, as the engine has it: none keeps when it was granted.
func noTime() time.Time { return time.Unix(1, 0).UTC() }

// columnMask are the privileges for a column as the bits of Column_priv.
func columnMask(c sql.PrivilegeSetColumn) (m uint64) {
	for i, p := range ofColumns {
		if c.Has(p) {
			m |= 1 << i
		}
	}
	return m
}

func columnsPrivRows(_ *sql.Context, u *mysql_db.User) (rows []sql.Row, _ error) {
	for _, d := range u.PrivilegeSet.GetDatabases() {
		for _, t := range d.GetTables() {
			for _, c := range t.GetColumns() {
				if m := columnMask(c); m != 0 {
					rows = append(rows, sql.Row{u.Host, d.Name(), u.User, t.Name(), c.Name(), noTime(), m})
				}
			}
		}
	}
	return rows, nil
}

// tablesPrivRows are the engine's, which know nothing of columns, with what there is for these.
func tablesPrivRows(ctx *sql.Context, u *mysql_db.User) ([]sql.Row, error) {
	rows, err := mysql_db.UserToTablesRows(ctx, u)
	if err != nil {
		return nil, err
	}
	for _, d := range u.PrivilegeSet.GetDatabases() {
		for _, t := range d.GetTables() {
			var m uint64
			for _, c := range t.GetColumns() {
				m |= columnMask(c)
			}
			i := slices.IndexFunc(rows, func(r sql.Row) bool { return r[1] == d.Name() && r[tablesPrivTable] == t.Name() })
			switch {
			case m == 0:
			case i >= 0:
				rows[i][tablesPrivMask] = m
			default:
				rows = append(rows, sql.Row{u.Host, d.Name(), u.User, t.Name(), "", noTime(), uint64(0), m})
			}
		}
	}
	return rows, nil
}

// NameGrantTables gives those tables of a statement that are ours the name by which the engine
// finds them. The engine judges the statement by the names that it had. query is its text.
func NameGrantTables(ctx context.Context, query string, stmt sqlparser.Statement) {
	n, ok := stmt.(sqlparser.SQLNode)
	show, shows := stmt.(*sqlparser.Show)
	if !ok || !shows && !base.ContainsFold(query, "s_priv") {
		return
	}
	x := grantNames{}
	if sc, ok := ctx.(*sql.Context); ok && (shows || ofClient(sc, query)) {
		x.current = sc.GetCurrentDatabase()
	}
	if shows {
		x.show(show)
	}
	walkAll(n, x.note)
	walkAll(n, x.name)
}

// ofClient reports whether a text is the client's own. The texts of views and programs have other
// databases in which names are looked up.
func ofClient(ctx *sql.Context, query string) bool {
	if sql.RemoveSpaceAndDelimiter(query, ';') == sql.RemoveSpaceAndDelimiter(ctx.Query(), ';') {
		return true
	}
	s := session.Of(ctx)
	if s == nil {
		return false
	}
	_, prepare := s.Stmt.Tree.(*sqlparser.Prepare)
	return prepare
}

// walkAll visits all nodes of a statement, and those that the parser's walk leaves out.
func walkAll(n sqlparser.SQLNode, f func(sqlparser.SQLNode)) {
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		f(n)
		switch n := n.(type) {
		case *sqlparser.Explain:
			walkAll(n.Statement, f)
		case *sqlparser.DDL:
			if n.OptSelect != nil {
				walkAll(n.OptSelect, f)
			}
			if n.TriggerSpec != nil {
				walkAll(n.TriggerSpec.Body, f)
			}
			if n.ProcedureSpec != nil {
				walkAll(n.ProcedureSpec.Body, f)
			}
		}
		return true, nil
	}, n)
}

// grantNames names the tables of a statement.
type grantNames struct {
	// current is the database in which names without one are looked up; empty: they stay.
	current string
	// other: a common table expression has the name of one of the tables.
	other bool
	// kept: tables_priv is written, so that it stays the engine's.
	kept bool
}

// note looks for what keeps names as they are.
func (x *grantNames) note(n sqlparser.SQLNode) {
	var targets sqlparser.TableExprs
	switch n := n.(type) {
	case *sqlparser.CommonTableExpr:
		x.other = x.other || n.AliasedTableExpr != nil && IsGrantTable(grantSchema, n.As.String())
	case *sqlparser.Update:
		targets = n.TableExprs
	case *sqlparser.Delete:
		targets = n.TableExprs
	}
	if targets == nil {
		return
	}
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		if t, ok := n.(sqlparser.TableName); ok && strings.EqualFold(t.Name.String(), tablesPriv) {
			x.kept = true
		}
		_, sub := n.(*sqlparser.Subquery)
		return !sub, nil
	}, targets)
}

func (x *grantNames) name(n sqlparser.SQLNode) {
	switch n := n.(type) {
	case *sqlparser.AliasedTableExpr:
		if t, ok := n.Expr.(sqlparser.TableName); ok {
			n.Expr = x.named(t, x.current)
		}
	case *sqlparser.ColName:
		n.Qualifier = x.named(n.Qualifier, "")
	case *sqlparser.StarExpr:
		n.TableName = x.named(n.TableName, "")
	case *sqlparser.Insert:
		if strings.EqualFold(n.Table.Name.String(), columnsPriv) {
			n.Table = x.named(n.Table, x.current)
		}
	}
}

// named is the name of a table; current is the database that it has if it names none.
func (x *grantNames) named(t sqlparser.TableName, current string) sqlparser.TableName {
	db := t.DbQualifier.String()
	if db == "" && !x.other {
		db = current
	}
	if IsGrantTable(db, t.Name.String()) && !(x.kept && strings.EqualFold(t.Name.String(), tablesPriv)) {
		t.DbQualifier = sqlparser.NewTableIdent(GrantTables)
	}
	return t
}

// show names what SHOW is about.
func (x *grantNames) show(n *sqlparser.Show) {
	opt := n.ShowTablesOpt
	in := func() string {
		if opt != nil && opt.DbName != "" {
			return opt.DbName
		}
		return x.current
	}
	switch strings.ToLower(n.Type) {
	case "tables":
		if strings.EqualFold(in(), grantSchema) && opt != nil {
			opt.DbName = GrantTables
		}
	case "columns", "fields":
		db := n.Table.DbQualifier.String()
		if db == "" || opt != nil && opt.DbName != "" {
			db = in()
		}
		if IsGrantTable(db, n.Table.Name.String()) {
			if opt == nil {
				n.ShowTablesOpt = &sqlparser.ShowTablesOpt{}
			}
			n.ShowTablesOpt.DbName = GrantTables
		}
	default:
		if n.Database == "" {
			n.Table = x.named(n.Table, x.current)
		}
	}
}
