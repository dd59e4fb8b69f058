package overlay

import (
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/base/basetest"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/wire"
)

// Parcels, notices and bundles come from other nodes: whatever they are, and in whatever order,
// nothing breaks.
func FuzzReceive(f *testing.F) {
	const parcel, notice, bundle = 0, 1, 2
	raft := uint32(wire.KindRaft)
	begin := basetest.Encode(f, &wire.ParcelNotice{What: noticeBegin, Boot: 1, Stint: 1})
	f.Add(byte(notice), begin, byte(parcel), basetest.Encode(f,
		&wire.Parcel{Origin: 2, To: 1, Boot: 1, Stint: 1, Seq: 2, Kind: raft, Body: []byte("x")}))
	// was counted up to
	f.Add(byte(notice), begin, byte(notice), basetest.Encode(f,
		&wire.ParcelNotice{What: noticeResent, Boot: 1, Stint: 1, Seq: 1 << 63, Kind: raft}))
	f.Add(byte(parcel), basetest.Encode(f, &wire.Parcel{Origin: 2, To: 1, Boot: 1, Stint: 1, Seq: 1 << 63,
		Kind: raft}), byte(notice), begin)
	f.Add(byte(parcel), basetest.Encode(f, &wire.Parcel{Origin: 2, To: 1, Lane: 77}), byte(notice),
		basetest.Encode(f, &wire.ParcelNotice{What: noticeEcho, Lane: 1 << 31, Node: 1 << 31}))
	f.Add(byte(parcel), basetest.Encode(f, &wire.Parcel{Origin: 2, To: 3, Stint: 1, Kind: raft}), byte(parcel),
		basetest.Encode(f, &wire.Parcel{Origin: 1, To: 1, Kind: 1<<32 - 1}))
	for what := range uint32(9) {
		f.Add(byte(notice), basetest.Encode(f, &wire.ParcelNotice{What: what, Lane: 1, Stint: 1 << 63, Seq: 1 << 63,
			Node: 2, Kind: raft}), byte(notice), basetest.Encode(f, &wire.ParcelNotice{What: what, Boot: 3}))
	}
	f.Add(byte(bundle), basetest.Encode(f, &wire.RaftBundle{Runs: [][]byte{[]byte("run")},
		Shares: []*wire.RaftShare{{To: 1}, {To: 2,
			Batch: &wire.RaftBatch{Groups: []uint32{1}, Messages: [][]byte{{1}, {2}}}, Runs: []uint32{9, 1}},
			{To: 1, Batch: &wire.RaftBatch{}, Runs: []uint32{1}}}}), byte(bundle), []byte{0xff})
	f.Fuzz(func(t *testing.T, kind1 byte, data1 []byte, kind2 byte, data2 []byte) {
		net := wan.NewNetwork(wan.NetOptions{})
		defer net.Close()
		o := New(Options{Transport: net.Join(1, 1), Nodes: func() []base.NodeID {
			return []base.NodeID{1, 2, 3}
		}, RTT: func(a, b base.NodeID) time.Duration { return time.Millisecond }})
		defer o.Close()
		o.SetPeer(2, "", 2)
		o.HandleOrdered(wire.KindRaft, func(base.NodeID, []byte) {})
		o.SetParams(Params{Relay: true, FanOut: true})
		for _, m := range []struct {
			kind byte
			data []byte
		}{{kind1, data1}, {kind2, data2}, {kind1, data1}} {
			switch m.kind % 3 {
			case parcel:
				o.gotParcel(2, m.data)
			case notice:
				o.onNotice(2, m.data)
			case bundle:
				o.gotBundle(2, m.data)
			}
		}
	})
}
