package store

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/base/basetest"
)

var must = basetest.Must

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func openMem(t testing.TB) *Store {
	t.Helper()
	return openFS(t, vfs.NewMem())
}

func openFS(t testing.TB, fs vfs.FS) *Store {
	t.Helper()
	s, err := Open(Options{Dir: "db", FS: fs, Simulation: true, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// commit fills and commits a batch.
func commit(t testing.TB, s *Store, sync bool, fill func(b *Batch)) {
	t.Helper()
	b := s.NewBatch()
	defer b.Close()
	fill(b)
	must(t, b.Commit(sync))
}

func userKey(shard base.ShardID, table uint64, suffix string) base.Key {
	return append(base.IndexPrefix(shard, base.TableID(table), 0, 0), suffix...)
}

// twin is the naive reader: a sorted list of all versions.
type twin struct{ vs []Version }

func (w *twin) put(v Version) {
	i, found := slices.BinarySearchFunc(w.vs, v, func(a, b Version) int {
		if c := a.Key.Compare(b.Key); c != 0 {
			return c
		}
		return int(int64(b.TS) - int64(a.TS))
	})
	if !found {
		w.vs = slices.Insert(w.vs, i, v)
	}
}

func (w *twin) get(k base.Key, ts base.Timestamp) (Version, bool) {
	for _, v := range w.vs {
		if bytes.Equal(v.Key, k) && v.TS <= ts {
			return v, true
		}
	}
	return Version{}, false
}

func (w *twin) scan(sp base.Span, ts base.Timestamp, reverse bool) (out []Version) {
	for _, v := range w.vs {
		if !sp.Contains(v.Key) || v.TS > ts {
			continue
		}
		if n := len(out); n > 0 && bytes.Equal(out[n-1].Key, v.Key) {
			continue
		}
		out = append(out, v)
	}
	if reverse {
		slices.Reverse(out)
	}
	return out
}

func (w *twin) pred(k base.Key) (Version, bool) {
	var best base.Key
	for _, v := range w.vs {
		if v.Key.Compare(k) < 0 && bytes.Equal(v.Key.Section(), k.Section()) {
			best = v.Key
		}
	}
	return w.get(best, base.MaxTimestamp)
}

func same(a, b Version) bool {
	return bytes.Equal(a.Key, b.Key) && a.TS == b.TS && a.Label == b.Label && a.Tombstone == b.Tombstone &&
		bytes.Equal(a.Value, b.Value) && a.Writer == b.Writer
}

func TestReaderAgainstTwin(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			s := openMem(t)
			defer s.Close()
			var w twin
			// Keys of several lengths, some prefixes of others, with zero bytes, in three sections.
			key := func() base.Key {
				suffix := make([]byte, rng.IntN(3))
				for i := range suffix {
					suffix[i] = byte(rng.IntN(4)) * 85
				}
				return userKey(1, uint64(1+rng.IntN(3)), string(suffix)+string(rune('a'+rng.IntN(6))))
			}
			hot := key()
			index := uint64(0)
			for range 60 {
				commit(t, s, false, func(b *Batch) {
					for range 1 + rng.IntN(12) {
						index++
						k := key()
						if rng.IntN(3) == 0 {
							k = hot
						}
						v := Version{Key: k, TS: base.Timestamp(1 + rng.IntN(500)), Label: base.Label(rng.Uint64()),
							Writer: base.GroupIndex{Region: base.RegionID(rng.IntN(8)), Index: index << (rng.IntN(6) * 7)}}
						if v.Tombstone = rng.IntN(4) == 0; !v.Tombstone {
							v.Value = bytes.Repeat([]byte{byte(index)}, rng.IntN(40))
						}
						if _, dup := w.get(k, v.TS); dup {
							if o, _ := w.get(k, v.TS); o.TS == v.TS {
								continue
							}
						}
						w.put(v)
						b.PutVersion(v)
					}
				})
				if rng.IntN(10) == 0 {
					must(t, s.Flush())
				}
				if rng.IntN(25) == 0 {
					must(t, s.Compact())
				}
				checkReader(t, s, &w, rng, key)
				checkReader(t, s, &w, rng, key) // in the view of the first one
			}
		})
	}
}

func checkReader(t *testing.T, s *Store, w *twin, rng *rand.Rand, key func() base.Key) {
	t.Helper()
	r := s.NewReader()
	if rng.IntN(2) == 0 {
		r.Close()
		r = s.NewPointReader()
	}
	defer r.Close()
	for range 20 {
		k, ts := key(), base.Timestamp(rng.IntN(520))
		switch rng.IntN(4) {
		case 0:
			got, ok, err := r.Get(k, ts)
			must(t, err)
			if want, found := w.get(k, ts); ok != found || !same(got, want) {
				t.Fatalf("Get(%s, %d) = %+v %v, want %+v %v", k, ts, got, ok, want, found)
			}
		case 1:
			got, ok, err := r.Newest(k)
			must(t, err)
			if want, found := w.get(k, base.MaxTimestamp); ok != found || !same(got, want) {
				t.Fatalf("Newest(%s) = %+v, want %+v", k, got, want)
			}
		case 2:
			got, ok, err := r.Pred(k)
			must(t, err)
			if want, found := w.pred(k); ok != found || !same(got, want) {
				t.Fatalf("Pred(%s) = %+v %v, want %+v %v", k, got, ok, want, found)
			}
		default:
			sp := base.Span{Start: k, End: key()}
			if rng.IntN(5) == 0 {
				sp.End = nil
			} else if sp.Start.Compare(sp.End) > 0 {
				sp.Start, sp.End = sp.End, sp.Start
			}
			reverse := rng.IntN(2) == 0
			it := r.Iter(sp, ts, IterOptions{Reverse: reverse})
			var got []Version
			for it.Next() {
				v := it.Version()
				v.Key, v.Value = v.Key.Clone(), bytes.Clone(v.Value)
				got = append(got, v)
				if rng.IntN(3) == 0 { // point reads while the scan is open
					p, ok, err := r.Get(v.Key, ts)
					must(t, err)
					if !ok || !same(p, v) {
						t.Fatalf("Get during a scan: %+v, want %+v", p, v)
					}
				}
			}
			must(t, it.Err())
			it.Close()
			if want := w.scan(sp, ts, reverse); !slices.EqualFunc(got, want, same) {
				t.Fatalf("Iter(%s, %d, reverse=%v)\n got %+v\nwant %+v", sp, ts, reverse, got, want)
			}
		}
	}
}

func TestReaderView(t *testing.T) {
	s := openMem(t)
	defer s.Close()
	k := userKey(1, 1, "k")
	put := func(ts base.Timestamp) {
		commit(t, s, false, func(b *Batch) {
			b.PutVersion(Version{Key: k, TS: ts, Value: []byte{byte(ts)}, Writer: base.GroupIndex{Index: uint64(ts)}})
		})
	}
	put(1)
	for ts := base.Timestamp(2); ts < 50; ts++ {
		old := s.NewReader()
		put(ts)
		fresh := s.NewReader()
		if v, _, err := old.Newest(k); err != nil || v.TS != ts-1 {
			t.Fatalf("old view shows %v (%v), want %d", v.TS, err, ts-1)
		}
		if v, _, err := fresh.Newest(k); err != nil || v.TS != ts {
			t.Fatalf("new view shows %v (%v), want %d", v.TS, err, ts)
		}
		// Closing in either order must not let an old iterator serve a new reader.
		if ts%2 == 0 {
			old.Close()
			fresh.Close()
		} else {
			fresh.Close()
			old.Close()
		}
		r := s.NewReader()
		if v, _, err := r.Newest(k); err != nil || v.TS != ts {
			t.Fatalf("view after reuse shows %v (%v), want %d", v.TS, err, ts)
		}
		r.Close()
	}
}

func TestPutVersionRefusesNonsense(t *testing.T) {
	s := openMem(t)
	defer s.Close()
	for _, v := range []Version{{}, {Key: base.Key("k"), TS: 1}, {Key: base.Key("k"), Writer: base.GroupIndex{Index: 1}}} {
		b := s.NewBatch()
		b.PutVersion(v)
		if err := b.Commit(false); base.CodeOf(err) != base.CodeInvalid {
			t.Errorf("%+v: %v", v, err)
		}
		b.Close()
	}
}
