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

// TestRowCacheIsNeverBehind: what was acknowledged before a reader was made is what it finds, or
// something newer, while writers, evictions and other readers that fill the cache run beside it.
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
		for j, r := range st.rows {
			sum += r.size()
			if st.at[r.hash] != uint32(j) {
				t.Fatalf("stripe %d: row %d is looked for at %d", i, j, st.at[r.hash])
			}
		}
		if sum != st.bytes || sum > s.rows.max || len(st.rows) != len(st.at) || len(st.rows) == 0 {
			t.Fatalf("stripe %d: %d rows of %d bytes, counted as %d, of at most %d", i, len(st.rows), sum, st.bytes, s.rows.max)
		}
	}
}

// TestRowCacheKeepsRowsApart: keys with the same hash are not taken for each other.
func TestRowCacheKeepsRowsApart(t *testing.T) {
	c := newRowCache(1<<20, func() uint64 { return 1 })
	a, b := rowVersion(userKey(1, 1, "a"), 1, 3), rowVersion(userKey(1, 1, "b"), 2, 4)
	c.add(&a, 1)
	s, hash := c.stripe(a.Key)
	s.mu.Unlock()
	if _, ok := c.get(a.Key); !ok {
		t.Fatal("a is not found")
	}
	// As if b had the hash of a.
	if s.find(b.Key, hash) != nil {
		t.Error("b is found where a is")
	}
}

// TestRowCacheGivesCopies: what was read stays as it was when the row changes in place.
func TestRowCacheGivesCopies(t *testing.T) {
	c := newRowCache(1<<20, func() uint64 { return 1 })
	k := userKey(1, 1, "k")
	old, next := rowVersion(k, 1, 8), rowVersion(k, 2, 8)
	for i := range next.Value {
		old.Value[i], next.Value[i] = 1, 2
	}
	c.add(&old, 1)
	got, _ := c.get(k)
	c.put(&next)
	if got.TS != 1 || got.Value[0] != 1 {
		t.Errorf("version 1 became %v", got)
	}
	if got, ok := c.get(k); !ok || got.TS != 2 || got.Value[7] != 2 || len(got.Value) != 8 {
		t.Errorf("version 2 is %v", got)
	}
}
