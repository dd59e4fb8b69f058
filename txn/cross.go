package txn

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/wire"
)

// crossing is a transaction of several regions that locks nothing across them (Relay; docs/protocol.md S). It begins as
// one of its own region. When it touches a second one, it fixes a snapshot, above which its owners commit from then on
// what it has locked so far, and gives its locks back. All it reads from then on it reads at the snapshot. The
// commit proposes a slot, and the owners of what was read make sure that nothing of it changes between snapshot and slot.
type crossing struct {
	snapshot base.Timestamp
	valid    base.Timestamp // the timestamp from which on nothing that was read may have changed; at most snapshot
	released bool           // it gave locks back, so that for their owners it has ended
}

const (
	maxReads    = 1 << 16 // spans that a transaction remembers as read
	maxSlots    = 6       // slots proposed for one transaction
	firstSlot   = 250 * time.Millisecond
	maxSlot     = 1500 * time.Millisecond // well below the length of a lease
	slotSlack   = 3 * time.Millisecond
	slotHorizon = 20 * time.Millisecond // by which the schema must be known to hold beyond the slot
)

// errMetaCrossing: the meta group commits ahead of now, where no slot can be.
var errMetaCrossing = base.Errorf(base.CodeAborted, "a transaction that has read a snapshot of several regions cannot lock or write the meta shard: retry, locking")

// meta reports whether the meta shard is among the spans.
func (f *fetch) meta() bool {
	return slices.ContainsFunc(f.spans, func(s base.Span) bool { return s.Start.Shard() == base.MetaShard })
}

// meta reports whether a key of the meta shard is written.
func (b *buffer) meta() bool {
	b.tidy()
	return len(b.order) > 0 && b.order[0].key.Shard() == base.MetaShard
}

// far reports whether one of the pieces is led in another region.
func (t *Txn) far(todo []piece) bool {
	for _, p := range todo {
		if p.group != base.MetaGroup && p.group.Region() != t.db.cfg.Region {
			return true
		}
	}
	return false
}

// cross makes the transaction one of several regions.
func (t *Txn) cross(ctx context.Context) error {
	s, err := t.now(ctx)
	if err != nil {
		return err
	}
	s = max(s, t.maxTS, t.readTS)
	parts := slices.DeleteFunc(t.parts, func(p part) bool { return p.term == 0 })
	errs := make([]error, len(parts))
	if len(parts) > 0 {
		parallel(ctx, len(parts), func(ctx context.Context, i int) {
			resp, err := t.db.router.Finish(ctx, &wire.FinishRequest{Group: uint32(parts[i].group), Txn: t.id[:], MinTs: uint64(s), At: uint64(s)})
			if err == nil {
				err = owner.ErrorOf(resp.Status)
			}
			errs[i] = err
		})
	}
	for _, err := range errs {
		if err != nil {
			return base.Errorf(base.CodeAborted, "the locks of the transaction may have been lost as it turned to a second region: %v", err)
		}
	}
	t.parts = nil
	t.db.liveMu.Lock()
	t.liveGroups = nil
	delete(t.db.live, t)
	t.db.liveMu.Unlock()
	t.crossing = &crossing{snapshot: s, valid: s, released: len(parts) > 0}
	t.quitGate()
	t.readTS = s
	t.db.stats.Crossed.Add(1)
	return nil
}

// runCrossing is run for a transaction of several regions: whatever lock was asked for, it reads the snapshot.
func (f *fetch) runCrossing(ctx context.Context, t *Txn) error {
	g := *f
	g.lock, g.ts = kv.LockNone, t.crossing.snapshot
	if err := g.run(ctx, t); err != nil {
		return err
	}
	f.got = g.got
	for _, g := range f.got {
		for _, r := range g.rows {
			if r.Absent {
				if grp, ok := t.db.set.Locate(r.Key); ok {
					t.remember([]*wire.KV{r}, grp)
				}
				continue
			}
			if l := base.Label(r.Label); r.Key != nil && l.Home() != 0 {
				t.remember([]*wire.KV{r}, base.DataGroup(base.Key(r.Key).Shard(), l.Home()))
			}
		}
	}
	return t.noteReads(f)
}

// noteReads remembers what was read, as far as it was read.
func (t *Txn) noteReads(f *fetch) error {
	for i, s := range f.spans {
		cut := f.got[i].cut
		switch {
		case cut == nil:
		case s.IsPoint():
			continue
		case f.reverse:
			s.Start = cut
		default:
			s.End = cut
		}
		if !s.IsPoint() && bytes.Compare(s.Start, s.End) >= 0 {
			continue
		}
		if len(t.reads) >= maxReads {
			return base.Errorf(base.CodeInvalid, "a transaction of several regions reads at most %d keys and ranges: read less, or SET transaction_consistency = 'strict'", maxReads)
		}
		t.reads = append(t.reads, s)
	}
	return nil
}

// commitCrossing validates what was read and commits.
func (t *Txn) commitCrossing(ctx context.Context) (ts base.Timestamp, err error) {
	if len(t.buf.byKey) == 0 {
		return t.commitSnapshot(ctx) // all reads are of one snapshot that was taken after it began
	}
	ctx, cancel := context.WithTimeout(ctx, t.db.cfg.CommitTimeout)
	defer cancel()
	if t.buf.meta() {
		return 0, errMetaCrossing
	}
	if err := t.readFresh(ctx); err != nil {
		return 0, err
	}
	db := t.db
	a := t
	if t.crossing.released {
		a = t.again()
	}
	defer func() {
		if a != t && err == nil {
			a.end()
		} else if a != t {
			a.release()
		}
	}()
	for try := 1; ; try++ {
		c := a.planCrossing()
		groups := c.groups()
		if len(groups) == 1 {
			return c.oneCrossing(ctx, groups[0])
		}
		delay := db.slots.delay(groups, db.cfg.Region)
		bound, err := a.holdPins(ctx, delay+slotHorizon)
		if err != nil {
			return 0, err
		}
		begun, err := a.open(ctx)
		if err != nil {
			return 0, err
		}
		c.slot = max(db.clock.Latest(), begun, t.crossing.snapshot).Add(delay)
		if bound != 0 && c.slot >= bound {
			c.slot = bound.Prev()
		}
		db.stats.TwoRound.Add(1)
		ts, err = c.prepare(ctx, groups)
		switch {
		case err == nil:
			return ts, nil
		case base.CodeOf(err) != base.CodeTooLate:
			return 0, err
		case try == maxSlots:
			return 0, base.Errorf(base.CodeAborted, "%v: retry", err)
		}
		db.stats.SlotsMissed.Add(1)
		a = t.again()
	}
}

// again is the transaction under a new name, for another try of its commit: a group votes once for each name.
func (t *Txn) again() *Txn {
	a := &Txn{db: t.db, opts: t.opts, begun: t.begun, readTS: t.readTS, metaTS: t.metaTS, maxTS: t.maxTS, pins: t.pins, buf: t.buf,
		known: t.known, absent: t.absent, crossing: t.crossing, reads: t.reads, opening: t.opening}
	a.id = base.MakeTxnID(t.id.Start(), t.db.cfg.Self, t.db.seq.Add(1))
	a.meta = wire.TxnMeta{Id: a.id[:], Age: t.meta.Age, Gateway: t.meta.Gateway, GatewayRegion: t.meta.GatewayRegion,
		Policy: t.meta.Policy, LockTimeoutNs: t.meta.LockTimeoutNs}
	return a
}

// readFresh reads what the transaction inserted and deleted again, which must not have been there.
func (t *Txn) readFresh(ctx context.Context) error {
	f := fetch{lock: kv.LockExclusive}
	for _, w := range t.buf.all() {
		if w.fresh && w.kind == wire.WriteKind_DELETE {
			f.spans = append(f.spans, base.PointSpan(w.key))
		}
	}
	for len(f.spans) > 0 {
		if err := f.run(ctx, t); err != nil {
			return err
		}
		var rest []base.Span
		for i, g := range f.got {
			if g.cut != nil {
				rest = append(rest, f.spans[i])
				continue
			}
			for _, r := range g.rows {
				if !r.Absent {
					return exists(r.Key)
				}
			}
		}
		f.spans = rest
	}
	return nil
}

// planCrossing finds out who owns what was written and read, as far as this node knows.
func (t *Txn) planCrossing() *committer {
	c := &committer{t: t, writes: map[base.GroupID][]*wire.Write{}, reads: map[base.GroupID][]*wire.Span{}}
	for _, w := range t.buf.all() {
		if w.fresh && w.kind == wire.WriteKind_DELETE {
			continue
		}
		g := c.ownerOf(w.key)
		m := w.wire(t.opts.Follow)
		if w.patch != nil && t.hasRead(w.key) {
			t.settle(w)
			m = w.wire(t.opts.Follow)
		} else if w.patch != nil {
			m.Value, m.Follow, m.Patch = nil, false, w.patch
		}
		c.writes[g] = append(c.writes[g], m)
	}
	for _, s := range t.reads {
		if s.IsPoint() {
			g := c.ownerOf(s.Start)
			c.reads[g] = append(c.reads[g], &wire.Span{Start: s.Start})
			continue
		}
		segs, ok := t.db.set.Segments(s, maxReads)
		if !ok {
			segs = []owner.Segment{{Span: s, Owner: base.DataGroup(s.Start.Shard(), t.db.cfg.Region)}}
		}
		for _, g := range segs {
			c.reads[g.Owner] = append(c.reads[g.Owner], &wire.Span{Start: g.Span.Start, End: g.Span.End})
		}
	}
	c.snapshot = t.crossing.valid
	return c
}

// hasRead reports whether a key lies in something that the transaction has read.
func (t *Txn) hasRead(key base.Key) bool {
	return slices.ContainsFunc(t.reads, func(s base.Span) bool { return s.Contains(key) })
}

// ownerOf guesses the owner of a key, and makes him apply what it takes to know that he is.
func (c *committer) ownerOf(k base.Key) base.GroupID {
	t := c.t
	if h, ok := t.db.hint(k); ok {
		c.require(h.group, h.need)
		return h.group
	}
	if g, ok := t.db.set.Locate(k); ok {
		return g
	}
	if g, ok := t.owner(k); ok {
		return g
	}
	return base.DataGroup(k.Shard(), t.db.cfg.Region)
}

// oneCrossing commits where one group owns all that was written and read: nothing has to be agreed upon.
func (c *committer) oneCrossing(ctx context.Context, g base.GroupID) (base.Timestamp, error) {
	t := c.t
	margin := t.db.horizon.get(len(t.buf.byKey))
	for try := 0; ; try++ {
		var err error
		if c.bound, err = t.holdPins(ctx, margin); err != nil {
			return 0, err
		}
		if _, err := t.open(ctx); err != nil {
			return 0, err
		}
		ts, again, err := c.oneRound(ctx, g)
		switch {
		case !again:
			return ts, err
		case base.CodeOf(err) == base.CodeTooLate && try < maxSlots:
			t.db.horizon.tooShort()
			margin = min(2*margin, maxMetaMargin)
		default:
			return 0, base.Errorf(base.CodeAborted, "%v: retry", err)
		}
	}
}

// slots are how far ahead of now slots have to be, by region: a little longer than it lately took until its votes were back.
type slots struct {
	mu sync.Mutex
	by map[base.RegionID]time.Duration
}

// delay is how long all votes of the groups will take.
func (s *slots) delay(groups []base.GroupID, self base.RegionID) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := time.Duration(0)
	for _, g := range groups {
		e, ok := s.by[g.Region()]
		if !ok && g.Region() != self {
			e = firstSlot
		}
		d = max(d, e)
	}
	return min(d+d/16+slotSlack, maxSlot)
}

// answered notes how long one vote took.
func (s *slots) answered(r base.RegionID, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = map[base.RegionID]time.Duration{}
	}
	old, ok := s.by[r]
	switch {
	case !ok:
		s.by[r] = d
	case d > old:
		s.by[r] = old + (d-old)/2
	default:
		s.by[r] = old - (old-d)/8
	}
}

// tooShort makes the next slots of a region longer.
func (s *slots) tooShort(r base.RegionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = map[base.RegionID]time.Duration{}
	}
	s.by[r] = min(2*max(s.by[r], slotSlack), maxSlot)
}
