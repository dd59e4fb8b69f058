package describe

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"

	"github.com/godwitdb/godwit/sql/schema"
)

// Limits are how large values of a type may be, as information_schema says; nil: it has none.
type Limits struct {
	// Chars and Bytes are int64, Precision and Digits (of the second) uint32, Scale int64.
	Chars, Bytes, Precision, Scale, Digits any
}

// precisions are those of types of numbers.
var precisions = map[querypb.Type]uint32{
	sqltypes.Int8: 3, sqltypes.Uint8: 3, sqltypes.Int16: 5, sqltypes.Uint16: 5, sqltypes.Int24: 7, sqltypes.Uint24: 7,
	sqltypes.Int32: 10, sqltypes.Uint32: 10, sqltypes.Int64: 19, sqltypes.Uint64: 20, sqltypes.Float32: 12, sqltypes.Float64: 22,
}

// LimitsOf are those of the type of a column.
func LimitsOf(c *schema.Column) (l Limits) {
	switch t := c.Type.(type) {
	case sql.StringType:
		l.Chars, l.Bytes = t.MaxCharacterLength(), t.MaxByteLength()
	case sql.EnumType:
		l.longest(t)
	case types.BitType:
		l.Precision = uint32(t.NumberOfBits())
	case sql.DecimalType:
		l.Precision, l.Scale = uint32(t.Precision()), int64(t.Scale())
	default:
		if n, ok := precisions[c.Type.Type()]; ok {
			l.Precision, l.Scale = n, int64(0)
		}
		switch c.Type.Type() {
		case sqltypes.Float32, sqltypes.Float64:
			l.Scale = nil
		}
	}
	if n := digits(c); n >= 0 {
		l.Digits = uint32(n)
	}
	return l
}

// longest are the lengths of the longest value of an enumeration.
func (l *Limits) longest(t sql.EnumType) {
	n := 0
	for _, v := range t.Values() {
		n = max(n, len([]rune(v)))
	}
	l.Chars, l.Bytes = int64(n), int64(n)*t.CharacterSet().MaxLength()
}
