// Package spare gives the Go scheduler more threads than there are processors while statements
// wait.
package spare

import (
	"os"
	"runtime"
	"sync"
)

// threads lets the scheduler run more threads than there are processors while statements wait for
// them in some node of this process. Package admit says why.
type threads struct {
	mu    sync.Mutex
	nodes int // in which statements wait
	usual int // of threads
}

var all threads

// Crowded is told when statements begin to wait in a node, and when none do any more.
func Crowded(yes bool) {
	s := &all
	s.mu.Lock()
	defer s.mu.Unlock()
	if yes {
		if s.nodes++; s.nodes == 1 {
			s.usual = runtime.GOMAXPROCS(0)
			runtime.GOMAXPROCS(withSpare(s.usual))
		}
		return
	}
	if s.nodes--; s.nodes > 0 {
		return
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.SetDefaultGOMAXPROCS() // it follows the limits of a container again
	} else {
		runtime.GOMAXPROCS(s.usual)
	}
}

// withSpare is how many threads there are then, for a number of processors: one more at least, and
// so many that the collector's quarter is whole threads, or nearly. Else it takes its part from all
// of them, for 5 to 12 ms at a time, and what has just come from the network waits for that. One
// processor would need three more: it gets one.
func withSpare(processors int) int {
	n := processors + 1
	// As runtime.(*gcControllerState).startCycle decides.
	for ; processors > 1; n++ {
		whole := (n + 2) / 4
		if off := 4*whole - n; whole > 0 && 10*max(off, -off) <= 3*n {
			break
		}
	}
	return n
}
