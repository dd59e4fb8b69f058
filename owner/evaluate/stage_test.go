package evaluate

import (
	"fmt"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// TestCover: a piece locks one range in each section, up to the end of the gaps that it gives away;
// and so do reads of a transaction with many locks, in any order.
func TestCover(t *testing.T) {
	key := func(index base.IndexID, name string) base.Key {
		return append(base.IndexPrefix(1, base.MakeTableID(7, 1), index, 0), name...)
	}
	var ws []*wire.Write
	for _, k := range []base.Key{key(0, "b"), key(0, "d"), key(1, "x")} {
		ws = append(ws, &wire.Write{Key: k})
	}
	got := Cover(ws, []base.Span{{Start: key(0, "d"), End: key(0, "f")}})
	want := []base.Span{{Start: key(0, "b"), End: key(0, "f")}, {Start: key(1, "x"), End: key(1, "x").Next()}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	got = Ranges([]base.Span{{Start: key(0, "d")}, {Start: key(1, "x")}, {Start: key(0, "b"), End: key(0, "c")}, {Start: key(0, "a")}})
	want = []base.Span{{Start: key(0, "a"), End: key(0, "d").Next()}, {Start: key(1, "x")}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}
