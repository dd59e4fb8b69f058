package owner

import (
	"bytes"
	"context"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/lock"
	"github.com/godwitdb/godwit/store"
	"github.com/godwitdb/godwit/wire"
)

// Read serves a read under locks or at a snapshot. The request's keys may be
// kept: they belong to the replica from now on.
func (r *Replica) Read(ctx context.Context, q *wire.ReadRequest) *wire.ReadResponse {
	return r.readFor(ctx, r.cfg.Self, q)
}

// readFor is Read on behalf of a client of another node.
func (r *Replica) readFor(ctx context.Context, from base.NodeID, q *wire.ReadRequest) *wire.ReadResponse {
	var key base.Key
	if len(q.Spans) > 0 {
		key = q.Spans[0].Start
	}
	r.asked(from, q.Txn, false, key)
	resp := &wire.ReadResponse{}
	r.stats.Reads.Add(1)
	err := r.read(ctx, q, resp)
	for h := r.handingOf(err); h != nil; h = r.handingOf(err) {
		var passed *wire.ReadResponse
		if passed, err = helped[wire.ReadResponse](ctx, r, h, wire.KindRead, q, true); passed != nil {
			return passed
		}
		if err == nil {
			resp = &wire.ReadResponse{}
			err = r.read(ctx, q, resp)
		}
	}
	if err != nil {
		r.stats.Errors.Add(1)
		resp.Rows, resp.Foreign, resp.Resume = nil, nil, nil
		resp.Status = statusOf(err)
	}
	resp.Now = uint64(r.clock.Latest())
	return resp
}

func (r *Replica) read(ctx context.Context, q *wire.ReadRequest, resp *wire.ReadResponse) error {
	if err := r.checkSpans(q.Spans); err != nil {
		return err
	}
	if q.MinTs != 0 {
		if err := r.clock.Observe(base.Timestamp(q.MinTs)); err != nil {
			return err
		}
	}
	r.clock.Learn(base.Timestamp(q.Oracle))
	if len(q.Need) > 0 {
		if err := r.waitVector(ctx, q.Need); err != nil {
			return err
		}
	}
	if q.ReadTs != 0 && r.byTime() {
		return r.readOrdered(ctx, q, resp)
	}
	if kv.LockMode(q.Lock) == kv.LockNone {
		return r.readSnapshot(ctx, q, resp)
	}
	return r.readLocking(ctx, q, resp)
}

func (r *Replica) checkSpans(spans []*wire.Span) error {
	if len(spans) == 0 || len(spans) > r.cfg.MaxSpans {
		return base.Errorf(base.CodeInvalid, "a read has 1 to %d spans, not %d", r.cfg.MaxSpans, len(spans))
	}
	for _, s := range spans {
		switch k := base.Key(s.Start); {
		case len(k) == 0 || k.Shard() != r.shard:
			return base.Errorf(base.CodeInvalid, "key %v is not in the shard of group %v", k, r.id)
		case len(s.End) > 0 && bytes.Compare(s.Start, s.End) >= 0:
			return base.Errorf(base.CodeInvalid, "span [%v,%v) is empty or reversed", k, base.Key(s.End))
		case len(s.End) > 0 && !sameSection(k, s.End):
			return base.Errorf(base.CodeInvalid, "span [%v,%v) reaches across sections", k, base.Key(s.End))
		}
	}
	return nil
}

// sameSection reports whether [start, end) lies within start's section.
func sameSection(start, end base.Key) bool {
	sec := start.Section()
	if start.Shard() == base.MetaShard {
		return base.Key(end).Shard() == base.MetaShard || bytes.Compare(end, base.Key{0, 1}) <= 0
	}
	if bytes.HasPrefix(end, sec) {
		return true
	}
	limit := sec.PrefixEnd()
	return limit != nil && bytes.Compare(end, limit) <= 0
}

func spanOf(s *wire.Span) base.Span {
	if len(s.End) == 0 {
		return base.Span{Start: s.Start}
	}
	return base.Span{Start: s.Start, End: s.End}
}

func spansOf(in []*wire.Span) []base.Span {
	out := make([]base.Span, len(in))
	for i, s := range in {
		out[i] = spanOf(s)
	}
	return out
}

// readSnapshot reads at a timestamp without locks (I3, I4): it makes sure that whatever is
// assigned from now on lies above it, and waits for what was assigned at or below it.
func (r *Replica) readSnapshot(ctx context.Context, q *wire.ReadRequest, resp *wire.ReadResponse) error {
	ts := base.Timestamp(q.ReadTs)
	if err := r.checkSnapshot(ts); err != nil {
		return err
	}
	var spans []base.Span
	for {
		if err := r.enter(ctx, true, ts); err != nil {
			return err
		}
		r.lead.floor = max(r.lead.floor, ts)
		resp.Term = r.lead.term
		if len(r.pending) == 0 {
			r.mu.Unlock()
			break
		}
		if spans == nil {
			spans = spansOf(q.Spans)
		}
		x := r.undecided(spans, ts)
		if x == nil {
			r.mu.Unlock()
			break
		}
		err := r.awaitEnd(ctx, x)
		r.mu.Unlock()
		if err != nil {
			return err
		}
	}
	g, err := r.gather(ctx, resp, func(rd *store.Reader) *gather { return r.newGather(rd, q, ts, resp) })
	if err != nil {
		return err
	}
	if r.set.Replica(r.id) != r { // the group has left this node, and its rows may have been cleared meanwhile
		return base.Errorf(base.CodeNotLeader, "node %d has no replica of group %v any more", r.cfg.Self, r.id)
	}
	r.served(ReadService, resp.Term, ts, g.own)
	if allPoints(q.Spans) {
		r.count(nil, q, resp, base.RegionID(q.Region), lock.Shared)
	}
	if err := g.came.settled(ctx, r); err != nil {
		return err
	}
	// A version may be visible before true time has passed it everywhere (after a change of leader):
	// who reads it must not be faster than the commit's own client.
	return r.readWait(ctx, base.Timestamp(resp.MaxTs))
}

func (r *Replica) checkSnapshot(ts base.Timestamp) error {
	if ts == 0 {
		return base.Errorf(base.CodeInvalid, "the read has no snapshot timestamp")
	}
	return r.clock.Within(ts, maxAhead)
}

// readLocking locks the spans and reads what is newest.
func (r *Replica) readLocking(ctx context.Context, q *wire.ReadRequest, resp *wire.ReadResponse) error {
	mode := lock.Shared
	if kv.LockMode(q.Lock) == kv.LockExclusive {
		mode = lock.Exclusive
	}
	if err := r.enter(ctx, true, 0); err != nil {
		return err
	}
	term := r.lead.term
	x, err := r.admit(q.Txn, q.LockTerm)
	fresh := err == nil && r.locks.Count(x.id) == 0
	r.mu.Unlock()
	if err != nil {
		return err
	}
	defer func() {
		r.mu.Lock()
		r.leave(x)
		r.mu.Unlock()
	}()
	resp.Term = term
	spans := spansOf(q.Spans)
	if q.Limit > 0 {
		// Find out how far the read will get, and lock no more than that.
		spans, err = r.coveredSpans(q)
		if err != nil {
			return err
		}
	}
	if _, err := r.lock(ctx, x, term, mode, spans...); err != nil {
		if base.CodeOf(err) == base.CodeAborted {
			r.abort(x)
		}
		return err
	}
	view := base.MaxTimestamp
	r.mu.Lock()
	x.crt = q.Txn.Crt
	if len(r.slots) > 0 || x.bound.below != 0 {
		view, err = r.underSlots(ctx, x, term, mode, spans)
	}
	resp.Bounded = x.bound.below != 0
	r.mu.Unlock()
	if err != nil {
		if base.CodeOf(err) == base.CodeAborted {
			r.abort(x)
		}
		return err
	}
	// Ownership is looked up after the wait (C3): whoever had the locks may have given parts away.
	g, err := r.gather(ctx, resp, func(rd *store.Reader) *gather {
		g := r.newGather(rd, q, view, resp)
		g.keep = mode == lock.Exclusive
		if q.Limit > 0 {
			g.only = spans
		}
		return g
	})
	if err != nil {
		return err
	}
	if err := g.came.settled(ctx, r); err != nil {
		return err
	}
	if mode == lock.Exclusive || allPoints(q.Spans) {
		r.count(x, q, resp, base.RegionID(q.Txn.GatewayRegion), mode)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.current(x, term) || !r.ready(true, 0) {
		return r.lost(x, term)
	}
	r.served(LockService, term, 0, g.own)
	if fresh && x.calls == 1 && len(resp.Rows) == 0 && len(resp.Foreign) == len(q.Spans) && allPoints(q.Spans) {
		// Nothing of it is here: the transaction has no business with this group.
		r.release(x, false)
		resp.Term = 0
	}
	if len(x.seen)+len(g.found) <= maxSeen {
		x.seen = append(x.seen, g.found...)
	}
	return nil
}

func allPoints(spans []*wire.Span) bool {
	for _, s := range spans {
		if len(s.End) > 0 {
			return false
		}
	}
	return true
}

// abort releases an active transaction that lost a conflict: it is over, and
// those who wait for it need not wait for its coordinator.
func (r *Replica) abort(x *txnState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x.phase == active {
		r.release(x, true)
	}
}

// coveredSpans is what a limited read gets to at present: whole spans, and a part of the last one.
func (r *Replica) coveredSpans(q *wire.ReadRequest) ([]base.Span, error) {
	rd := r.store.NewReader()
	defer rd.Close()
	probe := &wire.ReadResponse{}
	g := r.newGather(rd, q, base.MaxTimestamp, probe)
	if err := g.run(); err != nil {
		return nil, err
	}
	spans := spansOf(q.Spans)
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

// gather collects the rows of a read from one view of the store.
type gather struct {
	r     *Replica
	rd    *store.Reader
	q     *wire.ReadRequest
	ts    base.Timestamp
	all   bool        // whoever owns them (reads of a local replica)
	only  []base.Span // what is locked of a limited read: a prefix of the spans, the last one cut
	resp  *wire.ReadResponse
	rows  int // rows found, absent keys not counted
	bytes int
	max   int                // bytes
	seen  int                // keys looked at
	keep  bool               // note places in found: the read holds exclusive locks
	found []seenKey          // at most maxSeen
	own   []seenKey          // for Config.Serves: every key of this group
	need  []*wire.GroupIndex // to be applied here before any of it counts
	came  came               // rows that other regions have handed over
	kvs   []wire.KV          // room for rows
	arena []byte             // room for keys and values
	homes uint32             // with all: regions whose groups own the keys and gaps read, as of ts, by bit
	asOf  bool               // with all: fill homes
	limit base.Timestamp     // see doubt
	newer base.Timestamp     // the newest version in doubt
}

func (r *Replica) newGather(rd *store.Reader, q *wire.ReadRequest, ts base.Timestamp, resp *wire.ReadResponse) *gather {
	g := &gather{r: r, rd: rd, q: q, ts: ts, resp: resp, max: int(q.MaxBytes)}
	if g.max <= 0 || g.max > r.cfg.MaxBytes {
		g.max = r.cfg.MaxBytes
	}
	return g
}

// gather reads, again while what it was read from is not complete here.
func (r *Replica) gather(ctx context.Context, resp *wire.ReadResponse, begin func(*store.Reader) *gather) (*gather, error) {
	for {
		var before came
		before.begin(r)
		rd := r.store.NewPointReader()
		g := begin(rd)
		g.came = before
		err := g.run()
		rd.Close()
		if err != nil || len(g.need) == 0 {
			return g, err
		}
		if err := r.waitVector(ctx, g.need); err != nil {
			return nil, err
		}
		resp.Rows, resp.Foreign, resp.Resume, resp.ResumeSpan, resp.MaxTs = nil, nil, nil, 0, 0
	}
}

func (g *gather) full() bool {
	return g.q.Limit > 0 && g.rows >= int(g.q.Limit) || g.bytes >= g.max
}

func (g *gather) run() error {
	for i, s := range g.q.Spans {
		span := spanOf(s)
		if g.only != nil && i >= len(g.only) {
			g.stop(i, g.first(span))
			return nil
		}
		if g.full() {
			g.stop(i, g.first(span))
			return nil
		}
		if span.IsPoint() {
			if err := g.point(span.Start); err != nil {
				return err
			}
			continue
		}
		scan := span
		if g.only != nil {
			scan = g.only[i]
		}
		more, err := g.scan(scan)
		if err != nil {
			return err
		}
		if more == nil && g.only != nil {
			// What is locked was read to its end.
			if g.q.Reverse && bytes.Compare(scan.Start, span.Start) > 0 {
				more = scan.Start
			} else if !g.q.Reverse && bytes.Compare(scan.End, span.End) < 0 {
				more = scan.End
			}
		}
		if more != nil {
			g.stop(i, more)
			return nil
		}
	}
	return nil
}

// first is the resume key of a span that was not begun.
func (g *gather) first(s base.Span) base.Key {
	if g.q.Reverse && !s.IsPoint() {
		return s.End
	}
	return s.Start
}

func (g *gather) stop(span int, at base.Key) {
	g.resp.Resume, g.resp.ResumeSpan = at, uint32(span)
}

// maxBlock and maxArena are how many rows, and how many bytes, are allocated at a time at most.
const (
	maxBlock = 64
	maxArena = 16 << 10
)

// clone copies what an iterator lends.
func (g *gather) clone(b []byte) []byte {
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

func (g *gather) add(v *store.Version, key []byte, absent bool) {
	if len(g.kvs) == 0 {
		g.kvs = make([]wire.KV, min(max(1, len(g.resp.Rows)), maxBlock))
	}
	row := &g.kvs[0]
	g.kvs = g.kvs[1:]
	row.Key, row.Value, row.Ts, row.Label, row.Absent = key, v.Value, uint64(v.TS), uint64(v.Label), absent
	g.resp.Rows = append(g.resp.Rows, row)
	g.bytes += len(key) + len(v.Value) + 16
	if !absent {
		g.rows++
	}
}

func (g *gather) point(key base.Key) error {
	g.seen++
	if g.all {
		v, ok, err := g.rd.Get(key, g.ts)
		if err != nil {
			return err
		}
		g.note(&v)
		g.add(&v, key, !ok || v.Tombstone)
		if g.asOf {
			if ok {
				g.home(homeGroup(key, v.Label))
				return nil
			}
			return g.gapHome(key)
		}
		return nil
	}
	p, err := locate(g.rd, key)
	if err != nil {
		return err
	}
	if p.owner != g.r.id {
		g.resp.Foreign = append(g.resp.Foreign, p.foreign(key))
		return nil
	}
	if !p.found {
		g.need = append(g.need, g.r.missing(p.writer)...)
	}
	g.saw(key, &p)
	g.came.note(g.r, p.writer, p.since)
	v, ok := p.v, p.found
	if ok && v.TS > g.ts {
		if err := g.doubt(key, v); err != nil {
			return err
		}
		if v, ok, err = g.rd.Get(key, g.ts); err != nil {
			return err
		}
	} else if g.ts != base.MaxTimestamp {
		if err := g.tooOld(key); err != nil {
			return err
		}
	}
	g.note(&v)
	g.add(&v, key, !ok || v.Tombstone)
	return nil
}

// saw notes the place of a key of this group for the commit.
func (g *gather) saw(key base.Key, p *place) {
	if g.r.cfg.Serves != nil {
		g.own = append(g.own, seenKey{key: key, place: *p})
	}
	if g.keep && len(g.found) < maxSeen {
		s := seenKey{key: key, place: *p}
		s.v.Key, s.v.Value = nil, nil
		g.found = append(g.found, s)
	}
}

// tooOld refuses a snapshot below the collection threshold: what it should see may be gone without a trace.
func (g *gather) tooOld(key base.Key) error {
	if th := g.r.store.GCThreshold(key.Shard()); g.ts < th {
		return base.Errorf(base.CodeTooOld, "read at %s: versions older than %s have been collected; read at a newer timestamp, or raise the collection age", g.ts, th)
	}
	return nil
}

func (g *gather) note(v *store.Version) {
	g.resp.MaxTs = max(g.resp.MaxTs, uint64(v.TS))
}

// scan reads one range until it is full; more is where to go on, nil at the end.
func (g *gather) scan(span base.Span) (more base.Key, err error) {
	if g.ts != base.MaxTimestamp {
		if err := g.tooOld(span.Start); err != nil {
			return nil, err
		}
	}
	iterTS := base.MaxTimestamp
	if g.all {
		iterTS = g.ts
	}
	if g.asOf { // the scan meets all owners but that of a gap at its start
		_, ok, err := g.rd.Get(span.Start, g.ts)
		if err == nil && !ok {
			err = g.gapHome(span.Start)
		}
		if err != nil {
			return nil, err
		}
	}
	it := g.rd.Iter(span, iterTS, store.IterOptions{Reverse: g.q.Reverse})
	defer it.Close()
	foreign := 0
	seg := segmenter{rd: g.rd, span: span, reverse: g.q.Reverse, emit: func(s segment) {
		if s.owner != g.r.id {
			foreign++
			g.resp.Foreign = append(g.resp.Foreign, &wire.Foreign{
				Span: &wire.Span{Start: s.span.Start, End: s.span.End}, Group: uint32(s.owner), Since: s.since})
			return
		}
		for _, w := range s.since {
			g.need = append(g.need, g.r.missing(base.GroupIndex{Region: base.RegionID(w.Region), Index: w.Index})...)
		}
	}}
	if g.r.async() {
		seg.by = func(owner base.GroupID, w base.GroupIndex, ts base.Timestamp) {
			if owner == g.r.id {
				g.came.note(g.r, w, ts)
			}
		}
	}
	for it.Next() {
		v := it.Version()
		g.seen++
		key := base.Key(g.clone(v.Key))
		v.Key = key
		mine := true
		if !g.all {
			if err := seg.add(&v); err != nil {
				return nil, err
			}
			mine = homeGroup(key, v.Label) == g.r.id
			if mine {
				g.saw(key, &place{owner: g.r.id, since: v.TS, found: true, v: v})
			}
		}
		if g.asOf {
			g.home(homeGroup(key, v.Label))
		}
		if mine {
			ok := true
			if v.TS > g.ts {
				if err := g.doubt(key, v); err != nil {
					return nil, err
				}
				if v, ok, err = g.rd.Get(key, g.ts); err != nil {
					return nil, err
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
		}
		if g.full() || foreign >= maxForeign || g.seen >= maxScanned {
			stop := key
			if !g.q.Reverse {
				stop = key.Next()
			}
			end := !g.q.Reverse && bytes.Compare(stop, span.End) >= 0 || g.q.Reverse && bytes.Equal(stop, span.Start)
			if !g.all {
				if err := seg.finish(true, stop); err != nil {
					return nil, err
				}
			}
			if end {
				return nil, it.Err()
			}
			return stop, it.Err()
		}
	}
	if err := it.Err(); err != nil {
		return nil, err
	}
	if !g.all {
		return nil, seg.finish(false, span.End)
	}
	return nil, nil
}

// home notes a group that owns part of what is read.
func (g *gather) home(id base.GroupID) { g.homes |= 1 << id.Region() }

// gapHome notes who owned, as of the timestamp, the gap in which a key lies.
func (g *gather) gapHome(key base.Key) error {
	if key.Shard() == base.MetaShard {
		return nil
	}
	p, ok, err := g.rd.Pred(key)
	if err != nil {
		return err
	}
	if ok && p.TS > g.ts {
		at := p.Key.Clone()
		if p, ok, err = g.rd.Get(at, g.ts); err != nil {
			return err
		}
		if !ok { // it is younger: whoever owned the gap before is not worth a longer search
			g.homes = ^uint32(0)
			return nil
		}
	}
	if ok {
		g.home(homeGroup(key, p.Label))
	} else {
		g.home(key.DefaultOwner())
	}
	return nil
}

// ReadLocal reads whatever the owners are, from this replica at a timestamp at
// or below the closed timestamps of all groups of the shard (Set.Closed), or at least of those that owned
// the keys and gaps at that timestamp: nobody else could have written there (PROTOCOLS C8).
func (r *Replica) ReadLocal(ctx context.Context, q *wire.ReadRequest) (*wire.ReadResponse, error) {
	if err := r.checkSpans(q.Spans); err != nil {
		return nil, err
	}
	ts := base.Timestamp(q.ReadTs)
	whole := ts <= r.set.Closed(r.shard)
	var closed uint32
	if !whole { // before the view: what is closed is visible in it
		for i, sib := range r.set.siblings(r.shard) {
			if sib != nil && sib.Closed() >= ts {
				closed |= 1 << i
			}
		}
		if closed == 0 {
			return nil, r.incomplete(ts)
		}
	}
	resp := &wire.ReadResponse{}
	rd := r.store.NewPointReader()
	defer rd.Close()
	g := r.newGather(rd, q, ts, resp)
	g.all, g.asOf = true, !whole
	if err := g.run(); err != nil {
		return nil, err
	}
	if r.set.Replica(r.id) != r || !r.set.Holds(r.shard) { // it may have been cleared meanwhile
		return nil, base.Errorf(base.CodeTooLate, "shard %d has just left node %d", r.shard, r.cfg.Self)
	}
	if g.homes&^closed != 0 && !whole {
		return nil, r.incomplete(ts)
	}
	return resp, r.readWait(ctx, base.Timestamp(resp.MaxTs))
}

func (r *Replica) incomplete(ts base.Timestamp) error {
	return base.Errorf(base.CodeTooLate, "shard %d is complete up to %s at node %d, not %s", r.shard, r.set.Closed(r.shard), r.cfg.Self, ts)
}
