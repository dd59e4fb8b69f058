package placing

import (
	"strings"

	"github.com/godwitdb/godwit/sql/schema"
)

// Rule is a PLACEMENT BY as it is written.
type Rule struct {
	Cols    []string
	Entries []RuleEntry
}

// RuleEntry are values, or DEFAULT, and the name of a placement.
type RuleEntry struct {
	Values    []string
	Rest      bool // DEFAULT
	Placement string
	At        string // the region whose copy set it is; empty: it is not said
}

// ParseRule reads a PLACEMENT BY.
func ParseRule(text string) (*Rule, error) {
	p := &ruleParser{rest: text}
	r := &Rule{}
	if !p.word("PLACEMENT") || !p.word("BY") {
		return nil, p.bad("PLACEMENT BY")
	}
	err := p.list(func() error {
		name, ok := p.name()
		if !ok {
			return p.bad("the name of a column")
		}
		r.Cols = append(r.Cols, name)
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = p.list(func() (err error) {
		var e RuleEntry
		if e.Rest = p.word("DEFAULT"); !e.Rest {
			if err := p.list(func() error { return p.value(&e) }); err != nil {
				return err
			}
		}
		if !p.word("IN") {
			return p.bad("IN and the name of a placement")
		}
		var ok bool
		if e.Placement, ok = p.name(); !ok {
			return p.bad("the name of a placement, or NONE")
		}
		if p.word("AT") {
			if e.At, ok = p.region(); !ok {
				return p.bad("the name of a region in quotes")
			}
		}
		r.Entries = append(r.Entries, e)
		return nil
	})
	if err == nil && strings.TrimSpace(p.rest) != "" {
		err = p.bad("the end")
	}
	return r, err
}

type ruleParser struct{ rest string }

func (p *ruleParser) bad(want string) error {
	at := strings.TrimSpace(p.rest)
	return schema.Invalid("PLACEMENT BY (column) ((value, ...) IN placement, ..., DEFAULT IN placement): " + want +
		" is missing before '" + at[:min(len(at), 40)] + "'")
}

func (p *ruleParser) take(s string) bool {
	p.rest = strings.TrimLeft(p.rest, " \t\r\n")
	if !strings.HasPrefix(p.rest, s) {
		return false
	}
	p.rest = p.rest[len(s):]
	return true
}

// list reads what is in parentheses and divided by commas.
func (p *ruleParser) list(item func() error) error {
	if !p.take("(") {
		return p.bad("(")
	}
	for {
		if err := item(); err != nil {
			return err
		}
		if p.take(")") {
			return nil
		}
		if !p.take(",") {
			return p.bad(") or ,")
		}
	}
}

// word takes a keyword.
func (p *ruleParser) word(w string) bool {
	p.take("")
	if len(p.rest) < len(w) || !strings.EqualFold(p.rest[:len(w)], w) || len(p.rest) > len(w) && wordByte(p.rest[len(w)]) {
		return false
	}
	p.rest = p.rest[len(w):]
	return true
}

func wordByte(c byte) bool {
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
}

// name takes a name, in back quotes or bare.
func (p *ruleParser) name() (string, bool) {
	if p.take("`") {
		name, rest, ok := strings.Cut(p.rest, "`")
		p.rest = rest
		return name, ok && name != ""
	}
	n := 0
	for n < len(p.rest) && wordByte(p.rest[n]) {
		n++
	}
	name := p.rest[:n]
	p.rest = p.rest[n:]
	return name, n > 0
}

// region takes the name of a region, in quotes.
func (p *ruleParser) region() (string, bool) {
	p.take("")
	if p.rest == "" || p.rest[0] != '\'' && p.rest[0] != '"' {
		return "", false
	}
	text, rest, ok := takeLiteral(p.rest)
	p.rest = rest
	return text, ok && text != ""
}

// value takes a literal.
func (p *ruleParser) value(e *RuleEntry) error {
	if p.word("NULL") {
		return schema.Invalid("PLACEMENT BY cannot name NULL: the column is part of the primary key, and so never NULL")
	}
	p.take("")
	if p.rest != "" && (p.rest[0] == '\'' || p.rest[0] == '"') {
		text, rest, ok := takeLiteral(p.rest)
		if !ok {
			return p.bad("the end of a text")
		}
		if strings.Contains(text, "*/") {
			return schema.Invalid("PLACEMENT BY cannot name a text with */ in it: SHOW CREATE TABLE has the clause in a comment")
		}
		e.Values, p.rest = append(e.Values, text), rest
		return nil
	}
	n := 0
	for n < len(p.rest) && (p.rest[n] >= '0' && p.rest[n] <= '9' || n == 0 && p.rest[n] == '-') {
		n++
	}
	if n == 0 || n < len(p.rest) && (wordByte(p.rest[n]) || p.rest[n] == '.') {
		return p.bad("a value (an integer, or a text or time in quotes)")
	}
	e.Values, p.rest = append(e.Values, p.rest[:n]), p.rest[n:]
	return nil
}

// takeLiteral takes a text in quotes.
func takeLiteral(s string) (text, rest string, ok bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case c != s[0]:
			b.WriteByte(c)
		case i+1 < len(s) && s[i+1] == c:
			i++
			b.WriteByte(c)
		default:
			return b.String(), s[i+1:], true
		}
	}
	return "", "", false
}
