package store

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/godwitdb/godwit/base"
)

func entries(from, to, term uint64, size int) (es []*pb.Entry) {
	for i := from; i <= to; i++ {
		es = append(es, &pb.Entry{Term: new(term), Index: new(i), Type: pb.EntryNormal.Enum(),
			Data: fmt.Appendf(make([]byte, 0, size), "%0*d", size, i)})
	}
	return es
}

func hard(term, vote, commit uint64) *pb.HardState {
	return &pb.HardState{Term: new(term), Vote: new(vote), Commit: new(commit)}
}

// checkLog compares the log with raft's own in-memory one.
func checkLog(t *testing.T, l *Log, m *raft.MemoryStorage, rng *rand.Rand) {
	t.Helper()
	f1, err := l.FirstIndex()
	must(t, err)
	f2, _ := m.FirstIndex()
	l1, err := l.LastIndex()
	must(t, err)
	l2, _ := m.LastIndex()
	if f1 != f2 || l1 != l2 {
		t.Fatalf("log spans [%d,%d], want [%d,%d]", f1, l1, f2, l2)
	}
	for i := f1 - min(f1, 2); i <= l1+1; i++ {
		t1, e1 := l.Term(i)
		t2, e2 := m.Term(i)
		if t1 != t2 || !errors.Is(e1, e2) {
			t.Fatalf("Term(%d) = %d, %v; want %d, %v", i, t1, e1, t2, e2)
		}
	}
	for range 5 {
		if l1 < f1 {
			break
		}
		lo := f1 + rng.Uint64N(l1-f1+1)
		hi := lo + 1 + rng.Uint64N(l1-lo+1)
		es1, err := l.Entries(lo, hi, math.MaxUint64)
		must(t, err)
		es2, err := m.Entries(lo, hi, math.MaxUint64)
		must(t, err)
		if len(es1) != len(es2) {
			t.Fatalf("Entries(%d,%d): %d, want %d", lo, hi, len(es1), len(es2))
		}
		for i := range es1 {
			if !proto.Equal(es1[i], es2[i]) {
				t.Fatalf("entry %v, want %v", es1[i], es2[i])
			}
		}
		if es, err := l.Entries(lo, hi, 1); err != nil || len(es) != 1 {
			t.Fatalf("Entries with a small limit: %d, %v", len(es), err)
		}
	}
}

func TestLogAgainstMemoryStorage(t *testing.T) {
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 7))
		fs := vfs.NewMem()
		open := func() *Store {
			s, err := Open(Options{Dir: "db", FS: fs, Simulation: true, Logger: quiet(), LogCacheKB: 1})
			must(t, err)
			return s
		}
		s := open()
		g := base.DataGroup(3, 2)
		l, err := s.Log(g)
		must(t, err)
		m := raft.NewMemoryStorage()
		term := uint64(1)
		for step := range 200 {
			first, _ := m.FirstIndex()
			last, _ := m.LastIndex()
			commit(t, s, true, func(b *Batch) {
				switch n := rng.IntN(12); {
				case n < 7: // append at the end, or over a conflicting tail
					from := last + 1
					if n < 2 && last > first {
						from = first + rng.Uint64N(last-first+1)
					}
					term += rng.Uint64N(2)
					es := entries(from, from+rng.Uint64N(8), term, rng.IntN(300))
					hs := hard(term, 1, 0)
					must(t, l.Append(b, hs, es))
					must(t, m.Append(es))
					must(t, m.SetHardState(hs))
				case n < 9 && last >= first: // truncate
					to := first + rng.Uint64N(last-first+1)
					hs := hard(term, 1, last)
					must(t, l.Append(b, hs, nil))
					must(t, m.SetHardState(hs))
					must(t, l.TruncateTo(b, to))
					b.SetApplied(g, to)
					must(t, m.Compact(to))
				case n == 9 && step%5 == 0:
					cs := &pb.ConfState{Voters: []uint64{1, 2, uint64(step)}}
					at := last + rng.Uint64N(50) + 1
					must(t, l.ResetToSnapshot(b, at, term, cs))
					b.SetApplied(g, at)
					must(t, m.ApplySnapshot(&pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(at),
						Term: new(term), ConfState: cs}}))
				}
			})
			if rng.IntN(8) == 0 {
				must(t, s.Close())
				s = open()
				l, err = s.Log(g)
				must(t, err)
			}
			checkLog(t, l, m, rng)
			_, cs1, err := l.InitialState()
			must(t, err)
			_, cs2, _ := m.InitialState()
			if err := cs1.Equivalent(cs2); err != nil {
				t.Fatal(err)
			}
		}
		// What memory says of sizes is what a scan finds.
		size := l.Bytes()
		must(t, s.Close())
		s = open()
		l, err = s.Log(g)
		must(t, err)
		if l.Bytes() != size {
			t.Fatalf("size %d after reopening, %d before", l.Bytes(), size)
		}
		must(t, s.Close())
	}
}

func TestLogRefuses(t *testing.T) {
	s := openMem(t)
	defer s.Close()
	g := base.DataGroup(1, 1)
	l, err := s.Log(g)
	must(t, err)
	commit(t, s, true, func(b *Batch) { must(t, l.Append(b, hard(2, 1, 3), entries(1, 5, 2, 10))) })
	b := s.NewBatch()
	for name, err := range map[string]error{
		"gap":            l.Append(b, nil, entries(7, 8, 2, 10)),
		"lower term":     l.Append(b, nil, entries(6, 6, 1, 10)),
		"uncommitted":    l.TruncateTo(b, 4),
		"beyond the end": l.TruncateTo(b, 9),
		"index 0":        l.Append(b, nil, entries(0, 1, 2, 10)),
	} {
		if base.CodeOf(err) != base.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.Close()
	if _, err := l.Entries(1, 6, math.MaxUint64); err != nil {
		t.Errorf("a refused change must leave the log usable: %v", err)
	}
	b = s.NewBatch()
	must(t, l.Append(b, nil, entries(6, 6, 2, 10)))
	b.Close()
	if _, err := l.LastIndex(); err == nil {
		t.Error("a log whose batch was dropped must refuse to go on")
	}
}

func TestLogHole(t *testing.T) {
	fs := vfs.NewMem()
	s := openFS(t, fs)
	g := base.DataGroup(1, 1)
	l, err := s.Log(g)
	must(t, err)
	commit(t, s, true, func(b *Batch) { must(t, l.Append(b, hard(2, 1, 3), entries(1, 5, 2, 10))) })
	commit(t, s, true, func(b *Batch) { b.del(logKey(g, 3)) })
	must(t, s.Close())
	s = openFS(t, fs)
	defer s.Close()
	_, err = s.Log(g)
	if base.CodeOf(err) != base.CodeCorrupt {
		t.Fatalf("a log with a hole: %v", err)
	}
	t.Log(err)
	if s.Err() == nil {
		t.Error("Err must remember it")
	}
}
