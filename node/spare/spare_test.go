package spare

import "testing"

// TestWithSpare: while statements wait there is a thread that waits for the network, and the
// collector works in threads of its own.
func TestWithSpare(t *testing.T) {
	for processors, want := range map[int]int{1: 2, 2: 4, 3: 4, 4: 5, 5: 7, 6: 7, 7: 8, 8: 9, 16: 17, 64: 65} {
		if got := withSpare(processors); got != want {
			t.Errorf("%d processors: %d threads, not %d", processors, got, want)
		}
	}
}
