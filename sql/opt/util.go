package opt

import (
	"slices"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/expr"
)

// set is a set of columns.
type set map[expr.ColID]bool

func setOf(ids []expr.ColID) set {
	s := make(set, len(ids))
	for _, id := range ids {
		s[id] = true
	}
	return s
}

func (s set) add(ids ...expr.ColID) set {
	for _, id := range ids {
		s[id] = true
	}
	return s
}

func (s set) addNodes(ns ...expr.Node) set {
	for _, n := range ns {
		if n != nil {
			expr.Cols(n, func(id expr.ColID) { s[id] = true })
		}
	}
	return s
}

func (s set) clone() set {
	out := make(set, len(s))
	for id := range s {
		out[id] = true
	}
	return out
}

func (s set) within(o set) bool {
	for id := range s {
		if !o[id] {
			return false
		}
	}
	return true
}

func (s set) meets(o set) bool {
	for id := range s {
		if o[id] {
			return true
		}
	}
	return false
}

func (s set) sorted() []expr.ColID {
	out := make([]expr.ColID, 0, len(s))
	for id := range s {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

func colsOf(n expr.Node) set { return set{}.addNodes(n) }

// left is the error that leaves a statement to go-mysql-server.
func left(reason string) error { return &bind.Unsupported{Reason: reason} }

func call(name string, args ...expr.Node) (expr.Node, error) {
	f := expr.Lookup(name)
	if f == nil {
		return nil, left("function " + name)
	}
	return expr.NewCall(f, args...)
}

// isCall finds a call of a function.
func isCall(n expr.Node, name string) (*expr.Call, bool) {
	c, ok := n.(*expr.Call)
	return c, ok && c.Fn.Name == name
}

// volatile reports whether an expression must stay where it is.
func volatile(n expr.Node) bool {
	found := false
	expr.Walk(n, func(n expr.Node) bool {
		if c, ok := n.(*expr.Call); ok && c.Fn.Volatile {
			found = true
		}
		return !found
	})
	return found
}

func hasSub(n expr.Node) bool {
	found := false
	expr.Walk(n, func(n expr.Node) bool {
		_, ok := n.(*expr.Sub)
		found = found || ok
		return !found
	})
	return found
}

// split takes a condition apart at its ANDs.
func split(ns ...expr.Node) (out []expr.Node) {
	for _, n := range ns {
		if c, ok := isCall(n, "and"); ok {
			out = append(out, split(c.Args...)...)
			continue
		}
		out = append(out, n)
	}
	return out
}

// joinAnd is the conjunction of conditions, joinOr their disjunction.
func joinAnd(ns []expr.Node) (expr.Node, error) { return joinBy("and", ns) }

func joinOr(ns []expr.Node) (expr.Node, error) { return joinBy("or", ns) }

func joinBy(op string, ns []expr.Node) (expr.Node, error) {
	out := ns[0]
	for _, n := range ns[1:] {
		var err error
		if out, err = call(op, out, n); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// substitute replaces columns by expressions.
func substitute(n expr.Node, by map[expr.ColID]expr.Node) (expr.Node, error) {
	return expr.Rewrite(n, func(n expr.Node) (expr.Node, error) {
		switch n := n.(type) {
		case *expr.Col:
			if e, ok := by[n.ID]; ok {
				return e, nil
			}
		case *expr.Sub:
			for _, id := range n.Outer {
				if e, ok := by[id]; ok {
					if c, ok := e.(*expr.Col); !ok || c.ID != id {
						return nil, errSubstitute
					}
				}
			}
		}
		return n, nil
	})
}

var errSubstitute = left("subquery over an expression")

// filter puts conditions above a relation.
func filter(r algebra.Rel, conds []expr.Node) algebra.Rel {
	if len(conds) == 0 {
		return r
	}
	if f, ok := r.(*algebra.Filter); ok {
		return &algebra.Filter{In: f.In, Conds: append(slices.Clone(f.Conds), conds...)}
	}
	return &algebra.Filter{In: r, Conds: conds}
}

// free are the columns that a relation uses and does not make: those of outer queries.
func free(r algebra.Rel) set {
	made, used := set{}, set{}
	collectFree(r, made, used)
	for id := range made {
		delete(used, id)
	}
	return used
}

func collectFree(r algebra.Rel, made, used set) {
	algebra.Walk(r, func(r algebra.Rel) bool {
		made.add(r.Cols()...)
		for _, n := range r.Nodes() {
			used.addNodes(n)
			expr.Walk(n, func(n expr.Node) bool {
				if s, ok := n.(*expr.Sub); ok {
					if q, ok := s.Rel.(algebra.Rel); ok {
						collectFree(q, made, used)
					}
				}
				return true
			})
		}
		if s, ok := r.(*algebra.SetOp); ok {
			used.add(s.LeftCols...).add(s.RightCols...)
		}
		return true
	})
}
