package exec

import (
	"github.com/godwitdb/godwit/sql/exec/hashing"
	"github.com/godwitdb/godwit/sql/expr"
)

// lookup reads the right rows of batches of left rows by an index. Several batches are under way
// at once: the reads of later ones begin before the rows of the first are used.
type lookup struct {
	joinShape
	spec   LookupSpec
	ctx    *Ctx
	lk, rk []expr.Expr
	size   int
	flight []*flight
	cur    *flight
	end    bool
	// pending left rows that were read and not yet looked up
	in  *expr.Batch
	off int
}

// flight is a batch of left rows whose right rows are being read.
type flight struct {
	left   *store
	b      expr.Batch
	table  *hashing.Table
	heads  []int32
	link   []int32
	rows   Rows
	rb     expr.Batch
	rkeys  []*expr.Vec
	ids    []int32
	at     int
	next   int32
	ended  bool
	loaded bool
}

// NewLookupJoin joins by reading an index for batches of left rows.
func NewLookupJoin(s LookupSpec) Op {
	if s.First == 0 {
		s.First = 16
	}
	if s.Most == 0 {
		s.Most = 512
	}
	if s.Flight == 0 {
		s.Flight = 4
	}
	l := &lookup{spec: s}
	l.joinShape = newShape(s.Kind, columnsOf(s.Left), columns{s.Cols, s.Types}, s.On, s.Mark)
	return l
}

func (l *lookup) Open(ctx *Ctx) (err error) {
	l.ctx = ctx
	if l.env != ctx.Env {
		if err := l.compile(ctx.Env); err != nil {
			return err
		}
		if l.lk, err = expr.CompileAll(l.spec.LeftKeys, l.left.ids, ctx.Env); err != nil {
			return err
		}
		if l.rk, err = expr.CompileAll(l.spec.RightKeys, l.right.ids, ctx.Env); err != nil {
			return err
		}
	}
	l.size, l.end, l.cur, l.in, l.off = l.spec.First, false, nil, nil, 0
	return l.spec.Left.Open(ctx)
}

// gather makes the next batch of left rows and begins to read their right rows; nil at the end.
func (l *lookup) gather() (*flight, error) {
	f := &flight{left: newStore(l.left.types, l.ctx.Mem), next: -1}
	for f.left.n < l.size && !l.end {
		if l.in == nil || l.off >= len(l.in.Sel) {
			b, err := l.spec.Left.Next()
			if err != nil {
				return nil, err
			}
			if b == nil {
				l.end = true
				break
			}
			l.in, l.off = b, 0
		}
		n := min(l.size-f.left.n, len(l.in.Sel)-l.off)
		if err := f.left.add(l.in.Cols, l.in.Sel[l.off:l.off+n]); err != nil {
			return nil, err
		}
		l.off += n
	}
	l.size = min(2*l.size, l.spec.Most)
	if f.left.n == 0 {
		return nil, nil
	}
	return f, l.start(f)
}

// start asks for the right rows of the distinct keys.
func (l *lookup) start(f *flight) error {
	f.b = expr.Batch{N: f.left.n, Cols: f.left.cols, Sel: expr.All(f.left.n)}
	keys, err := evalAll(l.lk, &f.b, nil)
	if err != nil {
		return err
	}
	var types []expr.Type
	for _, e := range l.lk {
		types = append(types, e.Type())
	}
	f.table = hashing.New(types, l.ctx.Err)
	f.link = make([]int32, f.b.N)
	var sel, firsts []int32
rows:
	for _, i := range f.b.Sel {
		for _, k := range keys {
			if k.IsNull(i) {
				continue rows
			}
		}
		sel = append(sel, i)
	}
	ids, err := f.table.Assign(keys, sel, nil, false)
	if err != nil {
		return err
	}
	f.heads = make([]int32, f.table.Len())
	for g := range f.heads {
		f.heads[g] = -1
	}
	for k := len(sel) - 1; k >= 0; k-- {
		i := sel[k]
		f.link[i] = f.heads[ids[k]]
		f.heads[ids[k]] = i
	}
	firsts = append(firsts, f.heads...)
	if len(firsts) == 0 {
		f.ended = true
		return nil
	}
	kb := &expr.Batch{}
	gatherAll(kb, keys, firsts)
	r := l.spec.Read
	r.Keys = kb
	f.rows, err = l.spec.Source.Start(l.ctx, r)
	return err
}

func (l *lookup) Next() (*expr.Batch, error) {
	for {
		if err := l.ctx.Err(); err != nil {
			return nil, err
		}
		for len(l.flight) < l.spec.Flight && !l.end {
			f, err := l.gather()
			if f != nil {
				l.flight = append(l.flight, f)
			}
			if err != nil {
				return nil, err
			}
		}
		if len(l.flight) == 0 {
			return nil, nil
		}
		f := l.flight[0]
		if !f.loaded {
			f.loaded = true
			l.begin(f.b.N)
			if l.spec.Ordered {
				if err := f.inOrder(l); err != nil {
					return nil, err
				}
			}
		}
		if out, err := l.step(f); out != nil || err != nil {
			return out, err
		}
	}
}

// step uses some right rows of a flight; nil if there was nothing to give out.
func (l *lookup) step(f *flight) (*expr.Batch, error) {
	if l.cur == f {
		// All pairs are done: what is left are the rows without a match.
		l.cur = nil
		return nil, l.drop()
	}
	if f.next < 0 && !f.ended && f.at >= len(f.rb.Sel) {
		if err := l.more(f); err != nil {
			return nil, err
		}
	}
	if f.ended && f.at >= len(f.rb.Sel) {
		l.cur = f
		return l.finish(&f.b), nil
	}
	l.collect(f)
	if err := l.test(f.b.Cols, f.rb.Cols); err != nil {
		return nil, err
	}
	for _, i := range l.pi {
		l.hit[i] = true
	}
	if l.leftOnly {
		return nil, nil
	}
	return l.joined(f.b.Cols, f.rb.Cols), nil
}

// more reads right rows and finds the left rows of their keys.
func (l *lookup) more(f *flight) error {
	ok, err := f.rows.Next(&f.rb)
	if err != nil {
		return err
	}
	if !ok {
		f.ended, f.rb.Sel = true, nil
		return nil
	}
	if f.rb.Sel == nil {
		f.rb.Sel = expr.All(f.rb.N)
	}
	return f.match(l)
}

func (f *flight) match(l *lookup) (err error) {
	if f.rkeys, err = evalAll(l.rk, &f.rb, f.rkeys[:0]); err != nil {
		return err
	}
	if f.ids, err = f.table.Assign(f.rkeys, f.rb.Sel, f.ids[:0], true); err != nil {
		return err
	}
	f.at, f.next = 0, -1
	if len(f.rb.Sel) > 0 {
		f.next = f.head()
	}
	return nil
}

func (f *flight) head() int32 {
	if f.at < len(f.ids) && f.ids[f.at] >= 0 {
		return f.heads[f.ids[f.at]]
	}
	return -1
}

// collect makes pairs, about a batch of them.
func (l *lookup) collect(f *flight) {
	l.pi, l.bi = l.pi[:0], l.bi[:0]
	for f.at < len(f.rb.Sel) && len(l.pi) < expr.BatchSize {
		if f.next < 0 {
			f.at++
			f.next = f.head()
			continue
		}
		l.pi, l.bi = append(l.pi, f.next), append(l.bi, f.rb.Sel[f.at])
		f.next = f.link[f.next]
	}
}

// inOrder reads all right rows of a flight and sorts them by the left rows that they belong to.
func (f *flight) inOrder(l *lookup) error {
	if f.ended {
		return nil
	}
	all := newStore(l.right.types, nil)
	for {
		ok, err := f.rows.Next(&f.rb)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if f.rb.Sel == nil {
			f.rb.Sel = expr.All(f.rb.N)
		}
		all.append(f.rb.Cols, f.rb.Sel, 0)
	}
	f.rb = expr.Batch{N: all.n, Cols: all.cols, Sel: expr.All(all.n)}
	var err error
	if f.rkeys, err = evalAll(l.rk, &f.rb, f.rkeys[:0]); err != nil {
		return err
	}
	// The roles change: right rows are chained by key, and left rows are gone through in order.
	ids, err := f.table.Assign(f.rkeys, f.rb.Sel, nil, true)
	if err != nil {
		return err
	}
	heads := make([]int32, f.table.Len())
	for g := range heads {
		heads[g] = -1
	}
	link := make([]int32, all.n)
	for r := all.n - 1; r >= 0; r-- {
		if g := ids[r]; g >= 0 {
			link[r] = heads[g]
			heads[g] = int32(r)
		}
	}
	group := make([]int32, f.b.N)
	for i := range group {
		group[i] = -1
	}
	for g, h := range f.heads {
		for ; h >= 0; h = f.link[h] {
			group[h] = int32(g)
		}
	}
	var order []int32
	f.ids = f.ids[:0]
	for i := range f.b.N {
		if group[i] < 0 {
			continue
		}
		for r := heads[group[i]]; r >= 0; r = link[r] {
			order = append(order, r)
			f.ids = append(f.ids, int32(i))
		}
	}
	// One chain for each left row: heads and links that name only that row.
	f.rb.Sel = order
	f.heads, f.link = expr.All(f.b.N), make([]int32, f.b.N)
	for i := range f.link {
		f.link[i] = -1
	}
	f.ended, f.at = true, 0
	f.next = f.head()
	return nil
}

// drop ends the first flight.
func (l *lookup) drop() error {
	f := l.flight[0]
	l.flight = l.flight[1:]
	return f.close()
}

func (f *flight) close() error {
	f.left.clear()
	if f.rows == nil {
		return nil
	}
	r := f.rows
	f.rows = nil
	return r.Close()
}

func (l *lookup) Close() (err error) {
	for _, f := range l.flight {
		if e := f.close(); err == nil {
			err = e
		}
	}
	l.flight, l.cur = nil, nil
	if e := l.spec.Left.Close(); err == nil {
		err = e
	}
	return err
}
