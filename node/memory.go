package node

import (
	"math"
	"os"
	"runtime/debug"
)

// gcPercent of a real node: most of its memory is cache and memtables, which the collector need not
// visit for every doubling.
const gcPercent = 200

// tuneGC sets the garbage collector, unless the environment (GOGC, GOMEMLIMIT) does. Near the end of
// the machine's memory it collects more often instead.
func tuneGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" && debug.SetMemoryLimit(-1) == math.MaxInt64 {
		if m := machineMemory(); m > 0 {
			debug.SetMemoryLimit(m / 4 * 3)
		}
	}
}
