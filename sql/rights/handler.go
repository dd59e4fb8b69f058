package rights

import (
	"strings"
	"sync"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/information_schema"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// handler is the engine's handler with what that lacks:
//
//   - the databases godwit and performance_schema are for those with the PROCESS privilege;
//   - who changes rows has to have the right to read them: which rows a condition meets tells what
//     is in them. Our own engine knows of statements that read no column;
//   - what asks for a global privilege takes no privilege of the current database for it;
//   - LOAD DATA LOCAL takes no FILE, and LOAD DATA takes INSERT for what it writes;
//   - FOR UPDATE, and the DEFINER of others, ask for what they ask for in MySQL;
//   - refusals have MySQL's numbers and texts.
type handler struct {
	sql.AuthorizationHandler
	cat   sql.Catalog
	known *known
}

type factory struct {
	sql.AuthorizationHandlerFactory
}

// CreateHandler implements sql.AuthorizationHandlerFactory.
func (f factory) CreateHandler(cat sql.Catalog) sql.AuthorizationHandler {
	return handler{f.AuthorizationHandlerFactory.CreateHandler(cat), cat, newKnown()}
}

// Install makes the engine ask this package. It is to be called before the first engine is made.
var Install = sync.OnceFunc(func() {
	sql.SetAuthorizationHandlerFactory(factory{sql.GetAuthorizationHandlerFactory()})
	installTriggers()
	columns := information_schema.NewColumnsTable // made anew for each use
	information_schema.NewColumnsTable = func() *information_schema.ColumnsTable { return coverColumns(columns()) }
})

// HandleAuth implements sql.AuthorizationHandler.
func (h handler) HandleAuth(ctx *sql.Context, state sql.AuthorizationQueryState, auth sqlparser.AuthInformation) error {
	if s := session.Of(ctx); s != nil {
		if done, err := h.inName(ctx, s, auth); done {
			return err
		}
	}
	err := h.check(ctx, state, auth)
	if sql.ErrPrivilegeCheckFailed.Is(err) || sql.ErrDatabaseAccessDeniedForUser.Is(err) ||
		sql.ErrTableAccessDeniedForUser.Is(err) {
		noteRefusal(ctx, err, worded(ctx, auth, err))
	}
	return err
}

// noteRefusal keeps MySQL's wording of a refusal for the client. The engine goes by the kinds of
// its errors.
func noteRefusal(ctx *sql.Context, err, as error) {
	if s := session.Of(ctx); s != nil {
		s.Stmt.RefusalOf, s.Stmt.Refusal = err.Error(), as
	}
}

// check judges one part of a statement.
func (h handler) check(ctx *sql.Context, state sql.AuthorizationQueryState, auth sqlparser.AuthInformation) error {
	c, ok := h.cat.(*analyzer.Catalog)
	if !ok || !c.MySQLDb.Enabled() {
		return h.AuthorizationHandler.HandleAuth(ctx, state, auth)
	}
	auth, some := judged(ctx, auth)
	if !some {
		return nil
	}
	if s := session.Of(ctx); s != nil && auth.TargetType == sqlparser.AuthTargetType_Global && judgedLater(s.Stmt.Tree) {
		return nil
	}
	mine := Of(ctx, c.MySQLDb)
	if n := loads(ctx, auth); n != nil {
		return h.load(ctx, state, mine, n)
	}
	if auth.AuthType == sqlparser.AuthType_SHOW_CREATE_PROCEDURE && !seesProcedures(ctx, mine, auth) {
		return notPrivileged(ctx)
	}
	if ok, known := mayDatabase(ctx, mine, auth); known {
		if ok {
			return nil
		}
		return notPrivileged(ctx)
	}
	if isGlobal(auth) {
		return h.AuthorizationHandler.HandleAuth(nowhere(ctx), state, auth)
	}
	if err := mayDefine(ctx, mine, auth); err != nil {
		return err
	}
	if err := mayReference(ctx, mine, auth); err != nil {
		return err
	}
	if err := mayCopy(ctx, mine); err != nil {
		return err
	}
	return h.checkHere(ctx, state, mine, auth)
}

// checkHere judges what takes privileges of databases or tables.
func (h handler) checkHere(ctx *sql.Context, state sql.AuthorizationQueryState, mine Set,
	auth sqlparser.AuthInformation) error {
	err := h.AuthorizationHandler.HandleAuth(ctx, state, auth)
	switch {
	case err != nil && (ownGrants(ctx) || describes(ctx, mine) && auth.AuthType == sqlparser.AuthType_SELECT || mayGrantColumns(ctx, mine, auth.Extra) ||
		mayGrantFunction(ctx, mine, auth.Extra)):
		return nil
	case needsColumns(ctx, mine, auth):
		if err := h.columns(ctx, mine, auth); err != nil {
			return err
		}
		return mayLock(ctx, mine, auth)
	case err == nil && (auth.AuthType == sqlparser.AuthType_UPDATE || auth.AuthType == sqlparser.AuthType_DELETE):
		auth.AuthType = sqlparser.AuthType_SELECT
		return h.AuthorizationHandler.HandleAuth(ctx, state, auth)
	case auth.AuthType != sqlparser.AuthType_SELECT || len(auth.TargetNames) == 0:
		return err
	case err == nil:
		return mayLock(ctx, mine, auth)
	case namesSystem(ctx, auth) && mine.Global(sql.PrivilegeType_Process):
		return nil
	}
	return err
}

// loads is the LOAD DATA that a part is about; nil: it is about something else.
func loads(ctx *sql.Context, auth sqlparser.AuthInformation) *sqlparser.Load {
	s := session.Of(ctx)
	if s == nil || auth.AuthType != sqlparser.AuthType_FILE {
		return nil
	}
	n, _ := statementOf(s).(*sqlparser.Load)
	return n
}

// load judges LOAD DATA: INSERT for the columns that it names or sets, DELETE with REPLACE, and
// FILE if the file is the server's.
func (h handler) load(ctx *sql.Context, state sql.AuthorizationQueryState, mine Set, n *sqlparser.Load) error {
	if !bool(n.Local) && !mine.Global(sql.PrivilegeType_File) {
		return notPrivileged(ctx)
	}
	db, table := DatabaseOf(ctx, n.Table.DbQualifier.String()), n.Table.Name.String()
	auth := sqlparser.AuthInformation{AuthType: sqlparser.AuthType_INSERT,
		TargetType: sqlparser.AuthTargetType_SingleTableIdentifier, TargetNames: []string{db, table}}
	err := h.check(ctx, state, auth)
	switch {
	case sql.ErrPrivilegeCheckFailed.Is(err) || sql.ErrDatabaseAccessDeniedForUser.Is(err) ||
		sql.ErrTableAccessDeniedForUser.Is(err):
		return worded(ctx, auth, err)
	case err == nil && strings.EqualFold(strings.TrimSpace(n.IgnoreOrReplace), "replace") &&
		!mine.Table(db, table, sql.PrivilegeType_Delete):
		return Refusal(ctx, "DELETE", table)
	}
	return err
}

// seesProcedures reports whether the user may see the texts of procedures of a database.
func seesProcedures(ctx *sql.Context, r Set, auth sqlparser.AuthInformation) bool {
	return r.Global(sql.PrivilegeType_Select) || r.Database(DatabaseOf(ctx, auth.TargetNames[0]),
		sql.PrivilegeType_CreateRoutine, sql.PrivilegeType_AlterRoutine, sql.PrivilegeType_Execute)
}

func notPrivileged(ctx *sql.Context) error {
	me := ctx.Client()
	return sql.ErrPrivilegeCheckFailed.New(mysql_db.User{User: me.User, Host: me.Address}.UserHostToString("'"))
}

// DatabaseOf is the database that a name without one is looked up in.
func DatabaseOf(ctx *sql.Context, db string) string {
	if db == "" {
		return ctx.GetCurrentDatabase()
	}
	return db
}

// namesSystem reports whether a part of a statement is about one of those databases alone.
func namesSystem(ctx *sql.Context, auth sqlparser.AuthInformation) bool {
	if !systemDatabase(DatabaseOf(ctx, auth.TargetNames[0])) {
		return false
	}
	switch auth.TargetType {
	case sqlparser.AuthTargetType_SingleTableIdentifier, sqlparser.AuthTargetType_TableColumn:
		return true
	case sqlparser.AuthTargetType_DatabaseIdentifiers:
		return len(auth.TargetNames) == 1
	case sqlparser.AuthTargetType_MultipleTableIdentifiers:
		return len(auth.TargetNames) == 2
	}
	return false
}

// ownGrants reports whether a statement shows the user's own grants, which needs no privilege.
func ownGrants(ctx *sql.Context) bool {
	s := session.Of(ctx)
	if s == nil {
		return false
	}
	n, ok := s.Stmt.Tree.(*sqlparser.ShowGrants)
	me := ctx.Client()
	return ok && (n.For == nil || n.For.Name == me.User && hostOf(*n.For) == me.Address)
}

// describes reports whether a statement shows nothing but the columns or keys of a table or view
// that the user sees. Those of a view take no rights to what it is made of.
func describes(ctx *sql.Context, mine Set) bool {
	s := session.Of(ctx)
	if s == nil {
		return false
	}
	n, ok := s.Stmt.Tree.(*sqlparser.Show)
	if !ok || !strings.EqualFold(n.Type, "columns") && !strings.EqualFold(n.Type, "fields") ||
		!mine.Sees(DatabaseOf(ctx, n.Table.DbQualifier.String()), n.Table.Name.String()) {
		return false
	}
	queries := false
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		_, q := n.(*sqlparser.Subquery)
		queries = queries || q
		return !queries, nil
	}, n)
	return !queries && n.Filter == nil
}

// isGlobal reports whether a part of a statement asks for a global privilege.
func isGlobal(auth sqlparser.AuthInformation) bool {
	switch auth.AuthType {
	case sqlparser.AuthType_ALTER_USER, sqlparser.AuthType_BINLOG, sqlparser.AuthType_CREATE_ROLE,
		sqlparser.AuthType_DROP_ROLE, sqlparser.AuthType_GRANT_ROLE, sqlparser.AuthType_REVOKE_ROLE,
		sqlparser.AuthType_REPLICATION:
		return true
	}
	switch n := auth.Extra.(type) {
	case *plan.Grant:
		return n.PrivilegeLevel.Database == "*"
	case *plan.Revoke:
		return n.PrivilegeLevel.Database == "*"
	}
	return auth.TargetType == sqlparser.AuthTargetType_Global
}

// nowhere is a context of a session without a current database. The engine takes the privileges of
// the current one where a statement names none: a user with all privileges for one database could
// grant them for all.
func nowhere(ctx *sql.Context) *sql.Context {
	c := *ctx
	c.Session = sessionNowhere{ctx.Session}
	return &c
}

type sessionNowhere struct{ sql.Session }

// GetCurrentDatabase implements sql.Session.
func (sessionNowhere) GetCurrentDatabase() string { return "" }

// mayDatabase judges CREATE DATABASE and DROP DATABASE, for which the engine asks for a global
// privilege. known is false for other statements.
func mayDatabase(ctx *sql.Context, r Set, auth sqlparser.AuthInformation) (ok, known bool) {
	s := session.Of(ctx)
	if auth.TargetType != sqlparser.AuthTargetType_Global || s == nil {
		return false, false
	}
	n, is := s.Stmt.Tree.(*sqlparser.DBDDL)
	switch {
	case is && auth.AuthType == sqlparser.AuthType_CREATE:
		return r.Database(n.DBName, sql.PrivilegeType_Create), true
	case is && auth.AuthType == sqlparser.AuthType_DROP:
		return r.Database(n.DBName, sql.PrivilegeType_Drop), true
	}
	return false, false
}

// judgedLater reports whether the gateway judges what the engine asks too much for.
func judgedLater(tree sqlparser.Statement) bool {
	switch n := tree.(type) {
	case *sqlparser.Kill:
		return true
	case *sqlparser.Show:
		return strings.EqualFold(n.Type, "processlist") || strings.EqualFold(n.Type, "triggers")
	}
	return false
}

// mayLock refuses FOR UPDATE to users who may only read: their locks would hold up writers.
func mayLock(ctx *sql.Context, r Set, auth sqlparser.AuthInformation) error {
	s := session.Of(ctx)
	if s == nil || auth.TargetType != sqlparser.AuthTargetType_SingleTableIdentifier ||
		s.Stmt.Lock != kv.LockExclusive && !locksForUpdate(s.Stmt.Tree) {
		return nil
	}
	db, table := DatabaseOf(ctx, auth.TargetNames[0]), auth.TargetNames[1]
	if strings.EqualFold(db, "information_schema") || r.Locks(db, table) {
		return nil
	}
	return LockRefusal(ctx, table)
}

// locksForUpdate reports whether some SELECT of a statement has FOR UPDATE.
func locksForUpdate(stmt sqlparser.Statement) bool {
	n, ok := stmt.(sqlparser.SQLNode)
	if !ok {
		return false
	}
	found := false
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		switch s := n.(type) {
		case *sqlparser.Select:
			found = found || s.Lock != nil && session.LockOfText(s.Lock.Type) == kv.LockExclusive
		case *sqlparser.SetOp:
			found = found || s.Lock != nil && session.LockOfText(s.Lock.Type) == kv.LockExclusive
		}
		return !found, nil
	}, n)
	return found
}

// mayDefine refuses the DEFINER of another user.
func mayDefine(ctx *sql.Context, r Set, auth sqlparser.AuthInformation) error {
	switch auth.AuthType {
	case sqlparser.AuthType_CREATE_VIEW, sqlparser.AuthType_TRIGGER, sqlparser.AuthType_CREATE_ROUTINE,
		sqlparser.AuthType_EVENT:
	default:
		return nil
	}
	s := session.Of(ctx)
	if s == nil {
		return nil
	}
	me := ctx.Client()
	name := s.Stmt.Definer()
	if name == (schema.Account{}) || name == (schema.Account{Name: me.User, Host: me.Address}) || r.Dynamic(SetUserID) {
		return nil
	}
	return ErrNeeds("SUPER", SetUserID)
}

// mayReference asks for REFERENCES for the tables, or columns, that foreign keys of a definition
// refer to: who makes one learns which values there are.
func mayReference(ctx *sql.Context, r Set, auth sqlparser.AuthInformation) error {
	switch auth.AuthType {
	case sqlparser.AuthType_CREATE, sqlparser.AuthType_ALTER, sqlparser.AuthType_FOREIGN_KEY:
	default:
		return nil
	}
	s := session.Of(ctx)
	if s == nil {
		return nil
	}
	var parts []*sqlparser.DDL
	switch n := s.Stmt.Tree.(type) {
	case *sqlparser.DDL:
		parts = append(parts, n)
	case *sqlparser.AlterTable:
		parts = n.Statements
	}
	for _, d := range parts {
		if d.TableSpec == nil {
			continue
		}
		for _, c := range d.TableSpec.Constraints {
			fk, ok := c.Details.(*sqlparser.ForeignKeyDefinition)
			if !ok || d.Action == sqlparser.CreateStr && sameTable(ctx, fk.ReferencedTable, d.Table) {
				continue
			}
			db, name := DatabaseOf(ctx, fk.ReferencedTable.DbQualifier.String()), fk.ReferencedTable.Name.String()
			if fk.ReferencedTable.DbQualifier.IsEmpty() && !d.Table.DbQualifier.IsEmpty() {
				db = d.Table.DbQualifier.String()
			}
			for _, col := range fk.ReferencedColumns {
				if !r.Column(db, name, col.String(), sql.PrivilegeType_References) {
					return Refusal(ctx, "REFERENCES", name)
				}
			}
			if !r.SomeColumn(db, name, sql.PrivilegeType_References) {
				return Refusal(ctx, "REFERENCES", name)
			}
		}
	}
	return nil
}

// mayCopy asks for SELECT of the tables that CREATE TABLE ... LIKE shows. The engine refuses those
// that the user does not see.
func mayCopy(ctx *sql.Context, r Set) error {
	s := session.Of(ctx)
	if s == nil {
		return nil
	}
	n, ok := s.Stmt.Tree.(*sqlparser.DDL)
	if !ok || n.OptLike == nil {
		return nil
	}
	for _, t := range n.OptLike.LikeTables {
		db, name := DatabaseOf(ctx, t.DbQualifier.String()), t.Name.String()
		if r.Sees(db, name) && !r.SomeColumn(db, name, sql.PrivilegeType_Select) {
			return Refusal(ctx, "SELECT", name)
		}
	}
	return nil
}

// sameTable reports whether two names are of one table.
func sameTable(ctx *sql.Context, a, b sqlparser.TableName) bool {
	return strings.EqualFold(a.Name.String(), b.Name.String()) && (a.DbQualifier.IsEmpty() ||
		strings.EqualFold(a.DbQualifier.String(), DatabaseOf(ctx, b.DbQualifier.String())))
}

// worded words a refusal as MySQL does.
func worded(ctx *sql.Context, auth sqlparser.AuthInformation, err error) error {
	if e := globalRefusal(ctx, auth); e != nil {
		return e
	}
	if e := databaseRefusal(ctx, auth, err); e != nil {
		return e
	}
	names, command := auth.TargetNames, commandOf(auth)
	if name := definedName(ctx, auth.AuthType); name != "" {
		return Refusal(ctx, command, name)
	}
	switch {
	case len(names) == 0:
		return err
	case auth.TargetType == sqlparser.AuthTargetType_DatabaseIdentifiers:
		return denied(ctx, DatabaseOf(ctx, names[0]))
	case auth.TargetType == sqlparser.AuthTargetType_SingleTableIdentifier,
		auth.TargetType == sqlparser.AuthTargetType_MultipleTableIdentifiers,
		auth.TargetType == sqlparser.AuthTargetType_TableColumn:
		return Refusal(ctx, command, names[1])
	}
	return err
}

// commandOf is the name of a privilege in MySQL's texts.
func commandOf(auth sqlparser.AuthInformation) string {
	return strings.ReplaceAll(strings.ToUpper(auth.AuthType), "_", " ")
}

// globalRefusal is the refusal of what takes a global privilege; nil for other statements.
func globalRefusal(ctx *sql.Context, auth sqlparser.AuthInformation) error {
	switch auth.AuthType {
	case sqlparser.AuthType_GRANT_PRIVILEGE, sqlparser.AuthType_REVOKE_PRIVILEGE:
		return grantRefusal(ctx, auth)
	case sqlparser.AuthType_GRANT_ROLE, sqlparser.AuthType_REVOKE_ROLE:
		return ErrNeeds("WITH ADMIN", "ROLE_ADMIN", "SUPER")
	case sqlparser.AuthType_CREATE_USER, sqlparser.AuthType_ALTER_USER:
		return ErrNeeds("CREATE USER")
	case sqlparser.AuthType_CREATE_ROLE, sqlparser.AuthType_DROP_ROLE:
		return ErrNeeds(commandOf(auth), "CREATE USER")
	case sqlparser.AuthType_PROCESS, sqlparser.AuthType_RELOAD, sqlparser.AuthType_SUPER, sqlparser.AuthType_FILE,
		sqlparser.AuthType_REPLICATION_CLIENT:
		return ErrNeeds(commandOf(auth))
	}
	return nil
}

// denied is the refusal of a database.
func denied(ctx *sql.Context, db string) error {
	me := ctx.Client()
	return mysql.NewSQLError(1044, "42000", "Access denied for user '%s'@'%s' to database '%s'", me.User, me.Address, db)
}

// routineRefusal is the refusal of a procedure.
func routineRefusal(ctx *sql.Context, command, name string) error {
	me := ctx.Client()
	return mysql.NewSQLError(1370, "42000", "%s command denied to user '%s'@'%s' for routine '%s'", command, me.User,
		me.Address, name)
}

// databaseRefusal is the refusal of what MySQL does not word as a refusal of a table; nil for other
// statements.
func databaseRefusal(ctx *sql.Context, auth sqlparser.AuthInformation, err error) error {
	names := auth.TargetNames
	switch auth.AuthType {
	case sqlparser.AuthType_RENAME:
		return Refusal(ctx, "DROP, ALTER", names[1])
	case sqlparser.AuthType_CALL:
		return routineRefusal(ctx, "execute", DatabaseOf(ctx, names[0])+"."+names[1])
	case sqlparser.AuthType_SHOW_CREATE_PROCEDURE:
		return mysql.NewSQLError(1305, "42000", "PROCEDURE does not exist")
	case sqlparser.AuthType_ALTER_ROUTINE:
		return routineRefusal(ctx, "alter routine", DatabaseOf(ctx, names[0]))
	case sqlparser.AuthType_CREATE, sqlparser.AuthType_DROP:
		if s := session.Of(ctx); s != nil && auth.TargetType == sqlparser.AuthTargetType_Global {
			if n, ok := s.Stmt.Tree.(*sqlparser.DBDDL); ok {
				return denied(ctx, n.DBName)
			}
		}
	case sqlparser.AuthType_LOCK:
		if sql.ErrPrivilegeCheckFailed.Is(err) && len(names) > 0 {
			return denied(ctx, DatabaseOf(ctx, names[0]))
		}
	}
	return nil
}

// definedName is the table or view that a statement creates or drops. The engine asks for
// privileges of its database.
func definedName(ctx *sql.Context, kind string) string {
	s := session.Of(ctx)
	if s == nil {
		return ""
	}
	n, ok := s.Stmt.Tree.(*sqlparser.DDL)
	switch {
	case !ok:
	case kind == sqlparser.AuthType_CREATE_VIEW && n.ViewSpec != nil:
		return n.ViewSpec.ViewName.Name.String()
	case kind == sqlparser.AuthType_DROP && len(n.FromViews) > 0:
		return n.FromViews[0].Name.String()
	case kind == sqlparser.AuthType_CREATE:
		return n.Table.Name.String()
	}
	return ""
}

// grantRefusal is MySQL's refusal of a GRANT or REVOKE.
func grantRefusal(ctx *sql.Context, auth sqlparser.AuthInformation) error {
	me := ctx.Client()
	var at plan.PrivilegeLevel
	switch n := auth.Extra.(type) {
	case *plan.Grant:
		at = n.PrivilegeLevel
	case *plan.Revoke:
		at = n.PrivilegeLevel
	}
	switch {
	case at.Database == "*" || at.TableRoutine == "":
		return mysql.NewSQLError(1045, "28000", "Access denied for user '%s'@'%s' (using password: YES)", me.User, me.Address)
	case at.TableRoutine == "*":
		return denied(ctx, DatabaseOf(ctx, at.Database))
	}
	return Refusal(ctx, "GRANT", at.TableRoutine)
}

// CheckTable implements sql.AuthorizationHandler. It hides tables from users without any privilege
// for them, but not from triggers, whose definers are judged ([handler.inName]). For the body of a
// trigger that is being made a table that is hidden is one that does not exist, which is no error
// yet.
func (h handler) CheckTable(ctx *sql.Context, state sql.AuthorizationQueryState, db, sch, table string) error {
	s := session.Of(ctx)
	if s != nil && (s.Stmt.Trigger || s.Temporary(DatabaseOf(ctx, db), table) != nil) {
		return nil
	}
	if err := h.AuthorizationHandler.CheckTable(ctx, state, db, sch, table); err != nil && s != nil && making(s) {
		return sql.ErrTableNotFound.New(table)
	}
	if c, ok := h.cat.(*analyzer.Catalog); ok && describes(ctx, Of(ctx, c.MySQLDb)) {
		return nil
	}
	err := h.AuthorizationHandler.CheckTable(ctx, state, db, sch, table)
	if sql.ErrDatabaseAccessDeniedForUser.Is(err) || sql.ErrTableAccessDeniedForUser.Is(err) {
		noteRefusal(ctx, err, Refusal(ctx, "SELECT", table))
	}
	return err
}
