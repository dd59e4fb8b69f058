package gauge

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestQuorumDelay: a commit is assigned ahead by what the last ones took, less twice the clock's
// bound: not before three were seen, not by more than the network explains, and not after a pause.
func TestQuorumDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q QuorumDelay
		is := func(why string, bound, want time.Duration) {
			t.Helper()
			if got := q.Ahead(bound); got != want {
				t.Errorf("%s: %v ahead, want %v", why, got, want)
			}
		}
		q.Took(60 * time.Millisecond)
		q.Took(60 * time.Millisecond)
		is("two commits", 0, 0)
		q.Took(60 * time.Millisecond)
		is("three commits", 0, 60*time.Millisecond)
		is("with a bound", 5*time.Millisecond, 50*time.Millisecond)
		is("with a bound that leaves nothing to gain", 30*time.Millisecond, 0)
		q.Took(40 * time.Millisecond)
		is("a fast commit counts at once", 0, 40*time.Millisecond)
		q.Took(10 * time.Second)
		is("a slow one counts little, and as 400 ms", 0, 40*time.Millisecond+360*time.Millisecond/16)
		q.Most = 50 * time.Millisecond
		is("no more than the network explains", 0, 50*time.Millisecond)
		time.Sleep(busyFor + 1)
		is("after a pause", 0, 0)
		q.Took(60 * time.Millisecond)
		is("one commit after a pause", 0, 0)
		q.Took(60 * time.Millisecond)
		q.Took(60 * time.Millisecond)
		is("the network's part outlasts the pause", 0, 50*time.Millisecond)
	})
}

// TestLag: the estimate begins with the first rise, follows later ones by a quarter, and ends five
// heartbeats after the closed timestamp should have risen.
func TestLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const every = 100 * time.Millisecond
		var l Lag
		if _, ok := l.Mean(every); ok {
			t.Error("there is an estimate before the closed timestamp has risen")
		}
		l.Rose(80 * time.Millisecond)
		l.Rose(40 * time.Millisecond)
		if d, ok := l.Mean(every); d != 70*time.Millisecond || !ok {
			t.Errorf("the mean is %v, %t", d, ok)
		}
		time.Sleep(570 * time.Millisecond)
		if _, ok := l.Mean(every); !ok {
			t.Error("the estimate ends too early")
		}
		time.Sleep(time.Nanosecond)
		if _, ok := l.Mean(every); ok {
			t.Error("the estimate outlasts the silence of the leader")
		}
	})
}

// TestLoads: requests are counted by who asks, and writes and those for whole tables besides.
func TestLoads(t *testing.T) {
	var l Loads
	a, b := Asker{Node: 1}, Asker{Region: 1}
	l.Note(a, false, false)
	l.Note(a, true, false)
	l.Note(b, true, true)
	if all := l.All(); len(all) != 2 || all[a] != (Load{2, 1, 0}) || all[b] != (Load{1, 1, 1}) {
		t.Errorf("counted %v", all)
	}
}
