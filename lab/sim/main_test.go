package sim

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"
)

// TestMain collects garbage less often, and uses one processor. A run makes much garbage and keeps
// little, and the collector took a third of its time. Its goroutines wake each other in turn, so
// that a second processor adds switches, which took a fifth.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}

// long reports whether the tests run at full length, as 'make soak' has them: with all seeds and
// cases, where 'make test' has a few of each kind.
func long() bool { return os.Getenv("GODWIT_LONG") != "" }

// some is a number of seeds or a step between cases: one for 'make test', one for full length.
func some(test, soak int) int {
	if long() {
		return soak
	}
	return test
}

// seeds are those of 'make test' and, at full length, the others.
func seeds(test []uint64, soak ...uint64) []uint64 {
	if long() {
		return append(test, soak...)
	}
	return test
}
