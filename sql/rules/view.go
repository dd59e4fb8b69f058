package rules

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// ViewColumns is the error for a view with two columns of a name (1060). Names that an expression
// has from its text are none: MySQL gives such a column another one.
func ViewColumns(ctx *sql.Context, n *plan.CreateView, tree sqlparser.Statement) error {
	d, ok := tree.(*sqlparser.DDL)
	if !ok || d.ViewSpec == nil || n.Definition == nil {
		return nil
	}
	var names []string
	for _, c := range d.ViewSpec.Columns {
		names = append(names, c.String())
	}
	listed := len(names) > 0
	if !listed {
		for _, c := range n.Definition.Schema(ctx) {
			names = append(names, c.Name)
		}
	}
	texts, had := expressionTexts(d.ViewSpec), map[string]bool{}
	for _, name := range names {
		lower := strings.ToLower(name)
		if had[lower] && (listed || !texts[lower]) {
			return mysql.NewSQLError(1060, "42S21", "Duplicate column name '%s'", name)
		}
		had[lower] = true
	}
	return nil
}

// expressionTexts are the texts, in lower case, of the expressions without a name that a view has.
func expressionTexts(v *sqlparser.ViewSpec) map[string]bool {
	out := map[string]bool{}
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		if e, ok := n.(*sqlparser.AliasedExpr); ok && e.As.IsEmpty() {
			if _, column := e.Expr.(*sqlparser.ColName); !column {
				out[strings.ToLower(strings.TrimSpace(e.InputExpression))] = true
				out[strings.ToLower(sqlparser.String(e.Expr))] = true
			}
		}
		return true, nil
	}, v.ViewExpr) // it never fails
	return out
}
