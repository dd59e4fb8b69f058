package sqlfront

import (
	"io"

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
	root := !s.built
	if root {
		s.built = true
		s.writes = writes(ctx, n)
		if s.writes && s.rehearsal == nil {
			s.change, s.after = changeOf(n)
		}
	}
	if r := s.rehearsal; r != nil {
		if err := r.step(); err != nil {
			return nil, err
		}
		if r.from == n {
			s.ahead = nil
			return r, nil
		}
	}
	if p := s.ahead; p != nil && p.node == n {
		s.ahead = nil
		return b.readAhead(ctx, s, p, row)
	}
	if o := s.outer; o != nil && o.Node == n {
		s.outer = nil
		return o.BuildRowIter(ctx, b.base.ExecBuilder, row)
	}
	switch n := n.(type) {
	case *plan.JoinNode:
		return b.join(ctx, n, row)
	case *plan.Project:
		if !s.writes || s.stable {
			return b.subqueries(ctx, n, n.Projections, row)
		}
	case *plan.Filter:
		if !s.writes || s.stable {
			return b.subqueries(ctx, n, []sql.Expression{n.Expression}, row)
		}
	case *plan.UpdateSource:
		if s.stable {
			// The engine wants to see the table below it as it is.
			if inner := correlated(ctx, n.UpdateExprs.AllExpressions()); len(inner) > 0 {
				s.outer = &outerNode{Node: n.Child, inner: inner}
			}
		}
	case *plan.InsertInto:
		b.insert(ctx, s, n)
		if err := b.g.keyUUIDs(ctx, s, n); err != nil {
			return nil, err
		}
		b.aheadInsert(ctx, s, n)
		b.planRehearsal(ctx, s, n)
	case *plan.Update:
		s.perRow, s.blind = n.Ignore, false
		markTargets(s, n.Child)
		b.aheadUpdate(ctx, s, n)
		b.planRehearsal(ctx, s, n)
	case *plan.DeleteFrom:
		s.perRow, s.blind = false, false
		markTargets(s, n.Child)
		b.aheadDelete(ctx, s, n)
		b.planRehearsal(ctx, s, n)
	case *plan.AddColumn:
		return b.addColumn(ctx, n)
	case *plan.CreateForeignKey:
		if d := sql.ForeignKeyReferentialAction_SetDefault; n.FkDef.OnUpdate == d || n.FkDef.OnDelete == d {
			return nil, sql.ErrForeignKeySetDefault.New() // before the engine makes an index for it
		}
		b.aheadForeignKey(ctx, s, *n.FkDef)
	case *plan.AlterIndex:
		b.resolveVirtual(ctx, n.Table)
	case *plan.Call:
		s.inCall = true
		if !root {
			s.triggered++
		}
	case *plan.DescribeQuery:
		return b.explain(ctx, s, n, row)
	case *plan.Truncate:
		return b.truncate(ctx, s, n)
	case *plan.CreateTable:
		return nil, b.createTable(s, n)
	case *plan.ShowCreateDatabase:
		return b.showCreateDatabase(ctx, s, n, row)
	case *plan.ShowCreateTable:
		return b.showCreate(ctx, s, n, row)
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

// markTargets notes that the statement changes the rows that it reads of these
// tables. A plain scan is read to its end before the first change; where tables are read
// again and again (joins) or not to the end (LIMIT), the changes are kept back instead.
func markTargets(s *Session, n sql.Node) {
	var found []*sqlTable
	transform.Inspect(n, func(n sql.Node) bool {
		switch n := n.(type) {
		case *plan.Limit, *plan.TopN, *plan.JoinNode:
			s.hold = true
		case *plan.SubqueryAlias:
			s.hold = true
			return false
		case sql.TableNode:
			if t := tableOf(n.UnderlyingTable()); t != nil {
				found = append(found, t)
			}
		}
		return true
	})
	for _, t := range found {
		t.acc.lock, t.acc.target, t.acc.whole = kv.LockExclusive, true, !s.hold
	}
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
	case *homesTable:
		return t.st
	case *homesIndexed:
		return t.st
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
				t.acc.target, t.acc.whole, s.hold = true, true, true
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
func (b *builder) truncate(ctx *sql.Context, s *Session, n *plan.Truncate) (sql.RowIter, error) {
	tn, ok := n.Child.(sql.TableNode)
	if !s.call || !ok {
		return nil, nil
	}
	t := tableOf(tn.UnderlyingTable())
	if t == nil || t.t.desc.autoIncCol() >= 0 {
		return nil, nil // DELETE of such a table is never made a TRUNCATE
	}
	s.perRow, s.blind = false, false
	return &onceIter{func(ctx *sql.Context) (sql.Row, error) {
		all := newSQLTable(b.g, t.t)
		all.acc.lock, all.acc.target, all.acc.whole = kv.LockExclusive, true, true
		it, err := all.scanAll(ctx)
		if err != nil {
			return nil, err
		}
		e := all.editor(ctx)
		e.StatementBegin(ctx)
		n := 0
		for {
			row, err := it.Next(ctx)
			if err == io.EOF {
				return sql.NewRow(types.NewOkResult(n)), e.StatementComplete(ctx)
			}
			if err == nil {
				err = e.Delete(ctx, row)
			}
			if err != nil {
				_ = e.DiscardChanges(ctx, err)
				return nil, err
			}
			n++
		}
	}}, nil
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
