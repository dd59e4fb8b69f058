package pace

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestPace: what passes is bounded over any time, by all who ask together; what is refused by a
// context ends at once.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Pace
		p.Set(1000)
		began := time.Now()
		done := make(chan struct{})
		for range 4 {
			go func() {
				for range 25 {
					if err := p.Wait(t.Context(), 100); err != nil {
						t.Error(err)
					}
				}
				done <- struct{}{}
			}()
		}
		for range 4 {
			<-done
		}
		if took := time.Since(began); took != 9900*time.Millisecond { // the last one passes before it is paid for
			t.Errorf("10,000 bytes at 1000 a second passed in %s", took)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		closing := errors.New("closing")
		cancel(closing)
		if err := p.Wait(ctx, 1); err != closing {
			t.Errorf("a wait of a context that has ended: %v", err)
		}
		p.Set(0)
		time.Sleep(time.Second)
		began = time.Now()
		if err := p.Wait(t.Context(), 1<<30); err != nil || time.Since(began) != 0 {
			t.Errorf("without a bound it took %s, %v", time.Since(began), err)
		}
		var none *Pace
		if err := none.Wait(t.Context(), 1); err != nil {
			t.Error(err)
		}
	})
}
