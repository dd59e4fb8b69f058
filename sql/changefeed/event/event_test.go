package event

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/sql/schema"
)

// TestValues: every kind of value is worded as the package says, and reads back.
func TestValues(t *testing.T) {
	at := time.Date(2026, 11, 26, 7, 43, 15, 123456000, time.UTC)
	cols := []schema.ColumnDesc{}
	var row []any
	var want []string
	for _, c := range []struct {
		typ, want string
		v         any
	}{
		{"bigint", "-9223372036854775808", int64(math.MinInt64)}, {"bigint unsigned", "18446744073709551615", uint64(math.MaxUint64)},
		{"decimal(10,3)", `"1.500"`, decimal.RequireFromString("1.5")}, {"double", "1e+300", 1e300}, {"float", "0.1", float32(0.1)},
		{"date", `"2026-11-26"`, at}, {"datetime(3)", `"2026-11-26T07:43:15.123"`, at}, {"timestamp", `"2026-11-26T07:43:15Z"`, at},
		{"datetime", `"0000-00-00T00:00:00"`, types.ZeroTime},
		{"varchar(20)", `"a\"\\\n\u0001é\ufffd"`, "a\"\\\n\x01é\xff"}, {"varbinary(9)", `"AP8="`, []byte{0, 255}}, {"json", `{"a":[1,null,"x"]}`,
			types.JSONDocument{Val: map[string]any{"a": []any{int64(1), nil, "x"}}}},
		{"bit(3)", "5", uint64(5)}, {"year", "2026", int16(2026)}, {"int", "null", nil},
	} {
		cols = append(cols, schema.ColumnDesc{ID: uint32(len(cols) + 1), Name: "c" + string(rune('a'+len(cols))), Type: c.typ})
		row, want = append(row, c.v), append(want, `"c`+string(rune('a'+len(want)))+`":`+c.want)
	}
	tab, err := schema.NewTable(&schema.TableDesc{ID: 7, DB: "d", Name: "t", Cols: cols, PK: []uint32{1}})
	if err != nil {
		t.Fatal(err)
	}
	f := &Format{Envelope: Wrapped, Diff: true, Key: true, Topic: true, Updated: true}
	key, value, err := f.Encode(t.Context(), &Change{Table: tab, After: row, TS: 12, Topic: "d.t"})
	full := `{"after":{` + strings.Join(want, ",") +
		`},"before":null,"key":[-9223372036854775808],"topic":"d.t","updated":"12.0000000000"}`
	if err != nil || string(value) != full || string(key) != "[-9223372036854775808]" || !json.Valid(value) {
		t.Errorf("%s %s, %v; want\n%s", key, value, err, full)
	}
	f = &Format{Envelope: Row}
	if _, value, err = f.Encode(t.Context(), &Change{Table: tab, Before: row}); value != nil || err != nil {
		t.Errorf("a deleted row: %s, %v", value, err)
	}
}

// FuzzString: any text becomes a JSON string of it.
func FuzzString(f *testing.F) {
	f.Add("a\"\\\n\x00\xff\u2028")
	f.Fuzz(func(t *testing.T, s string) {
		var back string
		if err := json.Unmarshal(appendString(nil, s), &back); err != nil || back != strings.ToValidUTF8(s, "\ufffd") &&
			back != string([]rune(s)) {
			t.Errorf("%q becomes %q, %v", s, back, err)
		}
	})
}
