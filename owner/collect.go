package owner

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/lock"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/wire"
)

// gcState is where the collection of this node goes on.
type gcState struct {
	running  atomic.Bool
	mu       sync.Mutex
	versions map[base.ShardID]base.Key
	tombs    map[base.GroupID]base.Key
}

// gcVersions is how many versions are looked at per shard and step.
const gcVersions = 50_000

// Collect does one step of collection: old versions of every shard held here (each replica for
// itself, up to its consistency point), and the tombstones of the groups led here.
func (s *Set) Collect(ctx context.Context) error {
	s.gc.mu.Lock()
	defer s.gc.mu.Unlock()
	if s.gc.versions == nil {
		s.gc.versions, s.gc.tombs = map[base.ShardID]base.Key{}, map[base.GroupID]base.Key{}
	}
	s.Leads() // promises what is due, also in a node that sends no heartbeats
	below := s.cfg.Keep(s.cfg.Clock.Earliest().Add(-s.cfg.GCAge))
	for _, shard := range s.table.Shards() {
		if err := ctx.Err(); err != nil {
			return err
		}
		// Below the consistency point by the collection age: readers in the past have that long.
		th := min(below, s.Closed(shard))
		if th == 0 {
			continue
		}
		_, next, err := s.cfg.Store.CollectVersions(shard, th, s.gc.versions[shard], gcVersions)
		if err != nil {
			return err
		}
		s.gc.versions[shard] = next
	}
	for _, r := range s.Replicas() {
		if err := ctx.Err(); err != nil {
			return err
		}
		next, err := r.collectTombstones(ctx, s.gc.tombs[r.id], min(below, s.Closed(r.shard)))
		if err != nil && base.CodeOf(err) != base.CodeNotLeader {
			return err
		}
		s.gc.tombs[r.id] = next
	}
	return nil
}

// collectTombstones looks for tombstones at or below a timestamp that this
// group owns together with what lies before them, and removes them by log (HOME-4).
func (r *Replica) collectTombstones(ctx context.Context, from base.Key, below base.Timestamp) (next base.Key, err error) {
	if below == 0 {
		return from, nil
	}
	term, ok := r.Serving()
	if !ok {
		return nil, nil
	}
	found, next, err := r.view.Tombstones(from, below)
	if err != nil || len(found) == 0 {
		return next, err
	}
	return next, r.collectKeys(ctx, term, found, below)
}

// collectKeys removes those tombstones whose gap, and the one before it, it can lock at once.
func (r *Replica) collectKeys(ctx context.Context, term uint64, keys []base.Key, below base.Timestamp) error {
	id := base.MakeTxnID(r.clock.Now(), r.cfg.Self, 0)
	meta := &wire.TxnMeta{Id: id[:], Age: uint64(base.MaxTimestamp), Policy: 1}
	if err := r.enter(ctx, true, 0); err != nil {
		return err
	}
	x, err := r.admit(meta, 0)
	r.mu.Unlock()
	if err != nil {
		return err
	}
	defer func() {
		r.mu.Lock()
		r.leave(x)
		r.release(x, false)
		r.mu.Unlock()
	}()
	var ready []base.Key
	for _, k := range keys {
		ok, err := r.collectable(ctx, x, term, k, below)
		if err != nil {
			return err
		}
		if ok {
			ready = append(ready, k)
		}
	}
	if len(ready) == 0 {
		return nil
	}
	_, err = r.proposeCommand(ctx, term, func(c *wire.Command) {
		c.Collect = &wire.Collect{Below: uint64(below)}
		for _, k := range ready {
			c.Collect.Keys = append(c.Collect.Keys, k)
		}
	}, nil)
	if err != nil {
		return err
	}
	r.stats.Collected.Add(int64(len(ready)))
	return nil
}

// collectable locks everything from the key before a tombstone to the key
// behind it, and looks again under that lock.
func (r *Replica) collectable(ctx context.Context, x *txns.Txn, term uint64, key base.Key, below base.Timestamp) (bool, error) {
	span, ok, err := r.view.TombstoneGap(key, below)
	if err != nil || !ok {
		return false, err
	}
	switch _, err := r.lock(ctx, x, term, lock.Exclusive, span); base.CodeOf(err) {
	case base.CodeOther:
		if err != nil {
			return false, err
		}
	case base.CodeAborted:
		return false, nil // in use: next time
	default:
		return false, err
	}
	again, ok, err := r.view.TombstoneGap(key, below)
	return ok && again.String() == span.String(), err
}
