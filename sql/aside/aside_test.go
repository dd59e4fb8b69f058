package aside

import (
	"context"
	"errors"
	"testing"
)

// TestLanes: a statement that is told to end does not wait for what runs aside. Until that has
// ended, its memory is held and its lane is taken, and who waits for a lane can be told to end as
// well.
func TestLanes(t *testing.T) {
	l := NewLanes(1)
	killed := errors.New("killed")
	held, released := 0, make(chan struct{})
	hold := func() (func(), error) { held++; return func() { close(released) }, nil }
	began, goOn := make(chan struct{}), make(chan struct{})
	ctx, kill := context.WithCancelCause(t.Context())
	go func() { <-began; kill(killed) }()
	if err := l.Run(ctx, hold, func() { close(began); <-goOn }); err != killed || held != 1 || taken(l) != 1 {
		t.Fatalf("%v, memory held %d times, %d lanes taken", err, held, taken(l))
	}
	if err := l.Run(ctx, hold, func() { t.Error("parsed where there is no lane") }); err != killed || held != 1 {
		t.Fatal(err)
	}
	select {
	case <-released:
		t.Fatal("the memory was given back while the parser runs")
	default:
	}
	close(goOn)
	<-released
	// With the lane free others are parsed, with their results and their panics.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	if err := l.Run(ctx, hold, func() { n = 7 }); err != nil || n != 7 || taken(l) != 0 {
		t.Fatal(err, n, taken(l))
	}
	defer func() {
		if r := recover(); r != "deep" || taken(l) != 0 {
			t.Errorf("panicked with %v, %d lanes taken", r, taken(l))
		}
	}()
	_ = l.Run(ctx, hold, func() { panic("deep") })
}

// TestLanesWithoutMemory: where there is no memory for a text that nobody wants any more, the
// statement waits for its parser.
func TestLanesWithoutMemory(t *testing.T) {
	l := NewLanes(1)
	ctx, kill := context.WithCancel(t.Context())
	ended := false
	asked := make(chan struct{})
	err := l.Run(ctx, func() (func(), error) { close(asked); return nil, errors.New("none") }, func() {
		kill()
		<-asked
		ended = true
	})
	if !errors.Is(err, context.Canceled) || !ended {
		t.Error(err, ended)
	}
}

func taken(l *Lanes) int {
	n, _ := l.Taken()
	return n
}
