package collective

import (
	"context"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/base/basetest"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/policy/plan"
	"github.com/godwitdb/godwit/wire"
)

// Messages and questions come from other nodes: whatever they are, nothing breaks.
func FuzzReceive(f *testing.F) {
	part := &wire.CollectivePart{Origin: 1, Slices: 1, Body: []byte("b")}
	for _, m := range []*wire.CollectiveMsg{
		{Comm: 1, Round: 1, Op: uint32(allGather), Done: 1 << 60, Parts: []*wire.CollectivePart{part}},
		{Comm: 1, Round: 1, Op: uint32(allGather),
			Parts: []*wire.CollectivePart{{Origin: 2, Slice: 1, Slices: 2, Dest: 9, Needs: []uint32{1 << 31}}}},
		{Comm: 1, Round: 1, Op: uint32(allReduce), Parts: []*wire.CollectivePart{{Slices: 1, Set: []uint32{1, 2}},
			{Slices: 1, Set: []uint32{2, 1}}, {Slices: 1, Set: []uint32{7}}}},
		{Comm: 1, Round: 1, Op: uint32(allToAll), Parts: []*wire.CollectivePart{{Origin: 1, Slices: 1, Dest: 1},
			{Origin: 1, Slices: 1}}},
		{Comm: 1, Round: 1 << 63, Op: uint32(broadcast), Root: 2, Parts: []*wire.CollectivePart{part}},
		{Comm: 1, Round: 1, Op: 77, Root: 1 << 31},
		{Comm: 2, Round: 1, Op: uint32(gather)},
	} {
		f.Add(basetest.Encode(f, &wire.CollectiveFrame{From: 2, Body: basetest.Encode(f, m)}), byte(allGather))
		f.Add(basetest.Encode(f, &wire.CollectiveFrame{From: 2, Body: basetest.Encode(f, m)}), byte(m.Op))
	}
	f.Add(basetest.Encode(f, &wire.CollectiveFrame{From: 9, Route: []uint32{1, 2, 3}}), byte(0))
	f.Add(basetest.Encode(f, &wire.CollectiveWant{Comm: 1, Round: 1, Op: uint32(allGather),
		Origins: []uint32{0, 1, 99}, Lost: true, ForNode: 3}), byte(1))
	f.Add(basetest.Encode(f, &wire.CollectiveWant{Comm: 1, Round: 1, Op: 55, ForNode: 1 << 31}), byte(1))
	f.Add([]byte{0xff, 0xff}, byte(2))
	f.Fuzz(func(t *testing.T, data []byte, kind byte) {
		net := wan.NewNetwork(wan.NetOptions{})
		defer net.Close()
		tr := net.Join(1, 1)
		s := New(tr)
		c, err := s.Join(1, []base.NodeID{1, 2, 3}, Options{Grace: time.Millisecond, Makespan: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetPlan(&plan.Plan{Groups: []plan.Group{{Members: []int{0, 1}, Aggregators: []int{0}},
			{Members: []int{2}, Aggregators: []int{2}}}, Of: []int{0, 0, 1}}, 0); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		defer cancel()
		s.receive(2, data)
		_, _ = s.want(ctx, 2, data)
		own := [][]byte{[]byte("a"), []byte("b"), []byte("c")}
		switch op(kind) { // nobody answers
		case allToAll:
			_, _ = c.AllToAll(ctx, 1, own)
		case gather:
			_, _ = c.Gather(ctx, 1, 1, own[0])
		case broadcast:
			_, _ = c.Broadcast(ctx, 1, 1, own[0])
		case allReduce:
			_, _ = c.AllReduce(ctx, 1, own[0], func(a, b []byte) []byte { return append(a, b...) })
		default:
			_, _ = c.AllGather(ctx, 1, own[0])
		}
		s.receive(2, data)
	})
}
