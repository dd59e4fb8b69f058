package store

import (
	"encoding/binary"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/godwitdb/godwit/base"
)

// localShard + id is the record of a shard: threshold and context.
const localShard = "shard/"

// shardState is what the store keeps in memory of a shard.
type shardState struct {
	id        base.ShardID
	threshold atomic.Uint64
	// nmarks and hasSeen spare the hot path the lock.
	nmarks  atomic.Int64
	hasSeen atomic.Bool
	// lost says that damaged rows were removed, and that their copy is not here yet.
	lost atomic.Bool
	// backAt is the idlePool.gen at which the copy came: views made before lack its rows.
	backAt atomic.Uint64

	mu   sync.Mutex
	cond *sync.Cond
	// seen is the context that merges brought: these entries' effects are in
	// the versions already, though the groups may not have applied them here yet.
	seen    Vector
	marks   map[string]base.Timestamp // newest mark of each collected key
	batches int                       // open batches that changed rows
	merging bool

	gc       chan struct{}  // one slot: serialises who writes the record
	recorded base.Timestamp // threshold in the record; guarded by gc
}

func newShardState(id base.ShardID) *shardState {
	sh := &shardState{id: id, marks: map[string]base.Timestamp{}, gc: make(chan struct{}, 1)}
	sh.cond = sync.NewCond(&sh.mu)
	return sh
}

// enter and leave bracket a batch that changes rows; a merge excludes them.
func (sh *shardState) enter() {
	sh.mu.Lock()
	for sh.merging {
		sh.cond.Wait()
	}
	sh.batches++
	sh.mu.Unlock()
}

func (sh *shardState) leave() {
	sh.mu.Lock()
	if sh.batches--; sh.batches == 0 {
		sh.cond.Broadcast()
	}
	sh.mu.Unlock()
}

// beginMerge waits until no batch is open on the shard and keeps new ones out.
func (sh *shardState) beginMerge() {
	sh.mu.Lock()
	for sh.merging {
		sh.cond.Wait()
	}
	sh.merging = true
	for sh.batches > 0 {
		sh.cond.Wait()
	}
	sh.mu.Unlock()
}

func (sh *shardState) endMerge() {
	sh.mu.Lock()
	sh.merging = false
	sh.cond.Broadcast()
	sh.mu.Unlock()
}

// gone reports whether a version was seen and removed here (STORE-2, STORE-3).
func (sh *shardState) gone(key base.Key, ts base.Timestamp, w base.GroupIndex) bool {
	if !sh.hasSeen.Load() && sh.nmarks.Load() == 0 {
		return false
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.seen.Has(w) || ts <= sh.marks[string(key)]
}

func (sh *shardState) mark(key base.Key, below base.Timestamp) {
	sh.mu.Lock()
	if sh.marks[string(key)] < below {
		sh.marks[string(key)] = below
	}
	sh.nmarks.Store(int64(len(sh.marks)))
	sh.mu.Unlock()
}

func (sh *shardState) markOf(key base.Key) base.Timestamp {
	if sh.nmarks.Load() == 0 {
		return 0
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.marks[string(key)]
}

// marksUpTo lists the keys whose newest mark is at or below a timestamp.
func (sh *shardState) marksUpTo(below base.Timestamp) (keys []base.Key) {
	if sh.nmarks.Load() == 0 {
		return nil
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for key, at := range sh.marks {
		if at <= below {
			keys = append(keys, base.Key(key))
		}
	}
	return keys
}

func (sh *shardState) unmark(below base.Timestamp) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for key, at := range sh.marks {
		if at <= below {
			delete(sh.marks, key)
		}
	}
	sh.nmarks.Store(int64(len(sh.marks)))
}

// raise lifts the threshold in memory, never lowers it.
func (sh *shardState) raise(t base.Timestamp) {
	for {
		old := sh.threshold.Load()
		if uint64(t) <= old || sh.threshold.CompareAndSwap(old, uint64(t)) {
			return
		}
	}
}

func (sh *shardState) context() Vector {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.seen
}

func (sh *shardState) join(x *Vector) {
	sh.mu.Lock()
	sh.seen.Join(x)
	sh.hasSeen.Store(sh.seen != Vector{})
	sh.mu.Unlock()
}

func (sh *shardState) reset() {
	sh.mu.Lock()
	sh.seen = Vector{}
	sh.hasSeen.Store(false)
	clear(sh.marks)
	sh.nmarks.Store(0)
	sh.threshold.Store(0)
	sh.recorded = 0
	sh.mu.Unlock()
	sh.lost.Store(false)
}

// Shard record: threshold (8) | 16 times index (8), big endian.
const shardRecordLen = 8 + 8*(maxWriterRegion+1)

func shardRecord(threshold base.Timestamp, seen *Vector) []byte {
	v := binary.BigEndian.AppendUint64(make([]byte, 0, shardRecordLen), uint64(threshold))
	for _, i := range seen {
		v = binary.BigEndian.AppendUint64(v, i)
	}
	return v
}

func parseShardRecord(v []byte) (threshold base.Timestamp, seen Vector, ok bool) {
	if len(v) != shardRecordLen {
		return 0, seen, false
	}
	threshold = base.Timestamp(binary.BigEndian.Uint64(v))
	for i := range seen {
		seen[i] = binary.BigEndian.Uint64(v[8+8*i:])
	}
	return threshold, seen, true
}

func shardName(id base.ShardID) string { return localShard + strconv.Itoa(int(id)) }

// shardTable finds shard states without a lock; it is copied when a shard is added.
type shardTable struct {
	s  *Store
	mu sync.Mutex
	m  atomic.Pointer[map[base.ShardID]*shardState]
}

func (t *shardTable) init(s *Store) {
	t.s = s
	t.m.Store(&map[base.ShardID]*shardState{})
}

func (t *shardTable) get(id base.ShardID) *shardState {
	if sh := (*t.m.Load())[id]; sh != nil {
		return sh
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	old := *t.m.Load()
	if sh := old[id]; sh != nil {
		return sh
	}
	m := maps.Clone(old)
	m[id] = newShardState(id)
	t.m.Store(&m)
	return m[id]
}

// load reads shard records and marks.
func (t *shardTable) load() error {
	err := t.s.scanLocal(localShard, func(name string, val []byte) error {
		id, err := strconv.ParseUint(name, 10, 16)
		threshold, seen, ok := parseShardRecord(val)
		if err != nil || !ok {
			return t.s.corrupt(corruptf("store %s: the record of shard %q is damaged", t.s.opts.Dir, name))
		}
		sh := t.get(base.ShardID(id))
		sh.recorded = threshold
		sh.raise(threshold)
		sh.join(&seen)
		return nil
	})
	if err != nil {
		return err
	}
	lo, hi := areaSpan([]byte{areaMark})
	return t.s.scan(lo, hi, func(ek, _ []byte) error {
		key, below, ok := splitKey(ek)
		if !ok || below == 0 {
			return t.s.corrupt(corruptf("store %s: a collection mark has the malformed key %x", t.s.opts.Dir, ek))
		}
		sh := t.get(base.Key(key).Shard())
		sh.mark(key, below)
		sh.raise(below)
		return nil
	})
}

// scanLocal calls fn for local records with a name prefix, which it cuts off.
func (s *Store) scanLocal(prefix string, fn func(name string, val []byte) error) error {
	lo, hi := areaSpan(append([]byte{areaLocal}, prefix...))
	return s.scan(lo, hi, func(ek, val []byte) error {
		body, _, ok := splitKey(ek)
		if !ok {
			return s.corrupt(corruptf("store %s: a local record has the malformed key %x", s.opts.Dir, ek))
		}
		return fn(strings.TrimPrefix(string(body), prefix), val)
	})
}

// scan calls fn for every engine key of a range; its arguments are valid during the call.
func (s *Store) scan(lo, hi []byte, fn func(ek, val []byte) error) error {
	if s.closed.Load() {
		return errClosed
	}
	return scanIn(s, s.db, lo, hi, fn)
}

func scanIn(s *Store, r pebble.Reader, lo, hi []byte, fn func(ek, val []byte) error) error {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: lo, UpperBound: hi})
	if err != nil {
		return s.wrap(err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		val, err := it.ValueAndErr()
		if err != nil {
			return s.wrap(err)
		}
		if err := fn(it.Key(), val); err != nil {
			return err
		}
	}
	return s.wrap(it.Error())
}

// GCThreshold is the timestamp below which reads of the shard are refused,
// because versions they need may have been removed.
func (s *Store) GCThreshold(id base.ShardID) base.Timestamp {
	return base.Timestamp(s.shards.get(id).threshold.Load())
}

// whole fails while rows of the shard are missing here.
func (sh *shardState) whole() error {
	if !sh.lost.Load() {
		return nil
	}
	return base.Errorf(base.CodeUnavailable, "the rows of %s here were damaged, and are being fetched from another "+
		"node; try again", sh)
}

func (sh *shardState) String() string { return fmt.Sprintf("shard %d", sh.id) }
