// Package helper lends processors that are free to statements that have work for a second
// goroutine.
package helper

import (
	"runtime"

	"github.com/godwitdb/godwit/sql/admit"
)

// Eager gives helpers to whoever asks, whether or not a processor is free, and for little work,
// too. Tests and comparisons of answers set it before the first statement.
var Eager bool

// apart bounds the helpers of statements that have no slots to take, as in tests.
var apart = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1))

// Helper is the processor that a helper may use.
type Helper struct{ on *admit.Spare }

// Take takes a processor for a helper of a statement; nil: there is none. It does not wait.
func Take(t *admit.Turn) *Helper {
	switch {
	case Eager:
		return &Helper{}
	case t.Pooled():
		if s := t.Spare(); s != nil {
			return &Helper{s}
		}
		return nil
	}
	select {
	case apart <- struct{}{}:
		return &Helper{}
	default:
		return nil
	}
}

// Keep reports whether the helper may go on. It is asked every few milliseconds.
func (h *Helper) Keep() bool { return h.on == nil || h.on.Keep() }

// End gives the processor back.
func (h *Helper) End() {
	if h.on != nil {
		h.on.End()
		return
	}
	select {
	case <-apart:
	default: // Eager
	}
}
