// Package mover moves rows to other regions that no statement moves.
package mover

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/owner/homing"
)

// Expand adds to a transaction what has to move along with a row that is read under an exclusive
// lock, and the move of the row itself: what else is keyed or owned by its home, such as index
// entries.
type Expand func(ctx context.Context, t kv.Txn, row kv.Row, to base.RegionID, opts kv.MoveOptions) error

// Mover carries out moves that no statement carries out: those the policy decided on for reads, and
// rows that follow others. It runs at the owners' nodes, where the rows can be locked without a
// trip.
type Mover struct {
	db     kv.DB
	moved  *atomic.Int64
	expand Expand

	mu     sync.Mutex
	queued map[string]struct{}
	queue  chan homing.Proposal
	stopc  chan struct{}
	wg     sync.WaitGroup
}

const (
	// beyond, proposals are dropped: the policy will make them again
	maxProposals = 8192
	moveBatch    = 64                     // rows of one transaction
	moveTimeout  = 10 * time.Second       // of one batch
	moveWait     = 300 * time.Millisecond // of one row for its lock
	moveGather   = 2 * time.Millisecond   // what comes meanwhile goes along
	moverWorkers = 4                      // batches under way
)

// New starts a mover, which counts the rows in moved. expand may be nil where rows stand alone.
// Close it before its DB.
func New(db kv.DB, moved *atomic.Int64, expand Expand) *Mover {
	if expand == nil {
		expand = func(_ context.Context, t kv.Txn, row kv.Row, to base.RegionID, opts kv.MoveOptions) error {
			t.Move(row.Key, to, opts)
			return nil
		}
	}
	m := &Mover{db: db, moved: moved, expand: expand, queued: map[string]struct{}{}, queue: make(chan homing.Proposal, maxProposals),
		stopc: make(chan struct{})}
	for range moverWorkers {
		m.wg.Go(m.run)
	}
	return m
}

// Waiting is how many moves wait, most how many may.
func (m *Mover) Waiting() (n, most int) { return len(m.queue), cap(m.queue) }

// Propose queues a move; it never blocks. It is what owner.Config.Proposed calls.
func (m *Mover) Propose(p homing.Proposal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.queued[string(p.Key)]; ok {
		return
	}
	select {
	case m.queue <- p:
		m.queued[string(p.Key)] = struct{}{}
	default:
	}
}

// Close ends the mover; moves not begun are dropped.
func (m *Mover) Close() {
	close(m.stopc)
	m.wg.Wait()
}

func (m *Mover) run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-m.stopc:
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		var batch []homing.Proposal
		select {
		case <-m.stopc:
			return
		case p := <-m.queue:
			batch = append(batch, p)
		}
		timer := time.NewTimer(moveGather)
		var other []homing.Proposal
	gather:
		for len(batch)+len(other) < moveBatch {
			select {
			case p := <-m.queue:
				if p.To == batch[0].To && p.Key.Shard() == batch[0].Key.Shard() {
					batch = append(batch, p)
				} else {
					other = append(other, p)
				}
			case <-timer.C:
				break gather
			}
		}
		timer.Stop()
		for len(batch) > 0 {
			m.move(ctx, batch)
			batch, other = pick(other)
		}
	}
}

// pick takes those of one shard and target.
func pick(ps []homing.Proposal) (batch, other []homing.Proposal) {
	for _, p := range ps {
		if len(batch) == 0 || p.To == batch[0].To && p.Key.Shard() == batch[0].Key.Shard() {
			batch = append(batch, p)
		} else {
			other = append(other, p)
		}
	}
	return batch, other
}

// move moves a batch as one transaction; if that fails, row by row, each once. The batch gives way
// to everybody. A single row waits in line for a moment: one in constant use is never free by
// itself, and it is just that one that should move.
func (m *Mover) move(ctx context.Context, batch []homing.Proposal) {
	defer func() {
		m.mu.Lock()
		for _, p := range batch {
			delete(m.queued, string(p.Key))
		}
		m.mu.Unlock()
	}()
	if err := m.try(ctx, batch, kv.Options{Policy: kv.NoWait, Age: base.MaxTimestamp}); err == nil {
		return
	}
	for _, p := range batch {
		if ctx.Err() == nil {
			_ = m.try(ctx, []homing.Proposal{p}, kv.Options{Age: base.MaxTimestamp, LockTimeout: moveWait})
		}
	}
}

func (m *Mover) try(ctx context.Context, batch []homing.Proposal, opts kv.Options) error {
	// quiet: this read is no use of the row by the owner's region
	ctx, cancel := context.WithTimeout(kv.WithQuiet(ctx), moveTimeout)
	defer cancel()
	t := m.db.Begin(opts)
	defer t.Rollback(context.Background())
	keys := make([]base.Key, len(batch))
	for i, p := range batch {
		keys[i] = p.Key
	}
	rows, err := t.Get(ctx, keys, kv.LockExclusive)
	if err != nil {
		return err
	}
	moved := int64(0)
	for i, row := range rows {
		p := batch[i]
		if row.Value == nil || row.Label.Pinned() && !p.Must || row.Home != p.From ||
			!m.db.Topology().MayLiveIn(p.Key.Shard(), p.To) {
			continue // gone, pinned or moved meanwhile, or not to move there
		}
		if err := m.expand(ctx, t, row, p.To, kv.MoveOptions{Soft: !p.Must, Reason: p.Reason}); err != nil {
			return err
		}
		moved++
	}
	if !t.Wrote() {
		return nil
	}
	if _, err := t.Commit(ctx); err != nil {
		return err
	}
	m.moved.Add(moved)
	return nil
}
