package query

import (
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/given"
	"github.com/godwitdb/godwit/sql/program"
	"github.com/godwitdb/godwit/sql/token"
)

// limited puts the values of variables into LIMIT, where the grammar has no names.
func (p *routine) limited(f *program.Frame, text string) string {
	limit := false
	return token.Replace(text, p.mode(), func(ts []token.Token, i int) (string, int) {
		t := ts[i]
		if limit && t.Named() {
			if v := f.Lookup(t.Text); v != nil && v.V.Kind == expr.Int {
				return v.V.Text(v.T), 1
			}
		}
		if t.Is("limit", "offset") {
			limit = true
		} else if !t.Is(",") && t.Kind != token.Number {
			limit = false
		}
		return "", 0
	})
}

// substituted is a statement with the values of the variables that it names, for an engine that
// does not know them.
func (p *routine) substituted(f *program.Frame, text string) string {
	return token.Replace(text, p.mode(), func(ts []token.Token, i int) (string, int) {
		t := ts[i]
		if !t.Named() || i > 0 && ts[i-1].Is(".", "as", "into", "table", "from", "update", "join") {
			return "", 0
		}
		if ts[i+1].Is(".") {
			if n, err := p.column(t.Text, ts[i+2].Text); err == nil && n != nil {
				c := n.(*expr.Const)
				return given.Literal(c.V, c.T), 3
			}
			return "", 0
		}
		if v := f.Lookup(t.Text); v != nil && !ts[i+1].Is("(") {
			return given.Literal(v.V, v.T), 1
		}
		return "", 0
	})
}

// SetUser implements program.Host.
func (p *routine) SetUser(_ *program.Frame, name string, x program.Value) error {
	st, err := p.evaluator()
	if err != nil {
		return err
	}
	return st.setVar(name, x.V, x.T)
}

// SetSystem implements program.Host. What is a word is one for the variable: ON, DEFAULT.
func (p *routine) SetSystem(f *program.Frame, target string, e program.Expr) error {
	value := string(e)
	ts := token.Scan(value, p.mode())
	if len(ts) != 2 || ts[0].Kind != token.Word || f.Lookup(ts[0].Text) != nil {
		x, err := p.Eval(f, e, true)
		if err != nil {
			return err
		}
		value = given.Literal(x.V, x.T)
	}
	_, _, err := p.engine(&program.Frame{}, "SET "+target+" = "+value)
	return p.told(err)
}
