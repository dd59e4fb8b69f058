// Package tape keeps records one behind the other, most of them in a temporary file.
package tape

import (
	"context"
	"encoding/binary"
	"io"

	"github.com/godwitdb/godwit/base/sealed"
	"github.com/godwitdb/godwit/sql/exec/tempfile"
)

// Tape keeps records so that they can be read again. What is more than [Bytes] lies in a temporary
// file, which is encrypted with a key that nobody else knows. The zero value is empty.
type Tape struct {
	// Ctx ends what the file does; Dir is where it lies, empty for the system's directory.
	Ctx context.Context
	Dir string

	f       *tempfile.File // nil: there is none
	key     *sealed.Stream
	inFile  int64  // bytes
	rest    []byte // what comes behind those in the file
	playing int64  // where the next record is that is read again
}

// Bytes is how much of a tape stays in memory, but for its last record.
const Bytes = 1 << 20

// Add adds a record behind the others. Nothing is read again now.
func (t *Tape) Add(record []byte) error {
	t.rest = binary.LittleEndian.AppendUint32(t.rest, uint32(len(record)))
	t.rest = append(t.rest, record...)
	t.playing = t.Size()
	if len(t.rest) < Bytes {
		return nil
	}
	if t.f == nil {
		var err error
		if t.f, err = tempfile.Create(t.Ctx, t.Dir); err != nil {
			return err
		}
		if t.key, err = sealed.Random(); err != nil {
			return err
		}
	}
	t.key.XOR(t.rest, t.rest, t.inFile)
	n, err := t.f.Write(t.rest)
	t.inFile += int64(n)
	t.playing = t.inFile
	if err != nil {
		t.rest = nil // the write may go on beside (tempfile.File)
		return err
	}
	t.rest = t.rest[:0]
	return nil
}

// Size is how long all records are, with their lengths.
func (t *Tape) Size() int64 { return t.inFile + int64(len(t.rest)) }

// Held is how much of the tape is in memory, in bytes.
func (t *Tape) Held() int64 { return int64(cap(t.rest)) }

// Rewind has all records read again.
func (t *Tape) Rewind() { t.playing = 0 }

// Plays reports whether there are records to be read again.
func (t *Tape) Plays() bool { return t.playing < t.Size() }

// Next is the next record that is read again.
func (t *Tape) Next() ([]byte, error) {
	record, err := t.At(t.playing)
	if err == nil {
		t.playing += 4 + int64(len(record))
	}
	return record, err
}

// At is the record that was added when the tape had this size.
func (t *Tape) At(size int64) ([]byte, error) {
	var head [4]byte
	if err := t.readAt(head[:], size); err != nil {
		return nil, err
	}
	record := make([]byte, binary.LittleEndian.Uint32(head[:]))
	return record, t.readAt(record, size+4)
}

func (t *Tape) readAt(p []byte, at int64) error {
	if at >= t.inFile {
		copy(p, t.rest[at-t.inFile:])
		return nil
	}
	if n, err := t.f.ReadAt(p, at); n < len(p) {
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	t.key.XOR(p, p, at)
	return nil
}

// Clear forgets all records.
func (t *Tape) Clear() {
	if t.f != nil {
		_ = t.f.Close() // it has no name; nothing is lost
		t.f = nil
	}
	t.rest, t.inFile, t.playing = t.rest[:0], 0, 0
}
