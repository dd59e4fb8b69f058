package txn

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/owner/prepared"
	"github.com/godwitdb/godwit/wire"
)

// preparation prepares a transaction (docs/protocol.md, XA): it locks all that the commit would
// have locked, and commits, in place of its writes, a record in each group in which it holds locks,
// and its name in the meta group. From then on it stands.
type preparation struct{ lockCommit }

// prepares reports whether the transaction is to be prepared.
func (t *Txn) prepares() bool { return t.opts.Prepare != nil && t.opts.Prepare.Name != nil }

func (c *preparation) commit(ctx context.Context) (base.Timestamp, error) {
	t := c.t
	t.started()
	t.lockOnly()
	if err := t.mayPrepare(); err != nil {
		return 0, err
	}
	if err := c.planAll(ctx); err != nil {
		return 0, err
	}
	id := t.db.newID(t.db.clock.Now())
	name := &wire.PreparedName{Id: id[:], At: uint64(t.db.clock.Now()), User: t.opts.Prepare.User, Gateway: uint32(t.db.cfg.Self)}
	for _, g := range c.standsIn() {
		name.Groups = append(name.Groups, uint32(g))
	}
	record, err := prepared.Name(t.opts.Prepare.Name, name)
	if err != nil {
		return 0, err
	}
	c.plan.writes[base.MetaGroup] = append(c.plan.writes[base.MetaGroup], record)
	needs := t.opts.Version()
	t.opts.Needs = func() base.ClusterVersion { return max(needs, base.VersionPrepared) }
	t.meta.Prepares = id[:]
	return c.commitPlan(ctx)
}

// mayPrepare is why the transaction cannot be prepared.
func (t *Txn) mayPrepare() error {
	top, l := t.db.cfg.Topology(), &t.db.cfg.Limits
	switch {
	case t.db.ordered:
		return base.Errorf(base.CodeInvalid, "XA prepares no transactions in a cluster that orders them by timestamps "+
			"(godwit init --concurrency)")
	case !top.Allows(base.VersionPrepared):
		return top.NotYet("XA PREPARE", base.VersionPrepared)
	case len(t.opts.Prepare.Name) > kv.MaxPreparedName:
		return base.Errorf(base.CodeInvalid, "the name of a prepared transaction has %d bytes at most", kv.MaxPreparedName)
	case t.buf.Bytes > l.EntryBytes || t.buf.Len() > l.EntryWrites:
		return base.Errorf(base.CodeInvalid, "a prepared transaction writes %d MiB and %d rows and entries of indexes at most: "+
			"commit it in one phase (XA COMMIT ... ONE PHASE), or prepare smaller ones", l.EntryBytes>>20, l.EntryWrites)
	}
	return nil
}

// planAll plans the writes. Their owners have to be right the first time, and what several groups
// have to agree on, and the definitions that it all rests on, stay locked.
func (c *preparation) planAll(ctx context.Context) error {
	t := c.t
	_, gone, blind := t.planWrites(ctx)
	if err := t.lockGone(ctx, gone); err != nil {
		return err
	}
	for keys := range slices.Chunk(blind, maxGone) {
		if err := t.lockKeys(ctx, keys); err != nil {
			return err
		}
	}
	c.plan, _, _ = t.planWrites(ctx)
	return t.lockPins(ctx)
}

// standsIn are the groups in which the transaction writes, or holds locks, and the meta group.
func (c *preparation) standsIn() []base.GroupID {
	gs := append(c.groups(), base.MetaGroup)
	slices.Sort(gs)
	return slices.Compact(gs)
}

// ending ends a prepared transaction: it makes its writes, or makes them not, and removes its
// records.
type ending struct {
	lockCommit
	name  []byte
	makes bool
}

// Prepared implements kv.Preparer.
func (db *DB) Prepared(ctx context.Context) ([]kv.Prepared, error) {
	var all []kv.Prepared
	t := db.begin(kv.Options{ReadOnly: true})
	defer t.Rollback(ctx)
	req := &kv.ScanRequest{Spans: []base.Span{base.PreparedNames()}}
	for req != nil {
		res, err := t.Scan(ctx, *req)
		if err != nil {
			return nil, err
		}
		for _, row := range res.Rows {
			p, err := prepared.Parse(row)
			if err != nil {
				return nil, err
			}
			all = append(all, p)
		}
		req = res.Next
	}
	return all, nil
}

// EndPrepared implements kv.Preparer. What was refused is tried again for as long as a statement
// waits for nodes that do not answer.
func (db *DB) EndPrepared(ctx context.Context, name []byte, commit bool) (found bool, err error) {
	for began := time.Now(); ; {
		_, found, err = db.endPrepared(ctx, name, commit)
		switch base.CodeOf(err) {
		case base.CodeAborted, base.CodeUnavailable:
		default:
			return found, err
		}
		if time.Since(began) > kv.ReachIn {
			return found, base.Errorf(base.CodeUnavailable, "the prepared transaction could not be ended, and stands: %v", err)
		}
		select {
		case <-time.After(endAgain):
		case <-ctx.Done():
			return found, base.Ended(ctx)
		}
	}
}

// endAgain is the pause before a prepared transaction is ended once more.
const endAgain = 50 * time.Millisecond

// endPrepared is one try of EndPrepared; it also returns the timestamp of the commit.
func (db *DB) endPrepared(ctx context.Context, name []byte, commit bool) (ts base.Timestamp, found bool, err error) {
	snap := db.begin(kv.Options{ReadOnly: true})
	rows, err := snap.Get(ctx, []base.Key{base.PreparedName(name)}, kv.LockNone)
	snap.Rollback(ctx)
	if err != nil || rows[0].Value == nil {
		return 0, false, err
	}
	record, err := prepared.ParseName(rows[0])
	if err != nil {
		return 0, true, err
	}
	t := db.begin(kv.Options{Needs: needsPrepared})
	t.meta.Under = record.Id
	e := &ending{lockCommit: lockCommit{proposal: proposal{t: t, as: &t.attempt}}, name: name, makes: commit}
	t.ends = e
	if err = e.read(ctx, record, rows[0].Value); err != nil {
		_ = t.failed(err)
		t.Rollback(ctx)
		return 0, true, err
	}
	ts, err = t.Commit(ctx)
	return ts, true, err
}

// errMeanwhile is the error of an end that comes after another one.
var errMeanwhile = base.Errorf(base.CodeAborted, "the prepared transaction was ended by another session meanwhile")

// read locks the records, the name first: who has that ends the transaction. It plans what the end
// will write: all of it lies in the groups in which the transaction holds locks.
func (e *ending) read(ctx context.Context, name *wire.PreparedName, value []byte) error {
	key := base.PreparedName(e.name)
	rows, err := e.t.Get(ctx, []base.Key{key}, kv.LockExclusive)
	if err != nil {
		return err
	}
	if !bytes.Equal(rows[0].Value, value) {
		return errMeanwhile
	}
	e.plan = plan{writes: map[base.GroupID][]*wire.Write{}}
	e.plan.writes[base.MetaGroup] = []*wire.Write{{Kind: wire.WriteKind_DELETE, Key: key}}
	req := &kv.ScanRequest{Lock: kv.LockExclusive}
	for _, g := range name.Groups {
		req.Spans = append(req.Spans, prepared.Span(base.GroupID(g), base.TxnID(name.Id)))
	}
	for req != nil {
		res, err := e.t.Scan(ctx, *req)
		if err != nil {
			return err
		}
		for _, record := range res.Rows {
			ws, err := prepared.End(record, e.makes)
			if err != nil {
				return err
			}
			g := record.Key.DefaultOwner()
			e.plan.writes[g] = append(e.plan.writes[g], ws...)
		}
		req = res.Next
	}
	return nil
}

func (e *ending) commit(ctx context.Context) (base.Timestamp, error) { return e.commitPlan(ctx) }

func needsPrepared() base.ClusterVersion { return base.VersionPrepared }
