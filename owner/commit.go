package owner

import (
	"context"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/clock"
	"github.com/godwitdb/godwit/lock"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/store"
	"github.com/godwitdb/godwit/wire"
)

// Commit serves a one-round commit or a Prepare. The request belongs to the
// replica from now on, unless the answer is an error of which nothing was proposed.
//
// Codes: CodeTooLate: nothing was done, the locks are kept, try again with another bound. CodeWrongOwner: other groups own
// the keys in Foreign; nothing was done, locks are kept. CodeExists, CodeAborted: the
// transaction is over here. CodeNotLeader, CodeUnavailable, CodeOverloaded: nothing was done.
// CodeAmbiguous, CodeCanceled: ask Resolve.
func (r *Replica) Commit(ctx context.Context, q *wire.CommitRequest) *wire.CommitResponse {
	return r.commitFor(ctx, r.cfg.Self, q)
}

// commitFor is Commit on behalf of a client of another node.
func (r *Replica) commitFor(ctx context.Context, from base.NodeID, q *wire.CommitRequest) *wire.CommitResponse {
	var key base.Key
	if len(q.Writes) > 0 {
		key = q.Writes[0].Key
	} else if len(q.Reads) > 0 {
		key = q.Reads[0].Start
	}
	r.asked(from, q.Txn, true, key)
	resp := &wire.CommitResponse{}
	err := r.commit(ctx, q, resp)
	for h := r.handingOf(err); h != nil; h = r.handingOf(err) {
		var passed *wire.CommitResponse
		if passed, err = helped[wire.CommitResponse](ctx, r, h, wire.KindCommit, q, false); passed != nil {
			return passed
		}
		if err == nil {
			resp = &wire.CommitResponse{}
			err = r.commit(ctx, q, resp)
		}
	}
	if err != nil {
		r.stats.Errors.Add(1)
		resp.Ts, resp.Hi = 0, 0
		resp.Status = statusOf(err)
	} else if q.Prepare {
		r.stats.Prepares.Add(1)
	} else {
		r.stats.Commits.Add(1)
	}
	resp.Now = uint64(r.clock.Latest())
	return resp
}

func (r *Replica) commit(ctx context.Context, q *wire.CommitRequest, resp *wire.CommitResponse) error {
	if err := r.checkWrites(q); err != nil {
		return err
	}
	if q.MinTs != 0 {
		if err := r.clock.Observe(base.Timestamp(q.MinTs)); err != nil {
			return err
		}
	}
	if m, _ := r.clock.Mode(); m != clock.GClock && !q.Begun && !q.Ordered {
		if err := r.begin(ctx, q); err != nil {
			return err
		}
	}
	if len(q.Need) > 0 {
		if err := r.waitVector(ctx, q.Need); err != nil {
			return err
		}
	}
	if err := r.enter(ctx, q.Prepare || q.Ordered, base.Timestamp(q.Slot)); err != nil {
		return err
	}
	term := r.lead.term
	x, err := r.admit(q.Txn, q.LockTerm)
	if err == nil {
		x.voting, x.ordered = q.Prepare, q.Ordered
	}
	r.mu.Unlock()
	if err != nil {
		return err
	}
	ev := evaluation{r: r, q: q, term: term}
	came := time.Now()
	var done chan proposed
	if q.Ordered {
		done, err = r.proposeOrdered(ctx, x, term, &ev)
	} else if q.Slot != 0 {
		done, err = r.proposeSlot(ctx, x, term, &ev)
		resp.WaitedNs = uint64(time.Since(came))
	} else {
		done, err = r.proposeLocked(ctx, x, term, &ev)
	}
	if err != nil {
		r.mu.Lock()
		r.leave(x)
		switch base.CodeOf(err) {
		case base.CodeExists, base.CodeAborted, base.CodeInvalid:
			if x.phase == active {
				r.release(x, true)
			}
		case base.CodeWrongOwner:
			resp.Foreign = ev.foreign
		}
		if code := base.CodeOf(err); q.Slot != 0 && !q.Ordered && x.phase == active && (code == base.CodeTooLate || code == base.CodeWrongOwner) {
			r.release(x, true) // it comes again under another name
			resp.NeedTs = uint64(ev.least)
		}
		if q.Ordered { // a vote is tried again under another name
			resp.NeedTs = uint64(ev.least)
			if code := base.CodeOf(err); x.phase == active && (q.Prepare || x.early || code != base.CodeTooLate && code != base.CodeWrongOwner) {
				r.release(x, true)
			}
		}
		r.mu.Unlock()
		return err
	}
	r.group.Push()
	select {
	case p := <-done:
		return r.complete(ctx, x, &ev, p, resp)
	case <-ctx.Done():
		go func() {
			ctx, cancel := r.life()
			defer cancel()
			_ = r.complete(ctx, x, &ev, <-done, &wire.CommitResponse{})
		}()
		return base.Errorf(base.CodeAmbiguous, "group %v: %v while transaction %v was being logged; it may still commit", r.id, context.Cause(ctx), x.id)
	}
}

// errNotBegun: the timestamp that would be assigned may lie below that of a commit acknowledged before the
// transaction began. Nothing was done.
var errNotBegun = base.Errorf(base.CodeUnavailable, "the clock mode has changed: retry")

// begin makes the commit lie above everything acknowledged before it, where the clock alone does not.
func (r *Replica) begin(ctx context.Context, q *wire.CommitRequest) error {
	ts, err := r.clock.Snapshot(ctx)
	if err != nil {
		return err
	}
	q.MinTs, q.Begun = max(q.MinTs, uint64(ts)), true
	return nil
}

func (r *Replica) checkWrites(q *wire.CommitRequest) error {
	if len(q.Writes) > r.cfg.MaxWrites {
		return base.Errorf(base.CodeInvalid, "a transaction writes at most %d keys of one group, not %d: commit in smaller pieces", r.cfg.MaxWrites, len(q.Writes))
	}
	if len(q.Writes) == 0 && !q.Prepare {
		return base.Errorf(base.CodeInvalid, "a one-round commit needs a write; use Finish to release locks")
	}
	if q.Ordered && !r.byTime() {
		return base.Errorf(base.CodeInvalid, "group %v does not order by timestamps", r.id)
	}
	if q.Slot != 0 && !q.Prepare && !q.Ordered {
		return base.Errorf(base.CodeInvalid, "a commit of one group has no slot")
	}
	if len(q.Reads) > 0 {
		if err := r.checkSpans(q.Reads); err != nil {
			return err
		}
	}
	if q.Prepare && !slices.Contains(q.Participants, uint32(r.id)) {
		return base.Errorf(base.CodeInvalid, "group %v is not among the participants of the transaction it shall prepare", r.id)
	}
	for _, w := range q.Writes {
		if k := base.Key(w.Key); len(k) < base.ShardPrefixLen || k.Shard() != r.shard {
			return base.Errorf(base.CodeInvalid, "key %v is not in the shard of group %v", k, r.id)
		}
		if w.Home > 15 || w.Move > 15 {
			return base.Errorf(base.CodeInvalid, "home region %d is not one of 1 to %d", max(w.Home, w.Move), base.MaxRegions)
		}
	}
	slices.SortFunc(q.Writes, func(a, b *wire.Write) int { return base.Key(a.Key).Compare(b.Key) })
	for i := 1; i < len(q.Writes); i++ {
		if string(q.Writes[i].Key) == string(q.Writes[i-1].Key) {
			return base.Errorf(base.CodeInvalid, "key %v is written twice in one transaction", base.Key(q.Writes[i].Key))
		}
	}
	return nil
}

// evaluation is what the owner finds out about the writes of a commit, under
// their locks: who owns them, whether inserted keys are absent, and the labels to log.
type evaluation struct {
	r        *Replica
	q        *wire.CommitRequest
	writes   []*wire.Write // those to be logged: deletes of absent keys are dropped
	handover []base.Span
	since    base.Timestamp // commit above this (C2)
	came     came
	foreign  []*wire.Foreign
	need     []*wire.GroupIndex // to be applied here before what was found counts
	counted  bool               // the policy has been told
	moves    uint32             // rows that it then set off
	own      []seenKey          // for Config.Serves: the keys written
	spoils   *txnState          // with errSpoils: whose patch it would leave undefined

	term     uint64
	ts, hi   base.Timestamp
	least    base.Timestamp // with CodeTooLate of an ordered commit: the least timestamp that would do
	told     chan error     // the word of the region's timestamp manager; nil: none is needed
	proposed time.Time
}

func (e *evaluation) run(ctx context.Context, x *txnState, term uint64) error {
	if len(e.q.Writes) == 0 {
		return e.runReads(ctx, x, term)
	}
	spans := make([]base.Span, len(e.q.Writes))
	for i, w := range e.q.Writes {
		spans[i] = base.Span{Start: w.Key}
	}
	if _, err := e.r.lock(ctx, x, term, lock.Exclusive, spans...); err != nil {
		return err
	}
	if patched := patchedSpans(e.q.Writes); len(patched) > 0 {
		// It relies on what the rows are before slots ahead.
		e.r.mu.Lock()
		_, err := e.r.underSlots(ctx, x, term, lock.Shared, patched)
		e.r.mu.Unlock()
		if err != nil {
			return err
		}
	}
	for {
		e.came = came{}
		e.came.begin(e.r)
		// The view is newer than every lock held, so what it says stays true until they are released.
		gaps, soft, err := e.look(x)
		if len(e.need) > 0 {
			if err := e.r.waitVector(ctx, e.need); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if len(gaps) == 0 && len(soft) == 0 {
			if err := e.runReads(ctx, x, term); err != nil {
				return err
			}
			return e.came.settled(ctx, e.r)
		}
		if len(gaps) > 0 {
			if _, err := e.r.lock(ctx, x, term, lock.Exclusive, gaps...); err != nil {
				return err
			}
		}
		for w, gap := range soft {
			ok, err := e.r.tryLock(x, term, gap)
			if err != nil {
				return err
			}
			if !ok {
				w.Move = 0 // not worth a wait: somebody works in the gap behind the row
			}
		}
	}
}

// look evaluates all writes on one view; gaps are locks that are missing, soft
// those of moves that can be left out. What the transaction has seen under its locks is not looked up again.
func (e *evaluation) look(x *txnState) (gaps []base.Span, soft map[*wire.Write]base.Span, err error) {
	r := e.r
	r.mu.Lock()
	seen := x.seen
	r.mu.Unlock()
	var rd *store.Reader // opened when first needed
	view := func() *store.Reader {
		if rd == nil {
			rd = r.store.NewPointReader()
		}
		return rd
	}
	defer func() {
		if rd != nil {
			rd.Close()
		}
	}()
	e.writes, e.foreign, e.need, e.handover, e.since, e.own = e.q.Writes[:0:0], nil, nil, nil, 0, nil
	var exists base.Key
	var movers []*wire.Write // as handover: whose gaps those are, if they can be left out
	for _, w := range e.q.Writes {
		if !e.q.Ordered && (w.Kind == wire.WriteKind_PUT || w.Kind == wire.WriteKind_DELETE) && w.Pin == wire.Pin_KEEP && w.Patch == nil && r.ownsSection(w.Key) {
			// Whether the key is there changes neither its owner nor its label.
			w.Label, w.Move = uint64(base.MakeLabel(r.region, 0, 0)), 0
			e.writes = append(e.writes, w)
			continue
		}
		p, known := recall(seen, w.Key)
		if !known || w.Kind == wire.WriteKind_MOVE || w.Patch != nil { // those log the value
			if p, err = locate(view(), w.Key); err != nil {
				return nil, nil, err
			}
		}
		if p.owner != r.id {
			e.foreign = append(e.foreign, p.foreign(w.Key))
			continue
		}
		if !p.found {
			e.need = append(e.need, r.missing(p.writer)...)
		}
		e.since = max(e.since, p.since)
		e.came.note(r, p.writer, p.since)
		if r.cfg.Serves != nil {
			e.own = append(e.own, seenKey{key: w.Key, place: p})
		}
		there := p.found && !p.v.Tombstone
		if w.Kind == wire.WriteKind_INSERT && there && exists == nil {
			exists = w.Key
		}
		if there && !e.counted {
			e.blind(x, w, &p)
		}
		out := e.logged(x, w, &p, there)
		if out == nil {
			continue
		}
		if w.Patch != nil && len(e.need) == 0 && len(e.foreign) == 0 {
			if out, err = e.patched(w, &p, there); err != nil {
				return nil, nil, err
			}
		}
		e.writes = append(e.writes, out)
		if !r.handsOver(out) {
			continue
		}
		s, err := r.writeSpans(view(), out)
		if err != nil {
			return nil, nil, err
		}
		e.handover = append(e.handover, s)
		if out.Move == 0 || !w.Soft {
			w = nil
		}
		movers = append(movers, w)
	}
	e.counted = true
	if len(e.foreign) > 0 {
		return nil, nil, base.Errorf(base.CodeWrongOwner, "group %v does not own %d of the keys", r.id, len(e.foreign))
	}
	if exists != nil {
		err := base.Errorf(base.CodeExists, "key %v exists", exists)
		err.Key = exists.Clone()
		return nil, nil, err
	}
	if len(e.handover) > 0 {
		r.mu.Lock()
		for i, s := range e.handover {
			switch {
			case e.holds(x, s):
			case movers[i] != nil:
				if soft == nil {
					soft = map[*wire.Write]base.Span{}
				}
				soft[movers[i]] = s
			default:
				gaps = append(gaps, s)
			}
		}
		r.mu.Unlock()
	}
	return gaps, soft, nil
}

// label is the home label of the row's next version, without its writer. A row
// keeps its home unless the write moves it; a new row, also one in the place of a tombstone, gets that of the write.
func (e *evaluation) label(w *wire.Write, p *place, there bool) (l base.Label, moved bool) {
	if e.r.shard == base.MetaShard {
		return 0, false
	}
	old := p.v.Label.WithWriter(0, 0).WithInTransit(false)
	if there {
		if w.Pin != wire.Pin_KEEP {
			old = old.WithPinned(w.Pin == wire.Pin_PIN)
		}
		if to := base.RegionID(w.Move); to != 0 && to != old.Home() && !e.r.ownsSection(w.Key) {
			return old.WithHome(to), true
		}
		return old, false
	}
	home := base.RegionID(w.Home)
	if e.r.ownsSection(w.Key) {
		home = e.r.region
	}
	if home == 0 {
		home = base.RegionID(e.q.Txn.GatewayRegion)
	}
	if home == 0 {
		home = e.r.region
	}
	switch {
	case !p.found:
		return base.MakeLabel(home, 0, 0), false
	case home != old.Home():
		return old.WithHome(home).WithPinned(false), false
	}
	return old.WithPinned(false), false
}

// proposed is what became of a command.
type proposed struct {
	out   outcome
	index uint64
	err   error
}

// propose assigns the timestamp and hands the command to the group, in one
// order (I2): what is assigned later is higher and lies behind it in the log. The caller pushes the group.
func (r *Replica) propose(x *txnState, term uint64, e *evaluation) (chan proposed, error) {
	q := e.q
	r.propMu.Lock()
	defer r.propMu.Unlock()
	r.mu.Lock()
	if !r.current(x, term) {
		defer r.mu.Unlock()
		return nil, r.lost(x, term)
	}
	l := &r.lead
	if err := r.mayPropose(term); err != nil {
		r.mu.Unlock()
		return nil, err
	}
	// A delete of an absent key logs nothing, but its transaction is a writer all
	// the same: its timestamp must not lie before it began.
	if len(q.Writes) > 0 || !q.Prepare {
		now, whole := r.clock.Assign()
		if !whole && !q.Begun {
			r.mu.Unlock()
			return nil, errNotBegun
		}
		e.ts = max(now, l.floor.Next(), r.rep.lastTS.Next(), base.Timestamp(q.MinTs).Next(), e.since.Next())
		if r.order != nil {
			e.ts = max(e.ts, r.order.high.Next())
		}
		// Ahead of now by the time that replication takes (A4), unless that were too late: it is only a matter of speed.
		if ahead := now.Add(r.ahead()); ahead > e.ts && (q.MaxTs == 0 || ahead < base.Timestamp(q.MaxTs)) && (x.bound.below == 0 || ahead < x.bound.below) {
			e.ts = ahead
		}
	} else {
		// Only read here: the locks make the reads true at any time above what was read (B7).
		e.ts = base.Timestamp(q.MinTs).Next()
	}
	e.hi = base.Timestamp(q.MaxTs)
	if e.spoils = r.spoiled(x, e); e.spoils != nil {
		r.mu.Unlock()
		return nil, errSpoils
	}
	if b := x.bound.below; b != 0 && (e.hi == 0 || b < e.hi) {
		if e.ts >= b && !q.Prepare {
			r.mu.Unlock()
			return nil, errBound
		}
		e.hi = b
	}
	if q.Prepare && (e.hi == 0 || e.hi > l.leaseEnd) {
		e.hi = l.leaseEnd
	}
	if e.hi != 0 && e.ts >= e.hi {
		r.mu.Unlock()
		return nil, base.Errorf(base.CodeTooLate, "group %v: transaction %v must commit below %s, the clock is at %s", r.id, x.id, e.hi, e.ts)
	}
	x.ts, x.hi, x.handover = e.ts, e.hi, e.handover
	e.proposed = time.Now()
	x.keys = make([]base.Key, len(e.writes))
	for i, w := range e.writes {
		x.keys[i] = w.Key
	}
	r.locks.Ending(x.id, true)
	var cmd *wire.Command
	if q.Prepare {
		x.phase = preparing
		if len(x.keys) > 0 {
			l.floor = e.ts
			r.pending[x] = struct{}{}
		}
		cmd = r.command(0)
		cmd.Prepare = &wire.Vote{Txn: x.id[:], Lo: uint64(e.ts), Hi: uint64(e.hi), Participants: q.Participants,
			Writes: e.writes, GatewayRegion: q.Txn.GatewayRegion, Depends: q.MinTs}
	} else {
		x.phase = committing
		l.floor = e.ts
		r.pending[x] = struct{}{}
		cmd = r.command(e.ts)
		cmd.Commit = &wire.TxnCommit{Txn: x.id[:], Writes: e.writes}
	}
	leased := r.addLease(cmd)
	r.mu.Unlock()
	if r.cfg.Alone() && r.shard != base.MetaShard {
		// Without commit wait this is what makes later readings of the clock higher. Commits of the meta group
		// lie ahead of now and wait: a clock that followed them would run away, each pushing the next one further.
		_ = r.clock.Observe(e.ts)
	}
	done := r.enqueue(cmd, term, leased)
	r.clock.Settling(e.ts)
	return done, nil
}

// errBound says that a commit has come past the slots that bound it.
var errBound = base.Errorf(base.CodeAborted, "past a slot")

// proposeBounded proposes, unless a slot that bounds the transaction has passed and its transaction has committed.
func (r *Replica) proposeBounded(ctx context.Context, x *txnState, term uint64, e *evaluation) (chan proposed, error) {
	for {
		done, err := r.propose(x, term, e)
		if err != errBound {
			return done, err
		}
		r.mu.Lock()
		err = r.keepBound(ctx, x, e.ts)
		r.mu.Unlock()
		if err != nil {
			return nil, err
		}
	}
}

// proposeLocked takes the locks of a commit, evaluates it and proposes it.
func (r *Replica) proposeLocked(ctx context.Context, x *txnState, term uint64, e *evaluation) (chan proposed, error) {
	for {
		if err := e.run(ctx, x, term); err != nil {
			return nil, err
		}
		done, err := r.proposeBounded(ctx, x, term, e)
		if err == errNotBegun { // the mode has changed
			if err = r.begin(ctx, e.q); err == nil {
				done, err = r.proposeBounded(ctx, x, term, e)
			}
		}
		if err != errSpoils {
			return done, err
		}
		if x.policy == lock.NoWait {
			return nil, base.Errorf(base.CodeAborted, "transaction %v met an update on its way, over which it may not write: retry", x.id)
		}
		r.mu.Lock()
		r.stats.PatchWaits.Add(1)
		err = r.awaitEnd(ctx, e.spoils)
		r.mu.Unlock()
		if err != nil {
			return nil, err
		}
	}
}

// proposeSlot evaluates and proposes a vote for a slot.
func (r *Replica) proposeSlot(ctx context.Context, x *txnState, term uint64, e *evaluation) (chan proposed, error) {
	if err := e.runSlot(ctx, x, term); err != nil {
		return nil, err
	}
	q := e.q
	slot := base.Timestamp(q.Slot)
	r.propMu.Lock()
	defer r.propMu.Unlock()
	r.mu.Lock()
	for {
		if !r.current(x, term) {
			defer r.mu.Unlock()
			return nil, r.lost(x, term)
		}
		l := &r.lead
		if err := r.mayPropose(term); err != nil {
			r.mu.Unlock()
			return nil, err
		}
		if now := max(r.clock.Latest(), l.floor, l.told, r.rep.lastTS, e.since, base.Timestamp(q.MinTs)); slot <= now || slot.Next() > l.leaseEnd {
			e.least = now.Next()
			r.mu.Unlock()
			return nil, base.Errorf(base.CodeTooLate, "group %v: the slot %s of transaction %v is past, or behind the lease: it is %s", r.id, slot, x.id, now)
		}
		busy := r.boundOthers(x, e.writes, e.handover, slot)
		if busy == nil {
			break
		}
		r.propMu.Unlock()
		wait, cancel := context.WithTimeout(ctx, slot.Sub(r.clock.Latest()))
		err := r.awaitEnd(wait, busy)
		cancel()
		if err != nil && ctx.Err() == nil {
			err = nil // too late, says the next look
		}
		r.mu.Unlock()
		r.propMu.Lock()
		r.mu.Lock()
		if err != nil {
			r.mu.Unlock()
			return nil, err
		}
	}
	e.ts, e.hi = slot, slot.Next()
	x.ts, x.hi, x.handover = e.ts, e.hi, e.handover
	x.keys = make([]base.Key, len(e.writes))
	for i, w := range e.writes {
		x.keys[i] = w.Key
	}
	r.locks.Ending(x.id, true)
	x.phase = preparing
	x.patches = patchesOf(e.writes)
	r.pending[x], r.slots[x] = struct{}{}, struct{}{}
	r.unlockPatched(x, q.Writes)
	cmd := r.command(0)
	cmd.Prepare = &wire.Vote{Txn: x.id[:], Lo: uint64(e.ts), Hi: uint64(e.hi), Slot: q.Slot, Participants: q.Participants,
		Writes: e.writes, GatewayRegion: q.Txn.GatewayRegion, Depends: q.MinTs}
	leased := r.addLease(cmd)
	r.mu.Unlock()
	done := r.enqueue(cmd, term, leased)
	r.clock.Settling(e.ts)
	if len(q.Reads) > 0 {
		r.set.spawn(func(ctx context.Context) { r.endBarrier(ctx, x, term, q) })
	}
	return done, nil
}

// enqueue hands a command to the group; propMu is held. The caller pushes the group.
func (r *Replica) enqueue(cmd *wire.Command, term uint64, leased bool) chan proposed {
	done := make(chan proposed, 1)
	r.group.Enqueue(cmd, term, func(res any, index uint64, err error) {
		p := proposed{index: index, err: err}
		if err == nil {
			p.out, _ = res.(outcome)
		} else if leased || len(cmd.Vector) > 0 {
			r.leaseFailed(term, err)
		}
		done <- p
	})
	return done
}

// entryOverhead is what a command holds beside its writes, about: transaction, timestamps, raft's own fields.
const entryOverhead = 64

// NoteCost adds what an owner says of a commit to the trace of who asked for it.
func NoteCost(ctx context.Context, resp *wire.CommitResponse) {
	t := obs.TraceOf(ctx)
	t.AddHops(int(resp.Hops))
	t.AddBytes(int(resp.Copies), int(resp.Copies*resp.Bytes))
}

// complete ends a proposal: it releases a committed transaction once true time
// has passed its timestamp (commit wait, I5), and keeps a prepared one.
func (r *Replica) complete(ctx context.Context, x *txnState, e *evaluation, p proposed, resp *wire.CommitResponse) error {
	switch {
	case p.err != nil && base.CodeOf(p.err) == base.CodeAmbiguous:
		// The leadership is lost, and with it all that is known of x here.
		return p.err
	case p.err != nil:
		r.mu.Lock()
		defer r.mu.Unlock()
		if x.phase != prepared {
			r.unpend(x)
		}
		r.leave(x)
		return p.err
	case p.out.state == wire.TxnState_ABORTED:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.release(x, true)
		return base.Errorf(base.CodeAborted, "transaction %v was refused in group %v: it took too long and was resolved by others, or is older than %s", x.id, r.id, RecordAge)
	case e.q.Prepare:
		r.mu.Lock()
		r.delay.took(time.Since(e.proposed))
		if x.phase == preparing {
			x.phase, x.since = prepared, time.Now()
		}
		r.leave(x)
		r.mu.Unlock()
		resp.Moves = r.untaken(x, e.writes) // the mover comes after the decision: it waits for the row
		if err := r.voteHeld(ctx, e.q.Participants, p.index, base.Timestamp(e.q.MinTs)); err != nil {
			return err
		}
		if e.q.Ordered {
			if err := e.awaitTold(ctx); err != nil {
				return err
			}
		} else if e.q.Slot != 0 {
			r.tellVote(e.q)
			r.decideByVotes(x.id)
		} else if m, _ := r.clock.Mode(); m != clock.GClock && m != clock.None && len(x.keys) > 0 {
			// The trip to the oracle began with the proposal: the coordinator need not make it once more.
			_ = r.commitWait(ctx, e.ts)
			resp.Oracle = uint64(r.clock.Known())
		}
	default:
		r.served(WriteService, e.term, e.ts, e.own)
		defer func() { resp.Moves += r.untaken(x, e.writes) }()
		r.mu.Lock()
		r.delay.took(time.Since(e.proposed))
		// It lies before the applied index: it need not hold back what is closed as of that index.
		x.index = p.index
		if r.waiting > 0 {
			r.wake()
		}
		r.mu.Unlock()
		if e.q.Ordered {
			r.mu.Lock()
			r.release(x, false)
			r.mu.Unlock()
			if err := e.awaitTold(ctx); err != nil {
				return err
			}
		} else if err := r.commitWait(ctx, e.ts); err != nil {
			go r.settleLate(x, e.ts)
			return base.Errorf(base.CodeAmbiguous, "group %v: transaction %v is logged at %s, but nobody may be told yet: %v", r.id, x.id, e.ts, err)
		}
		resp.Index = p.index
		r.mu.Lock()
		r.release(x, false)
		r.mu.Unlock()
	}
	for _, w := range e.writes {
		if w.Move != 0 {
			resp.Moved = append(resp.Moved, w.Key)
		}
	}
	resp.Moves += e.moves
	resp.Ts, resp.Hi = uint64(e.ts), uint64(e.hi)
	resp.Hops = uint32(max(r.group.Hops(), r.clock.Hops()))
	if e.q.Prepare && r.mixed(e.q.Participants) {
		resp.Hops += 2 // to another region, and its word back
	}
	if resp.Copies = uint32(r.group.FarCopies()); resp.Copies > 0 {
		for _, w := range e.writes {
			resp.Bytes += uint32(w.SizeVT() + 3)
		}
		resp.Bytes += entryOverhead
	}
	return nil
}

// settleLate ends a commit whose client no longer waits.
func (r *Replica) settleLate(x *txnState, ts base.Timestamp) {
	ctx, cancel := r.life()
	defer cancel()
	if r.commitWait(ctx, ts) == nil {
		r.mu.Lock()
		r.release(x, false)
		r.mu.Unlock()
	}
}

// unpend takes back that x was proposed, because it certainly was not; mu is held.
func (r *Replica) unpend(x *txnState) {
	x.phase, x.keys, x.handover, x.patches, x.ts, x.hi = active, nil, nil, nil, 0, 0
	delete(r.pending, x)
	delete(r.slots, x)
	r.locks.Ending(x.id, false)
	if x.gone != nil && !x.ended {
		close(x.gone)
		x.gone = nil
	}
	if r.waiting > 0 {
		r.wake()
	}
}

// proposeCommand logs a command that assigns no timestamp and waits until it
// is applied. after, if not nil, runs once it is, also when nobody waits any more.
func (r *Replica) proposeCommand(ctx context.Context, term uint64, fill func(*wire.Command), after func(outcome)) (outcome, error) {
	r.propMu.Lock()
	r.mu.Lock()
	if err := r.mayPropose(term); err != nil {
		r.mu.Unlock()
		r.propMu.Unlock()
		return outcome{}, err
	}
	cmd := r.command(0)
	fill(cmd)
	r.addLease(cmd)
	r.mu.Unlock()
	done := make(chan proposed, 1)
	r.group.ProposeAsync(cmd, term, func(res any, _ uint64, err error) {
		p := proposed{err: err}
		p.out, _ = res.(outcome)
		r.leaseFailed(term, err)
		if err != nil || after == nil {
			done <- p
			return
		}
		go func() {
			after(p.out)
			done <- p
		}()
	})
	r.propMu.Unlock()
	select {
	case p := <-done:
		return p.out, p.err
	case <-ctx.Done():
		return outcome{}, base.Errorf(base.CodeAmbiguous, "group %v: %v while a command was being logged", r.id, context.Cause(ctx))
	}
}
