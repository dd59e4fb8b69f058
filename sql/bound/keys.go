package bound

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function/aggregation"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
)

// The engine takes 25 ns for each byte of a text by which it groups, joins or sorts, and cannot be
// interrupted meanwhile. So it does not get texts from LongCall on there: a digest in their place
// where only equality matters, their beginning where rows are sorted, and an error elsewhere.

// ErrLongKey refuses what go-mysql-server would compare without an end in sight.
var ErrLongKey = mysql.NewSQLError(1235, "42000", "This version of Godwit doesn't yet support 'texts of 4 MiB and more in "+
	"MIN, MAX, IN (SELECT ...) and the lists of IN, in a statement that go-mysql-server runs': compare their beginnings (LEFT) or digests (SHA2)")

// mostSorted is how much of a long text rows are sorted by, in bytes. MySQL looks at
// max_sort_length bytes of any text, 1,024 by default.
const mostSorted = 1 << 20

// piece is how much of a text is digested between two looks, in bytes.
const piece = 256 << 10

// key is an expression whose long texts do not get into the engine's hands.
type key struct {
	sql.Expression
	short func(ctx *sql.Context, v any) (any, error)
}

// needsKey reports whether texts of an expression, or of a list of them, may be long.
func needsKey(ctx *sql.Context, e sql.Expression) bool {
	if t, ok := e.(expression.Tuple); ok {
		return slices.ContainsFunc(t, func(e sql.Expression) bool { return needsKey(ctx, e) })
	}
	return e.Resolved() && mayBeLong(ctx, e) && !transform.InspectExpr(ctx, e, isKey)
}

// isKey also finds one below: rules.Short puts its own expressions around it.
func isKey(_ *sql.Context, e sql.Expression) bool {
	_, is := e.(*key)
	return is
}

// keyed puts a key in the place of an expression, or of each of a list, if its texts may be long.
func keyed(ctx *sql.Context, e sql.Expression, short func(ctx *sql.Context, v any) (any, error)) sql.Expression {
	if !needsKey(ctx, e) {
		return e
	}
	if t, ok := e.(expression.Tuple); ok {
		return expression.Tuple(keyedAll(ctx, t, short))
	}
	return &key{e, short}
}

// keyedAll does so for several expressions.
func keyedAll(ctx *sql.Context, es []sql.Expression, short func(ctx *sql.Context, v any) (any, error)) []sql.Expression {
	out := make([]sql.Expression, len(es))
	for i, e := range es {
		out[i] = keyed(ctx, e, short)
	}
	return out
}

// sortedBy are fields by which the engine can sort rows.
func sortedBy(ctx *sql.Context, fields sql.SortFields) sql.SortFields {
	out := make(sql.SortFields, len(fields))
	for i, f := range fields {
		f.Column = keyed(ctx, f.Column, beginning)
		out[i] = f
	}
	return out
}

// Children implements sql.Expression.
func (k *key) Children() []sql.Expression { return []sql.Expression{k.Expression} }

// WithChildren implements sql.Expression.
func (k *key) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	if len(children) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(k, len(children), 1)
	}
	return &key{children[0], k.short}, nil
}

// DebugString implements sql.DebugStringer.
func (k *key) DebugString(ctx *sql.Context) string { return sql.DebugString(ctx, k.Expression) }

// CollationCoercibility implements sql.CollationCoercible.
func (k *key) CollationCoercibility(ctx *sql.Context) (sql.CollationID, byte) {
	return sql.GetCoercibility(ctx, k.Expression)
}

// Eval implements sql.Expression.
func (k *key) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	v, err := k.Expression.Eval(ctx, row)
	if err != nil {
		return nil, err
	}
	if w, ok := v.(sql.AnyWrapper); ok {
		if v, err = w.UnwrapAny(ctx); err != nil {
			return nil, err
		}
	}
	if length(v) < LongCall {
		return v, nil
	}
	return k.short(ctx, v)
}

// refuse gives no value for a long text.
func refuse(*sql.Context, any) (any, error) { return nil, ErrLongKey }

// beginning is what a long text is sorted by.
func beginning(_ *sql.Context, v any) (any, error) {
	switch v := v.(type) {
	case string:
		end := mostSorted
		for end > mostSorted-utf8.UTFMax && !utf8.RuneStart(v[end]) {
			end--
		}
		return v[:end], nil
	case []byte:
		return v[:mostSorted], nil
	}
	return v, nil
}

// digest makes digests: two texts have the same if they are equal by a collation.
func digest(coll sql.CollationID) func(ctx *sql.Context, v any) (any, error) {
	return func(ctx *sql.Context, v any) (any, error) {
		text, isText := v.(string)
		if b, ok := v.([]byte); ok {
			text = string(b)
		}
		sum := sha256.New()
		for len(text) > 0 {
			if err := interrupted(ctx); err != nil {
				return nil, err
			}
			end := min(piece, len(text))
			for isText && end < len(text) && end > piece-utf8.UTFMax && !utf8.RuneStart(text[end]) {
				end--
			}
			if err := coll.WriteWeightString(sum, text[:end]); err != nil {
				return nil, err
			}
			text = text[end:]
		}
		if s := hex.EncodeToString(sum.Sum(nil)); isText {
			return s, nil
		}
		return sum.Sum(nil), nil
	}
}

// digested is an expression with digests in the place of long texts, which are equal as its texts
// are.
func digested(ctx *sql.Context, e sql.Expression) sql.Expression {
	return keyed(ctx, e, digest(collationOf(e.Type(ctx))))
}

// collationOf is by which collation values of a type are equal.
func collationOf(t sql.Type) sql.CollationID {
	if s, ok := t.(sql.StringType); ok {
		return s.Collation()
	}
	return sql.Collation_binary
}

// hashedBy digests long texts among the keys of a hash join that has not begun. Both sides are
// compared as the same type.
func hashedBy(ctx *sql.Context, n *plan.HashLookup) {
	as := func(e sql.Expression, t sql.Type) sql.Expression {
		if !types.IsText(t) {
			return e
		}
		return keyed(ctx, e, digest(collationOf(t)))
	}
	side := func(e sql.Expression) sql.Expression {
		each, isTuple := e.(expression.Tuple)
		kinds, asTuple := n.CompareType.(types.TupleType)
		if !isTuple || !asTuple || len(kinds) != len(each) {
			return as(e, n.CompareType)
		}
		out := make(expression.Tuple, len(each))
		for i := range each {
			out[i] = as(each[i], kinds[i])
		}
		return out
	}
	n.Mutex.Lock()
	defer n.Mutex.Unlock()
	n.LeftProbeKey, n.RightEntryKey = side(n.LeftProbeKey), side(n.RightEntryKey)
}

// within is a function that compares values, such that long texts are not: those of MIN and MAX are
// refused, GROUP_CONCAT sorts by their beginnings.
func within[E sql.Expression](ctx *sql.Context, e E) (E, error) {
	args := slices.Clone(e.Children())
	switch e := any(e).(type) {
	case *aggregation.Min, *aggregation.Max:
		args = keyedAll(ctx, args, refuse)
	case *aggregation.GroupConcat:
		for i := range len(args) - len(e.OutputExpressions()) {
			args[i] = keyed(ctx, args[i], beginning)
		}
	default:
		return e.(E), nil
	}
	n, err := e.WithChildren(ctx, args...)
	if err != nil {
		return e, err
	}
	return n.(E), nil
}

// listed is an IN whose texts are not long.
func listed(ctx *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
	if !slices.ContainsFunc(e.Children(), func(c sql.Expression) bool { return needsKey(ctx, c) }) {
		return e, transform.SameTree, nil
	}
	n, err := e.WithChildren(ctx, keyedAll(ctx, e.Children(), refuse)...)
	return n, transform.NewTree, err
}
