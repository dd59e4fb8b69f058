// Package merge makes one sequence of rows, in the order of their keys, of what a restore has to
// put together: of backups that build on each other, of the places of regions, and of a log of
// changes. It keeps little in memory: backups are in order as they are, and a log is sorted in
// temporary files.
package merge

import (
	"context"

	"github.com/godwitdb/godwit/sql/backup/archive"
)

// Cursor reads the records of a stream, piece by piece, in the order of their keys.
type Cursor struct {
	Left []archive.File                                                // pieces that were not read yet
	Read func(context.Context, archive.File) (*archive.Decoder, error) // reads one
	In   func(error) error                                             // says of an error of a record where it is
	dec  *archive.Decoder
	rec  archive.Record
	last []byte
	done bool
}

// Next goes on to the next record, or to the end. A cursor begins before its first record.
func (c *Cursor) Next(ctx context.Context) error {
	for !c.done {
		if c.dec != nil {
			ok, err := c.dec.Next(&c.rec)
			if err != nil {
				return c.In(err)
			}
			if ok {
				if c.last != nil && string(c.rec.PK) <= string(c.last) {
					return c.dec.Bad("its records are not behind those of the file before")
				}
				c.last = c.rec.PK
				return nil
			}
			c.dec = nil
		}
		if len(c.Left) == 0 {
			c.done = true
			break
		}
		var err error
		if c.dec, err = c.Read(ctx, c.Left[0]); err != nil {
			return c.In(err)
		}
		c.Left = c.Left[1:]
	}
	return nil
}

// newest is the newest of the cursors that are at the least key; nil if all are at their ends. The
// cursors are in the order of time.
func newest(cursors []*Cursor) (best *Cursor) {
	for _, c := range cursors {
		if !c.done && (best == nil || string(c.rec.PK) <= string(best.rec.PK)) {
			best = c
		}
	}
	return best
}

// Rows reads the records of several cursors, the oldest backup first, as one: of each key what the
// newest of them says, and nothing of keys that are gone. Each cursor is at its first record.
type Rows struct {
	Cursors []*Cursor
	Rec     archive.Record
	Dec     *archive.Decoder // of the file that Rec is in
	Done    bool             // there are no more
	Number  int64            // of the rows so far
}

// Next makes Rec the next record, or sets Done.
func (m *Rows) Next(ctx context.Context) error {
	for {
		best := newest(m.Cursors)
		if best == nil {
			m.Done = true
			return nil
		}
		m.Rec, m.Dec = best.rec, best.dec
		for _, c := range m.Cursors {
			if !c.done && string(c.rec.PK) == string(m.Rec.PK) {
				if err := c.Next(ctx); err != nil {
					return err
				}
			}
		}
		if !m.Rec.Deleted {
			m.Number++
			return nil
		}
	}
}
