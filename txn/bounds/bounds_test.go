package bounds

import (
	"slices"
	"testing"

	"github.com/godwitdb/godwit/base"
)

// The least slot of each group counts, until a timestamp has passed it.
func TestBounds(t *testing.T) {
	var b Bounds
	passed := func(ts base.Timestamp, want ...base.GroupID) {
		t.Helper()
		got := b.Passed(ts)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("at %d passed are %v, not %v", ts, got, want)
		}
	}
	passed(100)
	b.Add(1, 0)
	passed(base.MaxTimestamp)
	b.Add(1, 20)
	b.Add(1, 10)
	b.Add(1, 30)
	b.Add(2, 15)
	b.Add(3, 40)
	passed(0)
	passed(9)
	passed(15, 1, 2)
	passed(30)
	b.Add(1, 30)
	b.Clear()
	passed(100)
	b.Add(2, 40)
	passed(40, 2)
	passed(base.MaxTimestamp)
}
