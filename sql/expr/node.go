package expr

import (
	"fmt"
	"strconv"
	"strings"
)

// ColID names a column of an operator's output. It is unique in a statement.
type ColID int32

// Node is a scalar expression. Nodes are immutable; types are derived when they are made.
//
// Make nodes with the constructors (NewCall, NewCase, NewIn, NewCast, ...): they insert the casts
// that MySQL's rules ask for.
type Node interface {
	Type() Type
	// Children are the scalar arguments. Those of a Sub are its left sides.
	Children() []Node
	// With is the node with other children, its type derived again.
	With(children []Node) (Node, error)
	String() string
}

// Col is a column of the input, or of an outer query.
type Col struct {
	ID   ColID
	Name string
	T    Type
}

// Const is a constant.
type Const struct {
	V Value
	T Type
	// Hex marks a literal 0x... or b'...', which is a number where one is asked for.
	Hex bool
	// Shown is, of a quotient with all its digits, that as it is shown; nil of others.
	Shown *Cast
}

// Param is a constant that is known when the plan runs: Env.Params[N], which has the type T.
type Param struct {
	N int
	T Type
}

// Call is a function or operator.
type Call struct {
	Fn   *Func
	Args []Node
	T    Type
	// Cmp is the type in which a comparison takes place, with its collation.
	Cmp Type
	// given are the arguments without the casts that Derive put around them.
	given []Node
}

// Case is CASE WHEN ... THEN ... ELSE ... END. Else is never nil.
type Case struct {
	Whens, Thens []Node
	Else         Node
	T            Type
}

// Cast converts to a type. An implicit one was inserted by a constructor.
type Cast struct {
	Arg      Node
	T        Type
	Explicit bool
	// Round marks the rounding of a quotient to the digits that MySQL shows. Further computation
	// goes on with the argument.
	Round bool
}

// In is Left IN (List) or Left NOT IN (List). All have one type.
type In struct {
	Left Node
	List []Node
	Not  bool
	Cmp  Type
}

// Tuple is a row constructor. It is only an argument of comparisons and IN, which expand it.
type Tuple struct{ Elems []Node }

// SubKind says what a subquery in an expression asks for.
type SubKind uint8

// The kinds of subqueries. Any and All compare Left[i] with the columns by Cmp: = for IN.
const (
	SubScalar SubKind = iota
	SubExists
	SubAny
	SubAll
)

// Sub is a subquery in a scalar expression. The planner makes joins of them; one that remains is
// compiled by Env.CompileSub.
type Sub struct {
	// Number is the same for copies of a subquery, which have one value in a row; 0: it has none.
	Number ColID
	Kind   SubKind
	// Rel is the planner's relation or plan.
	Rel any
	// Left is compared with the columns of the result by Cmp ("=", "<", ...) for Any and All.
	Left []Node
	Cmp  string
	// Outer are the columns of the surrounding query that Rel refers to.
	Outer []ColID
	T     Type
}

// Agg is an aggregate call. It is not compiled as an expression: see NewAcc.
type Agg struct {
	Fn       *AggFunc
	Args     []Node // none for COUNT(*)
	Distinct bool
	// Order and Sep belong to GROUP_CONCAT.
	Order []SortKey
	Sep   string
	T     Type
	// Digits are those behind the point that are shown of an average of exact numbers. T has all
	// that are computed.
	Digits int
}

// SortKey is a key of ORDER BY. NULLs come first, or last if it is descending.
type SortKey struct {
	Expr Node
	Desc bool
}

// Type implements Node.
func (c *Col) Type() Type { return c.T }

// Type implements Node.
func (c *Const) Type() Type { return c.T }

// Type implements Node.
func (p *Param) Type() Type { return p.T }

// Type implements Node.
func (c *Call) Type() Type { return c.T }

// Type implements Node.
func (c *Case) Type() Type { return c.T }

// Type implements Node.
func (c *Cast) Type() Type { return c.T }

// Type implements Node.
func (n *In) Type() Type {
	t := TypeBool
	t.NotNull = n.Left.Type().NotNull
	for _, x := range n.List {
		t.NotNull = t.NotNull && x.Type().NotNull
	}
	return t
}

// Type implements Node.
func (t *Tuple) Type() Type { return Type{Kind: Opaque} }

// Type implements Node.
func (s *Sub) Type() Type { return s.T }

// Type implements Node.
func (a *Agg) Type() Type { return a.T }

// Children implements Node.
func (c *Col) Children() []Node { return nil }

// Children implements Node.
func (c *Const) Children() []Node { return nil }

// Children implements Node.
func (p *Param) Children() []Node { return nil }

// Children implements Node.
func (c *Call) Children() []Node { return c.Args }

// Children implements Node.
func (c *Case) Children() []Node {
	out := make([]Node, 0, 2*len(c.Whens)+1)
	for i := range c.Whens {
		out = append(out, c.Whens[i], c.Thens[i])
	}
	return append(out, c.Else)
}

// Children implements Node.
func (c *Cast) Children() []Node { return []Node{c.Arg} }

// Children implements Node.
func (n *In) Children() []Node { return append([]Node{n.Left}, n.List...) }

// Children implements Node.
func (t *Tuple) Children() []Node { return t.Elems }

// Children implements Node.
func (s *Sub) Children() []Node { return s.Left }

// Children implements Node.
func (a *Agg) Children() []Node {
	out := append([]Node(nil), a.Args...)
	for _, k := range a.Order {
		out = append(out, k.Expr)
	}
	return out
}

// With implements Node.
func (c *Col) With([]Node) (Node, error) { return c, nil }

// With implements Node.
func (c *Const) With([]Node) (Node, error) { return c, nil }

// With implements Node.
func (p *Param) With([]Node) (Node, error) { return p, nil }

// With implements Node.
func (c *Call) With(ch []Node) (Node, error) {
	given := c.givenOf(ch)
	if sameTypes(c.Args, ch) {
		d := *c
		d.Args, d.given = ch, given
		return &d, nil
	}
	return NewCall(c.Fn, given...)
}

// givenOf are new arguments without the casts that Derive put around the present ones: it would
// derive the digits of the result from those of the casts.
func (c *Call) givenOf(ch []Node) []Node {
	out := append([]Node(nil), ch...)
	for i := range c.Args {
		if i >= len(c.given) || i >= len(ch) || c.Args[i] == c.given[i] {
			continue
		}
		was, ok := c.Args[i].(*Cast)
		is, ok2 := ch[i].(*Cast)
		if ok && ok2 && was.Arg == c.given[i] && is.T.Same(was.T) && is.Explicit == was.Explicit && is.Round == was.Round {
			out[i] = is.Arg
		}
	}
	return out
}

// With implements Node.
func (c *Case) With(ch []Node) (Node, error) {
	var whens, thens []Node
	for i := range c.Whens {
		whens, thens = append(whens, ch[2*i]), append(thens, ch[2*i+1])
	}
	return NewCase(whens, thens, ch[len(ch)-1])
}

// With implements Node.
func (c *Cast) With(ch []Node) (Node, error) {
	d := *c
	d.Arg = ch[0]
	if c.Round {
		return roundQuotient(ch[0], c.T.Scale), nil
	}
	if !d.Explicit && ch[0].Type().Same(d.T) {
		return ch[0], nil
	}
	d.T.NotNull = castNotNull(ch[0].Type(), d.T)
	return &d, nil
}

// With implements Node.
func (n *In) With(ch []Node) (Node, error) { return NewIn(ch[0], ch[1:], n.Not) }

// With implements Node.
func (t *Tuple) With(ch []Node) (Node, error) { return &Tuple{ch}, nil }

// With implements Node.
func (s *Sub) With(ch []Node) (Node, error) {
	d := *s
	d.Left = ch
	return &d, nil
}

// With implements Node.
func (a *Agg) With(ch []Node) (Node, error) {
	args := append([]Node(nil), ch[:len(a.Args)]...)
	order := append([]SortKey(nil), a.Order...)
	for i := range order {
		order[i].Expr = ch[len(a.Args)+i]
	}
	return NewAgg(a.Fn, args, a.Distinct, order, a.Sep)
}

func sameTypes(a, b []Node) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := a[i].Type(), b[i].Type()
		if !x.Same(y) || x.NotNull != y.NotNull || x.Precision != y.Precision || x.Scale != y.Scale ||
			x.Coercibility != y.Coercibility || x.Coll != y.Coll {
			return false
		}
	}
	return true
}

// String implements Node.
func (c *Col) String() string {
	if c.Name == "" {
		return "@" + strconv.Itoa(int(c.ID))
	}
	return c.Name + "@" + strconv.Itoa(int(c.ID))
}

// String implements Node.
func (c *Const) String() string { return c.V.literal(c.T) }

// String implements Node.
func (p *Param) String() string { return "?" + strconv.Itoa(p.N) }

// String implements Node.
func (c *Call) String() string {
	if len(c.Args) == 2 && !isWord(c.Fn.Name) || len(c.Args) == 2 && infixWords[c.Fn.Name] {
		return "(" + c.Args[0].String() + " " + strings.ToUpper(c.Fn.Name) + " " + c.Args[1].String() + ")"
	}
	return c.Fn.Name + "(" + joinNodes(c.Args) + ")"
}

var infixWords = map[string]bool{
	"and": true, "or": true, "xor": true, "like": true, "div": true, "is": true, "regexp": true,
}

func isWord(s string) bool { return s != "" && (s[0] >= 'a' && s[0] <= 'z' || s[0] == '_') }

func joinNodes(ns []Node) string {
	ss := make([]string, len(ns))
	for i, n := range ns {
		ss[i] = n.String()
	}
	return strings.Join(ss, ", ")
}

// String implements Node.
func (c *Case) String() string {
	var b strings.Builder
	b.WriteString("case")
	for i := range c.Whens {
		fmt.Fprintf(&b, " when %s then %s", c.Whens[i], c.Thens[i])
	}
	fmt.Fprintf(&b, " else %s end", c.Else)
	return b.String()
}

// String implements Node.
func (c *Cast) String() string { return "cast(" + c.Arg.String() + " as " + c.T.String() + ")" }

// String implements Node.
func (n *In) String() string {
	not := ""
	if n.Not {
		not = "NOT "
	}
	return "(" + n.Left.String() + " " + not + "IN (" + joinNodes(n.List) + "))"
}

// String implements Node.
func (t *Tuple) String() string { return "(" + joinNodes(t.Elems) + ")" }

// String implements Node.
func (s *Sub) String() string {
	kind := [...]string{"scalar", "exists", "any", "all"}[s.Kind]
	if len(s.Left) == 0 {
		return kind + "(subquery)"
	}
	return "(" + joinNodes(s.Left) + " " + s.Cmp + " " + kind + "(subquery))"
}

// String implements Node.
func (a *Agg) String() string {
	if len(a.Args) == 0 {
		return a.Fn.Name + "(*)"
	}
	d := ""
	if a.Distinct {
		d = "distinct "
	}
	return a.Fn.Name + "(" + d + joinNodes(a.Args) + ")"
}

// Walk calls f for n and, where f says true, for what is below it.
func Walk(n Node, f func(Node) bool) {
	if n == nil || !f(n) {
		return
	}
	for _, c := range n.Children() {
		Walk(c, f)
	}
}

// Rewrite replaces nodes from the leaves up: f gets each node with children that are rewritten
// already. What f returns unchanged is shared with n.
func Rewrite(n Node, f func(Node) (Node, error)) (Node, error) {
	ch := n.Children()
	var fresh []Node
	for i, c := range ch {
		d, err := Rewrite(c, f)
		if err != nil {
			return nil, err
		}
		if d != c && fresh == nil {
			fresh = append(make([]Node, 0, len(ch)), ch[:i]...)
		}
		if fresh != nil {
			fresh = append(fresh, d)
		}
	}
	if fresh != nil {
		var err error
		if n, err = n.With(fresh); err != nil {
			return nil, err
		}
	}
	return f(n)
}

// Cols calls f for each column that n reads, those of subqueries' outer references among them.
func Cols(n Node, f func(ColID)) {
	Walk(n, func(n Node) bool {
		switch n := n.(type) {
		case *Col:
			f(n.ID)
		case *Sub:
			for _, id := range n.Outer {
				f(id)
			}
		}
		return true
	})
}

// Equal reports whether two nodes are the same expression: equal text of equal types.
func Equal(a, b Node) bool {
	if a == b {
		return true
	}
	if !a.Type().Same(b.Type()) {
		return false
	}
	switch a := a.(type) {
	case *Col:
		c, ok := b.(*Col)
		return ok && a.ID == c.ID
	case *Const:
		c, ok := b.(*Const)
		return ok && a.V.literal(a.T) == c.V.literal(c.T)
	case *Param:
		c, ok := b.(*Param)
		return ok && a.N == c.N
	case *Sub:
		return false
	}
	return equalInner(a, b)
}

func equalInner(a, b Node) bool {
	switch a := a.(type) {
	case *Call:
		c, ok := b.(*Call)
		if !ok || a.Fn != c.Fn || a.Fn.Volatile {
			return false
		}
	case *Agg:
		c, ok := b.(*Agg)
		if !ok || a.Fn != c.Fn || a.Distinct != c.Distinct || a.Sep != c.Sep || len(a.Order) != len(c.Order) {
			return false
		}
		for i := range a.Order {
			if a.Order[i].Desc != c.Order[i].Desc {
				return false
			}
		}
	case *In:
		c, ok := b.(*In)
		if !ok || a.Not != c.Not {
			return false
		}
	case *Cast:
		if c, ok := b.(*Cast); !ok || a.Explicit != c.Explicit {
			return false
		}
	case *Case:
		if _, ok := b.(*Case); !ok {
			return false
		}
	case *Tuple:
		if _, ok := b.(*Tuple); !ok {
			return false
		}
	}
	x, y := a.Children(), b.Children()
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if !Equal(x[i], y[i]) {
			return false
		}
	}
	return true
}
