package owner

import (
	"context"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/lock"
	"github.com/godwitdb/godwit/wire"
)

// lockWait is one request waiting in the lock table.
type lockWait struct {
	done chan error // capacity 1
	in   *lock.Waiter
	sent bool
}

// finish ends the wait, once; mu is held.
func (w *lockWait) finish(err error) bool {
	if w.sent {
		return false
	}
	w.sent = true
	w.done <- err
	return true
}

// admit finds or registers the transaction of a request, which took locks here
// in lockTerm before (0: none). mu is held. It must be followed by leave.
func (r *Replica) admit(m *wire.TxnMeta, lockTerm uint64) (*txnState, error) {
	if m == nil {
		return nil, base.Errorf(base.CodeInvalid, "a request that locks must name its transaction")
	}
	id, ok := txnID(m.Id)
	if !ok || id.IsZero() {
		return nil, base.Errorf(base.CodeInvalid, "malformed transaction id %x", m.Id)
	}
	x := r.txns[id]
	switch {
	case lockTerm != 0 && (x == nil || lockTerm < x.born || lockTerm > r.lead.term):
		return nil, base.Errorf(base.CodeAborted, "the locks of transaction %v in group %v are lost: the leader changed, or nothing was heard of it for too long", id, r.id)
	case x != nil && x.phase != active:
		return nil, base.Errorf(base.CodeAborted, "transaction %v is %v in group %v already", id, x.phase, r.id)
	case x != nil:
		x.calls++
		x.last = time.Now()
		return x, nil
	}
	if _, ended := r.finished[id]; ended || r.dead(id) {
		return nil, base.Errorf(base.CodeAborted, "transaction %v has ended in group %v (or is older than %s)", id, r.id, RecordAge)
	}
	if len(r.txns) >= r.cfg.MaxTxns {
		return nil, base.Errorf(base.CodeOverloaded, "group %v: %d transactions are active; retry later", r.id, len(r.txns))
	}
	x = &txnState{id: id, born: r.lead.term, age: base.Timestamp(m.Age), policy: lock.Policy(m.Policy), timeout: time.Duration(m.LockTimeoutNs), calls: 1, last: time.Now()}
	if x.age == 0 {
		x.age = id.Start()
	}
	if x.timeout <= 0 {
		x.timeout = r.cfg.LockTimeout
	}
	r.txns[id] = x
	return x, nil
}

// leave ends a request of a transaction; mu is held.
func (r *Replica) leave(x *txnState) {
	x.calls--
	x.last = time.Now()
}

// current reports whether x is still registered in the term; mu is held.
func (r *Replica) current(x *txnState, term uint64) bool {
	return r.lead.term == term && r.txns[x.id] == x
}

// lost is the answer to a request of a transaction that is not registered any more, which began in a term. mu is held.
func (r *Replica) lost(x *txnState, term uint64) error {
	if err := r.elsewhere(term); err != nil {
		return err
	}
	return base.Errorf(base.CodeAborted, "transaction %v was aborted in group %v: the leader changed, or it was idle or refused", x.id, r.id)
}

// lock takes locks on all spans for x, waiting for each as its policy says. mu
// must not be held. The spans' memory belongs to the lock table from now on.
func (r *Replica) lock(ctx context.Context, x *txnState, term uint64, mode lock.Mode, spans ...base.Span) (waited bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range spans {
		if !r.current(x, term) {
			return waited, r.lost(x, term)
		}
		if err := r.elsewhere(term); err != nil {
			return waited, err
		}
		w := &lockWait{}
		out, lw, ev, err := r.locks.Acquire(lock.Request{Txn: x.id, Age: x.age, Span: s, Mode: mode, Policy: x.policy, Data: w})
		r.settle(ev)
		if err != nil {
			return waited, err
		}
		switch out {
		case lock.Died:
			r.stats.Died.Add(1)
			lost := base.Errorf(base.CodeAborted, "transaction %v met a lock of another one on %v: retry", x.id, s)
			lost.After = r.slotOver(x, s)
			return waited, lost
		case lock.Waiting:
			waited = true
			w.done, w.in = make(chan error, 1), lw
			x.waits = append(x.waits, w)
			if err := r.waitLock(ctx, x, w, lw, s); err != nil {
				return waited, err
			}
		}
	}
	return waited, nil
}

// waitLock waits for one lock; mu is held at entry and exit. Deadlocks within the table
// are the table's; those over several tables of this node are looked for here by
// whoever waits. Those over several nodes end because the time is bounded that one waits for an older one.
func (r *Replica) waitLock(ctx context.Context, x *txnState, w *lockWait, lw *lock.Waiter, s base.Span) error {
	table := r.locks
	r.stats.LockWaits.Add(1)
	r.queued.Add(1)
	start := time.Now()
	var young time.Time // since when it has waited for an older one
	pause := detectFirst
	timer := time.NewTimer(min(pause, x.timeout))
	var err error
	for waits := true; waits; {
		r.mu.Unlock()
		select {
		case err = <-w.done:
			waits = false
		case <-ctx.Done():
			err, waits = canceled(ctx), false
		case <-timer.C:
		}
		if waits {
			r.set.breakDeadlock(x)
		}
		r.mu.Lock()
		if !waits || w.sent {
			continue // if it was sent, the next round receives it
		}
		now := time.Now()
		older, ending := table.Older(lw)
		bound := r.cfg.DeadlockTimeout
		switch {
		case x.voting && older:
			bound = max(bound, votingWait)
		case ending:
			bound = max(bound, endingWait)
		}
		switch {
		case !older:
			young = time.Time{}
		case young.IsZero():
			young = now
		}
		switch waited := now.Sub(start); {
		case waited >= x.timeout:
			err, waits = base.Errorf(base.CodeLockTimeout, "transaction %v waited %s for a lock on %v", x.id, x.timeout, s), false
			r.stats.LockTimeouts.Add(1)
		case older && now.Sub(young) >= bound && (x.policy == lock.WaitDie || !r.cfg.Alone()), x.voting && waited >= max(r.cfg.DeadlockTimeout, votingLast):
			err, waits = base.Errorf(base.CodeAborted, "transaction %v waited %s for a lock on %v, which may be a deadlock over several nodes: retry", x.id, waited, s), false
			r.stats.LockTimeouts.Add(1)
		default:
			pause = min(2*pause, detectLast)
			timer.Reset(min(pause, x.timeout-waited))
		}
	}
	timer.Stop()
	r.queued.Add(-1)
	r.stats.LockWaitNanos.Add(int64(time.Since(start)))
	if !w.sent {
		w.sent = true
		if table == r.locks {
			r.settle(table.Cancel(lw))
		}
	}
	if i := slices.Index(x.waits, w); i >= 0 {
		x.waits = slices.Delete(x.waits, i, i+1)
	}
	return err
}

// settle tells waiting requests what became of them; mu is held.
func (r *Replica) settle(ev lock.Events) {
	for _, w := range ev.Granted {
		if lw, ok := w.Data.(*lockWait); ok {
			lw.finish(nil)
		}
	}
	for _, w := range ev.Died {
		r.stats.Died.Add(1)
		if lw, ok := w.Data.(*lockWait); ok {
			lw.finish(base.Errorf(base.CodeAborted, "transaction %v gave way to an older one, to end a deadlock: retry", w.Txn()))
		}
	}
}

// release ends a transaction here: its locks are free and its requests fail.
// remember keeps late requests of it out. mu is held.
func (r *Replica) release(x *txnState, remember bool) {
	if r.txns[x.id] != x {
		return
	}
	if remember && len(r.finished) < maxFinished {
		r.finished[x.id] = r.clock.Latest()
	}
	x.aborted = x.aborted || x.phase == active
	if r.order != nil && !x.ordered && r.lead.leaseEnd != 0 {
		// It may have read under locks: whatever comes now lies above that.
		r.lead.floor = max(r.lead.floor, min(r.clock.Latest(), r.lead.leaseEnd.Prev()))
	}
	delete(r.txns, x.id)
	delete(r.pending, x)
	delete(r.slots, x)
	ev := r.locks.Release(x.id)
	for _, w := range x.waits {
		w.finish(r.lost(x, r.lead.term))
	}
	x.waits = nil
	r.end(x)
	r.settle(ev)
	if r.waiting > 0 {
		r.wake()
	}
}

// end wakes those who wait for x to end here; mu is held.
func (r *Replica) end(x *txnState) {
	if !x.ended {
		x.ended = true
		if x.gone != nil {
			close(x.gone)
		}
	}
}

// undecided finds a transaction that may commit at or below ts within spans
// and was proposed or prepared already; mu is held.
func (r *Replica) undecided(spans []base.Span, ts base.Timestamp) *txnState {
	for x := range r.pending {
		if x.ts > ts {
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

// older reports whether x has the higher priority.
func (x *txnState) older(y *txnState) bool { return ranked{x.id, x.age}.older(ranked{y.id, y.age}) }

func (x *txnState) sortKeys() {
	slices.SortFunc(x.keys, func(a, b base.Key) int { return a.Compare(b) })
}

// writesIn reports whether x writes a key in the span or hands over a gap that overlaps it.
func (x *txnState) writesIn(s base.Span) bool {
	i, found := slices.BinarySearchFunc(x.keys, s.Start, func(a, b base.Key) int { return a.Compare(b) })
	if found || !s.IsPoint() && i < len(x.keys) && x.keys[i].Compare(s.End) < 0 {
		return true
	}
	for _, h := range x.handover {
		if h.Overlaps(s) {
			return true
		}
	}
	return false
}

// awaitEnd waits until x has ended here; mu is held at entry and exit.
func (r *Replica) awaitEnd(ctx context.Context, x *txnState) error {
	if h := r.helps(); h != nil {
		return h.err
	}
	if r.waiting >= r.cfg.MaxWaiting {
		return base.Errorf(base.CodeOverloaded, "group %v: %d requests wait already; retry later", r.id, r.waiting)
	}
	if x.gone == nil {
		x.gone = make(chan struct{})
		if x.ended {
			close(x.gone)
		}
	}
	ch := x.gone
	r.waiting++
	r.stats.UndecidedWaits.Add(1)
	r.mu.Unlock()
	timer := time.NewTimer(r.cfg.LockTimeout)
	var err error
	select {
	case <-ch:
	case <-timer.C:
		err = base.Errorf(base.CodeUnavailable, "the outcome of transaction %v is not known yet: are its participants reachable?", x.id)
	case <-ctx.Done():
		err = canceled(ctx)
	}
	timer.Stop()
	r.mu.Lock()
	r.waiting--
	if h := r.helps(); h != nil {
		return h.err
	}
	return err
}
