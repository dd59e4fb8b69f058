package store

import "github.com/cockroachdb/pebble/v2/vfs"

// walCategory is what Pebble calls its write-ahead log when it makes a file.
const walCategory = "pebble-wal"

// zeroStep is how far ahead of its end a log file is filled with zeros.
const zeroStep = 1 << 20

// walFS makes the syncs of the write-ahead log cheap. A sync of a file that has grown, or of blocks
// that were reserved but never written, is a transaction of the file system's journal; one of blocks that exist is
// not. So log files are filled with zeros a piece ahead, until Pebble has old ones to use again.
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
type walFile struct {
	vfs.File
	end    int64  // of what was written
	filled int64  // the file's size
	zeros  []byte // made when the first piece is filled
	syncer *fileSyncer
}

func newWALFile(f vfs.File, size int64) *walFile {
	return &walFile{File: f, filled: size, syncer: newFileSyncer(f.Fd())}
}

// Preallocate leaves it to Write.
func (f *walFile) Preallocate(int64, int64) error { return nil }

func (f *walFile) Write(p []byte) (int, error) {
	if f.end+int64(len(p)) > f.filled {
		if f.zeros == nil {
			f.zeros = make([]byte, zeroStep)
		}
		// What cannot be filled is written all the same, or that write tells why not.
		if n, err := f.WriteAt(f.zeros, f.filled); err == nil {
			f.filled += int64(n)
		}
	}
	n, err := f.File.Write(p)
	f.end += int64(n)
	f.filled = max(f.filled, f.end)
	return n, err
}

// SyncData implements vfs.File.
func (f *walFile) SyncData() error {
	if f.syncer != nil {
		if done, err := f.syncer.sync(); done {
			return err
		}
	}
	return f.File.SyncData()
}

// Close gives back what was filled and not used. After a crash the zeros are there; Pebble stops at them.
func (f *walFile) Close() error {
	if f.syncer != nil {
		f.syncer.close()
		f.syncer = nil
	}
	if t, ok := f.File.(interface{ Truncate(int64) error }); ok && f.zeros != nil {
		_ = t.Truncate(f.end)
	}
	return f.File.Close()
}
