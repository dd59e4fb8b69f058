package opt

import (
	"math"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/expr"
)

// learn notes the statistics of the columns of a table.
func (o *optimizer) learn(s *algebra.Scan) {
	rows := tableRows(s.Table)
	for i, c := range s.Table.Columns() {
		d := s.Table.Distinct(i) * rows / max(1, min(s.Table.Rows(), rows))
		if d <= 0 {
			d = max(1, rows/10)
			if c.Type.Kind == expr.Enum {
				d = float64(len(c.Type.Values))
			}
			for _, x := range s.Table.Indexes() {
				if (x.Unique || x.Primary) && len(x.Cols) == 1 && x.Cols[0].Col == i {
					d = rows
				}
			}
		}
		o.ndv[s.IDs[i]] = min(d, rows)
	}
}

// distinct estimates the distinct values of an expression among rows.
func (o *optimizer) distinct(n expr.Node, rows float64) float64 {
	switch n := n.(type) {
	case *expr.Col:
		if d, ok := o.ndv[n.ID]; ok {
			return max(1, min(d, rows))
		}
	case *expr.Cast:
		return o.distinct(n.Arg, rows)
	case *expr.Const, *expr.Param:
		return 1
	}
	return max(1, rows/10)
}

// selectivity estimates the share of rows for which a condition is TRUE.
func (o *optimizer) selectivity(n expr.Node, rows float64) float64 {
	switch n := n.(type) {
	case *expr.Const:
		if n.V.IsNull() || n.V.Kind == expr.Int && n.V.I == 0 {
			return 0
		}
		return 1
	case *expr.In:
		f := min(1, float64(len(n.List))/o.distinct(n.Left, rows))
		if n.Not {
			return 1 - f
		}
		return f
	case *expr.Call:
		return o.callSelectivity(n, rows)
	}
	return 0.33
}

func (o *optimizer) callSelectivity(n *expr.Call, rows float64) float64 {
	switch n.Fn.Name {
	case "=", "<=>":
		return 1 / max(o.distinct(n.Args[0], rows), o.distinct(n.Args[1], rows))
	case "<>":
		return 1 - 1/o.distinct(n.Args[0], rows)
	case "<", "<=", ">", ">=":
		return 0.3
	case "between":
		return 0.15
	case "and":
		return o.selectivity(n.Args[0], rows) * o.selectivity(n.Args[1], rows)
	case "or":
		a, b := o.selectivity(n.Args[0], rows), o.selectivity(n.Args[1], rows)
		return min(1, a+b-a*b)
	case "not":
		return 1 - o.selectivity(n.Args[0], rows)
	case "like":
		return 0.1
	case "isnull":
		return 0.05
	}
	return 0.33
}

// filtered estimates the rows that conditions leave.
func (o *optimizer) filtered(rows float64, conds []expr.Node) float64 {
	f := 1.0
	for i, c := range conds {
		s := o.selectivity(c, rows)
		if i > 0 {
			s = math.Sqrt(s) // conditions are seldom independent
		}
		f *= s
	}
	return max(rows*f, min(rows, 0.1))
}

// joinRows estimates the rows of an inner join.
func (o *optimizer) joinRows(a, b float64, conds []expr.Node) float64 {
	rows := a * b
	for _, c := range conds {
		if eq, ok := isCall(c, "="); ok {
			rows /= max(o.distinct(eq.Args[0], max(a, b)), o.distinct(eq.Args[1], max(a, b)))
			continue
		}
		rows *= o.selectivity(c, max(a, b))
	}
	return max(rows, 0.1)
}

// groups estimates the number of groups.
func (o *optimizer) groups(rows float64, keys []algebra.Item) float64 {
	g := 1.0
	for _, k := range keys {
		g *= o.distinct(k.Node, rows)
	}
	return max(1, min(g, rows))
}
