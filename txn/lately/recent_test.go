package lately

import (
	"testing"
	"time"
)

// TestRecent: an estimate is the largest measurement but one, and none is older than four seconds.
func TestRecent(t *testing.T) {
	var r Recent
	start := time.Now()
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	want := func(when float64, most, nearly time.Duration) {
		t.Helper()
		if m, n := r.Most(at(when)), r.Nearly(at(when)); m != most || n != nearly {
			t.Errorf("after %v s: most %v, nearly %v; want %v and %v", when, m, n, most, nearly)
		}
	}
	want(0, 0, 0)
	r.Add(at(0), 9)
	want(0.1, 9, 9)
	for range 8 {
		r.Add(at(1), 2)
	}
	want(1, 9, 2)
	r.Add(at(2.5), 7)
	want(2.5, 9, 7)
	want(4.4, 7, 7)
	want(6.5, 0, 0)
	r.Add(at(100), 3)
	want(100, 3, 3)
	want(104, 0, 0)
}

// TestUsual: a few slow commits of many hardly change the average. A lasting change soon changes
// it. A pause makes it forgotten.
func TestUsual(t *testing.T) {
	var r Recent
	start := time.Now()
	for i := range 64 {
		r.Add(start, 10*time.Millisecond)
		if i%25 == 20 {
			r.Add(start, 80*time.Millisecond)
		}
	}
	if u := r.Usual(start); u < 10*time.Millisecond || u > 12*time.Millisecond {
		t.Errorf("usual with a few slow ones: %v", u)
	}
	for range 32 {
		r.Add(start, 80*time.Millisecond)
	}
	if u := r.Usual(start); u < 75*time.Millisecond {
		t.Errorf("usual when all are slow: %v", u)
	}
	if u := r.Usual(start.Add(2 * Lasts)); u != 0 {
		t.Errorf("usual after a long time: %v", u)
	}
}
