package memkv

import (
	"bytes"
	"context"
	"slices"
	"sort"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/wire"
)

type write struct {
	key    string
	value  []byte // nil deletes
	home   base.RegionID
	insert bool
	to     base.RegionID // home of a row that is there; 0 keeps it
	only   bool          // nothing but to is written
}

type lockedSpan struct {
	span base.Span
	mode kv.LockMode
}

type metaRead struct {
	span base.Span
	ts   base.Timestamp
	pin  bool
}

type txn struct {
	db     *DB
	opts   kv.Options
	id     base.TxnID
	readTS base.Timestamp
	stale  bool           // the next LockNone read takes a new snapshot
	log    []write        // buffered writes in order
	writes map[string]int // key -> newest position in log
	saves  []int
	points map[string]kv.LockMode
	spans  []lockedSpan
	meta   []metaRead
	ahead  []lockedSpan           // read ahead of time
	near   map[string]kv.LockMode // and keys
	err    error
	done   bool
	// streamed is the table of which rows, and entries of some indexes, are written once
	// (kv.Streamer), and kept the writes that are not taken back.
	streamed base.TableID
	entries  []base.IndexID
	kept     int
	// stretched: the transaction may write more than others (kv.Measured).
	stretched bool
}

func (t *txn) ID() base.TxnID                { return t.id }
func (t *txn) ReadTimestamp() base.Timestamp { return t.readTS }
func (t *txn) NextSnapshot()                 { t.stale = t.opts.ReadTS == 0 }
func (t *txn) Wrote() bool                   { return len(t.writes) > 0 }

var errDone = base.Errorf(base.CodeInvalid, "the transaction has ended")

// begin checks that the transaction is usable and takes the store's mutex; it counts a call.
func (t *txn) begin() error {
	t.db.calls.Add(1)
	if t.opts.Trace != nil {
		t.db.traced.Add(1)
	}
	return t.enter()
}

func (t *txn) enter() error {
	t.db.mu.Lock()
	if t.done && t.err == nil {
		t.err = errDone
	}
	if t.err != nil {
		t.db.mu.Unlock()
	}
	return t.err
}

// end finishes the transaction; the mutex is held.
func (t *txn) end(err error) {
	t.done = true
	if t.err == nil {
		t.err = err
	}
	if _, ok := t.db.txns[t]; ok {
		delete(t.db.txns, t)
		close(t.db.released)
		t.db.released = make(chan struct{})
	}
}

func (t *txn) conflicts(span base.Span, mode kv.LockMode) (holders []*txn) {
	for o := range t.db.txns {
		if o != t && o.holds(span, mode) {
			holders = append(holders, o)
		}
	}
	return holders
}

// holds reports whether o has a lock that excludes mode on the span.
func (t *txn) holds(span base.Span, mode kv.LockMode) bool {
	excl := func(m kv.LockMode) bool { return m == kv.LockExclusive || mode == kv.LockExclusive }
	if span.IsPoint() {
		if m, ok := t.points[string(span.Start)]; ok && excl(m) {
			return true
		}
	} else {
		for k, m := range t.points {
			if excl(m) && span.Contains(base.Key(k)) {
				return true
			}
		}
	}
	for _, l := range t.spans {
		if excl(l.mode) && l.span.Overlaps(span) {
			return true
		}
	}
	return false
}

func (t *txn) covered(span base.Span, mode kv.LockMode) bool {
	if span.IsPoint() && t.points[string(span.Start)] >= mode {
		return true
	}
	for _, l := range t.spans {
		if l.mode >= mode && bytes.Compare(l.span.Start, span.Start) <= 0 && bytes.Compare(span.Limit(), l.span.Limit()) <= 0 {
			return true
		}
	}
	return false
}

// lock waits for a lock; the mutex is held on entry and on return.
func (t *txn) lock(ctx context.Context, span base.Span, mode kv.LockMode) error {
	if t.covered(span, mode) {
		return nil
	}
	deadline := time.NewTimer(t.opts.LockTimeout)
	defer deadline.Stop()
	for {
		holders := t.conflicts(span, mode)
		if len(holders) == 0 {
			break
		}
		for _, h := range holders {
			if t.opts.Policy == kv.NoWait || t.opts.Age > h.opts.Age || t.opts.Age == h.opts.Age &&
				bytes.Compare(t.id[:], h.id[:]) > 0 {
				err := base.Errorf(base.CodeAborted, "lost a lock conflict with transaction %s on %s", h.id, span)
				t.end(err)
				return err
			}
		}
		wait := t.db.released
		t.db.mu.Unlock()
		var err error
		select {
		case <-wait:
		case <-deadline.C:
			err = base.Errorf(base.CodeLockTimeout, "a lock on %s was not granted within %v", span, t.opts.LockTimeout)
		case <-ctx.Done():
			err = base.Errorf(base.CodeCanceled, "canceled while waiting for a lock: %v", context.Cause(ctx))
		}
		t.db.mu.Lock()
		if base.CodeOf(err) == base.CodeCanceled {
			return err // the transaction goes on
		}
		if err != nil {
			t.end(err)
			return err
		}
	}
	t.db.txns[t] = struct{}{}
	if span.IsPoint() {
		t.points[string(span.Start)] = max(mode, t.points[string(span.Start)])
	} else {
		t.spans = append(t.spans, lockedSpan{span, mode})
	}
	return nil
}

// protect locks what will be read, or notes it for validation, and returns the timestamp to read
// at.
func (t *txn) protect(ctx context.Context, spans []base.Span, mode kv.LockMode) (base.Timestamp, error) {
	if t.opts.ReadOnly && mode != kv.LockNone {
		return 0, base.Errorf(base.CodeInvalid, "a read-only transaction cannot lock")
	}
	if at := kv.GlanceOf(ctx); mode == kv.LockNone && at != nil {
		if *at == 0 {
			*at = max(t.db.last, 1)
		}
		return *at, nil
	}
	if mode == kv.LockNone {
		if t.readTS == 0 || t.stale {
			t.readTS, t.stale = t.db.last, false
			if t.readTS == 0 {
				t.readTS = t.db.now()
			}
		}
		if !t.opts.ReadOnly {
			for _, s := range spans {
				if s.Start.Shard() == base.MetaShard {
					t.meta = append(t.meta, metaRead{span: s, ts: t.readTS})
				}
			}
		}
		return t.readTS, nil
	}
	for _, s := range spans {
		if s.Start.Shard() == base.MetaShard && mode == kv.LockShared {
			t.meta = append(t.meta, metaRead{span: s, ts: t.db.last})
			continue
		}
		if wait, _ := kv.WaitOf(ctx); wait == kv.WaitNot && t.held(s, mode) {
			return 0, base.Errorf(base.CodeLocked, "another transaction holds a lock on %s", s)
		}
		if err := t.lock(ctx, s, mode); err != nil {
			return 0, err
		}
	}
	return base.MaxTimestamp, nil
}

// held reports whether another transaction has a lock that a read would wait for.
func (t *txn) held(span base.Span, mode kv.LockMode) bool {
	return !t.covered(span, mode) && len(t.conflicts(span, mode)) > 0
}

func (t *txn) Get(ctx context.Context, keys []base.Key, mode kv.LockMode) ([]kv.Row, error) {
	spans := make([]base.Span, len(keys))
	for i, k := range keys {
		spans[i] = base.PointSpan(k)
	}
	if err := t.beginRead(spans, mode); err != nil {
		return nil, err
	}
	defer t.db.mu.Unlock()
	rows := make([]kv.Row, len(keys))
	if wait, most := kv.WaitOf(ctx); mode != kv.LockNone && wait == kv.WaitSkip {
		spans = nil
		for i, k := range keys {
			s := base.PointSpan(k)
			if rows[i].Skipped = most > 0 && len(spans) >= most || t.held(s, mode); !rows[i].Skipped {
				spans = append(spans, s)
			}
		}
	}
	ts, err := t.protect(ctx, spans, mode)
	if err != nil {
		return nil, err
	}
	for i, k := range keys {
		if !rows[i].Skipped {
			rows[i], _ = t.read(string(k), ts)
		}
		rows[i].Key = k
	}
	return rows, nil
}

// beginRead is begin for a read, which is no call if everything was read ahead or written.
func (t *txn) beginRead(spans []base.Span, mode kv.LockMode) error {
	if mode != kv.LockNone && len(t.ahead)+len(t.near) > 0 &&
		!slices.ContainsFunc(spans, func(s base.Span) bool { return !t.Kept(s, mode) }) {
		return t.enter()
	}
	return t.begin()
}

func (t *txn) Ahead(ctx context.Context, keys []base.Key, spans []base.Span, mode kv.LockMode) (bool, error) {
	all := slices.Clone(spans)
	for _, k := range keys {
		if _, own := t.writes[string(k)]; !own {
			all = append(all, base.PointSpan(k))
		}
	}
	if err := t.beginRead(all, mode); err != nil {
		return false, err
	}
	defer t.db.mu.Unlock()
	if _, err := t.protect(ctx, all, mode); err != nil {
		return false, err
	}
	if t.near == nil {
		t.near = map[string]kv.LockMode{}
	}
	for _, s := range all {
		if s.IsPoint() {
			t.near[string(s.Start)] = max(mode, t.near[string(s.Start)])
		} else {
			t.ahead = append(t.ahead, lockedSpan{s, mode})
		}
	}
	return true, nil
}

// Kept implements kv.Txn.
func (t *txn) Kept(s base.Span, mode kv.LockMode) bool {
	if s.IsPoint() {
		if _, own := t.writes[string(s.Start)]; own || t.near[string(s.Start)] >= mode {
			return true
		}
	}
	for _, a := range t.ahead {
		if a.mode >= mode && bytes.Compare(a.span.Start, s.Start) <= 0 && bytes.Compare(s.Limit(), a.span.Limit()) <= 0 {
			return true
		}
	}
	return false
}

func (t *txn) Forget() { t.ahead, t.near = nil, nil }

// read returns the row of a key as the transaction sees it.
func (t *txn) read(k string, ts base.Timestamp) (kv.Row, bool) {
	v := at(t.db.versions[k], ts)
	r := kv.Row{Key: base.Key(k), Value: v.value, TS: v.ts, Home: v.home}
	if i, ok := t.writes[k]; ok && !t.log[i].only {
		w := t.log[i]
		r.Value, r.TS = w.value, 0
		if v.value == nil {
			r.Home = w.home
		}
	}
	if r.Value == nil {
		r.TS, r.Home = 0, 0
	}
	return r, r.Value != nil
}

func (t *txn) Put(key base.Key, value []byte, home base.RegionID) {
	t.write(write{key: string(key), value: nonNil(value), home: home})
}

func (t *txn) Update(key base.Key, value []byte, _ *wire.Patch) { t.Put(key, value, 0) }

func (t *txn) Draft(context.Context, base.Key) (kv.Row, bool, error) { return kv.Row{}, false, nil }

func (t *txn) Insert(key base.Key, value []byte, home base.RegionID) error {
	_, own := t.writes[string(key)]
	t.db.mu.Lock()
	var found bool
	known := own || t.covered(base.PointSpan(key), kv.LockShared)
	if known {
		_, found = t.read(string(key), base.MaxTimestamp)
	}
	t.db.mu.Unlock()
	if found {
		e := base.Errorf(base.CodeExists, "key %s exists", key)
		e.Key = key.Clone()
		return e
	}
	// After an own delete of a present key the insert is an overwrite.
	t.write(write{key: string(key), value: nonNil(value), home: home, insert: !own || t.log[t.writes[string(key)]].insert})
	return nil
}

// Move changes homes only; there are no gaps to hand over and no pins here.
func (t *txn) Move(key base.Key, to base.RegionID, _ kv.MoveOptions) {
	w := write{key: string(key), only: true}
	if i, ok := t.writes[string(key)]; ok {
		if w = t.log[i]; w.value == nil && !w.only {
			return
		}
	}
	w.to = to
	t.write(w)
}

func (t *txn) Delete(key base.Key) { t.write(write{key: string(key)}) }

func nonNil(v []byte) []byte {
	if v == nil {
		return []byte{}
	}
	return bytes.Clone(v)
}

func (t *txn) write(w write) {
	if t.opts.ReadOnly {
		panic("memkv: write in a read-only transaction")
	}
	if t.done && t.err == nil {
		panic("memkv: write after the end of the transaction")
	}
	if w.home == 0 && base.Key(w.key).Shard() != base.MetaShard {
		if w.home = t.opts.Source; w.home == 0 {
			w.home = t.db.region
		}
	}
	if i, ok := t.writes[w.key]; ok && t.log[i].insert && w.value == nil {
		w.insert = false // insert then delete: still nothing there before
	}
	if i, ok := t.writes[w.key]; ok && i < t.kept && t.streams(w.key) {
		panic("memkv: a row is written again that was written before Stream: " + base.Key(w.key).String())
	}
	t.log = append(t.log, w)
	t.writes[w.key] = len(t.log) - 1
	t.bound()
}

var _ kv.Measured = (*txn)(nil)

// Written implements kv.Measured.
func (t *txn) Written() (now, most kv.Volume) {
	for _, i := range t.writes {
		now.Bytes += len(t.log[i].key) + len(t.log[i].value)
	}
	if now.Writes, most = len(t.writes), t.db.Most; most == (kv.Volume{}) {
		most = kv.Unbounded
	}
	return now, most
}

// Stretch implements kv.Measured.
func (t *txn) Stretch(on bool) { t.stretched = on }

// bound ends a transaction that writes more than it may.
func (t *txn) bound() {
	if t.db.Most == (kv.Volume{}) || t.err != nil {
		return
	}
	now, most := t.Written()
	if t.stretched {
		most = most.Stretched()
	}
	if now.Over(most) {
		t.err = base.Errorf(base.CodeInvalid, "the transaction writes more than %d bytes or %d rows", t.db.Most.Bytes, t.db.Most.Writes)
	}
}

// streams reports whether a key is a row of the table of Stream.
func (t *txn) streams(key string) bool {
	k := base.Key(key)
	return t.streamed != 0 && k.Table() == t.streamed && (k.Index() == 0 || slices.Contains(t.entries, k.Index()))
}

// Stream implements kv.Streamer: it holds the caller to what it has promised.
func (t *txn) Stream(_ context.Context, table base.TableID, indexes ...base.IndexID) error {
	t.streamed, t.entries = table, indexes
	t.kept = len(t.log)
	return t.err
}

func (t *txn) Pin(ts base.Timestamp, keys ...base.Key) {
	for _, k := range keys {
		t.meta = append(t.meta, metaRead{span: base.PointSpan(k), ts: ts, pin: true})
	}
}

// Fence implements kv.Txn: there are no owners of gaps here.
func (t *txn) Fence(base.Key, base.RegionID) {}

func (t *txn) Savepoint() int {
	t.saves = append(t.saves, len(t.log))
	return len(t.saves) - 1
}

func (t *txn) RollbackTo(sp int) {
	if from := t.saves[sp]; from < t.kept && t.err == nil {
		t.err = base.Errorf(base.CodeInvalid, "what was written before Stream is taken back")
	}
	t.kept = min(t.kept, t.saves[sp])
	t.log = t.log[:t.saves[sp]]
	t.saves = t.saves[:sp+1]
	clear(t.writes)
	for i, w := range t.log {
		t.writes[w.key] = i
	}
}

func (t *txn) Commit(ctx context.Context) (base.Timestamp, error) {
	if err := t.begin(); err != nil {
		return 0, err
	}
	defer t.db.mu.Unlock()
	keys := make([]string, 0, len(t.writes))
	for k := range t.writes {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		if err := t.lock(ctx, base.PointSpan(base.Key(k)), kv.LockExclusive); err != nil {
			return 0, err
		}
	}
	err := t.validate(keys)
	if lose := t.db.Lose; err == nil && lose != nil && t.opts.Trace != nil && lose(len(t.writes)) {
		err = base.Errorf(base.CodeAborted, "lost for a test")
	}
	if err == nil {
		err = t.mayEnd()
	}
	if err != nil {
		t.end(err)
		return 0, err
	}
	if p := t.opts.Prepare; p != nil && p.Name != nil {
		return t.db.now(), t.prepare()
	}
	ts := t.db.now()
	if st := t.opts.Statement; st != nil && len(keys) > 0 {
		t.db.endStatement(st.Name, kv.Settled{Committed: true, TS: ts, Answer: st.Answer()})
	}
	if t.applyAll(keys, ts) {
		close(t.db.metaCh)
		t.db.metaCh = make(chan struct{})
	}
	t.end(nil)
	return ts, nil
}

// validate checks what the commit depends on besides locks: meta rows and pins are unchanged, and
// inserted keys are absent.
func (t *txn) validate(keys []string) error {
	limit := base.MaxTimestamp
	if len(keys) == 0 && t.readTS != 0 && len(t.points)+len(t.spans) == 0 {
		limit = t.readTS
	}
	for _, r := range t.meta {
		switch {
		case !t.db.changedAfter(r.span, r.ts, limit):
		case r.pin:
			return base.Errorf(base.CodeSchemaChanged, "the schema changed during the transaction")
		default:
			return base.Errorf(base.CodeAborted, "%s changed since it was read", r.span)
		}
	}
	for _, k := range keys {
		if t.mustBeAbsent(k) && newest(t.db.versions[k]).value != nil {
			err := base.Errorf(base.CodeExists, "key %s exists", base.Key(k))
			err.Key = base.Key(k)
			return err
		}
	}
	return nil
}

// applyAll makes the buffered writes versions; meta: some are of the meta shard.
func (t *txn) applyAll(keys []string, ts base.Timestamp) (meta bool) {
	for _, k := range keys {
		w := t.log[t.writes[k]]
		old := newest(t.db.versions[k])
		if w.value == nil && old.value == nil {
			continue
		}
		if w.only {
			w.value = old.value
		}
		if w.to != 0 {
			w.home = w.to
		} else if old.value != nil {
			w.home = old.home
		}
		t.db.apply(k, version{ts, w.value, w.home})
		meta = meta || base.Key(k).Shard() == base.MetaShard
	}
	return meta
}

// mustBeAbsent reports whether the first write of the key asked for its absence.
func (t *txn) mustBeAbsent(k string) bool {
	i := slices.IndexFunc(t.log, func(w write) bool { return w.key == k })
	return i >= 0 && t.log[i].insert
}

func (t *txn) Rollback(context.Context) {
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	t.end(nil)
}
