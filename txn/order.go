package txn

import (
	"context"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/txn/writes"
	"github.com/godwitdb/godwit/wire"
)

// ordering is a transaction of a cluster that orders by timestamps (docs/protocol.md, ORD). It
// reads at one timestamp, readTS, which moves up when something newer may have been acknowledged
// before the transaction began: then what was read before is checked to be the same there. It
// commits at that timestamp if nobody has read or written past it what it writes, else at a later
// one up to which its reads are checked as well.
type ordering struct {
	// limit: if clocks keep their bound, what lies above it was not acknowledged before the
	// transaction began.
	limit base.Timestamp
	// began: true time had not passed it when the transaction began; 0: the clock cannot tell.
	began base.Timestamp
	// patient: the transaction has been tried for so long that it locks what it reads.
	patient bool
	// ends are the ends that the timestamp managers of regions were notified of; 0: only asked.
	ends     map[base.RegionID]base.Timestamp
	overflow bool            // more was read than is remembered
	points   map[string]bool // keys among the reads
	touched  []base.RegionID // regions whose rows it has used
}

const (
	// patience is how old a transaction is, its former attempts included, when it begins to lock
	// what it reads, so that it will not be tried again and again for what others change.
	patience = 250 * time.Millisecond
	// uncertainty is by how much the clocks of two nodes may differ, at most.
	uncertainty = 500 * time.Millisecond
	// maxOrdered bounds the tries of a commit.
	maxOrdered = 8
)

// goesByTimestamp reports whether a read goes by timestamp. A read that locks the meta shard turns
// the transaction to locks.
func (f *fetch) goesByTimestamp(ctx context.Context, t *Txn) (bool, error) {
	switch {
	case !t.db.ordered || t.opts.ReadTS != 0:
		return false, nil
	case f.lock == kv.LockNone:
		return true, nil
	case t.mode == byLocks:
		return false, nil
	case f.meta():
		return false, t.turnToLocks(ctx)
	}
	return true, nil
}

// turnToLocks goes on with locks: it takes those of what was read already, which must not have
// changed.
func (t *Txn) turnToLocks(ctx context.Context) error {
	if t.order != nil && t.order.overflow {
		return base.Errorf(base.CodeInvalid, "a transaction that changes the schema reads at most %d keys and ranges", maxReads)
	}
	t.mode = byLocks
	reads := t.reads
	t.reads = nil
	for _, s := range reads {
		changed, err := t.lockUnchanged(ctx, s, t.readTS)
		if err != nil {
			return err
		}
		if changed {
			return base.Errorf(base.CodeAborted, "transaction %v read %v, which has been changed since: retry", t.id, s)
		}
	}
	return nil
}

// lockUnchanged locks a span and reports whether it has changed since a timestamp.
func (t *Txn) lockUnchanged(ctx context.Context, s base.Span, since base.Timestamp) (changed bool, err error) {
	for {
		f := fetch{spans: []base.Span{s}, lock: kv.LockShared}
		seen := t.maxTS
		t.maxTS = 0
		err := f.run(ctx, t)
		changed := t.maxTS > since
		t.maxTS = max(t.maxTS, seen)
		if err != nil || changed || f.got[0].cut == nil {
			return changed, err
		}
		s.Start = f.got[0].cut
	}
}

// startOrder chooses the transaction's timestamp, unless it has one.
func (t *Txn) startOrder(ctx context.Context) error {
	if t.order != nil {
		return nil
	}
	// By the clock alone in GClock mode, which is why there is a limit.
	now, err := t.freshTimestamp(ctx)
	if err != nil {
		return err
	}
	if t.readTS == 0 {
		t.readTS = now
	}
	t.order = &ordering{limit: max(now, t.readTS).Add(uncertainty), patient: t.id.Start().Sub(t.opts.Age) > patience}
	if m, _ := t.db.clock.Mode(); m == clock.GClock && !t.db.clock.Virtual() {
		t.order.began = t.db.clock.Latest()
	}
	return nil
}

// runOrdered reads the spans at the transaction's timestamp, which it moves up as needed.
func (f *fetch) runOrdered(ctx context.Context, t *Txn) error {
	if err := t.startOrder(ctx); err != nil {
		return err
	}
	f.quiet = kv.Quiet(ctx)
	if t.stale && f.lock == kv.LockNone {
		if err := t.renewSnapshot(ctx); err != nil {
			return err
		}
	}
	if err := f.readStable(ctx, t); err != nil {
		return err
	}
	for i := range f.got {
		f.got[i].order(f.reverse)
		for _, r := range f.got[i].rows {
			if !r.Absent {
				t.guessOwner(r)
			}
		}
	}
	switch {
	case t.turned():
		return nil
	case len(t.reads)+len(f.spans) <= maxReads:
		return t.noteOrdered(ctx, f)
	case t.opts.ReadOnly:
		t.order.overflow = true // it can go on as long as its timestamp stays
		return nil
	}
	return base.Errorf(base.CodeInvalid, "a transaction that writes reads at most %d keys and ranges: "+
		"do it in smaller pieces", maxReads)
}

// renewSnapshot moves the transaction's timestamp up to now.
func (t *Txn) renewSnapshot(ctx context.Context) error {
	now, err := t.freshTimestamp(ctx)
	if err != nil {
		return err
	}
	t.stale = false
	return t.moveUp(ctx, now)
}

// readStable reads the spans at a timestamp at which they show all that they have to.
func (f *fetch) readStable(ctx context.Context, t *Txn) error {
	for range maxRounds + 1 {
		g := *f
		g.lock, g.ts, g.write = kv.LockNone, t.readTS, f.lock == kv.LockExclusive && !t.turned()
		g.hold = t.order.patient && !t.turned() && !t.opts.ReadOnly
		newer, err := g.readAt(ctx, t, 0)
		if err != nil {
			return err
		}
		if newer <= t.readTS {
			f.got = g.got
			return nil
		}
		if err := t.moveUp(ctx, newer); err != nil {
			return err
		}
	}
	return base.Errorf(base.CodeAborted, "what transaction %v reads keeps changing: retry", t.id)
}

// noteOrdered remembers what was read; a key that is read again only once.
func (t *Txn) noteOrdered(ctx context.Context, f *fetch) error {
	n := len(t.reads)
	if err := t.noteReads(ctx, f); err != nil {
		return err
	}
	added := t.reads[n:]
	t.reads = t.reads[:n]
	for _, s := range added {
		if s.IsPoint() {
			if t.order.points[string(s.Start)] {
				continue
			}
			if t.order.points == nil {
				t.order.points = map[string]bool{}
			}
			t.order.points[string(s.Start)] = true
		}
		t.reads = append(t.reads, s)
	}
	return nil
}

// again reports whether the transaction has read all the keys already. What others write there
// since then was not acknowledged before it began, however far their clocks are ahead.
func (f *fetch) again(t *Txn) bool {
	for _, s := range f.spans {
		if !s.IsPoint() || !t.order.points[string(s.Start)] {
			return false
		}
	}
	return true
}

// readAt reads the spans at f.ts from their owners, or makes sure that nothing in them has changed
// since another timestamp. newer is what the timestamp has to be at least, for all that was
// acknowledged before the transaction began to be seen.
func (f *fetch) readAt(ctx context.Context, t *Txn, since base.Timestamp) (newer base.Timestamp, err error) {
	limit := t.order.limit
	if since == 0 && !f.write && !f.hold && f.again(t) {
		limit = f.ts
	}
	todo := f.start(t)
	for round := 0; len(todo) > 0; round++ {
		if round == maxRounds {
			return 0, notFound(todo[0].span)
		}
		reqs := f.requests(todo)
		todo = nil
		var regions []base.RegionID
		for _, q := range reqs {
			f.fillOrdered(t, q, limit, since)
			regions = append(regions, base.GroupID(q.msg.Group).Region())
		}
		ends := t.askEnds(ctx, regions)
		err := send(ctx, t, reqs)
		finished, aerr := ends()
		if err == nil {
			err = aerr
		}
		if err != nil {
			return 0, err
		}
		newer = max(newer, finished)
		for _, q := range reqs {
			newer = max(newer, base.Timestamp(q.resp.Newer))
			t.maxTS = max(t.maxTS, base.Timestamp(q.resp.MaxTs)) // REPL-1 goes by it
			todo = append(todo, f.take(t, q)...)
		}
		t.db.stats.Forwarded.Add(int64(len(todo)))
	}
	return newer, nil
}

// fillOrdered makes a request one at a timestamp. Rows that are going to be written are locked at
// once, as far as they are single keys; so is what a patient transaction reads.
func (f *fetch) fillOrdered(t *Txn, q *request, limit, since base.Timestamp) {
	q.fill(t, f)
	points := !slices.ContainsFunc(q.pieces, func(p piece) bool { return !p.span.IsPoint() })
	switch {
	case f.write && points:
		q.msg.Lock = uint32(kv.LockExclusive)
	case f.hold && (points || q.msg.Limit == 0):
		q.msg.Lock = uint32(kv.LockShared)
	}
	if q.msg.Lock != 0 {
		q.msg.Txn = &t.meta
		t.part(base.GroupID(q.msg.Group))
	}
	q.msg.Reader, q.msg.LimitTs, q.msg.Refresh = t.id[:], uint64(limit), uint64(since)
}

// moveUp makes the transaction's timestamp at least ts: what it has read must be the same there.
func (t *Txn) moveUp(ctx context.Context, ts base.Timestamp) error {
	for ts > t.readTS {
		_ = t.db.clock.Observe(ts)
		if t.order.overflow {
			return base.Errorf(base.CodeAborted, "transaction %v has read too much for its timestamp to change: retry", t.id)
		}
		t.db.stats.MovedUp.Add(1)
		newer := base.Timestamp(0)
		if len(t.reads) > 0 {
			f := fetch{spans: t.reads, lock: kv.LockNone, ts: ts}
			var err error
			if newer, err = f.readAt(ctx, t, t.readTS); err != nil {
				return err
			}
		}
		t.readTS = ts
		ts = newer
	}
	return nil
}

// ends waits for timestamp managers and returns the largest timestamp of a transaction that has
// ended in their regions.
type ends func() (base.Timestamp, error)

func noEnds() (base.Timestamp, error) { return 0, nil }

// askEnds asks the timestamp managers of regions that were not asked yet. A transaction that will
// write tells them its own end when it commits.
func (t *Txn) askEnds(ctx context.Context, regions []base.RegionID) ends {
	for _, r := range regions {
		if !slices.Contains(t.order.touched, r) {
			t.order.touched = append(t.order.touched, r)
		}
	}
	if !t.db.managed {
		return noEnds
	}
	var ask []base.RegionID
	for _, r := range regions {
		if _, asked := t.order.ends[r]; !asked && !slices.Contains(ask, r) {
			ask = append(ask, r)
		}
	}
	ts := base.Timestamp(0)
	if t.opts.ReadOnly {
		ts = t.readTS
	}
	return t.tellEnds(ctx, ask, ts)
}

// managerAnswer is one timestamp manager's.
type managerAnswer struct {
	finished base.Timestamp
	err      error
}

// tellEnds tells timestamp managers that the transaction ends at ts, 0: not yet; see askEnds.
func (t *Txn) tellEnds(ctx context.Context, regions []base.RegionID, ts base.Timestamp) ends {
	ch := make(chan managerAnswer, len(regions))
	for _, r := range regions {
		if t.db.leadsGroup(owner.TimestampManager(r)) {
			ch <- t.askManager(ctx, r, ts)
			continue
		}
		go func() { ch <- t.askManager(ctx, r, ts) }()
	}
	return func() (newest base.Timestamp, err error) {
		for range regions {
			a := <-ch
			if newest = max(newest, a.finished); a.err != nil {
				err = a.err
			}
		}
		if err != nil {
			return newest, err
		}
		if t.order.ends == nil && len(regions) > 0 {
			t.order.ends = map[base.RegionID]base.Timestamp{}
		}
		for _, r := range regions {
			t.order.ends[r] = max(t.order.ends[r], ts)
		}
		return newest, nil
	}
}

func (t *Txn) askManager(ctx context.Context, r base.RegionID, ts base.Timestamp) managerAnswer {
	ctx, cancel := context.WithTimeout(ctx, t.db.cfg.Limits.Request)
	defer cancel()
	q := &wire.OrderRequest{Group: uint32(owner.TimestampManager(r)), Ts: uint64(ts), Began: uint64(t.order.began)}
	resp, err := t.db.router.Order(ctx, q)
	if err == nil {
		err = owner.ErrorOf(resp.Status)
	}
	if err != nil {
		return managerAnswer{err: base.Errorf(base.CodeUnavailable,
			"the timestamp manager of region %d does not answer: %v", r, err)}
	}
	return managerAnswer{finished: base.Timestamp(resp.Finished)}
}

// timestampCommit commits by timestamp: one group at whatever timestamp it says, several at the
// transaction's, or at a later one up to which its reads are validated.
type timestampCommit struct {
	t      *Txn
	as     *attempt       // of the present try
	target base.Timestamp // at least; 0: at the timestamp of the reads
	// ahead: the target lies ahead of now by what it takes to get there. Otherwise whoever reads
	// there all the time would always be ahead.
	ahead bool
}

func (c *timestampCommit) voted(_ *proposal, r base.RegionID, resp *wire.CommitResponse, took time.Duration) {
	switch base.CodeOf(owner.ErrorOf(resp.Status)) {
	case base.CodeTooLate:
		c.t.db.leads.TooShort(r)
	case base.CodeOther:
		// The way there, and what it takes to be replicated at the other end.
		c.t.db.leads.Answered(r, took/2)
	}
}

func (c *timestampCommit) commit(ctx context.Context) (base.Timestamp, error) {
	t := c.t
	ctx, cancel := context.WithTimeout(ctx, t.db.cfg.Limits.Commit)
	defer cancel()
	if err := t.readGone(ctx); err != nil {
		return 0, err
	}
	if !slices.ContainsFunc(t.buf.All(), func(w *writes.Write) bool { return !w.Cancelled() }) {
		return c.commitRead(ctx)
	}
	if err := t.startOrder(ctx); err != nil {
		return 0, err
	}
	c.as = &t.attempt
	defer func() {
		if c.as != &t.attempt {
			c.as.release(false, false)
		}
	}()
	c.ahead = t.order.patient
	for try := 1; ; try++ {
		p, err := c.plan(ctx)
		if err != nil {
			return 0, err
		}
		groups := p.groups()
		touched := base.GroupRegions(groups)
		reported := ends(noEnds)
		if len(groups) > 1 {
			reported = c.propose(ctx, p, groups)
			groups = p.groups()
		}
		r := c.agree(ctx, p, groups)
		_, terr := reported()
		if r.err == nil {
			t.order.touched = touched
			return c.committed(ctx, r, groups, terr)
		}
		if err := c.tryAgain(p, r, len(groups), try); err != nil {
			return 0, err
		}
	}
}

// plan finds out who owns what was written and read, asks the timestamp managers of the regions
// that are touched only now, and bounds the commit by the schema.
func (c *timestampCommit) plan(ctx context.Context) (*proposal, error) {
	t := c.t
	p := &proposal{t: t, as: c.as, plan: t.planReads(), terms: terms{ordered: true}}
	finished, err := t.askEnds(ctx, base.GroupRegions(p.groups()))()
	if err == nil {
		err = t.moveUp(ctx, finished)
	}
	if err != nil {
		return nil, err
	}
	p.snapshot = t.readTS
	if groups := p.groups(); c.ahead && len(groups) > 1 {
		c.target = max(c.target, t.db.clock.Now().Add(t.db.leads.Delay(groups, t.db.cfg.Region)))
	}
	for i := range t.pins {
		t.pins[i].at = min(t.pins[i].at, t.readTS)
	}
	p.bound, err = t.holdFor(ctx, t.margin(p.groups(), t.buf.Len(), false)+max(0, c.target.Sub(t.db.clock.Latest())))
	return p, err
}

// propose takes the target for the slot of several groups, or the timestamp of the reads: then
// these need no validation, and groups that were only read take no part. Their timestamp managers
// are told here; groups that take part tell their managers themselves.
func (c *timestampCommit) propose(ctx context.Context, p *proposal, groups []base.GroupID) ends {
	t := c.t
	if p.slot = t.readTS; c.target > t.readTS {
		p.slot = c.target
	} else {
		p.plan.reads = p.settling()
	}
	var regions []base.RegionID
	if t.db.managed {
		part := base.GroupRegions(p.groups())
		for _, r := range base.GroupRegions(groups) {
			if !slices.Contains(part, r) {
				regions = append(regions, r)
			}
		}
	}
	return t.tellEnds(ctx, regions, p.slot)
}

// agree commits in the groups that take part, one or several.
func (c *timestampCommit) agree(ctx context.Context, p *proposal, groups []base.GroupID) result {
	if len(groups) == 1 {
		c.t.db.stats.OneRound.Add(1)
		r := p.one(ctx, groups[0])
		c.t.db.hints.Note(r.foreign)
		return r
	}
	r := p.several(ctx, groups, c)
	if code := base.CodeOf(r.err); code != base.CodeTooLate && code != base.CodeWrongOwner {
		r.err = refusal(r.err)
	}
	return r
}

// committed ends a transaction that has committed. terr is what went wrong with timestamp managers.
func (c *timestampCommit) committed(ctx context.Context, r result, groups []base.GroupID, terr error) (base.Timestamp, error) {
	t := c.t
	if r.asked && t.db.managed {
		_, terr = t.tellEnds(ctx, base.GroupRegions(groups), r.ts)()
	}
	// Clocks with a bound need no wait: readers count with what may lie above them. The other modes
	// know no bound.
	if _, whole := t.db.clock.Assign(); !whole && terr == nil {
		terr = t.settled(ctx, r.ts)
	}
	if terr == nil {
		c.as.releaseOthers(groups)
	}
	c.as.end(false)
	if terr != nil {
		return 0, base.Errorf(base.CodeAmbiguous, "transaction %v committed at %s: %v", t.id, r.ts, terr)
	}
	return r.ts, nil
}

// tryAgain prepares the next try after a refusal, or returns the error of the commit.
func (c *timestampCommit) tryAgain(p *proposal, r result, groups, try int) error {
	t := c.t
	code := base.CodeOf(r.err)
	switch {
	case code != base.CodeTooLate && code != base.CodeWrongOwner:
		return r.err
	case try == maxOrdered:
		return retry(r.err)
	case code == base.CodeTooLate:
		t.db.stats.Pushed.Add(1)
		c.target, c.ahead = max(r.least, t.db.clock.Now()), true
	}
	if groups > 1 { // a group votes once for each name
		c.as.end(false)
		c.as = t.renamed()
	}
	return nil
}

// commitRead ends a transaction that wrote nothing: it is placed at the timestamp of its reads.
func (c *timestampCommit) commitRead(ctx context.Context) (base.Timestamp, error) {
	t := c.t
	defer t.releaseOthers(nil) // rows that it was going to write
	if t.order != nil && t.db.managed {
		var regions []base.RegionID
		for r, ts := range t.order.ends {
			if ts < t.readTS {
				regions = append(regions, r)
			}
		}
		if _, err := t.tellEnds(ctx, regions, t.readTS)(); err != nil {
			return 0, err
		}
	}
	return snapshotEnd{t}.commit(ctx)
}

// aboveEnds makes a transaction that turned to locks commit above all that have ended, whatever
// their regions.
func (t *Txn) aboveEnds(ctx context.Context) error {
	if !t.db.managed || !t.turned() {
		return nil
	}
	if err := t.startOrder(ctx); err != nil {
		return err
	}
	var regions []base.RegionID
	for _, r := range t.db.cfg.Topology().Regions {
		regions = append(regions, r.ID)
	}
	finished, err := t.tellEnds(ctx, regions, 0)()
	t.maxTS = max(t.maxTS, finished)
	t.order.touched = regions
	return err
}

// Touched are the regions whose rows a committed transaction has used, where transactions are
// ordered by timestamps.
func (t *Txn) Touched() []base.RegionID {
	if t.order == nil {
		return nil
	}
	return t.order.touched
}
