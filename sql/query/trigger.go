package query

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/access"
	"github.com/godwitdb/godwit/sql/assign"
	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/program"
	"github.com/godwitdb/godwit/sql/result"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/rowlist"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// Triggers run row by row, while the rows of a change are written. A BEFORE trigger sees the row
// as it would be stored, and may change it: generated columns and conditions are computed again
// then, and what must not be NULL is looked at only afterwards. What the triggers write is part of
// the statement: if a row fails, all of it is undone.

// firing is a trigger that a change may fire.
type firing struct {
	o       *schema.ObjectDesc
	program *program.Program
	// refusal is why its definer may not run it; judged: that is known.
	refusal error
	judged  bool
	rights  *rights.Set // of the definer; nil: the user's
}

// triggers are those of a target, in the order in which they fire.
type triggers struct {
	before, after map[string][]*firing // by event
	// derived and checks are what follows from the values of a row.
	rows            *rowset
	derived, checks []*formula
	touched         []*formula // ON UPDATE
}

// has reports whether a trigger fires at an event.
func (t *triggers) has(before bool, event string) bool {
	if t == nil {
		return false
	}
	return len(t.at(before, event)) > 0
}

func (t *triggers) at(before bool, event string) []*firing {
	if before {
		return t.before[event]
	}
	return t.after[event]
}

// firings finds the triggers of a table for some events; nil if there are none.
func (c *change) firings(d *schema.Database, table string, events []string) (*triggers, error) {
	t := &triggers{before: map[string][]*firing{}, after: map[string][]*firing{}}
	found := false
	for _, o := range d.ObjectsInOrder(schema.IxTrigger) {
		if c.s.Replicates || !strings.EqualFold(schema.TriggerTable(o.Trigger.CreateStatement), table) {
			continue
		}
		p, err := c.r.programs.Get(o.Trigger.CreateStatement, o.Trigger.SqlMode)
		if err != nil {
			return nil, left("trigger that is not understood")
		}
		if !slices.Contains(events, p.Trigger.Event) {
			continue
		}
		found = true
		m := t.after
		if p.Trigger.Before {
			m = t.before
		}
		m[p.Trigger.Event] = placed(m[p.Trigger.Event], &firing{o: o, program: p})
	}
	if !found {
		return nil, nil
	}
	return t, nil
}

// placed puts a trigger where FOLLOWS or PRECEDES says.
func placed(list []*firing, f *firing) []*firing {
	h := f.program.Trigger
	for i, x := range list {
		switch {
		case h.Follows != "" && strings.EqualFold(x.o.Name, h.Follows):
			return slices.Insert(list, i+1, f)
		case h.Precedes != "" && strings.EqualFold(x.o.Name, h.Precedes):
			return slices.Insert(list, i, f)
		}
	}
	return append(list, f)
}

// fired prepares a target for its triggers.
func (c *change) fired(t *target) error {
	tr := t.fires
	if tr == nil || len(tr.before) == 0 {
		return nil
	}
	if slices.ContainsFunc(t.Checks, func(k bind.CheckValue) bool { return k.View }) ||
		c.c.Insert != nil && slices.ContainsFunc(c.c.Insert.Checks, func(k bind.Formula) bool { return k.View }) {
		return left("BEFORE triggers below a view with CHECK OPTION")
	}
	tab := t.Table.(*access.Table)
	b, err := bind.Follows(t.Table, c.facts(nil))
	if err != nil {
		return err
	}
	tr.rows = newRowset(tab, b.IDs, b.Derived, b.Checks, b.OnUpdate)
	if tr.derived, err = c.compile(c.env, t, b.Derived, b.IDs, c.strict); err != nil {
		return err
	}
	if tr.touched, err = c.compile(c.env, t, b.OnUpdate, b.IDs, c.strict); err != nil {
		return err
	}
	tr.checks, err = c.compile(c.env, t, b.Checks, b.IDs, c.strict)
	return err
}

// fire runs the triggers of an event for a row. changed: they have changed the new row.
func (w *writer) fire(before bool, event string, old, row sql.Row) (changed bool, err error) {
	if !w.fires.has(before, event) {
		return false, nil
	}
	if !before {
		if err := w.e.Txn.Flush(w.ctx, nil); err != nil { // they may read the table
			return false, err
		}
	}
	p := w.change.runs(w.target)
	p.rows = rowPair{target: w.target, old: old, new: row, before: before, values: p.rows.values}
	for _, f := range w.fires.at(before, event) {
		if err := w.change.fireOne(p, f); err != nil {
			return false, err
		}
	}
	return p.rows.changed, nil
}

// runs is what runs the triggers of a target.
func (c *change) runs(t *target) *routine {
	if t.routine == nil {
		t.routine = c.r.newRoutine(c.ctx, c.s)
		t.routine.sub = true
		t.routine.rows.values = newRowset(t.Table.(*access.Table), nil)
		if c.in != nil {
			t.routine.outer = c.in.frame
		}
	}
	return t.routine
}

// fireOne runs one trigger, in the name of its definer, with a statement of its own in the session.
func (c *change) fireOne(p *routine, f *firing) (err error) {
	if err := p.judge(f); err != nil {
		return err
	}
	return p.apart(func() error {
		end, err := p.actAs(f.o, f.rights, f.o.Trigger.SqlMode)
		if err != nil {
			return err
		}
		defer end()
		fr := &program.Frame{Host: p, Program: f.program, DB: f.o.DB, Outer: p.outer, Data: f.o.Trigger}
		if err = p.tooDeep(fr); err == nil {
			err = fr.Run()
		}
		if f.o.Definer != nil {
			err = rights.Named(p.ctx, err, *f.o.Definer)
		}
		return err
	})
}

// tooDeep refuses programs that call each other endlessly.
func (p *routine) tooDeep(f *program.Frame) error {
	if p.depth(f) > deepest {
		return mysql.NewSQLError(1436, "HY000", "Thread stack overrun: programs call each other more than %d deep", deepest)
	}
	return nil
}

// apart runs a program as a part of the statement at hand, and of its transaction. Afterwards the
// session knows the same of that statement as before.
func (p *routine) apart(run func() error) error {
	s := p.s
	stmt, explicit := s.Stmt, s.GetIgnoreAutoCommit()
	info := p.ctx.GetLastQueryInfo()
	rows, found, id := info.RowCount.Load(), info.FoundRows.Load(), info.LastInsertId.Load()
	s.SetIgnoreAutoCommit(true)
	err := run()
	if !explicit {
		s.SetIgnoreAutoCommit(false)
	}
	duplicate := s.Stmt.Duplicate
	s.Stmt = stmt
	if err != nil {
		s.Stmt.Duplicate = duplicate
	}
	info.RowCount.Store(rows)
	info.FoundRows.Store(found)
	info.LastInsertId.Store(id)
	return err
}

// nested reports whether the change is part of a trigger or function: what it asks for is read
// ahead with the rows of the statement around it.
func (c *change) nested() bool {
	if c.in == nil {
		return false
	}
	p, ok := c.in.frame.Host.(*routine)
	return ok && p.sub
}

// inUse refuses a change, by a trigger or function, of a table that the statement around it uses.
func (c *change) inUse(t *bind.Target) error {
	if c.in == nil {
		return nil
	}
	id := t.Table.(*access.Table).Stored().Def.Desc.ID
	for f := c.in.frame; f != nil; f = f.Outer {
		if p, ok := f.Host.(*routine); ok && p.uses(id) {
			return &bind.Refusal{Err: mysql.NewSQLError(1442, "HY000", "Can't update table '%s' in stored function/trigger because "+
				"it is already used by statement which invoked this stored function/trigger.", t.Table.Name())}
		}
	}
	return nil
}

func (p *routine) depth(f *program.Frame) (n int) {
	for ; f != nil; f = f.Outer {
		n++
	}
	return n
}

// judge asks whether the definer of a trigger may have it run, and may read and set the columns of
// the row that it names.
func (p *routine) judge(f *firing) error {
	d, db := f.o.Definer, p.r.Engine.Analyzer.Catalog.MySQLDb
	if !f.judged && d != nil {
		if set, err := rights.OfAccount(db, d.Name, d.Host); err != nil {
			f.refusal = err
		} else if f.rights = &set; db.Enabled() {
			f.refusal = set.MayFire(p.ctx, *d, f.o.DB, f.program.Trigger.Table, f.program.Reads, f.program.Sets)
		}
	}
	f.judged = true
	return f.refusal
}

// column is a column of OLD or NEW; nil if the row is another one.
func (p *routine) column(row, name string) (expr.Node, error) {
	t := p.rows.target
	var from sql.Row
	switch {
	case t == nil:
		return nil, nil
	case strings.EqualFold(row, "new"):
		from = p.rows.new
	case strings.EqualFold(row, "old"):
		from = p.rows.old
	default:
		return nil, nil
	}
	if from == nil {
		return nil, mysql.NewSQLError(1363, "HY000", "There is no %s row in on %s trigger", strings.ToUpper(row), p.event())
	}
	pos := p.position(name)
	if pos < 0 {
		return nil, mysql.NewSQLError(1054, "42S22", "Unknown column '%s' in '%s'", name, strings.ToUpper(row))
	}
	x := from[pos]
	col := t.st.Def.Cols[pos]
	typ := p.rows.values.vals.Type(pos)
	if x == nil && col.Desc.AutoInc && p.rows.before && p.rows.old == nil {
		return &expr.Const{V: expr.Value{Kind: typ.Kind}, T: typ}, nil // the counter has not given it yet
	}
	var v expr.Vec
	v.Reset(typ, 1)
	if err := p.rows.values.vals.Put(&v, 0, pos, x); err != nil {
		return nil, err
	}
	value := v.At(0)
	value.S = strings.Clone(value.S)
	return constantOf(program.Value{V: value, T: typ}), nil
}

// event is what the trigger fires at, for messages.
func (p *routine) event() string {
	switch {
	case p.rows.old == nil:
		return "INSERT"
	case p.rows.new == nil:
		return "DELETE"
	}
	return "UPDATE"
}

func (p *routine) position(name string) int {
	return slices.IndexFunc(p.rows.target.st.Def.Cols, func(c *schema.Column) bool {
		return strings.EqualFold(c.Desc.Name, name)
	})
}

// SetRow implements program.Host.
func (p *routine) SetRow(f *program.Frame, row, column string, x program.Value) error {
	t := p.rows.target
	switch {
	case t == nil || row != "new" && row != "old":
		return mysql.NewSQLError(1193, "HY000", "Unknown system variable '%s'", column)
	case row == "old":
		return mysql.NewSQLError(1362, "HY000", "Updating of OLD row is not allowed in trigger")
	case p.rows.new == nil:
		return mysql.NewSQLError(1363, "HY000", "There is no NEW row in on %s trigger", p.event())
	case !p.rows.before:
		return mysql.NewSQLError(1362, "HY000", "Updating of NEW row is not allowed in after trigger")
	}
	pos := p.position(column)
	if pos < 0 {
		return mysql.NewSQLError(1054, "42S22", "Unknown column '%s' in 'NEW'", column)
	}
	col := t.st.Def.Cols[pos]
	if col.Desc.Generated != nil {
		return mysql.NewSQLError(3105, "HY000", "The value specified for generated column '%s' in table '%s' is not allowed.",
			col.Desc.Name, t.st.Name())
	}
	st, err := p.evaluator()
	if err != nil {
		return err
	}
	v, err := p.stored(st, col, x)
	if err != nil {
		return p.told(err)
	}
	p.rows.new[pos], p.rows.changed = v, true
	return nil
}

// stored is a value as a column stores it; NULL is looked at when the triggers are done.
func (p *routine) stored(st *statement, col *schema.Column, x program.Value) (any, error) {
	if x.V.IsNull() {
		return nil, nil
	}
	s, err := assign.New(p.ctx, st.env, col, x.T)
	if err != nil && x.T.Kind == expr.JSON {
		x.V.Kind, x.T = expr.Text, expr.TextType(0, sql.Collation_utf8mb4_bin, expr.CoerceImplicit)
		s, err = assign.New(p.ctx, st.env, col, x.T)
	}
	if err != nil {
		return nil, mysql.NewSQLError(1235, "42000", "This version of Godwit doesn't yet support '%s'", reasonOf(err))
	}
	s.Strict, s.Nulls = sql.LoadSqlMode(p.ctx).Strict(), assign.TakeNull
	var in expr.Vec
	in.Reset(x.T, 1)
	in.Put(0, x.V)
	v, err := s.Value(&in, 0, 1)
	if reason, ok := assign.IsLate(err); ok {
		return nil, mysql.NewSQLError(1235, "42000", "This version of Godwit doesn't yet support '%s'", reason)
	}
	return v, err
}

// beforeInsert runs the BEFORE INSERT triggers of a row, and computes what follows from it, and
// which condition it does not fulfil.
func (w *writer) beforeInsert(p *rowlist.Row, number int) error {
	if !w.fires.has(true, "insert") {
		return nil
	}
	changed, err := w.fire(true, "insert", nil, p.Vals)
	if err != nil {
		return err
	}
	if err := w.filled(p.Vals, nil); err != nil {
		return err
	}
	if changed {
		p.Failed, err = w.derive(p.Vals, number)
	}
	return err
}

// filled refuses NULL where it may not be, after the triggers.
func (w *writer) filled(row, old sql.Row) error {
	for pos, x := range row {
		col := w.st.Def.Cols[pos]
		if x != nil || col.Desc.Nullable || col.Desc.Generated != nil || pos == w.at && old == nil || col.Desc.Hidden && old == nil && col.Desc.HiddenSystem {
			continue
		}
		s, err := w.setter(w.env, w.target, pos, expr.TypeNull, w.strict)
		if err != nil {
			return err
		}
		missing := w.ins != nil && slices.ContainsFunc(w.ins.missing, func(m *setter) bool { return m.Pos == pos })
		if missing {
			row[pos], err = s.ByDefault()
		} else {
			row[pos], err = s.Null()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// derive computes generated columns of a row, and the number of a condition that it does not
// fulfil.
func (w *writer) derive(row sql.Row, number int) (failed int, err error) {
	t := w.fires
	rows := [][]sql.Row{{row}}
	err = w.change.follow(t.rows, t.derived, t.checks, rows, number, func(_, k int) {
		if failed == 0 {
			failed = k
		}
	})
	copy(row, rows[0][0])
	return failed, err
}

// beforeInstead runs the BEFORE UPDATE triggers of a row that ON DUPLICATE KEY UPDATE changes.
func (w *writer) beforeInstead(old, next sql.Row, was bool, check, number int) (changed bool, failed int, err error) {
	set, err := w.fire(true, "update", old, next)
	if err != nil || !set {
		return was, check, err
	}
	if err := w.filled(next, old); err != nil {
		return false, 0, err
	}
	if changed, err = w.differs(old, next); err != nil || !changed {
		copy(next, old)
		return changed, 0, err
	}
	failed, err = w.derive(next, number)
	return changed, failed, err
}

// endFiring ends what has run triggers.
func (c *change) endFiring() {
	for _, t := range c.targets {
		if t.routine != nil {
			t.routine.close()
			t.routine = nil
		}
	}
}

// updating changes a row with its triggers. It returns whether that changes it.
func (w *writer) updating(p *rowlist.Row, number int) (changed bool, err error) {
	at, old, row, changed, err := w.becomes(p)
	if err != nil {
		return false, err
	}
	event := "update"
	if w.c.Kind == bind.Delete {
		event, changed = "delete", true
	}
	set, err := w.fire(true, event, old, row)
	if err != nil {
		return false, err
	}
	if row != nil && set {
		if err := w.filled(row, old); err != nil {
			return false, err
		}
		if changed, err = w.differs(old, row); err != nil {
			return false, err
		}
		if !changed {
			copy(row, old) // also what follows from the values that the triggers took back
		} else {
			for _, f := range w.fires.touched {
				if same, err := assign.Same(w.ctx, w.st.Def.Cols[f.Col], old[f.Col], row[f.Col]); err != nil || !same {
					continue
				}
				if err := w.touch(f, row, number); err != nil {
					return false, err
				}
			}
			if p.Failed, err = w.derive(row, number); err != nil {
				return false, err
			}
		}
	}
	if changed && p.Failed != 0 && row != nil {
		if set {
			return false, assign.Violated(w.fires.checks[p.Failed-1].Name, false)
		}
		return false, assign.Violated(w.Checks[p.Failed-1].Name, w.Checks[p.Failed-1].View)
	}
	switch {
	case !changed:
	case w.refs != nil:
		if changed, err = w.follow(at.Key, old, row); err != nil {
			return false, err
		}
	case row == nil:
		err = w.e.DeleteAt(w.ctx, at, old)
	default:
		err = w.e.UpdateAt(w.ctx, at, old, row)
	}
	if err != nil {
		return false, err
	}
	_, err = w.fire(false, event, old, row)
	return changed, err
}

// touch computes ON UPDATE of a column.
func (w *writer) touch(f *formula, row sql.Row, number int) error {
	rows := [][]sql.Row{{row}}
	if err := w.fires.rows.load(rows); err != nil {
		return err
	}
	return w.fires.rows.set(f, rows, number)
}

// differs reports whether a column has another value.
func (w *writer) differs(old, row sql.Row) (bool, error) {
	for pos, col := range w.st.Def.Cols {
		if col.Desc.Generated != nil {
			continue
		}
		eq, err := assign.Same(w.ctx, col, old[pos], row[pos])
		if err != nil || !eq {
			return !eq, err
		}
	}
	return false, nil
}

// becomes is a row as it is, and as the statement makes it.
func (w *writer) becomes(p *rowlist.Row) (at kv.Row, old, row sql.Row, changed bool, err error) {
	at, old, row, err = w.changed(p)
	if err != nil || w.c.Kind == bind.Delete {
		return at, old, nil, true, err
	}
	if row != nil {
		return at, old, row, true, nil
	}
	return at, old, old.Copy(), false, nil
}

// guess writes a row, with all that its triggers do, in a session whose writes are undone.
func (w *writer) guess(ctx *sql.Context, s *session.Session, i int) error {
	st, c, t := *w.statement, *w.change, *w.target
	st.ctx, st.s = ctx, s
	env := *st.env
	env.Warn = nil
	st.env = &env
	c.statement, c.failure, c.targets = &st, nil, []*target{&t}
	row, err := w.pending.At(i)
	if err != nil {
		return err
	}
	t.pending, t.routine = w.pending.Alone(rowlist.Row{Stored: row.Stored, Vals: slices.Clone(row.Vals), Failed: row.Failed}), nil
	defer c.endFiring()
	s.Stmt.PerRow, s.Stmt.Planned = true, true
	if t.refs != nil {
		var err error
		if t.refs, err = c.references(&t); err != nil {
			return err
		}
	}
	g := c.open(&t, &result.Change{})
	_, err = g.one(0)
	return err
}
