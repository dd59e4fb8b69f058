package algebra

import "github.com/godwitdb/godwit/sql/expr"

// CommonType is the type of a column of a set operation, of those of both sides. An ENUM or a SET
// beside NULL stays one, and so sorts by its number, as a column of the table does; beside anything
// else it is text. Errors: 1267 and 1271 for collations that do not mix.
func CommonType(a, b expr.Type) (expr.Type, error) {
	if a.Kind == expr.Null {
		a, b = b, a
	}
	if b.Kind == expr.Null && (a.Kind == expr.Enum || a.Kind == expr.Set) {
		return a.AsNull(), nil
	}
	return expr.Merge("union", &expr.Col{T: a}, &expr.Col{T: b})
}
