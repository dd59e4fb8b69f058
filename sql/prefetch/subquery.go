package prefetch

import (
	"slices"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"

	"github.com/godwitdb/godwit/sql/table"
)

// A correlated subquery is run for each row of the query around it. Where it looks a
// table up by values of that row, the rows are read ahead as those of a lookup join are.

// subqueries replaces the source of a node that evaluates such subqueries; nil leaves it to the
// engine.
func (pl *Planner) subqueries(ctx *sql.Context, n sql.Node, exprs []sql.Expression, row sql.Row) (sql.RowIter, error) {
	child := n.Children()[0]
	if _, done := child.(*outerNode); done {
		return nil, nil
	}
	inner := correlated(ctx, exprs)
	if len(inner) == 0 {
		return nil, nil
	}
	nn, err := n.WithChildren(ctx, &outerNode{Node: child, inner: inner})
	if err != nil {
		return nil, err
	}
	return pl.base.ExecBuilder.Build(ctx, nn, row)
}

// correlated are the lookups that subqueries in expressions begin with.
func correlated(ctx *sql.Context, exprs []sql.Expression) (inner []*plan.IndexedTableAccess) {
	for _, e := range exprs {
		sql.Inspect(ctx, e, func(_ *sql.Context, e sql.Expression) bool {
			if sq, ok := e.(*plan.Subquery); ok && !sq.CanCacheResults() {
				inner = append(inner, firstLookups(sq.Query)...)
			}
			return true
		})
	}
	return inner
}

// firstLookups are the lookups of a query that see no columns but those of the query around it.
func firstLookups(n sql.Node) []*plan.IndexedTableAccess {
	for {
		switch t := n.(type) {
		case *plan.IndexedTableAccess:
			if !t.IsStatic() && table.Of(t.Table) != nil {
				return []*plan.IndexedTableAccess{t}
			}
			return nil
		case *plan.JoinNode:
			n = t.Left()
		case *plan.Project, *plan.Filter, *plan.TableAlias, *plan.GroupBy, *plan.Limit, *plan.Sort, *plan.TopN,
			*plan.Distinct, *plan.Having, *plan.Max1Row:
			n = n.Children()[0]
		default:
			return nil
		}
	}
}

// stableSubqueries reports whether a statement leaves alone what subqueries in its expressions
// read.
func stableSubqueries(ctx *sql.Context, n sql.Node, targets []*table.Table, fks ...*plan.ForeignKeyEditor) bool {
	for _, fk := range fks {
		if fk != nil && len(fk.RefActions) > 0 {
			return false
		}
	}
	stable := true
	transform.InspectExpressions(ctx, n, func(_ *sql.Context, e sql.Expression) bool {
		if sq, ok := e.(*plan.Subquery); ok {
			transform.Inspect(sq.Query, func(n sql.Node) bool {
				if tn, ok := n.(sql.TableNode); ok {
					t := table.Of(tn.UnderlyingTable())
					stable = stable && !slices.ContainsFunc(targets,
						func(o *table.Table) bool { return t == nil || o.Def.Desc.ID == t.Def.Desc.ID })
				}
				return stable
			})
		}
		return stable
	})
	return stable
}

// tablesIn are the tables that a plan reads, but for those of its subqueries.
func tablesIn(n sql.Node) (out []*table.Table) {
	transform.Inspect(n, func(n sql.Node) bool {
		if tn, ok := n.(sql.TableNode); ok {
			if t := table.Of(tn.UnderlyingTable()); t != nil {
				out = append(out, t)
			}
		}
		return true
	})
	return out
}
