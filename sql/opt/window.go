package opt

import (
	"math"
	"slices"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/expr"
)

// windowPlan plans window functions. Their rows are sorted, unless those below come in an order
// that begins with the one that is wanted.
func (o *optimizer) windowPlan(w *algebra.Window, need set) *Plan {
	out := *w
	out.Funcs = nil
	for _, f := range w.Funcs {
		if need[f.ID] {
			out.Funcs = append(out.Funcs, f)
		}
	}
	if len(out.Funcs) == 0 {
		return o.physical(w.In, need)
	}
	below := need.clone().addNodes(out.Nodes()...)
	for _, f := range out.Funcs {
		delete(below, f.ID)
	}
	in := o.physical(w.In, below)
	if keys := out.Sorted(); !sortedBy(in, keys) {
		cpu := in.CPU + in.Rows*sortRow
		in = &Plan{Op: OpSort, In: []*Plan{in}, Cols: in.Cols, Keys: keys, Rows: in.Rows, Lat: in.Lat, CPU: cpu}
	}
	p := &Plan{Op: OpWindow, In: []*Plan{in}, Window: &out, Rows: in.Rows, Lat: in.Lat}
	p.CPU = in.CPU + in.Rows*groupRow*float64(1+len(out.Funcs))
	p.Cols = slices.Clone(in.Cols)
	for _, f := range out.Funcs {
		p.Cols = append(p.Cols, f.ID)
	}
	return p
}

// sortedBy reports whether a plan yields its rows in an order that begins with keys.
func sortedBy(p *Plan, keys []algebra.Order) bool {
	if len(keys) == 0 {
		return true
	}
	switch p.Op {
	case OpWindow:
		return sortedBy(p.In[0], keys)
	case OpSort:
		return len(p.Keys) >= len(keys) && slices.EqualFunc(p.Keys[:len(keys)], keys, func(a, b algebra.Order) bool {
			return a.Desc == b.Desc && expr.Equal(a.Expr, b.Expr)
		})
	}
	return false
}

// window makes the operator of window functions.
func (b *builder) window(p *Plan, in exec.Op) (exec.Op, error) {
	w := p.Window
	s := exec.WindowSpec{In: in, Partition: w.Partition, Order: w.Order}
	for i := range w.Funcs {
		f := &w.Funcs[i]
		x := exec.WindowFunc{ID: f.ID, Type: f.Type, Name: f.Func, Agg: f.Agg}
		switch f.Func {
		case "ntile":
			x.N = number(f.Args[0])
		case "lag", "lead":
			x.N, x.Args = number(f.Args[1]), slices.Concat(f.Args[:1], f.Args[2:])
		case "first_value", "last_value":
			x.Args = f.Args
		case "nth_value":
			x.N, x.Args = number(f.Args[1]), f.Args[:1]
		}
		if f.Agg != nil || algebra.Framed(f.Func) {
			var err error
			if x.Frame, err = frameOf(f.Frame, w.Order); err != nil {
				return nil, err
			}
		}
		s.Funcs = append(s.Funcs, x)
	}
	return exec.NewWindow(s), nil
}

// number is the value of a constant that the binder has found to be a whole number.
func number(n expr.Node) int64 {
	if c, ok := n.(*expr.Const); ok && c.V.Kind == expr.Int {
		return c.V.I
	}
	return math.MaxInt64
}

var boundKinds = map[algebra.BoundKind]exec.BoundKind{
	algebra.UnboundedPreceding: exec.UnboundedPreceding, algebra.Preceding: exec.Preceding, algebra.CurrentRow: exec.CurrentRow,
	algebra.Following: exec.Following, algebra.UnboundedFollowing: exec.UnboundedFollowing,
}

func frameOf(f algebra.Frame, order []algebra.Order) (out exec.WindowFrame, err error) {
	out.Rows = f.Rows
	if out.Lo, err = boundOf(f.Lo, f.Rows, order); err == nil {
		out.Hi, err = boundOf(f.Hi, f.Rows, order)
	}
	return out, err
}

// boundOf makes an end of a frame. That of RANGE with a number is a value of the order's key: of
// the row's own, less or more the number.
func boundOf(b algebra.Bound, rows bool, order []algebra.Order) (out exec.WindowBound, err error) {
	out.Kind = boundKinds[b.Kind]
	if b.N == nil {
		return out, nil
	}
	if rows {
		out.N = number(b.N)
		return out, nil
	}
	key := order[0].Expr
	less := (b.Kind == algebra.Preceding) != order[0].Desc
	if b.Unit != "" {
		return temporalBound(out, key, less, b)
	}
	op := "+"
	if less {
		op = "-"
	}
	t := numberType(key.Type(), b.N.Type())
	out.Key = expr.CastTo(key, t)
	if out.Edge, err = call(op, out.Key, expr.CastTo(b.N, t)); err != nil {
		return out, err
	}
	out.Edge = expr.CastTo(out.Edge, t)
	return out, nil
}

// numberType is a type in which keys and a number can be added without an overflow.
func numberType(key, n expr.Type) expr.Type {
	if key.Kind == expr.Float || n.Kind == expr.Float {
		return expr.TypeFloat
	}
	scale := 0
	for _, t := range []expr.Type{key, n} {
		if t.Kind == expr.Decimal {
			scale = max(scale, t.Scale)
		}
	}
	return expr.DecimalType(expr.MaxPrecision, scale)
}

func temporalBound(out exec.WindowBound, key expr.Node, less bool, b algebra.Bound) (exec.WindowBound, error) {
	name := "date_add"
	if less {
		name = "date_sub"
	}
	if t := key.Type(); t.Kind != expr.Date && t.Kind != expr.Duration {
		key = expr.CastTo(key, expr.DatetimeType(6))
	}
	edge, err := call(name, key, b.N, expr.TextConst(b.Unit, expr.TypeJSON.Coll))
	if err != nil {
		return out, err
	}
	if t := key.Type(); t.Kind == expr.Duration && edge.Type().Kind != expr.Duration {
		return out, left("RANGE over a TIME with days")
	}
	out.Key, out.Edge = key, edge
	return out, nil
}
