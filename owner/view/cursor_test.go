package view

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
)

// TestCursor compares the cursor with Locate: sections with and without homes in their keys, rows
// of several groups, tombstones, several versions, keys that are dense, sparse and absent.
func TestCursor(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 17))
		st, err := store.Open(store.Options{Dir: "db", FS: store.Memory(), Simulation: true})
		if err != nil {
			t.Fatal(err)
		}
		keys := cursorKeys(r)
		fillCursor(t, st, r, keys)
		askCursor(t, st, r, keys, seed)
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func cursorKeys(r *rand.Rand) (keys []base.Key) {
	for _, section := range []base.Key{base.IndexPrefix(1, 7<<20, 0, 0), base.IndexPrefix(1, 7<<20, base.ByHome|2, 2),
		base.IndexPrefix(2, 7<<20, base.ByHome|2, 3), base.IndexPrefix(2, 8<<20, 0, 0)} {
		for range 20 + r.IntN(400) {
			keys = append(keys, base.AppendUint64(section.Clone(), r.Uint64N(600)))
		}
	}
	slices.SortFunc(keys, base.Key.Compare)
	return slices.CompactFunc(keys, func(a, b base.Key) bool { return a.Compare(b) == 0 })
}

func fillCursor(t *testing.T, st *store.Store, r *rand.Rand, keys []base.Key) {
	b := st.NewBatch()
	defer b.Close()
	share := 1 + r.IntN(9) // of ten keys
	for i, k := range keys {
		if r.IntN(10) >= share {
			continue
		}
		for ts := range 1 + r.IntN(2)*r.IntN(7) {
			w := base.GroupIndex{Region: base.RegionID(1 + r.IntN(3)), Index: uint64(i + 1)}
			b.PutVersion(store.Version{Key: k, TS: base.Timestamp(10*ts + 5), Tombstone: r.IntN(3) == 0,
				Label: base.MakeLabel(base.RegionID(1+r.IntN(3)), w.Region, w.Index), Value: []byte("v"), Writer: w})
		}
	}
	if err := b.Commit(false); err != nil {
		t.Fatal(err)
	}
}

func askCursor(t *testing.T, st *store.Store, r *rand.Rand, keys []base.Key, seed uint64) {
	rd, plain := st.NewPointReader(), st.NewReader()
	defer rd.Close()
	defer plain.Close()
	c := NewCursor(rd)
	defer c.Close()
	if r.IntN(2) == 0 {
		c.steps = r.IntN(20) // it gives up on the way
	}
	stride := 1 + r.IntN(1+r.IntN(30))
	for i := r.IntN(len(keys)); i < len(keys); i += stride {
		got, err := c.Locate(keys[i])
		if err != nil {
			t.Fatal(err)
		}
		want, err := Locate(plain, keys[i])
		if err != nil {
			t.Fatal(err)
		}
		got.V.Value, want.V.Value = nil, nil
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: the place of %v is %+v, want %+v", seed, keys[i], got, want)
		}
	}
}
