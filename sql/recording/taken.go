package recording

import (
	"encoding/binary"
	"errors"
	"time"
)

// Taken is what a recorder has kept, in the form in which nodes send it to each other: it has
// literals.
type Taken struct {
	Texts  []Text   `json:"texts"`
	Chunks [][]byte `json:"chunks"` // the oldest first
	Missed int64    `json:"missed"`
}

// Text is that of statements, with ? for literals, and their current database.
type Text struct {
	Schema string `json:"schema,omitempty"`
	Text   string `json:"text"`
}

// Take copies what is kept.
func (r *Recorder) Take() (t Taken) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.Missed = r.missed.Load()
	for _, n := range r.names {
		t.Texts = append(t.Texts, Text{n.schema, n.text})
	}
	for i := range chunks {
		if c := r.ring[(r.newest+1+i)%chunks]; len(c) > 0 {
			t.Chunks = append(t.Chunks, append([]byte(nil), c...))
		}
	}
	return t
}

// Statement is one that was kept. Its literals are those of its text.
type Statement struct {
	Text, Session uint64
	Slice         int64
	Began         time.Duration // since the beginning of the Unix epoch
	Elapsed       time.Duration
	Hops, Bytes   int64
	Affected      int64
	Sent          int64
	Literals      []Literal
	// Trait: it was made up, to set what the session had set before.
	Trait, Goes, Was, Failed, Lost bool
}

// Literal is one as it stood in the statement, or the beginning of it and a sum; Size is how long
// it was, in bytes.
type Literal struct {
	Text string
	Size int
}

var errCut = errors.New("recording: a chunk is cut")

// All decodes the statements, in the order in which they ended.
func (t *Taken) All() (out []Statement, err error) {
	for _, c := range t.Chunks {
		d := decoder{b: c}
		for len(d.b) > 0 && d.err == nil {
			s := d.statement()
			if d.err == nil && s.Text < uint64(len(t.Texts)) {
				out = append(out, s)
			}
		}
		if d.err != nil {
			return nil, d.err
		}
	}
	return out, nil
}

type decoder struct {
	b   []byte
	err error
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.err, d.b = errCut, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.err, d.b = errCut, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) statement() (s Statement) {
	flags := d.uint()
	s.Trait, s.Goes, s.Was, s.Failed = flags&flagTrait != 0, flags&flagGoes != 0, flags&flagWas != 0, flags&flagFailed != 0
	s.Lost = flags&flagLost != 0
	s.Text, s.Session, s.Slice = d.uint(), d.uint(), int64(d.uint())
	s.Began = time.Duration(d.int()) * time.Microsecond
	if s.Trait {
		return s
	}
	s.Elapsed = time.Duration(d.uint()) * time.Microsecond
	s.Hops, s.Bytes, s.Affected, s.Sent = int64(d.uint()), int64(d.uint()), int64(d.uint()), int64(d.uint())
	for n := d.uint(); n > 0 && d.err == nil; n-- {
		size := d.uint()
		have := min(size, maxLiteral)
		if uint64(len(d.b)) < have {
			d.err = errCut
			return s
		}
		s.Literals = append(s.Literals, Literal{string(d.b[:have]), int(size)})
		d.b = d.b[have:]
	}
	return s
}
