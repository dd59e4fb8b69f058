package store

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/godwitdb/godwit/base"
)

// TestConcurrent: two groups apply, a collector and a merge run beside them, and readers
// always find all rows of a batch or none (each batch moves one unit between two
// rows of its group), at the newest and at an old timestamp.
func TestConcurrent(t *testing.T) {
	s, err := Open(Options{Dir: t.TempDir(), Logger: quiet(), MemTableMB: 1, NoSync: true})
	must(t, err)
	defer s.Close()
	groups := []base.GroupID{base.DataGroup(1, 1), base.DataGroup(1, 2)}
	const rows, total, steps = 4, 100, 800
	key := func(g base.GroupID, i int) base.Key {
		return userKey(1, uint64(g.Region()), string(rune('a'+i)))
	}
	var clock, safe atomic.Uint64
	var work, readers sync.WaitGroup
	var done atomic.Bool
	put := func(b *Batch, g base.GroupID, i int, ts base.Timestamp, v byte, index uint64) {
		b.PutVersion(Version{Key: key(g, i), TS: ts, Value: []byte{v}, Writer: base.GroupIndex{Region: g.Region(), Index: index}})
	}
	for _, g := range groups {
		ts := base.Timestamp(clock.Add(1))
		commit(t, s, false, func(b *Batch) {
			for i := range rows {
				put(b, g, i, ts, total/rows, 1)
			}
			b.SetApplied(g, 1)
		})
	}
	safe.Store(clock.Load())
	for _, g := range groups {
		work.Go(func() {
			vals := [rows]byte{total / rows, total / rows, total / rows, total / rows}
			for index := uint64(2); index < steps; index++ {
				from, to := rand.IntN(rows), rand.IntN(rows)
				if from == to || vals[from] == 0 {
					continue
				}
				vals[from]--
				vals[to]++
				ts := base.Timestamp(clock.Add(1))
				commit(t, s, index%50 == 0, func(b *Batch) {
					put(b, g, from, ts, vals[from], index)
					put(b, g, to, ts, vals[to], index)
					b.SetApplied(g, index)
				})
			}
		})
	}
	work.Go(func() {
		for range 30 {
			// Everything that existed two commits per group ago is applied: enough for a threshold.
			below := base.Timestamp(safe.Load())
			safe.Store(clock.Load() - min(clock.Load()-1, 4))
			for next := base.Key(nil); ; {
				_, more, err := s.CollectVersions(1, below, next, 100)
				must(t, err)
				if next = more; next == nil {
					break
				}
			}
		}
	})
	work.Go(func() {
		for range 10 { // a snapshot of itself changes nothing
			transfer(t, s, s)
		}
	})
	for range 2 {
		readers.Go(func() {
			for !done.Load() {
				r := s.NewReader()
				for _, g := range groups {
					sum := 0
					span := base.Span{Start: userKey(1, uint64(g.Region()), ""), End: userKey(1, uint64(g.Region())+1, "")}
					it := r.Iter(span, base.MaxTimestamp, IterOptions{Reverse: rand.IntN(2) == 0})
					for it.Next() {
						sum += int(it.Version().Value[0])
					}
					if err := it.Err(); err != nil || sum != total {
						t.Errorf("group %s: rows add up to %d (%v)", g, sum, err)
					}
					it.Close()
				}
				r.Close()
			}
		})
	}
	work.Wait()
	done.Store(true)
	readers.Wait()
}
