package sqlfront

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/patch"
)

// Row values: one format byte, then per stored column, in the order of the
// ids, uvarint(id delta << 1 | null) and, unless null, the payload: a
// zig-zag varint for numbers and times, eight bytes for floats, uvarint length and
// bytes for the rest. A column that is not there has its descriptor's Missing
// value, else NULL. History of the format byte:
//
//	1: first
const rowFormat byte = 1

// appendRow encodes the stored columns of a row given in schema order.
func (t *table) appendRow(ctx context.Context, b []byte, row sql.Row) ([]byte, error) {
	b = append(b, rowFormat)
	last := uint32(0)
	for _, p := range t.storedOrder {
		c := t.cols[p]
		head := uint64(c.desc.ID-last) << 1
		last = c.desc.ID
		v := row[p]
		if v == nil {
			b = binary.AppendUvarint(b, head|1)
			continue
		}
		b = binary.AppendUvarint(b, head)
		var err error
		if b, err = c.appendPayload(ctx, b, v); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// decodeRow decodes a row value into out, which has a place for every column
// of the schema. Virtual columns stay nil.
func (t *table) decodeRow(ctx context.Context, b []byte, out sql.Row) error {
	return t.decodeCols(ctx, b, out, nil)
}

// decodeCols is decodeRow for the columns whose positions are set in want; others
// may be left nil. A nil want is all of them.
func (t *table) decodeCols(ctx context.Context, b []byte, out sql.Row, want []bool) error {
	if len(b) == 0 || b[0] != rowFormat {
		return base.Errorf(base.CodeCorrupt, "row of table %s has an unknown format", t.desc.Name)
	}
	b = b[1:]
	id := uint32(0)
	next := 0 // position in storedOrder
	for len(b) > 0 {
		head, n := binary.Uvarint(b)
		if n <= 0 {
			return t.corrupt()
		}
		b = b[n:]
		id += uint32(head >> 1)
		for next < len(t.storedOrder) && t.cols[t.storedOrder[next]].desc.ID < id {
			if err := t.missing(ctx, t.storedOrder[next], out); err != nil {
				return err
			}
			next++
		}
		var c *column
		pos := -1
		if next < len(t.storedOrder) && t.cols[t.storedOrder[next]].desc.ID == id {
			pos = t.storedOrder[next]
			c = t.cols[pos]
			next++
		}
		if head&1 != 0 {
			if pos >= 0 {
				out[pos] = nil
			}
			continue
		}
		var err error
		if c == nil {
			if b, err = t.skipDropped(b, id); err != nil {
				return err
			}
			continue
		}
		if want != nil && !want[pos] {
			if b, err = t.skip(b, c.kind); err != nil {
				return err
			}
			continue
		}
		if out[pos], b, err = c.takePayload(ctx, b); err != nil {
			return err
		}
	}
	for ; next < len(t.storedOrder); next++ {
		if err := t.missing(ctx, t.storedOrder[next], out); err != nil {
			return err
		}
	}
	return nil
}

func (t *table) missing(ctx context.Context, pos int, out sql.Row) (err error) {
	out[pos] = nil
	if m := t.cols[pos].desc.Missing; m != nil {
		out[pos], _, err = t.cols[pos].takePayload(ctx, m)
	}
	return err
}

func (t *table) corrupt() error {
	return base.Errorf(base.CodeCorrupt, "row of table %s cannot be decoded", t.desc.Name)
}

// skipDropped passes over the payload of a column that the schema no longer has.
func (t *table) skipDropped(b []byte, id uint32) ([]byte, error) {
	k, ok := t.desc.Dropped[id]
	if !ok {
		return nil, t.corrupt()
	}
	return t.skip(b, k)
}

// skip passes over a payload.
func (t *table) skip(b []byte, k kind) ([]byte, error) {
	switch k {
	case kindInt, kindUint, kindDatetime, kindTimespan:
		_, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, t.corrupt()
		}
		return b[n:], nil
	case kindFloat:
		if len(b) < 8 {
			return nil, t.corrupt()
		}
		return b[8:], nil
	}
	_, rest, err := takeBlob(b)
	return rest, err
}

func badValue(c *column, v any) error {
	return fmt.Errorf("a value of Go type %T cannot be stored in column %s of type %s", v, c.desc.Name, c.typ)
}

func (c *column) appendPayload(ctx context.Context, b []byte, v any) ([]byte, error) {
	switch c.kind {
	case kindInt:
		n, ok := toInt64(v)
		if !ok {
			return nil, badValue(c, v)
		}
		return binary.AppendVarint(b, n), nil
	case kindUint:
		n, ok := toUint64(v)
		if !ok {
			return nil, badValue(c, v)
		}
		return binary.AppendUvarint(b, n), nil
	case kindFloat:
		switch f := v.(type) {
		case float64:
			return binary.BigEndian.AppendUint64(b, math.Float64bits(f)), nil
		case float32:
			return binary.BigEndian.AppendUint64(b, math.Float64bits(float64(f))), nil
		}
		return nil, badValue(c, v)
	case kindDecimal:
		d, ok := v.(decimal.Decimal)
		if !ok {
			return nil, badValue(c, v)
		}
		return patch.AppendDecimal(b, d.Coefficient(), d.Exponent()), nil
	case kindDatetime:
		tm, ok := v.(time.Time)
		if !ok {
			return nil, badValue(c, v)
		}
		return binary.AppendVarint(b, tm.UnixMicro()), nil
	case kindTimespan:
		ts, ok := v.(types.Timespan)
		if !ok {
			return nil, badValue(c, v)
		}
		return binary.AppendVarint(b, int64(ts)), nil
	}
	raw, err := c.bytesOf(ctx, v)
	if err != nil {
		return nil, err
	}
	return appendBlob(b, raw), nil
}

// bytesOf is the stored form of strings, bytes, JSON, geometries and vectors.
func (c *column) bytesOf(ctx context.Context, v any) ([]byte, error) {
	if c.kind == kindJSON {
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

func (c *column) takePayload(ctx context.Context, b []byte) (any, []byte, error) {
	switch c.kind {
	case kindInt, kindDatetime, kindTimespan:
		n, k := binary.Varint(b)
		if k <= 0 {
			return nil, nil, base.ErrKeyCorrupt
		}
		switch c.kind {
		case kindDatetime:
			return time.UnixMicro(n).UTC(), b[k:], nil
		case kindTimespan:
			return types.Timespan(n), b[k:], nil
		}
		return intOf(n, c.bits), b[k:], nil
	case kindUint:
		n, k := binary.Uvarint(b)
		if k <= 0 {
			return nil, nil, base.ErrKeyCorrupt
		}
		return uintOf(n, c.bits), b[k:], nil
	case kindFloat:
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
	switch c.kind {
	case kindDecimal:
		exp, k := binary.Varint(raw)
		if k <= 0 || len(raw) < k+1 {
			return nil, nil, base.ErrKeyCorrupt
		}
		co := new(big.Int).SetBytes(raw[k+1:])
		if raw[k] != 0 {
			co.Neg(co)
		}
		return decimal.NewFromBigInt(co, int32(exp)), rest, nil
	case kindString:
		return string(raw), rest, nil
	case kindJSON:
		v, err := decodeJSON(ctx, raw)
		return v, rest, err
	case kindGeometry:
		v, _, err := c.typ.Convert(ctx, append([]byte(nil), raw...))
		return v, rest, err
	}
	return append([]byte{}, raw...), rest, nil
}

func appendBlob(b, v []byte) []byte { return append(binary.AppendUvarint(b, uint64(len(v))), v...) }

func takeBlob(b []byte) (v, rest []byte, err error) {
	n, k := binary.Uvarint(b)
	if k <= 0 || uint64(len(b)-k) < n {
		return nil, nil, base.ErrKeyCorrupt
	}
	return b[k : k+int(n)], b[k+int(n):], nil
}

func toInt64(v any) (int64, bool) {
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

func toUint64(v any) (uint64, bool) {
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
	if n, ok := toInt64(v); ok && n >= 0 {
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
