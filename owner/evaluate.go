package owner

import (
	"context"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/lock"
	"github.com/godwitdb/godwit/owner/evaluate"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/wire"
)

// lockWrites locks the writes exclusively.
func (e *evaluation) lockWrites(ctx context.Context) error {
	if len(e.q.Writes) == 0 {
		return nil
	}
	keys, err := evaluate.LockRuns(evaluate.WrittenSpans(e.q.Writes), e.r.cfg.Bulk.Together,
		func(s base.Span) (bool, error) { return e.r.tryLock(e.x, e.term, s) })
	if err == nil {
		_, err = e.r.lock(ctx, e.x, e.term, lock.Exclusive, keys...)
	}
	if err != nil {
		return err
	}
	patched := evaluate.PatchedSpans(e.q.Writes)
	if len(patched) == 0 {
		return nil
	}
	// It relies on what the rows are before slots ahead.
	return e.waitForSlots(ctx, patched)
}

// waitForSlots waits for slots that are due on what the attempt has read, and bounds it by those
// that lie ahead.
func (e *evaluation) waitForSlots(ctx context.Context, spans []base.Span) error {
	e.r.mu.Lock()
	defer e.r.mu.Unlock()
	_, err := e.r.underSlots(ctx, e.x, e.term, lock.Shared, spans)
	return err
}

// lookWrites evaluates the writes, and locks the gaps that they give away, until a view is newer
// than all locks that they need.
func (e *evaluation) lookWrites(ctx context.Context) error {
	for {
		e.arrivals = view.Arrivals{}
		e.r.beginArrivals(&e.arrivals)
		missing, again, err := e.lookOnce(ctx)
		if err != nil {
			return err
		}
		if again {
			continue
		}
		if len(missing.Gaps) == 0 && len(missing.Soft) == 0 || e.r.cfg.PointsOnly && len(e.q.Txn.Prepares) > 0 {
			return nil
		}
		if len(missing.Gaps) > 0 {
			if _, err := e.r.lock(ctx, e.x, e.term, lock.Exclusive, missing.Gaps...); err != nil {
				return err
			}
		}
		for w, gap := range missing.Soft {
			ok, err := e.r.tryLock(e.x, e.term, gap)
			if err != nil {
				return err
			}
			if !ok {
				w.Move = 0 // not worth a wait: another transaction works in the gap behind the row
			}
		}
	}
}

// lookReads locks and validates what a commit of one group has read without locks. It comes after
// the locks of the writes: while it waited for those, the rows might have changed.
func (e *evaluation) lookReads(ctx context.Context) error {
	if len(e.q.Reads) == 0 {
		return nil
	}
	spans := view.SpansOf(e.q.Reads)
	if _, err := e.r.lock(ctx, e.x, e.term, lock.Shared, spans...); err != nil {
		return err
	}
	// The locks of a slot are shared, too: one that lies ahead bounds this commit as it does any
	// reader's (REL-4).
	if err := e.waitForSlots(ctx, spans); err != nil {
		return err
	}
	return e.validate(ctx)
}

// lookOnce evaluates all writes on one view. again: the view was not complete here, and what was
// missing has arrived since.
func (e *evaluation) lookOnce(ctx context.Context) (missing evaluate.MissingLocks, again bool, err error) {
	e.r.mu.Lock()
	seen := e.x.Seen
	e.r.mu.Unlock()
	e.Findings, err = e.attempt.Look(seen, &e.arrivals)
	if len(e.Need) > 0 {
		err = e.r.waitVector(ctx, e.Need)
		return missing, true, err
	}
	if err == nil && len(e.Handover) > 0 {
		e.r.mu.Lock()
		missing = e.Missing(func(s base.Span) bool { return e.by.holds(e, s) })
		e.r.mu.Unlock()
	}
	return missing, false, err
}

// validate makes sure, under locks on all that the request says was read, that nothing of it has
// changed since. Parts that others own are foreign.
func (e *evaluation) validate(ctx context.Context) (err error) {
	e.Foreign, err = e.r.validate(ctx, &e.attempt)
	return err
}

// validate looks until the view is complete here.
func (r *Replica) validate(ctx context.Context, a *evaluate.Attempt) (foreign []*wire.Foreign, err error) {
	for {
		reads, err := a.Validate()
		if err != nil || len(reads.Need) == 0 {
			return reads.Foreign, err
		}
		if err := r.waitVector(ctx, reads.Need); err != nil {
			return nil, err
		}
	}
}

// count tells the policy of homes of a row that is written.
func (e *evaluation) count(w *wire.Write, p *view.Place) {
	e.moves += e.r.counter.Write(e.x, e.q, w, p)
}
