package turns

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/sql/admit"
)

// TestYield: a backup waits for its turn where a statement would be refused, until its context
// ends.
func TestYield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := admit.New(1)
		compute := func(turn *admit.Turn) (err error) {
			for range 100 {
				time.Sleep(500 * time.Microsecond)
				if err = turn.Yield(t.Context()); err != nil {
					return err
				}
			}
			return nil
		}
		holder, refused, backup := p.Turn(admit.Locking), p.Turn(admit.Reading), p.Turn(admit.Reading)
		if err := compute(&holder); err != nil {
			t.Fatal(err)
		}
		most := p.Most
		p.Most = 0 // nobody may queue
		ctx, stop := context.WithCancel(t.Context())
		busy := make(chan struct{})
		go func() {
			defer close(busy)
			for ctx.Err() == nil {
				time.Sleep(100 * time.Microsecond)
				if err := holder.Yield(ctx); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
			holder.End()
		}()
		if compute(&refused) == nil {
			t.Fatal("a statement was not refused: this tests nothing")
		}
		short, cancel := context.WithTimeout(t.Context(), 3*askAgain)
		defer cancel()
		var err error
		for err == nil {
			time.Sleep(500 * time.Microsecond)
			err = Yield(short, &backup)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a backup that waits for its turn: %v", err)
		}
		stop()
		<-busy
		p.Most = most
		for range 100 {
			time.Sleep(500 * time.Microsecond)
			if err := Yield(t.Context(), &backup); err != nil {
				t.Fatalf("a backup that nobody holds up: %v", err)
			}
		}
	})
}
