package exec

import (
	"slices"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/jsondoc"
	"github.com/godwitdb/godwit/sql/jsontable"
)

// unfold makes rows of a document of each row of its input: JSON_TABLE.
type unfold struct {
	columns
	in    Op
	doc   expr.Node
	table *jsontable.Table
	ctx   *Ctx
	env   *expr.Env
	e     expr.Expr
	b     *expr.Batch // of the input
	docs  *expr.Vec
	at    int // the next selected row of b
	made  [][]expr.Value
	of    []int32 // the row of b that each of made is of
	taken int64   // bytes of made
	out   expr.Batch
}

// NewUnfold yields the rows that a table makes of the document doc, beside the columns of the
// input row, which the table's columns ids follow.
func NewUnfold(in Op, doc expr.Node, t *jsontable.Table, ids []expr.ColID) Op {
	u := &unfold{columns: columnsOf(in), in: in, doc: doc, table: t}
	u.ids, u.types = slices.Concat(u.ids, ids), slices.Clone(u.types)
	for _, c := range t.Columns {
		u.types = append(u.types, c.Type)
	}
	return u
}

func (u *unfold) Open(ctx *Ctx) (err error) {
	u.ctx, u.b, u.made, u.of = ctx, nil, nil, nil
	if u.env != ctx.Env {
		if u.e, err = expr.Compile(u.doc, u.in.Cols(), ctx.Env); err != nil {
			return err
		}
		u.env = ctx.Env
	}
	return u.in.Open(ctx)
}

func (u *unfold) Next() (*expr.Batch, error) {
	for len(u.made) == 0 {
		u.free()
		if err := u.ctx.Err(); err != nil {
			return nil, err
		}
		if u.b == nil || u.at >= len(u.b.Sel) {
			b, err := u.in.Next()
			if err != nil || b == nil {
				return nil, err
			}
			u.b, u.at = b, 0
			if u.docs, err = u.e.Eval(b, b.Sel); err != nil {
				return nil, err
			}
		}
		if err := u.make(); err != nil {
			return nil, err
		}
	}
	return u.batch(), nil
}

// make makes the rows of the next documents, about a batch of them.
func (u *unfold) make() error {
	for ; u.at < len(u.b.Sel) && len(u.made) < expr.BatchSize; u.at++ {
		if err := u.one(u.b.Sel[u.at]); err != nil {
			return err
		}
	}
	return nil
}

// one makes the rows of one document.
func (u *unfold) one(i int32) error {
	reading := jsondoc.Reading{Ended: u.ctx.Env.Err, Mem: u.ctx.Mem}
	defer reading.Done()
	doc, ok, err := jsontable.Document(u.docs, i, &reading)
	if err != nil || !ok {
		return err
	}
	return u.table.Rows(doc, u.ctx.Env, func(row []expr.Value) error {
		size := int64(8)
		for _, v := range row {
			size += int64(len(v.S)) + valueSize
		}
		if err := u.ctx.Mem.Grow(size); err != nil {
			return err
		}
		u.taken += size
		u.made, u.of = append(u.made, slices.Clone(row)), append(u.of, i)
		return nil
	})
}

// valueSize is what a value takes beside its text, in bytes.
const valueSize = 80

func (u *unfold) free() {
	u.ctx.Mem.Shrink(u.taken)
	u.taken, u.made, u.of = 0, nil, nil
}

// batch is the next batch of the rows that were made.
func (u *unfold) batch() *expr.Batch {
	n := min(len(u.made), expr.BatchSize)
	given := len(u.types) - len(u.table.Columns)
	for len(u.out.Cols) < len(u.types) {
		u.out.Cols = append(u.out.Cols, &expr.Vec{})
	}
	for k := range given {
		v := u.out.Cols[k]
		*v = expr.Vec{}
		v.Gather(u.b.Cols[k], u.of[:n])
	}
	for k, c := range u.table.Columns {
		v := u.out.Cols[given+k]
		v.Reset(c.Type, n)
		for i, row := range u.made[:n] {
			v.Put(i, row[k])
		}
	}
	u.made, u.of = u.made[n:], u.of[n:]
	u.out.N, u.out.Sel = n, expr.All(n)
	return &u.out
}

func (u *unfold) Close() error {
	if u.ctx != nil {
		u.free()
	}
	return u.in.Close()
}
