package bound

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/memo"
)

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
