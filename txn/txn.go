package txn

import (
	"context"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/txn/kept"
	"github.com/godwitdb/godwit/txn/known"
	"github.com/godwitdb/godwit/txn/writes"
	"github.com/godwitdb/godwit/wire"
)

// Txn is a transaction at its coordinator. It implements kv.Txn.
type Txn struct {
	attempt  // the transaction under its first name
	opts     kv.Options
	mode     mode
	blank    bool           // it began when its node knew nothing of the time: see named
	err      error          // ended the transaction; every later call returns it
	commitTS base.Timestamp // 0: not committed
	room     writes.Room[writes.Write]

	snapshots
	locking
	opening   *opening
	crossing  *crossing   // bySlot: not nil
	program   bool        // it reads at its slot, which it has to have
	order     *ordering   // in a cluster that orders by timestamps, from the first read or the commit on
	reads     []base.Span // what the commit has to validate: crossable, bySlot and byTimestamp
	pins      []pin
	buf       writes.Buffer
	rows      known.Rows
	ahead     kept.Rows // what Ahead has read
	stretched bool      // it may write more than others (kv.Measured)
	early     *early    // nil: nothing is logged before the commit
	ends      *ending   // what it ends, if that is a prepared transaction; nil: it is no such end
}

// snapshots are the timestamps of reads that do not lock.
type snapshots struct {
	readTS base.Timestamp // of rows; 0: nothing was read so
	metaTS base.Timestamp // of the meta shard
	stale  bool           // the next read of rows takes a new snapshot
	// served: the transaction reads for another node. What is not held here is then not asked of a
	// third one's replicas.
	served bool
}

// locking is what reads under locks have brought besides rows.
type locking struct {
	maxTS    base.Timestamp // largest commit timestamp read
	bounded  bool           // an owner said that the transaction must commit before a slot
	foreseen bool           // see foresee
}

// pin is a span of meta keys that must not change after at.
type pin struct {
	span base.Span
	at   base.Timestamp
}

var _ kv.Txn = (*Txn)(nil)

// ID implements kv.Txn.
func (t *Txn) ID() base.TxnID { return t.id }

// ReadTimestamp implements kv.Txn.
func (t *Txn) ReadTimestamp() base.Timestamp { return t.readTS }

// NextSnapshot implements kv.Txn.
func (t *Txn) NextSnapshot() { t.stale = t.opts.ReadTS == 0 }

// Wrote implements kv.Txn.
func (t *Txn) Wrote() bool { return t.buf.Len() > 0 }

// Savepoint implements kv.Txn.
func (t *Txn) Savepoint() int { return t.buf.Savepoint() }

// RollbackTo implements kv.Txn.
func (t *Txn) RollbackTo(savepoint int) {
	for _, w := range t.buf.Since(savepoint) {
		t.dependOn(w) // the client may have learnt that the row was there
	}
	if !t.buf.MayRollBack(savepoint) {
		t.refuse(base.Errorf(base.CodeInvalid, "transaction %v is over: what it is to take back may be in the log", t.id))
		return
	}
	t.buf.RollbackTo(savepoint)
}

// Pin implements kv.Txn.
func (t *Txn) Pin(ts base.Timestamp, keys ...base.Key) {
	for _, k := range keys {
		t.pins = append(t.pins, pin{base.PointSpan(k), ts})
	}
}

// usable is the error of a transaction that is over.
func (t *Txn) usable() error {
	if t.err != nil {
		return t.err
	}
	if err := t.buf.Err(); err != nil {
		return err
	}
	if t.ended {
		return base.Errorf(base.CodeInvalid, "transaction %v has ended", t.id)
	}
	return nil
}

// failed records an error that ends the transaction; others pass through.
func (t *Txn) failed(err error) error {
	switch base.CodeOf(err) {
	case base.CodeAborted, base.CodeLockTimeout, base.CodeUnavailable, base.CodeSchemaChanged, base.CodeAmbiguous:
		if t.err == nil {
			t.err = err
			t.db.stats.Failed.Add(1)
			t.abandon()
		}
	}
	return err
}

func (t *Txn) trace(ctx context.Context) context.Context { return obs.WithTrace(ctx, t.opts.Trace) }

// crossed reports whether rows of other regions were locked or written.
func (t *Txn) crossed() bool {
	return t.mode == bySlot || slices.ContainsFunc(t.parts, func(p part) bool {
		return p.group != base.MetaGroup && p.group.Region() != t.db.cfg.Region
	})
}

// abandon gives all locks back, in the background where that takes a message.
func (t *Txn) abandon() {
	t.early.end()
	t.release(base.CodeOf(t.err) == base.CodeAborted, false)
}

// Rollback implements kv.Txn.
func (t *Txn) Rollback(context.Context) {
	t.abandon()
	t.buf.Close()
	t.buf, t.ahead = writes.Buffer{}, kept.Rows{}
	if t.err == nil && t.commitTS == 0 {
		t.err = base.Errorf(base.CodeInvalid, "transaction %v was rolled back", t.id)
	}
}

// Put implements kv.Txn.
func (t *Txn) Put(key base.Key, value []byte, home base.RegionID) {
	w := t.room.New(t.buf.Len())
	*w = writes.Write{Key: key, Kind: wire.WriteKind_PUT, Val: value, Home: t.home(key, home)}
	old := t.buf.Old(key)
	if old != nil {
		// What had to be absent still has to.
		switch {
		case old.Kind == wire.WriteKind_INSERT:
			w.Kind, w.Home = wire.WriteKind_INSERT, old.Home
		case old.Fresh:
			w.Kind = wire.WriteKind_INSERT
		default:
			w.Move, w.Opts = old.Move, old.Opts
		}
	}
	t.buffer(old, w)
}

// Fence implements kv.Txn.
func (t *Txn) Fence(key base.Key, to base.RegionID) {
	if t.buf.Old(key) == nil {
		t.buffer(nil, &writes.Write{Key: key, Kind: wire.WriteKind_FENCE, Home: to})
	}
}

// Move implements kv.Txn.
func (t *Txn) Move(key base.Key, to base.RegionID, opts kv.MoveOptions) {
	w := &writes.Write{Key: key, Kind: wire.WriteKind_MOVE}
	old := t.buf.Old(key)
	if old != nil && old.Kind != wire.WriteKind_FENCE {
		if old.Kind == wire.WriteKind_DELETE {
			return
		}
		*w = *old
	}
	if w.Kind == wire.WriteKind_INSERT {
		w.Home = to
	} else {
		w.Move, w.Opts = to, opts
	}
	t.buffer(old, w)
}

// Insert implements kv.Txn.
func (t *Txn) Insert(key base.Key, value []byte, home base.RegionID) error {
	w := t.room.New(t.buf.Len())
	*w = writes.Write{Key: key, Kind: wire.WriteKind_INSERT, Val: value, Home: t.home(key, home)}
	old := t.buf.Old(key)
	if old.Content() {
		if old.Kind != wire.WriteKind_DELETE {
			return exists(key)
		}
		if !old.Fresh {
			w.Kind = wire.WriteKind_PUT // present or not, this transaction deleted it
		}
	} else if _, present := t.rows.IsPresent(key); present {
		return exists(key)
	}
	t.buffer(old, w)
	return nil
}

func exists(key base.Key) error {
	e := base.Errorf(base.CodeExists, "key %v exists", key)
	e.Key = key
	return e
}

// Delete implements kv.Txn.
func (t *Txn) Delete(key base.Key) {
	w := t.room.New(t.buf.Len())
	*w = writes.Write{Key: key, Kind: wire.WriteKind_DELETE}
	old := t.buf.Old(key)
	if old != nil {
		w.Fresh = old.Kind == wire.WriteKind_INSERT || old.Fresh
	}
	t.buffer(old, w)
}

// home is the region given, or where rows of a shard are at home for which the transaction runs.
func (t *Txn) home(key base.Key, r base.RegionID) base.RegionID {
	if r == 0 {
		return t.db.cfg.Topology().HomeIn(key.Shard(), t.opts.Source)
	}
	return r
}

// buffer makes a write the last one of its key, after old, or ends the transaction if it may not
// write it.
func (t *Txn) buffer(old, w *writes.Write) {
	switch {
	case t.ended:
		return
	case t.opts.ReadOnly:
		t.refuse(base.Errorf(base.CodeInvalid, "a READ ONLY transaction cannot write"))
		return
	case len(w.Key) <= base.ShardPrefixLen:
		t.refuse(base.Errorf(base.CodeInvalid, "key %x is too short to name a shard", []byte(w.Key)))
		return
	case old.Taken():
		t.refuse(base.Errorf(base.CodeInvalid, "transaction %v is over: it writes key %v again, which is in the log", t.id, w.Key))
		return
	}
	if old != nil && old.Patch != nil {
		t.dependOn(old)
		w.Patch, w.Draft = nil, 0
	}
	t.buf.Set(old, w)
	if t.tooMuch() {
		t.refuse(t.tooLarge())
	}
}

// refuse ends the transaction because of a write that it may not do.
func (t *Txn) refuse(err error) {
	if t.err == nil {
		t.err = err
		t.abandon()
		t.buf.Close()
		t.buf = writes.Buffer{}
	}
}
