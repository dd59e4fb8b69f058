package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// The engine tries all orders of a join of up to engineTries tables, and cannot be interrupted
// meanwhile. That of mostOrdered takes some 40 ms, each more five times as long.
const (
	mostOrdered = 8
	engineTries = 15
)

// padding begins the names of tables that are joined to a tree of joins, and taken out again.
const padding = "\x00padding"

// fewOrders keeps the engine from trying all orders of large joins. Of joins of more than
// engineTries tables it keeps the order that they are written in, so those of a few tables less get
// tables of one row until they have as many.
func fewOrders(optimize analyzer.RuleFunc) analyzer.RuleFunc {
	return func(ctx *sql.Context, a *analyzer.Analyzer, n sql.Node, scope *plan.Scope, sel analyzer.RuleSelector,
		flags *sql.QueryFlags) (sql.Node, transform.TreeIdentity, error) {
		if !n.Resolved() || plan.IsNoRowNode(n) {
			return optimize(ctx, a, n, scope, sel, flags)
		}
		padded, same, err := topJoins(ctx, n, func(j *plan.JoinNode) (sql.Node, transform.TreeIdentity, error) {
			return pad(ctx, j)
		})
		if err != nil || same {
			return optimize(ctx, a, n, scope, sel, flags)
		}
		out, _, err := optimize(ctx, a, padded, scope, sel, flags)
		if err != nil {
			return n, transform.SameTree, err
		}
		if out, _, err = topJoins(ctx, out, unpad); err != nil {
			return n, transform.SameTree, err
		}
		out, _, err = transform.Node(ctx, out, unpadColumns)
		return out, transform.NewTree, err
	}
}

// pad joins tables of one row to a large join. Hints that a comment gives do not matter: the engine
// tries all orders before it looks at them.
func pad(ctx *sql.Context, j *plan.JoinNode) (sql.Node, transform.TreeIdentity, error) {
	tables := leaves(j)
	if tables <= mostOrdered || tables > engineTries {
		return j, transform.SameTree, nil
	}
	out := j
	for i := tables; i <= engineTries; i++ {
		one := plan.NewValues([][]sql.Expression{{expression.NewLiteral(int8(1), types.Int8)}})
		id := 1<<14 + i // beyond those of the statement
		t := plan.NewValueDerivedTable(ctx, one, fmt.Sprintf("%s%d", padding, i)).WithId(sql.TableId(id)).
			WithColumns(sql.NewColSet(sql.ColumnId(id)))
		out = plan.NewCrossJoin(out, t)
	}
	return out, transform.NewTree, nil
}

// leaves is how many tables a tree of joins has.
func leaves(n sql.Node) int {
	if _, ok := n.(sql.OpaqueNode); ok {
		return 1
	}
	switch n := n.(type) {
	case *plan.JoinNode:
		return leaves(n.Left()) + leaves(n.Right())
	case *plan.Filter:
		return leaves(n.Child)
	case *plan.Project:
		return leaves(n.Child)
	}
	return 1
}

// unpad takes the tables that pad has put in out of the top of a tree.
func unpad(j *plan.JoinNode) (sql.Node, transform.TreeIdentity, error) {
	var n sql.Node = j
	same := transform.SameTree
	for {
		j, ok := n.(*plan.JoinNode)
		switch {
		case ok && isPadding(j.Right()):
			n = j.Left()
		case ok && isPadding(j.Left()):
			n = j.Right()
		default:
			return n, same, nil
		}
		same = transform.NewTree
	}
}

// unpadColumns takes the columns of such tables out of what an UPDATE reads: all columns of its
// joins.
func unpadColumns(_ *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
	p, ok := n.(*plan.Project)
	if !ok {
		return n, transform.SameTree, nil
	}
	kept := slices.DeleteFunc(slices.Clone(p.Projections), func(e sql.Expression) bool {
		f, ok := e.(*expression.GetField)
		return ok && strings.HasPrefix(f.Table(), padding)
	})
	if len(kept) == len(p.Projections) {
		return n, transform.SameTree, nil
	}
	return plan.NewProject(kept, p.Child), transform.NewTree, nil
}

func isPadding(n sql.Node) bool {
	for {
		if t, ok := n.(*plan.ValueDerivedTable); ok {
			return strings.HasPrefix(t.Name(), padding)
		}
		c := n.Children()
		if len(c) != 1 {
			return false
		}
		n = c[0]
	}
}
