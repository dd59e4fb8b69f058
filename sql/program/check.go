package program

import (
	"strings"

	"github.com/godwitdb/godwit/sql/token"
)

// Faults of a program that do not depend on data are reported when it is made.

// cursorName reads the name of a cursor that has been declared.
func (p *parser) cursorName() string {
	name := p.name()
	for _, b := range p.blocks {
		if _, ok := b.Cursors[strings.ToLower(name)]; ok {
			return name
		}
	}
	p.refuse(1324, "42000", "Undefined CURSOR: %s", name)
	return ""
}

// condition is the condition of a name; nil if none has been declared.
func (p *parser) condition(name string) *Match {
	for i := len(p.blocks) - 1; i >= 0; i-- {
		if m, ok := p.blocks[i].Conditions[name]; ok {
			return &m
		}
	}
	return nil
}

// allowed refuses statements that cannot stand in a program.
func (p *parser) allowed() {
	switch t := p.tok(); {
	case t.Is("declare", "elseif", "else", "until", "then", "end"):
		p.fail()
	case t.Is("use", "lock", "unlock"), t.Is("load") && p.ahead(1).Is("data"):
		p.refuse(1314, "0A000", "%s is not allowed in stored procedures", strings.ToUpper(t.Text))
	case t.Is("create"):
		if kind := p.makes("procedure", "function", "trigger"); kind != "" {
			p.refuse(1303, "2F003", "Can't create a %s from within another stored routine", strings.ToUpper(kind))
		}
	}
}

// inFunction refuses statements that a function cannot have: those that return rows, end
// transactions, or come from a text.
func (p *parser) inFunction(text string) {
	ts := token.Scan(text, token.Mode{})
	switch t := ts[0]; {
	case t.Is("prepare", "execute", "deallocate"), t.Is("drop") && ts[1].Is("prepare"):
		p.refuse(1336, "0A000", "Dynamic SQL is not allowed in stored function or trigger")
	case t.Is("flush"):
		p.refuse(1314, "0A000", "FLUSH is not allowed in stored procedures")
	case Commits(ts):
		p.refuse(1422, "HY000", "Explicit or implicit commit is not allowed in stored function or trigger.")
	case t.Is("select", "(", "values") && token.CutInto(text, token.Mode{}) == nil,
		t.Is("show", "explain", "describe", "desc", "check", "optimize", "repair", "checksum", "table"):
		p.refuse(1415, "0A000", "Not allowed to return a result set from a function")
	}
}

// makes is which of some kinds a CREATE makes; empty: none.
func (p *parser) makes(kinds ...string) string {
	for i := 1; ; i++ {
		switch t := p.ahead(i); {
		case t.Is(kinds...):
			return t.Lower
		case t.Is("table", "view", "index", "user", "database", "(", ";"), t.Kind == token.End:
			return ""
		}
	}
}

// plain reads a statement as it is written.
func (p *parser) plain() string {
	from, limit := p.at, false
	for t := p.tok(); !t.Is(";") && t.Kind != token.End; t = p.tok() {
		if limit && t.Named() {
			p.counts(t.Text)
		}
		limit = t.Is("limit", "offset") || limit && (t.Is(",") || t.Kind == token.Number)
		p.at++
	}
	if p.at == from {
		p.fail()
	}
	return p.text[p.ts[from].From:p.ts[p.at-1].To]
}

// counts refuses a variable in LIMIT that is no integer.
func (p *parser) counts(name string) {
	typ := p.typeOf(name)
	if typ == "" {
		return
	}
	word := strings.ToLower(token.Scan(typ, token.Mode{})[0].Text)
	switch strings.TrimSuffix(word, "eger") {
	case "int", "tinyint", "smallint", "mediumint", "bigint", "bool", "boolean", "serial":
		return
	}
	p.refuse(1691, "HY000", "A variable of a non-integer based type in LIMIT clause")
}

// typeOf is the type of a variable; empty if there is none of the name.
func (p *parser) typeOf(name string) string {
	for i := len(p.blocks) - 1; i >= 0; i-- {
		for _, d := range p.blocks[i].Vars {
			for _, n := range d.Names {
				if strings.EqualFold(n, name) {
					return d.Type
				}
			}
		}
	}
	for _, a := range p.params {
		if strings.EqualFold(a.Name, name) {
			return a.Type
		}
	}
	return ""
}
