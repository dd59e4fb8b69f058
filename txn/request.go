package txn

import (
	"context"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/txn/runs"
	"github.com/godwitdb/godwit/wire"
)

// piece is a part of a span to be asked of one group.
type piece struct {
	of    int // index of the span
	span  base.Span
	group base.GroupID
	need  []*wire.GroupIndex
	// wait: read it here, after about so long for the closed timestamp; 0: ask the group.
	wait  time.Duration
	owner bool // do not wait here again
}

// elsewhere is the part of a piece that another group owns.
func (p *piece) elsewhere(f *wire.Foreign) piece {
	s := base.Span{Start: f.Span.Start}
	if len(f.Span.End) > 0 {
		s.End = f.Span.End
	}
	return piece{of: p.of, span: s, group: base.GroupID(f.Group), need: f.Since}
}

// guess appends the pieces of a span with their likely owners.
func (t *Txn) guess(todo []piece, of int, s base.Span, limit int) []piece {
	shard := s.Start.Shard()
	if shard == base.MetaShard {
		return append(todo, piece{of: of, span: s, group: base.MetaGroup})
	}
	home := t.db.homeGroup(shard)
	if len(t.db.cfg.Topology().Regions) == 1 {
		return append(todo, piece{of: of, span: s, group: home})
	}
	if s.IsPoint() {
		if h, ok := t.db.hints.Get(s.Start); ok {
			return append(todo, piece{of: of, span: s, group: h.Group, need: h.Need})
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

// guessPoint is the likely owner of a key. A group that this node leads costs nothing to ask;
// otherwise it is what the local replica says. Without a replica it is what was heard last.
func (t *Txn) guessPoint(key base.Key) base.GroupID {
	home := t.db.homeGroup(key.Shard())
	if t.db.leadsGroup(home) {
		return home
	}
	if g, ok := t.db.set.Locate(key); ok {
		return g
	}
	return t.db.lastOwner(key)
}

// lastOwner is the group that was last said to own a key of a shard without a replica here
// (HOME-10); if nothing has been heard of the key, that of the own region, whose leader knows and
// is near.
func (db *DB) lastOwner(key base.Key) base.GroupID {
	if g, ok := db.hints.Last(key); ok && !db.cfg.NearOwners && db.cfg.Topology().Region(g.Region()) != nil {
		return g
	}
	return db.homeGroup(key.Shard())
}

// noteFar remembers the owners of keys of shards without a replica here (HOME-10).
func (db *DB) noteFar(foreign []*wire.Foreign) {
	if len(foreign) > 0 && !db.set.Holds(base.Key(foreign[0].Span.Start).Shard()) {
		db.hints.Note(foreign)
	}
}

// homeGroup is the group of a shard whose rows are near: that of the own region, or of the one
// where the rows of its clients are at home in the placement of the shard.
func (db *DB) homeGroup(s base.ShardID) base.GroupID {
	return base.DataGroup(s, db.cfg.Topology().HomeIn(s, db.cfg.Region))
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
		// Most reads are of one piece: the list, the request and its message are one allocation.
		q := &struct {
			list [1]*request
			req  request
			msg  wire.ReadRequest
		}{req: request{pieces: todo, wait: todo[0].wait}}
		q.msg.Group = uint32(todo[0].group)
		q.req.msg = &q.msg
		q.list[0] = &q.req
		return q.list[:]
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

// halved has a group that this node leads look up many spans in two requests at once.
func (f *fetch) halved(t *Txn, reqs []*request) []*request {
	q := reqs[0]
	if len(reqs) == 1 && f.lock == kv.LockNone && runs.Divides(len(q.pieces)) && t.db.leadsGroup(base.GroupID(q.msg.Group)) {
		n := len(q.pieces) / 2
		reqs = append(reqs, &request{pieces: q.pieces[n:], wait: q.wait, msg: &wire.ReadRequest{Group: q.msg.Group}})
		q.pieces = q.pieces[:n:n]
	}
	return reqs
}

func (q *request) fill(t *Txn, f *fetch) {
	m := q.msg
	m.Lock = uint32(f.lock)
	m.Quiet = f.quiet
	m.Reverse, m.Limit, m.MaxBytes = f.reverse, uint32(f.limit), uint32(f.maxBytes)
	if f.lock == kv.LockNone {
		m.ReadTs, m.Oracle, m.Each = uint64(f.ts), uint64(t.db.clock.Known()), uint32(f.each)
		m.Region = t.meta.GatewayRegion
	} else {
		m.Txn = &t.meta
		m.LockTerm = t.lockTerm(base.GroupID(m.Group))
		if m.Wait = uint32(f.wait); f.wait == kv.WaitSkip {
			m.Limit = uint32(f.most)
		}
		if m.MinTs = uint64(t.opened()); m.MinTs != 0 {
			t.part(base.GroupID(m.Group)).opened = true
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

// send sends requests in parallel and waits for all.
func send(ctx context.Context, t *Txn, reqs []*request) error {
	if len(reqs) == 1 {
		q := reqs[0]
		q.resp, q.err = t.ask(ctx, q)
		return q.err
	}
	ctx, cancel := context.WithTimeout(ctx, t.db.cfg.Limits.Request)
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
	resp := t.readAsLeader(ctx, m)
	if resp == nil {
		ctx, cancel := context.WithTimeout(ctx, t.db.cfg.Limits.Request+t.opts.LockTimeout)
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

// readAsLeader reads from a group that this node leads; nil: it does not, or not any more.
func (t *Txn) readAsLeader(ctx context.Context, m *wire.ReadRequest) *wire.ReadResponse {
	r := t.db.set.Replica(base.GroupID(m.Group))
	if r == nil {
		return nil
	}
	if _, ok := r.Serving(); !ok {
		return nil
	}
	resp := r.Read(ctx, m)
	if c := base.Code(resp.GetStatus().GetCode()); c == base.CodeNotLeader || c == base.CodeUnavailable {
		return nil
	}
	return resp
}
