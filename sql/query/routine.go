package query

import (
	"errors"
	"io"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/assign"
	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/oneshot"
	"github.com/godwitdb/godwit/sql/program"
	"github.com/godwitdb/godwit/sql/returning"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/token"
)

// routine runs the statements of stored programs: those of one CALL, DO or event, of the triggers
// of one change, or of the functions of one statement. It implements program.Host.
type routine struct {
	r   *Runner
	s   *session.Session
	ctx *sql.Context
	// sub: the program is a trigger or a function, and so part of another statement and of its
	// transaction.
	sub bool
	// params are the parameters of the client's CALL.
	params []expr.Node
	used   int // of them
	trees  map[string]bind.Stmt
	types  map[variableType]*schema.Column
	// eval computes expressions that read no table.
	eval *statement
	rows rowPair
	// outer is the program whose statement fires the triggers, or calls the function; nil: a
	// client's does.
	outer *program.Frame
	// caller is the statement that calls a function; nil: the programs are others.
	caller *statement
	// coll is the collation of texts in the function that runs.
	coll sql.CollationID
	// results are those for the client, and kept their bytes.
	results []*sqltypes.Result
	kept    int64
	// boxed: the last result is kept in the engine's form instead.
	boxed     bool
	sch       sql.Schema
	boxedRows []sql.Row
	// discards: nobody gets results, and none is kept.
	discards bool
	// committed: a statement has committed, so that the program must not be run again.
	committed bool
	steps     int
	// whole answers the statements of a CALL that is a program of kv; nil: it is none.
	whole *oneshot.Call
}

// rowPair are the rows that a trigger is fired for.
type rowPair struct {
	target   *target
	old, new sql.Row
	// before: NEW may be changed. changed: it was.
	before, changed bool
	values          *rowset
}

var _ program.Host = (*routine)(nil)

func (r *Runner) newRoutine(ctx *sql.Context, s *session.Session) *routine {
	return &routine{r: r, s: s, ctx: ctx, trees: map[string]bind.Stmt{}, types: map[variableType]*schema.Column{}}
}

func (p *routine) close() {
	if p.eval != nil {
		p.eval.close()
	}
}

func (p *routine) mode() token.Mode { return token.ModeOf(sql.LoadSqlMode(p.ctx).String()) }

// mostTrees is how many syntax trees a program keeps.
const mostTrees = 1000

// parse parses a statement, once for all times that the program runs it.
func (p *routine) parse(text string) (bind.Stmt, error) {
	if t := p.trees[text]; t != nil {
		return t, nil
	}
	t, err := bind.Parse(text, bind.ModeOf(sql.LoadSqlMode(p.ctx).String()))
	if len(p.trees) >= mostTrees {
		clear(p.trees)
	}
	if err == nil {
		p.trees[text] = t
	}
	return t, err
}

// inside is where the statements of a frame stand.
func (p *routine) inside(f *program.Frame) *inside {
	return &inside{frame: f, parse: p.parse, local: func(row, name string) (expr.Node, error) {
		if row != "" {
			return p.column(row, name)
		}
		v := f.Lookup(name)
		if v == nil {
			return nil, nil
		}
		return constantOf(v.Value), nil
	}}
}

func constantOf(v program.Value) *expr.Const {
	t := v.T
	t.NotNull = !v.V.IsNull()
	return &expr.Const{V: v.V, T: t}
}

// Step implements program.Host.
func (p *routine) Step() error {
	if err := p.ctx.Err(); err != nil {
		return interrupted(err)
	}
	if p.steps++; p.s.Speculation != nil && p.steps > mostSteps {
		return left("loop that is not guessed")
	}
	return nil
}

// mostSteps bounds how many statements of the triggers of a row are executed speculatively: a loop
// whose end is not seen must not go on for ever.
const mostSteps = 10_000

// Fatal implements program.Host.
func (p *routine) Fatal(err error) bool {
	var me *mysql.SQLError
	return p.ctx.Err() != nil || p.s.Speculation != nil || p.sub && p.s.Lost() || errors.As(err, &me) && (me.Num == 1317 || me.Num == 3024)
}

// RowCount implements program.Host.
func (p *routine) RowCount() int64 { return p.ctx.GetLastQueryInfo().RowCount.Load() }

// Warn implements program.Host.
func (p *routine) Warn(c *program.Condition) { p.ctx.Warn(c.Code, "%s", c.Text) }

// told puts an error into the words for the client at once: the next statement makes the session
// forget which key was a duplicate.
func (p *routine) told(err error) error {
	var c *program.Condition
	if err == nil || errors.As(err, &c) {
		return err
	}
	var refused *bind.Refusal
	if errors.As(err, &refused) {
		err = refused.Err
	}
	return worded(p.s, err)
}

// variableType is the type of a variable, and the collation of texts that name none.
type variableType struct {
	text string
	coll sql.CollationID
}

// Declare implements program.Host.
func (p *routine) Declare(name, typ string) (*program.Variable, error) {
	key := variableType{typ, p.coll}
	col := p.types[key]
	if col == nil {
		var err error
		if col, err = assign.Variable(name, typ, p.coll); err != nil {
			return nil, err
		}
		p.types[key] = col
	}
	own, desc := *col, *col.Desc
	desc.Name, own.Desc = name, &desc
	return &program.Variable{Name: name, Decl: &own, Value: program.Value{T: assign.TypeOf(col)}}, nil
}

// Assign implements program.Host.
func (p *routine) Assign(f *program.Frame, v *program.Variable, x program.Value) error {
	if x.V.IsNull() {
		v.V = expr.Value{}
		return nil
	}
	st, err := p.evaluator()
	if err != nil {
		return err
	}
	y, err := p.converted(st, v, x)
	if err != nil {
		return p.told(err)
	}
	v.V = y
	v.V.S = strings.Clone(v.V.S)
	return nil
}

// converted is a value as a variable holds it.
func (p *routine) converted(st *statement, v *program.Variable, x program.Value) (expr.Value, error) {
	s, err := assign.New(p.ctx, st.env, v.Decl.(*schema.Column), x.T)
	if err != nil {
		return expr.Converted(x.V, x.T, v.T, st.env)
	}
	s.Strict = sql.LoadSqlMode(p.ctx).Strict()
	var in, out expr.Vec
	in.Reset(x.T, 1)
	in.Put(0, x.V)
	stored, err := s.Value(&in, 0, 0)
	if _, ok := assign.IsLate(err); ok {
		return expr.Converted(x.V, x.T, v.T, st.env)
	}
	if err != nil {
		return expr.Value{}, err
	}
	out.Reset(v.T, 1)
	if err := out.Unbox(p.ctx, 0, stored); err != nil {
		return expr.Value{}, err
	}
	return out.At(0), nil
}

// evaluator is the statement in which expressions are computed.
func (p *routine) evaluator() (*statement, error) {
	if p.eval == nil {
		st := &statement{r: p.r, s: p.s, ctx: p.ctx, mem: p.r.Budget(), turn: p.r.Turn(p.ctx, p.s, "SELECT 1")}
		p.eval = st
		if _, err := st.begin("SELECT 1"); err != nil {
			return nil, err
		}
	}
	info := p.ctx.GetLastQueryInfo()
	f := &p.eval.env.Facts
	f.LastInsertID, f.RowCount, f.FoundRows = uint64(info.LastInsertId.Load()), info.RowCount.Load(), info.FoundRows.Load()
	f.Database = p.ctx.GetCurrentDatabase()
	return p.eval, nil
}

// Eval implements program.Host.
func (p *routine) Eval(f *program.Frame, e program.Expr, stored bool) (program.Value, error) {
	x, err := p.value(f, e, stored && sql.LoadSqlMode(p.ctx).Strict())
	return x, p.told(err)
}

func (p *routine) value(f *program.Frame, e program.Expr, strict bool) (program.Value, error) {
	text := "SELECT " + string(e)
	if x, done, err := p.alone(f, text, strict); done || err != nil {
		return x, err
	}
	rows, err := p.Rows(f, text)
	if err != nil {
		return program.Value{}, err
	}
	defer rows.Free()
	if len(rows.All) != 1 || len(rows.All[0]) != 1 {
		return program.Value{}, mysql.NewSQLError(1241, "21000", "Operand should contain 1 column(s)")
	}
	return rows.All[0][0], nil
}

// alone computes an expression that reads no table; done is false if it does.
func (p *routine) alone(f *program.Frame, text string, strict bool) (x program.Value, done bool, err error) {
	tree, err := p.parse(text)
	if err != nil {
		return x, false, nil
	}
	st, err := p.evaluator()
	if err != nil {
		return x, false, err
	}
	st.in = p.inside(f)
	var params []expr.Node
	if p.used < len(p.params) {
		params = p.params[p.used:]
	}
	q, err := bind.Bind(tree, st.facts(params))
	if err != nil {
		if _, left := bind.Reason(err); left {
			return x, false, nil
		}
		return x, false, err
	}
	pr, ok := q.Rel.(*algebra.Project)
	if !ok || len(pr.Items) != 1 || len(q.Uses) > 0 {
		return x, false, nil
	}
	n := pr.Items[0].Node
	if st.calls.read(n) {
		return x, false, nil // it runs as a statement
	}
	if v, ok := pr.In.(*algebra.Values); !ok || len(v.Rows) != 1 || len(v.IDs) > 0 || expr.HasSub(n) {
		return x, false, nil
	}
	var failure error
	if warn := st.env.Warn; strict {
		st.env.Warn = assign.Strictly(warn, &failure)
		defer func() { st.env.Warn = warn }()
	}
	v, err := expr.EvalConst(n, st.env)
	if st.refusedNode(err) {
		return x, false, nil
	}
	if err == nil {
		err = failure
	}
	return program.Value{V: v, T: n.Type()}, true, err
}

// refusedNode reports whether an expression cannot be computed here.
func (st *statement) refusedNode(err error) bool {
	st.opened = false
	_, ok := st.refused(err)
	return ok
}

// noParams are those of statements in programs.
func noParams(sql.CollationID) ([]expr.Node, error) { return nil, nil }

// Rows implements program.Host.
func (p *routine) Rows(f *program.Frame, query string) (rows *program.Rows, err error) {
	err = p.inTurn(func() error {
		rows, err = p.rowsOf(f, query)
		return err
	})
	return rows, p.told(err)
}

// rowsOf are the rows of a query. The program's budget counts them until they are freed.
func (p *routine) rowsOf(f *program.Frame, query string) (*program.Rows, error) {
	ev, err := p.evaluator()
	if err != nil {
		return nil, err
	}
	size := int64(0)
	out := &program.Rows{Free: func() { ev.mem.Shrink(size) }}
	out.All, err = p.read(f, query, func(row []program.Value) error {
		n := int64(24 + 64*len(row))
		for _, v := range row {
			n += int64(len(v.V.S))
		}
		if err := ev.mem.Grow(n); err != nil {
			return err
		}
		size += n
		return nil
	})
	if err != nil {
		out.Free()
		return nil, err
	}
	return out, nil
}

// read reads the rows of a query. keep counts each.
func (p *routine) read(f *program.Frame, query string, keep func([]program.Value) error) (rows [][]program.Value, err error) {
	text := p.limited(f, query)
	st, err := p.r.prepareIn(p.ctx, p.s, p.inside(f), text, noParams, (*statement).make)
	if st == nil && err != nil {
		return nil, err
	}
	if st != nil {
		defer st.close()
		done, err := st.run(func(b *expr.Batch) error {
			at := st.positions()
			for _, i := range b.Sel {
				row := make([]program.Value, len(at))
				for k, c := range at {
					v := b.Cols[c].At(i)
					v.S = strings.Clone(v.S)
					row[k] = program.Value{V: v, T: b.Cols[c].T}
				}
				if err := keep(row); err != nil {
					return err
				}
				rows = append(rows, row)
			}
			return nil
		})
		if done || err != nil {
			if err == nil {
				st.count(len(rows))
			}
			return rows, err
		}
	}
	sch, all, err := p.engine(f, text)
	if err != nil {
		return nil, err
	}
	rows, err = p.unboxed(sch, all)
	for _, row := range rows {
		if err == nil {
			err = keep(row)
		}
	}
	return rows, err
}

// positions are where the columns of the result are in the batches.
func (st *statement) positions() []int {
	at := make([]int, len(st.out))
	for i, c := range st.out {
		for k, id := range st.op.Cols() {
			if id == c.ID {
				at[i] = k
				break
			}
		}
	}
	return at
}

// unboxed are rows of the engine.
func (p *routine) unboxed(sch sql.Schema, all []sql.Row) (rows [][]program.Value, err error) {
	for _, r := range all {
		row := make([]program.Value, len(r))
		for i, x := range r {
			t := expr.FromSQL(sch[i].Type)
			var v expr.Vec
			v.Reset(t, 1)
			if err := v.Unbox(p.ctx, 0, x); err != nil {
				return nil, err
			}
			row[i] = program.Value{V: v.At(0), T: t}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// Run implements program.Host.
func (p *routine) Run(f *program.Frame, text string) (warnings []*program.Condition, err error) {
	err = p.inTurn(func() error {
		before := p.s.WarningCount()
		if !p.sub {
			before = 0
		}
		if err := p.run(f, text); err != nil {
			return err
		}
		p.s.BeginDiagnostics()
		warnings = nil
		for i, w := range p.s.Warnings() {
			if i >= int(before) {
				warnings = append(warnings, program.Warning(w.Code, w.Message))
			}
		}
		return nil
	})
	return warnings, p.told(err)
}

// run runs a statement.
func (p *routine) run(f *program.Frame, text string) error {
	if p.sub && program.Commits(token.Scan(text, p.mode())) {
		return mysql.NewSQLError(1422, "HY000", "Explicit or implicit commit is not allowed in stored function or trigger.")
	}
	p.s.Stmt = p.statement()
	if res, done, err := p.whole.Next(p.ctx, text); done {
		if err == nil && res != nil {
			err = p.keep(res)
		}
		return err
	}
	switch token.VerbOf(text) {
	case token.Reading:
		err := p.query(f, text)
		if n := len(p.results); err == nil && n > 0 {
			p.whole.Learn(text, p.results[n-1])
		}
		return err
	case token.Changing:
		res, done, err := p.r.change(p.ctx, p.s, p.inside(f), text, false, noParams,
			func(out *returning.Rows, _ []*querypb.Field) error { return p.show(out.Schema(), out.Boxed) })
		if done || err != nil {
			if res != nil && !res.Returned {
				p.ctx.GetLastQueryInfo().RowCount.Store(int64(res.Affected()))
			}
			return err
		}
	}
	sch, rows, err := p.engine(f, text)
	if err != nil || len(sch) == 0 || types.IsOkResultSchema(sch) { // COMMIT, say, has no columns
		return err
	}
	return p.show(sch, rows)
}

// statement is a new statement of the session. One of a trigger sees the catalog of the statement
// around it, and uses the AUTO_INCREMENT values that were reserved for it.
func (p *routine) statement() session.Statement {
	if p.sub {
		return session.Statement{Snap: p.s.Stmt.Snap, Reserved: p.s.Stmt.Reserved}
	}
	return session.Statement{}
}

// query runs a SELECT, whose rows go to variables or to the client.
func (p *routine) query(f *program.Frame, text string) error {
	if in := token.CutInto(text, p.mode()); in != nil {
		read, err := p.rowsOf(f, in.Text)
		if err != nil {
			return err
		}
		defer read.Free()
		rows := read.All
		switch {
		case len(rows) == 0:
			p.ctx.Warn(1329, "No data - zero rows fetched, selected, or processed")
			return nil
		case len(rows[0]) != len(in.To):
			return wrongWidth()
		case len(rows) > 1:
			return tooManyRows()
		}
		p.ctx.GetLastQueryInfo().RowCount.Store(1)
		return f.Into(in.To, rows[0])
	}
	if p.sub {
		return p.resultless()
	}
	text = p.limited(f, text)
	st, err := p.r.prepareIn(p.ctx, p.s, p.inside(f), text, noParams, (*statement).make)
	if st == nil && err != nil {
		return err
	}
	if st != nil {
		defer st.close()
		if p.boxed {
			rows, done, err := st.engineRows()
			if done || err != nil {
				p.sch, p.boxedRows = st.schema(), rows
				return err
			}
		}
		res := &sqltypes.Result{}
		out := &sender{st: st, send: func(r *sqltypes.Result) error {
			res.Fields, res.Rows = r.Fields, append(res.Rows, r.Rows...)
			return nil
		}}
		done, err := st.run(out.batch)
		if err == nil && done {
			if err = out.flush(); err == nil {
				st.count(out.total)
				err = p.keep(res)
			}
		}
		if done || err != nil {
			return err
		}
	}
	sch, rows, err := p.engine(f, text)
	if err != nil {
		return err
	}
	return p.show(sch, rows)
}

// resultless is the error of a statement with a result, which a trigger or function may not have.
func (p *routine) resultless() error {
	kind := "trigger"
	if p.caller != nil {
		kind = "function"
	}
	return mysql.NewSQLError(1415, "0A000", "Not allowed to return a result set from a %s", kind)
}

// show keeps a result of the engine for the client.
func (p *routine) show(sch sql.Schema, rows []sql.Row) error {
	if p.sub {
		return p.resultless()
	}
	if p.boxed {
		p.sch, p.boxedRows = sch, rows
		return nil
	}
	res := &sqltypes.Result{}
	for _, c := range sch {
		f := &querypb.Field{Name: c.Name, OrgName: c.Name, Table: c.Source, OrgTable: c.Source, Database: c.DatabaseSource,
			Type: c.Type.Type(), Charset: uint32(sql.Collation_Default.CharacterSet()),
			ColumnLength: c.Type.MaxTextResponseByteLength(p.ctx)}
		if types.IsBinaryType(c.Type) {
			f.Charset = uint32(sql.Collation_binary)
		}
		res.Fields = append(res.Fields, f)
	}
	for _, r := range rows {
		row := make([]sqltypes.Value, len(r))
		for i, x := range r {
			var err error
			if row[i] = sqltypes.NULL; x != nil {
				if row[i], err = sch[i].Type.SQL(p.ctx, nil, x); err != nil {
					return err
				}
			}
		}
		res.Rows = append(res.Rows, row)
	}
	return p.keep(res)
}

// keep keeps a result for the client. One that takes a single result gets the last one.
func (p *routine) keep(res *sqltypes.Result) error {
	if p.discards {
		return nil
	}
	st, err := p.evaluator()
	if err != nil {
		return err
	}
	if !p.s.TakesResults {
		st.mem.Shrink(p.kept)
		p.results, p.kept = p.results[:0], 0
	}
	n := int64(0)
	for _, r := range res.Rows {
		n += 40 * int64(len(r))
		for _, v := range r {
			n += int64(v.Len())
		}
	}
	if err := st.mem.Grow(n); err != nil {
		return err
	}
	p.results, p.kept = append(p.results, res), p.kept+n
	return nil
}

// engine has go-mysql-server run a statement. The query of CREATE TABLE ... SELECT is run by our
// own.
func (p *routine) engine(f *program.Frame, text string) (sch sql.Schema, rows []sql.Row, err error) {
	made, err := p.r.selectedIn(p.ctx, p.s, p.inside(f), text, noParams)
	if err != nil {
		return nil, nil, err
	}
	err = made.Run(text, func(text string) (err error) {
		sch, rows, err = p.inEngine(f, text)
		return err
	})
	return sch, rows, err
}

// inEngine has go-mysql-server run all of a statement, with the values of variables in it.
func (p *routine) inEngine(f *program.Frame, text string) (sch sql.Schema, rows []sql.Row, err error) {
	if f.Names() || p.sub {
		if k := token.VerbOf(text); k == token.Reading || k == token.Changing {
			text = p.substituted(f, text)
		}
	}
	if p.s.Speculation != nil && !program.Harmless(token.Scan(text, p.mode())) {
		return nil, nil, left("statement that is not guessed")
	}
	p.s.Stmt = p.statement()
	ctx := p.ctx.WithQuery(text)
	ctx.ProcessList = sql.EmptyProcessList{} // the client's statement goes on behind this one
	tree, _, _, err := p.r.Engine.Parser.Parse(ctx, text, false)
	if err != nil {
		return nil, nil, sql.ErrSyntaxError.New(err.Error())
	}
	sch, it, _, err := p.r.Inner.QueryWithBindings(ctx, text, tree, nil, &sql.QueryFlags{})
	if err != nil {
		return nil, nil, err
	}
	ok := types.IsOkResultSchema(sch)
	for {
		row, err := it.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			_ = it.Close(ctx)
			return nil, nil, err
		}
		if ok && len(row) == 1 {
			if res, is := row[0].(types.OkResult); is {
				p.ctx.GetLastQueryInfo().RowCount.Store(int64(res.RowsAffected))
			}
		}
		rows = append(rows, row)
	}
	if err = it.Close(ctx); err == nil {
		err = p.s.WriteGrants(p.s.KVContext(ctx))
	}
	return sch, rows, err
}

// inTurn runs a statement again while it loses a conflict, if it is a transaction of its own.
func (p *routine) inTurn(run func() error) error {
	if p.sub || p.s.Explicit(p.ctx) {
		return run()
	}
	start := time.Now()
	p.s.KeepVariables()
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 250*time.Millisecond) {
		p.s.State.Again()
		err := run()
		t := p.s.Txn()
		if err == nil {
			if p.s.Explicit(p.ctx) {
				return nil // it was START TRANSACTION
			}
			p.committed = true
			return nil
		}
		if t != nil {
			t.Rollback()
			p.s.SetTransaction(nil)
		}
		if !p.s.Lost() || time.Since(start) >= session.RetryFor || p.s.Patience().Over() || p.ctx.Err() != nil {
			return err
		}
		p.s.BeginTry(true)
		select {
		case <-p.ctx.Done():
		case <-time.After(wait):
		}
	}
}
