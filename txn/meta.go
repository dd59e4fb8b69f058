package txn

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
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
	if t.db.set.Closed(base.MetaShard) < f.ts {
		ctx, cancel := context.WithTimeout(ctx, t.db.cfg.Limits.Request)
		defer cancel()
		if err := t.db.set.EnsureClosed(ctx, base.MetaShard, f.ts); err != nil {
			return err
		}
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
		full := f.fill(i, resp)
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
		if full {
			break
		}
	}
	return nil
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

// The schema horizon is how far above now a commit bounds its timestamp, at least: the time it may
// take until all participants have assigned theirs. It is learnt: doubled when it was too short,
// shrunk slowly when it was not. A schema change on the meta leader's node waits for it; a
// transaction of several groups that finds it too short is lost. The one costs milliseconds of a
// rare statement, so it is ample, and it must not shrink so fast that it is found too short all the
// time.
const perWrite = 20 * time.Microsecond

type horizon struct{ d atomic.Int64 }

func (h *horizon) get(writes int) time.Duration {
	return max(time.Duration(h.d.Load()), metaMargin) + time.Duration(writes)*perWrite
}

func (h *horizon) tooShort() {
	h.d.Store(int64(min(2*max(time.Duration(h.d.Load()), metaMargin), maxMetaMargin)))
}

func (h *horizon) longEnough() {
	if d := h.d.Load(); d > int64(metaMargin) {
		h.d.Store(d - d/1024)
	}
}

var wholeMeta = base.Span{Start: base.Key{0, 0}, End: base.Key{0, 1}}

// checkPins fails with CodeSchemaChanged if anything pinned changed until upTo,
// which the local meta replica must have closed.
func (t *Txn) checkPins(upTo base.Timestamp) error {
	oldest := base.MaxTimestamp
	for _, p := range t.pins {
		oldest = min(oldest, p.at)
	}
	if changed, complete := t.db.set.MetaVersion(wholeMeta); complete >= upTo && changed <= oldest {
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
	set := t.db.set
	bound := set.Closed(base.MetaShard)
	want := t.db.clock.Now().Add(margin)
	if bound < want {
		if err := set.EnsureClosed(ctx, base.MetaShard, want); err != nil {
			return 0, err
		}
		bound = set.Closed(base.MetaShard)
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
