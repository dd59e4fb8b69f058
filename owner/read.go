package owner

import (
	"context"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/lock"
	"github.com/godwitdb/godwit/owner/evaluate"
	"github.com/godwitdb/godwit/owner/gauge"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/wire"
)

// Read serves a read under locks or at a snapshot. The request's keys may be
// kept: they belong to the replica from now on.
func (r *Replica) Read(ctx context.Context, q *wire.ReadRequest) *wire.ReadResponse {
	return r.ReadFor(ctx, r.cfg.Self, q)
}

// ReadFor is Read on behalf of a client of another node.
func (r *Replica) ReadFor(ctx context.Context, from base.NodeID, q *wire.ReadRequest) *wire.ReadResponse {
	var key base.Key
	if len(q.Spans) > 0 {
		key = q.Spans[0].Start
	}
	r.countRequest(from, q.Txn, false, key)
	resp := &wire.ReadResponse{}
	r.stats.Reads.Add(1)
	err := r.read(ctx, q, resp)
	for t := r.transferOf(err); t != nil; t = r.transferOf(err) {
		var passed *wire.ReadResponse
		if passed, err = passOn[wire.ReadResponse](ctx, r, t, wire.KindRead, q, true); passed != nil {
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
	resp.Now = r.nowFor(from)
	return resp
}

func (r *Replica) read(ctx context.Context, q *wire.ReadRequest, resp *wire.ReadResponse) error {
	if err := evaluate.CheckSpans(r.id, q.Spans, r.cfg.MaxSpans); err != nil && !q.Vouch {
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

// readSnapshot reads at a timestamp without locks (OWN-3, OWN-4): it makes sure that whatever is
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
		r.lead.Floor = max(r.lead.Floor, ts)
		resp.Term = r.lead.Term
		if len(r.Pending) == 0 {
			r.mu.Unlock()
			break
		}
		if spans == nil {
			spans = view.SpansOf(q.Spans)
		}
		x := r.AtOrBelow(nil, spans, ts)
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
	g, err := r.gather(ctx, q, resp, readAt{ts: ts, drops: kv.SieveOf(ctx)})
	if err != nil {
		return err
	}
	if err := r.stillHere(); err != nil {
		return err
	}
	r.served(gauge.ReadService, resp.Term, ts, g.Own)
	if view.AllPoints(q.Spans) {
		r.counter.Read(nil, false, q, resp, base.RegionID(q.Region))
	}
	if err := r.awaitArrivals(ctx, &g.Arrivals); err != nil {
		return err
	}
	// A version may be visible before true time has passed it everywhere (after a change of
	// leader). Its reader must not be faster than the commit's own client.
	return r.readWait(ctx, base.Timestamp(resp.MaxTs))
}

// stillHere makes sure that the group has not left this node while rows were read: they may have
// been cleared.
func (r *Replica) stillHere() error {
	if r.set.Replica(r.id) != r {
		return base.Errorf(base.CodeNotLeader, "node %d has no replica of group %v any more", r.cfg.Self, r.id)
	}
	return nil
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
	term := r.lead.Term
	x, err := r.admit(q.Txn, q.LockTerm)
	fresh := err == nil && r.LockTable.Count(x.ID) == 0
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
	asked, at, err := q, readAt{}, error(nil)
	var skipped evaluate.Skips
	if kv.Wait(q.Wait) == kv.WaitSkip {
		q, skipped, err = r.lockFree(ctx, x, term, mode, q)
	}
	switch {
	case err != nil:
	case q.Vouch:
		err = r.vouch(ctx, x, q, resp)
	case len(q.Spans) > 0:
		at, err = r.lockSpans(ctx, x, term, mode, q, resp)
	}
	if err != nil {
		if base.CodeOf(err) == base.CodeAborted {
			r.abort(x)
		}
		return err
	}
	// Ownership is looked up after the wait (HOME-3): the former holder of the locks may have given
	// parts away.
	g, err := r.gather(ctx, q, resp, at)
	if err != nil {
		return err
	}
	if skipped != nil && len(resp.Resume) > 0 {
		resp.ResumeSpan = skipped.Before(resp.ResumeSpan)
	}
	if err := r.awaitArrivals(ctx, &g.Arrivals); err != nil {
		return err
	}
	if mode == lock.Exclusive || view.AllPoints(q.Spans) {
		r.counter.Read(x, mode == lock.Exclusive, q, resp, base.RegionID(q.Txn.GatewayRegion))
	}
	return r.stillLocked(x, term, g, func() {
		if fresh && x.Calls == 1 && view.NothingHere(asked, resp) {
			// The transaction has no business with this group.
			r.release(x, false)
			resp.Term = 0
		}
	})
}

// stillLocked makes sure that x has kept its locks while rows were read under them, and notes what
// was found. then is called with mu held.
func (r *Replica) stillLocked(x *txns.Txn, term uint64, g *view.Gather, then func()) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.current(x, term) || !r.ready(true, 0) {
		return r.lost(x, term)
	}
	r.served(gauge.LockService, term, 0, g.Own)
	then()
	if len(x.Seen)+len(g.Found) <= view.MaxSeen {
		x.Seen = append(x.Seen, g.Found...)
	}
	return nil
}

// lockSpans takes the locks of a locking read, and says what to read under them.
func (r *Replica) lockSpans(ctx context.Context, x *txns.Txn, term uint64, mode lock.Mode, q *wire.ReadRequest,
	resp *wire.ReadResponse) (at readAt, err error) {
	at = readAt{ts: base.MaxTimestamp, keep: mode == lock.Exclusive}
	spans := view.SpansOf(q.Spans)
	if q.Limit > 0 {
		// Find out how far the read will get, and lock no more than that.
		if spans, err = r.view.Covered(q); err != nil {
			return at, err
		}
		at.only = spans
	}
	if kv.Wait(q.Wait) == kv.WaitNot {
		err = r.lockAllNow(ctx, x, term, mode, spans)
	} else {
		_, err = r.lock(ctx, x, term, mode, r.escalated(x, spans)...)
	}
	if err != nil {
		return at, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	x.CRT = q.Txn.Crt
	if len(r.Slots) > 0 || x.Bound.Below != 0 {
		at.ts, err = r.underSlots(ctx, x, term, mode, spans)
	}
	resp.Bounded, resp.Below = x.Bound.Below != 0, uint64(x.Bound.Below)
	return at, err
}

// escalated is what to lock for spans: ranges, if the transaction holds many locks already.
func (r *Replica) escalated(x *txns.Txn, spans []base.Span) []base.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shard == base.MetaShard || r.LockTable.Count(x.ID) < r.cfg.Bulk.Escalate {
		return spans
	}
	return evaluate.Ranges(spans)
}

// abort releases an active transaction that lost a conflict: it is over, and
// requests that wait for it need not wait for its coordinator.
func (r *Replica) abort(x *txns.Txn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x.Phase == txns.Active {
		r.release(x, true)
	}
}

// readAt says how a read looks at the store.
type readAt struct {
	ts, limit base.Timestamp // limit: view.Gather.Limit
	keep      bool           // view.Gather.Keep
	only      []base.Span    // view.Gather.Only
	drops     kv.Sieve       // view.Gather.Drops
}

// gather reads, again while what it was read from is not complete here.
func (r *Replica) gather(ctx context.Context, q *wire.ReadRequest, resp *wire.ReadResponse, at readAt) (*view.Gather, error) {
	for {
		rd := r.store.NewPointReader()
		g := view.NewGather(&r.view, rd, q, at.ts, resp)
		g.Limit, g.Keep, g.Only, g.Drops = at.limit, at.keep, at.only, at.drops
		r.beginArrivals(&g.Arrivals)
		err := g.Run()
		rd.Close()
		if err != nil || len(g.Need) == 0 {
			return g, err
		}
		if err := r.waitVector(ctx, g.Need); err != nil {
			return nil, err
		}
		resp.Rows, resp.Foreign, resp.Resume, resp.ResumeSpan, resp.MaxTs = nil, nil, nil, 0, 0
	}
}

// ReadLocal reads whatever the owners are, from this replica at a timestamp at or below the closed
// timestamps of all groups of the shard (Set.Closed), or at least of those that owned the keys and
// gaps at that timestamp: no other group could have written there (HOME-8).
func (r *Replica) ReadLocal(ctx context.Context, q *wire.ReadRequest) (*wire.ReadResponse, error) {
	if err := evaluate.CheckSpans(r.id, q.Spans, r.cfg.MaxSpans); err != nil {
		return nil, err
	}
	ts := base.Timestamp(q.ReadTs)
	whole := ts <= r.set.Closed(r.shard) || view.ReadsCatalog(q.Spans) && ts <= r.set.CatalogClosed()
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
	g := view.NewGather(&r.view, rd, q, ts, resp)
	g.All, g.AsOf, g.Drops = true, !whole, kv.SieveOf(ctx)
	if err := g.Run(); err != nil {
		return nil, err
	}
	if r.set.Replica(r.id) != r || !r.set.Holds(r.shard) { // it may have been cleared meanwhile
		return nil, base.Errorf(base.CodeTooLate, "shard %d has just left node %d", r.shard, r.cfg.Self)
	}
	if g.Homes&^closed != 0 && !whole {
		return nil, r.incomplete(ts)
	}
	return resp, r.readWait(ctx, base.Timestamp(resp.MaxTs))
}

func (r *Replica) incomplete(ts base.Timestamp) error {
	return base.Errorf(base.CodeTooLate, "shard %d is complete up to %s at node %d, not %s", r.shard,
		r.set.Closed(r.shard), r.cfg.Self, ts)
}
