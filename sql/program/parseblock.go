package program

import (
	"strconv"
	"strings"

	"github.com/godwitdb/godwit/sql/token"
)

// block reads what is between BEGIN and END.
func (p *parser) block(label string) Stmt {
	b := &Block{Label: label, Conditions: map[string]Match{}, Cursors: map[string]string{}}
	p.blocks = append(p.blocks, b)
	defer func() { p.blocks = p.blocks[:len(p.blocks)-1] }()
	for p.took("declare") {
		p.declare(b)
		p.word(";")
	}
	b.Body = p.statements("end")
	p.word("end")
	return b
}

func (p *parser) declare(b *Block) {
	switch {
	case p.tok().Is("continue", "exit", "undo") && p.ahead(1).Is("handler"):
		if p.tok().Is("undo") {
			p.fail()
		}
		h := &Handler{Exit: p.tok().Is("exit")}
		p.at += 2
		p.word("for")
		for {
			h.For = append(h.For, p.match())
			if !p.took(",") {
				break
			}
		}
		h.Body = p.statement()
		b.Handlers = append(b.Handlers, h)
	case p.ahead(1).Is("condition"):
		if len(b.Handlers)+len(b.Cursors) > 0 {
			p.refuse(1337, "42000", "Variable or condition declaration after cursor or handler declaration")
		}
		name := strings.ToLower(p.name())
		p.at++
		p.word("for")
		if _, ok := b.Conditions[name]; ok {
			p.refuse(1332, "42000", "Duplicate condition: %s", name)
		}
		b.Conditions[name] = p.match()
	case p.ahead(1).Is("cursor"):
		p.cursor(b)
	default:
		p.declareVars(b)
	}
}

func (p *parser) cursor(b *Block) {
	name := strings.ToLower(p.name())
	p.at++
	p.word("for")
	if _, ok := b.Cursors[name]; ok {
		p.refuse(1333, "42000", "Duplicate cursor: %s", name)
	}
	if len(b.Handlers) > 0 {
		p.refuse(1338, "42000", "Cursor declaration after handler declaration")
	}
	b.Cursors[name] = p.plain()
}

func (p *parser) declareVars(b *Block) {
	if len(b.Handlers)+len(b.Cursors) > 0 {
		p.refuse(1337, "42000", "Variable or condition declaration after cursor or handler declaration")
	}
	d := &Declare{}
	for {
		name := p.name()
		for _, o := range append(b.Vars, d) {
			for _, n := range o.Names {
				if strings.EqualFold(n, name) {
					p.refuse(1331, "42000", "Duplicate variable: %s", name)
				}
			}
		}
		d.Names = append(d.Names, name)
		if !p.took(",") {
			break
		}
	}
	d.Type = p.typ()
	if p.took("default") || p.took("=") || p.took(":=") {
		d.Default = p.expr()
	}
	b.Vars = append(b.Vars, d)
}

// match reads a condition.
func (p *parser) match() Match {
	switch t := p.tok(); {
	case p.took("sqlstate"):
		p.took("value")
		if p.tok().Kind != token.String || len(p.tok().Text) != 5 || strings.HasPrefix(p.tok().Text, "00") {
			p.refuse(1407, "42000", "Bad SQLSTATE: '%s'", p.tok().Text)
		}
		p.at++
		return Match{State: p.ts[p.at-1].Text}
	case p.took("not", "found"):
		return Match{Class: "not found"}
	case t.Is("sqlwarning", "sqlexception"):
		p.at++
		return Match{Class: t.Lower}
	case t.Kind == token.Number:
		n, err := strconv.Atoi(t.Text)
		if err != nil || n == 0 {
			p.fail()
		}
		p.at++
		return Match{Code: n}
	}
	m := Match{Name: strings.ToLower(p.name())}
	if p.condition(m.Name) == nil {
		p.refuse(1319, "42000", "Undefined CONDITION: %s", m.Name)
	}
	return m
}

func (p *parser) signal(again bool) Stmt {
	s := &Signal{Again: again}
	if t := p.tok(); t.Is("sqlstate") || t.Named() && !t.Is("set") {
		m := p.match()
		if m.Name != "" && p.condition(m.Name).State == "" {
			p.refuse(1646, "HY000", "SIGNAL/RESIGNAL can only use a CONDITION defined with SQLSTATE")
		}
		s.Match = &m
	} else if !again {
		p.fail()
	}
	if p.took("set") {
		for {
			it := Item{Name: strings.ToUpper(p.name())}
			p.word("=")
			it.Value = p.expr(",")
			s.Items = append(s.Items, it)
			if !p.took(",") {
				break
			}
		}
	}
	return s
}

// conditionItems are what is known of a condition.
var conditionItems = []string{"class_origin", "subclass_origin", "returned_sqlstate", "message_text", "mysql_errno",
	"constraint_catalog", "constraint_schema", "constraint_name", "catalog_name", "schema_name", "table_name", "column_name",
	"cursor_name"}

func (p *parser) diagnostics() Stmt {
	p.word("get")
	d := &Diagnostics{}
	if d.Stacked = p.took("stacked"); !d.Stacked {
		p.took("current")
	}
	p.word("diagnostics")
	known := []string{"number", "row_count"}
	if p.took("condition") {
		t := p.tok()
		if t.Kind != token.Number && t.Kind != token.UserVar && t.Kind != token.SysVar && !t.Named() {
			p.fail()
		}
		p.at++
		d.Number, known = Expr(p.text[t.From:p.ts[p.at-1].To]), conditionItems
	}
	for {
		to, n := token.Variables(p.ts[p.at:])
		if n != 1 {
			p.fail()
		}
		p.at++
		p.word("=")
		if !p.tok().Is(known...) {
			p.fail()
		}
		d.Items = append(d.Items, Item{Name: strings.ToUpper(p.name()), To: to[0]})
		if !p.took(",") {
			return d
		}
	}
}
