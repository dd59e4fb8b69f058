package access

import (
	"context"
	"encoding/binary"
	"math"
	"sync"
	"unsafe"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/calendar"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/schema/rowfmt"
)

// decoder writes rows of the store into the vectors of a batch.
type decoder struct {
	ctx   context.Context
	t     *schema.Table
	typs  []expr.Type // of the columns wanted
	dest  []int       // by position in the table: the vector; -1: not wanted
	whole int         // the vector of rows as they are stored; -1: not wanted
	last  uint32      // id of the last column that is wanted
	// order are the columns that the table stores, by id.
	order []storedColumn
	most  uint32  // id of the last column that the table has, or has had
	days  []int64 // dates, if there is a DATE among the columns
	arena []byte  // what strings point into: a kv answer would be kept by any of its strings
}

// storedColumn is what a decoder needs to know of a column for each row.
type storedColumn struct {
	id    uint32
	class rowfmt.Class
	to    int // the vector; -1: not wanted
	c     *schema.Column
}

const arenaSize = 64 << 10

func newDecoder(ctx context.Context, t *schema.Table, cols []int, typs []expr.Type) *decoder {
	d := &decoder{ctx: ctx, t: t, typs: typs, dest: make([]int, len(t.Cols)), whole: -1}
	for i := range d.dest {
		d.dest[i] = -1
		d.most = max(d.most, t.Cols[i].Desc.ID)
	}
	for id := range t.Desc.Dropped {
		d.most = max(d.most, id)
	}
	for i, c := range cols {
		if c == len(t.Cols) {
			d.whole = i
			continue
		}
		d.dest[c] = i
		if typs[i].Kind == expr.Date {
			d.days = dates()
		}
		if !t.Cols[c].Desc.Virtual {
			d.last = max(d.last, t.Cols[c].Desc.ID)
		}
	}
	for _, p := range t.StoredOrder {
		c := t.Cols[p]
		d.order = append(d.order, storedColumn{c.Desc.ID, c.Kind.Class(), d.dest[p], c})
	}
	return d
}

// begin makes room for n rows.
func (d *decoder) begin(b *expr.Batch, n int) {
	for len(b.Cols) < len(d.typs) {
		b.Cols = append(b.Cols, &expr.Vec{})
	}
	for i, t := range d.typs {
		b.Cols[i].Reset(t, n)
	}
	b.N, b.Sel = n, expr.All(n)
	for p, i := range d.dest {
		if i < 0 || !d.t.Cols[p].Desc.Virtual {
			continue
		}
		for r := range n {
			b.Cols[i].SetNull(r)
		}
	}
}

// stored keeps a row as it is stored as the batch's row r.
func (d *decoder) stored(kr kv.Row, b *expr.Batch, r int) {
	if d.whole < 0 {
		return
	}
	n := len(kr.Key) + len(kr.Value) + binary.MaxVarintLen64 + 1
	if n > cap(d.arena)-len(d.arena) {
		d.arena = make([]byte, 0, max(arenaSize, n))
	}
	from := len(d.arena)
	d.arena = binary.AppendUvarint(d.arena, uint64(len(kr.Key)))
	d.arena = append(append(append(d.arena, byte(kr.Home)), kr.Key...), kr.Value...)
	b.Cols[d.whole].S[r] = unsafe.String(&d.arena[from], len(d.arena)-from)
}

// row decodes the value of a row as the batch's row r.
func (d *decoder) row(v []byte, b *expr.Batch, r int) error {
	if len(v) == 0 || v[0] != rowfmt.Version {
		return base.Errorf(base.CodeCorrupt, "row of table %s has an unknown format", d.t.Desc.Name)
	}
	v = v[1:]
	id, next := uint32(0), 0
	for len(v) > 0 {
		head, k := uint64(v[0]), 1
		if head >= 0x80 {
			if head, k = binary.Uvarint(v); k <= 0 {
				return d.corrupt()
			}
		}
		v = v[k:]
		if id += uint32(head >> 1); id > d.last {
			if id > d.most {
				return d.t.Foreign(id)
			}
			break // nothing behind is wanted
		}
		for ; next < len(d.order) && d.order[next].id < id; next++ {
			if err := d.missing(&d.order[next], b, r); err != nil {
				return err
			}
		}
		var err error
		if next < len(d.order) && d.order[next].id == id {
			v, err = d.column(&d.order[next], head&1 != 0, v, b, r)
			next++
		} else {
			v, err = d.dropped(id, head&1 != 0, v)
		}
		if err != nil {
			return err
		}
	}
	for ; next < len(d.order) && d.order[next].id <= d.last; next++ {
		if err := d.missing(&d.order[next], b, r); err != nil {
			return err
		}
	}
	return nil
}

// column takes the payload of a column of the row.
func (d *decoder) column(c *storedColumn, null bool, v []byte, b *expr.Batch, r int) ([]byte, error) {
	switch {
	case null:
		if c.to >= 0 {
			b.Cols[c.to].SetNull(r)
		}
		return v, nil
	case c.to >= 0:
		return d.payload(c.c, v, b.Cols[c.to], r)
	}
	return d.skip(c.class, v)
}

// dropped leaves out the payload of a column that the table has no more.
func (d *decoder) dropped(id uint32, null bool, v []byte) ([]byte, error) {
	if null {
		return v, nil
	}
	kind, ok := d.t.Desc.Dropped[id]
	if !ok {
		return nil, d.t.Foreign(id)
	}
	return d.skip(kind.Class(), v)
}

// skip leaves a payload out.
func (d *decoder) skip(class rowfmt.Class, v []byte) ([]byte, error) {
	n, ok := class.Len(v)
	if !ok {
		return nil, d.corrupt()
	}
	return v[n:], nil
}

// missing sets a column that the row does not have: it was written before the column was added.
func (d *decoder) missing(c *storedColumn, b *expr.Batch, r int) error {
	if c.to < 0 {
		return nil
	}
	m := c.c.Desc.Missing
	if m == nil {
		b.Cols[c.to].SetNull(r)
		return nil
	}
	_, err := d.payload(c.c, m, b.Cols[c.to], r)
	return err
}

func (d *decoder) corrupt() error {
	return base.Errorf(base.CodeCorrupt, "row of table %s cannot be decoded", d.t.Desc.Name)
}

// payload decodes a value that is not NULL.
func (d *decoder) payload(c *schema.Column, v []byte, out *expr.Vec, r int) ([]byte, error) {
	switch c.Kind.Class() {
	case rowfmt.Varint:
		if c.Kind == schema.KindUint {
			x, k := binary.Uvarint(v)
			if k <= 0 {
				return nil, d.corrupt()
			}
			out.I[r] = int64(x)
			return v[k:], nil
		}
		x, k := binary.Varint(v)
		if k <= 0 {
			return nil, d.corrupt()
		}
		if c.Kind == schema.KindDatetime {
			x = d.packed(out.T.Kind, x)
		}
		out.I[r] = x
		return v[k:], nil
	case rowfmt.Fixed8:
		if len(v) < 8 {
			return nil, d.corrupt()
		}
		out.F[r] = math.Float64frombits(binary.BigEndian.Uint64(v))
		return v[8:], nil
	}
	raw, rest, ok := rowfmt.TakeBlob(v)
	if !ok {
		return nil, d.corrupt()
	}
	return rest, d.blob(c, raw, out, r)
}

// packed is a stored time as package calendar packs it. The store has TIMESTAMPs in UTC.
func (d *decoder) packed(k expr.Kind, us int64) int64 {
	if us == zeroDate {
		return 0
	}
	if k == expr.Date && us >= 0 {
		if n := us / dayMicros; n < int64(len(d.days)) {
			return d.days[n]
		}
	}
	p, _ := calendar.FromMicros(us + epoch)
	return p
}

const dayMicros = 24 * 3600 * 1_000_000

// dates are the days from 1970 to 2099 as package calendar packs them.
var dates = sync.OnceValue(func() []int64 {
	out := make([]int64, 130*365+32)
	for i := range out {
		out[i], _ = calendar.FromMicros(int64(i)*dayMicros + epoch)
	}
	return out
})

// epoch is 1970-01-01 as package calendar counts microseconds.
var epoch = calendar.Micros(calendar.Pack(calendar.Time{Year: 1970, Month: 1, Day: 1}))

// blob decodes a payload of bytes.
func (d *decoder) blob(c *schema.Column, raw []byte, out *expr.Vec, r int) error {
	switch {
	case c.Kind == schema.KindDecimal:
		return d.decimal(raw, out, r)
	case c.Kind == schema.KindJSON:
		v, err := c.FromStored(d.ctx, raw)
		if err != nil {
			return schema.ClientError(err)
		}
		j, ok := v.(sql.JSONWrapper)
		if !ok {
			return d.corrupt()
		}
		out.S[r], err = types.JsonToMySqlString(d.ctx, j)
		return err
	case out.T.Kind == expr.Opaque:
		v, err := c.FromStored(d.ctx, raw)
		out.A[r] = v
		return err
	}
	out.S[r] = d.text(raw)
	return nil
}

// text copies bytes into the arena.
func (d *decoder) text(raw []byte) string {
	if len(raw) == 0 {
		return ""
	}
	if len(raw) > cap(d.arena)-len(d.arena) {
		d.arena = make([]byte, 0, max(arenaSize, len(raw)))
	}
	n := len(d.arena)
	d.arena = append(d.arena, raw...)
	return unsafe.String(&d.arena[n], len(raw))
}

// decimal decodes one at the scale of the vector.
func (d *decoder) decimal(raw []byte, out *expr.Vec, r int) error {
	exp, k := binary.Varint(raw)
	if k <= 0 || len(raw) <= k || raw[k] > 1 {
		return d.corrupt()
	}
	digits := raw[k+1:]
	up := exp + int64(out.T.Scale)
	if x, ok := small(digits, up); ok && out.D == nil {
		if raw[k] == 1 {
			x = -x
		}
		out.I[r] = x
		return nil
	}
	var x apd.Decimal
	x.Coeff.SetBytes(digits)
	x.Exponent = int32(exp)
	x.Negative = raw[k] == 1 && x.Coeff.Sign() != 0
	if up != 0 {
		if _, err := wide.Quantize(&x, &x, -int32(out.T.Scale)); err != nil {
			return d.corrupt()
		}
	}
	out.SetDecimal(r, &x)
	return nil
}

// wide has room for every DECIMAL.
var wide = apd.BaseContext.WithPrecision(2 * expr.MaxPrecision)

// small is a coefficient times ten to the up if it fits an int64.
func small(digits []byte, up int64) (int64, bool) {
	if len(digits) > 7 || up < 0 || up > 18 {
		return 0, false
	}
	x := int64(0)
	for _, b := range digits {
		x = x<<8 | int64(b)
	}
	for ; up > 0; up-- {
		if x > math.MaxInt64/10 {
			return 0, false
		}
		x *= 10
	}
	return x, true
}
