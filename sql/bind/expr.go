package bind

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/bind/tree"
	"github.com/godwitdb/godwit/sql/expr"
)

// exprs binds the expressions of one clause.
type exprs struct {
	q      *query
	s      *scope
	clause string
	// agg and win: aggregates and window functions may stand here.
	agg, win bool
	// spec is the window whose specification this is part of.
	spec  string
	names names
	// definition: it is part of the definition of a table.
	definition bool
	// inserted are the columns of the new row, for VALUES(column) in ON DUPLICATE KEY UPDATE.
	inserted []column
}

// names says how names of the SELECT list are found.
type names uint8

const (
	notItems names = iota
	inGroup        // after the columns of FROM
	inOrder        // after the columns of FROM; bare names are looked up before
	inHaving       // before the columns of FROM
)

func call(name string, args ...expr.Node) (expr.Node, error) {
	f := expr.Lookup(name)
	if f == nil {
		return nil, unsupported("function %s", name)
	}
	return expr.NewCall(f, args...)
}

// castNode converts implicitly to a type.
func castNode(n expr.Node, t expr.Type) (expr.Node, error) {
	if f := n.Type(); f.Same(t) && (!t.Temporal() || f.Scale == t.Scale) {
		return n, nil
	}
	t.NotNull = t.NotNull && n.Type().NotNull
	return &expr.Cast{Arg: n, T: t}, nil
}

// conjunction binds a condition and splits it at its ANDs.
func (x *exprs) conjunction(n ast.ExprNode) ([]expr.Node, error) {
	switch e := n.(type) {
	case *ast.ParenthesesExpr:
		return x.conjunction(e.Expr)
	case *ast.MatchAgainst:
		if x.clause == "where clause" {
			return x.matches(e)
		}
	case *ast.BinaryOperationExpr:
		if e.Op == opcode.LogicAnd {
			l, err := x.conjunction(e.L)
			if err != nil {
				return nil, err
			}
			r, err := x.conjunction(e.R)
			return append(l, r...), err
		}
	}
	c, err := x.scalar(n)
	if err != nil {
		return nil, err
	}
	return []expr.Node{c}, nil
}

// scalar binds an expression of one column.
func (x *exprs) scalar(n ast.ExprNode) (expr.Node, error) {
	e, err := x.node(n)
	if err != nil {
		return nil, err
	}
	if _, ok := e.(*expr.Tuple); ok {
		return nil, fail(1241, "21000", "Operand should contain 1 column(s)")
	}
	return e, nil
}

// node binds an expression.
func (x *exprs) node(n ast.ExprNode) (expr.Node, error) {
	switch n := n.(type) {
	case *tree.Literal:
		return x.literal(n)
	case *tree.Param:
		return x.param(n)
	case *ast.ParenthesesExpr:
		return x.node(n.Expr)
	case *ast.ColumnNameExpr:
		return x.column(n.Name)
	case *ast.BinaryOperationExpr:
		return x.binary(n)
	case *ast.UnaryOperationExpr:
		return x.unary(n)
	case *ast.FuncCallExpr:
		return x.function(n)
	case *ast.FuncCastExpr:
		return x.cast(n)
	case *ast.AggregateFuncExpr:
		return x.aggregate(n)
	case *ast.WindowFuncExpr:
		return x.window(n)
	case *ast.RowExpr:
		return x.tuple(n)
	}
	return x.predicate(n)
}

// formatSelectors are the kinds of value that GET_FORMAT has formats for.
var formatSelectors = map[ast.GetFormatSelectorType]string{
	ast.GetFormatSelectorDate: "date", ast.GetFormatSelectorTime: "time", ast.GetFormatSelectorDatetime: "datetime",
}

// predicate binds what mostly yields truth values.
func (x *exprs) predicate(n ast.ExprNode) (expr.Node, error) {
	switch n := n.(type) {
	case *ast.IsNullExpr:
		return x.test(n.Not, "null", n.Expr)
	case *ast.IsTruthExpr:
		if n.True != 0 {
			return x.test(n.Not, "true", n.Expr)
		}
		return x.test(n.Not, "false", n.Expr)
	case *ast.BetweenExpr:
		return x.between(n)
	case *ast.PatternInExpr:
		return x.in(n)
	case *ast.PatternLikeOrIlikeExpr:
		return x.like(n)
	case *ast.PatternRegexpExpr:
		return x.not2(n.Not, "regexp_like", n.Expr, n.Pattern)
	case *ast.CaseExpr:
		return x.caseOf(n)
	case *ast.SubqueryExpr:
		return x.scalarSub(n)
	case *ast.ExistsSubqueryExpr:
		return x.exists(n)
	case *ast.CompareSubqueryExpr:
		return x.compareSub(n)
	case *ast.VariableExpr:
		return x.variable(n)
	case *ast.SetCollationExpr:
		return x.collate(n)
	case *ast.TimeUnitExpr:
		return x.word(n.Unit.String()), nil
	case *ast.TrimDirectionExpr:
		return x.word(n.Direction.String()), nil
	case *ast.GetFormatSelectorExpr:
		return x.word(formatSelectors[n.Selector]), nil
	case *ast.MatchAgainst:
		m, err := x.match(n)
		if err != nil {
			return nil, err
		}
		return x.rank(m)
	case *ast.ValuesExpr:
		return x.ofInserted(n.Column.Name)
	case *ast.DefaultExpr:
		return x.defaultOf(n.Name)
	}
	return nil, unsupported("expression %s", strings.TrimPrefix(strings.TrimPrefix(typeName(n), "*ast."), "*"))
}

// ofInserted binds VALUES(column).
func (x *exprs) ofInserted(n *ast.ColumnName) (expr.Node, error) {
	if x.inserted == nil {
		return nil, unsupported("VALUES() elsewhere")
	}
	c, err := (&scope{cols: x.inserted}).find(n.Schema.O, n.Table.O, n.Name.O, "field list")
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, unknownColumn(tree.Qualified(n.Schema.O, n.Table.O, n.Name.O), "field list")
	}
	return c.node(), nil
}

// defaultOf binds DEFAULT(column).
func (x *exprs) defaultOf(n *ast.ColumnName) (expr.Node, error) {
	if n == nil {
		return nil, unsupported("DEFAULT in an expression")
	}
	name := tree.Qualified(n.Schema.O, n.Table.O, n.Name.O)
	var col *column
	for at := x.s; at != nil && col == nil; at = at.outer {
		var err error
		if col, err = at.find(n.Schema.O, n.Table.O, n.Name.O, x.clause); err != nil {
			return nil, err
		}
	}
	if col == nil {
		return nil, &Refusal{Err: unknownColumn(name, x.clause)}
	}
	col.read(false)
	t, _, err := x.q.b.s.Catalog.Resolve(col.org.DB, col.org.OrgTable)
	target, ok := t.(algebra.Target)
	if err != nil || !ok || col.org.Column == "" {
		return nil, unsupported("DEFAULT() of such a column")
	}
	for pos, c := range target.Columns()[:target.RowColumn()] {
		if strings.EqualFold(c.Name, col.org.Column) {
			return x.q.givenDefault(target, pos)
		}
	}
	return nil, unsupported("DEFAULT() of such a column")
}

// givenDefault is the constant that a column has by default.
func (q *query) givenDefault(t algebra.Target, pos int) (expr.Node, error) {
	r, col := t.Rule(pos), t.Columns()[pos]
	switch {
	case r.Generated != "":
		return nil, unsupported("DEFAULT() of a generated column")
	case r.AutoInc:
		return castNode(expr.IntConst(0), col.Type)
	case lacksDefault(t, pos):
		return nil, fail(1364, "HY000", "Field '%s' doesn't have a default value", col.Name)
	case r.Default == "":
		return castNode(expr.NullConst(), col.Type)
	}
	n, err := q.definition(r.Default, nil)
	if err != nil {
		return nil, err
	}
	if c, ok := n.(*expr.Call); ok && c.Fn.Name == "now" {
		return nil, unsupported("DEFAULT() of the time")
	}
	if _, ok := n.(*expr.Const); !ok {
		return nil, refuse(3773, "HY000", "DEFAULT function cannot be used with default value expressions")
	}
	return castNode(n, col.Type)
}

// word is a keyword as an argument.
func (x *exprs) word(s string) expr.Node {
	return expr.TextConst(fold(s), x.q.b.s.Collation)
}

func (x *exprs) list(ns []ast.ExprNode) ([]expr.Node, error) {
	var out []expr.Node
	for _, n := range ns {
		e, err := x.scalar(n)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func (x *exprs) tuple(n *ast.RowExpr) (expr.Node, error) {
	t := &expr.Tuple{}
	for _, v := range n.Values {
		e, err := x.node(v)
		if err != nil {
			return nil, err
		}
		t.Elems = append(t.Elems, e)
	}
	return t, nil
}

// not negates an expression if it must.
func not(do bool, n expr.Node, err error) (expr.Node, error) {
	if err != nil || !do {
		return n, err
	}
	return call("not", n)
}

// test binds IS NULL, IS NOT TRUE and the like.
func (x *exprs) test(neg bool, what string, arg ast.ExprNode) (expr.Node, error) {
	a, err := x.scalar(arg)
	if err != nil {
		return nil, err
	}
	if neg {
		return call("isnot"+what, a)
	}
	return call("is"+what, a)
}

func (x *exprs) not2(neg bool, f string, a, b ast.ExprNode) (expr.Node, error) {
	args, err := x.list([]ast.ExprNode{a, b})
	if err != nil {
		return nil, err
	}
	n, err := call(f, args...)
	return not(neg, n, err)
}

func (x *exprs) like(n *ast.PatternLikeOrIlikeExpr) (expr.Node, error) {
	if !n.IsLike {
		return nil, unsupported("ILIKE")
	}
	args, err := x.list([]ast.ExprNode{n.Expr, n.Pattern})
	if err != nil {
		return nil, err
	}
	esc := string([]byte{n.Escape})
	if !n.EscapeExplicit && x.q.b.s.Mode.NoBackslashEscapes || n.Escape == 0 {
		esc = ""
	}
	if n.Escape >= 0x80 {
		return nil, unsupported("LIKE with an escape beyond ASCII")
	}
	e, err := call("like", append(args, expr.TextConst(esc, x.q.b.s.Collation))...)
	return not(n.Not, e, err)
}

func (x *exprs) between(n *ast.BetweenExpr) (expr.Node, error) {
	args, err := x.list([]ast.ExprNode{n.Expr, n.Left, n.Right})
	if err != nil {
		return nil, err
	}
	e, err := call("between", args...)
	return not(n.Not, e, err)
}

func (x *exprs) in(n *ast.PatternInExpr) (expr.Node, error) {
	l, err := x.node(n.Expr)
	if err != nil {
		return nil, err
	}
	if n.Sel != nil {
		return x.inSub(l, n)
	}
	var list []expr.Node
	for _, v := range n.List {
		e, err := x.node(v)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return expr.NewIn(l, list, n.Not)
}

func (x *exprs) caseOf(n *ast.CaseExpr) (expr.Node, error) {
	var whens, thens []expr.Node
	for _, w := range n.WhenClauses {
		c, err := x.scalar(w.Expr)
		if err != nil {
			return nil, err
		}
		t, err := x.scalar(w.Result)
		if err != nil {
			return nil, err
		}
		whens, thens = append(whens, c), append(thens, t)
	}
	var els expr.Node
	var err error
	if n.ElseClause != nil {
		if els, err = x.scalar(n.ElseClause); err != nil {
			return nil, err
		}
	}
	if n.Value == nil {
		return expr.NewCase(whens, thens, els)
	}
	v, err := x.scalar(n.Value)
	if err != nil {
		return nil, err
	}
	for i := range whens {
		if v.Type().Kind == expr.JSON && err == nil {
			whens[i], err = x.truthToJSON(n.WhenClauses[i].Expr, whens[i])
		}
	}
	if err != nil {
		return nil, err
	}
	return expr.NewSimpleCase(v, whens, thens, els)
}

func (x *exprs) binary(n *ast.BinaryOperationExpr) (expr.Node, error) {
	name, ok := tree.BinaryOps[n.Op]
	if !ok {
		return nil, unsupported("operator %s", n.Op)
	}
	if row, sub := rowAndSub(n.L, n.R); sub != nil && (name == "=" || name == "<>") {
		eq, err := x.rowSub(row, sub)
		return not(name == "<>", eq, err)
	}
	l, err := x.node(n.L)
	if err != nil {
		return nil, err
	}
	r, err := x.node(n.R)
	if err != nil {
		return nil, err
	}
	// A truth value is one of a document's too, and no number.
	if l.Type().Kind == expr.JSON {
		r, err = x.truthToJSON(n.R, r)
	} else if r.Type().Kind == expr.JSON {
		l, err = x.truthToJSON(n.L, l)
	}
	if err != nil {
		return nil, err
	}
	if p := x.q.b.s.Places; name == "/" && p != nil && !x.definition {
		return expr.NewCall(expr.Lookup(name).Places(*p), l, r)
	}
	if f := expr.Lookup(name); x.q.b.s.Mode.SignedDifference && f != nil && f.Signed != nil && !x.definition {
		return expr.NewCall(f.Signed, l, r)
	}
	return call(name, l, r)
}

// rowAndSub finds a row constructor beside a subquery; nil if there are not both.
func rowAndSub(l, r ast.ExprNode) (*ast.RowExpr, *ast.SubqueryExpr) {
	row, _ := bare(l).(*ast.RowExpr)
	sub, _ := bare(r).(*ast.SubqueryExpr)
	if row == nil || sub == nil {
		row, _ = bare(r).(*ast.RowExpr)
		sub, _ = bare(l).(*ast.SubqueryExpr)
	}
	if row == nil || sub == nil {
		return nil, nil
	}
	return row, sub
}

// bare is an expression without parentheses.
func bare(n ast.ExprNode) ast.ExprNode {
	for {
		p, ok := n.(*ast.ParenthesesExpr)
		if !ok {
			return n
		}
		n = p.Expr
	}
}

// rowSub binds (a, b) = (SELECT x, y): the subquery has one row at most, and is a row of NULLs if
// it has none.
func (x *exprs) rowSub(row *ast.RowExpr, sub *ast.SubqueryExpr) (expr.Node, error) {
	l, err := x.tuple(row)
	if err != nil {
		return nil, err
	}
	left := l.(*expr.Tuple).Elems
	r, outer, err := x.sub(sub, len(left))
	if err != nil {
		return nil, err
	}
	one := &algebra.Max1Row{In: x.q.b.subRel(r)}
	return &expr.Sub{Number: x.q.b.subNumber(), Kind: expr.SubAny, Rel: one, Left: left, Cmp: "=", Outer: outer, T: expr.TypeBool}, nil
}

func (x *exprs) unary(n *ast.UnaryOperationExpr) (expr.Node, error) {
	if n.Op == opcode.Minus {
		if l, ok := n.V.(*tree.Literal); ok {
			if c, err := x.negative(l); c != nil || err != nil {
				return c, err
			}
		}
	}
	v, err := x.scalar(n.V)
	if err != nil {
		return nil, err
	}
	switch n.Op {
	case opcode.Minus:
		return call("neg", v)
	case opcode.Plus:
		return v, nil
	case opcode.Not, opcode.Not2:
		return call("not", v)
	case opcode.BitNeg:
		return call("~", v)
	}
	return nil, unsupported("operator %s", n.Op)
}

// column binds the name of a column.
func (x *exprs) column(n *ast.ColumnName) (expr.Node, error) {
	if local, err := x.local(n); local != nil || err != nil {
		return local, err
	}
	if x.names == inHaving {
		return x.havingColumn(n)
	}
	c, err := x.s.find(n.Schema.O, n.Table.O, n.Name.O, x.clause)
	if err != nil {
		return nil, err
	}
	if c != nil {
		return c.node(), nil
	}
	if x.names != notItems && n.Table.O == "" {
		it, err := x.q.itemNamed(n, x.clause)
		if err != nil {
			return nil, err
		}
		if it != nil && x.names == inOrder {
			return x.q.itemCol(it), nil
		}
		if it != nil {
			return x.q.itemAsKey(it)
		}
	}
	col, _, err := x.s.lookup(n.Schema.O, n.Table.O, n.Name.O, x.clause)
	if err != nil {
		return nil, err
	}
	return col, nil
}

// local finds a variable of a stored program. It goes before columns of the name, but in the texts
// of views and tables.
func (x *exprs) local(n *ast.ColumnName) (expr.Node, error) {
	b := x.q.b
	if b.s.Local == nil || x.definition || len(b.views) > 0 || n.Schema.O != "" {
		return nil, nil
	}
	return b.s.Local(n.Table.O, n.Name.O)
}

// havingColumn finds a name in HAVING: among the keys of the grouping, then in the SELECT list.
func (x *exprs) havingColumn(n *ast.ColumnName) (expr.Node, error) {
	c, err := x.s.find(n.Schema.O, n.Table.O, n.Name.O, x.clause)
	if err != nil {
		c = nil // it may still be an alias
	}
	if c != nil {
		for _, k := range x.q.keys {
			if k.ID == c.id {
				return c.node(), nil
			}
		}
	}
	it, err2 := x.q.itemNamed(n, x.clause)
	if err2 != nil {
		return nil, err2
	}
	if it != nil {
		if expr.Ordered(it.node) {
			return nil, unsupported("HAVING names an assignment")
		}
		if len(x.q.winsIn(it.node)) > 0 {
			return nil, refuse(3594, "HY000", "You cannot use the alias '%s' of an expression "+
				"containing a window function in this context.'", it.name)
		}
		return it.node, nil
	}
	if err != nil {
		return nil, err
	}
	if c != nil {
		for i := range x.q.items {
			if x.q.items[i].id == c.id {
				return c.node(), nil
			}
		}
		return nil, unknownColumn(tree.Qualified(n.Schema.O, n.Table.O, n.Name.O), x.clause)
	}
	if x.s.outer == nil {
		return nil, unknownColumn(tree.Qualified(n.Schema.O, n.Table.O, n.Name.O), x.clause)
	}
	col, _, err := x.s.lookup(n.Schema.O, n.Table.O, n.Name.O, x.clause)
	if err != nil {
		return nil, err
	}
	return col, nil
}

// sub binds a subquery; width is the number of columns it must have, 0 for any.
func (x *exprs) sub(n ast.ExprNode, width int) (*bound, []expr.ColID, error) {
	s, ok := n.(*ast.SubqueryExpr)
	if !ok {
		return nil, nil, unsupported("subquery %s", typeName(n))
	}
	takes := x.q.takesAggs
	x.q.takesAggs = x.agg
	r, err := x.q.b.query(s.Query, x.s)
	x.q.takesAggs = takes
	if err != nil {
		return nil, nil, err
	}
	if width > 0 && len(r.cols) != width {
		return nil, nil, fail(1241, "21000", "Operand should contain %d column(s)", width)
	}
	var outer []expr.ColID
	for id := range r.outer {
		outer = append(outer, id)
	}
	sortIDs(outer)
	return r, outer, nil
}

// subRel makes the columns of a subquery come in order: those that are compared.
func (b *binder) subRel(r *bound) algebra.Rel {
	p := &algebra.Project{In: r.rel}
	have := map[expr.ColID]bool{}
	same := true
	for i, c := range r.cols {
		it := algebra.Item{ID: c.id, Name: c.name, Node: c.node()}
		if have[c.id] {
			it.ID = b.newID()
		}
		have[c.id] = true
		p.Items = append(p.Items, it)
		in := r.rel.Cols()
		same = same && i < len(in) && in[i] == it.ID && len(in) == len(r.cols)
	}
	if same {
		return r.rel
	}
	return p
}

func (x *exprs) scalarSub(n *ast.SubqueryExpr) (expr.Node, error) {
	r, outer, err := x.sub(n, 1)
	if err != nil {
		return nil, err
	}
	return &expr.Sub{Number: x.q.b.subNumber(), Kind: expr.SubScalar, Rel: x.q.b.subRel(r), Outer: outer, T: r.cols[0].typ.AsNull()}, nil
}

func (x *exprs) exists(n *ast.ExistsSubqueryExpr) (expr.Node, error) {
	if s, ok := n.Sel.(*ast.SubqueryExpr); ok {
		x.q.b.exists = s.Query
	}
	r, outer, err := x.sub(n.Sel, 0)
	if err != nil {
		return nil, err
	}
	t := expr.TypeBool
	t.NotNull = true
	return not(n.Not, &expr.Sub{Number: x.q.b.subNumber(), Kind: expr.SubExists, Rel: r.rel, Outer: outer, T: t}, nil)
}

func (x *exprs) inSub(l expr.Node, n *ast.PatternInExpr) (expr.Node, error) {
	kind, cmp := expr.SubAny, "="
	if n.Not {
		kind, cmp = expr.SubAll, "<>"
	}
	return x.quantified(kind, cmp, l, n.Sel)
}

func (x *exprs) compareSub(n *ast.CompareSubqueryExpr) (expr.Node, error) {
	l, err := x.node(n.L)
	if err != nil {
		return nil, err
	}
	kind := expr.SubAny
	if n.All {
		kind = expr.SubAll
	}
	cmp := tree.BinaryOps[n.Op]
	if _, row := l.(*expr.Tuple); row && !(cmp == "=" && !n.All || cmp == "<>" && n.All) {
		return nil, fail(1241, "21000", "Operand should contain 1 column(s)")
	}
	return x.quantified(kind, cmp, l, n.R)
}

// quantified binds left cmp ANY|ALL (subquery).
func (x *exprs) quantified(kind expr.SubKind, cmp string, l expr.Node, n ast.ExprNode) (expr.Node, error) {
	left := []expr.Node{l}
	if t, ok := l.(*expr.Tuple); ok {
		left = t.Elems
	}
	r, outer, err := x.sub(n, len(left))
	for i := 0; i < len(left) && err == nil; i++ {
		_, err = call(strings.Replace(cmp, "<>", "=", 1), left[i], r.cols[i].node()) // for collations
	}
	if err != nil {
		return nil, err
	}
	return &expr.Sub{Number: x.q.b.subNumber(), Kind: kind, Rel: x.q.b.subRel(r), Left: left, Cmp: cmp, Outer: outer, T: expr.TypeBool}, nil
}
