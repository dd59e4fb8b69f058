package bound

import (
	"io"
	"slices"
	"sort"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
)

// The engine's iterator of window functions sorts rows twice, and cannot be interrupted meanwhile.
// So windows are run here, with the engine's functions and frames. All rows of the child are kept,
// and all results.

// window builds window functions.
func (f *frame) window(ctx *sql.Context, n *plan.Window, row sql.Row) (sql.RowIter, error) {
	it := &windowIter{f: f, exprs: make([]sql.Expression, len(n.SelectExprs))}
	for i, e := range n.SelectExprs {
		if err := it.add(ctx, i, e); err != nil {
			return nil, err
		}
	}
	from, err := f.b.Engine.Build(ctx, n.Child, row)
	if err != nil {
		return nil, err
	}
	it.from = &child{RowIter: from, f: f, each: f.keepRow}
	return &node{it, f, 0}, nil
}

// windowIter is the results of window functions, in the order of the child's rows.
type windowIter struct {
	f     *frame
	from  sql.RowIter
	exprs []sql.Expression // by their place; nil: a window function
	sorts []*windowSort

	rows, out []sql.Row
	filled    bool
	next      int
}

// windowSort is the functions that share partitions and an order.
type windowSort struct {
	id         uint64
	partitions sql.SortFields
	order      sql.SortFields
	functions  []windowFunction
}

// windowFunction is a function, the frames of the rows of a partition, and its place among the
// results.
type windowFunction struct {
	sql.WindowFunction
	frames sql.WindowFramer
	at     int
}

// add takes an expression of the SELECT list.
func (w *windowIter) add(ctx *sql.Context, at int, e sql.Expression) error {
	if a, ok := e.(*expression.Alias); ok {
		e = a.Child
	}
	over, ok := e.(sql.WindowAdaptableExpression)
	if !ok {
		w.exprs[at] = e
		return nil
	}
	over, err := within(ctx, over)
	if err == nil {
		over, err = probedFunction(ctx, over)
	}
	if err != nil {
		return err
	}
	if def := over.Window(); def != nil {
		by := *def
		by.OrderBy = sortedBy(ctx, def.OrderBy)
		by.PartitionBy = make([]sql.Expression, len(def.PartitionBy))
		for i, e := range def.PartitionBy {
			by.PartitionBy[i] = digested(ctx, e)
		}
		over = over.WithWindow(ctx, &by)
	}
	fn, err := over.NewWindowFunction(ctx)
	if err != nil {
		return err
	}
	def := over.Window()
	if def == nil {
		def = sql.NewWindowDefinition(nil, nil, nil, "", "")
	}
	id, err := def.PartitionId()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(w.sorts, func(s *windowSort) bool { return s.id == id })
	if i < 0 {
		i = len(w.sorts)
		s := &windowSort{id: id}
		for _, e := range def.PartitionBy {
			s.partitions = append(s.partitions, sql.SortField{Column: e, Order: sql.Ascending})
		}
		s.order = append(slices.Clone(s.partitions), def.OrderBy...)
		w.sorts = append(w.sorts, s)
	}
	w.sorts[i].functions = append(w.sorts[i].functions, windowFunction{fn, fn.DefaultFramer(), at})
	return nil
}

// Next implements sql.RowIter.
func (w *windowIter) Next(ctx *sql.Context) (sql.Row, error) {
	if !w.filled {
		if err := w.fill(ctx); err != nil {
			return nil, err
		}
		w.filled = true
	}
	if w.next == len(w.out) {
		return nil, io.EOF
	}
	row, out := w.rows[w.next], w.out[w.next]
	w.rows[w.next], w.out[w.next] = nil, nil
	w.next++
	for i, e := range w.exprs {
		if e == nil {
			continue
		}
		v, err := e.Eval(ctx, row)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

// fill evaluates the window functions for all rows.
func (w *windowIter) fill(ctx *sql.Context) (err error) {
	from := w.from
	w.from = nil // it is closed in any case
	if w.rows, err = sql.RowIterToRows(ctx, from); err != nil {
		return err
	}
	all := len(w.rows)
	if err := w.f.take(int64(all * (rowBytes + valueBytes*len(w.exprs)))); err != nil {
		return err
	}
	w.out = make([]sql.Row, all)
	for i := range w.out {
		w.out[i] = make(sql.Row, len(w.exprs))
	}
	for _, s := range w.sorts {
		if err := s.run(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// Close implements sql.RowIter.
func (w *windowIter) Close(ctx *sql.Context) error {
	for _, s := range w.sorts {
		for _, fn := range s.functions {
			fn.Dispose(ctx)
		}
	}
	w.rows, w.out = nil, nil
	if w.from == nil {
		return nil
	}
	return w.from.Close(ctx)
}

// run evaluates functions that share an order. The rows in that order are kept meanwhile.
func (s *windowSort) run(ctx *sql.Context, w *windowIter) error {
	sorted := int64(len(w.rows) * (rowBytes + valueBytes))
	if err := w.f.take(sorted); err != nil {
		return err
	}
	defer w.f.giveBack(sorted)
	o := &ordering{Sorter: expression.Sorter{SortFields: s.order, Rows: slices.Clone(w.rows), Ctx: ctx},
		at: make([]int, len(w.rows))}
	for i := range o.at {
		o.at[i] = i
	}
	if len(s.order) > 0 {
		sort.Stable(o)
	}
	same := expression.Sorter{SortFields: s.partitions, Ctx: ctx}
	for begin := 0; begin < len(o.Rows) && o.LastError == nil; {
		end := begin + 1
		for end < len(o.Rows) && !same.IsLesserRow(o.Rows[end-1], o.Rows[end]) {
			if end++; end%compares == 0 {
				if err := interrupted(ctx); err != nil {
					return err
				}
			}
		}
		if same.LastError != nil {
			return same.LastError
		}
		if err := s.partition(ctx, w, o, sql.WindowInterval{Start: begin, End: end}); err != nil {
			return err
		}
		begin = end
	}
	return o.LastError
}

// partition evaluates the functions for the rows of a partition.
func (s *windowSort) partition(ctx *sql.Context, w *windowIter, o *ordering, of sql.WindowInterval) (err error) {
	for i := range s.functions {
		fn := &s.functions[i]
		if err := fn.StartPartition(ctx, of, o.Rows); err != nil {
			return err
		}
		if fn.frames, err = fn.frames.NewFramer(of); err != nil {
			return err
		}
	}
	for i := of.Start; i < of.End; i++ {
		if i%looks == 0 {
			if err := w.f.a.goOn(ctx); err != nil {
				return err
			}
		}
		for j := range s.functions {
			fn := &s.functions[j]
			frame, err := fn.frames.Next(ctx, o.Rows)
			if err != nil {
				return err
			}
			v, err := fn.Compute(ctx, frame, o.Rows)
			if err != nil {
				return err
			}
			if err := w.f.take(sizeOfValue(v)); err != nil {
				return err
			}
			w.out[o.at[i]][fn.at] = v
		}
	}
	return nil
}

// ordering sorts rows, and remembers where each was.
type ordering struct {
	expression.Sorter
	at []int
	n  int
}

// Less implements sort.Interface.
func (o *ordering) Less(i, j int) bool {
	if o.n++; o.n%compares == 0 && o.LastError == nil {
		o.LastError = interrupted(o.Ctx)
	}
	return o.Sorter.Less(i, j)
}

// Swap implements sort.Interface.
func (o *ordering) Swap(i, j int) {
	o.Sorter.Swap(i, j)
	o.at[i], o.at[j] = o.at[j], o.at[i]
}
