package exec

import (
	"github.com/godwitdb/godwit/sql/exec/hashing"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/fn"
)

// AggSpec groups rows.
type AggSpec struct {
	In Op
	// Keys are the columns by which rows are grouped; without them there is one group, also if
	// there are no rows.
	Keys []Column
	Aggs []AggColumn
}

// hashAgg groups by a hash table. Each group's state stays in memory; without memory for more
// groups, rows of unknown ones go to files, one for each partition of keys, which are read
// afterwards. If an aggregate keeps values (DISTINCT, GROUP_CONCAT), its inputs are logged, and
// all groups begin anew in the partitions. A group that does not fit alone is a bigGroup.
type hashAgg struct {
	columns
	spec    AggSpec
	ctx     *Ctx
	env     *expr.Env
	keys    []expr.Expr
	inputs  []expr.Expr
	spans   [][2]int // the inputs of each aggregate
	accs    []expr.Acc
	growing bool

	rowTypes []expr.Type // of keys and inputs: what goes to files
	nkeys    int

	t      *hashing.Table
	kept   []*expr.Vec // a value of each key for each group
	log    *store
	held   int64
	parts  *parts
	queue  []part
	file   *spill
	depth  int // how often the rows that are read were divided
	big    *bigGroup
	state  aggState
	at     int
	row    []*expr.Vec
	gids   []int32
	sel    []int32
	firsts []int32
	out    expr.Batch
}

type aggState uint8

const (
	aggRead aggState = iota // reads rows
	aggEmit                 // gives groups out
	aggDone
)

// NewHashAgg groups rows and aggregates them.
func NewHashAgg(s AggSpec) Op {
	h := &hashAgg{spec: s}
	h.add(s.Keys)
	for _, a := range s.Aggs {
		h.addAgg(a)
	}
	return h
}

func (h *hashAgg) addAgg(a AggColumn) {
	h.ids = append(h.ids, a.ID)
	h.types = append(h.types, a.Agg.Type())
}

// keepsValues reports whether the state of an aggregate grows with the rows of a group.
func keepsValues(a *expr.Agg) bool {
	switch a.Fn.Name {
	case "group_concat", "json_arrayagg", "json_objectagg":
		return true
	case "min", "max", "bit_and", "bit_or", "any_value":
		return false // whether DISTINCT or not
	}
	return a.Distinct
}

func (h *hashAgg) compile(ctx *Ctx) error {
	if h.env == ctx.Env {
		return nil
	}
	h.keys, h.inputs, h.spans, h.accs, h.rowTypes, h.growing = nil, nil, nil, nil, nil, false
	for _, k := range h.spec.Keys {
		e, err := expr.Compile(k.Expr, h.spec.In.Cols(), ctx.Env)
		if err != nil {
			return err
		}
		h.keys = append(h.keys, e)
		h.rowTypes = append(h.rowTypes, e.Type())
	}
	for _, a := range h.spec.Aggs {
		es, err := expr.CompileAll(a.Agg.Inputs(), h.spec.In.Cols(), ctx.Env)
		if err != nil {
			return err
		}
		h.spans = append(h.spans, [2]int{len(h.inputs), len(h.inputs) + len(es)})
		h.inputs = append(h.inputs, es...)
		for _, e := range es {
			h.rowTypes = append(h.rowTypes, e.Type())
		}
		acc, err := fn.NewAcc(a.Agg, ctx.Env)
		if err != nil {
			return err
		}
		h.accs = append(h.accs, acc)
		h.growing = h.growing || keepsValues(a.Agg)
	}
	h.nkeys, h.env = len(h.keys), ctx.Env
	return nil
}

func (h *hashAgg) Open(ctx *Ctx) error {
	h.ctx = ctx
	if err := h.compile(ctx); err != nil {
		return err
	}
	if h.nkeys > 0 {
		ctx.Work.Table()
	}
	h.state, h.depth = aggRead, 0
	h.begin()
	return h.spec.In.Open(ctx)
}

// begin empties the table for the rows of the input or of a file.
func (h *hashAgg) begin() {
	h.release()
	h.t = hashing.New(h.rowTypes[:h.nkeys], h.ctx.Err)
	h.kept = nil
	for _, t := range h.rowTypes[:h.nkeys] {
		v := &expr.Vec{}
		v.Reset(t, 0)
		h.kept = append(h.kept, v)
	}
	for _, a := range h.accs {
		a.Reset()
	}
	if h.nkeys == 0 {
		h.t.Single()
		h.grow()
	}
	if h.growing && !h.ctx.NoSpill {
		h.log = newStore(h.rowTypes, h.ctx.Mem)
	}
}

func (h *hashAgg) grow() {
	for _, a := range h.accs {
		a.Grow(int(h.t.Len()))
	}
}

func (h *hashAgg) release() {
	if h.ctx != nil {
		h.ctx.Mem.Shrink(h.held)
	}
	h.held = 0
	if h.log != nil {
		h.log.clear()
		h.log = nil
	}
}

func (h *hashAgg) Next() (*expr.Batch, error) {
	for {
		switch h.state {
		case aggRead:
			if err := h.readAll(); err != nil {
				return nil, err
			}
			if h.big != nil {
				if err := h.big.finish(); err != nil {
					return nil, err
				}
			}
			h.state, h.at = aggEmit, 0
		case aggEmit:
			if err := h.ctx.Err(); err != nil {
				return nil, err
			}
			if b, err := h.emit(); b != nil || err != nil {
				return b, err
			}
			if err := h.turn(); err != nil {
				return nil, err
			}
		default:
			return nil, nil
		}
	}
}

// readAll takes all rows of the input, or of the file that is being read.
func (h *hashAgg) readAll() error {
	if h.file != nil {
		r, err := h.file.read()
		if err != nil {
			return err
		}
		for {
			b, err := r.next()
			if err != nil || b == nil {
				return err
			}
			if err := h.take(b.Cols, b.Sel); err != nil {
				return err
			}
		}
	}
	for {
		if err := h.ctx.Err(); err != nil {
			return err
		}
		b, err := h.spec.In.Next()
		if err != nil || b == nil {
			return err
		}
		h.row = h.row[:0]
		for _, list := range [][]expr.Expr{h.keys, h.inputs} {
			for _, e := range list {
				v, err := e.Eval(b, b.Sel)
				if err != nil {
					return err
				}
				h.row = append(h.row, v)
			}
		}
		if err := h.take(h.row, b.Sel); err != nil {
			return err
		}
	}
}

// take aggregates rows of keys and inputs.
func (h *hashAgg) take(row []*expr.Vec, sel []int32) error {
	keys := row[:h.nkeys]
	switch {
	case h.big != nil:
		return h.takeBig(row, keys, sel)
	case h.parts != nil && h.growing:
		return h.parts.write(row, keys, sel)
	case h.parts != nil:
		return h.takeKnown(row, keys, sel)
	}
	if h.nkeys > 0 && h.log != nil && !h.log.tryAdd(row, sel) {
		return h.short(row, sel)
	}
	if err := h.assign(keys, sel); err != nil {
		return err
	}
	if err := h.addAll(row, sel); err != nil {
		return err
	}
	if h.nkeys == 0 && h.log != nil {
		if fresh := h.fresh(sel); !h.log.tryAdd(row, fresh) {
			if err := h.short(nil, nil); err != nil {
				return err
			}
			return h.big.file.write(row, fresh)
		}
	}
	return h.account()
}

// assign finds the groups of rows, and makes new ones.
func (h *hashAgg) assign(keys []*expr.Vec, sel []int32) (err error) {
	n := h.t.Len()
	if h.gids, err = h.t.Assign(keys, sel, h.gids[:0], false); err != nil || h.t.Len() == n {
		return err
	}
	h.firsts = h.firsts[:0]
	for k, i := range sel {
		if h.gids[k] >= n {
			h.firsts = append(h.firsts, i)
			n++
		}
	}
	for k, v := range keys {
		h.kept[k].Append(v, h.firsts)
	}
	h.grow()
	return nil
}

// fresh are the rows just added of which an aggregate keeps something. DISTINCT keeps nothing of a
// row that repeats another. Such a row need not be logged if there is one group only: the other
// aggregates keep their state then.
func (h *hashAgg) fresh(sel []int32) []int32 {
	var out []int32
	some := false
	for k, a := range h.spec.Aggs {
		if !keepsValues(a.Agg) {
			continue
		}
		p, ok := h.accs[k].(interface{ Passed() []int32 })
		if !ok || some {
			return sel
		}
		out, some = p.Passed(), true
	}
	return out
}

func (h *hashAgg) addAll(row []*expr.Vec, sel []int32) error {
	in := row[h.nkeys:]
	for k, a := range h.accs {
		if err := a.Add(h.gids, in[h.spans[k][0]:h.spans[k][1]], sel); err != nil {
			return err
		}
	}
	return nil
}

// takeKnown aggregates the rows of groups that are in memory; the others go to files.
func (h *hashAgg) takeKnown(row, keys []*expr.Vec, sel []int32) error {
	away, err := h.known(keys, sel)
	if err != nil {
		return err
	}
	if err := h.addAll(row, h.sel); err != nil {
		return err
	}
	return h.parts.write(row, keys, away)
}

// known finds the rows of groups that are there, for h.sel and h.gids, and returns the others.
func (h *hashAgg) known(keys []*expr.Vec, sel []int32) (away []int32, err error) {
	ids, err := h.t.Assign(keys, sel, h.gids[:0], true)
	if err != nil {
		return nil, err
	}
	h.gids, h.sel = ids[:0], h.sel[:0]
	for k, i := range sel {
		if ids[k] < 0 {
			away = append(away, i)
			continue
		}
		h.gids, h.sel = append(h.gids, ids[k]), append(h.sel, i)
	}
	return away, nil
}

func (h *hashAgg) bytes() int64 {
	size := h.t.Bytes()
	for _, a := range h.accs {
		size += a.Bytes()
	}
	for _, v := range h.kept {
		size += 24 * int64(v.Len())
	}
	return size
}

// account takes the memory of the groups. If there is none, it begins to use files.
func (h *hashAgg) account() error {
	now := h.bytes()
	if h.ctx.Mem.TryGrow(now - h.held) {
		h.held = now
		return nil
	}
	if h.growing && h.log != nil {
		return h.short(nil, nil)
	}
	var err error
	if h.nkeys == 0 || h.ctx.NoSpill || h.depth > maxDepth {
		if err = h.ctx.Mem.Grow(now - h.held); err == nil {
			h.held = now
		}
		return err
	}
	h.parts, err = newParts(h.ctx, h.rowTypes, h.rowTypes[:h.nkeys])
	return err
}

// short goes on with files when there is no memory for what aggregates keep. These rows were not
// added yet.
func (h *hashAgg) short(row []*expr.Vec, sel []int32) error {
	switch {
	case h.log == nil:
	case h.t.Len() == 0 && len(sel) > 1: // not even one batch fits
		if err := h.take(row, sel[:1]); err != nil {
			return err
		}
		return h.take(row, sel[1:])
	case h.t.Len() == 1:
		if err := h.begBig(); err != nil || len(sel) == 0 {
			return err
		}
		return h.take(row, sel)
	case h.depth <= maxDepth:
		return h.restart(row, sel)
	}
	return h.ctx.Mem.Short()
}

// restart sends everything that was read to files, and these rows, too.
func (h *hashAgg) restart(row []*expr.Vec, sel []int32) error {
	p, err := newParts(h.ctx, h.rowTypes, h.rowTypes[:h.nkeys])
	if err != nil {
		return err
	}
	h.parts = p
	err = h.log.each(func(b *expr.Batch) error { return p.write(b.Cols, b.Cols[:h.nkeys], b.Sel) })
	if err != nil {
		return err
	}
	h.release()
	h.t.Reset()
	for _, a := range h.accs {
		a.Reset()
	}
	for _, v := range h.kept {
		v.Reset(v.T, 0)
	}
	if len(sel) == 0 {
		return nil
	}
	return p.write(row, row[:h.nkeys], sel)
}

// emit gives out groups; nil if there are no more.
func (h *hashAgg) emit() (*expr.Batch, error) {
	n := min(expr.BatchSize, int(h.t.Len())-h.at)
	if n <= 0 {
		return nil, nil
	}
	for len(h.out.Cols) < len(h.types) {
		h.out.Cols = append(h.out.Cols, &expr.Vec{})
	}
	h.sel = span(h.sel, h.at, n)
	idx := h.sel
	for k, v := range h.kept {
		h.out.Cols[k].Gather(v, idx)
	}
	for k, a := range h.accs {
		v := h.out.Cols[h.nkeys+k]
		v.Reset(h.types[h.nkeys+k], n)
		if h.big != nil && h.big.accs[k] != nil {
			a = h.big.accs[k]
		}
		if err := a.Result(v, h.at, h.at+n); err != nil {
			return nil, err
		}
	}
	h.at += n
	h.out.N, h.out.Sel = n, expr.All(n)
	return &h.out, nil
}

// turn goes on with the next file, or ends.
func (h *hashAgg) turn() error {
	h.big.close()
	h.big = nil
	h.queue = h.parts.queue(h.queue, h.depth+1)
	h.parts = nil
	h.file.close()
	h.file = nil
	for len(h.queue) > 0 {
		p := h.queue[len(h.queue)-1]
		h.queue = h.queue[:len(h.queue)-1]
		if p.rows == 0 {
			p.close()
			continue
		}
		h.file, h.depth, h.state = p.spill, p.depth, aggRead
		h.begin()
		return nil
	}
	h.release()
	h.state = aggDone
	return nil
}

// Close implements Op.
func (h *hashAgg) Close() error {
	h.release()
	h.big.close()
	h.big = nil
	h.parts.close()
	h.parts = nil
	h.file.close()
	h.file = nil
	for _, p := range h.queue {
		p.close()
	}
	h.queue, h.state = nil, aggDone
	return h.spec.In.Close()
}
