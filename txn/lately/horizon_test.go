package lately

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
)

// TestHorizon: the horizon is what owners of a region have needed, another one's do not matter, and
// a margin that no closed timestamp will grant is not waited for.
func TestHorizon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ms = time.Millisecond
		var h Horizon
		near, far := []base.GroupID{base.DataGroup(1, 1)}, []base.GroupID{base.DataGroup(1, 1), base.DataGroup(1, 2)}
		want := func(what string, got, want time.Duration) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
		want("at first", h.Get(time.Now(), far, 0, false), Margin)
		h.Needed(time.Now(), far[1], 1400*ms, true)
		want("far", h.Get(time.Now(), far, 0, false), 1400*ms)
		want("near", h.Get(time.Now(), near, 0, false), Margin)
		want("nothing known", h.Useful(time.Now(), 1400*ms), 1400*ms)
		h.Led(time.Now(), 240*ms)
		h.Led(time.Now(), 320*ms)
		want("useful", h.Useful(time.Now(), 1400*ms), 280*ms)
		for range 100 {
			h.Needed(time.Now(), far[1], 45*ms, false)
		}
		want("a refusal counts", h.Get(time.Now(), far, 0, false), 1400*ms)
		for i := range 100 {
			h.Needed(time.Now(), near[0], 30*ms, false)
			if i%25 == 0 {
				h.Needed(time.Now(), near[0], 400*ms, false)
			}
		}
		want("some are slow", h.Get(time.Now(), near, 0, false), 400*ms)
		if d := h.Get(time.Now(), near, 0, true); d < 60*ms || d > 80*ms {
			t.Errorf("a first try when some are slow: %v", d)
		}
		h.Needed(time.Now(), near[0], time.Minute, false)
		h.Needed(time.Now(), near[0], time.Minute, false)
		want("a bound", h.Get(time.Now(), near, 0, false), maxMargin)
		want("a first try of many writes", h.Get(time.Now(), far[:0], 200_000, true), Margin+200_000*perWriteFirst)
		want("a bound of large transactions", h.Get(time.Now(), near, 500_000, false), mostMargin)
		time.Sleep(4 * time.Second)
		want("forgotten", h.Get(time.Now(), far, 0, false), Margin)
		want("nothing is known again", h.Useful(time.Now(), 1400*ms), 1400*ms)
	})
}
