package owner

import (
	"context"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/lock"
	"github.com/godwitdb/godwit/owner/evaluate"
	"github.com/godwitdb/godwit/owner/gauge"
	"github.com/godwitdb/godwit/owner/state"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/wire"
)

// Timestamp ordering (docs/protocol.md, ORD): transactions read and write at timestamps chosen by
// their coordinators, and locks are held only by writes being committed. The owner remembers what
// was read up to when (package tscache), and moves writes above it.

// mostAhead is how far above its clock an owner lets a transaction commit at once; else it waits,
// so that nothing is acknowledged that readers would take for the future.
const mostAhead = 100 * time.Millisecond

// TimestampManager is the group whose leader is the timestamp manager of a region.
func TimestampManager(r base.RegionID) base.GroupID { return base.DataGroup(1, r) }

// byTime reports whether the group orders by timestamps. The meta group always locks.
func (r *Replica) byTime() bool { return r.cfg.Concurrency.Ordered() && r.shard != base.MetaShard }

// awaitBelow waits until nothing is under way at or below ts within spans, but x itself. The reads
// of x were marked at ts, so nothing can be added there. A wait is for smaller timestamps only, so
// that no two wait for each other. mu is held.
func (r *Replica) awaitBelow(ctx context.Context, x *txns.Txn, spans []base.Span, ts base.Timestamp) error {
	for {
		y := r.AtOrBelow(x, spans, ts)
		switch {
		case y == nil:
			return nil
		case y.TS == ts && x != nil:
			return base.Errorf(base.CodeAborted, "transaction %v and %v have the same timestamp: retry", x.ID, y.ID)
		}
		if err := r.awaitEnd(ctx, y); err != nil {
			return base.Errorf(base.CodeAborted, "a transaction read what %v is changing: retry (%v)", y.ID, err)
		}
	}
}

// readOrdered reads at a timestamp. What is written there later comes above it.
func (r *Replica) readOrdered(ctx context.Context, q *wire.ReadRequest, resp *wire.ReadResponse) error {
	ts := base.Timestamp(q.ReadTs)
	if err := r.checkSnapshot(ts); err != nil {
		return err
	}
	if q.Lock != 0 {
		if err := r.lockAhead(ctx, q, view.SpansOf(q.Spans)); err != nil {
			return err
		}
	}
	limit, err := r.enterAt(ctx, q, resp)
	if err != nil {
		return err
	}
	if q.Refresh != 0 {
		return r.refresh(ctx, q, resp)
	}
	g, err := r.gather(ctx, q, resp, readAt{ts: ts, limit: limit})
	if err != nil {
		return err
	}
	if err := r.stillHere(); err != nil {
		return err
	}
	resp.Newer = uint64(g.Newer)
	kind := gauge.ReadService
	if q.LimitTs != 0 { // the reader may write at the same timestamp
		kind = gauge.OrderService
	}
	r.served(kind, resp.Term, ts, g.Own)
	if view.AllPoints(q.Spans) {
		r.counter.Read(nil, false, q, resp, base.RegionID(q.Region))
	}
	return r.awaitArrivals(ctx, &g.Arrivals)
}

// enterAt marks what is read at a timestamp, so that it is written above it only, and waits for
// what is under way at or below it. limit is the timestamp up to which versions that this group
// made may have been acknowledged before the reader began.
func (r *Replica) enterAt(ctx context.Context, q *wire.ReadRequest, resp *wire.ReadResponse) (limit base.Timestamp, err error) {
	ts := base.Timestamp(q.ReadTs)
	by, _ := state.TxnID(q.Reader)
	spans := view.SpansOf(q.Spans)
	for {
		if err := r.enter(ctx, true, ts); err != nil {
			return 0, err
		}
		resp.Term = r.lead.Term
		if ts > r.lead.Announced {
			r.order.Add(spans, ts, by)
		}
		if limit == 0 {
			if limit = ts; r.cfg.Concurrency != base.ByTimestampRelay {
				limit = max(ts, min(base.Timestamp(q.LimitTs), max(r.clock.Latest(), r.clock.Seen(), r.lead.Floor)))
			}
		}
		x := r.AtOrBelow(nil, spans, ts)
		if x == nil && limit > ts {
			x = r.Uncertain(spans, ts, limit)
		}
		if x == nil {
			r.mu.Unlock()
			return limit, nil
		}
		err := r.awaitEnd(ctx, x)
		r.mu.Unlock()
		if err != nil {
			return 0, err
		}
	}
}

// refresh says whether what was read at an older timestamp is unchanged at the one of the request.
func (r *Replica) refresh(ctx context.Context, q *wire.ReadRequest, resp *wire.ReadResponse) error {
	a := evaluate.Attempt{Group: &r.view, Request: &wire.CommitRequest{Txn: &wire.TxnMeta{Id: q.Reader},
		Reads: q.Spans, Snapshot: q.Refresh}}
	foreign, err := r.validate(ctx, &a)
	if base.CodeOf(err) != base.CodeWrongOwner {
		return err
	}
	resp.Foreign = foreign
	return nil
}

// lockAhead locks what the reader is going to write, or shall not change, so that it need not be
// tried again for what others write meanwhile. Nothing rests on these locks: a new leader does not
// know them.
func (r *Replica) lockAhead(ctx context.Context, q *wire.ReadRequest, spans []base.Span) error {
	if err := r.enter(ctx, true, 0); err != nil {
		return err
	}
	term := r.lead.Term
	x, err := r.admit(q.Txn, 0)
	if err == nil {
		x.Ordered = true
	}
	r.mu.Unlock()
	if err != nil {
		return err
	}
	mode := lock.Exclusive
	if kv.LockMode(q.Lock) == kv.LockShared {
		mode = lock.Shared
	}
	_, err = r.lock(ctx, x, term, mode, spans...)
	if base.CodeOf(err) == base.CodeAborted {
		r.abort(x)
	}
	r.mu.Lock()
	r.leave(x)
	r.mu.Unlock()
	return err
}

// Order serves the timestamp manager of a region: it answers with the largest timestamp at which a
// transaction was said to have ended, before the asker began, and takes note of another one. A
// manager that has just taken over goes by the ends of all leases before its own, below which its
// predecessors took note.
func (r *Replica) Order(ctx context.Context, q *wire.OrderRequest) *wire.OrderResponse {
	resp := &wire.OrderResponse{}
	ts := base.Timestamp(q.Ts)
	if err := r.clock.Within(ts, maxAhead); err != nil {
		resp.Status = statusOf(err)
		return resp
	}
	if err := r.enter(ctx, true, ts); err != nil {
		resp.Status = statusOf(err)
		return resp
	}
	resp.Finished = uint64(r.lead.Ends.Before(base.Timestamp(q.Began)))
	r.lead.Ends.Add(ts, r.certainly())
	r.mu.Unlock()
	r.stats.Orders.Add(1)
	resp.Now = uint64(r.clock.Latest())
	return resp
}

// certainly is a timestamp that true time has passed; 0 if the clock cannot tell.
func (r *Replica) certainly() base.Timestamp {
	if m, _ := r.clock.Mode(); m != clock.GClock || r.clock.Virtual() {
		return 0
	}
	return r.clock.Earliest()
}

// noteEnd notes a commit with the region's timestamp manager while it is being replicated.
func (r *Replica) noteEnd(ts base.Timestamp) chan error {
	done := make(chan error, 1)
	q := &wire.OrderRequest{Group: uint32(TimestampManager(r.region)), Ts: uint64(ts)}
	if m := r.set.Replica(base.GroupID(q.Group)); m != nil {
		m.mu.Lock()
		if m.ready(true, ts) {
			m.lead.Ends.Add(ts, m.certainly())
			m.mu.Unlock()
			m.stats.Orders.Add(1)
			done <- nil
			return done
		}
		m.mu.Unlock()
	}
	go func() {
		ctx, cancel := r.life()
		defer cancel()
		ctx, stop := context.WithTimeout(ctx, 2*r.cfg.EnterTimeout)
		defer stop()
		resp, err := r.set.router.Order(ctx, q)
		if err == nil {
			err = ErrorOf(resp.Status)
		}
		done <- err
	}()
	return done
}

// awaitNoted waits until the region's timestamp manager knows of the commit.
func (e *evaluation) awaitNoted(ctx context.Context) error {
	if e.noted == nil {
		return nil
	}
	var err error
	select {
	case err = <-e.noted:
	case <-ctx.Done():
		err = canceled(ctx)
	}
	if err != nil {
		return base.Errorf(base.CodeAmbiguous, "a transaction is logged at %s in group %v, "+
			"but the timestamp manager of region %d does not know yet: %v", e.ts, e.r.id, e.r.region, err)
	}
	return nil
}
