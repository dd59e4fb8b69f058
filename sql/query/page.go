package query

import (
	"math"

	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/expr"
)

// page is LIMIT of a statement with SQL_CALC_FOUND_ROWS: the rows to be sent of all that there are.
type page struct {
	from, to uint64
	all      uint64 // rows so far
}

func pageOf(q *bind.Query) *page {
	if q.Page == nil {
		return nil
	}
	number := func(n expr.Node, usual uint64) uint64 {
		if c, ok := n.(*expr.Const); ok {
			return uint64(c.V.I)
		}
		return usual
	}
	p := &page{from: number(q.Page.Offset, 0), to: math.MaxUint64}
	if n := number(q.Page.Count, math.MaxUint64); n <= math.MaxUint64-p.from {
		p.to = p.from + n
	}
	return p
}

// of hands the rows of the page on, and counts all.
func (p *page) of(take func(*expr.Batch) error) func(*expr.Batch) error {
	return func(b *expr.Batch) error {
		whole := b.Sel
		n := uint64(len(whole))
		lo := min(max(p.from, p.all), p.all+n) - p.all
		hi := min(max(p.to, p.all), p.all+n) - p.all
		p.all += n
		if lo >= hi {
			return nil
		}
		b.Sel = whole[lo:hi]
		defer func() { b.Sel = whole }()
		return take(b)
	}
}
