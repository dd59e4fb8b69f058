package sqlfront

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/kv"
)

// builder sees every node of a plan before the engine builds it. It notes what the statement is and
// how it uses its tables, and replaces a few nodes by ones that know the network.
type builder struct {
	g    *gateway
	base *analyzer.Analyzer
}

// Build implements sql.NodeExecBuilder; a nil iterator leaves the node to the engine.
func (b *builder) Build(ctx *sql.Context, n sql.Node, row sql.Row) (sql.RowIter, error) {
	s := sessionOf(ctx)
	if s == nil {
		return nil, nil
	}
	if !s.built {
		s.built = true
		s.writes = writes(ctx, n)
	}
	switch n := n.(type) {
	case *plan.InsertInto:
		b.insert(ctx, s, n)
	case *plan.Update:
		s.perRow = n.Ignore
		markTargets(ctx, n.Child, nil)
	case *plan.DeleteFrom:
		markTargets(ctx, n.Child, nil)
	case *plan.AddColumn:
		return b.addColumn(ctx, n)
	case *plan.AlterIndex:
		b.resolveVirtual(ctx, n.Table)
	case *plan.Truncate:
		return b.truncate(ctx, n, row)
	}
	return nil, nil
}

// writes reports whether a plan may change something.
func writes(ctx *sql.Context, n sql.Node) bool {
	found := false
	transform.InspectWithOpaque(ctx, n, func(_ *sql.Context, n sql.Node) bool {
		if _, ok := n.(*plan.Call); ok {
			found = true
		}
		return !found
	})
	return found || !plan.IsReadOnly(n)
}

// markTargets notes that the statement changes the rows it reads of these
// tables (all of them, or those named).
func markTargets(ctx *sql.Context, n sql.Node, only func(*sqlTable) bool) {
	limited := false
	transform.Inspect(n, func(n sql.Node) bool {
		switch n := n.(type) {
		case *plan.Limit, *plan.TopN:
			limited = true
		case *plan.SubqueryAlias:
			return false
		case sql.TableNode:
			if t := tableOf(n.UnderlyingTable()); t != nil && (only == nil || only(t)) {
				t.acc.lock = kv.LockExclusive
				t.acc.target = !limited
			}
		}
		return true
	})
}

// tableOf finds our table below the engine's wrappers.
func tableOf(t sql.Table) *sqlTable {
	switch t := t.(type) {
	case *sqlTable:
		return t
	case *indexedTable:
		return t.sqlTable
	case truncatable:
		return t.sqlTable
	case *editor:
		return t.sqlTable
	case sql.TableWrapper:
		return tableOf(t.Underlying())
	}
	return nil
}

// insert decides how duplicates are found, and makes reads of the table inserted into end before the first row goes in.
func (b *builder) insert(ctx *sql.Context, s *Session, n *plan.InsertInto) {
	s.perRow = n.Ignore || n.IsReplace || n.OnDupExprs != nil && n.OnDupExprs.HasUpdates()
	s.blind = !s.perRow && !s.explicit(ctx)
	dest, err := plan.GetInsertable(n.Destination)
	if err != nil || n.Source == nil {
		return
	}
	d := tableOf(dest)
	if d == nil {
		return
	}
	transform.Inspect(n.Source, func(n sql.Node) bool {
		if tn, ok := n.(sql.TableNode); ok {
			if t := tableOf(tn.UnderlyingTable()); t != nil && t.t.desc.ID == d.t.desc.ID {
				t.acc.target = true
			}
		}
		return true
	})
}

// resolveVirtual gives the virtual columns of a table their expressions: the engine
// evaluates them while it builds an index over one.
func (b *builder) resolveVirtual(ctx *sql.Context, n sql.Node) {
	tn, ok := n.(sql.TableNode)
	if !ok {
		return
	}
	if t := tableOf(tn.UnderlyingTable()); t != nil && t.t.virtual {
		r := planbuilder.NewBuilderForColumnDefaultResolution(ctx, b.base.Overrides)
		t.full = r.ResolveSchemaDefaults(t.t.desc.DB, t.Name(), t.full)
	}
}

// truncate is DELETE without WHERE in a stored procedure, where it cannot be
// told from TRUNCATE: it must not commit.
func (b *builder) truncate(ctx *sql.Context, n *plan.Truncate, row sql.Row) (sql.RowIter, error) {
	if !ctx.IsInterpreted() || n.Child.Schema(ctx).HasAutoIncrement() {
		return nil, nil // DELETE of such a table is never made a TRUNCATE
	}
	return b.base.ExecBuilder.Build(ctx, plan.NewDeleteFrom(n.Child, nil, false), row)
}

// addColumn adds a column with a constant default by the descriptor alone; the engine would
// rewrite the table.
func (b *builder) addColumn(ctx *sql.Context, n *plan.AddColumn) (sql.RowIter, error) {
	c := n.Column()
	if c.AutoIncrement || c.Generated != nil || c.PrimaryKey || c.Default != nil && !c.Default.IsLiteral() {
		return nil, nil
	}
	tn, ok := n.Table.(sql.TableNode)
	if !ok {
		return nil, nil
	}
	t := tableOf(tn.UnderlyingTable())
	if t == nil || c.Default == nil && c.Nullable {
		return nil, nil // the engine does it right
	}
	for _, x := range t.t.indexes {
		if x.desc.Fulltext != nil {
			return nil, nil
		}
	}
	if c.Default == nil && types.IsEnum(c.Type) {
		return nil, nil
	}
	return &onceIter{func(ctx *sql.Context) (sql.Row, error) {
		cur, err := t.newest(ctx)
		if err != nil {
			return nil, err
		}
		if err := newSQLTable(b.g, cur).AddColumn(ctx, c, n.Order(ctx)); err != nil {
			return nil, err
		}
		return sql.NewRow(types.NewOkResult(0)), nil
	}}, nil
}
