package bound

import (
	"slices"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"

	"github.com/godwitdb/godwit/sql/rules"
)

// Install bounds the plans of an analyzer.
func (b *Builder) Install(a *analyzer.Analyzer) {
	b.Engine = a.ExecBuilder
	a.Coster = coster{a.Coster}
	rules.AroundEach(a, stoppable)
	if !rules.Around(a, "finalizeSubqueries", b.subqueries) {
		panic("the engine has no rule finalizeSubqueries any more, around which subqueries are bounded")
	}
}

// subqueries is put around the rule of the engine that makes expressions with subqueries ready to
// be executed: they keep the rows of their queries. LIKE becomes one that can be interrupted.
func (b *Builder) subqueries(finalize analyzer.RuleFunc) analyzer.RuleFunc {
	return func(ctx *sql.Context, a *analyzer.Analyzer, n sql.Node, scope *plan.Scope, sel analyzer.RuleSelector,
		flags *sql.QueryFlags) (sql.Node, transform.TreeIdentity, error) {
		n, same, err := finalize(ctx, a, n, scope, sel, flags)
		if err != nil {
			return n, same, err
		}
		out, counted, err := transform.NodeExprsWithOpaque(ctx, n, func(_ *sql.Context, e sql.Expression) (sql.Expression,
			transform.TreeIdentity, error) {
			switch e := e.(type) {
			case *plan.Subquery:
				return e.WithExecBuilder(&subquery{b: b}), transform.NewTree, nil
			case *plan.InSubquery:
				return b.inSubquery(ctx, e)
			}
			return interruptible(ctx, e)
		})
		return out, same && counted, err
	}
}

// inSubquery lets an IN compare no long texts.
func (b *Builder) inSubquery(ctx *sql.Context, e *plan.InSubquery) (sql.Expression, transform.TreeIdentity, error) {
	right := e.RightChild
	if q, ok := right.(*plan.Subquery); ok {
		right = q.WithExecBuilder(&subquery{b: b, keys: true})
	}
	n, err := e.WithChildren(ctx, keyed(ctx, e.LeftChild, refuse), right)
	return n, transform.NewTree, err
}

// subquery builds the query of an expression. All rows of one execution are kept until the next.
type subquery struct {
	b *Builder
	// keys: the rows are compared.
	keys bool
}

// Build implements sql.NodeExecBuilder.
func (s *subquery) Build(ctx *sql.Context, n sql.Node, row sql.Row) (sql.RowIter, error) {
	it, err := s.b.Engine.Build(ctx, n, row)
	a := of(ctx)
	if err != nil || a == nil {
		return it, err
	}
	f := &frame{charge: a.keep(s), more: entryBytes}
	return &child{RowIter: it, f: f, each: func(row sql.Row) error {
		if s.keys && slices.ContainsFunc(row, func(v any) bool { return length(v) >= LongCall }) {
			return ErrLongKey
		}
		return f.keepRow(row)
	}}, nil
}
