package txn

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/txn/hints"
	"github.com/godwitdb/godwit/txn/slottime"
	"github.com/godwitdb/godwit/wire"
)

// crossing is a transaction of several regions that locks nothing across them (Relay;
// docs/protocol.md, REL). It begins as one of its own region. When it touches a second region, it
// fixes a snapshot and gives its locks back; their owners commit above the snapshot from then on
// what it had locked. All it reads afterwards it reads at the snapshot. The commit proposes a slot,
// and the owners of what was read make sure that nothing of it changes between snapshot and slot.
type crossing struct {
	snapshot base.Timestamp
	// valid: from this timestamp on nothing that was read may have changed; at most snapshot.
	valid    base.Timestamp
	released bool // it gave locks back, so that for their owners it has ended
	// drafts are rows that were shown as this node knows them, by key, and as of when (Txn.Draft).
	drafts map[string]base.Timestamp
}

const (
	maxReads   = 1 << 16 // spans that a transaction remembers as read
	maxSlots   = 6       // slots proposed for one transaction
	maxStrayed = 4       // of them because of rows that had moved
)

// strayedPause is by how much the wait grows before another slot is proposed, because rows keep
// moving.
const strayedPause = 20 * time.Millisecond

// errNoSlot: the transaction has to lock what it has read; a program runs statement by statement
// (REL-7).
var errNoSlot = errors.New("no slot can be found in time")

// far reports whether one of the pieces is led in another region.
func (t *Txn) far(todo []piece) bool {
	for _, p := range todo {
		if p.group != base.MetaGroup && p.group.Region() != t.db.cfg.Region {
			return true
		}
	}
	return false
}

// mayCross reports whether the transaction can commit at a slot. If not, it goes on under the locks
// that it has.
func (t *Txn) mayCross() bool {
	l := &t.db.cfg.Limits
	return t.mode == crossable && !t.buf.Meta() && t.buf.Bytes <= l.OnceBytes && t.buf.Len() <= l.OnceWrites
}

// needsLocks reports whether what was written cannot be committed at a slot: the meta group commits
// ahead of now, where no slot can be, and a vote is one entry.
func (t *Txn) needsLocks() bool {
	l := &t.db.cfg.Limits
	return !t.program && (t.buf.Meta() || t.buf.Bytes > l.OnceBytes || t.buf.Len() > l.OnceWrites)
}

// lockAfterAll goes on with locks, because no slot can be where the transaction comes to (REL-7).
// It takes those of all that was read, which must not have changed since, and nothing is left to
// owners to evaluate any more. So it is as if it had locked from the start. If something has
// changed it is aborted, and its next attempt locks from the start.
func (t *Txn) lockAfterAll(ctx context.Context) error {
	if t.mode != bySlot {
		t.lockOnly()
		return nil
	}
	for _, w := range t.buf.All() {
		t.dependOn(w)
	}
	c, since, spans := t.crossing, t.crossing.valid, t.reads
	for key, at := range c.drafts {
		spans, since = append(spans, base.PointSpan(base.Key(key))), min(since, at)
	}
	if c.released { // for owners whose locks it has given back, or that have refused its slot, it has ended
		t.forgetParts()
		t.id, t.ended = t.db.newID(t.id.Start()), false
	}
	t.mode, t.foreseen, t.crossing, t.reads, t.meta.Crt = byLocks, true, nil, nil, true
	changed, err := t.lockAll(ctx, spans, since)
	if changed {
		err = base.Errorf(base.CodeAborted, "transaction %v has to lock what it has read, and that has been changed since: retry", t.id)
	}
	if base.CodeOf(err) == base.CodeAborted {
		t.opts.Touched.Lock()
	}
	return err
}

// lockAll locks spans, all at once, and reports whether they have changed since.
func (t *Txn) lockAll(ctx context.Context, spans []base.Span, since base.Timestamp) (changed bool, err error) {
	ctx = kv.WithoutWait(ctx)
	seen := t.maxTS
	for spans = base.Disjoint(slices.Clone(spans)); len(spans) > 0 && err == nil && !changed; {
		f := fetch{spans: spans, lock: kv.LockShared}
		t.maxTS = 0
		err = f.run(ctx, t)
		changed, seen = t.maxTS > since, max(seen, t.maxTS)
		var rest []base.Span
		for i, g := range f.got {
			if g.cut != nil {
				s := spans[i]
				if !s.IsPoint() {
					s.Start = g.cut
				}
				rest = append(rest, s)
			}
		}
		spans = rest
	}
	t.maxTS = seen
	return changed, err
}

// crosses decides how the transaction goes on, which needs rows of a second region: at a slot, or
// under locks, also where it would be likely to lose at a slot (REL-16).
func (t *Txn) crosses(todo []piece) bool {
	if t.mayCross() && !(t.opts.Careful && t.contends(todo)) {
		return true
	}
	t.lockOnly()
	return false
}

// contends reports whether the transaction has read, or is about to, what others have changed under
// transactions that did not lock it; or is about to read ranges, in all of which nothing would have
// to change up to the slot.
func (t *Txn) contends(todo []piece) bool {
	now, rows := time.Now(), &t.db.contended
	return slices.ContainsFunc(t.reads, func(s base.Span) bool { return s.IsPoint() && rows.Has(s.Start, now) }) ||
		slices.ContainsFunc(todo, func(p piece) bool { return !p.span.IsPoint() || rows.Has(p.span.Start, now) })
}

// noteContention notes how a commit at a slot has ended, for the transactions that come.
func (t *Txn) noteContention(err error) {
	if t.program || base.CodeOf(err) != base.CodeAborted {
		return
	}
	if t.opts.Careful {
		t.opts.Touched.Lock()
	}
	if key := base.KeyOf(err); key != nil {
		t.db.contended.Lost(key, time.Now())
	}
}

// cross makes the transaction one of several regions.
func (t *Txn) cross(ctx context.Context) error {
	s, err := t.now(ctx)
	if err != nil {
		return err
	}
	s = max(s, t.maxTS, t.readTS)
	held := t.locked()
	errs := make([]error, len(held))
	if len(held) > 0 {
		obs.Each(ctx, len(held), func(ctx context.Context, i int) {
			resp, err := t.db.router.Finish(ctx, &wire.FinishRequest{Group: uint32(held[i].group), Txn: t.id[:],
				MinTs: uint64(s), At: uint64(s)})
			if err == nil {
				err = owner.ErrorOf(resp.Status)
			}
			errs[i] = err
		})
	}
	for _, err := range errs {
		if err != nil {
			return base.Errorf(base.CodeAborted, "the locks of the transaction may have been lost as it turned to a "+
				"second region: %v", err)
		}
	}
	t.forgetParts()
	t.quitGate()
	t.mode = bySlot
	t.crossing = &crossing{snapshot: s, valid: s, released: len(held) > 0}
	t.readTS = s
	t.db.stats.Crossed.Add(1)
	return nil
}

// readCrossing is a locking read of a transaction of several regions: whatever lock was asked for,
// it reads the snapshot.
func (f *fetch) readCrossing(ctx context.Context, t *Txn) error {
	g := *f
	g.lock, g.ts = kv.LockNone, t.crossing.snapshot
	if err := g.run(ctx, t); err != nil {
		return err
	}
	f.got = g.got
	for _, g := range f.got {
		for _, r := range g.rows {
			t.guessOwner(r)
		}
	}
	return t.noteReads(ctx, f)
}

// guessOwner remembers a row that was read without a lock, and who seems to own it.
func (t *Txn) guessOwner(r *wire.KV) {
	if r.Absent {
		if g, ok := t.db.set.Locate(r.Key); ok {
			t.rows.Note([]*wire.KV{r}, g)
		}
		return
	}
	if l := base.Label(r.Label); r.Key != nil && l.Home() != 0 {
		t.rows.Note([]*wire.KV{r}, base.DataGroup(base.Key(r.Key).Shard(), l.Home()))
	}
}

// noteReads remembers what was read, as far as it was read.
func (t *Txn) noteReads(ctx context.Context, f *fetch) error {
	full := false
	for i, s := range f.spans {
		s, any := f.complete(s, f.got[i].cut)
		if !any || f.wait == kv.WaitSkip && len(f.got[i].rows) == 0 { // skipped
			continue
		}
		if most := t.db.cfg.Limits.Reads; len(t.reads) >= most {
			if t.mode == crossable {
				t.lockOnly() // what it has read is locked
				t.reads = nil
				return nil
			}
			if full = true; t.mode != bySlot || t.program { // no lock does in the place of a timestamp, or of the slot
				return retry(base.Errorf(base.CodeAborted, "transaction %v reads more than %d keys and ranges", t.id, most))
			}
		}
		t.reads = append(t.reads, s)
		t.opts.Touched.Note(s, f.lock)
	}
	if full {
		return t.lockAfterAll(ctx)
	}
	return nil
}

// complete is the part of a span that was read to its end; any is false if that is nothing.
func (f *fetch) complete(s base.Span, cut base.Key) (_ base.Span, any bool) {
	switch {
	case cut == nil:
	case s.IsPoint():
		return s, false
	case f.reverse:
		s.Start = cut
	default:
		s.End = cut
	}
	return s, s.IsPoint() || bytes.Compare(s.Start, s.End) < 0
}

// hasRead reports whether a key lies in something that the transaction has read.
func (t *Txn) hasRead(key base.Key) bool {
	return slices.ContainsFunc(t.reads, func(s base.Span) bool { return s.Contains(key) })
}

// slotCommit validates what a crossing transaction has read, and commits what it writes. Several
// groups agree on a slot: a timestamp a little ahead of now, by which all votes can be cast. Where
// one group owns everything there is nothing to agree on.
type slotCommit struct {
	t     *Txn
	as    *attempt      // of the present try
	ahead time.Duration // how far ahead of now its slot was proposed
	// strayed counts tries in which a group did not own what it was asked for.
	strayed int
}

func (c *slotCommit) voted(p *proposal, r base.RegionID, resp *wire.CommitResponse, took time.Duration) {
	waited := time.Duration(resp.WaitedNs)
	switch base.CodeOf(owner.ErrorOf(resp.Status)) {
	case base.CodeTooLate:
		c.t.db.slots.Missed(r, c.ahead, base.Timestamp(resp.NeedTs).Sub(p.slot), waited)
	case base.CodeOther:
		c.t.db.slots.Answered(r, took, waited)
	}
}

func (c *slotCommit) commit(ctx context.Context) (ts base.Timestamp, err error) {
	t := c.t
	ctx, cancel := context.WithTimeout(ctx, t.db.cfg.Limits.Commit)
	defer cancel()
	if err := t.readGone(ctx); err != nil {
		return 0, err
	}
	c.as = &t.attempt
	if t.crossing.released {
		c.renamed()
	}
	defer func() {
		t.noteContention(err)
		if c.as != &t.attempt {
			if err == nil {
				c.as.end(false)
			} else {
				c.as.release(false, false)
			}
		}
	}()
	for try := range maxSlots {
		p := &proposal{t: t, as: c.as, plan: t.planReads()}
		p.snapshot = t.crossing.valid
		groups := p.groups()
		if len(groups) == 1 && !t.program {
			if ts, err = c.commitIn(ctx, p, groups[0]); base.CodeOf(err) != base.CodeWrongOwner || !c.triesAgain(err) {
				return ts, refusal(err)
			}
			c.as.release(false, false)
			c.again(ctx, nil)
			continue
		}
		if err := c.propose(ctx, p, groups, try); err != nil {
			return 0, err
		}
		r := p.several(ctx, groups, c)
		switch {
		case r.err == nil:
			return r.ts, t.settled(ctx, r.ts)
		case !c.triesAgain(r.err):
			return 0, refusal(r.err)
		}
		if base.CodeOf(r.err) == base.CodeTooLate {
			t.db.stats.SlotsMissed.Add(1)
		}
		c.again(ctx, r.foreign)
	}
	return 0, errNoSlot
}

// renamed gives the transaction another name, for another try: for its owners the last one has
// ended.
func (c *slotCommit) renamed() { c.as, c.t.crossing.released = c.t.renamed(), true }

// again prepares another try, which asks the owners that the last one has named. Rows and the
// entries of indexes move one after the other: a later try waits for more of them.
func (c *slotCommit) again(ctx context.Context, foreign []*wire.Foreign) {
	hints.CatchUp(ctx, c.t.db.set, foreign, slottime.Max)
	if c.strayed > 1 {
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(c.strayed-1) * strayedPause):
		}
	}
	c.renamed()
}

// triesAgain reports whether the transaction proposes another slot after a refusal: the slot was
// past, or rows were not where it has looked for them (REL-2): a row that has only moved is no
// reason for an abort. Where that happens again only a careful transaction goes on: each round
// holds up whoever waits for its votes.
func (c *slotCommit) triesAgain(err error) bool {
	switch base.CodeOf(err) {
	case base.CodeTooLate:
		return true
	case base.CodeWrongOwner:
		c.strayed++
		return !c.t.program && (c.strayed <= 1 || c.t.opts.Careful && c.strayed <= maxStrayed)
	}
	return false
}

// propose chooses the slot of one try: later tries take more time. It fails with errNoSlot if the
// schema is not known to hold as far ahead as votes take.
func (c *slotCommit) propose(ctx context.Context, p *proposal, groups []base.GroupID, try int) error {
	t, db := c.t, c.t.db
	delay := db.slots.Delay(groups, db.cfg.Region)
	c.ahead = min(delay+delay*time.Duration(try)/2, slottime.Max)
	begun, err := t.open(ctx)
	if err != nil {
		return err
	}
	after := func(d time.Duration) base.Timestamp {
		return max(db.clock.Latest(), begun, t.crossing.snapshot).Add(d)
	}
	if same := base.Timestamp(db.cfg.SameSlots); same > 0 {
		p.slot = (after(c.ahead)/same + 1) * same
		_, err = t.holdPins(ctx, p.slot)
		return err
	}
	p.slot = db.slotNames.Next(after(c.ahead), db.cfg.Self)
	bound, err := t.holdPins(ctx, t.gained(p.slot))
	near := after(delay/2 + delay/8) // a vote has arrived by then: it is back a little before delay
	if err != nil || bound == 0 || p.slot < bound && p.slot >= near {
		return err
	}
	// So far ahead nothing is known, or it was waited for, and the slot is too near now. A longer
	// wait gains nothing: the slot that is to be known moves on with it. With a slot before the
	// votes are back, those that meet it wait for the outcome; with locks they would do so, too.
	p.slot = db.slotNames.Next(max(near, min(after(delay), bound.Add(-slottime.Unit))), db.cfg.Self)
	if p.slot >= bound {
		return errNoSlot
	}
	c.ahead = p.slot.Sub(after(0))
	return nil
}

// gained is the part of a wait for the schema to be known to hold up to a slot that can gain
// something: up to what the next heartbeat of the meta group's leader brings. Where the group is
// led here, all of it costs no wait.
func (t *Txn) gained(slot base.Timestamp) base.Timestamp {
	known, now := t.db.metaClosed(t.holdsCatalog()), t.db.clock.Now()
	if known >= slot || t.db.leadsGroup(base.MetaGroup) {
		return slot
	}
	return min(slot, max(known.Next(), now.Add(t.db.horizon.Useful(time.Now(), slot.Sub(now)))))
}

// commitIn commits where one group owns all that was written and read.
func (c *slotCommit) commitIn(ctx context.Context, p *proposal, g base.GroupID) (base.Timestamp, error) {
	t := c.t
	for try := 0; ; try++ {
		var err error
		if p.bound, err = t.holdFor(ctx, t.margin([]base.GroupID{g}, t.buf.Len(), try == 0)); err != nil {
			return 0, err
		}
		if _, err := t.open(ctx); err != nil {
			return 0, err
		}
		if len(p.plan.writes[g]) == 0 {
			return t.confirmLocks(ctx) // all writes cancelled each other out
		}
		r := p.one(ctx, g)
		switch code := base.CodeOf(r.err); {
		case r.err == nil && r.asked:
			return r.ts, t.settled(ctx, r.ts)
		case code == base.CodeWrongOwner:
			t.db.hints.Note(r.foreign)
			hints.CatchUp(ctx, t.db.set, r.foreign, slottime.Max)
			return 0, r.err
		case code == base.CodeTooLate && try < maxSlots:
		case code == base.CodeTooLate:
			return 0, retry(r.err)
		default:
			return r.ts, r.err
		}
	}
}

// renamed is another name of the transaction, for another try of its commit.
func (t *Txn) renamed() *attempt {
	a := &attempt{db: t.db, begun: t.begun, id: t.db.newID(t.id.Start())}
	a.meta = wire.TxnMeta{Id: a.id[:], Age: t.meta.Age, Gateway: t.meta.Gateway, GatewayRegion: t.meta.GatewayRegion,
		Policy: t.meta.Policy, LockTimeoutNs: t.meta.LockTimeoutNs}
	return a
}

// readGone reads what the transaction inserted and deleted again, which must not have been there.
func (t *Txn) readGone(ctx context.Context) error {
	f := fetch{lock: kv.LockExclusive}
	for _, w := range t.buf.All() {
		if w.Cancelled() {
			f.spans = append(f.spans, base.PointSpan(w.Key))
		}
	}
	for len(f.spans) > 0 {
		if err := f.run(ctx, t); err != nil {
			return err
		}
		var rest []base.Span
		for i, g := range f.got {
			if g.cut != nil {
				rest = append(rest, f.spans[i])
				continue
			}
			for _, r := range g.rows {
				if !r.Absent {
					return exists(r.Key)
				}
			}
		}
		f.spans = rest
	}
	return nil
}
