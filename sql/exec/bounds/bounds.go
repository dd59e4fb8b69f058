// Package bounds finds, in the condition of a scan, the comparisons of a column with a constant. A
// source of rows may leave out what these say FALSE or NULL of before it makes rows of it. The
// condition is tested all the same.
package bounds

import "github.com/godwitdb/godwit/sql/expr"

// Op is a comparison. What the column is compared with stands on the right.
type Op uint8

// The comparisons.
const (
	Eq Op = iota
	Lt
	Le
	Gt
	Ge
)

// Bound is one comparison. Rows are wanted only if it is TRUE.
type Bound struct {
	Col int // position among the columns of the scan
	Op  Op
	V   expr.Value // not NULL, and of the column's type
	T   expr.Type  // in which the comparison takes place
}

var ops = map[string]Op{"=": Eq, "<": Lt, "<=": Le, ">": Gt, ">=": Ge}

var mirrored = map[Op]Op{Eq: Eq, Lt: Gt, Le: Ge, Gt: Lt, Ge: Le}

// Of are the bounds in a list of conditions that all must be TRUE, of the columns ids. It stops at
// a condition that may be an error, or warn, for some row: for a row that is left out nobody would
// learn of it.
func Of(conds []expr.Node, ids []expr.ColID, env *expr.Env) (out []Bound) {
	for _, n := range conds {
		if !silent(n) {
			break
		}
		if b, ok := bound(n, ids, env); ok {
			out = append(out, b)
		}
	}
	return out
}

// quiet are functions that have a value for all arguments.
var quiet = map[string]bool{"=": true, "<": true, "<=": true, ">": true, ">=": true, "<>": true, "!=": true, "<=>": true,
	"and": true, "or": true, "not": true, "isnull": true, "isnotnull": true, "between": true}

// silent reports whether a condition is neither an error nor a warning for any row.
func silent(n expr.Node) bool {
	ok := true
	expr.Walk(n, func(n expr.Node) bool {
		switch n := n.(type) {
		case *expr.Col, *expr.Const, *expr.Param, *expr.In:
		case *expr.Call:
			ok = ok && quiet[n.Fn.Name]
		default:
			ok = false
		}
		return ok
	})
	return ok
}

func bound(n expr.Node, ids []expr.ColID, env *expr.Env) (Bound, bool) {
	c, ok := n.(*expr.Call)
	if !ok || len(c.Args) != 2 {
		return Bound{}, false
	}
	op, ok := ops[c.Fn.Name]
	if !ok {
		return Bound{}, false
	}
	col, v, ok := sides(c.Args[0], c.Args[1], env)
	if !ok {
		if col, v, ok = sides(c.Args[1], c.Args[0], env); !ok {
			return Bound{}, false
		}
		op = mirrored[op]
	}
	if v.IsNull() || v.Kind != c.Cmp.Kind || col.T.Kind != c.Cmp.Kind {
		return Bound{}, false
	}
	for i, id := range ids {
		if id == col.ID {
			return Bound{Col: i, Op: op, V: v, T: c.Cmp}, true
		}
	}
	return Bound{}, false // of an outer query
}

// sides are a column and a constant.
func sides(l, r expr.Node, env *expr.Env) (col *expr.Col, v expr.Value, ok bool) {
	if col, ok = l.(*expr.Col); !ok {
		return nil, v, false
	}
	switch r := r.(type) {
	case *expr.Const:
		return col, r.V, true
	case *expr.Param:
		if env != nil && r.N < len(env.Params) {
			return col, env.Params[r.N], true
		}
	}
	return nil, v, false
}
