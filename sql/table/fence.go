package table

import (
	"context"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
)

// A new key falls into the gap behind the key before it, and the owner of that key has to be asked.
// So a gateway that leases values of an AUTO_INCREMENT column has its region take over the gaps
// into which they will fall, ahead of need: by a fence at the first value of the block in every
// shard (docs/protocol.md, HOME-5). The end of a block needs none, because the next block begins
// with fences of its own; and the rows take the place of the fences.

const (
	fenceTime = 2 * time.Second // longest wait for a block's fences
	fenceLock = time.Second     // longest wait for a transaction that works in the gap
)

// fence has this gateway's region own the gaps of values. What fails costs the inserts a trip and
// nothing else.
func (c *Counters) fence(ctx context.Context, t *schema.Table, v values) {
	if c.regions() < 2 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, fenceTime)
	defer cancel()
	var wg sync.WaitGroup
	for _, keys := range fencesOf(t, v) {
		wg.Go(func() {
			// it gives way to everybody
			opts := kv.Options{Age: base.MaxTimestamp, LockTimeout: fenceLock}
			_, err := kv.Run(ctx, c.db, opts, func(tx kv.Txn) error {
				tx.Pin(t.TS, t.Key)
				for _, k := range keys {
					tx.Fence(k, t.HomeFor(k.Shard(), kv.HomeRegion(c.db)))
				}
				return nil
			})
			if err != nil {
				return
			}
			// The region's own leaders have to know it before rows come: they do when they answer
			// this.
			tx := c.db.Begin(kv.Options{ReadOnly: true})
			defer tx.Rollback(ctx)
			_, _ = tx.Get(ctx, keys, kv.LockNone)
		})
	}
	wg.Wait()
}

// fencesOf are the keys, by shard, with which values begin in what the owners of gaps order by the
// AUTO_INCREMENT column: the table itself, indexes beside its rows, and unique ones.
func fencesOf(t *schema.Table, v values) map[base.ShardID][]base.Key {
	col := t.Desc.AutoIncCol()
	if col < 0 || t.TS == 0 || t.Desc.Locality.Kind != schema.ByRow || t.PartCol() >= 0 { // which placement, nobody knows yet
		return nil
	}
	in := fencedIndexes(t, col)
	if len(in) == 0 {
		return nil
	}
	m := map[base.ShardID][]base.Key{}
	for ; !v.empty() && v.next <= t.Cols[col].LargestInt() && len(m) < len(t.Shards()); v.next++ {
		var enc []byte
		switch t.Cols[col].Kind {
		case schema.KindInt:
			enc = base.AppendInt64(nil, int64(v.next))
		case schema.KindUint:
			enc = base.AppendUint64(nil, v.next)
		default:
			return nil
		}
		s := t.ShardOf(enc)
		if m[s] != nil {
			continue
		}
		for _, i := range in {
			m[s] = append(m[s], append(t.Prefix(s, i, 0), enc...))
		}
	}
	return m
}

// fencedIndexes are those whose keys begin with a column in what the owners of gaps order: the
// table itself (0), indexes beside its rows, and unique ones.
func fencedIndexes(t *schema.Table, col int) (in []base.IndexID) {
	if len(t.PK) > 0 && t.PK[0] == col {
		in = append(in, 0)
	}
	for _, x := range t.Indexes {
		if x.Desc.Stored() && x.Cols[0].Pos == col && (x.Desc.Class == schema.ClassLocal || x.Desc.Class == schema.ClassUnique) {
			in = append(in, x.Desc.Key())
		}
	}
	return in
}
