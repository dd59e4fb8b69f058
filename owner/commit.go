package owner

import (
	"context"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/owner/evaluate"
	"github.com/godwitdb/godwit/owner/gauge"
	"github.com/godwitdb/godwit/owner/state"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/wire"
)

// This file is the way of a commit, or of a vote, through a group's leader. Its phases are the same
// for all, and protocol says what each does:
//
//	admit    the leader waits for what the request relies on, and registers the transaction
//	lock     it takes the locks under which what it is about to see stays true
//	look     it evaluates the writes on one view of the store, and validates the reads
//	choose   it chooses a timestamp; by locks and by slot that comes with the next phase only
//	propose  under propMu, it assigns the timestamp and hands the entry to the group (OWN-2)
//	release  it waits until the client may be told, and frees the locks; or, if the attempt came to
//	         nothing, decides whether the transaction keeps them
//
// Whatever keeps a proposal back (a slot that bounds it, a vote that is under way, a change of the
// clock mode) is waited for without any lock of this package, and then the phases are repeated from
// where the wait may have changed something.

// protocol is one of the three ways to commit: by locks (bylock.go), by slot (byslot.go) and by
// timestamp (bytime.go). Its values have no fields; one is chosen for each request.
type protocol interface {
	// check says what is wrong with a request, as far as this protocol is concerned.
	check(r *Replica, q *wire.CommitRequest) error
	// leased reports whether a request needs a leader with a valid lease; and mustBegin whether its
	// timestamp has to lie above everything acknowledged before it, where clocks do not see to
	// that.
	leased(q *wire.CommitRequest) bool
	mustBegin() bool

	lock(ctx context.Context, e *evaluation) error
	look(ctx context.Context, e *evaluation) error
	// blind reports whether a write that changes neither owner nor label of its key needs no view.
	blind() bool
	// holds reports whether the transaction has the locks that a write of the span needs; mu is
	// held.
	holds(e *evaluation, s base.Span) bool

	choose(ctx context.Context, e *evaluation) error
	// assign sets the timestamp and the bounds of the evaluation. propMu and mu are held.
	assign(e *evaluation) error
	// entry marks the transaction as proposed and makes the log entry. propMu and mu are held.
	entry(e *evaluation) *wire.Command
	// handed is called when the group has the entry. propMu is held.
	handed(e *evaluation)
	// overcome waits for what kept a proposal back: nil proposes again, and errLookAgain begins
	// anew with the locks. An error that does not come from assign is returned as it is.
	overcome(ctx context.Context, e *evaluation, err error) error

	// voted and committed wait, once the entry is applied, until others may be told. committed
	// releases the transaction.
	voted(ctx context.Context, e *evaluation, resp *wire.CommitResponse) error
	committed(ctx context.Context, e *evaluation) error
	// keeps reports whether the transaction keeps its locks after an attempt that failed with a
	// code.
	keeps(e *evaluation, code base.Code) bool
}

func protocolOf(q *wire.CommitRequest) protocol {
	switch {
	case q.Stage > 0:
		return byStage{}
	case q.Ordered:
		return byTime{}
	case q.Slot != 0:
		return bySlot{}
	}
	return byLock{}
}

// Commit serves a one-round commit or a Prepare. The request belongs to the
// replica from now on, unless the answer is an error of which nothing was proposed.
//
// Codes: CodeTooLate: nothing was done, the locks are kept, try again with another bound.
// CodeWrongOwner: other groups own the keys in Foreign; nothing was done, locks are kept.
// CodeExists, CodeAborted: the transaction is over here. CodeNotLeader, CodeUnavailable,
// CodeOverloaded: nothing was done. CodeAmbiguous, CodeCanceled: ask Resolve.
func (r *Replica) Commit(ctx context.Context, q *wire.CommitRequest) *wire.CommitResponse {
	return r.CommitFor(ctx, r.cfg.Self, q)
}

// CommitFor is Commit on behalf of a client of another node.
func (r *Replica) CommitFor(ctx context.Context, from base.NodeID, q *wire.CommitRequest) *wire.CommitResponse {
	var key base.Key
	if len(q.Writes) > 0 {
		key = q.Writes[0].Key
	} else if len(q.Reads) > 0 {
		key = q.Reads[0].Start
	}
	r.countRequest(from, q.Txn, true, key)
	resp := &wire.CommitResponse{}
	err := r.commit(ctx, q, resp)
	for t := r.transferOf(err); t != nil; t = r.transferOf(err) {
		var passed *wire.CommitResponse
		if passed, err = passOn[wire.CommitResponse](ctx, r, t, wire.KindCommit, q, false); passed != nil {
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
	} else if q.Stage == 0 {
		r.stats.Commits.Add(1)
	}
	resp.Now = r.nowFor(from)
	return resp
}

// nowFor is what an answer tells of this node's clock: the upper bound of now to another node, 0 to
// the node itself, which learns nothing from its own clock.
func (r *Replica) nowFor(from base.NodeID) uint64 {
	if from == r.cfg.Self {
		return 0
	}
	return uint64(r.clock.Latest())
}

func (r *Replica) commit(ctx context.Context, q *wire.CommitRequest, resp *wire.CommitResponse) error {
	e := &evaluation{r: r, q: q, by: protocolOf(q)}
	if err := e.by.check(r, q); err != nil {
		return err
	}
	if err := evaluate.CheckCommit(r.id, q, r.cfg.MaxWrites, r.cfg.MaxSpans, r.store.Knows()); err != nil {
		return err
	}
	e.attempt = evaluate.Attempt{Group: &r.view, Request: q, Blind: e.by.blind(), Walk: r.cfg.Bulk.Walk,
		MayLive: r.cfg.MayLive, HomeIn: r.cfg.HomeIn, Count: e.count}
	if err := e.admit(ctx); err != nil {
		return err
	}
	start := time.Now()
	done, err := e.run(ctx)
	resp.WaitedNs = uint64(time.Since(start))
	if err != nil {
		e.failed(err, resp)
		return err
	}
	r.group.Push()
	step := obs.TraceOf(ctx).Span().Step("log entry")
	r.mu.Lock()
	lapse := r.lapses.Begin()
	r.mu.Unlock()
	var why error
	select {
	case p := <-done:
		step.Done(p.err != nil)
		return r.complete(ctx, e, p, resp)
	case <-lapse.Ended:
		why = lapse.Why
	case <-ctx.Done():
		why = context.Cause(ctx)
	}
	go func() {
		ctx, cancel := r.life()
		defer cancel()
		_ = r.complete(ctx, e, <-done, &wire.CommitResponse{})
	}()
	return base.Errorf(base.CodeAmbiguous, "group %v: %v while transaction %v was being logged; it may still commit",
		r.id, why, e.x.ID)
}

// evaluation is one attempt of a commit or a vote: what the owner finds out about its writes under
// their locks, and the timestamps chosen.
type evaluation struct {
	r    *Replica
	q    *wire.CommitRequest
	by   protocol
	x    *txns.Txn
	term uint64 // in which the attempt began

	attempt evaluate.Attempt
	evaluate.Findings
	arrivals view.Arrivals
	ended    uint64      // txns.Table.PatchesEnded, before the view that the findings are of
	moves    uint32      // rows that the policy of homes set off when it was told of the writes
	cover    []base.Span // byStage: the ranges to be locked

	ts, hi base.Timestamp // commit timestamp, or the interval of the vote
	// least is, with CodeTooLate, the smallest timestamp that would do.
	least base.Timestamp
	// blocker is the transaction whose end a proposal has to wait for: with errSpoils the one whose
	// patch it would leave undefined, with errBusy one that may commit behind the slot.
	blocker  *txns.Txn
	noted    chan error // gets the answer of the region's timestamp manager; nil: none is needed
	proposed time.Time
}

// admit waits for what the request relies on, and registers its transaction.
func (e *evaluation) admit(ctx context.Context) error {
	r, q := e.r, e.q
	if q.MinTs != 0 {
		if err := r.clock.Observe(base.Timestamp(q.MinTs)); err != nil {
			return err
		}
	}
	if m, _ := r.clock.Mode(); m != clock.GClock && !q.Begun && e.by.mustBegin() {
		if err := e.begin(ctx); err != nil {
			return err
		}
	}
	if len(q.Need) > 0 {
		if err := r.waitVector(ctx, q.Need); err != nil {
			return err
		}
	}
	if err := r.enter(ctx, e.by.leased(q), base.Timestamp(q.Slot)); err != nil {
		return err
	}
	defer r.mu.Unlock()
	e.term = r.lead.Term
	x, err := r.admit(q.Txn, q.LockTerm)
	if err != nil {
		return err
	}
	x.Voting, x.Ordered = q.Prepare, q.Ordered
	e.x, e.attempt.Txn = x, x
	return nil
}

// errNotBegun: the timestamp that would be assigned may lie below that of a commit acknowledged
// before the transaction began. Nothing was done.
var errNotBegun = base.Errorf(base.CodeUnavailable, "the clock mode has changed: retry")

// begin makes the commit lie above everything acknowledged before it, where the clock alone does
// not.
func (e *evaluation) begin(ctx context.Context) error {
	ts, err := e.r.clock.Snapshot(ctx)
	if err != nil {
		return err
	}
	e.q.MinTs, e.q.Begun = max(e.q.MinTs, uint64(ts)), true
	return nil
}

// errLookAgain begins an attempt anew with its locks.
var errLookAgain = base.Errorf(base.CodeUnavailable, "look again")

// run takes an attempt through the phases from its locks to its proposal.
func (e *evaluation) run(ctx context.Context) (chan proposed, error) {
	for {
		if err := e.by.lock(ctx, e); err != nil {
			return nil, err
		}
		if err := e.by.look(ctx, e); err != nil {
			return nil, err
		}
		if err := e.by.choose(ctx, e); err != nil {
			return nil, err
		}
		done, err := e.r.propose(e)
		for err != nil {
			if err = e.by.overcome(ctx, e, err); err != nil {
				break
			}
			done, err = e.r.propose(e)
		}
		if err != errLookAgain {
			return done, err
		}
	}
}

// proposed is what became of a command.
type proposed struct {
	out   state.Outcome
	index uint64
	err   error
}

// propose assigns the timestamp and hands the command to the group, in one order (OWN-2): what is
// assigned later is higher and lies behind it in the log. The caller pushes the group.
func (r *Replica) propose(e *evaluation) (chan proposed, error) {
	r.propMu.Lock()
	defer r.propMu.Unlock()
	r.mu.Lock()
	err := e.mayPropose()
	if err == nil {
		err = e.by.assign(e)
	}
	if err != nil {
		r.mu.Unlock()
		return nil, err
	}
	e.proposed = time.Now()
	cmd := e.by.entry(e)
	cmd.Needs = e.q.Needs
	leased := r.addLease(cmd)
	r.mu.Unlock()
	done := r.enqueue(cmd, e.term, leased)
	e.by.handed(e)
	return done, nil
}

// mayPropose is why the attempt cannot be proposed any more; nil if it can. mu is held.
func (e *evaluation) mayPropose() error {
	if !e.r.current(e.x, e.term) {
		return e.r.lost(e.x, e.term)
	}
	return e.r.mayPropose(e.term)
}

// announce shows the writes of the attempt to readers as being under way at its timestamp, once
// that has been chosen. mu is held.
func (e *evaluation) announce() {
	x := e.x
	x.TS, x.Hi, x.Handover = e.ts, e.hi, append(e.Handover, e.staged()...)
	x.Keys = evaluate.KeysOf(e.Writes)
	e.r.LockTable.Ending(x.ID, true)
}

// vote is the vote of the attempt as it is logged.
func (e *evaluation) vote() *wire.Vote {
	return &wire.Vote{Txn: e.x.ID[:], Lo: uint64(e.ts), Hi: uint64(e.hi), Participants: e.q.Participants,
		Writes: e.Writes, GatewayRegion: e.q.Txn.GatewayRegion, Depends: e.q.MinTs,
		Statement: e.q.Statement, Answer: e.q.Answer, Pieces: e.q.Pieces, Spans: view.Wired(e.staged())}
}

// logged is the commit of the attempt, in one group, as it is logged.
func (e *evaluation) logged() *wire.TxnCommit {
	return &wire.TxnCommit{Txn: e.x.ID[:], Writes: e.Writes, Statement: e.q.Statement, Answer: e.q.Answer}
}

// enqueue hands a command to the group; propMu is held. The caller pushes the group.
func (r *Replica) enqueue(cmd *wire.Command, term uint64, leased bool) chan proposed {
	done := make(chan proposed, 1)
	r.group.Enqueue(cmd, term, func(res any, index uint64, err error) {
		p := proposed{index: index, err: err}
		if err == nil {
			p.out, _ = res.(state.Outcome)
		} else if leased || len(cmd.Vector) > 0 {
			r.leaseFailed(term, err)
		}
		done <- p
	})
	return done
}

// failed ends an attempt of which nothing was proposed.
func (e *evaluation) failed(err error, resp *wire.CommitResponse) {
	r, code := e.r, base.CodeOf(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leave(e.x)
	if code == base.CodeWrongOwner {
		resp.Foreign = e.Foreign
	}
	resp.NeedTs = uint64(e.least)
	if e.x.Phase == txns.Active && !e.by.keeps(e, code) {
		r.release(e.x, true)
	}
}

// endsTxn reports whether a failure with a code ends the transaction here, whatever the protocol.
func endsTxn(code base.Code) bool {
	return code == base.CodeExists || code == base.CodeAborted || code == base.CodeInvalid
}

// entryOverhead is about what a command holds beside its writes: transaction, timestamps, raft's
// own fields.
const entryOverhead = 64

// complete ends a proposal: it releases a committed transaction once true time
// has passed its timestamp (commit wait, OWN-5), and keeps a prepared one.
func (r *Replica) complete(ctx context.Context, e *evaluation, p proposed, resp *wire.CommitResponse) error {
	var err error
	switch {
	case p.err != nil:
		return e.notLogged(p.err)
	case p.out.State == wire.TxnState_ABORTED:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.release(e.x, true)
		if p.out.Settled {
			return base.Errorf(base.CodeInvalid, "the statement of transaction %v has been settled by its gateway: "+
				"it must not run here any more", e.x.ID)
		}
		return base.Errorf(base.CodeAborted, "transaction %v was refused in group %v: "+
			"it took too long and was resolved by others, or is older than %s", e.x.ID, r.id, RecordAge)
	case e.q.Stage > 0:
		e.finishStage()
	case e.q.Prepare:
		err = e.finishVote(ctx, p.index, resp)
	default:
		err = e.finishCommit(ctx, p.index, resp)
	}
	if err != nil {
		return err
	}
	e.report(resp)
	return nil
}

// notLogged ends an attempt whose entry was not applied.
func (e *evaluation) notLogged(err error) error {
	if base.CodeOf(err) == base.CodeAmbiguous {
		return err // the lead is lost, and with it all that is known of the transaction here
	}
	e.r.mu.Lock()
	defer e.r.mu.Unlock()
	if e.x.Phase != txns.Prepared {
		e.r.Unpend(e.x)
		e.r.wakeWaiting()
	}
	e.r.leave(e.x)
	return err
}

// finishVote keeps a transaction whose vote is logged, and waits until others may rely on the vote.
func (e *evaluation) finishVote(ctx context.Context, index uint64, resp *wire.CommitResponse) error {
	r, x := e.r, e.x
	r.mu.Lock()
	r.delay.Took(time.Since(e.proposed))
	if x.Phase == txns.Preparing {
		x.Phase, x.Since = txns.Prepared, time.Now()
	}
	r.leave(x)
	r.mu.Unlock()
	// The mover comes after the decision: it waits for the row.
	resp.Moves = r.counter.Untaken(x, e.Writes)
	if !r.mixed(e.q.Participants) {
		return e.by.voted(ctx, e, resp)
	}
	at := &wire.VoteAt{Index: index, Incarnation: r.incarnation, Depends: e.q.MinTs}
	slot := e.q.Slot != 0 && !e.q.Ordered
	if slot {
		r.sendVote(e.q, at)
	}
	held := func(ctx context.Context) error {
		err := r.voteHeld(ctx, e.q.Participants, index, base.Timestamp(e.q.MinTs))
		if err == nil && (slot || !e.q.Sees) {
			err = e.by.voted(ctx, e, resp)
		}
		return err
	}
	if !e.q.Sees {
		return held(ctx)
	}
	resp.Vote = at
	if !slot {
		return e.by.voted(ctx, e, resp)
	}
	r.decideByVotes(x.ID)
	r.set.spawn(func(ctx context.Context) { _ = held(ctx) })
	return nil
}

// finishCommit waits until the client may be told of a commit that is logged, and releases it.
func (e *evaluation) finishCommit(ctx context.Context, index uint64, resp *wire.CommitResponse) error {
	r := e.r
	r.served(gauge.WriteService, e.term, e.ts, e.Own)
	defer func() { resp.Moves += r.counter.Untaken(e.x, e.Writes) }()
	r.mu.Lock()
	r.delay.Took(time.Since(e.proposed))
	// It lies before the applied index: it need not hold back what is closed as of that index.
	e.x.Index = index
	r.wakeWaiting()
	r.mu.Unlock()
	if err := e.by.committed(ctx, e); err != nil {
		return err
	}
	resp.Index = index
	return nil
}

// report fills in what the client is told of a commit or a vote.
func (e *evaluation) report(resp *wire.CommitResponse) {
	r := e.r
	resp.Moved = evaluate.MovedBy(e.Writes)
	resp.Moves += e.moves
	resp.Ts, resp.Hi = uint64(e.ts), uint64(e.hi)
	resp.Hops = uint32(max(r.group.Hops(), r.clock.Hops()))
	if e.q.Prepare && r.mixed(e.q.Participants) && resp.Vote == nil {
		resp.Hops += 2 // to another region, and its answer back
	}
	if resp.Copies = uint32(r.group.FarCopies()); resp.Copies > 0 {
		for _, w := range e.Writes {
			resp.Bytes += uint32(w.SizeVT() + 3)
		}
		resp.Bytes += entryOverhead
	}
}

// settleLate ends a commit whose client no longer waits.
func (r *Replica) settleLate(x *txns.Txn, ts base.Timestamp) {
	if r.settled(ts) {
		r.mu.Lock()
		r.release(x, false)
		r.mu.Unlock()
	}
}

// proposeCommand logs a command that assigns no timestamp and waits until it
// is applied. after, if not nil, runs once it is, also when no client waits any more.
func (r *Replica) proposeCommand(ctx context.Context, term uint64, fill func(*wire.Command),
	after func(state.Outcome)) (state.Outcome, error) {
	done, err := r.startCommand(term, fill, after)
	if err != nil {
		return state.Outcome{}, err
	}
	return r.commandDone(ctx, done)
}

// startCommand is proposeCommand without the wait: commandDone is that.
func (r *Replica) startCommand(term uint64, fill func(*wire.Command), after func(state.Outcome)) (chan proposed, error) {
	r.propMu.Lock()
	defer r.propMu.Unlock()
	r.mu.Lock()
	if err := r.mayPropose(term); err != nil {
		r.mu.Unlock()
		return nil, err
	}
	cmd := r.command(0)
	fill(cmd)
	r.addLease(cmd)
	r.mu.Unlock()
	done := make(chan proposed, 1)
	r.group.ProposeAsync(cmd, term, func(res any, _ uint64, err error) {
		p := proposed{err: err}
		p.out, _ = res.(state.Outcome)
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
	return done, nil
}

// commandDone waits until a command is applied.
func (r *Replica) commandDone(ctx context.Context, done <-chan proposed) (state.Outcome, error) {
	select {
	case p := <-done:
		return p.out, p.err
	case <-ctx.Done():
		return state.Outcome{}, base.Errorf(base.CodeAmbiguous, "group %v: %v while a command was being logged", r.id,
			context.Cause(ctx))
	}
}
