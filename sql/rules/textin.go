package rules

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// collatedIn has lists of texts compared by their collation. The engine makes a set of the list by
// the bytes of its texts, whatever the collation of what is looked for.
func collatedIn(hash analyzer.RuleFunc) analyzer.RuleFunc {
	return func(ctx *sql.Context, a *analyzer.Analyzer, n sql.Node, scope *plan.Scope, sel analyzer.RuleSelector,
		flags *sql.QueryFlags) (sql.Node, transform.TreeIdentity, error) {
		n, was, err := transform.Node(ctx, n, func(ctx *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
			f, ok := n.(*plan.Filter)
			if !ok {
				return n, transform.SameTree, nil
			}
			e, same, err := transform.Expr(ctx, f.Expression, collateIn)
			if same || err != nil {
				return n, transform.SameTree, err
			}
			n, err = f.WithExpressions(ctx, e)
			return n, transform.NewTree, err
		})
		if err != nil {
			return n, was, err
		}
		n, is, err := hash(ctx, a, n, scope, sel, flags)
		return n, was && is, err
	}
}

func collateIn(ctx *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
	in, ok := e.(*expression.InTuple)
	if !ok || !types.IsTextOnly(in.Left().Type(ctx)) {
		return e, transform.SameTree, nil
	}
	list, ok := in.Right().(expression.Tuple)
	if !ok || len(list) == 0 {
		return e, transform.SameTree, nil
	}
	for _, x := range list {
		if l, ok := x.(*expression.Literal); !ok || !types.IsTextOnly(l.Type(ctx)) && l.Type(ctx) != types.Null {
			return e, transform.SameTree, nil
		}
	}
	left, by := sql.GetCoercibility(ctx, in.Left())
	right, than := sql.GetCoercibility(ctx, list[0])
	collation, _ := sql.ResolveCoercibility(left, by, right, than)
	t := &textIn{in: in, left: in.Left(), collation: collation, texts: map[string]bool{}}
	for _, x := range list {
		s, ok := x.(*expression.Literal).Value().(string)
		if !ok {
			t.hasNull = true
			continue
		}
		k, err := t.weight(s)
		if err != nil {
			return e, transform.SameTree, nil // the engine words it
		}
		t.texts[k] = true
	}
	return t, transform.NewTree, nil
}

// textIn is IN of a list of texts, by their weights in a collation. Its only child is what is
// looked for: the engine wants no lists below expressions that it does not know.
type textIn struct {
	in        *expression.InTuple
	left      sql.Expression
	collation sql.CollationID
	texts     map[string]bool
	hasNull   bool
}

func (t *textIn) weight(s string) (string, error) {
	if t.collation.PadAttribute() == "PAD SPACE" {
		s = strings.TrimRight(s, " ")
	}
	var w bytes.Buffer
	err := t.collation.WriteWeightString(&w, s)
	return w.String(), err
}

// Eval implements sql.Expression.
func (t *textIn) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	v, err := t.left.Eval(ctx, row)
	if err != nil || v == nil {
		return nil, err
	}
	s, ok, err := sql.Unwrap[string](ctx, v)
	if err != nil {
		return nil, err
	}
	if !ok {
		return t.in.Eval(ctx, row)
	}
	k, err := t.weight(s)
	switch {
	case err != nil:
		return nil, err
	case t.texts[k]:
		return true, nil
	case t.hasNull:
		return nil, nil
	}
	return false, nil
}

// Resolved implements sql.Expression.
func (t *textIn) Resolved() bool { return t.left.Resolved() }

// Type implements sql.Expression.
func (t *textIn) Type(ctx *sql.Context) sql.Type { return t.in.Type(ctx) }

// IsNullable implements sql.Expression.
func (t *textIn) IsNullable(ctx *sql.Context) bool { return t.hasNull || t.left.IsNullable(ctx) }

// Children implements sql.Expression.
func (t *textIn) Children() []sql.Expression { return []sql.Expression{t.left} }

// CollationCoercibility implements sql.CollationCoercible.
func (t *textIn) CollationCoercibility(ctx *sql.Context) (sql.CollationID, byte) {
	return t.in.CollationCoercibility(ctx)
}

// IndexScanOperation implements sql.IndexComparisonExpression: statements that are analyzed again
// may find an index.
func (t *textIn) IndexScanOperation() (op sql.IndexScanOp, left, right sql.Expression, ok bool) {
	return sql.IndexScanOpInSet, t.left, t.in.Right(), true
}

// WithChildren implements sql.Expression.
func (t *textIn) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	if len(children) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(t, len(children), 1)
	}
	c := *t
	c.left, c.in = children[0], expression.NewInTuple(children[0], t.in.Right())
	return &c, nil
}

// String implements sql.Expression, in the words of the engine's own set of a list.
func (t *textIn) String() string { return fmt.Sprintf("(%s HASH IN %s)", t.left, t.in.Right()) }

// DebugString implements sql.DebugStringer, as String.
func (t *textIn) DebugString(ctx *sql.Context) string {
	p := sql.NewTreePrinter()
	_ = p.WriteNode("HashIn")
	_ = p.WriteChildren(sql.DebugString(ctx, t.left), sql.DebugString(ctx, t.in.Right()))
	return p.String()
}
