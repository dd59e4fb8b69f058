package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"github.com/godwitdb/godwit/base"
)

const (
	// PieceSize is how large the records of a piece may grow before the next one begins. A piece is
	// held in memory as a whole when it is written and read.
	PieceSize = 4 << 20
	// mostRaw bounds the records of a piece: a row may be as large as a transaction.
	mostRaw = 96 << 20
	// MostFile bounds a piece as it is stored.
	MostFile = mostRaw + 1<<20
)

// Kind says what a piece holds.
type Kind byte

// The kinds of pieces.
const (
	RowPiece Kind = 'r' // rows, and marks of keys that are gone
	KeyPiece Kind = 'k' // keys with their versions
	// LogPiece: versions of rows, and marks of keys that were deleted. The PK of its records is a
	// [LogKey].
	LogPiece Kind = 'l'
)

// Suffix is how the name of such a file ends.
func (k Kind) Suffix() string {
	switch k {
	case KeyPiece:
		return ".keys"
	case LogPiece:
		return ".log"
	}
	return ".rows"
}

// Record is a row, or that a key is gone.
type Record struct {
	PK      []byte         // the part of the key behind table and index
	TS      base.Timestamp // when it was written
	Home    base.RegionID  // 0: the row has none of its own
	Pinned  bool
	Deleted bool   // the key is gone; there is no value
	Value   []byte // of a RowPiece
}

// Same reports whether two records are one version of a row, at one home.
func (r *Record) Same(o *Record) bool {
	return r.TS == o.TS && r.Home == o.Home && r.Pinned == o.Pinned
}

const (
	recordDeleted = 1 << iota
	recordPinned
	recordKnown = recordDeleted | recordPinned
)

// Encoder gathers the records of a piece, in the order of their keys.
type Encoder struct {
	Kind Kind
	buf  []byte
	last []byte
	n    int64
}

// Add appends a record.
func (e *Encoder) Add(r *Record) {
	var flags byte
	if r.Deleted {
		flags |= recordDeleted
	}
	if r.Pinned {
		flags |= recordPinned
	}
	shared := 0
	for shared < len(e.last) && shared < len(r.PK) && e.last[shared] == r.PK[shared] {
		shared++
	}
	e.buf = append(e.buf, flags, byte(r.Home))
	e.buf = binary.AppendUvarint(e.buf, uint64(shared))
	e.buf = binary.AppendUvarint(e.buf, uint64(len(r.PK)-shared))
	e.buf = append(e.buf, r.PK[shared:]...)
	e.buf = binary.BigEndian.AppendUint64(e.buf, uint64(r.TS))
	if e.Kind != KeyPiece && !r.Deleted {
		e.buf = binary.AppendUvarint(e.buf, uint64(len(r.Value)))
		e.buf = append(e.buf, r.Value...)
	}
	e.last = append(e.last[:0], r.PK...)
	e.n++
}

// Size is that of the records so far, in bytes.
func (e *Encoder) Size() int { return len(e.buf) }

// Finish makes the file with a name, in the folder of a backup, and begins anew.
func (e *Encoder) Finish(id, name string, k *Key) ([]byte, File, error) {
	f := File{Name: name, Raw: int64(len(e.buf)), Records: e.n}
	head := append([]byte(pieceMagic), plain, byte(e.Kind))
	b, err := k.seal(id+"/"+name, head, compress(e.buf))
	if err != nil {
		return nil, f, err
	}
	sum := sha256.Sum256(b)
	f.Size, f.SHA256 = int64(len(b)), sum[:]
	e.buf, e.last, e.n = e.buf[:0], e.last[:0], 0
	return b, f, nil
}

// Decoder reads the records of a piece.
type Decoder struct {
	file string
	kind Kind
	rest []byte
	left int64
	last []byte
	any  bool
}

// Open checks the file of a piece and begins to read it. want is what the manifest says of it.
func Open(id string, want File, kind Kind, b []byte, k *Key) (*Decoder, error) {
	file := id + "/" + want.Name
	if int64(len(b)) != want.Size {
		return nil, bad(file, "it has %d bytes, the manifest says %d", len(b), want.Size)
	}
	if sum := sha256.Sum256(b); !bytes.Equal(sum[:], want.SHA256) {
		return nil, bad(file, "it is damaged or was changed: its checksum is not the manifest's")
	}
	return open(file, want, kind, b, k)
}

func open(file string, want File, kind Kind, b []byte, k *Key) (*Decoder, error) {
	if err := checkHead(file, b, pieceMagic, "piece of a backup"); err != nil {
		return nil, err
	}
	if len(b) <= magicLen || Kind(b[magicLen]) != kind {
		return nil, bad(file, "it is a piece of another kind")
	}
	text, err := k.open(file, b, magicLen+1)
	if err != nil {
		return nil, err
	}
	raw, err := decompress(file, text, min(want.Raw, mostRaw))
	if err != nil {
		return nil, err
	}
	if int64(len(raw)) != want.Raw {
		return nil, bad(file, "its records have %d bytes, the manifest says %d", len(raw), want.Raw)
	}
	return &Decoder{file: file, kind: kind, rest: raw, left: want.Records}, nil
}

// Next reads the next record; ok is false at the end. The record is valid until the next call, but
// its Value for as long as somebody holds it.
func (d *Decoder) Next(r *Record) (ok bool, err error) {
	if len(d.rest) == 0 {
		if d.left != 0 {
			return false, bad(d.file, "it has %d records less than the manifest says", d.left)
		}
		return false, nil
	}
	if !d.take(r) {
		return false, bad(d.file, "record %d from its end cannot be read", d.left)
	}
	if d.any && bytes.Compare(r.PK, d.last) <= 0 {
		return false, bad(d.file, "its records are not in order")
	}
	d.last, d.any = r.PK, true
	if d.left--; d.left < 0 {
		return false, bad(d.file, "it has more records than the manifest says")
	}
	return true, nil
}

// take reads a record; false: there is none.
func (d *Decoder) take(r *Record) bool {
	b := d.rest
	if len(b) < 2 || b[0]&^recordKnown != 0 || b[1] > base.MaxRegions {
		return false
	}
	r.Deleted, r.Pinned, r.Home = b[0]&recordDeleted != 0, b[0]&recordPinned != 0, base.RegionID(b[1])
	if r.Deleted && d.kind == KeyPiece {
		return false
	}
	shared, n := binary.Uvarint(b[2:])
	if n <= 0 || shared > uint64(len(d.last)) {
		return false
	}
	own, b, ok := takeBytes(b[2+n:])
	if !ok || len(b) < 8 {
		return false
	}
	r.PK = append(append(make([]byte, 0, int(shared)+len(own)), d.last[:shared]...), own...)
	r.TS, b = base.Timestamp(binary.BigEndian.Uint64(b)), b[8:]
	r.Value = nil
	if d.kind != KeyPiece && !r.Deleted {
		if r.Value, b, ok = takeBytes(b); !ok {
			return false
		}
	}
	d.rest = b
	return true
}

// takeBytes reads a length and so many bytes.
func takeBytes(b []byte) (v, rest []byte, ok bool) {
	n, k := binary.Uvarint(b)
	if k <= 0 || n > uint64(len(b)-k) {
		return nil, nil, false
	}
	return b[k : k+int(n)], b[k+int(n):], true
}

// Nothing is a decoder without records, for errors about what is not in a file.
func Nothing(what string) *Decoder { return &Decoder{file: what} }

// File is the name of the piece, for errors.
func (d *Decoder) File() string { return d.file }

// Bad is an error about the piece.
func (d *Decoder) Bad(format string, args ...any) error { return bad(d.file, format, args...) }

// LogKey is what the record of a version has in the place of its PK: shard, table, key, and the
// timestamp, turned over. So the versions of a key follow on each other, the newest first.
func LogKey(shard base.ShardID, table base.TableID, pk []byte, ts base.Timestamp) []byte {
	b := make([]byte, 0, LogHead+len(pk)+8)
	b = binary.BigEndian.AppendUint16(b, uint16(shard))
	b = binary.BigEndian.AppendUint64(b, uint64(table))
	b = append(b, pk...)
	return binary.BigEndian.AppendUint64(b, ^uint64(ts))
}

// LogHead is the length of shard and table at the beginning of a [LogKey].
const LogHead = 2 + 8

// LogTable is the table of a [LogKey], of which the first LogHead bytes are enough.
func LogTable(key []byte) base.TableID { return base.TableID(binary.BigEndian.Uint64(key[2:])) }

// LogRow takes the PK of a log's record apart.
func (d *Decoder) LogRow(r *Record) (shard base.ShardID, table base.TableID, pk []byte, err error) {
	n := len(r.PK) - 8
	if n < LogHead || ^binary.BigEndian.Uint64(r.PK[n:]) != uint64(r.TS) {
		return 0, 0, nil, d.Bad("a record has no place or another timestamp")
	}
	return base.ShardID(binary.BigEndian.Uint16(r.PK)), base.TableID(binary.BigEndian.Uint64(r.PK[2:])), r.PK[LogHead:n], nil
}
