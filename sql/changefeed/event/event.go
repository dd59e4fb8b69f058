// Package event words changes of rows as JSON, in the form of CockroachDB's change feeds. It knows
// no sink and no job.
//
// Values: integers, YEAR and BIT are numbers; DECIMAL is a string, since readers of JSON make
// numbers of 64 bits of what they read; FLOAT and DOUBLE are numbers with as many digits as tell
// them apart; texts, ENUM and SET are strings; BINARY, BLOB and VECTOR are strings of their bytes
// in base64; DATE is "2006-01-02", DATETIME "2006-01-02T15:04:05", with the digits of its type,
// TIMESTAMP the same with a Z, since it is UTC; TIME is "15:04:05" with a sign and the digits of
// its type; JSON is the document itself; a geometry is {"srid":0,"wkb":"base64"}. Columns that are
// computed when they are read are left out.
package event

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/schema"
)

// Envelope is what a message says.
type Envelope string

// Envelopes.
const (
	Wrapped Envelope = "wrapped" // {"after": row, ...}
	Row     Envelope = "row"     // the row alone; nothing for one that is gone
	KeyOnly Envelope = "key_only"
)

// Format is how messages are worded.
type Format struct {
	Envelope Envelope `json:"envelope"`
	Updated  bool     `json:"updated,omitempty"` // with the timestamp of the transaction
	Diff     bool     `json:"diff,omitempty"`    // with the row before
	Key      bool     `json:"key,omitempty"`     // with the key in the value
	Topic    bool     `json:"topic,omitempty"`   // with the topic in the value
	// Encoding is how messages are encoded; empty: in JSON.
	Encoding Encoding `json:"encoding,omitempty"`
}

// Encoding is how messages are encoded.
type Encoding string

// Encodings other than JSON.
const (
	Avro Encoding = "avro" // package avro does it
	CSV  Encoding = "csv"
)

// Change is a row that has changed. Before is nil if there was none, After if there is none.
type Change struct {
	Table         *schema.Table
	Key           base.Key
	Before, After sql.Row
	TS            base.Timestamp
	Topic         string
}

// Timestamp is a timestamp as messages have it: nanoseconds since 1970 and, as CockroachDB has it,
// ten digits of a logical part, which is 0 here.
func Timestamp(ts base.Timestamp) string { return fmt.Sprintf("%d.0000000000", uint64(ts)) }

// Resolved is a mark: all changes up to a timestamp have been sent.
func Resolved(ts base.Timestamp) []byte { return fmt.Appendf(nil, `{"resolved":"%s"}`, Timestamp(ts)) }

// Encode words a change. The key is a JSON array of the primary key; of tables without one the
// number of the row. A nil value says that nothing is left of the row.
func (f *Format) Encode(ctx context.Context, c *Change) (key, value []byte, err error) {
	if key, err = appendKey(ctx, nil, c); err != nil {
		return nil, nil, err
	}
	if f.Envelope == Row && !f.Key && !f.Topic {
		if c.After == nil {
			return key, nil, nil
		}
		value, err = appendRow(ctx, nil, c.Table, c.After)
		return key, value, err
	}
	b := []byte{'{'}
	name := func(n string) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), n...), '"', ':')
	}
	if f.Envelope != KeyOnly {
		name("after")
		if b, err = appendRow(ctx, b, c.Table, c.After); err != nil {
			return nil, nil, err
		}
		if f.Diff {
			name("before")
			if b, err = appendRow(ctx, b, c.Table, c.Before); err != nil {
				return nil, nil, err
			}
		}
	}
	if f.Key {
		name("key")
		b = append(b, key...)
	}
	if f.Topic {
		name("topic")
		b = appendString(b, c.Topic)
	}
	if f.Updated {
		name("updated")
		b = appendString(b, Timestamp(c.TS))
	}
	return key, append(b, '}'), nil
}

func appendKey(ctx context.Context, b []byte, c *Change) ([]byte, error) {
	b = append(b, '[')
	if len(c.Table.PK) == 0 {
		if len(c.Key) < base.IndexPrefixLen {
			return nil, base.ErrKeyCorrupt
		}
		id, _, err := base.TakeUint64(c.Key[base.IndexPrefixLen:])
		if err != nil {
			return nil, err
		}
		return append(strconv.AppendUint(b, id, 10), ']'), nil
	}
	row := c.After
	if row == nil {
		row = c.Before
	}
	for i, p := range c.Table.PK {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = AppendValue(ctx, b, c.Table.Cols[p], row[p]); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func appendRow(ctx context.Context, b []byte, t *schema.Table, row sql.Row) ([]byte, error) {
	if row == nil {
		return append(b, "null"...), nil
	}
	b = append(b, '{')
	for i, p := range Stored(t) {
		c := t.Cols[p]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, c.Desc.Name), ':')
		var err error
		if b, err = AppendValue(ctx, b, c, row[p]); err != nil {
			return nil, fmt.Errorf("column %s of table %s: %w", c.Desc.Name, t.Desc.Name, err)
		}
	}
	return append(b, '}'), nil
}

// Stored are the positions of the columns that are stored, in the order of the table.
func Stored(t *schema.Table) []int {
	if !t.Virtual {
		out := make([]int, len(t.Cols))
		for i := range out {
			out[i] = i
		}
		return out
	}
	return slices.Sorted(slices.Values(t.StoredOrder))
}

// AppendValue words a value of a column.
func AppendValue(ctx context.Context, b []byte, c *schema.Column, v any) ([]byte, error) {
	if v == nil {
		return append(b, "null"...), nil
	}
	switch c.Type.Type() {
	case sqltypes.Enum:
		n, ok := v.(uint16)
		s, found := c.Type.(sql.EnumType).At(int(n))
		if !ok || !found && n != 0 {
			return nil, bad(v)
		}
		return appendString(b, s), nil
	case sqltypes.Set:
		n, ok := v.(uint64)
		if !ok {
			return nil, bad(v)
		}
		s, err := c.Type.(sql.SetType).BitsToString(n)
		if err != nil {
			return nil, err
		}
		return appendString(b, s), nil
	}
	switch x := v.(type) {
	case int8, int16, int32, int64:
		n, _ := schema.ToInt64(x)
		return strconv.AppendInt(b, n, 10), nil
	case uint8:
		return strconv.AppendUint(b, uint64(x), 10), nil
	case uint16:
		return strconv.AppendUint(b, uint64(x), 10), nil
	case uint32:
		return strconv.AppendUint(b, uint64(x), 10), nil
	case uint64:
		return strconv.AppendUint(b, x, 10), nil
	case float32:
		return strconv.AppendFloat(b, float64(x), 'g', -1, 32), nil
	case float64:
		return strconv.AppendFloat(b, x, 'g', -1, 64), nil
	case decimal.Decimal:
		scale := int32(0)
		if d, ok := c.Type.(sql.DecimalType); ok {
			scale = int32(d.Scale())
		}
		return append(append(append(b, '"'), x.StringFixed(scale)...), '"'), nil
	case time.Time:
		return appendTime(b, c, x), nil
	case types.Timespan:
		return append(appendSpan(append(b, '"'), x, c.Digits), '"'), nil
	case string:
		return appendString(b, x), nil
	case []byte:
		return appendBytes(b, x), nil
	case sql.JSONWrapper:
		doc, err := x.ToInterface(ctx)
		if err != nil {
			return nil, err
		}
		return appendJSON(b, doc)
	case types.GeometryValue:
		raw := x.Serialize() // the number of the system, then WKB
		if len(raw) < 4 {
			return nil, bad(v)
		}
		b = fmt.Appendf(b, `{"srid":%d,"wkb":`, x.GetSRID())
		return append(appendBytes(b, raw[4:]), '}'), nil
	}
	return nil, bad(v)
}

func bad(v any) error { return fmt.Errorf("a value of the Go type %T cannot be worded", v) }

func appendBytes(b, raw []byte) []byte {
	return append(base64.StdEncoding.AppendEncode(append(b, '"'), raw), '"')
}

// appendJSON appends a document. Numbers keep their digits.
func appendJSON(b []byte, v any) ([]byte, error) {
	switch x := v.(type) {
	case string:
		return appendString(b, x), nil
	case decimal.Decimal:
		return append(b, x.String()...), nil
	case []any:
		b = append(b, '[')
		for i, e := range x {
			if i > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = appendJSON(b, e); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case map[string]any:
		return appendObject(b, x)
	}
	raw, err := types.MarshallJsonValue(v)
	if err == nil && !json.Valid(raw) {
		err = bad(v)
	}
	return append(b, raw...), err
}

// appendSpan appends a TIME.
func appendSpan(b []byte, t types.Timespan, digits int) []byte {
	us := int64(t)
	if us < 0 {
		b, us = append(b, '-'), -us
	}
	s := us / 1e6
	b = fmt.Appendf(b, "%02d:%02d:%02d", s/3600, s/60%60, s%60)
	return appendFraction(b, us%1e6, digits)
}

// appendFraction appends microseconds with so many digits.
func appendFraction(b []byte, us int64, digits int) []byte {
	if digits <= 0 {
		return b
	}
	return append(append(b, '.'), fmt.Sprintf("%06d", us)[:min(digits, 6)]...)
}

func appendTime(b []byte, c *schema.Column, t time.Time) []byte {
	b = append(b, '"')
	kind := c.Type.Type()
	if t.Equal(types.ZeroTime) {
		b = append(b, types.ZeroDateStr...)
	} else {
		b = fmt.Appendf(b, "%04d-%02d-%02d", t.Year(), int(t.Month()), t.Day())
	}
	if kind != sqltypes.Date {
		digits := 0
		if d, ok := c.Type.(sql.DatetimeType); ok {
			digits = d.Precision()
		}
		b = fmt.Appendf(b, "T%02d:%02d:%02d", t.Hour(), t.Minute(), t.Second())
		b = appendFraction(b, int64(t.Nanosecond()/1000), digits)
	}
	if kind == sqltypes.Timestamp {
		b = append(b, 'Z')
	}
	return append(b, '"')
}

const hex = "0123456789abcdef"

// appendString appends a text. Bytes that are no UTF-8 become U+FFFD.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(append(b, s[from:i]...), `\ufffd`...)
				from = i + 1
			}
			i += n
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[from:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\t':
			b = append(b, '\\', 't')
		case '\r':
			b = append(b, '\\', 'r')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		from = i
	}
	return append(append(b, s[from:]...), '"')
}

// appendObject appends an object, with its members in the order of their names.
func appendObject(b []byte, m map[string]any) ([]byte, error) {
	b = append(b, '{')
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, k), ':')
		var err error
		if b, err = appendJSON(b, m[k]); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}
