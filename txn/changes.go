package txn

import (
	"context"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/wire"
)

// mostChanges bounds an answer of Changes, but for the versions of its last key.
const mostChanges = 4 << 20

// Changes implements kv.DB: from the replica here, or from that of another node.
func (db *DB) Changes(ctx context.Context, req kv.ChangesRequest) (kv.ChangesResult, error) {
	if req.MaxBytes <= 0 {
		req.MaxBytes = defaultScan
	}
	req.MaxBytes = min(req.MaxBytes, mostChanges)
	if err := checkChanges(&req); err != nil {
		return kv.ChangesResult{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, db.cfg.Limits.Request)
	defer cancel()
	shard := req.Spans[0].Start.Shard()
	if db.set.Holds(shard) || db.cfg.Reads.Replica == nil {
		return db.changesHere(ctx, &req)
	}
	node := db.cfg.Reads.Replica(shard, req.UpTo, 0)
	if node == 0 || node == db.cfg.Self {
		return kv.ChangesResult{}, base.Errorf(base.CodeUnavailable, "no node is known that holds shard %d", shard)
	}
	return db.changesAt(ctx, node, &req)
}

func checkChanges(req *kv.ChangesRequest) error {
	if len(req.Spans) == 0 || len(req.Spans) > maxServed || req.UpTo <= req.Since {
		return base.Errorf(base.CodeInvalid, "changes are of 1 to %d spans, not %d, and of a period, not %s to %s", maxServed,
			len(req.Spans), req.Since, req.UpTo)
	}
	shard := req.Spans[0].Start.Shard()
	if slices.ContainsFunc(req.Spans, func(s base.Span) bool {
		return len(s.Start) < base.ShardPrefixLen || s.Start.Shard() != shard || s.IsPoint() || s.Start.Compare(s.End) >= 0
	}) {
		return base.Errorf(base.CodeInvalid, "changes are of ranges of one shard")
	}
	return nil
}

// changesHere reads the store once all groups of the shard are closed up to the end of the period.
func (db *DB) changesHere(ctx context.Context, req *kv.ChangesRequest) (res kv.ChangesResult, err error) {
	if db.cfg.Store == nil {
		return res, base.Errorf(base.CodeUnavailable, "node %d tells no changes", db.cfg.Self)
	}
	shard := req.Spans[0].Start.Shard()
	began := time.Now()
	if err := db.set.EnsureClosed(ctx, shard, req.UpTo); err != nil {
		return res, err
	}
	res.Waited = time.Since(began)
	size := 0
	for i, s := range req.Spans {
		var rest base.Key
		err := db.cfg.Store.Changes(s, req.Since, req.UpTo, req.Whole, func(v *store.Version) bool {
			if n := len(res.Rows); size >= req.MaxBytes && (n == 0 || res.Rows[n-1].Key.Compare(v.Key) != 0) {
				rest = v.Key
				return false
			}
			row := kv.Row{Key: v.Key, TS: v.TS, Home: v.Label.Home(), Label: v.Label}
			if !v.Tombstone {
				row.Value = append([]byte{}, v.Value...)
			}
			size += rowSize(&row)
			res.Rows = append(res.Rows, row)
			return true
		})
		if err != nil {
			return kv.ChangesResult{}, err
		}
		if rest != nil {
			res.Next = append([]base.Span{{Start: rest, End: s.End}}, req.Spans[i+1:]...)
			break
		}
	}
	if !db.set.Holds(shard) { // it may have been cleared meanwhile
		return kv.ChangesResult{}, base.Errorf(base.CodeUnavailable, "shard %d has just left node %d", shard, db.cfg.Self)
	}
	return res, nil
}

// changesAt asks another node.
func (db *DB) changesAt(ctx context.Context, node base.NodeID, req *kv.ChangesRequest) (res kv.ChangesResult, err error) {
	q := &wire.ServeRequest{ReadTs: uint64(req.UpTo), MinTs: uint64(req.UpTo), MaxBytes: uint32(req.MaxBytes), Changes: true,
		Since: uint64(req.Since), Whole: req.Whole}
	for _, s := range req.Spans {
		q.Spans = append(q.Spans, &wire.Span{Start: s.Start, End: s.End})
	}
	resp := &wire.ServeResponse{}
	err = db.cfg.Transport.Call(ctx, node, wire.KindServe, q, resp)
	if err == nil {
		err = owner.ErrorOf(resp.Status)
	}
	if err == nil && (len(resp.Spans) != 1 || len(resp.Spans[0].Cut) > 0 && int(resp.MaxTs) >= len(req.Spans)) {
		err = base.Errorf(base.CodeInvalid, "node %d answered for what was not asked", node)
	}
	if err != nil {
		return res, err
	}
	for _, r := range resp.Spans[0].Rows {
		row := kv.Row{Key: r.Key, TS: base.Timestamp(r.Ts), Label: base.Label(r.Label), Home: base.Label(r.Label).Home()}
		if !r.Absent {
			row.Value = append([]byte{}, r.Value...)
		}
		res.Rows = append(res.Rows, row)
	}
	if cut := resp.Spans[0].Cut; len(cut) > 0 {
		i := int(resp.MaxTs)
		res.Next = append([]base.Span{{Start: cut, End: req.Spans[i].End}}, req.Spans[i+1:]...)
	}
	return res, nil
}

// serveChanges answers another node. All rows are in one served span; the cut is within the span
// with the number MaxTs.
func (db *DB) serveChanges(ctx context.Context, q *wire.ServeRequest, resp *wire.ServeResponse) error {
	req := kv.ChangesRequest{Since: base.Timestamp(q.Since), UpTo: base.Timestamp(q.ReadTs), Whole: q.Whole,
		MaxBytes: min(int(q.MaxBytes), mostChanges)}
	for _, s := range q.Spans {
		req.Spans = append(req.Spans, base.Span{Start: s.Start, End: s.End})
	}
	if err := checkChanges(&req); err != nil {
		return err
	}
	res, err := db.changesHere(ctx, &req)
	if err != nil {
		return err
	}
	out := &wire.ServedSpan{}
	for i := range res.Rows {
		r := &res.Rows[i]
		out.Rows = append(out.Rows, &wire.KV{Key: r.Key, Value: r.Value, Ts: uint64(r.TS), Label: uint64(r.Label),
			Absent: r.Value == nil})
	}
	if res.Next != nil {
		out.Cut, resp.MaxTs = res.Next[0].Start, uint64(len(req.Spans)-len(res.Next))
	}
	resp.Spans = []*wire.ServedSpan{out}
	return nil
}
