package placed

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
)

// lacking is a cluster that never has what is waited for.
type lacking struct{ Cluster }

func (lacking) Lacks(context.Context, *base.Topology, []base.GroupID) string { return "a leader" }

// TestKilledWhileShardsAreMade: who waits for new shards is told what is missing when the time for
// it is up, and that it was interrupted when it was killed.
func TestKilledWhileShardsAreMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := func(base.ShardID) bool { return true }
		late, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if lacks, err := usable(late, lacking{}, &base.Topology{}, all); lacks != "a leader" || err != nil {
			t.Errorf("in time: %q, %v", lacks, err)
		}
		killed, kill := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, kill)
		if lacks, err := usable(killed, lacking{}, &base.Topology{}, all); base.CodeOf(err) != base.CodeCanceled {
			t.Errorf("killed: %q, %v", lacks, err)
		}
	})
}
