package store

import (
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/godwitdb/godwit/base"
)

// Batch collects changes that become visible and durable together. The
// setters do not fail; what was wrong with them is returned by Commit.
type Batch struct {
	s         *Store
	b         *pebble.Batch
	err       error
	rows      bool          // versions change: idle readers are out of date
	puts      []Version     // what the row cache has to learn, then
	drops     []base.Key    // what it has to forget
	locals    []localChange // records of the node itself that change
	logs      []*Log        // whose memory is ahead of the disk until the commit
	entered   []*shardState // merges into these wait for the batch
	exclusive bool          // made by a merge: holds nothing
	committed bool
	waiting   bool      // CommitAsync without Wait
	due       time.Time // with Options.SyncDelay: when the disk is done

	began        time.Time // when it was given to the disk to be synced; zero: it is not under way
	older, newer *Batch    // those under way beside it, see syncs
}

// NewBatch starts a batch. Close it in every case.
func (s *Store) NewBatch() *Batch { return &Batch{s: s, b: s.db.NewBatch()} }

func (b *Batch) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// Empty reports whether nothing was put into the batch.
func (b *Batch) Empty() bool { return b.b.Empty() }

// Len is the encoded size in bytes.
func (b *Batch) Len() int { return b.b.Len() }

// Commit applies the batch. With sync it returns when the batch and all
// earlier ones are on disk. An empty batch with sync does not touch the disk.
func (b *Batch) Commit(sync bool) error {
	if err := b.CommitAsync(sync); err != nil {
		return err
	}
	return b.Wait()
}

// CommitAsync applies the batch, makes it visible and returns without waiting for the disk; with
// sync, Wait must be called before Close and tells when it is durable. So a leader can send its
// entries while they are being written, and groups share one fsync.
func (b *Batch) CommitAsync(sync bool) error {
	if b.err != nil {
		return b.err
	}
	if b.committed {
		return base.Errorf(base.CodeInvalid, "a batch was committed twice")
	}
	if err := b.applyNoting(sync); err != nil {
		b.s.syncs.end(b)
		return err
	}
	b.committed = true
	if b.rows {
		b.s.idle.expire()
		b.refreshRows()
	}
	b.release()
	return nil
}

// applyNoting is apply, and brings the mirror of the node's own records up to date.
func (b *Batch) applyNoting(sync bool) error {
	if len(b.locals) == 0 {
		return b.apply(sync)
	}
	b.s.mirror.mu.Lock()
	defer b.s.mirror.mu.Unlock()
	if err := b.apply(sync); err != nil {
		return err
	}
	b.s.mirror.note(b.locals)
	return nil
}

// apply makes the batch visible and gives it to the disk; with sync it is under way then.
func (b *Batch) apply(sync bool) error {
	if b.s.closed.Load() {
		return errClosed
	}
	b.s.patience.written.Add(int64(b.b.Len()))
	if sync && !b.s.opts.NoSync && !b.b.Empty() {
		b.s.syncs.begin(b)
	}
	if sync && b.s.opts.SyncDelay != nil && (len(b.logs) > 0 || b.s.opts.DelayAll) && !b.exclusive {
		if err := b.s.db.Apply(b.b, pebble.NoSync); err != nil {
			return b.s.wrap(err)
		}
		b.due = time.Now().Add(b.s.opts.SyncDelay())
		b.waiting = true
	} else if sync && !b.s.opts.NoSync && !b.b.Empty() {
		if err := b.markSynced(); err != nil {
			return b.s.wrap(err)
		}
		if err := b.s.db.ApplyNoSyncWait(b.b, pebble.Sync); err != nil {
			return b.s.wrap(err)
		}
		b.waiting = true
	} else if err := b.s.db.Apply(b.b, pebble.NoSync); err != nil {
		return b.s.wrap(err)
	}
	return nil
}

// refreshRows brings the row cache up to date with what has just become visible.
func (b *Batch) refreshRows() {
	if b.exclusive {
		b.s.rows.purge()
		return
	}
	for i := range b.puts {
		b.s.rows.put(&b.puts[i])
	}
	for _, key := range b.drops {
		b.s.rows.drop(key)
	}
	b.puts, b.drops = nil, nil
}

// Wait returns when the synced CommitAsync is durable; at once if there was none.
func (b *Batch) Wait() error {
	if !b.waiting {
		return nil
	}
	b.waiting = false
	defer b.s.syncs.end(b)
	if !b.due.IsZero() {
		time.Sleep(time.Until(b.due))
		if err := b.s.Sync(); err != nil {
			return err
		}
		b.s.noteSynced(b.b)
		return nil
	}
	if err := b.b.SyncWait(); err != nil {
		return b.s.wrap(err)
	}
	b.s.noteSynced(b.b)
	return nil
}

// Close frees the batch. What was not committed is dropped; raft logs that were
// appended to in a dropped batch refuse further use, since their memory no longer matches the disk.
func (b *Batch) Close() {
	if b.b == nil {
		return
	}
	if b.waiting {
		_ = b.Wait()
	}
	if !b.committed {
		for _, l := range b.logs {
			l.poison()
		}
	}
	b.release()
	_ = b.b.Close()
	b.b = nil
}

func (b *Batch) release() {
	for _, sh := range b.entered {
		sh.leave()
	}
	b.entered = nil
}

// enter announces that the batch changes rows of a shard.
func (b *Batch) enter(id base.ShardID) *shardState {
	sh := b.s.shards.get(id)
	b.rows = true
	if b.exclusive {
		return sh
	}
	for _, h := range b.entered {
		if h == sh {
			return sh
		}
	}
	sh.enter()
	b.entered = append(b.entered, sh)
	return sh
}

func (b *Batch) set(key, val []byte) {
	if val == nil {
		val = []byte{}
	}
	b.local(key, val)
	if err := b.b.Set(key, val, nil); err != nil {
		b.fail(b.s.wrap(err))
	}
}

func (b *Batch) del(key []byte) {
	b.local(key, nil)
	if err := b.b.Delete(key, nil); err != nil {
		b.fail(b.s.wrap(err))
	}
}

func (b *Batch) delRange(lo, hi []byte) {
	if err := b.b.DeleteRange(lo, hi, nil); err != nil {
		b.fail(b.s.wrap(err))
	}
}

// PutVersion adds a version. It is idempotent, as the same (key, timestamp)
// always carries the same bytes. A version that this replica has seen and removed (STORE-2,
// STORE-3) is left out. The version's memory must not change until the commit.
func (b *Batch) PutVersion(v Version) {
	if len(v.Key) == 0 || v.TS == 0 || v.TS > base.MaxTimestamp || v.Writer.Index == 0 || v.Writer.Region > maxWriterRegion {
		b.fail(base.Errorf(base.CodeInvalid, "version %s@%s by r%d/%d: a version needs a key, a timestamp and a writer",
			v.Key, v.TS, v.Writer.Region, v.Writer.Index))
		return
	}
	sh := b.enter(v.Key.Shard())
	if sh.gone(v.Key, v.TS, v.Writer) {
		return
	}
	op := b.b.SetDeferred(1+len(v.Key)+1+tsSuffixLen, headerLen(v.Writer.Index)+len(v.Value))
	appendVersionKey(op.Key[:0], v.Key, v.TS)
	putVersionValue(op.Value, &v)
	if err := op.Finish(); err != nil {
		b.fail(b.s.wrap(err))
	}
	b.puts = append(b.puts, v)
}
