package function

import (
	"fmt"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// sign is SIGN(x): -1, 0 or 1. The engine's one rounds x to an integer first, so SIGN(0.3) is 0.
type sign struct{ expression.UnaryExpressionStub }

func newSign(_ *sql.Context, x sql.Expression) sql.Expression {
	return &sign{expression.UnaryExpressionStub{Child: x}}
}

var _ sql.FunctionExpression = (*sign)(nil)

// FunctionName implements sql.FunctionExpression.
func (s *sign) FunctionName() string { return "sign" }

// Description implements sql.FunctionExpression.
func (s *sign) Description() string { return "returns -1, 0 or 1, by the sign of a number" }

// String implements sql.Expression.
func (s *sign) String() string { return fmt.Sprintf("sign(%s)", s.Child) }

// Type implements sql.Expression.
func (s *sign) Type(*sql.Context) sql.Type { return types.Int8 }

// IsNullable implements sql.Expression.
func (s *sign) IsNullable(ctx *sql.Context) bool { return s.Child.IsNullable(ctx) }

// WithChildren implements sql.Expression.
func (s *sign) WithChildren(ctx *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	if len(children) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(s, len(children), 1)
	}
	return newSign(ctx, children[0]), nil
}

// Eval implements sql.Expression. What is no number counts as its leading digits, as in MySQL.
func (s *sign) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	x, err := s.Child.Eval(ctx, row)
	if err != nil || x == nil {
		return nil, err
	}
	// A double has the sign of every number that MySQL has.
	v, _, err := types.Float64.Convert(ctx, x)
	if err != nil && !sql.ErrTruncatedIncorrect.Is(err) {
		return nil, err
	}
	switch f, _ := v.(float64); {
	case f < 0:
		return int8(-1), nil
	case f > 0:
		return int8(1), nil
	}
	return int8(0), nil
}
