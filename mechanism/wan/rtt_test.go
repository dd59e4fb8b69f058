package wan

import (
	"testing"
	"time"
)

func TestRTT(t *testing.T) {
	var r RTT
	if r.Known() {
		t.Error("no sample yet")
	}
	r.Echo(130*time.Millisecond, 20*time.Millisecond, 10*time.Millisecond)
	if r.SRTT != 100*time.Millisecond || r.Var != 50*time.Millisecond || r.Min() != 100*time.Millisecond ||
		r.OneWay() != 50*time.Millisecond {
		t.Errorf("%+v", r)
	}
	r.Add(180 * time.Millisecond)
	if r.SRTT != 110*time.Millisecond || r.Var != 57500*time.Microsecond || r.Last != 180*time.Millisecond {
		t.Errorf("%+v", r)
	}
	r.Add(-1)
	r.Echo(time.Second, 0, 0)
	if r.N != 2 {
		t.Error("nonsense was counted")
	}
	// A path that became longer is noticed, in the mean soon and in the minimum after two windows.
	for range 2 * rttWindow {
		r.Add(200 * time.Millisecond)
	}
	if r.Min() != 200*time.Millisecond || r.SRTT < 199*time.Millisecond || r.Var > time.Millisecond {
		t.Errorf("%+v", r)
	}
	if d := r.Timeout(10 * time.Millisecond); d < 209*time.Millisecond || d > 211*time.Millisecond {
		t.Error(d)
	}
}

// A path that was slow is as fast as before in less than five seconds, however often it is
// measured.
func TestRTTComesDown(t *testing.T) {
	const ms = time.Millisecond
	for _, every := range []time.Duration{20 * ms, 100 * ms, 400 * ms} {
		var r RTT
		now := time.Second
		for range 1000 {
			now += every
			r.Echo(now, now-1400*ms, 0)
		}
		for end := now + 5*time.Second; now < end; now += every {
			r.Echo(now, now-45*ms, 0)
		}
		if r.SRTT > 50*ms {
			t.Errorf("measured each %v the smoothed round trip is still %v", every, r.SRTT)
		}
	}
}
