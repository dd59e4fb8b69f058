package owner

import (
	"context"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/lock"
	"github.com/godwitdb/godwit/owner/state"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/owner/waits"
	"github.com/godwitdb/godwit/wire"
)

// admit finds or registers the transaction of a request, which took locks here
// in lockTerm before (0: none). mu is held. It must be followed by leave.
func (r *Replica) admit(m *wire.TxnMeta, lockTerm uint64) (*txns.Txn, error) {
	if m == nil {
		return nil, base.Errorf(base.CodeInvalid, "a request that locks must name its transaction")
	}
	id, ok := state.TxnID(m.Id)
	if !ok || id.IsZero() {
		return nil, base.Errorf(base.CodeInvalid, "malformed transaction id %x", m.Id)
	}
	x := r.ByID[id]
	switch {
	case lockTerm != 0 && (x == nil || lockTerm < x.Born || lockTerm > r.lead.Term):
		return nil, base.Errorf(base.CodeAborted, "the locks of transaction %v in group %v are lost: "+
			"the leader changed, or nothing was heard of it for too long", id, r.id)
	case x != nil && x.Phase != txns.Active:
		return nil, base.Errorf(base.CodeAborted, "transaction %v is %v in group %v already", id, x.Phase, r.id)
	case x != nil:
		x.Calls++
		x.Last = time.Now()
		return x, nil
	}
	if _, ended := r.Finished[id]; ended || r.rep.Dead(id) {
		return nil, base.Errorf(base.CodeAborted, "transaction %v has ended in group %v (or is older than %s)", id,
			r.id, RecordAge)
	}
	if len(r.ByID) >= r.cfg.MaxTxns {
		return nil, base.Errorf(base.CodeOverloaded, "group %v: %d transactions are active; retry later", r.id, len(r.ByID))
	}
	x = r.Register(id, m, r.lead.Term, r.cfg.LockTimeout)
	if r.Adopt(x, m, r.standing()) {
		delete(r.ByID, id)
		return nil, base.Errorf(base.CodeUnavailable, "group %v: the prepared transaction that %v is to end is being prepared, "+
			"or ended by another one: retry", r.id, id)
	}
	return x, nil
}

// leave ends a request of a transaction; mu is held.
func (r *Replica) leave(x *txns.Txn) {
	x.Calls--
	x.Last = time.Now()
}

// current reports whether x is still registered in the term; mu is held.
func (r *Replica) current(x *txns.Txn, term uint64) bool {
	return r.lead.Term == term && r.ByID[x.ID] == x
}

// lost is the answer to a request of a transaction that is not registered any more, which began in
// a term. mu is held.
func (r *Replica) lost(x *txns.Txn, term uint64) error {
	if err := r.elsewhere(term); err != nil {
		return err
	}
	return base.Errorf(base.CodeAborted, "transaction %v was aborted in group %v: the leader changed, "+
		"or it was idle or refused", x.ID, r.id)
}

// lock takes locks on all spans for x, waiting for each as its policy says. mu
// must not be held. The spans' memory belongs to the lock table from now on.
func (r *Replica) lock(ctx context.Context, x *txns.Txn, term uint64, mode lock.Mode,
	spans ...base.Span) (waited bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range spans {
		w, err := r.lockOne(ctx, x, term, mode, x.Policy, s)
		if waited = waited || w; err == errDied {
			r.stats.Died.Add(1)
			lost := base.Errorf(base.CodeAborted, "transaction %v met a lock of another one on %v: retry", x.ID, s)
			lost.After = r.SlotOver(x, s)
			return waited, lost
		} else if err != nil {
			return waited, err
		}
	}
	return waited, nil
}

// errDied says that its policy does not let a request wait, or not for longer.
var errDied = base.Errorf(base.CodeAborted, "met a lock")

// lockOne takes one lock for x, and waits for it as the policy says; mu is held at entry and exit.
func (r *Replica) lockOne(ctx context.Context, x *txns.Txn, term uint64, mode lock.Mode, policy lock.Policy,
	s base.Span) (waited bool, err error) {
	if !r.current(x, term) {
		return false, r.lost(x, term)
	}
	if err := r.elsewhere(term); err != nil {
		return false, err
	}
	w := &txns.LockWait{}
	out, lw, ev, err := r.LockTable.Acquire(lock.Request{Txn: x.ID, Age: x.Age, Span: s, Mode: mode, Policy: policy, Data: w})
	r.settle(ev)
	if err != nil {
		return false, err
	}
	switch out {
	case lock.Died:
		return false, errDied
	case lock.Waiting:
		w.Done, w.In = make(chan error, 1), lw
		x.Waits = append(x.Waits, w)
		return true, r.waitLock(ctx, x, w, policy, s)
	}
	return false, nil
}

// waitLock waits for one lock; mu is held at entry and exit. Package waits says how each kind of
// deadlock ends.
func (r *Replica) waitLock(ctx context.Context, x *txns.Txn, w *txns.LockWait, policy lock.Policy, s base.Span) error {
	table := r.LockTable
	r.stats.LockWaits.Add(1)
	r.queued.Add(1)
	wait := waits.Wait{Txn: x, Span: s, Start: time.Now(), Brief: policy == lock.WaitEnding}
	pause := detectFirst
	timer := time.NewTimer(min(pause, x.Timeout))
	var err error
	for over := false; !over; {
		r.mu.Unlock()
		select {
		case err = <-w.Done:
			over = true
		case <-ctx.Done():
			err, over = canceled(ctx), true
		case <-timer.C:
		}
		if !over {
			r.set.breakDeadlock(x)
		}
		r.mu.Lock()
		if over || w.Sent {
			continue // if it was sent, the next round receives it
		}
		left, gaveUp := r.mayWait(ctx, &wait, table, w.In)
		if err, over = gaveUp, gaveUp != nil; !over {
			pause = min(2*pause, detectLast)
			timer.Reset(min(pause, left))
		}
	}
	timer.Stop()
	r.queued.Add(-1)
	r.stats.LockWaitNanos.Add(int64(time.Since(wait.Start)))
	if !w.Sent {
		w.Sent = true
		if table == r.LockTable {
			r.settle(table.Cancel(w.In))
		}
	}
	if i := slices.Index(x.Waits, w); i >= 0 {
		x.Waits = slices.Delete(x.Waits, i, i+1)
	}
	return err
}

// mayWait is how long a request may still wait for its lock, or why it gives up. mu is held.
func (r *Replica) mayWait(ctx context.Context, w *waits.Wait, table *lock.Table, in *lock.Waiter) (left time.Duration, err error) {
	older, ending := table.Older(in)
	now := time.Now()
	if doubt := r.InDoubt(w.Txn, now, r.cfg.EnterTimeout); doubt != nil && table == r.LockTable {
		return 0, unknown(ctx, doubt, now.Sub(w.Start))
	}
	left, v := w.Left(now, waits.Patience{Deadlock: r.cfg.DeadlockTimeout, Alone: r.cfg.Alone()}, older, ending)
	switch v {
	case waits.GoesOn:
		return left, nil
	case waits.Busy:
		return 0, errDied
	}
	r.stats.LockTimeouts.Add(1)
	if v == waits.Timeout {
		return 0, base.Errorf(base.CodeLockTimeout, "transaction %v waited %s for a lock on %v", w.Txn.ID, w.Txn.Timeout, w.Span)
	}
	return 0, base.Errorf(base.CodeAborted, "transaction %v waited %s for a lock on %v, "+
		"which may be a deadlock over several nodes: retry", w.Txn.ID, now.Sub(w.Start), w.Span)
}

// settle wakes the requests whose waits have ended; mu is held.
func (r *Replica) settle(ev lock.Events) { r.stats.Died.Add(int64(txns.Settle(ev))) }

// release ends a transaction here: its locks are free and its requests fail.
// remember keeps late requests of it out. mu is held.
func (r *Replica) release(x *txns.Txn, remember bool) {
	if r.ByID[x.ID] != x {
		return
	}
	if remember {
		r.remember(x.ID)
	}
	x.Aborted = x.Aborted || x.Phase == txns.Active
	if r.order != nil && !x.Ordered && r.lead.LeaseEnd != 0 {
		// It may have read under locks: whatever comes now lies above that.
		r.lead.Floor = max(r.lead.Floor, min(r.clock.Latest(), r.lead.LeaseEnd.Prev()))
	}
	delete(r.ByID, x.ID)
	delete(r.Pending, x)
	delete(r.Slots, x)
	ev := r.Free(x, r.standing())
	for _, w := range x.Waits {
		w.Finish(r.lost(x, r.lead.Term))
	}
	x.Waits = nil
	r.End(x)
	r.settle(ev)
	r.wakeWaiting()
}

// unknown is the error of a request that has waited for an outcome for long enough. What it has
// waited counts against the patience of its statement, as if nobody had answered.
func unknown(ctx context.Context, x *txns.Txn, waited time.Duration) error {
	kv.PatienceOf(ctx).FailedSince(time.Now().Add(-waited))
	return base.Errorf(base.CodeUnavailable, "the outcome of transaction %v, which wrote the same rows, is not known: "+
		"too few replicas of a group that takes part in it are reachable; retry later", x.ID)
}

// awaitEnd waits until x has ended here; mu is held at entry and exit.
func (r *Replica) awaitEnd(ctx context.Context, x *txns.Txn) (err error) {
	if t := r.forwards(); t != nil {
		return t.Err
	}
	if r.waiting >= r.cfg.MaxWaiting {
		return base.Errorf(base.CodeOverloaded, "group %v: %d requests wait already; retry later", r.id, r.waiting)
	}
	if x.Gone == nil {
		x.Gone = make(chan struct{})
		if x.Ended {
			close(x.Gone)
		}
	}
	ch, left := x.Gone, x.DoubtLeft(time.Now(), r.cfg.EnterTimeout, resolveAgain)
	r.waiting++
	r.stats.UndecidedWaits.Add(1)
	for again := true; again; {
		r.mu.Unlock()
		over := false
		select {
		case <-ch:
		case <-time.After(left):
			over = true
		case <-ctx.Done():
			err = canceled(ctx)
		}
		r.mu.Lock()
		// the outcome of one that settles is known, it only takes its time
		if again = over && x.Settling && !x.Ended; over && !again {
			err = unknown(ctx, x, left)
		}
	}
	r.waiting--
	if t := r.forwards(); t != nil {
		return t.Err
	}
	return err
}
