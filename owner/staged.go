package owner

import (
	"context"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/lock"
	"github.com/godwitdb/godwit/owner/evaluate"
	"github.com/godwitdb/godwit/owner/inorder"
	"github.com/godwitdb/godwit/owner/state"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/wire"
)

// Large transactions (docs/protocol.md, STAGE): their writes are logged in pieces before the vote,
// and become rows in pieces after it.

// byStage logs a piece. It is evaluated as by byLock, under ranges of locks, which the transaction
// keeps until its end. It gets no timestamp and shows nothing to readers.
type byStage struct{ byLock }

func (byStage) leased(*wire.CommitRequest) bool { return true }
func (byStage) mustBegin() bool                 { return false }
func (byStage) blind() bool                     { return false }

func (byStage) lock(ctx context.Context, e *evaluation) error {
	for _, w := range e.q.Writes {
		if w.Soft {
			w.Move = 0
		}
	}
	// The policy of homes does not learn of bulk writes: it would keep something for each row.
	e.attempt.Count = func(*wire.Write, *view.Place) {}
	return e.lockCover(ctx, evaluate.Cover(e.q.Writes, nil))
}

// lockCover locks ranges, and waits for votes for slots on their rows: a patch may be evaluated
// later than this transaction, and holds no lock in this tier (REL-9b).
func (e *evaluation) lockCover(ctx context.Context, spans []base.Span) error {
	r := e.r
	if r.cfg.Unlocked {
		return nil
	}
	if _, err := r.lock(ctx, e.x, e.term, lock.Exclusive, slices.Clone(spans)...); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := r.SlotIn(e.x, spans); p != nil; p = r.SlotIn(e.x, spans) {
		if err := r.awaitEnd(ctx, p); err != nil {
			return err
		}
		if !r.current(e.x, e.term) {
			return r.lost(e.x, e.term)
		}
	}
	return nil
}

func (byStage) look(ctx context.Context, e *evaluation) error {
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
		e.cover = evaluate.Cover(e.q.Writes, e.Handover)
		if e.r.cfg.Unlocked || len(missing.Gaps) == 0 && len(missing.Soft) == 0 {
			return e.r.awaitArrivals(ctx, &e.arrivals)
		}
		if err := e.lockCover(ctx, e.cover); err != nil {
			return err
		}
	}
}

func (byStage) assign(e *evaluation) error { return e.hasStaged(e.q.Stage - 1) }

func (byStage) entry(e *evaluation) *wire.Command {
	cmd := e.r.command(0)
	cmd.Stage = &wire.Stage{Txn: e.x.ID[:], Piece: e.q.Stage, Writes: e.Writes}
	return cmd
}

func (byStage) handed(*evaluation) {}

func (byStage) overcome(_ context.Context, _ *evaluation, err error) error { return err }

// hasStaged makes sure that so many pieces of the transaction were staged under locks that it still
// has (STAGE-2). mu is held.
func (e *evaluation) hasStaged(pieces uint32) error {
	if n := e.x.Staged.Pieces; n != pieces && !e.r.cfg.AnyPieces {
		return base.Errorf(base.CodeAborted, "group %v has %d of the %d pieces of transaction %v: "+
			"the leader changed, or nothing was heard of it for too long", e.r.id, n, pieces, e.x.ID)
	}
	return nil
}

// staged are the ranges that the pieces of a vote write.
func (e *evaluation) staged() []base.Span {
	if e.q.Pieces == 0 {
		return nil
	}
	return e.x.Staged.Spans
}

// checkPieces refuses a large transaction that a promotion could not carry over.
func (r *Replica) checkPieces(q *wire.CommitRequest) error {
	if q.Pieces > 0 && r.async() && r.mixed(q.Participants) {
		return base.Errorf(base.CodeInvalid, "a transaction this large cannot write tables with REPLICATION ASYNC "+
			"together with others: commit them in transactions of their own")
	}
	return nil
}

// finishStage notes a piece that is in the log.
func (e *evaluation) finishStage() {
	e.r.mu.Lock()
	defer e.r.mu.Unlock()
	e.x.Staged.Add(e.cover, e.Since)
	e.r.leave(e.x)
}

// settlePieces makes rows of the pieces of a transaction that has committed, and ends it here. It
// returns when that is done, and goes on if ctx ends before.
func (r *Replica) settlePieces(ctx context.Context, id base.TxnID, term uint64, ts base.Timestamp) (state.Outcome, error) {
	r.mu.Lock()
	x := r.ByID[id]
	if x != nil && !x.Settling && r.lead.Term == term {
		x.Settling, x.Deciding = true, true
		r.logged.Pieces.Begin(&r.logged, id, r.rep.Prepared[id])
		go r.settle1by1(x, term, ts)
	}
	r.mu.Unlock()
	err := r.await(ctx, RecordAge, func() bool { return r.lead.Term != term || r.ByID[id] != x || x == nil || !x.Settling },
		"group %v: transaction %v has committed, and is still being settled", r.id, id)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && r.rep.Prepared[id] != nil {
		err = r.notLeader()
	}
	return state.Outcome{State: wire.TxnState_COMMITTED, TS: ts}, err
}

// settle1by1 logs a few pieces after the other, so that other entries come in between.
func (r *Replica) settle1by1(x *txns.Txn, term uint64, ts base.Timestamp) {
	ctx, cancel := r.life()
	defer cancel()
	defer r.logged.Pieces.End(x.ID)
	for {
		r.mu.Lock()
		v := r.rep.Prepared[x.ID]
		err := r.mayPropose(term)
		r.mu.Unlock()
		if v == nil && !r.settled(ts) {
			return
		}
		if v == nil || base.CodeOf(err) == base.CodeNotLeader {
			r.endSettling(x, term, ts, v == nil)
			return
		}
		if err == nil {
			err = r.settleSome(ctx, x, term, ts, v)
		}
		if err == nil && r.cfg.HalfSettled {
			r.endSettling(x, term, ts, true)
		}
		if err != nil {
			select {
			case <-time.After(settleAgain):
			case <-ctx.Done():
				return
			}
		}
	}
}

// settleAhead is how many pieces are settled at once: while one becomes rows, the log is written
// for those behind it. Other entries come after them, so it is not more.
const settleAhead = 4

// settleSome logs the pieces of a vote that are left, in their order, and waits for them. If one of
// them is lost, those behind it do nothing (STAGE-4), and it returns when none is under way.
func (r *Replica) settleSome(ctx context.Context, x *txns.Txn, term uint64, ts base.Timestamp, v *wire.Vote) error {
	last := v.Pieces
	if r.cfg.HalfSettled {
		last = v.Applied + 1
	}
	return inorder.Run(v.Applied+1, last, settleAhead, func(piece uint32) (chan proposed, error) {
		return r.startCommand(term, func(c *wire.Command) {
			c.Settle = &wire.Settle{Txn: x.ID[:], Ts: uint64(ts), Piece: piece}
		}, nil)
	}, func(done chan proposed) error {
		_, err := r.commandDone(ctx, done)
		return err
	})
}

// endSettling ends a transaction whose pieces are settled, or lets the next leader go on.
func (r *Replica) endSettling(x *txns.Txn, term uint64, ts base.Timestamp, over bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if over && r.lead.Term == term && r.ByID[x.ID] == x {
		r.lead.Floor = max(r.lead.Floor, ts) // OWN-10
		r.release(x, true)
	}
	x.Settling, x.Deciding = false, false
	r.wake()
}
