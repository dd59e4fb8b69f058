package query

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/access"
	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/expr"
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
	mem     *exec.Mem
	held    int64
	row     int // rows that have come
	strict  bool
	warned  bool // an expression had something to say that strict mode makes an error
}

// target is a table whose rows are changed.
type target struct {
	*bind.Target
	st      *table.Table
	row     int // of stored rows, in the batches
	sets    []*setter
	checks  []int // in the batches
	seen    map[string]bool
	pending []pending
	// at is the position of the AUTO_INCREMENT column of an INSERT, else -1; zero says that it
	// takes a 0 as it is.
	at   int
	zero bool
}

// pending is a row to be changed.
type pending struct {
	stored string // the row as it is
	vals   []any  // in the order of the setters
	failed int    // the number of the condition that the new row does not fulfil, from 1
}

// outcome is what a statement has changed.
type outcome struct {
	kind             bind.ChangeKind
	matched, changed int
	warnings         int
	id               uint64 // that the client is told: see writer.number
	found            bool   // the client counts rows that were found, and not those that were changed
}

func (o *outcome) affected() uint64 {
	if o.kind == bind.Update && o.found {
		return uint64(o.matched)
	}
	return uint64(o.changed)
}

// result is the answer to a client.
func (o *outcome) result() *sqltypes.Result {
	res := &sqltypes.Result{RowsAffected: o.affected(), InsertID: o.id}
	switch o.kind {
	case bind.Update:
		res.Info = plan.UpdateInfo{Matched: o.matched, Updated: o.changed, Warnings: o.warnings}.String()
	case bind.Insert:
		res.Info = fmt.Sprintf("Records: %d  Duplicates: 0  Warnings: %d", o.changed, o.warnings)
	}
	return res
}

// ok is the answer as the engine has it.
func (o *outcome) ok() types.OkResult {
	res := types.OkResult{RowsAffected: o.affected(), InsertID: o.id}
	if o.kind == bind.Update {
		res.Info = plan.UpdateInfo{Matched: o.matched, Updated: o.changed, Warnings: o.warnings}
	}
	return res
}

// change runs a statement that changes rows; done is false if the engine has to.
func (r *Runner) change(ctx *sql.Context, s *session.Session, text string,
	params func(sql.CollationID) ([]expr.Node, error)) (res *outcome, done bool, err error) {
	c := &change{}
	st, err := r.prepare(ctx, s, text, params, func(st *statement, text string, given []expr.Node) error {
		c.statement = st
		return c.make(text, given)
	})
	if st == nil {
		return nil, err != nil, err
	}
	defer st.close()
	c.mem = exec.NewMem(r.memory(), statementMemory)
	defer func() { c.mem.Shrink(c.held) }()
	return c.run()
}

// make binds and plans.
func (c *change) make(text string, params []expr.Node) error {
	st := c.statement
	if t := st.s.Txn(); t != nil && (t.Over || t.ReadOnly) {
		return left("transaction that cannot write")
	}
	tree, err := st.begin(text)
	if err != nil {
		return err
	}
	st.cat.changes = true
	if c.c, err = bind.BindChange(tree, st.r.facts(st.ctx, st.cat, params)); err != nil {
		return err
	}
	if st.cat.ordered() {
		return left("ordering by timestamps")
	}
	if err := c.mayRead(tree); err != nil {
		return err
	}
	c.strict = sql.LoadSqlMode(st.ctx).Strict()
	if c.strict {
		st.env.Warn = func(int, string) { c.warned = true }
	}
	for _, t := range c.c.Targets {
		if err := c.permitted(t); err != nil {
			return err
		}
	}
	if callsUUID(c.c) {
		return left("UUID in a change")
	}
	st.out = c.c.Out
	options := st.r.Options
	options.Locking = true
	if err := st.plans(c.c.Query, options); err != nil {
		return err
	}
	for _, t := range c.c.Targets {
		if err := c.target(t); err != nil {
			return err
		}
	}
	return nil
}

var privileges = map[bind.ChangeKind]sql.PrivilegeType{
	bind.Delete: sql.PrivilegeType_Delete, bind.Update: sql.PrivilegeType_Update, bind.Insert: sql.PrivilegeType_Insert,
}

// permitted refuses tables of which a change involves more than their rows, and users that may not
// change them.
func (c *change) permitted(t *bind.Target) error {
	ctx := c.ctx
	table := sql.PrivilegeCheckSubject{Database: t.Table.DB(), Table: t.Table.Name()}
	op := sql.NewPrivilegedOperation(table, privileges[c.c.Kind])
	if !c.r.Engine.Analyzer.Catalog.MySQLDb.UserHasPrivileges(ctx, op) {
		return left("privileges")
	}
	st := t.Table.(*access.Table).Stored()
	if st.Def.HasFulltext() {
		return left("change of a table with full text")
	}
	snap, err := c.s.Snapshot(ctx)
	if err != nil {
		return left("error of the catalog")
	}
	d := snap.Database(st.Def.Desc.DB)
	if d == nil {
		return left("error of the catalog")
	}
	name := strings.ToLower(st.Def.Desc.Name)
	for _, o := range d.Objects[schema.IxTrigger] {
		if fires(o.Trigger.CreateStatement, events[c.c.Kind], name) {
			return left("triggers")
		}
	}
	if intVar(ctx, "foreign_key_checks") == 0 {
		return nil
	}
	return c.references(t, st.Def, d.ReferencedBy[name])
}

var events = map[bind.ChangeKind]string{bind.Delete: "delete", bind.Update: "update", bind.Insert: "insert"}

// triggerHead is the part of CREATE TRIGGER that says when it fires.
var triggerHead = regexp.MustCompile("(?is)\\b(insert|update|delete)\\s+on\\s+" +
	"(?:[`\\w$]+\\s*\\.\\s*)?([`\\w$]+)\\s+for\\s+each\\b")

// fires reports whether a trigger may fire at an event of a table. One whose text is not understood
// may.
func fires(create, event, name string) bool {
	m := triggerHead.FindStringSubmatch(create)
	return m == nil || strings.EqualFold(m[1], event) && strings.EqualFold(strings.Trim(m[2], "`"), name)
}

// references refuses changes that foreign keys have to do with.
func (c *change) references(t *bind.Target, def *schema.Table, by []sql.ForeignKeyConstraint) error {
	set := func(cols []string) bool {
		return slices.ContainsFunc(t.Sets, func(s bind.Set) bool {
			return slices.ContainsFunc(cols, func(n string) bool { return strings.EqualFold(n, def.Cols[s.Col].Desc.Name) })
		})
	}
	refused := false
	switch c.c.Kind {
	case bind.Delete:
		refused = len(by) > 0
	case bind.Insert:
		refused = len(def.Desc.FKs) > 0
	case bind.Update:
		refused = slices.ContainsFunc(def.Desc.FKs, func(fk sql.ForeignKeyConstraint) bool { return set(fk.Columns) }) ||
			slices.ContainsFunc(by, func(fk sql.ForeignKeyConstraint) bool { return set(fk.ParentColumns) })
	}
	if refused {
		return left("foreign keys")
	}
	return nil
}

// callsUUID reports whether values come from UUID(): the engine makes keys of the client's region.
func callsUUID(c *bind.Change) bool {
	found := false
	var look func(algebra.Rel) bool
	look = func(r algebra.Rel) bool {
		for _, n := range r.Nodes() {
			expr.Walk(n, func(n expr.Node) bool {
				switch n := n.(type) {
				case *expr.Call:
					found = found || strings.EqualFold(n.Fn.Name, "uuid")
				case *expr.Sub:
					if in, ok := n.Rel.(algebra.Rel); ok {
						algebra.Walk(in, look)
					}
				}
				return !found
			})
		}
		return !found
	}
	algebra.Walk(c.Rel, look)
	return found
}

// target finds what the batches have of a table.
func (c *change) target(b *bind.Target) error {
	t := &target{Target: b, st: b.Table.(*access.Table).Stored(), at: -1}
	cols := c.op.Cols()
	if b.Row != 0 {
		t.row = slices.Index(cols, b.Row)
	} else {
		t.at, t.zero = t.st.Def.Desc.AutoIncCol(), sql.LoadSqlMode(c.ctx).ModeEnabled("NO_AUTO_VALUE_ON_ZERO")
	}
	if c.c.Joined {
		t.seen = map[string]bool{}
	}
	for _, s := range b.Sets {
		at := slices.Index(cols, s.Value)
		k, err := newSetter(c.ctx, t.st.Def.Cols[s.Col], c.op.Types()[at])
		if err != nil {
			return err
		}
		k.pos, k.at, k.derived, k.strict, k.loc = s.Col, at, s.Derived, c.strict, c.env.Zone()
		t.sets = append(t.sets, k)
	}
	for _, k := range b.Checks {
		at := slices.Index(cols, k.Value)
		if kind := c.op.Types()[at].Kind; kind != expr.Int && kind != expr.Null {
			return left("CHECK of another type")
		}
		t.checks = append(t.checks, at)
	}
	c.targets = append(c.targets, t)
	return nil
}

// run executes the statement in the session's transaction, and commits it if it is its own. done is
// false if the engine has to run it; nothing was changed then.
func (c *change) run() (res *outcome, done bool, err error) {
	s, ctx := c.s, c.ctx
	explicit := s.Explicit(ctx)
	s.Stmt.Planned, s.Stmt.Writes = true, true
	s.Stmt.PerRow, s.Stmt.Blind = false, c.c.Kind == bind.Insert && !explicit
	t := s.Txn()
	if t == nil {
		t = session.NewTxn(s)
		s.SetTransaction(t)
	}
	sql.IncrementStatusVariable(ctx, "Questions", 1)
	s.ClearWarnings()
	if err = c.drain(c.take); err == nil && c.warned {
		err = &late{"warning of an expression"}
	}
	reason, ok := c.refused(err)
	if !ok {
		reason, ok = isLate(err)
	}
	if ok {
		if !explicit {
			t.Rollback()
			s.SetTransaction(nil)
		}
		c.r.Fallbacks.add(reason)
		return nil, false, nil
	}
	if err == nil {
		res, err = c.apply()
	}
	if err == nil && !explicit {
		err = t.Commit(ctx)
		s.SetTransaction(nil)
	}
	if err != nil {
		return nil, true, err
	}
	c.counted(res)
	return res, true, nil
}

var commands = map[bind.ChangeKind]string{bind.Delete: "Com_delete", bind.Update: "Com_update", bind.Insert: "Com_insert"}

// counted keeps what the session tells about its last statement.
func (c *change) counted(res *outcome) {
	sql.IncrementStatusVariable(c.ctx, commands[c.c.Kind], 1)
	info := c.ctx.GetLastQueryInfo()
	info.RowCount.Store(int64(res.affected()))
	if c.c.Kind == bind.Update {
		info.FoundRows.Store(int64(res.matched))
	}
}

// take keeps the rows of a batch.
func (c *change) take(b *expr.Batch) error {
	if c.warned {
		return &late{"warning of an expression"}
	}
	for _, i := range b.Sel {
		c.row++
		for _, t := range c.targets {
			if err := c.keep(t, b, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// keep keeps the change of one row, unless it has been kept.
func (c *change) keep(t *target, b *expr.Batch, i int32) error {
	p := pending{}
	if t.Row != 0 {
		v := b.Cols[t.row]
		if v.IsNull(i) || t.seen[v.S[i]] {
			return nil
		}
		p.stored = strings.Clone(v.S[i])
		if t.seen != nil {
			t.seen[p.stored] = true
		}
	}
	if len(t.sets) > 0 {
		p.vals = make([]any, len(t.sets))
	}
	for k, s := range t.sets {
		var err error
		if p.vals[k], err = s.value(b.Cols[s.at], i, c.row); err != nil {
			return err
		}
	}
	for k, at := range t.checks {
		v := b.Cols[at]
		if v.T.Kind != expr.Null && !v.IsNull(i) && v.I[i] == 0 && p.failed == 0 {
			p.failed = k + 1
		}
	}
	n := int64(len(p.stored)) + 80 + 40*int64(len(p.vals))
	for _, v := range p.vals {
		if s, ok := v.(string); ok {
			n += int64(len(s))
		}
	}
	if err := c.mem.Grow(n); err != nil {
		return err
	}
	c.held += n
	t.pending = append(t.pending, p)
	return nil
}

// apply writes what was kept. If that fails, nothing of it stays.
func (c *change) apply() (*outcome, error) {
	res := &outcome{kind: c.c.Kind, found: c.ctx.Client().Capabilities&mysql.CapabilityClientFoundRows != 0}
	var editors []*table.Editor
	var err error
	for _, t := range c.targets {
		if len(t.pending) == 0 {
			continue
		}
		e := t.st.Editor(c.ctx)
		e.Most = gathered
		e.StatementBegin(c.ctx)
		editors = append(editors, e)
		if err = c.write(t, e, res); err != nil {
			break
		}
	}
	for _, e := range editors {
		if err == nil {
			err = e.StatementComplete(c.ctx)
		}
	}
	if err != nil {
		for _, e := range editors {
			_ = e.DiscardChanges(c.ctx, err)
		}
		return nil, err
	}
	res.warnings = int(c.s.WarningCount())
	return res, nil
}

// write hands the changes of a table to its editor.
func (c *change) write(t *target, e *table.Editor, res *outcome) error {
	w := &writer{change: c, target: t, e: e, res: res}
	if c.c.Kind == bind.Update && !c.c.Ordered {
		t.arrange()
	}
	for i := range t.pending {
		if i%1024 == 0 {
			if err := c.ctx.Err(); err != nil {
				return err
			}
		}
		changed, err := true, error(nil)
		if c.c.Kind == bind.Insert {
			err = w.insert(&t.pending[i])
		} else {
			changed, err = w.stored(&t.pending[i])
		}
		if err != nil {
			return err
		}
		res.matched++
		if changed {
			res.changed++
		}
	}
	return nil
}

// arrange puts rows whose keys change in the order of the table: whether one of the new keys is
// still there when it comes, must not hang on the plan.
func (t *target) arrange() {
	def := t.st.Def
	if !slices.ContainsFunc(t.sets, func(s *setter) bool { return def.InPK(s.pos) || def.InIndex(s.pos) }) {
		return
	}
	slices.SortStableFunc(t.pending, func(a, b pending) int {
		x, _, _ := access.StoredRow(a.stored)
		y, _, _ := access.StoredRow(b.stored)
		return bytes.Compare(x[base.ShardPrefixLen:], y[base.ShardPrefixLen:])
	})
}

// writer writes the rows of one table.
type writer struct {
	*change
	*target
	e       *table.Editor
	res     *outcome
	counted bool // the counter has given a value
}

// stored deletes or updates a row.
func (w *writer) stored(p *pending) (changed bool, err error) {
	def := w.st.Def
	key, value, ok := access.StoredRow(p.stored)
	if !ok {
		return false, fmt.Errorf("a row of table %s was lost on its way", w.st.Name())
	}
	old := make(sql.Row, len(def.Cols))
	if err := def.DecodeRow(w.ctx, value, old); err != nil {
		return false, schema.ClientError(err)
	}
	if w.c.Kind == bind.Delete {
		return true, w.e.DeleteAt(w.ctx, key, old)
	}
	row := old.Copy()
	for k, s := range w.sets {
		if !s.derived {
			row[s.pos] = p.vals[k]
		}
	}
	row = def.RoundTimes(row)
	for _, s := range w.sets {
		if s.derived || changed {
			continue
		}
		eq, err := same(w.ctx, s.col, old[s.pos], row[s.pos])
		if err != nil {
			return false, err
		}
		changed = !eq
	}
	if !changed {
		return false, nil
	}
	for k, s := range w.sets {
		if s.derived {
			row[s.pos] = p.vals[k]
		}
	}
	if err := w.check(p); err != nil {
		return false, err
	}
	return true, w.e.UpdateAt(w.ctx, key, old, row)
}

func (w *writer) check(p *pending) error {
	if p.failed == 0 {
		return nil
	}
	return sql.ErrCheckConstraintViolated.New(w.Checks[p.failed-1].Name)
}

// insert adds a row.
func (w *writer) insert(p *pending) error {
	row := make(sql.Row, len(w.st.Def.Cols))
	for k, s := range w.sets {
		row[s.pos] = p.vals[k]
	}
	if err := w.check(p); err != nil {
		return err
	}
	if w.at >= 0 {
		if err := w.number(row); err != nil {
			return err
		}
	}
	return w.e.Insert(w.ctx, row)
}

// number gives a row its AUTO_INCREMENT value, or tells the counter which one it has. The client is
// told the first value that the counter gave, or else the last one of the rows.
func (w *writer) number(row sql.Row) error {
	given := row[w.at]
	n, signed := schema.ToInt64(given)
	if u, ok := schema.ToUint64(given); (signed && n == 0 || ok && u == 0) && !w.zero {
		given = nil
	}
	if given != nil && signed && n < 0 {
		return nil // the counter counts from 1
	}
	v, err := w.st.GetNextAutoIncrementValue(w.ctx, given)
	if err != nil {
		return err
	}
	if given != nil {
		if !w.counted {
			w.res.id = v
		}
		return nil
	}
	col := w.st.Def.Cols[w.at]
	conv, in, err := col.Type.Convert(w.ctx, v)
	if err != nil || in != sql.InRange {
		return sql.ErrValueOutOfRange.New(v, col.Type)
	}
	row[w.at] = conv
	if !w.counted {
		w.counted, w.res.id = true, v
		w.ctx.GetLastQueryInfo().LastInsertId.Store(int64(v))
	}
	return nil
}
