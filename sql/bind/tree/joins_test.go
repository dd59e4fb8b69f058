package tree

import (
	"strings"
	"testing"

	"github.com/pingcap/tidb/pkg/parser/ast"
)

// nested is which tables of a FROM are joined first.
func nested(n ast.ResultSetNode) string {
	switch n := n.(type) {
	case *ast.Join:
		if n.Right == nil {
			return nested(n.Left)
		}
		return "(" + nested(n.Left) + " " + nested(n.Right) + ")"
	case *ast.TableSource:
		if t, ok := n.Source.(*ast.TableName); ok {
			return t.Name.O
		}
		if j, ok := n.Source.(*ast.Join); ok {
			return nested(j)
		}
		return n.AsName.O
	}
	return "?"
}

// TestJoinsInParentheses: what stands in parentheses is joined first, and the names of columns are
// what was written.
func TestJoinsInParentheses(t *testing.T) {
	for from, want := range map[string]string{
		"a CROSS JOIN (b JOIN c USING (id)) JOIN d ON 1":                          "((a (b c)) d)",
		"a JOIN (b RIGHT JOIN c ON 1) LEFT JOIN d ON 1":                           "((a (b c)) d)",
		"a JOIN (b, c) JOIN d":                                                    "((a (b c)) d)",
		"a JOIN (b JOIN (c JOIN d USING (id)) JOIN e) JOIN f":                     "((a ((b (c d)) e)) f)",
		"a JOIN (b JOIN c) ON 1 JOIN d ON 1":                                      "((a (b c)) d)",
		"a LEFT JOIN (b JOIN c) JOIN d ON 1 ON 1":                                 "(a ((b c) d))",
		"a JOIN (SELECT 1 FROM b JOIN c) q JOIN d":                                "((a q) d)",
		"a JOIN ((SELECT 1) q JOIN c) JOIN d":                                     "((a (q c)) d)",
		"a USE INDEX FOR JOIN (k, l) JOIN b USE INDEX FOR JOIN (k, l) JOIN c":     "((a b) c)",
		"a CROSS JOIN b JOIN c USING (id)":                                        "((a b) c)",
		"a CROSS JOIN (b) JOIN c":                                                 "((a b) c)",
		"(a JOIN b ON 1) CROSS JOIN (c JOIN d ON 1) CROSS JOIN (e JOIN f) JOIN g": "((((a b) (c d)) (e f)) g)",
	} {
		item := "(SELECT 1 FROM " + from + ")"
		stmt, err := Parse("SELECT "+item+" FROM "+from, Mode{})
		if err != nil {
			t.Errorf("%s: %v", from, err)
			continue
		}
		sel := stmt.(*ast.SelectStmt)
		if got := nested(sel.From.TableRefs); got != want {
			t.Errorf("%s: %s, want %s", from, got, want)
		}
		if got := sel.Fields.Fields[0].Text(); got != item || strings.Contains(got, joined) {
			t.Errorf("the column %s is called %s", item, got)
		}
	}
}
