package named

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// Functions are the functions for the locks, by their names.
func (l *Locks) Functions() map[string]sql.Function {
	out := map[string]sql.Function{}
	for name, f := range map[string]struct {
		args int
		eval func(ctx *sql.Context, args []any) (any, error)
	}{
		"get_lock":          {2, l.get},
		"release_lock":      {1, l.release},
		"release_all_locks": {0, func(ctx *sql.Context, _ []any) (any, error) { return int64(l.ReleaseAll(ctx.Session)), nil }},
		"is_free_lock":      {1, l.isFree},
		"is_used_lock":      {1, l.isUsed},
	} {
		out[name] = sql.FunctionN{Name: name, Fn: func(_ *sql.Context, args ...sql.Expression) (sql.Expression, error) {
			if len(args) != f.args {
				return nil, sql.ErrInvalidArgumentNumber.New(name, fmt.Sprint(f.args), len(args))
			}
			return &call{expression.NaryExpression{ChildExpressions: args}, name, f.eval}, nil
		}}
	}
	return out
}

// call is a call of one of the functions.
type call struct {
	expression.NaryExpression
	name string
	eval func(ctx *sql.Context, args []any) (any, error)
}

var (
	_ sql.FunctionExpression         = (*call)(nil)
	_ sql.NonDeterministicExpression = (*call)(nil)
)

// FunctionName implements sql.FunctionExpression.
func (c *call) FunctionName() string { return c.name }

// Description implements sql.FunctionExpression.
func (c *call) Description() string { return "is about a lock that clients name." }

// IsNonDeterministic implements sql.NonDeterministicExpression.
func (c *call) IsNonDeterministic() bool { return true }

// String implements sql.Expression.
func (c *call) String() string {
	var args []string
	for _, a := range c.ChildExpressions {
		args = append(args, a.String())
	}
	return c.name + "(" + strings.Join(args, ",") + ")"
}

// Type implements sql.Expression.
func (c *call) Type(*sql.Context) sql.Type { return types.Int64 }

// IsNullable implements sql.Expression.
func (c *call) IsNullable(*sql.Context) bool { return true }

// WithChildren implements sql.Expression.
func (c *call) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	if len(children) != len(c.ChildExpressions) {
		return nil, sql.ErrInvalidChildrenNumber.New(c, len(children), len(c.ChildExpressions))
	}
	return &call{expression.NaryExpression{ChildExpressions: children}, c.name, c.eval}, nil
}

// Eval implements sql.Expression.
func (c *call) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	args := make([]any, len(c.ChildExpressions))
	for i, a := range c.ChildExpressions {
		v, err := a.Eval(ctx, row)
		if err != nil {
			return nil, err
		}
		args[i] = v
	}
	return c.eval(ctx, args)
}

// nameOf is the name that an argument gives; NULL is none.
func nameOf(ctx *sql.Context, v any) (string, error) {
	if v == nil {
		return "", errName("NULL")
	}
	t, _, err := types.LongText.Convert(ctx, v)
	if err != nil {
		return "", err
	}
	s, _ := t.(string)
	return s, nil
}

func (l *Locks) get(ctx *sql.Context, args []any) (any, error) {
	name, err := nameOf(ctx, args[0])
	if err != nil || args[1] == nil {
		return nil, err
	}
	v, _, err := types.Float64.Convert(ctx, args[1])
	if err != nil {
		return nil, err
	}
	seconds, _ := v.(float64)
	timeout := time.Duration(-1)
	if seconds = math.Round(seconds); seconds >= 0 && seconds < math.MaxInt32 {
		timeout = time.Duration(seconds) * time.Second
	}
	ok, err := l.Get(ctx, ctx.Session, name, timeout)
	if err != nil {
		return nil, err
	}
	return number(ok), nil
}

func (l *Locks) release(ctx *sql.Context, args []any) (any, error) {
	name, err := nameOf(ctx, args[0])
	if err != nil {
		return nil, err
	}
	mine, known, err := l.Release(ctx.Session, name)
	if err != nil || !known {
		return nil, err
	}
	return number(mine), nil
}

func (l *Locks) isFree(ctx *sql.Context, args []any) (any, error) {
	name, err := nameOf(ctx, args[0])
	if err != nil {
		return nil, err
	}
	owner, err := l.Owner(name)
	if err != nil {
		return nil, err
	}
	return number(owner == nil), nil
}

func (l *Locks) isUsed(ctx *sql.Context, args []any) (any, error) {
	name, err := nameOf(ctx, args[0])
	if err != nil {
		return nil, err
	}
	owner, err := l.Owner(name)
	if err != nil || owner == nil {
		return nil, err
	}
	return int64(owner.ID()), nil
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
