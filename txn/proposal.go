package txn

import (
	"context"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/owner/route"
	"github.com/godwitdb/godwit/txn/hints"
	"github.com/godwitdb/godwit/wire"
)

// proposal is what the groups of one try of a commit are asked.
type proposal struct {
	t    *Txn
	as   *attempt // the name under which the groups vote
	plan plan
	from base.Timestamp // when the groups were asked, or the slot of an ordered commit
	at   time.Time      // when the groups were asked
	terms
}

// terms are what the groups hold to besides their locks. Zero terms leave the timestamp to the
// groups.
type terms struct {
	// bound: the commit timestamp lies below it, because the schema is known to hold until there;
	// 0: there is no bound.
	bound base.Timestamp
	// snapshot: the reads of the plan must not have changed since.
	snapshot base.Timestamp
	// slot: several groups commit at this timestamp, or not at all.
	slot base.Timestamp
	// ordered: the cluster orders by timestamps, and nothing rests on locks.
	ordered bool
}

// result is what became of a proposal.
type result struct {
	ts  base.Timestamp // of the commit
	err error          // nil: it committed
	// least is a timestamp that the groups would have accepted, if they refused with CodeTooLate
	// those of an ordered commit; else 0.
	least base.Timestamp
	// foreign are the keys and ranges of which a group was not the owner (CodeWrongOwner).
	foreign []*wire.Foreign
	// asked: the answer was lost, and the outcome had to be asked for. The owner has not waited for
	// the timestamp to pass then.
	asked bool
}

// groups are those that take part.
func (p *proposal) groups() []base.GroupID { return p.plan.groups(p.as.parts) }

func (p *proposal) request(g base.GroupID) *wire.CommitRequest {
	p.as.part(g)
	opened := p.t.opened()
	term := p.as.lockTerm(g)
	if p.ordered {
		term = 0
	}
	q := &wire.CommitRequest{Group: uint32(g), Txn: &p.as.meta, Writes: p.plan.writes[g],
		MinTs: uint64(max(p.t.maxTS, opened)), Begun: opened != 0,
		MaxTs: uint64(p.bound), LockTerm: term, Need: p.plan.need[g], Reads: p.plan.reads[g],
		Snapshot: uint64(p.snapshot), Slot: uint64(p.slot), Ordered: p.ordered, Needs: uint32(p.t.opts.Version())}
	if st := p.t.opts.Statement; st != nil && st.Group == g {
		q.Statement, q.Answer = st.Name[:], st.Answer()
	}
	return q
}

// strayed reports whether the transaction executes a forwarded statement, and the group that
// settles it takes no part in the commit (FWD-2).
func (p *proposal) strayed(groups []base.GroupID) bool {
	st := p.t.opts.Statement
	return st != nil && !slices.Contains(groups, st.Group) && !p.t.db.cfg.Strays
}

// settling are the reads of the group that settles the transaction's statement: it takes part
// whatever else was only read.
func (p *proposal) settling() map[base.GroupID][]*wire.Span {
	if st := p.t.opts.Statement; st != nil && len(p.plan.reads[st.Group]) > 0 {
		return map[base.GroupID][]*wire.Span{st.Group: p.plan.reads[st.Group]}
	}
	return nil
}

// send sends a commit or a Prepare: straight to the owner if that is here.
func (p *proposal) send(ctx context.Context, q *wire.CommitRequest) (*wire.CommitResponse, error) {
	db := p.t.db
	if r := db.set.Replica(base.GroupID(q.Group)); r != nil {
		if _, ok := r.Serving(); ok {
			resp := r.Commit(ctx, q)
			switch base.Code(resp.GetStatus().GetCode()) {
			case base.CodeNotLeader, base.CodeUnavailable:
			default:
				route.NoteCost(ctx, resp)
				return resp, nil
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, db.cfg.Limits.Commit)
	defer cancel()
	resp, err := db.router.Commit(ctx, q)
	if err == nil {
		_ = db.clock.Observe(base.Timestamp(resp.Now))
	}
	return resp, err
}

// sent is the error of a message that was not answered.
func sent(err error) error {
	if wan.NeverRan(err) {
		return base.Errorf(base.CodeUnavailable, "%v", err)
	}
	return base.Errorf(base.CodeAmbiguous, "%v", err)
}

// lost reports whether a participant may have done what it was asked although there is an error.
func lost(err error) bool {
	code := base.CodeOf(err)
	return code == base.CodeAmbiguous || code == base.CodeCanceled
}

// one commits in the only group there is: one log entry.
func (p *proposal) one(ctx context.Context, g base.GroupID) result {
	if p.strayed([]base.GroupID{g}) {
		return result{err: kv.ErrStrayed}
	}
	p.asked()
	resp, err := p.send(ctx, p.request(g))
	if err != nil {
		err = sent(err)
	} else {
		err = owner.ErrorOf(resp.Status)
		p.answered(ctx, g, resp, err)
	}
	switch {
	case err == nil:
		p.movedAway(g, resp)
		noteMoves(ctx, resp)
		return result{ts: base.Timestamp(resp.Ts)}
	case lost(err):
		ts, committed, oerr := p.outcome(ctx, []base.GroupID{g}, err)
		return resolved(ts, committed, oerr, err)
	}
	return result{err: err, least: base.Timestamp(resp.GetNeedTs()), foreign: resp.GetForeign()}
}

// resolved is the result of a commit whose outcome was asked for, because of why.
func resolved(ts base.Timestamp, committed bool, err, why error) result {
	switch {
	case err != nil:
		return result{err: err}
	case !committed:
		return result{err: base.Errorf(base.CodeAborted, "the commit was lost and did not happen: %v", why)}
	}
	return result{ts: ts, asked: true}
}

// vote is what is known of one participant.
type vote struct {
	lo, hi base.Timestamp // it commits at one of [lo,hi)
	err    error          // it has not prepared, unless lost(err)
	resp   *wire.CommitResponse
}

// several commits in several groups: all log a Prepare in parallel, and the transaction is
// committed by their being there (OWN-8). The decision is sent afterwards, in the background.
func (p *proposal) several(ctx context.Context, groups []base.GroupID, by protocol) result {
	if p.strayed(groups) {
		return result{err: kv.ErrStrayed}
	}
	db := p.t.db
	db.stats.TwoRound.Add(1)
	votes := p.prepare(ctx, groups, by)
	p.as.releaseOthers(groups)
	lo, hi, least := base.Timestamp(0), base.MaxTimestamp, base.Timestamp(0)
	var refused, unknown error
	var foreign []*wire.Foreign
	for i := range votes {
		v := &votes[i]
		switch {
		case v.err == nil:
			lo, hi = max(lo, v.lo), min(hi, v.hi)
		case lost(v.err):
			unknown = v.err
		default:
			least = max(least, base.Timestamp(v.resp.GetNeedTs()))
			if base.CodeOf(v.err) == base.CodeWrongOwner {
				foreign = append(foreign, v.resp.Foreign...)
			}
			if refused == nil || rank(v.err) > rank(refused) {
				refused = v.err
			}
		}
	}
	switch {
	case refused != nil:
		// One did not prepare and will not: nobody can find the transaction committed.
		p.finish(groups, false, 0)
		db.hints.Note(foreign) // a Prepare cannot be moved; the next attempt knows better
		return result{err: refused, least: least, foreign: foreign}
	case unknown != nil:
		ts, committed, err := p.outcome(ctx, groups, unknown)
		if err == nil {
			p.finish(groups, committed, ts)
		}
		return resolved(ts, committed, err, unknown)
	case lo >= hi:
		p.finish(groups, false, 0)
		return result{err: base.Errorf(base.CodeAborted, "no commit timestamp suits all groups: [%s,%s); retry", lo, hi)}
	}
	p.finish(groups, true, lo)
	for i := range votes {
		noteMoves(ctx, votes[i].resp)
	}
	return result{ts: lo}
}

// prepare sends a Prepare to all groups at once and waits for the votes.
func (p *proposal) prepare(ctx context.Context, groups []base.GroupID, by protocol) []vote {
	ids := make([]uint32, len(groups))
	for i, g := range groups {
		ids[i] = uint32(g)
	}
	reqs := make([]*wire.CommitRequest, len(groups))
	for i, g := range groups {
		reqs[i] = p.request(g)
		reqs[i].Prepare, reqs[i].Participants, reqs[i].Pieces = true, ids, p.plan.pieces[g]
		reqs[i].Sees = !p.ordered && p.t.db.set.Sees(g)
	}
	votes := make([]vote, len(groups))
	start := time.Now()
	p.asked()
	obs.Each(ctx, len(groups), func(ctx context.Context, i int) {
		v := &votes[i]
		resp, err := p.send(ctx, reqs[i])
		if err != nil {
			v.err = sent(err)
			return
		}
		v.resp, v.err = resp, owner.ErrorOf(resp.Status)
		if v.err == nil && resp.Vote != nil {
			// The vote counts when the copy here has it. Else its outcome is asked for.
			if err := p.t.db.set.AwaitVote(ctx, groups[i], resp.Vote); err != nil {
				v.err = base.Errorf(base.CodeAmbiguous, "%v", err)
				return
			}
		}
		by.voted(p, groups[i].Region(), resp, time.Since(start))
		p.t.db.clock.Learn(base.Timestamp(resp.Oracle))
		v.lo, v.hi = base.Timestamp(resp.Ts), base.Timestamp(resp.Hi)
		p.answered(ctx, groups[i], resp, v.err)
	})
	return votes
}

// asked notes when the groups are asked.
func (p *proposal) asked() {
	p.at = time.Now()
	p.from = max(p.t.db.clock.NowAt(p.at), p.slot)
}

// lateInVain is how much of a request's time counts as waited in vain, at most, if it came too late
// in the end. It may have waited for locks, and these or the lead for the same fault.
const lateInVain = 2 * time.Second

// answered measures by how much a group's timestamp lies above the one at which it was asked: so
// far ahead the schema has to be known to hold. What it waited for locks says nothing of the next
// one.
func (p *proposal) answered(ctx context.Context, g base.GroupID, resp *wire.CommitResponse, err error) {
	if base.CodeOf(err) == base.CodeTooLate {
		kv.PatienceOf(ctx).FailedSince(time.Now().Add(-min(time.Since(p.at), lateInVain)))
	}
	if p.bound == 0 || p.slot != 0 && !p.ordered {
		return
	}
	ts, refused := base.Timestamp(resp.Ts), false
	if base.CodeOf(err) == base.CodeTooLate {
		ts, refused = base.Timestamp(resp.NeedTs), true
	}
	if need := ts.Sub(p.from) - time.Duration(resp.WaitedNs); ts != 0 && (err == nil || refused) {
		p.t.db.horizon.Needed(time.Now(), g, max(need, 0), refused)
	}
}

// leastAsked is for how long an outcome is asked for at least, however long the statement has taken
// before; a quarter of it, if that time went to nodes that do not answer: no statement takes 5 s.
const leastAsked = 2 * time.Second

// outcome asks the groups what became of the transaction, until that is known or the time for it is
// up. The client's own deadline does not end it, because it must not be left in doubt.
func (p *proposal) outcome(ctx context.Context, groups []base.GroupID, why error) (base.Timestamp, bool, error) {
	var ts base.Timestamp
	var committed bool
	err := p.t.db.askOutcome(ctx, p.as.id, p.at, why, func(ctx context.Context) (err error) {
		ts, committed, err = p.t.db.router.Outcome(ctx, p.as.id, groups)
		return err
	})
	return ts, committed, err
}

// askOutcome asks until there is an answer, or the time for it is up. Since then the statement has
// waited in vain.
func (db *DB) askOutcome(ctx context.Context, id base.TxnID, since time.Time, why error,
	ask func(context.Context) error) error {
	db.stats.Ambiguous.Add(1)
	limit := leastAsked
	patience := kv.PatienceOf(ctx)
	if left := kv.ReachIn - patience.Age(); left > 0 { // else it has waited for a lock
		limit = max(left, leastAsked/4)
		patience.FailedSince(since)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(limit, db.cfg.Limits.Ambiguous))
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			patience.Answered()
			return nil
		}
		select {
		case <-ctx.Done():
			return base.Errorf(base.CodeAmbiguous, "the outcome of transaction %v is unknown: %v; then: %v", id, why, err)
		case <-db.tasks.Stopped():
			return base.Errorf(base.CodeAmbiguous, "the outcome of transaction %v is unknown (this node is stopping): %v",
				id, why)
		case <-time.After(outcomeAgain):
		}
	}
}

// outcomeAgain is the pause before an outcome is asked for again.
const outcomeAgain = 50 * time.Millisecond

// finish tells all participants the outcome, in the background. What does not arrive the
// participants find out themselves.
func (p *proposal) finish(groups []base.GroupID, commit bool, ts base.Timestamp) {
	as, db := p.as, p.t.db
	as.end(false)
	for _, g := range groups {
		db.tasks.Spawn(func(ctx context.Context) {
			if err := db.tellOutcome(ctx, g, as.id[:], commit, ts); err != nil {
				db.cfg.Logger.Debug("an outcome was not delivered", "txn", as.id, "group", g, "err", err)
			}
		})
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
func refusal(err error) error {
	switch base.CodeOf(err) {
	case base.CodeTooLate, base.CodeWrongOwner, base.CodeNotLeader:
		return retry(err)
	}
	return err
}

// retry makes an error one after which the transaction may be run again.
func retry(err error) error { return base.Errorf(base.CodeAborted, "%v: retry", err) }

// movedAway remembers where rows went. The next statement asks their new owner, and the owner waits
// for the entry that made it so.
func (p *proposal) movedAway(g base.GroupID, resp *wire.CommitResponse) {
	for _, k := range resp.Moved {
		if w := p.t.buf.Get(k); w != nil && w.Move != 0 {
			p.t.db.hints.Set(k, hints.Hint{Group: base.DataGroup(g.Shard(), w.Move),
				Need: []*wire.GroupIndex{{Region: uint32(g.Region()), Index: resp.Index}}})
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
