package txn

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/wan"
	"github.com/godwitdb/godwit/wire"
)

// Commit implements kv.Txn. See doc.go for the paths.
func (t *Txn) Commit(ctx context.Context) (base.Timestamp, error) {
	if err := t.usable(); err != nil {
		return 0, err
	}
	t.db.busy.Add(1)
	defer t.db.busy.Add(-1)
	ts, err := t.commit(t.trace(ctx))
	if err != nil {
		t.db.stats.Failed.Add(1)
		if t.err == nil {
			t.err = err
		}
		t.release()
		return 0, err
	}
	t.db.stats.Committed.Add(1)
	if told := t.db.cfg.Committed; told != nil && (len(t.parts) > 0 || len(t.buf.byKey) > 0 || t.crossing != nil) {
		told(t.crossed())
	}
	t.commitTS = ts
	t.end()
	return ts, nil
}

func (t *Txn) commit(ctx context.Context) (base.Timestamp, error) {
	if t.byTime() {
		if !t.buf.meta() {
			return t.commitOrdered(ctx)
		}
		if err := t.turnToLocks(ctx); err != nil {
			return 0, err
		}
	}
	if err := t.aboveEnds(ctx); err != nil {
		return 0, err
	}
	switch {
	case t.crossing != nil:
		return t.commitCrossing(ctx)
	case len(t.buf.byKey) == 0 && len(t.parts) == 0:
		return t.commitSnapshot(ctx)
	case len(t.buf.byKey) == 0:
		return t.commitLocks(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, t.db.cfg.CommitTimeout)
	defer cancel()
	t.started()
	t.opts.Relay = false // what is locked from here on stays locked
	c, err := t.plan(ctx)
	if err != nil {
		return 0, err
	}
	if _, err := t.open(ctx); err != nil {
		return 0, err
	}
	margin := t.db.horizon.get(len(t.buf.byKey)) + t.db.cfg.CommitLead()
	for try := 0; ; try++ {
		if try == maxReroutes {
			return 0, base.Errorf(base.CodeUnavailable, "the owners of the written keys keep moving: retry")
		}
		groups := c.groups()
		if len(groups) > 1 && t.db.leadsMeta() {
			// Unlike a one-round commit, a Prepare that comes too late is the end of the transaction; and here the bound costs no wait.
			margin = max(margin, prepareMargin)
		}
		if c.bound, err = t.holdPins(ctx, margin); err != nil {
			return 0, err
		}
		if len(groups) > 1 {
			t.db.stats.TwoRound.Add(1)
			return c.prepare(ctx, groups)
		}
		ts, again, err := c.oneRound(ctx, groups[0])
		if !again {
			if err == nil {
				t.db.stats.OneRound.Add(1)
				t.releaseOthers(groups)
			}
			return ts, err
		}
		if base.CodeOf(err) == base.CodeTooLate {
			t.db.horizon.tooShort()
			margin = min(2*margin, maxMetaMargin)
		}
	}
}

// commitSnapshot ends a transaction that neither wrote nor locked: its reads
// are one snapshot, at which what it pinned must have held.
func (t *Txn) commitSnapshot(ctx context.Context) (base.Timestamp, error) {
	if t.readTS == 0 {
		return t.db.clock.Now(), nil // nothing was read: nobody can tell
	}
	if len(t.pins) > 0 {
		if !t.db.set.CloseNow(base.MetaShard, t.readTS) {
			ctx, cancel := context.WithTimeout(ctx, t.db.cfg.RequestTimeout)
			defer cancel()
			if err := t.db.set.EnsureClosed(ctx, base.MetaShard, t.readTS); err != nil {
				return 0, err
			}
		}
		if err := t.checkPins(t.readTS); err != nil {
			return 0, err
		}
	}
	return t.readTS, nil
}

// commitLocks ends a transaction that only read, under locks. Its place in the
// serial order is an instant at which it held them all and which lies above all timestamps read: what was read may be so
// new that its own commit wait goes on (where a row has just changed owner). One group vouches for its locks with
// every answer; of several, or after a wait, each has to confirm that they are still there.
func (t *Txn) commitLocks(ctx context.Context) (base.Timestamp, error) {
	var held []part
	for _, p := range t.parts {
		if p.term != 0 {
			held = append(held, p)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, t.db.cfg.CommitTimeout)
	defer cancel()
	waits := !t.db.isSettled(t.maxTS)
	if waits {
		if err := t.db.settle(ctx, t.maxTS); err != nil {
			return 0, err
		}
	}
	waits = waits || t.bounded
	now, err := t.open(ctx)
	if err != nil {
		return 0, err
	}
	if now == 0 {
		now = t.db.clock.Now()
	} else {
		// Who locks these rows after it must commit above that instant, which the owners' clocks may not have reached.
		for _, p := range held {
			waits = waits || !p.told
		}
	}
	if len(t.pins) > 0 {
		if _, err := t.holdPins(ctx, 0); err != nil {
			return 0, err
		}
	}
	// Not before what it read: a slot that it read the old state of elsewhere may lie between.
	at := max(now, t.maxTS)
	var moves atomic.Int64
	if len(held) > 1 || waits && len(held) > 0 {
		errs := make([]error, len(held))
		parallel(ctx, len(held), func(ctx context.Context, i int) {
			resp, err := t.db.router.Finish(ctx, &wire.FinishRequest{Group: uint32(held[i].group), Txn: t.id[:], MinTs: uint64(t.opened()), At: uint64(at), Done: true})
			if err == nil {
				moves.Add(int64(resp.Moves))
				err = owner.ErrorOf(resp.Status)
			}
			errs[i] = err
		})
		for _, err := range errs {
			if err != nil {
				return 0, base.Errorf(base.CodeAborted, "the locks of the transaction may have been lost: %v", err)
			}
		}
		t.end()
	}
	obs.TraceOf(ctx).AddMoves(int(moves.Load()) + t.free(true))
	return at, nil
}

// parallel runs f for 0..n-1 at once, one of them here; each has a branch of the trace.
func parallel(ctx context.Context, n int, f func(ctx context.Context, i int)) {
	traces := obs.TraceOf(ctx).Parallel(n)
	done := make(chan struct{}, n)
	for i := 1; i < n; i++ {
		go func() {
			f(obs.WithTrace(ctx, traces[i]), i)
			done <- struct{}{}
		}()
	}
	f(obs.WithTrace(ctx, traces[0]), 0)
	for i := 1; i < n; i++ {
		<-done
	}
	obs.TraceOf(ctx).Join(traces)
}

// committer is a commit under way: the writes, and who owns them as far as is known.
type committer struct {
	t      *Txn
	writes map[base.GroupID][]*wire.Write
	need   map[base.GroupID][]*wire.GroupIndex
	bound  base.Timestamp // the commit timestamp must be below; 0: no bound

	// What a transaction that crosses regions has read at its snapshot, and the slot it proposes.
	reads    map[base.GroupID][]*wire.Span
	snapshot base.Timestamp
	slot     base.Timestamp
	ahead    time.Duration // of now, when it was proposed
	// ordered by timestamp: at slot, or at whatever the only group says. least is what slot should have been.
	ordered bool
	least   base.Timestamp
	lost    bool // its outcome had to be asked for
}

// plan makes sure of what the writes assume and finds their owners.
func (t *Txn) plan(ctx context.Context) (*committer, error) {
	c := &committer{t: t, writes: map[base.GroupID][]*wire.Write{}}
	var absent, blind []base.Key
	meta := t.lockTerm(base.MetaGroup) != 0
	all := t.buf.all()
	for _, w := range all {
		if w.fresh && w.kind == wire.WriteKind_DELETE {
			absent = append(absent, w.key) // inserted and deleted again: it must not have been there
			continue
		}
		g, ok := t.owner(w.key)
		if !ok {
			blind = append(blind, w.key)
			p := t.guess(nil, 0, base.PointSpan(w.key), 0)[0]
			g = p.group
			c.require(g, p.need)
		}
		meta = meta || g == base.MetaGroup
		c.writes[g] = append(c.writes[g], w.wire(t.opts.Follow))
	}
	if len(absent) > 0 {
		f := fetch{lock: kv.LockExclusive}
		for _, k := range absent {
			f.spans = append(f.spans, base.PointSpan(k))
		}
		if err := f.run(ctx, t); err != nil {
			return nil, err
		}
		for _, g := range f.got {
			for _, r := range g.rows {
				if !r.Absent {
					return nil, exists(r.Key)
				}
			}
			if g.cut != nil {
				return nil, base.Errorf(base.CodeInvalid, "too many keys are inserted and deleted again in one transaction")
			}
		}
	}
	if len(blind) > 0 && len(c.groups()) > 1 {
		// A Prepare at the wrong owner cannot be moved. The local replica mostly knows who owns what; where there
		// is none, or an attempt went astray lately, the owners are found under locks, at the price of a round trip.
		// (Keys may be new in every attempt, so that an attempt need not learn from the one before.)
		if t.strayed(blind) {
			if err := t.lockKeys(ctx, blind); err != nil {
				return nil, err
			}
			return t.plan(ctx)
		}
		c.locate(blind)
	}
	if meta && len(t.pins) > 0 {
		if err := t.lockPins(ctx); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// strayed reports whether one of the keys was lately not where it was looked
// for, or lies in a shard that is not held here.
func (t *Txn) strayed(keys []base.Key) bool {
	for _, k := range keys {
		if _, ok := t.db.hint(k); ok || k.Shard() != base.MetaShard && !t.db.set.Holds(k.Shard()) {
			return true
		}
	}
	return false
}

// locate moves writes to the owners that the local replica names.
func (c *committer) locate(keys []base.Key) {
	owners := map[string]base.GroupID{}
	for _, k := range keys {
		if g, ok := c.t.db.set.Locate(k); ok {
			owners[string(k)] = g
		}
	}
	old := c.writes
	c.writes = map[base.GroupID][]*wire.Write{}
	for g, ws := range old {
		for _, w := range ws {
			to, ok := owners[string(w.Key)]
			if !ok {
				to = g
			}
			c.writes[to] = append(c.writes[to], w)
		}
	}
}

// owner is the group in which a key is locked.
func (t *Txn) owner(k base.Key) (base.GroupID, bool) {
	if g, ok := t.present(k); ok {
		return g, true
	}
	g, ok := t.absent[string(k)]
	return g, ok
}

// lockKeys locks keys for writing, whoever owns them.
func (t *Txn) lockKeys(ctx context.Context, keys []base.Key) error {
	if len(t.known)+len(t.absent)+len(keys) > maxKnown {
		return base.Errorf(base.CodeInvalid, "a transaction writes at most %d keys in several groups: commit in smaller pieces", maxKnown)
	}
	for len(keys) > 0 {
		f := fetch{lock: kv.LockExclusive}
		for _, k := range keys {
			f.spans = append(f.spans, base.PointSpan(k))
		}
		if err := f.run(ctx, t); err != nil {
			return err
		}
		var rest []base.Key
		for i, g := range f.got {
			if g.cut != nil {
				rest = append(rest, keys[i])
			}
		}
		keys = rest
	}
	return nil
}

// groups are those that take part: all that were written or locked.
func (c *committer) groups() []base.GroupID {
	var gs []base.GroupID
	for g := range c.writes {
		gs = append(gs, g)
	}
	for g := range c.reads {
		if len(c.writes[g]) == 0 {
			gs = append(gs, g)
		}
	}
	for _, p := range c.t.parts {
		if p.term != 0 && !slices.Contains(gs, p.group) {
			gs = append(gs, p.group)
		}
	}
	slices.Sort(gs)
	return gs
}

// releaseOthers gives back what may be locked in groups that took no part.
func (t *Txn) releaseOthers(groups []base.GroupID) {
	for _, p := range t.parts {
		if !slices.Contains(groups, p.group) {
			q := &wire.FinishRequest{Group: uint32(p.group), Txn: t.id[:]}
			t.db.spawn(func(ctx context.Context) { _, _ = t.db.router.Finish(ctx, q) })
		}
	}
}

func (c *committer) request(g base.GroupID) *wire.CommitRequest {
	t := c.t
	t.part(g)
	opened := t.opened()
	term := t.lockTerm(g)
	if c.ordered {
		term = 0 // nothing rests on locks
	}
	return &wire.CommitRequest{Group: uint32(g), Txn: &t.meta, Writes: c.writes[g], MinTs: uint64(max(t.maxTS, opened)), Begun: opened != 0,
		MaxTs: uint64(c.bound), LockTerm: term, Need: c.need[g], Reads: c.reads[g], Snapshot: uint64(c.snapshot), Slot: uint64(c.slot), Ordered: c.ordered}
}

// send sends a commit or a Prepare: straight to the owner if that is here.
func (c *committer) send(ctx context.Context, q *wire.CommitRequest) (*wire.CommitResponse, error) {
	db := c.t.db
	if r := db.set.Replica(base.GroupID(q.Group)); r != nil {
		if _, ok := r.Serving(); ok {
			resp := r.Commit(ctx, q)
			switch base.Code(resp.GetStatus().GetCode()) {
			case base.CodeNotLeader, base.CodeUnavailable:
			default:
				owner.NoteCost(ctx, resp)
				return resp, nil
			}
		}
	}
	resp, err := db.router.Commit(ctx, q)
	if err == nil {
		_ = db.clock.Observe(base.Timestamp(resp.Now))
	}
	return resp, err
}

// oneRound commits in the only group there is. again: the plan has changed (or
// the time bound was too low); try again.
func (c *committer) oneRound(ctx context.Context, g base.GroupID) (ts base.Timestamp, again bool, err error) {
	t := c.t
	if len(c.writes[g]) == 0 {
		// All writes cancelled out; the locks are left.
		ts, err := t.commitLocks(ctx)
		return ts, false, err
	}
	resp, err := c.send(ctx, c.request(g))
	if err == nil {
		c.least = base.Timestamp(resp.NeedTs)
		err = owner.ErrorOf(resp.Status)
	} else if wan.NeverRan(err) {
		return 0, false, base.Errorf(base.CodeUnavailable, "%v", err)
	} else {
		err = base.Errorf(base.CodeAmbiguous, "%v", err)
	}
	switch base.CodeOf(err) {
	case base.CodeOther:
		if err == nil {
			t.movedAway(g, resp)
			noteMoves(ctx, resp)
			return base.Timestamp(resp.Ts), false, nil
		}
		return 0, false, err
	case base.CodeTooLate:
		return 0, true, err
	case base.CodeWrongOwner:
		if c.snapshot != 0 {
			t.astray(resp.Foreign)
			return 0, true, err
		}
		c.reroute(g, resp.Foreign)
		return 0, true, err
	case base.CodeAmbiguous, base.CodeCanceled:
		ts, committed, rerr := t.outcome(ctx, []base.GroupID{g}, err)
		if rerr != nil {
			return 0, false, rerr
		}
		if !committed {
			return 0, false, base.Errorf(base.CodeAborted, "the commit was lost and did not happen: %v", err)
		}
		if c.lost = true; c.ordered {
			return ts, false, nil
		}
		return ts, false, t.settled(ctx, ts)
	}
	return 0, false, err
}

// movedAway remembers where rows went, so that the next statement asks their new
// owner, and he waits for the entry that made him so.
func (t *Txn) movedAway(g base.GroupID, resp *wire.CommitResponse) {
	for _, k := range resp.Moved {
		if w := t.buf.get(k); w != nil && w.move != 0 {
			t.db.setHint(k, hint{group: base.DataGroup(g.Shard(), w.move),
				need: []*wire.GroupIndex{{Region: uint32(g.Region()), Index: resp.Index}}})
		}
	}
}

// noteMoves counts the rows, not their index entries, that a commit moved or set off.
func noteMoves(ctx context.Context, resp *wire.CommitResponse) {
	n := int(resp.Moves)
	for _, k := range resp.Moved {
		if base.Key(k).Index() == 0 {
			n++
		}
	}
	obs.TraceOf(ctx).AddMoves(n)
}

// settled is commit wait at the coordinator.
func (t *Txn) settled(ctx context.Context, ts base.Timestamp) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.db.cfg.AmbiguousTimeout)
	defer cancel()
	if err := t.db.settle(ctx, ts); err != nil {
		return base.Errorf(base.CodeAmbiguous, "transaction %v committed at %s, but the wait for its timestamp was cut short: %v", t.id, ts, err)
	}
	return nil
}

// outcome asks the groups what became of the transaction, until that is known
// or the time for it is up. The client's own deadline does not end it: it has to know.
func (t *Txn) outcome(ctx context.Context, groups []base.GroupID, why error) (base.Timestamp, bool, error) {
	db := t.db
	db.stats.Ambiguous.Add(1)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), db.cfg.AmbiguousTimeout)
	defer cancel()
	for {
		ts, committed, err := db.router.Outcome(ctx, t.id, groups)
		if err == nil {
			return ts, committed, nil
		}
		select {
		case <-ctx.Done():
			return 0, false, base.Errorf(base.CodeAmbiguous, "the outcome of transaction %v is unknown: %v; then: %v", t.id, why, err)
		case <-db.stopc:
			return 0, false, base.Errorf(base.CodeAmbiguous, "the outcome of transaction %v is unknown (this node is stopping): %v", t.id, why)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// require makes the owner of a group apply what it takes to know that it is.
func (c *committer) require(g base.GroupID, need []*wire.GroupIndex) {
	for _, n := range need {
		if c.need == nil {
			c.need = map[base.GroupID][]*wire.GroupIndex{}
		}
		c.need[g] = addNeed(c.need[g], n)
	}
}

// reroute moves writes to the owners that the asked group named.
func (c *committer) reroute(from base.GroupID, foreign []*wire.Foreign) {
	c.t.db.stats.Forwarded.Add(int64(len(foreign)))
	to := map[string]*wire.Foreign{}
	for _, f := range foreign {
		to[string(f.Span.Start)] = f
	}
	var stay []*wire.Write
	for _, w := range c.writes[from] {
		f := to[string(w.Key)]
		if f == nil {
			stay = append(stay, w)
			continue
		}
		g := base.GroupID(f.Group)
		c.writes[g] = append(c.writes[g], w)
		c.require(g, f.Since)
	}
	if c.writes[from] = stay; len(stay) == 0 {
		delete(c.writes, from)
	}
}

// vote is what is known of one participant.
type vote struct {
	lo, hi base.Timestamp
	err    error
	resp   *wire.CommitResponse
	maybe  bool // it may have prepared although err is set
}

// prepare commits in several groups: all log a Prepare in parallel, and the
// transaction is committed by their being there (I8). The decision is sent afterwards, in the background.
func (c *committer) prepare(ctx context.Context, groups []base.GroupID) (base.Timestamp, error) {
	t := c.t
	ids := make([]uint32, len(groups))
	for i, g := range groups {
		ids[i] = uint32(g)
	}
	reqs := make([]*wire.CommitRequest, len(groups))
	for i, g := range groups {
		reqs[i] = c.request(g)
		reqs[i].Prepare, reqs[i].Participants = true, ids
	}
	votes := make([]vote, len(groups))
	start := time.Now()
	parallel(ctx, len(groups), func(ctx context.Context, i int) {
		v := &votes[i]
		resp, err := c.send(ctx, reqs[i])
		if err == nil {
			v.resp = resp
		}
		if err == nil && c.slot != 0 {
			t.noteVote(c, groups[i].Region(), resp, time.Since(start))
		}
		if err != nil {
			v.maybe = !wan.NeverRan(err)
			if v.err = err; !v.maybe {
				v.err = base.Errorf(base.CodeUnavailable, "%v", err)
			}
			return
		}
		v.resp = resp
		t.db.clock.Learn(base.Timestamp(resp.Oracle))
		v.lo, v.hi, v.err = base.Timestamp(resp.Ts), base.Timestamp(resp.Hi), owner.ErrorOf(resp.Status)
		code := base.CodeOf(v.err)
		v.maybe = code == base.CodeAmbiguous || code == base.CodeCanceled
	})
	t.releaseOthers(groups)
	lo, hi := base.Timestamp(0), base.MaxTimestamp
	var refused, unknown error
	for i := range votes {
		v := &votes[i]
		switch {
		case v.err == nil:
			lo, hi = max(lo, v.lo), min(hi, v.hi)
		case v.maybe:
			unknown = v.err
		default:
			c.least = max(c.least, base.Timestamp(v.resp.GetNeedTs()))
			if base.CodeOf(v.err) == base.CodeWrongOwner {
				// A Prepare cannot be moved; the next attempt will know better.
				t.astray(v.resp.Foreign)
			}
			if refused == nil || rank(v.err) > rank(refused) {
				refused = v.err
			}
		}
	}
	switch {
	case refused != nil:
		// Somebody did not prepare and will not: nobody can find it committed.
		c.finish(groups, false, 0)
		if code := base.CodeOf(refused); code == base.CodeTooLate || c.ordered && code == base.CodeWrongOwner {
			if c.slot != 0 {
				return 0, refused
			}
			t.db.horizon.tooShort()
		}
		return 0, c.refusal(refused)
	case unknown != nil:
		ts, committed, err := t.outcome(ctx, groups, unknown)
		if err != nil {
			return 0, err
		}
		c.finish(groups, committed, ts)
		if !committed {
			return 0, base.Errorf(base.CodeAborted, "the commit was lost and did not happen: %v", unknown)
		}
		if c.lost = true; c.ordered {
			return ts, nil
		}
		return ts, t.settled(ctx, ts)
	case lo >= hi:
		t.db.horizon.tooShort()
		c.finish(groups, false, 0)
		return 0, base.Errorf(base.CodeAborted, "no commit timestamp suits all groups: [%s,%s); retry", lo, hi)
	}
	t.db.horizon.longEnough()
	c.finish(groups, true, lo)
	for i := range votes {
		noteMoves(ctx, votes[i].resp)
	}
	if c.ordered {
		return lo, nil
	}
	return lo, t.settled(ctx, lo)
}

// noteVote learns from a vote how far ahead the next ones have to be asked for.
func (t *Txn) noteVote(c *committer, r base.RegionID, resp *wire.CommitResponse, took time.Duration) {
	code := base.CodeOf(owner.ErrorOf(resp.Status))
	waited := time.Duration(resp.WaitedNs)
	switch {
	case c.ordered && code == base.CodeTooLate:
		t.db.leads.tooShort(r)
	case c.ordered && code == base.CodeOther:
		t.db.leads.answered(r, took/2) // the way there, and what it takes to be replicated at the other end
	case code == base.CodeTooLate:
		t.db.slots.missed(r, c.ahead, base.Timestamp(resp.NeedTs).Sub(c.slot), waited)
	case code == base.CodeOther:
		t.db.slots.answered(r, took, waited)
	}
}

// astray remembers who owns what was asked of others.
func (t *Txn) astray(foreign []*wire.Foreign) {
	for _, f := range foreign {
		t.db.setHint(f.Span.Start, hint{group: base.GroupID(f.Group), need: f.Since})
	}
}

// rank orders the errors of participants by how much they tell the client.
func rank(err error) int {
	switch base.CodeOf(err) {
	case base.CodeExists, base.CodeInvalid:
		return 3
	case base.CodeAborted, base.CodeLockTimeout, base.CodeOverloaded:
		return 2
	case base.CodeUnavailable:
		return 1
	}
	return 0
}

// refusal is what the client hears of a participant's error.
func (c *committer) refusal(err error) error {
	switch base.CodeOf(err) {
	case base.CodeTooLate, base.CodeWrongOwner, base.CodeNotLeader:
		return base.Errorf(base.CodeAborted, "%v: retry", err)
	}
	return err
}

// finish tells all participants the outcome, in the background. What does not
// arrive is found out by the participants themselves.
func (c *committer) finish(groups []base.GroupID, commit bool, ts base.Timestamp) {
	t := c.t
	t.end()
	for _, g := range groups {
		q := &wire.FinishRequest{Group: uint32(g), Txn: t.id[:], Commit: commit, Ts: uint64(ts), Prepared: true}
		t.db.spawn(func(ctx context.Context) {
			if resp, err := t.db.router.Finish(ctx, q); err != nil || resp.Status != nil {
				t.db.cfg.Logger.Debug("an outcome was not delivered", "txn", t.id, "group", g, "err", err, "status", resp.GetStatus())
			}
		})
	}
}
