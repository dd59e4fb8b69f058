package geococo

import (
	"context"
	"io"
	"math"
	"testing"
	"time"

	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/policy/matrix"
)

// A majority of five needs the two nearest others. Place 0's second nearest is 2: 60 ms away, and
// 40 ms over 1.
func TestQuorumGain(t *testing.T) {
	const ms = time.Millisecond
	m := &matrix.Matrix{Names: []string{"0", "1", "2", "3", "4"}, RTT: make([][]time.Duration, 5)}
	for i := range m.RTT {
		m.RTT[i] = make([]time.Duration, 5)
		for j := range m.RTT[i] {
			if i != j {
				m.RTT[i][j] = 200 * ms
			}
		}
	}
	set := func(i, j int, d time.Duration) { m.RTT[i][j], m.RTT[j][i] = d, d }
	set(0, 1, 20*ms)
	set(1, 2, 20*ms)
	set(0, 2, 60*ms)
	// Places 0 and 2 gain a third each. Place 1 has a majority at 20 ms, and 3 and 4 are far from
	// all.
	gain, most := quorumGain(m)
	if math.Abs(most-1./3) > 1e-9 || math.Abs(gain-2./15) > 1e-9 {
		t.Errorf("gain %v, most %v", gain, most)
	}
}

// TestRaftPath runs Figure 11b in virtual time: with relays, no workload gets slower, and the one
// that writes gets faster.
func TestRaftPath(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	b := &geococo{rig.Params{Quick: true, Log: io.Discard}}
	lines, err := b.raft(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, l := range lines {
		if l.Metric != "throughput" {
			continue
		}
		seen++
		if r := l.Value / *l.Baseline; r < 0.97 || l.X == "YCSB A" && r < 1.1 {
			t.Errorf("%v: %.0f txn/s with relays, %.0f without", l.X, l.Value, *l.Baseline)
		}
	}
	if seen != 4 {
		t.Errorf("%d workloads", seen)
	}
}
