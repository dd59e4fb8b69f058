package algebra

import (
	"slices"

	"github.com/godwitdb/godwit/sql/expr"
)

// SameBounds reports whether two bounds of frames are the same.
func SameBounds(a, b Bound) bool {
	return a.Kind == b.Kind && a.Unit == b.Unit && (a.N == nil || expr.Equal(a.N, b.N))
}

// SameNodes reports whether two lists of expressions are the same.
func SameNodes(a, b []expr.Node) bool { return slices.EqualFunc(a, b, expr.Equal) }

// SameOrders reports whether two orders are the same.
func SameOrders(a, b []Order) bool {
	return slices.EqualFunc(a, b, func(a, b Order) bool { return a.Desc == b.Desc && expr.Equal(a.Expr, b.Expr) })
}

// Shown is a quotient of columns with the digits that it shows: MySQL writes the arguments of
// window functions to a table first.
func Shown(n expr.Node) expr.Node {
	if expr.Exact(n) == n {
		return n
	}
	columns := false
	expr.Cols(n, func(expr.ColID) { columns = true })
	if !columns {
		return n
	}
	return &expr.Cast{Arg: n, T: n.Type(), Explicit: true}
}
