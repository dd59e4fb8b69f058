package schema

import (
	"context"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/base"
)

// JSON values are stored typed, because their text does not tell an unsigned
// number from a signed one or a decimal from a double: a tag, then the value.
const (
	jsonNull byte = iota
	jsonFalse
	jsonTrue
	jsonInt
	jsonUint
	jsonDouble
	jsonDecimal
	jsonString
	jsonArray
	jsonObject
	jsonTime
	jsonText // anything else, as JSON text
)

func appendJSON(ctx context.Context, b []byte, w sql.JSONWrapper) ([]byte, error) {
	v, err := w.ToInterface(ctx)
	if err != nil {
		return nil, err
	}
	return appendJSONValue(ctx, b, v)
}

func appendJSONValue(ctx context.Context, b []byte, v any) ([]byte, error) {
	var err error
	switch x := v.(type) {
	case nil:
		return append(b, jsonNull), nil
	case bool:
		if x {
			return append(b, jsonTrue), nil
		}
		return append(b, jsonFalse), nil
	case string:
		return appendBlob(append(b, jsonString), []byte(x)), nil
	case time.Time:
		return binary.AppendVarint(append(b, jsonTime), x.UnixMicro()), nil
	case []any:
		b = binary.AppendUvarint(append(b, jsonArray), uint64(len(x)))
		for _, e := range x {
			if b, err = appendJSONValue(ctx, b, e); err != nil {
				return nil, err
			}
		}
		return b, nil
	case map[string]any:
		b = binary.AppendUvarint(append(b, jsonObject), uint64(len(x)))
		for _, k := range slices.Sorted(maps.Keys(x)) {
			b = appendBlob(b, []byte(k))
			if b, err = appendJSONValue(ctx, b, x[k]); err != nil {
				return nil, err
			}
		}
		return b, nil
	case sql.JSONWrapper:
		return appendJSON(ctx, b, x)
	}
	if b, ok := appendJSONNumber(b, v); ok {
		return b, nil
	}
	text, err := types.JsonToMySqlBytes(ctx, types.JSONDocument{Val: v})
	if err != nil {
		return nil, err
	}
	return appendBlob(append(b, jsonText), text), nil
}

// appendJSONNumber appends a number of any Go type; ok is false if v is none.
func appendJSONNumber(b []byte, v any) (_ []byte, ok bool) {
	switch x := v.(type) {
	case float64:
		return binary.BigEndian.AppendUint64(append(b, jsonDouble), math.Float64bits(x)), true
	case float32:
		return binary.BigEndian.AppendUint64(append(b, jsonDouble), math.Float64bits(float64(x))), true
	case decimal.Decimal:
		return appendBlob(append(b, jsonDecimal), []byte(x.String())), true
	case uint64:
		return binary.AppendUvarint(append(b, jsonUint), x), true
	case uint8, uint16, uint32, uint:
		n, _ := ToUint64(x)
		return binary.AppendUvarint(append(b, jsonUint), n), true
	}
	n, ok := ToInt64(v)
	return binary.AppendVarint(append(b, jsonInt), n), ok
}

func decodeJSON(ctx context.Context, b []byte) (any, error) {
	v, rest, err := takeJSON(ctx, b, 0)
	if err == nil && len(rest) > 0 {
		err = base.ErrKeyCorrupt
	}
	return types.JSONDocument{Val: v}, err
}

const maxJSONDepth = 1000

func takeJSON(ctx context.Context, b []byte, depth int) (any, []byte, error) {
	if len(b) == 0 || depth > maxJSONDepth {
		return nil, nil, base.ErrKeyCorrupt
	}
	tag := b[0]
	b = b[1:]
	switch tag {
	case jsonNull:
		return nil, b, nil
	case jsonFalse, jsonTrue:
		return tag == jsonTrue, b, nil
	case jsonInt, jsonTime, jsonUint, jsonDouble:
		return takeJSONNumber(tag, b)
	case jsonArray, jsonObject:
		n, k := binary.Uvarint(b)
		if k <= 0 || n > uint64(len(b)) {
			return nil, nil, base.ErrKeyCorrupt
		}
		return takeJSONMany(ctx, b[k:], int(n), tag == jsonObject, depth+1)
	case jsonString, jsonDecimal, jsonText:
		return takeJSONText(ctx, tag, b)
	}
	return nil, nil, base.ErrKeyCorrupt
}

// takeJSONNumber reads a number or a time.
func takeJSONNumber(tag byte, b []byte) (any, []byte, error) {
	switch tag {
	case jsonUint:
		if n, k := binary.Uvarint(b); k > 0 {
			return n, b[k:], nil
		}
	case jsonDouble:
		if len(b) >= 8 {
			return math.Float64frombits(binary.BigEndian.Uint64(b)), b[8:], nil
		}
	case jsonTime:
		if n, k := binary.Varint(b); k > 0 {
			return time.UnixMicro(n).UTC(), b[k:], nil
		}
	case jsonInt:
		if n, k := binary.Varint(b); k > 0 {
			return n, b[k:], nil
		}
	}
	return nil, nil, base.ErrKeyCorrupt
}

// takeJSONText reads what is stored as text.
func takeJSONText(ctx context.Context, tag byte, b []byte) (any, []byte, error) {
	s, rest, err := takeBlob(b)
	if err != nil {
		return nil, nil, err
	}
	switch tag {
	case jsonString:
		return string(s), rest, nil
	case jsonDecimal:
		d, err := decimal.NewFromString(string(s))
		return d, rest, err
	}
	v, _, err := types.JSON.Convert(ctx, string(s))
	if err != nil {
		return nil, nil, err
	}
	in, err := v.(sql.JSONWrapper).ToInterface(ctx)
	return in, rest, err
}

func takeJSONMany(ctx context.Context, b []byte, n int, object bool, depth int) (any, []byte, error) {
	arr := make([]any, 0, n)
	obj := make(map[string]any, n)
	for range n {
		var k []byte
		var err error
		if object {
			if k, b, err = takeBlob(b); err != nil {
				return nil, nil, err
			}
		}
		var v any
		if v, b, err = takeJSON(ctx, b, depth); err != nil {
			return nil, nil, err
		}
		if object {
			obj[string(k)] = v
		} else {
			arr = append(arr, v)
		}
	}
	if object {
		return obj, b, nil
	}
	return arr, b, nil
}
