package schema

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/schema/rowfmt"
)

// AppendRow encodes the stored columns of a row given in schema order.
func (t *Table) AppendRow(ctx context.Context, b []byte, row sql.Row) ([]byte, error) {
	b = append(b, rowfmt.Version)
	last := uint32(0)
	for _, p := range t.StoredOrder {
		c := t.Cols[p]
		v := row[p]
		b, last = rowfmt.AppendHead(b, last, c.Desc.ID, v == nil), c.Desc.ID
		if v == nil {
			continue
		}
		var err error
		if b, err = c.AppendPayload(ctx, b, v); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// DecodeRow decodes a row value into out, which has a place for every column
// of the schema. Virtual columns stay nil.
func (t *Table) DecodeRow(ctx context.Context, b []byte, out sql.Row) error {
	return t.DecodeCols(ctx, b, out, nil)
}

// DecodeCols is DecodeRow for the columns whose positions are set in want; others
// may be left nil. A nil want is all of them.
func (t *Table) DecodeCols(ctx context.Context, b []byte, out sql.Row, want []bool) error {
	if len(b) == 0 || b[0] != rowfmt.Version {
		return base.Errorf(base.CodeCorrupt, "row of table %s has an unknown format", t.Desc.Name)
	}
	b = b[1:]
	id := uint32(0)
	next := 0 // position in StoredOrder
	var err error
	for len(b) > 0 {
		var null, ok bool
		if id, null, b, ok = rowfmt.TakeHead(b, id); !ok {
			return t.corrupt()
		}
		if next, err = t.missingBefore(ctx, next, id, out); err != nil {
			return err
		}
		var c *Column
		pos := -1
		if next < len(t.StoredOrder) && t.Cols[t.StoredOrder[next]].Desc.ID == id {
			pos = t.StoredOrder[next]
			c = t.Cols[pos]
			next++
		}
		switch {
		case null && c != nil:
			out[pos] = nil
		case null:
		case c == nil:
			b, err = t.skipDropped(b, id)
		case want != nil && !want[pos]:
			b, err = t.skip(b, c.Kind)
		default:
			out[pos], b, err = c.TakePayload(ctx, b)
		}
		if err != nil {
			return err
		}
	}
	_, err = t.missingBefore(ctx, next, math.MaxUint32, out)
	return err
}

// missingBefore sets the columns from a position of StoredOrder on that come before the column id:
// the row does not have them. It returns the position of the next one.
func (t *Table) missingBefore(ctx context.Context, next int, id uint32, out sql.Row) (int, error) {
	for ; next < len(t.StoredOrder) && t.Cols[t.StoredOrder[next]].Desc.ID < id; next++ {
		if err := t.missing(ctx, t.StoredOrder[next], out); err != nil {
			return next, err
		}
	}
	return next, nil
}

func (t *Table) missing(ctx context.Context, pos int, out sql.Row) (err error) {
	out[pos] = nil
	if m := t.Cols[pos].Desc.Missing; m != nil {
		out[pos], _, err = t.Cols[pos].TakePayload(ctx, m)
	}
	return err
}

func (t *Table) corrupt() error {
	return base.Errorf(base.CodeCorrupt, "row of table %s cannot be decoded", t.Desc.Name)
}

const (
	// newColumns is how many columns a definition may have more than the one that a node knows. A
	// column further on is no column.
	newColumns = 64
	// newFor is how long a node may not have heard of a newer definition. After that the row is no
	// row.
	newFor = 30 * time.Second
)

// Foreign is what is wrong with a row that has a column of an id that this definition has not and
// never had. If the id is one that the next columns would get, the row was written under a newer
// definition, which this node has yet to hear of.
func (t *Table) Foreign(id uint32) error {
	now := time.Now()
	t.foreign.CompareAndSwap(0, now.UnixNano())
	if id > t.Desc.NextCol && id-t.Desc.NextCol <= newColumns && now.Sub(time.Unix(0, t.foreign.Load())) < newFor {
		return base.Errorf(base.CodeSchemaChanged, "a row of table %s has a column of a newer definition of it", t.Desc.Name)
	}
	return t.corrupt()
}

// skipDropped passes over the payload of a column that the schema no longer has.
func (t *Table) skipDropped(b []byte, id uint32) ([]byte, error) {
	k, ok := t.Desc.Dropped[id]
	if !ok {
		return nil, t.Foreign(id)
	}
	return t.skip(b, k)
}

// skip passes over a payload.
func (t *Table) skip(b []byte, k Kind) ([]byte, error) {
	n, ok := k.Class().Len(b)
	if !ok {
		return nil, t.corrupt()
	}
	return b[n:], nil
}

func badValue(c *Column, v any) error {
	return fmt.Errorf("a value of Go type %T cannot be stored in column %s of type %s", v, c.Desc.Name, c.Type)
}

// AppendPayload appends the stored form of a value that is not NULL.
func (c *Column) AppendPayload(ctx context.Context, b []byte, v any) ([]byte, error) {
	switch c.Kind {
	case KindInt, KindDatetime, KindTimespan:
		if n, ok := c.signed(v); ok {
			return binary.AppendVarint(b, n), nil
		}
		return nil, badValue(c, v)
	case KindUint:
		if n, ok := ToUint64(v); ok {
			return binary.AppendUvarint(b, n), nil
		}
		return nil, badValue(c, v)
	case KindFloat:
		if f, ok := toFloat(v); ok {
			return binary.BigEndian.AppendUint64(b, math.Float64bits(f)), nil
		}
		return nil, badValue(c, v)
	case KindDecimal:
		if d, ok := v.(decimal.Decimal); ok {
			return rowfmt.AppendDecimal(b, d.Coefficient(), d.Exponent()), nil
		}
		return nil, badValue(c, v)
	}
	raw, err := c.bytesOf(ctx, v)
	if err != nil {
		return nil, err
	}
	return appendBlob(b, raw), nil
}

// bytesOf is the stored form of strings, bytes, JSON, geometries and vectors.
func (c *Column) bytesOf(ctx context.Context, v any) ([]byte, error) {
	if c.Kind == KindJSON {
		j, ok := v.(sql.JSONWrapper)
		if !ok {
			return nil, badValue(c, v)
		}
		return appendJSON(ctx, nil, j)
	}
	v, err := sql.UnwrapAny(ctx, v)
	if err != nil {
		return nil, err
	}
	switch x := v.(type) {
	case string:
		return []byte(x), nil
	case []byte:
		return x, nil
	case types.GeometryValue:
		return x.Serialize(), nil
	case []float32:
		b := make([]byte, 0, 4*len(x))
		for _, f := range x {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
		}
		return b, nil
	}
	return nil, badValue(c, v)
}

// TakePayload decodes what AppendPayload made, and returns what follows it.
func (c *Column) TakePayload(ctx context.Context, b []byte) (any, []byte, error) {
	switch c.Kind {
	case KindInt, KindDatetime, KindTimespan:
		n, k := binary.Varint(b)
		if k <= 0 {
			return nil, nil, base.ErrKeyCorrupt
		}
		return c.fromSigned(n), b[k:], nil
	case KindUint:
		n, k := binary.Uvarint(b)
		if k <= 0 {
			return nil, nil, base.ErrKeyCorrupt
		}
		return uintOf(n, c.bits), b[k:], nil
	case KindFloat:
		if len(b) < 8 {
			return nil, nil, base.ErrKeyCorrupt
		}
		f := math.Float64frombits(binary.BigEndian.Uint64(b))
		if c.bits == 32 {
			return float32(f), b[8:], nil
		}
		return f, b[8:], nil
	}
	raw, rest, err := takeBlob(b)
	if err != nil {
		return nil, nil, err
	}
	v, err := c.FromStored(ctx, raw)
	return v, rest, err
}

// signed is the stored form of integers and times.
func (c *Column) signed(v any) (int64, bool) {
	switch c.Kind {
	case KindDatetime:
		t, ok := v.(time.Time)
		return t.UnixMicro(), ok
	case KindTimespan:
		t, ok := v.(types.Timespan)
		return int64(t), ok
	}
	return ToInt64(v)
}

// fromSigned is the value whose stored form is n.
func (c *Column) fromSigned(n int64) any {
	switch c.Kind {
	case KindDatetime:
		return time.UnixMicro(n).UTC()
	case KindTimespan:
		return types.Timespan(n)
	}
	return intOf(n, c.bits)
}

// toFloat is the stored form of floats.
func toFloat(v any) (float64, bool) {
	switch f := v.(type) {
	case float64:
		return f, true
	case float32:
		return float64(f), true
	}
	return 0, false
}

// FromStored is the value whose stored form is raw, which is used again by others.
func (c *Column) FromStored(ctx context.Context, raw []byte) (any, error) {
	switch c.Kind {
	case KindDecimal:
		co, exp, ok := rowfmt.Decimal(raw)
		if !ok {
			return nil, base.ErrKeyCorrupt
		}
		return decimal.NewFromBigInt(co, int32(exp)), nil
	case KindString:
		return string(raw), nil
	case KindJSON:
		return decodeJSON(ctx, raw)
	case kindGeometry:
		v, _, err := c.Type.Convert(ctx, append([]byte(nil), raw...))
		return v, err
	}
	return append([]byte{}, raw...), nil
}

func appendBlob(b, v []byte) []byte { return rowfmt.AppendBlob(b, v) }

func takeBlob(b []byte) (v, rest []byte, err error) {
	v, rest, ok := rowfmt.TakeBlob(b)
	if !ok {
		return nil, nil, base.ErrKeyCorrupt
	}
	return v, rest, nil
}

// ToInt64 is the value of any Go integer that fits; ok is false for others.
func ToInt64(v any) (int64, bool) {
	switch n := v.(type) {
	case int8:
		return int64(n), true
	case int16:
		return int64(n), true
	case int32:
		return int64(n), true
	case int64:
		return n, true
	case int:
		return int64(n), true
	case uint8:
		return int64(n), true
	case uint16:
		return int64(n), true
	case uint32:
		return int64(n), true
	}
	return 0, false
}

// ToUint64 is the value of any Go integer that is not negative; ok is false for others.
func ToUint64(v any) (uint64, bool) {
	switch n := v.(type) {
	case uint8:
		return uint64(n), true
	case uint16:
		return uint64(n), true
	case uint32:
		return uint64(n), true
	case uint64:
		return n, true
	case uint:
		return uint64(n), true
	}
	if n, ok := ToInt64(v); ok && n >= 0 {
		return uint64(n), true
	}
	return 0, false
}

func intOf(n int64, bits int) any {
	switch bits {
	case 8:
		return int8(n)
	case 16:
		return int16(n)
	case 32:
		return int32(n)
	}
	return n
}

func uintOf(n uint64, bits int) any {
	switch bits {
	case 8:
		return uint8(n)
	case 16:
		return uint16(n)
	case 32:
		return uint32(n)
	}
	return n
}
