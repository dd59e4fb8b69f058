package txn

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/wire"
)

// maxTooLate bounds how often a commit is tried again with a newer schema horizon.
const maxTooLate = 50

// Commit implements kv.Txn.
func (t *Txn) Commit(ctx context.Context) (base.Timestamp, error) {
	if t.err != nil {
		return 0, t.err
	}
	ts, err := t.commit(t.ctx(ctx))
	if err != nil {
		if t.err == nil {
			t.err = err
			t.release()
		}
		return 0, err
	}
	t.err = base.Errorf(base.CodeOther, "the transaction is committed")
	t.end()
	return ts, nil
}

func (t *Txn) commit(ctx context.Context) (base.Timestamp, error) {
	if t.buf.empty() && len(t.parts) == 0 {
		return t.readTS, t.checkReadPins(ctx)
	}
	if err := t.checkAbsent(ctx); err != nil {
		return 0, err
	}
	groups, err := t.assign(nil)
	if err != nil {
		return 0, err
	}
	if len(t.pins) > 0 && (groups[base.MetaGroup] != nil || t.parts[base.MetaGroup] != nil) {
		if err := t.lockPins(ctx); err != nil {
			return 0, err
		}
	}
	for round := 0; ; round++ {
		if round == maxRounds {
			return 0, base.Errorf(base.CodeUnavailable, "the owners of the written keys could not be found in %d rounds; retry", maxRounds)
		}
		participants := t.participants(groups)
		if len(participants) != 1 || t.buf.empty() {
			break
		}
		ts, err := t.commitOne(ctx, participants[0], groups[participants[0]])
		var moved *movedError
		if !errors.As(err, &moved) {
			return ts, err
		}
		if groups, err = t.assign(moved.to); err != nil {
			return 0, err
		}
	}
	if t.buf.empty() {
		return t.confirm(ctx)
	}
	if err := t.lockBlind(ctx); err != nil {
		return 0, err
	}
	if groups, err = t.assign(nil); err != nil {
		return 0, err
	}
	participants := t.participants(groups)
	if len(participants) == 1 {
		return t.commitOne(ctx, participants[0], groups[participants[0]])
	}
	return t.commitMany(ctx, participants, groups)
}

// checkReadPins makes sure that a snapshot was read with the schema of its time.
func (t *Txn) checkReadPins(ctx context.Context) error {
	if len(t.pins) == 0 {
		return nil
	}
	if _, err := t.db.metaClosed(ctx, t.readTS); err != nil {
		return err
	}
	for _, p := range t.pins {
		if p.ts >= t.readTS {
			continue
		}
		if changed, err := t.db.cfg.Owners.ChangedWithin(p.span, p.ts, t.readTS); err != nil || changed {
			return errors.Join(err, errChanged(p.span))
		}
	}
	return nil
}

// checkAbsent looks up keys that were inserted and deleted again without
// anybody having looked whether they existed before.
func (t *Txn) checkAbsent(ctx context.Context) error {
	var keys []base.Key
	t.buf.all(func(e *entry) {
		if o := &e.ops[len(e.ops)-1]; o.absent && o.kind != wire.WriteKind_INSERT {
			if f, ok := t.known[string(e.key)]; !ok || f.present {
				keys = append(keys, e.key)
			}
		}
	})
	if len(keys) == 0 {
		return nil
	}
	want := make([]int, len(keys))
	for i := range want {
		want[i] = i
	}
	rows := make([]kv.Row, len(keys))
	if err := t.getPoints(ctx, keys, want, kv.LockExclusive, rows); err != nil {
		return err
	}
	for _, r := range rows {
		if r.Value != nil {
			return exists(r.Key)
		}
	}
	return nil
}

func exists(k base.Key) error {
	e := base.Errorf(base.CodeExists, "key %v exists", k)
	e.Key = k
	return e
}

// assign files the writes under the groups that own their keys, as far as
// known; moved overrides what was known.
func (t *Txn) assign(moved map[string]base.GroupID) (map[base.GroupID][]*wire.Write, error) {
	groups := map[base.GroupID][]*wire.Write{}
	t.buf.all(func(e *entry) {
		o := &e.ops[len(e.ops)-1]
		g, ok := moved[string(e.key)]
		if !ok {
			g = t.guess(e.key)
		} else {
			t.mu.Lock()
			if t.known == nil {
				t.known = map[string]found{}
			}
			// Where to ask next; not locked, so nothing is known of the row.
			f := t.known[string(e.key)]
			f.group = g
			t.known[string(e.key)] = f
			t.mu.Unlock()
		}
		kind := o.kind
		if kind != wire.WriteKind_DELETE && o.absent {
			kind = wire.WriteKind_INSERT
		} else if kind == wire.WriteKind_INSERT {
			kind = wire.WriteKind_PUT
		}
		groups[g] = append(groups[g], &wire.Write{Kind: kind, Key: e.key, Value: o.value, Home: uint32(o.home)})
	})
	return groups, nil
}

// participants are the groups that hold locks or get writes, in order.
func (t *Txn) participants(groups map[base.GroupID][]*wire.Write) []base.GroupID {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []base.GroupID
	for g := range groups {
		out = append(out, g)
	}
	for g, p := range t.parts {
		if p.term != 0 && groups[g] == nil {
			out = append(out, g)
		}
	}
	slices.Sort(out)
	return out
}

// movedError says which keys belong to other groups than the one asked.
type movedError struct{ to map[string]base.GroupID }

func (e *movedError) Error() string { return "keys belong to another group" }

func (t *Txn) request(g base.GroupID, writes []*wire.Write, maxTS base.Timestamp) *wire.CommitRequest {
	term := t.enlist(g, nil)
	t.mu.Lock()
	defer t.mu.Unlock()
	req := &wire.CommitRequest{Group: uint32(g), Txn: &t.meta, Writes: writes, MinTs: uint64(t.maxTS), MaxTs: uint64(maxTS), LockTerm: term}
	for r, i := range t.parts[g].need {
		req.Need = append(req.Need, &wire.GroupIndex{Region: uint32(r), Index: i})
	}
	return req
}

// commitOne commits in the only participant: one log entry.
func (t *Txn) commitOne(ctx context.Context, g base.GroupID, writes []*wire.Write) (base.Timestamp, error) {
	for try := 0; ; try++ {
		maxTS, err := t.checkPins(ctx)
		if err != nil {
			return 0, err
		}
		req := t.request(g, writes, maxTS)
		res, err := t.db.commit(ctx, req)
		if res != nil {
			t.observe(res.Now)
		}
		switch base.CodeOf(err) {
		case base.CodeTooLate:
			if t.db.horizon.tooShort(); try < maxTooLate {
				continue
			}
			return 0, base.Errorf(base.CodeUnavailable, "the catalog's closed timestamp stays behind the present: is the meta group's leader reachable? (%v)", err)
		case base.CodeWrongOwner:
			moved := &movedError{map[string]base.GroupID{}}
			for _, f := range res.GetForeign() {
				moved.to[string(f.Span.Start)] = base.GroupID(f.Group)
				t.enlist(base.GroupID(f.Group), f.Since)
			}
			if len(moved.to) == 0 {
				return 0, base.Errorf(base.CodeUnavailable, "group %v does not say who owns the keys; retry", g)
			}
			return 0, moved
		case base.CodeAmbiguous, base.CodeCanceled:
			return t.learn(g, err)
		}
		if err != nil {
			return 0, err
		}
		t.forgetPart(g)
		t.release() // groups that were asked by mistake
		return base.Timestamp(res.Ts), nil
	}
}

// learn finds out how a one-round commit ended whose answer was lost.
func (t *Txn) learn(g base.GroupID, cause error) (base.Timestamp, error) {
	ctx, cancel := context.WithTimeout(t.db.ctx, t.db.cfg.ResolveTimeout)
	defer cancel()
	res, err := t.db.cfg.Owners.Router().Resolve(ctx, &wire.ResolveRequest{Group: uint32(g), Txn: t.id[:]})
	if err == nil {
		err = owner.ErrorOf(res.Status)
	}
	switch {
	case err != nil:
		return 0, base.Errorf(base.CodeAmbiguous, "the commit was sent but its outcome could not be learnt: check the data before trying again (%v; %v)", cause, err)
	case res.State == wire.TxnState_COMMITTED:
		t.forgetPart(g)
		return base.Timestamp(res.Ts), nil
	case res.State == wire.TxnState_ABORTED:
		return 0, base.Errorf(base.CodeAborted, "the commit did not take effect: %v", cause)
	}
	return 0, base.Errorf(base.CodeAmbiguous, "group %v reports state %v for a one-round commit (%v)", g, res.State, cause)
}

// confirm ends a transaction that locked in several groups and wrote nothing.
func (t *Txn) confirm(ctx context.Context) (base.Timestamp, error) {
	if _, err := t.checkPins(ctx); err != nil {
		return 0, err
	}
	groups := t.participants(nil)
	if len(groups) == 1 {
		t.release() // the last read found all locks of the term still held
		return t.maxTS, nil
	}
	errs := make([]error, len(groups))
	ctx, cancel := context.WithTimeout(ctx, t.db.cfg.RequestTimeout)
	defer cancel()
	parallel(ctx, len(groups), func(ctx context.Context, i int) {
		res, err := t.db.cfg.Owners.Router().Finish(ctx, &wire.FinishRequest{Group: uint32(groups[i]), Txn: t.id[:]})
		if err == nil {
			err = owner.ErrorOf(res.Status)
		}
		if errs[i] = err; err == nil {
			t.forgetPart(groups[i])
		}
	})
	for _, err := range errs {
		if err != nil {
			// Nothing was written: whatever happened, running it again is safe.
			return 0, base.Errorf(base.CodeAborted, "the locks of the reads could not be confirmed: %v", err)
		}
	}
	return t.maxTS, nil
}

// lockBlind locks the write keys that no read has locked (C5).
func (t *Txn) lockBlind(ctx context.Context) error {
	var keys []base.Key
	t.buf.all(func(e *entry) {
		if t.known[string(e.key)].mode != kv.LockExclusive {
			keys = append(keys, e.key)
		}
	})
	if len(keys) == 0 {
		return nil
	}
	want := make([]int, len(keys))
	for i := range want {
		want[i] = i
	}
	rows := make([]kv.Row, len(keys))
	if err := t.getPoints(ctx, keys, want, kv.LockExclusive, rows); err != nil {
		return err
	}
	for i, r := range rows {
		if e := t.buf.get(keys[i]); r.Value != nil && e.ops[len(e.ops)-1].absent {
			return exists(keys[i])
		}
	}
	return nil
}

type vote struct {
	lo, hi base.Timestamp
	err    error
}

// commitMany prepares in all participants at once and applies rule C2.
func (t *Txn) commitMany(ctx context.Context, groups []base.GroupID, writes map[base.GroupID][]*wire.Write) (base.Timestamp, error) {
	maxTS, err := t.checkPins(ctx)
	if err != nil {
		return 0, err
	}
	ids := make([]uint32, len(groups))
	for i, g := range groups {
		ids[i] = uint32(g)
	}
	votes := make([]vote, len(groups))
	parallel(ctx, len(groups), func(ctx context.Context, i int) {
		req := t.request(groups[i], writes[groups[i]], maxTS)
		req.Prepare = true
		req.Participants = ids
		res, err := t.db.commit(ctx, req)
		switch base.CodeOf(err) {
		case base.CodeAmbiguous, base.CodeCanceled:
			votes[i] = t.askVote(groups[i], err)
			return
		}
		if res != nil {
			t.observe(res.Now)
			votes[i] = vote{lo: base.Timestamp(res.Ts), hi: base.Timestamp(res.Hi)}
		}
		votes[i].err = err
	})
	ts, err := decide(votes)
	if base.CodeOf(err) == base.CodeAmbiguous {
		return 0, err // left to recovery: nobody may abort what others may have committed
	}
	t.mu.Lock()
	t.parts = nil
	t.mu.Unlock()
	t.db.unregister(t)
	commit := err == nil
	if commit {
		t.db.horizon.longEnough()
	} else if base.CodeOf(err) == base.CodeTooLate {
		t.db.horizon.tooShort()
	}
	err = translate(err)
	if commit && !t.db.cfg.Alone() {
		if err := t.db.cfg.Clock.WaitPast(context.WithoutCancel(ctx), ts); err != nil {
			return 0, err
		}
	}
	t.announce(groups, commit, ts)
	return ts, err
}

// decide is rule C2.
func decide(votes []vote) (base.Timestamp, error) {
	lo, hi := base.Timestamp(0), base.MaxTimestamp
	var ambiguous error
	for _, v := range votes {
		switch {
		case v.err == nil:
			lo = max(lo, v.lo)
			if v.hi != 0 {
				hi = min(hi, v.hi)
			}
		case base.CodeOf(v.err) == base.CodeAmbiguous:
			ambiguous = v.err
		default:
			return 0, v.err
		}
	}
	if ambiguous != nil {
		return 0, ambiguous
	}
	if lo >= hi {
		return 0, base.Errorf(base.CodeTooLate, "the participants' votes have no timestamp in common (a lease or the schema horizon ended too early)")
	}
	return lo, nil
}

// translate turns codes that are no business of clients into retryable ones.
func translate(err error) error {
	if err == nil {
		return nil
	}
	switch base.CodeOf(err) {
	case base.CodeTooLate, base.CodeWrongOwner, base.CodeNotLeader:
		return base.Errorf(base.CodeAborted, "%v; run the transaction again", err)
	}
	return err
}

// askVote asks a participant how it voted when its answer was lost.
func (t *Txn) askVote(g base.GroupID, cause error) vote {
	ctx, cancel := context.WithTimeout(t.db.ctx, t.db.cfg.ResolveTimeout)
	defer cancel()
	res, err := t.db.cfg.Owners.Router().Resolve(ctx, &wire.ResolveRequest{Group: uint32(g), Txn: t.id[:]})
	if err == nil {
		err = owner.ErrorOf(res.Status)
	}
	switch {
	case err != nil:
		return vote{err: base.Errorf(base.CodeAmbiguous, "the commit was sent but its outcome could not be learnt: check the data before trying again (%v; %v)", cause, err)}
	case res.State == wire.TxnState_PREPARED:
		return vote{lo: base.Timestamp(res.Ts), hi: base.Timestamp(res.Hi)}
	case res.State == wire.TxnState_COMMITTED:
		// Somebody else has finished it with all votes at hand.
		return vote{lo: base.Timestamp(res.Ts)}
	}
	return vote{err: base.Errorf(base.CodeAborted, "group %v did not prepare: %v", g, cause)}
}

// announce tells the participants the decision. One that is not reached asks
// the others by itself.
func (t *Txn) announce(groups []base.GroupID, commit bool, ts base.Timestamp) {
	for _, g := range groups {
		req := &wire.FinishRequest{Group: uint32(g), Txn: t.id[:], Commit: commit, Ts: uint64(ts), Prepared: true}
		t.db.background(func(ctx context.Context) { t.db.finish(ctx, g, req) })
	}
}

// finish delivers a FinishRequest; recovery does what it cannot.
func (d *DB) finish(ctx context.Context, g base.GroupID, req *wire.FinishRequest) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	// An owner that has ended it already says so with an error: nothing to do.
	if _, err := d.cfg.Owners.Router().Finish(ctx, req); err != nil && d.ctx.Err() == nil {
		d.cfg.Logger.Debug("transaction's end not delivered, left to recovery", "group", g, "err", err)
	}
}

// Rollback implements kv.Txn.
func (t *Txn) Rollback(context.Context) {
	if t.err == nil {
		t.err = base.Errorf(base.CodeOther, "the transaction was rolled back")
	}
	t.release()
}

func (t *Txn) forgetPart(g base.GroupID) {
	t.mu.Lock()
	delete(t.parts, g)
	t.mu.Unlock()
}

// release gives up the locks still held anywhere, in the background where they are on other nodes.
func (t *Txn) release() {
	t.mu.Lock()
	parts := t.parts
	t.parts = nil
	t.mu.Unlock()
	if parts != nil {
		t.db.unregister(t)
	}
	for g := range parts {
		req := &wire.FinishRequest{Group: uint32(g), Txn: t.id[:]}
		if rep := t.db.cfg.Owners.Replica(g); rep != nil {
			if _, serving := rep.Serving(); serving {
				rep.Finish(t.db.ctx, req)
				continue
			}
		}
		t.db.background(func(ctx context.Context) { t.db.finish(ctx, g, req) })
	}
	t.end()
}

// end stops counting the transaction as open.
func (t *Txn) end() {
	if !t.closed {
		t.closed = true
		t.db.open.Add(-1)
	}
}
