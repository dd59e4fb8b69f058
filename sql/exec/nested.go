package exec

import (
	"github.com/godwitdb/godwit/sql/expr"
)

// nested joins without keys: it keeps the right side and tests all pairs. What does not fit into
// memory is read again for each batch of the left side.
type nested struct {
	joinShape
	spec   JoinSpec
	ctx    *Ctx
	rows   *spool // columns of the right side, then its keys
	next   func() (*expr.Batch, error)
	chunk  expr.Batch // right rows that meet the left batch now
	read   bool       // the left batch has met some
	b      *expr.Batch
	at     int // left row
	r      int // right row
	lk, rk []expr.Expr
	cmps   []expr.Comparer
	keys   []*expr.Vec
}

// NewNestedJoin joins by conditions that are not equalities. Keys, if there are some, are what IN
// compares in NullAnti and Mark joins.
func NewNestedJoin(s JoinSpec) Op { return newNested(s) }

func newNested(s JoinSpec) *nested {
	n := &nested{spec: s}
	n.joinShape = newShape(s.Kind, columnsOf(s.Left), columnsOf(s.Right), s.On, s.Mark)
	return n
}

func (n *nested) Open(ctx *Ctx) error {
	n.rows, n.b = nil, nil
	if err := n.prepare(ctx); err != nil {
		return err
	}
	if err := n.spec.Right.Open(ctx); err != nil {
		return err
	}
	return n.spec.Left.Open(ctx)
}

// prepare compiles the expressions.
func (n *nested) prepare(ctx *Ctx) (err error) {
	n.ctx = ctx
	if n.env == ctx.Env {
		return nil
	}
	if err := n.compile(ctx.Env); err != nil {
		return err
	}
	if n.lk, err = expr.CompileAll(n.spec.LeftKeys, n.left.ids, ctx.Env); err != nil {
		return err
	}
	if n.rk, err = expr.CompileAll(n.spec.RightKeys, n.right.ids, ctx.Env); err != nil {
		return err
	}
	n.cmps = nil
	for _, e := range n.rk {
		n.cmps = append(n.cmps, expr.NewComparer(e.Type()))
	}
	return nil
}

func (n *nested) load() error {
	types := append([]expr.Type(nil), n.right.types...)
	for _, e := range n.rk {
		types = append(types, e.Type())
	}
	n.rows = newSpool(types, n.ctx)
	for {
		if err := n.ctx.Err(); err != nil {
			return err
		}
		b, err := n.spec.Right.Next()
		if err != nil || b == nil {
			return err
		}
		row, err := evalAll(n.rk, b, append([]*expr.Vec(nil), b.Cols...))
		if err != nil {
			return err
		}
		if err := n.rows.add(row, b.Sel); err != nil {
			return err
		}
	}
}

// meet takes the next right rows for the left batch; false if it has met all.
func (n *nested) meet() (bool, error) {
	n.at, n.r = 0, 0
	if n.rows.file == nil {
		first := !n.read
		n.read = true
		n.chunk = expr.Batch{N: n.rows.mem.n, Cols: n.rows.mem.cols}
		return first, nil
	}
	if !n.read {
		n.read = true
		var err error
		if n.next, err = n.rows.rows(); err != nil {
			return false, err
		}
	}
	b, err := n.next()
	if err != nil || b == nil {
		return false, err
	}
	n.chunk = *b
	return true, nil
}

// leftBatch takes the next batch of the left side; false at the end.
func (n *nested) leftBatch() (bool, error) {
	b, err := n.spec.Left.Next()
	if err != nil || b == nil {
		return false, err
	}
	n.b, n.at, n.read = b, len(b.Sel), false
	n.begin(b.N)
	n.keys, err = evalAll(n.lk, b, n.keys[:0])
	return true, err
}

func (n *nested) Next() (*expr.Batch, error) {
	if n.rows == nil {
		if err := n.load(); err != nil {
			return nil, err
		}
	}
	for {
		if err := n.ctx.Err(); err != nil {
			return nil, err
		}
		if n.b == nil {
			if more, err := n.leftBatch(); err != nil || !more {
				return nil, err
			}
		}
		if n.at >= len(n.b.Sel) {
			more, err := n.meet()
			if err != nil {
				return nil, err
			}
			if !more {
				b := n.b
				n.b = nil
				if out := n.finish(b); out != nil {
					return out, nil
				}
				continue
			}
		}
		n.candidates()
		right := n.chunk.Cols[:len(n.right.ids)]
		if err := n.test(n.b.Cols, right); err != nil {
			return nil, err
		}
		n.decide()
		if !n.leftOnly && len(n.pi) > 0 {
			return n.joined(n.b.Cols, right), nil
		}
	}
}

// candidates collects pairs, about a batch of them.
func (n *nested) candidates() {
	n.pi, n.bi = n.pi[:0], n.bi[:0]
	for n.at < len(n.b.Sel) && len(n.pi) < expr.BatchSize {
		i := n.b.Sel[n.at]
		done := n.leftOnly && n.hit[i]
		if n.r >= n.chunk.N || done {
			n.at++
			n.r = 0
			continue
		}
		m := min(n.chunk.N-n.r, expr.BatchSize-len(n.pi))
		for k := range m {
			n.pi, n.bi = append(n.pi, i), append(n.bi, int32(n.r+k))
		}
		n.r += m
	}
}

func (n *nested) decide() {
	for k, i := range n.pi {
		res := 1
		for x, c := range n.cmps {
			l, r := n.keys[x], n.chunk.Cols[len(n.right.ids)+x]
			if l.IsNull(i) || r.IsNull(n.bi[k]) {
				res = -1
			} else if c(l, i, r, n.bi[k]) != 0 {
				res = 0
				break
			}
		}
		switch res {
		case 1:
			n.hit[i] = true
		case -1:
			n.null[i] = true
		}
	}
}

func (n *nested) Close() error {
	n.rows.close()
	n.rows, n.b = nil, nil
	return closeAll(n.spec.Left, n.spec.Right)
}

// ApplySpec runs a dependent plan for each left row.
type ApplySpec struct {
	Kind  JoinKind
	Left  Op
	Right Op
	// Outer are the left columns that the right plan refers to.
	Outer []expr.ColID
	On    []expr.Node
	Mark  expr.ColID
	// Keys are what IN compares in NullAnti and Mark joins.
	LeftKeys, RightKeys []expr.Node
	// One makes more than one right row error 1242: a scalar subquery, with Kind Left.
	One bool
}

// apply opens the right plan for each left row with other outer values, and keeps its rows for
// equal ones.
type apply struct {
	joinShape
	spec  ApplySpec
	ctx   *Ctx
	inner *Ctx
	frame *expr.Frame
	pos   []int
	enc   []*expr.Encoder
	cache map[string]*store
	held  int64 // for the keys of the cache
	kbuf  []byte
	b     *expr.Batch
	at    int
	rows  *store
	r     int
}

// NewApply joins each left row with the rows of a plan that depends on it.
func NewApply(s ApplySpec) Op {
	a := &apply{spec: s}
	a.joinShape = newShape(s.Kind, columnsOf(s.Left), columnsOf(s.Right), s.On, s.Mark)
	for _, id := range s.Outer {
		for i, x := range a.left.ids {
			if x == id {
				a.pos = append(a.pos, i)
				a.enc = append(a.enc, expr.NewEncoder(a.left.types[i]))
			}
		}
	}
	return a
}

func (a *apply) Open(ctx *Ctx) error {
	a.ctx = ctx
	if a.inner == nil || a.env != ctx.Env {
		if err := a.compile(ctx.Env); err != nil {
			return err
		}
		env := *ctx.Env
		a.frame = &expr.Frame{Parent: ctx.Env.Outer}
		for _, p := range a.pos {
			a.frame.IDs = append(a.frame.IDs, a.left.ids[p])
			a.frame.Vals = append(a.frame.Vals, expr.Value{})
		}
		env.Outer = a.frame
		inner := *ctx
		inner.Env = &env
		a.inner = &inner
	}
	a.inner.Context = ctx.Context
	a.cache, a.b = map[string]*store{}, nil
	return a.spec.Left.Open(ctx)
}

// right runs the plan for a left row, or finds what it gave for equal values.
func (a *apply) right(b *expr.Batch, i int32) (*store, error) {
	a.kbuf = a.kbuf[:0]
	var err error
	for k, p := range a.pos {
		if a.kbuf, err = a.enc[k].Append(a.kbuf, b.Cols[p], i, a.ctx.Err); err != nil {
			return nil, err
		}
		// Equal by collation is not enough: the plan may look at the bytes.
		if t := b.Cols[p].T.Kind; t == expr.Text && !b.Cols[p].IsNull(i) {
			a.kbuf = append(append(a.kbuf, b.Cols[p].S[i]...), 0)
		}
	}
	if s, ok := a.cache[string(a.kbuf)]; ok {
		return s, nil
	}
	for k, p := range a.pos {
		a.frame.Vals[k] = b.Cols[p].At(i)
	}
	a.frame.Gen++
	s := newStore(a.joinShape.right.types, a.ctx.Mem)
	if err := a.run(s); err != nil {
		s.clear()
		return nil, err
	}
	const overhead = 200
	if n := overhead + int64(len(a.kbuf)); a.ctx.Mem.TryGrow(n) {
		a.held += n
	} else {
		a.forget()
	}
	a.cache[string(a.kbuf)] = s
	return s, nil
}

// run takes all rows of the plan. Kinds that only ask whether there is one take one.
func (a *apply) run(s *store) error {
	op := a.spec.Right
	if err := op.Open(a.inner); err != nil {
		return err
	}
	first := (a.kind == Semi || a.kind == Anti) && a.on == nil
	for {
		b, err := op.Next()
		if err != nil {
			return closing(op, err)
		}
		if b == nil || first && s.n > 0 {
			return op.Close()
		}
		if err := s.add(b.Cols, b.Sel); err != nil {
			if len(a.cache) == 0 {
				return closing(op, err)
			}
			a.forget()
			if err := s.add(b.Cols, b.Sel); err != nil {
				return closing(op, err)
			}
		}
		if a.spec.One && s.n > 1 {
			return closing(op, errMany())
		}
	}
}

func closing(op Op, err error) error {
	_ = op.Close() // the first error is the one that matters
	return err
}

// forget empties the cache.
func (a *apply) forget() {
	for k, s := range a.cache {
		if s != a.rows {
			s.clear()
		}
		delete(a.cache, k)
	}
	a.ctx.Mem.Shrink(a.held)
	a.held = 0
}

func (a *apply) Next() (*expr.Batch, error) {
	for {
		if err := a.ctx.Err(); err != nil {
			return nil, err
		}
		if a.b == nil {
			b, err := a.spec.Left.Next()
			if err != nil || b == nil {
				return nil, err
			}
			a.b, a.at, a.r, a.rows = b, 0, 0, nil
			a.begin(b.N)
		}
		if out, err := a.row(); out != nil || err != nil {
			return out, err
		}
		if a.at < len(a.b.Sel) {
			continue
		}
		b := a.b
		a.b = nil
		if out := a.finish(b); out != nil {
			return out, nil
		}
	}
}

// row joins some rows with the current left row.
func (a *apply) row() (*expr.Batch, error) {
	if a.at >= len(a.b.Sel) {
		return nil, nil
	}
	i := a.b.Sel[a.at]
	if a.rows == nil {
		var err error
		if a.rows, err = a.right(a.b, i); err != nil {
			return nil, err
		}
		a.r = 0
	}
	n := min(expr.BatchSize, a.rows.n-a.r)
	a.pi, a.bi = a.pi[:0], a.bi[:0]
	for k := range n {
		a.pi, a.bi = append(a.pi, i), append(a.bi, int32(a.r+k))
	}
	rows := a.rows
	if a.r += n; a.r >= rows.n {
		a.at++
		a.rows = nil
	}
	if err := a.test(a.b.Cols, rows.cols); err != nil {
		return nil, err
	}
	if len(a.pi) == 0 {
		return nil, nil
	}
	if err := a.decideKeys(i, rows); err != nil {
		return nil, err
	}
	if a.leftOnly {
		return nil, nil
	}
	a.hit[i] = true
	return a.joined(a.b.Cols, rows.cols), nil
}

// decideKeys finds out whether the left row is among the right ones.
func (a *apply) decideKeys(i int32, rows *store) error {
	if len(a.spec.LeftKeys) == 0 {
		a.hit[i] = true
		return nil
	}
	lk, err := expr.CompileAll(a.spec.LeftKeys, a.left.ids, a.ctx.Env)
	if err != nil {
		return err
	}
	rk, err := expr.CompileAll(a.spec.RightKeys, a.joinShape.right.ids, a.ctx.Env)
	if err != nil {
		return err
	}
	l, err := evalAll(lk, &expr.Batch{N: a.b.N, Cols: a.b.Cols, Sel: []int32{i}}, nil)
	if err != nil {
		return err
	}
	r, err := evalAll(rk, &expr.Batch{N: rows.n, Cols: rows.cols, Sel: a.bi}, nil)
	if err != nil {
		return err
	}
	for _, row := range a.bi {
		res := 1
		for x := range l {
			if l[x].IsNull(i) || r[x].IsNull(row) {
				res = -1
			} else if expr.NewComparer(l[x].T)(l[x], i, r[x], row) != 0 {
				res = 0
				break
			}
		}
		a.hit[i] = a.hit[i] || res > 0
		a.null[i] = a.null[i] || res < 0
	}
	return nil
}

func (a *apply) Close() error {
	a.rows = nil
	if a.ctx != nil {
		a.forget()
	}
	a.b = nil
	return a.spec.Left.Close()
}
