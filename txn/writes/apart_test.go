package writes

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

func rowKey(shard, n int) base.Key {
	return base.AppendUint64(base.IndexPrefix(base.ShardID(shard), 9<<20, 0, 0), uint64(n))
}

// TestApart: random writes, of which some are taken in between. Each is taken or left to the end,
// once, and those that are taken come in rising order.
func TestApart(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 8))
		b := Buffer{}
		if seed%2 == 0 {
			b.SpillAt = 2000
		}
		defer b.Close()
		var indexes []base.IndexID
		if seed%3 > 0 {
			indexes = []base.IndexID{1}
		}
		b.Apart(9<<20, indexes, false)
		last := map[string]string{} // what was written last, by key
		taken := map[string]string{}
		at := [3]int{}
		take := func() {
			ws := b.Take(10)
			for i, w := range ws {
				if i > 0 && w.Key.Shard() == ws[i-1].Key.Shard() && w.Key.Compare(ws[i-1].Key) <= 0 {
					t.Fatalf("seed %d: %v is taken behind %v", seed, w.Key, ws[i-1].Key)
				}
				if _, twice := taken[string(w.Key)]; twice {
					t.Fatalf("seed %d: %v is taken twice", seed, w.Key)
				}
				taken[string(w.Key)] = string(w.Val)
			}
		}
		for i := range 300 {
			s := 1 + r.IntN(2)
			k := rowKey(s, at[s]+r.IntN(3)) // mostly rising
			if r.IntN(10) == 0 {
				k = rowKey(s, r.IntN(1+at[s]))
			}
			if r.IntN(4) == 0 {
				k = base.AppendUint64(base.IndexPrefix(base.ShardID(s), 9<<20, 1, 0), uint64(i*7919%1000))
			}
			at[s]++
			old := b.Old(k)
			if _, gone := taken[string(k)]; gone != old.Taken() {
				t.Fatalf("seed %d: %v is taken: %v, and told to be: %v", seed, k, gone, old.Taken())
			}
			if old.Taken() {
				continue
			}
			if want, ok := last[string(k)]; ok != (old != nil) || ok && string(old.Val) != want {
				t.Fatalf("seed %d: %v was written: %q", seed, k, want)
			}
			v := fmt.Sprint(i)
			b.Set(old, &Write{Key: k, Kind: wire.WriteKind_PUT, Val: []byte(v)})
			last[string(k)] = v
			if r.IntN(20) == 0 {
				take()
			}
		}
		if b.Len() != len(last) {
			t.Fatalf("seed %d: %d keys are written, it counts %d", seed, len(last), b.Len())
		}
		n := len(taken)
		if err := b.Each(func(w *Write) error {
			if _, twice := taken[string(w.Key)]; twice {
				t.Fatalf("seed %d: %v was taken and is left", seed, w.Key)
			}
			taken[string(w.Key)] = string(w.Val)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(taken) != fmt.Sprint(last) {
			t.Fatalf("seed %d: %d writes came out of %d", seed, len(taken), len(last))
		}
		if n == 0 || n == len(last) {
			t.Errorf("seed %d: %d of %d were taken", seed, n, len(last))
		}
	}
}

// TestApartHidden: reads do not see what is kept apart, and it is not rolled back.
func TestApartHidden(t *testing.T) {
	var b Buffer
	set := func(n int) {
		k := rowKey(1, n)
		b.Set(b.Old(k), &Write{Key: k, Kind: wire.WriteKind_PUT, Val: []byte("v")})
	}
	set(1)
	b.Apart(9<<20, nil, false)
	before := b.Savepoint()
	set(5)
	after := b.Savepoint()
	all := []base.Span{{Start: rowKey(1, 0), End: rowKey(1, 99)}}
	if ws := b.View(all).Memory(); len(ws) != 1 {
		t.Errorf("%d writes are seen", len(ws))
	}
	if b.MayRollBack(before) || !b.MayRollBack(after) {
		t.Error("a write that is kept apart may be taken back")
	}
	set(3) // too late to be kept apart
	set(7)
	b.Take(10)
	left := b.All()
	if keys := slices.Collect(func(yield func(string) bool) {
		for _, w := range left {
			yield(w.Key.String())
		}
	}); len(keys) != 2 || b.Len() != 4 {
		t.Errorf("%v are left of %d", keys, b.Len())
	}
}

// TestEntriesInOrder: entries of any sections, sorted block by block as they came, make one list,
// with the last write of each key.
func TestEntriesInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 8))
	for _, n := range []int{0, 1, blockLen - 1, blockLen, blockLen + 1, 3*blockLen + 77, 7 * blockLen} {
		a := &apart{}
		last := map[string]uint32{}
		for i := range n {
			w := &Write{Key: rowKey(1+r.IntN(2), r.IntN(n)), seq: uint32(i + 1)}
			a.section(w.Key).add(w)
			last[string(w.Key)] = w.seq
		}
		got := gather(a.entries).sorted()
		if len(got) != len(last) {
			t.Fatalf("%d writes: %d keys, want %d", n, len(got), len(last))
		}
		for i, w := range got {
			if i > 0 && got[i-1].Key.Compare(w.Key) >= 0 || last[string(w.Key)] != w.seq {
				t.Fatalf("%d writes: %v of write %d is at %d", n, w.Key, w.seq, i)
			}
		}
	}
}

// TestManySections: from entries of more sections than are told apart on, all are kept with the
// other writes, also when a chunk has made room. So the last write of a key is the one that counts.
func TestManySections(t *testing.T) {
	entry := func(shard int) base.Key { return rowKey(shard, 1) }
	b := &Buffer{SpillAt: maxSections * 2 * overhead}
	b.Apart(rowKey(1, 0).Table(), []base.IndexID{rowKey(1, 0).Index()}, false)
	write := func(shard int, kind wire.WriteKind) {
		k := entry(shard)
		b.Set(b.Old(k), &Write{Key: k, Kind: kind})
	}
	for shard := 1; shard <= maxSections+1; shard++ {
		write(shard, wire.WriteKind_PUT)
	}
	for shard := 1; shard <= maxSections+1; shard++ {
		write(shard, wire.WriteKind_DELETE)
	}
	all := b.All()
	if len(all) != maxSections+1 {
		t.Errorf("%d keys, want %d", len(all), maxSections+1)
	}
	for _, w := range all {
		if w.Kind != wire.WriteKind_DELETE {
			t.Errorf("%v: the first write is left", w.Key)
		}
	}
}
