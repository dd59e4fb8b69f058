package expr

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
)

// Bool is the constant TRUE or FALSE.
func Bool(b bool) *Const {
	x := int64(0)
	if b {
		x = 1
	}
	t := TypeBool
	t.NotNull = true
	return &Const{V: Value{Kind: Int, I: x}, T: t}
}

// IntConst is a whole number.
func IntConst(i int64) *Const {
	t := TypeInt
	t.NotNull = true
	t.Length = len(strings.TrimPrefix(strconv.FormatInt(i, 10), "-"))
	return &Const{V: Value{Kind: Int, I: i}, T: t}
}

// UintConst is a whole number above the signed ones.
func UintConst(u uint64) *Const {
	t := TypeUint
	t.NotNull = true
	t.Length = len(strconv.FormatUint(u, 10))
	return &Const{V: Value{Kind: Uint, I: int64(u)}, T: t}
}

// FloatConst is a number with an exponent.
func FloatConst(f float64) *Const {
	t := TypeFloat
	t.NotNull = true
	return &Const{V: Value{Kind: Float, F: f}, T: t}
}

// NumberConst is the constant that a numeric literal stands for: an integer, a DECIMAL with a
// point, a DOUBLE with an exponent.
func NumberConst(s string) (*Const, error) {
	if strings.ContainsAny(s, "eE") {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return nil, mysql.NewSQLError(1367, "22007", "Illegal double '%s' value found during parsing", s)
		}
		return FloatConst(f), nil
	}
	if !strings.Contains(s, ".") {
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return IntConst(i), nil
		}
		if u, err := strconv.ParseUint(s, 10, 64); err == nil {
			return UintConst(u), nil
		}
	}
	if len(s) > longNumber {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return nil, mysql.NewSQLError(1367, "22007", "Illegal double '%.100s...' value found during parsing", s)
		}
		return FloatConst(f), nil
	}
	d, _, err := apd.NewFromString(s)
	if err != nil {
		return nil, mysql.NewSQLError(1064, "42000", "'%s' is no number", s)
	}
	scale := max(0, int(-d.Exponent))
	digits := max(int(d.NumDigits()), scale)
	if digits > MaxPrecision || scale > MaxScale {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return nil, err
		}
		return FloatConst(f), nil
	}
	t := DecimalType(digits, scale)
	t.NotNull = true
	return &Const{V: Value{Kind: Decimal, D: d}, T: t}, nil
}

// TextConst is a string literal.
func TextConst(s string, coll sql.CollationID) *Const {
	t := TextType(len([]rune(s)), coll, CoerceLiteral)
	t.NotNull = true
	return &Const{V: Value{Kind: t.Kind, S: s}, T: t}
}

// HexConst is a literal x'...', 0x... or b'...': bytes, but a number beside numbers.
func HexConst(b []byte) *Const {
	t := TextType(len(b), sql.Collation_binary, CoerceLiteral)
	t.NotNull = true
	return &Const{V: Value{Kind: Bytes, S: string(b)}, T: t, Hex: true}
}

// NullConst is NULL.
func NullConst() *Const { return &Const{T: TypeNull} }

// ConstOf makes a constant of a value and its type.
func ConstOf(v Value, t Type) *Const {
	t.NotNull = !v.IsNull()
	return &Const{V: v, T: t}
}

// Computed is the value of a node in its place. It may be a quotient with all its digits.
func Computed(n Node, v Value) *Const {
	k := ConstOf(v, n.Type())
	if c, ok := n.(*Call); ok && c.Fn.Post != nil {
		k.Shown, _ = c.Fn.Post(c).(*Cast)
	}
	return k
}

// literal is the value in SQL, for EXPLAIN and for comparing nodes.
func (x Value) literal(t Type) string {
	if x.Kind == Null {
		return "NULL"
	}
	if t.Stringy() || t.Temporal() || t.Kind == JSON || t.Kind == Enum || t.Kind == Set {
		return "'" + strings.ReplaceAll(x.Text(t), "'", "''") + "'"
	}
	return x.Text(t)
}

// NewCase makes CASE WHEN ... END. A nil els is NULL.
func NewCase(whens, thens []Node, els Node) (Node, error) {
	if els == nil {
		els = NullConst()
	}
	t, err := Merge("case", append(append([]Node(nil), thens...), els)...)
	if err != nil {
		return nil, err
	}
	c := &Case{Whens: whens, T: t, Else: CastTo(els, t)}
	for _, x := range thens {
		c.Thens = append(c.Thens, CastTo(x, t))
	}
	return c, nil
}

// NewSimpleCase makes CASE x WHEN v THEN ... END.
func NewSimpleCase(x Node, values, thens []Node, els Node) (Node, error) {
	var whens []Node
	if len(values) > 1 {
		all, err := oneCollation("case", append([]Node{x}, values...)...)
		if err != nil {
			return nil, err
		}
		x, values = all[0], all[1:]
	}
	for _, v := range values {
		w, err := call("=", jsonAsText(x, v), jsonAsText(v, x))
		if err != nil {
			return nil, err
		}
		whens = append(whens, w)
	}
	return NewCase(whens, thens, els)
}

// jsonAsText is a JSON document that CASE compares with a text, as a text: CASE compares by the
// types of results, and that of a document is a string, where = would make the text a document.
func jsonAsText(x, with Node) Node {
	if x.Type().Kind == JSON && with.Type().Stringy() && with.Type().Kind != JSON {
		return CastTo(x, TextType(0, sql.Collation_utf8mb4_bin, CoerceImplicit))
	}
	return x
}

// NewCast is CAST(x AS t). What a value becomes that does not fit, follows from the mode.
func NewCast(x Node, t Type) Node {
	if !t.Stringy() {
		x = Exact(x) // the text of a quotient has the digits that are shown
	}
	t.NotNull = castNotNull(x.Type(), t)
	return &Cast{Arg: x, T: t, Explicit: true}
}

// CastTo converts implicitly, if that changes anything.
func CastTo(x Node, t Type) Node {
	from := x.Type()
	if t.Kind == Decimal && from.Kind == Decimal && from.Scale < t.Scale {
		x = Exact(x) // it is rounded to more digits than it shows
	}
	if from.Same(t) || from.Kind == Null && t.Kind == Null {
		return x
	}
	t.NotNull = castNotNull(from, t)
	return &Cast{Arg: x, T: t}
}

// castNotNull reports whether a cast of a value that is not NULL never yields NULL.
func castNotNull(from, to Type) bool {
	if !from.NotNull {
		return false
	}
	if to.Temporal() {
		return from.Dated() && to.Dated() || from.Kind == to.Kind
	}
	return true
}

// NewIn makes x IN (list) or x NOT IN (list).
func NewIn(x Node, list []Node, not bool) (Node, error) {
	if len(list) == 0 {
		return nil, fmt.Errorf("expr: IN without a list")
	}
	if _, ok := x.(*Tuple); ok || len(list) == 1 {
		return inAsOr(x, list, not)
	}
	all, err := oneCollation("in", append([]Node{x}, list...)...)
	if err != nil {
		return nil, err
	}
	x, list = Exact(all[0]), slices.Clone(all[1:])
	for i := range list {
		list[i] = yearConst(Exact(list[i]), x)
	}
	// As in MySQL each element is compared in the type that suits it and x; if that is the same
	// for all, one look into a set will do.
	t, err := compareType("in", x, list[0])
	if err != nil {
		return nil, err
	}
	for _, y := range list[1:] {
		u, err := compareType("in", x, y)
		if err != nil {
			return nil, err
		}
		switch {
		case y.Type().Kind == Null:
		case t.Kind == Null || list[0].Type().Kind == Null && u.Same(t):
			t = u
		case t.Kind == Decimal && u.Kind == Decimal, t.Kind == Decimal && u.Integer(), t.Integer() && u.Kind == Decimal,
			t.Integer() && u.Integer():
			t = mergeCompare(t, u)
		case t.Stringy() && u.Stringy(): // one collation for all: see below
		case !t.Same(u) || t.Kind == JSON:
			return inAsOr(x, list, not)
		default:
			t = widest(t, u)
		}
	}
	if t.Stringy() {
		c, err := MergeCollations("in", true, append([]Node{x}, list...)...)
		if err != nil {
			return nil, err
		}
		t = TextType(0, c.Id, c.Coerce)
	}
	n := &In{Not: not, Cmp: t, Left: CastTo(x, t)}
	for _, y := range list {
		n.List = append(n.List, CastTo(y, t))
	}
	return n, nil
}

func inAsOr(x Node, list []Node, not bool) (Node, error) {
	var or Node
	for _, y := range list {
		eq, err := call("=", x, y)
		if err != nil && len(list) > 1 {
			eq, err = byLeft(x, y, err)
		}
		if err != nil {
			return nil, err
		}
		if or == nil {
			or = eq
			continue
		}
		if or, err = call("or", or, eq); err != nil {
			return nil, err
		}
	}
	if not {
		return call("not", or)
	}
	return or, nil
}

// byLeft compares rows of a list with one that has another collation: by that of the left side, as
// MySQL does in lists of several rows.
func byLeft(x, y Node, was error) (Node, error) {
	l, ok := x.(*Tuple)
	r, ok2 := y.(*Tuple)
	var mix *mysql.SQLError
	if !ok || !ok2 || len(l.Elems) != len(r.Elems) || !errors.As(was, &mix) || mix.Num != 1267 {
		return nil, was
	}
	same := &Tuple{Elems: slices.Clone(r.Elems)}
	for i, e := range same.Elems {
		if a, b := l.Elems[i].Type(), e.Type(); a.Stringy() && b.Stringy() && a.Coll != b.Coll {
			same.Elems[i] = CastTo(e, TextType(b.Length, a.Coll, a.Coercibility))
		}
	}
	return call("=", x, same)
}

// expandTuples makes a condition over the elements of a comparison of row constructors; nil if
// there are none.
func expandTuples(f *Func, args []Node) (Node, error) {
	if len(args) != 2 {
		return nil, nil
	}
	l, ok := args[0].(*Tuple)
	r, ok2 := args[1].(*Tuple)
	if !ok && !ok2 {
		return nil, nil
	}
	if !ok || !ok2 || len(l.Elems) != len(r.Elems) {
		n := 1
		if ok {
			n = len(l.Elems)
		}
		return nil, mysql.NewSQLError(1241, "21000", "Operand should contain %d column(s)", n)
	}
	switch f.Name {
	case "=", "<=>":
		return foldPairs("and", f, l.Elems, r.Elems)
	case "<>":
		return foldPairs("or", f, l.Elems, r.Elems)
	case "<", "<=", ">", ">=":
		return expandOrder(f, l.Elems, r.Elems)
	}
	return nil, mysql.NewSQLError(1241, "21000", "Operand should contain 1 column(s)")
}

func foldPairs(op string, f *Func, l, r []Node) (Node, error) {
	var out Node
	for i := range l {
		n, err := NewCall(f, l[i], r[i])
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = n
			continue
		}
		if out, err = call(op, out, n); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// expandOrder makes (a,b) < (c,d) of a<c OR a=c AND b<d.
func expandOrder(f *Func, l, r []Node) (Node, error) {
	if len(l) == 1 {
		return NewCall(f, l[0], r[0])
	}
	strict, err := call(f.Name[:1], l[0], r[0])
	if err != nil {
		return nil, err
	}
	eq, err := call("=", l[0], r[0])
	if err != nil {
		return nil, err
	}
	rest, err := expandOrder(f, l[1:], r[1:])
	if err != nil {
		return nil, err
	}
	if rest, err = call("and", eq, rest); err != nil {
		return nil, err
	}
	return call("or", strict, rest)
}
