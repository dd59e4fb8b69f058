package rights

import (
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// Parts of a statement are done in the name of somebody else: the texts of views and of triggers
// that it uses. The parts of a view's text are marked in its syntax tree ([View]); of a trigger it
// is known that it is being bound. Each part is judged with the rights of the definer. A part that
// nothing marks is judged with the user's.

// viewPart is the mark of a part of a view's text.
type viewPart struct {
	view    string          // database.name
	account *schema.Account // nil: the user
	scope   *judgement
}

// viewMark begins what a plan that is made to judge columns says of the text of a view with a
// definer. No statement can say it: nobody is shown such a plan.
var viewMark = "view " + rand.Text() + " "

// binding reports whether a plan is being made only to judge the columns that it uses.
func binding(judged any) bool {
	j, ok := judged.(*judgement)
	return ok && j.binding
}

// viewOf is the view whose text a query of a plan is; ok is false if it is no such text.
func viewOf(text string) (db, name string, ok bool) {
	rest, ok := strings.CutPrefix(text, viewMark)
	db, name, _ = strings.Cut(rest, "\x00")
	return db, name, ok
}

// View marks the text of a view that is about to be bound. definer is nil with SQL SECURITY
// INVOKER: then its parts are done in the name of who reads it, which may be another view.
func View(s *session.Session, d *sqlparser.DDL, db string, definer *schema.Account) {
	if definer == nil {
		definer = s.Stmt.Account
	}
	sel := d.ViewSpec.ViewExpr
	if sel == nil {
		return
	}
	p := &viewPart{view: db + "." + d.ViewSpec.ViewName.Name.String(), account: definer,
		scope: &judgement{tree: sel, text: sqlparser.String(sel)}}
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		if a, ok := n.(sqlparser.AuthNode); ok {
			a.SetExtra(p)
		}
		return true, nil
	}, sel) // it never fails
	if binding(s.Stmt.Columns) || binding(s.Stmt.Scope) {
		d.SubStatementStr = viewMark + db + "\x00" + d.ViewSpec.ViewName.Name.String()
	}
}

// inName judges a part of a statement that is done in the name of a definer; done is false for
// other parts.
func (h handler) inName(ctx *sql.Context, s *session.Session, auth sqlparser.AuthInformation) (done bool, err error) {
	t := s.Stmt.Body
	p, view := auth.Extra.(*viewPart)
	s.Stmt.Account = accountOf(p, t)
	switch {
	case t == nil && making(s) && bodily(auth):
		return true, nil // the body is judged when it is executed
	case !view && t == nil:
		return false, nil
	case !h.enabled() || t != nil && settled(t, auth):
		return true, nil
	case binding(s.Stmt.Columns) || binding(s.Stmt.Scope):
		return true, nil // the plan that is executed is made apart, and judged then
	case view:
		err = h.judgeView(ctx, p, auth)
	default:
		err = h.judgeAs(ctx, t.Definer, auth, t.Scope.(*judgement))
	}
	if t != nil && err != nil {
		t.Refusal = err // the engine asks no privileges for triggers
	}
	return true, err
}

// accountOf is the account in whose name a part is done; nil: the user.
func accountOf(p *viewPart, t *session.Trigger) *schema.Account {
	switch {
	case p != nil:
		return p.account
	case t != nil:
		return t.Definer
	}
	return nil
}

// judgeView judges a part of a view's text.
func (h handler) judgeView(ctx *sql.Context, p *viewPart, auth sqlparser.AuthInformation) error {
	err := h.judgeAs(ctx, p.account, auth, p.scope)
	if wantsRights(err) {
		return mysql.NewSQLError(1356, "HY000", "View '%s' references invalid table(s) or column(s) or "+
			"function(s) or definer/invoker of view lack rights to use them", p.view)
	}
	return err
}

// enabled reports whether privileges are asked for at all.
func (h handler) enabled() bool {
	c, ok := h.cat.(*analyzer.Catalog)
	return ok && c.MySQLDb.Enabled()
}

// settled reports whether nothing is left to judge of a part of a trigger's body.
func settled(t *session.Trigger, auth sqlparser.AuthInformation) bool {
	return t.Definer == nil || t.Judged || t.Refusal != nil || !bodily(auth)
}

// making reports whether the client makes a trigger.
func making(s *session.Session) bool {
	d, ok := s.Stmt.Tree.(*sqlparser.DDL)
	return ok && d.TriggerSpec != nil && d.Action == sqlparser.CreateStr
}

// bodily reports whether a part is neither a trigger nor a view itself, which is a part of what
// uses it.
func bodily(auth sqlparser.AuthInformation) bool {
	return auth.AuthType != sqlparser.AuthType_TRIGGER && auth.AuthType != sqlparser.AuthType_CREATE_VIEW
}

// wantsRights reports whether an error is the want of a privilege.
func wantsRights(err error) bool {
	var me *mysql.SQLError
	return errors.As(err, &me) && slices.Contains([]int{1044, 1045, 1142, 1143, 1227, 1356, 1370}, me.Num)
}

// judgeAs judges a part with the rights of an account; nil: of the user. scope is the text that the
// part belongs to.
func (h handler) judgeAs(ctx *sql.Context, a *schema.Account, auth sqlparser.AuthInformation, scope *judgement) error {
	s, c := session.Of(ctx), h.cat.(*analyzer.Catalog)
	outer := s.Stmt.Scope
	s.Stmt.Scope = scope
	defer func() { s.Stmt.Scope = outer }()
	if a != nil {
		set, err := h.known.account(ctx, c, *a)
		if err != nil {
			return err
		}
		defer With(ctx, c.MySQLDb, set)()
	}
	auth.Extra = nil
	err := h.check(ctx, h.NewQueryState(ctx), auth)
	if sql.ErrPrivilegeCheckFailed.Is(err) || sql.ErrDatabaseAccessDeniedForUser.Is(err) ||
		sql.ErrTableAccessDeniedForUser.Is(err) {
		err = worded(ctx, auth, err)
	}
	if a == nil {
		return err
	}
	return renamed(ctx, err, *a)
}

// renamed has a refusal name the definer instead of the user.
func renamed(ctx *sql.Context, err error, a schema.Account) error {
	var me *mysql.SQLError
	if !errors.As(err, &me) {
		return err
	}
	user := ctx.Client()
	text := strings.Replace(me.Message, "'"+user.User+"'@'"+user.Address+"'", "'"+a.Name+"'@'"+a.Host+"'", 1)
	return mysql.NewSQLError(me.Num, me.State, "%s", text)
}

// known is what is known of definers and their triggers, for as long as privileges and definitions
// stay as they are.
type known struct {
	mu       sync.Mutex
	version  uint64 // of the privileges
	accounts map[schema.Account]knownAccount
	triggers map[verdictKey]*verdict
}

// verdict is what the definer of a trigger may do, and why that is too little; nil: it is not.
type verdict struct {
	set     Set
	refusal error
}

type knownAccount struct {
	set Set
	err error
}

// verdictKey names what a verdict on a trigger holds for: names in it are looked up in the current
// database, and mean what the definitions of that time say.
type verdictKey struct {
	trigger, current, text string
	definer                schema.Account
	changed                base.Timestamp
}

// maxVerdicts bounds the triggers of which it is known what their definers may do.
const maxVerdicts = 4096

func newKnown() *known {
	return &known{accounts: map[schema.Account]knownAccount{}, triggers: map[verdictKey]*verdict{}}
}

// versionOf is the version of the privileges.
func versionOf(ctx *sql.Context, c *analyzer.Catalog) uint64 {
	c.MySQLDb.UserActivePrivilegeSet(ctx) // the session knows it now
	_, v := ctx.GetPrivilegeSet()
	return v
}

// lock forgets what was true of older privileges. k.mu is to be unlocked.
func (k *known) lock(version uint64) {
	if k.mu.Lock(); k.version != version {
		k.version = version
		clear(k.accounts)
		clear(k.triggers)
	}
}

// account are the rights of a definer.
func (k *known) account(ctx *sql.Context, c *analyzer.Catalog, a schema.Account) (Set, error) {
	v := versionOf(ctx, c)
	k.lock(v)
	x, ok := k.accounts[a]
	k.mu.Unlock()
	if !ok {
		x.set, x.err = OfAccount(c.MySQLDb, a.Name, a.Host)
		k.lock(versionOf(ctx, c))
		if k.version == v {
			k.accounts[a] = x
		}
		k.mu.Unlock()
	}
	return x.set, x.err
}

// verdict is what is known of a trigger; nil: nothing.
func (k *known) verdict(version uint64, key verdictKey) *verdict {
	k.lock(version)
	defer k.mu.Unlock()
	return k.triggers[key]
}

// keep notes what was found of a trigger with privileges of a version.
func (k *known) keep(version uint64, key verdictKey, x *verdict) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.version != version {
		return
	}
	if len(k.triggers) >= maxVerdicts {
		clear(k.triggers)
	}
	k.triggers[key] = x
}
