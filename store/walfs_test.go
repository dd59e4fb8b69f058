package store

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/godwitdb/godwit/base"
)

// TestWALCrash copies the files of a store that is in use, as a crash of the process would leave them, and
// opens the copy: everything is there, whether logs are new, filled with zeros ahead, or used again.
func TestWALCrash(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(Options{Dir: dir, MemTableMB: 1, Simulation: true}) // no compaction
	must(t, err)
	defer s.Close()
	g := base.DataGroup(1, 1)
	l, err := s.Log(g)
	must(t, err)
	reused := false
	for i := uint64(1); i <= 120; i++ {
		b := s.NewBatch()
		must(t, l.Append(b, hard(1, 1, i), entries(i, i, 1, 100)))
		b.PutVersion(Version{Key: crashKey(i), TS: base.Timestamp(i), Value: bytes.Repeat([]byte{byte(i)}, 50_000), Writer: base.GroupIndex{Region: 1, Index: i}})
		b.SetTxn(g, base.MakeTxnID(base.Timestamp(i), 1, 1), []byte("committed"))
		b.SetApplied(g, i)
		must(t, b.Commit(true))
		b.Close()
		if n := s.db.Metrics().WAL; n.ObsoleteFiles > 0 {
			reused = true
		}
		if i%15 != 0 {
			continue
		}
		to := filepath.Join(t.TempDir(), fmt.Sprint(i))
		must(t, os.MkdirAll(to, 0o755))
		// In this order a flush that ends meanwhile does no harm: nothing that a copied file names is missing.
		for _, pattern := range []string{"GODWIT", "*.log", "marker.*", "MANIFEST-*", "OPTIONS-*", "*.sst"} {
			names, err := filepath.Glob(filepath.Join(dir, pattern))
			must(t, err)
			for _, n := range names {
				data, err := os.ReadFile(n)
				if os.IsNotExist(err) {
					continue // obsolete by now
				}
				must(t, err)
				must(t, os.WriteFile(filepath.Join(to, filepath.Base(n)), data, 0o644))
			}
		}
		c, err := Open(Options{Dir: to})
		must(t, err)
		if got, err := c.Applied(g); err != nil || got != i {
			t.Fatalf("applied index after a crash is %d (%v), want %d", got, err, i)
		}
		checkRows(t, c, i)
		must(t, c.Close())
	}
	if !reused {
		t.Error("no log file was ever used again")
	}
}

func TestWALFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "000001.log")
	f, err := walFS{vfs.Default}.Create(path, walCategory)
	must(t, err)
	w := f.(*walFile)
	if runtime.GOOS == "linux" && w.syncer == nil {
		t.Log("this kernel offers no asynchronous sync")
	}
	var want []byte
	for i := range 300 {
		p := bytes.Repeat([]byte{byte(i + 1)}, 1+i*37)
		_, err := f.Write(p)
		must(t, err)
		want = append(want, p...)
		must(t, f.SyncData())
		got, err := os.ReadFile(path)
		must(t, err)
		if !bytes.HasPrefix(got, want) || !zero(got[len(want):]) {
			t.Fatalf("after write %d the file is not what was written and zeros", i)
		}
		if len(got)%zeroStep != 0 {
			t.Fatalf("after write %d the file has %d bytes", i, len(got))
		}
	}
	must(t, f.Close())
	got, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(got, want) {
		t.Fatalf("the closed file has %d bytes, %d were written", len(got), len(want))
	}
}

// TestFileSyncerError: an error of the disk is not lost on its way.
func TestFileSyncerError(t *testing.T) {
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	defer w.Close()
	s := newFileSyncer(w.Fd()) // a pipe cannot be synced
	if s == nil {
		t.Skip("this kernel offers no asynchronous sync")
	}
	defer s.close()
	if done, err := s.sync(); err == nil {
		t.Fatalf("a pipe was synced (done %v)", done)
	}
}
