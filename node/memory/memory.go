// Package memory says how much memory a node may take by default, and sets the garbage collector.
package memory

import (
	"math"
	"os"
	"runtime/debug"
)

const (
	// gcPercent is GOGC of a real node. Most of its memory is cache and memtables, which the
	// collector need not visit at every doubling.
	gcPercent = 200
	// minGarbage is how much garbage may gather in a small heap before a collection. On a machine
	// with little memory it is one part in minGarbageShare of the memory. Without it a node with
	// small tables would collect several times a second under load.
	minGarbage      = 256 << 20
	minGarbageShare = 64
	// minCacheMB is the least default size of a node's cache, and cacheShare the part of the
	// machine's memory that it takes by default.
	minCacheMB = 256
	cacheShare = 16
	// minSQLMemoryMB and sqlMemoryShare are the same of what statements may keep in memory.
	minSQLMemoryMB = 256
	sqlMemoryShare = 4
)

// ballast is never touched, so it takes no memory, but the collector counts it into the heap.
var ballast []byte

// TuneGC sets the garbage collector, unless the environment (GOGC, GOMEMLIMIT) does. Near the end
// of the machine's memory it collects more often instead.
func TuneGC() {
	m := ofMachine()
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

// CacheMB is the default size of a node's cache.
func CacheMB() int { return max(minCacheMB, int(ofMachine()/cacheShare>>20)) }

// SQLMemoryMB is the default of what all statements of a node may keep in memory.
func SQLMemoryMB() int { return max(minSQLMemoryMB, int(ofMachine()/sqlMemoryShare>>20)) }
