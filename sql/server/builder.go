package server

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/bound"
	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/infile"
	"github.com/godwitdb/godwit/sql/prefetch"
	"github.com/godwitdb/godwit/sql/rules"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
	"github.com/godwitdb/godwit/sql/zone"
)

// builder sees every node of a plan before the engine builds it. It notes what the statement is and
// how it uses its tables, and replaces a few nodes by ones that know the network.
type builder struct {
	g     *gateway
	base  *analyzer.Analyzer
	pre   *prefetch.Planner
	bound *bound.Builder
}

// Build implements sql.NodeExecBuilder; a nil iterator leaves the node to the engine.
func (b *builder) Build(ctx *sql.Context, n sql.Node, row sql.Row) (sql.RowIter, error) {
	s := session.Of(ctx)
	if s == nil {
		return b.bound.Build(ctx, n, row)
	}
	if it, err := b.bound.Root(ctx, n, row); it != nil || err != nil {
		return it, err
	}
	root := !s.Stmt.Planned
	if root {
		if err := s.State.Executes(); err != nil {
			return nil, err
		}
		s.Stmt.Planned = true
		ctx.SetQueryTime(zone.Now(ctx))
		s.Stmt.Writes = writes(ctx, n)
		b.pre.Begin(s, n)
		ddl.WarnOfUnkept(ctx, s.Stmt.Tree, ctx.Query())
	}
	if it, err := b.bound.Computes(ctx, n, row); it != nil || err != nil {
		return it, err
	}
	if err := session.Unsafe(ctx, s, n); err != nil {
		return nil, err
	}
	if err := table.Runs(ctx, s, n); err != nil {
		return nil, err
	}
	if it, done, err := b.pre.Source(ctx, s, n, row); done {
		return it, err
	}
	switch n := n.(type) {
	case *plan.InsertInto, *plan.Update, *plan.DeleteFrom, *plan.UpdateSource:
		return nil, b.prepareChange(ctx, s, n)
	case *plan.PrepareQuery:
		return nil, s.KeepText(ctx, n)
	case *plan.LoadData:
		return nil, infile.Prepare(ctx, n, s.LoadInfile)
	case *plan.TriggerBeginEndBlock:
		return b.body(ctx, s, n, row)
	case *plan.CreateView:
		if err := rules.ViewColumns(ctx, n, s.Stmt.Tree); err != nil {
			return nil, err
		}
	case *plan.CreateTable, *plan.TableCopier, *plan.AddColumn, *plan.CreateForeignKey, *plan.CreateCheck, *plan.AlterIndex,
		*plan.Truncate:
		return b.buildDefinition(ctx, s, n, row)
	case *plan.Call:
		if s.Calling == n {
			return nil, nil
		}
		s.BeginCall(!root)
		return b.call(ctx, s, n, row)
	case *plan.Set:
		if root {
			ctx.ClearWarnings()
		}
		return nil, b.checkSet(ctx, n, row)
	case *plan.LockTables, *plan.UnlockTables:
		return ddl.Locks(ctx, s, n, func(n sql.Node) (sql.RowIter, error) { return b.base.ExecBuilder.Build(ctx, n, row) })
	case *plan.StartTransaction:
		if root { // LOCK TABLES begins one itself
			s.UnlockTables()
		}
		return nil, nil
	}
	if it, err := b.buildSeen(ctx, s, n, row); it != nil || err != nil {
		return it, err
	}
	if it, err := b.buildQuery(ctx, s, n, row); it != nil || err != nil {
		return it, err
	}
	return b.bound.Build(ctx, n, row)
}

// buildQuery builds nodes that read.
func (b *builder) buildQuery(ctx *sql.Context, s *session.Session, n sql.Node, row sql.Row) (sql.RowIter, error) {
	switch n := n.(type) {
	case *plan.JoinNode:
		return b.pre.Join(ctx, n, row)
	case *plan.Project:
		return b.pre.Subqueries(ctx, s, n, n.Projections, row)
	case *plan.Filter:
		return b.pre.Subqueries(ctx, s, n, []sql.Expression{n.Expression}, row)
	case *plan.DescribeQuery:
		return b.explain(ctx, s, n, row)
	case *plan.ShowCreateDatabase:
		return b.showCreateDatabase(ctx, s, n, row)
	case *plan.ShowCreateTable:
		return b.showCreate(ctx, s, n, row)
	}
	return nil, nil
}

// prepareChange sees to what a statement that changes rows reads ahead, and marks its targets; the
// engine builds it.
func (b *builder) prepareChange(ctx *sql.Context, s *session.Session, n sql.Node) error {
	switch n := n.(type) {
	case *plan.UpdateSource:
		b.pre.UpdateSource(ctx, s, n)
	case *plan.InsertInto:
		if d, ok := n.Destination.(*plan.InsertDestination); ok && n.OnDupExprs != nil && n.OnDupExprs.HasUpdates() {
			d.Sch = table.BytewiseSchema(d.Sch)
		}
		if err := rules.ShortRows(ctx, n); err != nil {
			return err
		}
		b.insert(ctx, s, n)
		if len(b.g.DB.Topology().Regions) > 1 {
			if err := b.g.uuids.Insert(ctx, s.Region(), n); err != nil {
				return err
			}
		}
		b.pre.Insert(ctx, s, n)
	case *plan.Update:
		s.Stmt.PerRow, s.Stmt.Blind = n.Ignore, false
		compareBytes(ctx, n)
		markTargets(s, n.Child)
		b.pre.Update(ctx, s, n)
	case *plan.DeleteFrom:
		s.Stmt.PerRow, s.Stmt.Blind = false, false
		markTargets(s, n.Child)
		b.pre.Delete(ctx, s, n)
	}
	return nil
}

// buildDefinition builds nodes that change the schema.
func (b *builder) buildDefinition(ctx *sql.Context, s *session.Session, n sql.Node, row sql.Row) (sql.RowIter, error) {
	switch n := n.(type) {
	case *plan.CreateTable:
		if err := b.createTable(s, n); err != nil || s.Fill == nil {
			return nil, err
		}
		return b.fill(ctx, s, n, row)
	case *plan.TableCopier:
		return nil, ddl.SelectedCollations(ctx, n)
	case *plan.AddColumn:
		return b.addColumn(ctx, n)
	case *plan.CreateForeignKey:
		if d := sql.ForeignKeyReferentialAction_SetDefault; n.FkDef.OnUpdate == d || n.FkDef.OnDelete == d {
			return nil, sql.ErrForeignKeySetDefault.New() // before the engine makes an index for it
		}
		b.pre.ForeignKey(ctx, s, *n.FkDef)
	case *plan.CreateCheck:
		return ddl.AddCheck(ctx, n, func(n sql.Node) (sql.RowIter, error) { return b.base.ExecBuilder.Build(ctx, n, row) })
	case *plan.AlterIndex:
		b.resolveVirtual(ctx, n.Table)
	case *plan.Truncate:
		return b.truncate(ctx, s, n)
	}
	return nil, nil
}

// fill makes a table, and gives it its rows.
func (b *builder) fill(ctx *sql.Context, s *session.Session, n *plan.CreateTable, row sql.Row) (sql.RowIter, error) {
	fill := s.Fill
	s.Fill = nil // the engine comes back here
	it, err := b.base.ExecBuilder.Build(ctx, n, row)
	if err != nil {
		return nil, err
	}
	if _, err := sql.RowIterToRows(ctx, it); err != nil {
		return nil, err
	}
	s.Fill = fill
	res, err := fill(ctx)
	if err != nil {
		return nil, err
	}
	return sql.RowsToRowIter(sql.NewRow(res)), nil
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
func markTargets(s *session.Session, n sql.Node) {
	var found []*table.Table
	transform.Inspect(n, func(n sql.Node) bool {
		switch n := n.(type) {
		case *plan.Limit, *plan.TopN, *plan.JoinNode:
			s.Stmt.Hold = true
		case *plan.SubqueryAlias:
			s.Stmt.Hold = true
			return false
		case sql.TableNode:
			if t := table.Of(n.UnderlyingTable()); t != nil {
				found = append(found, t)
			}
		}
		return true
	})
	for _, t := range found {
		t.Access.Lock, t.Access.Target, t.Access.Whole = kv.LockExclusive, true, !s.Stmt.Hold
	}
}

// compareBytes lets an UPDATE see all changes of texts: the engine leaves out what its schemas say
// is none, and they say that by collations.
func compareBytes(ctx *sql.Context, n *plan.Update) {
	transform.Inspect(n.Child, func(n sql.Node) bool {
		switch n := n.(type) {
		case *plan.Project: // of a join that is updated
			fieldsByBytes(ctx, n.Projections)
		case sql.TableNode:
			if t := table.Of(n.UnderlyingTable()); t != nil {
				t.CompareBytes()
			}
		}
		return true
	})
}

// fieldsByBytes gives plain columns among expressions types that tell all texts apart.
func fieldsByBytes(ctx *sql.Context, es []sql.Expression) {
	for i, e := range es {
		f, ok := e.(*expression.GetField)
		if !ok {
			continue
		}
		if typ := table.Bytewise(f.Type(ctx)); typ != f.Type(ctx) {
			k := expression.NewGetFieldWithTable(f.Index(), int(f.TableId()), typ, f.Database(), f.Table(), f.Name(),
				f.IsNullable(ctx))
			es[i] = k.WithId(f.Id()).(*expression.GetField)
		}
	}
}

// tableOf is our table that a node writes to, nil if it is none.
func tableOf(n sql.Node) *table.Table {
	dest, err := plan.GetInsertable(n)
	if err != nil {
		return nil
	}
	return table.Of(dest)
}

// insert decides how duplicates are found, and makes reads of the table inserted into end before
// the first row goes in.
func (b *builder) insert(ctx *sql.Context, s *session.Session, n *plan.InsertInto) {
	s.Stmt.PerRow = n.Ignore || n.IsReplace || n.OnDupExprs != nil && n.OnDupExprs.HasUpdates()
	s.Stmt.Blind = !s.Stmt.PerRow && !s.Explicit(ctx)
	d := tableOf(n.Destination)
	if d == nil || n.Source == nil {
		return
	}
	transform.Inspect(n.Source, func(n sql.Node) bool {
		if tn, ok := n.(sql.TableNode); ok {
			if t := table.Of(tn.UnderlyingTable()); t != nil && t.Def.Desc.ID == d.Def.Desc.ID {
				t.Access.Target, t.Access.Whole, s.Stmt.Hold = true, true, true
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
	if t := table.Of(tn.UnderlyingTable()); t != nil && t.Def.Virtual {
		r := planbuilder.NewBuilderForColumnDefaultResolution(ctx, b.base.Overrides)
		t.Full = r.ResolveSchemaDefaults(t.Def.Desc.DB, t.Name(), t.Full)
	}
}

// truncate is DELETE without WHERE in a stored procedure, where it cannot be
// told from TRUNCATE: it must not commit.
func (b *builder) truncate(ctx *sql.Context, s *session.Session, n *plan.Truncate) (sql.RowIter, error) {
	tn, ok := n.Child.(sql.TableNode)
	if !s.Stmt.Call || !ok {
		return nil, nil
	}
	t := table.Of(tn.UnderlyingTable())
	if t == nil || t.Def.Desc.AutoIncCol() >= 0 {
		return nil, nil // DELETE of such a table is never made a TRUNCATE
	}
	s.Stmt.PerRow, s.Stmt.Blind = false, false
	return ddl.Once(func(ctx *sql.Context) (sql.Row, error) {
		n, err := table.New(b.g.tableEnv(), t.Def).DeleteAll(ctx)
		if err != nil {
			return nil, err
		}
		return sql.NewRow(types.NewOkResult(n)), nil
	}), nil
}

// sameInAllRows reports whether a new column has one constant value in all rows that there are.
// Columns that are NULL there and enumerations are the engine's: it does them right.
func sameInAllRows(c *sql.Column) bool {
	switch {
	case c.AutoIncrement, c.Generated != nil, c.PrimaryKey:
		return false
	case c.Default != nil:
		return c.Default.IsLiteral() ||
			schema.IsNow(c.Default) && (types.IsDatetimeType(c.Type) || types.IsTimestampType(c.Type))
	}
	return !c.Nullable && !types.IsEnum(c.Type)
}

// addColumn adds a column with a constant default by the descriptor alone; the engine would
// rewrite the table.
func (b *builder) addColumn(ctx *sql.Context, n *plan.AddColumn) (sql.RowIter, error) {
	c := n.Column()
	tn, ok := n.Table.(sql.TableNode)
	if !ok || !sameInAllRows(c) {
		return nil, nil
	}
	t := table.Of(tn.UnderlyingTable())
	if t == nil || t.Def.HasFulltext() {
		return nil, nil
	}
	return ddl.Once(func(ctx *sql.Context) (sql.Row, error) {
		cur, err := t.Newest(ctx)
		if err != nil {
			return nil, err
		}
		if err := ddl.New(b.g.Env, cur).AddColumn(ctx, c, n.Order(ctx)); err != nil {
			return nil, err
		}
		return sql.NewRow(types.NewOkResult(0)), nil
	}), nil
}
