package tree

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/godwitdb/godwit/base"
)

// The parser takes a CROSS JOIN (b JOIN c USING (id)) JOIN d apart: it joins a with b, and then c,
// whose USING may not be unique any more, and of a RIGHT JOIN in the parentheses the columns come
// in another order. It leaves a LATERAL query alone, so such a join is parsed as one.
const (
	joined    = "\x01join"
	openJoin  = "LATERAL (SELECT `" + joined + "` FROM "
	closeJoin = ") `" + joined + "`"
)

// signJoins is a text in which each join in parentheses that stands between JOIN and another join
// is a LATERAL query.
func signJoins(text string) string {
	if !base.ContainsFold(text, "join") || strings.Contains(text, joined) {
		return text
	}
	ws := wordsOf(text)
	with := map[int]string{} // by the number of a word
	for i := range len(ws) - 1 {
		if !ws[i].is("join") || !ws[i+1].is("(") || i > 0 && ws[i-1].is("for") { // USE INDEX FOR JOIN (k)
			continue
		}
		if end := joinIn(ws, i+2); end > 0 && end+1 < len(ws) && joinsOn(ws[end+1]) {
			with[i+1], with[end] = openJoin, closeJoin
		}
	}
	if len(with) == 0 {
		return text
	}
	var out strings.Builder
	from := 0
	for i, w := range ws {
		if s, ok := with[i]; ok {
			out.WriteString(text[from:w.from] + s)
			from = w.to
		}
	}
	return out.String() + text[from:]
}

// joinsOn reports whether a word begins the next join.
func joinsOn(w word) bool {
	return w.is("join") || w.is("inner") || w.is("cross") || w.is("left") || w.is("right") || w.is("natural") ||
		w.is("straight_join")
}

// joinIn is the word that closes the parentheses before the word at from, if they hold tables that
// are joined; 0 if they hold something else.
func joinIn(ws []word, from int) int {
	depth, several := 0, false
	for i := from; i < len(ws); i++ {
		switch w := ws[i]; {
		case w.is("("):
			depth++
		case w.is(")") && depth > 0:
			depth--
		case w.is(")") && several:
			return i
		case w.is(")"):
			return 0
		case depth > 0:
		case w.is("select"), w.is("with"), w.is("values"), w.is("table"):
			return 0
		default:
			several = several || w.is("join") || w.is("straight_join") || w.is(",")
		}
	}
	return 0
}

// putJoins puts the joins that signJoins has cut in their places.
func putJoins(stmt ast.Node, text string) {
	if strings.Contains(text, joined) {
		stmt.Accept(putJoin{})
	}
}

type putJoin struct{}

// Enter implements ast.Visitor. The text of a column is its name: it becomes what was written.
func (putJoin) Enter(n ast.Node) (ast.Node, bool) {
	if f, ok := n.(*ast.SelectField); ok && strings.Contains(f.Text(), joined) {
		f.SetText(nil, strings.NewReplacer(openJoin, "(", closeJoin, ")").Replace(f.Text()))
	}
	return n, false
}

// Leave implements ast.Visitor.
func (putJoin) Leave(n ast.Node) (ast.Node, bool) {
	t, ok := n.(*ast.TableSource)
	if !ok || !t.Lateral || t.AsName.O != joined {
		return n, true
	}
	if sel, ok := t.Source.(*ast.SelectStmt); ok && sel.From != nil {
		t.Source, t.AsName, t.Lateral = sel.From.TableRefs, ast.CIStr{}, false
	}
	return n, true
}
