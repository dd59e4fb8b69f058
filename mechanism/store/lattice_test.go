package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/base"
)

// An entry of a group's log, for the tests: versions it writes, or keys it collects.
type testEntry struct {
	group   base.GroupID
	index   uint64
	puts    []Version
	collect []base.Key
	below   base.Timestamp
}

// shardScript is the history of one shard: the logs of its groups, made by one global
// order in which the rules hold (owners write growing timestamps per key,
// Collect follows a tombstone that is the newest version).
func shardScript(rng *rand.Rand, groups []base.GroupID, steps int) (logs map[base.GroupID][]testEntry, all []testEntry) {
	logs = map[base.GroupID][]testEntry{}
	newest := map[string]Version{}
	ts := base.Timestamp(0)
	for range steps {
		g := groups[rng.IntN(len(groups))]
		e := testEntry{group: g, index: uint64(len(logs[g]) + 1)}
		ts += base.Timestamp(1 + rng.IntN(3))
		if rng.IntN(5) == 0 {
			for k, v := range newest {
				if v.Tombstone && rng.IntN(2) == 0 {
					e.collect = append(e.collect, base.Key(k))
					e.below = max(e.below, v.TS)
				}
			}
			slices.SortFunc(e.collect, base.Key.Compare)
			for _, k := range e.collect {
				delete(newest, string(k))
			}
		} else {
			for range 1 + rng.IntN(3) {
				k := userKey(1, 1, string(rune('a'+rng.IntN(8))))
				v := Version{Key: k, TS: ts, Label: base.MakeLabel(g.Region(), g.Region(), e.index),
					Writer: base.GroupIndex{Region: g.Region(), Index: e.index}}
				if v.Tombstone = rng.IntN(3) == 0; !v.Tombstone {
					v.Value = fmt.Append(nil, g, e.index)
				}
				newest[string(k)] = v
				e.puts = append(e.puts, v)
			}
		}
		logs[g] = append(logs[g], e)
		all = append(all, e)
	}
	return logs, all
}

func apply(t testing.TB, s *Store, e testEntry) {
	t.Helper()
	commit(t, s, false, func(b *Batch) {
		for _, v := range e.puts {
			b.PutVersion(v)
		}
		if e.collect != nil {
			must(t, b.CollectKeys(e.collect, e.below))
		}
		b.SetApplied(e.group, e.index)
		b.SetState(e.group, "lease", fmt.Append(nil, "lease of ", e.index))
		b.SetTxn(e.group, base.MakeTxnID(base.Timestamp(e.index), 1, 1), fmt.Append(nil, "outcome ", e.index))
	})
}

// dump prints what of a shard must agree between replicas: reads at and above
// a timestamp, and the newest version of each key with its label.
func dump(t testing.TB, s *Store, from base.Timestamp, to base.Timestamp) string {
	t.Helper()
	var sb strings.Builder
	r := s.NewReader()
	defer r.Close()
	all := base.Span{Start: userKey(1, 0, ""), End: userKey(1, 9, "")}
	for ts := from; ts <= to; ts++ {
		it := r.Iter(all, ts, IterOptions{})
		for it.Next() {
			v := it.Version()
			fmt.Fprintf(&sb, "@%d %s %d %v %s %q\n", ts, v.Key, v.TS, v.Tombstone, v.Label, v.Value)
		}
		must(t, it.Err())
		it.Close()
	}
	return sb.String()
}

func transfer(t testing.TB, from, to *Store, adopt ...base.GroupID) {
	t.Helper()
	e, err := from.ExportShard(1)
	must(t, err)
	defer e.Close()
	i, err := to.ImportShard(1)
	must(t, err)
	must(t, e.Chunks(200, i.Add))
	must(t, i.Finish(adopt, nil))
	if i.Conflicts != 0 {
		t.Fatalf("%d conflicting versions", i.Conflicts)
	}
}

// TestLattice: replicas that apply the logs of a shard's groups in different orders, some entries
// twice, with collections and whole-shard merges at random points, agree once all is applied
// (DESIGN "Replica state is a lattice"; HOME-1, HOME-4).
func TestLattice(t *testing.T) {
	groups := []base.GroupID{base.DataGroup(1, 1), base.DataGroup(1, 2), base.DataGroup(1, 3)}
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			logs, all := shardScript(rng, groups, 60)
			end := all[len(all)-1]
			top := base.Timestamp(1)
			for _, e := range all {
				for _, v := range e.puts {
					top = max(top, v.TS)
				}
			}
			ref := openMem(t) // the plain order
			defer ref.Close()
			for _, e := range all {
				apply(t, ref, e)
			}
			const n = 3
			reps := make([]*Store, n)
			at := make([]map[base.GroupID]int, n)
			for i := range reps {
				reps[i], at[i] = openMem(t), map[base.GroupID]int{}
				defer reps[i].Close()
			}
			refresh := func(i int) {
				for _, g := range groups {
					a, err := reps[i].Applied(g)
					must(t, err)
					at[i][g] = int(a)
				}
			}
			// complete is the timestamp up to which replica i has applied everything (its
			// consistency point).
			complete := func(i int) base.Timestamp {
				p := base.Timestamp(0)
				for _, e := range all {
					if int(e.index) > at[i][e.group] {
						return p
					}
					for _, v := range e.puts {
						p = v.TS
					}
				}
				return p
			}
			for step := 0; step < 1500; step++ {
				i := rng.IntN(n)
				g := groups[rng.IntN(len(groups))]
				switch k := rng.IntN(40); {
				case k == 0: // merge, adopting one group or none, as a raft snapshot of that group does
					j := (i + 1 + rng.IntN(n-1)) % n
					if rng.IntN(3) == 0 {
						transfer(t, reps[j], reps[i])
					} else {
						transfer(t, reps[j], reps[i], g)
					}
					refresh(i)
				case k == 1:
					if p := complete(i); p > 0 {
						_, _, err := reps[i].CollectVersions(1, 1+base.Timestamp(rng.Uint64N(uint64(p))), nil, 0)
						must(t, err)
					}
				case k < 6 && at[i][g] > 0: // once more, as after a crash that lost unsynced batches
					back := at[i][g] - rng.IntN(min(3, at[i][g]))
					for x := back; x <= at[i][g]; x++ {
						apply(t, reps[i], logs[g][x-1])
					}
				case at[i][g] < len(logs[g]):
					apply(t, reps[i], logs[g][at[i][g]])
					at[i][g]++
				}
			}
			th := ref.GCThreshold(1)
			for i, s := range reps {
				for _, g := range groups {
					for at[i][g] < len(logs[g]) {
						apply(t, s, logs[g][at[i][g]])
						at[i][g]++
					}
				}
				th = max(th, s.GCThreshold(1))
			}
			want := dump(t, ref, th, top+1)
			for i, s := range reps {
				if got := dump(t, s, th, top+1); got != want {
					t.Fatalf("replica %d differs (last entry %v, threshold %d)\ngot\n%s\nwant\n%s", i, end, th, got, want)
				}
				for _, g := range groups {
					v, _, err := s.GetState(g, "lease")
					must(t, err)
					if want := fmt.Sprint("lease of ", len(logs[g])); string(v) != want {
						t.Fatalf("replica %d group %s: %q, want %q", i, g, v, want)
					}
				}
			}
			// After a collection at the end every replica holds the very same versions.
			var first string
			for i, s := range append(reps, ref) {
				_, _, err := s.CollectVersions(1, top, nil, 0)
				must(t, err)
				var sb strings.Builder
				lo, hi := shardSpan(areaVersion, 1)
				must(t, s.scan(lo, hi, func(ek, val []byte) error { fmt.Fprintf(&sb, "%x=%x\n", ek, val); return nil }))
				lo, hi = shardSpan(areaMark, 1)
				must(t, s.scan(lo, hi, func(ek, _ []byte) error { fmt.Fprintf(&sb, "mark %x\n", ek); return nil }))
				if i == 0 {
					first = sb.String()
				} else if sb.String() != first {
					t.Fatalf("stored versions of replica %d differ\n%s\nfrom\n%s", i, sb.String(), first)
				}
			}
		})
	}
}

// TestLaggard is the history of HOME-4: a laggard holds v@10 without its
// tombstone@20, others have collected both.
func TestLaggard(t *testing.T) {
	g1, g2 := base.DataGroup(1, 1), base.DataGroup(1, 2)
	k := userKey(1, 1, "k")
	v10 := testEntry{group: g2, index: 1, puts: []Version{{Key: k, TS: 10, Value: []byte("v"),
		Writer: base.GroupIndex{Region: 2, Index: 1}}}}
	t20 := testEntry{group: g1, index: 1, puts: []Version{{Key: k, TS: 20, Tombstone: true,
		Writer: base.GroupIndex{Region: 1, Index: 1}}}}
	col := testEntry{group: g1, index: 2, collect: []base.Key{k}, below: 20}
	gone := func(t *testing.T, s *Store, when string) {
		t.Helper()
		r := s.NewReader()
		defer r.Close()
		if v, ok, err := r.Newest(k); err != nil || ok {
			t.Fatalf("%s: %+v %v, want nothing", when, v, err)
		}
	}
	other := openMem(t)
	defer other.Close()
	for _, e := range []testEntry{v10, t20, col} {
		apply(t, other, e)
	}
	gone(t, other, "collected")
	_, _, err := other.CollectVersions(1, 30, nil, 0)
	must(t, err)

	laggard := func(name string, fn func(t *testing.T, s *Store)) {
		t.Run(name, func(t *testing.T) {
			s := openMem(t)
			defer s.Close()
			fn(t, s)
		})
	}
	laggard("snapshot to the laggard", func(t *testing.T, s *Store) {
		apply(t, s, v10)
		transfer(t, other, s, g1)
		gone(t, s, "after the merge")
		apply(t, s, v10)
		gone(t, s, "after applying v@10 again")
	})
	laggard("snapshot from the laggard", func(t *testing.T, s *Store) {
		apply(t, s, v10)
		transfer(t, s, other, g2)
		gone(t, other, "after the merge")
	})
	laggard("collect before v@10 arrives", func(t *testing.T, s *Store) {
		apply(t, s, t20)
		apply(t, s, col)
		apply(t, s, v10)
		gone(t, s, "after the late v@10")
		third := openMem(t)
		defer third.Close()
		apply(t, third, v10)
		transfer(t, s, third, g1)
		gone(t, third, "after a merge that brings the mark")
	})
	laggard("nothing applied, then the old log", func(t *testing.T, s *Store) {
		transfer(t, other, s, g1)
		apply(t, s, v10)
		gone(t, s, "after the late v@10")
	})
	laggard("higher threshold without the collect", func(t *testing.T, s *Store) {
		// By HOME-4's words the receiver, whose threshold is higher, would keep the tombstone for
		// good.
		apply(t, s, v10)
		apply(t, s, t20)
		_, _, err := s.CollectVersions(1, 99, nil, 0)
		must(t, err)
		transfer(t, other, s, g1)
		gone(t, s, "after the merge")
	})
}

// TestCollectKeysInOneBatch: the tombstone is put and collected by entries of one batch.
func TestCollectKeysInOneBatch(t *testing.T) {
	s := openMem(t)
	defer s.Close()
	k := userKey(1, 1, "k")
	commit(t, s, false, func(b *Batch) {
		b.PutVersion(Version{Key: k, TS: 5, Writer: base.GroupIndex{Region: 1, Index: 1}})
	})
	commit(t, s, false, func(b *Batch) {
		b.PutVersion(Version{Key: k, TS: 10, Tombstone: true, Writer: base.GroupIndex{Region: 1, Index: 2}})
		b.PutVersion(Version{Key: k.Next(), TS: 10, Writer: base.GroupIndex{Region: 1, Index: 2}})
		must(t, b.CollectKeys([]base.Key{k}, 10))
		b.PutVersion(Version{Key: k, TS: 11, Value: []byte("new"), Writer: base.GroupIndex{Region: 1, Index: 4}})
	})
	r := s.NewReader()
	defer r.Close()
	if v, _, err := r.Get(k, 11); err != nil || string(v.Value) != "new" {
		t.Fatalf("%+v %v", v, err)
	}
	if v, ok, err := r.Get(k, 10); err != nil || ok {
		t.Fatalf("%+v %v", v, err)
	}
	if _, ok, err := r.Get(k.Next(), 10); err != nil || !ok {
		t.Fatalf("the neighbour is gone: %v", err)
	}
	if _, _, err := r.Get(k, 9); base.CodeOf(err) != base.CodeTooOld {
		t.Fatalf("read below the threshold: %v", err)
	}
}

func TestCollectVersions(t *testing.T) {
	s := openMem(t)
	defer s.Close()
	const keys, versions = 50, 20
	for ts := base.Timestamp(1); ts <= versions; ts++ {
		commit(t, s, false, func(b *Batch) {
			for k := range keys {
				b.PutVersion(Version{Key: userKey(1, 1, fmt.Sprintf("%03d", k)), TS: ts,
					Tombstone: int(ts) == k%versions, Value: []byte{byte(ts)},
					Writer: base.GroupIndex{Region: 1, Index: uint64(ts)}})
			}
		})
	}
	before := dump(t, s, 15, versions+1)
	total := 0
	for next := base.Key(nil); ; {
		n, more, err := s.CollectVersions(1, 15, next, 64)
		must(t, err)
		total += n
		if next = more; next == nil {
			break
		}
	}
	if want := keys * 14; total != want {
		t.Errorf("removed %d versions, want %d", total, want)
	}
	if after := dump(t, s, 15, versions+1); after != before {
		t.Errorf("reads changed:\n%s\nbefore\n%s", after, before)
	}
	r := s.NewReader()
	defer r.Close()
	it := r.Iter(base.Span{Start: userKey(1, 1, ""), End: userKey(1, 2, "")}, 14, IterOptions{})
	defer it.Close()
	if it.Next() || base.CodeOf(it.Err()) != base.CodeTooOld {
		t.Errorf("scan below the threshold: %v", it.Err())
	}
}

// TestAfterClose: a request that outlives the store is told so.
func TestAfterClose(t *testing.T) {
	s := openMem(t)
	g := base.DataGroup(1, 1)
	b := s.NewBatch()
	b.SetState(g, "lease", []byte("x"))
	must(t, s.Close())
	for _, r := range []*Reader{s.NewReader(), s.NewPointReader()} {
		if _, _, err := r.Newest(base.Key("k")); base.CodeOf(err) != base.CodeUnavailable {
			t.Error(err)
		}
		r.Close()
	}
	for name, f := range map[string]func() error{
		"record":      func() error { _, _, err := s.GetTxn(g, base.TxnID{}); return err },
		"records":     func() error { return s.ScanTxns(g, base.TxnID{}, base.TxnID{}, nil) },
		"groups":      func() error { _, err := s.Groups(); return err },
		"collection":  func() error { _, _, err := s.CollectVersions(1, 1, nil, 0); return err },
		"snapshot":    func() error { _, err := s.ExportShard(1); return err },
		"import":      func() error { _, err := s.ImportShard(1); return err },
		"a batch":     func() error { return b.Commit(false) },
		"a new batch": func() error { return s.SetLocal("x", nil, true) },
	} {
		if err := f(); base.CodeOf(err) != base.CodeUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.Close()
}
