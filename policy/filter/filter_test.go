package filter

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/godwitdb/godwit/base"
)

// epoch draws the batches of n nodes. Some transactions are submitted twice.
func epoch(rnd *rand.Rand, n, txns, keys int) []Batch {
	out := make([]Batch, n)
	var all []Txn
	for i := range out {
		out[i].Origin = i
		for range rnd.IntN(txns + 1) {
			if len(all) > 0 && rnd.IntN(8) == 0 { // a client asked two nodes
				t := all[rnd.IntN(len(all))]
				if !slices.ContainsFunc(out[i].Txns, func(o Txn) bool { return o.ID == t.ID }) {
					out[i].Txns = append(out[i].Txns, t)
					continue
				}
			}
			t := Txn{ID: base.MakeTxnID(base.Timestamp(len(all)+1), base.NodeID(i), 0), Priority: rnd.Uint64N(20)}
			key := func() string { return fmt.Sprintf("k%03d", rnd.IntN(keys)) }
			for range rnd.IntN(4) {
				t.Reads = append(t.Reads, key())
			}
			if rnd.IntN(6) == 0 {
				a, b := key(), key()
				t.Ranges = append(t.Ranges, base.Span{Start: base.Key(min(a, b)), End: base.Key(max(a, b) + "x")})
			}
			used := map[string]bool{}
			for range rnd.IntN(4) {
				if k := key(); !used[k] {
					used[k] = true
					w := Write{Key: k, Value: bytes.Repeat([]byte{byte('a' + rnd.IntN(3))}, 10+rnd.IntN(3))}
					switch rnd.IntN(6) {
					case 0:
						w.Null = true
					case 1:
						w.Del, w.Value = true, nil
					}
					t.Writes = append(t.Writes, w)
				}
			}
			all = append(all, t)
			out[i].Txns = append(out[i].Txns, t)
		}
	}
	return out
}

// naive is rule EPO-1 as it is written: every pair is compared.
func naive(rule Rule, batches []Batch) Result {
	txns := map[base.TxnID]Txn{}
	for _, b := range batches {
		for _, t := range b.Txns {
			txns[t.ID] = t
		}
	}
	better := func(a, b Txn) bool {
		return a.Priority < b.Priority || a.Priority == b.Priority && bytes.Compare(a.ID[:], b.ID[:]) < 0
	}
	touches := func(t Txn, key string) bool {
		for _, w := range t.Writes {
			if w.Key == key {
				return true
			}
		}
		if !rule.Reads {
			return false
		}
		if slices.Contains(t.Reads, key) {
			return true
		}
		return slices.ContainsFunc(t.Ranges, func(s base.Span) bool { return s.Contains(base.Key(key)) })
	}
	var won []Txn
	for _, t := range txns {
		lost := false
		for _, o := range txns {
			if better(o, t) {
				for _, w := range o.Writes {
					lost = lost || touches(t, w.Key)
				}
			}
		}
		if !lost {
			won = append(won, t)
		}
	}
	slices.SortFunc(won, func(a, b Txn) int {
		if better(a, b) {
			return -1
		}
		return 1
	})
	res := Result{Writes: map[string]Write{}}
	for _, t := range won {
		res.Committed = append(res.Committed, t.ID)
		for _, w := range t.Writes {
			if !w.Null {
				res.Writes[w.Key] = w
			}
		}
	}
	return res
}

func equal(a, b Result) bool {
	return slices.Equal(a.Committed, b.Committed) && reflect.DeepEqual(a.Writes, b.Writes)
}

func through(t *testing.T, b Batch) Batch {
	t.Helper()
	got, err := Decode(b.Origin, Encode(&b))
	if err != nil {
		t.Fatal(err)
	}
	got.Needs = b.Needs
	return *got
}

// FILT-1 and FILT-2: any mixture of originals, filtered batches and slices, without the
// excluded ones, gives what the naive rule makes of the originals.
func TestFilterNeverChangesAnOutcome(t *testing.T) {
	seeds := 3000
	if testing.Short() {
		seeds = 300
	}
	dropped := 0
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(uint64(seed), 4))
		rule := Rule{Reads: rnd.IntN(2) == 0}
		n := 2 + rnd.IntN(6)
		all := epoch(rnd, n, 8, 3+rnd.IntN(30))
		// Groups of nodes, each with a number of aggregators.
		var parts [][]Batch // by origin: its filtered slices
		for range n {
			parts = append(parts, nil)
		}
		for at := 0; at < n; {
			size := 1 + rnd.IntN(n-at)
			q := 1 + rnd.IntN(3)
			slice := make([][]Batch, q)
			for i := at; i < at+size; i++ {
				for s, b := range Slices(&all[i], q) {
					slice[s] = append(slice[s], through(t, b))
				}
			}
			for s := range slice {
				before := 0
				for i := range slice[s] {
					before += len(Encode(&slice[s][i]))
				}
				Group(rule, slice[s])
				for i := range slice[s] {
					before -= len(Encode(&slice[s][i]))
					b := through(t, slice[s][i])
					parts[b.Origin] = append(parts[b.Origin], b)
				}
				dropped += before
			}
			at += size
		}
		excluded := map[int]bool{}
		if rnd.IntN(2) == 0 {
			excluded[rnd.IntN(n)] = true
		}
		var originals []Batch
		for i := range all {
			if !excluded[i] {
				originals = append(originals, all[i])
			}
		}
		want := naive(rule, originals)
		if got := Outcome(rule, originals); !equal(got, want) {
			t.Fatalf("seed %d: unfiltered %+v, the rule says %+v", seed, got, want)
		}
		for receiver := range 4 {
			var have []Batch
			for _, i := range rnd.Perm(n) {
				if excluded[i] {
					continue
				}
				void := slices.ContainsFunc(parts[i], func(b Batch) bool {
					return slices.ContainsFunc(b.Needs, func(o int) bool { return excluded[o] })
				})
				if void || receiver > 0 && rnd.IntN(3) == 0 {
					have = append(have, all[i])
				} else {
					have = append(have, parts[i]...)
				}
			}
			if got := Outcome(rule, have); !equal(got, want) {
				t.Fatalf("seed %d: receiver %d finds %+v, the rule says %+v", seed, receiver, got, want)
			}
		}
	}
	if dropped <= 0 {
		t.Error("the filter has saved nothing")
	}
}

// If losers did not beat others, the outcome would change with the grouping: A beats
// B beats C, and with A and B in one group C may not win (EPO-1).
func TestLosersStillBeatOthers(t *testing.T) {
	txn := func(p uint64, keys ...string) Txn {
		t := Txn{ID: base.MakeTxnID(base.Timestamp(p), 1, 0), Priority: p}
		for _, k := range keys {
			t.Writes = append(t.Writes, Write{Key: k, Value: []byte("value")})
		}
		return t
	}
	a, b, c := txn(1, "x"), txn(2, "x", "y"), txn(3, "y")
	group := []Batch{{Origin: 0, Txns: []Txn{a}}, {Origin: 1, Txns: []Txn{b}}}
	Group(Rule{}, group)
	if l := group[1].Txns[0]; !l.Lost || l.Writes[0].Value != nil || !slices.Equal(group[1].Needs, []int{0}) {
		t.Fatalf("B is %+v, needs %v", l, group[1].Needs)
	}
	got := Outcome(Rule{}, append(group, Batch{Origin: 2, Txns: []Txn{c}}))
	if !slices.Equal(got.Committed, []base.TxnID{a.ID}) {
		t.Errorf("%v committed", got.Committed)
	}
}

func TestEqualValuesAreStoredOnce(t *testing.T) {
	b := &Batch{}
	for i := range 100 {
		b.Txns = append(b.Txns, Txn{ID: base.MakeTxnID(base.Timestamp(i+1), 1, 0),
			Writes: []Write{{Key: fmt.Sprint(i), Value: make([]byte, 1000)}}})
	}
	if n := len(Encode(b)); n > 10_000 {
		t.Errorf("%d bytes", n)
	}
	got, err := Decode(0, Encode(b))
	if err != nil || !reflect.DeepEqual(got.Txns, b.Txns) {
		t.Error("decoded otherwise", err)
	}
}

// The same id with other content is no duplicate (FILT-3).
func TestEqualIDsAreCompared(t *testing.T) {
	id := base.MakeTxnID(1, 1, 0)
	bs := []Batch{{Origin: 0, Txns: []Txn{{ID: id, Writes: []Write{{Key: "a", Value: []byte("1")}}}}},
		{Origin: 1, Txns: []Txn{{ID: id, Writes: []Write{{Key: "b", Value: []byte("1")}}}}}}
	Group(Rule{}, bs)
	if len(bs[1].Txns) != 1 {
		t.Error("it was dropped")
	}
}

// FILT-4: the time of an update does not grow with the epoch.
func BenchmarkGroup(b *testing.B) {
	for _, txns := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprintf("txns=%d", txns), func(b *testing.B) {
			rnd := rand.New(rand.NewPCG(1, 1))
			var in []Batch
			for i := range 5 {
				in = append(in, Batch{Origin: i})
				for j := range txns / 5 {
					t := Txn{ID: base.MakeTxnID(base.Timestamp(j+1), base.NodeID(i), 0), Priority: rnd.Uint64()}
					for range 5 {
						t.Writes = append(t.Writes,
							Write{Key: fmt.Sprintf("user%010d", rnd.IntN(txns*10)), Value: make([]byte, 100)})
					}
					in[i].Txns = append(in[i].Txns, t)
				}
			}
			for b.Loop() {
				Group(Rule{Reads: true}, slices.Clone(in))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(txns*5), "ns/update")
		})
	}
}
