package expr

import (
	"math"
	"math/bits"

	"github.com/cockroachdb/apd/v3"
)

// Exact is a quotient with all the digits that MySQL computes, instead of those it shows.
func Exact(n Node) Node {
	if c, ok := n.(*Cast); ok && c.Round {
		return c.Arg
	}
	return n
}

// roundQuotient makes what is shown of a quotient.
func roundQuotient(n Node, scale int) Node {
	t := n.Type()
	if t.Kind != Decimal || t.Scale == scale {
		return n
	}
	u := DecimalType(t.Precision-t.Scale+scale, scale)
	u.NotNull = t.NotNull
	return &Cast{Arg: n, T: u, Round: true}
}

// Number is the type that an operand has in arithmetic.
func Number(n Node) Type {
	t := n.Type()
	switch t.Kind {
	case Int, Uint, Decimal:
		return t
	case Float:
		return TypeFloat
	case Year, Bit:
		u := TypeUint
		u.Length = t.AsDecimal().Precision
		return u
	case Date:
		u := TypeInt
		u.Length = 8
		return u
	case Datetime, Timestamp, Duration:
		if t.Scale > 0 {
			return t.AsDecimal()
		}
		u := TypeInt
		u.Length = t.AsDecimal().Precision
		return u
	}
	if hexNumber(n) {
		return TypeUint
	}
	return TypeFloat
}

// integers reports whether both operands are whole numbers, and the result is unsigned.
func integers(a, b Type) (both, unsigned bool) {
	return a.Integer() && b.Integer(), a.Unsigned() || b.Unsigned()
}

// deriveArith derives + - * / and %. A quotient shows so many places more than its dividend.
func deriveArith(c *Call, places int) error {
	op := c.Fn.Name
	a, b := Number(c.Args[0]), Number(c.Args[1])
	x, y := Number(Exact(c.Args[0])), Number(Exact(c.Args[1]))
	notNull := c.Args[0].Type().NotNull && c.Args[1].Type().NotNull
	for i := range c.Args {
		c.Args[i] = Exact(c.Args[i])
	}
	both, unsigned := integers(a, b)
	if op == "%" {
		unsigned = a.Unsigned() // the rest has the sign of the dividend
	}
	switch {
	case a.Kind == Float || b.Kind == Float:
		c.T, c.Cmp = TypeFloat, TypeFloat
	case both && op != "/":
		c.T = TypeInt
		if unsigned {
			c.T = TypeUint
		}
		if n := intResultDigits(op, a, b); n > 0 && n < 19 {
			c.T.Length = n
		}
		c.Cmp = c.T
	default:
		p, q := a.AsDecimal(), b.AsDecimal()
		u, w := x.AsDecimal(), y.AsDecimal()
		c.T = decimalResult(op, u, w, places)
		c.Cmp = decimalResult(op, p, q, places) // its scale is what is shown
	}
	c.T.NotNull = notNull && op != "/" && op != "%"
	c.castOperands(x, y)
	return nil
}

// castOperands brings the operands to the kinds that the operator computes with.
func (c *Call) castOperands(x, y Type) {
	for i, t := range []Type{x, y} {
		switch {
		case c.T.Kind == Float:
			t = TypeFloat
		case c.T.Kind != Decimal:
		case c.Fn.Name == "+" || c.Fn.Name == "-" || c.Fn.Name == "%":
			t = DecimalType(MaxPrecision, max(x.AsDecimal().Scale, y.AsDecimal().Scale))
		default:
			t = t.AsDecimal()
		}
		c.Args[i] = CastTo(c.Args[i], t)
	}
}

func intResultDigits(op string, a, b Type) int {
	if a.Length == 0 || b.Length == 0 {
		return 0
	}
	switch op {
	case "+", "-":
		return max(a.Length, b.Length) + 1
	case "*":
		return a.Length + b.Length
	}
	return max(a.Length, b.Length)
}

func decimalResult(op string, p, q Type, places int) Type {
	switch op {
	case "*":
		return DecimalType(p.Precision+q.Precision, p.Scale+q.Scale)
	case "/":
		scale := min(p.Scale+places, MaxScale)
		return DecimalType(p.Precision+q.Scale+places, scale)
	case "%":
		scale := max(p.Scale, q.Scale)
		return DecimalType(max(p.Precision-p.Scale, q.Precision-q.Scale)+scale, scale)
	}
	scale := max(p.Scale, q.Scale)
	return DecimalType(max(p.Precision-p.Scale, q.Precision-q.Scale)+1+scale, scale)
}

// DefaultDivScale is div_precision_increment's default.
const DefaultDivScale = 4

// QuotientScale is how many digits behind the point MySQL computes of a quotient of numbers with so
// many of them, a and b: its DECIMALs have groups of nine digits, and a quotient has full groups.
func QuotientScale(a, b, places int) int {
	group := func(n int) int { return (n + 8) / 9 * 9 }
	f0, f1 := group(a), group(b)
	more := max(places-(f0-a+f1-b), 0)
	return min(group(f0+f1+more), maxInner)
}

// maxInner bounds the digits of intermediate results.
const maxInner = 72

func deriveDiv(c *Call, places int) error {
	if err := deriveArith(c, places); err != nil {
		return err
	}
	if c.T.Kind == Decimal {
		p, q := c.Args[0].Type(), c.Args[1].Type()
		scale := QuotientScale(p.Scale, q.Scale, places)
		digits := p.Precision - p.Scale + q.Scale + scale
		c.T = Type{Kind: Decimal, Precision: digits, Scale: scale, Coll: c.T.Coll, Coercibility: CoerceNumeric}
	}
	return nil
}

// arith is one of + - * / and % over a kind of numbers.
type arith struct {
	l, r Expr
	t    Type
	c    *Call
	env  *Env
	ints func(a *arith, x, y *Vec, sel []int32) bool // false: some value needs the slow way
	flts func(a *arith, x, y *Vec, sel []int32) error
	slow func(a *arith, x, y *Vec, i int32) error
	v    Vec
	live []int32
}

// Type implements Expr.
func (a *arith) Type() Type { return a.t }

// Eval implements Expr.
func (a *arith) Eval(b *Batch, sel []int32) (*Vec, error) {
	x, err := a.l.Eval(b, sel)
	if err != nil {
		return nil, err
	}
	y, err := a.r.Eval(b, sel)
	if err != nil {
		return nil, err
	}
	v := &a.v
	v.Reset(a.t, b.N)
	if x.Null != nil || y.Null != nil {
		v.Null = make([]bool, b.N)
		a.live = sized(a.live, len(sel))[:0]
		for _, i := range sel {
			if v.Null[i] = x.IsNull(i) || y.IsNull(i); !v.Null[i] {
				a.live = append(a.live, i)
			}
		}
		sel = a.live
	}
	if a.flts != nil {
		return v, a.flts(a, x, y, sel)
	}
	if x.D == nil && y.D == nil && a.ints != nil && a.ints(a, x, y, sel) {
		return v, nil
	}
	for _, i := range sel {
		if err := a.slow(a, x, y, i); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (a *arith) rangeError() error {
	switch a.t.Kind {
	case Int:
		return ErrRange("BIGINT", a.c.String())
	case Uint:
		return ErrRange("BIGINT UNSIGNED", a.c.String())
	case Float:
		return ErrRange("DOUBLE", a.c.String())
	}
	return ErrRange("DECIMAL", a.c.String())
}

// divZero notes a division by 0, which is NULL.
func (a *arith) divZero(i int32) {
	if a.env.Mode&ErrorForDivisionByZero != 0 {
		a.env.Note(1365, "Division by 0")
	}
	a.v.SetNull(int(i))
}

func addInts(a *arith, x, y *Vec, sel []int32) bool {
	bad := int64(0)
	for _, i := range sel {
		p, q := x.I[i], y.I[i]
		s := p + q
		bad |= (p ^ s) & (q ^ s)
		a.v.I[i] = s
	}
	return bad >= 0
}

func subInts(a *arith, x, y *Vec, sel []int32) bool {
	bad := int64(0)
	for _, i := range sel {
		p, q := x.I[i], y.I[i]
		s := p - q
		bad |= (p ^ q) & (p ^ s)
		a.v.I[i] = s
	}
	return bad >= 0
}

func mulInts(a *arith, x, y *Vec, sel []int32) bool {
	for _, i := range sel {
		p, q := x.I[i], y.I[i]
		if s := p * q; int64(int32(p)) == p && int64(int32(q)) == q {
			a.v.I[i] = s
			continue
		}
		s, ok := mul64(p, q)
		if !ok {
			return false
		}
		a.v.I[i] = s
	}
	return true
}

// divDecs divides 64 bit DECIMALs: x * 10^up / y, cut off.
func divDecs(a *arith, x, y *Vec, sel []int32) bool {
	up := a.t.Scale - x.T.Scale + y.T.Scale
	if up < 0 || up > 18 {
		return false
	}
	unit := uint64(tens[up])
	for _, i := range sel {
		p, q := x.I[i], y.I[i]
		if q == 0 {
			a.divZero(i)
			continue
		}
		hi, lo := bits.Mul64(Abs64(p), unit)
		d := Abs64(q)
		if hi >= d {
			return false
		}
		r, _ := bits.Div64(hi, lo, d)
		if r > math.MaxInt64 {
			return false
		}
		if (p < 0) != (q < 0) {
			r = -r
		}
		a.v.I[i] = int64(r)
	}
	return true
}

func modDecs(a *arith, x, y *Vec, sel []int32) bool {
	for _, i := range sel {
		switch q := y.I[i]; q {
		case 0:
			a.divZero(i)
		case -1:
			a.v.I[i] = 0
		default:
			a.v.I[i] = x.I[i] % q
		}
	}
	return true
}

func floatOp(op string) func(a *arith, x, y *Vec, sel []int32) error {
	f := map[string]func(p, q float64) float64{
		"+": func(p, q float64) float64 { return p + q },
		"-": func(p, q float64) float64 { return p - q },
		"*": func(p, q float64) float64 { return p * q },
		"/": func(p, q float64) float64 { return p / q },
		"%": math.Mod,
	}[op]
	zero := op == "/" || op == "%"
	return func(a *arith, x, y *Vec, sel []int32) error {
		for _, i := range sel {
			if zero && y.F[i] == 0 {
				a.divZero(i)
				continue
			}
			r := f(x.F[i], y.F[i])
			if math.IsInf(r, 0) || math.IsNaN(r) {
				return a.rangeError()
			}
			a.v.F[i] = r
		}
		return nil
	}
}

// slowDec computes one value with as many digits as it takes.
func slowDec(op string) func(a *arith, x, y *Vec, i int32) error {
	return func(a *arith, x, y *Vec, i int32) error {
		var s, t, d apd.Decimal
		p, q := x.Dec(i, &s), y.Dec(i, &t)
		switch op {
		case "+":
			_, _ = DecCtx.Add(&d, p, q)
		case "-":
			_, _ = DecCtx.Sub(&d, p, q)
		case "*":
			_, _ = DecCtx.Mul(&d, p, q)
		case "/":
			if q.IsZero() {
				a.divZero(i)
				return nil
			}
			truncQuo(&d, p, q, a.t.Scale)
		case "%":
			if q.IsZero() {
				a.divZero(i)
				return nil
			}
			_, _ = DecCtx.Rem(&d, p, q)
		}
		Rescale(&d, &d, a.t.Scale)
		if d.IsZero() {
			d.Negative = false
		}
		if d.NumDigits()-int64(a.t.Scale) > MaxPrecision || d.NumDigits() > 81+maxInner {
			return a.rangeError()
		}
		a.v.SetDecimal(int(i), &d)
		return nil
	}
}

// truncQuo is p/q with scale digits, the others cut off.
func truncQuo(d, p, q *apd.Decimal, scale int) {
	var num, den apd.BigInt
	var ten, e apd.BigInt
	ten.SetInt64(10)
	shift := int64(scale) + int64(p.Exponent) - int64(q.Exponent)
	num.Set(&p.Coeff)
	den.Set(&q.Coeff)
	e.SetInt64(int64(Abs64(shift)))
	ten.Exp(&ten, &e, nil)
	if shift >= 0 {
		num.Mul(&num, &ten)
	} else {
		den.Mul(&den, &ten)
	}
	d.SetFinite(0, int32(-scale))
	d.Coeff.Quo(&num, &den)
	d.Negative = p.Negative != q.Negative
}

// wideInt is a whole number of 64 bits, signed or not.
type wideInt struct {
	neg bool
	Mag uint64
}

// WideOf is the whole number at i.
func WideOf(v *Vec, i int32) wideInt {
	if !v.T.Unsigned() && v.I[i] < 0 {
		return wideInt{true, Abs64(v.I[i])}
	}
	return wideInt{Mag: uint64(v.I[i])}
}

// Store puts the number into a vector; false if it does not fit.
func (w wideInt) Store(v *Vec, i int32) bool {
	if w.neg && w.Mag > 0 {
		if v.T.Kind == Uint || w.Mag > 1<<63 {
			return false
		}
		v.I[i] = -int64(w.Mag)
		return true
	}
	if v.T.Kind == Int && w.Mag > math.MaxInt64 {
		return false
	}
	v.I[i] = int64(w.Mag)
	return true
}

func addWide(p, q wideInt) (wideInt, bool) {
	if p.neg == q.neg {
		s, c := bits.Add64(p.Mag, q.Mag, 0)
		return wideInt{p.neg, s}, c == 0
	}
	if p.Mag < q.Mag {
		p, q = q, p
	}
	return wideInt{p.neg, p.Mag - q.Mag}, true
}

// slowInt computes one value of whole numbers of any sign.
func slowInt(op string) func(a *arith, x, y *Vec, i int32) error {
	return func(a *arith, x, y *Vec, i int32) error {
		p, q := WideOf(x, i), WideOf(y, i)
		var r wideInt
		ok := true
		switch op {
		case "+":
			r, ok = addWide(p, q)
		case "-":
			q.neg = !q.neg
			r, ok = addWide(p, q)
		case "*":
			hi, lo := bits.Mul64(p.Mag, q.Mag)
			r, ok = wideInt{p.neg != q.neg, lo}, hi == 0
		case "div", "%":
			if q.Mag == 0 {
				a.divZero(i)
				return nil
			}
			if op == "div" {
				r = wideInt{p.neg != q.neg, p.Mag / q.Mag}
			} else {
				r = wideInt{p.neg, p.Mag % q.Mag}
			}
		}
		if !ok || !r.Store(&a.v, i) {
			return a.rangeError()
		}
		return nil
	}
}

var fastInts = map[string]func(*arith, *Vec, *Vec, []int32) bool{
	"+": addInts, "-": subInts, "*": mulInts, "/": divDecs, "%": modDecs,
}

func (k *Compiler) arith(c *Call) (Expr, error) {
	es, err := k.Exprs(c.Args)
	if err != nil {
		return nil, err
	}
	op := c.Fn.Name
	a := &arith{l: es[0], r: es[1], t: c.T, c: c, env: k.Env}
	x, y := es[0].Type(), es[1].Type()
	switch a.t.Kind {
	case Float:
		a.flts = floatOp(op)
	case Decimal:
		a.slow = slowDec(op)
		a.ints = fastInts[op]
		if op == "*" && c.T.Scale != x.Scale+y.Scale {
			a.ints = nil
		}
	default:
		a.slow = slowInt(op)
		if x.Kind == Int && y.Kind == Int {
			a.ints = fastInts[op] // but for /, which makes no whole numbers
		}
	}
	return a, nil
}

// deriveIntDiv: DIV cuts a quotient to a whole number.
func deriveIntDiv(c *Call) error {
	a, b := Number(c.Args[0]), Number(c.Args[1])
	c.T = TypeInt
	if a.Unsigned() || b.Unsigned() {
		c.T = TypeUint
	}
	both, _ := integers(a, b)
	for i := range c.Args {
		t := []Type{a, b}[i]
		if t.Kind == Float && !both {
			// Doubles and strings are divided as DECIMALs.
			t = DecimalType(MaxPrecision, MaxScale)
		} else if !both {
			t = t.AsDecimal()
		}
		c.Args[i] = CastTo(Exact(c.Args[i]), t)
	}
	return nil
}

func evalIntDiv(c *Call, k *Compiler) (Expr, error) {
	es, err := k.Exprs(c.Args)
	if err != nil {
		return nil, err
	}
	a := &arith{l: es[0], r: es[1], t: c.T, c: c, env: k.Env, slow: slowInt("div")}
	if es[0].Type().Kind == Decimal {
		a.slow = intDivDec
	}
	return a, nil
}

func intDivDec(a *arith, x, y *Vec, i int32) error {
	var s, t, d apd.Decimal
	p, q := x.Dec(i, &s), y.Dec(i, &t)
	if q.IsZero() {
		a.divZero(i)
		return nil
	}
	truncQuo(&d, p, q, 0)
	w := wideInt{neg: d.Negative && !d.IsZero()}
	if !d.Coeff.IsUint64() {
		return a.rangeError()
	}
	if w.Mag = d.Coeff.Uint64(); !w.Store(&a.v, i) {
		return a.rangeError()
	}
	return nil
}

func deriveNeg(c *Call) error {
	t := Number(c.Args[0])
	if t.Kind == Uint {
		if v, ok := constant(c.Args[0]); ok && uint64(v.I) > 1<<63 {
			t = DecimalType(20, 0)
		} else {
			t.Kind = Int
			c.Args[0] = CastTo(c.Args[0], Number(c.Args[0]))
			c.T = t
			c.T.NotNull = c.Args[0].Type().NotNull
			return nil
		}
	}
	if k, ok := c.Args[0].(*Const); ok && k.V.Kind == Int && k.V.I == math.MinInt64 {
		t = DecimalType(20, 0)
	}
	c.Args[0] = CastTo(Exact(c.Args[0]), t)
	c.T = c.Args[0].Type()
	c.T.SQL = nil // the contrary of the least TINYINT is none
	return nil
}

// constant is the value of an expression that reads no columns and gives the same at any time.
func constant(n Node) (Value, bool) {
	same := true
	Walk(n, func(n Node) bool {
		switch n := n.(type) {
		case *Col, *Param, *Sub, *Agg:
			same = false
		case *Call:
			same = same && !n.Fn.Volatile && !n.Fn.PerStatement
		}
		return same
	})
	if !same {
		return Value{}, false
	}
	v, err := EvalConst(n, &Env{})
	return v, err == nil && !v.IsNull()
}

func evalNeg(c *Call, k *Compiler) (Expr, error) {
	e, err := k.Expr(c.Args[0])
	if err != nil {
		return nil, err
	}
	return NewRowFunc(c.T, []Expr{e}, func(a []*Vec, i int32, v *Vec) error {
		x := a[0]
		switch c.T.Kind {
		case Float:
			v.F[i] = -x.F[i]
		case Decimal:
			var t, d apd.Decimal
			d.Neg(x.Dec(i, &t))
			v.SetDecimal(int(i), &d)
		default:
			w := WideOf(x, i)
			w.neg = !w.neg
			if !w.Store(v, i) {
				return ErrRange("BIGINT", c.String())
			}
		}
		return nil
	}), nil
}

func evalArith(c *Call, k *Compiler) (Expr, error) { return k.arith(c) }

// quotients are the operator / by div_precision_increment: how many more digits behind the point a
// quotient has than the dividend.
var quotients [MaxScale + 1]*Func

func init() {
	for n := range quotients {
		quotients[n] = &Func{Name: "/", Min: 2, Max: 2, Derive: func(c *Call) error { return deriveDiv(c, n) },
			Eval: evalArith, Post: ShowScale, Places: func(n int) *Func { return quotients[n] }}
	}
	derive := func(c *Call) error { return deriveArith(c, 0) }
	for _, op := range []string{"+", "-", "*", "%"} {
		Register(&Func{Name: op, Min: 2, Max: 2, Derive: derive, Eval: evalArith, Post: ShowScale})
	}
	minus := *funcs["-"]
	minus.Derive = func(c *Call) error {
		err := derive(c)
		if c.T.Kind == Uint {
			c.T.Kind, c.Cmp.Kind = Int, Int
		}
		return err
	}
	funcs["-"].Signed, funcs["mod"] = &minus, funcs["%"]
	Register(
		quotients[DefaultDivScale],
		&Func{Name: "div", Min: 2, Max: 2, Derive: deriveIntDiv, Eval: evalIntDiv},
		&Func{Name: "neg", Min: 1, Max: 1, Derive: deriveNeg, Eval: evalNeg},
	)
}

// ShowScale rounds the result of arithmetic with a quotient in it to the digits that are shown.
func ShowScale(c *Call) Node {
	if c.T.Kind != Decimal || c.Cmp.Kind != Decimal {
		return c
	}
	return roundQuotient(c, c.Cmp.Scale)
}
