package tree

import (
	"strconv"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/godwitdb/godwit/sql/jsontable"
)

// JSONTable is JSON_TABLE in the place of a table, which the parser does not know. It is parsed as
// a LATERAL query of its document.
type JSONTable struct {
	ast.ResultSetNode
	Doc ast.ExprNode
	Def *jsontable.Def
}

// Accept implements ast.Node: what is visited is the query of the document.
func (j *JSONTable) Accept(v ast.Visitor) (ast.Node, bool) {
	_, ok := j.ResultSetNode.Accept(v)
	return j, ok
}

// jsonTable is the name of a function that no client can have meant.
const jsonTable = "\x01json_table"

// cutJSONTables is a text that the parser knows, and the calls of JSON_TABLE in it by number.
func cutJSONTables(text string, m Mode) (string, []jsontable.Call) {
	if strings.Contains(text, jsonTable) {
		return text, nil
	}
	return jsontable.Cut(text, jsontable.Mode{ANSIQuotes: m.ANSIQuotes, NoBackslashEscapes: m.NoBackslashEscapes}, lateralOf)
}

func lateralOf(doc string, n int) string {
	return "LATERAL (SELECT `" + jsonTable + "`(" + doc + "," + strconv.Itoa(n) + "))"
}

// putJSONTables puts the tables in the place of what was parsed for them; false if one of them
// stands where no table is.
func putJSONTables(stmt ast.Node, calls []jsontable.Call) bool {
	if calls == nil {
		return true
	}
	p := &jsonTables{calls: calls}
	stmt.Accept(p)
	return p.put == len(calls)
}

type jsonTables struct {
	calls []jsontable.Call
	put   int
}

// Enter implements ast.Visitor. The text of a column is its name: it becomes what was written.
func (p *jsonTables) Enter(n ast.Node) (ast.Node, bool) {
	if f, ok := n.(*ast.SelectField); ok && strings.Contains(f.Text(), jsonTable) {
		text := f.Text()
		for i := len(p.calls) - 1; i >= 0; i-- { // none has another one in it
			text = strings.Replace(text, lateralOf(p.calls[i].Doc, i), p.calls[i].Written, 1)
		}
		f.SetText(nil, text)
	}
	return n, false
}

// Leave implements ast.Visitor.
func (p *jsonTables) Leave(n ast.Node) (ast.Node, bool) {
	t, ok := n.(*ast.TableSource)
	if !ok || !t.Lateral {
		return n, true
	}
	sel, ok := t.Source.(*ast.SelectStmt)
	if !ok || sel.Fields == nil || len(sel.Fields.Fields) != 1 {
		return n, true
	}
	f, ok := sel.Fields.Fields[0].Expr.(*ast.FuncCallExpr)
	if !ok || f.FnName.L != jsonTable || len(f.Args) != 2 {
		return n, true
	}
	at, ok := f.Args[1].(*Literal)
	if !ok {
		return n, true
	}
	number, ok := at.V.(int64)
	if !ok || number < 0 || number >= int64(len(p.calls)) {
		return n, true
	}
	t.Source, t.Lateral = &JSONTable{sel, f.Args[0], p.calls[number].Def}, false
	p.put++
	return n, true
}
