package bound

import (
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/shopspring/decimal"
)

// What values take besides their bytes.
const (
	rowBytes    = 32 // a slice's header, where it is kept
	valueBytes  = 16 // an interface
	boxBytes    = 24 // what it points to
	entryBytes  = 64 // an entry of a hash table
	bufferBytes = 160
)

// sizeOf is about what a row takes. Rows that are joined share the values of what they are made of,
// which counts for each.
func sizeOf(row sql.Row) int64 {
	n := int64(rowBytes + valueBytes*len(row))
	for _, v := range row {
		n += sizeOfValue(v)
	}
	return n
}

func sizeOfValue(v any) int64 {
	switch v := v.(type) {
	case nil, bool, int8, uint8:
		return 0
	case int16, int32, int64, int, uint16, uint32, uint64, uint, float32, float64:
		return 8
	case string:
		return valueBytes + int64(len(v))
	case []byte:
		return boxBytes + int64(len(v))
	case time.Time:
		return boxBytes
	case decimal.Decimal:
		return 4 * boxBytes
	case types.JSONDocument:
		return sizeOfValue(v.Val)
	case sql.Row:
		return sizeOf(v)
	case []any:
		n := int64(boxBytes)
		for _, e := range v {
			n += valueBytes + sizeOfValue(e)
		}
		return n
	case map[string]any:
		n := int64(2 * boxBytes)
		for k, e := range v {
			n += entryBytes + int64(len(k)) + sizeOfValue(e)
		}
		return n
	}
	return entryBytes
}
