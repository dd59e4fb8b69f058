package hashing

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/sql/expr"
)

// TestNumbers: keys of all lengths get the numbers that a map gives them, again after a reset, and
// the memory that is held is what is said.
func TestNumbers(t *testing.T) {
	t.Parallel()
	text := expr.Type{Kind: expr.Bytes}
	for _, types := range [][]expr.Type{{text}, {expr.TypeInt}, {text, expr.TypeInt}} {
		table := New(types, func() error { return nil })
		for seed := range uint64(4) {
			rng := rand.New(rand.NewPCG(seed, 7))
			want := map[string]int32{}
			for range 60 {
				const n = 700
				cols := make([]*expr.Vec, len(types))
				for k, x := range types {
					cols[k] = &expr.Vec{}
					cols[k].Reset(x, n)
				}
				keys := make([]string, n)
				for i := range n {
					x := rng.Int64N(30_000)
					long := int(max(0, rng.ExpFloat64()*400-1500))
					for k := range types {
						if types[k].Ints() {
							cols[k].I[i] = x
						} else {
							cols[k].S[i] = fmt.Sprint(x) + strings.Repeat("x", long*long/16)
						}
						if types[k].Ints() {
							keys[i] += fmt.Sprintf("%d|", cols[k].I[i])
						} else {
							keys[i] += cols[k].S[i] + "|"
						}
					}
				}
				ids, err := table.Assign(cols, expr.All(n), nil, false)
				if err != nil {
					t.Fatal(err)
				}
				for i, key := range keys {
					id, known := want[key]
					if !known {
						id = int32(len(want))
						want[key] = id
					}
					if ids[i] != id {
						t.Fatalf("%v, seed %d: %.20s has %d, want %d", types, seed, key, ids[i], id)
					}
				}
				if table.Len() != int32(len(want)) {
					t.Fatalf("%d keys, want %d", table.Len(), len(want))
				}
			}
			var held int64
			for _, c := range table.chunks.list {
				held += int64(cap(c))
			}
			if held != table.chunks.bytes {
				t.Fatalf("%d bytes are held, said are %d", held, table.chunks.bytes)
			}
			table.Reset()
		}
	}
}

// TestGrowsInPieces: a table asks again before it has copied or made much, so that a statement of
// hundreds of MiB ends at once when it is to.
func TestGrowsInPieces(t *testing.T) {
	t.Parallel()
	var asked int
	stop := errors.New("stop")
	p := &pace{ask: func() error {
		if asked++; asked > 3 {
			return stop
		}
		return nil
	}}
	long := make([]int64, 16<<20/8)
	for i := range long {
		long[i] = int64(i)
	}
	long = long[:len(long):len(long)]
	if _, err := room(long, p); !errors.Is(err, stop) || asked != 4 {
		t.Fatalf("asked %d times: %v", asked, err)
	}
	asked = -100
	more, err := room(long, p)
	if err != nil || len(more) != len(long) || cap(more) < len(long)+1 || more[len(long)-1] != int64(len(long)-1) {
		t.Fatalf("%v: %d of %d numbers", err, len(more), len(long))
	}
	var c chunks
	first := c.put(make([]byte, 3<<20))
	at := &c.list[0][:1][0]
	for range 100 {
		c.put(make([]byte, 1<<20))
	}
	if &c.list[0][:1][0] != at || len(c.get(first)) != 3<<20 {
		t.Fatal("a chunk was moved")
	}
}
