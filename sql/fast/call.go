package fast

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
	"github.com/dolthub/vitess/go/vt/sqlparser"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
	"github.com/godwitdb/godwit/sql/zone"
)

// The fast path answers statements on one row by its primary key, and reads of a few rows by a
// range of it, without the engine's analyzer, which would cost several times the rest. It uses the
// same snapshot, privileges, transactions, pins, locks and editors; whatever it is not sure about
// (a value that must be converted with a warning, say) it leaves to the engine before it has done
// anything.

// Call is one statement on its way through the fast path.
type Call struct {
	r        *Runner
	s        *session.Session
	c        *mysql.Conn
	query    string
	template *Template
	args     []Literal
}

// Text recognises a text statement.
func (r *Runner) Text(s *session.Session, c *mysql.Conn, query string) *Call {
	if len(query) < 12 || r.off(s) {
		return nil
	}
	switch query[0] | 0x20 {
	case 's', 'i', 'u', 'd':
	default:
		return nil
	}
	text, args, ok := Normalize(query)
	if !ok {
		return nil
	}
	tmpl := r.template(s, text)
	if tmpl == nil || tmpl.list != nil || len(tmpl.guards) > 0 {
		return nil
	}
	return &Call{r, s, c, query, tmpl, args}
}

// Prepared recognises a prepared statement and its bound values.
func (r *Runner) Prepared(s *session.Session, c *mysql.Conn, p *mysql.PrepareData) *Call {
	f := r.prepared(s, c, p)
	if f == nil || f.template.list != nil || len(f.template.guards) > 0 {
		return nil
	}
	return f
}

func (r *Runner) prepared(s *session.Session, c *mysql.Conn, p *mysql.PrepareData) *Call {
	if r.off(s) {
		return nil
	}
	tmpl := r.template(s, p.PrepareStmt)
	if tmpl == nil {
		return nil
	}
	args := make([]Literal, len(p.BindVars))
	for i := range args {
		v := p.BindVars["v"+strconv.Itoa(i+1)]
		if v == nil {
			return nil
		}
		l, ok := BindLiteral(v)
		if !ok {
			return nil
		}
		args[i] = l
	}
	return &Call{r, s, c, p.PrepareStmt, tmpl, args}
}

// BindLiteral is a bound value as a constant; ok is false if it is of a type that needs judgement.
func BindLiteral(v *querypb.BindVariable) (Literal, bool) {
	switch t := v.Type; {
	case t == sqltypes.Null:
		return Literal{LitNull, ""}, true
	case sqltypes.IsIntegral(t) && t != sqltypes.Year:
		return Literal{LitInt, string(v.Value)}, true
	case t == sqltypes.Decimal:
		return Literal{LitDecimal, string(v.Value)}, true
	case sqltypes.IsText(t) || sqltypes.IsBinary(t) || t == sqltypes.Datetime || t == sqltypes.Timestamp || t == sqltypes.Date:
		return Literal{LitString, string(v.Value)}, true
	}
	return Literal{}, false
}

// template is the template of a statement text; parsed once.
func (r *Runner) template(s *session.Session, text string) *Template {
	if sh, ok := r.templates.get(text); ok {
		return sh
	}
	var sh *Template
	if stmt, err := sqlparser.Parse(text); err == nil {
		sh = templateOf(stmt)
	}
	r.templates.put(text, sh)
	return sh
}

// plan finds the table and checks that the statement can be done here.
func (f *Call) plan(ctx *sql.Context) *boundPlan {
	db := f.template.db
	if db == "" {
		db = f.s.GetCurrentDatabase()
	}
	if db == "" || f.s.Nested() {
		return nil
	}
	snap, err := f.s.Snapshot(ctx)
	if err != nil {
		return nil
	}
	t := snap.Table(db, f.template.table)
	if t == nil {
		return nil
	}
	if x := f.s.Txn(); f.s.NextAsOf != 0 || x != nil && x.AsOf != 0 {
		return nil // the engine knows the tables of the past
	}
	f.s.NoteTable(t)
	return f.template.bind(snap, t)
}

// Privileges are those that the statements of a kind need.
var Privileges = map[Kind][]sql.PrivilegeType{
	Select: {sql.PrivilegeType_Select}, Insert: {sql.PrivilegeType_Insert},
	Update: {sql.PrivilegeType_Update, sql.PrivilegeType_Select}, Delete: {sql.PrivilegeType_Delete, sql.PrivilegeType_Select},
}

// Try runs the statement if it is one for the fast path.
func (f *Call) Try(ctx context.Context, sent *bool, send func(*sqltypes.Result) error) (done bool, err error) {
	if f == nil {
		return false, nil
	}
	return f.run(ctx, func(r *sqltypes.Result) error {
		*sent = true
		return send(r)
	})
}

// run executes the statement; done is false if the engine has to do it.
func (f *Call) run(ctx context.Context, send func(*sqltypes.Result) error) (done bool, err error) {
	sctx, err := f.context(ctx)
	if err != nil {
		return false, nil
	}
	_ = f.s.CommandBegin()
	p, vals, ok := f.bind(sctx)
	if !ok {
		return false, nil
	}
	f.s.Stmt.Planned, f.s.Stmt.Writes, f.s.Stmt.Lock = true, f.template.kind != Select, f.template.lock
	t := f.s.Txn()
	if t == nil {
		t = session.NewTxn(f.s)
		f.s.SetTransaction(t)
	} else if t.Over || t.Schema != nil || t.ReadOnly && f.s.Stmt.Writes {
		return false, nil
	}
	sctx, err = f.r.Engine.ProcessList.BeginQuery(sctx, f.query)
	if err != nil {
		return true, err
	}
	defer f.r.Engine.ProcessList.EndQuery(sctx)
	sql.IncrementStatusVariable(sctx, "Questions", 1)
	f.s.ClearWarnings()
	res, ok, err := f.execute(sctx, t, p, vals)
	explicit := f.s.Explicit(sctx)
	if !ok {
		if !explicit {
			t.Rollback()
			f.s.SetTransaction(nil)
		}
		return false, nil
	}
	if err == nil && !explicit {
		f.s.NoteAnswer(res)
		err = t.Commit(sctx)
		f.s.SetTransaction(nil)
	}
	if err != nil {
		return true, sql.CastSQLError(err)
	}
	f.count(sctx, res)
	return true, send(res)
}

// context is the engine's context of the statement: a copy of the connection's first one, as a new
// one costs ten allocations. A connection executes one statement at a time, so that all may have
// one number in the list of processes.
func (f *Call) context(ctx context.Context) (*sql.Context, error) {
	first := f.s.FirstContext
	if first == nil {
		made, err := f.r.Sessions.NewContextWithQuery(context.Background(), f.c, "")
		if err != nil {
			return nil, err
		}
		f.s.FirstContext, first = made, made
	}
	sctx := first.WithQuery(f.query)
	sctx.Context = ctx
	sctx.SetQueryTime(sql.Now())
	return sctx, nil
}

// bind finds the table, checks the privileges, and converts the constants; ok is false if the
// engine has to run the statement, or to word why it is refused.
func (f *Call) bind(ctx *sql.Context) (p *boundPlan, vals values, ok bool) {
	p = f.plan(ctx)
	if p == nil || f.template.kind == Select && p.described(f.s) == nil {
		return nil, vals, false
	}
	mdb := f.r.Engine.Analyzer.Catalog.MySQLDb
	if !p.t.Desc.Temporary() && !mdb.UserHasPrivileges(ctx, sql.NewPrivilegedOperation(
		sql.PrivilegeCheckSubject{Database: p.t.Desc.DB, Table: p.t.Desc.Name}, Privileges[f.template.kind]...)) {
		return nil, vals, false
	}
	if f.template.kind == Select && f.template.lock == kv.LockExclusive &&
		!rights.Of(ctx, mdb).Locks(p.t.Desc.DB, p.t.Desc.Name) {
		return nil, vals, false
	}
	vals, ok = f.values(ctx, p)
	return p, vals, ok
}

// count keeps what the session tells about its last statement.
func (f *Call) count(ctx *sql.Context, res *sqltypes.Result) {
	info := ctx.GetLastQueryInfo()
	if f.template.kind == Select {
		sql.IncrementStatusVariable(ctx, "Com_select", 1)
		f.s.Work.Examined += uint64(len(res.Rows))
		info.FoundRows.Store(int64(len(res.Rows)))
		info.RowCount.Store(-1)
		return
	}
	sql.IncrementStatusVariable(ctx, counters[f.template.kind], 1)
	if f.template.kind != Insert {
		f.s.Work.Examined += res.RowsAffected
	}
	info.RowCount.Store(int64(res.RowsAffected))
}

// counters are the status variables of changes.
var counters = map[Kind]string{Insert: "Com_insert", Update: "Com_update", Delete: "Com_delete"}

// values are the constants of one statement, each in the type of the column it meets.
type values struct {
	args int   // how many come with the call; those of the text follow
	v    []any // by number
	own  []any // those that the table gives
	loc  *time.Location
}

func (v values) index(arg int) int {
	if arg >= FixedArg {
		return v.args + arg - FixedArg
	}
	return arg
}

func (v values) at(arg int) any     { return v.v[v.index(arg)] }
func (v values) set(arg int, x any) { v.v[v.index(arg)] = x }

// values converts the constants to the types of the columns they meet, exactly or not at all.
func (f *Call) values(ctx *sql.Context, p *boundPlan) (values, bool) {
	vals := values{args: len(f.args), v: make([]any, len(f.args)+len(f.template.fixed)), loc: time.UTC}
	if p.zoned {
		var err error
		if vals.loc, err = zone.Of(ctx); err != nil {
			return vals, false
		}
	}
	for i, arg := range p.pk {
		if !f.value(ctx, p, vals, arg, p.t.PK[i], true) {
			return vals, false
		}
	}
	for _, s := range p.sets {
		if s.op == 0 {
			if !f.value(ctx, p, vals, s.arg, s.pos, false) {
				return vals, false
			}
			continue
		}
		l, ok := f.literal(s.arg)
		if !ok {
			return vals, false
		}
		v, ok := operand(p.t.Cols[s.pos], l)
		if !ok {
			return vals, false
		}
		vals.set(s.arg, v)
	}
	if !f.guardValues(p, vals) {
		return vals, false
	}
	for pos, arg := range p.insert {
		if !f.insertValue(ctx, p, vals, arg, pos) {
			return vals, false
		}
	}
	if !vals.give(ctx, p) {
		return vals, false
	}
	if p.boundSpan == nil {
		return vals, true
	}
	return vals, f.value(ctx, p, vals, p.lo, p.t.PK[0], true) && f.value(ctx, p, vals, p.hi, p.t.PK[0], true) && p.narrow(vals)
}

// give finds the values that the table gives. Constants of definitions are in UTC.
func (v *values) give(ctx *sql.Context, p *boundPlan) bool {
	if len(p.own) == 0 {
		return true
	}
	v.own = make([]any, len(p.own))
	for i, o := range p.own {
		var ok bool
		if o.lit.Kind == LitNow {
			v.own[i], ok = presentFor(ctx, p.t.Cols[o.pos], o.lit.Text, v.loc)
		} else {
			v.own[i], ok = Exact(ctx, p.t.Cols[o.pos], o.lit, false)
		}
		if !ok {
			return false
		}
	}
	return true
}

// exact converts a constant for a column, exactly or not at all; see [Exact].
func (v values) exact(ctx *sql.Context, c *schema.Column, l Literal, key bool) (any, bool) {
	switch {
	case l.Kind == LitNow && !key:
		return presentFor(ctx, c, l.Text, v.loc)
	case l.Kind == LitString && v.loc != time.UTC && !key && isTimestamp(c):
		return momentOf(ctx, c, l.Text)
	}
	return Exact(ctx, c, l, key)
}

// value converts a constant, if it is one (arg >= 0), for a column.
func (f *Call) value(ctx *sql.Context, p *boundPlan, vals values, arg, pos int, key bool) bool {
	if arg < 0 {
		return true
	}
	l, ok := f.literal(arg)
	if !ok {
		return false
	}
	v, ok := vals.exact(ctx, p.t.Cols[pos], l, key)
	if ok {
		vals.set(arg, v)
	}
	return ok
}

// insertValue converts a constant for a column of a new row.
func (f *Call) insertValue(ctx *sql.Context, p *boundPlan, vals values, arg, pos int) bool {
	if pos != p.givenInc {
		return f.value(ctx, p, vals, arg, pos, p.t.InPK(pos))
	}
	l, ok := f.literal(arg)
	if !ok {
		return false
	}
	if l.Kind == LitNull || l.Kind == LitInt && l.Text == "0" && !sql.LoadSqlMode(ctx).ModeEnabled("NO_AUTO_VALUE_ON_ZERO") {
		return true // the counter's next
	}
	if !f.value(ctx, p, vals, arg, pos, p.t.InPK(pos)) {
		return false
	}
	n, ok := schema.ToUint64(vals.at(arg))
	return ok && n != 0 // negative numbers have rules of their own
}

// literal is a constant by its number.
func (f *Call) literal(arg int) (Literal, bool) {
	args := f.args
	if arg >= FixedArg {
		args, arg = f.template.fixed, arg-FixedArg
	}
	if arg >= len(args) {
		return Literal{}, false
	}
	return args[arg], true
}

// Exact converts a constant to the type of the column if that needs no judgement. key asks
// for a value that compares with the column as the constant does.
func Exact(ctx *sql.Context, c *schema.Column, l Literal, key bool) (any, bool) {
	if l.Kind == LitNull {
		return nil, !key && c.Desc.Nullable
	}
	v, ok := asColumn(c, l, key)
	if !ok {
		return nil, false
	}
	conv, in, err := c.Type.Convert(ctx, v)
	if err != nil || in != sql.InRange {
		return nil, false
	}
	if s, ok := conv.(string); ok && !key && c.Type.Type() == sqltypes.Char {
		return strings.TrimRight(s, " "), true
	}
	if d, ok := v.(decimal.Decimal); ok && key && c.Kind == schema.KindDecimal && !conv.(decimal.Decimal).Equal(d) {
		return nil, false
	}
	return conv, true
}

// asColumn is a constant as a Go value that the type of the column converts without judgement.
func asColumn(c *schema.Column, l Literal, key bool) (any, bool) {
	switch l.Kind {
	case LitString:
		switch c.Kind {
		case schema.KindString, schema.KindBytes:
			return l.Text, true
		case schema.KindDatetime:
			return l.Text, !key && plainTime(l.Text, c.Type.Type() == sqltypes.Date)
		case schema.KindJSON, schema.KindTimespan:
			return l.Text, !key
		}
	case LitInt:
		if c.Kind == schema.KindDecimal || c.Kind == schema.KindFloat || c.Integer() {
			n, err := strconv.ParseInt(l.Text, 10, 64)
			return n, err == nil
		}
	case LitDecimal:
		if c.Kind == schema.KindDecimal || c.Kind == schema.KindFloat && !key {
			d, err := decimal.NewFromString(l.Text)
			return d, err == nil
		}
	}
	return nil, false // enums and the rest have rules of their own
}

// plainTime reports whether a text is a whole date, with a whole time unless only a date is wanted:
// all other forms have rules of their own.
func plainTime(s string, date bool) bool {
	form := "dddd-dd-dd dd:dd:dd"
	if date || len(s) == len("dddd-dd-dd") {
		form = "dddd-dd-dd"
	}
	if n := len(s) - len(form); !date && n > 1 && n <= 7 && s[len(form)] == '.' {
		form += ".dddddd"[:n] // a fraction
	}
	if len(s) != len(form) || s[5:7] == "00" || s[8:10] == "00" {
		return false
	}
	for i := range len(s) {
		if form[i] == 'd' && (s[i] < '0' || s[i] > '9') || form[i] != 'd' && s[i] != form[i] {
			return false
		}
	}
	return true
}

// operand is the constant of column ± constant.
func operand(c *schema.Column, l Literal) (any, bool) {
	_, unsigned := mostUnsigned(c)
	switch {
	case l.Kind == LitInt && (unsigned || c.Kind == schema.KindInt && c.Type.Type() != sqltypes.Year):
		n, err := strconv.ParseInt(l.Text, 10, 64)
		return n, err == nil
	case c.Kind == schema.KindDecimal && (l.Kind == LitInt || l.Kind == LitDecimal):
		d, err := decimal.NewFromString(l.Text)
		return d, err == nil
	}
	return nil, false
}

// applied computes column ± constant; ok is false if it overflows or needs rounding.
func applied(c *schema.Column, ctx *sql.Context, old any, op byte, operand any) (any, bool) {
	switch x := operand.(type) {
	case int64:
		if x == math.MinInt64 {
			return nil, false
		}
		if op == '-' {
			x = -x
		}
		if c.Kind == schema.KindUint {
			return appliedUnsigned(c, ctx, old, x)
		}
		n, ok := schema.ToInt64(old)
		if !ok {
			return nil, false
		}
		sum := n + x
		if (sum > n) != (x > 0) && x != 0 {
			return nil, false
		}
		v, in, err := c.Type.Convert(ctx, sum)
		return v, err == nil && in == sql.InRange
	case decimal.Decimal:
		d, ok := old.(decimal.Decimal)
		if !ok {
			return nil, false
		}
		if op == '-' {
			x = x.Neg()
		}
		sum := d.Add(x)
		v, in, err := c.Type.Convert(ctx, sum)
		if err != nil || in != sql.InRange || !v.(decimal.Decimal).Equal(sum) {
			return nil, false
		}
		return v, true
	}
	return nil, false
}

// appliedUnsigned computes column + by of an UNSIGNED column.
func appliedUnsigned(c *schema.Column, ctx *sql.Context, old any, by int64) (any, bool) {
	n, ok := schema.ToUint64(old)
	sum := n + uint64(by)
	if !ok || by != 0 && (sum > n) != (by > 0) {
		return nil, false
	}
	v, in, err := c.Type.Convert(ctx, sum)
	return v, err == nil && in == sql.InRange
}

// mostUnsigned is the largest value of an UNSIGNED column; ok is false of others.
func mostUnsigned(c *schema.Column) (most uint64, ok bool) {
	switch c.Type.Type() {
	case sqltypes.Uint8:
		most = math.MaxUint8
	case sqltypes.Uint16:
		most = math.MaxUint16
	case sqltypes.Uint24:
		most = 1<<24 - 1
	case sqltypes.Uint32:
		most = math.MaxUint32
	case sqltypes.Uint64:
		most = math.MaxUint64
	}
	return most, most > 0 && c.Kind == schema.KindUint
}

// execute does the statement in the transaction. ok is false only before anything was changed.
func (f *Call) execute(ctx *sql.Context, t *session.Txn, p *boundPlan, vals values) (*sqltypes.Result, bool, error) {
	st := &table.Table{Env: f.r.Env, Def: p.t, Access: &table.Access{}}
	if f.template.kind == Insert {
		return f.insert(ctx, t, p, st, vals)
	}
	if p.boundSpan != nil {
		res, err := f.scanSpan(ctx, p, st, vals)
		return res, true, err
	}
	if f.template.kind != Select {
		st.Access.Lock = kv.LockExclusive
	}
	found, raw, err := f.find(ctx, p, st, vals)
	switch {
	case err != nil:
		return nil, true, err
	case f.template.kind == Select:
		res := &sqltypes.Result{Fields: p.described(f.s), RowsAffected: uint64(len(found))}
		if len(found) > 0 {
			res.Rows, err = encodeRows(ctx, p, vals.loc, found)
		}
		return res, true, err
	case len(found) == 0:
		return f.changed(0, 0), true, nil
	}
	return f.change(ctx, p, st, vals, found[0], raw)
}

// find reads the row, none or one, and its encoding.
func (f *Call) find(ctx *sql.Context, p *boundPlan, st *table.Table, vals values) (found []sql.Row, raw []byte, err error) {
	row := make(sql.Row, len(p.t.Cols))
	for i, pos := range p.t.PK {
		row[pos] = vals.at(p.pk[i])
	}
	ref, err := p.t.RefOf(ctx, row)
	if schema.NoPart(err) {
		return nil, nil, nil // no row has the value
	}
	if err != nil {
		return nil, nil, schema.ClientError(err)
	}
	src, err := st.Open(ctx)
	if err != nil {
		return nil, nil, err
	}
	src.Want = p.want
	key := p.t.RowKey(ref)
	rows, err := f.draft(ctx, p, src, vals, key)
	if err == nil && rows == nil {
		rows, err = src.Get(ctx, []base.Key{key})
	}
	if err == nil {
		err = src.Decode(ctx, rows)
	}
	if err != nil {
		return nil, nil, err
	}
	if len(rows) == 1 {
		raw = rows[0].Value
	}
	return src.Buf, raw, nil
}

// change updates or deletes the row found.
func (f *Call) change(ctx *sql.Context, p *boundPlan, st *table.Table, vals values, old sql.Row,
	raw []byte) (*sqltypes.Result, bool, error) {
	next := old
	if f.template.kind == Update {
		next = old.Copy()
		for _, s := range p.sets {
			v := vals.at(s.arg)
			if s.op != 0 {
				if next[s.pos] == nil {
					continue
				}
				var ok bool
				if v, ok = applied(p.t.Cols[s.pos], ctx, next[s.pos], s.op, v); !ok {
					return nil, false, nil
				}
			}
			next[s.pos] = v
		}
		if same, err := old.Equals(ctx, next, p.exact); err != nil {
			return nil, false, nil
		} else if same {
			return f.changed(1, 0), true, nil
		}
		for i, o := range p.own {
			next[o.pos] = vals.own[i]
		}
	}
	e := st.Editor(ctx)
	e.StatementBegin(ctx)
	var err error
	if f.template.kind == Update {
		if f.s.Crosses() {
			e.Patch = p.patch(ctx, f.template, vals, raw)
		}
		err = e.Update(ctx, old, next)
	} else {
		err = e.Delete(ctx, old)
	}
	if err == nil {
		err = e.StatementComplete(ctx)
	}
	if err != nil {
		_ = e.DiscardChanges(ctx, err)
		return nil, true, err
	}
	return f.changed(1, 1), true, nil
}

// changed is the answer to an UPDATE or DELETE.
func (f *Call) changed(matched, changed uint64) *sqltypes.Result {
	r := &sqltypes.Result{RowsAffected: changed}
	if f.template.kind == Update {
		r.Info = fmt.Sprintf("Rows matched: %d  Changed: %d  Warnings: 0", matched, changed)
		if f.c.Capabilities&mysql.CapabilityClientFoundRows != 0 {
			r.RowsAffected = matched
		}
	}
	return r
}

func (f *Call) insert(ctx *sql.Context, t *session.Txn, p *boundPlan, st *table.Table,
	vals values) (*sqltypes.Result, bool, error) {
	if _, err := t.Begin(ctx); err != nil {
		return nil, true, err
	}
	row, id, counted, err := f.newRow(ctx, p, st, vals)
	if err != nil {
		return nil, true, err
	}
	f.s.Stmt.Blind = !f.s.Explicit(ctx)
	e := st.Editor(ctx)
	e.StatementBegin(ctx)
	err = e.Insert(ctx, row)
	if err == nil {
		err = e.StatementComplete(ctx)
	}
	if err != nil {
		_ = e.DiscardChanges(ctx, err)
		return nil, true, err
	}
	if counted {
		ctx.GetLastQueryInfo().LastInsertId.Store(int64(id))
	}
	return &sqltypes.Result{RowsAffected: 1, InsertID: id}, true, nil
}

// newRow is the row to insert, and the value of its AUTO_INCREMENT column, 0 if it has none.
// counted says that the counter gave the value: one that the client gave is told to it, but is not
// what LAST_INSERT_ID() returns.
func (f *Call) newRow(ctx *sql.Context, p *boundPlan, st *table.Table, vals values) (row sql.Row, id uint64,
	counted bool, err error) {
	row = make(sql.Row, len(p.t.Cols))
	for i, o := range p.own {
		row[o.pos] = vals.own[i]
	}
	for pos, arg := range p.insert {
		given := arg >= 0 && (pos != p.givenInc || vals.at(arg) != nil)
		if given {
			row[pos] = vals.at(arg)
		}
		if given && pos != p.givenInc || !given && arg == argNull {
			continue
		}
		if id, err = st.GetNextAutoIncrementValue(ctx, row[pos]); err != nil {
			return nil, 0, false, err
		}
		if given {
			continue
		}
		v, in, err := p.t.Cols[pos].Type.Convert(ctx, id)
		if err != nil || in != sql.InRange {
			return nil, 0, false, sql.ErrValueOutOfRange.New(id, p.t.Cols[pos].Type)
		}
		row[pos], counted = v, true
	}
	return row, id, counted, nil
}

// encodeRows makes the rows of the result from rows of the table, as a clock there shows them.
func encodeRows(ctx *sql.Context, p *boundPlan, loc *time.Location, rows []sql.Row) ([][]sqltypes.Value, error) {
	out := make(sql.Row, len(p.out))
	buf := sql.ByteBufPool.Get().(*sql.ByteBuffer)
	defer func() {
		buf.Reset()
		sql.ByteBufPool.Put(buf)
	}()
	res := make([][]sqltypes.Value, 0, len(rows))
	var arena []byte
	for _, row := range rows {
		for i, pos := range p.out {
			out[i] = row[pos]
		}
		for _, i := range p.moments {
			if at, ok := out[i].(time.Time); ok {
				out[i] = byClock(at, loc)
			}
		}
		vals, err := encodeRow(ctx, p.sch, out, buf, &arena)
		if err != nil {
			return nil, err
		}
		res = append(res, vals)
	}
	return res, nil
}

// encodeRow encodes one row; its values lie in the arena.
func encodeRow(ctx *sql.Context, sch sql.Schema, row sql.Row, buf *sql.ByteBuffer, arena *[]byte) ([]sqltypes.Value, error) {
	buf.Reset()
	vals, err := server.RowToSQL(ctx, sch, row, nil, buf)
	if err != nil {
		return nil, err
	}
	for i, v := range vals {
		if !v.IsNull() {
			a := *arena
			n := len(a)
			a = append(a, v.ToBytes()...)
			vals[i], *arena = sqltypes.MakeTrusted(v.Type(), a[n:len(a):len(a)]), a
		}
	}
	return vals, nil
}

// Learn keeps the description of the result that the engine has sent for the statement.
func (f *Call) Learn(r *sqltypes.Result) {
	if f == nil || f.template.kind != Select || r == nil || len(r.Fields) == 0 {
		return
	}
	ctx := sql.NewContext(context.Background(), sql.WithSession(f.s))
	p := f.plan(ctx)
	if p == nil || len(p.sch) != len(r.Fields) {
		return
	}
	if p.boundSpan == nil || p.sum < 0 || r.Fields[0].Type == sqltypes.Decimal { // go-mysql-server adds up in DOUBLE
		p.fields.Store(f.s.GetCharacterSetResults(), r.Fields)
	}
}

// off reports whether no statement of a session is taken.
func (r *Runner) off(s *session.Session) bool { return r.Off || s.Foreign() || s.Truncates() }
