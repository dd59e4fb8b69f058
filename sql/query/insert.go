package query

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	goerrors "gopkg.in/src-d/go-errors.v1"

	"github.com/godwitdb/godwit/sql/access"
	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/assign"
	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/rowlist"
	"github.com/godwitdb/godwit/sql/schema"
)

// New rows get their values from VALUES or from a query. What follows from them, generated columns
// and conditions, is computed from the rows as they are going to be stored, many at a time. A row
// that is wrong ends the statement, after those before it have been written, since one of them may
// be a duplicate, which MySQL would tell first.

// insertion is what an INSERT or REPLACE has besides its target.
type insertion struct {
	*bind.Insertion
	t       *target
	types   map[cellType]*setter // of constants
	cells   map[expr.ColID]int   // where the query's columns are
	values  expr.Batch           // what the query has yielded for VALUES
	one     expr.Vec
	missing []*setter
	rows    *rowset
	derived []*formula
	checks  []*formula
	virtual []*formula // of the derived ones those that are not stored
	late    []*formula // conditions that use what AUTO_INCREMENT gives
	ignore  bool
	dup     *updater // nil: no ON DUPLICATE KEY UPDATE
	guess   *updater // the same, to predict what it reads
	// stopped is the error of the first row that is wrong.
	stopped error
}

type cellType struct {
	pos  int
	kind expr.Kind
}

// meets reports whether rows that are in the way are no error.
func (n *insertion) meets() bool {
	return n != nil && (n.ignore || n.Replace || n.dup != nil)
}

// setter is one for a column of a target.
func (c *change) setter(env *expr.Env, t *target, pos int, from expr.Type, strict bool) (*setter, error) {
	s, err := assign.New(c.ctx, env, t.st.Def.Cols[pos], from)
	if err != nil {
		return nil, err
	}
	s.Pos, s.Strict = pos, strict
	if !strict {
		s.Nulls = assign.ZeroNull
	}
	return s, nil
}

// refusal is an error of a column as one of the whole statement.
func refusal(err error) error {
	var ce *codedError
	if errors.As(err, &ce) {
		return &bind.Refusal{Err: ce.Me, Kind: ce.Kind}
	}
	return err
}

// insertion prepares an INSERT.
func (c *change) insertion(t *target) error {
	n := &insertion{Insertion: c.c.Insert, t: t, ignore: c.ignore, types: map[cellType]*setter{}, cells: map[expr.ColID]int{}}
	c.ins = n
	if c.op != nil {
		for i, id := range c.op.Cols() {
			n.cells[id] = i
		}
	}
	for _, pos := range n.Missing {
		s, err := c.setter(c.env, t, pos, expr.TypeNull, c.strict)
		if err != nil {
			return err
		}
		if err := c.lacking(t, s); err != nil {
			return refusal(c.ofView(t, err))
		}
		n.missing = append(n.missing, s)
	}
	tab := t.Table.(*access.Table)
	n.rows = newRowset(tab, n.IDs, n.Derived, n.Checks)
	var err error
	if n.derived, err = c.compile(c.env, t, n.Derived, n.IDs, c.strict); err != nil {
		return err
	}
	for _, f := range n.derived {
		if t.st.Def.Cols[f.Col].Desc.Virtual {
			n.virtual = append(n.virtual, f)
		}
	}
	checks, err := c.compile(c.env, t, n.Checks, n.IDs, c.strict)
	if err != nil {
		return err
	}
	for _, k := range checks {
		if k.Late {
			n.late = append(n.late, k)
		} else {
			n.checks = append(n.checks, k)
		}
	}
	if len(n.Updates) == 0 {
		return nil
	}
	if n.dup, err = c.updater(t, c.env, c.strict); err != nil {
		return err
	}
	quiet := *c.env
	quiet.Warn = nil
	n.guess, err = c.updater(t, &quiet, true)
	return err
}

// ofView is the error of a column without a default that a view does not show.
func (c *change) ofView(t *target, err error) error {
	var ce *codedError
	if len(t.Steps) == 1 || !errors.As(err, &ce) {
		return err
	}
	v := t.Steps[0]
	return &codedError{Kind: ce.Kind, Me: mysql.NewSQLError(1423, "HY000",
		"Field of view '%s.%s' underlying table doesn't have a default value", v.DB, v.Name)}
}

// lacking is what is to be said of a column that gets no value, unless triggers may give it one.
func (c *change) lacking(t *target, s *setter) error {
	if t.fires.has(true, "insert") {
		return nil
	}
	return s.NoDefault()
}

// takeValues keeps what the query of VALUES yields: one row with the values of all that are no
// constants.
func (c *change) takeValues(b *expr.Batch) error {
	n := c.ins
	n.values.N = 1
	for _, v := range b.Cols {
		k := &expr.Vec{}
		k.Gather(v, b.Sel[:1])
		if v.T.Kind.Form() == expr.FormS && !v.IsNull(b.Sel[0]) {
			k.S[0] = strings.Clone(k.S[0])
		}
		n.values.Cols = append(n.values.Cols, k)
	}
	return nil
}

// evaluate computes what VALUES has besides constants. If something is wrong with that, it goes
// value by value: the statement is said to fail for the first one that is wrong.
func (c *change) evaluate() error {
	if c.op == nil {
		return nil
	}
	err := c.drain(c.take)
	if err == nil {
		err = c.failure
	}
	if err == nil || !c.opened && c.failure == nil {
		return err
	}
	again, rerr := bind.BindChange(c.tree, c.facts(c.params))
	if rerr != nil {
		return err
	}
	items := map[expr.ColID]algebra.Item{}
	p, ok := again.Rel.(*algebra.Project)
	if !ok {
		return err
	}
	for _, it := range p.Items {
		items[it.ID] = it
	}
	c.ins.values.Cols = nil
	clear(c.ins.cells)
	for i, cells := range again.Insert.Rows {
		if err := c.evaluateRow(again, p.In, items, cells, i+1); err != nil {
			c.ins.Rows = again.Insert.Rows[:i]
			return c.stop(err)
		}
	}
	c.ins.Rows = again.Insert.Rows
	return nil
}

// evaluateRow computes the values of one row, one by one, and looks whether they fit.
func (c *change) evaluateRow(again *bind.Change, in algebra.Rel, items map[expr.ColID]algebra.Item, cells []bind.Cell,
	row int) error {
	for k, cell := range cells {
		if it, ok := items[cell.Value]; ok && cell.Const == nil && !cell.Missing {
			if err := c.evaluateCell(again, &algebra.Project{In: in, Items: []algebra.Item{it}}); err != nil {
				return err
			}
		}
		if _, err := c.cell(c.ins.Cols[k], cell, row); err != nil {
			return err
		}
	}
	return nil
}

// evaluateCell computes one value.
func (c *change) evaluateCell(again *bind.Change, p *algebra.Project) error {
	q := &bind.Query{Rel: p, Next: again.Next}
	for _, it := range p.Items {
		q.Out = append(q.Out, bind.Output{ID: it.ID, Name: it.Name, Type: it.Node.Type()})
	}
	c.failure = nil
	options := c.r.Options
	options.Locking = true
	if err := c.plans(q, options); err != nil {
		return err
	}
	for i, id := range c.op.Cols() {
		c.ins.cells[id] = len(c.ins.values.Cols) + i
	}
	if err := c.drain(c.take); err != nil {
		return err
	}
	err := c.failure
	c.failure = nil
	return err
}

// valueRows makes the rows of VALUES.
func (c *change) valueRows() error {
	n := c.ins
	for i, cells := range n.Rows {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		c.row++
		row := make(sql.Row, len(n.t.st.Def.Cols))
		for k, cell := range cells {
			v, err := c.cell(n.Cols[k], cell, i+1)
			if err != nil {
				return c.stop(err) // in place of an error of a later row
			}
			row[n.Cols[k]] = v
		}
		if err := c.add(n.t, row); err != nil {
			return err
		}
	}
	return nil
}

// stop ends the rows of an INSERT at one that is wrong. Other errors end the statement at once.
func (c *change) stop(err error) error {
	var me *mysql.SQLError
	var ge *goerrors.Error
	if c.ins == nil || !errors.As(err, &me) && !errors.As(err, &ge) {
		return err
	}
	c.ins.stopped, c.failure = err, nil
	return nil
}

// cell is a value of VALUES as the table stores it.
func (c *change) cell(pos int, cell bind.Cell, row int) (any, error) {
	n := c.ins
	if cell.Missing {
		s, err := c.setter(c.env, n.t, pos, expr.TypeNull, c.strict)
		if err != nil {
			return nil, err
		}
		return s.ByDefault()
	}
	if cell.Const == nil {
		v := n.values.Cols[n.cells[cell.Value]]
		s, err := c.cellSetter(pos, v.T)
		if err != nil {
			return nil, err
		}
		return s.Value(v, 0, row)
	}
	k := cell.Const
	s, err := c.cellSetter(pos, k.T)
	if err != nil {
		return nil, err
	}
	t, v := k.T, k.V
	if k.Hex && s.To.Numeric() && s.To.Kind != expr.Bit {
		t, v = expr.TypeUint, expr.Value{Kind: expr.Uint}
		for _, b := range []byte(k.V.S) {
			v.I = v.I<<8 | int64(b)
		}
	}
	n.one.Reset(t, 1)
	n.one.Put(0, v)
	return s.Value(&n.one, 0, row)
}

// cellSetter is the setter of a column for values of a type.
func (c *change) cellSetter(pos int, from expr.Type) (*setter, error) {
	n := c.ins
	key := cellType{pos, from.Kind}
	if s := n.types[key]; s != nil {
		return s, nil
	}
	s, err := c.setter(c.env, n.t, pos, from, c.strict)
	if err != nil {
		return nil, &late{Reason: reasonOf(err)}
	}
	if s.Col.Desc.AutoInc || s.Col.Desc.Generated != nil || n.t.fires.has(true, "insert") {
		s.Nulls = assign.TakeNull
	} else if s.Nulls == assign.ZeroNull && len(n.Rows) == 1 && !c.ignore {
		s.Nulls = assign.RefuseNull
	}
	n.types[key] = s
	return s, nil
}

// add keeps a new row.
func (c *change) add(t *target, row sql.Row) error {
	for _, s := range c.ins.missing {
		if t.fires.has(true, "insert") {
			row[s.Pos] = nil // until the triggers have run
			continue
		}
		var err error
		if row[s.Pos], err = s.Zero(); err != nil {
			return err
		}
	}
	return t.pending.Add(rowlist.Row{Vals: row})
}

// complete computes what follows from the values of the new rows.
func (c *change) complete() error {
	n := c.ins
	if len(n.derived)+len(n.checks) == 0 {
		return nil
	}
	t := n.t
	for from := 0; from < t.pending.Len(); {
		rows, err := t.pending.Edit(from)
		if err != nil {
			return err
		}
		if err := c.completed(rows, from); err != nil {
			// Row by row, the first one that is wrong is found.
			c.failure = nil
			for i := range rows {
				if err := c.completed(rows[i:i+1], from+i); err != nil {
					return c.stopAt(from+i, err)
				}
			}
		}
		i := slices.IndexFunc(rows, func(r rowlist.Row) bool { return r.Failed != 0 })
		if i >= 0 && !n.meets() && len(c.firing) == 0 {
			k := n.checks[rows[i].Failed-1]
			return c.stopAt(from+i, assign.Violated(k.Name, k.View))
		}
		from += len(rows)
	}
	return nil
}

// stopAt leaves out the rows from i on: a duplicate among those before comes first.
func (c *change) stopAt(i int, err error) error {
	if err := c.ins.t.pending.Cut(i); err != nil {
		return err
	}
	return c.stop(err)
}

func (c *change) completed(of []rowlist.Row, from int) error {
	n := c.ins
	rows := make([][]sql.Row, len(of))
	for i := range rows {
		rows[i] = []sql.Row{n.t.st.Def.AsKept(of[i].Vals)}
	}
	err := c.follow(n.rows, n.derived, n.checks, rows, from+1+n.t.before, func(i, check int) {
		if of[i].Failed == 0 {
			of[i].Failed = check
		}
	})
	for i := range rows {
		of[i].Vals = rows[i][0]
	}
	return err
}

// follow computes generated columns and conditions of rows; failed gets the numbers of the
// conditions that are not fulfilled, from 1.
func (c *change) follow(r *rowset, derived, checks []*formula, rows [][]sql.Row, first int,
	failed func(i, check int)) error {
	if err := r.load(rows); err != nil {
		return err
	}
	for _, f := range derived {
		if err := r.set(f, rows, first); err != nil {
			return err
		}
	}
	for k, f := range checks {
		if err := r.failed(f, func(i int) { failed(i, k+1) }); err != nil {
			return err
		}
	}
	return c.failure
}

// updater makes of a row that is in the way what ON DUPLICATE KEY UPDATE says.
type updater struct {
	c                *change
	t                *target
	updates, touched []*formula
	old              *rowset // the row that is there, and the new one
	rows             *rowset
	derived, checks  []*formula
}

func (c *change) updater(t *target, env *expr.Env, strict bool) (*updater, error) {
	n := c.c.Insert
	u := &updater{c: c, t: t}
	tab := t.Table.(*access.Table)
	both := append(slices.Clone(n.Old), n.IDs...)
	u.old = newRowset(tab, both, n.Updates, n.OnUpdate)
	u.rows = newRowset(tab, n.IDs, n.Derived, n.Checks)
	var err error
	for _, x := range []struct {
		out *[]*formula
		fs  []bind.Formula
		ids []expr.ColID
	}{{&u.updates, n.Updates, both}, {&u.touched, n.OnUpdate, both}, {&u.derived, n.Derived, n.IDs}, {&u.checks, n.Checks, n.IDs}} {
		if *x.out, err = c.compile(env, t, x.fs, x.ids, strict); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// update is what becomes of a row; check is the number of a condition that it does not fulfil.
func (u *updater) update(old, row sql.Row, number int) (next sql.Row, changed bool, check int, err error) {
	next = old.Copy()
	rows := [][]sql.Row{{next, row}}
	if err := u.old.load(rows); err != nil {
		return nil, false, 0, err
	}
	for _, f := range u.updates {
		if err := u.old.set(f, rows, number); err != nil {
			return nil, false, 0, cmp.Or(u.c.failure, err) // what was computed was wrong before
		}
	}
	if u.c.failure != nil {
		return nil, false, 0, u.c.failure
	}
	next = u.t.st.Def.AsKept(next)
	for _, f := range u.updates {
		eq, err := assign.Same(u.c.ctx, u.t.st.Def.Cols[f.Col], old[f.Col], next[f.Col])
		if err != nil {
			return nil, false, 0, err
		}
		changed = changed || !eq
	}
	if !changed { // a view WITH CHECK OPTION looks at the row all the same
		err := u.c.follow(u.rows, nil, u.checks, [][]sql.Row{{next}}, number, func(_, k int) {
			if check == 0 && u.checks[k-1].View {
				check = k
			}
		})
		return next, false, check, err
	}
	rows[0][0] = next
	for _, f := range u.touched {
		if err := u.old.set(f, rows, number); err != nil {
			return nil, false, 0, err
		}
	}
	rows = [][]sql.Row{{next}}
	err = u.c.follow(u.rows, u.derived, u.checks, rows, number, func(_, k int) {
		if check == 0 {
			check = k
		}
	})
	return rows[0][0], true, check, err
}

// meet adds a row that may meet others. It returns how many rows that changes, as MySQL counts.
func (w *writer) meet(p *rowlist.Row, number int) (changed int, err error) {
	n := w.ins
	if err := w.beforeInsert(p, number); err != nil {
		return 0, err
	}
	if p.Failed != 0 {
		return 0, assign.Violated(n.checks[p.Failed-1].Name, n.checks[p.Failed-1].View)
	}
	row := p.Vals
	counted, err := w.number(row)
	if err != nil {
		return 0, err
	}
	if err := w.checkLate(row); err != nil {
		return 0, err
	}
	for {
		mark := w.e.Txn.Mark()
		err := w.to.Insert(w.ctx, row)
		old, duplicate := existing(err)
		if duplicate && w.words() {
			w.e.Txn.RollbackToMark(mark) // the words of the row came before it
		}
		if duplicate && len(n.virtual) > 0 {
			if err := w.change.follow(n.rows, n.virtual, nil, [][]sql.Row{{old}}, number, nil); err != nil {
				return 0, err
			}
		}
		switch {
		case err == nil:
			w.inserted(row, counted)
			w.last = row
			_, err := w.fire(false, "insert", nil, row)
			return changed + 1, err
		case !duplicate:
			return 0, err
		case n.Replace:
			if _, err := w.fire(true, "delete", old, nil); err != nil {
				return 0, err
			}
			if err := w.to.Delete(w.ctx, old); err != nil {
				return 0, err
			}
			if _, err := w.fire(false, "delete", old, nil); err != nil {
				return 0, err
			}
			if same, err := w.again(old, row); err != nil {
				return 0, err
			} else if !same || changed > 0 {
				changed++
				w.res.Duplicates++
			}
		case n.dup != nil:
			w.res.Duplicates++
			return w.instead(old, row, number)
		default:
			w.res.Duplicates++
			return 0, err
		}
	}
}

// again reports whether REPLACE meets the very row that it writes. With a single key InnoDB updates
// that row then, and counts it once.
func (w *writer) again(old, row sql.Row) (bool, error) {
	if w.refs != nil || w.fires.has(true, "delete") || w.fires.has(false, "delete") || !w.st.Def.HasOneKey() {
		return false, nil
	}
	return assign.SameRow(w.ctx, w.st.Def, old, row)
}

// checkLate tests the conditions that use what AUTO_INCREMENT has given.
func (w *writer) checkLate(row sql.Row) error {
	n := w.ins
	if len(n.late) == 0 {
		return nil
	}
	failed := 0
	err := w.follow1(n.rows, n.late, row, func(k int) { failed = k })
	if err == nil && failed != 0 {
		err = assign.Violated(n.late[failed-1].Name, true)
	}
	return err
}

// follow1 tests conditions of one row.
func (c *change) follow1(r *rowset, checks []*formula, row sql.Row, failed func(check int)) error {
	return c.follow(r, nil, checks, [][]sql.Row{{row}}, 1, func(_, k int) { failed(k) })
}

// existing is the row that an error of a duplicate key tells.
func existing(err error) (sql.Row, bool) {
	var ge *goerrors.Error
	if !errors.As(err, &ge) {
		return nil, false
	}
	ue, ok := ge.Cause().(sql.UniqueKeyError)
	return ue.Existing, ok
}

// instead updates the row that is there.
func (w *writer) instead(old, row sql.Row, number int) (int, error) {
	next, changed, check, err := w.ins.dup.update(old, row, number)
	if err == nil && w.fires.has(true, "update") {
		changed, check, err = w.beforeInstead(old, next, changed, check, number)
	}
	w.last = next
	switch {
	case err != nil:
		return 0, err
	case check != 0:
		return 0, assign.Violated(w.ins.dup.checks[check-1].Name, w.ins.dup.checks[check-1].View)
	case !changed:
		if _, err := w.fire(false, "update", old, next); err != nil {
			return 0, err
		}
		if w.res.Found {
			return 1, nil
		}
		return 0, nil
	}
	if err := w.to.Update(w.ctx, old, next); err != nil {
		return 0, err
	}
	w.updated(next)
	_, err = w.fire(false, "update", old, next)
	return 2, err
}

// ignored makes a warning of an error of a row that IGNORE leaves out.
func (w *writer) ignored(err error) error {
	if err == nil || !w.ignore {
		return err
	}
	me := worded(w.s, err)
	if !ignorable[me.Num] {
		return err
	}
	w.ctx.Warn(me.Num, "%s", me.Message)
	return nil
}

// ignorable are the errors of a row that IGNORE makes warnings.
var ignorable = map[int]bool{
	errNull: true, schema.ErrDupEntry: true, 1451: true, 1452: true, errCheck: true, errOutOfRange: true, errViewCheck: true,
	schema.ErrNoPart: true,
}
