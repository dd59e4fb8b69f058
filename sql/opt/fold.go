package opt

import (
	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/expr"
)

// fold computes the parts of an expression that are constant. What fails or warns when it is
// computed stays: it may never be asked for.
func (o *optimizer) fold(n expr.Node) expr.Node {
	consts := map[expr.Node]bool{}
	foldable(n, consts)
	return o.foldParts(n, consts)
}

func (o *optimizer) foldParts(n expr.Node, consts map[expr.Node]bool) expr.Node {
	if s, ok := n.(*expr.Sub); ok {
		c := *s
		if rel, ok := s.Rel.(algebra.Rel); ok {
			c.Rel = o.foldAll(rel)
		}
		c.Left = make([]expr.Node, len(s.Left))
		for i, l := range s.Left {
			c.Left[i] = o.fold(l)
		}
		return &c
	}
	if consts[n] {
		return o.value(n)
	}
	ch := n.Children()
	var fresh []expr.Node
	for i, c := range ch {
		if f := o.foldParts(c, consts); f != c {
			if fresh == nil {
				fresh = append([]expr.Node(nil), ch...)
			}
			fresh[i] = f
		}
	}
	if fresh == nil {
		return n
	}
	m, err := n.With(fresh)
	if err != nil {
		return n
	}
	return m
}

// foldable reports whether an expression uses constants only, and notes which of its parts do.
func foldable(n expr.Node, consts map[expr.Node]bool) bool {
	ok := true
	switch n := n.(type) {
	case *expr.Col, *expr.Sub, *expr.Param, *expr.Agg, *expr.Tuple:
		return false
	case *expr.Call:
		ok = !n.Fn.Volatile
	}
	for _, c := range n.Children() {
		ok = foldable(c, consts) && ok
	}
	if ok {
		consts[n] = true
	}
	return ok
}

// value computes a constant; n itself if that fails or warns.
func (o *optimizer) value(n expr.Node) expr.Node {
	if _, ok := n.(*expr.Const); ok {
		return n
	}
	env := expr.Env{}
	if o.env != nil {
		env = *o.env
	}
	warned := false
	env.Warn = func(int, string) { warned = true }
	v, ok := constant(n, &env)
	if !ok || warned {
		return n
	}
	t := n.Type()
	if v.IsNull() {
		t.NotNull = false
		return &expr.Const{V: v, T: t}
	}
	return expr.Computed(n, v)
}

// constant evaluates an expression without columns.
func constant(n expr.Node, env *expr.Env) (expr.Value, bool) {
	e, err := expr.Compile(n, nil, env)
	if err != nil {
		return expr.Value{}, false
	}
	v, err := e.Eval(&expr.Batch{N: 1, Sel: expr.All(1)}, expr.All(1))
	if err != nil {
		return expr.Value{}, false
	}
	return v.At(0), true
}
