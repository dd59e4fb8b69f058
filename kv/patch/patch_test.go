package patch

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/big"
	"testing"

	"github.com/godwitdb/godwit/sql/schema/rowfmt"
	"github.com/godwitdb/godwit/wire"
)

// row encodes columns as package rowfmt says; nil is NULL, a []byte a blob, a float64 eight
// bytes.
func row(ids []uint32, vals ...any) []byte {
	b := []byte{1}
	last := uint32(0)
	for i, id := range ids {
		head := uint64(id-last) << 1
		last = id
		if vals[i] == nil {
			b = binary.AppendUvarint(b, head|1)
			continue
		}
		b = append(binary.AppendUvarint(b, head), payload(vals[i])...)
	}
	return b
}

func payload(v any) []byte {
	switch v := v.(type) {
	case int64:
		return binary.AppendVarint(nil, v)
	case uint64:
		return binary.AppendUvarint(nil, v)
	case float64:
		return binary.BigEndian.AppendUint64(nil, math.Float64bits(v))
	case string:
		return append(binary.AppendUvarint(nil, uint64(len(v))), v...)
	}
	panic("no such column")
}

func TestColumns(t *testing.T) {
	ids := []uint32{1, 3, 4, 9, 12}
	classes := []byte{byte(rowfmt.Varint), byte(rowfmt.Varint), byte(rowfmt.Fixed8), byte(rowfmt.Blob), byte(rowfmt.Varint)}
	add := func(col uint32, n, least int64, most uint64) *wire.PatchOp {
		return &wire.PatchOp{Column: col, Kind: wire.PatchKind_PATCH_ADD, Add: n, Least: least, Most: most}
	}
	plus := func(col uint32, n int64, most uint64) *wire.PatchOp {
		return &wire.PatchOp{Column: col, Kind: wire.PatchKind_PATCH_ADD_UNSIGNED, Add: n, Most: most}
	}
	set := func(col uint32, v any) *wire.PatchOp {
		if v == nil {
			return &wire.PatchOp{Column: col, Null: true}
		}
		return &wire.PatchOp{Column: col, Value: payload(v)}
	}
	old := row(ids, int64(7), int64(100), 1.5, "abc", uint64(5))
	for _, c := range []struct {
		name string
		in   []byte
		ops  []*wire.PatchOp
		want []byte // nil: not defined
	}{
		{"add", old, []*wire.PatchOp{add(3, 27, -128, 127)}, row(ids, int64(7), int64(127), 1.5, "abc", uint64(5))},
		{"above the column", old, []*wire.PatchOp{add(3, 28, -128, 127)}, nil},
		{"subtract", old, []*wire.PatchOp{add(3, -228, -128, 127)}, row(ids, int64(7), int64(-128), 1.5, "abc", uint64(5))},
		{"below the column", old, []*wire.PatchOp{add(3, -229, -128, 127)}, nil},
		{"overflow", row(ids, int64(7), int64(math.MaxInt64), 1.5, "abc", uint64(5)),
			[]*wire.PatchOp{add(3, 1, math.MinInt64, math.MaxInt64)}, nil},
		{"underflow", row(ids, int64(7), int64(math.MinInt64), 1.5, "abc", uint64(5)),
			[]*wire.PatchOp{add(3, -1, math.MinInt64, math.MaxInt64)}, nil},
		{"unsigned", old, []*wire.PatchOp{plus(12, -5, 255)}, row(ids, int64(7), int64(100), 1.5, "abc", uint64(0))},
		{"unsigned below 0", old, []*wire.PatchOp{plus(12, -6, 255)}, nil},
		{"unsigned above", old, []*wire.PatchOp{plus(12, 251, 255)}, nil},
		{"unsigned overflow", row(ids, int64(7), int64(100), 1.5, "abc", uint64(math.MaxUint64)),
			[]*wire.PatchOp{plus(12, 1, math.MaxUint64)}, nil},
		{"several", old, []*wire.PatchOp{add(1, 1, -9, 9), set(4, 2.5), set(9, "xy"), set(12, nil)},
			row(ids, int64(8), int64(100), 2.5, "xy", nil)},
		{"NULL and a number", row(ids, int64(7), nil, nil, nil, nil), []*wire.PatchOp{add(3, 1, -9, 9)}, nil},
		{"NULL set", row(ids, int64(7), nil, nil, nil, nil), []*wire.PatchOp{set(9, "q")},
			row(ids, int64(7), nil, nil, "q", nil)},
		{"no change", old, []*wire.PatchOp{set(9, "abc")}, nil},
		{"plus nothing", old, []*wire.PatchOp{add(3, 0, -128, 127)}, nil},
		{"a column that the row does not have", row(ids[:2], int64(7), int64(100)), []*wire.PatchOp{set(9, "q")}, nil},
		{"one in the middle", row([]uint32{1, 9}, int64(7), "q"), []*wire.PatchOp{set(4, 1.0)}, nil},
		{"a column that the patch does not know", row([]uint32{1, 2}, int64(7), int64(1)),
			[]*wire.PatchOp{set(1, int64(8))}, nil},
		{"another format", append([]byte{2}, old[1:]...), []*wire.PatchOp{set(9, "q")}, nil},
		{"cut", old[:len(old)-3], []*wire.PatchOp{set(1, int64(8))}, nil},
		{"empty", nil, []*wire.PatchOp{set(1, int64(8))}, nil},
	} {
		in := bytes.Clone(c.in)
		got, ok := Apply(&wire.Patch{Format: 1, Ids: ids, Classes: classes, Ops: c.ops}, in)
		if ok != (c.want != nil) || ok && !bytes.Equal(got, c.want) {
			t.Errorf("%s: %x %v, want %x", c.name, got, ok, c.want)
		}
		if !bytes.Equal(in, c.in) {
			t.Errorf("%s: the value was changed", c.name)
		}
	}
}

func TestDecimals(t *testing.T) {
	dec := func(coefficient int64, exponent int32) []byte {
		return rowfmt.AppendDecimal(nil, big.NewInt(coefficient), exponent)
	}
	of := func(payload []byte) []byte { return append([]byte{1, 1 << 1}, payload...) }
	for _, c := range []struct {
		name     string
		old, add []byte
		digits   uint64
		want     []byte // nil: not defined
	}{
		{"add", dec(150, -2), dec(25, -2), 4, dec(175, -2)},
		{"below zero", dec(150, -2), dec(-151, -2), 4, dec(-1, -2)},
		{"to zero", dec(-150, -2), dec(150, -2), 4, dec(0, -2)},
		{"the largest", dec(9998, -2), dec(1, -2), 4, dec(9999, -2)},
		{"above it", dec(9999, -2), dec(1, -2), 4, nil},
		{"the smallest", dec(-9998, -2), dec(-1, -2), 4, dec(-9999, -2)},
		{"below it", dec(-9999, -2), dec(-1, -2), 4, nil},
		{"nothing", dec(150, -2), dec(0, -2), 4, nil},
		{"another scale", dec(15, -1), dec(25, -2), 4, nil},
		{"more digits than there are", dec(15, -2), dec(25, -2), 1 << 40, nil},
		{"cut", dec(150, -2), []byte{1, 3}, 4, nil},
		{"more than a number", dec(150, -2), append(dec(25, -2), 0), 4, nil},
		{"not a number", []byte{2, 3, 7}, dec(25, -2), 4, nil},
	} {
		p := &wire.Patch{Format: 1, Ids: []uint32{1}, Classes: []byte{byte(rowfmt.Blob)},
			Ops: []*wire.PatchOp{{Column: 1, Kind: wire.PatchKind_PATCH_ADD_DECIMAL, Value: c.add, Most: c.digits}}}
		got, ok := Apply(p, of(c.old))
		if ok != (c.want != nil) || ok && !bytes.Equal(got, of(c.want)) {
			t.Errorf("%s: %x %v, want %x", c.name, got, ok, c.want)
		}
	}
}

func TestWhole(t *testing.T) {
	p := Append([]byte("b"))
	p.Ops[0].Most = 3
	for in, want := range map[string]string{"": "b", "a": "ab", "aa": "aab", "aaa": ""} {
		if got, ok := Apply(p, []byte(in)); ok != (want != "") || ok && string(got) != want {
			t.Errorf("%q: %q %v", in, got, ok)
		}
	}
	if got, ok := Apply(Set([]byte("n")), []byte("o")); !ok || string(got) != "n" {
		t.Errorf("%q %v", got, ok)
	}
	for _, v := range []string{"n", ""} {
		if _, ok := Apply(Set([]byte(v)), []byte("n")); ok {
			t.Errorf("set to %q is defined", v)
		}
	}
}

// FuzzApply: no patch and value make Apply panic, and its result can be patched again.
func FuzzApply(f *testing.F) {
	p := &wire.Patch{Format: 1, Ids: []uint32{1, 2, 3}, Classes: []byte{0, 1, 2}, Ops: []*wire.PatchOp{{Column: 2, Null: true}}}
	b, err := p.MarshalVT()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, row([]uint32{1, 2, 3}, int64(5), 1.5, "x"))
	p = &wire.Patch{Format: 1, Ids: []uint32{1}, Classes: []byte{2},
		Ops: []*wire.PatchOp{{Column: 1, Kind: wire.PatchKind_PATCH_ADD_DECIMAL,
			Value: rowfmt.AppendDecimal(nil, big.NewInt(-25), -2), Most: 6}}}
	if b, err = p.MarshalVT(); err != nil {
		f.Fatal(err)
	}
	f.Add(b, append([]byte{1, 2}, rowfmt.AppendDecimal(nil, big.NewInt(150), -2)...))
	f.Fuzz(func(t *testing.T, b, value []byte) {
		var p wire.Patch
		if p.UnmarshalVT(b) != nil {
			return
		}
		if out, ok := Apply(&p, value); ok && len(out) == 0 {
			t.Error("an empty value")
		}
	})
}
