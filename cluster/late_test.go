package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/health"
	"github.com/godwitdb/godwit/wire"
)

// TestLate: a node is as late as its round trips to a majority are, itself counted. What a path
// takes for good is usual after some minutes.
func TestLate(t *testing.T) {
	now := time.Unix(1000, 0)
	p := newPeers(1, func() time.Time { return now })
	now = now.Add(time.Second)
	nodes := []base.NodeID{1, 2, 3}
	// trips has nodes take so long to confirm, for a while; the result is what is found at the end.
	var own, others time.Duration
	trips := func(during time.Duration, take map[base.NodeID]time.Duration) {
		for end := now.Add(during); now.Before(end); now = now.Add(100 * time.Millisecond) {
			for n, d := range take {
				p.contacted(&wire.Heartbeat{Node: uint32(n), EchoNs: uint64(p.mono() - d)}, 0)
			}
			own, others = p.late(nodes)
		}
	}
	check := func(what string, wantOwn, wantOthers time.Duration) {
		t.Helper()
		if own != wantOwn || others != wantOthers {
			t.Errorf("%s: late by %v, the others by %v; want %v, %v", what, own, others, wantOwn, wantOthers)
		}
	}
	const ms = time.Millisecond
	type by = map[base.NodeID]time.Duration
	trips(10*time.Second, by{2: 30 * ms, 3: 50 * ms})
	check("all as usual", 0, 0)
	trips(5*time.Second, by{2: 630 * ms, 3: 50 * ms})
	check("one is late", 0, 0)
	trips(100*ms, by{2: 630 * ms, 3: 450 * ms})
	check("one confirmation of the other one is late", 0, 0)
	trips(5*time.Second, by{2: 630 * ms, 3: 450 * ms})
	check("both are late", 400*ms, 0)
	p.get(2).lateness, p.get(3).lateness = 300*ms, 500*ms
	trips(100*ms, by{2: 630 * ms, 3: 450 * ms})
	check("and say so", 400*ms, 300*ms)
	trips(2*base.LeastFor+10*time.Second, by{3: 450 * ms})
	check("one is late for good, nothing is heard of the other one", 0, 300*ms)
	trips(300*ms, by{2: 2 * time.Second, 3: 2 * time.Second})
	check("it is heard of again, and has confirmed nothing yet", 0, 300*ms)
	if o, said := p.late(nodes[:2]); o != 0 || said != 0 {
		t.Errorf("of two nodes nobody can say which one is late: %v, %v", o, said)
	}
}

// TestFoundLate: a node is found late when most of the others find it late alone. One that finds
// all others late is late itself.
func TestFoundLate(t *testing.T) {
	const ms = time.Millisecond
	type by = map[base.NodeID]time.Duration
	for _, c := range []struct {
		what  string
		take  by // what nodes take to confirm, where 30 ms is usual
		say   map[base.NodeID][]base.NodeID
		finds []base.NodeID
		found []base.NodeID
	}{
		{what: "nobody is late", take: by{2: 200 * ms, 3: 30 * ms}},
		{what: "node 1 alone finds 2 late", take: by{2: 900 * ms, 3: 30 * ms}, finds: []base.NodeID{2}},
		{what: "node 3 does, too", take: by{2: 900 * ms, 3: 30 * ms}, say: map[base.NodeID][]base.NodeID{3: {2}},
			finds: []base.NodeID{2}, found: []base.NodeID{2}},
		{what: "node 3 alone finds 2 late", take: by{2: 30 * ms, 3: 30 * ms}, say: map[base.NodeID][]base.NodeID{3: {2}}},
		{what: "node 2 finds 3 late, which finds it late", take: by{2: 30 * ms, 3: 900 * ms},
			say: map[base.NodeID][]base.NodeID{3: {2}, 2: {3}}, finds: []base.NodeID{3}, found: []base.NodeID{3}},
		{what: "both are late", take: by{2: 900 * ms, 3: 900 * ms}, say: map[base.NodeID][]base.NodeID{3: {2}}},
		{what: "two of four find 2 late", take: by{2: 900 * ms, 3: 30 * ms, 4: 30 * ms, 5: 30 * ms},
			say: map[base.NodeID][]base.NodeID{3: {2}}, finds: []base.NodeID{2}},
		{what: "three of four find 2 late", take: by{2: 900 * ms, 3: 30 * ms, 4: 30 * ms, 5: 30 * ms},
			say: map[base.NodeID][]base.NodeID{3: {2}, 5: {2}}, finds: []base.NodeID{2}, found: []base.NodeID{2}},
		{what: "node 2 is silent", take: by{3: 30 * ms}, finds: []base.NodeID{2}},
		{what: "node 2 is silent, and late for 3", take: by{3: 30 * ms}, say: map[base.NodeID][]base.NodeID{3: {2}},
			finds: []base.NodeID{2}, found: []base.NodeID{2}},
		{what: "what a silent node said does not count", take: by{2: 900 * ms}, say: map[base.NodeID][]base.NodeID{3: {2}},
			finds: []base.NodeID{3}},
		{what: "all are silent", take: by{}},
	} {
		now := time.Unix(1000, 0)
		p := newPeers(1, func() time.Time { return now })
		now = now.Add(time.Minute)
		nodes := []base.NodeID{1, 2, 3}
		if len(c.take) > 2 {
			nodes = append(nodes, 4, 5)
		}
		trip := func(n base.NodeID, d time.Duration) {
			p.contacted(&wire.Heartbeat{Node: uint32(n), EchoNs: uint64(p.mono() - d)}, 0)
		}
		for i := range 40 {
			for _, n := range nodes[1:] {
				if d, ok := c.take[n]; i < 10 {
					trip(n, 30*ms)
				} else if ok {
					trip(n, d)
				}
				p.get(n).finds = c.say[n]
			}
			now = now.Add(100 * ms)
			p.late(nodes)
		}
		finds := p.finds(nodes, health.TooOld, health.LateTimes)
		if found := p.foundLate(nodes); !slices.Equal(finds, c.finds) || !slices.Equal(found, c.found) {
			t.Errorf("%s: node 1 finds late %v, most find late %v", c.what, finds, found)
		}
	}
}

// TestPartedIsLate: a node that is silent is told of as late after 1.5 s, for which a detour to it
// may be looked for; after 1 s if none leads there.
func TestPartedIsLate(t *testing.T) {
	for _, parted := range []bool{false, true} {
		now := time.Unix(1000, 0)
		p := newPeers(1, func() time.Time { return now })
		nodes, from := []base.NodeID{1, 2, 3}, time.Time{}
		for i := 0; from.IsZero() || now.Sub(from) < 3*time.Second; i++ {
			now = now.Add(100 * time.Millisecond)
			for _, n := range nodes[1:] {
				if n == 3 || i < 20 {
					p.contacted(&wire.Heartbeat{Node: uint32(n), EchoNs: uint64(p.mono() - 30*time.Millisecond)}, 0)
				}
			}
			if i == 19 {
				from = now
			}
			if parted && i > 25 {
				p.detours(map[base.NodeID][]base.NodeID{2: nil}, []base.NodeID{2})
			}
			p.late(nodes)
			if len(p.finds(nodes, health.TooOld, health.LateTimes)) > 0 {
				break
			}
		}
		want := silentLong
		if parted {
			want = heardLately
		}
		if d := now.Sub(from); d <= want || d > want+200*time.Millisecond {
			t.Errorf("a node that is silent, and parted %v, is late after %v", parted, d)
		}
	}
}

// TestDetourIsNotLate: a peer has confirmed nothing while the path to it was cut, and a detour has
// begun. It is late only if it does not confirm what makes the detour.
func TestDetourIsNotLate(t *testing.T) {
	for _, confirms := range []bool{true, false} {
		now := time.Unix(1000, 0)
		p := newPeers(1, func() time.Time { return now })
		nodes, last := []base.NodeID{1, 2, 3}, time.Duration(0)
		hears := func(confirmed time.Duration) (by time.Duration) {
			now = now.Add(100 * time.Millisecond)
			for _, n := range nodes[1:] {
				p.contacted(&wire.Heartbeat{Node: uint32(n), EchoNs: uint64(confirmed)}, 0)
			}
			by, _ = p.late(nodes)
			return by
		}
		for range 20 {
			last = p.mono()
			hears(last)
		}
		cut, most := time.Duration(0), time.Duration(0)
		for range 8 { // the paths are cut, and the others are heard
			cut = hears(last)
		}
		p.detours(map[base.NodeID][]base.NodeID{2: {3, 2}, 3: {2, 3}}, nil)
		for i := range 20 {
			if confirms && i >= 4 {
				last = p.mono() - 200*time.Millisecond
			}
			most = max(most, hears(last))
		}
		if late := most > health.TooOld; late == confirms || cut == 0 {
			t.Errorf("late by %v without the paths, by %v on detours that reach the peers: %v", cut, most, confirms)
		}
		p.detours(nil, nil)
		if x := p.get(2); !x.contact.detour.IsZero() {
			t.Error("the detour does not end")
		}
	}
}
