package writes

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// TestSpill compares a buffer that spills all the time with a map, over writes, savepoints and
// rollbacks: single keys, ranges in both directions and in pieces, all of it, sizes, and views that
// writes come after.
func TestSpill(t *testing.T) {
	defer func(n int) { blockBytes = n }(blockBytes)
	blockBytes = 100
	defer func(n int) { leastSpilled = n }(leastSpilled)
	leastSpilled = 1
	spilled, rolled, cuts := 0, 0, 0
	for seed := range uint64(25) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := &Buffer{SpillAt: 500 + r.IntN(6000)}
		want := map[string]string{}
		var marks []map[string]string
		key := func() base.Key { return base.Key(fmt.Sprintf("\x00\x01k%03d", r.IntN(80))) }
		whole := base.Span{Start: base.Key("\x00\x01"), End: base.Key("\x00\x02")}
		for step := range 400 {
			switch op := r.IntN(20); {
			case op < 15:
				k := key()
				w := &Write{Key: k, Kind: wire.WriteKind_PUT, Val: []byte(fmt.Sprint(step, strings.Repeat("x", r.IntN(40))))}
				if r.IntN(4) == 0 {
					w.Kind, w.Val = wire.WriteKind_DELETE, nil
				}
				if r.IntN(10) == 0 {
					w.Patch = &wire.Patch{}
				}
				b.Set(b.Get(k), w)
				want[string(k)] = string(w.Val)
				if r.IntN(20) == 0 {
					if err := b.SpillNow(); err != nil {
						t.Fatal(err)
					}
					stays := int64(0)
					for _, w := range b.byKey {
						if stays += int64(w.held()); w.Patch == nil {
							t.Fatalf("seed %d: a write stays in memory", seed)
						}
					}
					if b.Held() != stays {
						t.Fatalf("seed %d: %d bytes are held, want %d", seed, b.Held(), stays)
					}
				}
			case op < 17:
				if got := b.Savepoint(); got != len(marks)+1 {
					t.Fatalf("seed %d: savepoint %d", seed, got)
				}
				marks = append(marks, maps.Clone(want))
			case op < 18 && len(marks) > 0:
				n := r.IntN(len(marks))
				b.RollbackTo(n + 1)
				marks, want = marks[:n+1], maps.Clone(marks[n])
				rolled++
			case op < 19:
				v, then := b.View([]base.Span{whole}), maps.Clone(want)
				k := key()
				b.Set(b.Get(k), &Write{Key: k, Kind: wire.WriteKind_DELETE})
				// the view is as of before; the buffer is made anew for the next steps
				cuts += checkView(t, seed, v, then, r)
				b = refill(b, then)
				want, marks = then, nil
			}
			check(t, seed, b, want)
		}
		spilled += len(b.runs)
		b.Close()
	}
	if spilled < 50 || rolled < 50 || cuts < 50 {
		t.Fatalf("%d runs, %d rollbacks and %d cuts: the test looks at nothing", spilled, rolled, cuts)
	}
}

func refill(old *Buffer, want map[string]string) *Buffer {
	b := &Buffer{SpillAt: old.SpillAt}
	old.Close()
	for _, k := range slices.Sorted(maps.Keys(want)) {
		w := &Write{Key: base.Key(k), Kind: wire.WriteKind_PUT, Val: []byte(want[k])}
		b.Set(nil, w)
	}
	return b
}

func check(t *testing.T, seed uint64, b *Buffer, want map[string]string) {
	t.Helper()
	bytes := 0
	keys := slices.Sorted(maps.Keys(want))
	for _, k := range keys {
		w := b.Get(base.Key(k))
		if w == nil || string(w.Val) != want[k] {
			t.Fatalf("seed %d: %s is %v, want %q", seed, k, w, want[k])
		}
		bytes += w.Size()
	}
	if b.Len() != len(want) || b.Bytes != bytes || b.Err() != nil {
		t.Fatalf("seed %d: %d writes of %d bytes, %v; want %d of %d", seed, b.Len(), b.Bytes, b.Err(), len(want), bytes)
	}
	if w := b.Get(base.Key("\x00\x01nobody")); w != nil {
		t.Fatalf("seed %d: there is %v", seed, w)
	}
	i := 0
	for _, w := range b.All() {
		if i >= len(keys) || string(w.Key) != keys[i] || string(w.Val) != want[keys[i]] {
			t.Fatalf("seed %d: write %d is %v, want %q", seed, i, w, keys[min(i, len(keys)-1)])
		}
		i++
	}
	if i != len(keys) {
		t.Fatalf("seed %d: %d writes, want %d", seed, i, len(keys))
	}
}

// checkView reads a range in pieces, and returns in how many.
func checkView(t *testing.T, seed uint64, v *View, want map[string]string, r *rand.Rand) (cuts int) {
	t.Helper()
	s := base.Span{Start: base.Key(fmt.Sprintf("\x00\x01k%03d", r.IntN(40))), End: base.Key(fmt.Sprintf("\x00\x01k%03d", 41+r.IntN(40)))}
	var keys []string
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if s.Contains(base.Key(k)) {
			keys = append(keys, k)
		}
	}
	back := r.IntN(2) == 0
	if back {
		slices.Reverse(keys)
	}
	var got []string
	for {
		ws, cut, err := v.Within(s, back, 300)
		if err != nil {
			t.Fatal(err)
		}
		var part []string
		for _, w := range ws {
			part = append(part, string(w.Key))
			if string(w.Val) != want[string(w.Key)] {
				t.Fatalf("seed %d: %v, want %q", seed, w, want[string(w.Key)])
			}
		}
		if back {
			slices.Reverse(part)
		}
		got = append(got, part...)
		if cut == nil {
			break
		}
		cuts++
		if back {
			s.End = cut
		} else {
			s.Start = cut
		}
	}
	if !slices.Equal(got, keys) {
		t.Fatalf("seed %d: back %v: %q, want %q", seed, back, got, keys)
	}
	return cuts
}

// TestFilter: no key of a run is missed, and of others few pass.
func TestFilter(t *testing.T) {
	const n = 20_000
	key := func(i uint64) base.Key { return base.AppendUint64(base.IndexPrefix(1, 7<<20, 0, 0), i) }
	f := newFilter(n)
	for i := range uint64(n) {
		f.add(key(2 * i))
	}
	wrong := 0
	for i := range uint64(n) {
		if !f.has(key(2 * i)) {
			t.Fatalf("key %d is missed", 2*i)
		}
		if f.has(key(2*i + 1)) {
			wrong++
		}
	}
	if wrong > n/250 {
		t.Errorf("%d of %d keys pass that are not there", wrong, n)
	}
}
