package rules

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// The engine makes a DECIMAL of a text in a time that grows with the square of the number of its
// digits, and with its exponent, for hours, and nothing can interrupt that. So such texts are made
// short before: no DECIMAL has more digits than 65 on either side, so that what is cut off decides
// about nothing.
// What becomes a DOUBLE or a whole number, as it is compared with a number or computed with, takes
// as long as it is, and that cannot be interrupted either.
const (
	mostDigits   = 4096
	mostExponent = "8192"
	// mostOther is how much is left of what is no number. It stands in warnings.
	mostOther = 1024
)

// shortNumbers does so for a whole plan.
func shortNumbers(first analyzer.RuleFunc) analyzer.RuleFunc {
	return func(ctx *sql.Context, a *analyzer.Analyzer, n sql.Node, scope *plan.Scope, sel analyzer.RuleSelector,
		flags *sql.QueryFlags) (sql.Node, transform.TreeIdentity, error) {
		n, was, err := transform.NodeWithOpaque(ctx, n, Short)
		if err != nil {
			return n, was, err
		}
		n, is, err := first(ctx, a, n, scope, sel, flags)
		return n, was && is, err
	}
}

// Short puts a [number] around each text in the expressions of a node, and in their subqueries,
// that may become a number or a date.
func Short(ctx *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
	if !n.Resolved() {
		return n, transform.SameTree, nil
	}
	return transform.OneNodeExpressions(ctx, n, shortBelow)
}

// ShortRows does so for the values of an INSERT that go into columns of numbers and dates: the
// engine converts them itself.
func ShortRows(ctx *sql.Context, n *plan.InsertInto) error {
	x, ok := n.Source.(sql.Expressioner)
	if !ok || n.Destination == nil {
		return nil
	}
	es, sch := slices.Clone(x.Expressions()), n.Destination.Schema(ctx)
	if len(sch) == 0 || len(es)%len(sch) != 0 {
		return nil
	}
	changed := false
	for i, e := range es {
		if _, is := e.(*number); is {
			continue
		}
		// The type of the expression is that of the column already.
		switch t := sch[i%len(sch)].Type; {
		case types.IsDecimal(t):
			es[i], changed = newNumber(e, shortNumber), true
		case isMoment(t):
			es[i], changed = newNumber(e, shortMoment), true
		}
	}
	if !changed {
		return nil
	}
	source, err := x.WithExpressions(ctx, es...)
	if err == nil {
		n.Source = source
	}
	return err
}

// converting are functions that make DECIMALs of their arguments, whatever these are.
var converting = map[string]bool{"round": true, "truncate": true, "ceil": true, "ceiling": true, "floor": true, "abs": true, "mod": true,
	"format": true, "sign": true}

// shortBelow puts numbers around the operands of an expression that has to do with DECIMALs.
func shortBelow(ctx *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
	switch e := e.(type) {
	case *number:
		return e, transform.SameTree, nil
	case *plan.Subquery:
		q, same, err := transform.NodeWithOpaque(ctx, e.Query, Short)
		if same || err != nil {
			return e, transform.SameTree, err
		}
		return e.WithQuery(q), transform.NewTree, nil
	}
	all := e.Children()
	children, others := operands(e, all)
	if !e.Resolved() || len(children) == 0 {
		return e, transform.SameTree, nil
	}
	first, last := 0, len(children)
	if _, is := e.(*expression.SetField); is { // of what is set nothing is made
		first = 1
	}
	is, cut := types.IsText, shortNumber
	switch {
	case decimals(ctx, e, children):
	case doubles(ctx, e, children):
		is = types.IsTextOnly // bytes are compared as bytes
	default:
		last, cut = moments(ctx, e, children), shortMoment
	}
	fresh := slices.Clone(children)
	changed := false
	for i := first; i < last; i++ {
		var shorter bool
		fresh[i], shorter = short(ctx, children[i], is, cut)
		changed = changed || shorter
	}
	if !changed {
		return e, transform.SameTree, nil
	}
	if others != nil {
		fresh = others(fresh)
	}
	k, err := e.WithChildren(ctx, fresh...)
	return k, transform.NewTree, err
}

// operands are the children of an expression but those that a CASE returns as they are; others, if
// there are such, puts them among what is left of the operands.
func operands(e sql.Expression, children []sql.Expression) (_ []sql.Expression, others func([]sql.Expression) []sql.Expression) {
	c, ok := e.(*expression.Case)
	switch {
	case !ok:
		return children, nil
	case c.Expr == nil:
		return nil, nil
	}
	compared := []sql.Expression{c.Expr}
	for _, b := range c.Branches {
		compared = append(compared, b.Cond)
	}
	return compared, func(fresh []sql.Expression) []sql.Expression {
		all := slices.Clone(children) // expression, condition, value, condition, value, ..., else
		all[0] = fresh[0]
		for i := range c.Branches {
			all[1+2*i] = fresh[1+i]
		}
		return all
	}
}

// decimals reports whether an expression makes DECIMALs of texts among its operands, and returns
// none of them as it is.
func decimals(ctx *sql.Context, e sql.Expression, children []sql.Expression) bool {
	switch e := e.(type) {
	case *expression.Convert:
		return types.IsDecimal(e.Type(ctx))
	case expression.Comparer, *expression.Between, *expression.InTuple, *expression.HashInTuple, expression.ArithmeticOp,
		*expression.SetField, *expression.Mod, *expression.IntDiv, *expression.Div, *expression.Case:
		return anyDecimal(ctx, children)
	case *expression.UnaryMinus:
		return true
	case sql.FunctionExpression:
		return converting[strings.ToLower(e.FunctionName())]
	}
	return false
}

// doubles reports whether an expression makes DOUBLEs, or whole numbers, of texts among its
// operands, and returns none of them as it is.
func doubles(ctx *sql.Context, e sql.Expression, children []sql.Expression) bool {
	switch e.(type) {
	case *expression.Convert:
		return types.IsNumber(e.Type(ctx))
	case expression.Comparer, *expression.Between, *expression.InTuple, *expression.HashInTuple, *expression.Case:
		return slices.ContainsFunc(children, func(c sql.Expression) bool {
			t, ok := c.(expression.Tuple)
			return ok && doubles(ctx, e, t) || !ok && types.IsNumber(c.Type(ctx))
		})
	case expression.ArithmeticOp, *expression.Mod, *expression.IntDiv, *expression.Div:
		return types.IsNumber(e.Type(ctx))
	}
	return false
}

// anyDecimal reports whether one of the operands is a DECIMAL.
func anyDecimal(ctx *sql.Context, es []sql.Expression) bool {
	return slices.ContainsFunc(es, func(e sql.Expression) bool {
		if t, ok := e.(expression.Tuple); ok {
			return anyDecimal(ctx, t)
		}
		return types.IsDecimal(e.Type(ctx))
	})
}

// shortAll are operands whose texts are short enough.
func shortAll(ctx *sql.Context, es []sql.Expression, is func(sql.Type) bool, cut func(string) string) (out []sql.Expression, changed bool) {
	out = make([]sql.Expression, len(es))
	for i, e := range es {
		var shorter bool
		out[i], shorter = short(ctx, e, is, cut)
		changed = changed || shorter
	}
	return out, changed
}

// short is an operand whose text is short enough, if its type is one of those that become something
// else.
func short(ctx *sql.Context, e sql.Expression, is func(sql.Type) bool, cut func(string) string) (_ sql.Expression, changed bool) {
	switch e := e.(type) {
	case *number, *expression.BindVar, *expression.Star, *expression.DefaultColumn:
		return e, false
	case expression.Tuple:
		out, changed := shortAll(ctx, e, is, cut)
		return expression.Tuple(out), changed
	case *expression.Literal:
		if s, ok := e.Value().(string); ok && is(e.Type(ctx)) {
			if k := cut(s); k != s {
				return expression.NewLiteral(k, e.Type(ctx)), true
			}
		}
		return e, false
	}
	if !e.Resolved() || !is(e.Type(ctx)) {
		return e, false
	}
	return newNumber(e, cut), true
}

// number is a text that may become a number, or a date. It is as short as cut makes it.
type number struct {
	expression.UnaryExpressionStub
	cut func(string) string
}

func newNumber(e sql.Expression, cut func(string) string) *number {
	return &number{expression.UnaryExpressionStub{Child: e}, cut}
}

// String implements sql.Expression.
func (n *number) String() string { return n.Child.String() }

// Type implements sql.Expression.
func (n *number) Type(ctx *sql.Context) sql.Type { return n.Child.Type(ctx) }

// CollationCoercibility implements sql.CollationCoercible.
func (n *number) CollationCoercibility(ctx *sql.Context) (sql.CollationID, byte) {
	return sql.GetCoercibility(ctx, n.Child)
}

// Eval implements sql.Expression.
func (n *number) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	v, err := n.Child.Eval(ctx, row)
	if err != nil || v == nil {
		return v, err
	}
	return shortValue(ctx, v, n.cut)
}

// shortValue is a value, short enough if it is a text.
func shortValue(ctx *sql.Context, v any, cut func(string) string) (_ any, err error) {
	if w, ok := v.(sql.AnyWrapper); ok {
		if v, err = sql.UnwrapAny(ctx, w); err != nil {
			return nil, err
		}
	}
	switch s := v.(type) {
	case string:
		return cut(s), nil
	case []byte:
		return []byte(cut(string(s))), nil
	}
	return v, nil
}

// WithChildren implements sql.Expression.
func (n *number) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	if len(children) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(n, len(children), 1)
	}
	return newNumber(children[0], n.cut), nil
}

// shortNumber cuts a text so that few digits and a small exponent are left of the number in front
// of it, and a little of what follows.
func shortNumber(s string) string {
	t := strings.TrimLeft(s, " \t\n\v\f\r")
	sign := ""
	if t != "" && (t[0] == '-' || t[0] == '+') {
		sign, t = t[:1], t[1:]
	}
	whole, rest := digits(t)
	fraction := ""
	point := strings.HasPrefix(rest, ".")
	if point {
		fraction, rest = digits(rest[1:])
	}
	number := whole != "" || fraction != ""
	exponent, small := exponentOf(rest)
	other := len(s) - len(rest) + mostOther
	if number && exponent != "" { // leading zeros of an exponent count
		tail, _ := strings.CutPrefix(strings.TrimLeft(rest, "eE"), "-")
		_, tail = digits(strings.TrimPrefix(tail, "+"))
		other = len(s) - len(tail) + mostOther
	}
	if other = min(other, len(s)); !number {
		return s[:other]
	}
	if len(whole) <= mostDigits && len(fraction) <= mostDigits && small {
		return s[:other]
	}
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	whole, fraction = whole[:min(len(whole), mostDigits)], fraction[:min(len(fraction), mostDigits)]
	if point {
		whole += "."
	}
	return sign + whole + fraction + exponent
}

// digits cuts the digits in front of a text off.
func digits(s string) (d, rest string) {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return s[:i], s[i:]
}

// exponentOf is the exponent in front of a text, no larger than it may be, and whether it was so.
func exponentOf(s string) (exponent string, small bool) {
	if s == "" || s[0] != 'e' && s[0] != 'E' {
		return "", true
	}
	sign := ""
	t := s[1:]
	if t != "" && (t[0] == '-' || t[0] == '+') {
		sign, t = t[:1], t[1:]
	}
	d, _ := digits(t)
	if d == "" {
		return "", true
	}
	if d = strings.TrimLeft(d, "0"); len(d) < len(mostExponent) || len(d) == len(mostExponent) && d <= mostExponent {
		return "e" + sign + "0" + d, true
	}
	return "e" + sign + mostExponent, false
}
