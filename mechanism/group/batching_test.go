package group

import (
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/wire"
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

// TestLightRun: an entry that settles a piece is applied by itself, also with all that an entry may
// carry besides.
func TestLightRun(t *testing.T) {
	entry := func(c *wire.Command) *pb.Entry {
		data, err := c.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		return &pb.Entry{Data: data}
	}
	full := &wire.Command{Ts: 1 << 62, Closed: 1 << 62, Proposal: 1 << 60, Lease: &wire.Lease{Holder: 1 << 31, End: 1 << 62,
		LengthNs: 1 << 40, Virtual: true}, Ended: &wire.Lease{Holder: 1 << 31, End: 1 << 62, LengthNs: 1 << 40},
		Settle: &wire.Settle{Txn: make([]byte, 16), Ts: 1 << 62, Piece: 1 << 31}}
	for range 16 {
		full.Vector = append(full.Vector, &wire.GroupIndex{Region: 15, Index: 1 << 62})
	}
	light, heavy := entry(&wire.Command{Refuse: make([]byte, 16)}), entry(full)
	short := entry(&wire.Command{Settle: &wire.Settle{Txn: make([]byte, 16), Ts: 1, Piece: 1}})
	own, conf := &pb.Entry{}, &pb.Entry{Data: short.Data, Type: pb.EntryConfChangeV2.Enum()}
	for i, c := range []struct {
		ents []*pb.Entry
		want int
	}{
		{[]*pb.Entry{light, own, conf, light}, 4},
		{[]*pb.Entry{light, heavy, light}, 1},
		{[]*pb.Entry{heavy, light, heavy}, 1},
		{[]*pb.Entry{own, light, short, short}, 2},
	} {
		if got := lightRun(c.ents); got != c.want {
			t.Errorf("case %d: %d entries, want %d", i, got, c.want)
		}
	}
}
