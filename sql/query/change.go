package query

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/access"
	"github.com/godwitdb/godwit/sql/assign"
	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/given"
	"github.com/godwitdb/godwit/sql/infile"
	"github.com/godwitdb/godwit/sql/prefetch"
	"github.com/godwitdb/godwit/sql/result"
	"github.com/godwitdb/godwit/sql/returning"
	"github.com/godwitdb/godwit/sql/rowlist"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

// A change is done in two steps. The query of package bind yields the stored rows that are to be
// changed, which it has locked, and the new values of their columns. All of them are kept before
// the first one is written: what a statement writes is invisible to its own reads, and a statement
// that turns out to be none for this package (see late) can still be left to the engine. Then they
// go to the editor of their table, which knows indexes, duplicates and homes.

// gathered is how many changes an editor gathers before it sends them: the keys that must be absent
// are looked at in one step.
const gathered = 8192

// change is a statement that changes rows.
type change struct {
	*statement
	c       *bind.Change
	targets []*target
	row     int // rows that have come
	// ignore: what is wrong with a row is a warning (IGNORE). strict: what a column cannot hold is
	// an error.
	ignore, strict bool
	// failure is the first warning of an expression that strict mode makes an error.
	failure error
	ins     *insertion // of an INSERT or REPLACE
	tree    bind.Stmt
	params  []expr.Node
	told    *uint64 // the last argument of LAST_INSERT_ID(x)
	uuid    string  // the first one that UUID() has made
	links   []*bind.Target
	firing  map[*bind.Target]*triggers
	load    *loading     // of a statement that writes rows while it reads others
	file    *infile.Load // of LOAD DATA
	ret     *returning.Rows
	to      returned // takes ret
}

// target is a table whose rows are changed.
type target struct {
	*bind.Target
	st      *table.Table
	row     int // of stored rows, in the batches
	sets    []*setter
	olds    []*setter // of the virtual columns as they are
	checks  []int     // in the batches
	seen    map[string]bool
	pending rowlist.Waiting
	before  int // rows that were written before those
	// at is the position of the AUTO_INCREMENT column of an INSERT, else -1; zero says that it
	// takes a 0 as it is.
	at   int
	zero bool
	// refs follow the foreign keys that have to do with the change; nil: none do.
	refs *references
	// fires are its triggers; nil: none fire. routine runs them.
	fires   *triggers
	routine *routine
}

// change runs a statement that changes rows; done is false if the engine has to.
func (r *Runner) change(ctx *sql.Context, s *session.Session, in *inside, text string, client bool,
	params func(sql.CollationID) ([]expr.Node, error), to returned) (res *result.Change, done bool, err error) {
	c := &change{to: to}
	st, err := r.prepareIn(ctx, s, in, text, params, func(st *statement, text string, given []expr.Node) error {
		c.statement, st.client = st, client
		return c.make(text, given)
	})
	if st == nil {
		return nil, err != nil, err
	}
	defer st.close()
	return c.run()
}

// make binds and plans.
func (c *change) make(text string, params []expr.Node) error {
	st := c.statement
	if t := st.s.Txn(); t == nil && st.s.ReadsOnly() || t != nil && (t.Over || t.ReadOnly) {
		return left("transaction that cannot write")
	}
	tree, err := st.begin(text)
	if err != nil {
		return err
	}
	st.cat.changes = true
	if tree, err = c.loads(tree); err != nil {
		return err
	}
	told := st.env.TellID
	st.env.TellID = func(id uint64) {
		told(id)
		c.told = &id
	}
	tree, list := returning.Cut(tree)
	c.tree, c.params = tree, params
	if c.c, err = bind.BindChange(tree, st.facts(params)); err != nil {
		return err
	}
	if st.cat.ordered() {
		return left("ordering by timestamps")
	}
	if err := c.load.alone(c.c); err != nil {
		return err
	}
	if err := c.mayRead(); err != nil {
		return err
	}
	c.modes()
	c.load.prepare()
	for _, t := range c.c.Targets {
		if err := c.permitted(t); err != nil {
			return err
		}
	}
	if err := c.plan(); err != nil {
		return err
	}
	if p := c.statement.plan; p != nil && session.SafeUpdates(c.ctx) && !p.Limited() && slices.ContainsFunc(c.c.Targets,
		func(t *bind.Target) bool { return t.Row != 0 && p.ReadsWhole(t.Table) }) {
		return session.ErrUnsafe
	}
	for _, t := range c.c.Targets {
		if err := c.target(t); err != nil {
			return err
		}
	}
	return c.returns(list, params)
}

// plan makes the operators of the query, if there is one.
func (c *change) plan() error {
	if c.c.Rel == nil {
		return nil
	}
	c.out = c.c.Out
	options := c.r.Options
	options.Locking = true
	return c.plans(c.c.Query, options)
}

// modes takes what sql_mode and IGNORE say of wrong values.
func (c *change) modes() {
	mode := sql.LoadSqlMode(c.ctx)
	c.ignore = c.c.Ignore
	c.strict = mode.Strict() && (!c.ignore || c.s.Infile != nil)
	if !mode.ModeEnabled("ERROR_FOR_DIVISION_BY_ZERO") && !mode.ModeEnabled("TRADITIONAL") {
		c.env.Mode &^= expr.ErrorForDivisionByZero
	}
	if keys := c.r.Keys; keys != nil {
		c.env.UUID = func() (string, error) {
			id, err := keys(c.s.Region())
			if c.uuid = cmp.Or(c.uuid, id); c.c.Kind == bind.Insert && c.c.Targets[0].Table.(*access.Table).Stored().Def.HasTextKey() {
				c.ctx.GetLastQueryInfo().LastInsertUUID.Store(c.uuid) // for LAST_INSERT_UUID()
			}
			return id, err
		}
	}
	if !c.strict {
		return
	}
	c.env.Warn = assign.Strictly(c.env.Warn, &c.failure)
}

// permitted refuses tables of which a change involves more than their rows, and users that may not
// change them.
func (c *change) permitted(t *bind.Target) error {
	ctx := c.ctx
	if err := c.mayWrite(t); err != nil {
		return err
	}
	if err := c.inUse(t); err != nil {
		return err
	}
	what := []string{events[c.c.Kind]}
	if n := c.c.Insert; n != nil && n.Replace {
		what = append(what, "delete")
	} else if n != nil && len(n.Updates) > 0 {
		what = append(what, "update")
	}
	st := t.Table.(*access.Table).Stored()
	snap, err := c.s.Snapshot(ctx)
	if err != nil {
		return left("error of the catalog")
	}
	d := snap.Database(st.Def.Desc.DB)
	if d == nil {
		return left("error of the catalog")
	}
	name := strings.ToLower(st.Def.Desc.Name)
	if tr, err := c.firings(d, name, what); err != nil {
		return err
	} else if tr != nil {
		if c.firing == nil {
			c.firing = map[*bind.Target]*triggers{}
		}
		c.firing[t] = tr
	}
	if given.IntVar(ctx, "foreign_key_checks") != 0 && c.linked(t, st.Def, d.ReferencedBy[name]) {
		c.links = append(c.links, t)
	}
	return nil
}

var events = map[bind.ChangeKind]string{bind.Delete: "delete", bind.Update: "update", bind.Insert: "insert"}

// linked reports whether foreign keys have to do with a change.
func (c *change) linked(t *bind.Target, def *schema.Table, by []sql.ForeignKeyConstraint) bool {
	set := func(cols []string) bool {
		return slices.ContainsFunc(t.Sets, func(s bind.Set) bool {
			return slices.ContainsFunc(cols, func(n string) bool { return strings.EqualFold(n, def.Cols[s.Col].Desc.Name) })
		})
	}
	switch c.c.Kind {
	case bind.Delete:
		return len(by) > 0
	case bind.Insert:
		return len(def.Desc.FKs) > 0 || len(by) > 0 && (c.c.Insert.Replace || len(c.c.Insert.Updates) > 0)
	}
	return slices.ContainsFunc(def.Desc.FKs, func(fk sql.ForeignKeyConstraint) bool { return set(fk.Columns) }) ||
		slices.ContainsFunc(by, func(fk sql.ForeignKeyConstraint) bool { return set(fk.ParentColumns) })
}

// target finds what the batches have of a table.
func (c *change) target(b *bind.Target) error {
	t := &target{Target: b, st: b.Table.(*access.Table).Stored(), at: -1, fires: c.firing[b]}
	c.targets = append(c.targets, t)
	if err := c.fired(t); err != nil {
		return err
	}
	defer c.arrange(t)
	if b.Row == 0 {
		t.at, t.zero = t.st.Def.Desc.AutoIncCol(), sql.LoadSqlMode(c.ctx).ModeEnabled("NO_AUTO_VALUE_ON_ZERO")
		if err := c.insertion(t); err != nil {
			return err
		}
	}
	if c.op == nil {
		return nil
	}
	cols := c.op.Cols()
	if b.Row != 0 {
		t.row = slices.Index(cols, b.Row)
	}
	if c.c.Joined {
		t.seen = map[string]bool{}
	}
	for _, s := range b.Sets {
		at, typ := slices.Index(cols, s.Value), expr.TypeNull
		if !s.Missing {
			typ = c.op.Types()[at]
		}
		k, err := c.setter(c.env, t, s.Col, typ, c.strict)
		if err == nil && s.Derived {
			err = assign.Foreseen(c.env, t.st.Def, s.Col)
		}
		if err != nil {
			return err
		}
		if k.At, k.Derived, k.Missing, k.Read = at, s.Derived, s.Missing, s.Read; k.Col.Desc.AutoInc && c.ins != nil {
			k.Nulls = assign.TakeNull
		}
		if t.fires.has(true, events[c.c.Kind]) {
			k.Nulls = assign.TakeNull // the triggers may give a value
		}
		t.sets = append(t.sets, k)
	}
	for _, s := range b.Olds {
		at := slices.Index(cols, s.Value)
		k, err := c.setter(c.env, t, s.Col, c.op.Types()[at], false)
		if err != nil {
			return err
		}
		k.At, k.Nulls = at, assign.TakeNull
		t.olds = append(t.olds, k)
	}
	for _, k := range b.Checks {
		at := slices.Index(cols, k.Value)
		if kind := c.op.Types()[at].Kind; kind != expr.Int && kind != expr.Null {
			return left("CHECK of another type")
		}
		t.checks = append(t.checks, at)
	}
	return nil
}

// run executes the statement in the session's transaction, and commits it if it is its own. done is
// false if the engine has to run it; nothing was changed then.
func (c *change) run() (res *result.Change, done bool, err error) {
	s, ctx := c.s, c.ctx
	explicit := s.Explicit(ctx)
	s.Stmt.Planned, s.Stmt.Writes, s.Stmt.Locks = true, true, false
	s.Stmt.PerRow = c.ignore || c.ins.meets() || len(c.firing) > 0
	s.Stmt.Blind = c.ins != nil && !explicit && !s.Stmt.PerRow && !c.ret.Asks()
	t := s.Txn()
	if t == nil {
		t = session.NewTxn(s)
		s.SetTransaction(t)
	}
	sql.IncrementStatusVariable(ctx, "Questions", 1)
	c.clearWarnings()
	undo, err := c.beginCalls(t)
	if err != nil {
		return nil, true, err
	}
	defer func() { undo(err) }()
	c.mayFlow(explicit)
	defer func() {
		c.load.end()
		c.ret.End()
		for _, t := range c.targets {
			t.pending.End()
		}
	}()
	if err = c.load.begin(explicit); err != nil {
		return nil, true, err
	}
	for reason := ""; ; {
		if res, reason, err = c.attempt(explicit); reason != "" {
			if !explicit {
				s.Txn().Rollback()
				s.SetTransaction(nil)
			}
			c.r.Fallbacks.Add(reason)
			return nil, false, nil
		}
		if err == nil || !c.load.again() {
			break
		}
	}
	if err != nil {
		return nil, true, c.load.told(err)
	}
	c.counted(res)
	if err = c.give(res); err != nil {
		return nil, true, err
	}
	return res, true, c.file.Remember()
}

// attempt does what the statement has to do, or what is left of it. reason is why the engine has to
// do it instead.
func (c *change) attempt(explicit bool) (res *result.Change, reason string, err error) {
	s := c.s
	err = c.gather()
	reason, ok := c.refused(err)
	if !ok {
		reason, ok = assign.IsLate(err)
	}
	if !ok {
		reason, ok = bind.Reason(err)
	}
	if err = c.load.failed(err); ok && !c.load.begun() {
		return nil, reason, nil
	}
	if err == nil {
		res, err = c.apply()
	}
	if err == nil && !explicit {
		if s.Answers() {
			s.NoteAnswer(res.Result())
		}
		err = s.Txn().Commit(c.ctx)
		s.SetTransaction(nil)
	} else if err == nil {
		err = s.State.Commits() // it stays in the transaction
	}
	return res, "", err
}

// counted keeps what the session tells about its last statement.
func (c *change) counted(res *result.Change) {
	sql.IncrementStatusVariable(c.ctx, infile.Counter(c.file, c.c), 1)
	info := c.ctx.GetLastQueryInfo()
	info.RowCount.Store(int64(res.Affected()))
	if c.c.Kind == bind.Update {
		info.FoundRows.Store(int64(res.Matched))
	}
}

// gather keeps all rows that are to be changed.
func (c *change) gather() error {
	c.opened = c.op == nil
	if c.ins != nil && c.ins.Values {
		if err := c.evaluate(); err != nil {
			return err
		}
	} else if err := c.drain(c.take); err != nil {
		return c.lenient(err)
	}
	if c.failure != nil {
		return c.failure
	}
	if c.load.flows() {
		return c.load.piece(true)
	}
	if err := c.refer(); err != nil || c.ins == nil {
		return err
	}
	if c.ins.Values {
		if err := c.valueRows(); err != nil {
			return err
		}
	}
	return c.complete()
}

// refer follows the foreign keys that the statement has to do with.
func (c *change) refer() error {
	for _, t := range c.targets {
		if slices.Contains(c.links, t.Target) {
			var err error
			if t.refs, err = c.references(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// lenient leaves errors to the engine that IGNORE makes warnings in the middle of a query.
func (c *change) lenient(err error) error {
	var me *mysql.SQLError
	if c.ignore && errors.As(err, &me) && me.Num == 1242 {
		return &late{Reason: "subquery with several rows under IGNORE"}
	}
	return err
}

// take keeps the rows of a batch.
func (c *change) take(b *expr.Batch) error {
	if c.failure != nil {
		return c.failure
	}
	if c.ins != nil && c.ins.Values {
		return c.takeValues(b)
	}
	for _, i := range b.Sel {
		if c.ins != nil && c.ins.stopped != nil {
			return nil
		}
		c.row++
		for _, t := range c.targets {
			if err := c.keep(t, b, i); err != nil {
				return err
			}
		}
	}
	return c.load.piece(false)
}

// keep keeps the change of one row, unless it has been kept.
func (c *change) keep(t *target, b *expr.Batch, i int32) error {
	p := rowlist.Row{}
	if c.ins != nil {
		return c.keepNew(t, b, i)
	}
	if t.Row != 0 {
		v := b.Cols[t.row]
		if v.IsNull(i) {
			return nil
		}
		p.Stored = strings.Clone(v.S[i])
		if twice, err := c.twice(t, p.Stored); twice || err != nil {
			return err
		}
	}
	if n := len(t.sets) + len(t.olds); n > 0 {
		p.Vals = make([]any, n)
	}
	for k, s := range t.sets {
		var err error
		s.Adjusted = false
		if s.Missing {
			p.Vals[k], err = s.ByDefault()
		} else {
			p.Vals[k], err = s.Value(b.Cols[s.At], i, c.row)
		}
		if err != nil {
			return err
		}
		if s.Adjusted && !s.Missing && s.Read {
			return &late{Reason: "use of a value that does not fit"}
		}
	}
	for k, s := range t.olds {
		var err error
		if p.Vals[len(t.sets)+k], err = s.Value(b.Cols[s.At], i, c.row); err != nil {
			return err
		}
	}
	for k, at := range t.checks {
		v := b.Cols[at]
		if p.Failed == 0 && violated(v, i, t.Checks[k].View) {
			p.Failed = k + 1
		}
	}
	return t.pending.Add(p)
}

// twice reports whether a row has come before in a statement over several tables.
func (c *change) twice(t *target, stored string) (bool, error) {
	if t.seen == nil {
		return false, nil
	}
	row, _ := access.StoredRow(stored) // who writes it says that it is none
	if t.seen[string(row.Key)] {
		return true, nil
	}
	t.seen[string(row.Key)] = true
	return false, c.mem.Grow(int64(len(row.Key)) + 64)
}

// keepNew keeps a row of the query of an INSERT.
func (c *change) keepNew(t *target, b *expr.Batch, i int32) error {
	row := make(sql.Row, len(t.st.Def.Cols))
	for k, s := range t.sets {
		v, done, err := c.file.Value(k, s, b, i, c.row)
		if !done {
			v, err = s.Value(b.Cols[s.At], i, c.row)
		}
		if err != nil {
			return c.stop(err)
		}
		row[s.Pos] = v
	}
	if err := c.file.Ended(i, c.row); err != nil {
		return c.stop(err)
	}
	return c.add(t, row)
}

// outcome is that of a statement which has changed nothing yet.
func (c *change) outcome() *result.Change {
	return &result.Change{Kind: c.c.Kind, Found: c.ctx.Client().Capabilities&mysql.CapabilityClientFoundRows != 0}
}

// apply writes what was kept. If that fails, nothing of it stays.
func (c *change) apply() (*result.Change, error) {
	defer c.endFiring()
	res, writers := c.load.written(c.outcome())
	if c.ins != nil {
		res.Plain = c.ins.Values && len(c.ins.Rows) == 1
		if c.ins.stopped != nil {
			c.s.Stmt.Blind = false // a duplicate among the rows before comes first
		}
	}
	var err error
	for _, t := range c.targets {
		if t.pending.Len() == 0 {
			continue
		}
		w := c.open(t, res)
		writers = append(writers, w)
		if err = w.write(); err != nil {
			break
		}
	}
	if err == nil {
		err = c.computed()
	}
	for _, w := range writers {
		if err == nil {
			err = w.to.StatementComplete(c.ctx)
		}
	}
	if err == nil && c.ins != nil {
		err = c.ins.stopped
	}
	if err != nil {
		for _, w := range writers {
			_ = w.to.DiscardChanges(c.ctx, err)
		}
		return nil, err
	}
	if c.told != nil && !res.Counted {
		res.ID = *c.told
	}
	c.load.note()
	res.Warnings = int(c.s.WarningCount())
	return res, nil
}

// write hands the changes of a table to its editor.
func (w *writer) write() error {
	if w.pending.Order != nil {
		if err := w.pending.Sort(); err != nil {
			return err
		}
	}
	if w.refs != nil || w.words() || w.s.Stmt.PerRow {
		w.s.UseAhead()
		defer w.s.ForgetAhead()
	}
	var rows *prefetch.RowsAhead
	if w.fires != nil && !w.nested() && !w.calls.any() {
		rows = w.r.Prefetch.RowsAhead(w.s, w.st)
		defer func() { rows.End() }()
	}
	for i := range w.pending.Len() {
		if err := rows.Next(w.ctx, w.pending.Len()-i, func(ctx *sql.Context, s *session.Session, k int) error {
			return w.guess(ctx, s, i+k)
		}); err != nil {
			return err
		}
		if i%1024 == 0 {
			if err := w.ctx.Err(); err != nil {
				return err
			}
		}
		if i%prefetch.Ahead == 0 {
			if err := w.ahead(i); err != nil {
				return err
			}
		}
		n, err := w.one(i)
		if err != nil {
			return err
		}
		w.res.Matched++
		w.res.Changed += n
	}
	return nil
}

// one writes a row. It returns how many rows that changes, as MySQL counts.
func (w *writer) one(i int) (n int, err error) {
	p, err := w.pending.At(i)
	if err != nil {
		return 0, err
	}
	number := i + 1 + w.before
	mark := -1
	if w.ignore && (w.refs != nil || w.fires != nil || w.words()) {
		mark = w.e.Txn.Mark()
	}
	switch {
	case w.ins.meets():
		n, err = w.meet(p, number)
	case w.ins != nil:
		n, err = 1, w.insert(p, number)
	case w.fires != nil:
		var changed bool
		if changed, err = w.updating(p, number); changed && err == nil {
			n = 1
		}
	default:
		var changed bool
		if changed, err = w.stored(p); changed && err == nil {
			n = 1
		}
	}
	if err == nil && (n > 0 || w.ins != nil) {
		return n, w.ret.Add(w.last)
	}
	if err == nil {
		return n, nil
	}
	if err = w.ignored(err); err == nil && mark >= 0 {
		w.e.Txn.RollbackToMark(mark)
	}
	return 0, err
}

// arrange says what the rows of a target are made of. Those whose keys change are written in the
// order of the table: whether one of the new keys is still there when it comes, must not hang on
// the plan.
func (c *change) arrange(t *target) {
	def := t.st.Def
	t.pending.Ctx, t.pending.Mem, t.pending.Cols = c.ctx, c.mem, def.Cols
	if c.ins == nil {
		t.pending.Cols = nil
		for _, s := range slices.Concat(t.sets, t.olds) {
			t.pending.Cols = append(t.pending.Cols, s.Col)
		}
	}
	if c.c.Kind != bind.Update || c.c.Ordered ||
		!slices.ContainsFunc(t.sets, func(s *setter) bool { return def.InPK(s.Pos) || def.InIndex(s.Pos) }) {
		return
	}
	t.pending.Order = func(a, b *rowlist.Row) int {
		x, _ := access.StoredRow(a.Stored)
		y, _ := access.StoredRow(b.Stored)
		return bytes.Compare(x.Key[base.IndexPrefixLen:], y.Key[base.IndexPrefixLen:])
	}
}

// writer writes the rows of one table.
type writer struct {
	*change
	*target
	e   *table.Editor
	to  editor // e, or what follows foreign keys
	res *result.Change
	// last is the row that was written last, or deleted.
	last sql.Row
}

// stored deletes or updates a row.
func (w *writer) stored(p *rowlist.Row) (changed bool, err error) {
	at, old, row, err := w.changed(p)
	if err != nil || row == nil && w.c.Kind != bind.Delete {
		return false, err
	}
	if p.Failed != 0 && row != nil {
		return false, assign.Violated(w.Checks[p.Failed-1].Name, w.Checks[p.Failed-1].View)
	}
	switch {
	case w.refs != nil || w.words():
		return w.follow(at.Key, old, row)
	case row == nil:
		return true, w.e.DeleteAt(w.ctx, at, old)
	}
	return true, w.e.UpdateAt(w.ctx, at, old, row)
}

// changed is a row as it is, and what becomes of it: nil if it stays as it is, or goes.
func (w *writer) changed(p *rowlist.Row) (at kv.Row, old, row sql.Row, err error) {
	def := w.st.Def
	at, ok := access.StoredRow(p.Stored)
	if !ok {
		return at, nil, nil, fmt.Errorf("a row of table %s was lost on its way", w.st.Name())
	}
	old = make(sql.Row, len(def.Cols))
	if err := def.DecodeRow(w.ctx, at.Value, old); err != nil {
		return at, nil, nil, schema.ClientError(err)
	}
	for k, s := range w.olds {
		old[s.Pos] = p.Vals[len(w.sets)+k]
	}
	if w.c.Kind == bind.Delete {
		w.last = old
		return at, old, nil, nil
	}
	row = old.Copy()
	for k, s := range w.sets {
		if !s.Derived {
			row[s.Pos] = p.Vals[k]
		}
	}
	row = def.AsKept(row)
	changed := false
	for _, s := range w.sets {
		if s.Derived || changed {
			continue
		}
		eq, err := assign.Same(w.ctx, s.Col, old[s.Pos], row[s.Pos])
		if err != nil {
			return at, nil, nil, err
		}
		changed = !eq
	}
	if !changed {
		return at, old, nil, nil
	}
	for k, s := range w.sets {
		if s.Derived {
			row[s.Pos] = p.Vals[k]
		}
	}
	return at, old, row, nil
}

// insert adds a row.
func (w *writer) insert(p *rowlist.Row, number int) error {
	if err := w.beforeInsert(p, number); err != nil {
		return err
	}
	if p.Failed != 0 {
		return assign.Violated(w.ins.checks[p.Failed-1].Name, w.ins.checks[p.Failed-1].View)
	}
	counted, err := w.number(p.Vals)
	if err != nil {
		return err
	}
	if err := w.checkLate(p.Vals); err != nil {
		return err
	}
	w.inserted(p.Vals, counted)
	w.last = p.Vals
	if err := w.to.Insert(w.ctx, p.Vals); err != nil {
		return err
	}
	_, err = w.fire(false, "insert", nil, p.Vals)
	return err
}

// number gives a row its AUTO_INCREMENT value, or tells the counter which one it has. counted: the
// counter gave it.
func (w *writer) number(row sql.Row) (counted bool, err error) {
	if w.at < 0 {
		return false, nil
	}
	given := row[w.at]
	n, signed := schema.ToInt64(given)
	if u, ok := schema.ToUint64(given); (signed && n == 0 || ok && u == 0) && !w.zero {
		given = nil
	}
	if given != nil && signed && n < 0 {
		return false, nil // the counter counts from 1
	}
	v, err := w.st.GetNextAutoIncrementValue(w.ctx, given)
	if err != nil || given != nil {
		return false, err
	}
	col := w.st.Def.Cols[w.at]
	conv, in, err := col.Type.Convert(w.ctx, v)
	if err != nil || in != sql.InRange {
		return false, sql.ErrValueOutOfRange.New(v, col.Type)
	}
	row[w.at] = conv
	return true, nil
}

// inserted notes the AUTO_INCREMENT value of a row. The client is told the first one that the
// counter gave, or else the last one of the rows.
func (w *writer) inserted(row sql.Row, counted bool) {
	if w.at < 0 || w.res.Counted {
		return
	}
	if v, ok := schema.ToUint64(row[w.at]); ok {
		w.res.ID = v
	} else if n, ok := schema.ToInt64(row[w.at]); ok {
		w.res.ID = uint64(n)
	}
	if counted {
		w.res.Counted = true
		w.ctx.GetLastQueryInfo().LastInsertId.Store(int64(w.res.ID))
	}
}

// updated notes the AUTO_INCREMENT value of a row that ON DUPLICATE KEY UPDATE has changed.
func (w *writer) updated(row sql.Row) { w.inserted(row, false) }
