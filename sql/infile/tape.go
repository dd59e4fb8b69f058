package infile

import (
	"context"
	"encoding/binary"
	"io"

	"github.com/godwitdb/godwit/base/sealed"
	"github.com/godwitdb/godwit/sql/exec/tempfile"
)

// tape keeps the batches of the part of a file that is under way, one behind the other, so that
// they can be read again: a client sends a file once. What is more than tapeBytes lies in a
// temporary file, which is encrypted with a key that nobody else knows.
type tape struct {
	ctx     context.Context
	dir     string
	f       *tempfile.File // nil: there is none
	key     *sealed.Stream
	inFile  int64  // bytes
	rest    []byte // what comes behind those in the file
	playing int64  // where the next batch is that is read again
}

// tapeBytes is how much of a tape stays in memory, but for its last batch.
const tapeBytes = 1 << 20

// add adds a batch behind the others. Nothing is read again now.
func (t *tape) add(record []byte) error {
	t.rest = binary.LittleEndian.AppendUint32(t.rest, uint32(len(record)))
	t.rest = append(t.rest, record...)
	t.playing = t.size()
	if len(t.rest) < tapeBytes {
		return nil
	}
	if t.f == nil {
		var err error
		if t.f, err = tempfile.Create(t.ctx, t.dir); err != nil {
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

func (t *tape) size() int64 { return t.inFile + int64(len(t.rest)) }

// rewind has all batches read again.
func (t *tape) rewind() { t.playing = 0 }

// plays reports whether there are batches to be read again.
func (t *tape) plays() bool { return t.playing < t.size() }

// next is the next batch that is read again.
func (t *tape) next() ([]byte, error) {
	var head [4]byte
	if err := t.readAt(head[:], t.playing); err != nil {
		return nil, err
	}
	record := make([]byte, binary.LittleEndian.Uint32(head[:]))
	if err := t.readAt(record, t.playing+4); err != nil {
		return nil, err
	}
	t.playing += 4 + int64(len(record))
	return record, nil
}

func (t *tape) readAt(p []byte, at int64) error {
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

// clear forgets all batches.
func (t *tape) clear() {
	if t.f != nil {
		_ = t.f.Close() // it has no name; nothing is lost
		t.f = nil
	}
	t.rest, t.inFile, t.playing = t.rest[:0], 0, 0
}
