package phrase

import (
	"strings"
	"testing"
)

// TestReader reads one statement with everything in it.
func TestReader(t *testing.T) {
	p := &Reader{Rest: " create\tThing `a``b` , c$1 'it''s \\'so' \"\" 42 ;\n"}
	if !p.Word("CREATE") || p.Word("THIN") || !p.Is("thing") || !p.Word("thing") {
		t.Fatal(p.Rest)
	}
	a, comma, b := p.Ident(), p.Sign(','), p.Ident()
	text, empty, n := p.Text("a text"), p.Text("a text"), p.Number("a number")
	if p.End(); p.Err != nil || a != "a`b" || !comma || b != "c$1" || text != "it's 'so" || empty != "" || n != 42 {
		t.Errorf("%q %v %q %q %q %d: %v", a, comma, b, text, empty, n, p.Err)
	}
}

// TestFailures: the first error stays, names what is expected, and shows nothing in quotes.
func TestFailures(t *testing.T) {
	for text, read := range map[string]func(*Reader){
		"a name":                func(p *Reader) { p.Rest = ", x"; p.Ident() },
		"the end of a name":     func(p *Reader) { p.Rest = "`x"; p.Ident() },
		"the key in quotes":     func(p *Reader) { p.Rest = "x"; p.Text("the key") },
		"the end of the key":    func(p *Reader) { p.Rest = "'secret"; p.Text("the key") },
		"a number":              func(p *Reader) { p.Rest = "0"; p.Number("a number") },
		"TO":                    func(p *Reader) { p.Rest = "in 'secret'"; p.Must("TO"); p.Must("IN") },
		"the end of the statem": func(p *Reader) { p.Rest = "; x 'secret'"; p.End() },
	} {
		p := new(Reader)
		read(p)
		if p.Err == nil || !strings.Contains(p.Err.Error(), text) || strings.Contains(p.Err.Error(), "secret") {
			t.Errorf("%q: %v", text, p.Err)
		}
		if p.Word("x") || p.Ident() != "" || p.Sign(',') {
			t.Errorf("%q: it reads on", text)
		}
	}
	p := &Reader{Rest: "``"}
	if p.Ident(); p.Err == nil {
		t.Error("an empty name")
	}
}
