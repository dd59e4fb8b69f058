package system

import (
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/calendar"
)

// putter stores values of the engine in vectors of a column.
type putter struct {
	ctx  *sql.Context
	from sql.Type
	to   expr.Type
	one  expr.Vec
}

// put stores a value at i. What the engine's rows have in another form than the column's type is
// converted by that type.
func (p *putter) put(v *expr.Vec, i int, x any) error {
	x, err := sql.UnwrapAny(p.ctx, x)
	if err != nil {
		return err
	}
	if x == nil {
		v.SetNull(i)
		return nil
	}
	if p.plain(v, i, x) {
		return nil
	}
	if x, _, err = p.from.Convert(p.ctx, x); err != nil {
		return err
	}
	if x == nil {
		v.SetNull(i)
		return nil
	}
	if p.plain(v, i, x) {
		return nil
	}
	p.one.Reset(p.to, 1)
	if err := p.one.Unbox(p.ctx, 0, x); err != nil {
		return err
	}
	v.Put(i, p.one.At(0))
	return nil
}

// plain stores values that need no conversion.
func (p *putter) plain(v *expr.Vec, i int, x any) bool {
	switch p.to.Kind {
	case expr.Text:
		s, ok := x.(string)
		if ok {
			v.S[i] = s
		}
		return ok
	case expr.Bytes:
		switch x := x.(type) {
		case string:
			v.S[i] = x
		case []byte:
			v.S[i] = string(x)
		default:
			return false
		}
		return true
	case expr.Int, expr.Uint, expr.Year, expr.Bit:
		n, ok := integer(x, p.to.Kind != expr.Int)
		if ok {
			v.I[i] = n
		}
		return ok
	case expr.Enum:
		n, ok := x.(uint16)
		v.I[i] = int64(n)
		return ok
	case expr.Set:
		n, ok := x.(uint64)
		v.I[i] = int64(n)
		return ok
	case expr.Datetime, expr.Timestamp:
		at, ok := x.(time.Time)
		if ok {
			v.I[i], ok = calendar.Round(calendar.FromGo(at.UTC()), p.to.Scale)
		}
		return ok
	}
	return false
}

// integer is a number of the engine; ok is false of one that a column of its sign does not hold.
func integer(x any, unsigned bool) (n int64, ok bool) {
	switch x := x.(type) {
	case int64:
		n = x
	case int32:
		n = int64(x)
	case int16:
		n = int64(x)
	case int8:
		n = int64(x)
	case int:
		n = int64(x)
	case uint64:
		return int64(x), unsigned
	case uint32:
		return int64(x), true
	case uint16:
		return int64(x), true
	case uint8:
		return int64(x), true
	default:
		return 0, false
	}
	return n, !unsigned || n >= 0
}
