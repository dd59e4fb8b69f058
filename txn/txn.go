package txn

import (
	"context"
	"slices"
	"sync"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/wire"
)

// maxRounds bounds how often a request follows keys from owner to owner.
const maxRounds = 20

// Txn is one attempt of a transaction; it implements kv.Txn.
type Txn struct {
	db   *DB
	opts kv.Options
	id   base.TxnID
	meta wire.TxnMeta

	err    error // why it is over; later calls return it
	closed bool  // no longer counted as open

	readTS base.Timestamp // snapshot of LockNone reads
	metaTS base.Timestamp // snapshot of LockShared reads of the meta shard
	maxTS  base.Timestamp // newest commit timestamp among what was read
	pins   []pin
	buf    buffer

	mu    sync.Mutex // parallel requests, heartbeats
	parts map[base.GroupID]*part
	known map[string]found // what locked reads of single keys found
}

// part is a group in which the transaction holds, or may hold, locks.
type part struct {
	term uint64 // in which its locks were taken; 0 if none is known to be held
	need map[base.RegionID]uint64
}

type found struct {
	group   base.GroupID
	present bool
	mode    kv.LockMode
}

type pin struct {
	span base.Span
	ts   base.Timestamp
}

var _ kv.Txn = (*Txn)(nil)

// ID implements kv.Txn.
func (t *Txn) ID() base.TxnID { return t.id }

// ReadTimestamp implements kv.Txn.
func (t *Txn) ReadTimestamp() base.Timestamp { return t.readTS }

// Wrote implements kv.Txn.
func (t *Txn) Wrote() bool { return !t.buf.empty() }

// ctx attaches the transaction's trace unless the caller brought one.
func (t *Txn) ctx(ctx context.Context) context.Context {
	if t.opts.Trace == nil || obs.TraceOf(ctx) != nil {
		return ctx
	}
	return obs.WithTrace(ctx, t.opts.Trace)
}

// over ends the transaction where the kind of err says so, and returns err.
func (t *Txn) over(err error) error {
	if err == nil {
		return nil
	}
	if base.CodeOf(err) == base.CodeInvalid && t.err == nil {
		return err // refused before anything was done
	}
	if t.err == nil {
		t.err = err
		t.release()
	}
	return err
}

// Get implements kv.Txn.
func (t *Txn) Get(ctx context.Context, keys []base.Key, mode kv.LockMode) ([]kv.Row, error) {
	if t.err != nil {
		return nil, t.err
	}
	if err := t.mayLock(mode); err != nil {
		return nil, err
	}
	ctx = t.ctx(ctx)
	rows := make([]kv.Row, len(keys))
	var want, meta []int
	for i, k := range keys {
		if e := t.buf.get(k); e != nil {
			rows[i] = ownRow(k, &e.ops[len(e.ops)-1])
			continue
		}
		if k.Shard() == base.MetaShard && mode != kv.LockExclusive {
			meta = append(meta, i)
		} else {
			want = append(want, i)
		}
	}
	if len(meta) > 0 {
		if err := t.getMeta(ctx, keys, meta, mode, rows); err != nil {
			return nil, t.over(err)
		}
	}
	if len(want) > 0 {
		if err := t.getPoints(ctx, keys, want, mode, rows); err != nil {
			return nil, t.over(err)
		}
	}
	return rows, nil
}

func ownRow(k base.Key, o *op) kv.Row {
	r := kv.Row{Key: k, Home: o.home}
	if o.kind != wire.WriteKind_DELETE {
		r.Value = o.value
	}
	return r
}

func (t *Txn) mayLock(mode kv.LockMode) error {
	if t.opts.ReadOnly && mode != kv.LockNone {
		return base.Errorf(base.CodeInvalid, "a read-only transaction takes no locks: use LockNone")
	}
	return nil
}

// getPoints fetches the keys at the given positions from their owners.
func (t *Txn) getPoints(ctx context.Context, keys []base.Key, want []int, mode kv.LockMode, rows []kv.Row) error {
	if mode == kv.LockNone {
		t.fixSnapshot()
		if ok, err := t.getLocal(ctx, keys, want, rows); ok || err != nil {
			return err
		}
	}
	type ask struct {
		group base.GroupID
		need  []*wire.GroupIndex
		at    []int
	}
	if len(want) == 1 { // the common case needs no maps
		k := keys[want[0]]
		pending := ask{group: t.guess(k), at: want}
		for range maxRounds {
			res, err := t.read(ctx, pending.group, mode, []base.Span{{Start: k}}, false, 0, 0, pending.need)
			if err != nil {
				return err
			}
			if len(res.Foreign) == 0 {
				return t.takePoints(pending.group, mode, keys, want, res, rows)
			}
			pending.group, pending.need = base.GroupID(res.Foreign[0].Group), res.Foreign[0].Since
		}
		return errChasing(k)
	}
	groups := map[base.GroupID]*ask{}
	for _, i := range want {
		g := t.guess(keys[i])
		if groups[g] == nil {
			groups[g] = &ask{group: g}
		}
		groups[g].at = append(groups[g].at, i)
	}
	asks := make([]*ask, 0, len(groups))
	for _, a := range groups {
		asks = append(asks, a)
	}
	for round := 0; len(asks) > 0; round++ {
		if round == maxRounds {
			return errChasing(keys[asks[0].at[0]])
		}
		slices.SortFunc(asks, func(a, b *ask) int { return int(a.group) - int(b.group) }) // same order everywhere: fewer conflicts
		next := make([]*ask, len(asks))
		errs := make([]error, len(asks))
		var mu sync.Mutex
		var more []*ask
		parallel(ctx, len(asks), func(ctx context.Context, n int) {
			a := asks[n]
			spans := make([]base.Span, len(a.at))
			for j, i := range a.at {
				spans[j] = base.PointSpan(keys[i])
			}
			res, err := t.read(ctx, a.group, mode, spans, false, 0, 0, a.need)
			if err != nil {
				errs[n] = err
				return
			}
			elsewhere := map[string]*wire.Foreign{}
			for _, f := range res.Foreign {
				elsewhere[string(f.Span.Start)] = f
			}
			var mine []int
			by := map[base.GroupID]*ask{}
			for _, i := range a.at {
				f := elsewhere[string(keys[i])]
				if f == nil {
					mine = append(mine, i)
					continue
				}
				g := base.GroupID(f.Group)
				if by[g] == nil {
					by[g] = &ask{group: g, need: f.Since}
				}
				by[g].at = append(by[g].at, i)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(mine) < len(res.Rows) { // a row without a key asked for
				mine = a.at
			}
			errs[n] = t.takePoints(a.group, mode, keys, mine, res, rows)
			// Fewer rows than own points: the answer was cut at its size limit.
			if got := len(res.Rows); got < len(mine) && len(res.Resume) > 0 {
				next[n] = &ask{group: a.group, need: a.need, at: mine[got:]}
			}
			for _, x := range by {
				more = append(more, x)
			}
		})
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		asks = more
		for _, a := range next {
			if a != nil {
				asks = append(asks, a)
				round = min(round, maxRounds-2) // progress was made
			}
		}
	}
	return nil
}

func errChasing(k base.Key) error {
	return base.Errorf(base.CodeUnavailable, "the owner of %v could not be found in %d rounds: replicas disagree while they catch up; retry", k, maxRounds)
}

// takePoints files the rows of an answer under their positions.
func (t *Txn) takePoints(g base.GroupID, mode kv.LockMode, keys []base.Key, at []int, res *wire.ReadResponse, rows []kv.Row) error {
	if len(res.Rows) > len(at) || len(res.Rows) < len(at) && len(res.Resume) == 0 {
		return base.Errorf(base.CodeOther, "group %v answered %d rows for %d keys", g, len(res.Rows), len(at))
	}
	if mode != kv.LockNone {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.known == nil {
			t.known = map[string]found{}
		}
	}
	for j, r := range res.Rows {
		i := at[j]
		rows[i] = rowOf(r)
		rows[i].Key = keys[i]
		if mode != kv.LockNone {
			t.known[string(keys[i])] = found{g, !r.Absent, mode}
		}
	}
	return nil
}

func rowOf(r *wire.KV) kv.Row {
	row := kv.Row{Key: r.Key, TS: base.Timestamp(r.Ts), Home: base.Label(r.Label).Home()}
	if !r.Absent {
		if row.Value = r.Value; row.Value == nil {
			row.Value = []byte{}
		}
	}
	return row
}

// guess is the group to ask for a key first.
func (t *Txn) guess(k base.Key) base.GroupID {
	t.mu.Lock()
	f, ok := t.known[string(k)]
	t.mu.Unlock()
	if ok {
		return f.group
	}
	return t.db.guess(k)
}

// read sends one read to a group and books what its answer means for the
// transaction.
func (t *Txn) read(ctx context.Context, g base.GroupID, mode kv.LockMode, spans []base.Span, reverse bool, limit, maxBytes int, need []*wire.GroupIndex) (*wire.ReadResponse, error) {
	req := &wire.ReadRequest{Group: uint32(g), Txn: &t.meta, Lock: uint32(mode), Reverse: reverse, Limit: uint32(limit), MaxBytes: uint32(maxBytes), Need: need}
	req.Spans = make([]*wire.Span, len(spans))
	for i, s := range spans {
		req.Spans[i] = &wire.Span{Start: s.Start, End: s.End}
	}
	if mode == kv.LockNone {
		req.ReadTs = uint64(t.readTS)
	} else {
		req.LockTerm = t.enlist(g, need)
	}
	res, err := t.db.read(ctx, req)
	if err != nil {
		return nil, err
	}
	t.observe(res.Now)
	if mode == kv.LockNone {
		return res, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.maxTS = max(t.maxTS, base.Timestamp(res.MaxTs))
	p := t.parts[g]
	if p.term != 0 && res.Term != 0 && p.term != res.Term {
		return nil, base.Errorf(base.CodeAborted, "group %v changed its leader during the transaction, whose locks are lost; run it again", g)
	}
	if res.Term != 0 {
		p.term = res.Term
	}
	return res, nil
}

// observe moves the clock past an owner's.
func (t *Txn) observe(now uint64) {
	if err := t.db.cfg.Clock.Observe(base.Timestamp(now)); err != nil {
		t.db.cfg.Logger.Warn("owner's clock ignored", "err", err)
	}
}

// enlist makes a group a participant before anything is sent to it, and
// returns the term in which locks are held there.
func (t *Txn) enlist(g base.GroupID, need []*wire.GroupIndex) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.parts[g]
	if p == nil {
		if t.parts == nil {
			t.parts = map[base.GroupID]*part{}
			t.db.register(t)
		}
		p = &part{}
		t.parts[g] = p
	}
	for _, n := range need {
		if p.need == nil {
			p.need = map[base.RegionID]uint64{}
		}
		r := base.RegionID(n.Region)
		p.need[r] = max(p.need[r], n.Index)
	}
	return p.term
}

// lockNodes are the nodes that may hold locks of the transaction.
func (t *Txn) lockNodes() []base.NodeID {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []base.NodeID
	for g := range t.parts {
		if n := t.db.cfg.Directory.Leader(g); n != 0 && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// Put implements kv.Txn.
func (t *Txn) Put(key base.Key, value []byte, home base.RegionID) {
	o := op{kind: wire.WriteKind_PUT, value: value, home: t.home(home)}
	if e := t.buf.get(key); e != nil {
		o.absent = e.ops[len(e.ops)-1].absent
	}
	t.write(key, o)
}

// Insert implements kv.Txn.
func (t *Txn) Insert(key base.Key, value []byte, home base.RegionID) error {
	if t.err != nil {
		return t.err
	}
	o := op{kind: wire.WriteKind_INSERT, value: value, home: t.home(home), absent: true}
	exists := false
	if e := t.buf.get(key); e != nil {
		last := &e.ops[len(e.ops)-1]
		exists = last.kind != wire.WriteKind_DELETE
		o.absent = last.absent
	} else {
		t.mu.Lock()
		f, ok := t.known[string(key)]
		t.mu.Unlock()
		exists = ok && f.present
	}
	if exists {
		e := base.Errorf(base.CodeExists, "key %v exists", key)
		e.Key = key
		return e
	}
	t.write(key, o)
	return nil
}

// Delete implements kv.Txn.
func (t *Txn) Delete(key base.Key) {
	o := op{kind: wire.WriteKind_DELETE}
	if e := t.buf.get(key); e != nil {
		o.absent = e.ops[len(e.ops)-1].absent
	}
	t.write(key, o)
}

func (t *Txn) home(r base.RegionID) base.RegionID {
	if r == 0 {
		return t.db.cfg.Region
	}
	return r
}

func (t *Txn) write(key base.Key, o op) {
	switch {
	case t.err != nil:
	case t.opts.ReadOnly:
		_ = t.over(base.Errorf(base.CodeOther, "a read-only transaction cannot write"))
	case t.buf.bytes+len(key)+len(o.value) > t.db.cfg.MaxWriteBytes:
		_ = t.over(base.Errorf(base.CodeOther, "the transaction writes more than %d MiB; split it into smaller ones", t.db.cfg.MaxWriteBytes>>20))
	default:
		t.buf.add(key.Clone(), o)
	}
}

// Savepoint implements kv.Txn.
func (t *Txn) Savepoint() int { return t.buf.seq }

// RollbackTo implements kv.Txn.
func (t *Txn) RollbackTo(savepoint int) { t.buf.rollback(savepoint) }
