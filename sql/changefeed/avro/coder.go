package avro

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/changefeed/event"
	"github.com/godwitdb/godwit/sql/schema"
)

// Coder words changes of a table as it is defined at one time.
type Coder struct {
	// Key and Value are the schemas, as JSON.
	Key, Value string

	t   *schema.Table
	f   event.Format
	pk  []field
	row []field
}

// field is a column, and how its values are written.
type field struct {
	pos  int // in rows; -1: the hidden number of a row
	col  *schema.Column
	kind kind
	// scale is that of a decimal.
	scale int32
	// or: values that do not fit are strings.
	or bool
}

type kind int

const (
	asLong kind = iota
	asUnsigned
	asDecimal
	asFloat
	asDouble
	asString
	asBytes
	asDate
	asMicros
)

// schemas.
type (
	record struct {
		Type   string  `json:"type"`
		Name   string  `json:"name"`
		Fields []entry `json:"fields"`
	}
	entry struct {
		Name    string          `json:"name"`
		Type    any             `json:"type"`
		Default json.RawMessage `json:"default,omitempty"`
	}
	logical struct {
		Type      string `json:"type"`
		Logical   string `json:"logicalType"`
		Precision int    `json:"precision,omitempty"`
		Scale     int32  `json:"scale,omitempty"`
	}
)

var null = json.RawMessage("null")

// NewCoder is the coder of a table.
func NewCoder(t *schema.Table, f event.Format) (*Coder, error) {
	c := &Coder{t: t, f: f}
	name := Name(t.Desc.Name)
	key := record{Type: "record", Name: name + "_key", Fields: []entry{}}
	row := record{Type: "record", Name: name, Fields: []entry{}}
	if len(t.PK) == 0 {
		key.Fields = append(key.Fields, entry{Name: "row_number", Type: "long"})
		c.pk = []field{{pos: -1, kind: asLong}}
	}
	for _, p := range t.PK {
		x, typ := fieldOf(t.Cols[p], p)
		c.pk = append(c.pk, x)
		key.Fields = append(key.Fields, entry{Name: Name(t.Cols[p].Desc.Name), Type: typ, Default: null})
	}
	for _, p := range event.Stored(t) {
		x, typ := fieldOf(t.Cols[p], p)
		c.row = append(c.row, x)
		row.Fields = append(row.Fields, entry{Name: Name(t.Cols[p].Desc.Name), Type: typ, Default: null})
	}
	value := record{Type: "record", Name: "envelope"}
	rowType := any(row)
	add := func(name string, typ any) {
		value.Fields = append(value.Fields, entry{Name: name, Type: []any{"null", typ}, Default: null})
	}
	if f.Envelope != event.KeyOnly {
		add("after", rowType)
		if rowType = name; f.Diff {
			add("before", rowType)
		}
	}
	if f.Key {
		add("key", key)
	}
	if f.Topic {
		add("topic", "string")
	}
	if f.Updated {
		add("updated", "string")
	}
	add("resolved", "string")
	var err error
	if c.Key, err = text(key); err == nil {
		c.Value, err = text(value)
	}
	return c, err
}

func text(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}

// fieldOf is how a column is written, and its type in the schema.
func fieldOf(c *schema.Column, pos int) (field, []any) {
	x := field{pos: pos, col: c}
	var typ any
	switch t := c.Type.Type(); {
	case t == sqltypes.Uint64 || t == sqltypes.Bit && bits(c) > 63:
		x.kind, typ = asUnsigned, logical{"bytes", "decimal", 20, 0}
	case sqltypes.IsIntegral(t) || t == sqltypes.Bit || t == sqltypes.Year:
		x.kind, typ = asLong, "long"
	case t == sqltypes.Decimal:
		d := c.Type.(sql.DecimalType)
		x.kind, x.scale = asDecimal, int32(d.Scale())
		typ = logical{"bytes", "decimal", int(d.Precision()), x.scale}
	case t == sqltypes.Float32:
		x.kind, typ = asFloat, "float"
	case t == sqltypes.Float64:
		x.kind, typ = asDouble, "double"
	case t == sqltypes.Date:
		x.kind, typ, x.or = asDate, logical{Type: "int", Logical: "date"}, true
	case t == sqltypes.Datetime:
		x.kind, typ, x.or = asMicros, logical{Type: "long", Logical: "local-timestamp-micros"}, true
	case t == sqltypes.Timestamp:
		x.kind, typ, x.or = asMicros, logical{Type: "long", Logical: "timestamp-micros"}, true
	case sqltypes.IsBinary(t), t == sqltypes.Vector:
		x.kind, typ = asBytes, "bytes"
	default:
		x.kind, typ = asString, "string"
	}
	if x.or {
		return x, []any{"null", typ, "string"}
	}
	return x, []any{"null", typ}
}

// bits is how many a BIT has.
func bits(c *schema.Column) int {
	if b, ok := c.Type.(types.BitType); ok {
		return int(b.NumberOfBits())
	}
	return 64
}

// Name is a name as Avro takes it.
func Name(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == '_', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9' && i > 0:
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "_u%04x_", r)
		}
	}
	return b.String()
}

// Encode words a change, without what says which schemas it has. A nil value says that nothing is
// left of the row.
func (c *Coder) Encode(ctx context.Context, x *event.Change) (key, value []byte, err error) {
	row := x.After
	if row == nil {
		row = x.Before
	}
	if key, err = c.fields(ctx, nil, c.pk, x, row); err != nil {
		return nil, nil, err
	}
	if c.f.Envelope != event.KeyOnly {
		if value, err = c.optional(ctx, value, x, x.After); err != nil {
			return nil, nil, err
		}
		if c.f.Diff {
			if value, err = c.optional(ctx, value, x, x.Before); err != nil {
				return nil, nil, err
			}
		}
	}
	if c.f.Key {
		value = append(long(value, 1), key...)
	}
	if c.f.Topic {
		value = str(long(value, 1), x.Topic)
	}
	if c.f.Updated {
		value = str(long(value, 1), event.Timestamp(x.TS))
	}
	return key, long(value, 0), nil
}

// Resolved is a mark.
func (c *Coder) Resolved(ts base.Timestamp) (b []byte) {
	n := 0
	for _, has := range []bool{c.f.Envelope != event.KeyOnly, c.f.Envelope != event.KeyOnly && c.f.Diff, c.f.Key, c.f.Topic, c.f.Updated} {
		if has {
			n++
		}
	}
	for range n {
		b = long(b, 0)
	}
	return str(long(b, 1), event.Timestamp(ts))
}

// MarkSchema is that of a mark for readers of whose tables nothing is known yet.
const MarkSchema = `{"type":"record","name":"envelope","fields":[{"name":"resolved","type":["null","string"],"default":null}]}`

// Mark is a mark of MarkSchema.
func Mark(ts base.Timestamp) []byte { return str(long(nil, 1), event.Timestamp(ts)) }

// optional appends a row, or null.
func (c *Coder) optional(ctx context.Context, b []byte, x *event.Change, row sql.Row) ([]byte, error) {
	if row == nil {
		return long(b, 0), nil
	}
	return c.fields(ctx, long(b, 1), c.row, x, row)
}

func (c *Coder) fields(ctx context.Context, b []byte, of []field, x *event.Change, row sql.Row) ([]byte, error) {
	for i := range of {
		f := &of[i]
		if f.pos < 0 {
			if len(x.Key) < base.IndexPrefixLen {
				return nil, base.ErrKeyCorrupt
			}
			id, _, err := base.TakeUint64(x.Key[base.IndexPrefixLen:])
			if err != nil {
				return nil, err
			}
			b = long(b, int64(id))
			continue
		}
		v := row[f.pos]
		if v == nil {
			b = long(b, 0)
			continue
		}
		var err error
		if b, err = f.append(ctx, b, v); err != nil {
			return nil, fmt.Errorf("column %s of table %s: %w", f.col.Desc.Name, c.t.Desc.Name, err)
		}
	}
	return b, nil
}

// append appends a value that is not NULL, with its place in the union.
func (f *field) append(ctx context.Context, b []byte, v any) ([]byte, error) {
	if t, ok := v.(time.Time); ok && f.or {
		if t.Equal(types.ZeroTime) || t.Year() < 1 {
			return f.worded(ctx, long(b, 2), v)
		}
		if f.kind == asDate {
			return long(long(b, 1), t.Unix()/86400-map[bool]int64{true: 1}[t.Unix()%86400 < 0]), nil
		}
		return long(long(b, 1), t.UnixMicro()), nil
	}
	b = long(b, 1)
	switch f.kind {
	case asLong:
		if u, ok := v.(uint64); ok && u <= math.MaxInt64 { // BIT
			return long(b, int64(u)), nil
		}
		n, ok := schema.ToInt64(v)
		if !ok {
			return nil, bad(v)
		}
		return long(b, n), nil
	case asUnsigned:
		n, ok := v.(uint64)
		if !ok {
			return nil, bad(v)
		}
		return raw(b, twos(new(big.Int).SetUint64(n))), nil
	case asDecimal:
		d, ok := v.(decimal.Decimal)
		if !ok {
			return nil, bad(v)
		}
		return raw(b, twos(d.Shift(f.scale).Round(0).BigInt())), nil
	case asFloat:
		x, ok := v.(float32)
		if !ok {
			return nil, bad(v)
		}
		return binary.LittleEndian.AppendUint32(b, math.Float32bits(x)), nil
	case asDouble:
		x, ok := v.(float64)
		if !ok {
			return nil, bad(v)
		}
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(x)), nil
	case asBytes:
		switch x := v.(type) {
		case []byte:
			return raw(b, x), nil
		case string:
			return str(b, x), nil
		}
		return nil, bad(v)
	}
	return f.worded(ctx, b, v)
}

// worded appends a string: the one that the JSON format has, or the JSON itself.
func (f *field) worded(ctx context.Context, b []byte, v any) ([]byte, error) {
	j, err := event.AppendValue(ctx, nil, f.col, v)
	if err != nil {
		return nil, err
	}
	if len(j) == 0 || j[0] != '"' || f.col.Type.Type() == sqltypes.TypeJSON {
		return raw(b, j), nil
	}
	var s string
	if err := json.Unmarshal(j, &s); err != nil {
		return nil, err
	}
	return str(b, s), nil
}

func bad(v any) error { return fmt.Errorf("a value of the Go type %T cannot be worded", v) }

// long appends a number, as Avro has int and long.
func long(b []byte, n int64) []byte { return binary.AppendVarint(b, n) }

func raw(b, x []byte) []byte { return append(long(b, int64(len(x))), x...) }

func str(b []byte, s string) []byte { return append(long(b, int64(len(s))), s...) }

// twos is a number in two's complement, in as few bytes as it takes.
func twos(n *big.Int) []byte {
	if n.Sign() >= 0 {
		b := n.Bytes()
		if len(b) == 0 || b[0]&0x80 != 0 {
			b = append([]byte{0}, b...)
		}
		return b
	}
	size := new(big.Int).Sub(new(big.Int).Neg(n), big.NewInt(1)).BitLen()/8 + 1
	b := make([]byte, size)
	return new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), uint(8*size))).FillBytes(b)
}
