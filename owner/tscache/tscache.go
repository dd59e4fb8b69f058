package tscache

import (
	"bytes"

	"github.com/godwitdb/godwit/base"
)

// Cache remembers up to which timestamps the keys of a group have been read, so that writes come
// above (timestamp ordering, docs/protocol.md, ORD). It is bounded: what is forgotten counts as
// read at the largest timestamp forgotten. Not safe for concurrent use.
type Cache struct {
	low  base.Timestamp // of what was forgotten
	High base.Timestamp // largest of all
	cur  *readEra
	old  *readEra
	void bool // forgets at once (Config.NoMarks)
	room func() int
}

// readEra is a generation: the older one is forgotten as a whole.
type readEra struct {
	points map[string]readMark
	ranges []rangeMark
	high   base.Timestamp
	bytes  int // what it holds, about
	most   int // of them
}

// readMark is the newest read of a key, and whose it was; a zero id: more than one transaction's.
type readMark struct {
	ts base.Timestamp
	by base.TxnID
}

type rangeMark struct {
	span base.Span
	readMark
}

const (
	maxPointMarks = 32_768
	maxRangeMarks = 256
	// of a mark beside its keys: twice itself, since a map that grows is half empty
	markBytes   = 128
	maxEraBytes = 8 << 20  // of one generation, one group
	minEraBytes = 64 << 10 // the same, however many groups there are
	allEraBytes = 64 << 20 // of one generation, all groups of a node
)

// EraRoom is how many bytes a generation of one of so many groups may hold.
func EraRoom(groups int) int { return min(max(allEraBytes/max(groups, 1), minEraBytes), maxEraBytes) }

// New makes an empty one; room tells how many bytes a generation may hold.
func New(void bool, room func() int) *Cache {
	return &Cache{cur: newReadEra(room()), old: newReadEra(0), void: void, room: room}
}

func newReadEra(most int) *readEra { return &readEra{points: map[string]readMark{}, most: most} }

// full reports whether there is no room for a mark of a span.
func (e *readEra) full(s base.Span) bool {
	if e.bytes+markBytes+len(s.Start)+len(s.End) > e.most {
		return true
	}
	if s.IsPoint() {
		return len(e.points) >= maxPointMarks
	}
	return len(e.ranges) >= maxRangeMarks
}

// Add notes reads by a transaction (zero: of no one in particular).
func (c *Cache) Add(spans []base.Span, ts base.Timestamp, by base.TxnID) {
	if c.void {
		return
	}
	for _, s := range spans {
		if c.cur.full(s) {
			c.low = max(c.low, c.old.high)
			c.cur, c.old = newReadEra(c.room()), c.cur
		}
		if ts <= c.low {
			continue
		}
		c.High, c.cur.high = max(c.High, ts), max(c.cur.high, ts)
		if !s.IsPoint() {
			c.cur.addRange(rangeMark{s, readMark{ts, by}})
			continue
		}
		m, ok := c.cur.points[string(s.Start)]
		switch {
		case !ok || ts > m.ts:
			if !ok {
				c.cur.bytes += markBytes + len(s.Start)
			}
			m = readMark{ts, by}
		case ts == m.ts && by != m.by:
			m.by = base.TxnID{}
		default:
			continue
		}
		c.cur.points[string(s.Start)] = m
	}
}

// addRange replaces the mark of the same range, if the same ranges are read again and again.
func (e *readEra) addRange(m rangeMark) {
	for i := range e.ranges {
		o := &e.ranges[i]
		if !bytes.Equal(o.span.Start, m.span.Start) || !bytes.Equal(o.span.End, m.span.End) {
			continue
		}
		switch {
		case m.ts > o.ts:
			o.readMark = m.readMark
		case m.ts == o.ts && m.by != o.by:
			o.by = base.TxnID{}
		}
		return
	}
	e.bytes += markBytes + len(m.span.Start) + len(m.span.End)
	m.span = base.Span{Start: m.span.Start.Clone(), End: m.span.End.Clone()}
	e.ranges = append(e.ranges, m)
}

// Read is the largest timestamp at which another transaction may have read something of the span.
// Where only by has read at the largest timestamp, all others have read below it; by writes at or
// above its own reads.
func (c *Cache) Read(s base.Span, by base.TxnID) base.Timestamp {
	ts := c.low
	for _, e := range []*readEra{c.cur, c.old} {
		if e.high <= ts {
			continue
		}
		if s.IsPoint() {
			if m, ok := e.points[string(s.Start)]; ok {
				ts = max(ts, m.others(by))
			}
		} else {
			for k, m := range e.points {
				if m.ts > ts && s.Contains(base.Key(k)) {
					ts = max(ts, m.others(by))
				}
			}
		}
		for i := range e.ranges {
			if m := &e.ranges[i]; m.ts > ts && m.span.Overlaps(s) {
				ts = max(ts, m.others(by))
			}
		}
	}
	return ts
}

func (m readMark) others(by base.TxnID) base.Timestamp {
	if m.by == by && !by.IsZero() {
		return m.ts.Prev()
	}
	return m.ts
}
