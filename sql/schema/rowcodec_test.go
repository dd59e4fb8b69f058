package schema

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/schema/rowfmt"
)

// storedTypes are types with values in ascending order, as text or as Go values.
var storedTypes = []struct {
	typ    string
	tune   func(*ColumnDesc)
	values []any
}{
	{typ: "tinyint", values: []any{-128, -1, 0, 1, 127}},
	{typ: "smallint", values: []any{-32768, -129, 0, 128, 32767}},
	{typ: "mediumint", values: []any{-8388608, 0, 8388607}},
	{typ: "int", values: []any{-2147483648, -1, 0, 1, 2147483647}},
	{typ: "bigint", values: []any{int64(-1 << 63), -1, 0, 1, int64(1<<63 - 1)}},
	{typ: "tinyint unsigned", values: []any{0, 1, 127, 128, 255}},
	{typ: "smallint unsigned", values: []any{0, 32768, 65535}},
	{typ: "int unsigned", values: []any{0, 1 << 31, 1<<32 - 1}},
	{typ: "bigint unsigned", values: []any{0, uint64(1) << 63, uint64(1<<64 - 1)}},
	{typ: "float", values: []any{-1e30, -0.5, 0, 1.5, 1e30}},
	{typ: "double", values: []any{-1e300, -1e-300, 0, 1e-300, 0.1, 1e300}},
	{typ: "decimal(5,2)", values: []any{"-999.99", "-0.01", "0", "0.01", "999.99"}},
	{typ: "decimal(65,30)", values: []any{"-12345678901234567890123456789012345.000000000000000000000000000001",
		"-0.000000000000000000000000000001", "0",
		"0.000000000000000000000000000001", "99999999999999999999999999999999999.999999999999999999999999999999"}},
	{typ: "date", values: []any{"1000-01-01", "1969-12-31", "1970-01-01", "2024-02-29", "9999-12-31"}},
	{typ: "datetime", values: []any{"1000-01-01 00:00:00", "1970-01-01 00:00:00", "9999-12-31 23:59:59"}},
	{typ: "datetime(6)", values: []any{"1969-12-31 23:59:59.999999", "1970-01-01 00:00:00", "1970-01-01 00:00:00.000001"}},
	{typ: "timestamp", values: []any{"1970-01-01 00:00:01", "2038-01-19 03:14:07"}},
	{typ: "time(6)", values: []any{"-838:59:59", "-00:00:00.000001", "00:00:00", "00:00:00.5", "838:59:59"}},
	{typ: "year", values: []any{1901, 2000, 2155}},
	{typ: "varchar(30)", tune: collated(sql.Collation_utf8mb4_0900_bin),
		values: []any{"", "\x00", "\x00a", "a", "a\x00", "a\x00b", "ab", "b", "é", "𝄞"}},
	{typ: "text", tune: collated(sql.Collation_utf8mb4_0900_bin), values: []any{"", "long", "longer"}},
	{typ: "varchar(30)", tune: collated(sql.Collation_utf8mb4_general_ci), values: []any{"", "A", "ab", "B", "c"}},
	{typ: "varbinary(10)", values: []any{[]byte{}, []byte{0}, []byte{0, 0}, []byte{0, 1}, []byte{0, 255}, []byte{1},
		[]byte{255}, []byte{255, 0}}},
	{typ: "blob", values: []any{[]byte{}, []byte("blob"), []byte("blobs")}},
	{typ: "enum", tune: valued("z", "y", "x"), values: []any{"z", "y", "x"}},
	{typ: "set", tune: valued("p", "q", "r"), values: []any{"", "p", "q", "p,q", "r", "p,q,r"}},
	{typ: "bit(10)", values: []any{uint64(0), uint64(1), uint64(512), uint64(1023)}},
}

func columnsOfAllTypes(t testing.TB) (cols []*Column, values [][]any) {
	for i, k := range storedTypes {
		var tune []func(*ColumnDesc)
		if k.tune != nil {
			tune = append(tune, k.tune)
		}
		c := columnOf(t, uint32(i+1), k.typ, tune...)
		var vals []any
		for _, v := range k.values {
			vals = append(vals, valueOf(t, c, v))
		}
		cols, values = append(cols, c), append(values, vals)
	}
	return cols, values
}

func same(c *Column, a, b any) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	n, err := c.Type.Compare(context.Background(), a, b)
	return err == nil && n == 0
}

// TestPayloads: a value comes back from its bytes, in the Go type that the engine gave, and whoever
// passes over it ends at the same place.
func TestPayloads(t *testing.T) {
	ctx := context.Background()
	cols, values := columnsOfAllTypes(t)
	tab := tableOf(t, 0, []ColumnDesc{descOf(1, "int")})
	for i, c := range cols {
		for _, v := range values[i] {
			b, err := c.AppendPayload(ctx, nil, v)
			if err != nil {
				t.Fatalf("%s %v: %v", c.Type, v, err)
			}
			long := append(bytes.Clone(b), "rest"...)
			got, rest, err := c.TakePayload(ctx, long)
			if err != nil || string(rest) != "rest" || !same(c, v, got) {
				t.Errorf("%s: %v came back as %v, with %q behind it (%v)", c.Type, v, got, rest, err)
			}
			if rest, err := tab.skip(long, c.Kind); err != nil || string(rest) != "rest" {
				t.Errorf("%s: %v was passed over up to %q (%v)", c.Type, v, rest, err)
			}
			if again, err := c.AppendPayload(ctx, nil, got); err != nil || !bytes.Equal(again, b) {
				t.Errorf("%s: %v has the bytes %x at first, and %x when it has come back (%v)", c.Type, v, b, again, err)
			}
		}
	}
}

// TestCutPayloads: each beginning of a payload but the whole gives an error.
func TestCutPayloads(t *testing.T) {
	ctx := context.Background()
	cols, values := columnsOfAllTypes(t)
	tab := tableOf(t, 0, []ColumnDesc{descOf(1, "int")})
	for i, c := range cols {
		for _, v := range values[i] {
			b, _ := c.AppendPayload(ctx, nil, v)
			for n := range b {
				if got, _, err := c.TakePayload(ctx, b[:n]); err == nil {
					t.Errorf("%s: %d bytes of the %d of %v are %v", c.Type, n, len(b), v, got)
				}
				if _, err := tab.skip(b[:n], c.Kind); err == nil {
					t.Errorf("%s: %d bytes of the %d of %v were passed over", c.Type, n, len(b), v)
				}
			}
		}
	}
}

// TestWrongGoTypes: a value that is none of the column is refused, and not stored as another one.
func TestWrongGoTypes(t *testing.T) {
	ctx := context.Background()
	cols, _ := columnsOfAllTypes(t)
	for _, c := range append(cols, columnOf(t, 99, "json")) {
		for _, v := range []any{struct{}{}, []int{1}, make(chan int)} {
			if _, err := c.AppendPayload(ctx, nil, v); err == nil {
				t.Errorf("%s: a %T was stored", c.Type, v)
			}
			if _, err := c.AppendKey(ctx, nil, v, 0); err == nil {
				t.Errorf("%s: a %T became a key", c.Type, v)
			}
		}
	}
}

func allTypesTable(t testing.TB) (*Table, [][]any) {
	_, values := columnsOfAllTypes(t)
	var descs []ColumnDesc
	for i, k := range storedTypes {
		d := descOf(uint32(i+1), k.typ)
		d.Name = "c" + string(rune('A'+i))
		if k.tune != nil {
			k.tune(&d)
		}
		descs = append(descs, d)
	}
	return tableOf(t, 0, descs), values
}

func randomRow(r *rand.Rand, values [][]any) sql.Row {
	row := make(sql.Row, len(values))
	for i, v := range values {
		if n := r.IntN(len(v) + 1); n < len(v) {
			row[i] = v[n]
		}
	}
	return row
}

// TestRows: rows of random values and NULLs come back, as a whole and some columns of them.
func TestRows(t *testing.T) {
	ctx := context.Background()
	tab, values := allTypesTable(t)
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		row := randomRow(r, values)
		b, err := tab.AppendRow(ctx, nil, row)
		if err != nil {
			t.Fatal(err)
		}
		got := make(sql.Row, len(row))
		if err := tab.DecodeRow(ctx, b, got); err != nil {
			t.Fatal(err)
		}
		want := make([]bool, len(row))
		some := make(sql.Row, len(row))
		for i := range want {
			want[i] = r.IntN(2) == 0
		}
		if err := tab.DecodeCols(ctx, b, some, want); err != nil {
			t.Fatal(err)
		}
		for i, c := range tab.Cols {
			if !same(c, row[i], got[i]) {
				t.Errorf("%s: %v came back as %v", c.Type, row[i], got[i])
			}
			if want[i] && !same(c, row[i], some[i]) {
				t.Errorf("%s: %v came back as %v with others left out", c.Type, row[i], some[i])
			}
		}
	}
}

// TestRowsOfOlderTables: columns that came later have the value noted for them, or NULL; those that
// went are passed over; those that never were are an error.
func TestRowsOfOlderTables(t *testing.T) {
	ctx := context.Background()
	before := tableOf(t, 1, []ColumnDesc{descOf(1, "int"), descOf(2, "varchar(10)", collated(sql.Collation_Default)),
		descOf(3, "double"), descOf(4, "int")})
	b, err := before.AppendRow(ctx, nil, sql.Row{int32(7), "gone", 2.5, nil})
	if err != nil {
		t.Fatal(err)
	}
	// 2 and 3 have been dropped, 5 and 6 added, and the order is another one.
	six := columnOf(t, 6, "int")
	missing, err := six.AppendPayload(ctx, nil, int32(42))
	if err != nil {
		t.Fatal(err)
	}
	d := before.Desc.Clone()
	d.Cols = []ColumnDesc{descOf(6, "int", func(d *ColumnDesc) { d.Missing = missing }), d.Cols[3],
		descOf(5, "varchar(5)", collated(sql.Collation_Default)), d.Cols[0]}
	d.Dropped = map[uint32]Kind{2: KindString, 3: KindFloat}
	after, err := NewTable(d)
	if err != nil {
		t.Fatal(err)
	}
	row := make(sql.Row, 4)
	if err := after.DecodeRow(ctx, b, row); err != nil {
		t.Fatal(err)
	}
	if row[0] != int32(42) || row[1] != nil || row[2] != nil || row[3] != int32(7) {
		t.Errorf("the old row is %v in the new table", row)
	}
	delete(d.Dropped, 3)
	if err := after.DecodeRow(ctx, b, row); base.CodeOf(err) != base.CodeCorrupt {
		t.Errorf("a row with a column that never was: %v", err)
	}
	// A row of the new table has its values, whatever is noted for older ones.
	d.Dropped[3] = KindFloat
	if b, err = after.AppendRow(ctx, nil, sql.Row{nil, int32(1), "x", int32(8)}); err != nil {
		t.Fatal(err)
	}
	if err := after.DecodeRow(ctx, b, row); err != nil || row[0] != nil || row[2] != "x" {
		t.Errorf("the new row is %v (%v)", row, err)
	}
	// A node that has not heard of the new definition yet meets such a row.
	if err := before.DecodeRow(ctx, b, row); base.CodeOf(err) != base.CodeSchemaChanged {
		t.Errorf("a row of a newer table: %v", err)
	}
}

// TestVirtualColumns are not stored, and stay NULL when a row is read.
func TestVirtualColumns(t *testing.T) {
	ctx := context.Background()
	tab := tableOf(t, 1, []ColumnDesc{descOf(1, "int"), descOf(2, "int", func(d *ColumnDesc) {
		d.Virtual = true
	}), descOf(3, "int")})
	if !tab.Virtual || len(tab.StoredOrder) != 2 {
		t.Fatalf("stored columns: %v", tab.StoredOrder)
	}
	b, err := tab.AppendRow(ctx, nil, sql.Row{int32(1), int32(2), int32(3)})
	if err != nil {
		t.Fatal(err)
	}
	row := make(sql.Row, 3)
	if err := tab.DecodeRow(ctx, b, row); err != nil || row[0] != int32(1) || row[1] != nil || row[2] != int32(3) {
		t.Errorf("%v (%v)", row, err)
	}
}

// TestUnknownFormats: the first byte of a row says how the others are to be read.
func TestUnknownFormats(t *testing.T) {
	tab := tableOf(t, 0, []ColumnDesc{descOf(1, "int")})
	for _, b := range [][]byte{nil, {}, {0}, {2}, {255, 1, 2}} {
		if err := tab.DecodeRow(context.Background(), b, make(sql.Row, 1)); base.CodeOf(err) != base.CodeCorrupt {
			t.Errorf("%x: %v", b, err)
		}
	}
	if err := tab.DecodeRow(context.Background(), []byte{1}, make(sql.Row, 1)); err != nil {
		t.Errorf("a row without columns is one from before they were added: %v", err)
	}
}

// FuzzDecodeRow: any bytes give a row or an error. A row that was read is written and read again as
// the same.
func FuzzDecodeRow(f *testing.F) {
	ctx := context.Background()
	tab, values := allTypesTable(f)
	tab.Desc.Dropped = map[uint32]Kind{100: KindString, 101: KindInt, 102: KindFloat, 103: KindJSON}
	r := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		b, err := tab.AppendRow(ctx, nil, randomRow(r, values))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:r.IntN(len(b))])
		b = bytes.Clone(b)
		b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		f.Add(b)
	}
	f.Add(binary.AppendUvarint([]byte{rowfmt.Version}, 1<<63))
	f.Add([]byte{rowfmt.Version, 200, 1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		row := make(sql.Row, len(tab.Cols))
		if tab.DecodeRow(ctx, b, row) != nil {
			return
		}
		again, err := tab.AppendRow(ctx, nil, row)
		if err != nil {
			t.Skip("a value that no client can have written")
		}
		back := make(sql.Row, len(row))
		if err := tab.DecodeRow(ctx, again, back); err != nil {
			t.Fatalf("%x was read as %v, and cannot be read when it is written again: %v", b, row, err)
		}
		third, err := tab.AppendRow(ctx, nil, back)
		if err != nil || !bytes.Equal(again, third) {
			t.Fatalf("%x is written as %x, and then as %x", b, again, third)
		}
	})
}
