package node

import (
	"runtime"
	"testing"
)

// TestSpareThread: there is one thread more while some node is crowded, and no more than one.
func TestSpareThread(t *testing.T) {
	t.Setenv("GOMAXPROCS", "set") // so that the number of before is what comes back
	usual := runtime.GOMAXPROCS(0)
	var s spare
	for i, step := range []struct {
		crowded bool
		want    int
	}{{true, usual + 1}, {true, usual + 1}, {false, usual + 1}, {false, usual}, {true, usual + 1}, {false, usual}} {
		s.crowded(step.crowded)
		if n := runtime.GOMAXPROCS(0); n != step.want {
			t.Errorf("step %d: %d threads, want %d", i, n, step.want)
		}
	}
}
