package access

import (
	"context"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/schema/rowfmt"
)

func day(y, m, d int) time.Time { return time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC) }

func dec(s string) decimal.Decimal { return decimal.RequireFromString(s) }

// columns are types, with values as the engine holds them.
var columns = []struct {
	desc schema.ColumnDesc
	vals []any
}{
	{schema.ColumnDesc{Type: "tinyint"}, []any{int8(-128), int8(0), int8(127)}},
	{schema.ColumnDesc{Type: "smallint"}, []any{int16(-5)}},
	{schema.ColumnDesc{Type: "mediumint"}, []any{int32(-8388608)}},
	{schema.ColumnDesc{Type: "int"}, []any{int32(1 << 30)}},
	{schema.ColumnDesc{Type: "bigint"}, []any{int64(-1 << 63), int64(1<<63 - 1)}},
	{schema.ColumnDesc{Type: "bigint unsigned"}, []any{uint64(1<<64 - 1), uint64(0)}},
	{schema.ColumnDesc{Type: "float"}, []any{float32(1.5), float32(-0.25)}},
	{schema.ColumnDesc{Type: "double"}, []any{1e300, -2.5}},
	{schema.ColumnDesc{Type: "decimal(12,2)"}, []any{dec("0"), dec("1.5"), dec("-3.10"), dec("9999999999.99"), dec("100")}},
	{schema.ColumnDesc{Type: "decimal(65,30)"}, []any{
		dec("12345678901234567890123456789012345.123456789012345678901234567890"), dec("-1")}},
	{schema.ColumnDesc{Type: "decimal(20,0)"}, []any{decimal.NewFromBigInt(new(big.Int).Lsh(big.NewInt(1), 63), 0), dec("7")}},
	{schema.ColumnDesc{Type: "varchar(20)", Collation: sql.Collation_utf8mb4_general_ci}, []any{"", "abc", "éßΩ"}},
	{schema.ColumnDesc{Type: "longtext", Collation: sql.Collation_utf8mb4_0900_ai_ci}, []any{string(make([]byte, 70000)), "x"}},
	{schema.ColumnDesc{Type: "varbinary(20)"}, []any{[]byte{}, []byte{0, 255}}},
	{schema.ColumnDesc{Type: "date"}, []any{day(2024, 2, 29), day(1000, 1, 1), day(9999, 12, 31), types.ZeroTime}},
	{schema.ColumnDesc{Type: "datetime(6)"}, []any{time.Date(2024, 2, 29, 23, 59, 59, 999999000, time.UTC),
		time.Date(1969, 12, 31, 23, 59, 59, 1000, time.UTC)}},
	{schema.ColumnDesc{Type: "timestamp(6)"}, []any{time.Date(2024, 2, 29, 23, 59, 59, 1000, time.UTC)}},
	{schema.ColumnDesc{Type: "time(6)"}, []any{types.Timespan(-5400 * 1e6), types.Timespan(3020399 * 1e6)}},
	{schema.ColumnDesc{Type: "year"}, []any{int16(2024), int16(1901)}},
	{schema.ColumnDesc{Type: "bit(64)"}, []any{uint64(1<<64 - 1), uint64(5)}},
	{schema.ColumnDesc{Type: "enum", Values: []string{"a", "b"}, Collation: sql.Collation_utf8mb4_bin},
		[]any{uint16(2), uint16(1)}},
	{schema.ColumnDesc{Type: "set", Values: []string{"a", "b"}, Collation: sql.Collation_utf8mb4_bin},
		[]any{uint64(3), uint64(0)}},
	{schema.ColumnDesc{Type: "json"}, []any{types.MustJSON(`{"b": [1, 2.5, null], "a": "x"}`)}},
}

// everything is a table of all types, some of whose columns were added or dropped.
func everything(t *testing.T) (old, now *schema.Table) {
	t.Helper()
	ctx := context.Background()
	od, nd := &schema.TableDesc{ID: 7, Name: "t", Shards: 1},
		&schema.TableDesc{ID: 7, Name: "t", Shards: 1, Dropped: map[uint32]schema.Kind{}}
	for i, c := range columns {
		d := c.desc
		d.ID, d.Name, d.Nullable = uint32(i+1), d.Type, true
		od.Cols = append(od.Cols, d)
		if i%7 == 3 {
			col, err := schema.NewColumn(&d)
			if err != nil {
				t.Fatal(err)
			}
			nd.Dropped[d.ID] = col.Kind
			continue
		}
		nd.Cols = append(nd.Cols, d)
	}
	for i, typ := range []string{"int", "decimal(10,1)"} {
		d := schema.ColumnDesc{ID: uint32(len(columns) + 1 + i), Name: "added " + typ, Type: typ, Nullable: true}
		if i == 1 {
			c, err := schema.NewColumn(&d)
			if err != nil {
				t.Fatal(err)
			}
			if d.Missing, err = c.AppendPayload(ctx, nil, dec("4.2")); err != nil {
				t.Fatal(err)
			}
		}
		nd.Cols = append(nd.Cols, d)
	}
	nd.Cols[0], nd.Cols[5] = nd.Cols[5], nd.Cols[0] // the order of a table is not that of its ids
	var err error
	if old, err = schema.NewTable(od); err == nil {
		now, err = schema.NewTable(nd)
	}
	if err != nil {
		t.Fatal(err)
	}
	return old, now
}

// plain is what a vector has to hold for a value of the engine.
func plain(t *testing.T, c *schema.Column, v any) expr.Value {
	t.Helper()
	out, err := valueOf(sql.NewEmptyContext(), v, expr.FromSQL(c.Type))
	if err != nil {
		t.Fatalf("%s: %v: %v", c.Type, v, err)
	}
	return out
}

func equal(a, b expr.Value) bool {
	if a.D != nil && b.D != nil {
		return a.D.Text('f') == b.D.Text('f')
	}
	return a == b
}

// TestVectorsHoldWhatRowsSay: rows of all types, some written before columns were added and after
// others were dropped, are decoded into vectors as into rows, whichever columns are wanted.
func TestVectorsHoldWhatRowsSay(t *testing.T) {
	old, now := everything(t)
	ctx := context.Background()
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		def := old
		if r.IntN(2) == 0 {
			def = now
		}
		var cols []int
		var typs []expr.Type
		for p, c := range now.Cols {
			if r.IntN(3) > 0 {
				cols, typs = append(cols, p), append(typs, expr.FromSQL(c.Type))
			}
		}
		d := newDecoder(ctx, now, cols, typs)
		const n = 5
		var b expr.Batch
		d.begin(&b, n)
		var want []sql.Row
		for i := range n {
			row := make(sql.Row, len(def.Cols))
			for p, c := range def.Cols {
				if k := int(c.Desc.ID) - 1; k < len(columns) && r.IntN(5) > 0 {
					row[p] = columns[k].vals[r.IntN(len(columns[k].vals))]
				}
			}
			enc, err := def.AppendRow(ctx, nil, row)
			if err != nil {
				t.Fatal(err)
			}
			full := make(sql.Row, len(now.Cols))
			if err := now.DecodeRow(ctx, enc, full); err != nil {
				t.Fatal(err)
			}
			want = append(want, full)
			if err := d.row(enc, &b, i); err != nil {
				t.Fatal(err)
			}
		}
		for j, p := range cols {
			for i := range n {
				if got, want := b.Cols[j].At(int32(i)), plain(t, now.Cols[p], want[i][p]); !equal(got, want) {
					t.Fatalf("%s: %+v is decoded as %+v", now.Cols[p].Type, want, got)
				}
			}
		}
	}
}

// TestRowsThatAreNone: bytes that are no row give an error that says so, never a panic.
func TestRowsThatAreNone(t *testing.T) {
	old, now := everything(t)
	ctx := context.Background()
	row := make(sql.Row, len(old.Cols))
	for i := range old.Cols {
		row[i] = columns[i].vals[0]
	}
	enc, err := old.AppendRow(ctx, nil, row)
	if err != nil {
		t.Fatal(err)
	}
	var cols []int
	var typs []expr.Type
	for p, c := range now.Cols {
		cols, typs = append(cols, p), append(typs, expr.FromSQL(c.Type))
	}
	d := newDecoder(ctx, now, cols, typs)
	refused := 0
	for n := range len(enc) {
		var b expr.Batch
		d.begin(&b, 1)
		if err := d.row(enc[:n], &b, 0); err != nil {
			refused++
			if base.CodeOf(err) != base.CodeCorrupt {
				t.Fatalf("%d bytes: %v", n, err)
			}
		}
	}
	if refused < len(enc)/2 {
		t.Errorf("%d of %d beginnings of a row are refused", refused, len(enc))
	}
	newer := rowfmt.AppendHead([]byte{rowfmt.Version}, 0, max(now.Desc.NextCol, d.most)+1, false)
	var b expr.Batch
	d.begin(&b, 1)
	if err := d.row(newer, &b, 0); base.CodeOf(err) != base.CodeSchemaChanged {
		t.Errorf("a column of a newer definition: %v", err)
	}
	if err := d.row([]byte{99, 1, 2}, &expr.Batch{}, 0); base.CodeOf(err) != base.CodeCorrupt {
		t.Errorf("an unknown format: %v", err)
	}
}

// TestStoredTimestamps: a TIMESTAMP is stored in UTC, and executors have it so.
func TestStoredTimestamps(t *testing.T) {
	_, now := everything(t)
	p := now.Desc.ColByName("timestamp(6)")
	c := now.Cols[p]
	ctx := context.Background()
	full := make(sql.Row, len(now.Cols))
	full[p] = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	enc, err := now.AppendRow(ctx, nil, full)
	if err != nil {
		t.Fatal(err)
	}
	d := newDecoder(ctx, now, []int{p}, []expr.Type{expr.FromSQL(c.Type)})
	var b expr.Batch
	d.begin(&b, 1)
	if err := d.row(enc, &b, 0); err != nil {
		t.Fatal(err)
	}
	if got, want := b.Cols[0].At(0), plain(t, c, time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)); got != want {
		t.Errorf("%v, not %v", got, want)
	}
}
