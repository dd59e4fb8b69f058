package exec

import (
	"github.com/godwitdb/godwit/sql/expr"
)

// RollupSpec repeats rows for the super-aggregates of ROLLUP.
type RollupSpec struct {
	In Op
	// Keys are the keys of the grouping, under numbers of their own.
	Keys []Column
	// Level is a column that says how many of the last keys are NULL.
	Level expr.ColID
}

// rollup gives out each batch once for each number of keys that are lost.
type rollup struct {
	columns
	spec  RollupSpec
	env   *expr.Env
	es    []expr.Expr
	in    *expr.Batch
	keys  []*expr.Vec
	nulls []*expr.Vec
	level expr.Vec
	lost  int
	out   expr.Batch
}

// NewRollup repeats rows with all keys, without the last one, and so on to none.
func NewRollup(s RollupSpec) Op {
	r := &rollup{columns: columnsOf(s.In), spec: s}
	r.add(s.Keys)
	for i := range s.Keys {
		r.types[len(r.types)-1-i].NotNull = false
	}
	t := expr.TypeInt
	t.NotNull = true
	r.ids, r.types = append(r.ids, s.Level), append(r.types, t)
	return r
}

// Open implements Op.
func (r *rollup) Open(ctx *Ctx) error {
	r.in, r.lost = nil, 0
	if r.env != ctx.Env {
		var nodes []expr.Node
		r.nulls = nil
		for _, k := range r.spec.Keys {
			nodes = append(nodes, k.Expr)
			r.nulls = append(r.nulls, &expr.Vec{})
		}
		var err error
		if r.es, err = expr.CompileAll(nodes, r.spec.In.Cols(), ctx.Env); err != nil {
			return err
		}
		r.env = ctx.Env
	}
	return r.spec.In.Open(ctx)
}

// Next implements Op.
func (r *rollup) Next() (*expr.Batch, error) {
	if r.in == nil || r.lost > len(r.es) {
		if err := r.read(); err != nil || r.in == nil {
			return nil, err
		}
	}
	r.level.Reset(expr.TypeInt, r.in.N)
	for i := range r.level.I {
		r.level.I[i] = int64(r.lost)
	}
	r.out.N, r.out.Sel, r.out.Cols = r.in.N, r.in.Sel, append(r.out.Cols[:0], r.in.Cols...)
	kept := len(r.es) - r.lost
	r.out.Cols = append(r.out.Cols, r.keys[:kept]...)
	r.out.Cols = append(append(r.out.Cols, r.nulls[kept:]...), &r.level)
	r.lost++
	return &r.out, nil
}

// read takes the next batch of the input.
func (r *rollup) read() (err error) {
	if r.in, err = r.spec.In.Next(); err != nil || r.in == nil {
		return err
	}
	r.keys, r.lost = r.keys[:0], 0
	for k, e := range r.es {
		v, err := e.Eval(r.in, r.in.Sel)
		if err != nil {
			return err
		}
		r.keys = append(r.keys, v)
		r.nulls[k].Reset(e.Type(), r.in.N)
		for i := range r.in.N {
			r.nulls[k].SetNull(i)
		}
	}
	return nil
}

// Close implements Op.
func (r *rollup) Close() error {
	r.in = nil
	return r.spec.In.Close()
}
