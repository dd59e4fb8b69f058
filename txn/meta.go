package txn

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/txn/lately"
	"github.com/godwitdb/godwit/wire"
)

// readMeta reads keys of the meta shard from the local replica at one timestamp, without lock and
// without a round trip. Unless the transaction is a pure snapshot, Commit checks that nothing of it
// changed until the commit timestamp.
func (t *Txn) readMeta(ctx context.Context, f *fetch) error {
	if err := t.metaSnapshot(ctx); err != nil {
		return err
	}
	f.ts, f.lock = t.metaTS, kv.LockNone
	f.got = make([]found, len(f.spans))
	if err := t.db.awaitMeta(ctx, f.ts, !slices.ContainsFunc(f.spans,
		func(s base.Span) bool { return !s.InCatalog() })); err != nil {
		return err
	}
	r := t.db.set.Replica(base.MetaGroup)
	if r == nil {
		return base.Errorf(base.CodeUnavailable, "node %d has no replica of the meta shard yet", t.db.cfg.Self)
	}
	for i, s := range f.spans {
		resp, err := r.ReadLocal(ctx, &wire.ReadRequest{ReadTs: uint64(f.ts), Spans: []*wire.Span{{Start: s.Start, End: s.End}},
			Reverse: f.reverse, Limit: uint32(f.limit), MaxBytes: uint32(f.maxBytes)})
		if err != nil {
			return err
		}
		f.fill([]int{i}, resp)
		read := s
		if cut := f.got[i].cut; cut != nil && !s.IsPoint() {
			if f.reverse {
				read.Start = cut
			} else {
				read.End = cut
			}
		}
		if !t.opts.ReadOnly || t.mode == byTimestamp { // by timestamp, also what only reads may move on
			t.pins = append(t.pins, pin{read, f.ts})
		}
		if len(resp.Resume) > 0 && !f.apart {
			for j := i + 1; j < len(f.got); j++ {
				f.got[j].cut = f.first(f.spans[j])
			}
			break
		}
	}
	return nil
}

// metaClosed is the timestamp up to which this node knows all changes of the meta shard, or of the
// catalog alone: of that its leader promises more (OWN-17).
func (db *DB) metaClosed(catalog bool) base.Timestamp {
	if catalog {
		return db.set.CatalogClosed()
	}
	return db.set.Closed(base.MetaShard)
}

// ensureMeta waits until metaClosed is at least ts.
func (db *DB) ensureMeta(ctx context.Context, ts base.Timestamp, catalog bool) error {
	if catalog {
		return db.set.EnsureCatalog(ctx, ts)
	}
	return db.set.EnsureClosed(ctx, base.MetaShard, ts)
}

// awaitMeta is ensureMeta within the bound of a request.
func (db *DB) awaitMeta(ctx context.Context, ts base.Timestamp, catalog bool) error {
	if db.metaClosed(catalog) >= ts {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, db.cfg.Limits.Request)
	defer cancel()
	return db.ensureMeta(ctx, ts, catalog)
}

// holdsCatalog reports whether all that is pinned is of the catalog.
func (t *Txn) holdsCatalog() bool {
	return !slices.ContainsFunc(t.pins, func(p pin) bool { return !p.span.InCatalog() })
}

// metaSnapshot fixes the timestamp of meta reads at the first one.
func (t *Txn) metaSnapshot(ctx context.Context) error {
	if t.metaTS != 0 {
		return nil
	}
	if t.readTS == 0 {
		var err error
		if t.readTS, err = t.now(ctx); err != nil {
			return err
		}
	}
	t.metaTS = t.readTS
	return nil
}

// The schema horizon is how far above now a commit bounds its timestamp, at least: the time from
// asking an owner to the timestamp that it assigns. It is measured, by region, and a measurement is
// soon forgotten. Too short a horizon aborts a transaction of several groups. Too long a one makes
// a commit wait, but never longer than for the next closed timestamp of the meta group. A closed
// timestamp lies farthest ahead when it arrives, so a longer wait would gain nothing.
//
// A commit in one group that comes too late is tried again, with the whole horizon. So its first
// try uses at most twice the average of what was needed: on a busy machine a few commits take ten
// times as long, and the others need not wait for the meta group because of them.
const (
	perWrite = 20 * time.Microsecond
	// perWriteFirst is what owners mostly need, for a commit that is tried again. Where the meta
	// group is led here, more than a lease covers would be waited for.
	perWriteFirst = 4 * time.Microsecond
)

type horizon struct {
	mu   sync.Mutex
	need map[base.RegionID]*lately.Recent
	// lead is how far ahead of now the closed timestamp of the meta group lay.
	lead lately.Recent
}

// get is the horizon for a commit in groups; first: of the first try of a commit that is tried
// again if it comes too late.
func (h *horizon) get(now time.Time, groups []base.GroupID, writes int, first bool) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	d, each := metaMargin, perWrite
	if first {
		each = perWriteFirst
	}
	for _, g := range groups {
		if n := h.need[g.Region()]; n != nil {
			need := n.Nearly(now)
			if first {
				need = min(need, 2*n.Usual(now))
			}
			d = max(d, need)
		}
	}
	return min(min(d, maxMetaMargin)+time.Duration(writes)*each, mostMargin)
}

// needed takes a measurement: how long after it was asked a group assigned a timestamp, or would
// have, had it not refused. A refusal counts twice, so that nearly does not leave it out.
func (h *horizon) needed(now time.Time, g base.GroupID, d time.Duration, refused bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.need[g.Region()]
	if n == nil {
		if h.need == nil {
			h.need = map[base.RegionID]*lately.Recent{}
		}
		n = &lately.Recent{}
		h.need[g.Region()] = n
	}
	if n.Add(now, d); refused {
		n.Add(now, d)
	}
}

// led takes how far ahead of now the meta group was closed.
func (h *horizon) led(now time.Time, d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lead.Add(now, d)
}

// useful is the part of a margin that a wait can gain: a little less than the farthest that a
// closed timestamp lay ahead lately.
func (h *horizon) useful(now time.Time, margin time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if most := h.lead.Most(now); most > 0 {
		return min(margin, most-most/8)
	}
	return margin
}

// margin is how far ahead of now the schema has to be known to hold for a commit in groups that
// carries so many writes; first: as in horizon.get.
func (t *Txn) margin(groups []base.GroupID, writes int, first bool) time.Duration {
	now, h := time.Now(), &t.db.horizon
	d := max(h.get(now, groups, writes, first), metaMargin+t.db.cfg.Commits.Lead())
	if t.db.leadsGroup(base.MetaGroup) { // here the bound is for the asking
		return d
	}
	return h.useful(now, d)
}

var wholeMeta = base.Span{Start: base.Key{0, 0}, End: base.Key{0, 1}}

// checkPins fails with CodeSchemaChanged if anything pinned changed until upTo,
// which the local meta replica must have closed.
func (t *Txn) checkPins(upTo base.Timestamp) error {
	oldest := base.MaxTimestamp
	for _, p := range t.pins {
		oldest = min(oldest, p.at)
	}
	span := wholeMeta
	if t.holdsCatalog() {
		span = base.CatalogSpan
	}
	// The caller knows that the replica is complete; what it has is looked at now.
	if changed, complete := t.db.set.MetaVersion(span); complete != 0 && changed <= oldest {
		return nil // nothing changed at all
	}
	for _, p := range t.pins {
		changed, err := t.db.set.ChangedWithin(p.span, p.at, upTo)
		if err != nil {
			return err
		}
		if changed {
			return schemaChanged(p)
		}
	}
	return nil
}

func schemaChanged(p pin) error {
	return base.Errorf(base.CodeSchemaChanged, "the definition at %v was changed by another transaction: retry", p.span)
}

// prepareMargin is how far ahead the meta leader closes for a commit of several groups.
const prepareMargin = 200 * time.Millisecond

// holdPins checks the pins for a commit that happens below the returned bound;
// 0 if there are none. margin is how far ahead of now the bound has to be.
func (t *Txn) holdPins(ctx context.Context, margin time.Duration) (base.Timestamp, error) {
	if len(t.pins) == 0 {
		return 0, nil
	}
	set, catalog := t.db.set, t.holdsCatalog()
	now := t.db.clock.Now()
	t.db.horizon.led(time.Now(), set.Closed(base.MetaShard).Sub(now))
	want := now.Add(margin)
	bound := t.db.metaClosed(catalog)
	if bound < want {
		if err := t.db.awaitMeta(ctx, want, catalog); err != nil {
			return 0, err
		}
		bound = t.db.metaClosed(catalog)
		t.db.horizon.led(time.Now(), set.Closed(base.MetaShard).Sub(t.db.clock.Now()))
	}
	err := t.checkPins(bound)
	if err == nil {
		return bound.Next(), nil
	}
	if base.CodeOf(err) == base.CodeSchemaChanged && want < bound {
		// A change that lies ahead of now. There may be time to commit before it; else the next
		// attempt shall see it.
		if t.checkPins(want) == nil {
			return want.Next(), nil
		}
		if werr := t.db.settle(ctx, want); werr != nil {
			return 0, werr
		}
	}
	return 0, err
}

// lockPins is holdPins for a transaction that writes or locks the meta shard: its commit timestamp
// lies above everything closed there, so what it read is locked at the leader instead.
func (t *Txn) lockPins(ctx context.Context) error {
	for _, p := range t.pins {
		changed, err := t.lockUnchanged(ctx, p.span, p.at)
		if err != nil {
			return err
		}
		if changed {
			return schemaChanged(p)
		}
	}
	t.pins = nil
	return nil
}
