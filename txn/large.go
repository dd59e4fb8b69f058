package txn

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/txn/known"
	"github.com/godwitdb/godwit/txn/staging"
	"github.com/godwitdb/godwit/txn/writes"
	"github.com/godwitdb/godwit/wire"
)

// largeCommit commits a transaction whose writes are too many for one entry of a log: it sends them
// in pieces, which the groups log under locks; then all groups vote (docs/protocol.md, STAGE). One
// group votes, too, because its rows appear one piece after the other, and only a vote keeps
// readers out for so long.
//
// The pieces are in key order, so that those of one shard follow each other, but for what was
// logged before (stream.go).
type largeCommit struct {
	lockCommit
	walk   known.Walk
	shard  base.ShardID
	pieces *pieceLog
}

// pieceLog is what the groups of a transaction log before they vote.
type pieceLog struct {
	proposal
	*staging.Stager
	room writes.Room[wire.Write]
}

func (t *Txn) newPieceLog() *pieceLog {
	p := &pieceLog{proposal: proposal{t: t, as: &t.attempt}}
	l := &t.db.cfg.Limits
	p.Stager = staging.New(p, staging.Limits{Bytes: l.PieceBytes, Writes: l.PieceWrites, Reroutes: maxReroutes})
	return p
}

// isLarge reports whether the writes need more than one entry. Changes of definitions, and of
// GLOBAL tables, are always one.
func (t *Txn) isLarge() bool {
	l := &t.db.cfg.Limits
	return t.early.sent() != nil || (t.buf.Bytes > l.EntryBytes || t.buf.Len() > l.EntryWrites) && !t.atOnce()
}

// atOnce reports whether all writes are sent at once: those that commit at a slot or by timestamps
// are validated with what was read.
func (t *Txn) atOnce() bool { return t.mode == bySlot || t.db.ordered || t.buf.Meta() }

// most is the most that a transaction of this kind writes.
func (t *Txn) most() kv.Volume {
	l := &t.db.cfg.Limits
	if t.program || t.db.ordered {
		return kv.Volume{Bytes: l.OnceBytes, Writes: l.OnceWrites}
	}
	return kv.Volume{Bytes: l.WriteBytes, Writes: l.Writes}
}

var _ kv.Measured = (*Txn)(nil)

// Written implements kv.Measured. What is written at once is never stretched, so the caller has to
// stop before.
func (t *Txn) Written() (now, most kv.Volume) {
	if most = t.most(); t.buf.Meta() {
		most.Bytes = min(most.Bytes, t.db.cfg.Limits.OnceBytes/8*7)
	}
	return kv.Volume{Bytes: t.buf.Bytes, Writes: t.buf.Len()}, most
}

// Stretch implements kv.Measured.
func (t *Txn) Stretch(on bool) { t.stretched = on }

// tooMuch reports whether the transaction has written more than it may.
func (t *Txn) tooMuch() bool {
	most := t.most()
	if t.stretched {
		most = most.Stretched()
	}
	return kv.Volume{Bytes: t.buf.Bytes, Writes: t.buf.Len()}.Over(most)
}

// mayCommit is why the transaction cannot commit what it has written.
func (t *Txn) mayCommit() error {
	l := &t.db.cfg.Limits
	switch {
	case t.tooMuch(): // it may have crossed regions since
		return t.tooLarge()
	case (t.buf.Bytes > l.OnceBytes || t.early.sent() != nil) && t.buf.Meta():
		return base.Errorf(base.CodeInvalid, "a transaction that changes definitions, or GLOBAL tables, writes %d MiB "+
			"at most: commit these changes by themselves", l.OnceBytes>>20)
	}
	return nil
}

// tooLarge is the error of a transaction that writes more than it may.
func (t *Txn) tooLarge() error {
	most := t.most()
	why := "commit in smaller pieces (split a file for LOAD DATA; give UPDATE and DELETE a range of the key, or LIMIT)"
	return base.Errorf(base.CodeInvalid, "the transaction writes more than %d MiB or %d rows and entries of indexes: %s",
		most.Bytes>>20, most.Writes, why)
}

func (c *largeCommit) commit(ctx context.Context) (ts base.Timestamp, err error) {
	t := c.t
	t.started()
	t.lockOnly()
	if _, err := t.open(ctx); err != nil {
		return 0, err
	}
	if c.pieces = t.early.sent(); c.pieces == nil {
		c.pieces = t.newPieceLog()
	}
	defer c.pieces.Await()
	if err := c.stageAll(ctx); err != nil {
		return 0, refusal(unvoted(ctx, err))
	}
	c.plan = plan{pieces: c.pieces.Pieces(), need: c.pieces.plan.need}
	groups := c.groups()
	// The votes carry no writes: those have been evaluated.
	if c.margin = t.margin(groups, 0, false); t.db.leadsGroup(base.MetaGroup) {
		c.margin = max(c.margin, largeMargin)
	}
	if ts, err = c.prepareAll(ctx, groups); err == nil && c.count() > settleSoon {
		c.settled(ctx, groups, ts)
	}
	return ts, err
}

// unvoted is the error of a piece: whatever became of it, without a vote nothing commits.
func unvoted(ctx context.Context, err error) error {
	switch {
	case !lost(err):
		return err
	case ctx.Err() != nil:
		return base.Ended(ctx)
	}
	return retry(err)
}

// largeMargin is how far ahead the meta leader closes for the votes of a large transaction: to be
// too late costs it all that it has sent.
const largeMargin = time.Second

// stageAll sends all writes.
func (c *largeCommit) stageAll(ctx context.Context) error {
	var gone []base.Key
	endGone := func(atMost int) error {
		if len(gone) <= atMost {
			return nil
		}
		err := c.t.lockGone(ctx, gone)
		gone = nil
		return err
	}
	c.walk = known.WalkOf(&c.t.rows)
	err := c.t.buf.Each(func(w *writes.Write) error {
		if w.Cancelled() {
			gone = append(gone, w.Key)
			return endGone(maxGone)
		}
		return c.add(ctx, w)
	})
	if err == nil {
		err = endGone(0)
	}
	if err == nil {
		err = c.pieces.Flush(ctx)
	}
	return err
}

// maxGone is how many keys that were inserted and deleted again are locked at once.
const maxGone = 1000

// add sends a write to its group.
func (c *largeCommit) add(ctx context.Context, w *writes.Write) error {
	if s := w.Key.Shard(); s != c.shard {
		if err := c.pieces.Flush(ctx); err != nil {
			return err
		}
		c.shard = s
	}
	return c.pieces.add(ctx, &c.walk, w, len(w.Key)+len(w.Val))
}

// add sends a write, which counts as so many bytes of a piece, to its likely owner.
func (p *pieceLog) add(ctx context.Context, walk *known.Walk, w *writes.Write, size int) error {
	g, ok := walk.Owner(w.Key)
	if !ok {
		var room [1]piece
		guessed := p.t.guess(room[:0], 0, base.PointSpan(w.Key), 0)[0]
		g = guessed.group
		p.plan.require(g, guessed.need)
	}
	m := p.room.New(p.t.buf.Len())
	w.Fill(m, false)
	return p.Add(ctx, g, m, size)
}

// Piece implements staging.Host. The transaction may go on to another region while the piece is on
// its way, which its meta says from then on.
func (p *pieceLog) Piece(g base.GroupID) *wire.CommitRequest {
	q := p.request(g)
	q.Txn = proto.CloneOf(q.Txn)
	return q
}

// Log implements staging.Host.
func (p *pieceLog) Log(ctx context.Context, q *wire.CommitRequest) ([]*wire.Foreign, error) {
	resp, err := p.send(ctx, q)
	if err != nil {
		return nil, sent(err)
	}
	return resp.Foreign, owner.ErrorOf(resp.Status)
}

// Misplaced implements staging.Host.
func (p *pieceLog) Misplaced(owners []*wire.Foreign) {
	p.t.db.stats.Forwarded.Add(int64(len(owners)))
	p.t.db.hints.Note(owners)
	for _, f := range owners {
		p.plan.require(base.GroupID(f.Group), f.Since)
	}
}

// settleSoon is how many pieces become rows after the client has its answer: whoever reads a group
// meanwhile waits there, and should not for long.
const settleSoon = 64

// count is how many pieces there are.
func (c *largeCommit) count() (n uint32) {
	for _, of := range c.plan.pieces {
		n += of
	}
	return n
}

// settleWait is how long a client waits, at most, until all rows of its commit can be read.
const settleWait = 10 * time.Minute

// settled waits until the rows are there in all groups: else the client's next read would. They
// appear also if it does not wait.
func (c *largeCommit) settled(ctx context.Context, groups []base.GroupID, ts base.Timestamp) {
	ctx, cancel := context.WithTimeout(ctx, settleWait)
	defer cancel()
	obs.Each(ctx, len(groups), func(ctx context.Context, i int) {
		q := &wire.FinishRequest{Group: uint32(groups[i]), Txn: c.as.id[:], Commit: true, Ts: uint64(ts), Prepared: true}
		_, _ = c.t.db.router.Finish(ctx, q)
	})
}
