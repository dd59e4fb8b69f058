package base

import (
	"testing"
	"time"
)

// TestLeast: a small measurement counts for LeastFor, and not for twice as long.
func TestLeast(t *testing.T) {
	var l Least
	at := time.Unix(1000, 0)
	measure := func(d, during time.Duration) {
		for end := at.Add(during); at.Before(end); at = at.Add(time.Second) {
			l.Add(at, d)
		}
	}
	want := func(what string, want time.Duration) {
		t.Helper()
		if got := l.Least(); got != want {
			t.Errorf("%s: the least is %v, want %v", what, got, want)
		}
	}
	want("nothing", 0)
	measure(40*time.Millisecond, time.Second)
	measure(30*time.Millisecond, time.Second)
	want("two", 30*time.Millisecond)
	measure(90*time.Millisecond, LeastFor)
	want("one of long ago", 30*time.Millisecond)
	measure(90*time.Millisecond, LeastFor+time.Second)
	want("none of these", 90*time.Millisecond)
	measure(20*time.Millisecond, time.Second)
	want("less", 20*time.Millisecond)
}
