package sim

import (
	"testing"
	"time"
)

// TestSlowNodeIsLeft: a node that takes 64 ms for each message that arrives falls further and
// further behind, while its ticks, its disk and its heartbeats are as ever. Rows that it leads are
// written again within the bound of all whole majorities, because it finds itself late and hands
// its leads over.
func TestSlowNodeIsLeft(t *testing.T) {
	nodes := 1
	if long() {
		nodes = 3
	}
	for slow := range nodes {
		cfg := Pick(14)
		cfg.Regions, cfg.NodesPerRegion, cfg.Lively, cfg.Faults = 3, 1, true, 0
		d := 15 * time.Millisecond
		cfg.Delay = [][]time.Duration{{0, d, d}, {d, 0, d}, {d, d, 0}}
		cfg.play = func(w *world) {
			w.hosts[slow].slow.Store(int64(64 * time.Millisecond))
			w.faults.Add(1)
			time.Sleep(20 * time.Second)
			w.hosts[slow].slow.Store(0)
			w.faults.Add(1)
		}
		var o *Outcome
		bubble(t, cfg.Seed, func(*testing.T) { o = Run(cfg) })
		if o.Err != nil {
			t.Errorf("node %d is slow: %v\nhistory and journal: %s", slow+1, o.Err, save(t, o))
		}
		t.Logf("node %d is slow: paused %v, served %v, latency %v", slow+1, o.Paused, o.Served, o.Latency)
	}
}
