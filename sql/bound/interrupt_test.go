package bound

import (
	"context"
	"errors"
	"sort"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// counted is a column that counts how often it is read.
type counted struct {
	sql.Expression
	n int
}

func (c *counted) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	c.n++
	return c.Expression.Eval(ctx, row)
}

// TestInterruptedSort: a sort of a window, of ORDER BY and of GROUP_CONCAT ends soon after its
// statement has been interrupted, however many rows there are.
func TestInterruptedSort(t *testing.T) {
	kctx, cancel := context.WithCancel(context.Background())
	ctx := sql.NewContext(kctx)
	rows := make([]sql.Row, 100_000)
	for i := range rows {
		rows[i] = sql.Row{int64(i * 7919 % len(rows))}
	}
	column := &counted{Expression: expression.NewGetField(0, types.Int64, "a", false)}
	o := &ordering{Sorter: expression.Sorter{SortFields: sql.SortFields{{Column: column}}, Rows: rows, Ctx: ctx},
		at: make([]int, len(rows))}
	cancel()
	sort.Stable(o)
	if !errors.Is(o.LastError, errInterrupted) || column.n > 2*compares {
		t.Errorf("windows: %v after %d values", o.LastError, column.n)
	}
	column.n = 0
	s := &expression.Sorter{SortFields: probed(sql.SortFields{{Column: column}}), Rows: rows, Ctx: ctx}
	sort.Stable(s)
	if s.LastError == nil || column.n > 2*compares {
		t.Errorf("ORDER BY: %v after %d values", s.LastError, column.n)
	}
}

// TestInterruptedPlanner: a rule of the planner does not begin once the statement has been
// interrupted.
func TestInterruptedPlanner(t *testing.T) {
	kctx, cancel := context.WithCancel(context.Background())
	ctx := sql.NewContext(kctx)
	ran := 0
	rule := stoppable(func(_ *sql.Context, _ *analyzer.Analyzer, n sql.Node, _ *plan.Scope, _ analyzer.RuleSelector,
		_ *sql.QueryFlags) (sql.Node, transform.TreeIdentity, error) {
		ran++
		return n, transform.SameTree, nil
	})
	if _, _, err := rule(ctx, nil, plan.NothingImpl, nil, nil, nil); err != nil || ran != 1 {
		t.Fatalf("%v, ran %d times", err, ran)
	}
	cancel()
	if _, _, err := rule(ctx, nil, plan.NothingImpl, nil, nil, nil); !errors.Is(err, errInterrupted) || ran != 1 {
		t.Errorf("interrupted: %v, ran %d times", err, ran)
	}
}
