package rules

import (
	"math"
	"math/bits"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
)

// The engine has short lists of rules for simple statements, made of the package's lists and not of
// an analyzer's. The last rule of all lists checks ranges, once indexes are chosen. Simple SELECTs
// have no use of [mends] unless there are rules of somebody else for all statements.
func init() {
	analyzer.OnceAfterAll = append(analyzer.OnceAfterAll, analyzer.Rule{Id: checkRangesID, Apply: checkRanges})
	analyzer.AlwaysBeforeDefault = append(analyzer.AlwaysBeforeDefault, analyzer.Rule{Id: wholeListsID, Apply: unchanged})
}

// The numbers are above those of the engine's own rules.
const (
	wholeListsID analyzer.RuleId = 9000 + iota
	checkRangesID
)

func unchanged(_ *sql.Context, _ *analyzer.Analyzer, n sql.Node, _ *plan.Scope, _ analyzer.RuleSelector,
	_ *sql.QueryFlags) (sql.Node, transform.TreeIdentity, error) {
	return n, transform.SameTree, nil
}

const (
	errOutOfRange      = 1264 // of a column
	errValueOutOfRange = 1690 // of a result
)

// checkRanges makes integers that overflow an error. The engine lets them wrap around in +, - and
// *, and an UPDATE stores the nearest value that fits.
func checkRanges(ctx *sql.Context, _ *analyzer.Analyzer, n sql.Node, _ *plan.Scope, _ analyzer.RuleSelector,
	_ *sql.QueryFlags) (sql.Node, transform.TreeIdentity, error) {
	if plan.IsDDLNode(n) { // expressions of a definition are kept as text
		return n, transform.SameTree, nil
	}
	c := ranges{}
	transform.Inspect(n, func(n sql.Node) bool {
		switch n := n.(type) {
		case *plan.Update:
			c.ignore = c.ignore || n.Ignore
		case *plan.InsertInto:
			c.ignore = c.ignore || n.Ignore
		}
		return true
	})
	return transform.NodeWithOpaque(ctx, n, c.node)
}

// ranges checks the expressions of a statement.
type ranges struct {
	ignore bool // UPDATE IGNORE, INSERT IGNORE: what does not fit is a warning
}

func (c ranges) node(ctx *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
	n, same, err := transform.OneNodeExpressions(ctx, n, c.expr)
	if err != nil {
		return n, same, err
	}
	if i, ok := n.(*plan.InsertInto); ok && i.Source != nil { // not one of its children
		source, sameSource, err := transform.NodeWithOpaque(ctx, i.Source, c.node)
		if err != nil {
			return n, same, err
		}
		if !sameSource {
			return i.WithSource(source), transform.NewTree, nil
		}
	}
	return n, same, nil
}

func (c ranges) expr(ctx *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
	switch e := e.(type) {
	case *plan.Subquery:
		q, same, err := transform.NodeWithOpaque(ctx, e.Query, c.node)
		if same || err != nil {
			return e, transform.SameTree, err
		}
		return e.WithQuery(q), transform.NewTree, nil
	case *expression.SetField:
		f, ok := e.LeftChild.(*expression.GetField)
		if _, done := e.RightChild.(*Fits); !ok || done || !types.IsNumber(f.Type(ctx)) {
			return e, transform.SameTree, nil
		}
		return expression.NewSetField(f, &Fits{expression.UnaryExpressionStub{Child: e.RightChild}, f, c.ignore}),
			transform.NewTree, nil
	case *expression.Arithmetic:
		if wraps(e.Op) && integer(ctx, e.LeftChild) && integer(ctx, e.RightChild) {
			return &Integers{Arithmetic: e}, transform.NewTree, nil
		}
	}
	return e, transform.SameTree, nil
}

func wraps(op string) bool { return op == "+" || op == "-" || op == "*" }

func integer(ctx *sql.Context, e sql.Expression) bool {
	_, interval := e.(*expression.Interval)
	return !interval && types.IsInteger(e.Type(ctx))
}

// Integers is a sum, difference or product of integers. As in MySQL it is unsigned if one of the
// two is, and an error if it is out of range.
type Integers struct{ *expression.Arithmetic }

// Type implements sql.Expression: BIGINT, or BIGINT UNSIGNED.
func (i *Integers) Type(ctx *sql.Context) sql.Type {
	if types.IsUnsigned(i.LeftChild.Type(ctx)) || types.IsUnsigned(i.RightChild.Type(ctx)) {
		return types.Uint64
	}
	return types.Int64
}

// WithChildren implements sql.Expression.
func (i *Integers) WithChildren(ctx *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	e, err := i.Arithmetic.WithChildren(ctx, children...)
	if err != nil {
		return nil, err
	}
	return &Integers{Arithmetic: e.(*expression.Arithmetic)}, nil
}

// Eval implements sql.Expression: int64, uint64 or nil; the error is MySQL's 1690.
func (i *Integers) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	l, err := i.LeftChild.Eval(ctx, row)
	if err != nil || l == nil {
		return nil, err
	}
	r, err := i.RightChild.Eval(ctx, row)
	if err != nil || r == nil {
		return nil, err
	}
	x, okX := wideOf(l)
	y, okY := wideOf(r)
	if !okX || !okY {
		return i.Arithmetic.Eval(ctx, row)
	}
	sum, ok := wide{}, false
	switch i.Op {
	case "+":
		sum, ok = x.plus(y)
	case "-":
		sum, ok = x.plus(wide{neg: !y.neg, abs: y.abs})
	case "*":
		sum, ok = x.times(y)
	}
	name := "BIGINT"
	if i.Type(ctx) == types.Uint64 {
		if name = "BIGINT UNSIGNED"; ok && (!sum.neg || sum.abs == 0) {
			return sum.abs, nil
		}
	} else if v, fits := sum.signed(); ok && fits {
		return v, nil
	}
	return nil, mysql.NewSQLError(errValueOutOfRange, "22003", "%s value is out of range in '%s'", name, i)
}

// wide is an integer of 64 bits and a sign.
type wide struct {
	neg bool
	abs uint64
}

func wideOf(v any) (wide, bool) {
	switch v := v.(type) {
	case int8:
		return wideInt(int64(v)), true
	case int16:
		return wideInt(int64(v)), true
	case int32:
		return wideInt(int64(v)), true
	case int64:
		return wideInt(v), true
	case int:
		return wideInt(int64(v)), true
	case uint8:
		return wide{abs: uint64(v)}, true
	case uint16:
		return wide{abs: uint64(v)}, true
	case uint32:
		return wide{abs: uint64(v)}, true
	case uint64:
		return wide{abs: v}, true
	case uint:
		return wide{abs: uint64(v)}, true
	}
	return wide{}, false
}

func wideInt(v int64) wide {
	if v < 0 {
		return wide{neg: true, abs: -uint64(v)}
	}
	return wide{abs: uint64(v)}
}

func (w wide) plus(o wide) (wide, bool) {
	if w.neg == o.neg {
		sum, carry := bits.Add64(w.abs, o.abs, 0)
		return wide{w.neg, sum}, carry == 0
	}
	if w.abs >= o.abs {
		return wide{w.neg, w.abs - o.abs}, true
	}
	return wide{o.neg, o.abs - w.abs}, true
}

func (w wide) times(o wide) (wide, bool) {
	hi, lo := bits.Mul64(w.abs, o.abs)
	return wide{w.neg != o.neg, lo}, hi == 0
}

func (w wide) signed() (int64, bool) {
	if w.neg {
		return -int64(w.abs), w.abs <= 1<<63
	}
	return int64(w.abs), w.abs <= math.MaxInt64
}

// Fits is a value that is assigned to a numeric column: an error if it is out of range.
type Fits struct {
	expression.UnaryExpressionStub
	column *expression.GetField
	ignore bool
}

var _ sql.Expression = (*Fits)(nil)

// Type implements sql.Expression.
func (f *Fits) Type(ctx *sql.Context) sql.Type { return f.Child.Type(ctx) }

// String implements sql.Expression: that of the value.
func (f *Fits) String() string { return f.Child.String() }

// DebugString implements sql.DebugStringer: that of the value.
func (f *Fits) DebugString(ctx *sql.Context) string { return sql.DebugString(ctx, f.Child) }

// CollationCoercibility implements sql.CollationCoercible.
func (f *Fits) CollationCoercibility(ctx *sql.Context) (sql.CollationID, byte) {
	return sql.GetCoercibility(ctx, f.Child)
}

// WithChildren implements sql.Expression.
func (f *Fits) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	if len(children) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(f, len(children), 1)
	}
	return &Fits{expression.UnaryExpressionStub{Child: children[0]}, f.column, f.ignore}, nil
}

// Eval implements sql.Expression; the error is MySQL's 1264. Without strict mode it is a warning,
// and the nearest value that fits is stored.
func (f *Fits) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	v, err := f.Child.Eval(ctx, row)
	if err != nil || v == nil {
		return v, err
	}
	if types.IsDecimal(f.column.Type(ctx)) {
		if v, err = shortValue(ctx, v, shortNumber); err != nil {
			return nil, err
		}
	}
	var nearest any
	var in sql.ConvertInRange
	if t, ok := f.column.Type(ctx).(sql.RoundingNumberType); ok {
		nearest, in, err = t.ConvertRound(ctx, v)
	} else {
		nearest, in, err = f.column.Type(ctx).Convert(ctx, v)
	}
	if err != nil {
		return v, nil // SetField tells the error
	}
	if in == sql.InRange {
		return nearest, nil
	}
	if !f.ignore && sql.LoadSqlMode(ctx).Strict() {
		return nil, mysql.NewSQLError(errOutOfRange, "22003", "Out of range value for column '%s' at row 1", f.column.Name())
	}
	ctx.Warn(errOutOfRange, "Out of range value for column '%s' at row 1", f.column.Name())
	return nearest, nil
}
