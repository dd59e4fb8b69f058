package rights

import (
	"reflect"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/information_schema"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"
	"github.com/dolthub/go-mysql-server/sql/plan"

	"github.com/godwitdb/godwit/obs/audit"
)

// filterIter leaves out rows, and changes some of those that stay.
type filterIter struct {
	sql.RowIter
	keep func(sql.Row) bool
}

// Next implements sql.RowIter.
func (i *filterIter) Next(ctx *sql.Context) (sql.Row, error) {
	for {
		row, err := i.RowIter.Next(ctx)
		if err != nil || i.keep(row) {
			return row, err
		}
	}
}

// threadText is the column with the statement, in SHOW PROCESSLIST and in information_schema.
const threadText = 7

// OwnThreads keeps the user's own threads, for those without PROCESS, and hides passwords in the
// statements of all. user is the number of the column with the name.
func OwnThreads(ctx *sql.Context, users *mysql_db.MySQLDb, it sql.RowIter, user int) sql.RowIter {
	all, me := Of(ctx, users).Global(sql.PrivilegeType_Process), ctx.Client().User
	return &filterIter{it, func(r sql.Row) bool {
		if q, ok := r[threadText].(string); ok {
			r[threadText] = audit.Mask(q)
		}
		name, ok := r[user].(string)
		return all || ok && name == me
	}}
}

// processListUser is the column with the user.
const processListUser = 1

// Cover makes tables of information_schema show what the user may see only. own are the readers of
// tables, by name, that take the place of the engine's.
func Cover(is sql.Database, users *mysql_db.MySQLDb, own map[string]func(SchemaReader) SchemaReader) {
	ctx := sql.NewEmptyContext()
	names, err := is.GetTableNames(ctx)
	if err != nil {
		panic(err)
	}
	for _, name := range names {
		t, _, err := is.GetTableInsensitive(ctx, name)
		x := ReaderOf(t)
		if err != nil || x == nil {
			continue
		}
		if ours := own[name]; ours != nil {
			x.Reader = ours(x.Reader)
		}
		switch read := x.Reader; {
		case name == information_schema.ProcessListTableName:
			x.Reader = covered(read, func(ctx *sql.Context, it sql.RowIter) sql.RowIter {
				return OwnThreads(ctx, users, it, processListUser)
			})
		case name == information_schema.ViewsTableName:
			x.Reader = covered(readWhole(users, read), coverViews(users))
		case name == information_schema.ColumnPrivilegesTableName:
			x.Reader = columnPrivileges(users)
		case name == information_schema.EnabledRolesTablesName:
			x.Reader = enabledRoles(users)
		case name == information_schema.ApplicableRolesTableName:
			x.Reader = applicableRoles(users)
		case name == information_schema.TriggersTableName:
			x.Reader = covered(readWhole(users, read), coverTriggers(users))
		case name == information_schema.EventsTableName:
			x.Reader = covered(read, func(ctx *sql.Context, it sql.RowIter) sql.RowIter {
				mine := Of(ctx, users)
				return &filterIter{it, func(r sql.Row) bool { return mine.SeesEvents(text(r[eventSchema])) }}
			})
		case name == information_schema.SchemataTableName:
			x.Reader = withMySQL(users, read, "utf8mb4", sql.Collation_utf8mb4_0900_ai_ci.String(), nil, "NO") // as in MySQL
		case name == information_schema.SchemataExtensionsTableName:
			x.Reader = withMySQL(users, read, "")
		case strings.HasPrefix(name, "innodb_"):
			x.Reader = func(ctx *sql.Context, cat sql.Catalog) (sql.RowIter, error) {
				if !Of(ctx, users).Global(sql.PrivilegeType_Process) {
					return nil, ErrNeeds("PROCESS")
				}
				return read(ctx, cat)
			}
		default:
			x.Reader = coverTables(users, x.Schema(ctx), read)
		}
	}
}

// ReaderOf is a table of information_schema with what reads it; nil: the table has another form.
func ReaderOf(t sql.Table) *information_schema.InformationSchemaTable {
	x, ok := t.(*information_schema.InformationSchemaTable)
	if v := reflect.Indirect(reflect.ValueOf(t)); !ok && v.Kind() == reflect.Struct { // that of the statistics has it embedded
		if f := v.FieldByName("InformationSchemaTable"); f.IsValid() {
			x, _ = f.Interface().(*information_schema.InformationSchemaTable)
		}
	}
	return x
}

// Narrow is a catalog that shows a part of another one.
type Narrow interface{ Whole() sql.Catalog }

// SchemaReader reads a table of information_schema.
type SchemaReader = func(*sql.Context, sql.Catalog) (sql.RowIter, error)

func covered(read SchemaReader, cover func(*sql.Context, sql.RowIter) sql.RowIter) SchemaReader {
	return func(ctx *sql.Context, cat sql.Catalog) (sql.RowIter, error) {
		it, err := read(ctx, cat)
		if err != nil {
			return nil, err
		}
		return cover(ctx, it), nil
	}
}

// readWhole reads a table with all rights, and in a database: the engine looks up what the texts of
// views and triggers name, in order to describe these.
func readWhole(users *mysql_db.MySQLDb, read SchemaReader) SchemaReader {
	return func(ctx *sql.Context, cat sql.Catalog) (sql.RowIter, error) {
		defer With(ctx, users, All())()
		if ctx.GetCurrentDatabase() == "" {
			ctx.SetCurrentDatabase(sql.InformationSchemaDatabaseName)
			defer ctx.SetCurrentDatabase("")
		}
		it, err := read(ctx, cat)
		if err != nil {
			return nil, err
		}
		rows, err := sql.RowIterToRows(ctx, it)
		return sql.RowsToRowIter(rows...), err
	}
}

// coverTables leaves out rows about tables that the user has no privilege for.
func coverTables(users *mysql_db.MySQLDb, sch sql.Schema, read SchemaReader) SchemaReader {
	db, table, column := -1, -1, -1
	for i, c := range sch {
		switch strings.ToUpper(c.Name) {
		case "TABLE_SCHEMA":
			db = i
		case "TABLE_NAME":
			table = i
		case "COLUMN_NAME":
			column = i
		}
	}
	if db < 0 || table < 0 {
		return read
	}
	return covered(read, func(ctx *sql.Context, it sql.RowIter) sql.RowIter {
		mine := Of(ctx, users)
		if mine.Count() > 0 {
			return it
		}
		return &filterIter{it, func(r sql.Row) bool {
			if strings.EqualFold(text(r[db]), sql.InformationSchemaDatabaseName) {
				return true
			}
			return mine.Sees(text(r[db]), text(r[table])) &&
				(column < 0 || mine.SeesColumn(text(r[db]), text(r[table]), text(r[column])))
		}}
	})
}

// Columns of information_schema.columns.
const columnDB, columnTable, columnName = 1, 2, 3

// coverColumns leaves out columns that the user has no privilege for.
func coverColumns(t *information_schema.ColumnsTable) *information_schema.ColumnsTable {
	read := t.RowIter
	t.RowIter = func(ctx *sql.Context, cat sql.Catalog, all sql.Schema) (sql.RowIter, error) {
		it, err := read(ctx, cat, all)
		if err != nil {
			return nil, err
		}
		if n, ok := cat.(Narrow); ok {
			cat = n.Whole()
		}
		c, ok := cat.(*analyzer.Catalog)
		if !ok {
			return it, nil
		}
		mine := Of(ctx, c.MySQLDb)
		return &filterIter{it, func(r sql.Row) bool {
			db := text(r[columnDB])
			return strings.EqualFold(db, sql.InformationSchemaDatabaseName) ||
				mine.SeesColumn(db, text(r[columnTable]), text(r[columnName]))
		}}, nil
	}
	return t
}

// ShownColumns leaves out columns that the user has no privilege for, of SHOW COLUMNS (at 0) or
// SHOW INDEX (at 4).
func (s Set) ShownColumns(db, table string, it sql.RowIter, at int) sql.RowIter {
	return &filterIter{it, func(r sql.Row) bool { return s.SeesColumn(db, table, text(r[at])) }}
}

// Columns of information_schema.views and triggers.
const (
	viewSchema, viewName, viewText = 1, 2, 3
	triggerSchema, triggerOn       = 5, 6
)

// eventSchema is the column of information_schema.events with the database.
const eventSchema = 1

// SeesEvents reports whether the events of a database show: they take EVENT.
func (s Set) SeesEvents(db string) bool { return s.Database(db, sql.PrivilegeType_Event) }

// coverViews leaves out views that the user has no privilege for, and the texts of those that it
// may not SHOW.
func coverViews(users *mysql_db.MySQLDb) func(*sql.Context, sql.RowIter) sql.RowIter {
	return func(ctx *sql.Context, it sql.RowIter) sql.RowIter {
		mine := Of(ctx, users)
		return &filterIter{it, func(r sql.Row) bool {
			db, name := text(r[viewSchema]), text(r[viewName])
			if !mine.Table(db, name, sql.PrivilegeType_ShowView) {
				r[viewText] = ""
			}
			return mine.Sees(db, name)
		}}
	}
}

func coverTriggers(users *mysql_db.MySQLDb) func(*sql.Context, sql.RowIter) sql.RowIter {
	return func(ctx *sql.Context, it sql.RowIter) sql.RowIter {
		mine := Of(ctx, users)
		return &filterIter{it, func(r sql.Row) bool {
			return mine.Table(text(r[triggerSchema]), text(r[triggerOn]), sql.PrivilegeType_Trigger)
		}}
	}
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// ShowTriggers is SHOW TRIGGERS of what the user may see.
func (s Set) ShowTriggers(n *plan.ShowTriggers) *plan.ShowTriggers {
	shown := *n
	shown.Triggers = nil
	for _, t := range n.Triggers {
		on, ok := t.Table.(sql.Nameable)
		if ok && s.Table(n.Database().Name(), on.Name(), sql.PrivilegeType_Trigger) {
			shown.Triggers = append(shown.Triggers, t)
		}
	}
	return &shown
}

// seesMySQL reports whether the database mysql shows.
func (s Set) seesMySQL() bool {
	in := func(db string) bool { return s.PrivilegeSet.Database(db).HasPrivileges() }
	return s.Count() > 0 || in("mysql") || in(GrantTables)
}

// withMySQL reads a list of databases. The engine's leaves out mysql, which is in no catalog; rest
// is what it says of that one beside its name.
func withMySQL(users *mysql_db.MySQLDb, read SchemaReader, rest ...any) SchemaReader {
	return func(ctx *sql.Context, cat sql.Catalog) (sql.RowIter, error) {
		it, err := read(ctx, cat)
		if err != nil || !Of(ctx, users).seesMySQL() {
			return it, err
		}
		rows, err := sql.RowIterToRows(ctx, it)
		return sql.RowsToRowIter(append(rows, append(sql.Row{"def", "mysql"}, rest...))...), err
	}
}

// ShowDatabases are the databases in which the user has a privilege.
func ShowDatabases(ctx *sql.Context, users *mysql_db.MySQLDb, n *plan.ShowDatabases) (sql.RowIter, error) {
	mine := Of(ctx, users)
	var rows []sql.Row
	for _, db := range n.Catalog.AllDatabases(ctx) { // it leaves out the others
		rows = append(rows, sql.Row{db.Name()})
	}
	if mine.seesMySQL() {
		rows = append(rows, sql.Row{"mysql"})
	}
	slices.SortFunc(rows, func(a, b sql.Row) int { return strings.Compare(text(a[0]), text(b[0])) })
	return sql.RowsToRowIter(rows...), nil
}
