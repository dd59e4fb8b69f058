package multimaster

import (
	"context"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/policy/epoch"
	"github.com/godwitdb/godwit/policy/filter"
)

// submissions are the transactions of this node whose outcome is open.
type submissions struct {
	pending []*submission            // not part of an epoch
	own     map[uint64][]*submission // by the epoch that they are part of
	flying  int                      // bytes of own batches on their way
}

type submission struct {
	txn  filter.Txn
	size int
	view uint64 // of the epoch that it is in; 0 while it is pending
	born time.Time
	done chan struct{}
	// Results, once done is closed.
	at  uint64 // the epoch that it has committed in
	err error
}

func newSubmission(t filter.Txn) *submission {
	s := &submission{txn: t, done: make(chan struct{}), size: 64, born: time.Now()}
	for i := range t.Writes {
		s.size += len(t.Writes[i].Key) + len(t.Writes[i].Value) + 8
	}
	for _, k := range t.Reads {
		s.size += len(k) + 4
	}
	return s
}

func (s *submission) finish(err error) {
	s.err = err
	close(s.done)
}

// batch takes what fits into the next epoch, at least one submission if there is any.
func (s *submissions) batch(view, num uint64, most int) (b filter.Batch) {
	bytes, n := 0, 0
	for n < len(s.pending) && s.flying < maxFlying && (n == 0 || bytes+s.pending[n].size <= most) {
		p := s.pending[n]
		p.view = view
		b.Txns = append(b.Txns, p.txn)
		bytes += p.size
		n++
	}
	if n > 0 {
		s.own[num] = s.pending[:n:n]
		s.pending = s.pending[n:]
	}
	return b
}

// Submit gives a transaction to the next epoch and waits for what becomes of it: the epoch that it
// has committed in, or
//
//   - base.CodeAborted: it has lost; run it again;
//   - base.CodeUnavailable: it has not become part of any epoch;
//   - base.CodeAmbiguous: it has, and ctx ended before the outcome was known.
func (e *Engine) Submit(ctx context.Context, t filter.Txn) (uint64, error) {
	s := newSubmission(t)
	e.mu.Lock()
	if e.stopped || e.failure != nil {
		e.mu.Unlock()
		return 0, base.Errorf(base.CodeUnavailable, "this node does not take part in epochs: ask another one")
	}
	if e.astray() && !e.lostSince.IsZero() && time.Since(e.lostSince) > e.cfg.Suspect {
		e.mu.Unlock()
		kv.PatienceOf(ctx).Failed() // the statement is tried again for as long as that lasts
		return 0, errAstray()
	}
	e.pending = append(e.pending, s)
	e.mu.Unlock()
	e.counters.submitted.Add(1)
	poke(e.kick)
	return e.await(ctx, s)
}

// await waits for the outcome of a submission. While it has not become part of an epoch it is taken
// back when ctx ends, when Config.Submit is over, or when this node cannot take part any more. Once
// the statement has waited in vain for as long as any may, it ends in any case.
func (e *Engine) await(ctx context.Context, s *submission) (uint64, error) {
	p := kv.PatienceOf(ctx)
	next := func() time.Duration { return min(e.cfg.Suspect/4, max(p.Left(), minLook)) }
	limit := time.NewTimer(next())
	defer limit.Stop()
	for {
		select {
		case <-s.done:
			p.Answered()
			return s.at, s.err
		case <-ctx.Done():
			return e.giveUp(s, context.Cause(ctx))
		case <-limit.C:
			if at, err, over := e.pressed(s, p); over {
				return at, err
			}
			limit.Reset(next())
		}
	}
}

// minLook is the least time between two looks at what a submission waits for.
const minLook = 10 * time.Millisecond

// pressed ends the wait for a submission if it has waited for too long; over reports whether it
// has.
func (e *Engine) pressed(s *submission, p *kv.Patience) (at uint64, err error, over bool) {
	e.mu.Lock()
	astray, stalled := e.astray(), e.stalled()
	e.mu.Unlock()
	age := time.Since(s.born)
	if !stalled {
		p.Answered() // it is a matter of how much there is to send
	} else if p.Failed() {
		// The others may go on without this node, with or without the epoch.
		why := errStalled()
		if astray {
			why = errAstray()
		}
		at, err = e.giveUp(s, why)
		return at, err, true
	}
	switch {
	case astray && age >= e.cfg.Suspect && e.withdraw(s):
		return 0, errAstray(), true
	case age >= e.cfg.Submit && e.withdraw(s):
		return 0, base.Errorf(base.CodeUnavailable,
			"this node has not taken part in epochs for %v: nothing was done; a majority of the regions must "+
				"be reachable", e.cfg.Submit), true
	}
	return 0, nil, false
}

// stalled reports whether something is broken that epochs wait for: this node takes no part, or a
// member, it itself too, is half broken or silent. The caller holds mu.
func (e *Engine) stalled() bool {
	if !e.active || e.late {
		return true
	}
	return slices.ContainsFunc(e.place.View.Members, func(n base.NodeID) bool {
		return e.cfg.Ailing != nil && e.cfg.Ailing(n) ||
			n != e.cfg.Self && time.Since(e.lastHeard[n]) > e.cfg.Suspect/4
	})
}

// giveUp ends the wait for a submission because of why.
func (e *Engine) giveUp(s *submission, why error) (uint64, error) {
	if e.withdraw(s) {
		return 0, base.Errorf(base.CodeUnavailable, "the transaction did not become part of an epoch in time (%v): "+
			"nothing was done", why)
	}
	select {
	case <-s.done:
		return s.at, s.err
	default:
	}
	return 0, base.Errorf(base.CodeAmbiguous, "the transaction is part of an epoch whose outcome is not known yet (%v)", why)
}

// astray reports whether this node cannot take part in epochs, and has found no majority to change
// that. The caller holds mu.
func (e *Engine) astray() bool {
	v := &e.place.View
	return (!e.active || e.late) && (!e.lostSince.IsZero() || !v.Majority(func(n base.NodeID) bool { return e.down[n].IsZero() }))
}

func errAstray() error {
	return base.Errorf(base.CodeUnavailable, "this node reaches no majority of the regions, "+
		"so MULTI MASTER tables can only be read here, as of the last epoch that has arrived: nothing was done")
}

func errStalled() error {
	return base.Errorf(base.CodeUnavailable, "a disk or a link that epochs wait for has stood still for too long, "+
		"here or at another member")
}

// withdraw takes a transaction back that is not part of an epoch.
func (e *Engine) withdraw(s *submission) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, p := range e.pending {
		if p == s {
			e.pending = append(e.pending[:i:i], e.pending[i+1:]...)
			return true
		}
	}
	return false
}

// dismiss answers all who wait; the caller holds mu.
func (e *Engine) dismiss() {
	subs := e.pending
	e.pending = nil
	for _, s := range e.own {
		subs = append(subs, s...)
	}
	clear(e.own)
	for _, s := range subs {
		s.finish(base.Errorf(base.CodeAmbiguous, "the node stops taking part in epochs; "+
			"whether the transaction has committed is not known"))
	}
}

// reclaim makes the transactions of discarded epochs pending again, under their ids; the caller
// holds mu.
func (e *Engine) reclaim(subs []*submission) {
	for _, s := range subs {
		s.view = 0
	}
	e.counters.resubmitted.Add(uint64(len(subs)))
	e.pending = slices.Concat(subs, e.pending)
}

// answerAll gives the submissions of an epoch their outcome.
func (e *Engine) answerAll(subs []*submission, m *epoch.Merged) {
	committed := make(map[base.TxnID]bool, len(m.Committed))
	for _, id := range m.Committed {
		committed[id] = true
	}
	for _, s := range subs {
		if committed[s.txn.ID] {
			s.at = m.Epoch
			e.counters.committed.Add(1)
			s.finish(nil)
			continue
		}
		e.counters.aborted.Add(1)
		s.finish(base.Errorf(base.CodeAborted, "another transaction has changed the same rows, "+
			"or some that this one rests on, since it began: run it again"))
	}
}
