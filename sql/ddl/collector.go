package ddl

import (
	"context"
	"encoding/json"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
)

// Collector removes the rows of dropped tables and indexes in the background,
// in batches, from every gateway: each batch is a transaction, so that two of them do no harm.
type Collector struct {
	g      *Env
	wake   chan struct{}
	cancel context.CancelFunc
	done   chan struct{}
}

const (
	collectEvery = time.Minute
	// rewriteAge is when a table id that a rewrite has not claimed counts as garbage.
	rewriteAge   = 24 * time.Hour
	collectBatch = 512
)

func newCollector(g *Env) *Collector { return &Collector{g: g, wake: make(chan struct{}, 1)} }

// Kick has the collector look for garbage now.
func (c *Collector) Kick() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Start begins to remove garbage in the background.
func (c *Collector) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel, c.done = cancel, make(chan struct{})
	go func() {
		defer close(c.done)
		t := time.NewTicker(collectEvery)
		defer t.Stop()
		for {
			if err := c.round(ctx); err != nil && ctx.Err() == nil {
				c.g.Log.Warn("rows of dropped tables could not be removed yet", "err", err)
			}
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			case <-c.wake:
			}
		}
	}()
}

// Stop ends it, and waits.
func (c *Collector) Stop() {
	if c.cancel != nil {
		c.cancel()
		<-c.done
	}
}

// round removes all garbage there is.
func (c *Collector) round(ctx context.Context) error {
	t := c.g.DB.Begin(kv.Options{ReadOnly: true})
	defer t.Rollback(context.Background())
	req := &kv.ScanRequest{Spans: []base.Span{schema.IndexSpan(schema.IxGarbage)}}
	var rows []kv.Row
	for req != nil {
		res, err := t.Scan(ctx, *req)
		if err != nil {
			return err
		}
		rows, req = append(rows, res.Rows...), res.Next
	}
	for _, r := range rows {
		d := new(garbageDesc)
		if err := json.Unmarshal(r.Value, d); err != nil || d.V > schema.NewestVersion {
			continue
		}
		if d.Node != 0 && time.Since(d.Since) < rewriteAge {
			continue
		}
		if err := c.remove(ctx, r.Key, d); err != nil {
			return err
		}
	}
	return nil
}

func (c *Collector) remove(ctx context.Context, key base.Key, d *garbageDesc) error {
	if d.MultiMaster {
		if err := c.g.retire(ctx, d); err != nil {
			return err
		}
	}
	indexes := d.All
	if d.Index != nil {
		indexes = []base.IndexID{*d.Index}
	}
	for _, ix := range indexes {
		for _, p := range d.prefixes(ix, c.g.DB.Topology().Regions) {
			if err := c.clear(ctx, p); err != nil {
				return err
			}
		}
	}
	_, err := kv.Run(ctx, c.g.DB, kv.Options{}, func(t kv.Txn) error {
		t.Delete(key)
		return nil
	})
	return err
}

// prefixes are those of the keys of an index of the table.
func (d *garbageDesc) prefixes(ix base.IndexID, regions []base.Region) (out []base.Key) {
	places := d.Parts
	if places == nil {
		places = []base.Placed{d.Placed}
	}
	for _, place := range places {
		in := ix
		if d.Parts != nil {
			in = schema.BegunIn(ix, place)
		}
		homes := []base.RegionID{0}
		if ix&base.ByHome != 0 {
			homes = homes[:0]
			for _, r := range regions {
				if place.Allows(r.ID) {
					homes = append(homes, r.ID)
				}
			}
		}
		for _, s := range d.shards(place) {
			for _, h := range homes {
				out = append(out, base.IndexPrefix(s, d.Table, in, h))
			}
		}
	}
	return out
}

// shards are those of the table in a placement.
func (d *garbageDesc) shards(place base.Placed) (out []base.ShardID) {
	switch {
	case d.MultiMaster:
		return []base.ShardID{base.EpochShard}
	case d.Global:
		return []base.ShardID{base.MetaShard}
	}
	before := schema.Locality{Async: d.Async, Placed: place}.FirstShard(d.Shards)
	for i := range d.Shards {
		out = append(out, base.ShardID(before+i+1))
	}
	return out
}

// clear removes all rows below a prefix. Nobody writes there any more: transactions that
// knew the table cannot commit, as its descriptor has changed.
func (c *Collector) clear(ctx context.Context, prefix base.Key) error {
	span := base.Span{Start: prefix, End: prefix.PrefixEnd()}
	for {
		t := c.g.DB.Begin(kv.Options{ReadOnly: true})
		res, err := t.Scan(ctx, kv.ScanRequest{Spans: []base.Span{span}, Limit: collectBatch})
		t.Rollback(context.Background())
		if err != nil {
			return err
		}
		if len(res.Rows) == 0 {
			return nil
		}
		_, err = kv.Run(ctx, c.g.DB, kv.Options{}, func(t kv.Txn) error {
			for _, r := range res.Rows {
				t.Delete(r.Key)
			}
			return nil
		})
		if err != nil {
			return err
		}
		span.Start = res.Rows[len(res.Rows)-1].Key.Next()
	}
}
