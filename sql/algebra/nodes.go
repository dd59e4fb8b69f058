package algebra

import (
	"slices"

	"github.com/godwitdb/godwit/sql/expr"
)

func ids(items []Item) []expr.ColID {
	out := make([]expr.ColID, len(items))
	for i, it := range items {
		out[i] = it.ID
	}
	return out
}

// Cols implements Rel.
func (r *Scan) Cols() []expr.ColID { return r.IDs }

// Cols implements Rel.
func (r *Values) Cols() []expr.ColID { return r.IDs }

// Cols implements Rel.
func (r *Filter) Cols() []expr.ColID { return r.In.Cols() }

// Cols implements Rel.
func (r *Project) Cols() []expr.ColID { return ids(r.Items) }

// Cols implements Rel.
func (r *Join) Cols() []expr.ColID { return joined(r.Kind, r.L, r.R, r.MarkID) }

// Cols implements Rel.
func (r *Apply) Cols() []expr.ColID { return joined(r.Kind, r.L, r.R, r.MarkID) }

func joined(k JoinKind, l, r Rel, mark expr.ColID) []expr.ColID {
	switch {
	case k.Both():
		return slices.Concat(l.Cols(), r.Cols())
	case k == Mark:
		return append(slices.Clone(l.Cols()), mark)
	}
	return l.Cols()
}

// Cols implements Rel: the keys, the aggregates, the level.
func (r *GroupBy) Cols() []expr.ColID {
	out := ids(r.Keys)
	for _, a := range r.Aggs {
		out = append(out, a.ID)
	}
	if r.Level != 0 {
		out = append(out, r.Level)
	}
	return out
}

// Cols implements Rel.
func (r *Window) Cols() []expr.ColID {
	out := slices.Clone(r.In.Cols())
	for _, f := range r.Funcs {
		out = append(out, f.ID)
	}
	return out
}

// Cols implements Rel.
func (r *SetOp) Cols() []expr.ColID { return r.IDs }

// Cols implements Rel.
func (r *Sort) Cols() []expr.ColID { return r.In.Cols() }

// Cols implements Rel.
func (r *Limit) Cols() []expr.ColID { return r.In.Cols() }

// Cols implements Rel.
func (r *Distinct) Cols() []expr.ColID { return r.In.Cols() }

// Cols implements Rel.
func (r *Max1Row) Cols() []expr.ColID { return r.In.Cols() }

// Cols implements Rel.
func (r *RecursiveCTE) Cols() []expr.ColID { return r.IDs }

// Cols implements Rel.
func (r *CTERef) Cols() []expr.ColID { return r.IDs }

// Inputs implements Rel.
func (r *Scan) Inputs() []Rel { return nil }

// Inputs implements Rel.
func (r *Values) Inputs() []Rel { return nil }

// Inputs implements Rel.
func (r *Filter) Inputs() []Rel { return []Rel{r.In} }

// Inputs implements Rel.
func (r *Project) Inputs() []Rel { return []Rel{r.In} }

// Inputs implements Rel.
func (r *Join) Inputs() []Rel { return []Rel{r.L, r.R} }

// Inputs implements Rel.
func (r *Apply) Inputs() []Rel { return []Rel{r.L, r.R} }

// Inputs implements Rel.
func (r *GroupBy) Inputs() []Rel { return []Rel{r.In} }

// Inputs implements Rel.
func (r *Window) Inputs() []Rel { return []Rel{r.In} }

// Inputs implements Rel.
func (r *SetOp) Inputs() []Rel { return []Rel{r.L, r.R} }

// Inputs implements Rel.
func (r *Sort) Inputs() []Rel { return []Rel{r.In} }

// Inputs implements Rel.
func (r *Limit) Inputs() []Rel { return []Rel{r.In} }

// Inputs implements Rel.
func (r *Distinct) Inputs() []Rel { return []Rel{r.In} }

// Inputs implements Rel.
func (r *Max1Row) Inputs() []Rel { return []Rel{r.In} }

// Inputs implements Rel.
func (r *RecursiveCTE) Inputs() []Rel { return []Rel{r.Seed, r.Step} }

// Inputs implements Rel.
func (r *CTERef) Inputs() []Rel { return nil }

// WithInputs implements Rel.
func (r *Scan) WithInputs([]Rel) Rel { return r }

// WithInputs implements Rel.
func (r *Values) WithInputs([]Rel) Rel { return r }

// WithInputs implements Rel.
func (r *Filter) WithInputs(in []Rel) Rel { c := *r; c.In = in[0]; return &c }

// WithInputs implements Rel.
func (r *Project) WithInputs(in []Rel) Rel { c := *r; c.In = in[0]; return &c }

// WithInputs implements Rel.
func (r *Join) WithInputs(in []Rel) Rel { c := *r; c.L, c.R = in[0], in[1]; return &c }

// WithInputs implements Rel.
func (r *Apply) WithInputs(in []Rel) Rel { c := *r; c.L, c.R = in[0], in[1]; return &c }

// WithInputs implements Rel.
func (r *GroupBy) WithInputs(in []Rel) Rel { c := *r; c.In = in[0]; return &c }

// WithInputs implements Rel.
func (r *Window) WithInputs(in []Rel) Rel { c := *r; c.In = in[0]; return &c }

// WithInputs implements Rel.
func (r *SetOp) WithInputs(in []Rel) Rel { c := *r; c.L, c.R = in[0], in[1]; return &c }

// WithInputs implements Rel.
func (r *Sort) WithInputs(in []Rel) Rel { c := *r; c.In = in[0]; return &c }

// WithInputs implements Rel.
func (r *Limit) WithInputs(in []Rel) Rel { c := *r; c.In = in[0]; return &c }

// WithInputs implements Rel.
func (r *Distinct) WithInputs(in []Rel) Rel { c := *r; c.In = in[0]; return &c }

// WithInputs implements Rel.
func (r *Max1Row) WithInputs(in []Rel) Rel { return &Max1Row{in[0]} }

// WithInputs implements Rel.
func (r *RecursiveCTE) WithInputs(in []Rel) Rel { c := *r; c.Seed, c.Step = in[0], in[1]; return &c }

// WithInputs implements Rel.
func (r *CTERef) WithInputs([]Rel) Rel { return r }

// mapped replaces the expressions of an operator; the nil expression stays.
type mapped func(expr.Node) expr.Node

func (f mapped) one(n expr.Node) expr.Node {
	if n == nil {
		return nil
	}
	return f(n)
}

func (f mapped) list(ns []expr.Node) []expr.Node {
	if ns == nil {
		return nil
	}
	out := make([]expr.Node, len(ns))
	for i, n := range ns {
		out[i] = f.one(n)
	}
	return out
}

func (f mapped) items(in []Item) []Item {
	out := slices.Clone(in)
	for i := range out {
		out[i].Node = f.one(out[i].Node)
	}
	return out
}

func (f mapped) orders(in []Order) []Order {
	out := slices.Clone(in)
	for i := range out {
		out[i].Expr = f.one(out[i].Expr)
	}
	return out
}

// agg replaces the arguments of an aggregate by others of the same types.
func (f mapped) agg(a *expr.Agg) *expr.Agg {
	n, err := a.With(f.list(a.Children()))
	if err != nil {
		panic(err) // the types are those that were accepted before
	}
	return n.(*expr.Agg)
}

// MapNodes implements Rel.
func (r *Scan) MapNodes(func(expr.Node) expr.Node) Rel { return r }

// MapNodes implements Rel.
func (r *Values) MapNodes(f func(expr.Node) expr.Node) Rel {
	c := *r
	c.Rows = slices.Clone(r.Rows)
	for i := range c.Rows {
		c.Rows[i] = mapped(f).list(c.Rows[i])
	}
	return &c
}

// MapNodes implements Rel.
func (r *Filter) MapNodes(f func(expr.Node) expr.Node) Rel {
	return &Filter{r.In, mapped(f).list(r.Conds)}
}

// MapNodes implements Rel.
func (r *Project) MapNodes(f func(expr.Node) expr.Node) Rel {
	return &Project{r.In, mapped(f).items(r.Items)}
}

// MapNodes implements Rel.
func (r *Join) MapNodes(f func(expr.Node) expr.Node) Rel {
	c := *r
	c.On, c.Also = mapped(f).list(r.On), mapped(f).list(r.Also)
	return &c
}

// MapNodes implements Rel.
func (r *Apply) MapNodes(f func(expr.Node) expr.Node) Rel {
	c := *r
	c.On, c.Also = mapped(f).list(r.On), mapped(f).list(r.Also)
	return &c
}

// MapNodes implements Rel.
func (r *GroupBy) MapNodes(f func(expr.Node) expr.Node) Rel {
	c := *r
	m := mapped(f)
	c.Keys, c.Aggs = m.items(r.Keys), slices.Clone(r.Aggs)
	for i := range c.Aggs {
		c.Aggs[i].Call = m.agg(c.Aggs[i].Call)
	}
	return &c
}

// MapNodes implements Rel.
func (r *Window) MapNodes(f func(expr.Node) expr.Node) Rel {
	c := *r
	m := mapped(f)
	c.Partition, c.Order, c.Funcs = m.list(r.Partition), m.orders(r.Order), slices.Clone(r.Funcs)
	for i := range c.Funcs {
		w := &c.Funcs[i]
		if w.Agg != nil {
			w.Agg = m.agg(w.Agg)
		}
		w.Args, w.Frame.Lo.N, w.Frame.Hi.N = m.list(w.Args), m.one(w.Frame.Lo.N), m.one(w.Frame.Hi.N)
	}
	return &c
}

// MapNodes implements Rel.
func (r *SetOp) MapNodes(func(expr.Node) expr.Node) Rel { return r }

// MapNodes implements Rel.
func (r *Sort) MapNodes(f func(expr.Node) expr.Node) Rel {
	return &Sort{r.In, mapped(f).orders(r.Keys)}
}

// MapNodes implements Rel.
func (r *Limit) MapNodes(f func(expr.Node) expr.Node) Rel {
	return &Limit{r.In, mapped(f).one(r.Count), mapped(f).one(r.Offset)}
}

// MapNodes implements Rel.
func (r *Distinct) MapNodes(func(expr.Node) expr.Node) Rel { return r }

// MapNodes implements Rel.
func (r *Max1Row) MapNodes(func(expr.Node) expr.Node) Rel { return r }

// MapNodes implements Rel.
func (r *RecursiveCTE) MapNodes(func(expr.Node) expr.Node) Rel { return r }

// MapNodes implements Rel.
func (r *CTERef) MapNodes(func(expr.Node) expr.Node) Rel { return r }

// collect gathers the expressions of an operator by way of MapNodes.
func collect(r Rel) (out []expr.Node) {
	r.MapNodes(func(n expr.Node) expr.Node { out = append(out, n); return n })
	return out
}

// Nodes implements Rel.
func (r *Scan) Nodes() []expr.Node { return nil }

// Nodes implements Rel.
func (r *Values) Nodes() []expr.Node { return collect(r) }

// Nodes implements Rel.
func (r *Filter) Nodes() []expr.Node { return r.Conds }

// Nodes implements Rel.
func (r *Project) Nodes() []expr.Node { return collect(r) }

// Nodes implements Rel.
func (r *Join) Nodes() []expr.Node { return slices.Concat(r.On, r.Also) }

// Nodes implements Rel.
func (r *Apply) Nodes() []expr.Node { return slices.Concat(r.On, r.Also) }

// Nodes implements Rel.
func (r *GroupBy) Nodes() []expr.Node { return collect(r) }

// Nodes implements Rel.
func (r *Window) Nodes() []expr.Node { return collect(r) }

// Nodes implements Rel.
func (r *SetOp) Nodes() []expr.Node { return nil }

// Nodes implements Rel.
func (r *Sort) Nodes() []expr.Node { return collect(r) }

// Nodes implements Rel.
func (r *Limit) Nodes() []expr.Node { return collect(r) }

// Nodes implements Rel.
func (r *Distinct) Nodes() []expr.Node { return nil }

// Nodes implements Rel.
func (r *Max1Row) Nodes() []expr.Node { return nil }

// Nodes implements Rel.
func (r *RecursiveCTE) Nodes() []expr.Node { return nil }

// Nodes implements Rel.
func (r *CTERef) Nodes() []expr.Node { return nil }

// Cols implements Rel.
func (r *Shared) Cols() []expr.ColID { return r.IDs }

// Inputs implements Rel: what is shared is no part of its readers, of which there may be many.
func (r *Shared) Inputs() []Rel { return nil }

// WithInputs implements Rel.
func (r *Shared) WithInputs([]Rel) Rel { return r }

// MapNodes implements Rel.
func (r *Shared) MapNodes(func(expr.Node) expr.Node) Rel { return r }

// Nodes implements Rel.
func (r *Shared) Nodes() []expr.Node { return nil }

// Volatile reports whether expressions of a relation, also those of subqueries in them, have
// effects or another value at each call.
func Volatile(r Rel) bool {
	found := false
	Walk(r, func(r Rel) bool {
		for _, n := range r.Nodes() {
			expr.Walk(n, func(n expr.Node) bool {
				switch n := n.(type) {
				case *expr.Call:
					found = found || n.Fn.Volatile
				case *expr.Sub:
					if q, ok := n.Rel.(Rel); ok {
						found = found || Volatile(q)
					}
				}
				return !found
			})
		}
		return !found
	})
	return found
}

// Walk calls f for r and, while f says so, for what is below, without subqueries in expressions.
func Walk(r Rel, f func(Rel) bool) {
	if r == nil || !f(r) {
		return
	}
	for _, in := range r.Inputs() {
		Walk(in, f)
	}
}

// Rewrite replaces operators from the leaves up.
func Rewrite(r Rel, f func(Rel) Rel) Rel {
	in := r.Inputs()
	var out []Rel
	for i, x := range in {
		if y := Rewrite(x, f); y != x {
			if out == nil {
				out = slices.Clone(in)
			}
			out[i] = y
		}
	}
	if out != nil {
		r = r.WithInputs(out)
	}
	return f(r)
}
