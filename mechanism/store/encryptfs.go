package store

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/base/sealed"
)

// encryptFS encrypts the files that are made in it, and reads encrypted files and others. A file
// says itself how it is encrypted, in a header before its content, so that no list of files has to
// agree with the directory after a crash:
//
//	magic 8 | id of the data key 4 | nonce 16 | checksum of these 4
//
// A byte of a file is written once under its nonce: files are written from their beginning to their
// end, and no log file is written over. Damage is for Pebble's checksums to find.
type encryptFS struct {
	vfs.FS
	keys []dataKey // the last is for new files
}

const (
	fileHeaderLen = 32
	headerMagic   = "GDWTAES1"
)

// newEncryptFS reads, or makes, the keys of a store.
func newEncryptFS(under vfs.FS, dir string, key, old EncryptionKey) (*encryptFS, error) {
	keys, err := openKeys(under, dir, key, old, time.Now())
	if err != nil {
		return nil, err
	}
	return &encryptFS{FS: under, keys: keys}, nil
}

// fileHeader is how a file is encrypted.
type fileHeader struct {
	key   uint32
	nonce [sealed.NonceSize]byte
}

func (h *fileHeader) encode() []byte {
	b := binary.LittleEndian.AppendUint32([]byte(headerMagic), h.key)
	b = append(b, h.nonce[:]...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// readHeader returns nil if a file is not encrypted. A file that ends in its header is empty.
func readHeader(f vfs.File, name string) (*fileHeader, error) {
	var b [fileHeaderLen]byte
	n, err := f.ReadAt(b[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch magic := b[:min(n, len(headerMagic))]; {
	case n == 0 || !strings.HasPrefix(headerMagic, string(magic)):
		return nil, nil
	case n < fileHeaderLen:
		return new(fileHeader), nil // a crash has left nothing else
	}
	h := &fileHeader{key: binary.LittleEndian.Uint32(b[8:])}
	copy(h.nonce[:], b[12:])
	if !bytes.Equal(h.encode(), b[:]) {
		return nil, corruptf("the header of the encrypted file %s is damaged", name)
	}
	return h, nil
}

func headerOf(fsys vfs.FS, name string) (*fileHeader, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readHeader(f, name)
}

func (e *encryptFS) stream(h *fileHeader, name string) (*sealed.Stream, error) {
	if *h == (fileHeader{}) {
		return nil, nil
	}
	i := slices.IndexFunc(e.keys, func(k dataKey) bool { return k.ID == h.key })
	if i < 0 {
		return nil, corruptf("the file %s is encrypted with the data key %d, which %s does not have", name, h.key, keysFile)
	}
	return sealed.New(e.keys[i].Key, h.nonce)
}

// Create implements vfs.FS.
func (e *encryptFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	h := &fileHeader{key: e.keys[len(e.keys)-1].ID}
	rand.Read(h.nonce[:]) // it never fails
	s, err := e.stream(h, name)
	if err != nil {
		return nil, err
	}
	f, err := e.FS.Create(name, c)
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(h.encode()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &encryptedFileHandle{File: f, s: s}, nil
}

// Open implements vfs.FS.
func (e *encryptFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := e.FS.Open(name, opts...)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || info.IsDir() {
		return f, err
	}
	h, err := readHeader(f, name)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if h == nil {
		return f, nil
	}
	s, err := e.stream(h, name)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &encryptedFileHandle{File: f, s: s}, nil
}

// OpenReadWrite implements vfs.FS. Nothing of a store needs it.
func (e *encryptFS) OpenReadWrite(name string, _ vfs.DiskWriteCategory, _ ...vfs.OpenOption) (vfs.File, error) {
	return nil, base.Errorf(base.CodeInvalid, "%s: encrypted files are not written in place", name)
}

// ReuseForWrite makes a new file: what an old one holds would be written over.
func (e *encryptFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := e.Remove(oldname); err != nil {
		return nil, err
	}
	return e.Create(newname, c)
}

// Stat implements vfs.FS.
func (e *encryptFS) Stat(name string) (vfs.FileInfo, error) {
	info, err := e.FS.Stat(name)
	if err != nil || info.IsDir() {
		return info, err
	}
	h, err := headerOf(e.FS, name)
	if h == nil || err != nil {
		return info, nil // who reads the file is told
	}
	return contentInfo{info}, nil
}

// Unwrap is what Pebble asks of a wrapped file system.
func (e *encryptFS) Unwrap() vfs.FS { return e.FS }

// contentInfo is about what is in an encrypted file.
type contentInfo struct{ vfs.FileInfo }

// Size implements vfs.FileInfo.
func (i contentInfo) Size() int64 { return max(0, i.FileInfo.Size()-fileHeaderLen) }

var _ os.FileInfo = contentInfo{}

// encryptedFileHandle is an open file. Read and Write go on from its beginning, each by itself.
type encryptedFileHandle struct {
	vfs.File
	s       *sealed.Stream // nil: there is no content
	read    int64
	written int64
	buf     []byte
	failed  atomic.Bool
}

// maxPiece bounds the buffer of a write.
const maxPiece = 256 << 10

// Write implements vfs.File. After an error nothing more is written: a place would be written
// twice.
func (f *encryptedFileHandle) Write(p []byte) (n int, err error) {
	for n < len(p) {
		if f.failed.Load() {
			return n, errors.New("an earlier write of this encrypted file has failed")
		}
		piece := p[n:min(len(p), n+maxPiece)]
		if len(f.buf) < len(piece) {
			f.buf = make([]byte, len(piece))
		}
		f.s.XOR(f.buf, piece, f.written)
		m, err := f.File.Write(f.buf[:len(piece)])
		n += m
		f.written += int64(m)
		if err != nil {
			f.failed.Store(true)
			return n, err
		}
	}
	return n, nil
}

// WriteAt implements vfs.File.
func (f *encryptedFileHandle) WriteAt([]byte, int64) (int, error) {
	return 0, errors.New("encrypted files are not written in place")
}

// Read implements vfs.File.
func (f *encryptedFileHandle) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.read)
	f.read += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// ReadAt implements vfs.File.
func (f *encryptedFileHandle) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off+fileHeaderLen)
	f.s.XOR(p[:n], p[:n], off)
	return n, err
}

// Stat implements vfs.File.
func (f *encryptedFileHandle) Stat() (vfs.FileInfo, error) {
	info, err := f.File.Stat()
	if err != nil {
		return nil, err
	}
	return contentInfo{info}, nil
}

// Preallocate implements vfs.File.
func (f *encryptedFileHandle) Preallocate(off, n int64) error {
	return f.File.Preallocate(off+fileHeaderLen, n)
}

// SyncTo implements vfs.File.
func (f *encryptedFileHandle) SyncTo(n int64) (bool, error) { return f.File.SyncTo(n + fileHeaderLen) }

// Prefetch implements vfs.File.
func (f *encryptedFileHandle) Prefetch(off, n int64) error {
	return f.File.Prefetch(off+fileHeaderLen, n)
}
