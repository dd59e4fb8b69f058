package txn

import (
	"context"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/wire"
)

// Statements that this gateway forwards (docs/protocol.md, FWD). The group that owns the first of a
// statement's rows settles it: its log has the commit, or the refusal, whichever comes first.

// NameStatement gives a statement whose first row has a key a name of its own, and says which group
// settles it; false if nothing is known of the key.
func (db *DB) NameStatement(key base.Key) (name base.TxnID, g base.GroupID, ok bool) {
	h, ok := db.hints.Get(key)
	if !ok {
		if h.Group, ok = db.set.Locate(key); !ok {
			return name, 0, false
		}
	}
	return db.newID(db.clock.Now()), h.Group, true
}

// WhileLed calls f with a context that ends when another node than the one given has led the group
// for a while.
func (db *DB) WhileLed(ctx context.Context, g base.GroupID, by base.NodeID, f func(context.Context) error) error {
	return db.router.WhileLed(ctx, g, by, f)
}

// Settle finds out how a statement has ended whose answer was lost, for the reason given. It was
// sent at since. If it has not committed, it never will from now on. CodeAmbiguous: that could not
// be found out in the time that the statement had left. What the client may be told of a commit, it
// may be told when Settle returns.
func (db *DB) Settle(ctx context.Context, name base.TxnID, g base.GroupID, since time.Time, why error) (kv.Settled, error) {
	var got kv.Settled
	err := db.askOutcome(ctx, name, since, why, func(ctx context.Context) (err error) {
		for vote := true; vote && err == nil; {
			got, vote, err = db.askStatement(ctx, name, g)
		}
		return err
	})
	if err != nil || !got.Committed || db.cfg.EarlyAnswers {
		return got, err
	}
	if err = db.tellAllManagers(ctx, got.TS); err == nil {
		err = db.settle(context.WithoutCancel(ctx), got.TS)
	}
	if err != nil {
		err = base.Errorf(base.CodeAmbiguous, "statement %v committed at %s: %v", name, got.TS, err)
	}
	return got, err
}

// askStatement asks the group how a statement stands. vote: a transaction had voted for it and has
// come to nothing, so ask again. If it has committed, its vote says what the client is to be told.
func (db *DB) askStatement(ctx context.Context, name base.TxnID, g base.GroupID) (got kv.Settled, vote bool, err error) {
	resp, err := db.router.Resolve(ctx, &wire.ResolveRequest{Group: uint32(g), Txn: name[:], Statement: true})
	if err == nil {
		err = owner.ErrorOf(resp.Status)
	}
	if err != nil {
		return got, false, err
	}
	switch resp.State {
	case wire.TxnState_COMMITTED:
		return kv.Settled{Committed: true, TS: base.Timestamp(resp.Ts), Answer: resp.Answer}, false, nil
	case wire.TxnState_ABORTED:
		return got, false, nil
	case wire.TxnState_PREPARED:
		if db.cfg.VotesEnd {
			return got, false, nil
		}
		return db.decideFor(ctx, g, resp)
	}
	return got, false, base.Errorf(base.CodeAmbiguous, "the outcome of statement %v has been forgotten", name)
}

// decideFor settles a transaction that has voted for a statement. The groups that took part are
// told in the background if it has committed; else this one has to know before it is asked again.
func (db *DB) decideFor(ctx context.Context, g base.GroupID, vote *wire.ResolveResponse) (got kv.Settled, again bool, err error) {
	var groups []base.GroupID
	for _, p := range vote.Participants {
		groups = append(groups, base.GroupID(p))
	}
	if len(vote.Txn) != len(base.TxnID{}) {
		return got, false, base.Errorf(base.CodeInvalid, "group %v: a vote without a transaction", g)
	}
	ts, committed, err := db.router.Outcome(ctx, base.TxnID(vote.Txn), groups)
	if err != nil {
		return got, false, err
	}
	if committed && vote.Answer != nil {
		for _, g := range groups {
			db.tasks.Spawn(func(ctx context.Context) { _ = db.tellOutcome(ctx, g, vote.Txn, true, ts) })
		}
		return kv.Settled{Committed: true, TS: ts, Answer: vote.Answer}, false, nil
	}
	return got, true, db.tellOutcome(ctx, g, vote.Txn, committed, ts)
}

// tellOutcome tells a group how a transaction that has voted there has ended.
func (db *DB) tellOutcome(ctx context.Context, g base.GroupID, txn []byte, commit bool, ts base.Timestamp) error {
	q := &wire.FinishRequest{Group: uint32(g), Txn: txn, Commit: commit, Ts: uint64(ts), Prepared: true}
	resp, err := db.router.Finish(ctx, q)
	if err == nil {
		err = owner.ErrorOf(resp.Status)
	}
	return err
}

// tellAllManagers tells the timestamp managers of all regions, if there are any, that a transaction
// ended at ts: which regions it touched is not known here.
func (db *DB) tellAllManagers(ctx context.Context, ts base.Timestamp) error {
	if !db.managed {
		return nil
	}
	t := db.Begin(kv.Options{}).(*Txn)
	defer t.Rollback(ctx)
	if err := t.startOrder(ctx); err != nil {
		return err
	}
	var regions []base.RegionID
	for _, r := range db.cfg.Topology().Regions {
		regions = append(regions, r.ID)
	}
	_, err := t.tellEnds(ctx, regions, ts)()
	return err
}
