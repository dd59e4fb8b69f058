package view

import (
	"bytes"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/wire"
)

// Group is the group whose rows are looked for, at one node.
type Group struct {
	ID    base.GroupID
	Store *store.Store
	// Missing is what the node must still apply before the group may act as the owner of a gap that
	// an entry of another group's log gave it.
	Missing interface {
		Missing(w base.GroupIndex) []*wire.GroupIndex
	}
	Async    func() bool // other regions get its log asynchronously; nil: no
	NotesAll bool        // Gather.Own is wanted
	MaxBytes int         // of rows in one answer
}

// IsAsync reports whether other regions get the group's log asynchronously.
func (g *Group) IsAsync() bool { return g.Async != nil && g.Async() }

// Gather collects the rows of a read from one view of the store into Resp.
type Gather struct {
	Group  *Group
	Reader *store.Reader
	Query  *wire.ReadRequest
	TS     base.Timestamp
	Resp   *wire.ReadResponse
	// All reads whatever the owners are, as a local replica does; else parts of others are Foreign.
	All bool
	// AsOf, with All, fills Homes.
	AsOf bool
	// Only is what is locked of a limited read: a prefix of the spans, the last one cut.
	Only []base.Span
	// Keep notes places in Found: the read holds exclusive locks.
	Keep bool
	// Drops reports of the value of a row that the reader does not want it; nil: all are wanted.
	Drops func(value []byte) bool
	// Limit is the timestamp up to which versions of this group may have been acknowledged before
	// the reader began; see doubt.
	Limit base.Timestamp

	Found    []Seen             // at most MaxSeen
	Own      []Seen             // every key of this group, with Group.NotesAll
	Need     []*wire.GroupIndex // to be applied here before any of the answer counts
	Arrivals Arrivals           // rows that other regions have handed over
	Homes    uint32             // regions whose groups own the keys and gaps read, as of TS, by bit
	Newer    base.Timestamp     // the newest version in doubt

	walk    walk
	rows    int // rows found; absent keys are not counted
	bytes   int
	max     int // of bytes
	seen    int // keys looked at
	foreign int // foreign parts of the range that is scanned
	kvs     []wire.KV
	arena   []byte // room for keys and values
}

const (
	// MaxSeen bounds the keys of which a transaction remembers the place.
	MaxSeen    = 32
	maxForeign = 4096     // foreign parts in one answer
	maxScanned = 200_000  // keys, tombstones included, looked at for one answer
	maxDropped = 64 << 10 // keys looked at for one answer, if rows are dropped: 10 ms
	maxBlock   = 64       // rows allocated at a time
	maxArena   = 16 << 10
)

// NewGather makes a reader of q at ts, into resp.
func NewGather(of *Group, rd *store.Reader, q *wire.ReadRequest, ts base.Timestamp, resp *wire.ReadResponse) *Gather {
	g := &Gather{Group: of, Reader: rd, Query: q, TS: ts, Resp: resp, max: int(q.MaxBytes)}
	if g.max <= 0 || g.max > of.MaxBytes {
		g.max = of.MaxBytes
	}
	return g
}

// Covered is what a limited read gets to at present: whole spans, and a part of the last one.
func (g *Group) Covered(q *wire.ReadRequest) ([]base.Span, error) {
	rd := g.Store.NewReader()
	defer rd.Close()
	probe := &wire.ReadResponse{}
	if err := NewGather(g, rd, q, base.MaxTimestamp, probe).Run(); err != nil {
		return nil, err
	}
	spans := SpansOf(q.Spans)
	if len(probe.Resume) == 0 {
		return spans, nil
	}
	spans = spans[:probe.ResumeSpan+1]
	last := &spans[probe.ResumeSpan]
	switch {
	case last.IsPoint():
		spans = spans[:probe.ResumeSpan]
	case q.Reverse:
		last.Start = probe.Resume
	default:
		last.End = probe.Resume
	}
	if !last.IsPoint() && bytes.Compare(last.Start, last.End) >= 0 {
		spans = spans[:len(spans)-1]
	}
	return spans, nil
}

func (g *Gather) full() bool {
	return g.Query.Limit > 0 && g.rows >= int(g.Query.Limit) || g.bytes >= g.max
}

// Run reads the spans in their order, until the answer is full.
func (g *Gather) Run() error {
	if !g.All && manyRising(g.Query.Spans) {
		g.walk.c = NewCursor(g.Reader)
		defer g.endWalk()
	}
	for i, s := range g.Query.Spans {
		span := SpanOf(s)
		if g.full() || g.Only != nil && i >= len(g.Only) {
			g.stop(i, g.first(span))
			return nil
		}
		if span.IsPoint() {
			if err := g.point(span.Start); err != nil {
				return err
			}
			continue
		}
		more, err := g.scanLocked(i, span)
		if err != nil {
			return err
		}
		if more != nil {
			g.stop(i, more)
			return nil
		}
	}
	return nil
}

// scanLocked scans what is locked of a range. more is where to go on, nil if the range was read to
// its end.
func (g *Gather) scanLocked(i int, span base.Span) (more base.Key, err error) {
	if g.Only == nil {
		return g.scan(span)
	}
	locked := g.Only[i]
	more, err = g.scan(locked)
	if err != nil || more != nil {
		return more, err
	}
	// What is locked was read to its end.
	if g.Query.Reverse && bytes.Compare(locked.Start, span.Start) > 0 {
		return locked.Start, nil
	}
	if !g.Query.Reverse && bytes.Compare(locked.End, span.End) < 0 {
		return locked.End, nil
	}
	return nil, nil
}

// first is the resume key of a span that was not begun.
func (g *Gather) first(s base.Span) base.Key {
	if g.Query.Reverse && !s.IsPoint() {
		return s.End
	}
	return s.Start
}

func (g *Gather) stop(span int, at base.Key) {
	g.Resp.Resume, g.Resp.ResumeSpan = at, uint32(span)
}

// clone copies what an iterator lends.
func (g *Gather) clone(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	if len(b) > cap(g.arena)-len(g.arena) {
		g.arena = make([]byte, 0, max(len(b), min(2*cap(g.arena), maxArena), 256))
	}
	n := len(g.arena)
	g.arena = append(g.arena, b...)
	return g.arena[n:len(g.arena):len(g.arena)]
}

func (g *Gather) add(v *store.Version, key []byte, absent bool) {
	if len(g.kvs) == 0 {
		g.kvs = make([]wire.KV, min(max(1, len(g.Resp.Rows)), maxBlock))
	}
	row := &g.kvs[0]
	g.kvs = g.kvs[1:]
	row.Key, row.Value, row.Ts, row.Label, row.Absent = key, v.Value, uint64(v.TS), uint64(v.Label), absent
	g.Resp.Rows = append(g.Resp.Rows, row)
	g.bytes += len(key) + len(v.Value) + 16
	if !absent {
		g.rows++
	}
}

// point reads one key.
func (g *Gather) point(key base.Key) error {
	g.seen++
	if g.All {
		return g.pointOfAll(key)
	}
	p, err := g.locate(key)
	if err != nil {
		return err
	}
	if p.Owner != g.Group.ID {
		g.Resp.Foreign = append(g.Resp.Foreign, p.Foreign(key))
		return nil
	}
	if !p.Found {
		g.Need = append(g.Need, g.Group.Missing.Missing(p.Writer)...)
	}
	g.saw(key, &p)
	g.Arrivals.Note(g.Group.ID.Region(), p.Writer, p.Since)
	v, ok := p.V, p.Found
	if ok && v.TS > g.TS {
		if v, ok, err = g.older(key, v); err != nil {
			return err
		}
	} else if g.TS != base.MaxTimestamp {
		if err := g.tooOld(key); err != nil {
			return err
		}
	}
	g.note(&v)
	g.add(&v, key, !ok || v.Tombstone)
	return nil
}

// walk finds the places of many keys, most of which are absent: those of new rows. It steps from
// key to key. A key that is there is looked up again, for its value.
type walk struct {
	c     *Cursor // nil: each key is looked up
	found int
}

const (
	manyPoints = 64 // from so many keys on a read walks
	mostFound  = 32 // the walk ends when so many keys, and half of all, are there
)

// manyRising reports whether a read is of many keys, in rising order.
func manyRising(spans []*wire.Span) bool {
	if len(spans) < manyPoints || !AllPoints(spans) {
		return false
	}
	return slices.IsSortedFunc(spans, func(a, b *wire.Span) int { return bytes.Compare(a.Start, b.Start) })
}

func (g *Gather) endWalk() {
	if g.walk.c != nil {
		g.walk.c.Close()
		g.walk.c = nil
	}
}

// locate is Locate.
func (g *Gather) locate(key base.Key) (Place, error) {
	if g.walk.c == nil {
		return Locate(g.Reader, key)
	}
	p, err := g.walk.c.Locate(key)
	if err != nil || !p.Found {
		return p, err
	}
	if g.walk.found++; g.walk.found > mostFound && 2*g.walk.found > g.seen {
		g.endWalk()
	}
	return Locate(g.Reader, key)
}

// pointOfAll is point whatever the owner is.
func (g *Gather) pointOfAll(key base.Key) error {
	v, ok, err := g.Reader.Get(key, g.TS)
	if err != nil {
		return err
	}
	g.note(&v)
	g.add(&v, key, !ok || v.Tombstone)
	switch {
	case !g.AsOf:
		return nil
	case ok:
		g.home(HomeGroup(key, v.Label))
		return nil
	}
	return g.gapHome(key)
}

// older is the version of a key at the read's timestamp; newest lies above it.
func (g *Gather) older(key base.Key, newest store.Version) (store.Version, bool, error) {
	if err := g.doubt(key, newest); err != nil {
		return store.Version{}, false, err
	}
	return g.Reader.Get(key, g.TS)
}

// saw notes the place of a key of this group for the commit.
func (g *Gather) saw(key base.Key, p *Place) {
	if g.Group.NotesAll {
		g.Own = append(g.Own, Seen{Key: key, Place: *p})
	}
	if g.Keep && len(g.Found) < MaxSeen {
		s := Seen{Key: key, Place: *p}
		s.V.Key, s.V.Value = nil, nil
		g.Found = append(g.Found, s)
	}
}

// tooOld refuses a snapshot below the collection threshold: what it should see may be gone without
// a trace.
func (g *Gather) tooOld(key base.Key) error {
	if th := g.Group.Store.GCThreshold(key.Shard()); g.TS < th {
		return base.Errorf(base.CodeTooOld, "read at %s: versions older than %s have been collected; "+
			"read at a newer timestamp, or raise the collection age", g.TS, th)
	}
	return nil
}

func (g *Gather) note(v *store.Version) {
	g.Resp.MaxTs = max(g.Resp.MaxTs, uint64(v.TS))
}

// doubt notes versions of a key above the timestamp of a read that may have been acknowledged
// before the reader began; v is the newest. (Only with timestamp ordering.)
func (g *Gather) doubt(key base.Key, v store.Version) error {
	if g.Query.LimitTs == 0 || g.All {
		return nil
	}
	for v.TS > g.TS {
		limit := g.Limit
		// The row was elsewhere: what this group knows does not bound it.
		if v.Writer.Region != g.Group.ID.Region() {
			limit = base.Timestamp(g.Query.LimitTs)
		}
		if g.Query.Lock != 0 { // it stays the newest one, and the reader may write the next
			g.Newer = max(g.Newer, v.TS.Next())
			return nil
		}
		if v.TS <= limit {
			g.Newer = max(g.Newer, v.TS)
			return nil
		}
		var ok bool
		var err error
		if v, ok, err = g.Reader.Get(key, v.TS.Prev()); err != nil || !ok {
			return err
		}
	}
	return nil
}

// scan reads one range until the answer is full; more is where to go on, nil at the end.
func (g *Gather) scan(span base.Span) (more base.Key, err error) {
	if err := g.beginScan(span.Start); err != nil {
		return nil, err
	}
	upTo := base.MaxTimestamp
	if g.All {
		upTo = g.TS
	}
	before := g.rows
	it := g.Reader.Iter(span, upTo, store.IterOptions{Reverse: g.Query.Reverse})
	defer it.Close()
	g.foreign = 0
	seg := Segmenter{Reader: g.Reader, Span: span, Reverse: g.Query.Reverse, Emit: g.segment}
	if g.Group.IsAsync() {
		seg.By = g.handedBy
	}
	most := maxScanned
	if g.Drops != nil {
		most = maxDropped
	}
	for it.Next() {
		v := it.Version()
		g.seen++
		if g.All && g.dropped(&v) && g.seen < most {
			continue
		}
		v.Key = g.clone(v.Key)
		if err := g.scanned(&seg, v); err != nil {
			return nil, err
		}
		if each := int(g.Query.Each); each > 0 && g.rows-before >= each {
			_, err := g.endScan(&seg, v.Key) // no more is wanted of this range
			return nil, err
		}
		if g.full() || g.foreign >= maxForeign || g.seen >= most {
			more, err := g.endScan(&seg, v.Key)
			if err == nil {
				err = it.Err()
			}
			return more, err
		}
	}
	if err := it.Err(); err != nil || g.All {
		return nil, err
	}
	return nil, seg.Finish(false, span.End)
}

// dropped reports whether the reader does not want a row that is to be part of the answer. The
// answer shows that it is not there: that counts as a read of it.
func (g *Gather) dropped(v *store.Version) bool {
	if g.Drops == nil || v.Tombstone || v.TS > g.TS || !g.Drops(v.Value) {
		return false
	}
	if g.AsOf {
		g.home(HomeGroup(v.Key, v.Label))
	}
	g.note(v)
	return true
}

// beginScan looks at what no iterator shows of a range: that its versions may have been collected,
// and the owner of a gap at its start.
func (g *Gather) beginScan(start base.Key) error {
	if g.TS != base.MaxTimestamp {
		if err := g.tooOld(start); err != nil {
			return err
		}
	}
	if !g.AsOf {
		return nil
	}
	if _, ok, err := g.Reader.Get(start, g.TS); err != nil || ok {
		return err
	}
	return g.gapHome(start)
}

// segment takes down a part of a range, and its owner.
func (g *Gather) segment(s Segment) {
	if s.Owner != g.Group.ID {
		g.foreign++
		g.Resp.Foreign = append(g.Resp.Foreign, s.Foreign())
		return
	}
	for _, w := range s.Since {
		g.Need = append(g.Need, g.Group.Missing.Missing(base.GroupIndex{Region: base.RegionID(w.Region), Index: w.Index})...)
	}
}

func (g *Gather) handedBy(owner base.GroupID, w base.GroupIndex, ts base.Timestamp) {
	if owner == g.Group.ID {
		g.Arrivals.Note(g.Group.ID.Region(), w, ts)
	}
}

// scanned takes the newest version of the next key of a range; its key belongs to the answer, its
// value does not yet.
func (g *Gather) scanned(seg *Segmenter, v store.Version) error {
	owner := HomeGroup(v.Key, v.Label)
	if !g.All {
		if err := seg.Add(&v); err != nil {
			return err
		}
		if owner != g.Group.ID {
			return nil
		}
		g.saw(v.Key, &Place{Owner: owner, Since: v.TS, Found: true, V: v})
	}
	if g.AsOf {
		g.home(owner)
	}
	key, ok := v.Key, true
	if g.dropped(&v) {
		return nil
	}
	if v.TS > g.TS {
		var err error
		if v, ok, err = g.older(key, v); err != nil {
			return err
		}
	} else {
		v.Value = g.clone(v.Value)
	}
	if ok {
		g.note(&v)
		if !v.Tombstone {
			g.add(&v, key, false)
		}
	}
	return nil
}

// endScan stops behind a key because the answer is full. more is where to go on, nil if that was
// the end of the range.
func (g *Gather) endScan(seg *Segmenter, key base.Key) (more base.Key, err error) {
	stop, end := key, bytes.Equal(key, seg.Span.Start)
	if !g.Query.Reverse {
		stop = key.Next()
		end = bytes.Compare(stop, seg.Span.End) >= 0
	}
	if !g.All {
		if err := seg.Finish(true, stop); err != nil {
			return nil, err
		}
	}
	if end {
		return nil, nil
	}
	return stop, nil
}

// home notes a group that owns part of what is read.
func (g *Gather) home(id base.GroupID) { g.Homes |= 1 << id.Region() }

// gapHome notes which group owned, as of the timestamp, the gap in which a key lies.
func (g *Gather) gapHome(key base.Key) error {
	switch {
	case key.Shard() == base.MetaShard:
		return nil
	case FixedOwner(key):
		g.home(key.DefaultOwner())
		return nil
	}
	p, ok, err := g.Reader.Pred(key)
	if err != nil {
		return err
	}
	if ok && p.TS > g.TS {
		at := p.Key.Clone()
		if p, ok, err = g.Reader.Get(at, g.TS); err != nil {
			return err
		}
		if !ok { // it is younger: which group owned the gap before is not worth a longer search
			g.Homes = ^uint32(0)
			return nil
		}
	}
	if ok {
		g.home(HomeGroup(key, p.Label))
	} else {
		g.home(key.DefaultOwner())
	}
	return nil
}
