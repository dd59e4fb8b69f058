package program

import (
	"strings"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/token"
)

// Parse reads the text of a CREATE PROCEDURE, FUNCTION or TRIGGER.
func Parse(text string, m token.Mode) (*Program, error) {
	p, _, err := parse(&parser{text: text, ts: token.Scan(text, m)})
	return p, err
}

// ParseFirst does so with a text in which other statements may follow; rest is what follows.
func ParseFirst(text string, m token.Mode) (p *Program, rest string, err error) {
	return parse(&parser{text: text, ts: token.Scan(text, m), first: true})
}

func parse(s *parser) (p *Program, rest string, err error) {
	if err = guarded(func() { p = s.create() }); err != nil {
		return nil, "", err
	}
	return p, s.text[min(s.tok().From, len(s.text)):], nil
}

// ParseBody reads the body of an event, or a statement that is to run as one.
func ParseBody(name, text string, m token.Mode) (*Program, error) {
	p, _, err := parse(&parser{text: "CREATE EVENT e DO " + text, ts: token.Scan("CREATE EVENT e DO "+text, m)})
	if err == nil {
		p.Name = name
	}
	return p, err
}

// ParseCall reads a CALL.
func ParseCall(text string, m token.Mode) (c *Call, err error) {
	s := &parser{text: text, ts: token.Scan(text, m)}
	err = guarded(func() {
		s.word("call")
		c = s.call()
		s.took(";")
		if s.tok().Kind != token.End {
			s.fail()
		}
	})
	return c, err
}

// ParseDiagnostics reads a GET DIAGNOSTICS; rest is what stands behind its semicolon.
func ParseDiagnostics(text string, m token.Mode) (d *Diagnostics, rest string, err error) {
	s := &parser{text: text, ts: token.Scan(text, m)}
	err = guarded(func() {
		d = s.diagnostics().(*Diagnostics)
		if !s.took(";") && s.tok().Kind != token.End {
			s.fail()
		}
	})
	if err != nil {
		return nil, "", err
	}
	return d, text[min(s.ts[s.at-1].To, len(text)):], nil
}

// guarded returns what is wrong in a text that read reads.
func guarded(read func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			bad, ok := r.(syntax)
			if !ok {
				panic(r)
			}
			err = bad.error
		}
	}()
	read()
	return nil
}

// syntax is a panic of the parser.
type syntax struct{ error }

// parser reads a program.
type parser struct {
	text   string
	ts     []token.Token
	at     int
	kind   Kind
	labels []string
	depth  int
	// first: other statements may follow.
	first bool
	// returns: a RETURN was read.
	returns bool
	// params are those of the program, blocks the blocks around the present token.
	params []Param
	blocks []*Block
	// assigned are the tokens with which assignments begin.
	assigned map[int]bool
}

// deepest is how deep statements may nest.
const deepest = 500

func (p *parser) tok() token.Token { return p.ts[p.at] }

// ahead is a token behind the present one.
func (p *parser) ahead(n int) token.Token { return p.ts[min(p.at+n, len(p.ts)-1)] }

func (p *parser) fail() {
	near := p.text[min(p.tok().From, len(p.text)):]
	panic(syntax{mysql.NewSQLError(1064, "42000", "You have an error in your SQL syntax near '%s' at line %d",
		strings.ToValidUTF8(near[:min(len(near), 80)], ""), 1+strings.Count(p.text[:len(p.text)-len(near)], "\n"))})
}

func (p *parser) refuse(code int, state, format string, args ...any) {
	panic(syntax{mysql.NewSQLError(code, state, format, args...)})
}

// took skips a word or operator if it is the next token.
func (p *parser) took(words ...string) bool {
	for i, w := range words {
		if !p.ahead(i).Is(w) {
			return false
		}
	}
	p.at += len(words)
	return true
}

// word skips words that must come.
func (p *parser) word(words ...string) {
	if !p.took(words...) {
		p.fail()
	}
}

// name reads a name.
func (p *parser) name() string {
	t := p.tok()
	if !t.Named() {
		p.fail()
	}
	p.at++
	return t.Text
}

// qualified reads a name that may have that of a database before it.
func (p *parser) qualified() (db, name string) {
	name = p.name()
	if p.took(".") {
		return name, p.name()
	}
	return "", name
}

// create reads the head of a program, and the body.
func (p *parser) create() *Program {
	out := &Program{}
	alter := p.took("alter")
	if !alter {
		p.word("create")
	}
	out.Head.Replace = p.took("or", "replace")
	if p.took("definer") {
		p.word("=")
		p.definer(&out.Head)
	}
	switch {
	case p.took("event"):
		out.Kind = Event
	case alter:
		p.fail()
	case p.took("procedure"):
		out.Kind = Procedure
	case p.took("aggregate"):
		p.refuse(1235, "42000", "This version of Godwit doesn't yet support 'CREATE AGGREGATE FUNCTION'")
	case p.took("function"):
		out.Kind = Function
	case p.took("trigger"):
		out.Kind = Trigger
	default:
		p.fail()
	}
	p.kind = out.Kind
	out.Head.Absent = p.took("if", "not", "exists")
	out.Head.DB, out.Name = p.qualified()
	p.head(out)
	p.params = out.Params
	from := p.at
	out.From = p.tok().From
	out.Body = p.statement()
	out.To, out.Returning = p.ts[p.at-1].To, p.returns
	if out.Kind == Function {
		out.Facts = factsOf(p.ts[from:p.at])
	}
	if more := p.took(";") && p.first; !more && p.tok().Kind != token.End {
		p.fail()
	}
	if out.Kind == Trigger {
		p.rowColumns(out)
	}
	return out
}

// head reads what stands before the body.
func (p *parser) head(out *Program) {
	switch out.Kind {
	case Event: // the schedule is not ours
		for !p.took("do") {
			if p.tok().Kind == token.End {
				p.fail()
			}
			p.at++
		}
	case Trigger:
		p.triggerHead(&out.Trigger)
	default:
		p.parameters(out)
		if out.Kind == Function {
			p.word("returns")
			out.Returns = p.typ()
		}
		p.characteristics(&out.Head.Options)
	}
}

func (p *parser) triggerHead(h *TriggerHead) {
	if h.Before = p.took("before"); !h.Before {
		p.word("after")
	}
	if !p.tok().Is("insert", "update", "delete") {
		p.fail()
	}
	h.Event = p.tok().Lower
	p.at++
	p.word("on")
	_, h.Table = p.qualified()
	p.word("for", "each", "row")
	if p.took("follows") {
		h.Follows = p.name()
	} else if p.took("precedes") {
		h.Precedes = p.name()
	}
}

func (p *parser) parameters(out *Program) {
	p.word("(")
	from := p.ts[p.at-1].To
	for !p.took(")") {
		a := Param{In: true}
		switch next := p.ahead(1); {
		case out.Kind == Function || !next.Named():
		case p.took("in"):
		case p.took("out"):
			a.In, a.Out = false, true
		case p.took("inout"):
			a.Out = true
		}
		a.Name = p.name()
		a.Type = p.typ()
		for _, o := range out.Params {
			if strings.EqualFold(o.Name, a.Name) {
				p.refuse(1330, "42000", "Duplicate parameter: %s", a.Name)
			}
		}
		out.Params = append(out.Params, a)
		if !p.tok().Is(")") {
			p.word(",")
		}
	}
	out.Head.Params = p.text[from:p.ts[p.at-1].From]
}

// group skips what stands in parentheses.
func (p *parser) group() {
	for depth := 0; ; p.at++ {
		switch t := p.tok(); {
		case t.Is("("):
			depth++
		case t.Is(")"):
			if depth--; depth == 0 {
				p.at++
				return
			}
		case t.Kind == token.End:
			p.fail()
		}
	}
}

// typ reads the type of a variable.
func (p *parser) typ() string {
	from := p.tok().From
	if p.tok().Kind != token.Word {
		p.fail()
	}
	p.at++
	for p.took("precision") || p.took("varying") || p.took("varchar") || p.took("char") || p.took("character") ||
		p.took("varbinary") {
	}
	if p.tok().Is("(") {
		p.group()
	}
	for {
		switch {
		case p.took("unsigned"), p.took("signed"), p.took("zerofill"), p.took("ascii"), p.took("unicode"), p.took("binary"):
		case p.took("character", "set"), p.took("char", "set"), p.took("charset"), p.took("collate"):
			if p.tok().Kind == token.End {
				p.fail()
			}
			p.at++
		default:
			return p.text[from:p.ts[p.at-1].To]
		}
	}
}

// expr reads an expression up to one of some words, outside of parentheses and CASE.
func (p *parser) expr(ends ...string) Expr {
	from, depth := p.tok().From, 0
	for {
		t := p.tok()
		switch {
		case depth == 0 && (t.Is(ends...) || t.Is(";")), t.Kind == token.End:
			if t.Kind == token.End && len(ends) > 0 && ends[0] == "then" || p.at == 0 || p.ts[p.at-1].To <= from {
				p.fail()
			}
			return Expr(p.text[from:p.ts[p.at-1].To])
		case t.Is("(", "case"):
			depth++
		case t.Is(")", "end"):
			depth--
		}
		p.at++
	}
}

// statements reads statements up to one of some words.
func (p *parser) statements(ends ...string) (out []Stmt) {
	for !p.tok().Is(ends...) {
		out = append(out, p.statement())
		p.word(";")
	}
	return out
}

// statement reads a statement, without the semicolon behind it.
func (p *parser) statement() Stmt {
	if p.depth++; p.depth > deepest {
		p.refuse(1436, "HY000", "Statements of a program nest more than %d times", deepest)
	}
	defer func() { p.depth-- }()
	label := ""
	if p.tok().Named() && p.ahead(1).Is(":") {
		label = p.name()
		p.at++
	}
	if p.tok().Is("begin") && label != "" {
		p.labels = append(p.labels, blockMark+strings.ToLower(label))
	} else {
		p.labels = append(p.labels, strings.ToLower(label))
	}
	defer func() { p.labels = p.labels[:len(p.labels)-1] }()
	switch {
	case p.took("begin"):
		p.took("not", "atomic")
		b := p.block(label)
		p.endLabel(label)
		return b
	case p.took("loop"):
		l := &Loop{Label: label, Body: p.statements("end")}
		p.word("end", "loop")
		p.endLabel(label)
		return l
	case p.took("while"):
		l := &Loop{Label: label, While: p.expr("do")}
		p.word("do")
		l.Body = p.statements("end")
		p.word("end", "while")
		p.endLabel(label)
		return l
	case p.tok().Is("repeat") && !p.ahead(1).Is("("):
		p.at++
		l := &Loop{Label: label, Body: p.statements("until")}
		p.word("until")
		l.Until = p.expr("end")
		p.word("end", "repeat")
		p.endLabel(label)
		return l
	}
	if label != "" {
		p.fail()
	}
	return p.simple()
}

// endLabel reads the label behind END.
func (p *parser) endLabel(label string) {
	if t := p.tok(); t.Named() {
		if !strings.EqualFold(t.Text, label) {
			p.refuse(1310, "42000", "End-label %s without match", t.Text)
		}
		p.at++
	}
}

// simple reads a statement that has no label.
func (p *parser) simple() Stmt {
	switch {
	case p.took("if"):
		return p.ifs()
	case p.took("case"):
		return p.cases()
	case p.took("leave"):
		return &Leave{p.label("LEAVE")}
	case p.took("iterate"):
		return &Iterate{p.label("ITERATE")}
	case p.took("return"):
		if p.kind != Function {
			p.refuse(1313, "42000", "RETURN is only allowed in a FUNCTION")
		}
		p.returns = true
		return &Return{p.expr()}
	case p.took("open"):
		return &Open{p.cursorName()}
	case p.took("close"):
		return &Close{p.cursorName()}
	case p.took("fetch"):
		return p.fetch()
	case p.took("signal"):
		return p.signal(false)
	case p.took("resignal"):
		return p.signal(true)
	case p.tok().Is("get") && p.ahead(1).Is("diagnostics", "current", "stacked"):
		return p.diagnostics()
	case p.took("call"):
		return p.call()
	case p.took("do"):
		return p.do()
	case p.tok().Is("set") && p.assigns():
		p.at++
		return p.set()
	}
	p.allowed()
	out := &SQL{p.plain()}
	if p.kind == Function {
		p.inFunction(out.Text)
	}
	return out
}

// blockMark begins the label of a block, which ITERATE cannot name.
const blockMark = "\x00"

// label reads the label of LEAVE or ITERATE.
func (p *parser) label(what string) string {
	name := p.name()
	for _, l := range p.labels {
		if what == "LEAVE" {
			l = strings.TrimPrefix(l, blockMark)
		}
		if l != "" && strings.EqualFold(l, name) {
			return name
		}
	}
	p.refuse(1308, "42000", "%s with no matching label: %s", what, name)
	return ""
}

func (p *parser) ifs() Stmt {
	out := &If{}
	for {
		w := When{Cond: p.expr("then")}
		p.word("then")
		w.Then = p.statements("elseif", "else", "end")
		out.Whens = append(out.Whens, w)
		if !p.took("elseif") {
			break
		}
	}
	if p.took("else") {
		out.Else = p.statements("end")
	}
	p.word("end", "if")
	return out
}

func (p *parser) cases() Stmt {
	out := &Case{}
	if !p.tok().Is("when") {
		out.Value = p.expr("when")
	}
	for p.took("when") {
		w := When{Cond: p.expr("then")}
		p.word("then")
		w.Then = p.statements("when", "else", "end")
		out.Whens = append(out.Whens, w)
	}
	if len(out.Whens) == 0 {
		p.fail()
	}
	if out.Lacks = !p.took("else"); !out.Lacks {
		out.Else = p.statements("end")
	}
	p.word("end", "case")
	return out
}

func (p *parser) fetch() Stmt {
	if p.took("next", "from") || p.took("from") {
	}
	f := &Fetch{Cursor: p.cursorName()}
	p.word("into")
	n := 0
	if f.To, n = token.Variables(p.ts[p.at:]); n == 0 {
		p.fail()
	}
	p.at += n
	return f
}

func (p *parser) call() *Call {
	c := &Call{}
	c.DB, c.Name = p.qualified()
	if !p.took("(") {
		return c
	}
	for !p.took(")") {
		c.Args = append(c.Args, p.expr(",", ")"))
		if !p.tok().Is(")") {
			p.word(",")
		}
	}
	return c
}

func (p *parser) do() Stmt {
	d := &Do{}
	for {
		d.Exprs = append(d.Exprs, p.expr(","))
		if !p.took(",") {
			return d
		}
	}
}

// assigns reports whether SET assigns variables, and is no other statement.
func (p *parser) assigns() bool {
	return !p.ahead(1).Is("names", "character", "charset", "transaction", "password", "role", "default", "resource") &&
		!(p.ahead(1).Is("session", "global", "local") && p.ahead(2).Is("transaction"))
}

func (p *parser) set() Stmt {
	out := &Set{}
	for {
		out.To = append(out.To, p.assignment())
		if !p.took(",") {
			return out
		}
	}
}

func (p *parser) assignment() (a Assignment) {
	t, from := p.tok(), p.tok().From
	p.target()
	switch {
	case t.Kind == token.UserVar:
		a.User, a.Name = true, t.Text
		p.at++
	case t.Kind == token.SysVar, t.Is("global", "session", "local", "persist"):
		for p.at++; !p.tok().Is("=", ":=", ";") && p.tok().Kind != token.End; p.at++ {
		}
		a.System = p.text[from:p.ts[p.at-1].To]
	default:
		a.Row, a.Name = p.qualified()
	}
	if !p.took("=") && !p.took(":=") {
		p.fail()
	}
	a.Value = p.expr(",")
	return a
}
