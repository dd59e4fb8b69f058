// Package hold keeps old versions of rows from being collected while somebody reads a snapshot for
// longer than the cluster keeps versions: a backup does.
//
// A hold is a row of the meta shard with a timestamp and the time at which it ends. Every node
// reads these rows from its own replica of the meta shard ([Oldest]) and collects nothing at or
// above the oldest timestamp. Who has taken a hold renews it as long as it needs the snapshot; that
// of a node that has died ends by itself.
//
// A hold is no proof. A node that does not know of it yet, since its replica of the meta shard is
// behind, may collect what the hold should keep. Then reads of the snapshot fail with
// [base.CodeTooOld]; they never miss a row.
package hold

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// Every is how often a hold is renewed, and Lasts how long it outlives the last time.
const (
	Every = 20 * time.Second
	Lasts = 3 * time.Minute
)

var table = base.MakeTableID(7, 0)

// Span is where the holds are: a node that follows them watches it ([kv.DB.MetaVersion]).
func Span() base.Span {
	p := base.IndexPrefix(base.MetaShard, table, 0, 0)
	return base.Span{Start: p, End: p.PrefixEnd()}
}

// record is a hold as it is stored. Fields that a release does not know do not matter to it.
type record struct {
	TS    base.Timestamp `json:"ts"`    // versions that a read at TS needs are kept
	Until base.Timestamp `json:"until"` // when the hold ends
	Node  base.NodeID    `json:"node"`  // whose it is
	Why   string         `json:"why"`   // for people
}

// Hold is one that was taken here. It is not safe for concurrent use.
type Hold struct {
	db  kv.DB
	key base.Key
	r   record
}

// Take keeps the versions that reads at a timestamp need, until Lasts after the last Renew.
func Take(ctx context.Context, db kv.DB, ts base.Timestamp, why string) (*Hold, error) {
	id := base.MakeTxnID(db.Clock(), db.Node(), 0)
	h := &Hold{db: db, key: base.AppendBytes(Span().Start.Clone(), id[:]),
		r: record{TS: ts, Node: db.Node(), Why: why}}
	return h, h.Renew(ctx)
}

// Advance lets go of what reads below a timestamp need, with the next Renew.
func (h *Hold) Advance(ts base.Timestamp) { h.r.TS = max(h.r.TS, ts) }

// Renew lets the hold last for longer.
func (h *Hold) Renew(ctx context.Context) error { return h.RenewFor(ctx, Lasts) }

// RenewFor lets the hold last for so long, for somebody who will not renew it meanwhile.
func (h *Hold) RenewFor(ctx context.Context, d time.Duration) error {
	_, err := kv.Run(ctx, h.db, kv.Options{}, func(t kv.Txn) error {
		h.r.Until = h.db.Time().Add(d)
		v, err := json.Marshal(&h.r)
		if err != nil {
			return err
		}
		t.Put(h.key, v, 0)
		return nil
	})
	return err
}

// Release ends the hold.
func (h *Hold) Release(ctx context.Context) error {
	_, err := kv.Run(ctx, h.db, kv.Options{}, func(t kv.Txn) error {
		t.Delete(h.key)
		return nil
	})
	return err
}

// Found is what Oldest finds.
type Found struct {
	Oldest base.Timestamp // the least timestamp that a hold keeps; 0: none does
	Ended  []base.Key     // holds that have ended, which nobody has removed
	// At is when that was so. A change that a node has heard of may have a timestamp ahead of it:
	// then the node has to look again.
	At base.Timestamp
}

// Oldest reads all holds.
func Oldest(ctx context.Context, db kv.DB) (f Found, err error) {
	t := db.Begin(kv.Options{ReadOnly: true})
	defer t.Rollback(context.WithoutCancel(ctx))
	now := db.Time()
	for req := (&kv.ScanRequest{Spans: []base.Span{Span()}}); req != nil; {
		res, err := t.Scan(ctx, *req)
		if err != nil {
			return f, err
		}
		for _, row := range res.Rows {
			var r record
			if err := json.Unmarshal(row.Value, &r); err != nil {
				return f, base.Errorf(base.CodeCorrupt, "hold %s: %v", row.Key, err)
			}
			switch {
			case r.Until <= now:
				f.Ended = append(f.Ended, row.Key)
			case f.Oldest == 0 || r.TS < f.Oldest:
				f.Oldest = r.TS
			}
		}
		req = res.Next
	}
	f.At = t.ReadTimestamp()
	return f, nil
}

// Remove removes holds that have ended.
func Remove(ctx context.Context, db kv.DB, ended []base.Key) error {
	_, err := kv.Run(ctx, db, kv.Options{}, func(t kv.Txn) error {
		for _, k := range ended {
			t.Delete(k)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("remove holds that have ended: %w", err)
	}
	return nil
}
