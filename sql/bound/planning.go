package bound

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/memo"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
)

// stoppable lets a statement be interrupted before each rule of the engine's analyzer. What one
// rule does is short: package rules keeps the engine from trying many orders of a join.
func stoppable(apply analyzer.RuleFunc) analyzer.RuleFunc {
	return func(ctx *sql.Context, a *analyzer.Analyzer, n sql.Node, scope *plan.Scope, sel analyzer.RuleSelector,
		flags *sql.QueryFlags) (sql.Node, transform.TreeIdentity, error) {
		if err := interrupted(ctx); err != nil {
			return n, transform.SameTree, err
		}
		return apply(ctx, a, n, scope, sel, flags)
	}
}

// coster lets a statement be interrupted while the engine compares plans.
type coster struct{ memo.Coster }

// EstimateCost implements memo.Coster.
func (c coster) EstimateCost(ctx *sql.Context, e memo.RelExpr, s sql.StatsProvider) (float64, error) {
	if a := of(ctx); a != nil {
		if err := a.goOn(ctx); err != nil {
			return 0, err
		}
	}
	return c.Coster.EstimateCost(ctx, e, s)
}
