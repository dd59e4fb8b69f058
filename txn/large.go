package txn

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/txn/known"
	"github.com/godwitdb/godwit/txn/writes"
	"github.com/godwitdb/godwit/wire"
)

// largeCommit commits a transaction whose writes are too many for one entry of a log: it sends them
// in pieces, which the groups log under locks; then all groups vote (docs/protocol.md, STAGE). One
// group votes, too, because its rows appear one piece after the other, and only a vote keeps
// readers out for so long.
//
// The pieces are in key order, so that those of one shard follow each other. At most two for each
// group of one shard are in memory.
type largeCommit struct {
	lockCommit
	walk  known.Walk
	shard base.ShardID
	piles map[base.GroupID]*pile // of the shard
}

// pile is what a group is still to be sent.
type pile struct {
	writes []*wire.Write
	bytes  int
	under  chan error // a piece is being logged; nil: none
	// foreign are writes of that piece that another group owns.
	foreign []*wire.Write
	owners  []*wire.Foreign
}

// isLarge reports whether the writes need more than one entry. Changes of definitions, and of
// GLOBAL tables, are always one.
func (t *Txn) isLarge() bool {
	l := &t.db.cfg.Limits
	return (t.buf.Bytes > l.EntryBytes || t.buf.Len() > l.EntryWrites) && !t.atOnce()
}

// atOnce reports whether all writes are sent at once: those that commit at a slot or by timestamps
// are validated with what was read.
func (t *Txn) atOnce() bool { return t.mode == bySlot || t.db.ordered || t.buf.Meta() }

// most is the most that the transaction may write.
func (t *Txn) most() (bytes, count int) {
	l := &t.db.cfg.Limits
	if t.mode == bySlot || t.db.ordered {
		return l.OnceBytes, l.OnceWrites
	}
	return l.WriteBytes, l.Writes
}

// mayCommit is why the transaction cannot commit what it has written.
func (t *Txn) mayCommit() error {
	l := &t.db.cfg.Limits
	bytes, count := t.most() // it may have crossed regions since
	switch {
	case t.buf.Bytes > bytes || t.buf.Len() > count:
		return t.tooLarge()
	case t.buf.Bytes > l.OnceBytes && t.buf.Meta():
		return base.Errorf(base.CodeInvalid, "a transaction that changes definitions, or GLOBAL tables, writes %d MiB "+
			"at most: commit these changes by themselves", l.OnceBytes>>20)
	}
	return nil
}

// tooLarge is the error of a transaction that writes more than it may.
func (t *Txn) tooLarge() error {
	bytes, count := t.most()
	why := "commit in smaller pieces (split a file for LOAD DATA; give UPDATE and DELETE a range of the key, or LIMIT)"
	if t.mode == bySlot && t.opts.Touched != nil {
		return t.mustLock(fmt.Sprintf("writes more than %d MiB or %d rows and entries of indexes", bytes>>20, count))
	}
	return base.Errorf(base.CodeInvalid, "the transaction writes more than %d MiB or %d rows and entries of indexes: %s",
		bytes>>20, count, why)
}

func (c *largeCommit) commit(ctx context.Context) (ts base.Timestamp, err error) {
	t := c.t
	t.started()
	t.lockOnly()
	if _, err := t.open(ctx); err != nil {
		return 0, err
	}
	c.walk, c.piles = known.WalkOf(&t.rows), map[base.GroupID]*pile{}
	c.plan = plan{writes: map[base.GroupID][]*wire.Write{}, pieces: map[base.GroupID]uint32{}}
	defer c.await()
	if err := c.stageAll(ctx); err != nil {
		if lost(err) && ctx.Err() == nil {
			err = retry(err) // whatever became of a piece: without a vote nothing commits
		}
		return 0, refusal(err)
	}
	groups := c.groups()
	// The votes carry no writes: those have been evaluated.
	if c.margin = t.margin(groups, 0, false); t.db.leadsGroup(base.MetaGroup) {
		c.margin = max(c.margin, largeMargin)
	}
	if ts, err = c.prepareAll(ctx, groups); err == nil {
		c.settled(ctx, groups, ts)
	}
	return ts, err
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
		err = c.flush(ctx)
	}
	return err
}

// maxGone is how many keys that were inserted and deleted again are locked at once.
const maxGone = 1000

// add puts a write on the pile of its group, and sends that once it is high enough.
func (c *largeCommit) add(ctx context.Context, w *writes.Write) error {
	if s := w.Key.Shard(); s != c.shard {
		if err := c.flush(ctx); err != nil {
			return err
		}
		c.shard = s
	}
	g, ok := c.walk.Owner(w.Key)
	if !ok {
		var room [1]piece
		guessed := c.t.guess(room[:0], 0, base.PointSpan(w.Key), 0)[0]
		g = guessed.group
		c.plan.require(g, guessed.need)
	}
	p := c.pile(g)
	p.writes = append(p.writes, w.Wire(false))
	p.bytes += w.Size()
	if l := &c.t.db.cfg.Limits; p.bytes < l.PieceBytes && len(p.writes) < l.PieceWrites {
		return nil
	}
	return c.send(ctx, g)
}

func (c *largeCommit) pile(g base.GroupID) *pile {
	p := c.piles[g]
	if p == nil {
		p = &pile{}
		c.piles[g] = p
	}
	return p
}

// send begins to log the next piece of a group, when the last one is logged.
func (c *largeCommit) send(ctx context.Context, g base.GroupID) error {
	p := c.pile(g)
	if err := c.arrived(g); err != nil || len(p.writes) == 0 {
		return err
	}
	q := c.request(g)
	q.Writes, p.writes, p.bytes = p.writes, nil, 0
	q.Stage = c.plan.pieces[g] + 1
	c.plan.pieces[g]++
	p.under = make(chan error, 1)
	go func(under chan error) { under <- c.stage(ctx, p, q) }(p.under)
	return nil
}

// stage has a group log a piece. What others own is left in p for them.
func (c *largeCommit) stage(ctx context.Context, p *pile, q *wire.CommitRequest) error {
	all := q.Writes
	for range maxReroutes {
		resp, err := c.proposal.send(ctx, q)
		if err != nil {
			return sent(err)
		}
		err = owner.ErrorOf(resp.Status)
		if base.CodeOf(err) != base.CodeWrongOwner {
			return err
		}
		to := map[string]bool{}
		for _, f := range resp.Foreign {
			to[string(f.Span.Start)] = true
		}
		p.owners = append(p.owners, resp.Foreign...)
		stay := make([]*wire.Write, 0, len(all))
		for _, w := range all {
			if to[string(w.Key)] {
				p.foreign = append(p.foreign, w)
			} else {
				stay = append(stay, w)
			}
		}
		if all = stay; len(all) == 0 {
			return errAllForeign
		}
		q.Writes = all
	}
	return base.Errorf(base.CodeUnavailable, "the owners of the written keys keep moving: retry")
}

// errAllForeign says that a group owns nothing of a piece, and has not logged it.
var errAllForeign = base.Errorf(base.CodeWrongOwner, "nothing of the piece belongs to the group")

// arrived waits until the piece of a group that is under way is logged, and puts what others own of
// it on their piles.
func (c *largeCommit) arrived(g base.GroupID) error {
	p := c.pile(g)
	if p.under == nil {
		return nil
	}
	err := <-p.under
	p.under = nil
	if err == errAllForeign {
		if c.plan.pieces[g]--; c.plan.pieces[g] == 0 {
			delete(c.plan.pieces, g)
		}
		err = nil
	}
	if err != nil {
		return err
	}
	ws, owners := p.foreign, p.owners
	p.foreign, p.owners = nil, nil
	if len(ws) == 0 {
		return nil
	}
	c.t.db.stats.Forwarded.Add(int64(len(ws)))
	c.t.db.hints.note(owners)
	to := map[string]*wire.Foreign{}
	for _, f := range owners {
		to[string(f.Span.Start)] = f
	}
	for _, w := range ws {
		f := to[string(w.Key)]
		o := c.pile(base.GroupID(f.Group))
		o.writes = append(o.writes, w)
		o.bytes += len(w.Key) + len(w.Value)
		c.plan.require(base.GroupID(f.Group), f.Since)
	}
	return nil
}

// flush sends what is left of the shard.
func (c *largeCommit) flush(ctx context.Context) error {
	for range maxReroutes {
		left := false
		for _, g := range slices.Sorted(maps.Keys(c.piles)) {
			p := c.piles[g]
			left = left || p.under != nil || len(p.writes) > 0
			if err := c.send(ctx, g); err != nil {
				return err
			}
		}
		if !left {
			clear(c.piles)
			return nil
		}
	}
	return base.Errorf(base.CodeUnavailable, "the owners of the written keys keep moving: retry")
}

// await waits for the pieces under way: they use the attempt.
func (c *largeCommit) await() {
	for _, p := range c.piles {
		if p.under != nil {
			<-p.under
		}
	}
}

// settleWait is how long a client waits, at most, until all rows of its commit can be read.
const settleWait = 10 * time.Minute

// settled waits until the rows are there in all groups: else the client's next read would. They
// appear also if it does not wait.
func (c *largeCommit) settled(ctx context.Context, groups []base.GroupID, ts base.Timestamp) {
	ctx, cancel := context.WithTimeout(ctx, settleWait)
	defer cancel()
	parallel(ctx, len(groups), func(ctx context.Context, i int) {
		q := &wire.FinishRequest{Group: uint32(groups[i]), Txn: c.as.id[:], Commit: true, Ts: uint64(ts), Prepared: true}
		_, _ = c.t.db.router.Finish(ctx, q)
	})
}
