package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// TestVigilBites: nothing is cut, no node is sick, and yet of all ordered messages only heartbeats
// arrive for a while, so no log grows. The run must be found to violate the invariant, and not
// without that.
func TestVigilBites(t *testing.T) {
	for _, silent := range []bool{false, true} {
		cfg := Pick(14)
		cfg.Lively = true
		cfg.play = func(w *world) {
			spy := func(_, _ base.NodeID, kind wire.Kind, _ []byte) bool { return silent && kind != wire.KindHeartbeat }
			w.spy.Store(&spy)
			time.Sleep(wholeBound + 2*time.Second)
			w.spy.Store(nil)
		}
		var o *Outcome
		bubble(t, cfg.Seed, func(*testing.T) { o = Run(cfg) })
		if found := o.Err != nil && strings.Contains(o.Err.Error(),
			fmt.Sprintf("not written for %s though a majority is whole", wholeBound)); found != silent {
			t.Errorf("without logs %v: %v", silent, o.Err)
		}
	}
}
