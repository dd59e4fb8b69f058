package multimaster

import (
	"context"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/base/basetest"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/policy/epoch"
	"github.com/godwitdb/godwit/policy/filter"
	"github.com/godwitdb/godwit/wire"
)

// scripted is a transport on which every call has the same answer.
type scripted struct {
	wan.Transport
	answer []byte
}

func (s scripted) Call(_ context.Context, _ base.NodeID, _ wire.Kind, _, a wan.Msg) error {
	return a.UnmarshalVT(s.answer)
}

// lone is an engine whose peers are bytes; it is sealed in a view of others.
func lone(t *testing.T, answer []byte) (*Engine, func()) {
	st, err := store.Open(store.Options{Dir: "db", FS: store.Memory(), Simulation: true})
	if err != nil {
		t.Fatal(err)
	}
	net := wan.NewNetwork(wan.NetOptions{})
	e, err := New(Config{Self: 3, Store: st, Transport: scripted{net.Join(3, 1), answer}, Registry: &Memory{},
		Voters: func() []base.NodeID { return []base.NodeID{1, 2, 3} },
		Ask:    10 * time.Millisecond, Suspect: 10 * time.Millisecond})
	if err == nil {
		err = e.adopt(&epoch.View{Number: 1, Start: 1, Members: []base.NodeID{1, 2}, Voters: []base.NodeID{1, 2, 3}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return e, func() {
		e.Close()
		_, _ = st.Close(), net.Close() // both are thrown away
	}
}

// Steps of view changes, pings and answers come from other nodes: whatever they are, nothing
// breaks, and nothing of them gets among the rows of other tables.
func FuzzControl(f *testing.F) {
	next := (&epoch.View{Number: 2, Start: 5, Members: []base.NodeID{1, 2}, Voters: []base.NodeID{1}}).Encode()
	for step := range uint32(8) {
		f.Add(basetest.Encode(f, &wire.EpochControl{Step: step, View: 1, Install: next, After: 1<<64 - 1,
			To: 1<<64 - 1, Holder: 2, At: 1, From: []byte{0}}))
		f.Add(basetest.Encode(f, &wire.EpochControl{Step: step, View: 2, Install: []byte(`{"number":2}`)}))
	}
	whole := filter.Encode(&filter.Batch{Txns: []filter.Txn{{ID: base.MakeTxnID(1, 1, 1),
		Writes: []filter.Write{{Key: string(key(1)), Value: []byte("v")}}}}})
	meta := filter.Encode(&filter.Batch{Txns: []filter.Txn{{ID: base.MakeTxnID(1, 1, 1),
		Writes: []filter.Write{{Key: "\x00\x00k", Value: []byte("v")}}}}})
	digest := make([]byte, 32)
	for _, a := range []*wire.EpochAnswer{
		{View: 1, Held: 4, Merged: 4, Digest: []byte{1}, StateNeeded: true}, // a short digest
		{View: 1, Held: 4, Merged: 4, Digest: digest, StateNeeded: true,
			Rows: []*wire.EpochRow{{Key: key(1), Epoch: 3, Value: []byte("v")}}},
		{View: 1, Held: 4, Merged: 4, Digest: digest, StateNeeded: true, Rows: []*wire.EpochRow{{Key: key(1), Epoch: 9}}},
		{View: 1, Held: 4, Merged: 4, Digest: digest, StateNeeded: true,
			Rows: []*wire.EpochRow{{Key: []byte{0, 0, 1}, Epoch: 3}}},
		{View: 1, Held: 4, Merged: 4, Digest: digest, StateNeeded: true,
			Rows: []*wire.EpochRow{{Key: key(1), Epoch: 3}}, Next: key(9)},
		{View: 1, Held: 4, Merged: 4, Digest: digest, StateNeeded: true, Next: []byte{1}},
		{View: 1, Held: 4, Merged: 4, Records: []*wire.EpochRecord{{Epoch: 2, View: 1, Batches: [][]byte{whole}}, {Epoch: 2}}},
		{View: 1, Held: 4, Merged: 4, Records: []*wire.EpochRecord{{Epoch: 9, View: 1, Batches: [][]byte{whole}}}},
		{View: 1, Held: 4, Merged: 4, Records: []*wire.EpochRecord{{Epoch: 2, View: 1, Batches: [][]byte{meta}}}},
		{View: 1, Held: 4, Merged: 4, Records: []*wire.EpochRecord{{Epoch: 2, View: 1, Batches: [][]byte{whole[1:]}}}},
		{View: 1, Held: 4, Merged: 2, Records: []*wire.EpochRecord{{Epoch: 2, View: 1, Batches: [][]byte{whole}}}},
		{View: 9, Sealed: true, Held: 1<<64 - 1, Merged: 1<<64 - 1, Installed: []byte(`{"number":9}`)},
	} {
		f.Add(basetest.Encode(f, a))
	}
	f.Add(basetest.Encode(f, &wire.EpochPing{View: 1 << 63, Begun: 1 << 63, Held: 1 << 63, Ask: true}))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, stop := lone(t, data)
		defer stop()
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		e.onPing(1, data)
		_, _ = e.onControl(ctx, 1, data)
		v, _ := e.View()
		_ = e.follow(ctx, &v)
		_ = e.replace(ctx, &v, "a test")
		for _, s := range []base.ShardID{base.MetaShard, 1} {
			if err := e.cfg.Store.EachVersion(s, func(v *store.Version) error {
				return base.Errorf(base.CodeCorrupt, "%s is there", v.Key)
			}); err != nil {
				t.Error(err)
			}
		}
	})
}
