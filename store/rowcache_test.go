package store

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/godwitdb/godwit/base"
)

func rowVersion(k base.Key, n uint64, value int) Version {
	return Version{Key: k, TS: base.Timestamp(n), Value: make([]byte, value), Writer: base.GroupIndex{Region: 1, Index: n}}
}

// TestRowCacheIsNeverBehind: what was acknowledged before a reader was made is what it finds, or something newer,
// while writers, evictions and other readers that fill the cache run beside it.
func TestRowCacheIsNeverBehind(t *testing.T) {
	s := openMem(t)
	defer s.Close()
	s.rows = newRowCache(rowStripes*8*4*rowOverhead, s.idle.gen.Load) // a few rows a stripe
	const keys, steps = 200, 3000
	key := func(i int) base.Key { return userKey(1, 1, fmt.Sprint(i)) }
	var acked [keys]atomic.Uint64
	var index atomic.Uint64
	var locks [keys]sync.Mutex
	var work sync.WaitGroup
	for range 3 {
		work.Go(func() {
			for range steps {
				i := rand.IntN(keys)
				if rand.IntN(4) == 0 {
					i = rand.IntN(4)
				}
				locks[i].Lock()
				n := index.Add(1)
				commit(t, s, false, func(b *Batch) { b.PutVersion(rowVersion(key(i), n, rand.IntN(50))) })
				acked[i].Store(n)
				locks[i].Unlock()
			}
		})
		work.Go(func() {
			for range 2 * steps {
				i := rand.IntN(keys)
				if rand.IntN(2) == 0 {
					i = rand.IntN(4)
				}
				least := acked[i].Load()
				r := s.NewPointReader()
				v, ok, err := r.Newest(key(i))
				r.Close()
				if err != nil || ok != (v.TS > 0) || uint64(v.TS) < least {
					t.Errorf("Newest(%d) = %d (%v), but %d was committed before", i, v.TS, err, least)
					return
				}
			}
		})
	}
	work.Wait()
	hits := 0
	for i := range keys {
		r := s.NewPointReader()
		v, _, err := r.Newest(key(i))
		if r.view == nil {
			hits++
		}
		r.Close()
		if err != nil || uint64(v.TS) != acked[i].Load() {
			t.Fatalf("Newest(%d) = %d (%v), want %d", i, v.TS, err, acked[i].Load())
		}
	}
	if hits == 0 {
		t.Error("no row was found in the cache")
	}
}

func TestRowCacheForgetsWhatIsRemoved(t *testing.T) {
	a, b := openMem(t), openMem(t)
	defer a.Close()
	defer b.Close()
	k := userKey(1, 1, "k")
	newest := func(s *Store) base.Timestamp {
		r := s.NewPointReader()
		defer r.Close()
		v, _, err := r.Newest(k)
		must(t, err)
		return v.TS
	}
	expect := func(what string, s *Store, want base.Timestamp) {
		t.Helper()
		for range 2 { // read into the cache, and from it
			if got := newest(s); got != want {
				t.Fatalf("%s: the newest version is %d, want %d", what, got, want)
			}
		}
	}
	for _, s := range []*Store{a, b} {
		commit(t, s, false, func(b *Batch) { b.PutVersion(rowVersion(k, 5, 3)); b.SetApplied(base.DataGroup(1, 1), 5) })
		expect("put", s, 5)
	}
	commit(t, a, false, func(b *Batch) {
		v := rowVersion(k, 7, 0)
		v.Tombstone = true
		b.PutVersion(v)
		b.PutVersion(rowVersion(k, 6, 2)) // another group's log comes later
		b.SetApplied(base.DataGroup(1, 1), 7)
	})
	expect("tombstone", a, 7)
	transfer(t, a, b)
	expect("import", b, 7)
	commit(t, a, false, func(b *Batch) { must(t, b.CollectKeys([]base.Key{k}, 7)) })
	expect("collect", a, 0)
	must(t, b.ClearShard(1))
	expect("clear", b, 0)
}

func TestRowCacheIsBounded(t *testing.T) {
	s := openMem(t)
	defer s.Close()
	for i := range 10_000 {
		k := userKey(1, 1, fmt.Sprint(i))
		commit(t, s, false, func(b *Batch) { b.PutVersion(rowVersion(k, uint64(i+1), 100)) })
		r := s.NewPointReader()
		_, _, err := r.Newest(k)
		must(t, err)
		r.Close()
	}
	for i := range s.rows.stripes {
		st := &s.rows.stripes[i]
		sum := 0
		for _, e := range st.ring {
			sum += e.size()
		}
		if sum != st.bytes || sum > s.rows.max || len(st.ring) != len(st.at) || len(st.ring) == 0 {
			t.Fatalf("stripe %d: %d entries of %d bytes, counted as %d, of at most %d", i, len(st.ring), sum, st.bytes, s.rows.max)
		}
	}
}
