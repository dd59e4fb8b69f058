package sqlfront

import (
	"context"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// A new key falls into the gap behind the key before it, and whoever owns that one has to be asked. So a
// gateway that leases values of an AUTO_INCREMENT column has its region take over the gaps into which they will fall, ahead of need:
// by a fence at the first value of the block in every shard (docs/protocol.md, C5). The end of a block needs none, because the
// next block begins with fences of its own; and the rows take the place of the fences.

const (
	fenceTime = 2 * time.Second // longest wait for a block's fences
	fenceLock = time.Second     // longest wait for somebody who works in the gap
)

// fence has this gateway's region own the gaps of values. What fails costs the inserts a trip and nothing else.
func (c *counters) fence(t *table, v values) {
	if c.regions() < 2 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), fenceTime)
	defer cancel()
	var wg sync.WaitGroup
	for _, keys := range t.fences(v) {
		wg.Go(func() {
			opts := kv.Options{Age: base.MaxTimestamp, LockTimeout: fenceLock} // it gives way to everybody
			_, err := kv.Run(ctx, c.db, opts, func(tx kv.Txn) error {
				tx.Pin(t.ts, t.key)
				for _, k := range keys {
					tx.Fence(k, c.db.Region())
				}
				return nil
			})
			if err != nil {
				return
			}
			// The region's own leaders have to know it before rows come: they do when they answer this.
			tx := c.db.Begin(kv.Options{ReadOnly: true})
			defer tx.Rollback(ctx)
			_, _ = tx.Get(ctx, keys, kv.LockNone)
		})
	}
	wg.Wait()
}

// fences are the keys, by shard, with which values begin in what the owners of gaps order by the AUTO_INCREMENT column: the
// table itself, indexes beside its rows, and unique ones.
func (t *table) fences(v values) map[base.ShardID][]base.Key {
	col := t.desc.autoIncCol()
	if col < 0 || t.ts == 0 || t.desc.Locality.Kind != byRow {
		return nil
	}
	var in []base.IndexID
	if len(t.pk) > 0 && t.pk[0] == col {
		in = append(in, 0)
	}
	for _, x := range t.indexes {
		if x.desc.stored() && x.cols[0].pos == col && (x.desc.Class == classLocal || x.desc.Class == classUnique) {
			in = append(in, x.desc.key())
		}
	}
	if len(in) == 0 {
		return nil
	}
	m := map[base.ShardID][]base.Key{}
	for ; !v.empty() && v.next <= t.cols[col].largestInt() && len(m) < t.desc.Shards; v.next++ {
		var enc []byte
		switch t.cols[col].kind {
		case kindInt:
			enc = base.AppendInt64(nil, int64(v.next))
		case kindUint:
			enc = base.AppendUint64(nil, v.next)
		default:
			return nil
		}
		s := t.shardOf(enc)
		if m[s] != nil {
			continue
		}
		for _, i := range in {
			m[s] = append(m[s], append(base.IndexPrefix(s, t.desc.ID, i, 0), enc...))
		}
	}
	return m
}
