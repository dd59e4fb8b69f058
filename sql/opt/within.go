package opt

import (
	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/expr"
)

// parted is a table whose rows lie in placements by a column, at a position; nil: it is none.
func parted(s *algebra.Scan) (t algebra.Parted, col int) {
	if t, ok := s.Table.(algebra.Parted); ok {
		if col = t.PartColumn(); col >= 0 {
			return t, col
		}
	}
	return nil, -1
}

// within are the values that conditions leave of the column by which a table's rows have their
// placements; nil: all. Other placements are not read.
func (o *optimizer) within(s *algebra.Scan, conds []expr.Node) []span {
	t, col := parted(s)
	if t == nil {
		return nil
	}
	spans, _, used := o.spans(s, algebra.Index{Cols: []algebra.IndexCol{{Col: col}}}, conds, 1)
	if used == 0 || spans[0].Begins {
		return nil
	}
	return spans
}

// Partitions are the placements that a scan reads, by name, as far as that is known before it runs;
// nil: all rows of the table have one.
func (p *Plan) Partitions() []string {
	t, _ := parted(p.Scan)
	if t == nil {
		return nil
	}
	var spans [][2][]expr.Value
	for _, s := range p.Within {
		var b [2][]expr.Value
		for i, list := range [2][]expr.Node{s.Lo, s.Hi} {
			for _, n := range list {
				c, ok := n.(*expr.Const)
				if !ok {
					return t.PartNames(nil)
				}
				b[i] = append(b[i], c.V)
			}
		}
		spans = append(spans, b)
	}
	return t.PartNames(spans)
}
