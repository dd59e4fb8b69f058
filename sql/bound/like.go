package bound

import (
	"sync/atomic"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/expression/function/json"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/sql/expr/collate"
	"github.com/godwitdb/godwit/sql/rules"
)

// like is LIKE as our own engine has it: it can be interrupted, and takes time that grows with the
// product of the lengths of text and pattern. That of go-mysql-server takes time that grows with a
// power of the length of the text, by the number of % in the pattern.
type like struct {
	*expression.Like
	// last is the pattern that was matched last: mostly there is only one.
	last *atomic.Pointer[ready]
}

// ready is a pattern made ready.
type ready struct {
	pattern string
	escape  rune
	coll    *collate.Collator
	match   *collate.Like
}

// Lend makes a call of a function of the engine one that our own engine computes. Package lent,
// which needs this one, sets it.
var Lend func(name string, e sql.Expression) sql.Expression

// interruptible replaces expressions that the engine could not be interrupted in.
func interruptible(ctx *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
	switch e := e.(type) {
	case *expression.Like:
		return &like{e, new(atomic.Pointer[ready])}, transform.NewTree, nil
	case *json.JSONSearch:
		return &jsonSearch{e}, transform.NewTree, nil
	case *function.RegexpLike: // of the operators; the function is lent already
		return Lend("regexp_like", e), transform.NewTree, nil
	case *expression.Convert, *expression.ConvertUsing:
		return apartIfLong(ctx, e)
	}
	return e, transform.SameTree, nil
}

// Computes builds a node with expressions that no rule of the planner has made interruptible, or
// given short texts, as in changes of rows. It is to be asked before anything else is done for a
// node, since the node is built anew; a nil iterator says that there is nothing to do.
func (b *Builder) Computes(ctx *sql.Context, n sql.Node, row sql.Row) (sql.RowIter, error) {
	switch n.(type) {
	case *plan.Filter, *plan.JoinNode, *plan.Project, *plan.Values, *plan.Set, *plan.UpdateSource, *plan.Update, *plan.InsertInto:
	default:
		return nil, nil
	}
	mend := interruptible
	switch n := n.(type) {
	case *plan.Filter, *plan.Project: // nobody looks at what they compare
		mend = comparing
	case *plan.JoinNode:
		if !n.Op.IsMerge() && !n.Op.IsRange() { // nor here
			mend = comparing
		}
	}
	n, was, err := transform.OneNodeExpressions(ctx, n, mend)
	if err != nil {
		return nil, err
	}
	n, is, err := rules.Short(ctx, n)
	if err != nil || was == transform.SameTree && is == transform.SameTree {
		return nil, err
	}
	return b.Engine.Build(ctx, n, row)
}

// WithChildren implements sql.Expression.
func (l *like) WithChildren(ctx *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	e, err := l.Like.WithChildren(ctx, children...)
	if err != nil {
		return nil, err
	}
	return &like{e.(*expression.Like), new(atomic.Pointer[ready])}, nil
}

// Eval implements sql.Expression.
func (l *like) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	text, ok, err := evalText(ctx, l.LeftChild, row)
	if err != nil || !ok {
		return nil, err
	}
	pattern, ok, err := evalText(ctx, l.RightChild, row)
	if err != nil || !ok {
		return nil, err
	}
	escape, err := l.escape(ctx, row)
	if err != nil {
		return nil, err
	}
	r := l.last.Load()
	if r == nil || r.pattern != pattern || r.escape != escape {
		n := &ready{pattern: pattern, escape: escape}
		if r != nil {
			n.coll = r.coll
		} else {
			id, _ := l.CollationCoercibility(ctx)
			n.coll = collate.Of(id)
		}
		n.match = n.coll.NewLike(pattern, escape)
		l.last.Store(n)
		r = n
	}
	return r.match.Match(text, func() error { return interrupted(ctx) })
}

// escape is the character that takes the meaning from the one after it; 0: none does.
func (l *like) escape(ctx *sql.Context, row sql.Row) (rune, error) {
	if l.Escape == nil {
		return '\\', nil
	}
	text, ok, err := evalText(ctx, l.Escape, row)
	switch {
	case err != nil:
		return 0, err
	case !ok:
		return '\\', nil
	case text == "":
		return 0, nil
	case utf8.RuneCountInString(text) > 1:
		return 0, sql.ErrInvalidArgument.New("ESCAPE")
	}
	r, _ := utf8.DecodeRuneInString(text)
	return r, nil
}

// evalText is the value of an expression as a text; ok is false if it is NULL.
func evalText(ctx *sql.Context, e sql.Expression, row sql.Row) (text string, ok bool, err error) {
	v, err := e.Eval(ctx, row)
	if err != nil || v == nil {
		return "", false, err
	}
	if v, err = sql.UnwrapAny(ctx, v); err != nil {
		return "", false, err
	}
	if s, ok := v.(string); ok {
		return s, true, nil
	}
	s, _, err := types.ConvertToCollatedString(ctx, v, e.Type(ctx))
	return s, true, err
}
