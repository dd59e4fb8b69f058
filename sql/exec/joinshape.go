package exec

import "github.com/godwitdb/godwit/sql/expr"

// joinShape is what all joins know: the columns of both sides and of the result.
type joinShape struct {
	columns
	kind       JoinKind
	left       columns
	right      columns
	onNodes    []expr.Node
	on         expr.Pred // over left and right columns
	env        *expr.Env
	pairs      expr.Batch // of candidates
	leftOnly   bool       // the result has no right columns
	markVec    expr.Vec
	out        expr.Batch
	hit        []bool
	null       []bool
	pi, bi     []int32
	keepP      []int32
	rightTypes []expr.Type // of the result: with NULLs for outer joins
}

func newShape(kind JoinKind, left, right columns, on []expr.Node, mark expr.ColID) joinShape {
	j := joinShape{kind: kind, left: left, right: right, onNodes: on}
	j.ids = append(j.ids, left.ids...)
	j.types = append(j.types, left.types...)
	j.rightTypes = right.types
	switch kind {
	case Inner, Left:
		if kind == Left {
			j.rightTypes = nullable(right.types)
		}
		j.ids = append(j.ids, right.ids...)
		j.types = append(j.types, j.rightTypes...)
	case Mark:
		j.leftOnly = true
		j.ids = append(j.ids, mark)
		j.types = append(j.types, expr.TypeBool)
	default:
		j.leftOnly = true
	}
	return j
}

func (j *joinShape) compile(env *expr.Env) (err error) {
	layout := append(append([]expr.ColID(nil), j.left.ids...), j.right.ids...)
	j.on, err = expr.CompilePreds(j.onNodes, layout, env)
	j.env = env
	return err
}

// test keeps those of the candidate pairs (pi, bi) that fulfil the further conditions.
func (j *joinShape) test(left, right []*expr.Vec) error {
	if j.on == nil || len(j.pi) == 0 {
		return nil
	}
	b := &j.pairs
	nl := len(left)
	for len(b.Cols) < nl+len(right) {
		b.Cols = append(b.Cols, &expr.Vec{})
	}
	for k, c := range left {
		b.Cols[k].Gather(c, j.pi)
	}
	for k, c := range right {
		b.Cols[nl+k].Gather(c, j.bi)
	}
	b.N, b.Sel = len(j.pi), expr.All(len(j.pi))
	sel, err := j.on.Filter(b, b.Sel, true)
	if err != nil {
		return err
	}
	for k, s := range sel {
		j.pi[k], j.bi[k] = j.pi[s], j.bi[s]
	}
	j.pi, j.bi = j.pi[:len(sel)], j.bi[:len(sel)]
	return nil
}

// begin forgets what was found for the left batch before.
func (j *joinShape) begin(n int) {
	j.hit = cleared(j.hit, n)
	j.null = cleared(j.null, n)
}

func cleared(b []bool, n int) []bool {
	if cap(b) < n {
		return make([]bool, n)
	}
	b = b[:n]
	clear(b)
	return b
}

// joined is the batch of the pairs that are left.
func (j *joinShape) joined(left, right []*expr.Vec) *expr.Batch {
	if len(j.pi) == 0 {
		return nil
	}
	for len(j.out.Cols) < len(left)+len(j.right.ids) {
		j.out.Cols = append(j.out.Cols, &expr.Vec{})
	}
	for k, c := range left {
		j.out.Cols[k].Gather(c, j.pi)
	}
	for k, t := range j.rightTypes {
		v := j.out.Cols[len(left)+k]
		if right != nil {
			v.Gather(right[k], j.bi)
			v.T = t
			continue
		}
		v.Reset(t, len(j.bi))
		for i := range j.bi {
			v.SetNull(i)
		}
	}
	j.out.N, j.out.Sel = len(j.pi), expr.All(len(j.pi))
	return &j.out
}

// finish is what a left batch yields when all its candidates were tested: the rows without a
// match of an outer join, or the answer for each row of the other kinds. nil: nothing.
func (j *joinShape) finish(b *expr.Batch) *expr.Batch {
	switch j.kind {
	case Inner:
		return nil
	case Left:
		j.pi, j.bi = j.pi[:0], j.bi[:0]
		for _, i := range b.Sel {
			if !j.hit[i] {
				j.pi, j.bi = append(j.pi, i), append(j.bi, -1)
			}
		}
		return j.joined(b.Cols, nil)
	case Mark:
		return j.marked(b)
	}
	j.keepP = j.keepP[:0]
	for _, i := range b.Sel {
		keep := j.hit[i]
		switch j.kind {
		case Anti:
			keep = !keep
		case NullAnti:
			keep = !keep && !j.null[i]
		}
		if keep {
			j.keepP = append(j.keepP, i)
		}
	}
	if len(j.keepP) == 0 {
		return nil
	}
	j.out = expr.Batch{N: b.N, Cols: b.Cols, Sel: j.keepP}
	return &j.out
}

func (j *joinShape) marked(b *expr.Batch) *expr.Batch {
	v := &j.markVec
	v.Reset(expr.TypeBool, b.N)
	for _, i := range b.Sel {
		v.I[i] = 0
		switch {
		case j.hit[i]:
			v.I[i] = 1
		case j.null[i]:
			v.SetNull(int(i))
		}
	}
	cols := append(j.out.Cols[:0:0], b.Cols...)
	j.out = expr.Batch{N: b.N, Cols: append(cols, v), Sel: b.Sel}
	return &j.out
}
