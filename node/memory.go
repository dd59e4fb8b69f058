package node

import (
	"math"
	"os"
	"runtime/debug"
)

const (
	// gcPercent of a real node: most of its memory is cache and memtables, which the collector need
	// not visit for every doubling.
	gcPercent = 200
	// minGarbage of a small heap is what may gather before it is collected, at most, and as a share
	// of the machine's memory: a node whose tables are small would collect several times a second
	// under load.
	minGarbage      = 256 << 20
	minGarbageShare = 64
	// minCacheMB is what the cache of a node has at least, if nothing is said, and cacheShare what
	// it has of the machine's memory.
	minCacheMB = 256
	cacheShare = 16
)

// ballast is never touched, so it takes no memory, but the collector reckons with it.
var ballast []byte

// tuneGC sets the garbage collector, unless the environment (GOGC, GOMEMLIMIT) does. Near the end
// of the machine's memory it collects more often instead.
func tuneGC() {
	m := machineMemory()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
		if ballast == nil {
			ballast = make([]byte, min(m/minGarbageShare, minGarbage)*100/gcPercent)
		}
	}
	if os.Getenv("GOMEMLIMIT") == "" && debug.SetMemoryLimit(-1) == math.MaxInt64 && m > 0 {
		debug.SetMemoryLimit(m / 4 * 3)
	}
}

// defaultCacheMB is the size of a node's cache if nothing is said.
func defaultCacheMB() int { return max(minCacheMB, int(machineMemory()/cacheShare>>20)) }
