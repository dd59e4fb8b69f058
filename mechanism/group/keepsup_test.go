package group

import (
	"testing"

	"go.etcd.io/raft/v3/tracker"
)

// A hand-over begins when the target has what it can have at its distance: what the log had some
// heartbeats ago. However fast the log grows, a follower that only lags by its distance is not kept
// from leading; one that is further behind catches up first.
func TestKeepsUp(t *testing.T) {
	for name, c := range map[string]struct {
		past  [4]uint64 // the newest first
		match uint64
		want  bool
	}{
		"a new leader":               {[4]uint64{}, 0, true},
		"idle":                       {[4]uint64{90, 90, 90, 90}, 90, true},
		"a few entries behind":       {[4]uint64{90, 90, 90, 90}, 1, true},
		"a busy log, a far follower": {[4]uint64{40_000, 30_000, 20_000, 10_000}, 10_100, true},
		"back after a pause":         {[4]uint64{40_000, 30_000, 20_000, 10_000}, 9000, false},
		"just behind":                {[4]uint64{4000, 3000, 2000, 1000}, 1000 - lagAllowed - 1, false},
		"just not":                   {[4]uint64{4000, 3000, 2000, 1000}, 1000 - lagAllowed, true},
	} {
		g := &Group{}
		g.past = c.past
		if got := g.keepsUp(tracker.Progress{Match: c.match}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
