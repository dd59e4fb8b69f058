package store

import (
	"errors"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// walCategory is what Pebble calls its write-ahead log when it makes a file.
const walCategory = "pebble-wal"

const (
	zeroStep = 1 << 20 // how far ahead of its end a log file is filled with zeros
	walBlock = 4 << 10 // what is written past the page cache begins and ends at multiples of this
	walBuf   = 1 << 20
	// From so many bytes on a write goes to the end of the file without zeros before it: the
	// journal's transaction is a small part of its cost, and the zeros would double its bytes.
	walBulk = 128 << 10
)

// walFS makes the syncs of the write-ahead log cheap. A sync of a file that has grown, or of blocks
// that were reserved but never written, is a transaction of the file system's journal; one of
// blocks that exist is not. So log files are filled with zeros a piece ahead, until Pebble has old
// ones to use again.
type walFS struct{ vfs.FS }

func (fs walFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, c)
	if err != nil || c != walCategory {
		return f, err
	}
	return newWALFile(f, 0), nil
}

func (fs walFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.ReuseForWrite(oldname, newname, c)
	if err != nil || c != walCategory {
		return f, err
	}
	size := int64(0)
	if info, err := f.Stat(); err == nil {
		size = info.Size()
	}
	return newWALFile(f, size), nil
}

// Unwrap is what Pebble asks of a wrapped file system.
func (fs walFS) Unwrap() vfs.FS { return fs.FS }

// walFile is a log file; like Pebble's own, it is written by one goroutine at a time.
//
// Where the system offers it, writes pass the page cache by, and writing and syncing are one call.
// What is written gathers in memory until the next sync (what no sync follows, a crash of the
// process may lose, as one of the machine may); the block that the log ends in is written again
// with each, its beginning unchanged, so a torn write harms no synced bytes.
type walFile struct {
	vfs.File
	end    int64  // of what was written
	filled int64  // the file's size, to a whole block
	zeros  []byte // made when the first piece is filled
	syncer *fileSyncer
	pages  bool // zeros is of pages
	grown  bool // there is something behind end that a new file does not keep

	buf      []byte // nil: through the page cache
	at       int64  // where buf is in the file
	used     int    // so much of buf is used
	out      int    // so much of it is in the file
	unsynced bool   // something in the file is not known to be durable
}

func newWALFile(f vfs.File, size int64) *walFile {
	w := &walFile{File: f, filled: size, syncer: newFileSyncer(f.Fd())}
	if w.syncer != nil && w.syncer.direct(true) {
		if w.buf = pages(walBuf); w.buf == nil {
			w.syncer.direct(false)
		} else {
			w.filled -= size % walBlock
		}
	}
	return w
}

// Preallocate leaves it to Write.
func (f *walFile) Preallocate(int64, int64) error { return nil }

// fill adds zeros. What cannot be filled is written all the same, or that write tells why not.
func (f *walFile) fill() {
	if f.zeros == nil {
		if f.buf != nil {
			f.zeros = pages(zeroStep)
			f.pages = f.zeros != nil
		}
		if f.zeros == nil {
			f.zeros = make([]byte, zeroStep)
		}
	}
	if n, err := f.WriteAt(f.zeros, f.filled); err == nil {
		f.filled += int64(n)
		f.unsynced, f.grown = true, true
	}
}

func (f *walFile) Write(p []byte) (int, error) {
	n := 0
	for f.buf != nil {
		m := copy(f.buf[f.used:], p[n:])
		f.used += m
		f.end += int64(m)
		if n += m; n == len(p) {
			return n, nil
		}
		if err := f.writeOut(false); err != nil {
			return n, err
		}
	}
	p = p[n:]
	if f.end+int64(len(p)) > f.filled {
		f.fill()
	}
	m, err := f.WriteAt(p, f.end)
	f.end += int64(m)
	f.filled = max(f.filled, f.end)
	return n + m, err
}

// writeOut writes what buf holds; with sync, everything written so far is durable then.
func (f *walFile) writeOut(sync bool) error {
	if f.used > f.out {
		size := (f.used + walBlock - 1) &^ (walBlock - 1)
		clear(f.buf[f.used:size])
		if f.at+int64(size) > f.filled {
			if f.grown = true; size < walBulk {
				f.fill()
			}
		}
		_, err := f.syncer.write(f.buf[:size], f.at, sync && !f.unsynced)
		if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
			// some file systems find out only now, or want larger blocks
			return f.throughCache(sync)
		}
		if err != nil {
			return err
		}
		f.filled = max(f.filled, f.at+int64(size))
		f.unsynced = f.unsynced || !sync
		whole := f.used &^ (walBlock - 1)
		copy(f.buf, f.buf[whole:f.used])
		f.at += int64(whole)
		f.used -= whole
		f.out = f.used
	}
	if sync && f.unsynced {
		if err := f.syncFile(); err != nil {
			return err
		}
		f.unsynced = false
	}
	return nil
}

// throughCache gives up to pass the page cache by; what buf holds is written again.
func (f *walFile) throughCache(sync bool) error {
	f.syncer.direct(false)
	buf := f.buf[:f.used]
	defer freePages(f.buf)
	f.buf = nil
	if _, err := f.WriteAt(buf, f.at); err != nil {
		return err
	}
	f.filled = max(f.filled, f.end)
	if sync {
		return f.syncFile()
	}
	return nil
}

func (f *walFile) syncFile() error {
	if f.syncer != nil {
		return f.syncer.sync()
	}
	return f.File.SyncData()
}

// SyncData implements vfs.File.
func (f *walFile) SyncData() error {
	if f.buf != nil {
		return f.writeOut(true)
	}
	return f.syncFile()
}

// Sync implements vfs.File.
func (f *walFile) Sync() error {
	if err := f.SyncData(); err != nil {
		return err
	}
	return f.File.Sync()
}

// SyncTo implements vfs.File.
func (f *walFile) SyncTo(int64) (bool, error) { return true, f.SyncData() }

// Close gives back what was filled and not used. After a crash the zeros are there; Pebble stops at
// them.
func (f *walFile) Close() error {
	var err error
	if f.buf != nil {
		if err = f.writeOut(false); f.buf != nil {
			freePages(f.buf)
			f.buf = nil
		}
	}
	if f.syncer != nil {
		f.syncer.close()
		f.syncer = nil
	}
	if t, ok := f.File.(interface{ Truncate(int64) error }); ok && f.grown {
		_ = t.Truncate(f.end)
	}
	if f.pages {
		freePages(f.zeros)
	}
	if cerr := f.File.Close(); err == nil {
		err = cerr
	}
	return err
}
