package bound

import (
	"slices"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
)

// probed are the fields of a sort that can be interrupted: the engine sorts many rows at once.
func probed(fields sql.SortFields) sql.SortFields {
	out := make(sql.SortFields, len(fields))
	copy(out, fields)
	if len(out) > 0 {
		out[0].Column = &probe{Expression: out[0].Column}
	}
	return out
}

// probe is an expression that is an error once the statement has been interrupted.
type probe struct {
	sql.Expression
	n int
}

// compares is after how many evaluations it looks.
const compares = 1024

// Eval implements sql.Expression.
func (p *probe) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	if p.n++; p.n%compares == 0 {
		if err := interrupted(ctx); err != nil {
			return nil, err
		}
	}
	return p.Expression.Eval(ctx, row)
}

// probedFunction is a function whose arguments can be interrupted: the engine evaluates those of
// all rows of a frame, or sorts by them, at once.
func probedFunction[E sql.Expression](ctx *sql.Context, e E) (E, error) {
	args := slices.Clone(e.Children())
	for i, a := range args {
		switch a.(type) {
		case *expression.Star, *expression.Literal, *expression.DistinctExpression:
			continue // the engine looks for these
		}
		args[i] = &probe{Expression: a}
	}
	if len(args) == 0 {
		return e, nil
	}
	n, err := e.WithChildren(ctx, args...)
	if err != nil {
		return e, err
	}
	return n.(E), nil
}
