package exec

import (
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/fn"
)

// bigGroup is a group for which an aggregate keeps more values than fit into memory. Aggregates
// that keep nothing go on as usual; the rows for the others go to a file, in the order in which
// they arrive. At the end each of the others reads the file on its own: DISTINCT drops what was
// there before, a sort makes the order that GROUP_CONCAT asks for. Both have files of their own if
// they need them.
type bigGroup struct {
	h    *hashAgg
	file *spill
	accs []expr.Acc // of the aggregates that keep values
	held int64
}

// begBig makes the only group that there is a bigGroup. Rows of other groups that follow go to
// partitions.
func (h *hashAgg) begBig() error {
	h.ctx.Work.File()
	f, err := newSpill(h.ctx, h.rowTypes)
	if err != nil {
		return err
	}
	h.big = &bigGroup{h: h, file: f, accs: make([]expr.Acc, len(h.accs))}
	if err := f.writeStore(h.log); err != nil {
		return err
	}
	h.release()
	for k, a := range h.spec.Aggs {
		if keepsValues(a.Agg) {
			h.accs[k].Reset()
			h.accs[k].Grow(1)
		}
	}
	return nil
}

// takeBig takes rows after the group has become big.
func (h *hashAgg) takeBig(row, keys []*expr.Vec, sel []int32) error {
	away, err := h.known(keys, sel)
	if err != nil {
		return err
	}
	in := row[h.nkeys:]
	for k, a := range h.accs {
		if keepsValues(h.spec.Aggs[k].Agg) {
			continue
		}
		if err := a.Add(h.gids, in[h.spans[k][0]:h.spans[k][1]], h.sel); err != nil {
			return err
		}
	}
	if err := h.big.file.write(row, h.sel); err != nil || len(away) == 0 {
		return err
	}
	if h.parts == nil {
		if h.parts, err = newParts(h.ctx, h.rowTypes, h.rowTypes[:h.nkeys]); err != nil {
			return err
		}
	}
	return h.parts.write(row, keys, away)
}

// finish aggregates what went to the file.
func (g *bigGroup) finish() error {
	for k, a := range g.h.spec.Aggs {
		if !keepsValues(a.Agg) {
			continue
		}
		plain := *a.Agg
		plain.Distinct, plain.Order = false, nil
		acc, err := fn.NewAcc(&plain, g.h.ctx.Env)
		if err != nil {
			return err
		}
		acc.Grow(1)
		g.accs[k] = acc
		if err := g.feed(acc, a.Agg, g.h.nkeys+g.h.spans[k][0]); err != nil {
			return err
		}
	}
	return nil
}

// feed gives an aggregate its rows in the order that it asks for. Its inputs are the columns of the
// file from first on.
func (g *bigGroup) feed(acc expr.Acc, a *expr.Agg, first int) error {
	in := Op(&fileScan{columns: numbered(g.file.types), file: g.file})
	number := in.Cols()[len(g.file.types)]
	col := func(i int) expr.Node { return &expr.Col{ID: in.Cols()[i], T: in.Types()[i]} }
	var cols []Column
	for i := range len(a.Args) + len(a.Order) {
		cols = append(cols, Column{in.Cols()[first+i], col(first + i)})
	}
	cols = append(cols, Column{number, col(len(g.file.types))})
	op := NewProject(in, cols)
	if a.Distinct {
		op = newDistinct(op, len(a.Args))
	}
	if a.Distinct || len(a.Order) > 0 {
		var keys []SortKey
		for i, k := range a.Order {
			keys = append(keys, SortKey{Expr: col(first + len(a.Args) + i), Desc: k.Desc})
		}
		op = NewSort(op, append(keys, SortKey{Expr: col(len(g.file.types))}))
	}
	if err := op.Open(g.h.ctx); err != nil {
		return closing(op, err)
	}
	for {
		b, err := op.Next()
		if err != nil {
			return closing(op, err)
		}
		if b == nil {
			return op.Close()
		}
		if err := g.add(acc, b.Cols[:len(a.Args)], b.Sel); err != nil {
			return closing(op, err)
		}
	}
}

// add accounts for what the aggregate keeps: the result itself must fit into memory.
func (g *bigGroup) add(acc expr.Acc, in []*expr.Vec, sel []int32) error {
	before := acc.Bytes()
	if err := acc.Add(make([]int32, len(sel)), in, sel); err != nil {
		return err
	}
	more := acc.Bytes() - before
	if err := g.h.ctx.Mem.Grow(more); err != nil {
		return err
	}
	g.held += more
	return nil
}

func (g *bigGroup) close() {
	if g == nil {
		return
	}
	g.h.ctx.Mem.Shrink(g.held)
	g.held = 0
	g.file.close()
}

// fileScan reads a temporary file, and numbers its rows in a further column.
type fileScan struct {
	columns
	file *spill
	ctx  *Ctx
	r    *spillReader
	n    int64
	num  expr.Vec
	b    expr.Batch
}

// numbered are columns with numbers from 1, and one more for the number of the row.
func numbered(types []expr.Type) columns {
	c := columns{types: append(append([]expr.Type(nil), types...), expr.TypeInt)}
	for i := range c.types {
		c.ids = append(c.ids, expr.ColID(i+1))
	}
	return c
}

// Open implements Op.
func (f *fileScan) Open(ctx *Ctx) (err error) {
	f.ctx, f.n = ctx, 0
	f.r, err = f.file.read()
	return err
}

// Next implements Op.
func (f *fileScan) Next() (*expr.Batch, error) {
	if err := f.ctx.Err(); err != nil {
		return nil, err
	}
	b, err := f.r.next()
	if err != nil || b == nil {
		return nil, err
	}
	f.num.Reset(expr.TypeInt, b.N)
	for i := range f.num.I {
		f.num.I[i] = f.n
		f.n++
	}
	f.b = expr.Batch{N: b.N, Cols: append(append(f.b.Cols[:0], b.Cols...), &f.num), Sel: b.Sel}
	return &f.b, nil
}

// Close implements Op.
func (f *fileScan) Close() error { return nil }
