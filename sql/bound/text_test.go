package bound

import (
	"strings"
	"testing"
	"time"
)

// FuzzText: of any text the kind is known, and for how long it may run.
func FuzzText(f *testing.F) {
	for _, q := range []string{"", "SELECT /*+ MAX_EXECUTION_TIME(5) */ 1", "(((", "/* x", "/**//**/ with", "\t select"} {
		f.Add(q, int64(0))
	}
	f.Fuzz(func(t *testing.T, q string, ms int64) {
		if k := Kind(q); len(k) > 64 || strings.ContainsAny(k, " (;") {
			t.Errorf("%q is of kind %q", q, k)
		}
		if d := MaxTime(max(0, ms%1e9), q); d < 0 || d > time.Duration(1<<32)*time.Millisecond {
			t.Errorf("%q may run for %v", q, d)
		}
	})
}
