package sqlfront

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/dolthub/go-mysql-server/server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	"github.com/dolthub/vitess/go/vt/sqlparser"
	"github.com/shopspring/decimal"

	querypb "github.com/dolthub/vitess/go/vt/proto/query"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// The fast path answers statements on one row by its primary key, and reads of a few rows by a range of it, without the
// engine's analyzer, which would cost several times the rest. It uses the same snapshot, privileges,
// transactions, pins, locks and editors; whatever it is not sure about (a value that must be
// converted with a warning, say) it leaves to the engine before it has done anything.

// fastCall is one statement on its way through the fast path.
type fastCall struct {
	h     *handler
	s     *Session
	c     *mysql.Conn
	query string
	shape *fastShape
	args  []literal
}

// fastText recognises a text statement.
func (h *handler) fastText(s *Session, c *mysql.Conn, query string) *fastCall {
	if len(query) < 12 || h.g.noFast {
		return nil
	}
	switch query[0] | 0x20 {
	case 's', 'i', 'u', 'd':
	default:
		return nil
	}
	text, args, ok := normalize(query)
	if !ok {
		return nil
	}
	shape := h.shape(s, text)
	if shape == nil {
		return nil
	}
	return &fastCall{h, s, c, query, shape, args}
}

// fastPrepared recognises a prepared statement and its bound values.
func (h *handler) fastPrepared(s *Session, c *mysql.Conn, p *mysql.PrepareData) *fastCall {
	if h.g.noFast {
		return nil
	}
	shape := h.shape(s, p.PrepareStmt)
	if shape == nil {
		return nil
	}
	args := make([]literal, len(p.BindVars))
	for i := range args {
		v := p.BindVars["v"+strconv.Itoa(i+1)]
		if v == nil {
			return nil
		}
		l, ok := bindLiteral(v)
		if !ok {
			return nil
		}
		args[i] = l
	}
	return &fastCall{h, s, c, p.PrepareStmt, shape, args}
}

func bindLiteral(v *querypb.BindVariable) (literal, bool) {
	switch t := v.Type; {
	case t == sqltypes.Null:
		return literal{litNull, ""}, true
	case sqltypes.IsIntegral(t) && t != sqltypes.Year:
		return literal{litInt, string(v.Value)}, true
	case t == sqltypes.Decimal:
		return literal{litDecimal, string(v.Value)}, true
	case sqltypes.IsText(t) || sqltypes.IsBinary(t) || t == sqltypes.Datetime || t == sqltypes.Timestamp || t == sqltypes.Date:
		return literal{litString, string(v.Value)}, true
	}
	return literal{}, false
}

// shape is the shape of a statement text; parsed once.
func (h *handler) shape(s *Session, text string) *fastShape {
	if sh, ok := h.g.fast.get(text); ok {
		return sh
	}
	var sh *fastShape
	if stmt, err := sqlparser.Parse(text); err == nil {
		sh = shapeOf(stmt)
	}
	h.g.fast.put(text, sh)
	return sh
}

// plan finds the table and checks that the statement can be done here.
func (f *fastCall) plan(ctx *sql.Context) *fastPlan {
	db := f.shape.db
	if db == "" {
		db = f.s.GetCurrentDatabase()
	}
	if db == "" || f.s.triggered > 0 {
		return nil
	}
	snap, err := f.s.snapshot(ctx)
	if err != nil {
		return nil
	}
	t := snap.table(db, f.shape.table)
	if t == nil {
		return nil
	}
	if x := f.s.txn(); f.s.nextAsOf != 0 || x != nil && x.asOf != 0 {
		return nil // the engine knows the tables of the past
	}
	f.s.noteTable(t)
	return f.shape.bind(snap, t)
}

var fastPrivilege = map[fastKind][]sql.PrivilegeType{
	fastSelect: {sql.PrivilegeType_Select}, fastInsert: {sql.PrivilegeType_Insert},
	fastUpdate: {sql.PrivilegeType_Update, sql.PrivilegeType_Select}, fastDelete: {sql.PrivilegeType_Delete, sql.PrivilegeType_Select},
}

// try runs the statement if it is one for the fast path.
func (f *fastCall) try(ctx context.Context, sent *bool, send func(*sqltypes.Result) error) (done bool, err error) {
	if f == nil {
		return false, nil
	}
	return f.run(ctx, func(r *sqltypes.Result) error {
		*sent = true
		return send(r)
	})
}

// run executes the statement; done is false if the engine has to do it.
func (f *fastCall) run(ctx context.Context, send func(*sqltypes.Result) error) (done bool, err error) {
	sctx, err := f.h.sm.NewContextWithQuery(ctx, f.c, f.query)
	if err != nil {
		return false, nil
	}
	_ = f.s.CommandBegin()
	p := f.plan(sctx)
	if p == nil || f.shape.kind == fastSelect && p.described(f.s) == nil {
		return false, nil
	}
	mdb := f.h.g.engine.Analyzer.Catalog.MySQLDb
	if !mdb.UserHasPrivileges(sctx, sql.NewPrivilegedOperation(
		sql.PrivilegeCheckSubject{Database: p.t.desc.DB, Table: p.t.desc.Name}, fastPrivilege[f.shape.kind]...)) {
		return false, nil // the engine words the refusal
	}
	vals, ok := f.values(sctx, p)
	if !ok {
		return false, nil
	}
	f.s.built, f.s.writes, f.s.astLock = true, f.shape.kind != fastSelect, f.shape.lock
	t := f.s.txn()
	if t == nil {
		t = &Txn{s: f.s}
		f.s.SetTransaction(t)
	} else if t.over || t.snap != nil || t.readOnly && f.s.writes {
		return false, nil
	}
	sctx, err = f.h.g.engine.ProcessList.BeginQuery(sctx, f.query)
	if err != nil {
		return true, err
	}
	defer f.h.g.engine.ProcessList.EndQuery(sctx)
	sql.IncrementStatusVariable(sctx, "Questions", 1)
	f.s.ClearWarnings()
	res, ok, err := f.execute(sctx, t, p, vals)
	if !ok {
		if !f.s.explicit(sctx) {
			t.rollback()
			f.s.SetTransaction(nil)
		}
		return false, nil
	}
	if err == nil && !f.s.explicit(sctx) {
		err = t.commit(sctx)
		f.s.SetTransaction(nil)
	}
	if err != nil {
		return true, sql.CastSQLError(err)
	}
	info := sctx.GetLastQueryInfo()
	if f.shape.kind == fastSelect {
		sql.IncrementStatusVariable(sctx, "Com_select", 1)
		info.FoundRows.Store(int64(len(res.Rows)))
		info.RowCount.Store(-1)
	} else {
		info.RowCount.Store(int64(res.RowsAffected))
	}
	return true, send(res)
}

// values converts the constants to the types of the columns they meet, exactly or not at all.
func (f *fastCall) values(ctx *sql.Context, p *fastPlan) (map[int]any, bool) {
	vals := make(map[int]any, len(f.args))
	put := func(arg, pos int, pk bool) bool {
		if arg < 0 {
			return true
		}
		l, ok := f.literal(arg)
		if !ok {
			return false
		}
		v, ok := p.t.cols[pos].exact(ctx, l, pk)
		vals[arg] = v
		return ok
	}
	for i, arg := range p.pk {
		if !put(arg, p.t.pk[i], true) {
			return nil, false
		}
	}
	for _, s := range p.sets {
		if s.op != 0 {
			l, ok := f.literal(s.arg)
			if !ok {
				return nil, false
			}
			v, ok := p.t.cols[s.pos].operand(l)
			if !ok {
				return nil, false
			}
			vals[s.arg] = v
		} else if !put(s.arg, s.pos, false) {
			return nil, false
		}
	}
	for pos, arg := range p.insert {
		if pos == p.givenInc {
			switch l, ok := f.literal(arg); {
			case !ok:
				return nil, false
			case l.kind == litNull, l.kind == litInt && l.text == "0" && !sql.LoadSqlMode(ctx).ModeEnabled("NO_AUTO_VALUE_ON_ZERO"):
				vals[arg] = nil // the counter's next
				continue
			}
		}
		if !put(arg, pos, p.t.inPK(pos)) {
			return nil, false
		}
		if pos == p.givenInc {
			// Negative numbers have rules of their own.
			if n, ok := toUint64(vals[arg]); !ok || n == 0 {
				return nil, false
			}
		}
	}
	if p.boundSpan != nil && (!put(p.lo, p.t.pk[0], true) || !put(p.hi, p.t.pk[0], true) || !p.narrow(vals)) {
		return nil, false
	}
	return vals, true
}

// literal is a constant by its number.
func (f *fastCall) literal(arg int) (literal, bool) {
	args := f.args
	if arg >= fixedArg {
		args, arg = f.shape.fixed, arg-fixedArg
	}
	if arg >= len(args) {
		return literal{}, false
	}
	return args[arg], true
}

// exact converts a constant to the type of the column if that needs no judgement. key asks
// for a value that compares with the column as the constant does.
func (c *column) exact(ctx *sql.Context, l literal, key bool) (any, bool) {
	var v any = l.text
	switch l.kind {
	case litNull:
		return nil, !key && c.desc.Nullable
	case litString:
		switch c.kind {
		case kindString, kindBytes:
		case kindDatetime, kindJSON, kindTimespan:
			if key {
				return nil, false
			}
		default:
			return nil, false // numbers, enums and the rest have rules of their own
		}
	case litInt:
		switch c.kind {
		case kindInt, kindUint, kindDecimal, kindFloat:
			if c.typ.Type() == sqltypes.Enum || c.typ.Type() == sqltypes.Set || c.typ.Type() == sqltypes.Bit || c.typ.Type() == sqltypes.Year {
				return nil, false
			}
			n, err := strconv.ParseInt(l.text, 10, 64)
			if err != nil {
				return nil, false
			}
			v = n
		default:
			return nil, false
		}
	case litDecimal:
		if c.kind != kindDecimal && (c.kind != kindFloat || key) {
			return nil, false
		}
		d, err := decimal.NewFromString(l.text)
		if err != nil {
			return nil, false
		}
		v = d
	}
	conv, in, err := c.typ.Convert(ctx, v)
	if err != nil || in != sql.InRange {
		return nil, false
	}
	if d, ok := v.(decimal.Decimal); ok && c.kind == kindDecimal && !conv.(decimal.Decimal).Equal(d) && key {
		return nil, false
	}
	return conv, true
}

// operand is the constant of column ± constant.
func (c *column) operand(l literal) (any, bool) {
	switch {
	case c.kind == kindInt && c.typ.Type() != sqltypes.Year && l.kind == litInt:
		n, err := strconv.ParseInt(l.text, 10, 64)
		return n, err == nil
	case c.kind == kindDecimal && (l.kind == litInt || l.kind == litDecimal):
		d, err := decimal.NewFromString(l.text)
		return d, err == nil
	}
	return nil, false
}

// apply computes column ± constant; ok is false if it overflows or needs rounding.
func (c *column) apply(ctx *sql.Context, old any, op byte, operand any) (any, bool) {
	switch x := operand.(type) {
	case int64:
		n, ok := toInt64(old)
		if !ok {
			return nil, false
		}
		if op == '-' {
			if x == math.MinInt64 {
				return nil, false
			}
			x = -x
		}
		sum := n + x
		if (sum > n) != (x > 0) && x != 0 {
			return nil, false
		}
		v, in, err := c.typ.Convert(ctx, sum)
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
		v, in, err := c.typ.Convert(ctx, sum)
		if err != nil || in != sql.InRange || !v.(decimal.Decimal).Equal(sum) {
			return nil, false
		}
		return v, true
	}
	return nil, false
}

// execute does the statement in the transaction. ok is false only before anything was changed.
func (f *fastCall) execute(ctx *sql.Context, t *Txn, p *fastPlan, vals map[int]any) (*sqltypes.Result, bool, error) {
	st := &sqlTable{g: f.h.g, t: p.t, acc: &access{}}
	if f.shape.kind == fastInsert {
		return f.insert(ctx, t, p, st, vals)
	}
	if p.boundSpan != nil {
		res, err := f.scanSpan(ctx, p, st, vals)
		return res, true, err
	}
	row := make(sql.Row, len(p.t.cols))
	for i, pos := range p.t.pk {
		row[pos] = vals[p.pk[i]]
	}
	ref, err := p.t.refOf(ctx, row)
	if err != nil {
		return nil, true, clientError(err)
	}
	if f.shape.kind != fastSelect {
		st.acc.lock = kv.LockExclusive
	}
	src, err := st.open(ctx)
	if err != nil {
		return nil, true, err
	}
	src.want = p.want
	rows, err := f.draft(ctx, p, src, vals, p.t.rowKey(ref))
	if err == nil && rows == nil {
		rows, err = src.get(ctx, []base.Key{p.t.rowKey(ref)})
	}
	if err != nil {
		return nil, true, err
	}
	if err := src.decode(ctx, rows); err != nil {
		return nil, true, err
	}
	if f.shape.kind == fastSelect {
		res := &sqltypes.Result{Fields: p.described(f.s)}
		if len(src.buf) > 0 {
			if res.Rows, err = encodeRows(ctx, p, src.buf); err != nil {
				return nil, true, err
			}
			res.RowsAffected = 1
		}
		return res, true, nil
	}
	if len(src.buf) == 0 {
		return f.changed(0, 0), true, nil
	}
	var raw []byte
	if len(rows) == 1 {
		raw = rows[0].Value
	}
	return f.change(ctx, p, st, vals, src.buf[0], raw)
}

// change updates or deletes the row found.
func (f *fastCall) change(ctx *sql.Context, p *fastPlan, st *sqlTable, vals map[int]any, old sql.Row, raw []byte) (*sqltypes.Result, bool, error) {
	next := old
	if f.shape.kind == fastUpdate {
		next = old.Copy()
		for _, s := range p.sets {
			v := vals[s.arg]
			if s.op != 0 {
				if next[s.pos] == nil {
					continue
				}
				var ok bool
				if v, ok = p.t.cols[s.pos].apply(ctx, next[s.pos], s.op, v); !ok {
					return nil, false, nil
				}
			}
			next[s.pos] = v
		}
		if same, err := old.Equals(ctx, next, p.full); err != nil {
			return nil, false, nil
		} else if same {
			return f.changed(1, 0), true, nil
		}
	}
	e := st.editor(ctx)
	e.StatementBegin(ctx)
	var err error
	if f.shape.kind == fastUpdate {
		if f.s.crosses() {
			e.patch = p.patch(ctx, f.shape, vals, raw)
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
func (f *fastCall) changed(matched, changed uint64) *sqltypes.Result {
	r := &sqltypes.Result{RowsAffected: changed}
	if f.shape.kind == fastUpdate {
		r.Info = fmt.Sprintf("Rows matched: %d  Changed: %d  Warnings: 0", matched, changed)
		if f.c.Capabilities&mysql.CapabilityClientFoundRows != 0 {
			r.RowsAffected = matched
		}
	}
	return r
}

func (f *fastCall) insert(ctx *sql.Context, t *Txn, p *fastPlan, st *sqlTable, vals map[int]any) (*sqltypes.Result, bool, error) {
	if _, err := t.begun(ctx); err != nil {
		return nil, true, err
	}
	row := make(sql.Row, len(p.t.cols))
	res := &sqltypes.Result{RowsAffected: 1}
	counted := false
	for pos, arg := range p.insert {
		if arg >= 0 && pos == p.givenInc && vals[arg] == nil {
			arg = argAutoInc
		}
		switch {
		case arg >= 0:
			row[pos] = vals[arg]
			if pos == p.givenInc {
				n, err := st.GetNextAutoIncrementValue(ctx, row[pos])
				if err != nil {
					return nil, true, err
				}
				res.InsertID = n // told to the client, but not what LAST_INSERT_ID() returns
			}
		case arg == argAutoInc:
			n, err := st.GetNextAutoIncrementValue(ctx, nil)
			if err != nil {
				return nil, true, err
			}
			v, in, err := p.t.cols[pos].typ.Convert(ctx, n)
			if err != nil || in != sql.InRange {
				return nil, true, sql.ErrValueOutOfRange.New(n, p.t.cols[pos].typ)
			}
			row[pos], res.InsertID, counted = v, n, true
		}
	}
	f.s.blind = !f.s.explicit(ctx)
	e := st.editor(ctx)
	e.StatementBegin(ctx)
	err := e.Insert(ctx, row)
	if err == nil {
		err = e.StatementComplete(ctx)
	}
	if err != nil {
		_ = e.DiscardChanges(ctx, err)
		return nil, true, err
	}
	if counted {
		ctx.GetLastQueryInfo().LastInsertId.Store(int64(res.InsertID))
	}
	return res, true, nil
}

// encodeRows makes the rows of the result from rows of the table.
func encodeRows(ctx *sql.Context, p *fastPlan, rows []sql.Row) ([][]sqltypes.Value, error) {
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

// learn keeps the description of the result that the engine has sent for the statement.
func (f *fastCall) learn(r *sqltypes.Result) {
	if f == nil || f.shape.kind != fastSelect || r == nil || len(r.Fields) == 0 {
		return
	}
	ctx := sql.NewContext(context.Background(), sql.WithSession(f.s))
	if p := f.plan(ctx); p != nil && len(p.sch) == len(r.Fields) {
		p.fields.Store(f.s.GetCharacterSetResults(), r.Fields)
	}
}
