package cluster

import (
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

// TestLate: a node is as late as its round trips to a majority are, itself counted. What a path
// takes for good is usual after some minutes.
func TestLate(t *testing.T) {
	now := time.Unix(1000, 0)
	p := newPeers(1, func() time.Time { return now })
	nodes := []base.NodeID{1, 2, 3}
	trips := func(n base.NodeID, d, during time.Duration) {
		x := p.get(n)
		for end := now.Add(during); now.Before(end); now = now.Add(100 * time.Millisecond) {
			x.rtt.Add(d)
			x.usual.add(now, d)
		}
	}
	check := func(what string, own, others time.Duration) {
		t.Helper()
		o, said := p.late(nodes)
		if o.Round(20*time.Millisecond) != own || said != others {
			t.Errorf("%s: late by %v, the others by %v; want %v, %v", what, o, said, own, others)
		}
	}
	trips(2, 30*time.Millisecond, 10*time.Second)
	trips(3, 50*time.Millisecond, 10*time.Second)
	check("all as usual", 0, 0)
	trips(2, 630*time.Millisecond, 5*time.Second)
	check("one is late", 0, 0)
	trips(3, 450*time.Millisecond, 100*time.Millisecond)
	check("one answer of the other one is late", 60*time.Millisecond, 0)
	trips(3, 450*time.Millisecond, 5*time.Second)
	check("both are late", 400*time.Millisecond, 0)
	p.get(2).lateness, p.get(3).lateness = 300*time.Millisecond, 500*time.Millisecond
	check("and say so", 400*time.Millisecond, 300*time.Millisecond)
	trips(3, 450*time.Millisecond, 2*usualFor+10*time.Second)
	check("one is late for good", 0, 300*time.Millisecond)
	if o, said := p.late(nodes[:2]); o != 0 || said != 0 {
		t.Errorf("of two nodes nobody can say which one is late: %v, %v", o, said)
	}
}
