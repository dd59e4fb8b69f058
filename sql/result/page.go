package result

import (
	"math"

	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/expr"
)

// Page is LIMIT of a statement with SQL_CALC_FOUND_ROWS: the rows to be sent of all that there are.
type Page struct {
	from, to uint64
	All      uint64 // rows so far
}

// PageOf is that of a query; nil: it has none.
func PageOf(q *bind.Query) *Page {
	if q.Page == nil {
		return nil
	}
	number := func(n expr.Node, usual uint64) uint64 {
		if c, ok := n.(*expr.Const); ok {
			return uint64(c.V.I)
		}
		return usual
	}
	p := &Page{from: number(q.Page.Offset, 0), to: math.MaxUint64}
	if n := number(q.Page.Count, math.MaxUint64); n <= math.MaxUint64-p.from {
		p.to = p.from + n
	}
	return p
}

// Of hands the rows of the page on, and counts all.
func (p *Page) Of(take func(*expr.Batch) error) func(*expr.Batch) error {
	return func(b *expr.Batch) error {
		whole := b.Sel
		n := uint64(len(whole))
		lo := min(max(p.from, p.All), p.All+n) - p.All
		hi := min(max(p.to, p.All), p.All+n) - p.All
		p.All += n
		if lo >= hi {
			return nil
		}
		b.Sel = whole[lo:hi]
		defer func() { b.Sel = whole }()
		return take(b)
	}
}
