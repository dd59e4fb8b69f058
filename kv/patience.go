package kv

import (
	"context"
	"sync/atomic"
	"time"
)

// A statement fails if it has reached no node that answers ReachIn after it arrived, or ReachAgain
// after it found no leader or lost the one that it had reached. An election and the end of a lease
// are faster, and a client's patience is longer. A request that waits for a lock is at a node that
// answers.
const (
	ReachIn    = 4500 * time.Millisecond
	ReachAgain = 3 * time.Second
)

// Patience is that of one statement, through all its requests and attempts. Its methods may be
// called from any goroutine.
type Patience struct {
	began  time.Time
	failed atomic.Int64 // ns after began when requests began to fail, plus 1; 0: the newest one did not
	over   atomic.Bool
}

// NewPatience begins now.
func NewPatience() *Patience { return &Patience{began: time.Now()} }

type patienceKey struct{}

// WithPatience makes p that of all requests under the context.
func WithPatience(ctx context.Context, p *Patience) context.Context {
	return context.WithValue(ctx, patienceKey{}, p)
}

// PatienceOf is that of the context, or a new one.
func PatienceOf(ctx context.Context) *Patience {
	if p, _ := ctx.Value(patienceKey{}).(*Patience); p != nil {
		return p
	}
	return NewPatience()
}

// Failed notes that a request met with nobody who answers, and reports whether that was the last
// try.
func (p *Patience) Failed() (over bool) { return p.FailedSince(time.Now()) }

// FailedSince is Failed of a request that was kept waiting since then.
func (p *Patience) FailedSince(t time.Time) (over bool) {
	if p.failed.Load() == 0 {
		p.failed.Store(max(int64(t.Sub(p.began)), 0) + 1)
	}
	if p.Left() <= 0 {
		p.over.Store(true)
	}
	return p.Over()
}

// Answered notes that a request was answered.
func (p *Patience) Answered() { p.failed.Store(0) }

// Age is how long ago the statement came.
func (p *Patience) Age() time.Duration { return time.Since(p.began) }

// Over reports whether patience has ended: it does not begin anew.
func (p *Patience) Over() bool { return p.over.Load() }

// Left is how long it will last if nothing is answered from now on.
func (p *Patience) Left() time.Duration {
	if p.Over() {
		return 0
	}
	left := ReachAgain
	if f := p.failed.Load(); f != 0 {
		left -= time.Since(p.began.Add(time.Duration(f - 1)))
	}
	return max(ReachIn-time.Since(p.began), left)
}
