package overlay

import (
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

// TestLateLooks: a process that is woken late waits longer before it takes a link for cut, and no
// longer than others once it has been in time for a while.
func TestLateLooks(t *testing.T) {
	l := newLinks(1, 1)
	now, peers := time.Hour, []base.NodeID{1, 2}
	// silence is after how long without a word of node 2 its link is cut.
	silence := func() time.Duration {
		from := now
		for !l.peers[2].cut {
			now += watchEvery
			l.look(now, peers)
		}
		return now - from
	}
	good := func(d time.Duration) {
		for end := now + d; now < end; {
			now += watchEvery
			l.heard(2, now)
			l.look(now, peers)
		}
	}
	l.look(now, peers)
	good(time.Second)
	if d := silence(); d > cutAfter+watchEvery {
		t.Errorf("a link is cut after %v", d)
	}
	good(3 * time.Second)
	now += 400 * time.Millisecond
	l.heard(2, now)
	l.look(now, peers)
	if d := silence(); d < cutAfter+latePart*300*time.Millisecond {
		t.Errorf("behind a late look a link is cut after %v", d)
	}
	good(2*base.WorstFor + time.Second)
	if d := silence(); d > cutAfter+watchEvery {
		t.Errorf("long behind a late look a link is cut after %v", d)
	}
}
