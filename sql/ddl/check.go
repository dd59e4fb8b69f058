package ddl

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/sql/ddl/convert"
)

// AddCheck adds a CHECK constraint to a table. Its rows must satisfy one that is enforced; build
// reads them.
func AddCheck(ctx *sql.Context, n *plan.CreateCheck, build func(sql.Node) (sql.RowIter, error)) (sql.RowIter, error) {
	found, _, err := n.Database().GetTableInsensitive(ctx, n.Table.Name())
	t, ok := found.(*Table)
	if err != nil || !ok {
		return nil, err // the engine says what is wrong
	}
	c, err := plan.NewCheckDefinition(ctx, n.Check, sql.DefaultMySQLSchemaFormatter)
	if err != nil {
		return nil, err
	}
	c.Name = checkName(t.Def.Desc, c.Name)
	if c.Enforced {
		var rows sql.RowIter
		if rows, err = build(n.Table); err == nil {
			err = convert.Satisfied(ctx, rows, n.Check.Expr, c.Name)
		}
	}
	if err == nil {
		err = t.CreateCheck(ctx, c)
	}
	return sql.RowsToRowIter(sql.NewRow(types.NewOkResult(0))), err
}
