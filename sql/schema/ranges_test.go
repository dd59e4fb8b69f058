package schema

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
)

var twoRegions = []base.Region{{ID: 1, Name: "eu"}, {ID: 2, Name: "us"}}

// engineIndex is an index of a table by name.
func engineIndex(t testing.TB, tab *Table, name string) *EngineIndex {
	t.Helper()
	for _, i := range tab.EngineIndexes() {
		if i.ID() == name {
			return i.(*EngineIndex)
		}
	}
	t.Fatalf("no index %s", name)
	return nil
}

func columnRange(c *Column, kind string, vals ...any) sql.MySQLRangeColumnExpr {
	switch kind {
	case "=":
		return sql.ClosedRangeColumnExpr(vals[0], vals[0], c.Type)
	case "[]":
		return sql.ClosedRangeColumnExpr(vals[0], vals[1], c.Type)
	case ">":
		return sql.GreaterThanRangeColumnExpr(vals[0], c.Type)
	case ">=":
		return sql.GreaterOrEqualRangeColumnExpr(vals[0], c.Type)
	case "<":
		return sql.LessThanRangeColumnExpr(vals[0], c.Type)
	case "<=":
		return sql.LessOrEqualRangeColumnExpr(vals[0], c.Type)
	case "null":
		return sql.NullRangeColumnExpr(c.Type)
	case "not null":
		return sql.NotNullRangeColumnExpr(c.Type)
	}
	return sql.AllRangeColumnExpr(c.Type)
}

// within reports whether the key range has room for a key of values.
func within(k KeyRange, key []byte) bool {
	return !k.Empty && bytes.Compare(k.Lo, key) <= 0 && (k.Hi == nil || bytes.Compare(key, k.Hi) < 0)
}

// TestRangesHoldTheirValues: a range of values of one column holds the keys of exactly these.
func TestRangesHoldTheirValues(t *testing.T) {
	ctx := context.Background()
	tab := tableOf(t, 1, []ColumnDesc{descOf(1, "int"), descOf(2, "int")}, IndexDesc{Name: "v", Cols: []IndexedColumn{{Col: 2}}})
	i, c := engineIndex(t, tab, "v"), tab.Cols[1]
	for _, k := range []struct {
		kind  string
		vals  []any
		holds func(v any) bool
	}{
		{"=", []any{int32(5)}, func(v any) bool { return v == int32(5) }},
		{"[]", []any{int32(-3), int32(5)}, func(v any) bool { return v != nil && v.(int32) >= -3 && v.(int32) <= 5 }},
		{">", []any{int32(5)}, func(v any) bool { return v != nil && v.(int32) > 5 }},
		{">=", []any{int32(5)}, func(v any) bool { return v != nil && v.(int32) >= 5 }},
		{"<", []any{int32(5)}, func(v any) bool { return v != nil && v.(int32) < 5 }},
		{"<=", []any{int32(-3)}, func(v any) bool { return v != nil && v.(int32) <= -3 }},
		{"null", nil, func(v any) bool { return v == nil }},
		{"not null", nil, func(v any) bool { return v != nil }},
		{"all", nil, func(any) bool { return true }},
	} {
		r, err := i.KeyRangeOf(ctx, sql.MySQLRange{columnRange(c, k.kind, k.vals...)})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []any{nil, int32(-1 << 31), int32(-4), int32(-3), int32(0), int32(4), int32(5), int32(6),
			int32(1<<31 - 1)} {
			key, err := c.AppendKey(ctx, nil, v, 0)
			if err != nil {
				t.Fatal(err)
			}
			key = base.AppendInt64(key, 99) // the primary key behind it
			if got := within(r, key); got != k.holds(v) {
				t.Errorf("%s %v holds %v: %v", k.kind, k.vals, v, got)
			}
		}
	}
}

// TestRangesOfValuesThatAreNone: a condition may compare a column with what the column cannot hold.
func TestRangesOfValuesThatAreNone(t *testing.T) {
	ctx := context.Background()
	tab := tableOf(t, 1, []ColumnDesc{descOf(1, "int"), descOf(2, "tinyint")},
		IndexDesc{Name: "v", Cols: []IndexedColumn{{Col: 2}}})
	i, c := engineIndex(t, tab, "v"), tab.Cols[1]
	for _, k := range []struct {
		kind        string
		val         any
		empty, full bool
	}{
		{"=", int64(1000), true, false}, {">", int64(1000), true, false}, {"<", int64(1000), false, true},
		{"<=", int64(1000), false, true},
		{">=", int64(-1000), false, true}, {"<", int64(-1000), true, false}, {"=", 5.5, true, false},
	} {
		r, err := i.KeyRangeOf(ctx, sql.MySQLRange{columnRange(c, k.kind, k.val)})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []int8{-128, 0, 127} {
			key, _ := c.AppendKey(ctx, nil, v, 0)
			if got := within(r, key); k.empty && got || k.full && !got {
				t.Errorf("%s %v holds %d: %v", k.kind, k.val, v, got)
			}
		}
	}
	// Between two integers, whichever of them the number is rounded to.
	for _, k := range []struct {
		kind string
		val  float64
		five bool // else six
	}{{">", 5.4, false}, {">=", 5.4, false}, {">", 5.6, false}, {">=", 5.6, false}, {"<", 5.4, true},
		{"<=", 5.4, true}, {"<", 5.6, true}, {"<=", 5.6, true}} {
		r, err := i.KeyRangeOf(ctx, sql.MySQLRange{columnRange(c, k.kind, k.val)})
		if err != nil {
			t.Fatal(err)
		}
		five, _ := c.AppendKey(ctx, nil, int8(5), 0)
		six, _ := c.AppendKey(ctx, nil, int8(6), 0)
		if within(r, five) != k.five || within(r, six) == k.five {
			t.Errorf("%s %v holds 5: %v, 6: %v", k.kind, k.val, within(r, five), within(r, six))
		}
	}
}

// TestRangesOfTwoColumns: equalities make a prefix, the first range ends it, and what comes behind
// has to be checked row by row.
func TestRangesOfTwoColumns(t *testing.T) {
	ctx := context.Background()
	tab := tableOf(t, 2, []ColumnDesc{descOf(1, "int"), descOf(2, "int"), descOf(3, "int")})
	i := engineIndex(t, tab, "PRIMARY")
	a, b := tab.Cols[0], tab.Cols[1]
	for _, k := range []struct {
		r            sql.MySQLRange
		point, loose bool
		first        bool
	}{
		{sql.MySQLRange{columnRange(a, "=", int32(1)), columnRange(b, "=", int32(2))}, true, false, true},
		{sql.MySQLRange{columnRange(a, "=", int32(1)), columnRange(b, ">", int32(2))}, false, false, true},
		{sql.MySQLRange{columnRange(a, "=", int32(1)), columnRange(b, "all")}, false, false, true},
		{sql.MySQLRange{columnRange(a, ">", int32(1)), columnRange(b, "=", int32(2))}, false, true, false},
		{sql.MySQLRange{columnRange(a, ">", int32(1)), columnRange(b, "all")}, false, false, false},
		{sql.MySQLRange{columnRange(a, "all"), columnRange(b, "all")}, false, false, false},
	} {
		got, err := i.KeyRangeOf(ctx, k.r)
		if err != nil || got.Point != k.point || got.Loose != k.loose || (got.First != nil) != k.first {
			t.Errorf("%v: %+v (%v)", k.r, got, err)
		}
		// What binds the first column is in one shard.
		want := 4
		if k.first {
			want = 1
		}
		if spans := i.Spans(twoRegions, got); len(spans) != want {
			t.Errorf("%v is in %d spans, want %d", k.r, len(spans), want)
		}
	}
}

// TestSpans: where the entries of each class of index may be, and that the row's own are there.
func TestSpans(t *testing.T) {
	ctx := context.Background()
	tab := indexedTable(t)
	row := sql.Row{int32(3), "x", int32(30), int32(40)}
	ref, err := tab.RefOf(ctx, row)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct {
		index string
		x     int // among tab.Indexes, -1: primary key
		col   int
		spans int
	}{{"PRIMARY", -1, 0, 1}, {"local", 0, 0, 1}, {"uniq", 1, 2, 1}, {"plain", 2, 3, 8}} {
		i := engineIndex(t, tab, k.index)
		r, err := i.KeyRangeOf(ctx, sql.MySQLRange{columnRange(tab.Cols[k.col], "=", row[k.col])})
		if err != nil {
			t.Fatal(err)
		}
		spans := i.Spans(twoRegions, r)
		if len(spans) != k.spans {
			t.Errorf("%s = %v is in %d spans, want %d", k.index, row[k.col], len(spans), k.spans)
		}
		key := tab.RowKey(ref)
		if k.x >= 0 {
			if key, _, err = tab.IndexEntry(ctx, tab.Indexes[k.x], row, ref, 2); err != nil {
				t.Fatal(err)
			}
		}
		found := 0
		for _, s := range spans {
			if s.Contains(key) {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%s = %v: the key of the row is in %d of the spans", k.index, row[k.col], found)
		}
	}
}

// TestPointKeys: a point of the primary key or of a unique index is the key that is written.
func TestPointKeys(t *testing.T) {
	ctx := context.Background()
	tab := indexedTable(t)
	row := sql.Row{int32(3), "x", int32(30), int32(40)}
	ref, err := tab.RefOf(ctx, row)
	if err != nil {
		t.Fatal(err)
	}
	i := engineIndex(t, tab, "PRIMARY")
	r, err := i.KeyRangeOf(ctx, sql.MySQLRange{columnRange(tab.Cols[0], "=", row[0]), columnRange(tab.Cols[1], "=", row[1])})
	if err != nil || !r.Point || i.PointKey(r).Compare(tab.RowKey(ref)) != 0 {
		t.Errorf("primary key: %v (%v)", r, err)
	}
	u := engineIndex(t, tab, "uniq")
	entry, _, err := tab.IndexEntry(ctx, tab.Indexes[1], row, ref, 1)
	if err != nil {
		t.Fatal(err)
	}
	if r, err = u.KeyRangeOf(ctx, sql.MySQLRange{columnRange(tab.Cols[2], "=", row[2])}); err != nil || !r.Point ||
		u.PointKey(r).Compare(entry) != 0 {
		t.Errorf("unique index: %v (%v)", r, err)
	}
	// NULL is no point: there may be many.
	if r, err = u.KeyRangeOf(ctx, sql.MySQLRange{columnRange(tab.Cols[2], "null")}); err != nil || r.Point {
		t.Errorf("NULL in a unique index: %v (%v)", r, err)
	}
}

// TestPrefixRanges: an index over the beginnings of values finds too much, and says so.
func TestPrefixRanges(t *testing.T) {
	ctx := context.Background()
	tab := tableOf(t, 1, []ColumnDesc{descOf(1, "int"), descOf(2, "varchar(20)", collated(sql.Collation_Default))},
		IndexDesc{Name: "pre", Cols: []IndexedColumn{{Col: 2, Length: 3}}})
	i, c := engineIndex(t, tab, "pre"), tab.Cols[1]
	for _, kind := range []string{"=", ">", ">=", "<", "<="} {
		r, err := i.KeyRangeOf(ctx, sql.MySQLRange{columnRange(c, kind, "hello")})
		if err != nil || !r.Loose || r.Point {
			t.Errorf("%s: %+v (%v)", kind, r, err)
		}
		key, _ := c.AppendKey(ctx, nil, "hello", 3)
		if !within(r, key) {
			t.Errorf("%s 'hello' leaves out the key of 'hel', which may be anything with that beginning", kind)
		}
	}
}

// TestLookupNames tell ranges apart.
func TestLookupNames(t *testing.T) {
	ctx := context.Background()
	tab := indexedTable(t)
	seen := map[string]string{}
	for _, index := range []string{"PRIMARY", "local", "uniq", "plain"} {
		i := engineIndex(t, tab, index)
		c := tab.Cols[i.Positions[0]]
		for n := range int32(3) {
			for _, kind := range []string{"=", ">", "<"} {
				r, err := i.KeyRangeOf(ctx, sql.MySQLRange{columnRange(c, kind, n)})
				if err != nil {
					t.Fatal(err)
				}
				what := fmt.Sprint(index, kind, n)
				name := LookupName(i, r)
				if other, ok := seen[name]; ok {
					t.Errorf("%s and %s have one name", what, other)
				}
				seen[name] = what
			}
		}
	}
}
