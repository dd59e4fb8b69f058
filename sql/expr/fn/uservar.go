package fn

import (
	"github.com/godwitdb/godwit/sql/expr"
)

// User variables in statements that assign them. They are read and set row by row, in the order of
// the rows. (A statement that only reads them has constants instead.)
//
//	@(name, sample)   the value, as one of the type of the sample, which is NULL
//	@:=(name, value)  sets it, and is the value

func init() {
	sig{names: "@", min: 2, max: 2, nulls: true, volatile: true, ordered: true, make: makeUserVar,
		ret: func(c *expr.Call) (expr.Type, error) {
			t := c.Args[1].Type()
			t.NotNull = false
			return t, nil
		}}.register()
	sig{names: "@:=", min: 2, max: 2, nulls: true, volatile: true, ordered: true, make: makeSetUserVar,
		ret: func(c *expr.Call) (expr.Type, error) {
			c.Args[1] = expr.CastTo(c.Args[1], expr.UserVarType(c.Args[1].Type()))
			return c.Args[1].Type(), nil
		}}.register()
}

func makeUserVar(c *expr.Call, k *expr.Compiler) (rowEval, error) {
	env := k.Env
	return func(a []*expr.Vec, i int32, v *expr.Vec) error {
		x, t, err := env.UserVar(a[0].S[i])
		if err != nil {
			return err
		}
		if x, err = expr.Converted(x, t, c.T, env); err != nil {
			return err
		}
		put(v, i, x)
		return nil
	}, nil
}

func makeSetUserVar(_ *expr.Call, k *expr.Compiler) (rowEval, error) {
	env := k.Env
	return func(a []*expr.Vec, i int32, v *expr.Vec) error {
		x := a[1].At(i)
		put(v, i, x)
		return env.SetUserVar(a[0].S[i], x, a[1].T)
	}, nil
}

func put(v *expr.Vec, i int32, x expr.Value) {
	if v.T.Kind == expr.Null || x.IsNull() {
		v.SetNull(int(i))
		return
	}
	v.Put(int(i), x)
}
