package session

import (
	"testing"

	"github.com/godwitdb/godwit/base"
)

// TestHomesOfRows: what was noted last counts, a change as well, and a copy stands alone.
func TestHomesOfRows(t *testing.T) {
	var h homes
	want := func(h *homes, key string, home base.RegionID, known bool) {
		t.Helper()
		if got, ok := h.of(base.Key(key)); got != home || ok != known {
			t.Errorf("home of %s is %d, %v, want %d, %v", key, got, ok, home, known)
		}
	}
	want(&h, "a", 0, false)
	h.note(base.Key("a"), 1)
	h.note(base.Key("bb"), 2)
	h.note(base.Key("a"), 3)
	want(&h, "a", 3, true)
	want(&h, "bb", 2, true)
	want(&h, "b", 0, false)
	h.set(base.Key("a"), 4)
	c := h.clone()
	h.note(base.Key("bb"), 0)
	want(&h, "a", 4, true)
	want(&h, "bb", 0, true)
	want(&c, "a", 4, true)
	want(&c, "bb", 2, true)
}
