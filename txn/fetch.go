package txn

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/txn/runs"
	"github.com/godwitdb/godwit/wire"
)

// fetch is one read of spans, wherever their owners are. It takes one of these ways:
//
//   - run: by timestamp (order.go), or a snapshot of shards that are not held here, from other
//     nodes (serve.go), or
//   - runHere: a snapshot from this node's replicas, at once or after a wait (replica.go); a
//     snapshot of several regions instead of locks (slot.go); or by asking the owners.
type fetch struct {
	spans    []base.Span
	lock     kv.LockMode
	ts       base.Timestamp // snapshot, for LockNone
	reverse  bool
	limit    int // rows per request; 0 no limit
	each     int // of a snapshot: rows per span, as a hint; 0 no limit
	maxBytes int
	drops    kv.Sieve // of a snapshot: rows that are not wanted; nil: all are
	apart    bool     // one request per span (streams to be merged), so that limits count for each
	quiet    bool     // no use of the rows
	write    bool     // by timestamp: the rows are going to be written
	hold     bool     // by timestamp: the rows shall not change before the transaction ends
	wait     kv.Wait
	most     int // with WaitSkip: how many keys each owner locks, at most; 0: all

	got []found
}

// found is what is known of one span: rows, and how far they are complete.
type found struct {
	rows []*wire.KV
	// cut is the key up to which the rows are complete: rows at or above it (below it, if reverse)
	// do not count. nil: all rows are there.
	cut base.Key
}

// run reads the spans.
func (f *fetch) run(ctx context.Context, t *Txn) error {
	t.db.busy.Add(1)
	defer t.db.busy.Add(-1)
	if err := t.named(ctx, f.lock != kv.LockNone || t.db.ordered && t.opts.ReadTS == 0); err != nil {
		return err
	}
	if ordered, err := f.goesByTimestamp(ctx, t); err != nil {
		return err
	} else if ordered {
		return f.runOrdered(ctx, t)
	}
	if f.lock == kv.LockNone && !t.served {
		if parts := f.split(t); parts != nil {
			return f.runParts(ctx, t, parts)
		}
	}
	return f.runHere(ctx, t)
}

// runHere reads from this node's replicas, or asks the owners.
func (f *fetch) runHere(ctx context.Context, t *Txn) error {
	f.quiet = kv.Quiet(ctx)
	if f.lock != kv.LockNone {
		f.wait, f.most = kv.WaitOf(ctx)
		return f.runLocking(ctx, t)
	}
	ctx = kv.WithSieve(ctx, f.drops)
	f.got = make([]found, len(f.spans))
	if done, err := f.local(ctx, t); done || err != nil {
		return err
	}
	return f.askOwners(ctx, t)
}

// runLocking locks what it reads, unless the transaction has turned to several regions. A careful
// one locks what its client has asked it to (REL-16 (e)).
func (f *fetch) runLocking(ctx context.Context, t *Txn) error {
	if t.mode != byLocks && (f.meta() || t.opts.Careful && kv.LocksAsked(ctx)) {
		if err := t.lockAfterAll(ctx); err != nil {
			return err
		}
	}
	if t.mode == bySlot {
		return f.readCrossing(ctx, t)
	}
	if !t.inGate && !t.ended && !t.meta.Crt {
		if err := t.db.gate.Enter(ctx, t.db.tasks.Stopped()); err != nil {
			return err
		}
		t.inGate = true
	}
	if err := f.askOwners(ctx, t); err != nil || t.mode != crossable {
		return err
	}
	return t.noteReads(ctx, f)
}

// askOwners asks the guessed owners in parallel, and then those that they name, a bounded number of
// times.
func (f *fetch) askOwners(ctx context.Context, t *Txn) error {
	todo := f.start(t)
	for round := 0; len(todo) > 0; round++ {
		if round == maxRounds {
			return notFound(todo[0].span)
		}
		if f.lock == kv.LockNone {
			f.choose(t, todo)
		} else if t.far(todo) {
			if t.crosses(todo) {
				if err := t.cross(ctx); err != nil {
					return err
				}
				return f.readCrossing(ctx, t)
			}
			t.meta.Crt = true
			t.quitGate()
		}
		reqs := f.halved(t, f.requests(todo))
		for _, q := range reqs {
			if f.lock != kv.LockNone {
				t.started()
				t.part(base.GroupID(q.msg.Group))
			}
			q.fill(t, f)
		}
		if err := send(ctx, t, reqs); err != nil {
			return err
		}
		todo = f.answers(t, reqs)
	}
	for i := range f.got {
		f.got[i].order(f.reverse)
	}
	if f.lock == kv.LockNone {
		return nil
	}
	return t.ofOneMoment(ctx)
}

// start begins anew: nothing is known, and the likely owners are to be asked.
func (f *fetch) start(t *Txn) (todo []piece) {
	f.got = make([]found, len(f.spans))
	for i, s := range f.spans {
		todo = t.guess(todo, i, s, f.limit)
	}
	return todo
}

func notFound(s base.Span) error {
	return base.Errorf(base.CodeUnavailable, "the owner of %v could not be found in %d steps: it is moving; retry", s, maxRounds)
}

// answers files the answers of all requests and returns what has to be asked elsewhere.
func (f *fetch) answers(t *Txn, reqs []*request) (todo []piece) {
	again := 0
	for _, q := range reqs {
		if q.resp != nil {
			todo = append(todo, f.take(t, q)...)
			continue
		}
		for _, p := range q.pieces { // it waited here in vain
			p.wait, p.owner = 0, true
			todo = append(todo, p)
		}
		again += len(q.pieces)
	}
	if n := len(todo) - again; n > 0 {
		t.db.stats.Forwarded.Add(int64(n))
	}
	return todo
}

// meta reports whether the meta shard is among the spans.
func (f *fetch) meta() bool {
	return slices.ContainsFunc(f.spans, func(s base.Span) bool { return s.Start.Shard() == base.MetaShard })
}

// local serves a snapshot from this node's replicas if they are complete up to it.
func (f *fetch) local(ctx context.Context, t *Txn) (done bool, err error) {
	if !f.closedHere(t) {
		return false, nil
	}
	rs := runs.New(f.spans, f.limit > 0, f.apart)
	if rs.Shared {
		done, err = f.localShared(ctx, t, &rs)
	} else {
		done, err = f.localInOrder(ctx, t, rs.Of)
	}
	if !done || err != nil {
		return false, err
	}
	t.db.stats.ReadsLocal.Add(1)
	obs.TraceOf(ctx).AddRead(obs.ReadLocal, 0)
	return true, nil
}

// localInOrder reads run after run, until the answer is full.
func (f *fetch) localInOrder(ctx context.Context, t *Txn, rs [][]int) (bool, error) {
	left := f.limit
	for k, run := range rs {
		resp, err := f.readLocal(ctx, t, run, left, f.maxBytes)
		if resp == nil || err != nil {
			return false, err
		}
		f.fill(run, resp)
		if f.limit > 0 {
			left -= len(resp.Rows)
		}
		if f.apart {
			left = f.limit
		} else if len(resp.Resume) > 0 || f.limit > 0 && left <= 0 {
			f.later(rs[k+1:])
			break
		}
	}
	return true, nil
}

// mostLocal is how many bytes replicas here answer to one read that says no limit.
const mostLocal = 4 << 20

// localShared reads all runs, each up to its share.
func (f *fetch) localShared(ctx context.Context, t *Txn, rs *runs.Runs) (bool, error) {
	got, errs := make([]*wire.ReadResponse, len(rs.Of)), make([]error, len(rs.Of))
	rs.Each(func(k int) {
		got[k], errs[k] = f.readLocal(ctx, t, rs.Of[k], rs.Share(k, f.limit), rs.Share(k, cmp.Or(f.maxBytes, mostLocal)))
	})
	for k, resp := range got {
		if resp == nil || errs[k] != nil {
			return false, errs[k]
		}
		f.fill(rs.Of[k], resp)
	}
	return true, nil
}

// readLocal reads a run of spans from the replica here; nil: it is not there, or not complete.
func (f *fetch) readLocal(ctx context.Context, t *Txn, run []int, limit, maxBytes int) (*wire.ReadResponse, error) {
	r := t.db.set.Replica(t.db.homeGroup(f.spans[run[0]].Start.Shard()))
	if r == nil {
		return nil, nil
	}
	q := &wire.ReadRequest{ReadTs: uint64(f.ts), Reverse: f.reverse, Limit: uint32(limit), MaxBytes: uint32(maxBytes),
		Each: uint32(f.each)}
	for _, i := range run {
		q.Spans = append(q.Spans, &wire.Span{Start: f.spans[i].Start, End: f.spans[i].End})
	}
	resp, err := r.ReadLocal(ctx, q)
	if base.CodeOf(err) == base.CodeTooLate {
		return nil, nil
	}
	return resp, err
}

// closedHere reports whether this node's replicas are complete up to the snapshot, and may answer.
func (f *fetch) closedHere(t *Txn) bool {
	shard := base.ShardID(0)
	for i, s := range f.spans {
		sh := s.Start.Shard()
		if i > 0 && sh == shard {
			continue
		}
		shard = sh
		if t.db.cfg.Reads.OwnersOnly && sh != base.MetaShard {
			return false
		}
		if c := t.db.set.Closed(sh); c == 0 || c < f.ts {
			return false
		}
	}
	return true
}

// fill takes a local answer for a run of spans.
func (f *fetch) fill(run []int, resp *wire.ReadResponse) {
	rows := resp.Rows
	for k, i := range run {
		n := len(rows)
		if len(run) > 1 {
			for n = 0; n < len(rows) && f.spans[i].Contains(rows[n].Key); {
				if n++; f.spans[i].IsPoint() { // it may be asked for twice
					break
				}
			}
		}
		f.got[i].rows, rows = rows[:n:n], rows[n:]
		switch {
		case len(resp.Resume) == 0 || k < int(resp.ResumeSpan):
		case k == int(resp.ResumeSpan):
			f.got[i].cut = resp.Resume
		default:
			f.got[i].cut = f.first(f.spans[i])
		}
	}
}

// later leaves runs for another request.
func (f *fetch) later(runs [][]int) {
	for _, run := range runs {
		for _, i := range run {
			f.got[i].cut = f.first(f.spans[i])
		}
	}
}

// first is the cut of a span of which nothing is known.
func (f *fetch) first(s base.Span) base.Key {
	if f.reverse && !s.IsPoint() {
		return s.End
	}
	return s.Start
}

// take files the answer of one request and returns what has to be asked elsewhere.
func (f *fetch) take(t *Txn, q *request) (more []piece) {
	resp := q.resp
	g := base.GroupID(q.msg.Group)
	if f.lock != kv.LockNone {
		t.maxTS = max(t.maxTS, base.Timestamp(resp.MaxTs))
		t.bounded = t.bounded || resp.Bounded
		t.bounds.Add(g, base.Timestamp(resp.Below))
		if resp.Term != 0 {
			t.findPart(g).term = resp.Term
		}
	}
	t.rows.NoteShown(resp.Along, g)
	rows, foreign := resp.Rows, resp.Foreign
	t.db.noteFar(foreign)
	for i := range q.pieces {
		p := &q.pieces[i]
		n := 0
		for n < len(rows) && p.span.Contains(rows[n].Key) {
			n++
		}
		if n > 0 && f.lock != kv.LockNone {
			t.rows.Note(rows[:n], g)
			t.db.contended.Locked(rows[:n], time.Now())
		}
		f.got[p.of].add(rows[:n:n])
		rows = rows[n:]
		n = 0
		for n < len(foreign) && p.span.Contains(foreign[n].Span.Start) {
			more = append(more, p.elsewhere(foreign[n]))
			n++
		}
		foreign = foreign[n:]
		if len(resp.Resume) > 0 && i >= int(resp.ResumeSpan) {
			at := base.Key(resp.Resume)
			if i > int(resp.ResumeSpan) {
				at = f.first(p.span)
			}
			f.got[p.of].cutAt(at, f.reverse)
		}
	}
	return more
}

// add appends rows; the first ones are taken as they are.
func (r *found) add(rows []*wire.KV) {
	switch {
	case len(rows) == 0:
	case r.rows == nil:
		r.rows = rows
	default:
		r.rows = append(r.rows, rows...)
	}
}

func (r *found) cutAt(at base.Key, reverse bool) {
	if r.cut == nil || (at.Compare(r.cut) < 0) != reverse {
		r.cut = at
	}
}

// order sorts the rows and drops those that are not complete yet.
func (r *found) order(reverse bool) {
	cmp := func(a, b *wire.KV) int {
		c := bytes.Compare(a.Key, b.Key)
		if reverse {
			return -c
		}
		return c
	}
	if !slices.IsSortedFunc(r.rows, cmp) {
		slices.SortFunc(r.rows, cmp)
	}
	if r.cut == nil {
		return
	}
	for i, row := range r.rows {
		c := bytes.Compare(row.Key, r.cut)
		if !reverse && c >= 0 || reverse && c < 0 {
			r.rows = r.rows[:i]
			return
		}
	}
}
