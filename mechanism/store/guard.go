package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// The guard finds damage that Pebble takes for a normal crash, because it stops at the first bad
// record of its MANIFEST and of its newest log and starts afresh when its markers are gone:
//
//   - a small file, guardFile, says which MANIFEST was current, how much of it was certainly
//     synced, and which log was the newest. It is not synced: an old one only finds less.
//   - a synced batch carries the sequence number of an earlier batch that is known to be on disk.
//     Where a log is damaged and a batch behind the damage says that a lost one had been synced, it
//     was no torn tail.
//   - MANIFEST edits are synced one by one, so a valid edit behind a bad one proves damage.
type guard struct {
	s    *Store
	mu   sync.Mutex
	wal  uint64 // newest log
	live bool   // Open has succeeded
	// What the last event saw. Another edit may have been under way then, not yet synced; by the
	// next event it is, so that is when the size is written down.
	num, size uint64
}

const guardFile = "GODWIT"

func (s *Store) fs() vfs.FS {
	if s.opts.FS == nil {
		return vfs.Default
	}
	return s.opts.FS
}

// walCreated is Pebble's word that the directory entry of a log is durable.
func (g *guard) walCreated(i pebble.WALCreateInfo) {
	if i.Err != nil {
		return
	}
	g.mu.Lock()
	g.wal = max(g.wal, uint64(i.FileNum))
	g.mu.Unlock()
	g.note(false)
}

// note rewrites the guard file; quiet says that no edit is under way. Failing to only weakens the
// guard.
func (g *guard) note(quiet bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.live = g.live || quiet
	if !g.live {
		return
	}
	fs, dir := g.s.fs(), g.s.opts.Dir
	name, num, _, err := currentManifest(fs, dir)
	if err != nil || name == "" {
		return
	}
	info, err := fs.Stat(fs.PathJoin(dir, name))
	if err != nil {
		return
	}
	size := uint64(info.Size())
	if !quiet {
		size = 0
		if g.num == num {
			size = g.size
		}
	}
	g.num, g.size = num, uint64(info.Size())
	line := fmt.Sprintf("godwit store: manifest %d size %d log %d", num, size, g.wal)
	line = fmt.Sprintf("%s crc %08x\n", line, crc32.ChecksumIEEE([]byte(line)))
	tmp := fs.PathJoin(dir, guardFile+".tmp")
	f, err := fs.Create(tmp, "godwit-guard")
	if err != nil {
		return
	}
	_, err = f.Write([]byte(line))
	if cerr := f.Close(); err == nil && cerr == nil {
		err = fs.Rename(tmp, fs.PathJoin(dir, guardFile))
	}
	if err != nil {
		g.s.opts.Logger.Debug("store: guard file not written", "err", err)
	}
}

// readGuard returns false if there is none, or it is not whole.
func readGuard(fs vfs.FS, dir string) (manifest, size, wal uint64, ok bool) {
	b, err := readAll(fs, fs.PathJoin(dir, guardFile))
	if err != nil {
		return 0, 0, 0, false
	}
	line, sum, found := strings.Cut(strings.TrimSuffix(string(b), "\n"), " crc ")
	if !found || fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(line))) != sum {
		return 0, 0, 0, false
	}
	n, _ := fmt.Sscanf(line, "godwit store: manifest %d size %d log %d", &manifest, &size, &wal)
	return manifest, size, wal, n == 3
}

// currentManifest reads Pebble's marker file, whose name is
// marker.manifest.<iteration>.MANIFEST-<number>; name is empty if there is none. wal is the newest
// log present.
func currentManifest(fs vfs.FS, dir string) (name string, num, wal uint64, err error) {
	ls, err := fs.List(dir)
	if err != nil {
		return "", 0, 0, err
	}
	best := uint64(0)
	for _, f := range ls {
		var iter, n uint64
		switch {
		case strings.HasSuffix(f, ".log"):
			if c, _ := fmt.Sscanf(f, "%d.log", &n); c == 1 {
				wal = max(wal, n)
			}
		case strings.HasPrefix(f, "marker.manifest."):
			if c, _ := fmt.Sscanf(f, "marker.manifest.%d.MANIFEST-%d", &iter, &n); c == 2 && (name == "" || iter >= best) {
				best, name, num = iter, fmt.Sprintf("MANIFEST-%06d", n), n
			}
		}
	}
	return name, num, wal, nil
}

func readAll(fs vfs.FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// check looks at the files before Pebble opens, and may change, them.
func (g *guard) check() error {
	fs, dir := g.s.fs(), g.s.opts.Dir
	name, num, wal, err := currentManifest(fs, dir)
	if err != nil {
		return nil // no directory yet; Pebble reports anything else
	}
	manifest, size, lastWAL, known := readGuard(fs, dir)
	if known {
		switch {
		case name == "" || num < manifest:
			return corruptf("store %s: the marker file of MANIFEST-%06d is missing", dir, manifest)
		case wal < lastWAL:
			return corruptf("store %s: the log file %06d.log is missing", dir, lastWAL)
		}
	}
	if name == "" {
		return nil
	}
	if !known || num != manifest {
		size = 0
	}
	if err := checkManifest(fs, dir, name, size); err != nil {
		return err
	}
	return checkLogs(fs, dir)
}

// checkManifest reads the current manifest, which had at least size bytes.
func checkManifest(fs vfs.FS, dir, name string, size uint64) error {
	data, err := readAll(fs, fs.PathJoin(dir, name))
	if err != nil {
		return corruptf("store %s: the current %s cannot be read: %v", dir, name, err)
	}
	if uint64(len(data)) < size {
		return corruptf("store %s: %s has %d bytes, it had %d", dir, name, len(data), size)
	}
	if at, bad := damagedManifest(data); bad || uint64(at) < size {
		return corruptf("store %s: %s is damaged at offset %d", dir, name, at)
	}
	return nil
}

// checkLogs reads all log files: each may be cut off at its end only.
func checkLogs(fs vfs.FS, dir string) error {
	ls, err := fs.List(dir)
	if err != nil {
		return nil
	}
	for _, f := range ls {
		var n uint64
		if c, _ := fmt.Sscanf(f, "%d.log", &n); c != 1 || !strings.HasSuffix(f, ".log") {
			continue
		}
		data, err := readAll(fs, fs.PathJoin(dir, f))
		if err != nil {
			return corruptf("store %s: the log file %s cannot be read: %v", dir, f, err)
		}
		at, bad := damagedLog(data, uint32(n))
		if bad {
			return corruptf("store %s: the log file %s is damaged at offset %d, before data that was on disk", dir, f, at)
		}
		if badEnd(data, at, uint32(n)) {
			if err := noteTail(fs, dir, fmt.Sprintf("the log file %s ends at offset %d in a record that is not whole",
				f, at)); err != nil {
				return err
			}
		}
	}
	return nil
}

// ---- Pebble's record format: chunks in blocks of 32 KiB ----

const (
	blockLen     = 32 << 10
	legacyHeader = 7  // checksum 4, length 2, type 1
	minTail      = 11 // a writer leaves less than this much of a block empty
)

// Types 1-4 are full, first, middle, last in the legacy format; 5-8 with the log
// number (4) in the header, 9-12 with the synced offset (8) too.
func headerSize(kind byte) int {
	return [...]int{0, legacyHeader, legacyHeader + 4, legacyHeader + 12}[(kind+3)/4]
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// chunkAt parses the chunk at off; ok if it is whole and its checksum fits.
func chunkAt(data []byte, off int, wal bool, num uint32) (payload []byte, pos byte, next int, ok bool) {
	end := min(len(data), (off/blockLen+1)*blockLen)
	if off+legacyHeader > end {
		return nil, 0, 0, false
	}
	kind := data[off+6]
	if kind == 0 || kind > 12 || wal == (kind <= 4) {
		return nil, 0, 0, false
	}
	h := headerSize(kind)
	next = off + h + int(binary.LittleEndian.Uint16(data[off+4:]))
	if next > end || h > legacyHeader && binary.LittleEndian.Uint32(data[off+7:]) != num {
		return nil, 0, 0, false
	}
	c := crc32.Checksum(data[off+6:next], castagnoli)
	if binary.LittleEndian.Uint32(data[off:]) != (c>>15|c<<17)+0xa282ead8 {
		return nil, 0, 0, false
	}
	return data[off+h : next], (kind-1)%4 + 1, next, true
}

// chunks calls fn for the valid chunks from off on, until one is invalid.
// It returns where that is, or the end of the data.
func chunks(data []byte, off int, wal bool, num uint32, fn func(payload []byte, pos byte)) (stop int) {
	for off < len(data) {
		if left := blockLen - off%blockLen; left < legacyHeader || wal && left < minTail {
			off += left
			continue
		}
		payload, pos, next, ok := chunkAt(data, off, wal, num)
		if !ok {
			// A short zeroed rest of a block is filling.
			left := blockLen - off%blockLen
			if left < legacyHeader+12 && off+left <= len(data) && zero(data[off:off+left]) {
				off += left
				continue
			}
			return off
		}
		fn(payload, pos)
		off = next
	}
	return off
}

func zero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// behind calls fn for every valid chunk that lies behind a bad one at off.
func behind(data []byte, off int, wal bool, num uint32, fn func(payload []byte, pos byte)) {
	end := min(len(data), (off/blockLen+1)*blockLen)
	for at := off + 1; at < end; at++ {
		if _, _, _, ok := chunkAt(data, at, wal, num); ok {
			end = chunks(data, at, wal, num, fn)
			if end >= len(data) {
				return
			}
			if end/blockLen == at/blockLen { // bad again in this block
				at = end
				end = min(len(data), (end/blockLen+1)*blockLen)
				continue
			}
			behind(data, end, wal, num, fn)
			return
		}
	}
	for ; end < len(data); end = (end/blockLen + 1) * blockLen {
		end = chunks(data, end, wal, num, fn)
	}
}

func damagedManifest(data []byte) (at int, bad bool) {
	at = chunks(data, 0, false, 0, func([]byte, byte) {})
	if at >= len(data) {
		return at, false
	}
	behind(data, at, false, 0, func(_ []byte, pos byte) { bad = bad || pos <= 2 })
	return at, bad
}

func damagedLog(data []byte, num uint32) (at int, bad bool) {
	have := uint64(0)
	r := records{fn: func(rec []byte) {
		if h, ok := batchrepr.ReadHeader(rec); ok {
			have = max(have, uint64(h.SeqNum)+uint64(h.Count))
		}
	}}
	at = chunks(data, 0, true, num, r.chunk)
	if at >= len(data) || zero(data[at:]) {
		return at, false
	}
	r = records{fn: func(rec []byte) { bad = bad || syncedIn(rec) > have }}
	behind(data, at, true, num, r.chunk)
	return at, bad
}

// badEnd reports whether a log that ends at an offset goes on with a record of its own that is not
// whole: a crash has cut it off, or it was damaged. What names another log is none: the mark that
// Pebble puts at the end, and what the file holds of a former life. Nor are zeros.
func badEnd(data []byte, at int, num uint32) bool {
	if at >= len(data) || zero(data[at:]) {
		return false
	}
	if at+legacyHeader+4 > len(data) {
		return true
	}
	kind := data[at+6]
	return kind > 4 && kind <= 12 && binary.LittleEndian.Uint32(data[at+7:]) == num
}

// records assembles chunks; what does not fit together is dropped.
type records struct {
	buf  []byte
	open bool
	fn   func(rec []byte)
}

func (r *records) chunk(payload []byte, pos byte) {
	switch pos {
	case 1:
		r.open = false
		r.fn(payload)
	case 2:
		r.open = true
		r.buf = append(r.buf[:0], payload...)
	case 3:
		r.buf = append(r.buf, payload...)
	case 4:
		if r.open {
			r.fn(append(r.buf, payload...))
		}
		r.open = false
	}
}

// syncMark + sequence number (8) is log data of synced batches: all batches
// whose sequence numbers end below it were durable when this one was committed.
const syncMark = "gws1"

func syncData(seq uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte(syncMark), seq)
}

// syncedIn finds the mark in a batch, 0 if it has none.
func syncedIn(rec []byte) uint64 {
	if len(rec) < batchrepr.HeaderLen {
		return 0
	}
	for r := batchrepr.Reader(rec[batchrepr.HeaderLen:]); len(r) > 0; {
		kind, key, _, ok, err := r.Next()
		if !ok || err != nil {
			return 0
		}
		if kind == pebble.InternalKeyKindLogData && len(key) == len(syncMark)+8 && string(key[:len(syncMark)]) == syncMark {
			return binary.BigEndian.Uint64(key[len(syncMark):])
		}
	}
	return 0
}

// markSynced adds the mark to a batch that is about to be synced.
func (b *Batch) markSynced() error {
	if x := b.s.synced.Load(); x > 0 {
		return b.b.LogData(syncData(x), nil)
	}
	return nil
}

// noteSynced remembers that a batch is durable.
func (s *Store) noteSynced(b *pebble.Batch) {
	end := uint64(b.SeqNum()) + uint64(b.Count())
	for {
		old := s.synced.Load()
		if end <= old || s.synced.CompareAndSwap(old, end) {
			return
		}
	}
}
