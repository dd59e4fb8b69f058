package exec

import (
	"slices"

	"github.com/godwitdb/godwit/sql/expr"
)

// WindowSpec adds the columns of window functions to rows that come ordered by Partition, then by
// Order.
type WindowSpec struct {
	In        Op
	Partition []expr.Node
	Order     []SortKey
	Funcs     []WindowFunc
}

// WindowFunc is a function over a window.
type WindowFunc struct {
	ID   expr.ColID
	Type expr.Type
	// Name is that of a function that is no aggregate, in lower case.
	Name string
	// Agg is an aggregate; nil if Name says what it is.
	Agg *expr.Agg
	// Args are the value of LAG, LEAD, FIRST_VALUE, LAST_VALUE and NTH_VALUE, and the default of
	// the first two, if there is one. They have the form of Type.
	Args []expr.Node
	// N is the number that LAG, LEAD, NTILE and NTH_VALUE have.
	N     int64
	Frame WindowFrame
}

// WindowFrame is the frame of a function.
type WindowFrame struct {
	Rows   bool // ROWS; otherwise RANGE
	Lo, Hi WindowBound
}

// WindowBound is an end of a frame.
type WindowBound struct {
	Kind BoundKind
	// N counts rows for ROWS.
	N int64
	// Key and Edge say for RANGE which rows are beyond: Key is the order's key, Edge the key at
	// which the frame of a row ends. Both have one type.
	Key, Edge expr.Node
}

// BoundKind is the kind of an end of a frame.
type BoundKind uint8

// The ends of frames.
const (
	UnboundedPreceding BoundKind = iota
	Preceding
	CurrentRow
	Following
	UnboundedFollowing
)

// window evaluates window functions. It holds whole partitions: as many as make a batch, or one
// that is larger, in a file if need be. Functions go through them with cursors. A function sees
// each row a bounded number of times, but for aggregates that cannot forget rows, over frames whose
// beginning moves.
type window struct {
	columns
	spec  WindowSpec
	ctx   *Ctx
	pace  pace // of all that goes through rows
	env   *expr.Env
	extra []expr.Expr // columns behind those of the input
	rows  []expr.Type // the types of the rows that are held
	part  keyCols
	order keyCols
	funcs []winFunc
	peers bool // a function asks for rows that are equal in the order

	buf  *rowBuf
	ends []int // of the partitions in buf
	done bool

	row   []*expr.Vec // of the batch that is being read
	sel   []int32
	fresh []bool      // whether a row of sel begins a partition
	last  []*expr.Vec // the partition of the row before; nil at the beginning

	at, p    int // the next row, and its partition
	cur      rowCursor
	peerA    rowCursor
	peerB    rowCursor
	seg      segment
	group    [2]int // the rows equal to the last one in the order
	picked   []int32
	held     int64
	out      expr.Batch
	computed []*expr.Vec
}

// keyCols are columns of the held rows that are compared.
type keyCols struct {
	at   []int
	cmps []expr.Comparer
}

// same reports whether two rows agree. NULLs do.
func (k *keyCols) same(x []*expr.Vec, i int32, y []*expr.Vec, j int32) bool {
	for n, at := range k.at {
		if !sameValue(x[at], i, y[at], j, k.cmps[n]) {
			return false
		}
	}
	return true
}

func sameValue(x *expr.Vec, i int32, y *expr.Vec, j int32, cmp expr.Comparer) bool {
	if a, b := x.IsNull(i), y.IsNull(j); a || b {
		return a && b
	}
	return cmp(x, i, y, j) == 0
}

// segment is some rows of one partition, which functions compute in one call.
type segment struct {
	lo, hi   int // the partition
	from, to int // the rows
	// peerLo and peerHi are the rows that are equal in the order, for each row.
	peerLo, peerHi []int
	// frameLo and frameHi have room for the frames of the rows.
	frameLo, frameHi []int
}

// NewWindow computes window functions.
func NewWindow(s WindowSpec) Op {
	w := &window{columns: columnsOf(s.In), spec: s}
	w.ids, w.types = slices.Clone(w.ids), slices.Clone(w.types)
	for _, f := range s.Funcs {
		w.ids = append(w.ids, f.ID)
		w.types = append(w.types, f.Type)
	}
	return w
}

func (w *window) compile(ctx *Ctx) error {
	if w.env == ctx.Env {
		return nil
	}
	w.extra, w.funcs, w.part, w.order, w.peers = nil, nil, keyCols{}, keyCols{}, false
	w.rows = slices.Clone(w.spec.In.Types())
	env := ctx.Env
	for _, n := range w.spec.Partition {
		if err := w.key(&w.part, n, env); err != nil {
			return err
		}
	}
	for _, k := range w.spec.Order {
		if err := w.key(&w.order, k.Expr, env); err != nil {
			return err
		}
	}
	for _, f := range w.spec.Funcs {
		x, err := w.function(f, env)
		if err != nil {
			return err
		}
		w.funcs = append(w.funcs, x)
	}
	w.env = env
	return nil
}

func (w *window) key(k *keyCols, n expr.Node, env *expr.Env) error {
	at, err := w.slot(n, env)
	if err != nil {
		return err
	}
	k.at = append(k.at, at)
	k.cmps = append(k.cmps, expr.NewComparer(w.rows[at]))
	return nil
}

// slot is the column of the held rows that has the value of a node.
func (w *window) slot(n expr.Node, env *expr.Env) (int, error) {
	if c, ok := n.(*expr.Col); ok {
		if i := slices.Index(w.spec.In.Cols(), c.ID); i >= 0 {
			return i, nil
		}
	}
	e, err := expr.Compile(n, w.spec.In.Cols(), env)
	if err != nil {
		return 0, err
	}
	w.extra = append(w.extra, e)
	w.rows = append(w.rows, e.Type())
	return len(w.rows) - 1, nil
}

// Open implements Op.
func (w *window) Open(ctx *Ctx) error {
	w.ctx, w.pace = ctx, pace{ctx: ctx}
	if err := w.compile(ctx); err != nil {
		return err
	}
	ctx.Work.Table()
	w.buf = newRowBuf(w.rows, ctx)
	w.cur, w.peerA, w.peerB = rowCursor{buf: w.buf}, rowCursor{buf: w.buf}, rowCursor{buf: w.buf}
	w.done, w.sel, w.last, w.at, w.p, w.held = false, nil, nil, 0, 0, 0
	for _, f := range w.funcs {
		f.open(w.buf)
	}
	return w.spec.In.Open(ctx)
}

// read takes the next rows of the input; false if there are none.
func (w *window) read() (bool, error) {
	for {
		if err := w.ctx.Err(); err != nil {
			return false, err
		}
		b, err := w.spec.In.Next()
		if err != nil || b == nil {
			return false, err
		}
		if len(b.Sel) == 0 {
			continue
		}
		w.row, w.sel = append(w.row[:0], b.Cols...), b.Sel
		for _, e := range w.extra {
			v, err := e.Eval(b, b.Sel)
			if err != nil {
				return false, err
			}
			w.row = append(w.row, v)
		}
		w.divide()
		return true, nil
	}
}

// divide finds where partitions begin.
func (w *window) divide() {
	w.fresh = w.fresh[:0]
	cols, i := w.last, int32(0)
	for _, j := range w.sel {
		w.fresh = append(w.fresh, cols == nil || !w.part.same(cols, i, w.row, j))
		cols, i = w.row, j
	}
	if len(w.part.at) == 0 {
		w.last = w.row
		return
	}
	if w.last == nil || len(w.last) != len(w.row) {
		w.last = make([]*expr.Vec, len(w.row))
		for _, at := range w.part.at {
			w.last[at] = &expr.Vec{}
		}
	}
	for _, at := range w.part.at {
		w.last[at].Gather(w.row[at], w.sel[len(w.sel)-1:])
	}
}

// load fills the buffer with whole partitions.
func (w *window) load() error {
	w.buf.clear()
	w.ends = w.ends[:0]
	for {
		if len(w.sel) == 0 {
			more, err := w.read()
			if err != nil {
				return err
			}
			if !more {
				w.done = true
				if w.buf.n > 0 {
					w.ends = append(w.ends, w.buf.n)
				}
				return w.buf.seal()
			}
		}
		stop, full := w.cut()
		if err := w.buf.add(w.row, w.sel[:stop]); err != nil {
			return err
		}
		w.sel, w.fresh = w.sel[stop:], w.fresh[stop:]
		if full {
			return w.buf.seal()
		}
	}
}

// cut is how many of the rows that were read are to be held now, and whether that is enough.
func (w *window) cut() (stop int, full bool) {
	for k := range w.sel {
		n := w.buf.n + k
		if !w.fresh[k] || n == 0 {
			continue
		}
		w.ends = append(w.ends, n)
		if n >= expr.BatchSize {
			return k, true
		}
	}
	return len(w.sel), false
}

// Next implements Op.
func (w *window) Next() (*expr.Batch, error) {
	for w.at >= w.buf.n {
		if w.done {
			return nil, nil
		}
		if err := w.load(); err != nil {
			return nil, err
		}
		w.at, w.p = 0, 0
	}
	if err := w.ctx.Err(); err != nil {
		return nil, err
	}
	cols, i, n, err := w.cur.at(w.at)
	if err != nil {
		return nil, err
	}
	n = min(n, expr.BatchSize)
	w.picked = span(w.picked, int(i), n)
	in := len(w.spec.In.Cols())
	gatherAll(&w.out, cols[:in], w.picked)
	if w.computed == nil {
		for range w.funcs {
			w.computed = append(w.computed, &expr.Vec{})
		}
	}
	for k, v := range w.computed {
		v.Reset(w.types[in+k], n)
	}
	w.out.Cols = append(w.out.Cols, w.computed...)
	if err := w.fill(n); err != nil {
		return nil, err
	}
	return &w.out, w.account()
}

// fill computes the functions for the next n rows, partition by partition.
func (w *window) fill(n int) error {
	s := &w.seg
	for first := w.at; w.at < first+n; {
		s.lo = 0
		if w.p > 0 {
			s.lo = w.ends[w.p-1]
		}
		s.hi, s.from = w.ends[w.p], w.at
		s.to = min(s.hi, first+n)
		if err := w.findPeers(s); err != nil {
			return err
		}
		for k, f := range w.funcs {
			if err := f.fill(w.computed[k], s.from-first, s); err != nil {
				return err
			}
		}
		if w.at = s.to; w.at == s.hi {
			w.p++
		}
	}
	return nil
}

// findPeers finds the rows that are equal in the order.
func (w *window) findPeers(s *segment) (err error) {
	if !w.peers {
		return nil
	}
	s.peerLo, s.peerHi = s.peerLo[:0], s.peerHi[:0]
	for r := s.from; r < s.to; r++ {
		if r == s.lo || r >= w.group[1] {
			w.group[0] = r
			if w.group[1], err = w.peerEnd(r, s.hi); err != nil {
				return err
			}
		}
		s.peerLo, s.peerHi = append(s.peerLo, w.group[0]), append(s.peerHi, w.group[1])
	}
	return nil
}

// peerEnd is the first row after r that is not equal to it.
func (w *window) peerEnd(r, end int) (int, error) {
	if len(w.order.at) == 0 {
		return end, nil
	}
	x, i, _, err := w.peerA.at(r)
	if err != nil {
		return 0, err
	}
	for r++; r < end; r++ {
		if err := w.pace.step(1); err != nil {
			return 0, err
		}
		y, j, _, err := w.peerB.at(r)
		if err != nil {
			return 0, err
		}
		if !w.order.same(x, i, y, j) {
			break
		}
	}
	return r, nil
}

// account takes the memory of what functions keep.
func (w *window) account() error {
	now := int64(0)
	for _, f := range w.funcs {
		now += f.bytes()
	}
	if now == w.held {
		return nil
	}
	if err := w.ctx.Mem.Grow(now - w.held); err != nil {
		return err
	}
	w.held = now
	return nil
}

// Close implements Op.
func (w *window) Close() error {
	if w.buf != nil {
		w.buf.clear()
		w.ctx.Mem.Shrink(w.held)
		w.held, w.done, w.sel = 0, true, nil
	}
	return w.spec.In.Close()
}
