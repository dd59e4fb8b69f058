package store

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/godwitdb/godwit/base"
)

// TestWALCrash copies the files of a store that is in use, as a crash of the process would leave
// them, and opens the copy: everything is there, whether logs are new, filled with zeros ahead, or
// used again.
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
		b.PutVersion(Version{Key: crashKey(i), TS: base.Timestamp(i), Value: bytes.Repeat([]byte{byte(i)}, 50_000),
			Writer: base.GroupIndex{Region: 1, Index: i}})
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
		// In this order a flush that ends meanwhile does no harm: nothing that a copied file names
		// is missing.
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

// TestWALFile: past the page cache, through it, and where the file system refuses the former at the
// first write, a log file holds what was written after each sync, and nothing else when it is
// closed.
func TestWALFile(t *testing.T) {
	for mode, prepare := range map[string]func(*walFile){
		"direct": func(*walFile) {},
		"cached": func(w *walFile) {
			if w.syncer != nil {
				w.syncer.direct(false)
			}
			w.buf = nil
		},
		"refused": func(w *walFile) {
			if w.buf != nil {
				w.buf = w.buf[1:] // the kernel wants aligned memory
			}
		},
	} {
		t.Run(mode, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "000001.log")
			f, err := walFS{vfs.Default}.Create(path, walCategory)
			must(t, err)
			w := f.(*walFile)
			if w.buf == nil {
				t.Log("this system does not write past the page cache")
			}
			prepare(w)
			want := writeWAL(t, w, path, nil, 300, func(i int) []byte { return bytes.Repeat([]byte{byte(i + 1)}, 1+i*37) })
			if mode == "refused" && w.buf != nil {
				t.Error("unaligned writes went past the page cache")
			}
			must(t, f.Close())
			checkFile(t, path, want)

			// The same file again: it is longer than what is written to it now, and its size is no
			// multiple of anything.
			f, err = walFS{vfs.Default}.ReuseForWrite(path, path+"2", walCategory)
			must(t, err)
			w = f.(*walFile)
			prepare(w)
			want = writeWAL(t, w, path+"2", nil, 70, func(i int) []byte { return bytes.Repeat([]byte{byte(i + 101)}, 1+i*7) })
			must(t, f.Close())
			got, err := os.ReadFile(path + "2")
			must(t, err)
			if !bytes.HasPrefix(got, want) {
				t.Fatal("the file used again does not begin with what was written")
			}
		})
	}
}

// directLog is a log file that is written past the page cache, and where it is.
func directLog(t *testing.T) (*walFile, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "000001.log")
	f, err := walFS{vfs.Default}.Create(path, walCategory)
	must(t, err)
	w := f.(*walFile)
	if w.buf == nil {
		t.Skip("this system does not write past the page cache")
	}
	return w, path
}

// TestWALFileGivesUp: a file system that took some writes past the page cache and then refuses one
// loses nothing.
func TestWALFileGivesUp(t *testing.T) {
	w, path := directLog(t)
	want := writeWAL(t, w, path, nil, 50, func(i int) []byte { return bytes.Repeat([]byte{byte(i + 1)}, 1+i*97) })
	if w.buf == nil {
		t.Skip("this file system does not write past the page cache")
	}
	moved := make([]byte, walBuf+1)[1:]
	copy(moved, w.buf)
	freePages(w.buf)
	w.buf = moved
	want = writeWAL(t, w, path, want, 50, func(i int) []byte { return bytes.Repeat([]byte{byte(i + 51)}, 1+i*89) })
	if w.buf != nil {
		t.Error("unaligned writes went past the page cache")
	}
	must(t, w.Close())
	checkFile(t, path, want)
}

// writeWAL writes records after what is there, syncs now and then, and looks each time at what is
// in the file.
func writeWAL(t *testing.T, w *walFile, path string, before []byte, n int, rec func(i int) []byte) (want []byte) {
	t.Helper()
	want = before
	for i := range n {
		p := rec(i)
		_, err := w.Write(p)
		must(t, err)
		want = append(want, p...)
		if i%20 == 19 {
			p = bytes.Repeat([]byte{byte(i)}, walBuf+i) // more than is gathered
			_, err := w.Write(p)
			must(t, err)
			want = append(want, p...)
		}
		if i%3 == 2 {
			continue
		}
		must(t, w.SyncData())
		got, err := os.ReadFile(path)
		must(t, err)
		if !bytes.HasPrefix(got, want) {
			t.Fatalf("after write %d the file is not what was written", i)
		}
	}
	return want
}

func checkFile(t *testing.T, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(got, want) {
		t.Fatalf("the closed file has %d bytes, %d were written", len(got), len(want))
	}
}

// TestWALFileZeros: behind what was written there are zeros, in whole pieces.
func TestWALFileZeros(t *testing.T) {
	path := filepath.Join(t.TempDir(), "000001.log")
	f, err := walFS{vfs.Default}.Create(path, walCategory)
	must(t, err)
	defer f.Close()
	size := 0
	for i := range 100 {
		p := bytes.Repeat([]byte{1}, 1+i*523)
		size += len(p)
		_, err := f.Write(p)
		must(t, err)
		must(t, f.SyncData())
		got, err := os.ReadFile(path)
		must(t, err)
		if len(got)%zeroStep != 0 || !zero(got[size:]) {
			t.Fatalf("after write %d the file has %d bytes, or something behind the %d written", i, len(got), size)
		}
	}
}

// TestWALFileError: a log file that cannot be written says so; what was written before stays.
func TestWALFileError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "000001.log")
	f, err := walFS{vfs.Default}.Create(path, walCategory)
	must(t, err)
	w := f.(*walFile)
	_, err = f.Write([]byte("one"))
	must(t, err)
	must(t, f.SyncData())
	must(t, w.File.Close())
	if _, err = f.Write([]byte("two")); err == nil {
		err = f.SyncData()
	}
	if err == nil {
		t.Fatal("a closed file was written")
	}
	_ = f.Close()
	got, err := os.ReadFile(path)
	must(t, err)
	if !bytes.HasPrefix(got, []byte("one")) || !zero(got[3:]) {
		t.Fatalf("the file has %q", got[:10])
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
	if err := s.sync(); err == nil {
		t.Fatal("a pipe was synced")
	}
}

// TestFileSyncerStuck: a write that does not come back holds nothing that the rest of the process
// needs. The full pipe stands for a frozen file system, the collector for what stops the world.
func TestFileSyncerStuck(t *testing.T) {
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	defer w.Close()
	fd := w.Fd()
	must(t, syscall.SetNonblock(int(fd), true))
	full, err := syscall.Write(int(fd), make([]byte, 1<<24))
	must(t, err)
	must(t, syscall.SetNonblock(int(fd), false))
	s := newFileSyncer(fd)
	if s == nil {
		t.Skip("this kernel offers no event descriptors")
	}
	defer s.close()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	late := []byte("late")
	ended := make(chan error, 1)
	go func() {
		_, err := s.write(late, -1, false)
		ended <- err
	}()
	for range 3 {
		runtime.Gosched()
		runtime.GC()
	}
	select {
	case err := <-ended:
		t.Fatalf("the pipe was not full: %v", err)
	default:
	}
	got := make([]byte, full+len(late))
	_, err = io.ReadFull(r, got)
	must(t, err)
	must(t, <-ended)
	if !bytes.HasSuffix(got, late) {
		t.Fatal("what was stuck is not what was written")
	}
}

// TestWALFileBulk: what is large is written without zeros before it, and what is small behind it is
// preceded by them again.
func TestWALFileBulk(t *testing.T) {
	w, path := directLog(t)
	var want []byte
	write := func(n int) int64 {
		p := bytes.Repeat([]byte{byte(len(want)%250 + 1)}, n)
		_, err := w.Write(p)
		must(t, err)
		must(t, w.SyncData())
		want = append(want, p...)
		info, err := os.Stat(path)
		must(t, err)
		return info.Size()
	}
	for range 5 {
		if size := write(3*walBulk + 11); w.buf != nil && size-int64(len(want)) >= walBlock {
			t.Fatalf("the file has %d bytes, %d were written", size, len(want))
		}
	}
	if size := write(2 * walBlock); w.buf != nil && size < int64(len(want)+zeroStep-3*walBlock) {
		t.Fatalf("the file has %d bytes: there are no zeros behind the %d written", size, len(want))
	}
	must(t, w.Close())
	checkFile(t, path, want)
}
