package base

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestTimestampArithmetic(t *testing.T) {
	a := Timestamp(1000)
	if a.Next() != 1001 || a.Prev() != 999 || Timestamp(0).Prev() != 0 {
		t.Error("Next, Prev")
	}
	if a.Add(-time.Second) != 0 || a.Add(time.Second).Sub(a) != time.Second {
		t.Error("Add, Sub")
	}
	now := time.Unix(1_700_000_000, 123456789).UTC()
	if FromTime(now).Time() != now {
		t.Error("time does not survive")
	}
}

// TestLabelFields tests PolyBase section 4.1: fields are independent, and the two counters wrap
// with their auxiliary bits.
func TestLabelFields(t *testing.T) {
	l := MakeLabel(3, 5, 1<<32-1)
	if l.Home() != 3 || l.Writer() != 5 || l.Seq() != 1<<32-1 || l.Changes() != 0 || l.InTransit() {
		t.Fatalf("%v", l)
	}
	wrapped := l.WithWriter(5, 1<<32)
	if wrapped.Seq() != 0 || wrapped == l.WithWriter(5, 0) {
		t.Errorf("a wrapped sequence looks like a fresh one: %x", uint64(wrapped))
	}
	if l.WithWriter(5, 1<<33) != l.WithWriter(5, 0) {
		t.Error("two wraps should cancel out")
	}
	moved := l
	for i := range 1024 {
		if int(moved.Changes()) != i {
			t.Fatalf("change %d counted as %d", i, moved.Changes())
		}
		moved = moved.WithHome(RegionID(i%7 + 1))
	}
	if moved.Changes() != 0 || moved.WithHome(3).Changes() != 1 || moved == l.WithHome(3).WithHome(moved.Home()) {
		t.Errorf("change count wrapped to %d, label %x", moved.Changes(), uint64(moved))
	}
	if moved.Writer() != 5 || moved.Seq() != 1<<32-1 {
		t.Error("moving touched the writer")
	}
	transit := moved.WithInTransit(true)
	if !transit.InTransit() || transit.WithInTransit(false) != moved || transit.Home() != moved.Home() {
		t.Error("in-transit bit")
	}
	if moved>>61 != 0 {
		t.Errorf("label uses the free bits: %x", uint64(moved))
	}
}

func TestKeyParts(t *testing.T) {
	table := MakeTableID(77, 4)
	k := append(IndexPrefix(9, table, 2, 0), "row"...)
	if k.Shard() != 9 || k.Table() != table || k.Index() != 2 || k.DefaultOwner() != DataGroup(9, 4) {
		t.Errorf("%v: owner %v", k, k.DefaultOwner())
	}
	if !bytes.Equal(k.Section(), IndexPrefix(9, table, 2, 0)) {
		t.Errorf("section %x", k.Section())
	}
	h := append(IndexPrefix(9, table, 2|ByHome, 6), "row"...)
	if h.DefaultOwner() != DataGroup(9, 6) || len(h.Section()) != IndexPrefixLen+1 {
		t.Errorf("%v: owner %v section %x", h, h.DefaultOwner(), h.Section())
	}
	if g := (append(IndexPrefix(MetaShard, table, 0, 0), 1)).DefaultOwner(); g != MetaGroup {
		t.Errorf("meta key is owned by %v", g)
	}
	if g := DataGroup(3, 2); g.Shard() != 3 || g.Region() != 2 || g == MetaGroup {
		t.Errorf("%v", g)
	}
	for _, short := range []Key{nil, {1}, {0, 1, 2}} {
		_, _, _, _ = short.Shard(), short.Table(), short.Index(), short.DefaultOwner()
		_ = short.Section()
	}
}

func TestSpans(t *testing.T) {
	k := func(s string) Key { return Key(s) }
	ab := Span{k("a"), k("b")}
	for _, c := range []struct {
		a, b Span
		want bool
	}{
		{ab, PointSpan(k("a")), true}, {ab, PointSpan(k("b")), false}, {ab, Span{k("b"), k("c")}, false},
		{ab, Span{k("aa"), k("c")}, true}, {PointSpan(k("a")), PointSpan(k("a")), true},
		{PointSpan(k("a")), PointSpan(k("aa")), false},
	} {
		if c.a.Overlaps(c.b) != c.want || c.b.Overlaps(c.a) != c.want {
			t.Errorf("%s and %s: want overlap %v", c.a, c.b, c.want)
		}
	}
	if e := Key("a\xff\xff").PrefixEnd(); !bytes.Equal(e, k("b")) {
		t.Errorf("prefix end %x", e)
	}
	if e := Key("\xff").PrefixEnd(); e != nil {
		t.Errorf("prefix end of the last prefix is %x", e)
	}
}

func TestCodecKeepsOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	ints := []int64{math.MinInt64, -1, 0, 1, math.MaxInt64}
	floats := []float64{math.Inf(-1), -math.MaxFloat64, -1, -math.SmallestNonzeroFloat64, 0,
		math.SmallestNonzeroFloat64, 1, math.Inf(1)}
	strs := [][]byte{nil, {0}, {0, 0}, {0, 1}, {0, 255}, {1}, []byte("a"), []byte("a\x00b"), []byte("ab"), {255}, {255, 0}}
	for range 300 {
		ints = append(ints, int64(r.Uint64()), int64(r.IntN(100)-50))
		floats = append(floats, r.NormFloat64(), math.Float64frombits(r.Uint64()&^(0x7ff<<52)))
		b := make([]byte, r.IntN(5))
		for i := range b {
			b[i] = byte(r.IntN(3)) * 127
		}
		strs = append(strs, b)
	}
	tail := []byte("zz")
	check(t, ints, cmp.Compare[int64], func(v int64) []byte { return AppendInt64(nil, v) }, TakeInt64)
	check(t, floats, cmp.Compare[float64], func(v float64) []byte { return AppendFloat64(nil, v) }, TakeFloat64)
	check(t, strs, bytes.Compare, func(v []byte) []byte { return append(AppendBytes(nil, v), tail...) }, TakeBytes)
	if bytes.Compare(AppendNull(nil), AppendInt64(nil, math.MinInt64)) >= 0 ||
		bytes.Compare(AppendNull(nil), AppendBytes(nil, nil)) >= 0 {
		t.Error("NULL does not sort first")
	}
}

func check[T any](t *testing.T, vals []T, order func(a, b T) int, enc func(T) []byte, dec func([]byte) (T, []byte, error)) {
	t.Helper()
	for _, a := range vals {
		got, _, err := dec(enc(a))
		if err != nil || order(got, a) != 0 {
			t.Fatalf("%v decodes to %v, %v", a, got, err)
		}
		for _, b := range vals {
			if sign(bytes.Compare(enc(a), enc(b))) != sign(order(a, b)) {
				t.Fatalf("%v and %v: encodings %x, %x", a, b, enc(a), enc(b))
			}
		}
	}
}

func sign(n int) int { return cmp.Compare(n, 0) }

func FuzzTakeBytes(f *testing.F) {
	f.Add(AppendBytes(nil, []byte("a\x00b")))
	f.Fuzz(func(t *testing.T, in []byte) {
		v, rest, err := TakeBytes(in)
		if err == nil && !bytes.Equal(append(AppendBytes(nil, v), rest...), in) {
			t.Errorf("%x decodes to %x with rest %x", in, v, rest)
		}
	})
}

func TestErrorKinds(t *testing.T) {
	err := fmt.Errorf("commit: %w", Errorf(CodeAborted, "lost to an older transaction"))
	if CodeOf(err) != CodeAborted || !Retryable(err) {
		t.Errorf("%v", err)
	}
	if Retryable(errors.New("x")) || Retryable(Errorf(CodeAmbiguous, "x")) || Retryable(nil) {
		t.Error("retryable")
	}
}
