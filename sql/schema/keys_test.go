package schema

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/base"
)

func keyOf(t testing.TB, c *Column, v any) []byte {
	t.Helper()
	k, err := c.AppendKey(context.Background(), nil, v, 0)
	if err != nil {
		t.Fatalf("%s %v: %v", c.Type, v, err)
	}
	return k
}

// TestKeysOrder: keys are ordered as values are, NULL before all of them, also with more behind.
func TestKeysOrder(t *testing.T) {
	cols, values := columnsOfAllTypes(t)
	for i, c := range cols {
		last := append(keyOf(t, c, nil), 0xff, 0xff)
		for _, v := range values[i] {
			k := keyOf(t, c, v)
			if bytes.Compare(last, k) >= 0 {
				t.Errorf("%s: the key of %v is not above that of the value before", c.Type, v)
			}
			last = append(k, 0xff, 0xff)
		}
	}
}

// TestKeysOfTwoColumns: the first column decides, and then the second.
func TestKeysOfTwoColumns(t *testing.T) {
	ctx := context.Background()
	cols, values := columnsOfAllTypes(t)
	for i, c := range cols {
		for j, d := range cols {
			var keys [][]byte
			for _, v := range append([]any{nil}, values[i]...) {
				for _, w := range append([]any{nil}, values[j]...) {
					k, err := d.AppendKey(ctx, keyOf(t, c, v), w, 0)
					if err != nil {
						t.Fatal(err)
					}
					keys = append(keys, k)
				}
			}
			if !slices.IsSortedFunc(keys, bytes.Compare) {
				t.Errorf("keys of (%s, %s) are out of order", c.Type, d.Type)
			}
		}
	}
}

// TestDecimalKeys: random decimals of a type, in order.
func TestDecimalKeys(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, typ := range []string{"decimal(1,0)", "decimal(10,0)", "decimal(10,10)", "decimal(20,5)", "decimal(65,0)",
		"decimal(65,30)"} {
		c := columnOf(t, 1, typ)
		dt := c.Type.(sql.DecimalType)
		var all []decimal.Decimal
		for range 200 {
			digits := 1 + r.IntN(int(dt.Precision()))
			var text strings.Builder
			for range digits {
				text.WriteByte(byte('0' + r.IntN(10)))
			}
			n, _ := new(big.Int).SetString(text.String(), 10)
			if r.IntN(2) == 0 {
				n.Neg(n)
			}
			all = append(all, decimal.NewFromBigInt(n, -int32(dt.Scale())))
		}
		slices.SortFunc(all, decimal.Decimal.Cmp)
		for i := 1; i < len(all); i++ {
			if got := bytes.Compare(keyOf(t, c, all[i-1]), keyOf(t, c, all[i])); got != all[i-1].Cmp(all[i]) {
				t.Errorf("%s: %s and %s compare as %d", typ, all[i-1], all[i], got)
			}
		}
	}
}

// TestFloatKeys: what has no sign or no order has one place.
func TestFloatKeys(t *testing.T) {
	c := columnOf(t, 1, "double")
	if !bytes.Equal(keyOf(t, c, 0.0), keyOf(t, c, math.Copysign(0, -1))) {
		t.Error("0 and -0 have two keys")
	}
	last := keyOf(t, c, math.NaN())
	for _, v := range []float64{math.Inf(-1), -math.MaxFloat64, -math.SmallestNonzeroFloat64, 0,
		math.SmallestNonzeroFloat64, math.MaxFloat64, math.Inf(1)} {
		k := keyOf(t, c, v)
		if bytes.Compare(last, k) >= 0 {
			t.Errorf("the key of %v is not above that of the number before", v)
		}
		last = k
	}
}

// TestCollatedKeys: equal for the collation is equal as a key.
func TestCollatedKeys(t *testing.T) {
	ci := columnOf(t, 1, "varchar(20)", collated(sql.Collation_utf8mb4_general_ci))
	bin := columnOf(t, 1, "varchar(20)", collated(sql.Collation_utf8mb4_0900_bin))
	for _, k := range []struct {
		a, b string
		same bool
	}{{"abc", "ABC", true}, {"abc", "abd", false}, {"é", "E", true}, {"", "", true}, {"a", "a ", false}} {
		if got := bytes.Equal(keyOf(t, ci, k.a), keyOf(t, ci, k.b)); got != k.same {
			t.Errorf("%q and %q without case have one key: %v", k.a, k.b, got)
		}
		if got := bytes.Equal(keyOf(t, bin, k.a), keyOf(t, bin, k.b)); got != (k.a == k.b) {
			t.Errorf("%q and %q as bytes have one key: %v", k.a, k.b, got)
		}
	}
	if ci.Binary || !bin.Binary || ci.Sortable() || !bin.Sortable() {
		t.Error("which collation orders as bytes is not known")
	}
}

// TestPrefixes: a key of the first characters, or bytes, of a value.
func TestPrefixes(t *testing.T) {
	ctx := context.Background()
	text := columnOf(t, 1, "varchar(20)", collated(sql.Collation_utf8mb4_0900_bin))
	raw := columnOf(t, 2, "varbinary(20)")
	for _, k := range []struct {
		c      *Column
		v, cut any
		n      int64
	}{
		{text, "hello", "hel", 3}, {text, "he", "he", 3}, {text, "éàü", "éà", 2}, {text, "𝄞x", "𝄞", 1}, {text, "", "", 1},
		{raw, []byte{1, 2, 3}, []byte{1, 2}, 2}, {raw, []byte("é"), []byte{0xc3}, 1},
	} {
		got, err := k.c.AppendKey(ctx, nil, k.v, k.n)
		if err != nil || !bytes.Equal(got, keyOf(t, k.c, k.cut)) {
			t.Errorf("%d of %q: %x (%v)", k.n, k.v, got, err)
		}
	}
}

// TestTakeKey reads the values of keys back, for messages, where keys hold them.
func TestTakeKey(t *testing.T) {
	cols, values := columnsOfAllTypes(t)
	for i, c := range cols {
		for _, v := range values[i] {
			text, rest, ok := c.TakeKey(append(keyOf(t, c, v), "rest"...))
			readable := c.Kind == KindInt || c.Kind == KindUint || c.Kind == KindString && c.Binary
			if ok != readable || ok && (string(rest) != "rest" || text == "") {
				t.Errorf("%s: the key of %v says %q, then %q (%v)", c.Type, v, text, rest, ok)
			}
		}
		if _, _, ok := c.TakeKey([]byte{7}); ok {
			t.Errorf("%s: a byte of nothing was read", c.Type)
		}
	}
}

// FuzzStringKeys: the order of keys is that of strings, whatever their bytes, also if more follows.
func FuzzStringKeys(f *testing.F) {
	for _, k := range [][2]string{{"", ""}, {"a", "b"}, {"a\x00", "a"}, {"\x00\xff", "\x00\x01"}, {"ab", "a"},
		{"é", "e"}, {"\xff", "\xfe"}} {
		f.Add(k[0], k[1], "x")
	}
	raw := columnOf(f, 1, "varbinary(100)")
	f.Fuzz(func(t *testing.T, a, b, tail string) {
		x, y := keyOf(t, raw, []byte(a)), keyOf(t, raw, []byte(b))
		if got := bytes.Compare(append(x, tail...), append(y, tail...)); got != strings.Compare(a, b) {
			t.Fatalf("%q and %q compare as %d", a, b, got)
		}
		if back, rest, err := base.TakeBytes(append(keyOf(t, raw, []byte(a)), tail...)); err != nil ||
			string(back) != a || string(rest) != tail {
			t.Fatalf("%q came back as %q, with %q behind it: %v", a, back, rest, err)
		}
	})
}

// indexedTable has an index of each class: local, unique, by home.
func indexedTable(t testing.TB) *Table {
	return tableOf(t, 2, []ColumnDesc{descOf(1, "int"), descOf(2, "varchar(10)", collated(sql.Collation_Default)),
		descOf(3, "int"), descOf(4, "int")},
		IndexDesc{Name: "local", Cols: []IndexedColumn{{Col: 1}, {Col: 3}}},
		IndexDesc{Name: "uniq", Cols: []IndexedColumn{{Col: 3}}, Constraint: sql.IndexConstraint_Unique},
		IndexDesc{Name: "plain", Cols: []IndexedColumn{{Col: 4}}},
	)
}

// TestEntries: an entry of an index names its row, whatever its class, and NULLs are not unique.
func TestEntries(t *testing.T) {
	ctx := context.Background()
	tab := indexedTable(t)
	for i, class := range []indexClass{ClassLocal, ClassUnique, ClassByHome} {
		if got := tab.Indexes[i].Desc.Class; got != class {
			t.Fatalf("index %s has class %d", tab.Indexes[i].Desc.Name, got)
		}
	}
	seen := map[string]string{}
	for _, row := range []sql.Row{
		{int32(1), "a", int32(10), int32(5)}, {int32(1), "b", nil, int32(5)}, {int32(2), "a", nil, nil},
		{int32(-7), "", int32(11), int32(5)},
	} {
		ref, err := tab.RefOf(ctx, row)
		if err != nil {
			t.Fatal(err)
		}
		key := tab.RowKey(ref)
		if back := RefOfKey(key); back.Shard != ref.Shard || !bytes.Equal(back.PK, ref.PK) {
			t.Errorf("row %v is at %v, and its key is read as %v", row, ref, back)
		}
		for _, x := range tab.Indexes {
			for _, home := range []base.RegionID{1, 2} {
				k, v, err := tab.IndexEntry(ctx, x, row, ref, home)
				if err != nil {
					t.Fatal(err)
				}
				got, err := x.EntryRef(k, v)
				if err != nil || got.Shard != ref.Shard || !bytes.Equal(got.PK, ref.PK) {
					t.Errorf("entry of %v in %s names %v, want %v (%v)", row, x.Desc.Name, got, ref, err)
				}
				if x.Desc.Class == ClassByHome && k[base.IndexPrefixLen] != byte(home) {
					t.Errorf("entry of %v in %s is not at home in %d", row, x.Desc.Name, home)
				}
				name := x.Desc.Name + string(k)
				if other, ok := seen[name]; ok && other != string(key) {
					t.Errorf("two rows have one entry in %s", x.Desc.Name)
				}
				seen[name] = string(key)
			}
		}
	}
}

// TestSame: rows of which Same and SameKey say so have the same entries and the same place.
func TestSame(t *testing.T) {
	ctx := context.Background()
	tab := indexedTable(t)
	rows := []sql.Row{{int32(1), "a", int32(10), int32(5)}, {int32(1), "b", int32(10), int32(5)},
		{int32(1), "a", nil, int32(5)}, {int32(2), "a", nil, int32(6)}, {int32(2), "a", nil, int32(6)}, {int32(2), "A", nil, nil}}
	found := 0
	for _, a := range rows {
		for _, b := range rows {
			p, err := tab.RefOf(ctx, a)
			if err != nil {
				t.Fatal(err)
			}
			q, err := tab.RefOf(ctx, b)
			if err != nil {
				t.Fatal(err)
			}
			if tab.SameKey(a, b) && !p.Is(q) {
				t.Errorf("rows %v and %v have not the same key", a, b)
			}
			for _, x := range tab.Indexes {
				if !x.Same(a, b) {
					continue
				}
				found++
				k, _, err := tab.IndexEntry(ctx, x, a, p, 1)
				if err != nil {
					t.Fatal(err)
				}
				l, _, err := tab.IndexEntry(ctx, x, b, p, 1)
				if err != nil || !bytes.Equal(k, l) {
					t.Errorf("rows %v and %v have other entries in %s (%v)", a, b, x.Desc.Name, err)
				}
			}
		}
	}
	if found < 40 {
		t.Errorf("only %d pairs are the same", found)
	}
	bytesRow := sql.Row{[]byte("x")}
	if sameValue(bytesRow[0], bytesRow[0]) || sameValue(int32(1), int64(1)) || sameValue(0.0, 0.0) || !sameValue(nil, nil) {
		t.Error("values of larger types must not be looked into")
	}
}

// TestUniqueEntries: two rows with the same values have one key in a unique index, so that the
// second is noticed; with a NULL they have two.
func TestUniqueEntries(t *testing.T) {
	ctx := context.Background()
	tab := indexedTable(t)
	entry := func(id int32, v any) string {
		row := sql.Row{id, "a", v, nil}
		ref, err := tab.RefOf(ctx, row)
		if err != nil {
			t.Fatal(err)
		}
		k, _, err := tab.IndexEntry(ctx, tab.Indexes[1], row, ref, 1)
		if err != nil {
			t.Fatal(err)
		}
		return string(k)
	}
	if entry(1, int32(5)) != entry(2, int32(5)) {
		t.Error("equal values have two keys")
	}
	if entry(1, int32(5)) == entry(1, int32(6)) || entry(1, nil) == entry(2, nil) {
		t.Error("values that are not equal have one key")
	}
}

// TestShards: rows are spread by their first key column only, within the shards of the table.
func TestShards(t *testing.T) {
	ctx := context.Background()
	tab := indexedTable(t)
	at := map[base.ShardID]int{}
	for id := range int32(200) {
		a, err := tab.RefOf(ctx, sql.Row{id, "a", nil, nil})
		if err != nil {
			t.Fatal(err)
		}
		b, _ := tab.RefOf(ctx, sql.Row{id, "b", nil, nil})
		if a.Shard != b.Shard {
			t.Errorf("rows of %d are in shards %d and %d", id, a.Shard, b.Shard)
		}
		at[a.Shard]++
	}
	for _, s := range tab.Shards() {
		if at[s] < 20 {
			t.Errorf("shard %d has %d of 200 rows", s, at[s])
		}
	}
	if len(at) != 4 {
		t.Errorf("rows are in %d shards", len(at))
	}
	async := tab.Desc.Clone()
	async.Locality.Async = true
	if other, err := NewTable(async); err != nil || slices.Min(other.Shards()) <= slices.Max(tab.Shards()) {
		t.Errorf("an asynchronous table is in the shards of others (%v)", err)
	}
	for kind, shard := range map[LocalityKind]base.ShardID{Global: base.MetaShard, MultiMaster: base.EpochShard} {
		d := tab.Desc.Clone()
		d.Locality.Kind = kind
		other, err := NewTable(d)
		if err != nil || !slices.Equal(other.Shards(), []base.ShardID{shard}) || other.ShardOf([]byte("any")) != shard {
			t.Errorf("a table that is %q is in shards %v (%v)", kind, other.Shards(), err)
		}
	}
}

// TestHiddenIDs: a table without a primary key has rows by id.
func TestHiddenIDs(t *testing.T) {
	tab := tableOf(t, 0, []ColumnDesc{descOf(1, "int")})
	seen := map[string]bool{}
	for id := range uint64(100) {
		key := tab.RowKey(tab.HiddenRef(id))
		back, _, err := base.TakeUint64(RefOfKey(key).PK)
		if err != nil || back != id || seen[string(key)] {
			t.Errorf("row %d is read back as %d (%v)", id, back, err)
		}
		seen[string(key)] = true
	}
}

// FuzzEntryRef: any bytes as an entry give a row or an error.
func FuzzEntryRef(f *testing.F) {
	ctx := context.Background()
	tab := indexedTable(f)
	for _, x := range tab.Indexes {
		row := sql.Row{int32(1), "a", int32(10), int32(5)}
		ref, err := tab.RefOf(ctx, row)
		if err != nil {
			f.Fatal(err)
		}
		k, v, err := tab.IndexEntry(ctx, x, row, ref, 1)
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(k), v)
		f.Add([]byte(k[:len(k)-1]), v)
		f.Add([]byte(k), v[:1])
	}
	f.Add(make([]byte, 20), []byte{entryTail, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add(make([]byte, 20), binary.AppendUvarint([]byte{entryTail}, 1<<63))
	f.Add([]byte{}, []byte{entryTail, 0})
	f.Add([]byte{}, []byte{entryCarry, 0, 1})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		for _, x := range tab.Indexes {
			if ref, err := x.EntryRef(key, value); err != nil && base.CodeOf(err) != base.CodeCorrupt {
				t.Fatalf("%x %x: %v %v", key, value, ref, err)
			}
		}
	})
}
