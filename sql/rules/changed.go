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
// make of the table. It forgets the name that a CHANGE gives a column, and where FIRST and AFTER
// put one. When a later clause wrote the table anew, the column had its old name and type again,
// and values went to other columns.
func keepChanges(resolve analyzer.RuleFunc) analyzer.RuleFunc {
	return func(ctx *sql.Context, a *analyzer.Analyzer, n sql.Node, scope *plan.Scope, sel analyzer.RuleSelector,
		flags *sql.QueryFlags) (sql.Node, transform.TreeIdentity, error) {
		n, same, err := resolve(ctx, a, n, scope, sel, flags)
		if err != nil || same {
			return n, same, err
		}
		var c clauses
		n, _, err = transform.Node(ctx, n, func(ctx *sql.Context, n sql.Node) (sql.Node, transform.TreeIdentity, error) {
			t, ok := n.(sql.SchemaTarget)
			if !ok || len(t.TargetSchema()) == 0 {
				return n, transform.SameTree, nil
			}
			fresh, err := t.WithTargetSchema(c.schema(t.TargetSchema()))
			if err == nil {
				err = c.take(ctx, fresh)
			}
			return fresh, transform.NewTree, err
		})
		return n, transform.NewTree, err
	}
}

// clauses are those of an ALTER TABLE so far.
type clauses struct {
	names []string // of the columns, in order
	moved bool
	named []*plan.ModifyColumn // that gave columns other names
}

// schema is what the clauses make of the columns, as the engine has it, with the names and in the
// order that they have.
func (c *clauses) schema(sch sql.Schema) sql.Schema {
	out := sch.Copy()
	for _, m := range c.named {
		for i, old := range out {
			if strings.EqualFold(old.Name, m.Column()) {
				col := *m.NewColumn()
				col.PrimaryKey, col.Source = old.PrimaryKey, old.Source
				col.Nullable = col.Nullable && !col.PrimaryKey
				out[i] = &col
			}
		}
	}
	if c.names == nil {
		for _, col := range out {
			c.names = append(c.names, col.Name)
		}
	}
	if c.moved {
		slices.SortStableFunc(out, func(a, b *sql.Column) int { return c.at(a.Name) - c.at(b.Name) })
	}
	return out
}

func (c *clauses) at(name string) int {
	return slices.IndexFunc(c.names, func(n string) bool { return strings.EqualFold(n, name) })
}

// take notes what a clause does.
func (c *clauses) take(ctx *sql.Context, n sql.Node) error {
	switch n := n.(type) {
	case *plan.ModifyColumn:
		name, at := n.NewColumn().Name, c.at(n.Column())
		if !strings.EqualFold(n.Column(), name) {
			if c.at(name) >= 0 {
				return sql.ErrColumnExists.New(name)
			}
			c.named = append(c.named, n)
		}
		if at >= 0 {
			c.names = slices.Delete(c.names, at, at+1)
			c.put(name, at, n.Order(ctx))
		}
	case *plan.AddColumn:
		c.put(n.Column().Name, len(c.names), n.Order(ctx))
	case *plan.RenameColumn:
		if at := c.at(n.ColumnName); at >= 0 {
			c.names[at] = n.NewColumnName
		}
	case *plan.DropColumn:
		if at := c.at(n.Column); at >= 0 {
			c.names = slices.Delete(c.names, at, at+1)
		}
	}
	return nil
}

// put inserts a column where order says, else at a position.
func (c *clauses) put(name string, at int, order *sql.ColumnOrder) {
	if order != nil {
		c.moved = true
		at = 0
		if !order.First {
			at = min(c.at(order.AfterColumn)+1, len(c.names))
		}
	}
	c.names = slices.Insert(c.names, at, name)
}
