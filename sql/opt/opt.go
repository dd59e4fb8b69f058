package opt

import (
	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/expr"
)

// Options steer the planner.
type Options struct {
	// NoLookup, NoReorder and NoIndex switch off what their names say, so that tests can compare
	// plans.
	NoLookup, NoReorder, NoIndex bool
	// Locking: the transaction locks the rows that it reads, so that plans should read few.
	Locking bool
}

// optimizer plans one statement.
type optimizer struct {
	env  *expr.Env
	opts Options
	next expr.ColID
	err  error
	// outer are the columns of outer queries that stand for constants where the walk is.
	outer set
	// above are conditions that rows which pass where the walk is have to meet further up.
	above []expr.Node
	// ndv estimates the distinct values of columns.
	ndv   map[expr.ColID]float64
	types map[expr.ColID]expr.Type
	// base says which column of which table a column is.
	base map[expr.ColID]baseCol
	// kept are the plans whose rows are kept while the plan runs, by the number of their readers.
	kept map[int]*Plan
	lock algebra.LockKind
	// made are the columns that stand for subqueries in the operator that is being unnested, by
	// their numbers.
	made map[expr.ColID]expr.Node
}

// Optimize plans a query. env is used to evaluate constants.
func Optimize(q *bind.Query, env *expr.Env, opts Options) (_ *Plan, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case interrupted:
			err = r.error
		default:
			panic(r)
		}
	}()
	o := &optimizer{env: env, opts: opts, next: q.Next, outer: set{}, ndv: map[expr.ColID]float64{},
		types: map[expr.ColID]expr.Type{}, base: map[expr.ColID]baseCol{}, kept: map[int]*Plan{}, lock: q.Lock}
	rel := o.rewrite(q.Rel)
	if o.err != nil {
		return nil, o.err
	}
	need := set{}
	for _, c := range q.Out {
		need[c.ID] = true
	}
	p := o.physical(rel, need)
	if o.err != nil {
		return nil, o.err
	}
	p.readWhole()
	return p, nil
}

// readWhole marks the reads that go to the end of what they read, because the rows of the plan are
// all asked for.
func (p *Plan) readWhole() {
	switch p.Op {
	case OpScan:
		p.Read.Whole = p.Read.Limit == 0 && p.Read.Want == 0
	case OpFilter, OpProject, OpGroup, OpWindow, OpSort, OpDistinct:
		p.In[0].readWhole()
	}
}

// interrupted unwinds the planner when the statement's context has ended.
type interrupted struct{ error }

// check ends the planner if the statement was killed, or took as long as it may.
func (o *optimizer) check() {
	if o.env == nil {
		return
	}
	if err := bind.Interrupted(o.env.Ctx); err != nil {
		panic(interrupted{err})
	}
}

// listStep is after how many values of a list the planner asks again. One takes about half a
// microsecond.
const listStep = 4096

// atValue is check, for a loop over the values of lists: i is the number of the value.
func (o *optimizer) atValue(i int) {
	if i%listStep == listStep-1 {
		o.check()
	}
}

// Rewrite is the query after all rewriting, for tests.
func Rewrite(q *bind.Query, env *expr.Env) (algebra.Rel, error) {
	o := &optimizer{env: env, next: q.Next, outer: set{}}
	rel := o.rewrite(q.Rel)
	return rel, o.err
}

func (o *optimizer) rewrite(r algebra.Rel) algebra.Rel {
	r = o.foldAll(r)
	r = o.unnest(r)
	r = o.decorrelate(r)
	if o.err != nil {
		return r
	}
	return o.push(r, nil)
}

func (o *optimizer) fail(err error) {
	if o.err == nil && err != nil {
		o.err = err
	}
}

func (o *optimizer) newID() expr.ColID {
	id := o.next
	o.next++
	return id
}

// foldAll computes what is constant, in subqueries too.
func (o *optimizer) foldAll(r algebra.Rel) algebra.Rel {
	return algebra.Rewrite(r, func(r algebra.Rel) algebra.Rel {
		o.check()
		if len(r.Nodes()) == 0 {
			return r
		}
		return r.MapNodes(func(n expr.Node) expr.Node { return o.fold(n) })
	})
}
