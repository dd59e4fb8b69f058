package algebra

import "github.com/godwitdb/godwit/sql/expr"

// Counted are the arguments of an aggregate. COUNT(DISTINCT) with a NULL among them counts nothing,
// and does not compute the others, as in MySQL.
func Counted(f *expr.AggFunc, args []expr.Node, distinct bool) []expr.Node {
	if !distinct || f.Name != "count" {
		return args
	}
	for _, n := range args {
		if c, ok := n.(*expr.Const); ok && c.V.IsNull() {
			return []expr.Node{n}
		}
	}
	return args
}
