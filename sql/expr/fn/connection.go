package fn

import (
	"sync"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/expr"
)

// connected are functions by the collation of a connection.
var connected sync.Map

type connection struct {
	f    *expr.Func
	coll sql.CollationID
}

// Connected is expr.NewCall in a connection of a collation: a text that a function makes of what is
// none (HEX, CONV, MD5, MONTHNAME ...) has that collation, with the rank of a literal. A call that
// is derived again keeps it.
func Connected(f *expr.Func, coll sql.CollationID, args ...expr.Node) (expr.Node, error) {
	n, err := expr.NewCall(f, args...)
	if c, ok := n.(*expr.Call); err != nil || !ok || c.Fn != f || !made(c.T) {
		return n, err
	}
	g, ok := connected.Load(connection{f, coll})
	if !ok {
		g, _ = connected.LoadOrStore(connection{f, coll}, connect(f, coll))
	}
	return expr.NewCall(g.(*expr.Func), args...)
}

// made reports whether a text was made of what is none.
func made(t expr.Type) bool { return t.Kind == expr.Text && t.Coercibility == expr.CoerceNumeric }

func connect(f *expr.Func, coll sql.CollationID) *expr.Func {
	g := *f
	g.Derive = func(c *expr.Call) error {
		err := f.Derive(c)
		if made(c.T) {
			t := expr.TextType(c.T.Length, coll, expr.CoerceLiteral)
			t.NotNull = c.T.NotNull
			c.T = t
		}
		return err
	}
	return &g
}
