package exec

import (
	"errors"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/exec/bounds"
	"github.com/godwitdb/godwit/sql/exec/hashing"
	"github.com/godwitdb/godwit/sql/expr"
)

// columns are the columns of an operator's output.
type columns struct {
	ids   []expr.ColID
	types []expr.Type
}

// Cols implements Op.
func (c *columns) Cols() []expr.ColID { return c.ids }

// Types implements Op.
func (c *columns) Types() []expr.Type { return c.types }

func columnsOf(op Op) columns { return columns{op.Cols(), op.Types()} }

// add appends computed columns.
func (c *columns) add(cols []Column) {
	c.ids = append([]expr.ColID(nil), c.ids...)
	c.types = append([]expr.Type(nil), c.types...)
	for _, x := range cols {
		c.ids, c.types = append(c.ids, x.ID), append(c.types, x.Expr.Type())
	}
}

// SpanExpr is a span whose bounds are computed when the plan runs, in the types of the key
// columns.
type SpanExpr struct {
	Lo, Hi                 []expr.Node
	LoOpen, HiOpen, Begins bool
	// Null keeps spans with a NULL in a bound; without it such a span has no rows.
	Null bool
}

// ScanSpec reads a table or an index.
type ScanSpec struct {
	Source Source
	Read   Read
	// Spans replace Read.Spans, unless they are nil.
	Spans []SpanExpr
	// Within replaces Read.Within, unless it is nil.
	Within []SpanExpr
	Cols   []expr.ColID
	Types  []expr.Type
	// Filter drops rows.
	Filter []expr.Node
}

type scan struct {
	columns
	spec ScanSpec
	ctx  *Ctx
	env  *expr.Env
	pred expr.Pred
	rows Rows
	b    expr.Batch
	left int64 // rows still wanted of Read.Want
}

// NewScan reads rows of a Source.
func NewScan(s ScanSpec) Op { return &scan{columns: columns{s.Cols, s.Types}, spec: s} }

func (s *scan) Open(ctx *Ctx) (err error) {
	s.ctx = ctx
	if s.env != ctx.Env {
		if s.pred, err = expr.CompilePreds(s.spec.Filter, s.ids, ctx.Env); err != nil {
			return err
		}
		s.env = ctx.Env
	}
	r := s.spec.Read
	if s.spec.Spans != nil {
		if r.Spans, err = evalSpans(s.spec.Spans, ctx.Env); err != nil {
			return err
		}
		if len(r.Spans) == 0 {
			s.rows = nil
			return nil
		}
	}
	if s.spec.Within != nil {
		if r.Within, err = evalSpans(s.spec.Within, ctx.Env); err != nil {
			return err
		}
		if len(r.Within) == 0 {
			s.rows = nil
			return nil
		}
	}
	s.left = r.Want
	r.Bounds = bounds.Of(s.spec.Filter, s.ids, ctx.Env)
	s.rows, err = s.spec.Source.Start(ctx, r)
	return err
}

// lockFree locks the selected rows of the batch that no other transaction has locked, and selects
// only these.
func (s *scan) lockFree() (err error) {
	rows, ok := s.rows.(Skipper)
	if !ok {
		return errors.New("this table cannot skip locked rows")
	}
	if s.b.Sel, err = rows.Lock(s.b.Sel, int(s.left)); err == nil && s.spec.Read.Want > 0 {
		s.left -= int64(len(s.b.Sel))
	}
	return err
}

// evalSpans computes bounds. Spans that can have no row are left out.
func evalSpans(in []SpanExpr, env *expr.Env) ([]Span, error) {
	var out []Span
next:
	for _, s := range in {
		r := Span{LoOpen: s.LoOpen, HiOpen: s.HiOpen, Begins: s.Begins}
		for n, list := range [][]expr.Node{s.Lo, s.Hi} {
			for _, x := range list {
				v, err := expr.EvalConst(x, env)
				if err != nil {
					return nil, err
				}
				if v.IsNull() && !s.Null {
					continue next
				}
				if n == 0 {
					r.Lo = append(r.Lo, v)
				} else {
					r.Hi = append(r.Hi, v)
				}
			}
		}
		out = append(out, r)
	}
	return out, nil
}

func (s *scan) Next() (*expr.Batch, error) {
	for s.rows != nil && (s.left > 0 || s.spec.Read.Want == 0) {
		if err := s.ctx.Err(); err != nil {
			return nil, err
		}
		ok, err := s.rows.Next(&s.b)
		if err != nil || !ok {
			return nil, err
		}
		if s.b.Sel == nil {
			s.b.Sel = expr.All(s.b.N)
		}
		if s.pred != nil {
			if s.b.Sel, err = s.pred.Filter(&s.b, s.b.Sel, true); err != nil {
				return nil, err
			}
		}
		if s.spec.Read.Wait == WaitSkip && len(s.b.Sel) > 0 {
			if err := s.lockFree(); err != nil {
				return nil, err
			}
		}
		if len(s.b.Sel) > 0 {
			return &s.b, nil
		}
		s.b.Sel = nil
	}
	return nil, nil
}

func (s *scan) Close() error {
	if s.rows == nil {
		return nil
	}
	r := s.rows
	s.rows = nil
	s.b = expr.Batch{}
	return r.Close()
}

type filter struct {
	columns
	in   Op
	on   []expr.Node
	env  *expr.Env
	pred expr.Pred
	b    expr.Batch
}

// NewFilter keeps the rows for which all conditions are TRUE.
func NewFilter(in Op, on []expr.Node) Op { return &filter{columns: columnsOf(in), in: in, on: on} }

func (f *filter) Open(ctx *Ctx) (err error) {
	if f.env != ctx.Env {
		if f.pred, err = expr.CompilePreds(f.on, f.ids, ctx.Env); err != nil {
			return err
		}
		f.env = ctx.Env
	}
	return f.in.Open(ctx)
}

func (f *filter) Next() (*expr.Batch, error) {
	for {
		b, err := f.in.Next()
		if err != nil || b == nil || f.pred == nil {
			return b, err
		}
		sel, err := f.pred.Filter(b, b.Sel, true)
		if err != nil {
			return nil, err
		}
		if len(sel) > 0 {
			f.b = expr.Batch{N: b.N, Cols: b.Cols, Sel: sel}
			return &f.b, nil
		}
	}
}

func (f *filter) Close() error { return f.in.Close() }

type project struct {
	columns
	in    Op
	exprs []Column
	keep  []int // columns of the input that are passed on before the computed ones
	env   *expr.Env
	es    []expr.Expr
	b     expr.Batch
}

// NewProject computes columns; those of the input go away.
func NewProject(in Op, cols []Column) Op {
	p := &project{in: in, exprs: cols}
	p.add(cols)
	return p
}

// NewExtend computes columns beside those of the input.
func NewExtend(in Op, cols []Column) Op {
	p := &project{columns: columnsOf(in), in: in, exprs: cols}
	for i := range p.ids {
		p.keep = append(p.keep, i)
	}
	p.add(cols)
	return p
}

func (p *project) Open(ctx *Ctx) error {
	if p.env != ctx.Env {
		p.es = nil
		for _, c := range p.exprs {
			e, err := expr.Compile(c.Expr, p.in.Cols(), ctx.Env)
			if err != nil {
				return err
			}
			p.es = append(p.es, e)
		}
		p.env = ctx.Env
	}
	return p.in.Open(ctx)
}

func (p *project) Next() (*expr.Batch, error) {
	b, err := p.in.Next()
	if err != nil || b == nil {
		return nil, err
	}
	p.b.N, p.b.Sel, p.b.Cols = b.N, b.Sel, p.b.Cols[:0]
	for _, k := range p.keep {
		p.b.Cols = append(p.b.Cols, b.Cols[k])
	}
	for _, e := range p.es {
		v, err := e.Eval(b, b.Sel)
		if err != nil {
			return nil, err
		}
		p.b.Cols = append(p.b.Cols, v)
	}
	return &p.b, nil
}

func (p *project) Close() error { return p.in.Close() }

type limit struct {
	columns
	in        Op
	off, n    expr.Node
	skip, max int64
	b         expr.Batch
}

// NewLimit drops the first offset rows and passes on n more. Both are expressions without
// columns; nil is no offset, or all rows.
func NewLimit(in Op, offset, n expr.Node) Op {
	return &limit{columns: columnsOf(in), in: in, off: offset, n: n}
}

func count(n expr.Node, env *expr.Env, none int64) (int64, error) {
	if n == nil {
		return none, nil
	}
	v, err := expr.EvalConst(n, env)
	if err != nil || v.I < 0 && v.Kind == expr.Uint {
		return none, err
	}
	return v.I, nil
}

func (l *limit) Open(ctx *Ctx) (err error) {
	if l.skip, err = count(l.off, ctx.Env, 0); err != nil {
		return err
	}
	if l.max, err = count(l.n, ctx.Env, 1<<63-1); err != nil {
		return err
	}
	return l.in.Open(ctx)
}

func (l *limit) Next() (*expr.Batch, error) {
	for l.max > 0 {
		b, err := l.in.Next()
		if err != nil || b == nil {
			return nil, err
		}
		sel := b.Sel
		n := min(l.skip, int64(len(sel)))
		l.skip -= n
		sel = sel[n:]
		if int64(len(sel)) > l.max {
			sel = sel[:l.max]
		}
		l.max -= int64(len(sel))
		if len(sel) > 0 {
			l.b = expr.Batch{N: b.N, Cols: b.Cols, Sel: sel}
			return &l.b, nil
		}
	}
	return nil, nil
}

func (l *limit) Close() error { return l.in.Close() }

type values struct {
	columns
	rows [][]expr.Node
	at   int
	b    expr.Batch
	ctx  *Ctx
}

// NewValues has rows of expressions without columns. A row without columns is one row, too.
func NewValues(ids []expr.ColID, types []expr.Type, rows [][]expr.Node) Op {
	return &values{columns: columns{ids, types}, rows: rows}
}

func (v *values) Open(ctx *Ctx) error {
	v.at, v.ctx = 0, ctx
	return nil
}

func (v *values) Next() (*expr.Batch, error) {
	n := min(expr.BatchSize, len(v.rows)-v.at)
	if err := v.ctx.Err(); err != nil || n <= 0 {
		return nil, err
	}
	for len(v.b.Cols) < len(v.ids) {
		v.b.Cols = append(v.b.Cols, &expr.Vec{})
	}
	for k, t := range v.types {
		v.b.Cols[k].Reset(t, n)
		for i := range n {
			x, err := expr.EvalConst(v.rows[v.at+i][k], v.ctx.Env)
			if err != nil {
				return nil, err
			}
			v.b.Cols[k].Put(i, x)
		}
	}
	v.at += n
	v.b.N, v.b.Sel = n, expr.All(n)
	return &v.b, nil
}

func (v *values) Close() error { return nil }

type unionAll struct {
	columns
	ins []Op
	at  int
}

// NewUnionAll passes on the rows of all inputs, which have the same types, in the order of the
// inputs. The columns get the ids.
func NewUnionAll(ids []expr.ColID, ins ...Op) Op {
	return &unionAll{columns: columns{ids, ins[0].Types()}, ins: ins}
}

func (u *unionAll) Open(ctx *Ctx) error {
	u.at = 0
	for _, in := range u.ins {
		if err := in.Open(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (u *unionAll) Next() (*expr.Batch, error) {
	for u.at < len(u.ins) {
		b, err := u.ins[u.at].Next()
		if err != nil || b != nil {
			return b, err
		}
		if err := u.ins[u.at].Close(); err != nil {
			return nil, err
		}
		u.at++
	}
	return nil, nil
}

func (u *unionAll) Close() error { return closeAll(u.ins...) }

func closeAll(ops ...Op) (err error) {
	for _, o := range ops {
		if e := o.Close(); err == nil {
			err = e
		}
	}
	return err
}

type max1 struct {
	columns
	in   Op
	done bool
	b    expr.Batch
}

// NewMax1Row gives exactly one row: NULLs if there is none; two are error 1242.
func NewMax1Row(in Op) Op {
	m := &max1{columns: columnsOf(in), in: in}
	m.types = nullable(m.types)
	return m
}

func nullable(types []expr.Type) []expr.Type {
	out := make([]expr.Type, len(types))
	for i, t := range types {
		out[i] = t.AsNull()
	}
	return out
}

func (m *max1) Open(ctx *Ctx) error {
	m.done = false
	return m.in.Open(ctx)
}

func errMany() error { return mysql.NewSQLError(1242, "21000", "Subquery returns more than 1 row") }

func (m *max1) Next() (*expr.Batch, error) {
	if m.done {
		return nil, nil
	}
	m.done = true
	n := 0
	for {
		b, err := m.in.Next()
		if err != nil {
			return nil, err
		}
		if b == nil {
			break
		}
		if n += len(b.Sel); n > 1 {
			return nil, errMany()
		}
		gatherAll(&m.b, b.Cols, b.Sel)
	}
	if n == 0 {
		m.b = nullRow(m.types)
	}
	return &m.b, nil
}

// nullRow is a batch of one row of NULLs.
func nullRow(types []expr.Type) expr.Batch {
	b := expr.Batch{N: 1, Sel: expr.All(1)}
	for _, t := range types {
		v := &expr.Vec{}
		v.Reset(t, 1)
		v.SetNull(0)
		b.Cols = append(b.Cols, v)
	}
	return b
}

func (m *max1) Close() error { return m.in.Close() }

// distinct passes on the first of equal rows.
type distinct struct {
	columns
	in    Op
	by    int // how many columns must be equal
	ctx   *Ctx
	t     *hashing.Table
	held  int64
	parts *parts
	queue []part
	read  *spillReader
	depth int // how often the rows that are read were divided
	gids  []int32
	sel   []int32
	out   expr.Batch
}

// NewDistinct drops rows that are equal to one before them in all columns.
func NewDistinct(in Op) Op { return newDistinct(in, len(in.Cols())) }

// newDistinct drops rows that are equal to one before them in the first columns.
func newDistinct(in Op, by int) Op { return &distinct{columns: columnsOf(in), in: in, by: by} }

func (d *distinct) Open(ctx *Ctx) error {
	d.ctx, d.depth = ctx, 0
	ctx.Work.Table()
	d.t = hashing.New(d.types[:d.by], ctx.Err)
	return d.in.Open(ctx)
}

func (d *distinct) next() (*expr.Batch, error) {
	if d.read != nil {
		return d.read.next()
	}
	return d.in.Next()
}

func (d *distinct) Next() (*expr.Batch, error) {
	for {
		if err := d.ctx.Err(); err != nil {
			return nil, err
		}
		b, err := d.next()
		if err != nil {
			return nil, err
		}
		if b == nil {
			if more, err := d.turn(); !more {
				return nil, err
			}
			continue
		}
		sel, err := d.fresh(b)
		if err != nil {
			return nil, err
		}
		if len(sel) > 0 {
			d.out = expr.Batch{N: b.N, Cols: b.Cols, Sel: sel}
			return &d.out, nil
		}
	}
}

// fresh are the rows that were not seen. Without memory for more, unknown rows go to files.
func (d *distinct) fresh(b *expr.Batch) (_ []int32, err error) {
	d.sel = d.sel[:0]
	full := d.parts != nil
	n := d.t.Len()
	if d.gids, err = d.t.Assign(b.Cols[:d.by], b.Sel, d.gids[:0], full); err != nil {
		return nil, err
	}
	if !full {
		for k, i := range b.Sel {
			if d.gids[k] >= n {
				d.sel = append(d.sel, i)
				n++
			}
		}
		return d.sel, d.account()
	}
	for k, i := range b.Sel {
		if d.gids[k] < 0 {
			d.sel = append(d.sel, i)
		}
	}
	return nil, d.parts.write(b.Cols, b.Cols[:d.by], d.sel)
}

// account takes the memory of the table, or lets later rows go to files.
func (d *distinct) account() error {
	now := d.t.Bytes()
	if d.ctx.Mem.TryGrow(now - d.held) {
		d.held = now
		return nil
	}
	var err error
	if d.ctx.NoSpill || d.depth > maxDepth {
		if err = d.ctx.Mem.Grow(now - d.held); err == nil {
			d.held = now
		}
		return err
	}
	d.parts, err = newParts(d.ctx, d.types, d.types[:d.by])
	return err
}

// maxDepth is how often partitions are divided again.
const maxDepth = 8

// turn goes on with the next file.
func (d *distinct) turn() (bool, error) {
	d.queue = d.parts.queue(d.queue, d.depth+1)
	d.parts = nil
	if d.read != nil {
		d.read.s.close()
		d.read = nil
	}
	d.ctx.Mem.Shrink(d.held)
	d.held = 0
	d.t.Reset()
	for len(d.queue) > 0 {
		p := d.queue[len(d.queue)-1]
		d.queue = d.queue[:len(d.queue)-1]
		if p.rows == 0 {
			p.close()
			continue
		}
		var err error
		d.depth = p.depth
		d.read, err = p.spill.read()
		return err == nil, err
	}
	return false, nil
}

func (d *distinct) Close() error {
	if d.ctx != nil {
		d.ctx.Mem.Shrink(d.held)
		d.held = 0
	}
	d.parts.close()
	d.parts = nil
	for _, p := range d.queue {
		p.close()
	}
	d.queue = nil
	if d.read != nil {
		d.read.s.close()
		d.read = nil
	}
	d.t = nil
	return d.in.Close()
}
