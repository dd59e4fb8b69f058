package txn

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/wire"
)

// The schema horizon is how far above now a commit bounds its timestamp, at
// least: the time it may take until all participants have assigned theirs. It
// is learnt: doubled when it was too short, shrunk slowly when it was not. A
// schema change waits for it, so it should not be longer than needed.
const (
	horizonMin = 2 * time.Millisecond
	horizonMax = 500 * time.Millisecond
	perWrite   = 20 * time.Microsecond
)

type horizon struct{ d atomic.Int64 }

func (h *horizon) get(writes int) time.Duration {
	return max(time.Duration(h.d.Load()), horizonMin) + time.Duration(writes)*perWrite
}

func (h *horizon) tooShort() {
	h.d.Store(int64(min(max(2*time.Duration(h.d.Load()), 2*horizonMin), horizonMax)))
}

func (h *horizon) longEnough() {
	if d := h.d.Load(); d > int64(horizonMin) {
		h.d.Store(d - d/64)
	}
}

// Pin implements kv.Txn.
func (t *Txn) Pin(ts base.Timestamp, keys ...base.Key) {
	for _, k := range keys {
		t.pins = append(t.pins, pin{base.PointSpan(k.Clone()), ts})
	}
}

// fixSnapshot chooses the timestamp of LockNone reads.
func (t *Txn) fixSnapshot() {
	if t.readTS == 0 {
		t.readTS = t.db.cfg.Clock.Now()
	}
}

// metaSnapshot is the timestamp at which the local meta replica is read, which
// is complete up to it.
func (t *Txn) metaSnapshot(ctx context.Context, mode kv.LockMode) (base.Timestamp, error) {
	if mode == kv.LockNone {
		t.fixSnapshot()
		_, err := t.db.metaClosed(ctx, t.readTS)
		return t.readTS, err
	}
	if t.metaTS == 0 {
		ts, err := t.db.metaClosed(ctx, t.db.cfg.Clock.Now())
		if err != nil {
			return 0, err
		}
		t.metaTS = ts
	}
	return t.metaTS, nil
}

// getMeta reads keys of the meta shard from the local replica; under
// LockShared they are pinned.
func (t *Txn) getMeta(ctx context.Context, keys []base.Key, want []int, mode kv.LockMode, rows []kv.Row) error {
	ts, err := t.metaSnapshot(ctx, mode)
	if err != nil {
		return err
	}
	spans := make([]*wire.Span, len(want))
	for j, i := range want {
		spans[j] = &wire.Span{Start: keys[i]}
	}
	for len(want) > 0 {
		res, err := t.readLocal(ctx, base.MetaGroup, &wire.ReadRequest{Group: uint32(base.MetaGroup), ReadTs: uint64(ts), Spans: spans})
		if err != nil {
			return err
		}
		if len(res.Rows) == 0 || len(res.Rows) > len(want) {
			return base.Errorf(base.CodeOther, "the meta replica answered %d rows for %d keys", len(res.Rows), len(want))
		}
		for j, r := range res.Rows {
			i := want[j]
			rows[i] = rowOf(r)
			rows[i].Key = keys[i]
			if mode == kv.LockShared {
				t.pins = append(t.pins, pin{base.PointSpan(keys[i]), ts})
			}
		}
		want, spans = want[len(res.Rows):], spans[len(res.Rows):]
	}
	return nil
}

// readLocal reads from this node's replica of a group's shard.
func (t *Txn) readLocal(ctx context.Context, g base.GroupID, req *wire.ReadRequest) (*wire.ReadResponse, error) {
	rep := t.db.cfg.Owners.Replica(g)
	if rep == nil {
		return nil, base.Errorf(base.CodeUnavailable, "group %v has no replica on this node yet; retry", g)
	}
	return rep.ReadLocal(ctx, req)
}

// closedHere is the timestamp up to which this node's replica of a data shard
// is complete; 0 if the shard is not held here.
func (t *Txn) closedHere(s base.ShardID) base.Timestamp {
	if s == base.MetaShard || !t.db.cfg.Owners.Holds(s) {
		return 0
	}
	return t.db.cfg.Owners.Closed(s)
}

// getLocal serves snapshot reads from this node where it is complete.
func (t *Txn) getLocal(ctx context.Context, keys []base.Key, want []int, rows []kv.Row) (bool, error) {
	if t.opts.ReadTS == 0 { // the present is never closed
		return false, nil
	}
	for _, i := range want {
		if t.closedHere(keys[i].Shard()) < t.readTS {
			return false, nil
		}
	}
	for _, i := range want {
		g := base.DataGroup(keys[i].Shard(), t.db.cfg.Region)
		res, err := t.readLocal(ctx, g, &wire.ReadRequest{Group: uint32(g), ReadTs: uint64(t.readTS), Spans: []*wire.Span{{Start: keys[i]}}})
		if err != nil {
			return false, err
		}
		rows[i] = rowOf(res.Rows[0])
		rows[i].Key = keys[i]
	}
	return true, nil
}

// checkPins returns the bound below which the commit timestamp must lie for
// all pins to hold: just above the local meta replica's closed timestamp.
func (t *Txn) checkPins(ctx context.Context) (base.Timestamp, error) {
	if len(t.pins) == 0 {
		return 0, nil
	}
	closed, err := t.db.metaClosed(ctx, t.db.cfg.Clock.Latest().Add(t.db.horizon.get(t.buf.seq)))
	if err != nil {
		return 0, err
	}
	for _, p := range t.pins {
		if err := t.holds(p); err != nil {
			return 0, err
		}
	}
	return closed.Next(), nil
}

// holds is an error if a pin has changed.
func (t *Txn) holds(p pin) error {
	ok, err := t.db.unchanged(p.span, p.ts)
	if err == nil && !ok {
		err = errChanged(p.span)
	}
	return err
}

func errChanged(s base.Span) error {
	return base.Errorf(base.CodeSchemaChanged, "what the transaction relied on in the catalog or a GLOBAL table has changed since it began (%v); run it again", s)
}

// lockPins locks what was pinned at the meta leader, for a transaction that
// takes part in the meta group itself.
func (t *Txn) lockPins(ctx context.Context) error {
	spans := make([]base.Span, len(t.pins))
	for i, p := range t.pins {
		spans[i] = p.span
	}
	for n, p := range t.pins {
		res, err := t.read(ctx, base.MetaGroup, kv.LockShared, spans[n:n+1], false, 0, 0, nil)
		if err != nil {
			return err
		}
		for _, r := range res.Rows {
			if base.Timestamp(r.Ts) > p.ts {
				return errChanged(p.span)
			}
		}
		// A deleted row leaves no timestamp in a scan: the local replica has applied
		// everything the leader answered for only if it is told so; ask it.
		if !p.span.IsPoint() || len(res.Rows) == 1 && res.Rows[0].Absent {
			if _, err := t.db.metaClosed(ctx, base.Timestamp(res.Now)); err != nil {
				return err
			}
			if err := t.holds(p); err != nil {
				return err
			}
		}
	}
	t.pins = nil
	return nil
}
