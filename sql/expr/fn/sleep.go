package fn

import (
	"context"
	"math"
	"time"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/expr"
)

// shortestSleep is what MySQL does not wait for, in seconds.
const shortestSleep = 0.00001

func init() {
	sig{names: "sleep", min: 1, max: 1, args: "f", volatile: true, nulls: true, ret: returns(sleepType()),
		make: func(_ *expr.Call, k *expr.Compiler) (rowEval, error) {
			return func(a []*expr.Vec, i int32, v *expr.Vec) error {
				v.I[i] = 0
				if a[0].IsNull(i) || a[0].F[i] < 0 {
					if k.Env.Mode&expr.Strict != 0 {
						return mysql.NewSQLError(1210, "HY000", "Incorrect arguments to sleep.")
					}
					k.Env.Note(1210, "Incorrect arguments to sleep.")
					return nil
				}
				return sleep(k.Env, a[0].F[i])
			}, nil
		}}.register()
}

func sleepType() expr.Type {
	t := expr.TypeInt
	t.NotNull = true
	return t
}

// sleep waits for so many seconds, or until the statement must end: that is its error.
func sleep(env *expr.Env, seconds float64) error {
	if seconds < shortestSleep {
		return nil
	}
	ctx := env.Ctx
	if ctx == nil {
		ctx = context.Background()
	}
	t := time.NewTimer(time.Duration(min(seconds*float64(time.Second), math.MaxInt64/2)))
	defer t.Stop()
	select {
	case <-t.C:
		return env.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
