package node

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/hold"
)

// holds says what the collection of old versions has to leave alone on this node.
type holds struct {
	oldest atomic.Uint64 // the least timestamp that a hold keeps; 0: none
	known  atomic.Bool   // the holds have been read since the node started
}

// keep is owner.Facts.Keep. A node that has just started collects nothing before it has read the
// holds: one of them may be older than everything that it remembers.
func (h *holds) keep(below base.Timestamp) base.Timestamp {
	if !h.known.Load() {
		return 0
	}
	if ts := base.Timestamp(h.oldest.Load()); ts != 0 {
		return min(below, ts)
	}
	return below
}

// holdsEvery bounds how late the node sees that a hold has ended by itself.
const holdsEvery = 30 * time.Second

// follow reads the holds whenever they change, until ctx ends.
func (h *holds) follow(ctx context.Context, n *Node, db kv.DB) {
	var seen base.Timestamp // changes up to here have been read
	var next time.Time
	for ctx.Err() == nil {
		changed := db.MetaChanged()
		again := holdsEvery
		if at, _ := db.MetaVersion(hold.Span()); at > seen || !time.Now().Before(next) {
			f, err := h.read(ctx, db)
			switch {
			case err == nil && f.At >= at:
				seen, next = f.At, time.Now().Add(holdsEvery)
			case err == nil: // the change lies ahead of what may be read yet
				again = 50 * time.Millisecond
			case ctx.Err() == nil:
				n.log.Warn("what backups hold could not be read: old versions are kept meanwhile", "err", err)
				h.known.Store(false)
				again = time.Second
			}
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-time.After(again):
		}
	}
}

func (h *holds) read(ctx context.Context, db kv.DB) (hold.Found, error) {
	f, err := hold.Oldest(ctx, db)
	if err != nil {
		return f, err
	}
	h.oldest.Store(uint64(f.Oldest))
	h.known.Store(true)
	if len(f.Ended) > 0 {
		err = hold.Remove(ctx, db, f.Ended)
	}
	return f, err
}

// startHolds follows the holds until the node closes.
func (n *Node) startHolds() {
	n.untilClosed(func(ctx context.Context) { n.holds.follow(ctx, n, n.db) })
}

// untilClosed runs what reads the store, until the node closes.
func (n *Node) untilClosed(run func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	n.background.Go(func() { defer close(done); run(ctx) })
	n.closeFirst(func() error {
		cancel()
		<-done // it reads the store, which is closed next
		return nil
	})
}
