package token

import "strings"

// Variable is a target of SELECT ... INTO, or of FETCH: @x, or the name of a local variable.
type Variable struct {
	Name string
	User bool
}

// Into is what a SELECT assigns its row to.
type Into struct {
	// Text is the SELECT without the clause.
	Text string
	To   []Variable
}

// CutInto finds INTO a, @b in a query; nil if there is none. INTO OUTFILE and INTO DUMPFILE are
// others.
func CutInto(text string, m Mode) *Into {
	ts := Scan(text, m)
	depth := 0
	for i, t := range ts {
		switch {
		case t.Is("("):
			depth++
		case t.Is(")"):
			depth--
		case t.Is("insert", "replace") && depth == 0 && !ts[i+1].Is("("):
			return nil // WITH ... INSERT INTO
		case t.Is("into") && depth == 0 && i > 0:
			to, n := Variables(ts[i+1:])
			if len(to) == 0 {
				return nil
			}
			end := ts[i+n].To
			return &Into{text[:t.From] + " " + text[end:], to}
		}
	}
	return nil
}

// Variables reads a list of variables, which has n tokens.
func Variables(ts []Token) (out []Variable, n int) {
	for {
		t := ts[n]
		if t.Kind != UserVar && !t.Named() || t.Is("outfile", "dumpfile") {
			return nil, 0
		}
		out = append(out, Variable{t.Text, t.Kind == UserVar})
		if n++; !ts[n].Is(",") {
			return out, n
		}
		n++
	}
}

// Replace is a text with other tokens: f yields what stands for the one at i, and how many tokens
// it takes the place of; none: the token stays.
func Replace(text string, m Mode, f func(ts []Token, i int) (with string, n int)) string {
	ts := Scan(text, m)
	var b strings.Builder
	at := 0
	for i := 0; i < len(ts); {
		with, n := f(ts, i)
		if n == 0 {
			i++
			continue
		}
		b.WriteString(text[at:ts[i].From])
		b.WriteString(with)
		i += n
		at = ts[i-1].To
	}
	return b.String() + text[at:]
}
