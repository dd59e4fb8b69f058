package epoch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/policy/filter"
)

// table is a state in memory.
type table map[string]uint64

func (s table) Newest(key base.Key) (uint64, error) { return s[string(key)], nil }

func (s table) Touched(span base.Span, after uint64) (bool, error) {
	for k, at := range s {
		if at > after && span.Contains(base.Key(k)) {
			return true, nil
		}
	}
	return false, nil
}

func txn(n int, priority, snapshot uint64, keys ...string) filter.Txn {
	t := filter.Txn{ID: base.MakeTxnID(base.Timestamp(n+1), 1, 0), Priority: priority, Snapshot: snapshot}
	for _, k := range keys {
		t.Writes = append(t.Writes, filter.Write{Key: k, Value: fmt.Appendf(nil, "%s by %d", k, n)})
	}
	return t
}

func merge(t *testing.T, num uint64, st table, batches ...filter.Batch) *Merged {
	t.Helper()
	m, err := Merge(num, batches, st, Digest{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMerge(t *testing.T) {
	a, b, c := txn(1, 1, 5, "x", "y"), txn(2, 2, 5, "y", "z"), txn(3, 3, 5, "z")
	reader := txn(4, 9, 5, "w")
	reader.Reads = []string{"r"}
	ranger := txn(5, 9, 5, "v")
	ranger.Ranges = []base.Span{{Start: base.Key("q"), End: base.Key("s")}}
	old := txn(6, 0, 5, "o")
	for _, c := range []struct {
		name string
		num  uint64
		st   table
		txns []filter.Txn
		want []int
	}{
		// b loses to a, and c to b all the same
		{"losers block", 6, table{}, []filter.Txn{a, b, c}, []int{1}},
		{"disjoint", 6, table{}, []filter.Txn{a, c}, []int{1, 3}},
		{"written before the snapshot", 6, table{"x": 5}, []filter.Txn{a}, []int{1}},
		{"written since the snapshot", 7, table{"x": 6}, []filter.Txn{a}, nil},
		{"stale ones block too", 7, table{"x": 6}, []filter.Txn{a, b}, nil},
		{"read since the snapshot", 7, table{"r": 6}, []filter.Txn{reader}, nil},
		{"read before it", 7, table{"r": 5}, []filter.Txn{reader}, []int{4}},
		{"range since the snapshot", 7, table{"r": 6}, []filter.Txn{ranger}, nil},
		{"beside the range", 7, table{"s": 6}, []filter.Txn{ranger}, []int{5}},
		{"read what a better one writes", 6, table{}, []filter.Txn{txn(7, 1, 5, "r"), reader, ranger}, []int{7}},
		{"too old", 5 + MaxLag + 1, table{}, []filter.Txn{old}, nil},
		{"just not too old", 5 + MaxLag, table{}, []filter.Txn{old}, []int{6}},
		{"from the future", 5, table{}, []filter.Txn{old}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := merge(t, c.num, c.st, filter.Batch{Txns: c.txns})
			var want []base.TxnID
			for _, n := range c.want {
				want = append(want, base.MakeTxnID(base.Timestamp(n+1), 1, 0))
			}
			slices.SortFunc(want, func(a, b base.TxnID) int { return slices.Compare(a[:], b[:]) })
			got := slices.Clone(m.Committed)
			slices.SortFunc(got, func(a, b base.TxnID) int { return slices.Compare(a[:], b[:]) })
			if !slices.Equal(got, want) {
				t.Errorf("committed %v instead of %v", got, want)
			}
		})
	}
}

// The outcome does not depend on the order of batches, on duplicates, slices or filters (MERGE-2).
func TestMergeIsAFunctionOfTheSet(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 4))
		st := table{}
		name := func() string { return fmt.Sprint(r.IntN(30)) }
		for range 10 {
			st[name()] = uint64(r.IntN(20))
		}
		frames := make([][]byte, 4)
		origins := []int{0, 1, 2, 3}
		id := 0
		for i := range frames {
			var b filter.Batch
			for range r.IntN(6) {
				x := txn(id, r.Uint64N(5), uint64(10+r.IntN(10)))
				id++
				for range 1 + r.IntN(3) {
					k := name()
					if !slices.ContainsFunc(x.Writes, func(w filter.Write) bool { return w.Key == k }) {
						x.Writes = append(x.Writes, filter.Write{Key: k, Value: []byte(k), Del: r.IntN(5) == 0,
							Null: r.IntN(5) == 0})
					}
				}
				for range r.IntN(3) {
					x.Reads = append(x.Reads, name())
				}
				if r.IntN(5) == 0 {
					lo := name()
					x.Ranges = append(x.Ranges, base.Span{Start: base.Key(lo), End: base.Key(lo + "9")})
				}
				b.Txns = append(b.Txns, x)
			}
			f := Frame{View: 1, Epoch: 20, Held: 7}
			if len(b.Txns) > 0 {
				f.Batch = filter.Encode(&b)
				f.Hash = HashOf(f.Batch)
			}
			frames[i] = f.Encode()
		}
		outcome := func(frames [][]byte) *Merged {
			var batches []filter.Batch
			for i, data := range frames {
				f, err := DecodeFrame(data)
				if err != nil || f.View != 1 || f.Epoch != 20 || f.Held != 7 {
					t.Fatalf("frame %+v, %v", f, err)
				}
				b, err := filter.Decode(i, f.Batch)
				if err != nil {
					t.Fatal(err)
				}
				batches = append(batches, *b)
			}
			return merge(t, 20, st, batches...)
		}
		want := outcome(frames)
		same := func(what string, frames [][]byte) {
			t.Helper()
			if got := outcome(frames); got.Digest != want.Digest || !slices.Equal(got.Committed, want.Committed) {
				t.Fatalf("seed %d: %s: %d committed instead of %d", seed, what, len(got.Committed), len(want.Committed))
			}
		}
		mixed := slices.Clone(frames)
		r.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		same("shuffled", mixed)
		same("twice", append(slices.Clone(frames), frames[0], frames[2]))
		shorten := func(frames [][]byte) [][]byte {
			out, _, err := Shorten(origins[:len(frames)], frames)
			if err != nil {
				t.Fatal(err)
			}
			if out == nil {
				return frames
			}
			return out
		}
		same("filtered", shorten(frames))
		same("filtered in groups", slices.Concat(shorten(frames[:2]), shorten(frames[2:])))
		same("half filtered", slices.Concat(shorten(frames[:2]), frames[2:]))
		sliced := make([][][]byte, 3)
		for _, f := range frames {
			for s, part := range Split(f, 3) {
				sliced[s] = append(sliced[s], part)
			}
		}
		for s := range sliced {
			sliced[s] = shorten(sliced[s])
		}
		var joined [][]byte
		for i := range frames {
			joined = append(joined, Join([][]byte{sliced[0][i], sliced[1][i], sliced[2][i]}))
		}
		same("sliced, filtered and joined", joined)
	}
}

func TestViews(t *testing.T) {
	v := View{Number: 3, Start: 100, Members: []base.NodeID{1, 2, 3, 4}, Voters: []base.NodeID{1, 2, 3}}
	for _, c := range []struct {
		held map[base.NodeID]uint64
		want uint64
	}{
		{map[base.NodeID]uint64{1: 110, 2: 105, 3: 99}, 105},
		{map[base.NodeID]uint64{1: 110, 4: 110}, 0}, // 4 has no vote
		{map[base.NodeID]uint64{1: 110, 3: 110}, 110},
	} {
		if got := v.Exposed(c.held); got != c.want {
			t.Errorf("%v: exposed %d instead of %d", c.held, got, c.want)
		}
	}
	if _, _, ok := v.Decide(map[base.NodeID]uint64{1: 110, 4: 120}); ok {
		t.Error("decided without a majority")
	}
	if last, holder, ok := v.Decide(map[base.NodeID]uint64{1: 110, 2: 107, 4: 120}); !ok || last != 120 || holder != 4 {
		t.Errorf("decided %d held by %d, %v", last, holder, ok)
	}
	two := View{Start: 1, Voters: []base.NodeID{1, 2}}
	if got := two.Exposed(map[base.NodeID]uint64{1: 9, 2: 4}); got != 4 {
		t.Errorf("of two voters, exposed %d", got)
	}
}
