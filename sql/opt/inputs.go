package opt

import (
	"slices"

	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/exec/exchange"
	"github.com/godwitdb/godwit/sql/expr"
)

// plainAggs are the aggregates that want nothing of their argument but its value.
var plainAggs = map[string]bool{"sum": true, "avg": true, "count": true, "min": true, "max": true}

// below puts an exchange under an operator with one input, unless helpers can do its work, too.
func below(p *Plan, in exec.Op) exec.Op {
	switch p.Op {
	case OpFilter, OpProject:
		return exchange.Below(in, nodes(p)...)
	case OpGroup:
		if !p.Group.Rollup && !ordered(p) {
			return in // spread does
		}
	}
	return exchange.New(in)
}

// spread has the keys of groups and the arguments of their aggregates computed below an exchange,
// where helpers can do it, if its rows come from one.
func (b *builder) spread(s *exec.AggSpec) {
	if !exchange.Divides(s.In) {
		return
	}
	var cols []exec.Column
	some := false
	compute := func(n expr.Node) expr.Node {
		switch n.(type) {
		case *expr.Col, *expr.Const, *expr.Param:
			return n
		}
		if !exchange.Free(n) {
			return n
		}
		some = true
		c := &expr.Col{ID: b.newID(), T: n.Type()}
		cols = append(cols, exec.Column{ID: c.ID, Expr: n})
		return c
	}
	keys, aggs := slices.Clone(s.Keys), slices.Clone(s.Aggs)
	for i := range keys {
		keys[i].Expr = compute(keys[i].Expr)
	}
	for i, a := range aggs {
		if !plainAggs[a.Agg.Fn.Name] {
			continue
		}
		agg := *a.Agg
		agg.Args = slices.Clone(agg.Args)
		for k := range agg.Args {
			agg.Args[k] = compute(agg.Args[k])
		}
		aggs[i].Agg = &agg
	}
	if some {
		s.In = exec.NewProject(s.In, append(passed(s.In, keys, aggs), cols...))
		s.Keys, s.Aggs = keys, aggs
	}
	s.In = exchange.New(s.In)
}

// passed are the columns of the input that keys and aggregates still look at.
func passed(in exec.Op, keys []exec.Column, aggs []exec.AggColumn) (cols []exec.Column) {
	used := map[expr.ColID]bool{}
	note := func(id expr.ColID) { used[id] = true }
	for _, k := range keys {
		expr.Cols(k.Expr, note)
	}
	for _, a := range aggs {
		expr.Cols(a.Agg, note)
	}
	for i, id := range in.Cols() {
		if used[id] {
			cols = append(cols, exec.Column{ID: id, Expr: &expr.Col{ID: id, T: in.Types()[i]}})
		}
	}
	return cols
}
