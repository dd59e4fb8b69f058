package algebra

import (
	"strings"

	"github.com/godwitdb/godwit/sql/expr"
)

// Calls reports whether a relation, or a subquery in it, calls a function.
func Calls(r Rel, name string) bool {
	found := false
	var look func(Rel) bool
	look = func(r Rel) bool {
		for _, n := range r.Nodes() {
			expr.Walk(n, func(n expr.Node) bool {
				switch n := n.(type) {
				case *expr.Call:
					found = found || strings.EqualFold(n.Fn.Name, name)
				case *expr.Sub:
					if in, ok := n.Rel.(Rel); ok {
						Walk(in, look)
					}
				}
				return !found
			})
		}
		return !found
	}
	Walk(r, look)
	return found
}
