package txn

import (
	"context"
	"slices"
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

// margin is how far ahead of now the schema has to be known to hold for a commit in groups that
// carries so many writes; first: as in lately.Horizon.Get.
func (t *Txn) margin(groups []base.GroupID, writes int, first bool) time.Duration {
	now, h := time.Now(), &t.db.horizon
	d := max(h.Get(now, groups, writes, first), lately.Margin+t.db.cfg.Commits.Lead())
	if t.db.leadsGroup(base.MetaGroup) { // here the bound is for the asking
		return d
	}
	return h.Useful(now, d)
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

// holdFor is holdPins for a bound that is so far ahead of now.
func (t *Txn) holdFor(ctx context.Context, margin time.Duration) (base.Timestamp, error) {
	return t.holdPins(ctx, t.db.clock.Now().Add(margin))
}

// holdPins checks the pins for a commit that happens below the returned bound, which lies above
// want; 0 if there are none.
func (t *Txn) holdPins(ctx context.Context, want base.Timestamp) (base.Timestamp, error) {
	if len(t.pins) == 0 {
		return 0, nil
	}
	set, catalog := t.db.set, t.holdsCatalog()
	t.db.horizon.Led(time.Now(), set.Closed(base.MetaShard).Sub(t.db.clock.Now()))
	bound := t.db.metaClosed(catalog)
	if bound < want {
		if err := t.db.awaitMeta(ctx, want, catalog); err != nil {
			return 0, err
		}
		bound = t.db.metaClosed(catalog)
		t.db.horizon.Led(time.Now(), set.Closed(base.MetaShard).Sub(t.db.clock.Now()))
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
