package fn

import (
	"hash/crc32"
	"math"
	"math/rand"
	"strconv"
	"strings"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/expr"
)

// double makes a function of doubles; NaN and infinities are NULL, or an error if over says so.
func double(names string, f func(x float64) float64, over bool) {
	sig{names: names, min: 1, max: 1, args: "f", ret: maybe(expr.TypeFloat),
		make: func(c *expr.Call, _ *expr.Compiler) (rowEval, error) {
			return func(a []*expr.Vec, i int32, v *expr.Vec) error {
				r := f(a[0].F[i])
				if math.IsNaN(r) || math.IsInf(r, 0) {
					if over {
						return expr.ErrRange("DOUBLE", c.String())
					}
					v.SetNull(int(i))
					return nil
				}
				v.F[i] = r
				return nil
			}, nil
		}}.register()
}

// logarithm makes LN and its like.
func logarithm(name string, f func(float64) float64) {
	sig{names: name, min: 1, max: 1, args: "f", ret: maybe(expr.TypeFloat),
		make: func(_ *expr.Call, k *expr.Compiler) (rowEval, error) {
			return func(a []*expr.Vec, i int32, v *expr.Vec) error {
				if a[0].F[i] <= 0 {
					return noLogarithm(k.Env, i, v)
				}
				v.F[i] = f(a[0].F[i])
				return nil
			}, nil
		}}.register()
}

// noLogarithm is NULL, and what is said of the logarithm of what is not above 0.
func noLogarithm(env *expr.Env, i int32, v *expr.Vec) error {
	env.Note(3020, "Invalid argument for logarithm")
	v.SetNull(int(i))
	return nil
}

func init() {
	double("sqrt", math.Sqrt, false)
	logarithm("ln", math.Log)
	logarithm("log2", math.Log2)
	logarithm("log10", math.Log10)
	double("exp", math.Exp, true)
	double("sin", math.Sin, true)
	double("cos", math.Cos, true)
	double("tan", math.Tan, true)
	double("cot", func(x float64) float64 { return 1 / math.Tan(x) }, true)
	double("asin", math.Asin, false)
	double("acos", math.Acos, false)
	double("radians", func(x float64) float64 { return x * (math.Pi / 180) }, true)
	double("degrees", func(x float64) float64 { return x * (180 / math.Pi) }, true)
	sig{names: "atan atan2", min: 1, max: 2, args: "f", ret: returns(expr.TypeFloat),
		make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
			if len(a) == 2 {
				v.F[i] = math.Atan2(a[0].F[i], a[1].F[i])
			} else {
				v.F[i] = math.Atan(a[0].F[i])
			}
			return nil
		})}.register()
	sig{names: "log", min: 1, max: 2, args: "f", ret: maybe(expr.TypeFloat),
		make: func(_ *expr.Call, k *expr.Compiler) (rowEval, error) {
			return func(a []*expr.Vec, i int32, v *expr.Vec) error {
				x, base := a[len(a)-1].F[i], math.E
				if len(a) == 2 {
					base = a[0].F[i]
				}
				if x <= 0 || base <= 0 || base == 1 {
					return noLogarithm(k.Env, i, v)
				}
				if v.F[i] = math.Log(x); len(a) == 2 {
					v.F[i] /= math.Log(base)
				}
				return nil
			}, nil
		}}.register()
	sig{names: "pow power", min: 2, max: 2, args: "f", ret: returns(expr.TypeFloat),
		make: func(c *expr.Call, _ *expr.Compiler) (rowEval, error) {
			return func(a []*expr.Vec, i int32, v *expr.Vec) error {
				if v.F[i] = math.Pow(a[0].F[i], a[1].F[i]); math.IsInf(v.F[i], 0) || math.IsNaN(v.F[i]) {
					return expr.ErrRange("DOUBLE", c.String())
				}
				return nil
			}, nil
		}}.register()
	number := expr.Type{Kind: expr.Float, Coll: sql.Collation_binary, Coercibility: expr.CoerceNumeric}
	sig{names: "pi", min: 0, max: 0, ret: returns(number),
		make: plain(func(_ []*expr.Vec, i int32, v *expr.Vec) error {
			v.F[i] = math.Pi
			return nil
		})}.register()
	sig{names: "sign", min: 1, max: 1, args: "n", ret: returns(expr.TypeInt),
		make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
			v.I[i] = int64(signOf(a[0], i))
			return nil
		})}.register()
	sig{names: "abs", min: 1, max: 1, args: "n", shows: true, ret: sameNumber, make: makeAbs}.register()
	sig{names: "crc32", min: 1, max: 1, args: "s", ret: returns(expr.TypeUint),
		make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
			v.I[i] = int64(crc32.ChecksumIEEE([]byte(a[0].S[i])))
			return nil
		})}.register()
	sig{names: "rand", min: 0, max: 1, args: "i", volatile: true, nulls: true, ret: returns(expr.TypeFloat),
		make: makeRand}.register()
	registerRound("ceil ceiling", ceilDec, math.Ceil)
	registerRound("floor", floorDec, math.Floor)
	sig{names: "round", min: 1, max: 2, args: "ni", ret: roundType(true), make: makeRound(false)}.register()
	sig{names: "truncate", min: 2, max: 2, args: "ni", ret: roundType(false), make: makeRound(true)}.register()
	digits := expr.TextType(64, sql.Collation_Default, expr.CoerceNumeric)
	sig{names: "conv", min: 3, max: 3, args: "sii", ret: maybe(digits), make: plain(conv)}.register()
}

func sameNumber(c *expr.Call) (expr.Type, error) {
	return c.Args[0].Type(), nil
}

func signOf(v *expr.Vec, i int32) int {
	switch {
	case v.T.Kind == expr.Float:
		switch {
		case v.F[i] > 0:
			return 1
		case v.F[i] < 0:
			return -1
		}
		return 0
	case v.D != nil:
		return v.D[i].Sign()
	case v.T.Unsigned() && v.I[i] != 0 || v.I[i] > 0:
		return 1
	case v.I[i] < 0:
		return -1
	}
	return 0
}

func makeAbs(c *expr.Call, _ *expr.Compiler) (rowEval, error) {
	return func(a []*expr.Vec, i int32, v *expr.Vec) error {
		x := a[0]
		switch {
		case x.T.Kind == expr.Float:
			v.F[i] = math.Abs(x.F[i])
		case x.T.Kind == expr.Decimal:
			var t, d apd.Decimal
			d.Abs(x.Dec(i, &t))
			v.SetDecimal(int(i), &d)
		case x.T.Kind == expr.Int && x.I[i] < 0:
			if x.I[i] == math.MinInt64 {
				return expr.ErrRange("BIGINT", c.String())
			}
			v.I[i] = -x.I[i]
		default:
			v.I[i] = x.I[i]
		}
		return nil
	}, nil
}

// mysqlRand is MySQL's generator, whose sequence a seed decides.
type mysqlRand struct{ a, b uint32 }

const randMax = 0x3FFFFFFF

func seedRand(n uint32) *mysqlRand {
	r := &mysqlRand{a: n*0x10001 + 55555555, b: n * 0x10000001}
	r.a %= randMax
	r.b %= randMax
	return r
}

func (r *mysqlRand) next() float64 {
	r.a = uint32((uint64(r.a)*3 + uint64(r.b)) % randMax)
	r.b = uint32((uint64(r.a) + uint64(r.b) + 33) % randMax)
	return float64(r.a) / randMax
}

func makeRand(c *expr.Call, _ *expr.Compiler) (rowEval, error) {
	if len(c.Args) == 0 {
		return func(_ []*expr.Vec, i int32, v *expr.Vec) error {
			v.F[i] = rand.Float64()
			return nil
		}, nil
	}
	var r *mysqlRand
	_, constant := c.Args[0].(*expr.Const)
	return func(a []*expr.Vec, i int32, v *expr.Vec) error {
		if r == nil || !constant {
			seed := uint32(0)
			if !a[0].IsNull(i) {
				seed = uint32(a[0].I[i])
			}
			r = seedRand(seed)
		}
		v.F[i] = r.next()
		return nil
	}, nil
}

func ceilDec(d, x *apd.Decimal) {
	_, _ = expr.DecCtx.Ceil(d, x)
	d.Negative = d.Negative && !d.IsZero()
}

func floorDec(d, x *apd.Decimal) { _, _ = expr.DecCtx.Floor(d, x) }

// registerRound makes CEIL and FLOOR: whole numbers of exact ones.
func registerRound(names string, dec func(d, x *apd.Decimal), flt func(float64) float64) {
	sig{names: names, min: 1, max: 1, args: "n", ret: func(c *expr.Call) (expr.Type, error) {
		t := c.Args[0].Type()
		if t.Kind == expr.Decimal {
			if n := t.Precision - t.Scale; n <= 17 {
				u := expr.TypeInt
				u.NotNull = t.NotNull
				return u, nil
			}
			u := expr.DecimalType(t.Precision-t.Scale+1, 0)
			u.NotNull = t.NotNull
			return u, nil
		}
		return t, nil
	}, make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
		x := a[0]
		switch x.T.Kind {
		case expr.Float:
			v.F[i] = flt(x.F[i])
		case expr.Decimal:
			var t, d apd.Decimal
			dec(&d, x.Dec(i, &t))
			expr.Rescale(&d, &d, 0)
			if v.T.Kind == expr.Int {
				v.I[i], _ = expr.IntOfDec(&d)
			} else {
				v.SetDecimal(int(i), &d)
			}
		default:
			v.I[i] = x.I[i]
		}
		return nil
	})}.register()
}

// roundType: with constant digits the result has them; else it keeps the scale.
func roundType(up bool) func(c *expr.Call) (expr.Type, error) {
	return func(c *expr.Call) (expr.Type, error) {
		t := c.Args[0].Type()
		if t.Kind == expr.Int || t.Kind == expr.Uint {
			t.Length = 0
		}
		if t.Kind != expr.Decimal {
			return t, nil
		}
		digits := 0
		known := len(c.Args) == 1
		if len(c.Args) == 2 && literal(c.Args[1]) {
			v, err := expr.EvalConst(c.Args[1], &expr.Env{})
			if err != nil {
				return t, err
			}
			known, digits = true, int(min(max(v.I, 0), expr.MaxScale))
		}
		if !known {
			digits = t.Scale
		}
		scale := min(digits, min(t.Scale, expr.MaxScale))
		whole := t.Precision - t.Scale
		if up {
			whole++
		}
		u := expr.DecimalType(max(whole, 1)+scale, scale)
		u.NotNull = t.NotNull
		return u, nil
	}
}

// literal reports whether a node is a number that stands in the text, perhaps with a sign.
func literal(n expr.Node) bool {
	switch n := n.(type) {
	case *expr.Const:
		return true
	case *expr.Cast:
		return literal(n.Arg)
	case *expr.Call:
		return n.Fn.Name == "neg" && literal(n.Args[0])
	}
	return false
}

func makeRound(cut bool) func(c *expr.Call, k *expr.Compiler) (rowEval, error) {
	return func(c *expr.Call, _ *expr.Compiler) (rowEval, error) {
		return func(a []*expr.Vec, i int32, v *expr.Vec) error {
			digits := int64(0)
			if len(a) == 2 {
				if digits = a[1].I[i]; a[1].T.Unsigned() && digits < 0 {
					digits = math.MaxInt64
				}
			}
			n := int(min(max(digits, -400), 400))
			switch x := a[0]; x.T.Kind {
			case expr.Float:
				v.F[i] = roundFloat(x.F[i], n, cut)
			case expr.Decimal:
				var t, d apd.Decimal
				roundDec(&d, x.Dec(i, &t), n, cut)
				expr.Rescale(&d, &d, v.T.Scale)
				v.SetDecimal(int(i), &d)
			default:
				return roundInt(x, v, i, n, cut, c)
			}
			return nil
		}, nil
	}
}

func roundDec(d, x *apd.Decimal, digits int, cut bool) {
	digits = min(digits, int(-x.Exponent))
	if int64(-digits) > x.NumDigits()+int64(x.Exponent)+1 {
		d.SetFinite(0, 0)
		return
	}
	ctx := *expr.DecCtx
	if cut {
		ctx.Rounding = apd.RoundDown
	}
	_, _ = ctx.Quantize(d, x, int32(-digits))
	if d.IsZero() {
		d.Negative = false
	}
}

// roundFloat is MySQL's my_double_round.
func roundFloat(x float64, digits int, cut bool) float64 {
	neg := digits < 0
	n := digits
	if neg {
		n = -n
	}
	unit := math.Pow10(n)
	scaled := x * unit
	if neg {
		scaled = x / unit
	}
	if neg && math.IsInf(unit, 0) {
		return 0
	}
	if !neg && math.IsInf(scaled, 0) {
		return x
	}
	var r float64
	switch {
	case !cut:
		r = math.RoundToEven(scaled)
	case x >= 0:
		r = math.Floor(scaled)
	default:
		r = math.Ceil(scaled)
	}
	if neg {
		return r * unit
	}
	return r / unit
}

func roundInt(x, v *expr.Vec, i int32, digits int, cut bool, c *expr.Call) error {
	if digits >= 0 {
		v.I[i] = x.I[i]
		return nil
	}
	if digits < -19 || digits == -19 && x.T.Kind == expr.Int {
		v.I[i] = 0
		return nil
	}
	w := expr.WideOf(x, i)
	unit := uint64(1)
	for range -digits {
		unit *= 10
	}
	r := w.Mag % unit
	w.Mag -= r
	if !cut && r >= unit/2 {
		if w.Mag > math.MaxUint64-unit {
			return expr.ErrRange("BIGINT", c.String())
		}
		w.Mag += unit
	}
	if !w.Store(v, i) {
		return expr.ErrRange("BIGINT", c.String())
	}
	return nil
}

// conv changes the base of a number; negative bases mean signed ones.
func conv(a []*expr.Vec, i int32, v *expr.Vec) error {
	rebase(a[0].S[i], a[1].I[i], a[2].I[i], v, i)
	return nil
}

// rebase reads the digits at the beginning of a text in one base, and writes them in another.
func rebase(s string, from, to int64, v *expr.Vec, i int32) {
	abs := func(n int64) int64 { return int64(expr.Abs64(n)) }
	if s == "" || abs(from) < 2 || abs(from) > 36 || abs(to) < 2 || abs(to) > 36 {
		v.SetNull(int(i))
		return
	}
	s = strings.TrimLeft(s, " ")
	neg := strings.HasPrefix(s, "-")
	s = strings.TrimPrefix(strings.TrimPrefix(s, "-"), "+")
	n := uint64(0)
	for _, r := range strings.ToLower(s) {
		d := strings.IndexRune("0123456789abcdefghijklmnopqrstuvwxyz", r)
		if d < 0 || int64(d) >= abs(from) {
			break
		}
		if n > (math.MaxUint64-uint64(d))/uint64(abs(from)) {
			n = math.MaxUint64
			break
		}
		n = n*uint64(abs(from)) + uint64(d)
	}
	if neg {
		n = -n
	}
	if to < 0 {
		v.S[i] = strings.ToUpper(strconv.FormatInt(int64(n), int(-to)))
	} else {
		v.S[i] = strings.ToUpper(strconv.FormatUint(n, int(to)))
	}
}
