package view

import (
	"bytes"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
)

// Cursor finds the places of many keys that are asked for in rising order: it steps from key to key
// where Locate seeks each anew, twice if the key has no version. The places lack the values of
// their versions.
//
// Where the keys lie far apart a seek is cheaper than the steps. The cursor may take as many steps
// as seeks for all keys so far would cost. When they are used up it seeks from then on.
type Cursor struct {
	rd    *store.Reader
	it    *store.Iter // nil: not in a section
	limit base.Key    // the end of the section
	cur   store.Version
	more  bool // cur is the next key of the section
	pred  gapHead
	steps int // allowed
	over  bool
}

// gapHead is the version whose label covers the gap in front of the cursor.
type gapHead struct {
	known bool
	there bool // else the gap is the section's first
	v     store.Version
}

const (
	stepsASeek = 4   // a seek costs about as much
	firstSteps = 256 // allowed from the start
)

// NewCursor makes a cursor over a view, which must be closed after the cursor.
func NewCursor(rd *store.Reader) *Cursor { return &Cursor{rd: rd, steps: firstSteps} }

// Locate is the place of a key that is not below the last one.
func (c *Cursor) Locate(key base.Key) (Place, error) {
	if c.over || key.Shard() == base.MetaShard {
		return Locate(c.rd, key)
	}
	c.steps += stepsASeek
	if c.it == nil || bytes.Compare(key, c.limit) >= 0 {
		if err := c.enter(key); err != nil {
			return Place{}, err
		}
	}
	for c.more && bytes.Compare(c.cur.Key, key) < 0 {
		if err := c.step(); err != nil {
			return Place{}, err
		}
	}
	if c.over = c.steps <= 0; c.over {
		c.Close()
		return Locate(c.rd, key)
	}
	if c.more && bytes.Equal(c.cur.Key, key) {
		v := c.cur
		v.Key = key
		return Place{Owner: HomeGroup(key, v.Label), Since: v.TS, Writer: v.Writer, Found: true, V: v}, nil
	}
	return c.gap(key)
}

// gap is the place of a key without a version, in front of the cursor.
func (c *Cursor) gap(key base.Key) (p Place, err error) {
	if FixedOwner(key) {
		return Place{Owner: key.DefaultOwner()}, nil
	}
	if !c.pred.known {
		v, ok, err := c.rd.Pred(key)
		if err != nil {
			return Place{}, err
		}
		c.pred = gapHead{true, ok, v}
	}
	if !c.pred.there {
		return Place{Owner: key.DefaultOwner()}, nil
	}
	v := &c.pred.v
	return Place{Owner: HomeGroup(key, v.Label), Since: v.TS, Writer: v.Writer}, nil
}

// enter goes to the first key of the section of key that is not below it.
func (c *Cursor) enter(key base.Key) error {
	c.Close()
	c.limit = key.Section().PrefixEnd()
	c.it = c.rd.Iter(base.Span{Start: key, End: c.limit}, base.MaxTimestamp, store.IterOptions{KeysOnly: true})
	c.steps -= stepsASeek
	return c.next()
}

// step passes over a key, unless no more steps are allowed.
func (c *Cursor) step() error {
	if c.steps--; c.steps <= 0 {
		c.more = false
		return nil
	}
	c.pred = gapHead{true, true, store.Version{TS: c.cur.TS, Label: c.cur.Label, Writer: c.cur.Writer}}
	return c.next()
}

func (c *Cursor) next() error {
	c.more = c.it.Next()
	c.cur = c.it.Version()
	return c.it.Err()
}

// Close ends the reads of the cursor.
func (c *Cursor) Close() {
	if c.it != nil {
		c.it.Close()
	}
	c.it, c.more, c.pred = nil, false, gapHead{}
}
