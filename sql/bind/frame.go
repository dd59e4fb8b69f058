package bind

import (
	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/expr"
)

// winName is the name of a window in errors.
func winName(s *ast.WindowSpec) string {
	if s.Name.O == "" {
		return "<unnamed window>"
	}
	return s.Name.O
}

// named notes the windows of the clause WINDOW.
func (q *query) named(specs []ast.WindowSpec) error {
	for i := range specs {
		w := &specs[i]
		if q.specs[w.Name.L] != nil {
			return refuse(3591, "HY000", "Window '%s' is defined twice.", w.Name.O)
		}
		q.specs[w.Name.L] = w
	}
	return nil
}

// unused binds the windows of the clause WINDOW for their errors: nobody may use them.
func (q *query) unused(specs []ast.WindowSpec) error {
	x := &exprs{q: q, s: q.scope, clause: "field list", agg: true, win: true}
	for i := range specs {
		s, err := q.resolve(&specs[i], nil)
		if err != nil {
			return err
		}
		if err := x.windowOver(&window{}, s); err != nil {
			return err
		}
	}
	return nil
}

// resolve is a window with what it takes from the one that it names.
func (q *query) resolve(s *ast.WindowSpec, from []string) (*ast.WindowSpec, error) {
	ref := s.Ref
	if s.OnlyAlias {
		ref = s.Name
	}
	if ref.O == "" {
		return s, nil
	}
	base := q.specs[ref.L]
	if base == nil {
		return nil, refuse(3579, "HY000", "Window name '%s' is not defined.", ref.O)
	}
	for _, name := range from {
		if name == ref.L {
			return nil, refuse(3580, "HY000", "There is a circularity in the window dependency graph.")
		}
	}
	b, err := q.resolve(base, append(from, ref.L))
	if err != nil || s.OnlyAlias {
		return b, err
	}
	switch {
	case s.PartitionBy != nil:
		return nil, refuse(3581, "HY000", "A window which depends on another cannot define partitioning.")
	case b.Frame != nil:
		return nil, refuse(3582, "HY000", "Window '%s' has a frame definition, "+
			"so cannot be referenced by another window.", winName(b))
	case b.OrderBy != nil && s.OrderBy != nil:
		return nil, refuse(3583, "HY000", "Window '%s' cannot inherit '%s' since both contain an ORDER BY clause.",
			winName(s), winName(base))
	}
	out := *s
	out.PartitionBy = b.PartitionBy
	if b.OrderBy != nil {
		out.OrderBy = b.OrderBy
	}
	return &out, nil
}

// windowOver binds partition, order and frame.
func (x *exprs) windowOver(w *window, s *ast.WindowSpec) error {
	in := &exprs{q: x.q, s: x.s, clause: "window partition by", agg: x.agg, spec: winName(s)}
	if s.PartitionBy != nil {
		for _, it := range s.PartitionBy.Items {
			k, err := in.windowKey(it.Expr)
			if err != nil {
				return err
			}
			w.partition = append(w.partition, k)
		}
	}
	in.clause = "window order by"
	if s.OrderBy != nil {
		for _, it := range s.OrderBy.Items {
			k, err := in.windowKey(it.Expr)
			if err != nil {
				return err
			}
			w.order = append(w.order, algebra.Order{Expr: k, Desc: it.Desc})
		}
	}
	var err error
	w.f.Frame, err = in.frame(s.Frame, w.order)
	return err
}

func (x *exprs) windowKey(n ast.ExprNode) (expr.Node, error) {
	if _, ok := n.(*ast.PositionExpr); ok {
		return nil, refuse(3592, "HY000", "Window '%s': ORDER BY or PARTITION BY uses legacy position indication "+
			"which is not supported, use expression.", x.spec)
	}
	e, err := x.scalar(n)
	if err == nil && expr.Volatile(e) {
		return nil, unsupported("window ordered by what changes")
	}
	return e, err
}

// frame binds a frame. Without one it is the whole partition, or, if there is an order, what is up
// to the last row that is equal in it.
func (x *exprs) frame(n *ast.FrameClause, order []algebra.Order) (f algebra.Frame, err error) {
	f.Hi.Kind = algebra.UnboundedFollowing
	if n == nil {
		if len(order) > 0 {
			f.Hi.Kind = algebra.CurrentRow
		}
		return f, nil
	}
	switch n.Type {
	case ast.Groups:
		return f, refuse(1235, "42000", noYet, "GROUPS")
	case ast.Rows:
		f.Rows = true
	}
	lo, hi := &n.Extent.Start, &n.Extent.End
	f.Lo.Kind, f.Hi.Kind = boundKind(lo), boundKind(hi)
	switch {
	case f.Lo.Kind == algebra.UnboundedFollowing:
		return f, refuse(3584, "HY000", "Window '%s': frame start cannot be UNBOUNDED FOLLOWING.", x.spec)
	case f.Hi.Kind == algebra.UnboundedPreceding:
		return f, refuse(3585, "HY000", "Window '%s': frame end cannot be UNBOUNDED PRECEDING.", x.spec)
	case f.Lo.Kind > f.Hi.Kind:
		return f, x.badFrame()
	}
	if err = x.bound(&f.Lo, f.Rows, lo, order); err == nil {
		err = x.bound(&f.Hi, f.Rows, hi, order)
	}
	return f, err
}

func (x *exprs) badFrame() error {
	return refuse(3586, "HY000", "Window '%s': frame start or end is negative, NULL or of non-integral type", x.spec)
}

func boundKind(b *ast.FrameBound) algebra.BoundKind {
	switch {
	case b.Type == ast.CurrentRow:
		return algebra.CurrentRow
	case b.Type == ast.Preceding && b.UnBounded:
		return algebra.UnboundedPreceding
	case b.Type == ast.Preceding:
		return algebra.Preceding
	case b.UnBounded:
		return algebra.UnboundedFollowing
	}
	return algebra.Following
}

// bound binds the number or interval of an end of a frame.
func (x *exprs) bound(b *algebra.Bound, rows bool, n *ast.FrameBound, order []algebra.Order) error {
	if n.Expr == nil {
		return nil
	}
	interval := n.Unit != ast.TimeUnitInvalid
	if rows && interval {
		return refuse(3596, "HY000", "Window '%s': INTERVAL can only be used with RANGE frames.", x.spec)
	}
	if !rows {
		if err := x.rangeOrder(order, interval); err != nil {
			return err
		}
	}
	var err error
	if b.N, err = x.scalar(n.Expr); err != nil {
		return err
	}
	if interval {
		b.Unit = fold(n.Unit.String())
	}
	v, err := constant(b.N)
	switch {
	case err != nil:
		return refuse(3590, "HY000", "Window '%s' has a non-constant frame bound.", x.spec)
	case v.IsNull() || below0(v) || rows && v.Kind != expr.Int:
		return x.badFrame()
	}
	b.N = expr.ConstOf(v, b.N.Type())
	return nil
}

// constant is the value of an expression without columns.
func constant(n expr.Node) (expr.Value, error) {
	if c, ok := n.(*expr.Const); ok {
		return c.V, nil
	}
	return expr.EvalConst(n, &expr.Env{})
}

// below0 reports whether a number, or the text of an interval, has a minus.
func below0(v expr.Value) bool {
	switch v.Kind {
	case expr.Int:
		return v.I < 0
	case expr.Float:
		return v.F < 0
	case expr.Decimal:
		return v.D.Negative && !v.D.IsZero()
	case expr.Text, expr.Bytes:
		for _, c := range v.S {
			if c != ' ' {
				return c == '-'
			}
		}
	}
	return false
}

// rangeOrder checks that a window has the order that RANGE with a number or an interval needs.
func (x *exprs) rangeOrder(order []algebra.Order, interval bool) error {
	if len(order) == 1 {
		switch t := order[0].Expr.Type(); {
		case t.Temporal() && interval, t.Numeric() && !interval:
			return nil
		case t.Temporal():
			return refuse(3588, "HY000", "Window '%s' with RANGE frame has ORDER BY expression of datetime type. "+
				"Only INTERVAL bound value allowed.", x.spec)
		case t.Numeric():
			return refuse(3589, "HY000", "Window '%s' with RANGE frame has ORDER BY expression of numeric type, "+
				"INTERVAL bound value not allowed.", x.spec)
		}
	}
	return refuse(3587, "HY000", "Window '%s' with RANGE N PRECEDING/FOLLOWING frame requires exactly one ORDER BY "+
		"expression, of numeric or temporal type", x.spec)
}
