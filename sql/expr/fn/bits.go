package fn

import (
	"math/bits"

	"github.com/godwitdb/godwit/sql/expr"
)

func init() {
	for _, op := range []string{"&", "|", "^", "<<", ">>"} {
		expr.Register(bitOp(op))
	}
	invert := func(x, _ uint64) uint64 { return ^x }
	count := func(x, _ uint64) uint64 { return uint64(bits.OnesCount64(x)) }
	expr.Register(
		&expr.Func{Name: "~", Min: 1, Max: 1, Derive: deriveBits, Eval: evalBits(invert)},
		&expr.Func{Name: "bit_count", Min: 1, Max: 1, Derive: deriveBitCount, Eval: evalBits(count)},
	)
}

func bitOp(op string) *expr.Func {
	f := map[string]func(x, y uint64) uint64{
		"&":  func(x, y uint64) uint64 { return x & y },
		"|":  func(x, y uint64) uint64 { return x | y },
		"^":  func(x, y uint64) uint64 { return x ^ y },
		"<<": func(x, y uint64) uint64 { return x << y },
		">>": func(x, y uint64) uint64 { return x >> y },
	}[op]
	return &expr.Func{Name: op, Min: 2, Max: 2, Derive: deriveBits, Eval: evalBits(f)}
}

// deriveBits makes 64 bits of all operands but binary strings, which may have more.
func deriveBits(c *expr.Call) error {
	c.T = expr.TypeUint
	c.T.NotNull = true
	for i, a := range c.Args {
		c.T.NotNull = c.T.NotNull && a.Type().NotNull
		if a.Type().Integer() || a.Type().Kind == expr.Null {
			continue
		}
		if k, ok := a.(*expr.Const); a.Type().Kind == expr.Bytes && !(ok && k.Hex) {
			return expr.ErrUnsupported("bits of a binary string")
		}
		t := expr.TypeUint
		t.NotNull = a.Type().NotNull
		c.Args[i] = &expr.Cast{Arg: a, T: t, Explicit: true}
	}
	return nil
}

func deriveBitCount(c *expr.Call) error {
	err := deriveBits(c)
	notNull := c.T.NotNull
	c.T = expr.TypeInt
	c.T.Length, c.T.NotNull = 2, notNull
	return err
}

func evalBits(f func(x, y uint64) uint64) func(c *expr.Call, k *expr.Compiler) (expr.Expr, error) {
	return func(c *expr.Call, k *expr.Compiler) (expr.Expr, error) {
		es, err := k.Exprs(c.Args)
		if err != nil {
			return nil, err
		}
		return expr.NewRowFunc(c.T, es, func(a []*expr.Vec, i int32, v *expr.Vec) error {
			y := uint64(0)
			if len(a) > 1 {
				y = uint64(a[1].I[i])
			}
			v.I[i] = int64(f(uint64(a[0].I[i]), y))
			return nil
		}), nil
	}
}
