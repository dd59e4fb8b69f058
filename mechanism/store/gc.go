package store

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"

	"github.com/godwitdb/godwit/base"
)

// gcBatch is how many removals go into one batch.
const gcBatch = 2048

// CollectVersions removes versions of a shard that no read at or above below can see: those with a
// newer version of their key at or below it. It never removes a key's newest version, so tombstones
// stay and go on covering their gaps (see CollectKeys). below must be at or under the local
// consistency point: everything up to it has been applied here. The threshold is raised, durably,
// before anything is removed.
//
// The work is done in steps: start with from nil; limit bounds the versions looked at (0: 100,000);
// next is where to go on, nil at the end.
func (s *Store) CollectVersions(id base.ShardID, below base.Timestamp, from base.Key, limit int) (removed int,
	next base.Key, err error) {
	if limit <= 0 {
		limit = 100_000
	}
	sh := s.shards.get(id)
	if err := s.raiseThreshold(sh, below); err != nil {
		return 0, nil, err
	}
	lo, hi := shardSpan(areaVersion, id)
	if from != nil {
		lo = appendVersionKey(nil, from, 0)
	}
	it, err := s.newIter(&pebble.IterOptions{LowerBound: lo, UpperBound: hi})
	if err != nil {
		return 0, nil, s.wrap(err)
	}
	defer it.Close()
	c := collection{s: s, id: id, b: s.NewBatch()}
	defer func() { c.b.Close() }()
	var (
		prefix []byte
		kept   bool // a version at or below `below` of this key was passed
		seen   int
	)
	for ok := it.First(); ok; ok = it.Next() {
		ek := it.Key()
		ts := versionTS(ek)
		if ts == 0 {
			return c.removed, nil, s.corrupt(corruptf("store %s: the version with engine key %x is malformed", s.opts.Dir, ek))
		}
		if p := prefixOf(ek); !bytes.Equal(p, prefix) {
			if seen >= limit {
				return c.removed, bytes.Clone(p[1 : len(p)-1]), c.flush()
			}
			prefix, kept = append(prefix[:0], p...), false
		}
		seen++
		switch {
		case ts > below:
		case !kept:
			kept = true
		default:
			if err := c.remove(ek); err != nil {
				return c.removed, nil, err
			}
		}
	}
	if err := it.Error(); err != nil {
		return c.removed, nil, s.wrap(err)
	}
	return c.removed, nil, c.flush()
}

// collection removes versions of a shard in batches.
type collection struct {
	s       *Store
	id      base.ShardID
	b       *Batch
	held    bool // b has removals
	removed int
}

func (c *collection) remove(engineKey []byte) error {
	if !c.held {
		c.b.enter(c.id)
		c.held = true
	}
	c.b.del(engineKey)
	if c.removed++; c.removed%gcBatch == 0 {
		return c.flush()
	}
	return nil
}

func (c *collection) flush() error {
	if !c.held {
		return nil
	}
	c.held = false
	err := c.b.Commit(false)
	c.b.Close()
	c.b = c.s.NewBatch()
	return err
}

// raiseThreshold makes the threshold durable and drops the marks that it makes
// needless: everything at or below it has been applied, so nothing marked can come back.
func (s *Store) raiseThreshold(sh *shardState, below base.Timestamp) error {
	sh.gc <- struct{}{}
	defer func() { <-sh.gc }()
	if sh.recorded < below {
		seen := sh.context()
		if err := s.setLocal(shardName(sh.id), shardRecord(below, &seen), true); err != nil {
			return err
		}
		sh.recorded = below
		sh.raise(below)
	}
	b := s.NewBatch()
	defer b.Close()
	for _, key := range sh.marksUpTo(below) {
		lo, hi := markKey(key, below), seal(append([]byte{areaMark}, key.Next()...))
		if err := s.scan(lo, hi, func(ek, _ []byte) error { b.del(ek); return nil }); err != nil {
			return err
		}
	}
	if b.Empty() {
		return nil
	}
	if err := b.Commit(false); err != nil {
		return err
	}
	sh.unmark(below)
	return nil
}

// CollectKeys removes all versions of keys at or below a timestamp, the tombstones too, and so
// merges their gaps into those of their predecessors. It is the effect of a logged wire.Collect
// (HOME-4), which says who may do that and when. The keys are marked, so that older versions
// arriving later by the logs of other groups stay out, and the shard's threshold rises to below
// with the batch.
func (b *Batch) CollectKeys(keys []base.Key, below base.Timestamp) error {
	if below == 0 || below > base.MaxTimestamp {
		return base.Errorf(base.CodeInvalid, "collect below timestamp %d", below)
	}
	// Versions put by this batch are not in the database yet.
	if err := b.dropPending(keys, below); err != nil {
		return err
	}
	for _, key := range keys {
		sh := b.enter(key.Shard())
		b.drops = append(b.drops, key)
		// Reads below the mark are refused before the versions go.
		sh.raise(below)
		sh.mark(key, below)
		b.set(markKey(key, below), nil)
		lo, hi := appendVersionKey(nil, key, below), appendVersionKey(nil, key.Next(), 0)
		err := b.s.scan(lo, hi, func(ek, _ []byte) error { b.del(ek); return nil })
		if err != nil {
			return err
		}
	}
	return nil
}

// dropPending deletes versions of keys at or below a timestamp that this batch holds.
func (b *Batch) dropPending(keys []base.Key, below base.Timestamp) error {
	prefixes := make(map[string]bool, len(keys))
	for _, key := range keys {
		prefixes[string(appendVersionKey(nil, key, 0))] = true
	}
	var dead [][]byte
	for r := b.b.Reader(); ; {
		kind, ek, _, ok, err := r.Next()
		if err != nil {
			return b.s.wrap(err)
		}
		if !ok {
			break
		}
		if kind != pebble.InternalKeyKindSet || ek[0] != areaVersion || versionTS(ek) > below {
			continue
		}
		if prefixes[string(prefixOf(ek))] {
			dead = append(dead, bytes.Clone(ek))
		}
	}
	for _, ek := range dead {
		b.del(ek)
	}
	return nil
}
