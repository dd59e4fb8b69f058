package multimaster

import (
	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/policy/epoch"
)

// tidy forgets, now and then, epochs of the log that are applied and that few can still lack, and
// versions and tombstones that no transaction can be judged by any more. The caller holds work.
func (e *Engine) tidy() error {
	applied := e.applied.Load()
	if to := applied - min(applied, e.cfg.Keep); to >= e.cut+max(1, e.cfg.Keep/4) {
		if err := e.j.truncate(to); err != nil {
			return err
		}
		e.cut = to
	}
	if below := applied - min(applied, epoch.MaxLag); below >= e.swept+epoch.MaxLag/8 {
		if err := e.sweep(below); err != nil {
			return err
		}
		e.swept = below
	}
	return nil
}

// sweepKeys is how many tombstones are collected at once.
const sweepKeys = 1000

// sweep removes what lies below an epoch. It changes no outcome: snapshots so old do not commit
// (epoch.MaxLag).
func (e *Engine) sweep(below uint64) error {
	at := base.Timestamp(below)
	for from := base.Key(nil); ; {
		_, next, err := e.cfg.Store.CollectVersions(base.EpochShard, at, from, 0)
		if err != nil {
			return err
		}
		if from = next; next == nil {
			break
		}
	}
	r := e.cfg.Store.NewReader()
	defer r.Close()
	it := r.Iter(base.Span{Start: shardStart, End: shardEnd}, base.MaxTimestamp, store.IterOptions{KeysOnly: true})
	defer it.Close()
	var keys []base.Key
	flush := func() error {
		if len(keys) == 0 {
			return nil
		}
		b := e.cfg.Store.NewBatch()
		defer b.Close()
		if err := b.CollectKeys(keys, at); err != nil {
			return err
		}
		keys = keys[:0]
		return b.Commit(false)
	}
	for it.Next() {
		if v := it.Version(); v.Tombstone && v.TS <= at {
			if keys = append(keys, v.Key.Clone()); len(keys) >= sweepKeys {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	return flush()
}
