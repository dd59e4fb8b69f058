package owner

import (
	"context"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/clock"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/lock"
	"github.com/godwitdb/godwit/store"
	"github.com/godwitdb/godwit/wire"
)

// Timestamp ordering (docs/protocol.md T): transactions read and write at timestamps chosen by their coordinators, and locks
// are held only by writes being committed. The owner remembers what was read up to when (tsCache), and moves writes above it.

// mostAhead is how far above its clock an owner lets a transaction commit at once; else it waits, so that nothing is
// acknowledged that readers would take for the future.
const mostAhead = 100 * time.Millisecond

// TimestampManager is the group whose leader is the timestamp manager of a region.
func TimestampManager(r base.RegionID) base.GroupID { return base.DataGroup(1, r) }

// byTime reports whether the group orders by timestamps. The meta group always locks.
func (r *Replica) byTime() bool { return r.cfg.Concurrency.Ordered() && r.shard != base.MetaShard }

// proposeOrdered evaluates and proposes a commit or a vote.
func (r *Replica) proposeOrdered(ctx context.Context, x *txnState, term uint64, e *evaluation) (chan proposed, error) {
	if err := e.run(ctx, x, term); err != nil {
		return nil, err
	}
	if err := r.reserve(ctx, x, term, e); err != nil {
		return nil, err
	}
	q := e.q
	if e.ts > base.Timestamp(q.Snapshot) && len(q.Reads) > 0 {
		wait, cancel := context.WithTimeout(ctx, endingWait)
		r.mu.Lock()
		err := r.awaitBelow(wait, x, spansOf(q.Reads), e.ts)
		r.mu.Unlock()
		cancel()
		if err != nil {
			return nil, err
		}
		if err := e.validate(ctx); err != nil {
			return nil, err
		}
	}
	r.propMu.Lock()
	defer r.propMu.Unlock()
	r.mu.Lock()
	if !r.current(x, term) {
		defer r.mu.Unlock()
		return nil, r.lost(x, term)
	}
	if !r.lead.serving {
		defer r.mu.Unlock()
		return nil, r.notLeader()
	}
	x.early = false
	var cmd *wire.Command
	if q.Prepare {
		x.phase = preparing
		cmd = r.command(0)
		cmd.Prepare = &wire.Vote{Txn: x.id[:], Lo: uint64(e.ts), Hi: uint64(e.hi), Participants: q.Participants,
			Writes: e.writes, GatewayRegion: q.Txn.GatewayRegion, Depends: q.MinTs, Ordered: true}
	} else {
		x.phase = committing
		cmd = r.command(e.ts)
		cmd.Commit = &wire.TxnCommit{Txn: x.id[:], Writes: e.writes}
	}
	leased := r.addLease(cmd)
	e.proposed = time.Now()
	r.mu.Unlock()
	done := r.enqueue(cmd, term, leased)
	if r.cfg.Concurrency == base.ByTimestampRelay {
		e.told = r.tellEnd(e.ts)
	}
	return done, nil
}

// reserve chooses the timestamp of a commit and shows its writes to readers as being under way at it.
func (r *Replica) reserve(ctx context.Context, x *txnState, term uint64, e *evaluation) error {
	q := e.q
	patience, cancel := context.WithTimeout(ctx, r.cfg.EnterTimeout)
	defer cancel()
	for {
		r.mu.Lock()
		if !r.current(x, term) {
			defer r.mu.Unlock()
			return r.lost(x, term)
		}
		ts := r.least(x, e)
		if q.Slot != 0 {
			if e.least = ts; ts > base.Timestamp(q.Slot) {
				r.mu.Unlock()
				return base.Errorf(base.CodeTooLate, "group %v: transaction %v cannot commit at %s, but at %s", r.id, x.id, base.Timestamp(q.Slot), ts)
			}
			ts = base.Timestamp(q.Slot)
		}
		d := ts.Sub(r.clock.Latest())
		if q.MaxTs != 0 && ts >= base.Timestamp(q.MaxTs) || ts >= r.lead.leaseEnd && d <= mostAhead {
			e.least = ts
			end := r.lead.leaseEnd
			r.mu.Unlock()
			return base.Errorf(base.CodeTooLate, "group %v: transaction %v would commit at %s, %s ahead of the clock; its bound is %s, the lease ends at %s", r.id, x.id, ts, d, base.Timestamp(q.MaxTs), end)
		}
		if d > mostAhead {
			r.mu.Unlock()
			select {
			case <-time.After(min(d-mostAhead/2, mostAhead)): // it may be set, or be told the time, meanwhile
			case <-patience.Done():
				if ctx.Err() != nil {
					return canceled(ctx)
				}
				if err := r.clock.Within(ts, mostAhead); err != nil {
					return base.Errorf(base.CodeUnavailable, "group %v: transaction %v would commit at %s: %v", r.id, x.id, ts, err)
				}
			}
			continue
		}
		e.ts, e.hi = ts, ts.Next()
		x.ts, x.hi, x.handover, x.early = e.ts, e.hi, e.handover, true
		x.keys = make([]base.Key, len(e.writes))
		for i, w := range e.writes {
			x.keys[i] = w.Key
		}
		r.locks.Ending(x.id, true)
		r.pending[x] = struct{}{}
		if ts > base.Timestamp(q.Snapshot) {
			r.order.add(spansOf(q.Reads), ts, x.id)
		}
		if len(e.writes) < len(q.Writes) { // deletes of absent keys: they must stay absent up to ts
			for _, w := range q.Writes {
				r.order.add([]base.Span{{Start: w.Key}}, ts, x.id)
			}
		}
		r.mu.Unlock()
		_ = r.clock.Observe(ts)
		return nil
	}
}

// least is the smallest timestamp at which x can commit: above what it has read, what is closed, the newest versions of what it
// writes, and what others have read of it. mu is held.
func (r *Replica) least(x *txnState, e *evaluation) base.Timestamp {
	ts := max(base.Timestamp(e.q.Snapshot), r.lead.floor.Next(), r.lead.told.Next(), base.Timestamp(r.collected.Load()).Next())
	if e.since != 0 {
		ts = max(ts, e.since.Next())
	}
	for _, w := range e.q.Writes {
		ts = max(ts, r.order.read(base.Span{Start: w.Key}, x.id).Next())
	}
	for _, s := range e.handover {
		ts = max(ts, r.order.read(s, x.id).Next())
	}
	return ts
}

// awaitBelow waits until nothing is under way at or below ts within spans, but x itself. The reads of x were marked at ts, so
// nothing comes after it. Who waits so waits for smaller timestamps only. mu is held.
func (r *Replica) awaitBelow(ctx context.Context, x *txnState, spans []base.Span, ts base.Timestamp) error {
	for {
		var found *txnState
		for y := range r.pending {
			if y == x || y.ts > ts {
				continue
			}
			for _, s := range spans {
				if y.writesIn(s) {
					found = y
					break
				}
			}
			if found != nil {
				break
			}
		}
		switch {
		case found == nil:
			return nil
		case found.ts == ts && x != nil:
			return base.Errorf(base.CodeAborted, "transaction %v and %v have the same timestamp: retry", x.id, found.id)
		}
		if err := r.awaitEnd(ctx, found); err != nil {
			return base.Errorf(base.CodeAborted, "a transaction read what %v is changing: retry (%v)", found.id, err)
		}
	}
}

// readOrdered reads at a timestamp. What is written there later comes above it.
func (r *Replica) readOrdered(ctx context.Context, q *wire.ReadRequest, resp *wire.ReadResponse) error {
	ts := base.Timestamp(q.ReadTs)
	if err := r.checkSnapshot(ts); err != nil {
		return err
	}
	by, _ := txnID(q.Reader)
	spans := spansOf(q.Spans)
	if q.Lock != 0 {
		if err := r.lockAhead(ctx, q, spansOf(q.Spans)); err != nil {
			return err
		}
	}
	limit := base.Timestamp(0) // versions up to it that this group made may have been acknowledged before the reader began
	for {
		if err := r.enter(ctx, true, ts); err != nil {
			return err
		}
		resp.Term = r.lead.term
		if ts > r.lead.told {
			r.order.add(spans, ts, by)
		}
		if limit == 0 {
			if limit = ts; r.cfg.Concurrency != base.ByTimestampRelay {
				limit = max(ts, min(base.Timestamp(q.LimitTs), max(r.clock.Latest(), r.clock.Seen(), r.lead.floor)))
			}
		}
		x := r.undecided(spans, ts)
		if x == nil && limit > ts {
			x = r.uncertain(spans, ts, limit)
		}
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
	if q.Refresh != 0 {
		e := evaluation{r: r, q: &wire.CommitRequest{Txn: &wire.TxnMeta{Id: q.Reader}, Reads: q.Spans, Snapshot: q.Refresh}}
		if err := e.validate(ctx); base.CodeOf(err) != base.CodeWrongOwner {
			return err
		}
		resp.Foreign = e.foreign
		return nil
	}
	g, err := r.gather(ctx, resp, func(rd *store.Reader) *gather {
		g := r.newGather(rd, q, ts, resp)
		g.limit = limit
		return g
	})
	if err != nil {
		return err
	}
	if r.set.Replica(r.id) != r {
		return base.Errorf(base.CodeNotLeader, "node %d has no replica of group %v any more", r.cfg.Self, r.id)
	}
	resp.Newer = uint64(g.newer)
	kind := ReadService
	if q.LimitTs != 0 { // the reader may write at the same timestamp
		kind = OrderService
	}
	r.served(kind, resp.Term, ts, g.own)
	if allPoints(q.Spans) {
		r.count(nil, q, resp, base.RegionID(q.Region), lock.Shared)
	}
	return g.came.settled(ctx, r)
}

// lockAhead locks what the reader is going to write, or shall not change, so that it need not be tried again for what others write
// meanwhile. Nothing rests on these locks: a new leader does not know them.
func (r *Replica) lockAhead(ctx context.Context, q *wire.ReadRequest, spans []base.Span) error {
	if err := r.enter(ctx, true, 0); err != nil {
		return err
	}
	term := r.lead.term
	x, err := r.admit(q.Txn, 0)
	if err == nil {
		x.ordered = true
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

// uncertain finds a transaction that has voted for a timestamp in (ts, limit] and writes within spans: it may have committed, and
// its client may know. One that commits in this group alone has not been acknowledged yet. mu is held.
func (r *Replica) uncertain(spans []base.Span, ts, limit base.Timestamp) *txnState {
	for x := range r.pending {
		if x.ts <= ts || x.ts > limit || x.phase < preparing {
			continue
		}
		for _, s := range spans {
			if x.writesIn(s) {
				return x
			}
		}
	}
	return nil
}

// doubt notes versions of a key above the timestamp of a read that may have been acknowledged before the reader began; v is the newest.
func (g *gather) doubt(key base.Key, v store.Version) error {
	if g.q.LimitTs == 0 || g.all {
		return nil
	}
	for v.TS > g.ts {
		limit := g.limit
		if v.Writer.Region != g.r.region { // the row was elsewhere: what this group knows does not bound it
			limit = base.Timestamp(g.q.LimitTs)
		}
		if g.q.Lock != 0 { // it stays the newest one, and the reader may write the next
			g.newer = max(g.newer, v.TS.Next())
			return nil
		}
		if v.TS <= limit {
			g.newer = max(g.newer, v.TS)
			return nil
		}
		var ok bool
		var err error
		if v, ok, err = g.rd.Get(key, v.TS.Prev()); err != nil || !ok {
			return err
		}
	}
	return nil
}

// Order serves the timestamp manager of a region: it answers with the largest timestamp at which a transaction was said to have
// ended, before the asker began, and takes note of another one. A manager that has just taken over goes by the ends of all leases before its own, below
// which its predecessors took note.
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
	resp.Finished = uint64(r.lead.ends.before(base.Timestamp(q.Began)))
	r.lead.ends.add(ts, r.certainly())
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

// ends are the largest timestamps at which transactions have ended, by when that was told.
type ends struct {
	low  base.Timestamp // of all that is not in marks
	list []endMark      // both growing
}

type endMark struct{ told, ts base.Timestamp }

const (
	maxEnds  = 4096
	endGrain = 200 * time.Microsecond
)

func (e *ends) newest() base.Timestamp {
	if n := len(e.list); n > 0 {
		return e.list[n-1].ts
	}
	return e.low
}

// add notes an end that is being told when true time has certainly passed told.
func (e *ends) add(ts, told base.Timestamp) {
	if ts <= e.newest() {
		return
	}
	n := len(e.list)
	switch {
	case n > 0 && told.Sub(e.list[n-1].told) < endGrain:
		e.list[n-1].ts = ts // as if it had been told a little earlier
		return
	case n == maxEnds:
		e.low = e.list[n/2-1].ts
		e.list = append(e.list[:0], e.list[n/2:]...)
	}
	e.list = append(e.list, endMark{told, ts})
}

// before is the largest end, but for those told certainly after began; 0 is never.
func (e *ends) before(began base.Timestamp) base.Timestamp {
	if began == 0 {
		return e.newest()
	}
	i, _ := slices.BinarySearchFunc(e.list, began, func(m endMark, at base.Timestamp) int {
		if m.told <= at {
			return -1
		}
		return 1
	})
	if i == 0 {
		return e.low
	}
	return e.list[i-1].ts
}

// tellEnd tells the region's timestamp manager of a commit, while it is being replicated.
func (r *Replica) tellEnd(ts base.Timestamp) chan error {
	done := make(chan error, 1)
	q := &wire.OrderRequest{Group: uint32(TimestampManager(r.region)), Ts: uint64(ts)}
	if m := r.set.Replica(base.GroupID(q.Group)); m != nil {
		m.mu.Lock()
		if m.ready(true, ts) {
			m.lead.ends.add(ts, m.certainly())
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

// awaitTold waits until the region's timestamp manager knows of the commit.
func (e *evaluation) awaitTold(ctx context.Context) error {
	if e.told == nil {
		return nil
	}
	var err error
	select {
	case err = <-e.told:
	case <-ctx.Done():
		err = canceled(ctx)
	}
	if err != nil {
		return base.Errorf(base.CodeAmbiguous, "a transaction is logged at %s in group %v, but the timestamp manager of region %d does not know yet: %v", e.ts, e.r.id, e.r.region, err)
	}
	return nil
}
