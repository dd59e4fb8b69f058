package store

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/godwitdb/godwit/base"
)

const benchRows = 200_000

// benchStore is on disk, compacted, with rows of 200 bytes; every tenth row has five versions.
func benchStore(b *testing.B) *Store {
	b.Helper()
	s, err := Open(Options{Dir: b.TempDir(), Logger: quiet()})
	must(b, err)
	val := make([]byte, 200)
	for i := uint64(0); i < benchRows; {
		commit(b, s, false, func(w *Batch) {
			for range 1000 {
				n := base.Timestamp(1)
				if i%10 == 0 {
					n = 5
				}
				for ts := base.Timestamp(1); ts <= n; ts++ {
					w.PutVersion(Version{Key: crashKey(i), TS: ts * 10, Value: val,
						Writer: base.GroupIndex{Region: 1, Index: i + 1}})
				}
				i++
			}
		})
	}
	must(b, s.Flush())
	must(b, s.Compact())
	return s
}

// BenchmarkRead: one reader per operation, as a statement does. "busy" commits
// a version before every read, so that no iterator can be reused.
func BenchmarkRead(b *testing.B) {
	s := benchStore(b)
	defer s.Close()
	index := uint64(benchRows)
	touch := func() {
		index++
		w := s.NewBatch()
		w.PutVersion(Version{Key: userKey(1, 7, "x"), TS: base.Timestamp(index),
			Writer: base.GroupIndex{Region: 1, Index: index}})
		must(b, w.Commit(false))
		w.Close()
	}
	key := func() base.Key { return crashKey(rand.Uint64N(benchRows)) }
	ops := map[string]func(r *Reader) bool{
		"Get":  func(r *Reader) bool { _, ok, _ := r.Newest(key()); return ok },
		"Miss": func(r *Reader) bool { _, ok, _ := r.Newest(append(key(), 1)); return !ok },
		"Pred": func(r *Reader) bool { _, ok, _ := r.Pred(append(key(), 1)); return ok },
	}
	for _, reverse := range []bool{false, true} {
		ops[fmt.Sprintf("Scan100/reverse=%v", reverse)] = func(r *Reader) bool {
			at := rand.Uint64N(benchRows - 100)
			it := r.Iter(base.Span{Start: crashKey(at), End: crashKey(at + 100)}, base.MaxTimestamp,
				IterOptions{Reverse: reverse})
			defer it.Close()
			n := 0
			for it.Next() {
				n++
			}
			return n == 100
		}
	}
	for name, op := range ops {
		for _, busy := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/busy=%v", name, busy), func(b *testing.B) {
				b.ReportAllocs()
				for range b.N {
					if busy {
						b.StopTimer()
						touch()
						b.StartTimer()
					}
					r := s.NewReader()
					if !op(r) {
						b.Fatal("wrong answer")
					}
					r.Close()
				}
			})
		}
	}
}

// BenchmarkAppend: one raft entry of 300 bytes per synced commit, from 1 and 32 groups at once.
func BenchmarkAppend(b *testing.B) {
	for _, groups := range []int{1, 32} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			s, err := Open(Options{Dir: b.TempDir(), Logger: quiet()})
			must(b, err)
			defer s.Close()
			b.ReportAllocs()
			c0 := cpu()
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			for g := range groups {
				l, err := s.Log(base.DataGroup(base.ShardID(g+1), 1))
				must(b, err)
				wg.Add(1)
				go func() {
					defer wg.Done()
					data := make([]byte, 300)
					for i := uint64(1); left.Add(-1) >= 0; i++ {
						w := s.NewBatch()
						e := &pb.Entry{Term: new(uint64(1)), Index: new(i), Data: data}
						if err := l.Append(w, hard(1, 1, i-1), []*pb.Entry{e}); err != nil {
							panic(err)
						}
						if err := w.Commit(true); err != nil {
							panic(err)
						}
						w.Close()
					}
				}()
			}
			wg.Wait()
			b.ReportMetric(float64((cpu()-c0).Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
}

func cpu() time.Duration {
	var ru syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &ru)
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

// BenchmarkPut: applying one row of 200 bytes per unsynced commit.
func BenchmarkPut(b *testing.B) {
	s, err := Open(Options{Dir: b.TempDir(), Logger: quiet()})
	must(b, err)
	defer s.Close()
	val := make([]byte, 200)
	b.ReportAllocs()
	for i := range b.N {
		w := s.NewBatch()
		w.PutVersion(Version{Key: crashKey(uint64(i)), TS: base.Timestamp(i + 1), Value: val,
			Writer: base.GroupIndex{Region: 1, Index: uint64(i + 1)}})
		w.SetApplied(base.DataGroup(1, 1), uint64(i+1))
		must(b, w.Commit(false))
		w.Close()
	}
}
