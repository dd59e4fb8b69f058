package txn

import (
	"bytes"
	"context"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/wire"
)

const (
	defaultScanBytes = 1 << 20
	maxScanParallel  = 16
)

// scan is the state of a kv scan across its batches.
type scan struct {
	req     kv.ScanRequest
	txn     *Txn
	seq     int // own writes up to this one are seen
	cursors []*cursor
}

// cursor reads one span in order: pieces of rows that are here and parts that
// still have to be asked for.
type cursor struct {
	pieces []*piece
	// own are the transaction's own writes in the span not yet passed.
	own []ownWrite
}

type ownWrite struct {
	key base.Key
	op  op
}

// piece is rows that were fetched, or a part of the span to be fetched.
type piece struct {
	rows []kv.Row

	todo  bool
	span  base.Span
	group base.GroupID
	need  []*wire.GroupIndex
	later bool // beyond the limit of the batch being fetched
}

// Scan implements kv.Txn.
func (t *Txn) Scan(ctx context.Context, req kv.ScanRequest) (kv.ScanResult, error) {
	if t.err != nil {
		return kv.ScanResult{}, t.err
	}
	if err := t.mayLock(req.Lock); err != nil {
		return kv.ScanResult{}, err
	}
	s, ok := req.State.(*scan)
	if !ok {
		if req.State != nil {
			return kv.ScanResult{}, base.Errorf(base.CodeInvalid, "ScanRequest.State does not come from this transaction's Scan")
		}
		var err error
		if s, err = t.newScan(req); err != nil {
			return kv.ScanResult{}, err
		}
	} else if s.txn != t {
		return kv.ScanResult{}, base.Errorf(base.CodeInvalid, "a scan was continued in another transaction")
	}
	s.req.Limit, s.req.MaxBytes = req.Limit, req.MaxBytes
	rows, more, err := s.next(t.ctx(ctx))
	if err != nil {
		return kv.ScanResult{}, t.over(err)
	}
	res := kv.ScanResult{Rows: rows}
	if more {
		next := req
		next.State = s
		res.Next = &next
	}
	return res, nil
}

func (t *Txn) newScan(req kv.ScanRequest) (*scan, error) {
	s := &scan{req: req, txn: t, seq: t.buf.seq}
	if s.req.Suffix == 0 {
		s.req.Suffix = base.ShardPrefixLen
	}
	for _, sp := range req.Spans {
		if sp.End != nil && bytes.Compare(sp.Start, sp.End) >= 0 {
			s.cursors = append(s.cursors, &cursor{})
			continue
		}
		if len(sp.Start) < base.IndexPrefixLen || !bytes.HasPrefix(sp.Start, sp.Start.Section()) {
			return nil, base.Errorf(base.CodeInvalid, "span %v lies in no index", sp)
		}
		first := &piece{todo: true, span: sp}
		if sp.Start.Shard() != base.MetaShard || req.Lock == kv.LockExclusive {
			first.group = t.db.guess(sp.Start)
		}
		c := &cursor{pieces: []*piece{first}}
		t.buf.each(sp, req.Reverse, func(e *entry) bool {
			if o := e.at(s.seq); o != nil {
				c.own = append(c.own, ownWrite{e.key, *o})
			}
			return true
		})
		s.cursors = append(s.cursors, c)
	}
	return s, nil
}

// next returns the next batch of rows and whether there may be more.
func (s *scan) next(ctx context.Context) (rows []kv.Row, more bool, err error) {
	limit, budget := s.req.Limit, s.req.MaxBytes
	if limit <= 0 {
		limit = 1 << 30
	}
	if budget <= 0 {
		budget = defaultScanBytes
	}
	for len(rows) < limit && budget > 0 {
		if err := s.fill(ctx, limit-len(rows), budget); err != nil {
			return nil, false, err
		}
		c := s.pick()
		if c == nil {
			return rows, false, nil
		}
		// Take rows as long as every cursor that matters knows its next row.
		for c != nil && len(rows) < limit && budget > 0 {
			r, ok, blocked := c.take(s.req.Reverse)
			if blocked {
				break
			}
			if ok {
				rows = append(rows, r)
				budget -= len(r.Key) + len(r.Value) + 16
			}
			c = s.pick()
		}
	}
	return rows, s.pick() != nil, nil
}

// pick is the cursor that holds the next row: the first that is not finished,
// or with Merge the one with the smallest suffix; nil when all are finished. A cursor that
// does not know its next row comes first, so that the caller fills it.
func (s *scan) pick() *cursor {
	var best *cursor
	var bestKey base.Key
	for _, c := range s.cursors {
		k, known, done := c.peek(s.req.Reverse)
		if done {
			continue
		}
		if !s.req.Merge || !known {
			return c
		}
		k = k[min(len(k), s.req.Suffix):]
		if best == nil || (bytes.Compare(k, bestKey) < 0) != s.req.Reverse {
			best, bestKey = c, k
		}
	}
	return best
}

func before(a, b base.Key, reverse bool) bool {
	if reverse {
		return bytes.Compare(a, b) > 0
	}
	return bytes.Compare(a, b) < 0
}

// peek is the key of the next row, own write or fetched.
func (c *cursor) peek(reverse bool) (k base.Key, known, done bool) {
	c.trim()
	if len(c.pieces) > 0 {
		p := c.pieces[0]
		if p.todo {
			return nil, false, false
		}
		k = p.rows[0].Key
	}
	if len(c.own) > 0 && (k == nil || before(c.own[0].key, k, reverse)) {
		k = c.own[0].key
	}
	return k, k != nil, k == nil
}

func (c *cursor) trim() {
	for len(c.pieces) > 0 && !c.pieces[0].todo && len(c.pieces[0].rows) == 0 {
		c.pieces = c.pieces[1:]
	}
}

// take removes the next row; ok is false if it turned out to be deleted by the
// transaction itself, blocked if it is not known yet.
func (c *cursor) take(reverse bool) (r kv.Row, ok, blocked bool) {
	k, known, done := c.peek(reverse)
	if !known || done {
		return r, false, !done
	}
	var stored *kv.Row
	if len(c.pieces) > 0 && bytes.Equal(c.pieces[0].rows[0].Key, k) {
		stored = &c.pieces[0].rows[0]
		c.pieces[0].rows = c.pieces[0].rows[1:]
	}
	if len(c.own) > 0 && bytes.Equal(c.own[0].key, k) {
		o := c.own[0]
		c.own = c.own[1:]
		r = ownRow(o.key, &o.op)
		if stored != nil {
			r.Home = stored.Home
		}
		return r, r.Value != nil, false
	}
	return *stored, true, false
}

// fill fetches until the cursors that the next rows depend on know them.
func (s *scan) fill(ctx context.Context, limit, budget int) error {
	for _, c := range s.cursors {
		if c.trim(); len(c.pieces) > 0 {
			c.pieces[0].later = false // everything before it has been taken
		}
	}
	for round := 0; ; round++ {
		asks := s.wanted(limit)
		if len(asks) == 0 {
			return nil
		}
		if round == maxRounds {
			return errChasing(asks[0].p.span.Start)
		}
		out := make([][]*piece, len(asks))
		errs := make([]error, len(asks))
		parallel(ctx, len(asks), func(ctx context.Context, i int) {
			out[i], errs[i] = s.fetch(ctx, asks[i].p, limit, budget)
		})
		for i, a := range asks {
			if errs[i] != nil {
				return errs[i]
			}
			at := slices.Index(a.c.pieces, a.p)
			a.c.pieces = slices.Replace(a.c.pieces, at, at+1, out[i]...)
		}
	}
}

type wantedPiece struct {
	c *cursor
	p *piece
}

// wanted are the pieces to fetch now: of each cursor that matters, every part
// before the first that lies beyond this batch.
func (s *scan) wanted(limit int) []wantedPiece {
	var out []wantedPiece
	for _, c := range s.cursors {
		c.trim()
		rows := 0
		for _, p := range c.pieces {
			if p.later || len(out) >= maxScanParallel {
				break
			}
			if p.todo {
				out = append(out, wantedPiece{c, p})
			}
			if rows += len(p.rows); rows >= limit {
				break
			}
		}
		// Without Merge, rows of later spans are wanted only after this one; fetch
		// them along when there is no limit to overshoot.
		if !s.req.Merge && s.req.Limit > 0 && len(c.pieces)+len(c.own) > 0 {
			break
		}
	}
	return out
}

// fetch asks for one piece and returns what it turned into.
func (s *scan) fetch(ctx context.Context, p *piece, limit, budget int) ([]*piece, error) {
	t := s.txn
	lim := 0
	if s.req.Limit > 0 {
		lim = limit
	}
	var res *wire.ReadResponse
	var err error
	shard := p.span.Start.Shard()
	switch {
	case shard == base.MetaShard && s.req.Lock != kv.LockExclusive:
		res, err = s.fetchMeta(ctx, p, lim, budget)
	case s.req.Lock == kv.LockNone && t.opts.ReadTS != 0 && t.closedHere(shard) >= t.readTS:
		g := base.DataGroup(shard, t.db.cfg.Region)
		req := localRequest(g, t.readTS, p.span, s.req.Reverse, lim, budget)
		res, err = t.readLocal(ctx, g, req)
	default:
		if s.req.Lock == kv.LockNone {
			t.mu.Lock()
			t.fixSnapshot()
			t.mu.Unlock()
		}
		res, err = t.read(ctx, p.group, s.req.Lock, []base.Span{p.span}, s.req.Reverse, lim, budget, p.need)
	}
	if err != nil {
		return nil, err
	}
	if s.req.Lock == kv.LockExclusive {
		t.remember(p.group, res.Rows)
	}
	return s.cut(p, res), nil
}

func localRequest(g base.GroupID, ts base.Timestamp, sp base.Span, reverse bool, limit, budget int) *wire.ReadRequest {
	return &wire.ReadRequest{Group: uint32(g), ReadTs: uint64(ts), Spans: []*wire.Span{{Start: sp.Start, End: sp.End}},
		Reverse: reverse, Limit: uint32(limit), MaxBytes: uint32(budget)}
}

func (s *scan) fetchMeta(ctx context.Context, p *piece, limit, budget int) (*wire.ReadResponse, error) {
	t := s.txn
	t.mu.Lock()
	defer t.mu.Unlock()
	ts, err := t.metaSnapshot(ctx, s.req.Lock)
	if err != nil {
		return nil, err
	}
	if s.req.Lock == kv.LockShared && !slices.ContainsFunc(t.pins, func(q pin) bool {
		return q.ts <= ts && bytes.Compare(q.span.Start, p.span.Start) <= 0 && bytes.Compare(p.span.Limit(), q.span.Limit()) <= 0
	}) {
		t.pins = append(t.pins, pin{p.span, ts})
	}
	return t.readLocal(ctx, base.MetaGroup, localRequest(base.MetaGroup, ts, p.span, s.req.Reverse, limit, budget))
}

// remember notes rows locked for writing and who owns them.
func (t *Txn) remember(g base.GroupID, rows []*wire.KV) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = map[string]found{}
	}
	for _, r := range rows {
		t.known[string(r.Key)] = found{g, true, kv.LockExclusive}
	}
}

// cut turns an answer into pieces in scan order: runs of rows, parts owned by
// others in between, and what was not covered at the end.
func (s *scan) cut(p *piece, res *wire.ReadResponse) []*piece {
	var out []*piece
	foreign := res.Foreign
	slices.SortFunc(foreign, func(a, b *wire.Foreign) int {
		if before(a.Span.Start, b.Span.Start, s.req.Reverse) {
			return -1
		}
		return 1
	})
	run := &piece{}
	flush := func() {
		if len(run.rows) > 0 {
			out = append(out, run)
			run = &piece{}
		}
	}
	fi := 0
	foreignBefore := func(k base.Key) {
		for fi < len(foreign) && (k == nil || before(foreign[fi].Span.Start, k, s.req.Reverse)) {
			f := foreign[fi]
			flush()
			sp := base.Span{Start: f.Span.Start, End: f.Span.End}
			out = append(out, &piece{todo: true, span: sp, group: base.GroupID(f.Group), need: f.Since})
			fi++
		}
	}
	for _, r := range res.Rows {
		foreignBefore(r.Key)
		if !r.Absent {
			run.rows = append(run.rows, rowOf(r))
		}
	}
	foreignBefore(nil)
	flush()
	if len(res.Resume) > 0 {
		rest := base.Span{Start: res.Resume, End: p.span.End}
		if s.req.Reverse {
			rest = base.Span{Start: p.span.Start, End: res.Resume}
		}
		out = append(out, &piece{todo: true, span: rest, group: p.group, need: p.need, later: true})
	}
	return out
}
