package query

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/assign"
	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/function"
	"github.com/godwitdb/godwit/sql/program"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/token"
)

// A stored function is a function of the expression that calls it, made for the statement. It runs
// in the statement's transaction, so it sees what the statement sees. One that may write makes the
// statement one that writes, and is called row by row, in the order of the rows; what it wrote is
// undone if the statement fails. One that only reads has one value for the same arguments as long
// as the statement runs, and is not called before that.

// calls are the stored functions that a statement calls.
type calls struct {
	known map[*schema.RoutineDesc]*stored
	// writes: one of them may change or lock rows. running: the statement runs, so that they may
	// read tables.
	writes, running bool
	// routine runs them.
	routine *routine
}

// stored is a function as a statement calls it.
type stored struct {
	o    *schema.ObjectDesc
	prog *program.Program
	fn   *expr.Func
	coll sql.CollationID
	// rights are those with which it is executed; nil: the user's.
	rights *rights.Set
	facts  program.Facts
	// defined: the rights are those of the definer.
	defined bool
}

func (c *calls) any() bool { return len(c.known) > 0 }

// read reports whether an expression calls a function that reads tables.
func (c *calls) read(n expr.Node) bool {
	found := false
	expr.Walk(n, func(n expr.Node) bool {
		if call, ok := n.(*expr.Call); ok {
			for _, f := range c.known {
				found = found || f.fn == call.Fn && f.facts.Reads
			}
		}
		return !found
	})
	return found
}

func (c *calls) close() {
	if c.routine != nil {
		c.routine.close()
		c.routine = nil
	}
}

// Function implements algebra.Routines.
func (c *catalog) Function(db, current, name string) (*expr.Func, error) {
	s := session.Of(c.ctx)
	if db == "" && (current == "" || function.Native(name)) || s == nil {
		return nil, nil
	}
	qualified := db != ""
	if !qualified {
		db = current
	}
	o, err := s.Function(c.ctx, db, name)
	if err != nil {
		return nil, left("error of the catalog")
	}
	if o == nil && qualified {
		return nil, &bind.Refusal{Err: mysql.NewSQLError(1305, "42000", "FUNCTION %s.%s does not exist", db, name)}
	}
	if o == nil { // the engine may know it by another name
		return nil, nil
	}
	if c.as != nil {
		defer rights.With(c.ctx, c.db, *c.as)()
	}
	if err := rights.MayCall(c.ctx, c.db, o.DB, o.Name, false); err != nil {
		return nil, &bind.Refusal{Err: err}
	}
	st := c.caller
	if st == nil { // only the type matters
		st = &statement{ctx: c.ctx, s: s}
	}
	return st.function(o, c.as)
}

// function is a stored function as a function of expressions. as are the rights with which the view
// is read in which it is called; nil: it is called in none.
func (st *statement) function(o *schema.ObjectDesc, as *rights.Set) (*expr.Func, error) {
	if f := st.calls.known[o.Function]; f != nil {
		return f.fn, nil
	}
	r := st.r
	if r == nil {
		r = &Runner{}
	}
	prog, err := r.programs.Get(o.Function.Text, o.Function.SQLMode)
	if err != nil {
		return nil, &bind.Refusal{Err: err}
	}
	f := &stored{o: o, prog: prog, rights: as}
	if f.coll, err = sql.ParseCollation("", o.Function.Collation, false); err != nil {
		return nil, &bind.Refusal{Err: err}
	}
	col, err := assign.Variable(o.Name, prog.Returns, f.coll)
	if err != nil {
		return nil, &bind.Refusal{Err: err}
	}
	snap, err := st.s.Snapshot(st.ctx)
	if err != nil {
		return nil, left("error of the catalog")
	}
	f.facts = factsOf(snap, o.DB, prog.Facts, map[string]bool{}, &r.programs)
	t := assign.TypeOf(col)
	if t.Kind == expr.Text {
		t.Coercibility = expr.CoerceLiteral
	}
	f.fn = &expr.Func{Name: o.DB + "." + o.Name, Max: -1, Volatile: f.facts.Volatile, Ordered: f.facts.Ordered,
		Derive: func(c *expr.Call) error {
			c.T = t
			return f.counts(len(c.Args))
		},
		Eval: func(c *expr.Call, k *expr.Compiler) (expr.Expr, error) { return st.callOf(f, c, k) }}
	if st.calls.known == nil {
		st.calls.known = map[*schema.RoutineDesc]*stored{}
	}
	st.calls.known[o.Function] = f
	if f.facts.Writes {
		st.calls.writes = true
		st.turn.Locks()
	}
	return f.fn, nil
}

// counts refuses a wrong number of arguments.
func (f *stored) counts(n int) error {
	if n != len(f.prog.Params) {
		return mysql.NewSQLError(1318, "42000", "Incorrect number of arguments for FUNCTION %s.%s; expected %d, got %d",
			f.o.DB, f.o.Name, len(f.prog.Params), n)
	}
	return nil
}

// factsOf adds to the facts of a function, or of a view, those of the functions and views that it
// names. seen are those that were looked at.
func factsOf(snap *schema.Snapshot, db string, f program.Facts, seen map[string]bool, programs *program.Cache) program.Facts {
	for _, name := range f.Names {
		for _, d := range snap.Databases {
			key := strings.ToLower(d.Desc.Name) + "." + name
			if seen[key] {
				continue
			}
			if o := d.Objects[schema.IxFunction][name]; o != nil {
				seen[key] = true
				if p, err := programs.Get(o.Function.Text, o.Function.SQLMode); err == nil {
					f.Add(factsOf(snap, d.Desc.Name, p.Facts, seen, programs))
				}
			}
			if o := d.Objects[schema.IxView][name]; o != nil {
				seen[key] = true
				in := program.FactsOf(o.View.TextDefinition, token.ModeOf(o.View.SqlMode))
				f.Add(factsOf(snap, d.Desc.Name, in, seen, programs))
			}
		}
	}
	return f
}

// callOf compiles a call.
func (st *statement) callOf(f *stored, c *expr.Call, k *expr.Compiler) (expr.Expr, error) {
	args, err := k.Exprs(c.Args)
	if err != nil {
		return nil, err
	}
	values := make([]program.Value, len(args))
	e := expr.NewRowFunc(c.T, args, func(a []*expr.Vec, i int32, v *expr.Vec) error {
		for k, x := range a {
			values[k] = program.Value{V: x.At(i), T: x.T}
		}
		x, err := st.call(f, values)
		if err != nil {
			return err
		}
		v.Put(int(i), x.V)
		return nil
	})
	e.Nulls, e.Env = true, k.Env
	return e, nil
}

// errEarly says that a function reads tables while the statement is only planned.
var errEarly = base.Errorf(base.CodeInvalid, "a stored function is called before its statement runs")

// call calls a function.
func (st *statement) call(f *stored, args []program.Value) (x program.Value, err error) {
	if st.r == nil || f.facts.Reads && !st.calls.running {
		return x, errEarly
	}
	p := st.calls.routine
	if p == nil {
		p = st.r.newRoutine(st.ctx, st.s)
		p.sub, p.caller = true, st
		if st.in != nil {
			p.outer = st.in.frame
		}
		st.calls.routine = p
	}
	for o := p.outer; o != nil; o = o.Outer {
		if o.Data == f.o.Function {
			return x, mysql.NewSQLError(1424, "HY000", "Recursive stored functions and triggers are not allowed.")
		}
	}
	fr := &program.Frame{Host: p, Program: f.prog, DB: f.o.DB, Outer: p.outer, Data: f.o.Function}
	if err := p.tooDeep(fr); err != nil {
		return x, err
	}
	err = p.apart(func() error {
		end, err := p.actFor(f)
		if err != nil {
			return err
		}
		defer end()
		if err = fr.Bind(args); err == nil {
			err = fr.Run()
		}
		if f.o.Definer != nil {
			err = rights.Named(p.ctx, err, *f.o.Definer)
		}
		return program.Told(err)
	})
	if err != nil {
		return x, err
	}
	return fr.Result(), nil
}

// actFor begins to run a function: with the rights of its definer, in its database, under its
// sql_mode.
func (p *routine) actFor(f *stored) (end func(), err error) {
	if d := f.o.Definer; d != nil && !f.defined {
		set, err := rights.OfAccount(p.r.Engine.Analyzer.Catalog.MySQLDb, d.Name, d.Host)
		if err != nil {
			return nil, err
		}
		f.rights, f.defined = &set, true
	}
	p.coll = f.coll
	return p.actAs(f.o, f.rights, f.o.Function.SQLMode)
}

// uses reports whether a table is one that the statement uses which fires the trigger, or calls the
// function.
func (p *routine) uses(id base.TableID) bool {
	switch {
	case !p.sub:
	case p.rows.target != nil:
		return p.rows.target.st.Def.Desc.ID == id
	case p.caller != nil && p.caller.cat != nil:
		for _, t := range p.caller.cat.tables {
			if t.Stored().Def.Desc.ID == id {
				return true
			}
		}
	}
	return false
}

// clearWarnings forgets the warnings of the statement before, unless this one is part of another.
func (st *statement) clearWarnings() {
	if st.in != nil {
		if p, ok := st.in.frame.Host.(*routine); ok && p.sub {
			return
		}
	}
	st.s.ClearWarnings()
}

// beginCalls lets the statement's functions run. undo takes the error of the statement: if there is
// one, what the functions have written is undone.
func (st *statement) beginCalls(t *session.Txn) (undo func(error), err error) {
	st.calls.running = true
	if !st.calls.writes || !st.s.Explicit(st.ctx) { // else all of the transaction is undone
		return func(error) {}, nil
	}
	if _, err := t.Begin(st.ctx); err != nil {
		return nil, err
	}
	mark := t.Mark()
	return func(err error) {
		if err != nil && !t.Over && t.KV != nil {
			t.RollbackToMark(mark)
		}
	}, nil
}
