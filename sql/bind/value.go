package bind

import (
	"fmt"
	"math"
	"slices"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/parser/types"

	"github.com/godwitdb/godwit/sql/bind/tree"
	"github.com/godwitdb/godwit/sql/expr"
)

func sortIDs(ids []expr.ColID) { slices.Sort(ids) }

func typeName(n any) string { return fmt.Sprintf("%T", n) }

// literal binds a constant.
func (x *exprs) literal(l *tree.Literal) (expr.Node, error) {
	switch v := l.V.(type) {
	case nil:
		return expr.NullConst(), nil
	case bool:
		return expr.Bool(v), nil
	case int64:
		return expr.IntConst(v), nil
	case uint64:
		return expr.UintConst(v), nil
	case float64:
		return expr.FloatConst(v), nil
	case tree.DecimalText:
		return expr.NumberConst(string(v))
	case tree.HexLiteral:
		if introduced(l) {
			return x.introducer(string(v), l.Charset)
		}
		return expr.HexConst(v), nil
	case string:
		if introduced(l) {
			return x.introducer(v, l.Charset)
		}
		return expr.TextConst(v, x.q.b.s.Collation), nil
	}
	return nil, unsupported("literal %T", l.V)
}

// introducer binds a literal whose bytes are text of a character set.
func (x *exprs) introducer(v, charset string) (expr.Node, error) {
	coll, ok := x.q.b.s.DefaultCollation(charset)
	if !ok {
		return nil, fail(1115, "42000", "Unknown character set: '%s'", charset)
	}
	if charset == "binary" {
		return expr.TextConst(v, coll), nil
	}
	enc := coll.CharacterSet().Encoder()
	if enc == nil {
		return nil, unsupported("introducer _%s", charset)
	}
	text, ok := enc.Decode([]byte(v))
	if !ok {
		return nil, fail(1300, "HY000", "Invalid %s character string: '%X'", charset, v)
	}
	return expr.TextConst(string(text), coll), nil
}

func introduced(l *tree.Literal) bool {
	return l.GetType().GetFlag()&mysql.UnderScoreCharsetFlag != 0
}

// negative binds a number behind a minus; nil if it is none.
func (x *exprs) negative(l *tree.Literal) (expr.Node, error) {
	switch v := l.V.(type) {
	case int64:
		return expr.IntConst(-v), nil
	case uint64:
		if v == 1<<63 {
			return expr.IntConst(math.MinInt64), nil
		}
	case float64:
		return expr.FloatConst(-v), nil
	case tree.DecimalText:
		return expr.NumberConst("-" + string(v))
	}
	return nil, nil
}

// param binds a parameter of a prepared statement.
func (x *exprs) param(p *tree.Param) (expr.Node, error) {
	if p.Order >= len(x.q.b.s.Params) {
		return nil, unsupported("parameter without a value")
	}
	return x.q.b.s.Params[p.Order], nil
}

// count binds a number of LIMIT.
func (x *exprs) count(n ast.ExprNode) (expr.Node, error) {
	c, err := x.scalar(n)
	if err != nil {
		return nil, err
	}
	switch c := c.(type) {
	case *expr.Const:
		if !c.T.Integer() || c.V.IsNull() || !c.T.Unsigned() && c.V.I < 0 {
			return nil, unsupported("LIMIT of %s", c)
		}
		return c, nil
	case *expr.Param:
		return c, nil
	}
	return nil, unsupported("LIMIT of an expression")
}

// variable binds @x and @@x.
func (x *exprs) variable(n *ast.VariableExpr) (expr.Node, error) {
	switch {
	case n.Value != nil:
		return x.assign(n)
	case n.IsSystem:
		return x.q.b.s.SysVar(n.Name, n.IsGlobal, n.ExplicitScope)
	}
	return x.userVar(n.Name)
}

// collate binds x COLLATE c.
func (x *exprs) collate(n *ast.SetCollationExpr) (expr.Node, error) {
	a, err := x.scalar(n.Expr)
	if err != nil {
		return nil, err
	}
	c, err := sql.ParseCollation("", n.Collate, false)
	if err != nil {
		return nil, fail(1273, "HY000", "Unknown collation: '%s'", n.Collate)
	}
	t := a.Type()
	if t.Kind == expr.Text && t.Coll.CharacterSet() != c.CharacterSet() {
		if t.Coll.CharacterSet().MaxLength() < 4 || c.CharacterSet().MaxLength() < 4 {
			return nil, fail(1253, "42000", "COLLATION '%s' is not valid for CHARACTER SET '%s'",
				n.Collate, t.Coll.CharacterSet().Name())
		}
	}
	switch {
	case t.Kind == expr.Bytes:
		return nil, fail(1253, "42000", "COLLATION '%s' is not valid for CHARACTER SET 'binary'", n.Collate)
	case t.Numeric() || t.Temporal():
		a = expr.NewCast(a, expr.TextType(0, x.q.b.s.Collation, expr.CoerceNumeric))
		t = a.Type()
	case t.Kind != expr.Text:
		return nil, unsupported("COLLATE of %s", t.Kind)
	}
	to := expr.TextType(t.Length, c, expr.CoerceExplicit)
	to.NotNull = t.NotNull
	return &expr.Cast{Arg: a, T: to, Explicit: true}, nil
}

// cast binds CAST, CONVERT and BINARY.
func (x *exprs) cast(n *ast.FuncCastExpr) (expr.Node, error) {
	a, err := x.scalar(n.Expr)
	if err != nil {
		return nil, err
	}
	t, err := x.castType(n.Tp, n.ExplicitCharSet)
	if err != nil {
		return nil, err
	}
	if t.Kind == expr.JSON && truth(n.Expr, a) {
		return x.truthToJSON(n.Expr, a)
	}
	return expr.NewCast(a, t), nil
}

// truths are the functions whose value is TRUE or FALSE to JSON.
var truths = map[string]bool{"=": true, "<>": true, "<": true, "<=": true, ">": true, ">=": true, "<=>": true, "and": true,
	"or": true, "xor": true, "not": true, "like": true, "regexp_like": true, "between": true, "isnull": true,
	"isnotnull": true, "istrue": true, "isfalse": true, "isnottrue": true, "isnotfalse": true, "$match": true}

// truth reports whether an expression is a truth value, and no number.
func truth(e ast.ExprNode, n expr.Node) bool {
	switch n := n.(type) {
	case *expr.Const:
		l, ok := bare(e).(*tree.Literal)
		if !ok {
			return false
		}
		_, ok = l.V.(bool)
		return ok
	case *expr.Call:
		return truths[n.Fn.Name]
	case *expr.In:
		return true
	case *expr.Sub:
		return n.Kind != expr.SubScalar
	}
	return false
}

// truthToJSON is an expression that meets documents: a truth value is JSON's true or false.
func (x *exprs) truthToJSON(e ast.ExprNode, a expr.Node) (expr.Node, error) {
	if !truth(e, a) {
		return a, nil
	}
	is, err := call("istrue", a)
	if err != nil {
		return nil, err
	}
	not, err := call("isfalse", a)
	if err != nil {
		return nil, err
	}
	word := func(s string) expr.Node { return expr.NewCast(expr.TextConst(s, x.q.b.s.Collation), expr.TypeJSON) }
	return expr.NewCase([]expr.Node{is, not}, []expr.Node{word("true"), word("false")}, nil)
}

// castType is the type that a CAST names.
func (x *exprs) castType(t *types.FieldType, charset bool) (expr.Type, error) {
	if t.IsArray() {
		return expr.Type{}, unsupported("CAST AS ARRAY")
	}
	length, scale := t.GetFlen(), max(t.GetDecimal(), 0)
	switch t.GetType() {
	case mysql.TypeLonglong:
		if mysql.HasUnsignedFlag(t.GetFlag()) {
			return expr.TypeUint, nil
		}
		return expr.TypeInt, nil
	case mysql.TypeNewDecimal:
		if length <= 0 {
			length = 10
		}
		if scale > length {
			return expr.Type{}, fail(1427, "42000", "For float(M,D), double(M,D) or decimal(M,D), M must be >= D (column '').")
		}
		if length > expr.MaxPrecision || scale > expr.MaxScale {
			return expr.Type{}, unsupported("CAST to a wide DECIMAL")
		}
		return expr.DecimalType(length, scale), nil
	case mysql.TypeDouble:
		return expr.TypeFloat, nil
	case mysql.TypeFloat:
		f := expr.TypeFloat
		f.Precision = 24
		return f, nil
	case mysql.TypeDate:
		return expr.TypeDate, nil
	case mysql.TypeDatetime:
		return expr.DatetimeType(scale), nil
	case mysql.TypeDuration:
		return expr.TimeType(scale), nil
	case mysql.TypeYear:
		return expr.TypeYear, nil
	case mysql.TypeJSON:
		return expr.TypeJSON, nil
	case mysql.TypeString, mysql.TypeVarString, mysql.TypeVarchar:
		return x.castString(t, charset)
	}
	return expr.Type{}, unsupported("CAST to type %d", t.GetType())
}

func (x *exprs) castString(t *types.FieldType, charset bool) (expr.Type, error) {
	length := max(t.GetFlen(), 0)
	if t.GetFlen() == 0 {
		return expr.Type{}, unsupported("CAST to CHAR(0)")
	}
	if t.GetCharset() == "binary" {
		return expr.TextType(length, sql.Collation_binary, expr.CoerceImplicit), nil
	}
	coll := x.q.b.s.Collation
	if charset {
		c, ok := x.q.b.s.DefaultCollation(t.GetCharset())
		if !ok {
			return expr.Type{}, fail(1115, "42000", "Unknown character set: '%s'", t.GetCharset())
		}
		coll = c
	}
	return expr.TextType(length, coll, expr.CoerceImplicit), nil
}
