package binlog

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"slices"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/sql/schema"
)

// Types of columns, as table maps have them.
const (
	colTiny       = 1
	colShort      = 2
	colLong       = 3
	colFloat      = 4
	colDouble     = 5
	colLongLong   = 8
	colInt24      = 9
	colDate       = 10
	colYear       = 13
	colVarchar    = 15
	colBit        = 16
	colTimestamp2 = 17
	colDatetime2  = 18
	colTime2      = 19
	colJSON       = 245
	colDecimal    = 246
	colEnum       = 247
	colSet        = 248
	colBlob       = 252
	colString     = 254
	colGeometry   = 255
)

// column is how the values of a column are written.
type column struct {
	pos      int // in the table
	typ      byte
	meta     []byte
	numeric  bool // has a sign, or could
	unsigned bool
	charset  uint16 // collation of text; 63 of bytes; 0: it is neither
	members  []string
	put      func(b []byte, v any) ([]byte, error)
}

func bad(v any) error { return fmt.Errorf("a value of Go type %T is none of its column", v) }

// integer writes n bytes of an integer.
func integer(n int) func([]byte, any) ([]byte, error) {
	return func(b []byte, v any) ([]byte, error) {
		u, ok := schema.ToUint64(v)
		if !ok {
			i, signed := schema.ToInt64(v)
			if !signed {
				return nil, bad(v)
			}
			u = uint64(i)
		}
		return le.AppendUint64(b, u)[:len(b)+n], nil
	}
}

// columnOf says how a column is written.
func columnOf(c *schema.Column, pos int, maria bool) (*column, error) {
	o := &column{pos: pos}
	whole := func(typ byte, n int, unsigned bool) {
		o.typ, o.numeric, o.unsigned, o.put = typ, true, unsigned, integer(n)
	}
	switch t := c.Type.Type(); t {
	case sqltypes.Int8, sqltypes.Uint8:
		whole(colTiny, 1, t == sqltypes.Uint8)
	case sqltypes.Int16, sqltypes.Uint16:
		whole(colShort, 2, t == sqltypes.Uint16)
	case sqltypes.Int24, sqltypes.Uint24:
		whole(colInt24, 3, t == sqltypes.Uint24)
	case sqltypes.Int32, sqltypes.Uint32:
		whole(colLong, 4, t == sqltypes.Uint32)
	case sqltypes.Int64, sqltypes.Uint64:
		whole(colLongLong, 8, t == sqltypes.Uint64)
	case sqltypes.Float32:
		o.typ, o.meta, o.numeric, o.put = colFloat, []byte{4}, true, putFloat
	case sqltypes.Float64:
		o.typ, o.meta, o.numeric, o.put = colDouble, []byte{8}, true, putDouble
	case sqltypes.Decimal:
		d := c.Type.(sql.DecimalType)
		o.typ, o.meta, o.numeric = colDecimal, []byte{d.Precision(), d.Scale()}, true
		o.put = func(b []byte, v any) ([]byte, error) { return putDecimal(b, v, int(d.Precision()), int(d.Scale())) }
	case sqltypes.Year:
		o.typ, o.put = colYear, putYear
	case sqltypes.Bit:
		n := int(c.Type.(types.BitType).NumberOfBits())
		o.typ, o.meta = colBit, []byte{byte(n % 8), byte(n / 8)}
		o.put = func(b []byte, v any) ([]byte, error) {
			u, ok := schema.ToUint64(v)
			if !ok {
				return nil, bad(v)
			}
			return append(b, binary.BigEndian.AppendUint64(nil, u)[8-(n+7)/8:]...), nil
		}
	default:
		return o, o.other(c, t == sqltypes.TypeJSON && !maria)
	}
	return o, nil
}

// other is columnOf for what is no number.
func (o *column) other(c *schema.Column, json bool) error {
	switch c.Type.Type() {
	case sqltypes.Date:
		o.typ, o.put = colDate, putDate
	case sqltypes.Datetime, sqltypes.Timestamp:
		fsp := c.Type.(sql.DatetimeType).Precision()
		o.typ, o.meta = colDatetime2, []byte{byte(fsp)}
		o.put = func(b []byte, v any) ([]byte, error) { return putDatetime(b, v, fsp) }
		if c.Type.Type() == sqltypes.Timestamp {
			o.typ = colTimestamp2
			o.put = func(b []byte, v any) ([]byte, error) { return putTimestamp(b, v, fsp) }
		}
	case sqltypes.Time:
		o.typ, o.meta = colTime2, []byte{byte(c.Digits)}
		o.put = func(b []byte, v any) ([]byte, error) { return putTime(b, v, c.Digits) }
	case sqltypes.Enum:
		o.members = c.Type.(sql.EnumType).Values()
		n := 1
		if len(o.members) > 255 {
			n = 2
		}
		o.typ, o.meta, o.put = colString, []byte{colEnum, byte(n)}, integer(n)
		o.charset = uint16(c.Desc.Collation)
	case sqltypes.Set:
		o.members = c.Type.(sql.SetType).Values()
		n := (len(o.members) + 7) / 8
		if n > 4 {
			n = 8
		}
		o.typ, o.meta, o.put = colString, []byte{colSet, byte(n)}, integer(n)
		o.charset = uint16(c.Desc.Collation)
	case sqltypes.TypeJSON:
		o.typ, o.meta, o.put = colJSON, []byte{4}, putJSON
		if !json {
			// MariaDB has no such type: it is text there.
			o.typ, o.charset, o.put = colBlob, uint16(sql.Collation_utf8mb4_bin), putJSONText
		}
	case sqltypes.Geometry:
		o.typ, o.meta, o.put = colGeometry, []byte{4}, prefixed(4, rawBytes)
	case sqltypes.Vector:
		o.typ, o.meta, o.charset, o.put = colBlob, []byte{4}, 63, prefixed(4, rawBytes)
	case sqltypes.Char, sqltypes.VarChar, sqltypes.Text, sqltypes.Binary, sqltypes.VarBinary, sqltypes.Blob:
		o.text(c)
	default:
		return fmt.Errorf("columns of type %s cannot be told to replicas", c.Type)
	}
	return nil
}

// text is columnOf for texts and bytes.
func (o *column) text(c *schema.Column) {
	t := c.Type.(sql.StringType)
	raw := rawBytes
	o.charset = 63
	if c.Kind == schema.KindString {
		o.charset = uint16(c.Collation)
		raw = inCharset(c.Collation.CharacterSet())
	}
	length := t.MaxByteLength()
	prefix := 1
	if length > 255 {
		prefix = 2
	}
	switch c.Type.Type() {
	case sqltypes.Char, sqltypes.Binary:
		o.typ = colString
		o.meta = []byte{colString ^ byte(length&0x300>>4), byte(length)}
	case sqltypes.VarChar, sqltypes.VarBinary:
		o.typ, o.meta = colVarchar, le.AppendUint16(nil, uint16(length))
	default:
		prefix = 1
		for n := length; n > 255; n >>= 8 {
			prefix++
		}
		prefix = min(prefix, 4)
		o.typ, o.meta = colBlob, []byte{byte(prefix)}
	}
	o.put = prefixed(prefix, raw)
}

// prefixed writes bytes behind their length.
func prefixed(n int, raw func(any) ([]byte, error)) func([]byte, any) ([]byte, error) {
	return func(b []byte, v any) ([]byte, error) {
		s, err := raw(v)
		if err != nil {
			return nil, err
		}
		if n < 4 && len(s) >= 1<<(8*n) {
			return nil, fmt.Errorf("a value of %d bytes is longer than its column", len(s))
		}
		return append(le.AppendUint32(b, uint32(len(s)))[:len(b)+n], s...), nil
	}
}

func rawBytes(v any) ([]byte, error) {
	switch x := v.(type) {
	case string:
		return []byte(x), nil
	case []byte:
		return x, nil
	case types.GeometryValue:
		return x.Serialize(), nil
	case []float32:
		var b []byte
		for _, f := range x {
			b = le.AppendUint32(b, math.Float32bits(f))
		}
		return b, nil
	}
	return nil, bad(v)
}

// inCharset is rawBytes in a character set: texts are kept in UTF-8.
func inCharset(set sql.CharacterSetID) func(any) ([]byte, error) {
	switch set {
	case sql.CharacterSet_utf8mb4, sql.CharacterSet_utf8mb3, sql.CharacterSet_ascii, sql.CharacterSet_binary:
		return rawBytes
	}
	return func(v any) ([]byte, error) {
		b, err := rawBytes(v)
		if err != nil {
			return nil, err
		}
		out, ok := set.Encoder().Encode(b)
		if !ok {
			return nil, fmt.Errorf("a text cannot be written in character set %s", set.Name())
		}
		return out, nil
	}
}

func putFloat(b []byte, v any) ([]byte, error) {
	f, ok := v.(float32)
	if !ok {
		return nil, bad(v)
	}
	return le.AppendUint32(b, math.Float32bits(f)), nil
}

func putDouble(b []byte, v any) ([]byte, error) {
	f, ok := v.(float64)
	if !ok {
		return nil, bad(v)
	}
	return le.AppendUint64(b, math.Float64bits(f)), nil
}

// digitBytes is how many bytes a group of so many decimal digits takes.
var digitBytes = [10]int{0, 1, 1, 2, 2, 3, 3, 4, 4, 4}

// putDecimal writes groups of nine digits from the point on, big-endian, so that bytes order as
// values do.
func putDecimal(b []byte, v any, precision, scale int) ([]byte, error) {
	d, ok := v.(decimal.Decimal)
	if !ok {
		return nil, bad(v)
	}
	n := d.Shift(int32(scale)).Round(0).BigInt()
	digits := new(big.Int).Abs(n).String()
	if len(digits) > precision {
		return nil, fmt.Errorf("decimal %s has more than %d digits", d, precision)
	}
	for len(digits) < precision {
		digits = "0" + digits
	}
	at := len(b)
	group := func(s string) {
		if len(s) == 0 {
			return
		}
		u := uint32(0)
		for _, c := range []byte(s) {
			u = u*10 + uint32(c-'0')
		}
		b = append(b, binary.BigEndian.AppendUint32(nil, u)[4-digitBytes[len(s)]:]...)
	}
	whole, part := digits[:precision-scale], digits[precision-scale:]
	first := len(whole) % 9
	group(whole[:first])
	for s := range slices.Chunk([]byte(whole[first:]), 9) {
		group(string(s))
	}
	for s := range slices.Chunk([]byte(part), 9) {
		group(string(s))
	}
	b[at] ^= 0x80
	if n.Sign() < 0 {
		for i := at; i < len(b); i++ {
			b[i] = ^b[i]
		}
	}
	return b, nil
}

func putYear(b []byte, v any) ([]byte, error) {
	y, ok := schema.ToInt64(v)
	if !ok {
		return nil, bad(v)
	}
	if y == 0 {
		return append(b, 0), nil
	}
	return append(b, byte(y-1900)), nil
}

// moment is the parts of a time. That of zero dates lies before year 1, and has no parts.
func moment(v any) (t time.Time, zero bool, err error) {
	t, ok := v.(time.Time)
	if !ok {
		return t, false, bad(v)
	}
	return t, t.Year() < 0 || t.Equal(types.ZeroTime), nil
}

func putDate(b []byte, v any) ([]byte, error) {
	t, zero, err := moment(v)
	if err != nil {
		return nil, err
	}
	u := uint32(t.Year()<<9 | int(t.Month())<<5 | t.Day())
	if zero {
		u = 0
	}
	return append(b, byte(u), byte(u>>8), byte(u>>16)), nil
}

// fraction writes microseconds with fsp digits.
func fraction(b []byte, micros, fsp int) []byte {
	switch (fsp + 1) / 2 {
	case 1:
		return append(b, byte(micros/1e4))
	case 2:
		return binary.BigEndian.AppendUint16(b, uint16(micros/1e2))
	case 3:
		return append(b, byte(micros>>16), byte(micros>>8), byte(micros))
	}
	return b
}

// cut drops the digits that a column does not have.
func cut(micros, fsp int) int {
	unit := 1
	for range 6 - fsp {
		unit *= 10
	}
	return micros / unit * unit
}

func putDatetime(b []byte, v any, fsp int) ([]byte, error) {
	t, zero, err := moment(v)
	if err != nil {
		return nil, err
	}
	var packed int64
	micros := 0
	if !zero {
		ymd := (int64(t.Year())*13+int64(t.Month()))<<5 | int64(t.Day())
		packed = ymd<<17 | int64(t.Hour())<<12 | int64(t.Minute())<<6 | int64(t.Second())
		micros = cut(t.Nanosecond()/1000, fsp)
	}
	packed += 0x8000000000
	b = append(b, byte(packed>>32), byte(packed>>24), byte(packed>>16), byte(packed>>8), byte(packed))
	return fraction(b, micros, fsp), nil
}

func putTimestamp(b []byte, v any, fsp int) ([]byte, error) {
	t, zero, err := moment(v)
	if err != nil {
		return nil, err
	}
	if zero {
		return fraction(binary.BigEndian.AppendUint32(b, 0), 0, fsp), nil
	}
	return fraction(binary.BigEndian.AppendUint32(b, uint32(t.Unix())), cut(t.Nanosecond()/1000, fsp), fsp), nil
}

func putTime(b []byte, v any, fsp int) ([]byte, error) {
	d, ok := v.(types.Timespan)
	if !ok {
		return nil, bad(v)
	}
	micros := int64(d)
	sign := int64(1)
	if micros < 0 {
		sign, micros = -1, -micros
	}
	s := micros / 1e6
	frac := int64(cut(int(micros%1e6), fsp))
	hms := s/3600<<12 | s/60%60<<6 | s%60
	switch (fsp + 1) / 2 {
	case 0:
		x := sign*hms + 0x800000
		return append(b, byte(x>>16), byte(x>>8), byte(x)), nil
	case 1:
		x := sign*(hms<<8|frac/1e4) + 0x80000000
		return binary.BigEndian.AppendUint32(b, uint32(x)), nil
	case 2:
		x := sign*(hms<<16|frac/1e2) + 0x8000000000
		return append(b, byte(x>>32), byte(x>>24), byte(x>>16), byte(x>>8), byte(x)), nil
	}
	x := sign*(hms<<24|frac) + 0x800000000000
	return append(b, byte(x>>40), byte(x>>32), byte(x>>24), byte(x>>16), byte(x>>8), byte(x)), nil
}

// putJSONText writes JSON as clients see it.
func putJSONText(b []byte, v any) ([]byte, error) {
	j, ok := v.(sql.JSONWrapper)
	if !ok {
		return nil, bad(v)
	}
	text, err := types.JsonToMySqlString(context.Background(), j)
	if err != nil {
		return nil, err
	}
	return append(le.AppendUint32(b, uint32(len(text))), text...), nil
}
