package group

import (
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
)

// TestBatching: messages of several groups for a node of another region travel together, or one by
// one.
func TestBatching(t *testing.T) {
	virtual(t, 1, func(t *testing.T) {
		c := newCluster(t, 1, 3, wan.NetOptions{WAN: wan.LinkSpec{Delay: 10 * time.Millisecond}}, HostOptions{})
		defer c.close()
		for i := range base.ShardID(8) {
			g := base.DataGroup(i+1, 1)
			c.groups[g], c.preferred[g] = c.all(), 1
		}
		c.startAll()
		h := c.nodes[1].host
		c.until("node 1 leads", func() bool {
			for _, g := range h.Groups() {
				if _, ok := g.Leads(); !ok {
					return false
				}
			}
			return true
		})
		// What is sent in a while of heartbeats.
		count := func() (batches, messages int64) {
			before := h.Stats()
			time.Sleep(5 * time.Second)
			after := h.Stats()
			return after.Batches - before.Batches, after.Messages - before.Messages
		}
		if b, m := count(); m == 0 || b*4 > m {
			t.Errorf("%d messages in %d batches", m, b)
		}
		h.SetBatching(false)
		if b, m := count(); m == 0 || b != m {
			t.Errorf("batching off: %d messages in %d batches", m, b)
		}
		h.SetBatching(true)
		if b, m := count(); m == 0 || b*4 > m {
			t.Errorf("batching on again: %d messages in %d batches", m, b)
		}
	})
}
