package binlog

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"slices"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/shopspring/decimal"
)

// MySQL's binary form of JSON. A container is its number of elements, its size, and entries for
// keys and values with the offsets of what is longer than an entry; large ones have numbers of 4
// bytes, small ones of 2.
const (
	jsonSmallObject = 0
	jsonLargeObject = 1
	jsonSmallArray  = 2
	jsonLargeArray  = 3
	jsonLiteral     = 4
	jsonInt16       = 5
	jsonUint16      = 6
	jsonInt64       = 9
	jsonUint64      = 10
	jsonDouble      = 11
	jsonString      = 12
)

// putJSON writes JSON for MySQL.
func putJSON(b []byte, v any) ([]byte, error) {
	j, ok := v.(sql.JSONWrapper)
	if !ok {
		return nil, bad(v)
	}
	doc, err := j.ToInterface(context.Background())
	if err != nil {
		return nil, err
	}
	typ, body, err := jsonValue(doc)
	if err != nil {
		return nil, err
	}
	b = le.AppendUint32(b, uint32(len(body)+1))
	return append(append(b, typ), body...), nil
}

// jsonValue is the type and the bytes of a value.
func jsonValue(v any) (byte, []byte, error) {
	switch x := v.(type) {
	case nil:
		return jsonLiteral, []byte{0}, nil
	case bool:
		if x {
			return jsonLiteral, []byte{1}, nil
		}
		return jsonLiteral, []byte{2}, nil
	case string:
		return jsonString, append(jsonLength(len(x)), x...), nil
	case float64:
		return jsonDouble, le.AppendUint64(nil, math.Float64bits(x)), nil
	case float32:
		return jsonDouble, le.AppendUint64(nil, math.Float64bits(float64(x))), nil
	case int64:
		if x >= math.MinInt16 && x <= math.MaxInt16 {
			return jsonInt16, le.AppendUint16(nil, uint16(x)), nil
		}
		return jsonInt64, le.AppendUint64(nil, uint64(x)), nil
	case int:
		return jsonValue(int64(x))
	case int32:
		return jsonValue(int64(x))
	case uint64:
		if x <= math.MaxUint16 {
			return jsonUint16, le.AppendUint16(nil, uint16(x)), nil
		}
		return jsonUint64, le.AppendUint64(nil, x), nil
	case decimal.Decimal:
		return jsonDecimal(x)
	case []any:
		return jsonContainer(nil, x, jsonSmallArray, jsonLargeArray)
	case map[string]any:
		keys := make([]string, 0, len(x))
		for k := range x {
			keys = append(keys, k)
		}
		slices.SortFunc(keys, func(a, b string) int { // as MySQL orders them: by length first
			if len(a) != len(b) {
				return len(a) - len(b)
			}
			if a < b {
				return -1
			}
			return 1
		})
		values := make([]any, len(keys))
		for i, k := range keys {
			values[i] = x[k]
		}
		return jsonContainer(keys, values, jsonSmallObject, jsonLargeObject)
	}
	return 0, nil, fmt.Errorf("a JSON value of Go type %T cannot be told to replicas", v)
}

// jsonDecimal is an opaque value of type DECIMAL.
func jsonDecimal(d decimal.Decimal) (byte, []byte, error) {
	const opaque = 15
	scale := max(0, int(-d.Exponent()))
	digits := len(new(big.Int).Abs(d.Shift(int32(scale)).BigInt()).String())
	precision := max(digits, scale+1)
	if precision > 65 || scale > 30 {
		f, _ := d.Float64()
		return jsonValue(f)
	}
	body, err := putDecimal([]byte{byte(precision), byte(scale)}, d, precision, scale)
	if err != nil {
		return 0, nil, err
	}
	return opaque, append(append([]byte{colDecimal}, jsonLength(len(body))...), body...), nil
}

// jsonLength is a length in groups of seven bits.
func jsonLength(n int) []byte { return binary.AppendUvarint(nil, uint64(n)) }

// jsonContainer is an object, or an array without keys.
func jsonContainer(keys []string, values []any, small, large byte) (byte, []byte, error) {
	types, bodies := make([]byte, len(values)), make([][]byte, len(values))
	for i, v := range values {
		var err error
		if types[i], bodies[i], err = jsonValue(v); err != nil {
			return 0, nil, err
		}
	}
	for _, k := range keys {
		if len(k) > math.MaxUint16 {
			return 0, nil, fmt.Errorf("a JSON key of %d bytes cannot be told to replicas", len(k))
		}
	}
	if b, ok := jsonPacked(keys, types, bodies, 2); ok {
		return small, b, nil
	}
	b, ok := jsonPacked(keys, types, bodies, 4)
	if !ok {
		return 0, nil, fmt.Errorf("a JSON value is too large")
	}
	return large, b, nil
}

// jsonPacked writes a container with numbers of so many bytes; false: they do not fit.
func jsonPacked(keys []string, types []byte, bodies [][]byte, width int) ([]byte, bool) {
	number := func(b []byte, n int) []byte { return le.AppendUint64(b, uint64(n))[:len(b)+width] }
	at := 2*width + len(keys)*(width+2) + len(bodies)*(width+1)
	b := number(nil, len(bodies))
	var tail []byte
	size := at
	for _, k := range keys {
		size += len(k)
	}
	inline := func(i int) bool {
		return types[i] == jsonLiteral || types[i] == jsonInt16 || types[i] == jsonUint16
	}
	for i := range bodies {
		if !inline(i) {
			size += len(bodies[i])
		}
	}
	if width == 2 && size > math.MaxUint16 || size > math.MaxInt32 {
		return nil, false
	}
	b = number(b, size)
	for _, k := range keys {
		b = le.AppendUint16(number(b, at+len(tail)), uint16(len(k)))
		tail = append(tail, k...)
	}
	for i, v := range bodies {
		b = append(b, types[i])
		if inline(i) {
			b = append(b, append(slices.Clone(v), make([]byte, 4)...)[:width]...)
			continue
		}
		b = number(b, at+len(tail))
		tail = append(tail, v...)
	}
	return append(b, tail...), true
}
