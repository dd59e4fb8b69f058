// Package exprtest parses expressions for the tests of packages expr and exec: the usual
// operators, literals, CASE, CAST, IN, BETWEEN, LIKE, INTERVAL and calls.
package exprtest

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/expr"
)

// Parser reads expressions over some columns.
type Parser struct {
	Cols map[string]expr.Node
	// Coll is the collation of string literals.
	Coll sql.CollationID

	toks []string
	pos  int
}

// Parse reads one expression.
func (p *Parser) Parse(text string) (n expr.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(error)
			if !ok {
				panic(r)
			}
			n, err = nil, e
		}
	}()
	if p.Coll == 0 {
		p.Coll = sql.Collation_utf8mb4_0900_ai_ci
	}
	p.toks, p.pos = scan(text), 0
	n = p.expr(0)
	if p.cur() != "" {
		return nil, fmt.Errorf("%q is left of %q", p.cur(), text)
	}
	return n, nil
}

func scan(s string) (out []string) {
	for i := 0; i < len(s); {
		c := s[i]
		start := i
		switch {
		case c == ' ' || c == '\n' || c == '\t':
			i++
			continue
		case c == '\'':
			for i++; i < len(s) && (s[i] != '\'' || i+1 < len(s) && s[i+1] == '\''); i++ {
				if s[i] == '\\' || s[i] == '\'' {
					i++
				}
			}
			i++
		case c >= '0' && c <= '9' || c == '.' && i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '9':
			i = scanNumber(s, i)
		case word(c):
			for i < len(s) && (word(s[i]) || s[i] >= '0' && s[i] <= '9') {
				i++
			}
		default:
			i++
			for _, op := range []string{"<=>", "->>", "<=", ">=", "<>", "!=", "<<", ">>", "->", "&&", "||"} {
				if strings.HasPrefix(s[start:], op) {
					i = start + len(op)
					break
				}
			}
		}
		out = append(out, s[start:i])
	}
	return out
}

func word(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c == '@' }

func scanNumber(s string, i int) int {
	if strings.HasPrefix(s[i:], "0x") {
		for i += 2; i < len(s) && strings.IndexByte("0123456789abcdefABCDEF", s[i]) >= 0; i++ {
		}
		return i
	}
	for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '.') {
		i++
	}
	if i < len(s) && s[i]|0x20 == 'e' {
		i++
		if i < len(s) && (s[i] == '-' || s[i] == '+') {
			i++
		}
		for i < len(s) && s[i] >= '0' && s[i] <= '9' {
			i++
		}
	}
	return i
}

func (p *Parser) cur() string {
	if p.pos < len(p.toks) {
		return p.toks[p.pos]
	}
	return ""
}

func (p *Parser) is(w string) bool { return strings.EqualFold(p.cur(), w) }

func (p *Parser) accept(words ...string) bool {
	if p.pos+len(words) > len(p.toks) {
		return false
	}
	for i, w := range words {
		if !strings.EqualFold(p.toks[p.pos+i], w) {
			return false
		}
	}
	p.pos += len(words)
	return true
}

func (p *Parser) want(w string) {
	if !p.accept(w) {
		panic(fmt.Errorf("%q where %q is wanted", p.cur(), w))
	}
}

func must(n expr.Node, err error) expr.Node {
	if err != nil {
		panic(err)
	}
	return n
}

func call(name string, args ...expr.Node) expr.Node {
	f := expr.Lookup(name)
	if f == nil {
		panic(fmt.Errorf("no function %s", name))
	}
	return must(expr.NewCall(f, args...))
}

// binary operators by precedence.
var binary = map[string]int{
	"or": 1, "||": 1, "xor": 2, "and": 3, "&&": 3,
	"=": 5, "<=>": 5, "<": 5, "<=": 5, ">": 5, ">=": 5, "<>": 5, "!=": 5,
	"|": 6, "&": 7, "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "div": 10, "mod": 10, "%": 10, "^": 11,
	"->": 14, "->>": 14,
}

func (p *Parser) expr(least int) expr.Node {
	left := p.unary(least)
	for {
		if least <= 5 && p.postfix(&left) {
			continue
		}
		op := strings.ToLower(p.cur())
		prec, ok := binary[op]
		if !ok || prec < least {
			return left
		}
		p.pos++
		if (op == "+" || op == "-") && p.is("interval") {
			left = p.interval(left, op)
			continue
		}
		right := p.expr(prec + 1)
		switch op {
		case "||":
			op = "or"
		case "&&":
			op = "and"
		}
		left = call(op, left, right)
	}
}

func (p *Parser) interval(left expr.Node, op string) expr.Node {
	p.want("interval")
	n := p.expr(6)
	unit := expr.TextConst(p.cur(), sql.Collation_utf8mb4_0900_bin)
	p.pos++
	if op == "-" {
		return call("date_sub", left, n, unit)
	}
	return call("date_add", left, n, unit)
}

// postfix reads IS, IN, BETWEEN, LIKE, REGEXP and their negations.
func (p *Parser) postfix(left *expr.Node) bool {
	start := p.pos
	if p.accept("is") {
		not := p.accept("not")
		for _, w := range []string{"null", "true", "false", "unknown"} {
			if p.accept(w) {
				if w == "unknown" {
					w = "null"
				}
				name := "is" + w
				if not {
					name = "isnot" + w
				}
				*left = call(name, *left)
				return true
			}
		}
	}
	if p.accept("collate") {
		*left = call("collate", *left, expr.TextConst(p.cur(), sql.Collation_utf8mb4_0900_bin))
		p.pos++
		return true
	}
	not := p.accept("not")
	var n expr.Node
	switch {
	case p.accept("in"):
		p.want("(")
		*left = must(expr.NewIn(*left, p.list(")"), not))
		return true
	case p.accept("between"):
		lo := p.expr(6)
		p.want("and")
		n = call("between", *left, lo, p.expr(6))
	case p.accept("like"):
		args := []expr.Node{*left, p.expr(6)}
		if p.accept("escape") {
			args = append(args, p.expr(6))
		}
		n = call("like", args...)
	case p.accept("regexp"), p.accept("rlike"):
		n = call("regexp_like", *left, p.expr(6))
	default:
		p.pos = start
		return false
	}
	if not {
		n = call("not", n)
	}
	*left = n
	return true
}

func (p *Parser) list(end string) (out []expr.Node) {
	if p.accept(end) {
		return nil
	}
	for {
		out = append(out, p.expr(0))
		if p.accept(end) {
			return out
		}
		p.want(",")
	}
}

func (p *Parser) unary(least int) expr.Node {
	switch {
	case least <= 4 && p.accept("not"):
		return call("not", p.expr(4))
	case p.accept("!"):
		return call("not", p.unary(12))
	case p.accept("-"):
		return call("neg", p.expr(12))
	case p.accept("+"):
		return p.expr(12)
	case p.accept("~"):
		return call("~", p.expr(12))
	case p.accept("binary"):
		return call("binary", p.expr(12))
	case p.accept("("):
		list := p.list(")")
		if len(list) == 1 {
			return list[0]
		}
		return &expr.Tuple{Elems: list}
	case p.accept("case"):
		return p.caseOf()
	case p.accept("cast", "("):
		x := p.expr(0)
		p.want("as")
		t := p.Type()
		p.want(")")
		return expr.NewCast(x, t)
	}
	return p.primary()
}

func (p *Parser) caseOf() expr.Node {
	var x, els expr.Node
	var whens, thens []expr.Node
	if !p.is("when") {
		x = p.expr(0)
	}
	for p.accept("when") {
		whens = append(whens, p.expr(0))
		p.want("then")
		thens = append(thens, p.expr(0))
	}
	if p.accept("else") {
		els = p.expr(0)
	}
	p.want("end")
	if x != nil {
		return must(expr.NewSimpleCase(x, whens, thens, els))
	}
	return must(expr.NewCase(whens, thens, els))
}

func (p *Parser) primary() expr.Node {
	t := p.cur()
	p.pos++
	switch {
	case t == "":
		panic(fmt.Errorf("an expression is missing"))
	case t[0] == '\'':
		return expr.TextConst(unquote(t), p.Coll)
	case strings.HasPrefix(t, "0x"):
		b, err := hex.DecodeString(strings.Repeat("0", len(t)%2) + t[2:])
		if err != nil {
			panic(err)
		}
		return expr.HexConst(b)
	case t[0] >= '0' && t[0] <= '9' || t[0] == '.':
		n, err := expr.NumberConst(t)
		if err != nil {
			panic(err)
		}
		return n
	}
	name := strings.ToLower(t)
	switch {
	case p.cur() == "(":
		return p.function(name)
	case len(p.cur()) > 1 && p.cur()[0] == '\'':
		types := map[string]expr.Type{"date": expr.TypeDate, "time": expr.TimeType(fsp(p.cur())),
			"timestamp": expr.DatetimeType(fsp(p.cur()))}
		if t, ok := types[name]; ok {
			s := p.primary()
			return must(expr.Fold(expr.NewCast(s, t), &expr.Env{}, false))
		}
	}
	switch name {
	case "null":
		return expr.NullConst()
	case "true", "false":
		return expr.Bool(name == "true")
	}
	if c, ok := p.Cols[name]; ok {
		return c
	}
	panic(fmt.Errorf("no column %s", t))
}

func fsp(lit string) int {
	if at := strings.IndexByte(lit, '.'); at >= 0 {
		return min(len(lit)-at-2, 6)
	}
	return 0
}

func unquote(t string) string {
	t = t[1 : len(t)-1]
	t = strings.ReplaceAll(t, "''", "'")
	var b strings.Builder
	for i := 0; i < len(t); i++ {
		if t[i] == '\\' && i+1 < len(t) {
			i++
			switch t[i] {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			case '%', '_':
				b.WriteByte('\\')
				b.WriteByte(t[i])
			default:
				b.WriteByte(t[i])
			}
			continue
		}
		b.WriteByte(t[i])
	}
	return b.String()
}

func (p *Parser) function(name string) expr.Node {
	p.want("(")
	word := func() expr.Node {
		n := expr.TextConst(p.cur(), sql.Collation_utf8mb4_0900_bin)
		p.pos++
		return n
	}
	switch name {
	case "extract":
		u := word()
		p.want("from")
		x := p.expr(0)
		p.want(")")
		return call("extract", u, x)
	case "timestampdiff":
		u := word()
		p.want(",")
		return call(name, append([]expr.Node{u}, p.list(")")...)...)
	case "convert":
		x := p.expr(0)
		p.want("using")
		u := word()
		p.want(")")
		return call("convert_using", x, u)
	case "date_add", "date_sub", "adddate", "subdate":
		x := p.expr(0)
		p.want(",")
		op := "+"
		if strings.HasSuffix(name, "sub") {
			op = "-"
		}
		n := p.interval(x, op)
		p.want(")")
		return n
	}
	return call(name, p.list(")")...)
}

// Type reads a type as CAST has it, or one of a column.
func (p *Parser) Type() expr.Type {
	name := strings.ToLower(p.cur())
	p.pos++
	var nums []int
	var words []string
	if p.accept("(") {
		for !p.accept(")") {
			if n, err := strconv.Atoi(p.cur()); err == nil {
				nums = append(nums, n)
			} else if p.cur() != "," {
				words = append(words, unquote(p.cur()))
			}
			p.pos++
		}
	}
	nums = append(nums, 0, 0)
	coll := p.Coll
	unsigned := p.accept("unsigned")
	if p.accept("collate") {
		id, err := sql.ParseCollation("", p.cur(), false)
		if err != nil {
			panic(err)
		}
		coll = id
		p.pos++
	}
	switch name {
	case "signed", "bigint", "int":
		t := expr.TypeInt
		if unsigned {
			t = expr.TypeUint
		}
		if name == "int" {
			t.Length = 10
		}
		p.accept("integer")
		return t
	case "unsigned":
		return expr.TypeUint
	case "decimal":
		if nums[0] == 0 {
			nums[0] = 10
		}
		return expr.DecimalType(nums[0], nums[1])
	case "double":
		return expr.TypeFloat
	case "float":
		t := expr.TypeFloat
		t.Precision = 24
		return t
	case "date":
		return expr.TypeDate
	case "datetime":
		return expr.DatetimeType(nums[0])
	case "timestamp":
		return expr.TimestampType(nums[0])
	case "time":
		return expr.TimeType(nums[0])
	case "year":
		return expr.TypeYear
	case "json":
		return expr.TypeJSON
	case "char", "varchar", "text":
		return expr.TextType(nums[0], coll, expr.CoerceImplicit)
	case "binary", "varbinary":
		return expr.TextType(nums[0], sql.Collation_binary, expr.CoerceImplicit)
	case "enum":
		return expr.Type{Kind: expr.Enum, Values: words, Coll: coll, Coercibility: expr.CoerceImplicit}
	case "set":
		return expr.Type{Kind: expr.Set, Values: words, Coll: coll, Coercibility: expr.CoerceImplicit}
	}
	panic(fmt.Errorf("no type %s", name))
}

// ParseType reads a type.
func ParseType(text string) (t expr.Type, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	p := &Parser{Coll: sql.Collation_utf8mb4_0900_ai_ci, toks: scan(text)}
	return p.Type(), nil
}
