package rules

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
)

// renameTwice goes around the rule that refuses to rename a column of a name that the table did not
// have before the statement. Where two columns take each other's names, each gets one of these for
// a while (package ahead). The rule sees the table with columns of these names, and a first clause
// that drops them.
func renameTwice(resolve analyzer.RuleFunc) analyzer.RuleFunc {
	return func(ctx *sql.Context, a *analyzer.Analyzer, n sql.Node, scope *plan.Scope, sel analyzer.RuleSelector,
		flags *sql.QueryFlags) (sql.Node, transform.TreeIdentity, error) {
		block, ok := n.(*plan.Block)
		if !ok {
			return resolve(ctx, a, n, scope, sel, flags)
		}
		drops := meanwhile(block)
		if len(drops) == 0 {
			return resolve(ctx, a, n, scope, sel, flags)
		}
		var clauses []sql.Node
		for _, c := range block.Children() {
			if t, ok := c.(sql.SchemaTarget); ok && len(t.TargetSchema()) > 0 {
				fresh, err := t.WithTargetSchema(withColumns(t.TargetSchema(), drops))
				if err != nil {
					return n, transform.SameTree, err
				}
				c = fresh
			}
			clauses = append(clauses, c)
		}
		all := make([]sql.Node, 0, len(drops)+len(clauses))
		for _, d := range drops {
			all = append(all, d)
		}
		with, err := block.WithChildren(ctx, append(all, clauses...)...)
		if err != nil {
			return n, transform.SameTree, err
		}
		out, _, err := resolve(ctx, a, with, scope, sel, flags)
		if err != nil {
			return n, transform.SameTree, err
		}
		out, err = out.WithChildren(ctx, out.Children()[len(drops):]...)
		return out, transform.NewTree, err
	}
}

// meanwhile are clauses that drop the names that columns of a block have for a while.
func meanwhile(b *plan.Block) (out []*plan.DropColumn) {
	given := map[string]bool{}
	for _, c := range b.Children() {
		r, ok := c.(*plan.RenameColumn)
		if !ok {
			continue
		}
		if from := strings.ToLower(r.ColumnName); given[from] {
			table, ok := r.Table.(*plan.ResolvedTable)
			if !ok || len(r.TargetSchema()) == 0 {
				continue
			}
			d, err := plan.NewDropColumnResolved(table, r.ColumnName).WithTargetSchema(r.TargetSchema())
			if err == nil {
				out = append(out, d.(*plan.DropColumn))
			}
		}
		given[strings.ToLower(r.NewColumnName)] = true
	}
	for i, d := range out {
		n, err := d.WithTargetSchema(withColumns(d.TargetSchema(), out))
		if err == nil {
			out[i] = n.(*plan.DropColumn)
		}
	}
	return out
}

// withColumns is a schema with the columns that clauses drop.
func withColumns(sch sql.Schema, drops []*plan.DropColumn) sql.Schema {
	out := sch.Copy()
	for _, d := range drops {
		if out.IndexOf(d.Column, out[0].Source) < 0 {
			col := *sch[0]
			col.Name, col.PrimaryKey, col.AutoIncrement, col.Default, col.Generated = d.Column, false, false, nil, nil
			out = append(out, &col)
		}
	}
	return out
}
