package stored

import (
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/assign"
	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/program"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/token"
)

// Env is what statements need.
type Env struct {
	*ddl.Env
	Rights func(*sql.Context) rights.Set
}

// Name names the statement.
func (st *Statement) Name() string {
	return [...]string{"CREATE FUNCTION", "ALTER FUNCTION", "DROP FUNCTION", "SHOW CREATE FUNCTION"}[st.verb]
}

// Writes reports whether the statement changes something.
func (st *Statement) Writes() bool { return st.verb != show }

// Schema is that of its rows.
func (st *Statement) Schema() sql.Schema {
	if st.verb != show {
		return types.OkResultSchema
	}
	return shownSchema
}

var shownSchema = sql.Schema{
	{Name: "Function", Type: types.Text}, {Name: "sql_mode", Type: types.Text},
	{Name: "Create Function", Type: types.LongText, Nullable: true}, {Name: "character_set_client", Type: types.Text},
	{Name: "collation_connection", Type: types.Text}, {Name: "Database Collation", Type: types.Text},
}

// longestName is how many characters a name may have.
const longestName = 64

// Run executes the statement.
func (st *Statement) Run(ctx *sql.Context, g *Env) ([]sql.Row, error) {
	if st.err != nil {
		return nil, st.err
	}
	if st.db == "" {
		if st.db = ctx.GetCurrentDatabase(); st.db == "" {
			return nil, sql.ErrNoDatabaseSelected.New()
		}
	}
	done := []sql.Row{{types.NewOkResult(0)}}
	may := g.Rights(ctx)
	switch st.verb {
	case create:
		return done, st.make(ctx, g, may)
	case show:
		return st.show(ctx, may)
	}
	if !mayAlter(may, st.db, st.name) {
		me := ctx.Client()
		return nil, mysql.NewSQLError(1370, "42000", "alter routine command denied to user '%s'@'%s' for routine '%s.%s'",
			me.User, me.Address, st.db, st.name)
	}
	if st.verb == drop {
		return done, g.ChangeFunction(ctx, st.db, st.name, st.quiet, nil)
	}
	return done, g.ChangeFunction(ctx, st.db, st.name, false, func(o *schema.ObjectDesc) { st.change(ctx, o) })
}

func mayAlter(may rights.Set, db, name string) bool {
	return may.Database(db, sql.PrivilegeType_AlterRoutine) ||
		may.PrivilegeSet.Database(db).Routine(name, false).Has(sql.PrivilegeType_AlterRoutine)
}

// make makes a function.
func (st *Statement) make(ctx *sql.Context, g *Env, may rights.Set) error {
	me := ctx.Client()
	if !may.Database(st.db, sql.PrivilegeType_CreateRoutine) {
		return mysql.NewSQLError(1044, "42000", "Access denied for user '%s'@'%s' to database '%s'", me.User, me.Address, st.db)
	}
	h := st.prog.Head
	maker := schema.Account{Name: me.User, Host: me.Address}
	definer := maker
	if h.User != "" {
		definer = schema.Account{Name: h.User, Host: h.Host}
	}
	if definer != maker && !may.Dynamic(rights.SetUserID) {
		return rights.ErrNeeds("SUPER", rights.SetUserID)
	}
	if err := st.check(ctx); err != nil {
		return err
	}
	about := ddl.Refuse
	switch {
	case h.Replace:
		if about = ddl.Replace; !mayAlter(may, st.db, st.name) {
			return rights.ErrNeeds("ALTER ROUTINE")
		}
	case h.Absent:
		about = ddl.Leave
	}
	now := ctx.QueryTime().UTC().Truncate(time.Second)
	f := &schema.RoutineDesc{Text: st.text, Access: h.Access, Deterministic: h.Deterministic, Comment: h.Comment,
		Made: definer, Created: now, Modified: now, SQLMode: sql.LoadSqlMode(ctx).String(), Charset: variable(ctx, "character_set_client"),
		Connection: variable(ctx, "collation_connection")}
	if f.Access == "" {
		f.Access = "CONTAINS SQL"
	}
	o := &schema.ObjectDesc{DB: st.db, Name: st.name, Seq: schema.ObjectSeq(), Function: f}
	if !h.Invoker {
		o.Definer = &definer
	}
	snap, err := session.Of(ctx).Snapshot(ctx)
	if err != nil {
		return err
	}
	if d := snap.Database(st.db); d != nil {
		f.Collation = d.Desc.Collation.Name()
	}
	if f.Collation == "" {
		f.Collation = sql.Collation_Default.Name()
	}
	return g.SaveFunction(ctx, o, about)
}

// check refuses functions that cannot be.
func (st *Statement) check(ctx *sql.Context) error {
	switch {
	case len([]rune(st.name)) > longestName:
		return mysql.NewSQLError(1059, "42000", "Identifier name '%s' is too long", st.name)
	case !st.prog.Returning:
		return mysql.NewSQLError(1320, "42000", "No RETURN found in FUNCTION %s.%s", st.db, st.name)
	}
	for _, p := range append(st.prog.Params, program.Param{Type: st.prog.Returns}) {
		if _, err := assign.Variable(p.Name, p.Type, 0); err != nil {
			return err
		}
	}
	if expr.Lookup(st.name) != nil {
		ctx.Session.Warn(&sql.Warning{Level: "Note", Code: 1585,
			Message: "This function '" + st.name + "' has the same name as a native function"})
	}
	return nil
}

func variable(ctx *sql.Context, name string) string {
	v, err := ctx.GetSessionVariable(ctx, name)
	if err != nil {
		return ""
	}
	s, _ := v.(string)
	return s
}

// change is ALTER FUNCTION.
func (st *Statement) change(ctx *sql.Context, o *schema.ObjectDesc) {
	f := o.Function
	if st.options.Access != "" {
		f.Access = st.options.Access
	}
	if st.options.Commented {
		f.Comment = st.options.Comment
	}
	if st.options.Secured {
		made := f.Made
		if o.Definer = &made; st.options.Invoker {
			o.Definer = nil
		}
	}
	f.Modified = ctx.QueryTime().UTC().Truncate(time.Second)
}

// sees reports whether somebody may see the text of a function.
func sees(may rights.Set, o *schema.ObjectDesc, me sql.Client) bool {
	return may.Global(sql.PrivilegeType_Select) || may.Database(o.DB, sql.PrivilegeType_CreateRoutine, sql.PrivilegeType_AlterRoutine,
		sql.PrivilegeType_Execute) || may.PrivilegeSet.Database(o.DB).Routine(o.Name, false).Count() > 0 ||
		o.Function.Made == (schema.Account{Name: me.User, Host: me.Address})
}

// show is SHOW CREATE FUNCTION.
func (st *Statement) show(ctx *sql.Context, may rights.Set) ([]sql.Row, error) {
	o, err := session.Of(ctx).Function(ctx, st.db, st.name)
	if err != nil {
		return nil, err
	}
	if o == nil || !sees(may, o, ctx.Client()) {
		return nil, mysql.NewSQLError(1305, "42000", "FUNCTION %s does not exist", st.name)
	}
	f := o.Function
	text, err := Text(o)
	if err != nil {
		return nil, err
	}
	return []sql.Row{{o.Name, f.SQLMode, text, f.Charset, f.Connection, f.Collation}}, nil
}

// Text is a function as SHOW CREATE FUNCTION words it.
func Text(o *schema.ObjectDesc) (string, error) {
	f := o.Function
	p, err := program.Parse(f.Text, token.ModeOf(f.SQLMode))
	if err != nil {
		return "", err
	}
	returns, err := shownType(p.Returns, f)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("CREATE DEFINER=" + quoted(f.Made.Name) + "@" + quoted(f.Made.Host) + " FUNCTION " + quoted(o.Name) + "(" +
		p.Head.Params + ") RETURNS " + returns + "\n")
	if f.Access != "CONTAINS SQL" {
		b.WriteString("    " + f.Access + "\n")
	}
	if f.Deterministic {
		b.WriteString("    DETERMINISTIC\n")
	}
	if o.Definer == nil {
		b.WriteString("    SQL SECURITY INVOKER\n")
	}
	if f.Comment != "" {
		b.WriteString("    COMMENT '" + strings.NewReplacer(`\`, `\\`, "'", "''", "\n", `\n`).Replace(f.Comment) + "'\n")
	}
	return b.String() + f.Text[p.From:p.To], nil
}

func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// shownType is the type that a function returns, with its character set.
func shownType(typ string, f *schema.RoutineDesc) (string, error) {
	c, err := columnOf("", typ, f)
	if err != nil {
		return "", err
	}
	text := typeText(c)
	if c.Kind == schema.KindString {
		set := c.Collation.CharacterSet()
		text += " CHARSET " + set.Name()
		if set.DefaultCollation() != c.Collation {
			text += " COLLATE " + c.Collation.Name()
		}
	}
	return text, nil
}

// columnOf is a variable of a function as a column.
func columnOf(name, typ string, f *schema.RoutineDesc) (*schema.Column, error) {
	coll, err := sql.ParseCollation("", f.Collation, false)
	if err != nil {
		return nil, err
	}
	return assign.Variable(name, typ, coll)
}
