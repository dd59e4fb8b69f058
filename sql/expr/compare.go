package expr

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/apd/v3"

	"github.com/godwitdb/godwit/sql/expr/collate"
	"github.com/godwitdb/godwit/sql/expr/jsondoc"
)

// Utc is the zone of TIMESTAMPs.
var Utc = time.UTC

func collator(t Type) *collate.Collator {
	return collate.Of(t.Coll)
}

// notNull appends the rows of sel whose value is not NULL to out; without NULLs it is sel itself.
func notNull(v *Vec, sel, out []int32) []int32 {
	if v.Null == nil {
		return sel
	}
	if out == nil {
		out = make([]int32, 0, len(sel))
	}
	for _, i := range sel {
		if !v.Null[i] {
			out = append(out, i)
		}
	}
	return out
}

// cmpOp is a comparison.
type cmpOp uint8

const (
	opEq cmpOp = iota
	opNe
	opLt
	opLe
	opGt
	opGe
)

var (
	negated = [...]cmpOp{opNe, opEq, opGe, opGt, opLe, opLt}
	swapped = [...]cmpOp{opEq, opNe, opGt, opGe, opLt, opLe}
	cmpOps  = map[string]cmpOp{"=": opEq, "<>": opNe, "<": opLt, "<=": opLe, ">": opGt, ">=": opGe}
)

func (o cmpOp) holds(c int) bool {
	switch o {
	case opEq:
		return c == 0
	case opNe:
		return c != 0
	case opLt:
		return c < 0
	case opLe:
		return c <= 0
	case opGt:
		return c > 0
	}
	return c >= 0
}

// Comparer compares values of one type at positions of two vectors; neither is NULL.
type Comparer func(x *Vec, i int32, y *Vec, j int32) int

// NewComparer makes the comparison of values of a type: numbers by value, strings by the type's
// collation, documents by MySQL's order.
func NewComparer(t Type) Comparer {
	switch t.Kind {
	case Uint, Bit, Set:
		return func(x *Vec, i int32, y *Vec, j int32) int { return cmp.Compare(uint64(x.I[i]), uint64(y.I[j])) }
	case Float:
		return func(x *Vec, i int32, y *Vec, j int32) int { return cmp.Compare(x.F[i], y.F[j]) }
	case Decimal:
		return compareDecimals
	case Text, Bytes:
		c := collator(t)
		return func(x *Vec, i int32, y *Vec, j int32) int { return c.Compare(x.S[i], y.S[j]) }
	case JSON:
		return compareJSON
	case Opaque, Null:
		return func(*Vec, int32, *Vec, int32) int { return 0 }
	}
	return func(x *Vec, i int32, y *Vec, j int32) int { return cmp.Compare(x.I[i], y.I[j]) }
}

func compareDecimals(x *Vec, i int32, y *Vec, j int32) int {
	if x.D == nil && y.D == nil {
		return cmp.Compare(x.I[i], y.I[j])
	}
	var a, b apd.Decimal
	return x.Dec(i, &a).Cmp(y.Dec(j, &b))
}

func compareJSON(x *Vec, i int32, y *Vec, j int32) int {
	a, err := jsondoc.Read(x.S[i])
	b, err2 := jsondoc.Read(y.S[j])
	if err != nil || err2 != nil {
		return strings.Compare(x.S[i], y.S[j])
	}
	return jsondoc.Compare(a, b)
}

// compare is a comparison as a condition and as a value.
type compare struct {
	op   cmpOp
	l, r Expr
	k    *Value // r, if it is constant
	t    Type   // of both sides
	cmp  Comparer
	coll *collate.Collator
	bufs [3][]int32
	v    Vec
	res  Type
}

func (k *Compiler) compare(op cmpOp, n *Call) (*compare, error) {
	l, err := k.Expr(n.Args[0])
	if err != nil {
		return nil, err
	}
	r, err := k.Expr(n.Args[1])
	if err != nil {
		return nil, err
	}
	if _, ok := ConstantOf(l); ok {
		l, r, op = r, l, swapped[op]
	}
	c := &compare{op: op, l: l, r: r, t: n.Cmp, cmp: NewComparer(n.Cmp), res: n.T}
	if v, ok := ConstantOf(r); ok {
		c.k = &v
	}
	if c.t.Stringy() {
		c.coll = collator(c.t)
	}
	return c, nil
}

type ordered interface{ ~int64 | ~uint64 | ~float64 }

func cmpConst[T ordered](op cmpOp, x []T, k T, sel, out []int32) []int32 {
	switch op {
	case opEq:
		for _, i := range sel {
			if x[i] == k {
				out = append(out, i)
			}
		}
	case opNe:
		for _, i := range sel {
			if x[i] != k {
				out = append(out, i)
			}
		}
	case opLt:
		for _, i := range sel {
			if x[i] < k {
				out = append(out, i)
			}
		}
	case opLe:
		for _, i := range sel {
			if x[i] <= k {
				out = append(out, i)
			}
		}
	case opGt:
		for _, i := range sel {
			if x[i] > k {
				out = append(out, i)
			}
		}
	case opGe:
		for _, i := range sel {
			if x[i] >= k {
				out = append(out, i)
			}
		}
	}
	return out
}

func cmpVecs[T ordered](op cmpOp, x, y []T, sel, out []int32) []int32 {
	switch op {
	case opEq:
		for _, i := range sel {
			if x[i] == y[i] {
				out = append(out, i)
			}
		}
	case opNe:
		for _, i := range sel {
			if x[i] != y[i] {
				out = append(out, i)
			}
		}
	case opLt:
		for _, i := range sel {
			if x[i] < y[i] {
				out = append(out, i)
			}
		}
	case opLe:
		for _, i := range sel {
			if x[i] <= y[i] {
				out = append(out, i)
			}
		}
	case opGt:
		for _, i := range sel {
			if x[i] > y[i] {
				out = append(out, i)
			}
		}
	case opGe:
		for _, i := range sel {
			if x[i] >= y[i] {
				out = append(out, i)
			}
		}
	}
	return out
}

// SignedForm reports whether values of the type compare like the int64s that hold them.
func SignedForm(t Type) bool {
	return t.Kind.Form() == FormI && t.Kind != Uint && t.Kind != Bit && t.Kind != Set
}

// Filter implements Pred.
func (c *compare) Filter(b *Batch, sel []int32, want bool) ([]int32, error) {
	op := c.op
	if !want {
		op = negated[op]
	}
	x, err := c.l.Eval(b, sel)
	if err != nil {
		return nil, err
	}
	if c.k != nil && c.k.IsNull() {
		return nil, nil
	}
	sel = c.dropNulls(0, x, sel)
	if len(sel) == 0 {
		return nil, nil
	}
	out := sized(c.bufs[2], len(sel))[:0]
	defer func() { c.bufs[2] = out }()
	if c.k != nil && c.k.Kind == c.t.Kind && x.D == nil {
		switch {
		case SignedForm(c.t) && c.t.Kind != Decimal:
			out = cmpConst(op, x.I, c.k.I, sel, out)
			return out, nil
		case c.t.Kind == Decimal:
			if k, ok := c.smallConst(); ok {
				out = cmpConst(op, x.I, k, sel, out)
				return out, nil
			}
		case c.t.Kind == Float:
			out = cmpConst(op, x.F, c.k.F, sel, out)
			return out, nil
		case c.coll != nil:
			out = cmpText(op, c.coll, x.S, c.k.S, sel, out)
			return out, nil
		}
	}
	y, err := c.r.Eval(b, sel)
	if err != nil {
		return nil, err
	}
	out = c.pairs(op, x, y, c.dropNulls(1, y, sel), out)
	return out, nil
}

func (c *compare) dropNulls(buf int, x *Vec, sel []int32) []int32 {
	if x.Null == nil {
		return sel
	}
	c.bufs[buf] = notNull(x, sel, sized(c.bufs[buf], len(sel))[:0])
	return c.bufs[buf]
}

func (c *compare) smallConst() (int64, bool) {
	if c.k.D == nil || c.k.D.Exponent != int32(-c.t.Scale) {
		return 0, false
	}
	return unscaled(c.k.D)
}

func cmpText(op cmpOp, coll *collate.Collator, x []string, k string, sel, out []int32) []int32 {
	if op == opEq && coll.Binary && !coll.Pad {
		for _, i := range sel {
			if x[i] == k {
				out = append(out, i)
			}
		}
		return out
	}
	for _, i := range sel {
		if op.holds(coll.Compare(x[i], k)) {
			out = append(out, i)
		}
	}
	return out
}

// pairs compares the values of two vectors.
func (c *compare) pairs(op cmpOp, x, y *Vec, sel, out []int32) []int32 {
	switch {
	case x.D == nil && y.D == nil && SignedForm(c.t):
		return cmpVecs(op, x.I, y.I, sel, out)
	case c.t.Kind == Float:
		return cmpVecs(op, x.F, y.F, sel, out)
	}
	for _, i := range sel {
		if op.holds(c.cmp(x, i, y, i)) {
			out = append(out, i)
		}
	}
	return out
}

// Type implements Expr.
func (c *compare) Type() Type { return c.res }

// Eval implements Expr.
func (c *compare) Eval(b *Batch, sel []int32) (*Vec, error) {
	x, err := c.l.Eval(b, sel)
	if err != nil {
		return nil, err
	}
	y, err := c.r.Eval(b, sel)
	if err != nil {
		return nil, err
	}
	c.v.Reset(c.res, b.N)
	for _, i := range sel {
		c.v.I[i] = 0
		if x.IsNull(i) || y.IsNull(i) {
			c.v.SetNull(int(i))
			continue
		}
		if c.op.holds(c.cmp(x, i, y, i)) {
			c.v.I[i] = 1
		}
	}
	return &c.v, nil
}

// nullSafe is <=>.
type nullSafe struct {
	l, r Expr
	cmp  Comparer
	t    Type
	v    Vec
}

// Type implements Expr.
func (c *nullSafe) Type() Type { return c.t }

// Eval implements Expr.
func (c *nullSafe) Eval(b *Batch, sel []int32) (*Vec, error) {
	x, err := c.l.Eval(b, sel)
	if err != nil {
		return nil, err
	}
	y, err := c.r.Eval(b, sel)
	if err != nil {
		return nil, err
	}
	c.v.Reset(c.t, b.N)
	for _, i := range sel {
		p, q := x.IsNull(i), y.IsNull(i)
		c.v.I[i] = 0
		if p && q || !p && !q && c.cmp(x, i, y, i) == 0 {
			c.v.I[i] = 1
		}
	}
	return &c.v, nil
}

func deriveCompare(c *Call) error {
	c.Args[0], c.Args[1] = Exact(c.Args[0]), Exact(c.Args[1])
	c.Args[0], c.Args[1] = yearConst(c.Args[0], c.Args[1]), yearConst(c.Args[1], c.Args[0])
	t, err := compareType(c.Fn.Name, c.Args[0], c.Args[1])
	if err != nil {
		return err
	}
	c.Cmp = t
	c.T = TypeBool
	c.T.NotNull = c.Fn.Name == "<=>" || c.Args[0].Type().NotNull && c.Args[1].Type().NotNull
	for i, a := range c.Args {
		c.Args[i] = CastTo(a, t)
		if !c.Args[i].Type().NotNull && c.Fn.Name != "<=>" {
			c.T.NotNull = false
		}
	}
	return nil
}

// yearConst is n, or the year that it stands for: a constant of two digits that is compared with a
// column of type YEAR is converted as if it was stored there.
func yearConst(n, other Node) Node {
	c, ok := n.(*Const)
	col, ok2 := other.(*Col)
	if !ok || !ok2 || col.T.Kind != Year {
		return n
	}
	y := int64(-1)
	switch c.V.Kind {
	case Int, Uint:
		if y = c.V.I; y == 0 {
			return n
		}
	case Text:
		if len(c.V.S) > 2 || !wholeNumber(c.V.S) {
			return n
		}
		y, _ = strconv.ParseInt(c.V.S, 10, 64)
	}
	switch {
	case y < 0 || y > 99:
		return n
	case y < 70:
		return IntConst(2000 + y)
	}
	return IntConst(1900 + y)
}

func comparison(name string) *Func {
	op := cmpOps[name]
	return &Func{
		Name: name, Min: 2, Max: 2, Derive: deriveCompare,
		Eval: func(c *Call, k *Compiler) (Expr, error) { return k.compare(op, c) },
		pred: func(c *Call, k *Compiler) (Pred, error) { return k.compare(op, c) },
	}
}

func init() {
	for name := range cmpOps {
		Register(comparison(name))
	}
	funcs["!="] = funcs["<>"]
	Register(&Func{
		Name: "<=>", Min: 2, Max: 2, Derive: deriveCompare,
		Eval: func(c *Call, k *Compiler) (Expr, error) {
			l, err := k.Expr(c.Args[0])
			if err != nil {
				return nil, err
			}
			r, err := k.Expr(c.Args[1])
			return &nullSafe{l: l, r: r, cmp: NewComparer(c.Cmp), t: c.T}, err
		},
	})
}
