package owner

import (
	"context"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/lock"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/owner/waits"
	"github.com/godwitdb/godwit/wire"
)

// byTime commits by timestamp ordering (docs/protocol.md, ORD). Locks are held only while the
// attempt lasts. The owner chooses the smallest timestamp above all that others have read of what
// is written, shows readers that a commit is under way at it, and validates the reads up to it.
type byTime struct{}

func (byTime) check(r *Replica, _ *wire.CommitRequest) error {
	if !r.byTime() {
		return base.Errorf(base.CodeInvalid, "group %v does not order by timestamps", r.id)
	}
	return nil
}

func (byTime) leased(*wire.CommitRequest) bool { return true }
func (byTime) mustBegin() bool                 { return false }

// A view says above which version the timestamp has to lie.
func (byTime) blind() bool { return false }

func (byTime) holds(e *evaluation, s base.Span) bool {
	return e.r.LockTable.Holds(e.x.ID, s, lock.Exclusive)
}

func (byTime) lock(ctx context.Context, e *evaluation) error { return e.lockWrites(ctx) }

// Reads are validated once the timestamp is known.
func (byTime) look(ctx context.Context, e *evaluation) error {
	if len(e.q.Writes) == 0 {
		return nil
	}
	if err := e.lookWrites(ctx); err != nil {
		return err
	}
	return e.r.awaitArrivals(ctx, &e.arrivals)
}

// choose reserves a timestamp, and then makes sure that what was read has not changed up to it.
func (byTime) choose(ctx context.Context, e *evaluation) error {
	if err := e.reserve(ctx); err != nil {
		return err
	}
	if e.ts <= base.Timestamp(e.q.Snapshot) || len(e.q.Reads) == 0 {
		return nil
	}
	wait, cancel := context.WithTimeout(ctx, waits.Ending)
	e.r.mu.Lock()
	err := e.r.awaitBelow(wait, e.x, view.SpansOf(e.q.Reads), e.ts)
	e.r.mu.Unlock()
	cancel()
	if err != nil {
		return err
	}
	return e.validate(ctx)
}

// reserve chooses the timestamp of a commit and shows its writes to readers as being under way at
// it. A timestamp that lies far ahead of the clock is waited for: the clock may be set, or be told
// the time, meanwhile.
func (e *evaluation) reserve(ctx context.Context) error {
	patience, cancel := context.WithTimeout(ctx, e.r.cfg.EnterTimeout)
	defer cancel()
	for {
		ts, ahead, err := e.tryReserve()
		if err != nil || ahead == 0 {
			return err
		}
		select {
		case <-time.After(min(ahead-mostAhead/2, mostAhead)):
		case <-patience.Done():
			if ctx.Err() != nil {
				return canceled(ctx)
			}
			if err := e.r.clock.Within(ts, mostAhead); err != nil {
				return base.Errorf(base.CodeUnavailable, "group %v: transaction %v would commit at %s: %v", e.r.id,
					e.x.ID, ts, err)
			}
		}
	}
}

// tryReserve reserves the smallest timestamp that will do, unless it lies too far ahead of the
// clock: then ahead says by how much.
func (e *evaluation) tryReserve() (ts base.Timestamp, ahead time.Duration, err error) {
	r, q := e.r, e.q
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.current(e.x, e.term) {
		return 0, 0, r.lost(e.x, e.term)
	}
	ts = e.smallest()
	if slot := base.Timestamp(q.Slot); slot != 0 {
		if e.least = ts; ts > slot {
			return ts, 0, base.Errorf(base.CodeTooLate, "group %v: transaction %v cannot commit at %s, but at %s",
				r.id, e.x.ID, slot, ts)
		}
		ts = slot
	}
	d := ts.Sub(r.clock.Latest())
	if !below(ts, base.Timestamp(q.MaxTs)) || ts >= r.lead.LeaseEnd && d <= mostAhead {
		e.least = ts
		return ts, 0, base.Errorf(base.CodeTooLate, "group %v: transaction %v would commit at %s, %s ahead of the "+
			"clock; its bound is %s, the lease ends at %s", r.id, e.x.ID, ts, d, base.Timestamp(q.MaxTs), r.lead.LeaseEnd)
	}
	if d > mostAhead {
		return ts, d, nil
	}
	e.ts, e.hi = ts, ts.Next()
	e.announce()
	e.x.Early = true
	r.Pending[e.x] = struct{}{}
	e.markReads()
	_ = r.clock.Observe(ts)
	return ts, 0, nil
}

// markReads keeps later writes above what the transaction has read up to its timestamp. mu is held.
func (e *evaluation) markReads() {
	if e.ts > base.Timestamp(e.q.Snapshot) {
		e.r.order.Add(view.SpansOf(e.q.Reads), e.ts, e.x.ID)
	}
	if len(e.Writes) < len(e.q.Writes) { // deletes of absent keys: they must stay absent up to ts
		for _, w := range e.q.Writes {
			e.r.order.Add([]base.Span{{Start: w.Key}}, e.ts, e.x.ID)
		}
	}
}

// smallest is the smallest timestamp at which the transaction can commit: above what it has read,
// what is closed, the newest versions of what it writes, and what others have read of it. mu is
// held.
func (e *evaluation) smallest() base.Timestamp {
	r := e.r
	ts := max(base.Timestamp(e.q.Snapshot), r.lead.Floor.Next(), r.lead.Announced.Next(),
		base.Timestamp(r.collected.Load()).Next())
	if e.Since != 0 {
		ts = max(ts, e.Since.Next())
	}
	for _, w := range e.q.Writes {
		ts = max(ts, r.order.Read(base.Span{Start: w.Key}, e.x.ID).Next())
	}
	for _, s := range e.Handover {
		ts = max(ts, r.order.Read(s, e.x.ID).Next())
	}
	return ts
}

// assign does nothing: the timestamp is reserved.
func (byTime) assign(*evaluation) error { return nil }

func (byTime) entry(e *evaluation) *wire.Command {
	r, x := e.r, e.x
	x.Early = false
	if e.q.Prepare {
		x.Phase = txns.Preparing
		cmd := r.command(0)
		cmd.Prepare = e.vote()
		cmd.Prepare.Ordered = true
		return cmd
	}
	x.Phase = txns.Committing
	cmd := r.command(e.ts)
	cmd.Commit = e.logged()
	return cmd
}

func (byTime) handed(e *evaluation) {
	if e.r.cfg.Concurrency == base.ByTimestampRelay {
		e.noted = e.r.noteEnd(e.ts)
	}
}

func (byTime) overcome(_ context.Context, _ *evaluation, err error) error { return err }

func (byTime) voted(ctx context.Context, e *evaluation, _ *wire.CommitResponse) error {
	return e.awaitNoted(ctx)
}

func (byTime) committed(ctx context.Context, e *evaluation) error {
	e.r.mu.Lock()
	e.r.release(e.x, false)
	e.r.mu.Unlock()
	return e.awaitNoted(ctx)
}

// A vote is tried again under another name. A commit that has found nothing wrong but its timestamp
// or its group is tried again under the same one.
func (byTime) keeps(e *evaluation, code base.Code) bool {
	return !e.q.Prepare && !e.x.Early && (code == base.CodeTooLate || code == base.CodeWrongOwner)
}
