package owner

import (
	"context"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/clock"
	"github.com/godwitdb/godwit/lock"
	"github.com/godwitdb/godwit/wire"
)

// pulse is a closed timestamp that was told outside the log (PROTOCOLS A3).
type pulse struct {
	index  uint64
	closed base.Timestamp
}

const maxPulses = 16

// maxAsks bounds the leases that are remembered until they are applied; one is proposed a second.
const maxAsks = 64

// Leading implements group.StateMachine.
func (r *Replica) Leading(term, first uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if first == 0 && r.lead.term == term && r.lead.handing != nil { // it has served all the time
		r.lead.next = 0
		r.endHanding()
		r.wake()
		return
	}
	var x *heir
	if first > 0 || r.lead.term != term {
		r.stopLocked(r.notLeader())
		x = r.succeeds(term, first)
		r.lead = leadership{term: term}
		r.heir = x
	} else {
		r.lead.next, r.lead.asked, r.lead.leaseEnd, r.lead.askedUntil = 0, 0, 0, time.Time{}
	}
	r.attempts++
	r.lead.attempt = r.attempts
	go r.takeOver(term, r.attempts, x)
}

// takeOver brings a new leader into service (I1, I2, I3): it outlives its
// predecessors' leases, catches up with what its log relies on, and takes the locks of prepared transactions again.
// It ends when another attempt has begun.
//
// An heir's predecessor says when it serves no more, and where it ended. Then there is nothing to outlive, and the lease to
// serve under is in the log. Until then, or if it never does, the heir waits for the leases like anybody else.
func (r *Replica) takeOver(term, attempt uint64, x *heir) {
	select {
	case <-r.attached:
	case <-r.closing:
		return
	}
	ctx, cancel := r.life()
	defer cancel()
	r.mu.Lock()
	var all base.Timestamp
	var others []lease
	for n, l := range r.rep.leases {
		all = max(all, l.end)
		if n != r.cfg.Self && !l.revoked {
			others = append(others, l)
		}
	}
	if b := &r.rep.bequest; b.heir != 0 {
		all = max(all, b.end)
		if b.heir != r.cfg.Self && b.term+1 != term { // else that one cannot have led in between
			others = append(others, b.lease)
		}
	}
	join := r.rep.join
	r.mu.Unlock()
	var told <-chan struct{}
	if x != nil {
		told = x.told
	}
	for _, l := range others {
		if !r.outlive(ctx, &l, told) {
			return
		}
	}
	r.mu.Lock()
	if l := &r.lead; l.attempt == attempt {
		if x != nil && (x.heritage == nil || x.heritage.Index != r.rep.bequest.index) {
			x = nil
		}
		r.heir = nil // nothing more is taken
		if x != nil {
			all = 0
		}
		l.floor = max(l.floor, all, r.rep.lastTS, r.rep.closed)
		if r.id == base.MetaGroup { // the oracle issues above all, below its lease
			l.low = max(l.low, all)
		}
	}
	r.mu.Unlock()
	for tries := 0; ; tries++ {
		var need []*wire.GroupIndex
		for i, v := range join {
			if v > 0 && base.RegionID(i) != r.region {
				need = append(need, &wire.GroupIndex{Region: uint32(i), Index: v})
			}
		}
		err := r.waitVector(ctx, need)
		if err == nil {
			break
		}
		if !r.attempting(attempt) {
			return
		}
		if tries%50 == 0 {
			r.cfg.Logger.Warn("a new leader waits for other groups of its shard", "group", r.id, "err", err)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
	if x != nil && !r.inherit(attempt, x) {
		return
	}
	for {
		r.propMu.Lock()
		r.mu.Lock()
		if r.lead.attempt != attempt || r.lead.next != 0 {
			r.mu.Unlock()
			r.propMu.Unlock()
			return
		}
		cmd := r.command(0)
		if !r.addLease(cmd) && x != nil { // a commit has carried it
			r.mu.Unlock()
			r.propMu.Unlock()
			return
		}
		r.mu.Unlock()
		done := make(chan error, 1)
		r.group.ProposeAsync(cmd, term, func(_ any, _ uint64, err error) { done <- err })
		r.propMu.Unlock()
		err := <-done
		if err == nil {
			break
		}
		r.leaseFailed(term, err)
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &r.lead
	if l.attempt != attempt || l.next != 0 || l.serving {
		return
	}
	l.floor = max(l.floor, all, r.rep.lastTS, r.rep.closed, base.Timestamp(r.closed.Load()))
	l.told = max(l.told, r.rep.closed, base.Timestamp(r.closed.Load()))
	if r.cfg.NoHeritage {
		l.floor = l.told
	}
	l.issued = max(l.issued, all)
	l.ends = ends{low: l.floor}
	if err := r.lockPrepared(); err != nil {
		r.cfg.Logger.Error("prepared transactions cannot be locked: this leader does not serve", "group", r.id, "err", err)
		return
	}
	l.serving = true
	r.wake()
	r.cfg.Logger.Debug("owner serves", "group", r.id, "term", term, "prepared", len(r.rep.prepared))
}

// outlive waits until the holder of a lease has told so, or certainly stopped serving under it: true time has passed its end, or
// its length has passed since this replica learned of it, by a clock that may run a little fast. Only the latter
// counts where the end or this node's reading does not come from a clock with a bound.
func (r *Replica) outlive(ctx context.Context, l *lease, told <-chan struct{}) bool {
	length := l.length
	if length == 0 {
		length = r.cfg.Lease
	}
	for {
		d := time.Until(l.learned.Add(clock.Stretched(length)))
		if d <= 0 {
			return true
		}
		if !l.virtual {
			passed, wait := r.clock.PassedBy(l.end)
			if passed {
				return true
			}
			d = min(d, wait)
		}
		select {
		case <-time.After(d):
		case <-told:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

func (r *Replica) attempting(attempt uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lead.attempt == attempt && r.lead.next == 0
}

// lockPrepared takes the write locks of all prepared transactions that have
// none here: those of earlier terms. Their read locks are gone; that is what the upper bound of a vote is for.
func (r *Replica) lockPrepared() error {
	rd := r.store.NewReader()
	defer rd.Close()
	for id, v := range r.rep.prepared {
		if r.txns[id] != nil {
			continue
		}
		x := &txnState{id: id, age: id.Start(), phase: prepared, ordered: v.Ordered, ts: base.Timestamp(v.Lo), since: time.Now(), last: time.Now()}
		for _, w := range v.Writes {
			spans, err := r.writeSpans(rd, w)
			if err != nil {
				return err
			}
			x.keys = append(x.keys, w.Key)
			if !spans.IsPoint() {
				x.handover = append(x.handover, spans)
			}
			if v.Slot != 0 {
				if w.Patch != nil {
					r.slots[x], x.patches = struct{}{}, patchesOf(v.Writes)
				}
				if out, _, _, err := r.locks.Acquire(lock.Request{Txn: id, Age: x.age, Span: inCRTTier(spans), Mode: lock.Exclusive}); err != nil || out != lock.Granted {
					return base.Errorf(base.CodeCorrupt, "prepared cross-region transactions of group %v write %v both (%v)", r.id, spans, err)
				}
			}
			if w.Patch != nil {
				continue // others may have voted for other versions of the row
			}
			// They cannot conflict: votes were cast under these locks.
			out, _, _, err := r.locks.Acquire(lock.Request{Txn: id, Age: x.age, Span: spans, Mode: lock.Exclusive})
			if err != nil {
				return err
			}
			if out != lock.Granted {
				return base.Errorf(base.CodeCorrupt, "prepared transactions of group %v write %v both", r.id, spans)
			}
		}
		x.sortKeys()
		r.locks.Ending(id, true)
		r.txns[id] = x
		if len(x.keys) > 0 {
			r.pending[x] = struct{}{}
		}
	}
	return nil
}

// Stopped implements group.StateMachine.
func (r *Replica) Stopped(term uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lead.term == term {
		if h := r.lead.handing; h != nil && h.index != 0 && r.lead.serving {
			r.leaveTo(h)
		}
		r.endHanding()
		r.lead = leadership{}
		r.stopLocked(r.notLeader())
	}
}

// stopLocked drops everything that lives only as long as the leadership. What is prepared is in rep.
func (r *Replica) stopLocked(err error) {
	r.failWaits(err)
	for _, x := range r.txns {
		r.end(x)
	}
	r.forget()
	r.lead.serving = false
	r.wake()
}

func (r *Replica) failWaits(err error) {
	for _, x := range r.txns {
		for _, w := range x.waits {
			w.finish(err)
		}
		x.waits = nil
	}
}

func (r *Replica) forget() {
	r.locks = lock.New(r.cfg.Limits)
	r.txns = map[base.TxnID]*txnState{}
	r.pending = map[*txnState]struct{}{}
	r.slots = map[*txnState]struct{}{}
	r.notices = map[base.TxnID]*notices{}
	if r.byTime() {
		r.order = newTSCache(r.cfg.NoMarks, func() int { return eraRoom(r.set.groups()) })
	}
	r.finished = map[base.TxnID]base.Timestamp{}
}

// command starts a log entry: with the closed timestamp and what the proposer
// has applied of the other groups. ts is the commit timestamp that the entry
// assigns, or 0. propMu and mu are held; the command must be proposed before propMu is released.
func (r *Replica) command(ts base.Timestamp) *wire.Command {
	c := &wire.Command{Ts: uint64(ts)}
	l := &r.lead
	// Commits in flight lie before this entry in the log, so only undecided votes hold the closed
	// timestamp back (I6).
	closed := max(ts, l.floor)
	if r.order != nil {
		closed = l.told // commits may still come below others
	}
	for x := range r.pending {
		if x.phase >= preparing {
			closed = min(closed, x.ts.Prev())
		}
	}
	if l.leaseEnd == 0 || !l.serving {
		closed = l.told
	} else {
		closed = min(closed, l.leaseEnd.Prev())
	}
	l.told = max(l.told, closed)
	c.Closed = uint64(max(l.told, r.rep.closed))
	for i, sib := range r.set.siblings(r.shard) {
		if sib != nil && sib != r {
			if v := sib.applied.Load(); v > l.vector[i] {
				l.vector[i] = v
				c.Vector = append(c.Vector, &wire.GroupIndex{Region: uint32(i), Index: v})
			}
		}
	}
	return c
}

// addLease puts a lease into a command if it is time for a new one.
func (r *Replica) addLease(c *wire.Command) bool {
	l := &r.lead
	now := time.Now()
	virtual := r.clock.Virtual()
	from := max(r.clock.LatestAt(now), l.low)
	if virtual { // it may just have begun
		from = max(from, l.floor)
	}
	end := max(from.Add(r.cfg.Lease), r.rep.leases[r.cfg.Self].end)
	if r.rep.bequest.heir == r.cfg.Self { // the new one supersedes it
		end = max(end, r.rep.bequest.end)
	}
	// The monotonic clock decides too: the other one may stand, or have been set.
	if due := !now.Add(r.cfg.Lease - r.cfg.LeaseRenew).Before(l.askedUntil); l.next != 0 || end.Sub(l.asked) < r.cfg.LeaseRenew && !(l.asked != 0 && due) {
		return false
	}
	if end <= l.asked {
		end = l.asked.Next()
	}
	// A little earlier than its length, should this clock run slow.
	until := now.Add(2*r.cfg.Lease - clock.Stretched(r.cfg.Lease))
	l.asked, l.askedUntil = end, until
	if len(l.asks) >= maxAsks {
		l.asks = slices.Delete(l.asks, 0, 1)
	}
	l.asks = append(l.asks, ask{end, until})
	c.Ended = l.ended
	c.Lease = &wire.Lease{Holder: uint32(r.cfg.Self), End: uint64(end), LengthNs: uint64(r.cfg.Lease), Virtual: virtual}
	return true
}

// renew proposes a lease if it is due and no commit carried one.
func (r *Replica) renew() {
	r.propMu.Lock()
	defer r.propMu.Unlock()
	r.mu.Lock()
	l := &r.lead
	if !l.serving {
		r.mu.Unlock()
		return
	}
	c := r.command(0)
	if !r.addLease(c) {
		// Nothing was proposed: the vector is not in the log.
		for _, v := range c.Vector {
			l.vector[v.Region] = 0
		}
		r.mu.Unlock()
		return
	}
	term := l.term
	r.mu.Unlock()
	r.group.ProposeAsync(c, term, func(_ any, _ uint64, err error) { r.leaseFailed(term, err) })
}

// leaseFailed lets the next tick try again, if a command with a lease may have been dropped.
func (r *Replica) leaseFailed(term uint64, err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lead.term == term {
		r.lead.asked, r.lead.askedUntil = 0, time.Time{}
		r.lead.vector = [16]uint64{}
	}
}

// promise raises the closed timestamp to at most want and returns what holds as
// of the applied index: nothing undecided, and nothing in flight, lies at or below it. What a command in
// flight carries as closed (told) may be higher, since it counts only with that command's own index;
// telling it together with the applied index would hide the very commit in flight (PROTOCOLS A3). mu is held.
func (r *Replica) promise(want base.Timestamp) base.Timestamp {
	l := &r.lead
	want = min(want, l.leaseEnd.Prev())
	l.floor = max(l.floor, want)
	applied := r.applied.Load()
	for x := range r.pending {
		if x.index == 0 || x.index > applied { // else it is visible, and only its commit wait goes on: who reads it does the same
			want = min(want, x.ts.Prev())
		}
	}
	l.told = max(l.told, want)
	r.closeTo(uint64(want))
	return r.Closed()
}

// closeTo raises the closed timestamp; mu is held.
func (r *Replica) closeTo(c uint64) {
	if c <= r.closed.Load() {
		return
	}
	r.closed.Store(c)
	if r.waiting > 0 {
		r.wake()
	}
	r.set.closedRose()
}

// Lead is this leader's word for the pulses; nil if it does not serve under a valid lease.
func (r *Replica) Lead() *wire.GroupLead {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ready(true, 0) {
		r.leadNs.Store(0)
		return nil
	}
	if r.cfg.QuorumRTT != nil {
		r.delay.most = r.cfg.QuorumRTT(r.id)
	}
	r.leadNs.Store(int64(r.ahead()))
	now := r.clock.Latest()
	if r.id == base.MetaGroup && !r.cfg.Alone() {
		now = now.Add(r.cfg.Ahead())
	}
	if r.order != nil && r.id != base.MetaGroup { // who commits under a schema needs what is closed to lie ahead
		now = now.Add(-r.cfg.ClosedLag)
	}
	closed := r.promise(now)
	return &wire.GroupLead{
		Group: uint32(r.id), Term: r.lead.term, Index: r.applied.Load(),
		Closed: uint64(closed), LeaseEnd: uint64(r.lead.leaseEnd), Settled: uint64(r.settled()), Incarnation: r.incarnation,
	}
}

// settled: every attempt that began before it is decided here for good: it is
// neither prepared, nor can it still be (RecordAge).
func (r *Replica) settled() base.Timestamp {
	t := r.rep.horizon()
	for id := range r.rep.prepared {
		t = min(t, id.Start())
	}
	return t
}

// OnLead takes a leader's word that came by pulse.
func (r *Replica) OnLead(l *wire.GroupLead) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := base.Timestamp(l.Closed)
	if uint64(c) <= r.closed.Load() {
		return
	}
	if l.Index <= r.applied.Load() {
		r.heardClosed(c)
		r.closeTo(uint64(c))
		return
	}
	if len(r.pulses) == maxPulses {
		r.pulses = append(r.pulses[:maxPulses/2], r.pulses[maxPulses/2+1:]...)
	}
	r.pulses = append(r.pulses, pulse{l.Index, c})
}

// Closed is the timestamp at or below which this replica will see no further
// commit of its group: reads at it can be served here.
func (r *Replica) Closed() base.Timestamp {
	c := base.Timestamp(r.closed.Load())
	if r.async() && r.cfg.Held.Away(r.id) {
		_, cut := r.cfg.Held.HeldOf(r.id)
		c = min(c, cut) // I14
	}
	return c
}

// EnsureClosed waits until Closed is at least ts. The leader promises it at
// once, as far as its lease reaches; another replica waits for its leader's word.
func (r *Replica) EnsureClosed(ctx context.Context, ts base.Timestamp) error {
	if r.Closed() >= ts {
		return nil
	}
	if err := r.clock.Within(ts, maxAhead); err != nil {
		return err
	}
	return r.await(ctx, r.cfg.EnterTimeout, func() bool {
		if r.ready(true, ts) {
			r.promise(ts)
		}
		return r.Closed() >= ts
	}, "group %v: nothing heard in time that closes %s at node %d", r.id, ts, r.cfg.Self)
}

// closeNow is EnsureClosed where that takes no wait.
func (r *Replica) closeNow(ts base.Timestamp) bool {
	if r.Closed() >= ts {
		return true
	}
	if r.clock.Within(ts, maxAhead) != nil {
		return false
	}
	r.mu.Lock()
	if r.ready(true, ts) {
		r.promise(ts)
	}
	r.mu.Unlock()
	return r.Closed() >= ts
}

// Serving reports whether this replica is the owner now, and its term.
func (r *Replica) Serving() (term uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lead.term, r.ready(true, 0)
}
