package exec

import "testing"

// TestAppendDoubling: a list of many rows is copied once for each doubling.
func TestAppendDoubling(t *testing.T) {
	var list []int
	copies, last := 0, 0
	for i := range 1 << 20 {
		if list = AppendDoubling(list, i); cap(list) != last {
			copies, last = copies+1, cap(list)
		}
	}
	if len(list) != 1<<20 || list[12345] != 12345 || copies > 21 {
		t.Errorf("%d values, copied %d times", len(list), copies)
	}
}
