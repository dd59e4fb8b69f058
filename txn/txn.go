package txn

import (
	"context"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/wire"
)

// part is a group that a transaction took locks in.
type part struct {
	group base.GroupID
	term  uint64 // of the locks; 0: asked, but nothing is known to be locked
	asked int    // locking requests answered
	told  bool   // with an opening
}

// pin is a meta key, or a span of them, that must not change after at.
type pin struct {
	span base.Span
	at   base.Timestamp
}

// Txn is one attempt of a transaction at its coordinator. It implements kv.Txn.
type Txn struct {
	db    *DB
	id    base.TxnID
	opts  kv.Options
	meta  wire.TxnMeta
	begun time.Time

	readTS  base.Timestamp // snapshot of LockNone reads
	served  bool           // on behalf of another node: what is not held here is not asked of a third one's replicas
	stale   bool           // the next LockNone read takes a new snapshot
	metaTS  base.Timestamp // snapshot of meta reads
	maxTS   base.Timestamp // largest commit timestamp read
	opening *opening
	parts   []part
	// crossing is set once a transaction reads a snapshot instead of locking (kv.Options.Relay); reads is what it has read.
	crossing *crossing
	reads    []base.Span
	order    *ordering // with timestamp ordering, from the first read or the commit on
	patient  bool      // by timestamp: it has been tried for so long that it locks what it reads
	locking  bool      // it locks although its cluster orders by timestamps
	bounded  bool      // an owner said that it must commit before a slot
	pins     []pin
	buf      buffer
	// known are keys read under a lock and present, with the group that owns them.
	known  map[string]base.GroupID
	ranges []readRange               // rows of ranges read under locks, instead
	absent map[string]base.GroupID   // keys found absent under a lock, and who owns them
	along  map[string]*wire.KV       // rows locked and shown by their owner unasked
	drafts map[string]base.Timestamp // rows of which there is a draft, as of when
	ahead  ahead

	err        error // sticky
	ended      bool  // committed, or released
	entered    bool  // the gate, before its first lock
	commitTS   base.Timestamp
	liveGroups []base.GroupID // guarded by db.liveMu
}

var _ kv.Txn = (*Txn)(nil)

// ID implements kv.Txn.
func (t *Txn) ID() base.TxnID { return t.id }

// ReadTimestamp implements kv.Txn.
func (t *Txn) ReadTimestamp() base.Timestamp { return t.readTS }

// NextSnapshot implements kv.Txn.
func (t *Txn) NextSnapshot() { t.stale = t.opts.ReadTS == 0 }

// Wrote implements kv.Txn.
func (t *Txn) Wrote() bool { return len(t.buf.byKey) > 0 }

// Savepoint implements kv.Txn.
func (t *Txn) Savepoint() int { return t.buf.savepoint() }

// RollbackTo implements kv.Txn.
func (t *Txn) RollbackTo(savepoint int) {
	for _, w := range t.buf.since(savepoint) {
		t.settle(w) // the client may have been told that the row was there
	}
	t.buf.rollbackTo(savepoint)
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
			t.release()
		}
	}
	return err
}

func (t *Txn) trace(ctx context.Context) context.Context { return obs.WithTrace(ctx, t.opts.Trace) }

// part is the record of a group, made if need be.
func (t *Txn) part(g base.GroupID) *part {
	if p := t.findPart(g); p != nil {
		return p
	}
	t.parts = append(t.parts, part{group: g})
	db := t.db
	db.liveMu.Lock()
	t.liveGroups = append(t.liveGroups, g)
	db.live[t] = struct{}{}
	db.liveMu.Unlock()
	return &t.parts[len(t.parts)-1]
}

func (t *Txn) findPart(g base.GroupID) *part {
	for i := range t.parts {
		if t.parts[i].group == g {
			return &t.parts[i]
		}
	}
	return nil
}

// lockTerm is the term of the locks in a group; 0 if there are none.
func (t *Txn) lockTerm(g base.GroupID) uint64 {
	if p := t.findPart(g); p != nil {
		return p.term
	}
	return 0
}

// end takes the transaction off the books.
func (t *Txn) end() {
	if t.ended {
		return
	}
	t.ended = true
	if len(t.parts) > 0 {
		t.db.liveMu.Lock()
		delete(t.db.live, t)
		t.db.liveMu.Unlock()
	}
	if t.entered {
		t.db.gate.leave(base.CodeOf(t.err) == base.CodeAborted)
	}
}

// quitGate takes a transaction that crosses regions out of the gate.
func (t *Txn) quitGate() {
	if t.entered {
		t.entered = false
		t.db.gate.quit()
	}
}

// crossed reports whether rows of other regions were locked or written.
func (t *Txn) crossed() bool {
	return t.crossing != nil || slices.ContainsFunc(t.parts, func(p part) bool {
		return p.group != base.MetaGroup && p.group.Region() != t.db.cfg.Region
	})
}

// release gives all locks back, in the background where that takes a message.
func (t *Txn) release() { t.free(false) }

// free gives back the locks; done: the transaction has committed. It says how many moves that has set off, as far as is known at once.
func (t *Txn) free(done bool) (moves int) {
	if t.ended {
		return 0
	}
	t.end()
	for _, p := range t.parts {
		q := &wire.FinishRequest{Group: uint32(p.group), Txn: t.id[:], Done: done}
		if r := t.db.set.Replica(p.group); r != nil {
			if _, ok := r.Serving(); ok {
				moves += int(r.Finish(context.Background(), q).Moves)
				continue
			}
		}
		t.db.spawn(func(ctx context.Context) { _, _ = t.db.router.Finish(ctx, q) })
	}
	return moves
}

// Rollback implements kv.Txn.
func (t *Txn) Rollback(context.Context) {
	t.release()
	t.buf, t.ahead = buffer{}, ahead{}
	if t.err == nil && t.commitTS == 0 {
		t.err = base.Errorf(base.CodeInvalid, "transaction %v was rolled back", t.id)
	}
}

// Put implements kv.Txn.
func (t *Txn) Put(key base.Key, value []byte, home base.RegionID) {
	w := &write{key: key, kind: wire.WriteKind_PUT, val: value, home: t.home(home)}
	if old := t.buf.get(key); old != nil {
		// What had to be absent still has to.
		switch {
		case old.kind == wire.WriteKind_INSERT:
			w.kind, w.home = wire.WriteKind_INSERT, old.home
		case old.fresh:
			w.kind = wire.WriteKind_INSERT
		default:
			w.move, w.mo = old.move, old.mo
		}
	}
	t.buffer(w)
}

// Fence implements kv.Txn.
func (t *Txn) Fence(key base.Key, to base.RegionID) {
	if t.buf.get(key) == nil {
		t.buffer(&write{key: key, kind: wire.WriteKind_FENCE, home: to})
	}
}

// Move implements kv.Txn.
func (t *Txn) Move(key base.Key, to base.RegionID, opts kv.MoveOptions) {
	w := &write{key: key, kind: wire.WriteKind_MOVE}
	if old := t.buf.get(key); old != nil && old.kind != wire.WriteKind_FENCE {
		if old.kind == wire.WriteKind_DELETE {
			return
		}
		*w = *old
	}
	if w.kind == wire.WriteKind_INSERT {
		w.home = to
	} else {
		w.move, w.mo = to, opts
	}
	t.buffer(w)
}

// Insert implements kv.Txn.
func (t *Txn) Insert(key base.Key, value []byte, home base.RegionID) error {
	w := &write{key: key, kind: wire.WriteKind_INSERT, val: value, home: t.home(home)}
	if old := t.buf.get(key); old.content() {
		if old.kind != wire.WriteKind_DELETE {
			return exists(key)
		}
		if !old.fresh {
			w.kind = wire.WriteKind_PUT // present or not, this transaction deleted it
		}
	} else if _, present := t.present(key); present {
		return exists(key)
	}
	t.buffer(w)
	return nil
}

func exists(key base.Key) error {
	e := base.Errorf(base.CodeExists, "key %v exists", key)
	e.Key = key
	return e
}

// Delete implements kv.Txn.
func (t *Txn) Delete(key base.Key) {
	w := &write{key: key, kind: wire.WriteKind_DELETE}
	if old := t.buf.get(key); old != nil {
		w.fresh = old.kind == wire.WriteKind_INSERT || old.fresh
	}
	t.buffer(w)
}

func (t *Txn) home(r base.RegionID) base.RegionID {
	if r == 0 {
		return t.opts.Source
	}
	return r
}

func (t *Txn) buffer(w *write) {
	switch {
	case t.ended:
		return
	case t.opts.ReadOnly:
		t.tooMuch(base.Errorf(base.CodeInvalid, "a READ ONLY transaction cannot write"))
		return
	case len(w.key) <= base.ShardPrefixLen:
		t.tooMuch(base.Errorf(base.CodeInvalid, "key %x is too short to name a shard", []byte(w.key)))
		return
	}
	if old := t.buf.get(w.key); old != nil && old.patch != nil {
		t.settle(old)
		w.patch, w.draft = nil, 0
	}
	t.buf.set(w)
	if t.buf.bytes > t.db.cfg.MaxWriteBytes || len(t.buf.byKey) > t.db.cfg.MaxWrites {
		t.tooMuch(base.Errorf(base.CodeInvalid, "the transaction writes more than %d bytes or %d keys: commit in smaller pieces", t.db.cfg.MaxWriteBytes, t.db.cfg.MaxWrites))
	}
}

// tooMuch ends the transaction for a write it may not do.
func (t *Txn) tooMuch(err error) {
	if t.err == nil {
		t.err = err
		t.release()
		t.buf = buffer{}
	}
}

func (w *write) row(key base.Key) kv.Row {
	if w.kind == wire.WriteKind_DELETE {
		return kv.Row{Key: key}
	}
	home := w.home
	if w.move != 0 {
		home = w.move
	}
	return kv.Row{Key: key, Value: present(w.val), Home: home}
}

func (w *write) wire(follow bool) *wire.Write {
	return &wire.Write{Kind: w.kind, Key: w.key, Value: w.val, Home: uint32(w.home), Move: uint32(w.move),
		Soft: w.mo.Soft, Pin: wire.Pin(w.mo.Pin), Reason: w.mo.Reason, Follow: follow}
}

// present is a value as it is shown: a present row's is never nil.
func present(v []byte) []byte {
	if v == nil {
		return []byte{}
	}
	return v
}
