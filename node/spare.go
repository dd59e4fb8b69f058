package node

import (
	"os"
	"runtime"
	"sync"
)

// spare lets the scheduler run one thread more than there are processors while statements wait for
// them in some node of this process. Package admit says why.
type spare struct {
	mu    sync.Mutex
	nodes int // in which statements wait
	usual int // threads
}

var spareThread spare

// crowded is told when statements begin to wait in a node, and when none do any more.
func (s *spare) crowded(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if yes {
		if s.nodes++; s.nodes == 1 {
			s.usual = runtime.GOMAXPROCS(0)
			runtime.GOMAXPROCS(s.usual + 1)
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
