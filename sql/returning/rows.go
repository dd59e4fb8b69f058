package returning

import (
	"encoding/binary"
	"errors"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"

	"github.com/godwitdb/godwit/sql/access"
	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/lookup"
	"github.com/godwitdb/godwit/sql/result"
	"github.com/godwitdb/godwit/sql/rowlist"
	"github.com/godwitdb/godwit/sql/schema"
)

// The list is computed for so many rows at once, or so many bytes of them.
const (
	atOnce      = 1024
	atOnceBytes = 1 << 20
)

// sentRows is how many rows are sent at once, sentBytes how many bytes of them.
const (
	sentRows  = 4096
	sentBytes = 4 << 20
)

// Rows are what a statement returns. They wait until it has succeeded, those beyond a quarter of
// its memory in a temporary file. Nil is a statement that returns none: it takes Asks, Add, Compute
// and End.
type Rows struct {
	list  *List
	def   *schema.Table
	mem   *exec.Mem
	exprs []expr.Expr
	vals  *access.Values
	need  []int // columns of the table that the list uses
	batch expr.Batch
	enc   result.Encoder
	rows  []sql.Row // that were changed, and whose list is not computed
	size  int64
	out   rowlist.Waiting
	boxed bool
	Boxed []sql.Row // the rows in the engine's form, if that was asked for
}

// New prepares the rows of a list, over a table. boxed: they are wanted in the engine's form.
func New(ctx *sql.Context, l *List, t *access.Table, env *expr.Env, mem *exec.Mem, st lookup.Statement, boxed bool) (*Rows, error) {
	r := &Rows{list: l, def: t.Stored().Def, mem: mem, vals: t.NewValues(), boxed: boxed}
	r.enc.Ctx = ctx
	r.out.Ctx, r.out.Mem = ctx, mem
	used := map[expr.ColID]bool{}
	st.Next = l.Next
	for i, n := range l.Nodes {
		expr.Cols(n, func(id expr.ColID) { used[id] = true })
		x, err := lookup.Compile(n, l.IDs, env, st)
		if err != nil {
			return nil, err
		}
		r.exprs = append(r.exprs, x)
		typ := l.Out[i].Type
		r.enc.At, r.enc.Types = append(r.enc.At, i), append(r.enc.Types, typ)
		r.enc.Wire = append(r.enc.Wire, typ.ClientType().Type())
	}
	for i, id := range l.IDs {
		r.batch.Cols = append(r.batch.Cols, &expr.Vec{})
		if used[id] {
			r.need = append(r.need, i)
		}
	}
	return r, nil
}

// Asks reports whether the list has subqueries.
func (r *Rows) Asks() bool {
	if r == nil {
		return false
	}
	for _, n := range r.list.Nodes {
		if expr.HasSub(n) {
			return true
		}
	}
	return false
}

// Add notes a row that was changed: it must not change any more.
func (r *Rows) Add(row sql.Row) error {
	if r == nil {
		return nil
	}
	size := int64(24 + 16*len(row))
	for _, v := range row {
		switch v := v.(type) {
		case string:
			size += int64(len(v))
		case []byte:
			size += int64(len(v))
		}
	}
	if err := r.mem.Grow(size); err != nil {
		return err
	}
	r.rows, r.size = append(r.rows, row), r.size+size
	if len(r.rows) >= atOnce || r.size >= atOnceBytes {
		return r.Compute()
	}
	return nil
}

// Compute computes the list for the rows that were noted last.
func (r *Rows) Compute() error {
	if r == nil || len(r.rows) == 0 {
		return nil
	}
	n := len(r.rows)
	in, out := &r.batch, expr.Batch{N: n, Sel: expr.All(n)}
	in.N, in.Sel = n, out.Sel
	for _, at := range r.need {
		in.Cols[at].Reset(r.vals.Type(at), n)
	}
	for i, row := range r.rows {
		row = r.def.AsKept(row)
		for _, at := range r.need {
			if err := r.vals.Put(in.Cols[at], i, at, row[at]); err != nil {
				return err
			}
		}
	}
	for _, x := range r.exprs {
		v, err := x.Eval(in, in.Sel)
		if err != nil {
			return err
		}
		out.Cols = append(out.Cols, v)
	}
	clear(r.rows)
	r.rows = r.rows[:0]
	r.mem.Shrink(r.size)
	r.size = 0
	if r.boxed {
		return r.box(&out)
	}
	rows, err := r.enc.Rows(&out)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := r.out.Add(rowlist.Row{Stored: pack(row)}); err != nil {
			return err
		}
	}
	return nil
}

func (r *Rows) box(b *expr.Batch) error {
	for _, i := range b.Sel {
		row := make(sql.Row, len(b.Cols))
		size := int64(24 + 16*len(row))
		for k, v := range b.Cols {
			var err error
			if row[k], err = r.enc.Box(v, i, r.enc.Types[k]); err != nil {
				return err
			}
			if s, ok := row[k].(string); ok {
				size += int64(len(s))
			}
		}
		if err := r.mem.Grow(size); err != nil {
			return err
		}
		r.Boxed = append(r.Boxed, row)
	}
	return nil
}

// Schema is that of the rows in the engine's form.
func (r *Rows) Schema() (sch sql.Schema) {
	for _, c := range r.list.Out {
		sch = append(sch, &sql.Column{
			Name: c.Name, Type: c.Type.ClientType(), Nullable: !c.Type.NotNull, Source: c.Table, DatabaseSource: c.DB,
		})
	}
	return sch
}

// Out are the columns of the list.
func (r *Rows) Out() []bind.Output { return r.list.Out }

// Send sends the rows, the first ones with the description of the columns, also if there are none.
func (r *Rows) Send(fields []*querypb.Field, send func(*sqltypes.Result) error) error {
	res, size := &sqltypes.Result{Fields: fields}, int64(0)
	flush := func() error {
		res.RowsAffected = uint64(len(res.Rows))
		err := send(res)
		r.mem.Shrink(size)
		res, size = &sqltypes.Result{Fields: fields}, 0
		return err
	}
	sent := false
	for i := range r.out.Len() {
		p, err := r.out.At(i)
		if err != nil {
			return err
		}
		row, err := r.unpack(p.Stored)
		if err != nil {
			return err
		}
		n := int64(len(p.Stored) + 48*len(row))
		if err := r.mem.Grow(n); err != nil {
			return err
		}
		res.Rows, size = append(res.Rows, row), size+n
		if len(res.Rows) >= sentRows || size >= sentBytes {
			sent = true
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if len(res.Rows) == 0 && sent {
		return nil
	}
	return flush()
}

// End gives up the rows.
func (r *Rows) End() {
	if r != nil {
		r.out.End()
	}
}

// pack makes one text of a row: of each value its length and 1, or 0 of NULL, then its bytes.
func pack(row []sqltypes.Value) string {
	n := 0
	for _, v := range row {
		n += binary.MaxVarintLen32 + v.Len()
	}
	b := make([]byte, 0, n)
	for _, v := range row {
		if v.IsNull() {
			b = append(b, 0)
			continue
		}
		b = binary.AppendUvarint(b, uint64(v.Len())+1)
		b = append(b, v.Raw()...)
	}
	return string(b)
}

var errLost = errors.New("a row of RETURNING was lost on its way")

func (r *Rows) unpack(s string) ([]sqltypes.Value, error) {
	b := []byte(s)
	row := make([]sqltypes.Value, len(r.exprs))
	for i := range row {
		n, k := binary.Uvarint(b)
		if k <= 0 || n > uint64(len(b)-k)+1 {
			return nil, errLost
		}
		if b = b[k:]; n > 0 {
			row[i] = sqltypes.MakeTrusted(r.enc.Wire[i], b[:n-1:n-1])
			b = b[n-1:]
		}
	}
	return row, nil
}
