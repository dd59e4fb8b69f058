package group

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestPace: snapshots of several streams take as long together as their bytes do at the rate, and
// what comes after a pause does not make up for it.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pace{rate: 1 << 20}
		send := func(chunks int) time.Duration {
			begin := time.Now()
			for range chunks {
				if err := p.wait(t.Context(), 256<<10); err != nil {
					t.Fatal(err)
				}
			}
			return time.Since(begin)
		}
		if d := send(41); d != 10*time.Second {
			t.Errorf("10 MiB take %s", d)
		}
		time.Sleep(time.Hour)
		if d := send(41); d != 10*time.Second {
			t.Errorf("10 MiB after a pause take %s", d)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.wait(ctx, 1); err == nil {
			t.Error("waits on although nobody wants it")
		}
		p.rate = 0
		if d := send(1000); d != 0 {
			t.Errorf("without a bound it takes %s", d)
		}
	})
}
