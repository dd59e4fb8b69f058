package avro

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/hamba/avro/v2"
	"github.com/hamba/avro/v2/ocf"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/changefeed/event"
	"github.com/godwitdb/godwit/sql/schema"
)

// tableOf makes a table of columns of types; the first one is its key.
func tableOf(t *testing.T, typ ...string) *schema.Table {
	t.Helper()
	d := &schema.TableDesc{ID: 7, DB: "d", Name: "t 1", PK: []uint32{1}}
	for i, x := range typ {
		d.Cols = append(d.Cols, schema.ColumnDesc{ID: uint32(i + 1), Name: fmt.Sprintf("c%d", i), Type: x})
	}
	tab, err := schema.NewTable(d)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// read decodes with another implementation of Avro.
func read(t *testing.T, text string, b []byte) (out map[string]any) {
	t.Helper()
	s, err := avro.Parse(text)
	if err == nil {
		err = avro.Unmarshal(s, b, &out)
	}
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}

// TestValues: another implementation of Avro reads every kind of value as it was.
func TestValues(t *testing.T) {
	at := time.Date(2026, 11, 26, 7, 43, 15, 123456000, time.UTC)
	before := time.Date(1901, 2, 3, 4, 5, 6, 0, time.UTC)
	wide := decimal.RequireFromString("-12345678901234567890123456789012345.678901")
	var typ []string
	var row []any
	var want []any
	for _, c := range []struct {
		typ     string
		v, want any
	}{
		{"bigint", int64(math.MinInt64), int64(math.MinInt64)}, {"bigint unsigned", uint64(math.MaxUint64), new(big.Rat).SetInt(new(big.Int).SetUint64(math.MaxUint64))},
		{"decimal(10,3)", decimal.RequireFromString("-1.5"), big.NewRat(-3, 2)}, {"decimal(10,3)", decimal.RequireFromString("-0.128"), big.NewRat(-16, 125)},
		{"decimal(41,6)", wide, wide.Rat()}, {"decimal(3,0)", decimal.RequireFromString("128"), big.NewRat(128, 1)},
		{"double", 1e300, 1e300}, {"float", float32(0.1), float32(0.1)}, {"tinyint", int8(-128), int64(-128)}, {"int unsigned", uint32(4e9), int64(4e9)},
		{"date", at, time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)}, {"date", before, time.Date(1901, 2, 3, 0, 0, 0, 0, time.UTC)},
		{"timestamp(6)", at, at}, {"datetime(6)", at, at}, {"datetime", before, before}, {"datetime", types.ZeroTime, "0000-00-00T00:00:00"},
		{"date", types.ZeroTime, "0000-00-00"}, {"time(3)", types.Timespan(-45_000_000_123_000), "-12500:00:00.123"},
		{"varchar(20)", "a\"\\\n\x01é\xff", "a\"\\\n\x01é\ufffd"}, {"varbinary(9)", []byte{0, 255}, []byte{0, 255}},
		{"json", types.JSONDocument{Val: "x"}, `"x"`}, {"json", types.JSONDocument{Val: map[string]any{"a": []any{nil}}}, `{"a":[null]}`},
		{"bit(3)", uint64(5), int64(5)}, {"year", int16(2026), int64(2026)}, {"int", nil, nil}, {"varchar(5)", "", ""},
	} {
		typ, row, want = append(typ, c.typ), append(row, c.v), append(want, c.want)
	}
	tab := tableOf(t, typ...)
	c, err := NewCoder(tab, event.Format{Envelope: event.Wrapped, Diff: true, Key: true, Topic: true, Updated: true})
	if err != nil {
		t.Fatal(err)
	}
	key, value, err := c.Encode(t.Context(), &event.Change{Table: tab, After: row, TS: 12, Topic: "d.t"})
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, c.Key, key); fmt.Sprint(got) != fmt.Sprintf("map[c0:%d]", math.MinInt64) {
		t.Errorf("the key is %v", got)
	}
	got := read(t, c.Value, value)
	if got["before"] != nil || got["resolved"] != nil || got["updated"] != "12.0000000000" || got["topic"] != "d.t" {
		t.Errorf("the envelope is %v", got)
	}
	after := got["after"].(map[string]any)
	if in, ok := after["t_u0020_1"].(map[string]any); ok { // hamba names the type of a union
		after = in
	}
	for i, w := range want {
		v := after[fmt.Sprintf("c%d", i)]
		if m, ok := v.(map[string]any); ok && len(m) == 1 {
			for _, x := range m {
				v = x
			}
		}
		same := fmt.Sprint(v) == fmt.Sprint(w)
		if r, ok := w.(*big.Rat); ok {
			g, is := v.(*big.Rat)
			same = is && g.Cmp(r) == 0
		}
		if x, ok := w.(time.Time); ok {
			g, is := v.(time.Time)
			same = is && g.UTC().Equal(x)
		}
		if !same {
			t.Errorf("%s: %v (%T), want %v (%T)", typ[i], v, v, w, w)
		}
	}
	if got := read(t, c.Value, c.Resolved(9)); got["resolved"] != "9.0000000000" || got["after"] != nil {
		t.Errorf("a mark is %v", got)
	}
	if got := read(t, MarkSchema, Mark(9)); got["resolved"] != "9.0000000000" {
		t.Errorf("a mark is %v", got)
	}
	_, value, err = c.Encode(t.Context(), &event.Change{Table: tab, Before: row, TS: 12})
	if got := read(t, c.Value, value); err != nil || got["after"] != nil || got["before"] == nil {
		t.Errorf("a deleted row is %v, %v", got, err)
	}
}

// TestDecimals: numbers of all sizes are what another implementation reads.
func TestDecimals(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	tab := tableOf(t, "decimal(65,5)")
	c, err := NewCoder(tab, event.Format{Envelope: event.Wrapped})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2000 {
		n := new(big.Int)
		for range i%4 + 1 {
			n.Or(n.Lsh(n, 48), new(big.Int).SetUint64(r.Uint64()>>(i%64)))
		}
		if i%2 == 0 {
			n.Neg(n)
		}
		d := decimal.NewFromBigInt(n, -5)
		_, value, err := c.Encode(t.Context(), &event.Change{Table: tab, After: []any{d}})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(read(t, c.Value, value)["after"]); !strings.Contains(got, d.Rat().String()) {
			t.Fatalf("%s becomes %s", d, got)
		}
	}
}

// TestFile: another implementation reads files, with and without compression.
func TestFile(t *testing.T) {
	tab := tableOf(t, "int", "varchar(20)")
	c, err := NewCoder(tab, event.Format{Envelope: event.Wrapped, Updated: true})
	if err != nil {
		t.Fatal(err)
	}
	var values [][]byte
	for i := range 300 {
		_, v, err := c.Encode(t.Context(), &event.Change{Table: tab, After: []any{int32(i), fmt.Sprint("row ", i)}, TS: base.Timestamp(i + 1)})
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, v)
	}
	for _, codec := range []string{"", "zstd"} {
		b, err := File(c.Value, values, codec)
		if err != nil {
			t.Fatal(err)
		}
		d, err := ocf.NewDecoder(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for ; d.HasNext(); n++ {
			var m map[string]any
			if err := d.Decode(&m); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(m["after"]); !strings.Contains(got, fmt.Sprint("row ", n)) || m["updated"] != fmt.Sprintf("%d.0000000000", n+1) {
				t.Errorf("value %d is %v", n, m)
			}
		}
		if d.Error() != nil || n != len(values) {
			t.Errorf("codec %q: %d values, %v", codec, n, d.Error())
		}
	}
}
