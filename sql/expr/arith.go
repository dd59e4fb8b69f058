package expr

import (
	"math"
	"math/bits"

	"github.com/cockroachdb/apd/v3"
)

// exact is a quotient with all the digits that MySQL computes, instead of those it shows.
func exact(n Node) Node {
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

// number is the type that an operand has in arithmetic.
func number(n Node) Type {
	t := n.Type()
	switch t.Kind {
	case Int, Uint, Decimal:
		return t
	case Float:
		return TypeFloat
	case Year, Bit, Set:
		u := TypeUint
		u.Length = t.asDecimal().Precision
		return u
	case Date:
		u := TypeInt
		u.Length = 8
		return u
	case Datetime, Timestamp, Duration:
		if t.Scale > 0 {
			return t.asDecimal()
		}
		u := TypeInt
		u.Length = t.asDecimal().Precision
		return u
	case Null:
		return TypeInt
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

func deriveArith(c *Call) error {
	op := c.Fn.Name
	a, b := number(c.Args[0]), number(c.Args[1])
	x, y := number(exact(c.Args[0])), number(exact(c.Args[1]))
	notNull := c.Args[0].Type().NotNull && c.Args[1].Type().NotNull
	for i := range c.Args {
		c.Args[i] = exact(c.Args[i])
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
		p, q := a.asDecimal(), b.asDecimal()
		u, w := x.asDecimal(), y.asDecimal()
		c.T = decimalResult(op, u, w)
		c.Cmp = decimalResult(op, p, q) // its scale is what is shown
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
			t = DecimalType(MaxPrecision, max(x.asDecimal().Scale, y.asDecimal().Scale))
		default:
			t = t.asDecimal()
		}
		c.Args[i] = castTo(c.Args[i], t)
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

func decimalResult(op string, p, q Type) Type {
	switch op {
	case "*":
		return DecimalType(p.Precision+q.Precision, p.Scale+q.Scale)
	case "/":
		scale := min(p.Scale+defaultDivScale, MaxScale)
		return DecimalType(p.Precision+q.Scale+defaultDivScale, scale)
	case "%":
		scale := max(p.Scale, q.Scale)
		return DecimalType(max(p.Precision-p.Scale, q.Precision-q.Scale)+scale, scale)
	}
	scale := max(p.Scale, q.Scale)
	return DecimalType(max(p.Precision-p.Scale, q.Precision-q.Scale)+1+scale, scale)
}

// defaultDivScale is div_precision_increment's default. Types are derived without a session.
const defaultDivScale = 4

// quotientScale is how many digits behind the point MySQL computes of a quotient: its DECIMALs
// have groups of nine digits, and a quotient has full groups.
func quotientScale(a, b int) int {
	group := func(n int) int { return (n + 8) / 9 * 9 }
	f0, f1 := group(a), group(b)
	more := max(defaultDivScale-(f0-a+f1-b), 0)
	return min(group(f0+f1+more), maxInner)
}

// maxInner bounds the digits of intermediate results.
const maxInner = 72

func deriveDiv(c *Call) error {
	if err := deriveArith(c); err != nil {
		return err
	}
	if c.T.Kind == Decimal {
		p := c.Args[0].Type()
		scale := quotientScale(p.Scale, c.Args[1].Type().Scale)
		c.T = Type{Kind: Decimal, Precision: p.Precision - p.Scale + c.Args[1].Type().Scale + scale, Scale: scale, Coll: c.T.Coll, Coercibility: CoerceNumeric}
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
		return errRange("BIGINT", a.c.String())
	case Uint:
		return errRange("BIGINT UNSIGNED", a.c.String())
	case Float:
		return errRange("DOUBLE", a.c.String())
	}
	return errRange("DECIMAL", a.c.String())
}

// divZero notes a division by 0, which is NULL.
func (a *arith) divZero(i int32) {
	if a.env.Mode&ErrorForDivisionByZero != 0 {
		a.env.warn(1365, "Division by 0")
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
		hi, lo := bits.Mul64(abs64(p), unit)
		d := abs64(q)
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
			_, _ = decCtx.Add(&d, p, q)
		case "-":
			_, _ = decCtx.Sub(&d, p, q)
		case "*":
			_, _ = decCtx.Mul(&d, p, q)
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
			_, _ = decCtx.Rem(&d, p, q)
		}
		rescale(&d, &d, a.t.Scale)
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
	e.SetInt64(int64(abs64(shift)))
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
	mag uint64
}

func wideOf(v *Vec, i int32) wideInt {
	if !v.T.Unsigned() && v.I[i] < 0 {
		return wideInt{true, abs64(v.I[i])}
	}
	return wideInt{mag: uint64(v.I[i])}
}

func (w wideInt) store(v *Vec, i int32) bool {
	if w.neg && w.mag > 0 {
		if v.T.Kind == Uint || w.mag > 1<<63 {
			return false
		}
		v.I[i] = -int64(w.mag)
		return true
	}
	if v.T.Kind == Int && w.mag > math.MaxInt64 {
		return false
	}
	v.I[i] = int64(w.mag)
	return true
}

func addWide(p, q wideInt) (wideInt, bool) {
	if p.neg == q.neg {
		s, c := bits.Add64(p.mag, q.mag, 0)
		return wideInt{p.neg, s}, c == 0
	}
	if p.mag < q.mag {
		p, q = q, p
	}
	return wideInt{p.neg, p.mag - q.mag}, true
}

// slowInt computes one value of whole numbers of any sign.
func slowInt(op string) func(a *arith, x, y *Vec, i int32) error {
	return func(a *arith, x, y *Vec, i int32) error {
		p, q := wideOf(x, i), wideOf(y, i)
		var r wideInt
		ok := true
		switch op {
		case "+":
			r, ok = addWide(p, q)
		case "-":
			q.neg = !q.neg
			r, ok = addWide(p, q)
		case "*":
			hi, lo := bits.Mul64(p.mag, q.mag)
			r, ok = wideInt{p.neg != q.neg, lo}, hi == 0
		case "div", "%":
			if q.mag == 0 {
				a.divZero(i)
				return nil
			}
			if op == "div" {
				r = wideInt{p.neg != q.neg, p.mag / q.mag}
			} else {
				r = wideInt{p.neg, p.mag % q.mag}
			}
		}
		if !ok || !r.store(&a.v, i) {
			return a.rangeError()
		}
		return nil
	}
}

func (k *compiler) arith(c *Call) (Expr, error) {
	es, err := k.exprs(c.Args)
	if err != nil {
		return nil, err
	}
	op := c.Fn.Name
	a := &arith{l: es[0], r: es[1], t: c.T, c: c, env: k.env}
	if a.t.Kind == Uint && op == "-" && k.env.Mode&NoUnsignedSubtraction != 0 {
		a.t.Kind = Int
	}
	x, y := es[0].Type(), es[1].Type()
	switch a.t.Kind {
	case Float:
		a.flts = floatOp(op)
	case Decimal:
		a.slow = slowDec(op)
		a.ints = map[string]func(*arith, *Vec, *Vec, []int32) bool{
			"+": addInts, "-": subInts, "*": mulInts, "/": divDecs, "%": modDecs,
		}[op]
		if op == "*" && c.T.Scale != x.Scale+y.Scale {
			a.ints = nil
		}
	default:
		a.slow = slowInt(op)
		if x.Kind == Int && y.Kind == Int {
			a.ints = map[string]func(*arith, *Vec, *Vec, []int32) bool{
				"+": addInts, "-": subInts, "*": mulInts, "%": modDecs,
			}[op]
		}
	}
	return a, nil
}

// deriveIntDiv: DIV cuts a quotient to a whole number.
func deriveIntDiv(c *Call) error {
	a, b := number(c.Args[0]), number(c.Args[1])
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
			t = t.asDecimal()
		}
		c.Args[i] = castTo(exact(c.Args[i]), t)
	}
	return nil
}

func evalIntDiv(c *Call, k *compiler) (Expr, error) {
	es, err := k.exprs(c.Args)
	if err != nil {
		return nil, err
	}
	a := &arith{l: es[0], r: es[1], t: c.T, c: c, env: k.env, slow: slowInt("div")}
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
	if w.mag = d.Coeff.Uint64(); !w.store(&a.v, i) {
		return a.rangeError()
	}
	return nil
}

func deriveNeg(c *Call) error {
	t := number(c.Args[0])
	if t.Kind == Uint {
		if v, ok := constant(c.Args[0]); ok && uint64(v.I) > 1<<63 {
			t = DecimalType(20, 0)
		} else {
			t.Kind = Int
			c.Args[0] = castTo(c.Args[0], number(c.Args[0]))
			c.T = t
			c.T.NotNull = c.Args[0].Type().NotNull
			return nil
		}
	}
	if k, ok := c.Args[0].(*Const); ok && k.V.Kind == Int && k.V.I == math.MinInt64 {
		t = DecimalType(20, 0)
	}
	c.Args[0] = castTo(exact(c.Args[0]), t)
	c.T = c.Args[0].Type()
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

func evalNeg(c *Call, k *compiler) (Expr, error) {
	e, err := k.expr(c.Args[0])
	if err != nil {
		return nil, err
	}
	return newRowFunc(c.T, []Expr{e}, func(a []*Vec, i int32, v *Vec) error {
		x := a[0]
		switch c.T.Kind {
		case Float:
			v.F[i] = -x.F[i]
		case Decimal:
			var t, d apd.Decimal
			d.Neg(x.Dec(i, &t))
			v.SetDecimal(int(i), &d)
		default:
			w := wideOf(x, i)
			w.neg = !w.neg
			if !w.store(v, i) {
				return errRange("BIGINT", c.String())
			}
		}
		return nil
	}), nil
}

func init() {
	for _, op := range []string{"+", "-", "*", "%"} {
		register(&Func{Name: op, Min: 2, Max: 2, derive: deriveArith, eval: func(c *Call, k *compiler) (Expr, error) { return k.arith(c) }, post: showScale})
	}
	funcs["mod"] = funcs["%"]
	register(
		&Func{Name: "/", Min: 2, Max: 2, derive: deriveDiv, eval: func(c *Call, k *compiler) (Expr, error) { return k.arith(c) }, post: showScale},
		&Func{Name: "div", Min: 2, Max: 2, derive: deriveIntDiv, eval: evalIntDiv},
		&Func{Name: "neg", Min: 1, Max: 1, derive: deriveNeg, eval: evalNeg},
	)
	for _, op := range []string{"&", "|", "^", "<<", ">>"} {
		register(bitOp(op))
	}
	register(&Func{Name: "~", Min: 1, Max: 1, derive: deriveBits, eval: evalBits(func(x, _ uint64) uint64 { return ^x })})
	register(&Func{Name: "bit_count", Min: 1, Max: 1, derive: deriveBits, eval: evalBits(func(x, _ uint64) uint64 { return uint64(bits.OnesCount64(x)) })})
}

// showScale rounds the result of arithmetic with a quotient in it to the digits that are shown.
func showScale(c *Call) Node {
	if c.T.Kind != Decimal || c.Cmp.Kind != Decimal {
		return c
	}
	return roundQuotient(c, c.Cmp.Scale)
}

func bitOp(op string) *Func {
	f := map[string]func(x, y uint64) uint64{
		"&":  func(x, y uint64) uint64 { return x & y },
		"|":  func(x, y uint64) uint64 { return x | y },
		"^":  func(x, y uint64) uint64 { return x ^ y },
		"<<": func(x, y uint64) uint64 { return x << y },
		">>": func(x, y uint64) uint64 { return x >> y },
	}[op]
	return &Func{Name: op, Min: 2, Max: 2, derive: deriveBits, eval: evalBits(f)}
}

// deriveBits makes 64 bits of all operands. Binary strings that are no literals are not
// supported as such.
func deriveBits(c *Call) error {
	c.T = TypeUint
	c.T.NotNull = true
	for i, a := range c.Args {
		c.T.NotNull = c.T.NotNull && a.Type().NotNull
		if a.Type().Integer() || a.Type().Kind == Null {
			continue
		}
		t := TypeUint
		t.NotNull = castNotNull(a.Type(), t)
		c.Args[i] = &Cast{Arg: a, T: t, Explicit: true}
	}
	return nil
}

func evalBits(f func(x, y uint64) uint64) func(c *Call, k *compiler) (Expr, error) {
	return func(c *Call, k *compiler) (Expr, error) {
		es, err := k.exprs(c.Args)
		if err != nil {
			return nil, err
		}
		return newRowFunc(c.T, es, func(a []*Vec, i int32, v *Vec) error {
			y := uint64(0)
			if len(a) > 1 {
				y = uint64(a[1].I[i])
			}
			v.I[i] = int64(f(uint64(a[0].I[i]), y))
			return nil
		}), nil
	}
}
