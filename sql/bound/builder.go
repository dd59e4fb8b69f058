package bound

import (
	"math"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/iters"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/rowexec"
)

// Builder bounds the nodes of plans.
type Builder struct {
	// Engine builds all nodes, and asks who owns this Builder before.
	Engine *rowexec.BaseBuilder
	// Overrides are those of the engine.
	Overrides sql.EngineOverrides
}

// Build builds a node that keeps rows, or runs long between two of them; a nil iterator leaves the
// node to the engine.
func (b *Builder) Build(ctx *sql.Context, n sql.Node, row sql.Row) (sql.RowIter, error) {
	if !bounded(n) {
		return nil, nil
	}
	a := of(ctx)
	if a == nil {
		return nil, nil
	}
	if err := interrupted(ctx); err != nil {
		return nil, err
	}
	f := &frame{b: b, charge: &charge{a: a}, node: n}
	switch n := n.(type) {
	case *plan.Sort:
		nn := *n
		nn.SortFields = probed(sortedBy(ctx, n.SortFields))
		return f.unary(ctx, &nn, n.Child, row)
	case *plan.TopN:
		return f.topN(ctx, n, row)
	case *plan.GroupBy:
		return f.groupBy(ctx, n, row)
	case *plan.Distinct:
		return f.build(ctx, row, entryBytes)
	case *plan.Window:
		return f.window(ctx, n, row)
	case *plan.Into:
		return f.unary(ctx, n, n.Child, row)
	case *plan.SetOp:
		return f.setOp(ctx, n, row)
	case *plan.RecursiveCte:
		return f.recursive(ctx, n, row)
	case *plan.JoinNode:
		return f.join(ctx, n, row)
	case *plan.ResolvedTable:
		return f.table(ctx, row)
	case *plan.CachedResults:
		if n.NoCache || n.Finalized || n.GetCachedResults() != nil {
			return nil, nil
		}
		f.lasting(cached{n.Id})
		return f.unary(ctx, n, n.Child, row)
	case *plan.HashLookup:
		if n.Lookup != nil {
			return nil, nil
		}
		hashedBy(ctx, n)
		f.lasting(n.Mutex)
		f.more = entryBytes
		return f.unary(ctx, n, n.Child, row)
	case *plan.Block:
		f.lasting(n)
		f.blocks = true
		for _, c := range n.Children() {
			f.below = append(f.below, below{c, f.keepRow})
		}
		return f.build(ctx, row, 0)
	}
	return nil, nil
}

// bounded reports whether a node keeps rows, or runs long between two of them.
func bounded(n sql.Node) bool {
	switch n := n.(type) {
	case *plan.Sort, *plan.TopN, *plan.GroupBy, *plan.Distinct, *plan.Window, *plan.Into, *plan.SetOp, *plan.RecursiveCte,
		*plan.JoinNode, *plan.CachedResults, *plan.HashLookup, *plan.Block:
		return true
	case *plan.ResolvedTable:
		return n.SqlDatabase != nil && n.SqlDatabase.Name() == sql.InformationSchemaDatabaseName
	}
	return false
}

// cached is what keeps the rows of a node whose results are cached.
type cached struct{ id uint64 }

// frame is one execution of a node that is bounded.
type frame struct {
	*charge
	b     *Builder
	node  sql.Node
	below []below
	// lasts: what it keeps outlives its iterator.
	lasts bool
	// blocks: iterators of its children that stand for statements are left as they are.
	blocks bool
	// more is what it keeps of each row besides the row.
	more int64
	// turns holds back the node's first goroutine, which reads rows, until the second one has taken
	// some; nil: there is only one.
	turns chan struct{}
	begun bool
	// started is called when a child is built.
	started func(n sql.Node)
}

// below is a child, and what is taken of its rows.
type below struct {
	n    sql.Node
	each func(sql.Row) error
}

// lasting makes the charge one that outlives the iterator.
func (f *frame) lasting(by any) { f.charge, f.lasts = f.a.keep(by), true }

func (f *frame) keepRow(row sql.Row) error { return f.take(sizeOf(row) + f.more) }

// unary builds a node that keeps all rows of its child.
func (f *frame) unary(ctx *sql.Context, n, c sql.Node, row sql.Row) (sql.RowIter, error) {
	f.node, f.below = n, []below{{c, f.keepRow}}
	return f.build(ctx, row, 0)
}

// build builds the node. out is what it keeps of each row that it returns.
func (f *frame) build(ctx *sql.Context, row sql.Row, out int64) (sql.RowIter, error) {
	if f.below == nil {
		for _, c := range f.node.Children() {
			f.below = append(f.below, below{n: c})
		}
	}
	e := rowexec.NewBuilder(f, f.b.Overrides)
	e.Runner = f.b.Engine.Runner
	it, err := e.Build(ctx, f.node, row)
	if c, ok := it.(sql.CountingRowIter); ok { // the engine will count it, too
		c.Stats.NumberOfIterations--
		it = c.RowIter
	}
	if err == nil {
		err = f.err()
	}
	if err != nil {
		if !f.lasts {
			f.back()
		}
		return nil, err
	}
	if f.lasts {
		return it, nil
	}
	return &node{it, f, out}, nil
}

// Build implements sql.NodeExecBuilder for the nodes below, and leaves its own node to the engine.
func (f *frame) Build(ctx *sql.Context, n sql.Node, row sql.Row) (sql.RowIter, error) {
	if n == f.node && !f.begun {
		f.begun = true
		return nil, nil
	}
	if f.started != nil {
		f.started(n)
	}
	it, err := f.b.Engine.Build(ctx, n, row)
	if c, ok := it.(sql.CountingRowIter); ok {
		c.Stats.NumberOfIterations--
		it = c.RowIter
	}
	if err != nil || plan.IsEmptyIter(it) {
		return it, err
	}
	for _, c := range f.below {
		if c.n != n {
			continue
		}
		if _, ok := it.(plan.BlockRowIter); ok && f.blocks {
			break
		}
		return &child{RowIter: it, f: f, each: c.each}, nil
	}
	return it, nil
}

// mostTop is how many rows are kept in a heap at most: the engine makes room for all of them before
// the first one comes.
const mostTop = 1 << 16

// topN builds the first rows of an order.
func (f *frame) topN(ctx *sql.Context, n *plan.TopN, row sql.Row) (sql.RowIter, error) {
	limit, err := iters.GetInt64Value(ctx, n.Limit)
	if err != nil {
		return nil, err
	}
	if (limit < 0 || limit > mostTop) && !n.CalcFoundRows {
		sorted := plan.NewSort(n.Fields, n.Child)
		if limit < 0 {
			return f.b.Engine.Build(ctx, sorted, row)
		}
		return f.b.Engine.Build(ctx, plan.NewLimit(n.Limit, sorted), row)
	}
	if err := f.room(limit); err != nil {
		return nil, err
	}
	nn := *n
	nn.Fields = probed(sortedBy(ctx, n.Fields))
	var rows, largest, taken int64
	f.node, f.below = &nn, []below{{n.Child, func(row sql.Row) error {
		rows, largest = min(rows+1, limit+1), max(largest, sizeOf(row)+valueBytes)
		if all := rows * largest; all > taken {
			more := all - taken
			taken = all
			return f.take(more)
		}
		return nil
	}}}
	return f.build(ctx, row, 0)
}

// room takes what the engine makes for a heap of rows.
func (f *frame) room(limit int64) error {
	if limit < 0 || limit > math.MaxInt64/rowBytes {
		limit = math.MaxInt64 / rowBytes
	}
	return f.take(limit * rowBytes)
}

// setOp builds a UNION, INTERSECT or EXCEPT.
func (f *frame) setOp(ctx *sql.Context, n *plan.SetOp, row sql.Row) (sql.RowIter, error) {
	if err := f.heap(ctx, n); err != nil {
		return nil, err
	}
	if len(n.SortFields) > 0 || n.SetOpType != plan.UnionType {
		f.below = []below{{n.Left(), f.keepRow}, {n.Right(), f.keepRow}}
		f.more = entryBytes
		return f.build(ctx, row, 0)
	}
	if n.Distinct {
		return f.build(ctx, row, entryBytes)
	}
	return f.build(ctx, row, 0)
}

// heap takes room for the first rows of a UNION that is ordered.
func (f *frame) heap(ctx *sql.Context, n *plan.SetOp) error {
	if n.Limit == nil || len(n.SortFields) == 0 {
		return nil
	}
	limit, err := iters.GetInt64Value(ctx, n.Limit)
	if err != nil {
		return err
	}
	return f.room(limit)
}

// recursive builds a recursive CTE. It keeps the rows of a round, and those of the round before.
func (f *frame) recursive(ctx *sql.Context, n *plan.RecursiveCte, row sql.Row) (sql.RowIter, error) {
	if err := f.heap(ctx, n.Union()); err != nil {
		return nil, err
	}
	if n.Union().Distinct {
		f.more = entryBytes
	}
	if len(n.Union().SortFields) == 0 && !n.Union().Distinct {
		var before, now int64
		f.started = func(c sql.Node) {
			if c == n.Right() {
				f.a.mem.Shrink(before)
				f.used.Add(-before)
				before, now = now, 0
			}
		}
		count := func(row sql.Row) error {
			now += sizeOf(row)
			return f.keepRow(row)
		}
		f.below = []below{{n.Left(), count}, {n.Right(), count}}
	} else {
		f.below = []below{{n.Left(), f.keepRow}, {n.Right(), f.keepRow}}
	}
	return f.build(ctx, row, 0)
}

// join builds a join, which may look at many rows before it returns one.
func (f *frame) join(ctx *sql.Context, n *plan.JoinNode, row sql.Row) (sql.RowIter, error) {
	f.below = []below{{n: n.Left()}, {n: n.Right()}}
	switch {
	case n.Op.IsFullOuter():
		entry := func(sql.Row) error { return f.take(entryBytes) }
		f.below[0].each, f.below[1].each = entry, entry
	case n.Op.IsMerge(), n.Op.IsRange():
		// They keep rows of the right side whose keys are the same, or overlap: all, at worst.
		f.below[1].each = f.keepRow
	}
	return f.build(ctx, row, 0)
}

// table builds the rows of information_schema, which are made all at once.
func (f *frame) table(ctx *sql.Context, row sql.Row) (sql.RowIter, error) {
	it, err := f.build(ctx, row, 0)
	if err != nil {
		return nil, err
	}
	return &child{RowIter: it, f: f, each: f.keepRow}, nil
}
