package txn

import (
	"context"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/txn/hedge"
	"github.com/godwitdb/godwit/wire"
)

// A node that does not hold a shard cannot know who owns its rows. It asks a node that does, best
// one of its own region, which reads for it as for itself: from its replicas, at once or after a
// wait, or from the owners.

// readPart is the part of a fetch that one node reads; 0 is this one.
type readPart struct {
	node base.NodeID
	of   []int // spans
}

// split assigns the spans to the nodes that read them; nil if all is read from here.
func (f *fetch) split(t *Txn) (parts []readPart) {
	db := t.db
	if db.cfg.Reads.Replica == nil {
		return nil
	}
	var last base.ShardID
	var at base.NodeID
	away := false
	nodes := make([]base.NodeID, len(f.spans))
	for i, s := range f.spans {
		if shard := s.Start.Shard(); i == 0 || shard != last {
			last, at = shard, 0
			if shard != base.MetaShard && !db.set.Holds(shard) {
				at = db.cfg.Reads.Replica(shard, f.ts, 0)
			}
			away = away || at != 0
		}
		nodes[i] = at
	}
	if !away {
		return nil
	}
	index := map[base.NodeID]int{}
	for i, n := range nodes {
		j, ok := index[n]
		if !ok {
			j = len(parts)
			index[n] = j
			parts = append(parts, readPart{node: n})
		}
		parts[j].of = append(parts[j].of, i)
	}
	return parts
}

// runParts reads all parts at once. What a node does not answer is read from here after all.
func (f *fetch) runParts(ctx context.Context, t *Txn, parts []readPart) error {
	errs := make([]error, len(parts))
	subs := make([]fetch, len(parts))
	obs.Each(ctx, len(parts), func(ctx context.Context, i int) {
		p, sub := &parts[i], &subs[i]
		*sub = *f.like()
		for _, j := range p.of {
			sub.spans = append(sub.spans, f.spans[j])
		}
		if p.node != 0 {
			got, err := sub.askOneOf(ctx, t, p.node)
			if sub.got = got; err == nil || ctx.Err() != nil {
				errs[i] = ctx.Err()
				return
			}
		}
		errs[i] = sub.runHere(ctx, t)
	})
	f.got = make([]found, len(f.spans))
	for i, err := range errs {
		if err != nil {
			if ctx.Err() != nil {
				err = base.Errorf(base.CodeCanceled, "%v", context.Cause(ctx))
			}
			return err
		}
		for k, j := range parts[i].of {
			f.got[j] = subs[i].got[k]
		}
	}
	return nil
}

// like is a read of nothing yet, with all else as in f.
func (f *fetch) like() *fetch {
	return &fetch{lock: f.lock, ts: f.ts, reverse: f.reverse, limit: f.limit, maxBytes: f.maxBytes, apart: f.apart}
}

// askOneOf has a node read the spans, or one more if that does not answer in its usual time.
func (f *fetch) askOneOf(ctx context.Context, t *Txn, node base.NodeID) ([]found, error) {
	first := func(ctx context.Context) ([]found, error) { return f.ask(ctx, t, node) }
	if t.db.cfg.Reads.RTT == nil {
		return first(ctx)
	}
	return hedge.Ask(ctx, &t.db.stats.Hedged, node, t.db.cfg.Reads.RTT(node), first,
		func(ctx context.Context) ([]found, error) { return f.askAnother(ctx, t, node) })
}

// askAnother has a node read the spans that is none of the two: this one, and the one given.
func (f *fetch) askAnother(ctx context.Context, t *Txn, not base.NodeID) ([]found, error) {
	shard := f.spans[0].Start.Shard()
	n := t.db.cfg.Reads.Replica(shard, f.ts, not)
	if n == 0 {
		return nil, base.Errorf(base.CodeUnavailable, "no other node is known that holds shard %d", shard)
	}
	return f.ask(kv.WithQuiet(ctx), t, n) // the first one counts the use of the rows
}

// hedged sends a snapshot read to the owner of its rows. If that does not answer in its usual time,
// a replica is asked, too, that may answer once it is complete up to the snapshot.
func (t *Txn) hedged(ctx context.Context, q *request) (*wire.ReadResponse, error) {
	r := &t.db.cfg.Reads
	if kv.LockMode(q.msg.Lock) != kv.LockNone || len(q.msg.Reader) > 0 || // the owner has to know of it
		t.served || r.OwnersOnly || r.RTT == nil || r.Replica == nil {
		return t.askOwner(ctx, q)
	}
	g := base.GroupID(q.msg.Group)
	leader := t.db.leaderOf(g)
	if g == base.MetaGroup || leader == 0 || leader == t.db.cfg.Self {
		return t.askOwner(ctx, q)
	}
	return hedge.Ask(ctx, &t.db.stats.Hedged, leader, r.RTT(leader),
		func(ctx context.Context) (*wire.ReadResponse, error) { return t.askOwner(ctx, q) },
		func(ctx context.Context) (*wire.ReadResponse, error) { return t.servedBy(ctx, q, leader) })
}

// servedBy has a replica read what the owner was asked for.
func (t *Txn) servedBy(ctx context.Context, q *request, not base.NodeID) (*wire.ReadResponse, error) {
	m := q.msg
	f := fetch{ts: base.Timestamp(m.ReadTs), reverse: m.Reverse, limit: int(m.Limit), maxBytes: int(m.MaxBytes)}
	for i := range q.pieces {
		f.spans = append(f.spans, q.pieces[i].span)
	}
	got, err := f.askAnother(ctx, t, not)
	if err != nil {
		return nil, err
	}
	resp := &wire.ReadResponse{}
	for i := range got {
		resp.Rows = append(resp.Rows, got[i].rows...)
		if got[i].cut != nil { // the spans behind it are asked for again
			resp.Resume, resp.ResumeSpan = got[i].cut, uint32(i)
			break
		}
	}
	return resp, nil
}

// ask has another node read the spans. It gets two thirds of what is left of the statement's
// patience: if it cannot serve, some is left for the owners.
func (f *fetch) ask(ctx context.Context, t *Txn, node base.NodeID) ([]found, error) {
	db := t.db
	q := &wire.ServeRequest{ReadTs: uint64(f.ts), Reverse: f.reverse, Limit: uint32(f.limit),
		MaxBytes: uint32(f.maxBytes), Apart: f.apart,
		MinTs: uint64(f.ts), Region: t.meta.GatewayRegion}
	if kv.Quiet(ctx) {
		q.Region = 0
	}
	for _, s := range f.spans {
		q.Spans = append(q.Spans, &wire.Span{Start: s.Start, End: s.End})
	}
	cctx, cancel := context.WithTimeout(ctx, min(db.cfg.Limits.Request, kv.PatienceOf(ctx).Left()*2/3))
	defer cancel()
	resp := &wire.ServeResponse{}
	began := time.Now()
	err := db.cfg.Transport.Call(cctx, node, wire.KindServe, q, resp)
	if err == nil {
		err = owner.ErrorOf(resp.Status)
	}
	if err == nil && len(resp.Spans) != len(f.spans) {
		err = base.Errorf(base.CodeInvalid, "node %d answered for %d spans, not %d", node, len(resp.Spans), len(f.spans))
	}
	took := time.Since(began)
	if context.Cause(ctx) != context.Canceled {
		db.cfg.Reads.Answered(node, took, err)
	} else if took > leastWait {
		db.cfg.Reads.Answered(node, took, nil) // at least: another one was faster
	}
	if err != nil {
		if ctx.Err() == nil {
			kv.PatienceOf(ctx).FailedSince(began)
		}
		return nil, err
	}
	_ = db.clock.Observe(base.Timestamp(resp.Now))
	tr := obs.TraceOf(ctx)
	tr.AddHops(int(resp.Hops))
	tr.AddRead(obs.ReadServed, 0)
	db.stats.ReadsServed.Add(1)
	got := make([]found, len(f.spans))
	for i, s := range resp.Spans {
		got[i].rows = s.Rows
		if len(s.Cut) > 0 {
			got[i].cut = s.Cut
		}
	}
	return got, nil
}

// Serve reads for another node: it handles wire.KindServe.
func (db *DB) Serve(ctx context.Context, _ base.NodeID, body []byte) (wan.Msg, error) {
	var q wire.ServeRequest
	if err := q.UnmarshalVT(body); err != nil {
		return nil, base.Errorf(base.CodeInvalid, "malformed request: %v", err)
	}
	resp := &wire.ServeResponse{}
	tr := new(obs.Trace)
	if err := db.serveTo(obs.WithTrace(ctx, tr), &q, resp); err != nil {
		e := base.Errorf(base.CodeOf(err), "%v", err)
		resp.Spans, resp.Status = nil, &wire.Status{Code: uint32(e.Code), Msg: e.Msg}
	}
	resp.Hops = uint32(tr.Hops())
	resp.Now = uint64(db.clock.Latest())
	return resp, nil
}

func (db *DB) serveTo(ctx context.Context, q *wire.ServeRequest, resp *wire.ServeResponse) error {
	if q.ReadTs == 0 || len(q.Spans) == 0 || len(q.Spans) > maxServed {
		return base.Errorf(base.CodeInvalid, "a served read has a timestamp and 1 to %d spans, not %d", maxServed, len(q.Spans))
	}
	if err := db.clock.Observe(base.Timestamp(q.MinTs)); err != nil {
		return err
	}
	if q.Changes {
		return db.serveChanges(ctx, q, resp)
	}
	t := db.Begin(kv.Options{ReadOnly: true, ReadTS: base.Timestamp(q.ReadTs), Source: base.RegionID(q.Region)}).(*Txn)
	defer t.Rollback(ctx)
	t.served = true
	if q.Region == 0 {
		ctx = kv.WithQuiet(ctx)
	}
	f := fetch{lock: kv.LockNone, ts: t.readTS, reverse: q.Reverse, limit: int(q.Limit), maxBytes: int(q.MaxBytes),
		apart: q.Apart}
	for _, s := range q.Spans {
		span := base.Span{Start: s.Start, End: s.End}
		if len(s.End) == 0 {
			span.End = nil
		}
		if len(span.Start) < base.ShardPrefixLen || !db.set.Holds(span.Start.Shard()) {
			return base.Errorf(base.CodeUnavailable, "node %d does not hold the shard of %v", db.cfg.Self, span)
		}
		f.spans = append(f.spans, span)
	}
	if err := f.run(ctx, t); err != nil {
		return err
	}
	for i := range f.got {
		resp.Spans = append(resp.Spans, &wire.ServedSpan{Rows: f.got[i].rows, Cut: f.got[i].cut})
	}
	return nil
}

const maxServed = 100_000

// Load is the number of reads and commits under way at this gateway.
func (db *DB) Load() int { return int(db.busy.Load()) }
