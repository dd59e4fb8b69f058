package group

import (
	"context"
	"sync"
	"time"
)

// DefaultSnapshotRate is how many bytes of snapshots a node sends in a second, at most: a disk and
// a network that also serve requests have room for that.
const DefaultSnapshotRate = 64 << 20

// pace spreads bytes over time.
type pace struct {
	mu   sync.Mutex
	rate int64     // bytes a second; 0: no bound
	free time.Time // when the next byte may go
}

// due is when so many bytes may go that are ready now.
func (p *pace) due(now time.Time, bytes int64) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rate <= 0 {
		return now
	}
	at := p.free
	if at.Before(now) {
		at = now
	}
	p.free = at.Add(time.Duration(float64(bytes) / float64(p.rate) * float64(time.Second)))
	return at
}

// wait holds up bytes until they may go; an error if ctx ends before.
func (p *pace) wait(ctx context.Context, bytes int64) error {
	now := time.Now()
	d := p.due(now, bytes).Sub(now)
	if d <= 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// SetSnapshotRate bounds how many bytes of snapshots this node sends in a second, over all streams;
// 0 is no bound.
func (h *Host) SetSnapshotRate(bytes int64) {
	h.snaps.pace.mu.Lock()
	defer h.snaps.pace.mu.Unlock()
	h.snaps.pace.rate, h.snaps.pace.free = bytes, time.Time{}
}
