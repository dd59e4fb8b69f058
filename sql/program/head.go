package program

import (
	"strings"

	"github.com/godwitdb/godwit/sql/token"
)

// ReadOptions reads characteristics up to the end of tokens; ok is false if there is something
// else.
func ReadOptions(text string, ts []token.Token) (o Options, ok bool) {
	p := &parser{text: text, ts: ts}
	p.characteristics(&o)
	return o, p.tok().Kind == token.End
}

// definer reads an account.
func (p *parser) definer(h *Head) {
	if p.took("current_user") {
		p.took("(", ")")
		return
	}
	t := p.tok()
	if !t.Named() && t.Kind != token.String {
		p.fail()
	}
	p.at++
	h.User, h.Host = t.Text, "%"
	if at := p.tok(); at.Kind == token.UserVar {
		h.Host = at.Text
		p.at++
	}
}

// characteristics reads what is said about a routine besides.
func (p *parser) characteristics(o *Options) {
	for {
		switch {
		case p.took("language", "sql"):
		case p.took("not", "deterministic"):
			o.Deterministic = false
		case p.took("deterministic"):
			o.Deterministic = true
		case p.took("sql", "security", "definer"):
			o.Invoker, o.Secured = false, true
		case p.took("sql", "security", "invoker"):
			o.Invoker, o.Secured = true, true
		case p.tok().Is("comment") && p.ahead(1).Kind == token.String:
			o.Comment, o.Commented = p.ahead(1).Text, true
			p.at += 2
		case !p.access(o):
			return
		}
	}
}

// access reads what a routine says that it does with data.
func (p *parser) access(o *Options) bool {
	for _, a := range []string{"CONTAINS SQL", "NO SQL", "READS SQL DATA", "MODIFIES SQL DATA"} {
		if p.took(strings.Fields(strings.ToLower(a))...) {
			o.Access = a
			return true
		}
	}
	return false
}
