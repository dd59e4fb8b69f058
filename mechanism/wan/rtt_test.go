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
	if r.SRTT != 100*time.Millisecond || r.Var != 50*time.Millisecond || r.Min() != 100*time.Millisecond || r.OneWay() != 50*time.Millisecond {
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
