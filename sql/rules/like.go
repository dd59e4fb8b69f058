package rules

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// keepEscapes keeps the engine from making comparisons of LIKE patterns with escapes: it would
// compare with the text of the pattern, backslashes and all. It leaves patterns alone whose escape
// character is given, so it is given to those that need it.
func keepEscapes(simplify analyzer.RuleFunc) analyzer.RuleFunc {
	return func(ctx *sql.Context, a *analyzer.Analyzer, n sql.Node, scope *plan.Scope, sel analyzer.RuleSelector,
		flags *sql.QueryFlags) (sql.Node, transform.TreeIdentity, error) {
		if !n.Resolved() {
			return simplify(ctx, a, n, scope, sel, flags)
		}
		n, was, err := transform.NodeWithOpaque(ctx, n, giveEscapes)
		if err != nil {
			return n, was, err
		}
		n, is, err := simplify(ctx, a, n, scope, sel, flags)
		return n, was && is, err
	}
}

// giveEscapes works on the nodes that the engine simplifies, and on the subqueries in them.
func giveEscapes(ctx *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
	switch n.(type) {
	case *plan.Filter, *plan.JoinNode:
		return transform.OneNodeExpressions(ctx, n, giveEscape)
	}
	return n, transform.SameTree, nil
}

func giveEscape(ctx *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
	switch e := e.(type) {
	case *plan.Subquery:
		q, same, err := transform.NodeWithOpaque(ctx, e.Query, giveEscapes)
		if same || err != nil {
			return e, transform.SameTree, err
		}
		return e.WithQuery(q), transform.NewTree, nil
	case *expression.Like:
		if l, ok := e.RightChild.(*expression.Literal); ok && e.Escape == nil {
			if s, ok := l.Value().(string); ok && strings.Contains(s, `\`) {
				return expression.NewLike(e.LeftChild, e.RightChild, expression.NewLiteral(`\`, types.LongText)),
					transform.NewTree, nil
			}
		}
	}
	return e, transform.SameTree, nil
}
