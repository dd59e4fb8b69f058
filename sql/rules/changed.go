package rules

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
)

// keepChanges goes around the rule that tells each clause of an ALTER TABLE what the ones before it
// make of the table. It forgets a CHANGE that gives a column another name, and when a later clause
// writes the table anew, the column has its old name and type again.
func keepChanges(resolve analyzer.RuleFunc) analyzer.RuleFunc {
	return func(ctx *sql.Context, a *analyzer.Analyzer, n sql.Node, scope *plan.Scope, sel analyzer.RuleSelector,
		flags *sql.QueryFlags) (sql.Node, transform.TreeIdentity, error) {
		n, same, err := resolve(ctx, a, n, scope, sel, flags)
		if err != nil || same {
			return n, same, err
		}
		var before []*plan.ModifyColumn
		n, _, err = transform.Node(ctx, n, func(_ *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
			same := transform.SameTree
			if t, ok := n.(sql.SchemaTarget); ok && len(before) > 0 && len(t.TargetSchema()) > 0 {
				fresh, err := t.WithTargetSchema(changed(t.TargetSchema(), before))
				if err != nil {
					return n, same, err
				}
				n, same = fresh, transform.NewTree
			}
			m, ok := n.(*plan.ModifyColumn)
			if ok && !strings.EqualFold(m.Column(), m.NewColumn().Name) {
				if name := m.NewColumn().Name; slices.ContainsFunc(m.TargetSchema(), func(c *sql.Column) bool { return strings.EqualFold(c.Name, name) }) {
					return n, same, sql.ErrColumnExists.New(name)
				}
				before = append(before, m)
			}
			return n, same, nil
		})
		return n, transform.NewTree, err
	}
}

// changed is a schema with the columns that were given other names.
func changed(sch sql.Schema, by []*plan.ModifyColumn) sql.Schema {
	out := sch.Copy()
	for _, m := range by {
		for i, old := range out {
			if strings.EqualFold(old.Name, m.Column()) {
				c := *m.NewColumn()
				c.PrimaryKey, c.Source = old.PrimaryKey, old.Source
				c.Nullable = c.Nullable && !c.PrimaryKey
				out[i] = &c
			}
		}
	}
	return out
}
