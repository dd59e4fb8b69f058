package txn

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/wire"
)

// fetch is one read of spans wherever their owners are.
type fetch struct {
	spans    []base.Span
	lock     kv.LockMode
	ts       base.Timestamp // snapshot, for LockNone
	reverse  bool
	limit    int // rows per request; 0 no limit
	maxBytes int
	apart    bool // one request per span (streams to be merged), so that limits count for each
	quiet    bool // no use of the rows
	write    bool // by timestamp: the rows are going to be written
	hold     bool // by timestamp: the rows shall not change before the transaction ends

	got []found
}

// found is what is known of one span: rows, and how far they are complete.
type found struct {
	rows []*wire.KV
	// cut is where the rows end that are complete: none at or above it (below it, if reverse) counts. nil: all there.
	cut base.Key
}

// piece is a part of a span to be asked of one group.
type piece struct {
	of    int // index of the span
	span  base.Span
	group base.GroupID
	need  []*wire.GroupIndex
	wait  time.Duration // read it here, after a wait of about so long for the closed timestamp; 0: ask the group
	owner bool          // do not wait here again
}

// run reads the spans.
func (f *fetch) run(ctx context.Context, t *Txn) error {
	t.db.busy.Add(1)
	defer t.db.busy.Add(-1)
	if ordered, err := f.ordered(ctx, t); err != nil {
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

// runHere asks the guessed owners in parallel and follows what they say about other owners.
func (f *fetch) runHere(ctx context.Context, t *Txn) error {
	f.got = make([]found, len(f.spans))
	f.quiet = kv.Quiet(ctx)
	if f.lock == kv.LockNone {
		if done, err := f.local(ctx, t); done || err != nil {
			return err
		}
	}
	relay := f.lock != kv.LockNone && t.opts.Relay
	if relay && f.meta() {
		if t.crossing != nil {
			return errMetaCrossing
		}
		relay, t.opts.Relay = false, false
	}
	if relay && t.crossing != nil {
		return f.runCrossing(ctx, t)
	}
	if f.lock != kv.LockNone && !t.entered && !t.ended && !t.meta.Crt {
		if err := t.db.gate.enter(ctx, t.db.stopc); err != nil {
			return err
		}
		t.entered = true
	}
	var todo []piece
	for i, s := range f.spans {
		todo = t.guess(todo, i, s, f.limit)
	}
	for round := 0; len(todo) > 0; round++ {
		if round == maxRounds {
			return base.Errorf(base.CodeUnavailable, "the owner of %v could not be found in %d steps: it is moving; retry", todo[0].span, maxRounds)
		}
		if f.lock == kv.LockNone {
			f.choose(t, todo)
		} else if t.far(todo) {
			if relay && !t.buf.meta() {
				if err := t.cross(ctx); err != nil {
					return err
				}
				return f.runCrossing(ctx, t)
			}
			t.meta.Crt = true
			t.quitGate()
		}
		reqs := f.requests(todo)
		todo = nil
		for _, q := range reqs {
			if f.lock != kv.LockNone {
				t.started()
				t.part(base.GroupID(q.msg.Group))
			}
		}
		again := 0
		for _, q := range reqs {
			q.fill(t, f)
		}
		if err := send(ctx, t, reqs); err != nil {
			return err
		}
		for _, q := range reqs {
			if q.resp == nil { // it waited here in vain
				for _, p := range q.pieces {
					p.wait, p.owner = 0, true
					todo = append(todo, p)
				}
				again += len(q.pieces)
				continue
			}
			todo = append(todo, f.take(t, q)...)
		}
		if n := len(todo) - again; n > 0 {
			t.db.stats.Forwarded.Add(int64(n))
		}
	}
	for i := range f.got {
		f.got[i].order(f.reverse)
	}
	if relay {
		return t.noteReads(f)
	}
	return nil
}

// local serves a snapshot from this node's replicas if they are complete up to it.
func (f *fetch) local(ctx context.Context, t *Txn) (done bool, err error) {
	shard := base.ShardID(0)
	for i, s := range f.spans {
		sh := s.Start.Shard()
		if i > 0 && sh == shard {
			continue
		}
		shard = sh
		if t.db.cfg.OwnersOnly && sh != base.MetaShard {
			return false, nil
		}
		if c := t.db.set.Closed(sh); c == 0 || c < f.ts {
			return false, nil
		}
	}
	for i, s := range f.spans {
		r := t.db.set.Replica(base.DataGroup(s.Start.Shard(), t.db.cfg.Region))
		if r == nil {
			return false, nil
		}
		q := &wire.ReadRequest{ReadTs: uint64(f.ts), Spans: []*wire.Span{{Start: s.Start, End: s.End}},
			Reverse: f.reverse, Limit: uint32(f.limit), MaxBytes: uint32(f.maxBytes)}
		resp, err := r.ReadLocal(ctx, q)
		if err != nil {
			if base.CodeOf(err) == base.CodeTooLate {
				return false, nil
			}
			return false, err
		}
		f.got[i].rows = resp.Rows
		if len(resp.Resume) > 0 {
			f.got[i].cut = resp.Resume
			if !f.apart {
				for j := i + 1; j < len(f.got); j++ {
					f.got[j].cut = f.first(f.spans[j])
				}
				break
			}
		}
	}
	t.db.stats.ReadsLocal.Add(1)
	obs.TraceOf(ctx).AddRead(obs.ReadLocal, 0)
	return true, nil
}

// first is the cut of a span of which nothing is known.
func (f *fetch) first(s base.Span) base.Key {
	if f.reverse && !s.IsPoint() {
		return s.End
	}
	return s.Start
}

// request is one message to one group.
type request struct {
	pieces []piece
	wait   time.Duration // see piece
	msg    *wire.ReadRequest
	resp   *wire.ReadResponse
	err    error
}

// requests groups pieces by owner, in the order of the scan.
func (f *fetch) requests(todo []piece) []*request {
	if len(todo) == 1 {
		return []*request{{pieces: todo, wait: todo[0].wait, msg: &wire.ReadRequest{Group: uint32(todo[0].group)}}}
	}
	slices.SortStableFunc(todo, func(a, b piece) int {
		if a.of != b.of {
			return a.of - b.of
		}
		c := a.span.Start.Compare(b.span.Start)
		if f.reverse {
			c = -c
		}
		return c
	})
	var reqs []*request
	type name struct {
		g    base.GroupID
		of   int
		here bool
	}
	at := map[name]*request{}
	for _, p := range todo {
		n := name{p.group, 0, p.wait > 0}
		if f.apart {
			n.of = p.of
		}
		q := at[n]
		if q == nil {
			q = &request{wait: p.wait, msg: &wire.ReadRequest{Group: uint32(p.group)}}
			at[n] = q
			reqs = append(reqs, q)
		}
		q.pieces = append(q.pieces, p)
	}
	return reqs
}

func (q *request) fill(t *Txn, f *fetch) {
	m := q.msg
	m.Lock = uint32(f.lock)
	m.Quiet = f.quiet
	m.Reverse, m.Limit, m.MaxBytes = f.reverse, uint32(f.limit), uint32(f.maxBytes)
	if f.lock == kv.LockNone {
		m.ReadTs, m.Oracle = uint64(f.ts), uint64(t.db.clock.Known())
		m.Region = t.meta.GatewayRegion
	} else {
		m.Txn = &t.meta
		m.LockTerm = t.lockTerm(base.GroupID(m.Group))
		if m.MinTs = uint64(t.opened()); m.MinTs != 0 {
			t.part(base.GroupID(m.Group)).told = true
		}
	}
	m.Spans = make([]*wire.Span, len(q.pieces))
	for i, p := range q.pieces {
		m.Spans[i] = &wire.Span{Start: p.span.Start, End: p.span.End}
		for _, n := range p.need {
			m.Need = addNeed(m.Need, n)
		}
	}
}

func addNeed(need []*wire.GroupIndex, n *wire.GroupIndex) []*wire.GroupIndex {
	for _, o := range need {
		if o.Region == n.Region {
			o.Index = max(o.Index, n.Index)
			return need
		}
	}
	return append(need, &wire.GroupIndex{Region: n.Region, Index: n.Index})
}

// send sends requests in parallel and waits for all.
func send(ctx context.Context, t *Txn, reqs []*request) error {
	if len(reqs) == 1 {
		q := reqs[0]
		q.resp, q.err = t.ask(ctx, q)
		return q.err
	}
	ctx, cancel := context.WithTimeout(ctx, t.db.cfg.RequestTimeout)
	defer cancel()
	traces := obs.TraceOf(ctx).Parallel(len(reqs))
	done := make(chan struct{})
	for i, q := range reqs {
		go func() {
			q.resp, q.err = t.ask(obs.WithTrace(ctx, traces[i]), q)
			done <- struct{}{}
		}()
	}
	for range reqs {
		<-done
	}
	obs.TraceOf(ctx).Join(traces)
	var err error
	for _, q := range reqs {
		if q.err != nil && (err == nil || base.CodeOf(err) == base.CodeCanceled) {
			err = q.err
		}
	}
	return err
}

// read sends one request: straight to the owner if that is here.
func (t *Txn) read(ctx context.Context, m *wire.ReadRequest) (*wire.ReadResponse, error) {
	var resp *wire.ReadResponse
	if r := t.db.set.Replica(base.GroupID(m.Group)); r != nil {
		if _, ok := r.Serving(); ok {
			resp = r.Read(ctx, m)
			if c := base.Code(resp.GetStatus().GetCode()); c == base.CodeNotLeader || c == base.CodeUnavailable {
				resp = nil
			}
		}
	}
	if resp == nil {
		ctx, cancel := context.WithTimeout(ctx, t.db.cfg.RequestTimeout+t.opts.LockTimeout)
		defer cancel()
		var err error
		if resp, err = t.db.router.Read(ctx, m); err != nil {
			if base.CodeOf(err) == base.CodeCanceled && ctx.Err() == context.DeadlineExceeded {
				err = base.Errorf(base.CodeUnavailable, "%v", err)
			}
			return nil, err
		}
		_ = t.db.clock.Observe(base.Timestamp(resp.Now))
	}
	obs.TraceOf(ctx).AddMoves(int(resp.Moves))
	return resp, owner.ErrorOf(resp.Status)
}

// take files the answer of one request and returns what has to be asked elsewhere.
func (f *fetch) take(t *Txn, q *request) (more []piece) {
	resp := q.resp
	g := base.GroupID(q.msg.Group)
	if f.lock != kv.LockNone {
		t.maxTS = max(t.maxTS, base.Timestamp(resp.MaxTs))
		t.bounded = t.bounded || resp.Bounded
		if p := t.findPart(g); resp.Term != 0 {
			p.term = resp.Term
			p.asked++
		}
	}
	if len(resp.Along) > 0 {
		t.remember(resp.Along, g)
		if t.along == nil {
			t.along = map[string]*wire.KV{}
		}
		for _, r := range resp.Along {
			if len(t.along) < maxKnown {
				t.along[string(r.Key)] = r
			}
		}
	}
	rows, foreign := resp.Rows, resp.Foreign
	for i := range q.pieces {
		p := &q.pieces[i]
		got := &f.got[p.of]
		n := 0
		for n < len(rows) && p.span.Contains(rows[n].Key) {
			n++
		}
		if n > 0 {
			if f.lock != kv.LockNone {
				t.remember(rows[:n], g)
			}
			if got.rows == nil {
				got.rows = rows[:n:n]
			} else {
				got.rows = append(got.rows, rows[:n]...)
			}
			rows = rows[n:]
		}
		for len(foreign) > 0 && p.span.Contains(foreign[0].Span.Start) {
			fr := foreign[0]
			foreign = foreign[1:]
			s := base.Span{Start: fr.Span.Start}
			if len(fr.Span.End) > 0 {
				s.End = fr.Span.End
			}
			more = append(more, piece{of: p.of, span: s, group: base.GroupID(fr.Group), need: fr.Since})
		}
		if len(resp.Resume) > 0 && i >= int(resp.ResumeSpan) {
			at := base.Key(resp.Resume)
			if i > int(resp.ResumeSpan) {
				at = f.first(p.span)
			}
			got.cutAt(at, f.reverse)
		}
	}
	return more
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

// remember notes keys read under a lock, as present or absent, and who owns them.
func (t *Txn) remember(rows []*wire.KV, g base.GroupID) {
	if len(rows) >= minRange && len(t.ranges) < maxRanges && slices.IsSortedFunc(rows, func(a, b *wire.KV) int { return bytes.Compare(a.Key, b.Key) }) &&
		!slices.ContainsFunc(rows, func(r *wire.KV) bool { return r.Absent }) {
		keys := make([]base.Key, len(rows))
		for i, r := range rows {
			keys[i] = r.Key
		}
		t.ranges = append(t.ranges, readRange{keys, g})
		return
	}
	for _, r := range rows {
		if r.Absent {
			if len(t.absent) >= maxKnown {
				return
			}
			if t.absent == nil {
				t.absent = map[string]base.GroupID{}
			}
			t.absent[string(r.Key)] = g
			continue
		}
		if len(t.known) >= maxKnown {
			return
		}
		if t.known == nil {
			t.known = map[string]base.GroupID{}
		}
		t.known[string(r.Key)] = g
	}
}

// readRange are rows found by one read of a range, by key, and the group that owns them.
type readRange struct {
	keys  []base.Key
	group base.GroupID
}

// Ranges of at least minRange rows are remembered as they are, up to maxRanges of them: of most of
// their rows nobody will ask.
const (
	minRange  = 16
	maxRanges = 32
)

// present reports whether a key was read under a lock and found, and in which group.
func (t *Txn) present(key base.Key) (base.GroupID, bool) {
	if g, ok := t.known[string(key)]; ok {
		return g, true
	}
	for i := range t.ranges {
		r := &t.ranges[i]
		if _, ok := slices.BinarySearchFunc(r.keys, key, base.Key.Compare); ok {
			return r.group, true
		}
	}
	return 0, false
}

// guess appends the pieces of a span with their likely owners.
func (t *Txn) guess(todo []piece, of int, s base.Span, limit int) []piece {
	shard := s.Start.Shard()
	if shard == base.MetaShard {
		return append(todo, piece{of: of, span: s, group: base.MetaGroup})
	}
	home := base.DataGroup(shard, t.db.cfg.Region)
	if len(t.db.cfg.Topology().Regions) == 1 {
		return append(todo, piece{of: of, span: s, group: home})
	}
	if s.IsPoint() {
		if h, ok := t.db.hint(s.Start); ok {
			return append(todo, piece{of: of, span: s, group: h.group, need: h.need})
		}
		return append(todo, piece{of: of, span: s, group: t.guessPoint(s.Start)})
	}
	keys := segmentKeys
	if limit > 0 {
		keys = min(keys, 2*limit+16)
	}
	segs, ok := t.db.set.Segments(s, keys)
	if !ok {
		return append(todo, piece{of: of, span: s, group: home})
	}
	for _, g := range segs {
		todo = append(todo, piece{of: of, span: g.Span, group: g.Owner})
	}
	return todo
}

// guessPoint is the likely owner of a key: one that this node leads costs
// nothing to ask, else what the local replica says. Without a replica it is the group of the own
// region, whose leader knows and is near.
func (t *Txn) guessPoint(key base.Key) base.GroupID {
	home := base.DataGroup(key.Shard(), t.db.cfg.Region)
	if r := t.db.set.Replica(home); r != nil {
		if _, ok := r.Serving(); ok {
			return home
		}
	}
	if g, ok := t.db.set.Locate(key); ok {
		return g
	}
	return home
}

// Get implements kv.Txn.
func (t *Txn) Get(ctx context.Context, keys []base.Key, lock kv.LockMode) ([]kv.Row, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	if err := t.checkLock(lock); err != nil {
		return nil, err
	}
	out := make([]kv.Row, len(keys))
	f := fetch{lock: lock}
	meta := fetch{}
	for i, k := range keys {
		if w := t.buf.get(k); w.content() {
			if err := t.confirm(ctx, w); err != nil {
				return nil, err
			}
			out[i] = w.row(k)
			continue
		}
		out[i].Key = k
		if r := t.along[string(k)]; r != nil && lock != kv.LockNone {
			setRow(&out[i], r)
			continue
		}
		if k.Shard() == base.MetaShard && lock != kv.LockExclusive {
			meta.spans = append(meta.spans, base.PointSpan(k))
		} else {
			f.spans = append(f.spans, base.PointSpan(k))
		}
	}
	ctx = t.trace(ctx)
	if len(meta.spans) > 0 {
		if err := t.readMeta(ctx, &meta); err != nil {
			return nil, t.failed(err)
		}
	}
	for len(f.spans) > 0 {
		if err := t.snapshot(ctx, &f); err != nil {
			return nil, t.failed(err)
		}
		if err := f.runAhead(ctx, t); err != nil {
			return nil, t.failed(err)
		}
		// Answers are bounded: what did not fit is asked again.
		if !fillRows(out, f.got) {
			var rest []base.Span
			for i, g := range f.got {
				if g.cut != nil {
					rest = append(rest, f.spans[i])
				}
			}
			f.spans = rest
			continue
		}
		break
	}
	fillRows(out, meta.got)
	return out, nil
}

// fillRows puts found points in their places; all is false if some are missing.
func fillRows(out []kv.Row, got []found) (all bool) {
	all = true
	if len(got) == 0 {
		return true
	}
	if len(out) == 1 && len(got) == 1 && len(got[0].rows) == 1 {
		setRow(&out[0], got[0].rows[0])
		return true
	}
	at := make(map[string]*wire.KV, len(got))
	for _, g := range got {
		if g.cut != nil {
			all = false
		}
		for _, r := range g.rows {
			at[string(r.Key)] = r
		}
	}
	for i := range out {
		if r := at[string(out[i].Key)]; r != nil {
			setRow(&out[i], r)
		}
	}
	return all
}

func setRow(row *kv.Row, r *wire.KV) {
	if r.Absent {
		return
	}
	l := base.Label(r.Label)
	row.Value, row.TS, row.Home, row.Label, row.Advice = present(r.Value), base.Timestamp(r.Ts), l.Home(), l, base.RegionID(r.Advice)
}

func (t *Txn) checkLock(lock kv.LockMode) error {
	if lock != kv.LockNone && t.opts.ReadOnly {
		return base.Errorf(base.CodeInvalid, "a READ ONLY transaction cannot lock rows")
	}
	return nil
}

// snapshot fixes the timestamp of LockNone reads at the first one.
func (t *Txn) snapshot(ctx context.Context, f *fetch) error {
	if f.lock != kv.LockNone || t.db.ordered && t.opts.ReadTS == 0 {
		return nil
	}
	if t.readTS == 0 || t.stale {
		ts, err := t.now(ctx)
		if err != nil {
			return err
		}
		t.readTS, t.stale = ts, false
	}
	f.ts = t.readTS
	return nil
}
