package base_test

import (
	"testing"

	"github.com/godwitdb/godwit/base"
)

// TestSpansAheadShareNoKey: what is asked for in one step covers the same keys, each once. A row
// comes with one span of an answer, so another one that overlaps would seem to be without it.
func TestSpansAheadShareNoKey(t *testing.T) {
	key := func(s string) base.Key { return base.Key("prefix-of-a-key-" + s) }
	span := func(a, b string) base.Span { return base.Span{Start: key(a), End: key(b)} }
	in := []base.Span{span("c", "f"), span("a", "z"), base.PointSpan(key("d")), span("x", "zz"), base.PointSpan(key("zzz")), span("a", "b")}
	out := base.Disjoint(in)
	if len(out) != 2 {
		t.Fatalf("%v", out)
	}
	for i, s := range out {
		for _, o := range out[:i] {
			if s.Overlaps(o) {
				t.Errorf("%v and %v overlap", s, o)
			}
		}
	}
	for k, want := range map[string]bool{"a": true, "d": true, "y": true, "zy": true, "zzz": true, "zzy": false, "Z": false} {
		got := false
		for _, s := range out {
			got = got || s.Contains(key(k))
		}
		if got != want {
			t.Errorf("%s: %v", k, got)
		}
	}
}
