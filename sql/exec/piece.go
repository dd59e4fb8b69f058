package exec

import (
	"slices"

	"github.com/godwitdb/godwit/sql/expr"
)

// Piece is an operator that works on the batches of one input, one after the other, and knows
// nothing of those before. So several goroutines can do its work, each with a copy and with
// batches of its own (package exchange).
type Piece interface {
	Op
	// Input yields the batches, Nodes are the expressions that are computed.
	Input() Op
	Nodes() []expr.Node
	// Copy does the same with the batches of another input, in another goroutine. Its Next returns
	// nil at the end of the input, and may be called again when there is more. It is opened after
	// the operator itself.
	Copy(in Op) Op
}

// Keeper is a Piece that reads other rows first, and keeps them.
type Keeper interface {
	Piece
	// Shares reports whether copies can begin with the next batch of the input: the other rows are
	// all there, in memory, and nothing is left to yield of the batches before.
	Shares() bool
}

// Leaf is the operator that reads a table. Rows are those of its read, once it is open.
type Leaf interface {
	Op
	Spec() ScanSpec
	Rows() Rows
}

// Parted is the Rows of a read that several goroutines can decode.
type Parted interface {
	Rows
	// Take takes the rows of the next batch as they are stored; nil at the end. It is called by the
	// statement's goroutine.
	Take() (any, error)
	// Ready reports whether Take has something without waiting for it.
	Ready() bool
	// Decoder makes what decodes that in one goroutine; nil: only Next can.
	Decoder() func(part any, b *expr.Batch) error
}

// Spec implements Leaf.
func (s *scan) Spec() ScanSpec { return s.spec }

// Rows implements Leaf.
func (s *scan) Rows() Rows { return s.rows }

// Input implements Piece.
func (f *filter) Input() Op { return f.in }

// Nodes implements Piece.
func (f *filter) Nodes() []expr.Node { return f.on }

// Copy implements Piece.
func (f *filter) Copy(in Op) Op { return NewFilter(in, f.on) }

// Input implements Piece.
func (p *project) Input() Op { return p.in }

// Nodes implements Piece.
func (p *project) Nodes() []expr.Node {
	var ns []expr.Node
	for _, c := range p.exprs {
		ns = append(ns, c.Expr)
	}
	return ns
}

// Copy implements Piece.
func (p *project) Copy(in Op) Op {
	return &project{columns: p.columns, in: in, exprs: p.exprs, keep: p.keep}
}

// Input implements Piece.
func (j *hashJoin) Input() Op { return j.spec.Left }

// Nodes implements Piece.
func (j *hashJoin) Nodes() []expr.Node {
	return append(append(append([]expr.Node(nil), j.spec.LeftKeys...), j.spec.RightKeys...), j.onNodes...)
}

// Shares implements Keeper.
func (j *hashJoin) Shares() bool {
	return j.t != nil && j.loop == nil && j.part == nil && len(j.queue) == 0 && !j.midst()
}

// midst reports whether there is something to come of the left batch.
func (j *hashJoin) midst() bool {
	if j.b == nil || j.at < len(j.b.Sel) || j.kind != Inner && j.kind != Left {
		return j.b != nil
	}
	return j.kind == Left && slices.ContainsFunc(j.b.Sel, func(i int32) bool { return !j.hit[i] })
}

// Copy implements Piece.
func (j *hashJoin) Copy(in Op) Op {
	c := &hashJoin{spec: j.spec, exact: j.exact, three: j.three, safe: j.safe, swap: j.swap, of: j}
	c.joinShape = newShape(j.kind, j.left, j.right, j.onNodes, j.spec.Mark)
	c.spec.Left = in
	return c
}

// share lets a copy read the rows of the right side.
func (j *hashJoin) share() {
	o := j.of
	j.rows, j.t, j.heads, j.link, j.nulls = o.rows, o.t.Reader(j.ctx.Err), o.heads, o.link, o.nulls
	j.some, j.anyNull, j.loaded = o.some, o.anyNull, true
}
