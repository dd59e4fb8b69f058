package wan

import (
	"math"
	"testing"
	"time"
)

// TestPackets: what was sent lately is what was sent in one to two windows, and the kernel's
// counters of 32 bits may wrap.
func TestPackets(t *testing.T) {
	var p packets
	at := time.Unix(1000, 0)
	check := func(after time.Duration, sent, lately uint64) {
		t.Helper()
		if all, again, l := p.read(at.Add(after)); all != sent || l.Sent != lately || again != all/10 || l.Resent != lately/10 {
			t.Errorf("after %s: %d sent, %d again, lately %v; want %d and %d", after, all, again, l, sent, lately)
		}
	}
	p.add(at, 100, 10)
	check(lossWindow-1, 100, 100)
	p.add(at.Add(lossWindow), 50, 5)
	check(2*lossWindow-1, 150, 150)
	check(2*lossWindow, 150, 50)
	check(4*lossWindow, 150, 0)
	p.add(at.Add(9*lossWindow), 20, 2)
	check(9*lossWindow, 170, 20)

	var q packets
	var c counted
	c.note(&q, backoff{packets: math.MaxUint32 - 9, resent: 4})
	c.note(&q, backoff{}) // it was closed
	c.note(&q, backoff{packets: 5, resent: 6})
	if sent, resent, _ := q.read(time.Now()); sent != math.MaxUint32-9+15 || resent != 6 {
		t.Errorf("%d sent, %d again", sent, resent)
	}
}
