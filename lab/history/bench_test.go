package history

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// benchHistory has n transactions of 4 operations on n/10 keys, about 50 of them concurrent.
func benchHistory(n int, timestamps bool) *History {
	rng := rand.New(rand.NewPCG(1, 5))
	keys := max(n/10, 1)
	state := make([]string, keys)
	names := make([]string, keys)
	h := &History{Init: map[string]string{}}
	for i := range state {
		names[i], state[i] = fmt.Sprintf("key%06d", i), "init"
		h.Init[names[i]] = "init"
	}
	for i := range n {
		at := int64(i+1) * 100
		t := Txn{ID: int64(i + 1), Client: i % 50, Region: string(rune('A' + i%5)), Outcome: Committed,
			Invoke: at - rng.Int64N(2500), Return: at + rng.Int64N(2500)}
		if timestamps {
			t.Timestamp = uint64(at)
		}
		k := rng.IntN(keys)
		for j := range 4 {
			k = (k + 1 + j) % keys
			t.Ops = append(t.Ops, Op{Kind: OpRead, Key: names[k], Value: state[k]})
			if j < 2 {
				state[k] = fmt.Sprintf("%d.%d", i, j)
				t.Ops = append(t.Ops, Op{Kind: OpWrite, Key: names[k], Value: state[k]})
			}
		}
		h.Txns = append(h.Txns, t)
	}
	return h
}

func BenchmarkCheck100k(b *testing.B) {
	for _, ts := range []bool{true, false} {
		h := benchHistory(100_000, ts)
		for l := LevelSnapshotIsolation; l <= LevelStrictSerializable; l++ {
			b.Run(fmt.Sprintf("timestamps=%t/%s", ts, l), func(b *testing.B) {
				b.ReportAllocs()
				for range b.N {
					if v, _ := Check(h, l); v != nil {
						b.Fatal(v)
					}
				}
			})
		}
	}
}

// A bad history must be judged as quickly as a good one, though all levels of edges are searched.
func BenchmarkViolation100k(b *testing.B) {
	h := benchHistory(100_000, true)
	h.Txns[70_000].Ops[4].Value, h.Txns[40_000].Ops[4].Value = "init", "init"
	for range b.N {
		if v, _ := Check(h, LevelStrictSerializable); v == nil {
			b.Fatal("accepted")
		}
	}
}

func BenchmarkInvariants100k(b *testing.B) {
	h := benchHistory(100_000, true)
	for name, check := range map[string]func(*History) *Violation{
		"torn": NoTornReads, "order": CommitOrder, "monotone": MonotoneSnapshots,
	} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				if v := check(h); v != nil {
					b.Fatal(v)
				}
			}
		})
	}
}

// A broken history: one read in fifty is of the initial state.
func BenchmarkBroken100k(b *testing.B) {
	for _, ts := range []bool{true, false} {
		h := benchHistory(100_000, ts)
		for i := range h.Txns {
			if i%50 == 0 && i > 5000 {
				h.Txns[i].Ops[4].Value = "init"
			}
		}
		b.Run(fmt.Sprintf("timestamps=%t", ts), func(b *testing.B) {
			for range b.N {
				if v, _ := Check(h, LevelStrictSerializable); v == nil {
					b.Fatal("accepted")
				}
			}
		})
	}
}

// A few hot keys: long version chains, all transactions conflict.
func BenchmarkHot100k(b *testing.B) {
	h := benchHistory(100_000, false)
	for i := range h.Txns {
		h.Txns[i].Ops = h.Txns[i].Ops[:0]
		k := fmt.Sprintf("hot%d", i%3)
		if i >= 3 {
			h.Txns[i].Ops = append(h.Txns[i].Ops, Op{Kind: OpRead, Key: k, Value: fmt.Sprint(i - 3)})
		}
		// Blind writes elsewhere leave a key that only real time orders.
		h.Txns[i].Ops = append(h.Txns[i].Ops, Op{Kind: OpWrite, Key: k, Value: fmt.Sprint(i)},
			Op{Kind: OpWrite, Key: "blind", Value: fmt.Sprint(i)})
	}
	for range b.N {
		if v, _ := Check(h, LevelStrictSerializable); v != nil {
			b.Fatal(v)
		}
	}
}
