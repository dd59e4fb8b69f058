package query

import (
	"context"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"

	"github.com/godwitdb/godwit/sql/given"
	"github.com/godwitdb/godwit/sql/program"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/token"
)

// call runs a CALL of a client; done is false if the engine has to.
func (r *Runner) call(ctx context.Context, s *session.Session, c *mysql.Conn, text string, prepared *mysql.PrepareData,
	sent *bool, send func(*sqltypes.Result) error) (done bool, err error) {
	sctx, err := r.Sessions.NewContextWithQuery(ctx, c, text)
	if err != nil {
		return false, nil
	}
	n, err := program.ParseCall(text, token.ModeOf(sql.LoadSqlMode(sctx).String()))
	if err != nil {
		return false, nil
	}
	_ = s.CommandBegin()
	p := r.newRoutine(sctx, s)
	defer p.close()
	o, err := p.find("", n)
	if err != nil || o == nil {
		return err != nil, err
	}
	if prepared != nil {
		binds := map[string]*querypb.BindVariable(prepared.BindVars)
		if p.params, err = given.Params(binds)(sctx.GetCollation()); err != nil {
			return false, nil
		}
	}
	if p.ctx, err = r.Engine.ProcessList.BeginQuery(sctx, text); err != nil {
		return true, err
	}
	defer r.Engine.ProcessList.EndQuery(p.ctx)
	sql.IncrementStatusVariable(p.ctx, "Questions", 1)
	s.ClearWarnings()
	root := &program.Frame{Host: p}
	if err := p.callFrom(root, n, o); err != nil {
		*sent = *sent || p.committed
		return true, clientError(err)
	}
	*sent = true
	ok := &sqltypes.Result{RowsAffected: uint64(max(0, p.RowCount()))}
	switch {
	case len(p.results) == 0:
		return true, send(ok)
	case s.TakesResults:
		s.Results = append(p.results[1:], ok)
		return true, send(p.results[0])
	}
	return true, send(p.results[len(p.results)-1])
}

// do runs a DO of a client, which is a program of one statement.
func (r *Runner) do(ctx context.Context, s *session.Session, c *mysql.Conn, text string, sent *bool,
	send func(*sqltypes.Result) error) (done bool, err error) {
	sctx, err := r.Sessions.NewContextWithQuery(ctx, c, text)
	if err != nil {
		return false, nil
	}
	prog, err := program.ParseBody("", text, token.ModeOf(sql.LoadSqlMode(sctx).String()))
	if err != nil {
		return true, err
	}
	_ = s.CommandBegin()
	p := r.newRoutine(sctx, s)
	defer p.close()
	if p.ctx, err = r.Engine.ProcessList.BeginQuery(sctx, text); err != nil {
		return true, err
	}
	defer r.Engine.ProcessList.EndQuery(p.ctx)
	s.ClearWarnings()
	err = (&program.Frame{Host: p, Program: prog, DB: sctx.GetCurrentDatabase()}).Run()
	*sent = *sent || err == nil || p.committed
	if err != nil {
		return true, clientError(program.Told(err))
	}
	sctx.GetLastQueryInfo().RowCount.Store(0)
	return true, send(&sqltypes.Result{})
}

// find finds a procedure; nil if there is none.
func (p *routine) find(db string, n *program.Call) (*schema.ObjectDesc, error) {
	if n.DB != "" {
		db = n.DB
	}
	if db == "" {
		if db = p.ctx.GetCurrentDatabase(); db == "" {
			return nil, nil
		}
	}
	snap, err := p.s.Snapshot(p.ctx)
	if err != nil {
		return nil, nil
	}
	d := snap.Database(db)
	if d == nil || d.Objects[schema.IxProcedure][strings.ToLower(n.Name)] == nil {
		if snap, err = p.s.Refresh(p.ctx); err != nil {
			return nil, err
		}
		if d = snap.Database(db); d == nil {
			return nil, nil
		}
	}
	return d.Objects[schema.IxProcedure][strings.ToLower(n.Name)], nil
}

// Call implements program.Host.
func (p *routine) Call(f *program.Frame, n *program.Call) error {
	o, err := p.find(f.DB, n)
	if err != nil {
		return p.told(err)
	}
	if o == nil {
		db := n.DB
		if db == "" {
			db = f.DB
		}
		return mysql.NewSQLError(1305, "42000", "PROCEDURE %s.%s does not exist", db, n.Name)
	}
	return p.callFrom(f, n, o)
}

// deepest is how deep programs may call each other.
const deepest = 300

// mayRecurse refuses programs that call themselves more often than max_sp_recursion_depth says.
func (p *routine) mayRecurse(f *program.Frame, o *schema.ObjectDesc) error {
	same, depth := 0, 0
	for ; f != nil; f = f.Outer {
		if depth++; f.Data == o.Procedure && o.Procedure != nil {
			same++
		}
	}
	if limit := given.IntVar(p.ctx, "max_sp_recursion_depth"); same > limit {
		return mysql.NewSQLError(1456, "HY000",
			"Recursive limit %d (as set by the max_sp_recursion_depth variable) was exceeded for routine %s", limit, o.Name)
	}
	if depth > deepest {
		return mysql.NewSQLError(1436, "HY000", "Thread stack overrun: programs call each other more than %d deep", deepest)
	}
	return nil
}

// callFrom calls a procedure from a frame.
func (p *routine) callFrom(f *program.Frame, n *program.Call, o *schema.ObjectDesc) error {
	if err := rights.MayCall(p.ctx, p.r.Engine.Analyzer.Catalog.MySQLDb, o.DB, o.Name, true); err != nil {
		return err
	}
	if err := p.mayRecurse(f, o); err != nil {
		return err
	}
	prog, err := p.r.programs.Get(o.Procedure.CreateStatement, o.Procedure.SqlMode)
	if err != nil {
		return err
	}
	if len(n.Args) != len(prog.Params) {
		return mysql.NewSQLError(1318, "42000", "Incorrect number of arguments for PROCEDURE %s.%s; expected %d, got %d",
			o.DB, o.Name, len(prog.Params), len(n.Args))
	}
	args := make([]program.Value, len(n.Args))
	outs := make([]program.Assignment, len(n.Args))
	for i, a := range n.Args {
		if prog.Params[i].Out {
			if outs[i], err = p.outOf(f, a, i, o); err != nil {
				return err
			}
		}
		if prog.Params[i].In {
			if args[i], err = p.Eval(f, a, true); err != nil {
				return err
			}
		}
		p.used += strings.Count(string(a), "?")
	}
	in := &program.Frame{Host: p, Program: prog, DB: o.DB, Outer: f, Data: o.Procedure}
	end, err := p.act(o)
	if err != nil {
		return err
	}
	if err = in.Bind(args); err == nil {
		if f.Program == nil { // the client calls
			p.whole = p.r.Whole.Call(p.s, prog, func(text string) string { return p.substituted(in, text) })
		}
		err = in.Run()
	}
	end()
	if err != nil {
		return err
	}
	for i, a := range outs {
		if prog.Params[i].Out {
			if err := p.give(f, a, in.Lookup(prog.Params[i].Name).Value); err != nil {
				return err
			}
		}
	}
	return nil
}

// outOf is the variable that an argument is.
func (p *routine) outOf(f *program.Frame, a program.Expr, i int, o *schema.ObjectDesc) (out program.Assignment, err error) {
	ts := token.Scan(string(a), p.mode())
	switch {
	case len(ts) == 2 && ts[0].Kind == token.UserVar:
		return program.Assignment{User: true, Name: ts[0].Text}, nil
	case len(ts) == 2 && ts[0].Named() && f.Lookup(ts[0].Text) != nil:
		return program.Assignment{Name: ts[0].Text}, nil
	case len(ts) == 4 && ts[0].Is("new") && ts[1].Is("."):
		return program.Assignment{Row: "new", Name: ts[2].Text}, nil
	}
	return out, mysql.NewSQLError(1414, "42000",
		"OUT or INOUT argument %d for routine %s.%s is not a variable or NEW pseudo-variable in BEFORE trigger", i+1, o.DB, o.Name)
}

// give hands the value of a parameter to the caller.
func (p *routine) give(f *program.Frame, a program.Assignment, x program.Value) error {
	if a.Row != "" {
		return p.SetRow(f, a.Row, a.Name, x)
	}
	return f.Into([]token.Variable{{Name: a.Name, User: a.User}}, []program.Value{x})
}

// act begins to run a program: in its database, with its sql_mode, in the name of its definer.
func (p *routine) act(o *schema.ObjectDesc) (end func(), err error) {
	var set *rights.Set
	if o.Definer != nil {
		of, err := rights.OfAccount(p.r.Engine.Analyzer.Catalog.MySQLDb, o.Definer.Name, o.Definer.Host)
		if err != nil {
			return nil, err
		}
		set = &of
	}
	return p.actAs(o, set, o.Procedure.SqlMode)
}

// actAs does so with rights that are known; nil: with the user's.
func (p *routine) actAs(o *schema.ObjectDesc, set *rights.Set, own string) (end func(), err error) {
	back := func() {}
	if set != nil {
		back = rights.With(p.ctx, p.r.Engine.Analyzer.Catalog.MySQLDb, *set)
	}
	current, mode := p.s.BaseSession.GetCurrentDatabase(), sql.LoadSqlMode(p.ctx).String()
	if own == "" {
		own = mode
	}
	p.s.SetCurrentDatabase(o.DB)
	if own != mode {
		if err := p.s.SetSessionVariable(p.ctx, "sql_mode", own); err != nil {
			p.s.SetCurrentDatabase(current)
			back()
			return nil, err
		}
	}
	return func() {
		p.s.SetCurrentDatabase(current)
		if own != mode {
			_ = p.s.SetSessionVariable(p.ctx, "sql_mode", mode)
		}
		back()
	}, nil
}

// Event runs the body of an event, in the name of its definer. What it selects nobody gets.
func (r *Runner) Event(ctx *sql.Context, s *session.Session, t *schema.EventTask) error {
	prog, err := program.ParseBody(t.Name, t.Body, token.ModeOf(t.SQLMode))
	if err != nil {
		return err
	}
	db := r.Engine.Analyzer.Catalog.MySQLDb
	set, err := rights.OfAccount(db, t.Definer.Name, t.Definer.Host)
	if err != nil {
		return err
	}
	if db.Enabled() && !set.Database(t.DB, sql.PrivilegeType_Event) {
		return mysql.NewSQLError(1044, "42000", "Access denied for user '%s'@'%s' to database '%s'", t.Definer.Name, t.Definer.Host, t.DB)
	}
	s.BeginPatience(time.Now())
	defer s.EndTries()
	s.BeginTry(false)
	p := r.newRoutine(ctx, s)
	p.discards = true
	defer p.close()
	end, err := p.actAs(&schema.ObjectDesc{DB: t.DB}, &set, t.SQLMode)
	if err != nil {
		return err
	}
	defer end()
	return program.Told((&program.Frame{Host: p, Program: prog, DB: t.DB}).Run())
}
