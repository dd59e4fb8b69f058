package function

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
)

// BooleanMode is the name of the function around what AGAINST has in boolean mode. The engine can
// neither run a MATCH in that mode nor make a plan of it, and it has to prepare statements that our
// own engine runs. No statement can name the function.
const BooleanMode = "in boolean mode"

// ErrMatch is the refusal of a MATCH that the engine would have to run.
var ErrMatch = mysql.NewSQLError(1235, "42000", "This version of Godwit doesn't yet support 'MATCH in this statement, IN BOOLEAN MODE or "+
	"over an index WITH PARSER': give AGAINST a literal, a parameter or a variable")

type booleanMode struct{ expression.UnaryExpressionStub }

func newBooleanMode(_ *sql.Context, x sql.Expression) sql.Expression {
	return &booleanMode{expression.UnaryExpressionStub{Child: x}}
}

var (
	_ sql.FunctionExpression         = (*booleanMode)(nil)
	_ sql.NonDeterministicExpression = (*booleanMode)(nil)
)

// FunctionName implements sql.FunctionExpression.
func (b *booleanMode) FunctionName() string { return BooleanMode }

// Description implements sql.FunctionExpression.
func (b *booleanMode) Description() string { return "marks a search in boolean mode" }

// String implements sql.Expression.
func (b *booleanMode) String() string { return b.Child.String() + " " + BooleanMode }

// Type implements sql.Expression.
func (b *booleanMode) Type(*sql.Context) sql.Type { return types.LongText }

// IsNullable implements sql.Expression.
func (b *booleanMode) IsNullable(ctx *sql.Context) bool { return b.Child.IsNullable(ctx) }

// IsNonDeterministic implements sql.NonDeterministicExpression: the engine computes no plan's
// constant of it.
func (b *booleanMode) IsNonDeterministic() bool { return true }

// WithChildren implements sql.Expression.
func (b *booleanMode) WithChildren(ctx *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	if len(children) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(b, len(children), 1)
	}
	return newBooleanMode(ctx, children[0]), nil
}

// Eval implements sql.Expression: the error is 1235.
func (b *booleanMode) Eval(*sql.Context, sql.Row) (any, error) { return nil, ErrMatch }
