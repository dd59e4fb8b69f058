package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/godwitdb/godwit/base"
)

// TestChanges: the versions of any period are those that a walk over all versions finds, whatever
// was collected below it, and whether they lie in memory or in tables; and a period that has been
// collected is refused.
func TestChanges(t *testing.T) {
	s, err := Open(Options{Dir: "db", FS: vfs.NewMem(), Simulation: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := rand.New(rand.NewPCG(1, 2))
	tab := base.MakeTableID(100, 1)
	span := base.Span{Start: base.IndexPrefix(1, tab, 0, 0)}
	span.End = span.Start.PrefixEnd()
	type change struct {
		key string
		ts  base.Timestamp
		del bool
	}
	var all []change
	ts := base.Timestamp(1000)
	for round := range 6 {
		b := s.NewBatch()
		for range 300 {
			ts += base.Timestamp(1 + r.IntN(3))
			key := base.AppendUint64(span.Start.Clone(), uint64(r.IntN(60)))
			del := r.IntN(4) == 0
			v := Version{Key: key, TS: ts, Tombstone: del, Writer: base.GroupIndex{Region: 1, Index: uint64(len(all) + 1)}}
			if !del {
				v.Value = fmt.Appendf(nil, "%d", ts)
			}
			b.PutVersion(v)
			all = append(all, change{string(key), ts, del})
		}
		if err := b.Commit(true); err != nil {
			t.Fatal(err)
		}
		b.Close()
		if round%2 == 0 {
			if err := s.db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	below := all[500].ts
	for from := base.Key(nil); ; {
		var err error
		if _, from, err = s.CollectVersions(1, below, from, 100); err != nil {
			t.Fatal(err)
		}
		if from == nil {
			break
		}
	}
	if err := s.db.Compact(t.Context(), versionsLo, versionsHi, false); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		since := below + base.Timestamp(r.IntN(int(ts-below)))
		upTo := since + base.Timestamp(1+r.IntN(int(ts-since)+10))
		var want []change
		for _, c := range all {
			if c.ts > since && c.ts <= upTo {
				want = append(want, c)
			}
		}
		slices.SortFunc(want, func(a, b change) int {
			if a.key != b.key {
				return base.Key(a.key).Compare(base.Key(b.key))
			}
			return int(b.ts) - int(a.ts)
		})
		var got []change
		err := s.Changes(span, since, upTo, false, func(v *Version) bool {
			if !v.Tombstone && string(v.Value) != fmt.Sprint(uint64(v.TS)) {
				t.Errorf("version %d has the value %q", v.TS, v.Value)
			}
			got = append(got, change{string(v.Key), v.TS, v.Tombstone})
			return true
		})
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("from %d to %d: %d changes, want %d, %v", since, upTo, len(got), len(want), err)
		}
	}
	// With older versions, too, all that is needed to read at the beginning is there.
	for _, since := range []base.Timestamp{below, ts - 100} {
		newest := map[string]change{}
		err := s.Changes(span, since, ts, true, func(v *Version) bool {
			if v.TS <= since && newest[string(v.Key)].ts == 0 {
				newest[string(v.Key)] = change{string(v.Key), v.TS, v.Tombstone}
			}
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]change{}
		for _, c := range all {
			if c.ts <= since {
				want[c.key] = c
			}
		}
		for k, c := range want {
			if newest[k] != c {
				t.Errorf("at %d key %x is %+v, want %+v", since, k, newest[k], c)
			}
		}
	}
	err = s.Changes(span, below-1, ts, false, func(*Version) bool { return true })
	if base.CodeOf(err) != base.CodeTooOld {
		t.Errorf("a period that has been collected: %v", err)
	}
}

// TestChangesReadLittle: the changes of a period in which one of 100,000 keys was written are read
// from less than a hundredth of the blocks.
func TestChangesReadLittle(t *testing.T) {
	s, err := Open(Options{Dir: "db", FS: vfs.NewMem(), Simulation: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	span := base.Span{Start: base.IndexPrefix(1, base.MakeTableID(100, 1), 0, 0)}
	span.End = span.Start.PrefixEnd()
	const keys = 100_000
	put := func(from, to uint64) {
		t.Helper()
		b := s.NewBatch()
		defer b.Close()
		for i := from; i < to; i++ {
			b.PutVersion(Version{Key: base.AppendUint64(span.Start.Clone(), i%keys), TS: base.Timestamp(1000 + i),
				Value: fmt.Appendf(nil, "a row with the number %d", i), Writer: base.GroupIndex{Region: 1, Index: i + 1}})
		}
		if err := b.Commit(true); err != nil {
			t.Fatal(err)
		}
	}
	for i := uint64(0); i < keys; i += 5000 {
		put(i, i+5000)
	}
	put(keys+777, keys+778)
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := s.db.Compact(t.Context(), versionsLo, versionsHi, false); err != nil {
		t.Fatal(err)
	}
	blocks := func(since base.Timestamp) (found int, read int64) {
		t.Helper()
		before := s.Metrics()
		if err := s.Changes(span, since, 1000+2*keys, false, func(*Version) bool { found++; return true }); err != nil {
			t.Fatal(err)
		}
		after := s.Metrics()
		return found, after.CacheHits + after.CacheMisses - before.CacheHits - before.CacheMisses
	}
	all, of := blocks(1)
	one, read := blocks(1000 + keys)
	t.Logf("%d versions in %d blocks, %d version in %d blocks", all, of, one, read)
	if all != keys+1 || one != 1 || read*100 > of {
		t.Errorf("%d of %d versions were read from %d of %d blocks", one, all, read, of)
	}
}
