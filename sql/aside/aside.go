// Package aside runs what cannot be interrupted beside the statement that wants it: parsers of long
// texts, and single calls of functions on long values. A statement that is told to end goes, and
// what it has begun runs on to its end, in a lane that is taken until then.
package aside

import (
	"context"
	"runtime"
)

// Lanes bound how much runs aside at once.
type Lanes struct{ taken chan struct{} }

// The lanes of this process, whose processors all its nodes share.
var (
	Parsers = NewLanes(0)
	Calls   = NewLanes(0)
)

// NewLanes makes lanes, for half of the processors if n is 0.
func NewLanes(n int) *Lanes {
	if n == 0 {
		n = max(1, runtime.GOMAXPROCS(0)/2)
	}
	return &Lanes{make(chan struct{}, n)}
}

// Taken is how many lanes are taken at the moment, most how many there are.
func (l *Lanes) Taken() (n, most int) { return len(l.taken), cap(l.taken) }

// Run calls f, which touches nothing that the session uses, and waits for it, but no longer than
// the statement may go on: the error is the context's cause. Then nobody may look at what f makes,
// hold is asked for the memory that f takes meanwhile, and release is called when f has ended. If
// hold has none, Run waits for f nevertheless.
func (l *Lanes) Run(ctx context.Context, hold func() (release func(), err error), f func()) error {
	if ctx.Done() == nil {
		f()
		return nil
	}
	select {
	case l.taken <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ended := make(chan any, 1)
	go func() {
		defer func() {
			<-l.taken
			ended <- recover()
		}()
		f()
	}()
	select {
	case panicked := <-ended:
		if panicked != nil {
			panic(panicked)
		}
		return nil
	case <-ctx.Done():
	}
	release, err := hold()
	if err != nil {
		<-ended
		return context.Cause(ctx)
	}
	go func() {
		<-ended
		release()
	}()
	return context.Cause(ctx)
}
