package overlay

import (
	"math/rand/v2"
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

// TestHeals: a link on which reports come is whole again soon, though looks and reports are a few
// milliseconds early or late, as on every machine, and one report in ten comes 0.2 s late.
func TestHeals(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 100 {
		l := newLinks(1, 1)
		peers, now := []base.NodeID{1, 2}, time.Hour
		l.look(now, peers)
		for !l.peers[2].cut {
			now += watchEvery
			l.look(now, peers)
		}
		mended := now
		for next := now; l.peers[2].cut && now < mended+time.Minute; {
			now += watchEvery + time.Duration(r.IntN(5)-2)*time.Millisecond
			if now >= next {
				l.heard(2, now)
				next = now + tellEvery + time.Duration(r.IntN(20))*time.Millisecond
				if r.IntN(10) == 0 {
					next += 200 * time.Millisecond
				}
			}
			l.look(now, peers)
		}
		if d := now - mended; d > healedAfter+time.Second {
			t.Fatalf("a link is whole again %v after its mend", d)
		}
	}
}

// TestParted: no way leads to a node once each is known to have a link over which one end does not
// hear the other one. What is not known, or no more, is hoped for.
func TestParted(t *testing.T) {
	const now = time.Hour
	for _, c := range []struct {
		what    string
		unheard []base.NodeID                 // that node 1 does not hear
		says    map[base.NodeID][]base.NodeID // whom the others say that they do not hear
		healing bool                          // and have heard again just now
		age     time.Duration                 // of that
		parted  bool                          // node 4
	}{
		{what: "all is well"},
		{what: "nobody knows more", unheard: []base.NodeID{4}},
		{what: "it hears another one, which hears it", unheard: []base.NodeID{4}, says: map[base.NodeID][]base.NodeID{4: {1, 2}}},
		{what: "it hears nobody", unheard: []base.NodeID{4}, says: map[base.NodeID][]base.NodeID{4: {1, 2, 3}}, parted: true},
		{what: "it hears nobody, though node 1 hears it", says: map[base.NodeID][]base.NodeID{4: {1, 2, 3}}, parted: true},
		{what: "nobody hears it", unheard: []base.NodeID{4}, says: map[base.NodeID][]base.NodeID{2: {4}, 3: {4}}, parted: true},
		{what: "one way leads there and another one back", unheard: []base.NodeID{4},
			says: map[base.NodeID][]base.NodeID{2: {4}, 4: {3}}, parted: true},
		{what: "the way leads over one that hears nobody else", unheard: []base.NodeID{4, 2},
			says: map[base.NodeID][]base.NodeID{2: {1, 3}, 3: {4}}, parted: true},
		{what: "the way leads over two others", unheard: []base.NodeID{4, 2}, says: map[base.NodeID][]base.NodeID{3: {4}}},
		{what: "it hears the others again", unheard: []base.NodeID{4}, says: map[base.NodeID][]base.NodeID{4: {1, 2, 3}}, healing: true},
		{what: "that was long ago", unheard: []base.NodeID{4}, says: map[base.NodeID][]base.NodeID{4: {1, 2, 3}},
			age: freshFor + time.Millisecond},
	} {
		l := newLinks(1, 1)
		for id := base.NodeID(1); id <= 4; id++ {
			l.peers[id] = &link{heard: now}
		}
		for _, id := range c.unheard {
			*l.peers[id] = link{heard: now - time.Second, cut: true}
		}
		for id, cut := range c.says {
			r := linkReport{number: 1, at: now - c.age, cut: cut}
			if c.healing {
				r.healing = cut
			}
			l.reports[id] = r
		}
		if got := l.parted(4, now); got != c.parted {
			t.Errorf("%s: parted %v", c.what, got)
		}
	}
}
