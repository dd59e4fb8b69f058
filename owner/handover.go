package owner

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/clock"
	"github.com/godwitdb/godwit/lock"
	"github.com/godwitdb/godwit/wan"
	"github.com/godwitdb/godwit/wire"
)

// A planned hand-over of the lead (GeoLM, section V-C; PROTOCOLS A6). The leader of term T hands it to the heir:
//
//  1. The leader asks the heir, which says yes if it follows the leader and holds the shard (Figure 8, messages 1 and 2).
//  2. The leader logs a bequest: a lease for the heir. From now on it proposes nothing behind it; reads and locks go on,
//     commits wait. So its log ends with the bequest, at I. As soon as I is known it tells the heir to stand for election when
//     its log ends there, too.
//  3. The leader serves on, under its lease, until it hears that its term is over: as it is asked for its vote, which is held back until the
//     bequest is applied, so nothing is under way. In that moment it stops and sends the heir what it has in memory only: locks, transactions, floor
//     (message 3), beside its vote. It is the helper now: requests under way or still coming are passed on to the heir. (If somebody leads
//     before the bequest is applied, it tells the heir all the same. What is under way is in the heir's log, which will say what became of it.)
//  4. The heir, once it is elected and has that, goes on where the other stopped.
//
// The pause of reads is the trip of what is told, if the old leader is one of the heir's nearest majority; else the
// rest of the election comes on top. Commits take that, the trip of the bequest, which the election needs, and the quorum of their entry.
//
// Why the heir may serve as soon as it is elected, before an entry of its own term is committed: its log holds all that is
// committed and ends at I, which its predecessor says is committed; if he cannot say so, the heir waits for that entry. Nobody else can have served since: a leader of a term after T
// serves only once a lease of that term is committed behind I, and then the heir is not elected with a log
// that ends at I. And the old leader has stopped: it tells what it has once, when its term is over, so it never serves again without being
// elected. If it is not told that, because the heir does not stand, it just goes on. Until the bequest is superseded by a
// lease behind it, whoever else leads waits for its end like for that of any lease, unless he
// leads in term T+1, in which the heir then did not.

// handing is one hand-over, at the node that hands its lead over. Fields but channels are guarded by Replica.mu.
type handing struct {
	to      base.NodeID
	term    uint64
	err     *base.Error   // what a request fails with that has to go elsewhere; compared by identity
	shut    bool          // nothing is proposed any more
	index   uint64        // of the bequest, once it is in the log
	applied bool          // and applied: nothing is under way
	stopped bool          // nothing is served any more
	ended   bool          // over is closed
	gone    chan struct{} // closed when stopped, as the heir is told
	over    chan struct{} // closed when somebody leads again: this node goes on, or another one does
}

// heir is what a node keeps that is to take over.
type heir struct {
	from     base.NodeID
	term     uint64
	asked    time.Time // before the bequest was proposed
	deadline time.Time // when to think of it no more
	stands   bool      // it was told to stand for election
	heritage *wire.Heritage
	told     chan struct{} // closed when the heritage has come
}

// bequest is the last one in the log; heir is 0 if a lease behind it has superseded it.
type bequest struct {
	heir  base.NodeID
	term  uint64
	index uint64
	lease
}

const (
	heirPatience = 3 * time.Second
	expectEvery  = 20 * time.Millisecond // how often who waits for this node's election looks whether it still may come
	// maxHeritage bounds the bytes of the locks that are handed over: beyond, the transactions with the most locks abort.
	maxHeritage = 4 << 20
	// maxLate are the finished transactions of which late requests are kept out by the heir, too.
	maxLate = 4096
)

// Revoking implements group.StateMachine.
func (r *Replica) Revoking(term uint64, to base.NodeID, done func(told bool, err error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &r.lead
	switch {
	case l.term == term && !l.serving && l.asked == 0 && l.handing == nil:
		// It has never had a lease in this term, and will not take one. Whoever comes next waits out what the log says.
		l.next = to
		go done(false, nil)
	case l.term != term || !l.serving || l.handing != nil:
		go done(false, base.Errorf(base.CodeNotLeader, "group %v: the owner does not serve in term %d", r.id, term))
	default:
		h := &handing{to: to, term: term, gone: make(chan struct{}), over: make(chan struct{})}
		h.err = base.Errorf(base.CodeNotLeader, "group %v: the lead is on its way to node %d", r.id, to)
		h.err.Node = to
		l.handing, r.handed = h, h
		go func() { done(r.handOver(h)) }()
	}
}

// handOver carries a hand-over out, to where the heir stands and nothing is under way.
func (r *Replica) handOver(h *handing) (told bool, err error) {
	ctx, cancel := r.life()
	defer cancel()
	ctx, cancel2 := context.WithTimeout(ctx, heirPatience)
	defer cancel2()
	if err := r.tellHeir(ctx, h, r.handoverTo(h)); err != nil {
		return false, err
	}
	if err := r.bequeath(ctx, h); err != nil {
		return false, err
	}
	return true, nil
}

func (r *Replica) handoverTo(h *handing) *wire.HandoverRequest {
	return &wire.HandoverRequest{Group: uint32(r.id), Term: h.term, Incarnation: r.incarnation}
}

func (r *Replica) tellHeir(ctx context.Context, h *handing, q *wire.HandoverRequest) error {
	var resp wire.HandoverResponse
	if err := r.cfg.Transport.Call(ctx, h.to, wire.KindHandover, q, &resp); err != nil {
		return err
	}
	return ErrorOf(resp.Status)
}

// bequeath logs the bequest, behind which nothing is proposed, has the heir stand for election, and waits until the bequest is applied.
func (r *Replica) bequeath(ctx context.Context, h *handing) error {
	r.propMu.Lock()
	r.mu.Lock()
	l := &r.lead
	if l.handing != h || !l.serving {
		r.mu.Unlock()
		r.propMu.Unlock()
		return h.err
	}
	h.shut = true
	l.next = h.to
	cmd := r.command(0)
	virtual := r.clock.Virtual()
	from := max(r.clock.Latest(), l.low)
	if virtual {
		from = max(from, l.floor)
	}
	cmd.Bequest = &wire.Bequest{Heir: uint32(h.to), End: uint64(max(from.Add(r.cfg.Lease), l.leaseEnd, l.asked)), LengthNs: uint64(r.cfg.Lease), Virtual: virtual}
	r.mu.Unlock()
	placed, done := make(chan uint64, 1), make(chan error, 1)
	r.group.ProposePlaced(cmd, h.term, func(index uint64) {
		r.mu.Lock()
		h.index = index
		r.mu.Unlock()
		placed <- index
	}, func(_ any, _ uint64, err error) {
		r.mu.Lock()
		h.applied = err == nil
		r.mu.Unlock()
		done <- err
	})
	r.propMu.Unlock()
	for {
		select {
		case index := <-placed:
			q := r.handoverTo(h)
			q.Stand = index
			// If it does not stand, the group finds out; this leader serves meanwhile. The bequest may be applied before it answers.
			go r.tellWithin(h, q, "the heir does not stand for election")
		case err := <-done:
			return err
		case <-ctx.Done():
			return canceled(ctx)
		}
	}
}

// tellWithin tells the heir something; otherwise says what follows if it cannot be told.
func (r *Replica) tellWithin(h *handing, q *wire.HandoverRequest, otherwise string) {
	ctx, cancel := r.life()
	defer cancel()
	ctx, cancel2 := context.WithTimeout(ctx, heirPatience)
	defer cancel2()
	if err := r.tellHeir(ctx, h, q); err != nil {
		r.cfg.Logger.Info(otherwise, "group", r.id, "to", h.to, "err", err)
	}
}

// leaveTo ends the service, as the term is over, and tells the heir. mu is held.
func (r *Replica) leaveTo(h *handing) {
	q := r.handoverTo(h)
	q.Heritage = r.stopFor(h)
	r.lead.handing = nil
	go r.tellWithin(h, q, "the heir was not told what it takes over: open transactions abort")
	go func() {
		ctx, cancel := r.life()
		defer cancel()
		ctx, cancel2 := context.WithTimeout(ctx, heirPatience)
		defer cancel2()
		close(h.gone)
		for ctx.Err() == nil {
			if n, term := r.group.Leader(); n != 0 && term > h.term {
				break
			}
			select {
			case <-time.After(expectEvery):
			case <-ctx.Done():
			}
		}
		r.mu.Lock()
		h.ended = true
		close(h.over)
		r.mu.Unlock()
	}()
}

// helps is the hand-over whose requests this node passes on, having stopped: until it hears who leads. mu is held.
func (r *Replica) helps() *handing {
	if h := r.handed; h != nil && h.stopped && !h.ended && r.lead.term == 0 {
		return h
	}
	return nil
}

// stopFor ends the service and returns what the heir has to know. mu is held.
func (r *Replica) stopFor(h *handing) *wire.Heritage {
	l := &r.lead
	l.serving, h.stopped = false, true
	r.stats.HandedOver.Add(1)
	floor := max(l.floor, l.told, l.issued)
	if r.order != nil { // what was read when is not told: all that the heir writes lies above
		floor = max(floor, r.order.high, l.ends.newest())
	}
	out := &wire.Heritage{Index: h.index, Committed: h.applied, Floor: uint64(floor), Told: uint64(l.told), Issued: uint64(l.issued), Low: uint64(l.low)}
	// Those who wait for a lock, or for an outcome, ask again elsewhere.
	var waits []*lockWait
	for _, x := range r.txns {
		waits = append(waits, x.waits...)
	}
	r.failWaits(h.err)
	for _, w := range waits {
		r.settle(r.locks.Cancel(w.in))
	}
	for _, x := range r.txns {
		if x.gone != nil && !x.ended {
			close(x.gone)
			x.gone = nil
		}
	}
	bytes := 0
	xs := make([]*txnState, 0, len(r.txns))
	for _, x := range r.txns {
		xs = append(xs, x)
	}
	// If not all fit, those with many locks stay behind.
	slices.SortFunc(xs, func(a, b *txnState) int {
		if a.phase != active && b.phase == active {
			return -1
		} else if a.phase == active && b.phase != active {
			return 1
		}
		return r.locks.Count(a.id) - r.locks.Count(b.id)
	})
	for _, x := range xs {
		t := r.held(x)
		if bytes += t.SizeVT(); bytes > maxHeritage && x.phase == active {
			break
		}
		out.Txns = append(out.Txns, t)
	}
	recent := r.clock.Latest().Add(-heirPatience)
	for id, at := range r.finished {
		if at > recent && len(out.Finished) < maxLate {
			out.Finished = append(out.Finished, id[:])
		}
	}
	r.wake()
	return out
}

// held is a transaction as it is told to the heir. mu is held.
func (r *Replica) held(x *txnState) *wire.HeldTxn {
	t := &wire.HeldTxn{Id: x.id[:], Age: uint64(x.age), Policy: uint32(x.policy), TimeoutNs: uint64(x.timeout), Born: x.born,
		Phase: uint32(x.phase), Ts: uint64(x.ts), Hi: uint64(x.hi), Crt: x.crt}
	_, t.Slot = r.slots[x]
	for _, k := range x.keys {
		t.Keys = append(t.Keys, k)
	}
	for _, s := range x.handover {
		t.Handover = append(t.Handover, &wire.Span{Start: s.Start, End: s.End})
	}
	r.locks.Each(x.id, func(s base.Span, m lock.Mode) bool {
		w := &wire.Span{Start: s.Start, End: s.End}
		if m == lock.Exclusive {
			t.Exclusive = append(t.Exclusive, w)
		} else {
			t.Shared = append(t.Shared, w)
		}
		return true
	})
	for _, p := range x.bound.by {
		t.BoundBy = append(t.BoundBy, p.id[:])
	}
	if n := r.notices[x.id]; n != nil {
		for _, g := range n.from {
			t.Votes = append(t.Votes, uint32(g))
		}
	}
	return t
}

// endHanding ends a hand-over that came to nothing: this node goes on, or has lost its lead otherwise. mu is held.
func (r *Replica) endHanding() {
	if h := r.lead.handing; h != nil {
		r.stats.GivenUp.Add(1)
		r.lead.handing = nil
		h.ended = true
		close(h.over)
	}
}

// elsewhere is the error of a request that began in a term whose lead has been handed over since; nil for others. mu is held.
func (r *Replica) elsewhere(term uint64) error {
	if h := r.handed; h != nil && h.term == term && h.stopped {
		return h.err
	}
	return nil
}

// mayPropose is why nothing can be proposed in a term; nil if it can. mu is held.
func (r *Replica) mayPropose(term uint64) error {
	if h := r.lead.handing; h != nil && h.term == term && h.shut {
		return h.err
	}
	if err := r.elsewhere(term); err != nil {
		return err
	}
	if r.lead.term != term || !r.lead.serving {
		return r.notLeader()
	}
	return nil
}

// handingOf is the hand-over that made a request fail; nil if it failed of something else.
func (r *Replica) handingOf(err error) *handing {
	if err == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.handed; h != nil && err == error(h.err) {
		return h
	}
	return nil
}

// helped is the helper state: a request that met a hand-over waits for it and is passed on to whoever leads then. nil, nil:
// this node does, and should serve it. again allows a request to be sent twice. Errors say that nothing
// was done, but for CodeAmbiguous.
func helped[T any, A message[T]](ctx context.Context, r *Replica, h *handing, kind wire.Kind, q wan.Msg, again bool) (A, error) {
	r.mu.Lock()
	if r.helped >= r.cfg.MaxWaiting {
		r.mu.Unlock()
		return nil, base.Errorf(base.CodeOverloaded, "group %v: %d requests wait for the new leader already; retry later", r.id, r.cfg.MaxWaiting)
	}
	r.helped++
	r.stats.Helped.Add(1)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.helped--
		r.mu.Unlock()
	}()
	timer := time.NewTimer(r.cfg.EnterTimeout)
	defer timer.Stop()
	select {
	case <-h.gone:
	case <-h.over:
	case <-timer.C:
		return nil, h.err
	case <-ctx.Done():
		return nil, canceled(ctx)
	}
	to, over, backoff := h.to, h.over, retryMin
	for {
		if r.leadsAgain() {
			return nil, nil
		}
		resp := A(new(T))
		err := callUntil(ctx, r, to, kind, q, resp, again, over)
		if err == nil {
			err = ErrorOf(resp.GetStatus())
			switch base.CodeOf(err) {
			case base.CodeNotLeader, base.CodeUnavailable:
			default:
				return resp, nil
			}
		} else if !again && !neverRan(err) {
			return nil, base.Errorf(base.CodeAmbiguous, "group %v: the request was passed on to the new leader, node %d, which did not answer: %v", r.id, to, err)
		}
		select {
		case <-over:
			over = nil
			to = r.heard()
		default:
		}
		var e *base.Error
		if errors.As(err, &e) && e.Node != 0 {
			to = e.Node
		} else if n := r.heard(); n != 0 && over == nil {
			to = n
		}
		if to == 0 || to == r.cfg.Self {
			to = h.to
		}
		select {
		case <-time.After(backoff):
		case <-timer.C:
			return nil, h.err
		case <-ctx.Done():
			return nil, canceled(ctx)
		}
		backoff = min(2*backoff, retryMax)
	}
}

// callUntil is Transport.Call, which is given up, if the request may be sent twice, when the hand-over has ended otherwise.
func callUntil(ctx context.Context, r *Replica, to base.NodeID, kind wire.Kind, q, resp wan.Msg, again bool, over <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if again && over != nil {
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			select {
			case <-over:
				if r.heard() != to {
					cancel()
				}
			case <-stop:
			}
		}()
	}
	return r.cfg.Transport.Call(ctx, to, kind, q, resp)
}

// leadsAgain reports whether this node leads and is not handing the lead over.
func (r *Replica) leadsAgain() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lead.term != 0 && r.lead.handing == nil
}

// ---- at the heir ----

func (s *Set) handleHandover(_ context.Context, from base.NodeID, body []byte) (wan.Msg, error) {
	return serve(s, body, func(st *wire.Status) *wire.HandoverResponse { return &wire.HandoverResponse{Status: st} },
		func(r *Replica, q *wire.HandoverRequest) *wire.HandoverResponse {
			return &wire.HandoverResponse{Status: statusOf(r.onHandover(from, q))}
		})
}

// onHandover takes the word of the leader that this node is to lead: the question whether it would, then that it is to stand, then what it
// has to know.
func (r *Replica) onHandover(from base.NodeID, q *wire.HandoverRequest) error {
	refuse := func(why string) error {
		return base.Errorf(base.CodeUnavailable, "group %v: node %d cannot take over from node %d: %s", r.id, r.cfg.Self, from, why)
	}
	select {
	case <-r.attached:
	default:
		return refuse("it is starting")
	}
	switch n, term := r.group.Leader(); {
	case q.Incarnation != r.incarnation || r.frozen.Load() || r.isAsync && !r.cfg.Held.Confirmed():
		return refuse("the group begins anew")
	case q.Heritage != nil: // its own campaign may have ended that term
	case n != from || term != q.Term:
		return refuse("it does not follow it")
	case !r.set.Holds(r.shard):
		return refuse("it does not hold the whole shard")
	}
	now := time.Now()
	r.mu.Lock()
	x := r.heir
	known := x != nil && x.from == from && x.term == q.Term && now.Before(x.deadline)
	switch {
	case q.Heritage != nil:
		defer r.mu.Unlock()
		if !known || x.heritage != nil {
			return refuse("it does not wait for that")
		}
		x.heritage = q.Heritage
		close(x.told)
		r.wake()
		if q.Heritage.Committed {
			r.group.Committed(q.Term, q.Heritage.Index)
		}
		return nil
	case r.lead.term != 0:
		r.mu.Unlock()
		return refuse("it leads itself")
	case q.Stand == 0:
		r.heir = &heir{from: from, term: q.Term, asked: now, deadline: now.Add(heirPatience), told: make(chan struct{})}
		r.mu.Unlock()
		return nil
	case !known || x.stands:
		r.mu.Unlock()
		return refuse("it does not remember that it was asked")
	}
	x.stands = true
	r.mu.Unlock()
	if err := r.group.Stand(q.Term, from, q.Stand); err != nil {
		r.mu.Lock()
		if r.heir == x {
			r.heir = nil
		}
		r.wake()
		r.mu.Unlock()
		return err
	}
	return nil
}

// expects reports whether this node is about to take over; requests wait for that. mu is held.
func (r *Replica) expects() bool {
	x := r.heir
	if x == nil || !x.stands || time.Now().After(x.deadline) {
		return false
	}
	n, term := r.group.Leader()
	return n == 0 || n == r.cfg.Self || x.heritage != nil && term == x.term
}

// succeeds is what this leader, whose first entry is the one given, has been promised by its predecessor; nil if it has to
// begin from the log alone. mu is held.
func (r *Replica) succeeds(term, first uint64) *heir {
	x, b := r.heir, &r.rep.bequest
	if x == nil || !x.stands || x.term+1 != term || b.heir != r.cfg.Self || b.index+1 != first || b.term != x.term {
		return nil
	}
	return x
}

// inherit goes on where the predecessor stopped. It reports whether this attempt goes on.
func (r *Replica) inherit(attempt uint64, x *heir) bool {
	r.propMu.Lock()
	defer r.propMu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	l, h := &r.lead, x.heritage
	if l.attempt != attempt || l.next != 0 || l.serving {
		return false
	}
	b := &r.rep.bequest
	l.floor = max(l.floor, base.Timestamp(h.Floor), r.rep.lastTS, r.rep.closed, base.Timestamp(r.closed.Load()))
	l.told = max(l.told, base.Timestamp(h.Told), r.rep.closed, base.Timestamp(r.closed.Load()))
	if r.cfg.NoHeritage {
		l.floor = l.told
	}
	l.issued, l.low = max(l.issued, base.Timestamp(h.Issued)), max(l.low, base.Timestamp(h.Low))
	l.ends = ends{low: l.floor}
	l.leaseEnd = b.end
	// A little earlier than its length, should this clock run slow. It was granted after this node was asked.
	l.until = x.asked.Add(2*b.length - clock.Stretched(b.length))
	l.ended = &wire.Lease{Holder: uint32(x.from), End: h.Floor}
	if err := r.takeLocks(h); err != nil {
		r.cfg.Logger.Error("locks handed over cannot be taken: their transactions abort", "group", r.id, "err", err)
		r.stopLocked(r.notLeader())
	}
	if err := r.lockPrepared(); err != nil {
		r.cfg.Logger.Error("prepared transactions cannot be locked: this leader does not serve", "group", r.id, "err", err)
		return false
	}
	l.serving = true
	r.wake()
	r.stats.Inherited.Add(1)
	r.cfg.Logger.Debug("owner goes on for its predecessor", "group", r.id, "term", l.term, "txns", len(r.txns))
	return true
}

// takeLocks registers the transactions of the predecessor with the locks that they held. mu is held.
func (r *Replica) takeLocks(h *wire.Heritage) error {
	now := time.Now()
	for _, t := range h.Txns {
		id, ok := txnID(t.Id)
		if !ok {
			return base.Errorf(base.CodeCorrupt, "malformed transaction id %x", t.Id)
		}
		x := &txnState{id: id, born: t.Born, age: base.Timestamp(t.Age), policy: lock.Policy(t.Policy), timeout: time.Duration(t.TimeoutNs), last: now, crt: t.Crt}
		if t.Phase != uint32(active) {
			skip, err := r.takeVoter(x, t)
			if err != nil {
				return err
			}
			if skip {
				continue
			}
		}
		r.txns[id] = x
		for mode, spans := range map[lock.Mode][]*wire.Span{lock.Shared: t.Shared, lock.Exclusive: t.Exclusive} {
			for _, s := range spans {
				// All were held at the same time: none can conflict.
				out, _, _, err := r.locks.Acquire(lock.Request{Txn: id, Age: x.age, Span: spanOf(s), Mode: mode})
				if err != nil || out != lock.Granted {
					return base.Errorf(base.CodeCorrupt, "transaction %v cannot lock %v: %v", id, spanOf(s), err)
				}
			}
		}
		if x.phase != active {
			r.locks.Ending(id, true)
		}
	}
	for _, t := range h.Txns {
		if len(t.BoundBy) == 0 {
			continue
		}
		if x := r.txns[base.TxnID(t.Id)]; x != nil {
			if err := r.takeBound(x, t.BoundBy); err != nil {
				return err
			}
		}
	}
	for _, id := range h.Finished {
		if id, ok := txnID(id); ok {
			r.finished[id] = r.clock.Latest()
		}
	}
	return nil
}

// takeVoter restores a transaction that has been proposed: the log, which ends behind it, knows what became of that. skip: it
// is over.
func (r *Replica) takeVoter(x *txnState, t *wire.HeldTxn) (skip bool, err error) {
	v := r.rep.prepared[x.id]
	ts, state := base.Timestamp(0), wire.TxnState_UNKNOWN
	if v == nil {
		if rec, ok, err := r.store.GetTxn(r.id, x.id); err != nil {
			return false, err
		} else if ok {
			if state, ts, _, err = r.parseRecord(x.id, rec); err != nil {
				return false, err
			}
		}
		if state == wire.TxnState_ABORTED {
			return true, nil
		}
		if state == wire.TxnState_UNKNOWN {
			return false, nil // it was not proposed after all: still active
		}
	}
	x.phase, x.ts, x.hi, x.since = phase(t.Phase), base.Timestamp(t.Ts), base.Timestamp(t.Hi), x.last
	for _, k := range t.Keys {
		x.keys = append(x.keys, k)
	}
	for _, s := range t.Handover {
		x.handover = append(x.handover, spanOf(s))
	}
	if len(x.keys) > 0 {
		r.pending[x] = struct{}{}
	}
	if t.Slot {
		r.slots[x] = struct{}{}
	}
	if v == nil {
		x.index = r.applied.Load()
		go r.settleLate(x, ts)
		return false, nil
	}
	x.phase, x.ordered, x.patches = prepared, v.Ordered, patchesOf(v.Writes)
	if len(t.Votes) > 0 {
		r.notices[x.id] = &notices{from: groupsOf(t.Votes), at: x.last}
		go r.decideByVotes(x.id)
	}
	return false, nil
}

// takeBound restores the slots below which a transaction has to commit. mu is held.
func (r *Replica) takeBound(x *txnState, by [][]byte) error {
	for _, b := range by {
		id, _ := txnID(b)
		p := r.txns[id]
		if p == nil {
			rec, ok, err := r.store.GetTxn(r.id, id)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			state, ts, _, err := r.parseRecord(id, rec)
			if err != nil {
				return err
			}
			if state != wire.TxnState_COMMITTED {
				continue
			}
			p = &txnState{id: id, ts: ts, ended: true}
		}
		x.bound.add(p)
	}
	return nil
}
