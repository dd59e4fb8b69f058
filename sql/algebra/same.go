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
