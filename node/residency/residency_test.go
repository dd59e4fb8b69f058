package residency

import (
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/base/basetest"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/policy/placement"
	"github.com/godwitdb/godwit/wire"
)

// TestAudit: what lies in a store and may not is found, whatever kind of record it is, and nothing
// else is.
func TestAudit(t *testing.T) {
	topo := basetest.Topology(2, 1, 1, 1)
	topo.Placements = []base.Placement{{ID: 1, Name: "eu", Regions: []base.RegionID{1, 2}}}
	topo = placement.Place(topo)
	if err := topo.Validate(); err != nil {
		t.Fatal(err)
	}
	placed := base.ShardID(base.PlacementID(1).ShardBefore(topo.Shards) + 2)
	key := func(s base.ShardID) base.Key {
		return base.AppendInt64(base.IndexPrefix(s, base.MakeTableID(100, 1), 0, 0), 7)
	}
	for _, c := range []struct {
		name string
		fill func(t *testing.T, s *store.Store, b *store.Batch)
		want string // at node 3, which is outside; at node 1 nothing is found
	}{
		{"nothing", func(*testing.T, *store.Store, *store.Batch) {}, ""},
		{"a row of an ordinary table", func(_ *testing.T, _ *store.Store, b *store.Batch) {
			b.PutVersion(store.Version{Key: key(1), TS: 10, Writer: base.GroupIndex{Region: 1, Index: 1}, Value: []byte("v")})
		}, ""},
		{"a row", func(_ *testing.T, _ *store.Store, b *store.Batch) {
			b.PutVersion(store.Version{Key: key(placed), TS: 10, Writer: base.GroupIndex{Region: 1, Index: 1}, Value: []byte("v")})
		}, "version"},
		{"a transaction's record", func(_ *testing.T, _ *store.Store, b *store.Batch) {
			b.SetTxn(base.DataGroup(placed, 1), base.MakeTxnID(1, 1, 1), []byte{1})
		}, "transaction"},
		{"a log that names a key", func(t *testing.T, s *store.Store, b *store.Batch) {
			cmd := &wire.Command{Commit: &wire.TxnCommit{Writes: []*wire.Write{{Key: key(placed)}}}}
			data, err := cmd.MarshalVT()
			if err != nil {
				t.Fatal(err)
			}
			l, err := s.Log(base.DataGroup(1, 1))
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Append(b, nil, []*pb.Entry{{Index: new(uint64(1)), Term: new(uint64(1)), Data: data}}); err != nil {
				t.Fatal(err)
			}
		}, "log"},
		{"a row whose columns name the placement", func(_ *testing.T, _ *store.Store, b *store.Batch) {
			b.PutVersion(store.Version{Key: key(2), TS: 10, Writer: base.GroupIndex{Region: 1, Index: 1}, Value: []byte("DE")})
		}, "misplaced row"},
		{"a text", func(_ *testing.T, _ *store.Store, b *store.Batch) {
			b.PutVersion(store.Version{Key: key(1), TS: 10, Writer: base.GroupIndex{Region: 1, Index: 1}, Value: []byte("a canary flew")})
		}, "version with the text"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := store.Open(store.Options{Dir: "db", FS: vfs.NewMem(), Simulation: true})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			b := s.NewBatch()
			defer b.Close()
			c.fill(t, s, b)
			if err := b.Commit(true); err != nil {
				t.Fatal(err)
			}
			for node, want := range map[base.NodeID]string{1: "", 3: c.want} {
				r, err := Audit(t.Context(), s, &topo, node, Request{Find: "canary", Placement: "eu",
					Belongs: func(_ base.Key, row []byte) base.ShardID {
						if string(row) == "DE" {
							return placed
						}
						return 0
					}})
				if err != nil {
					t.Fatal(err)
				}
				found := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.What == want })
				if (want == "") != (len(r.Findings) == 0) || want != "" && found < 0 {
					t.Errorf("at node %d: %v, want %q", node, r.Findings, want)
				}
			}
		})
	}
	if _, err := Audit(t.Context(), nil, &topo, 1, Request{Find: "x", Placement: "us"}); err == nil ||
		!strings.Contains(err.Error(), "there is no placement") {
		t.Error(err)
	}
}
