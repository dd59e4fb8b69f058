package access

import (
	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/schema"
)

// Values makes vectors of values that are going to be stored.
type Values struct {
	ctx   *sql.Context
	types []expr.Type
	d     *decoder
	buf   []byte
}

// NewValues makes vectors of values of a table.
func (t *Table) NewValues() *Values { return ValuesOf(t.s.ctx, t.st.Def) }

// ValuesOf makes vectors of values of the rows of a table.
func ValuesOf(ctx *sql.Context, def *schema.Table) *Values {
	v := &Values{ctx: ctx, d: newDecoder(ctx, def, nil, nil)}
	for _, c := range def.Cols {
		ty := expr.FromSQL(c.Type)
		if ty.Kind == expr.Duration {
			ty.Scale = c.Digits
		}
		v.types = append(v.types, ty.AsNull())
	}
	return v
}

// Type is the type of a column's vectors.
func (v *Values) Type(col int) expr.Type { return v.types[col] }

// Put sets the value at r of a vector of a column's type.
func (v *Values) Put(out *expr.Vec, r, col int, x any) (err error) {
	if x == nil {
		out.SetNull(r)
		return nil
	}
	if out.Null != nil {
		out.Null[r] = false
	}
	c := v.d.t.Cols[col]
	if v.buf, err = c.AppendPayload(v.ctx, v.buf[:0], x); err != nil {
		return schema.ClientError(err)
	}
	_, err = v.d.payload(c, v.buf, out, r)
	return err
}
