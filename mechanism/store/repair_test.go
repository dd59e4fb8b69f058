package store

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/godwitdb/godwit/base"
)

// damagedStore is an open store of two shards whose tables get damaged. It has cached nothing.
func damagedStore(t *testing.T, rows uint64) (s *Store, dir string) {
	t.Helper()
	dir = t.TempDir()
	s, err := Open(Options{Dir: dir, Simulation: true, Logger: quiet(), CacheMB: 1})
	must(t, err)
	fillTwoShards(t, s, rows, hard(3, 2, rows))
	must(t, s.SetLocal("identity", []byte("cluster/node"), true))
	must(t, s.Flush())
	must(t, s.Close())
	s, err = Open(Options{Dir: dir, Simulation: true, Logger: quiet(), CacheMB: 1})
	must(t, err)
	for _, shard := range []base.ShardID{1, 2} {
		_, err := s.Log(base.DataGroup(shard, 1))
		must(t, err)
	}
	return s, dir
}

func fillTwoShards(t *testing.T, s *Store, rows uint64, hs *pb.HardState) {
	t.Helper()
	for _, shard := range []base.ShardID{1, 2} {
		g := base.DataGroup(shard, 1)
		l, err := s.Log(g)
		must(t, err)
		commit(t, s, true, func(b *Batch) {
			must(t, l.Append(b, hs, entries(1, rows, 3, 50)))
			must(t, l.SetConfState(b, &pb.ConfState{Voters: []uint64{1, 2, 3}}))
		})
		commit(t, s, true, func(b *Batch) {
			for i := uint64(1); i <= rows; i++ {
				b.PutVersion(Version{Key: shardKey(shard, i), TS: base.Timestamp(i), Value: bytes.Repeat([]byte{byte(i)}, 100),
					Writer: base.GroupIndex{Region: 1, Index: i}})
			}
			b.SetApplied(g, rows)
		})
	}
}

func shardKey(shard base.ShardID, i uint64) base.Key {
	return base.AppendUint64(userKey(shard, 1, ""), i)
}

// fetch brings a shard from another store.
func fetch(t *testing.T, from, to *Store, shard base.ShardID, at ...GroupAt) error {
	t.Helper()
	e, err := from.ExportShard(shard)
	must(t, err)
	defer e.Close()
	i, err := to.ImportShard(shard)
	must(t, err)
	must(t, e.Chunks(20_000, i.Add))
	return i.Restore(at)
}

// rowsOf reads all rows of a shard, and checks each.
func rowsOf(s *Store, shard base.ShardID) (n uint64, err error) {
	r := s.NewReader()
	defer r.Close()
	it := r.Iter(base.Span{Start: userKey(shard, 1, ""), End: userKey(shard, 2, "")}, base.MaxTimestamp, IterOptions{})
	defer it.Close()
	for it.Next() {
		n++
		if v := it.Version(); !bytes.Equal(v.Value, bytes.Repeat([]byte{byte(v.TS)}, 100)) {
			return n, fmt.Errorf("row %d has a wrong value", v.TS)
		}
	}
	return n, it.Err()
}

// flipEvery flips a bit in each so many bytes of each table.
func flipEvery(t *testing.T, dir string, from, every int) {
	t.Helper()
	for _, path := range files(t, dir, "*.sst") {
		b, err := os.ReadFile(path)
		must(t, err)
		for at := from; at < len(b); at += every {
			b[at] ^= 0x10
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0) // the store has it open
		must(t, err)
		_, err = f.Write(b)
		must(t, err)
		must(t, f.Close())
	}
}

// TestRepair: tables are damaged while a store is open, at one place after the other, and at all
// places. A survey says what is lost; quarantined, it cannot be read; what is fetched from another
// store makes it whole, with the promises that were kept, and nothing damaged is left.
func TestRepair(t *testing.T) {
	const rows = 2000
	src := openMem(t)
	fillTwoShards(t, src, rows+10, hard(4, 1, rows+10))
	size := 0
	{
		_, dir := damagedStore(t, rows)
		for _, f := range files(t, dir, "*.sst") {
			st, err := os.Stat(f)
			must(t, err)
			size = max(size, int(st.Size()))
		}
	}
	hit := map[base.ShardID]bool{}
	local := false
	for _, at := range []int{100, size / 6, size / 4, size / 3, size / 2, 3 * size / 4, size - 100, -1} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			s, dir := damagedStore(t, rows)
			if at < 0 {
				flipEvery(t, dir, 500, 1000)
			} else {
				flipEvery(t, dir, at, 1<<40)
			}
			v, err := s.Survey()
			must(t, err)
			if v.Empty() || len(v.Files) != 1 || v.Epochs && at >= 0 {
				t.Fatalf("the survey finds %+v", v)
			}
			local = local || v.Local
			must(t, s.Quarantine(v))
			wanted := s.Wanted()
			for _, w := range wanted {
				if w.Shard == base.EpochShard {
					continue
				}
				hit[w.Shard] = true
				g := base.DataGroup(w.Shard, 1)
				if w.Least[g] != rows || len(w.Least) != 1 {
					t.Errorf("of shard %d %v is wanted", w.Shard, w.Least)
				}
				if _, err := rowsOf(s, w.Shard); base.CodeOf(err) != base.CodeUnavailable {
					t.Errorf("a read of what is lost: %v", err)
				}
				if _, err := s.ExportShard(w.Shard); base.CodeOf(err) != base.CodeUnavailable {
					t.Errorf("a copy of what is lost: %v", err)
				}
				at := GroupAt{Group: g, Index: rows - 1, Term: 3, Conf: &pb.ConfState{Voters: []uint64{1, 2, 3}}}
				if err := fetch(t, src, s, w.Shard, at); base.CodeOf(err) != base.CodeUnavailable {
					t.Errorf("a copy that lacks what was acknowledged: %v", err)
				}
				at.Index = rows + 10
				must(t, fetch(t, src, s, w.Shard, at))
			}
			check := func() {
				t.Helper()
				must(t, s.Verify())
				must(t, s.Err())
				for _, shard := range []base.ShardID{1, 2} {
					want := uint64(rows)
					if hit[shard] && s.repaired(t, shard, rows) {
						want += 10
					}
					n, err := rowsOf(s, shard)
					must(t, err)
					if n != want {
						t.Errorf("shard %d has %d rows, want %d", shard, n, want)
					}
				}
				if b, ok, err := s.GetLocal("identity"); err != nil || !ok || string(b) != "cluster/node" {
					t.Errorf("the identity is %q, %v", b, err)
				}
			}
			check()
			must(t, s.Close())
			s, err = Open(Options{Dir: dir, Simulation: true, Logger: quiet()})
			must(t, err)
			defer s.Close()
			check()
			if err := s.Compact(); err != nil {
				t.Errorf("what is left cannot be compacted: %v", err)
			}
			check()
		})
	}
	if !hit[1] || !hit[2] || !local {
		t.Errorf("the places are badly chosen: shards %v, local %v", hit, local)
	}
}

// repaired reports whether a shard's group begins at the copy's end, and checks its promises.
func (s *Store) repaired(t *testing.T, shard base.ShardID, rows uint64) bool {
	t.Helper()
	l, err := s.Log(base.DataGroup(shard, 1))
	must(t, err)
	first, err := l.FirstIndex()
	must(t, err)
	hs, cs, err := l.InitialState()
	must(t, err)
	if hs.GetTerm() != 3 || hs.GetVote() != 2 || len(cs.GetVoters()) != 3 {
		t.Errorf("shard %d: the hard state is %v, the membership %v", shard, hs, cs)
	}
	if why, err := s.Suspicion(base.DataGroup(shard, 1)); err != nil || why != "" {
		t.Errorf("shard %d is suspect: %s, %v", shard, why, err)
	}
	return first == rows+11
}

// TestRepairAtOpen: the records of groups are damaged while the store is closed. It opens, wants
// the shard, also after another restart, and the group whose promises nobody knows is suspect in
// the end.
func TestRepairAtOpen(t *testing.T) {
	const rows = 2000
	src := openMem(t)
	fillTwoShards(t, src, rows, hard(3, 1, rows))
	var s *Store
	var dir string
	var err error
	for at := 4000; ; at += 2000 { // the logs begin behind the node's own records
		s, dir = damagedStore(t, rows)
		must(t, s.Close())
		flipEvery(t, dir, at, 1<<40)
		if s, err = Open(Options{Dir: dir, Simulation: true, Logger: quiet()}); err != nil {
			continue // the node's own records: without them it cannot be opened
		}
		fetching := s.Fetching(1)
		if at > 20_000 {
			t.Fatal("no place is found")
		}
		must(t, s.Close())
		if fetching {
			break
		}
	}
	for range 2 {
		if s, err = Open(Options{Dir: dir, Simulation: true, Logger: quiet()}); err != nil {
			t.Fatal(err)
		}
		if !s.Fetching(1) {
			t.Fatalf("shard 1 is not wanted: %+v", s.Wanted())
		}
		must(t, s.Close())
	}
	s, err = Open(Options{Dir: dir, Simulation: true, Logger: quiet()})
	must(t, err)
	defer s.Close()
	g := base.DataGroup(1, 1)
	must(t, fetch(t, src, s, 1, GroupAt{Group: g, Index: rows, Term: 3, Conf: &pb.ConfState{Voters: []uint64{1, 2, 3}}}))
	if n, err := rowsOf(s, 1); err != nil || n != rows {
		t.Errorf("%d rows: %v", n, err)
	}
	if why, err := s.Suspicion(g); err != nil || why == "" {
		t.Errorf("a group whose promises are lost is not suspect: %v", err)
	}
}
