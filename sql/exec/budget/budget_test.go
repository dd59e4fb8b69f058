package budget

import (
	"strings"
	"testing"
)

// TestMemSparesSome: statements that keep much leave some of the node's memory to those that keep
// little, and say whose limit it is that they meet.
func TestMemSparesSome(t *testing.T) {
	const mib = 1 << 20
	all := NewMem(nil, 32*mib)
	large := [4]*Mem{}
	for i := range large {
		large[i] = NewMem(all, 10*mib)
	}
	got := int64(0)
	var err error
	for i := range large {
		for err = nil; err == nil; got += mib / 4 {
			err = large[i].Grow(mib / 4)
		}
		got -= mib / 4
		if want := []string{"the statement needs more than its limit of 10485760 bytes",
			"the statements of this node together need more than their limit of 33554432 bytes"}[i/3]; !strings.Contains(err.Error(), want) {
			t.Errorf("statement %d: %v, want %q", i, err, want)
		}
	}
	// Three leave a sixteenth, and the fourth takes of that what any statement may.
	if want := int64(31 * mib); got != want || all.Used() != want {
		t.Errorf("large ones keep %d, in all %d, want %d", got, all.Used(), want)
	}
	for range 4 {
		if err := NewMem(all, 10*mib).Grow(mib / 4); err != nil {
			t.Errorf("a small statement: %v", err)
		}
	}
	if err := NewMem(all, 10*mib).Grow(1); err == nil {
		t.Error("more than the limit of all")
	}
	for _, m := range large {
		m.Release()
	}
	if all.Used() != mib {
		t.Errorf("%d bytes are left, want those of the small ones", all.Used())
	}
}
