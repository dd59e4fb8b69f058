package overlay

import (
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

func TestRoute(t *testing.T) {
	p := Params{}.withDefaults()
	over := map[base.NodeID]time.Duration{2: 60 * ms, 3: 70 * ms, 4: 96 * ms}
	now := time.Hour
	var r route
	look := func(want decision) {
		t.Helper()
		if d := r.look(now, 100*ms, over, p); d != want {
			t.Fatalf("%v: look says %d instead of %d: %+v", now, d, want, r)
		}
	}
	sample := func(gain time.Duration, want decision) {
		t.Helper()
		now += probeEvery
		if d := r.sample(now, 100*ms, gain, p); d != want {
			t.Fatalf("%v: a gain of %v makes %d instead of %d: %+v", now, gain, d, want, r)
		}
	}
	use := func() {
		t.Helper()
		look(stay)
		for range 12 {
			sample(40*ms, stay)
		}
		sample(40*ms, begin)
		r.used(true, false, now)
	}
	use()
	if r.relay != 2 {
		t.Fatalf("%+v", r)
	}
	// One bad probe is nothing; two in a row are too many.
	sample(-50*ms, stay)
	sample(40*ms, stay)
	sample(-50*ms, stay)
	sample(-50*ms, fail)
	r.used(false, true, now)
	// It rests, and the next best is looked at; after a while it is the best again.
	look(stay)
	if r.relay != 3 {
		t.Fatalf("%+v", r)
	}
	now += 2 * time.Second
	use()
	if r.relay != 2 {
		t.Fatalf("%+v", r)
	}
	// A rival must be better by the margin, and for the window.
	over[3] = 57 * ms
	now += time.Minute
	look(stay)
	now += time.Minute
	look(stay)
	over[3] = 40 * ms
	look(stay)
	now += time.Second
	look(stay)
	now += 2 * time.Second
	look(end)
	r.used(false, false, now)
	use()
	if r.relay != 3 {
		t.Fatalf("%+v", r)
	}
	// Without a gain for the window it is given up, without blame.
	for range 40 {
		if now += probeEvery; r.sample(now, 100*ms, 0, p) == end {
			r.used(false, false, now)
			break
		}
	}
	if r.inUse || !r.rests.Usable(3, now) {
		t.Fatalf("%+v", r)
	}
	// What pays now and then does not pay.
	look(stay)
	for range 40 {
		sample(30*ms, stay)
		sample(-60*ms, stay)
	}
}
