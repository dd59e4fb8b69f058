package store

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/godwitdb/godwit/base"
)

// TestCrash: a crash keeps everything up to the last synced commit, loses a
// suffix of what came after, and never splits a batch: the applied index and the rows it stands
// for, the log and its truncation record, agree.
func TestCrash(t *testing.T) {
	for seed := range uint64(25) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 11))
			fs := vfs.NewCrashableMem()
			g := base.DataGroup(1, 1)
			appended, applied := uint64(0), uint64(0)
			for life := range 6 {
				s := openFS(t, fs)
				l, err := s.Log(g)
				must(t, err)
				last, err := l.LastIndex()
				must(t, err)
				got, err := s.Applied(g)
				must(t, err)
				if last < appended {
					t.Fatalf("life %d: synced entries up to %d, found %d", life, appended, last)
				}
				if got > last || got < applied {
					t.Fatalf("life %d: applied index is %d, log ends at %d, synced applied index was %d", life, got,
						last, applied)
				}
				checkRows(t, s, got)
				appended, applied = last, got
				done := got
				for range rng.IntN(40) {
					switch rng.IntN(6) {
					case 0, 1:
						n := uint64(1 + rng.IntN(4))
						commit(t, s, true, func(b *Batch) {
							must(t, l.Append(b, hard(1, 1, appended+n), entries(appended+1, appended+n, 1, 100)))
						})
						appended, applied = appended+n, done
					case 2, 3:
						for done < appended && rng.IntN(3) > 0 {
							done++
							commit(t, s, false, func(b *Batch) {
								b.PutVersion(Version{Key: crashKey(done), TS: base.Timestamp(done),
									Value: []byte("x"), Writer: base.GroupIndex{Region: 1, Index: done}})
								b.SetTxn(g, base.MakeTxnID(base.Timestamp(done), 1, 1), []byte("committed"))
								b.SetApplied(g, done)
							})
						}
					case 4:
						if first, _ := l.FirstIndex(); done > first {
							commit(t, s, false, func(b *Batch) { must(t, l.TruncateTo(b, done-1)) })
						}
					case 5:
						if rng.IntN(3) == 0 {
							must(t, s.Flush())
							applied = done
						}
					}
				}
				crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(3) * 50, RNG: rng})
				must(t, s.Close())
				fs = crashed
			}
		})
	}
}

func crashKey(i uint64) base.Key { return binary.BigEndian.AppendUint64(userKey(1, 1, ""), i) }

func checkRows(t *testing.T, s *Store, applied uint64) {
	t.Helper()
	r := s.NewReader()
	defer r.Close()
	n := uint64(0)
	it := r.Iter(base.Span{Start: userKey(1, 1, ""), End: userKey(1, 2, "")}, base.MaxTimestamp, IterOptions{})
	for it.Next() {
		if n++; uint64(it.Version().TS) != n {
			t.Fatalf("row %d is missing", n)
		}
	}
	must(t, it.Err())
	it.Close()
	if n != applied {
		t.Fatalf("%d rows but applied index %d", n, applied)
	}
	txns := uint64(0)
	must(t, s.ScanTxns(base.DataGroup(1, 1), base.TxnID{}, base.TxnID{}, func(base.TxnID, []byte) error { txns++; return nil }))
	if txns != applied {
		t.Fatalf("%d transaction records but applied index %d", txns, applied)
	}
}

// TestCrashDuringImport: a crash at any point of a merge leaves the state before or after it.
func TestCrashDuringImport(t *testing.T) {
	g1, g2 := base.DataGroup(1, 1), base.DataGroup(1, 2)
	before, after := 0, 0
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 5))
		logs, all := shardScript(rng, []base.GroupID{g1, g2}, 60)
		src := openMem(t)
		for _, e := range all {
			apply(t, src, e)
		}
		fs := vfs.NewCrashableMem()
		dst := openFS(t, fs)
		for _, e := range logs[g1][:len(logs[g1])/2] {
			apply(t, dst, e)
		}
		must(t, dst.Sync())
		was := dumpRaw(t, dst)
		want := openMem(t)
		for _, e := range logs[g1][:len(logs[g1])/2] {
			apply(t, want, e)
		}
		transfer(t, src, want, g1, g2)

		e, err := src.ExportShard(1)
		must(t, err)
		i, err := dst.ImportShard(1)
		must(t, err)
		must(t, e.Chunks(100, i.Add))
		crash := make(chan *vfs.MemFS, 1)
		if rng.IntN(4) == 0 {
			crash <- fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng})
			must(t, i.Finish([]base.GroupID{g1, g2}, nil))
		} else {
			// Just after the redo record is durable, with none, some or all of the rest.
			must(t, i.Finish([]base.GroupID{g1, g2}, func(*Batch) error { return nil }))
			crash <- fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng})
		}
		e.Close()
		must(t, dst.Close())
		dst = openFS(t, <-crash)
		switch got := dumpRaw(t, dst); got {
		case was:
			before++
		case dumpRaw(t, want):
			after++
		default:
			t.Fatalf("seed %d: neither before nor after\n%s", seed, got)
		}
		must(t, dst.Close())
		must(t, src.Close())
		must(t, want.Close())
	}
	if before == 0 || after == 0 {
		t.Fatalf("%d before, %d after: the test reaches only one side", before, after)
	}
}

// TestImportResumes: the process dies when the redo record is durable and half of the rows are
// merged.
func TestImportResumes(t *testing.T) {
	g1 := base.DataGroup(1, 1)
	src := openMem(t)
	defer src.Close()
	_, all := shardScript(rand.New(rand.NewPCG(1, 1)), []base.GroupID{g1}, 50)
	for _, e := range all {
		apply(t, src, e)
	}
	fs := vfs.NewMem()
	dst := openFS(t, fs)
	e, err := src.ExportShard(1)
	must(t, err)
	defer e.Close()
	i, err := dst.ImportShard(1)
	must(t, err)
	must(t, e.Chunks(0, i.Add))
	h, err := i.header()
	must(t, err)
	last := dst.NewBatch()
	last.exclusive = true
	l, err := dst.Log(g1)
	must(t, err)
	must(t, i.lastBatch(last, h, []base.GroupID{g1}, func(b *Batch) error {
		return l.ResetToSnapshot(b, e.Applied[1], 3, l.conf)
	}))
	must(t, dst.setLocal(localImport+"1", last.b.Repr(), true))
	last.Close()
	must(t, dst.Close())

	dst = openFS(t, fs)
	defer dst.Close()
	if got, want := dumpRaw(t, dst), dumpRaw(t, src); got != want {
		t.Fatalf("after resuming\n%s\nwant\n%s", got, want)
	}
	l, err = dst.Log(g1)
	must(t, err)
	if first, _ := l.FirstIndex(); first != e.Applied[1]+1 {
		t.Fatalf("log starts at %d, want %d", first, e.Applied[1]+1)
	}
	lo, hi := areaSpan([]byte{areaStaging})
	must(t, dst.scan(lo, hi, func(ek, _ []byte) error { return fmt.Errorf("staged key %x is left", ek) }))
}

// dumpRaw prints versions, records and marks of shard 1.
func dumpRaw(t testing.TB, s *Store) string {
	t.Helper()
	out := fmt.Sprintf("threshold %d\n", s.GCThreshold(1))
	add := func(lo, hi []byte, keep func([]byte) bool) {
		must(t, s.scan(lo, hi, func(ek, val []byte) error {
			if keep(ek) {
				out += fmt.Sprintf("%x=%x\n", ek, val)
			}
			return nil
		}))
	}
	for _, area := range []byte{areaState, areaTxn} {
		lo, hi := groupsSpan(area, 1)
		add(lo, hi, func(ek []byte) bool { return area == areaTxn || exported(ek) })
	}
	for _, area := range []byte{areaVersion, areaMark} {
		lo, hi := shardSpan(area, 1)
		add(lo, hi, func([]byte) bool { return true })
	}
	return out
}

// TestSynctest: the store works inside bubbles, several in one process.
func TestSynctest(t *testing.T) {
	// Pebble keeps channels in pools: two collections empty them, so that none goes into a bubble
	// or out of it.
	clear := func() { runtime.GC(); runtime.GC() }
	defer clear()
	for range 3 {
		clear()
		synctest.Test(t, func(t *testing.T) {
			s := openFS(t, vfs.NewCrashableMem())
			defer s.Close()
			g := base.DataGroup(1, 1)
			l, err := s.Log(g)
			must(t, err)
			done := make(chan error)
			for w := range 8 {
				go func() {
					b := s.NewBatch()
					defer b.Close()
					b.PutVersion(Version{Key: crashKey(uint64(w)), TS: 1, Writer: base.GroupIndex{Region: 1, Index: 1}})
					done <- b.Commit(true)
				}()
			}
			for range 8 {
				must(t, <-done)
			}
			commit(t, s, true, func(b *Batch) { must(t, l.Append(b, hard(1, 1, 0), entries(1, 2000, 1, 5000))) })
			must(t, s.Flush())
			// An import waits for an open batch, and a batch for an import, without stopping the
			// clock.
			b := s.NewBatch()
			b.PutVersion(Version{Key: crashKey(99), TS: 1, Writer: base.GroupIndex{Region: 1, Index: 1}})
			go func() { done <- s.ClearShard(1) }()
			synctest.Wait()
			must(t, b.Commit(false))
			must(t, <-done)
			b.Close()
			checkRows(t, s, 0)
		})
	}
}
