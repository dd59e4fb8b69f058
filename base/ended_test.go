package base

import (
	"context"
	"errors"
	"testing"
)

// TestEnded: a loop of a request that has ended takes 1,024 steps more at most.
func TestEnded(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	if err := Ended(ctx); err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := 0; i < 100_000 && GoesOn(ctx, i); i++ {
		if n++; i == 5000 {
			cancel(errors.New("killed"))
		}
	}
	if n < 5000 || n > 5000+1025 {
		t.Errorf("%d steps", n)
	}
	if err := Ended(ctx); CodeOf(err) != CodeCanceled {
		t.Errorf("%v", err)
	}
}
