package fn

import (
	"math"
	"math/bits"

	"github.com/cockroachdb/apd/v3"

	"github.com/godwitdb/godwit/sql/expr"
)

// states has one state for each group.
type states[T any] struct {
	s    []T
	zero T
	each int64
}

func (g *states[T]) Grow(n int) {
	for len(g.s) < n {
		g.s = append(g.s, g.zero)
	}
}

func (g *states[T]) Bytes() int64 { return int64(len(g.s)) * g.each }

func (g *states[T]) Reset() { g.s = g.s[:0] }

// countAcc is COUNT.
type countAcc struct{ states[int64] }

// Add implements expr.Acc.
func (c *countAcc) Add(groups []int32, in []*expr.Vec, sel []int32) error {
	return c.count(groups, in, sel, 1)
}

// Remove implements expr.Remover.
func (c *countAcc) Remove(groups []int32, in []*expr.Vec, sel []int32) error {
	return c.count(groups, in, sel, -1)
}

func (c *countAcc) count(groups []int32, in []*expr.Vec, sel []int32, by int64) error {
	nulls := false
	for _, v := range in {
		nulls = nulls || v.Null != nil || v.T.Kind == expr.Null
	}
	if !nulls {
		for k := range sel {
			c.s[groups[k]] += by
		}
		return nil
	}
rows:
	for k, i := range sel {
		for _, v := range in {
			if v.T.Kind == expr.Null || v.IsNull(i) {
				continue rows
			}
		}
		c.s[groups[k]] += by
	}
	return nil
}

func (c *countAcc) Result(v *expr.Vec, from, to int) error {
	copy(v.I, c.s[from:to])
	return nil
}

// sum is the state of SUM and AVG of exact numbers: 128 bits, and a DECIMAL for what was wider.
type sum struct {
	n      int64
	hi, lo uint64
	wide   *apd.Decimal
}

type sumAcc struct {
	states[sum]
	t    expr.Type
	from expr.Type
	avg  bool
	// digits are those behind the point that are computed of an average.
	digits int
}

func (a *sumAcc) Add(groups []int32, in []*expr.Vec, sel []int32) error {
	v := in[0]
	if v.D == nil && v.Null == nil && a.from.Kind != expr.Uint {
		for k, i := range sel {
			a.s[groups[k]].add(v.I[i])
		}
		return nil
	}
	for k, i := range sel {
		if v.IsNull(i) {
			continue
		}
		s := &a.s[groups[k]]
		switch {
		case v.D == nil && a.from.Kind != expr.Uint:
			s.add(v.I[i])
			continue
		case v.D == nil:
			var c uint64
			s.lo, c = bits.Add64(s.lo, uint64(v.I[i]), 0)
			s.hi += c
			s.n++
			continue
		}
		s.n++
		if s.wide == nil {
			s.wide = new(apd.Decimal)
		}
		_, _ = expr.DecCtx.Add(s.wide, s.wide, &v.D[i])
	}
	return nil
}

// Remove implements expr.Remover.
func (a *sumAcc) Remove(groups []int32, in []*expr.Vec, sel []int32) error {
	v := in[0]
	for k, i := range sel {
		if v.IsNull(i) {
			continue
		}
		s := &a.s[groups[k]]
		s.n--
		if v.D != nil {
			if s.wide == nil {
				s.wide = new(apd.Decimal)
			}
			_, _ = expr.DecCtx.Sub(s.wide, s.wide, &v.D[i])
			continue
		}
		sign := uint64(v.I[i] >> 63)
		if a.from.Kind == expr.Uint {
			sign = 0
		}
		var b uint64
		s.lo, b = bits.Sub64(s.lo, uint64(v.I[i]), 0)
		s.hi -= sign + b
	}
	return nil
}

func (s *sum) add(x int64) {
	var c uint64
	s.lo, c = bits.Add64(s.lo, uint64(x), 0)
	s.hi += uint64(x>>63) + c
	s.n++
}

// total is the sum as a DECIMAL with a scale.
func (s *sum) total(d *apd.Decimal, scale int) {
	neg := int64(s.hi) < 0
	hi, lo := s.hi, s.lo
	if neg {
		var b uint64
		lo, b = bits.Sub64(0, lo, 0)
		hi, _ = bits.Sub64(0, hi, b)
	}
	d.SetFinite(0, int32(-scale))
	d.Coeff.SetUint64(hi)
	d.Coeff.Lsh(&d.Coeff, 64)
	d.Coeff.Add(&d.Coeff, new(apd.BigInt).SetUint64(lo))
	d.Negative = neg
	if s.wide != nil {
		_, _ = expr.DecCtx.Add(d, d, s.wide)
	}
}

func (a *sumAcc) Result(v *expr.Vec, from, to int) error {
	for g := from; g < to; g++ {
		s := &a.s[g]
		if s.n == 0 {
			v.SetNull(g - from)
			continue
		}
		if !a.avg && s.wide == nil && s.hi == uint64(int64(s.lo)>>63) && v.D == nil && a.t.Scale == a.from.Scale {
			v.I[g-from] = int64(s.lo)
			continue
		}
		var d apd.Decimal
		s.total(&d, a.from.Scale)
		if a.avg {
			var n apd.Decimal
			n.SetInt64(s.n)
			// MySQL cuts the quotient off behind a full group of digits, which may be the last
			// one that is shown.
			_, _ = truncating.Quo(&d, &d, &n)
			_, _ = truncating.Quantize(&d, &d, int32(-a.digits))
		}
		expr.Rescale(&d, &d, a.t.Scale)
		if d.NumDigits()-int64(a.t.Scale) > expr.MaxPrecision {
			return expr.ErrRange("DECIMAL", "sum")
		}
		v.SetDecimal(g-from, &d)
	}
	return nil
}

type fsum struct {
	n int64
	f float64
}

// fsumAcc is SUM and AVG of doubles.
type fsumAcc struct {
	states[fsum]
	avg bool
}

func (a *fsumAcc) Add(groups []int32, in []*expr.Vec, sel []int32) error {
	v := in[0]
	for k, i := range sel {
		if !v.IsNull(i) {
			s := &a.s[groups[k]]
			s.n++
			s.f += v.F[i]
		}
	}
	return nil
}

func (a *fsumAcc) Result(v *expr.Vec, from, to int) error {
	for g := from; g < to; g++ {
		s := a.s[g]
		switch {
		case s.n == 0:
			v.SetNull(g - from)
		case a.avg:
			v.F[g-from] = s.f / float64(s.n)
		default:
			v.F[g-from] = s.f
		}
		if s.n > 0 && math.IsInf(s.f, 0) {
			return expr.ErrRange("DOUBLE", "sum")
		}
	}
	return nil
}

// pickAcc is MIN, MAX and ANY_VALUE: one value of each group, kept in a vector.
type pickAcc struct {
	v    expr.Vec
	has  []bool
	cmp  expr.Comparer
	sign int // -1: MIN, 1: MAX, 0: the first value, NULL or not
	size int64
}

func (p *pickAcc) Grow(n int) {
	for len(p.has) < n {
		p.has = append(p.has, false)
	}
	old := p.v.Len()
	if n <= old {
		return
	}
	grow(&p.v, n)
}

// grow lengthens a vector; new values are unspecified.
func grow(v *expr.Vec, n int) {
	switch v.T.Kind.Form() {
	case expr.FormF:
		v.F = append(v.F, make([]float64, n-len(v.F))...)
	case expr.FormS:
		v.S = append(v.S, make([]string, n-len(v.S))...)
	case expr.FormA:
		v.A = append(v.A, make([]any, n-len(v.A))...)
	default:
		if v.D != nil {
			v.D = append(v.D, make([]apd.Decimal, n-len(v.D))...)
		} else {
			v.I = append(v.I, make([]int64, n-len(v.I))...)
		}
	}
	if v.Null != nil {
		v.Null = append(v.Null, make([]bool, n-len(v.Null))...)
	}
}

func (p *pickAcc) Add(groups []int32, in []*expr.Vec, sel []int32) error {
	x := in[0]
	if x.D == nil && p.v.D == nil && p.sign != 0 && x.Null == nil && expr.SignedForm(p.v.T) {
		p.addInts(groups, x, sel)
		return nil
	}
	for k, i := range sel {
		g := groups[k]
		if p.has[g] && (p.sign == 0 || x.IsNull(i) || p.cmp(x, i, &p.v, g)*p.sign <= 0) {
			continue
		}
		if p.sign != 0 && x.IsNull(i) {
			continue
		}
		p.has[g] = true
		p.store(g, x, i)
	}
	return nil
}

func (p *pickAcc) addInts(groups []int32, x *expr.Vec, sel []int32) {
	max := p.sign > 0
	for k, i := range sel {
		g := groups[k]
		if y := x.I[i]; !p.has[g] || y != p.v.I[g] && (y > p.v.I[g]) == max {
			p.has[g], p.v.I[g] = true, y
		}
	}
}

func (p *pickAcc) store(g int32, x *expr.Vec, i int32) {
	if x.IsNull(i) {
		p.v.SetNull(int(g))
		return
	}
	switch p.v.T.Kind.Form() {
	case expr.FormF:
		p.v.F[g] = x.F[i]
	case expr.FormS:
		p.size += int64(len(x.S[i]) - len(p.v.S[g]))
		p.v.S[g] = x.S[i]
	case expr.FormA:
		p.v.A[g] = x.A[i]
	default:
		if p.v.T.Kind == expr.Decimal {
			var t apd.Decimal
			p.v.SetDecimal(int(g), x.Dec(i, &t))
		} else {
			p.v.I[g] = x.I[i]
		}
	}
}

func (p *pickAcc) Result(v *expr.Vec, from, to int) error {
	for g := from; g < to; g++ {
		if !p.has[g] {
			v.SetNull(g - from)
			continue
		}
		v.Put(g-from, p.v.At(int32(g)))
	}
	return nil
}

func (p *pickAcc) Bytes() int64 { return p.size + int64(len(p.has))*48 }

func (p *pickAcc) Reset() {
	p.has = p.has[:0]
	p.size = 0
	p.v.Reset(p.v.T, 0)
}

// bitAcc is BIT_AND, BIT_OR and BIT_XOR.
type bitAcc struct {
	states[uint64]
	f func(x, y uint64) uint64
}

func (a *bitAcc) Add(groups []int32, in []*expr.Vec, sel []int32) error {
	for k, i := range sel {
		if !in[0].IsNull(i) {
			g := groups[k]
			a.s[g] = a.f(a.s[g], uint64(in[0].I[i]))
		}
	}
	return nil
}

func (a *bitAcc) Result(v *expr.Vec, from, to int) error {
	for g := from; g < to; g++ {
		v.I[g-from] = int64(a.s[g])
	}
	return nil
}

// bitCounts is how many values have each bit.
type bitCounts struct {
	n    int64
	bits [64]int64
}

// bitCountAcc is BIT_AND, BIT_OR and BIT_XOR over windows: it can forget values.
type bitCountAcc struct {
	states[bitCounts]
	set func(ones, n int64) bool // whether a bit of the result is set
}

func (a *bitCountAcc) count(groups []int32, v *expr.Vec, sel []int32, by int64) {
	for k, i := range sel {
		if v.T.Kind == expr.Null || v.IsNull(i) {
			continue
		}
		s := &a.s[groups[k]]
		s.n += by
		for x := uint64(v.I[i]); x != 0; x &= x - 1 {
			s.bits[bits.TrailingZeros64(x)] += by
		}
	}
}

// Add implements expr.Acc.
func (a *bitCountAcc) Add(groups []int32, in []*expr.Vec, sel []int32) error {
	a.count(groups, in[0], sel, 1)
	return nil
}

// Remove implements expr.Remover.
func (a *bitCountAcc) Remove(groups []int32, in []*expr.Vec, sel []int32) error {
	a.count(groups, in[0], sel, -1)
	return nil
}

// Result implements expr.Acc.
func (a *bitCountAcc) Result(v *expr.Vec, from, to int) error {
	for g := from; g < to; g++ {
		x := uint64(0)
		for b, ones := range a.s[g].bits {
			if a.set(ones, a.s[g].n) {
				x |= 1 << b
			}
		}
		v.I[g-from] = int64(x)
	}
	return nil
}

// spread is the state of the variances: Welford's recurrence, as in MySQL.
type spread struct {
	n    int64
	m, s float64
}

type varAcc struct {
	states[spread]
	sample, root bool
}

func (a *varAcc) Add(groups []int32, in []*expr.Vec, sel []int32) error {
	for k, i := range sel {
		if in[0].IsNull(i) {
			continue
		}
		s, x := &a.s[groups[k]], in[0].F[i]
		s.n++
		if s.n == 1 {
			s.m = x
			continue
		}
		m := s.m
		s.m += (x - m) / float64(s.n)
		s.s += (x - m) * (x - s.m)
	}
	return nil
}

func (a *varAcc) Result(v *expr.Vec, from, to int) error {
	for g := from; g < to; g++ {
		s := a.s[g]
		n := float64(s.n)
		if a.sample {
			n--
		}
		if n <= 0 {
			v.SetNull(g - from)
			continue
		}
		x := s.s / n
		if a.root {
			x = math.Sqrt(x)
		}
		v.F[g-from] = x
	}
	return nil
}

// truncating computes decimals without rounding.
var truncating = func() apd.Context {
	c := expr.DecCtx.WithPrecision(expr.DecCtx.Precision)
	c.Rounding = apd.RoundDown
	return *c
}()

// averages are AVG by div_precision_increment: how many more digits behind the point it has than
// its argument.
var averages [expr.MaxScale + 1]*expr.AggFunc

func deriveSum(avg bool, places int) func(a *expr.Agg) error {
	return func(a *expr.Agg) error {
		t := expr.Number(a.Args[0])
		shown := expr.Number(roundedArg(a.Args[0]))
		if t.Kind == expr.Float {
			a.T = expr.TypeFloat
		} else {
			d, s := t.AsDecimal(), shown.AsDecimal()
			a.T = expr.DecimalType(s.Precision+22, s.Scale)
			if avg {
				a.T, a.Digits = average(t, s, places)
			}
			if t.Kind == expr.Decimal {
				t = d
			}
		}
		a.Args[0] = expr.CastTo(a.Args[0], t)
		return nil
	}
}

// average is the type of AVG of values of t, which are shown as those of s, and how many digits
// behind the point are shown of it.
func average(t, s expr.Type, places int) (expr.Type, int) {
	shown := expr.DecimalType(s.Precision+places, min(s.Scale+places, expr.MaxScale))
	all := shown
	all.Scale = max(shown.Scale, quotientDigits(t, places))
	all.Precision += all.Scale - shown.Scale
	return all, shown.Scale
}

// quotientDigits are the digits behind the point that are computed of an average of values of t.
func quotientDigits(t expr.Type, places int) int {
	if t.Kind != expr.Decimal {
		t.Scale = 0
	}
	return expr.QuotientScale(t.Scale, 0, places)
}

// roundedArg is a quotient as it is shown.
func roundedArg(n expr.Node) expr.Node {
	if c, ok := n.(*expr.Call); ok && c.Fn.Post != nil {
		return c.Fn.Post(c)
	}
	if k, ok := n.(*expr.Const); ok && k.Shown != nil {
		return k.Shown
	}
	return n
}

func sumOf(avg bool, places int) func(a *expr.Agg, _ *expr.Env) (expr.Acc, error) {
	return func(a *expr.Agg, _ *expr.Env) (expr.Acc, error) {
		if a.T.Kind == expr.Float {
			return &fsumAcc{states: states[fsum]{each: 16}, avg: avg}, nil
		}
		t := a.Args[0].Type()
		digits := quotientDigits(t, places)
		if t.Kind != expr.Decimal {
			t.Scale = 0
		}
		return &sumAcc{states: states[sum]{each: 32}, t: a.T, from: t, avg: avg, digits: digits}, nil
	}
}

func derivePick(a *expr.Agg) error {
	t := a.Args[0].Type()
	if (t.Kind == expr.Enum || t.Kind == expr.Set) && a.Fn.Name != "any_value" {
		a.Args[0] = expr.CastTo(a.Args[0], expr.TextType(t.TextLength(), t.Coll, t.Coercibility))
		t = a.Args[0].Type()
	}
	a.T = t.AsNull()
	if t.Kind != expr.Text || a.Fn.Name == "any_value" {
		return nil
	}
	_, err := expr.MergeCollations(a.Fn.Name, true, a.Args[0], a.Args[0])
	return err
}

func pick(sign int) func(a *expr.Agg, _ *expr.Env) (expr.Acc, error) {
	return func(a *expr.Agg, _ *expr.Env) (expr.Acc, error) {
		p := &pickAcc{sign: sign, cmp: expr.NewComparer(a.T)}
		p.v.Reset(a.T, 0)
		return p, nil
	}
}

func deriveBitAgg(a *expr.Agg) error {
	a.T = expr.TypeUint
	a.T.NotNull = true
	switch t := a.Args[0].Type(); {
	case t.Kind == expr.Decimal:
		a.Args[0] = &expr.Cast{Arg: a.Args[0], T: expr.TypeInt, Explicit: true}
	case !t.Integer() && t.Kind != expr.Null:
		a.Args[0] = &expr.Cast{Arg: a.Args[0], T: expr.TypeUint, Explicit: true}
	}
	return nil
}

func deriveVar(a *expr.Agg) error {
	a.T = expr.TypeFloat
	a.Args[0] = expr.CastTo(a.Args[0], expr.TypeFloat)
	return nil
}

func init() {
	expr.RegisterAgg(&expr.AggFunc{Min: 0, Max: -1, Zero: true,
		Derive: func(a *expr.Agg) error {
			a.T = expr.TypeInt
			a.T.NotNull = true
			return nil
		},
		Acc: func(*expr.Agg, *expr.Env) (expr.Acc, error) { return &countAcc{states[int64]{each: 8}}, nil },
	}, "count")
	expr.RegisterAgg(&expr.AggFunc{Min: 1, Max: 1, Derive: deriveSum(false, 0), Acc: sumOf(false, 0)}, "sum")
	for n := range averages {
		averages[n] = &expr.AggFunc{Name: "avg", Min: 1, Max: 1, Derive: deriveSum(true, n), Acc: sumOf(true, n),
			Places: func(n int) *expr.AggFunc { return averages[n] }}
	}
	expr.RegisterAgg(averages[expr.DefaultDivScale], "avg")
	expr.RegisterAgg(&expr.AggFunc{Min: 1, Max: 1, Derive: derivePick, Acc: pick(-1)}, "min")
	expr.RegisterAgg(&expr.AggFunc{Min: 1, Max: 1, Derive: derivePick, Acc: pick(1)}, "max")
	expr.RegisterAgg(&expr.AggFunc{Min: 1, Max: 1, Derive: derivePick, Acc: pick(0)}, "any_value", "first")
	sets := map[string]func(ones, n int64) bool{
		"bit_and": func(ones, n int64) bool { return ones == n },
		"bit_or":  func(ones, _ int64) bool { return ones > 0 },
		"bit_xor": func(ones, _ int64) bool { return ones%2 != 0 },
	}
	for name, f := range map[string]func(x, y uint64) uint64{
		"bit_and": func(x, y uint64) uint64 { return x & y },
		"bit_or":  func(x, y uint64) uint64 { return x | y },
		"bit_xor": func(x, y uint64) uint64 { return x ^ y },
	} {
		zero := uint64(0)
		if name == "bit_and" {
			zero = math.MaxUint64
		}
		acc := func(*expr.Agg, *expr.Env) (expr.Acc, error) {
			return &bitAcc{states[uint64]{zero: zero, each: 8}, f}, nil
		}
		sliding := func(*expr.Agg, *expr.Env) (expr.Acc, error) {
			return &bitCountAcc{states[bitCounts]{each: 65 * 8}, sets[name]}, nil
		}
		expr.RegisterAgg(&expr.AggFunc{Min: 1, Max: 1, Zero: true, Derive: deriveBitAgg, Acc: acc, Sliding: sliding}, name)
	}
	variance := func(sample, root bool, names ...string) {
		expr.RegisterAgg(&expr.AggFunc{Min: 1, Max: 1, Derive: deriveVar, Acc: func(*expr.Agg, *expr.Env) (expr.Acc, error) {
			return &varAcc{states[spread]{each: 24}, sample, root}, nil
		}}, names...)
	}
	variance(false, false, "var_pop", "variance")
	variance(true, false, "var_samp")
	variance(false, true, "stddev_pop", "std", "stddev")
	variance(true, true, "stddev_samp")
}
