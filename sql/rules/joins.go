package rules

import (
	"fmt"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
)

// keepFilters puts back the predicates that the engine loses when it orders joins.
//
// The engine moves WHERE into the condition of the inner join at the top. Where outer, semi or anti
// joins are in the same tree, an order may need the condition at the same split of the tables as
// such a join; the engine then applies the other join, and forgets the condition. A filter in the
// middle of the tree is forgotten when the tables below it are torn apart.
//
// So all predicates that the rows of the joins must satisfy are collected before, and those that
// the ordered joins do not apply are checked above them. The tables on the far side of an outer or
// semi join cannot be seen from above: there the predicates are put above that side beforehand,
// which is never torn apart.
func keepFilters(optimize analyzer.RuleFunc) analyzer.RuleFunc {
	return func(ctx *sql.Context, a *analyzer.Analyzer, n sql.Node, scope *plan.Scope, sel analyzer.RuleSelector,
		flags *sql.QueryFlags) (sql.Node, transform.TreeIdentity, error) {
		if !n.Resolved() || plan.IsNoRowNode(n) {
			return optimize(ctx, a, n, scope, sel, flags)
		}
		var wanted [][]sql.Expression // by the joins, in the order in which they are met
		prepared, _, err := topJoins(ctx, n, func(j *plan.JoinNode) (sql.Node, transform.TreeIdentity, error) {
			if !mixed(j) {
				wanted = append(wanted, nil)
				return j, transform.SameTree, nil
			}
			wanted = append(wanted, predicates(ctx, j))
			return guardFarSides(ctx, j)
		})
		if err != nil {
			return n, transform.SameTree, err
		}
		if len(wanted) == 0 {
			return optimize(ctx, a, n, scope, sel, flags)
		}
		out, _, err := optimize(ctx, a, prepared, scope, sel, flags)
		if err != nil {
			return n, transform.SameTree, err
		}
		out, met, err := check(ctx, out, wanted, predicates)
		if err == nil && met != len(wanted) {
			// A tree of joins has become something else: then all is checked above, seen or not.
			if prepared, _, err = check(ctx, prepared, wanted, nothing); err == nil {
				return optimize(ctx, a, prepared, scope, sel, flags)
			}
		}
		return out, transform.NewTree, err
	}
}

// check puts filters above the trees of joins, for what they do not apply of what is wanted of
// them, and counts the trees.
func check(ctx *sql.Context, n sql.Node, wanted [][]sql.Expression,
	applied func(*sql.Context, sql.Node) []sql.Expression) (out sql.Node, met int, err error) {
	out, _, err = topJoins(ctx, n, func(j *plan.JoinNode) (sql.Node, transform.TreeIdentity, error) {
		met++
		if met > len(wanted) {
			return j, transform.SameTree, nil
		}
		lost := missing(ctx, wanted[met-1], applied(ctx, j))
		if len(lost) == 0 {
			return j, transform.SameTree, nil
		}
		return plan.NewFilter(expression.JoinAnd(lost...), j), transform.NewTree, nil
	})
	return out, met, err
}

// nothing says that a tree applies no predicate.
func nothing(*sql.Context, sql.Node) []sql.Expression { return nil }

// sides reports which of the rows that go into a join are in its result whole, if they are there at
// all: a predicate that holds for these holds for the result.
func sides(op plan.JoinType) (left, right bool) {
	switch {
	case op.IsFullOuter():
		return false, false
	case op.IsRightOuter(), op == plan.JoinTypeLateralRight:
		return false, true
	case op.IsLeftOuter(), op == plan.JoinTypeLateralLeft, op.IsPartial(), op.IsSemi(), op.IsAnti():
		return true, false
	}
	return true, true
}

// mixed reports whether a tree of joins holds a condition of an inner join, or a filter over joins,
// beside a join of another kind.
func mixed(j *plan.JoinNode) bool {
	inner, other := false, false
	inTree(j, func(n sql.Node) {
		switch n := n.(type) {
		case *plan.JoinNode:
			left, right := sides(n.Op)
			if !left || !right {
				other = true
			} else if n.Filter != nil {
				inner = true
			}
		case *plan.Filter:
			inner = inner || joins(n.Child)
		}
	})
	return inner && other
}

// inTree calls f for the nodes of a tree of joins.
func inTree(n sql.Node, f func(sql.Node)) {
	if _, ok := n.(sql.OpaqueNode); ok {
		return
	}
	f(n)
	for _, c := range n.Children() {
		inTree(c, f)
	}
}

// joins reports whether there is a join in a tree.
func joins(n sql.Node) bool {
	found := false
	inTree(n, func(n sql.Node) {
		if _, ok := n.(*plan.JoinNode); ok {
			found = true
		}
	})
	return found
}

// predicates are what all rows of a tree of joins satisfy, by the conditions of its inner joins and
// by its filters. Filters of single tables are left out: they are never lost.
func predicates(ctx *sql.Context, n sql.Node) []sql.Expression {
	switch n := n.(type) {
	case *plan.JoinNode:
		var out []sql.Expression
		left, right := sides(n.Op)
		if left && right && n.Filter != nil {
			out = expression.SplitConjunction(ctx, n.Filter)
		}
		if left {
			out = append(out, predicates(ctx, n.Left())...)
		}
		if right {
			out = append(out, predicates(ctx, n.Right())...)
		}
		return out
	case *plan.Filter:
		if !joins(n.Child) {
			return nil
		}
		return append(expression.SplitConjunction(ctx, n.Expression), predicates(ctx, n.Child)...)
	case *plan.Project, *plan.Distinct, *plan.Sort, *plan.CachedResults, *plan.HashLookup:
		return predicates(ctx, n.Children()[0])
	}
	return nil
}

// guardFarSides puts the predicates of the far sides of outer and semi joins above these.
func guardFarSides(ctx *sql.Context, j *plan.JoinNode) (sql.Node, transform.TreeIdentity, error) {
	seesLeft, seesRight := sides(j.Op)
	left, sameLeft, err := guardSide(ctx, j.Left(), seesLeft)
	if err != nil {
		return j, transform.SameTree, err
	}
	right, sameRight, err := guardSide(ctx, j.Right(), seesRight)
	if err != nil || sameLeft && sameRight {
		return j, transform.SameTree, err
	}
	n, err := j.WithChildren(ctx, left, right)
	return n, transform.NewTree, err
}

func guardSide(ctx *sql.Context, n sql.Node, seen bool) (sql.Node, transform.TreeIdentity, error) {
	return topJoins(ctx, n, func(j *plan.JoinNode) (sql.Node, transform.TreeIdentity, error) {
		if seen || !mixed(j) {
			return guardFarSides(ctx, j)
		}
		need := predicates(ctx, j)
		n, same, err := guardFarSides(ctx, j)
		if err != nil || len(need) == 0 {
			return n, same, err
		}
		return plan.NewFilter(expression.JoinAnd(need...), n), transform.NewTree, nil
	})
}

// missing are the predicates that are not among others.
func missing(ctx *sql.Context, wanted, have []sql.Expression) (out []sql.Expression) {
	if len(wanted) == 0 {
		return nil
	}
	there := map[string]bool{}
	for _, e := range have {
		there[identity(ctx, e)] = true
	}
	for _, e := range wanted {
		if id := identity(ctx, e); !there[id] {
			there[id] = true
			out = append(out, e)
		}
	}
	return out
}

// identity is the text of a predicate and the columns in it: tables of different subqueries may
// have the same name. An equality is the same one either way round.
func identity(ctx *sql.Context, e sql.Expression) string {
	if eq, ok := e.(*expression.Equals); ok {
		l, r := identity(ctx, eq.Left()), identity(ctx, eq.Right())
		return min(l, r) + " = " + max(l, r)
	}
	var ids []sql.ColumnId
	transform.InspectExpr(ctx, e, func(_ *sql.Context, e sql.Expression) bool {
		if f, ok := e.(*expression.GetField); ok {
			ids = append(ids, f.Id())
		}
		return false
	})
	return fmt.Sprint(e, ids)
}
