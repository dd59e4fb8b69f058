package kv

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/obs"
)

// A statement fails if it has reached no node that answers ReachIn after it arrived, or ReachAgain
// after it found no leader or lost the one that it had reached. What it waited in vain before
// shortens ReachAgain, and each second at nodes that answer takes back a second of that: faults in
// a row cost a client no more than one, and a statement that has waited for a lock for two seconds
// when its leader loses its majority fails within five. An election and the end of a lease are
// faster, and a client's patience is longer. A request that waits for a lock is at a node that
// answers.
const (
	ReachIn    = 4 * time.Second
	ReachAgain = 2800 * time.Millisecond
)

// Patience is that of one statement, through all its requests and attempts. Its methods may be
// called from any goroutine.
type Patience struct {
	began time.Time
	over  atomic.Bool

	mu      sync.Mutex
	failing bool          // the newest request did not succeed
	turned  time.Time     // when requests began to fail, or to be answered
	vain    time.Duration // waited in vain until then, less what was taken back
	// turned and vain as they were before requests began to fail.
	turnedBefore time.Time
	vainBefore   time.Duration
}

// NewPatience begins now.
func NewPatience() *Patience { return PatienceSince(time.Now()) }

// PatienceSince is one that began at the time then.
func PatienceSince(then time.Time) *Patience { return &Patience{began: then, turned: then} }

// ForAnother is the patience of a request that another node has sent: that node has the statement's
// own, and sends the request again. So it hears soon that nobody can serve it, and no statement
// waits much longer than its patience; which node can, it may know by then.
func ForAnother() *Patience {
	now := time.Now()
	return &Patience{began: now.Add(another - ReachIn), turned: now, vain: ReachIn - another}
}

// another is short beside what a statement's patience leaves of five seconds.
const another = 150 * time.Millisecond

type patienceKey struct{}

// WithPatience makes p that of all requests under the context.
func WithPatience(ctx context.Context, p *Patience) context.Context {
	return context.WithValue(ctx, patienceKey{}, p)
}

type askedKey struct{}

// Statement is the context of the requests of one statement: they share a patience, and count into
// a trace.
type Statement struct {
	context.Context
	trace    *obs.Trace
	patience *Patience
	asked    bool
}

// Value implements context.Context.
func (s *Statement) Value(key any) any {
	switch key.(type) {
	case patienceKey:
		return s.patience
	case obs.TraceKey:
		return s.trace
	case askedKey:
		return s.asked
	}
	return s.Context.Value(key)
}

// WithStatement makes the context of a statement's requests. asked says that the client has asked
// for the locks that the statement takes, as FOR UPDATE does.
func WithStatement(ctx context.Context, t *obs.Trace, p *Patience, asked bool) *Statement {
	return &Statement{ctx, t, p, asked}
}

// Made reports whether s, which may be nil, was made of the same.
func (s *Statement) Made(ctx context.Context, p *Patience, asked bool) bool {
	return s != nil && s.Context == ctx && s.patience == p && s.asked == asked
}

// LocksAsked reports whether the client has asked for the locks of the context's statement.
func LocksAsked(ctx context.Context) bool {
	asked, _ := ctx.Value(askedKey{}).(bool)
	return asked
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
	p.mu.Lock()
	if !p.failing {
		p.failing, p.turnedBefore, p.vainBefore, p.turned = true, p.turned, p.vain, time.Now()
	}
	// A later part of the request may have failed before it was known since when it waited in vain.
	if t.Before(p.turnedBefore) {
		t = p.turnedBefore
	}
	if !t.After(p.turned) {
		p.vain, p.turned = max(p.vainBefore-t.Sub(p.turnedBefore), 0), t
	}
	p.mu.Unlock()
	if p.Left() <= 0 {
		p.over.Store(true)
	}
	return p.Over()
}

// Answered notes that a request was answered.
func (p *Patience) Answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failing {
		now := time.Now()
		p.failing, p.vain, p.turned = false, p.vain+now.Sub(p.turned), now
	}
}

// Age is how long ago the statement came.
func (p *Patience) Age() time.Duration { return time.Since(p.began) }

// Over reports whether patience has ended: it does not begin anew.
func (p *Patience) Over() bool { return p.over.Load() }

// Left is how long it will last if nothing is answered from now on.
func (p *Patience) Left() time.Duration {
	if p.Over() {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	vain, waits := p.vain, time.Since(p.turned)
	if !p.failing {
		vain, waits = max(vain-waits, 0), 0
	}
	return max(ReachIn-p.Age(), min(ReachAgain, ReachIn-vain)-waits, 0)
}
