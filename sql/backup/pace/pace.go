// Package pace bounds how fast a node writes backups and restored rows.
package pace

import (
	"context"
	"sync"
	"time"
)

// Pace bounds how many bytes a second this node writes: of backups to their places, of restores as
// rows. What is read is not counted. The zero value has no bound. Safe for concurrent use.
type Pace struct {
	mu   sync.Mutex
	rate float64   // bytes a second; 0: as many as it can
	free time.Time // when all that was let pass has been paid for
}

// Set changes the bound; 0: there is none.
func (p *Pace) Set(bytesPerSecond float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate = bytesPerSecond
}

// Wait waits until so many bytes may be written, or until ctx ends: not at all if the time of those
// before is over.
func (p *Pace) Wait(ctx context.Context, bytes int) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	now := time.Now()
	at := now
	if p.rate > 0 {
		if p.free.After(now) {
			at = p.free
		}
		p.free = at.Add(time.Duration(float64(bytes) / p.rate * float64(time.Second)))
	}
	p.mu.Unlock()
	if !at.After(now) {
		return nil
	}
	t := time.NewTimer(at.Sub(now))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
