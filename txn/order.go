package txn

import (
	"context"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/clock"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/wire"
)

// ordering is a transaction of a cluster that orders by timestamps (docs/protocol.md T). It reads at one timestamp, readTS,
// which moves up when something newer may have been acknowledged before the transaction began: then what was read before is
// checked to be the same there. It commits at that timestamp if nobody has read or written past it what it
// writes, else at a later one up to which its reads are checked as well.
type ordering struct {
	limit base.Timestamp // what lies above it was not acknowledged before the transaction began, if clocks keep their bound
	began base.Timestamp // true time had not passed it when the transaction began; 0: the clock cannot tell
	// told is, for each region whose timestamp manager was asked, the timestamp that it was told.
	told     map[base.RegionID]base.Timestamp
	overflow bool            // more was read than is remembered
	points   map[string]bool // keys among the reads
	touched  []base.RegionID // regions whose rows it has used
}

// patience is how old a transaction is, its former attempts included, when it begins to lock what it reads, so that it will not be tried
// again and again for what others change.
const patience = 250 * time.Millisecond

// uncertainty is by how much the clocks of two nodes may differ, at most.
const uncertainty = 500 * time.Millisecond

const maxOrdered = 8 // attempts of a commit

// byTime reports whether the transaction is ordered by timestamps; if not, it locks: because the cluster does, or because it
// locks or writes rows of the meta shard.
func (t *Txn) byTime() bool {
	return t.db.ordered && !t.locking && t.opts.ReadTS == 0
}

// ordered reports whether a read goes by timestamp; one that locks the meta shard turns the transaction to locks.
func (f *fetch) ordered(ctx context.Context, t *Txn) (bool, error) {
	switch {
	case !t.db.ordered || t.opts.ReadTS != 0:
		return false, nil
	case f.lock == kv.LockNone:
		return true, nil
	case t.locking:
		return false, nil
	case f.meta():
		return false, t.turnToLocks(ctx)
	}
	return true, nil
}

// turnToLocks goes on with locks: it takes those of what was read already, which must not have changed.
func (t *Txn) turnToLocks(ctx context.Context) error {
	if t.order != nil && t.order.overflow {
		return base.Errorf(base.CodeInvalid, "a transaction that changes the schema reads at most %d keys and ranges", maxReads)
	}
	t.locking = true
	reads := t.reads
	t.reads = nil
	for _, s := range reads {
		for {
			f := fetch{spans: []base.Span{s}, lock: kv.LockShared}
			seen := t.maxTS
			t.maxTS = 0
			err := f.run(ctx, t)
			changed := t.maxTS > t.readTS
			t.maxTS = max(t.maxTS, seen)
			switch {
			case err != nil:
				return err
			case changed:
				return base.Errorf(base.CodeAborted, "transaction %v read %v, which has been changed since: retry", t.id, s)
			}
			if f.got[0].cut == nil {
				break
			}
			s.Start = f.got[0].cut
		}
	}
	return nil
}

func (t *Txn) startOrder(ctx context.Context) error {
	if t.order != nil {
		return nil
	}
	now, err := t.db.clock.Snapshot(ctx) // by the clock alone in GClock mode, which is why there is a limit
	if err != nil {
		return err
	}
	if t.readTS == 0 {
		t.readTS = now
	}
	t.order = &ordering{limit: max(now, t.readTS).Add(uncertainty)}
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
		now, err := t.db.clock.Snapshot(ctx)
		if err == nil {
			t.stale = false
			err = t.moveUp(ctx, now)
		}
		if err != nil {
			return err
		}
	}
	for try := 0; ; try++ {
		g := *f
		g.lock, g.ts, g.write = kv.LockNone, t.readTS, f.lock == kv.LockExclusive && !t.locking
		g.hold = t.patient && !t.locking && !t.opts.ReadOnly
		newer, err := g.readAt(ctx, t, 0)
		if err != nil {
			return err
		}
		if newer <= t.readTS {
			f.got = g.got
			break
		}
		if try == maxRounds {
			return base.Errorf(base.CodeAborted, "what transaction %v reads keeps changing: retry", t.id)
		}
		if err := t.moveUp(ctx, newer); err != nil {
			return err
		}
	}
	for i := range f.got {
		f.got[i].order(f.reverse)
		for _, r := range f.got[i].rows {
			if h := base.Label(r.Label).Home(); !r.Absent && h != 0 {
				t.remember([]*wire.KV{r}, base.DataGroup(base.Key(r.Key).Shard(), h))
			}
		}
	}
	if t.locking {
		return nil
	}
	if len(t.reads)+len(f.spans) > maxReads && t.opts.ReadOnly {
		t.order.overflow = true // it can go on as long as its timestamp stays
		return nil
	}
	return t.noteOrdered(f)
}

// noteOrdered remembers what was read; a key that is read again only once.
func (t *Txn) noteOrdered(f *fetch) error {
	if len(t.reads)+len(f.spans) > maxReads {
		return base.Errorf(base.CodeInvalid, "a transaction that writes reads at most %d keys and ranges: do it in smaller pieces", maxReads)
	}
	n := len(t.reads)
	if err := t.noteReads(f); err != nil {
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

// again reports whether the transaction has read all the keys already. What others write there since then was not acknowledged before
// it began, however far their clocks are ahead.
func (f *fetch) again(t *Txn) bool {
	for _, s := range f.spans {
		if !s.IsPoint() || !t.order.points[string(s.Start)] {
			return false
		}
	}
	return true
}

// readAt reads the spans at f.ts from their owners, or makes sure that nothing in them has changed since another timestamp. newer is
// what the timestamp has to be at least, for all that was acknowledged before the transaction began to be seen.
func (f *fetch) readAt(ctx context.Context, t *Txn, since base.Timestamp) (newer base.Timestamp, err error) {
	limit := t.order.limit
	if since == 0 && !f.write && !f.hold && f.again(t) {
		limit = f.ts
	}
	f.got = make([]found, len(f.spans))
	var todo []piece
	for i, s := range f.spans {
		todo = t.guess(todo, i, s, f.limit)
	}
	for round := 0; len(todo) > 0; round++ {
		if round == maxRounds {
			return 0, base.Errorf(base.CodeUnavailable, "the owner of %v could not be found in %d steps: it is moving; retry", todo[0].span, maxRounds)
		}
		reqs := f.requests(todo)
		todo = nil
		var regions []base.RegionID
		for _, q := range reqs {
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
			t.maxTS = max(t.maxTS, base.Timestamp(q.resp.MaxTs)) // D1 goes by it
			todo = append(todo, f.take(t, q)...)
		}
		t.db.stats.Forwarded.Add(int64(len(todo)))
	}
	return newer, nil
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

// askEnds asks the timestamp managers of regions that were not asked yet, and returns how to wait for their answer: the
// largest timestamp of a transaction that has ended there. A transaction that will write tells them its own when it commits.
func (t *Txn) askEnds(ctx context.Context, regions []base.RegionID) func() (base.Timestamp, error) {
	for _, r := range regions {
		if !slices.Contains(t.order.touched, r) {
			t.order.touched = append(t.order.touched, r)
		}
	}
	if !t.db.managed {
		return func() (base.Timestamp, error) { return 0, nil }
	}
	var ask []base.RegionID
	for _, r := range regions {
		if _, asked := t.order.told[r]; !asked && !slices.Contains(ask, r) {
			ask = append(ask, r)
		}
	}
	ts := base.Timestamp(0)
	if t.opts.ReadOnly {
		ts = t.readTS
	}
	return t.tellEnds(ctx, ask, ts)
}

// tellEnds tells timestamp managers that the transaction ends at ts, 0: not yet; see askEnds.
func (t *Txn) tellEnds(ctx context.Context, regions []base.RegionID, ts base.Timestamp) func() (base.Timestamp, error) {
	type answer struct {
		ts  base.Timestamp
		err error
	}
	ch := make(chan answer, len(regions))
	for _, r := range regions {
		q := &wire.OrderRequest{Group: uint32(owner.TimestampManager(r)), Ts: uint64(ts), Began: uint64(t.order.began)}
		ask := func() {
			ctx, cancel := context.WithTimeout(ctx, t.db.cfg.RequestTimeout)
			defer cancel()
			resp, err := t.db.router.Order(ctx, q)
			if err == nil {
				err = owner.ErrorOf(resp.Status)
			}
			if err != nil {
				ch <- answer{err: base.Errorf(base.CodeUnavailable, "the timestamp manager of region %d does not answer: %v", r, err)}
				return
			}
			ch <- answer{ts: base.Timestamp(resp.Finished)}
		}
		if m := t.db.set.Replica(base.GroupID(q.Group)); m != nil {
			if _, ok := m.Serving(); ok {
				ask()
				continue
			}
		}
		go ask()
	}
	return func() (newest base.Timestamp, err error) {
		for range regions {
			a := <-ch
			if newest = max(newest, a.ts); a.err != nil {
				err = a.err
			}
		}
		if err == nil && t.order.told == nil && len(regions) > 0 {
			t.order.told = map[base.RegionID]base.Timestamp{}
		}
		for _, r := range regions {
			if err == nil {
				t.order.told[r] = max(t.order.told[r], ts)
			}
		}
		return newest, err
	}
}

// commitOrdered commits by timestamp.
func (t *Txn) commitOrdered(ctx context.Context) (base.Timestamp, error) {
	ctx, cancel := context.WithTimeout(ctx, t.db.cfg.CommitTimeout)
	defer cancel()
	if err := t.readFresh(ctx); err != nil {
		return 0, err
	}
	if !slices.ContainsFunc(t.buf.all(), func(w *write) bool { return !w.cancelled() }) {
		return t.commitRead(ctx)
	}
	if err := t.startOrder(ctx); err != nil {
		return 0, err
	}
	a := t
	defer func() {
		if a != t {
			a.release()
		}
	}()
	target := base.Timestamp(0) // 0: at the timestamp of the reads
	ahead := t.patient          // of now, by what it takes to get there: else whoever reads there all the time is always ahead
	margin := t.db.horizon.get(len(t.buf.byKey)) + t.db.cfg.CommitLead()
	for try := 1; ; try++ {
		c, err := t.planOrdered(ctx, a)
		if err != nil {
			return 0, err
		}
		for i := range t.pins {
			t.pins[i].at = min(t.pins[i].at, t.readTS)
		}
		if c.bound, err = t.holdPins(ctx, margin+max(0, target.Sub(t.db.clock.Latest()))); err != nil {
			return 0, err
		}
		groups := c.groups()
		touched := regionsOf(groups)
		told := func() (base.Timestamp, error) { return 0, nil }
		if len(groups) > 1 {
			if ahead {
				target = max(target, t.db.clock.Now().Add(t.db.leads.delay(groups, t.db.cfg.Region)))
			}
			if c.slot = t.readTS; target > t.readTS {
				c.slot = target
			} else {
				c.reads = nil
			}
			var regions []base.RegionID
			for _, g := range groups { // those that take part tell their managers themselves
				if r := g.Region(); t.db.managed && !slices.Contains(regions, r) && !slices.ContainsFunc(c.groups(), func(g base.GroupID) bool { return g.Region() == r }) {
					regions = append(regions, r)
				}
			}
			told = t.tellEnds(ctx, regions, c.slot)
			groups = c.groups()
		}
		var ts base.Timestamp
		if len(groups) == 1 {
			t.db.stats.OneRound.Add(1)
			ts, _, err = c.oneRound(ctx, groups[0])
		} else {
			t.db.stats.TwoRound.Add(1)
			ts, err = c.prepare(ctx, groups)
		}
		_, terr := told()
		if err == nil {
			if c.lost && t.db.managed {
				_, terr = t.tellEnds(ctx, regionsOf(groups), ts)()
			}
			// Clocks with a bound need no wait: readers count with what may lie above them. The other modes know no bound.
			if _, whole := t.db.clock.Assign(); !whole && terr == nil {
				terr = t.settled(ctx, ts)
			}
			if terr != nil {
				a.end()
				return 0, base.Errorf(base.CodeAmbiguous, "transaction %v committed at %s: %v", t.id, ts, terr)
			}
			t.order.touched = touched
			a.releaseOthers(groups)
			a.end()
			return ts, nil
		}
		switch code := base.CodeOf(err); {
		case code != base.CodeTooLate && code != base.CodeWrongOwner:
			return 0, err
		case try == maxOrdered:
			return 0, base.Errorf(base.CodeAborted, "%v: retry", err)
		case code == base.CodeTooLate:
			t.db.stats.Pushed.Add(1)
			target, ahead = max(c.least, t.db.clock.Now()), true
			if len(groups) == 1 && c.least >= c.bound && c.bound != 0 { // by the time it was there, the schema was no longer known to hold
				t.db.horizon.tooShort()
				margin = min(2*margin, maxMetaMargin)
			}
		}
		if len(groups) > 1 { // a group votes once for each name
			a.end()
			a = t.again()
		}
	}
}

// commitRead ends a transaction that wrote nothing: it is placed at the timestamp of its reads.
func (t *Txn) commitRead(ctx context.Context) (base.Timestamp, error) {
	defer t.releaseOthers(nil) // rows that it was going to write
	if t.order != nil && t.db.managed {
		var regions []base.RegionID
		for r, ts := range t.order.told {
			if ts < t.readTS {
				regions = append(regions, r)
			}
		}
		if _, err := t.tellEnds(ctx, regions, t.readTS)(); err != nil {
			return 0, err
		}
	}
	return t.commitSnapshot(ctx)
}

// aboveEnds makes a transaction that locks commit above all that have ended, whatever their regions.
func (t *Txn) aboveEnds(ctx context.Context) error {
	if !t.db.managed || !t.locking {
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

// Touched are the regions whose rows a committed transaction has used, where transactions are ordered by timestamps.
func (t *Txn) Touched() []base.RegionID {
	if t.order == nil {
		return nil
	}
	return t.order.touched
}

// planOrdered finds out who owns what was written and read, as far as this node knows, and asks the timestamp managers of the
// regions that are touched only now.
func (t *Txn) planOrdered(ctx context.Context, a *Txn) (*committer, error) {
	t.crossing = &crossing{}
	c := t.planCrossing()
	t.crossing = nil
	c.t, c.ordered = a, true
	finished, err := t.askEnds(ctx, regionsOf(c.groups()))()
	if err == nil {
		err = t.moveUp(ctx, finished)
	}
	c.snapshot = t.readTS
	return c, err
}

func regionsOf(groups []base.GroupID) (out []base.RegionID) {
	for _, g := range groups {
		if !slices.Contains(out, g.Region()) {
			out = append(out, g.Region())
		}
	}
	return out
}

// cancelled reports whether the write undoes itself: inserted and deleted again.
func (w *write) cancelled() bool { return w.fresh && w.kind == wire.WriteKind_DELETE }
