package rights

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/session"
)

// A trigger is executed with the rights of its definer, as they are at each execution:
//
//   - the engine binds the texts of triggers anew for each change. What the body asks for is judged
//     with the definer's rights then ([handler.inName]), and kept for as long as privileges and
//     definitions stay as they are;
//   - a trigger whose definer may not do something that the body says fails at the first row that
//     it is fired for ([RunBody]), whether or not that row would have come to the place;
//   - names in it are those of its database. The engine looked them up in the current one, and took
//     a trigger whose table it did not find there for none: who used another database fired none;
//   - what asks for rights while it is executed (procedures, information_schema) finds those of the
//     definer.
//
// The engine's plans say nothing of where a trigger comes from. The block that is its body bears
// the trigger's key as its label, which has no other use there.

// installTriggers puts judge around the engine's rule that binds triggers. The list that the rule
// is in is all analyzers': they use it for plain changes whatever rules they have themselves.
func installTriggers() {
	for i, r := range analyzer.OnceAfterAll {
		if r.Id.String() == "applyTriggers" {
			analyzer.OnceAfterAll[i].Apply = named(r.Apply)
			return
		}
	}
	panic("rights: the engine has no rule applyTriggers any more, and triggers would have no definers")
}

// named has triggers executed in the name of their definers.
func named(apply analyzer.RuleFunc) analyzer.RuleFunc {
	return func(ctx *sql.Context, a *analyzer.Analyzer, n sql.Node, scope *plan.Scope, sel analyzer.RuleSelector,
		flags *sql.QueryFlags) (sql.Node, transform.TreeIdentity, error) {
		s := session.Of(ctx)
		h, ok := a.Catalog.AuthHandler.(handler)
		if s == nil || !ok || !a.Catalog.MySQLDb.Enabled() {
			return apply(ctx, a, n, scope, sel, flags)
		}
		f := &firing{ctx: ctx, h: h, c: a.Catalog, s: s, version: versionOf(ctx, a.Catalog)}
		outer, body, listed := s.Stmt.Firing, s.Stmt.Body, s.Stmt.Triggers
		own := &session.Firing{Bound: map[string]*session.Trigger{}, New: f.bind}
		s.Stmt.Firing, s.Stmt.Body = own, nil
		current := s.BaseSession.GetCurrentDatabase()
		defer func() {
			s.Stmt.Firing, s.Stmt.Body, s.Stmt.Triggers = outer, body, listed
			s.SetCurrentDatabase(current)
		}()
		out, same, err := seeing(ctx, a.Catalog, func() (sql.Node, transform.TreeIdentity, error) {
			return apply(ctx, a, n, scope, sel, flags)
		})
		if err != nil || len(own.Bound) == 0 {
			return out, same, err
		}
		s.Stmt.Body = nil
		out, changed, err := f.fire(out, own.Bound)
		return out, same && changed, err
	}
}

// seeing binds triggers. The engine looks up what they name, in databases that the user need not
// see, and takes a trigger whose table it does not find for none.
func seeing(ctx *sql.Context, c *analyzer.Catalog, bind func() (sql.Node, transform.TreeIdentity, error)) (sql.Node,
	transform.TreeIdentity, error) {
	defer With(ctx, c.MySQLDb, everything())()
	return bind()
}

var everything = sync.OnceValue(All)

// firing are the triggers of one change.
type firing struct {
	ctx     *sql.Context
	h       handler
	c       *analyzer.Catalog
	s       *session.Session
	version uint64 // of the privileges
}

// key names what a verdict on a trigger holds for; ok is false while the definitions are those of
// the session's own transaction.
func (f *firing) key(t *session.Trigger) (k verdictKey, ok bool) {
	if tx := f.s.Txn(); tx != nil && (tx.Schema != nil || tx.AsOf != 0) {
		return k, false
	}
	snap, err := f.s.Snapshot(f.ctx)
	if err != nil {
		return k, false
	}
	return verdictKey{trigger: t.Key(), current: f.ctx.GetCurrentDatabase(), text: t.Text, definer: *t.Definer,
		changed: snap.Changed}, true
}

// bind begins to judge a trigger that the engine binds.
func (f *firing) bind(t *session.Trigger) {
	if t.Definer == nil {
		return
	}
	text := t.Text
	if short := t.Tree.SubStatementPositionEnd - len(text); short > 0 {
		text += strings.Repeat(" ", short)
	}
	t.Scope = &judgement{tree: t.Tree, text: text}
	if k, ok := f.key(t); ok {
		if v := f.h.known.verdict(f.version, k); v != nil {
			t.Judged, t.Rights, t.Refusal = true, v.set.PrivilegeSet, v.refusal
		}
	}
}

// fire gives the triggers of a plan their verdicts, and the bodies their keys.
func (f *firing) fire(n sql.Node, bound map[string]*session.Trigger) (sql.Node, transform.TreeIdentity, error) {
	return transform.NodeWithCtx(f.ctx, n, outside, func(ctx *sql.Context, c transform.Context) (sql.Node,
		transform.TreeIdentity, error) {
		if ins, ok := c.Node.(*plan.InsertInto); ok { // its source is no child
			source, same, err := f.fire(ins.Source, bound)
			if err != nil || same == transform.SameTree {
				return ins, transform.SameTree, err
			}
			return ins.WithSource(source), transform.NewTree, nil
		}
		x, ok := c.Node.(*plan.TriggerExecutor)
		if !ok || labelled(x.Right()) {
			return c.Node, transform.SameTree, nil
		}
		t, err := f.trigger(x.TriggerDefinition.Name, bound)
		if err != nil {
			return nil, transform.SameTree, err
		}
		f.judge(t)
		if f.s.Triggers == nil {
			f.s.Triggers = map[string]*session.Trigger{}
		}
		f.s.Triggers[t.Key()] = t
		body, ok := keyed(x.Right(), t)
		if !ok {
			return c.Node, transform.SameTree, nil
		}
		y := plan.NewTriggerExecutor(x.Left(), body, x.TriggerEvent, x.TriggerTime, x.TriggerDefinition)
		return y, transform.NewTree, nil
	})
}

// outside leaves out the bodies of triggers, which have been through the rule themselves.
func outside(_ *sql.Context, c transform.Context) bool {
	_, ok := c.Parent.(*plan.TriggerExecutor)
	return !ok || c.ChildNum == 0
}

// trigger is the one of a name among those that were bound. A change of several databases that have
// triggers of one name in the names of different accounts cannot tell them apart.
func (f *firing) trigger(name string, bound map[string]*session.Trigger) (found *session.Trigger, err error) {
	for _, t := range bound {
		switch {
		case !strings.EqualFold(t.Name, name):
		case found != nil && !reflect.DeepEqual(found.Definer, t.Definer):
			return nil, mysql.NewSQLError(1235, "42000", "This version of Godwit doesn't yet support 'several changes in one "+
				"trigger that fire triggers named %s of different definers'", name)
		default:
			found = t
		}
	}
	if found == nil {
		return nil, mysql.NewSQLError(1360, "HY000", "Trigger does not exist")
	}
	return found, nil
}

// labelMark begins the label of a body.
const labelMark = "\x00trigger\x00"

func labelled(body sql.Node) bool {
	b, ok := body.(*plan.TriggerBeginEndBlock)
	return ok && strings.HasPrefix(b.BeginEndBlock.Label, labelMark)
}

// keyed is a body with the key of its trigger; ok is false if it may stay as it is: a statement
// that is allowed, and asks for no rights while it is executed.
func keyed(body sql.Node, t *session.Trigger) (keyed sql.Node, ok bool) {
	b, block := body.(*plan.TriggerBeginEndBlock)
	switch {
	case block:
		return plan.NewTriggerBeginEndBlock(plan.NewBeginEndBlock(labelMark+t.Key(), plan.NewBlock(b.Children()))), true
	case t.Refusal != nil:
		return plan.NewTriggerBeginEndBlock(plan.NewBeginEndBlock(labelMark+t.Key(), plan.NewBlock([]sql.Node{body}))), true
	}
	return nil, false
}

// judge finds the verdict on a trigger that is fired, whose body was judged while it was bound.
func (f *firing) judge(t *session.Trigger) {
	if t.Definer == nil || t.Judged {
		return
	}
	set, err := f.h.known.account(f.ctx, f.c, *t.Definer)
	switch {
	case err != nil:
		t.Refusal = err
	case !set.Table(t.DB, t.Table, sql.PrivilegeType_Trigger):
		t.Refusal = renamed(f.ctx, Refusal(f.ctx, "TRIGGER", t.Table), *t.Definer)
	case t.Refusal == nil:
		t.Refusal = renamed(f.ctx, set.ownRow(f.ctx, t), *t.Definer)
	}
	t.Rights, t.Judged = set.PrivilegeSet, true
	if k, ok := f.key(t); ok {
		f.h.known.keep(f.version, k, &verdict{set, t.Refusal})
	}
}

// ownRow asks for the privileges for the columns of the row that a trigger is fired for: SELECT for
// those that it reads, UPDATE for those that it sets.
func (s Set) ownRow(ctx *sql.Context, t *session.Trigger) error {
	u := &rowUse{}
	u.walk(reflect.ValueOf(t.Tree.TriggerSpec.Body))
	for _, c := range u.read {
		if !s.Column(t.DB, t.Table, c, sql.PrivilegeType_Select) {
			return ColumnRefusal(ctx, "SELECT", c, t.Table)
		}
	}
	for _, c := range u.set {
		if !s.Column(t.DB, t.Table, c, sql.PrivilegeType_Update) {
			return ColumnRefusal(ctx, "UPDATE", c, t.Table)
		}
	}
	return nil
}

// rowUse are the columns of OLD and NEW that a body uses.
type rowUse struct{ read, set []string }

// walk looks at all that is in a syntax tree. The parser's own Walk leaves conditions of IF and
// WHILE out.
func (u *rowUse) walk(v reflect.Value) {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return
		}
		if v.Kind() == reflect.Interface || !u.column(v) {
			u.walk(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			u.walk(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				u.walk(v.Field(i))
			}
		}
	}
}

// column notes a column, or an assignment to one. It reports whether that is all there is below.
func (u *rowUse) column(v reflect.Value) bool {
	switch n := v.Interface().(type) {
	case *sqlparser.ColName:
		if c, ok := ofRow(n); ok && !slices.Contains(u.read, c) {
			u.read = append(u.read, c)
		}
		return true
	case *sqlparser.SetVarExpr:
		c, ok := ofRow(n.Name)
		if !ok {
			return false
		}
		u.set = append(u.set, c)
		u.walk(reflect.ValueOf(n.Expr))
		return true
	}
	return false
}

// ofRow is the column of OLD or NEW that a name is.
func ofRow(n *sqlparser.ColName) (column string, ok bool) {
	q := n.Qualifier.Name.String()
	return n.Name.String(), strings.EqualFold(q, "old") || strings.EqualFold(q, "new")
}

// firedBy is the trigger whose body a block is; err is why it must not be executed.
func firedBy(s *session.Session, n *plan.TriggerBeginEndBlock) (*session.Trigger, error) {
	key, ok := strings.CutPrefix(n.BeginEndBlock.Label, labelMark)
	t := s.Triggers[key]
	if !ok || t == nil {
		return nil, mysql.NewSQLError(1105, "HY000", "it is not known in whose name a trigger is executed: try again, "+
			"and report this if it goes on")
	}
	return t, t.Refusal
}

// act begins to do something in the name of the definer of a trigger, in the database of the
// trigger.
func act(ctx *sql.Context, c *analyzer.Catalog, s *session.Session, t *session.Trigger) (end func()) {
	back := func() {}
	if t.Definer != nil {
		back = With(ctx, c.MySQLDb, Set{PrivilegeSet: t.Rights})
	}
	current := s.BaseSession.GetCurrentDatabase()
	s.SetCurrentDatabase(t.DB)
	return func() {
		s.SetCurrentDatabase(current)
		back()
	}
}

// bodyIter executes the body of a trigger.
type bodyIter struct {
	sql.RowIter
	act func() (end func())
}

// Next implements sql.RowIter.
func (i *bodyIter) Next(ctx *sql.Context) (sql.Row, error) {
	defer i.act()()
	return i.RowIter.Next(ctx)
}

// Close implements sql.RowIter.
func (i *bodyIter) Close(ctx *sql.Context) error {
	defer i.act()()
	return i.RowIter.Close(ctx)
}

// RunBody executes the body of a trigger, which build builds, in the name of its definer.
func RunBody(ctx *sql.Context, c *analyzer.Catalog, s *session.Session, n *plan.TriggerBeginEndBlock,
	build func() (sql.RowIter, error)) (sql.RowIter, error) {
	t, err := firedBy(s, n)
	if err != nil {
		return nil, err
	}
	act := func() func() { return act(ctx, c, s, t) }
	end := act()
	it, err := build()
	end()
	if err != nil {
		return nil, err
	}
	return &bodyIter{it, act}, nil
}
