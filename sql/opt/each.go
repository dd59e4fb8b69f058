package opt

import (
	"slices"

	"github.com/godwitdb/godwit/sql/expr"
)

// exact are the kinds of values whose keys tell them apart, and nothing else.
var exact = []expr.Kind{expr.Int, expr.Uint, expr.Date}

// anyMatches reports whether each row that a look-up finds by a key is a match, so that one of them
// is enough where only that there is one matters. That holds if all conditions are those of the
// key, over whole numbers or dates: ranges of an index are exact for these.
func (p *Plan) anyMatches() bool {
	for i, l := range p.LeftKeys {
		t, r := l.Type(), p.RightKeys[i].Type()
		if t.Kind != r.Kind || !slices.Contains(exact, t.Kind) {
			return false
		}
	}
	return !slices.ContainsFunc(p.Conds, func(c expr.Node) bool {
		eq, ok := c.(*expr.Call)
		return !ok || eq.Fn.Name != "=" || !slices.ContainsFunc(p.LeftKeys, func(l expr.Node) bool {
			r := p.RightKeys[slices.Index(p.LeftKeys, l)]
			return sameColumn(eq.Args[0], l) && sameColumn(eq.Args[1], r) || sameColumn(eq.Args[1], l) && sameColumn(eq.Args[0], r)
		})
	})
}

func sameColumn(a, b expr.Node) bool {
	x, ok := a.(*expr.Col)
	y, ok2 := b.(*expr.Col)
	return ok && ok2 && x.ID == y.ID
}
