package exec

import (
	"fmt"
	"slices"

	"github.com/godwitdb/godwit/sql/exec/hashing"
	"github.com/godwitdb/godwit/sql/expr"
)

// hashJoin keeps the right side in a hash table and streams the left one. If the right side does
// not fit into memory, both go to files by partitions of their keys, which are joined one by
// one.
type hashJoin struct {
	joinShape
	spec JoinSpec
	ctx  *Ctx
	pace pace
	lk   []expr.Expr
	rk   []expr.Expr
	// keyTypes are those of the keys that are looked up; the first nnull of NullAnti and Mark
	// joins are compared as IN does.
	keyTypes []expr.Type
	exact    []int // positions of keys that are looked up
	three    []int // positions of keys whose comparison may be NULL
	cmps     []expr.Comparer
	safe     []bool

	rows    *store // columns of the right side, then its keys
	t       *hashing.Table
	heads   []int32
	link    []int32
	nulls   []int32 // right rows with a NULL in a key of three
	some    bool    // the right side has rows
	anyNull bool
	held    int64
	loaded  bool
	keys    []*expr.Vec
	ids32   []int32

	// the left batch that is worked on
	b    *expr.Batch
	at   int
	next int32 // the next right row of the current left row, -1 at its end

	rparts, lparts *parts
	queue          []joinPart
	part           *joinPart
	lread          *spillReader
	depth          int
	// rest are the right rows if they do not fit into memory and cannot be divided: of one value,
	// for example. loop joins them pair by pair.
	rest *spool
	loop *nested

	swap    []int
	swapped expr.Batch
	of      *hashJoin // whose table this copy reads; nil: it is no copy
}

type joinPart struct {
	left, right *spill
	depth       int
}

// NewHashJoin joins by equal keys.
func NewHashJoin(s JoinSpec) (Op, error) {
	if len(s.LeftKeys) == 0 || len(s.LeftKeys) != len(s.RightKeys) {
		return nil, fmt.Errorf("exec: a hash join needs pairs of keys")
	}
	j := &hashJoin{spec: s}
	if s.BuildLeft {
		if s.Kind != Inner {
			return nil, fmt.Errorf("exec: only inner joins can build their left side")
		}
		nl, nr := len(s.Left.Cols()), len(s.Right.Cols())
		for i := range nl {
			j.swap = append(j.swap, nr+i)
		}
		for i := range nr {
			j.swap = append(j.swap, i)
		}
		j.spec.Left, j.spec.Right = s.Right, s.Left
		j.spec.LeftKeys, j.spec.RightKeys = s.RightKeys, s.LeftKeys
	}
	j.joinShape = newShape(s.Kind, columnsOf(j.spec.Left), columnsOf(j.spec.Right), s.On, s.Mark)
	for k := range s.LeftKeys {
		j.safe = append(j.safe, k < len(s.NullSafe) && s.NullSafe[k])
		in := s.Kind == NullAnti || s.Kind == Mark
		if in && !(k < len(s.Exact) && s.Exact[k]) && !j.safe[k] {
			j.three = append(j.three, k)
		} else {
			j.exact = append(j.exact, k)
		}
	}
	return j, nil
}

// Cols implements Op.
func (j *hashJoin) Cols() []expr.ColID {
	if j.swap == nil {
		return j.ids
	}
	return permute(j.ids, j.swap)
}

// Types implements Op.
func (j *hashJoin) Types() []expr.Type {
	if j.swap == nil {
		return j.types
	}
	return permute(j.types, j.swap)
}

func permute[T any](s []T, by []int) []T {
	out := make([]T, len(s))
	for i, k := range by {
		out[i] = s[k]
	}
	return out
}

func (j *hashJoin) Open(ctx *Ctx) (err error) {
	j.ctx, j.pace = ctx, pace{ctx: ctx}
	if j.env != ctx.Env {
		if err := j.compileKeys(ctx.Env); err != nil {
			return err
		}
	}
	j.loaded, j.b, j.depth, j.part, j.lread = false, nil, 0, nil, nil
	j.rest, j.loop = nil, nil
	j.some, j.anyNull = false, false
	if j.of != nil {
		j.share()
		return j.spec.Left.Open(ctx)
	}
	if err := j.spec.Right.Open(ctx); err != nil {
		return err
	}
	return j.spec.Left.Open(ctx)
}

func (j *hashJoin) compileKeys(env *expr.Env) (err error) {
	if err := j.compile(env); err != nil {
		return err
	}
	if j.lk, err = expr.CompileAll(j.spec.LeftKeys, j.left.ids, env); err != nil {
		return err
	}
	if j.rk, err = expr.CompileAll(j.spec.RightKeys, j.right.ids, env); err != nil {
		return err
	}
	j.keyTypes, j.cmps = nil, nil
	for k, e := range j.rk {
		if !j.lk[k].Type().Same(e.Type()) {
			return fmt.Errorf("exec: keys of types %s and %s", j.lk[k].Type(), e.Type())
		}
		j.cmps = append(j.cmps, expr.NewComparer(e.Type()))
	}
	return nil
}

// simple reports whether the keys that may be NULL are looked up, too: there is nothing else that
// decides.
func (j *hashJoin) simple() bool { return len(j.exact) == 0 && len(j.onNodes) == 0 }

// looked are the positions of the keys in the table.
func (j *hashJoin) looked() []int {
	if j.simple() {
		return j.three
	}
	return j.exact
}

func (j *hashJoin) lookedTypes() []expr.Type {
	var out []expr.Type
	for _, k := range j.looked() {
		out = append(out, j.rk[k].Type())
	}
	return out
}

// nullKey reports whether a row cannot match because a key is NULL.
func (j *hashJoin) nullKey(keys []*expr.Vec, i int32) bool {
	for _, k := range j.looked() {
		if !j.safe[k] && keys[k].IsNull(i) {
			return true
		}
	}
	return false
}

func evalAll(es []expr.Expr, b *expr.Batch, out []*expr.Vec) ([]*expr.Vec, error) {
	for _, e := range es {
		v, err := e.Eval(b, b.Sel)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func (j *hashJoin) rowTypes() []expr.Type {
	types := append([]expr.Type(nil), j.right.types...)
	for _, e := range j.rk {
		types = append(types, e.Type())
	}
	return types
}

// load reads the right side into memory, or into files.
func (j *hashJoin) load() error {
	j.rows = newStore(j.rowTypes(), j.ctx.Mem)
	next := j.spec.Right.Next
	if j.part != nil {
		r, err := j.part.right.read()
		if err != nil {
			return err
		}
		next = r.next
	}
	var row []*expr.Vec
	for {
		if err := j.ctx.Err(); err != nil {
			return err
		}
		b, err := next()
		if err != nil {
			return err
		}
		if b == nil {
			break
		}
		row = append(row[:0], b.Cols...)
		if j.part == nil {
			if row, err = evalAll(j.rk, b, row); err != nil {
				return err
			}
			j.note(row[len(j.right.ids):], b.Sel)
		}
		if err := j.keepRight(row, b.Sel); err != nil {
			return err
		}
	}
	need := int64(j.rows.n) * 24 // of the hash table
	if j.rparts == nil && j.rest == nil && !j.ctx.Mem.TryGrow(need) {
		if err := j.overflow(need); err != nil {
			return err
		}
	}
	switch {
	case j.rest != nil:
		return j.beginLoop()
	case j.rparts != nil:
		return j.divideLeft()
	}
	j.held += need
	return j.index()
}

// overflow makes the right rows, for which there is no memory, go to files.
func (j *hashJoin) overflow(need int64) error {
	switch {
	case j.maySpill():
		return j.spillRight()
	case j.ctx.NoSpill:
		return j.ctx.Mem.Grow(need)
	}
	return j.beginRest()
}

// beginRest moves the right rows to where they are read one after the other.
func (j *hashJoin) beginRest() error {
	types := append([]expr.Type(nil), j.right.types...)
	for _, k := range j.three {
		types = append(types, j.rk[k].Type())
	}
	j.rest = newSpool(types, j.ctx)
	err := j.rows.each(func(b *expr.Batch) error { return j.rest.add(j.restRow(b.Cols), b.Sel) })
	j.rows.clear()
	return err
}

// restRow is a right row with the keys that IN compares, and no others.
func (j *hashJoin) restRow(row []*expr.Vec) []*expr.Vec {
	out := append([]*expr.Vec(nil), row[:len(j.right.ids)]...)
	for _, k := range j.three {
		out = append(out, row[len(j.right.ids)+k])
	}
	return out
}

// feed is an operator over rows that are there already.
type feed struct {
	columns
	next func() (*expr.Batch, error)
}

// Open implements Op.
func (f *feed) Open(*Ctx) error { return nil }

// Next implements Op.
func (f *feed) Next() (*expr.Batch, error) { return f.next() }

// Close implements Op.
func (f *feed) Close() error { return nil }

// beginLoop joins the rest pair by pair.
func (j *hashJoin) beginLoop() error {
	s := JoinSpec{Kind: j.kind, Mark: j.spec.Mark, Left: &feed{j.left, j.leftNext}, Right: &feed{columns: j.right}}
	s.On = append(s.On, j.onNodes...)
	for _, k := range j.exact {
		op := "="
		if j.safe[k] {
			op = "<=>"
		}
		eq, err := expr.NewCall(expr.Lookup(op), j.spec.LeftKeys[k], j.spec.RightKeys[k])
		if err != nil {
			return err
		}
		s.On = append(s.On, eq)
	}
	for _, k := range j.three {
		s.LeftKeys, s.RightKeys = append(s.LeftKeys, j.spec.LeftKeys[k]), append(s.RightKeys, j.spec.RightKeys[k])
	}
	j.loop = newNested(s)
	j.loop.rows, j.rest = j.rest, nil
	return j.loop.prepare(j.ctx)
}

// endLoop frees what the loop has kept.
func (j *hashJoin) endLoop() {
	if j.loop != nil {
		_ = j.loop.Close() // its inputs are those of this operator
	}
	j.rest.close()
	j.loop, j.rest = nil, nil
}

// note remembers whether there are right rows, and whether keys of three have a NULL.
func (j *hashJoin) note(keys []*expr.Vec, sel []int32) {
	j.some = j.some || len(sel) > 0
	for _, k := range j.three {
		for _, i := range sel {
			j.anyNull = j.anyNull || keys[k].IsNull(i)
		}
	}
}

func (j *hashJoin) keepRight(row []*expr.Vec, sel []int32) error {
	if j.rparts == nil && j.rest == nil {
		if j.rows.tryAdd(row, sel) {
			return nil
		}
		if j.ctx.NoSpill {
			return j.rows.add(row, sel)
		}
		if err := j.overflow(0); err != nil {
			return err
		}
	}
	if j.rest != nil {
		return j.rest.add(j.restRow(row), sel)
	}
	return j.rparts.write(row, j.rightLooked(row), sel)
}

// maySpill reports whether rows may be divided into partitions by the keys that are looked up.
// There must be such keys. Only one of them may have a comparison that is NULL: if there were two,
// a row with a NULL in one might have to meet rows of several partitions.
func (j *hashJoin) maySpill() bool {
	if j.ctx.NoSpill || j.depth > maxDepth {
		return false
	}
	return len(j.three) == 0 || j.simple() && len(j.three) == 1 || len(j.exact) > 0
}

func (j *hashJoin) rightLooked(row []*expr.Vec) []*expr.Vec {
	var keys []*expr.Vec
	for _, k := range j.looked() {
		keys = append(keys, row[len(j.right.ids)+k])
	}
	return keys
}

func (j *hashJoin) spillRight() (err error) {
	if j.rparts, err = newParts(j.ctx, j.rowTypes(), j.lookedTypes()); err != nil {
		return err
	}
	err = j.rows.each(func(b *expr.Batch) error { return j.rparts.write(b.Cols, j.rightLooked(b.Cols), b.Sel) })
	if err == nil {
		j.rows.clear()
	}
	return err
}

// divideLeft sends the left rows to partitions like those of the right rows.
func (j *hashJoin) divideLeft() (err error) {
	types := append([]expr.Type(nil), j.left.types...)
	if j.lparts, err = newParts(j.ctx, types, j.lookedTypes()); err != nil {
		return err
	}
	j.lparts.p = j.rparts.p
	for {
		if err := j.ctx.Err(); err != nil {
			return err
		}
		b, err := j.leftNext()
		if err != nil {
			return err
		}
		if b == nil {
			break
		}
		keys, err := evalAll(j.lk, b, nil)
		if err != nil {
			return err
		}
		var looked []*expr.Vec
		for _, k := range j.looked() {
			looked = append(looked, keys[k])
		}
		if err := j.lparts.write(b.Cols, looked, b.Sel); err != nil {
			return err
		}
	}
	for k := range hashing.Fan {
		j.queue = append(j.queue, joinPart{j.lparts.files[k], j.rparts.files[k], j.depth + 1})
	}
	j.lparts, j.rparts = nil, nil
	return nil
}

func (j *hashJoin) leftNext() (*expr.Batch, error) {
	if j.part == nil {
		return j.spec.Left.Next()
	}
	if j.lread == nil {
		var err error
		if j.lread, err = j.part.left.read(); err != nil {
			return nil, err
		}
	}
	return j.lread.next()
}

// index makes the hash table.
func (j *hashJoin) index() (err error) {
	j.t = hashing.New(j.lookedTypes(), j.ctx.Err)
	n := j.rows.n
	j.link = make([]int32, n)
	j.nulls = j.nulls[:0]
	keys := j.rows.cols[len(j.right.ids):]
	sel := make([]int32, 0, n)
	for i := range int32(n) {
		if err := j.pace.step(1); err != nil {
			return err
		}
		if j.nullKey(keys, i) {
			j.nulls = append(j.nulls, i)
			continue
		}
		sel = append(sel, i)
	}
	j.ids32 = j.ids32[:0]
	for rest := sel; len(rest) > 0; rest = rest[min(len(rest), expr.BatchSize):] {
		next := rest[:min(len(rest), expr.BatchSize)]
		if j.ids32, err = j.t.Assign(j.rightLooked(j.rows.cols), next, j.ids32, false); err != nil {
			return err
		}
	}
	j.heads = slices.Repeat([]int32{-1}, int(j.t.Len()))
	for k := len(sel) - 1; k >= 0; k-- {
		if err := j.pace.step(1); err != nil {
			return err
		}
		i, g := sel[k], j.ids32[k]
		j.link[i] = j.heads[g]
		j.heads[g] = i
	}
	return nil
}

// Next implements Op.
func (j *hashJoin) Next() (*expr.Batch, error) {
	for {
		b, err := j.step()
		if err != nil || b == nil {
			return nil, err
		}
		if len(b.Sel) == 0 {
			continue
		}
		if j.swap == nil {
			return b, nil
		}
		j.swapped = expr.Batch{N: b.N, Sel: b.Sel, Cols: permute(b.Cols, j.swap)}
		return &j.swapped, nil
	}
}

var nothing = &expr.Batch{}

// step makes some progress: rows, nothing, or nil at the end.
func (j *hashJoin) step() (*expr.Batch, error) {
	if !j.loaded {
		j.loaded = true
		if err := j.load(); err != nil {
			return nil, err
		}
	}
	if j.loop != nil {
		b, err := j.loop.Next()
		if b == nil && err == nil {
			j.endLoop()
			b = nothing
		}
		return b, err
	}
	if err := j.ctx.Err(); err != nil {
		return nil, err
	}
	if j.t == nil {
		return j.nextPart()
	}
	if j.b == nil {
		b, err := j.leftNext()
		if err != nil {
			return nil, err
		}
		if b == nil && j.of != nil {
			return nil, nil
		}
		if b == nil {
			j.drop()
			return nothing, nil
		}
		if err := j.probe(b); err != nil {
			return nil, err
		}
	}
	j.candidates()
	left := j.b.Cols
	if err := j.test(left, j.rows.cols[:len(j.right.ids)]); err != nil {
		return nil, err
	}
	if out, err := j.decide(left); out != nil || err != nil {
		return out, err
	}
	if j.at < len(j.b.Sel) {
		return nothing, nil
	}
	b := j.b
	j.b = nil
	if out := j.finish(b); out != nil {
		return out, nil
	}
	return nothing, nil
}

// probe looks the keys of a left batch up.
func (j *hashJoin) probe(b *expr.Batch) (err error) {
	j.b, j.at = b, 0
	j.begin(b.N)
	if j.keys, err = evalAll(j.lk, b, j.keys[:0]); err != nil {
		return err
	}
	var looked []*expr.Vec
	for _, k := range j.looked() {
		looked = append(looked, j.keys[k])
	}
	if j.ids32, err = j.t.Assign(looked, b.Sel, j.ids32[:0], true); err != nil {
		return err
	}
	j.next = j.first()
	return nil
}

// first is the first right row for the current left row.
func (j *hashJoin) first() int32 {
	if j.at >= len(j.b.Sel) {
		return -1
	}
	i := j.b.Sel[j.at]
	if j.nullKey(j.keys, i) {
		return -1
	}
	if g := j.ids32[j.at]; g >= 0 {
		return j.heads[g]
	}
	return -1
}

// candidates collects pairs with equal keys, about a batch of them.
func (j *hashJoin) candidates() {
	j.pi, j.bi = j.pi[:0], j.bi[:0]
	one := j.kind != Inner && j.kind != Left && j.on == nil && len(j.three) == 0 || j.simple()
	for j.at < len(j.b.Sel) && len(j.pi) < expr.BatchSize {
		if j.next < 0 {
			j.at++
			j.next = j.first()
			continue
		}
		j.pi, j.bi = append(j.pi, j.b.Sel[j.at]), append(j.bi, j.next)
		if j.next = j.link[j.next]; one {
			j.next = -1
		}
	}
}

// decide uses the pairs that fulfil all conditions. It returns rows of inner and outer joins.
func (j *hashJoin) decide(left []*expr.Vec) (*expr.Batch, error) {
	if j.kind == NullAnti || j.kind == Mark {
		return nil, j.decideIn()
	}
	for _, i := range j.pi {
		j.hit[i] = true
	}
	if j.leftOnly {
		return nil, nil
	}
	return j.joined(left, j.rows.cols[:len(j.right.ids)]), nil
}

// decideIn finds out for x IN (...) whether it is TRUE or NULL.
func (j *hashJoin) decideIn() (err error) {
	rkeys := j.rows.cols[len(j.right.ids):]
	if !j.simple() {
		for k, i := range j.pi {
			switch j.in(i, j.bi[k], rkeys) {
			case 1:
				j.hit[i] = true
			case -1:
				j.null[i] = true
			}
		}
		return nil
	}
	for _, i := range j.pi {
		j.hit[i] = true
	}
	if j.at < len(j.b.Sel) {
		return nil
	}
	for _, i := range j.b.Sel {
		if !j.hit[i] {
			if j.null[i], err = j.unsure(i, rkeys); err != nil {
				return err
			}
		}
	}
	return nil
}

// unsure reports whether a left row without a match has a comparison that is NULL.
func (j *hashJoin) unsure(i int32, rkeys []*expr.Vec) (bool, error) {
	if len(j.three) == 1 {
		return j.some && (j.anyNull || j.keys[j.three[0]].IsNull(i)), nil
	}
	// Only a row with a NULL can make it so, unless there is one on the left.
	rows, n := j.nulls, len(j.nulls)
	if j.nullKey(j.keys, i) {
		rows, n = nil, j.rows.n
	}
	for k := range n {
		if err := j.pace.step(1); err != nil {
			return false, err
		}
		r := int32(k)
		if rows != nil {
			r = rows[k]
		}
		if j.in(i, r, rkeys) < 0 {
			return true, nil
		}
	}
	return false, nil
}

// in compares the keys of IN: 1 TRUE, 0 FALSE, -1 NULL.
func (j *hashJoin) in(i, r int32, rkeys []*expr.Vec) int {
	res := 1
	for _, k := range j.three {
		if j.keys[k].IsNull(i) || rkeys[k].IsNull(r) {
			res = -1
		} else if j.cmps[k](j.keys[k], i, rkeys[k], r) != 0 {
			return 0
		}
	}
	return res
}

// drop frees the hash table.
func (j *hashJoin) drop() {
	if j.rows != nil {
		j.rows.clear()
	}
	if j.ctx != nil {
		j.ctx.Mem.Shrink(j.held)
	}
	j.held, j.t = 0, nil
	if j.part != nil {
		j.part.left.close()
		j.part.right.close()
		j.part = nil
	}
	j.lread = nil
}

// nextPart begins with the next pair of files; nil at the end.
func (j *hashJoin) nextPart() (*expr.Batch, error) {
	j.drop()
	if len(j.queue) == 0 {
		return nil, nil
	}
	p := j.queue[len(j.queue)-1]
	j.queue = j.queue[:len(j.queue)-1]
	j.part, j.depth = &p, p.depth
	if p.left.rows == 0 {
		return nothing, nil
	}
	return nothing, j.load()
}

// Close implements Op.
func (j *hashJoin) Close() error {
	if j.of != nil {
		j.rows, j.t, j.b = nil, nil, nil
		return j.spec.Left.Close()
	}
	j.endLoop()
	j.drop()
	for _, p := range j.queue {
		p.left.close()
		p.right.close()
	}
	j.queue = nil
	j.lparts.close()
	j.rparts.close()
	j.lparts, j.rparts, j.b = nil, nil, nil
	return closeAll(j.spec.Left, j.spec.Right)
}
