package txn

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/wire"
)

// lockCommit commits a transaction that has locked or will lock what it writes. With one group the
// commit is one log entry there, which chooses the timestamp. With several, each logs a Prepare
// with the timestamps that suit it, and the transaction commits at the least one that suits all.
type lockCommit struct {
	proposal
	margin time.Duration // how far ahead of now the schema has to be known to hold
}

func (c *lockCommit) voted(*proposal, base.RegionID, *wire.CommitResponse, time.Duration) {}

// commit has no time limit of its own, which would cost a commit led here 2 % of its time: each of
// its waits has one.
func (c *lockCommit) commit(ctx context.Context) (ts base.Timestamp, err error) {
	t := c.t
	t.started()
	t.lockOnly()
	if c.plan, err = t.planLocked(ctx); err != nil {
		return 0, err
	}
	return c.commitPlan(ctx)
}

// commitPlan commits what the plan has.
func (c *lockCommit) commitPlan(ctx context.Context) (ts base.Timestamp, err error) {
	t := c.t
	if _, err := t.open(ctx); err != nil {
		return 0, err
	}
	for try := range maxReroutes {
		groups := c.groups()
		c.margin = t.margin(groups, t.buf.Len(), try == 0 && len(groups) == 1)
		if len(groups) > 1 {
			return c.prepareAll(ctx, groups)
		}
		ts, again, err := c.commitIn(ctx, groups)
		if !again {
			return ts, err
		}
	}
	return 0, base.Errorf(base.CodeUnavailable, "the owners of the written keys keep moving: retry")
}

// commitIn commits in the only group that there is. again: a key has another owner, or the bound
// was too low; the next try does better.
func (c *lockCommit) commitIn(ctx context.Context, groups []base.GroupID) (ts base.Timestamp, again bool, err error) {
	t, g := c.t, groups[0]
	if c.bound, err = t.holdFor(ctx, c.margin); err != nil {
		return 0, false, err
	}
	if len(c.plan.writes[g]) == 0 {
		ts, err = t.confirmLocks(ctx) // all writes cancelled each other out; the locks are left
		return ts, false, err
	}
	r := c.one(ctx, g)
	if r.err != nil {
		return 0, c.mayReroute(g, r), r.err
	}
	if r.asked {
		if err := t.settled(ctx, r.ts); err != nil {
			return 0, false, err
		}
	}
	t.db.stats.OneRound.Add(1)
	t.releaseOthers(groups)
	return r.ts, false, nil
}

// mayReroute reports whether a refused commit can be tried again, with the owners that the group
// has named.
func (c *lockCommit) mayReroute(g base.GroupID, r result) bool {
	switch base.CodeOf(r.err) {
	case base.CodeTooLate:
		return true
	case base.CodeWrongOwner:
		c.t.db.stats.Forwarded.Add(int64(len(r.foreign)))
		c.t.db.noteFar(r.foreign)
		c.plan.reroute(g, r.foreign)
		return true
	}
	return false
}

// prepareAll commits in several groups.
func (c *lockCommit) prepareAll(ctx context.Context, groups []base.GroupID) (ts base.Timestamp, err error) {
	t := c.t
	if t.db.leadsGroup(base.MetaGroup) {
		// Unlike a commit in one group, a Prepare that comes too late is the end of the
		// transaction; and here the bound costs no wait.
		c.margin = max(c.margin, prepareMargin)
	}
	if c.bound, err = t.holdFor(ctx, c.margin); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, t.db.cfg.Limits.Commit)
	defer cancel()
	r := c.several(ctx, groups, c)
	if r.err != nil {
		return 0, refusal(r.err)
	}
	return r.ts, t.settled(ctx, r.ts)
}

// lockEnd ends a transaction that only read, under locks.
type lockEnd struct{ t *Txn }

func (e lockEnd) voted(*proposal, base.RegionID, *wire.CommitResponse, time.Duration) {}

func (e lockEnd) commit(ctx context.Context) (base.Timestamp, error) {
	ctx, cancel := context.WithTimeout(ctx, e.t.db.cfg.Limits.Commit)
	defer cancel()
	return e.t.confirmLocks(ctx)
}

// confirmLocks ends a transaction that only read, under locks. Its place in the serial order is an
// instant at which it held them all and which lies above all timestamps read: what was read may be
// so new that its own commit wait goes on (where a row has just changed owner). One group vouches
// for its locks with every answer; of several, or after a wait, each has to confirm that they are
// still there.
func (t *Txn) confirmLocks(ctx context.Context) (base.Timestamp, error) {
	held := t.locked()
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
		// Whoever locks these rows after the transaction must commit above that instant, which the
		// owners' clocks may not have reached.
		for _, p := range held {
			waits = waits || !p.opened
		}
	}
	if len(t.pins) > 0 {
		if _, err := t.holdFor(ctx, 0); err != nil {
			return 0, err
		}
	}
	// Not before what it read: a slot may lie between, whose old state it read elsewhere.
	at := max(now, t.maxTS)
	moves := 0
	if len(held) > 1 || waits && len(held) > 0 {
		if moves, err = t.finishReads(ctx, held, at); err != nil {
			return 0, err
		}
		t.end(false)
	}
	obs.TraceOf(ctx).AddMoves(moves + t.release(false, true))
	return at, nil
}

// finishReads has groups confirm and give back the locks of a transaction that is placed at a
// timestamp. It returns how many moves of rows that has set off.
func (t *Txn) finishReads(ctx context.Context, held []part, at base.Timestamp) (int, error) {
	var moves atomic.Int64
	errs := make([]error, len(held))
	obs.Each(ctx, len(held), func(ctx context.Context, i int) {
		resp, err := t.db.router.Finish(ctx, &wire.FinishRequest{Group: uint32(held[i].group), Txn: t.id[:],
			MinTs: uint64(t.opened()), At: uint64(at), Done: true})
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
	return int(moves.Load()), nil
}
