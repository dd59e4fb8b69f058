package schema

import (
	"bytes"
	"context"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/shopspring/decimal"
)

func encodedJSON(t testing.TB, v any) []byte {
	t.Helper()
	b, err := appendJSON(context.Background(), nil, types.JSONDocument{Val: v})
	if err != nil {
		t.Fatalf("%v: %v", v, err)
	}
	return b
}

// TestJSONValues: documents come back with the types of their numbers.
func TestJSONValues(t *testing.T) {
	for _, v := range []any{
		nil, true, false, "", "text", "\x00\xff", int64(0), int64(-1 << 63), uint64(1<<64 - 1), 0.5, -1e300, math.Inf(1),
		[]any{}, map[string]any{}, []any{nil, []any{[]any{int64(1)}}},
		map[string]any{"": "", "a": map[string]any{"b": []any{true, "x", uint64(7)}}},
		time.Date(2024, 2, 29, 12, 30, 0, 123456000, time.UTC),
	} {
		b := encodedJSON(t, v)
		got, err := decodeJSON(context.Background(), b)
		if err != nil {
			t.Errorf("%v: %v", v, err)
			continue
		}
		if back := got.(types.JSONDocument).Val; !reflect.DeepEqual(back, v) {
			t.Errorf("%#v came back as %#v", v, back)
		}
		for n := range b {
			if _, err := decodeJSON(context.Background(), b[:n]); err == nil {
				t.Errorf("%d of %d bytes of %v are a document", n, len(b), v)
			}
		}
		if _, err := decodeJSON(context.Background(), append(b, 0)); err == nil {
			t.Errorf("%v with a byte behind it is a document", v)
		}
	}
}

// TestJSONDecimals keep their digits.
func TestJSONDecimals(t *testing.T) {
	d := decimal.RequireFromString("12345678901234567890.12345678901234567890")
	got, err := decodeJSON(context.Background(), encodedJSON(t, []any{d}))
	if err != nil {
		t.Fatal(err)
	}
	if back := got.(types.JSONDocument).Val.([]any)[0].(decimal.Decimal); !back.Equal(d) {
		t.Errorf("%s came back as %s", d, back)
	}
}

// TestJSONOrder: equal documents have equal bytes, in whatever order they were made.
func TestJSONOrder(t *testing.T) {
	a, b := map[string]any{}, map[string]any{}
	for _, k := range strings.Split("abcdefghij", "") {
		a[k] = k
	}
	for _, k := range strings.Split("jihgfedcba", "") {
		b[k] = k
	}
	if !bytes.Equal(encodedJSON(t, a), encodedJSON(t, b)) {
		t.Error("equal documents have different bytes")
	}
}

// TestJSONWithin: a wrapped document within another one is stored as what it is.
func TestJSONWithin(t *testing.T) {
	inner := types.JSONDocument{Val: []any{int64(1)}}
	got, err := decodeJSON(context.Background(), encodedJSON(t, map[string]any{"x": sql.JSONWrapper(inner)}))
	if err != nil || !reflect.DeepEqual(got.(types.JSONDocument).Val, map[string]any{"x": []any{int64(1)}}) {
		t.Errorf("%v (%v)", got, err)
	}
}

// TestDeepJSON: documents nested deeper than any client can have made are refused, and do not use
// up the stack.
func TestDeepJSON(t *testing.T) {
	deep := bytes.Repeat([]byte{jsonArray, 1}, 1<<16)
	if _, err := decodeJSON(context.Background(), append(deep, jsonNull)); err == nil {
		t.Error("a document of 65536 levels was read")
	}
	some := bytes.Repeat([]byte{jsonArray, 1}, 100)
	if _, err := decodeJSON(context.Background(), append(some, jsonNull)); err != nil {
		t.Errorf("a document of 100 levels: %v", err)
	}
}

// FuzzDecodeJSON: any bytes give a document or an error, and documents can be written again.
func FuzzDecodeJSON(f *testing.F) {
	f.Add(encodedJSON(f, map[string]any{"a": []any{int64(1), 2.5, "x", nil, true}, "b": uint64(9)}))
	f.Add([]byte{jsonArray, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{jsonObject, 1, 1, 'k', jsonText, 2, '[', ']'})
	f.Add([]byte{jsonDecimal, 3, '1', '.', '5'})
	f.Add([]byte{jsonString, 200})
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := decodeJSON(context.Background(), b)
		if err != nil {
			return
		}
		again := encodedJSON(t, v.(types.JSONDocument).Val)
		if _, err := decodeJSON(context.Background(), again); err != nil {
			t.Fatalf("%x was read, and written as %x, which cannot be read: %v", b, again, err)
		}
	})
}
