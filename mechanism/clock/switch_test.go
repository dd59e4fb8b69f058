package clock

import (
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

const ms = time.Millisecond

// good are the facts of three nodes with good clocks that have just spoken.
func good(m Mode, epoch uint64, now time.Time) *Facts {
	f := &Facts{Now: now, Mode: m, Epoch: epoch, Policy: DefaultPolicy(), Oracle: 1000, Lease: 5 * time.Second}
	for i := range 3 {
		f.Nodes = append(f.Nodes, NodeFacts{Node: base.NodeID(i + 1), Live: true, Voter: true, Heard: now, Mode: m, Epoch: epoch,
			Earliest: 2000, Latest: 3000, Seen: 2500, Bound: ms})
	}
	return f
}

func TestDecide(t *testing.T) {
	at := time.Now()
	for _, c := range []struct {
		name    string
		f       func() *Facts
		want    Mode
		blocked string
	}{
		{"all is well", func() *Facts { return good(GClock, 1, at) }, None, ""},
		{"a bound over the limit", func() *Facts {
			f := good(GClock, 1, at)
			f.Nodes[1].Bound = time.Second
			return f
		}, Dual, ""},
		{"a bound over the limit of a node that cannot issue", func() *Facts {
			f := good(GClock, 1, at)
			f.Nodes[1].Bound, f.Nodes[1].Live = time.Second, false
			return f
		}, None, ""},
		{"a fenced node", func() *Facts { f := good(GClock, 1, at); f.Nodes[0].Fenced = true; return f }, Dual, ""},
		{"two clocks that cannot both be right", func() *Facts {
			f := good(GClock, 1, at)
			f.Nodes[0].Unsure = true
			return f
		}, Dual, ""},
		{"a fenced node, but the operator insists", func() *Facts {
			f := good(GClock, 1, at)
			f.Nodes[0].Fenced, f.Policy.Mode = true, WantGClock
			return f
		}, None, ""},
		{"the operator wants GTM", func() *Facts { f := good(GClock, 1, at); f.Policy.Mode = WantGTM; return f }, Dual, ""},
		{"GTM, and the clocks have only just become good", func() *Facts { return good(GTM, 3, at) }, None, ""},
		{"GTM, and recovery takes no time", func() *Facts { f := good(GTM, 3, at); f.Policy.Recovery = 0; return f }, Dual, ""},
		{"GTM, the operator wants GClock, a node is fenced", func() *Facts {
			f := good(GTM, 3, at)
			f.Policy.Mode, f.Nodes[2].Fenced = WantGClock, true
			return f
		}, None, "fenced"},
		{"GTM, the oracle is ahead of the clocks", func() *Facts {
			f := good(GTM, 3, at)
			f.Policy.Mode, f.Oracle = WantGClock, base.Timestamp(time.Second)
			return f
		}, None, "ahead"},
		{"DUAL, a node has not taken it over", func() *Facts {
			f := good(Dual, 2, at)
			f.Nodes[1].Mode, f.Nodes[1].Epoch = GClock, 1
			return f
		}, None, "node 2"},
		{"DUAL of an earlier switch does not count",
			func() *Facts { f := good(Dual, 4, at); f.Nodes[1].Epoch = 2; return f }, None, "node 2"},
	} {
		var s Switch
		if o := s.Decide(c.f()); o.Mode != c.want || !strings.Contains(o.Blocked, c.blocked) ||
			(o.Blocked != "") != (c.blocked != "") {
			t.Errorf("%s: %+v, want %v, blocked %q", c.name, o, c.want, c.blocked)
		}
	}
}

// TestLeaveDual: what has to be true before DUAL ends, in both directions.
func TestLeaveDual(t *testing.T) {
	at := time.Now()
	step := func(s *Switch, after time.Duration, want Setting, change func(*Facts)) Order {
		f := good(Dual, 2, at.Add(after))
		f.Policy.Mode = want
		if change != nil {
			change(f)
		}
		return s.Decide(f)
	}
	var s Switch
	if o := step(&s, 0, WantGTM, nil); o.Mode != None {
		t.Fatalf("words of before all had taken DUAL over were good enough: %+v", o)
	}
	o := step(&s, 100*ms, WantGTM, func(f *Facts) { f.Nodes[2].Seen = 9999 })
	if o.Mode != GTM || o.Raise != 9999 {
		t.Fatalf("towards GTM: %+v", o)
	}

	s = Switch{}
	if o := step(&s, 0, WantGTM, func(f *Facts) {
		f.Nodes[2] = NodeFacts{Node: 3, Voter: true, Mode: GClock, Epoch: 1}
	}); o.Mode != None {
		t.Fatalf("no fresh word: %+v", o)
	}
	if o := step(&s, 100*ms, WantGTM, func(f *Facts) {
		f.Nodes[2] = NodeFacts{Node: 3, Voter: true, Mode: GClock, Epoch: 1}
	}); o.Mode != GTM {
		t.Fatalf("a lapsed node holds the switch up: %+v", o)
	}

	s = Switch{}
	wide := func(f *Facts) { f.Nodes[0].Bound = 200 * ms }
	step(&s, 0, WantGClock, wide)
	if o := step(&s, 399*ms, WantGClock, nil); o.Mode != None {
		t.Fatalf("twice the largest bound seen is not over: %+v", o)
	}
	if o := step(&s, 401*ms, WantGClock, func(f *Facts) { f.Oracle = 5000 }); o.Mode != GClock {
		t.Fatalf("what the oracle issues after all are in DUAL does not matter: %+v", o)
	}

	s = Switch{}
	step(&s, 0, WantGClock, nil)
	if o := step(&s, time.Second, WantGClock, func(f *Facts) { f.Nodes[1].Earliest = 1000 }); o.Mode != None ||
		!strings.Contains(o.Blocked, "node 2") {
		t.Fatalf("a clock below what the oracle issued: %+v", o)
	}
	if o := step(&s, 2*time.Second, Auto, func(f *Facts) { f.Nodes[1].Fenced = true }); o.Mode != GTM {
		t.Fatalf("a clock goes bad on the way to GClock: %+v", o)
	}
}

// TestStarterIsNotInDual is MODE-1c: a process that knew of no mode when it was heard last may have
// been told of the one before DUAL since. It is waited for, until it has taken DUAL over, or what
// it was told before gives it no right any more.
func TestStarterIsNotInDual(t *testing.T) {
	at := time.Now()
	for _, c := range []struct {
		after time.Duration
		takes bool
		want  Mode
	}{{100 * ms, false, None}, {4900 * ms, false, None}, {5100 * ms, false, GTM}, {200 * ms, true, GTM}} {
		var s Switch
		for _, after := range []time.Duration{0, c.after, c.after + 100*ms} {
			f := good(Dual, 2, at.Add(after))
			f.Policy.Mode = WantGTM
			if n := &f.Nodes[1]; !c.takes || after == 0 {
				n.Mode, n.Epoch, n.Heard = None, 0, at
			}
			if o := s.Decide(f); after > c.after && o.Mode != c.want {
				t.Errorf("after %v, taken over: %v: %+v, want %v", c.after, c.takes, o, c.want)
			}
		}
	}
}

// TestRaiseIsContained: neither one node's fast clock nor what it has seen lifts the oracle by more
// than ten seconds above what most voters' clocks can say, and the oracle is not left behind these
// (MODE-10).
func TestRaiseIsContained(t *testing.T) {
	at := time.Now()
	for _, c := range []struct {
		name    string
		change  func(*Facts)
		want    base.Timestamp
		blocked bool
	}{
		{"what was seen", func(f *Facts) { f.Nodes[2].Seen = 9999 }, 9999, false},
		{"an hour ahead", func(f *Facts) { f.Nodes[2].Seen = base.Timestamp(time.Hour) },
			base.Timestamp(3000).Add(maxAhead), false},
		{"and a clock to go with it", func(f *Facts) {
			f.Nodes[2].Seen, f.Nodes[2].Latest = base.Timestamp(time.Hour), base.Timestamp(time.Hour)
		}, base.Timestamp(3000).Add(maxAhead), false},
		{"nothing was seen", func(f *Facts) {
			for i := range f.Nodes {
				f.Nodes[i].Seen, f.Nodes[i].Fenced = 0, true
			}
			f.Nodes[0].Latest = base.Timestamp(time.Hour)
		}, 3000, false},
		{"one voter of three is heard", func(f *Facts) { f.Nodes[0].Live, f.Nodes[1].Live = false, false }, 0, true},
	} {
		var s Switch
		f := good(Dual, 2, at)
		f.Policy.Mode = WantGTM
		s.Decide(f)
		f = good(Dual, 2, at.Add(100*ms))
		f.Policy.Mode = WantGTM
		c.change(f)
		if o := s.Decide(f); o.Raise != c.want || (o.Blocked != "") != c.blocked {
			t.Errorf("%s: %+v, want %d", c.name, o, c.want)
		}
	}
}

// TestRecovery: the cluster returns by itself once all bounds have been good for long enough,
// without a break; twice as long after a relapse, and as long as at first once that is long ago.
func TestRecovery(t *testing.T) {
	at := time.Now()
	var s Switch
	look := func(after time.Duration, bound time.Duration) Mode {
		f := good(GTM, 3, at.Add(after))
		f.Nodes[0].Bound = bound
		return s.Decide(f).Mode
	}
	for _, c := range []struct {
		after, bound time.Duration
		want         Mode
	}{{0, time.Second, None}, {time.Second, ms, None}, {3900 * ms, ms, None}, {4000 * ms, ms, Dual},
		{11900 * ms, time.Second, None}, {13 * time.Second, ms, None}, {18900 * ms, ms, None}, {19 * time.Second, ms, Dual},
		{26900 * ms, time.Second, None}, {28 * time.Second, ms, None}, {39900 * ms, ms, None}, {40 * time.Second, ms, Dual},
		{48 * time.Second, time.Second, None}, {49 * time.Second, ms, None}, {51900 * ms, ms, None}, {52 * time.Second, ms, Dual},
		{time.Hour, time.Second, None}, {time.Hour + time.Second, ms, None}, {time.Hour + 4*time.Second, ms, Dual}} {
		if got := look(c.after, c.bound); got != c.want {
			t.Errorf("after %s: %v, want %v", c.after, got, c.want)
		}
	}
}

func TestJudge(t *testing.T) {
	at := base.Timestamp(time.Hour)
	same, masked := Sight{Lo: -5 * ms, Hi: 5 * ms}, Sight{Lo: -100 * ms, Hi: 100 * ms}
	slow := Sight{Lo: 28 * ms, Hi: 32 * ms} // this clock is 30 ms behind
	lead := func(s Sight) Sight { s.Leader = true; return s }
	for _, c := range []struct {
		name   string
		sights []Sight
		leads  bool
		want   Verdict
	}{
		{"alone", nil, false, Fine},
		{"all agree", []Sight{same, same}, false, Fine},
		{"both others disagree", []Sight{slow, slow}, false, Wrong},
		{"both others disagree with the leader", []Sight{slow, slow}, true, Wrong},
		{"one of two is wrong, it is not this one", []Sight{slow, same}, false, Fine},
		{"two nodes: the leader is believed", []Sight{lead(slow)}, false, Wrong},
		{"two nodes: this is the leader", []Sight{slow}, true, Fine},
		{"two near ones differ, the rest is too far to tell", []Sight{slow, masked}, false, Unsure},
		{"as before, and the leader is the near one", []Sight{lead(slow), masked}, false, Wrong},
		{"others disagree, also with each other", []Sight{slow, {Lo: 500 * ms, Hi: 501 * ms}}, false, Unsure},
		{"as before, and one has just started", []Sight{slow, See(at.Add(21*ms), at.Add(23*ms), at.Add(ms), 0)}, false, Unsure},
		{"one is alone against a clock that has just started",
			[]Sight{See(at.Add(21*ms), at.Add(23*ms), at.Add(ms), 0)}, false, Fine},
	} {
		if got, off := Judge(c.sights, c.leads); got != c.want || got == Wrong && off != 28*ms {
			t.Errorf("%s: %v by %v, want %v", c.name, got, off, c.want)
		}
	}
	// A heartbeat that takes 10 ms each way between clocks off by 2 ms tells nothing; one off by 30
	// ms is found out.
	see := func(off time.Duration) Sight {
		peer := at.Add(off)
		return See(peer.Add(-ms), peer.Add(ms), at.Add(10*ms+ms), at.Add(-10*ms-ms))
	}
	if s := see(2 * ms); !s.has(0) {
		t.Errorf("2 ms are seen over a path of 10 ms: %+v", s)
	}
	if s := see(30 * ms); s.Lo <= 0 {
		t.Errorf("a peer 30 ms ahead is not seen: %+v", s)
	}
	if s := see(-30 * ms); s.Hi >= 0 {
		t.Errorf("a peer 30 ms behind is not seen: %+v", s)
	}
}

// TestWideBoundHoldsNobodyUp: while the cluster is in DUAL towards GTM a clock that was 65 s wrong
// is corrected, and its bound covers both times for a while. The cluster turns round when the
// clocks have been good for long enough, not 131 s later.
func TestWideBoundHoldsNobodyUp(t *testing.T) {
	at := time.Now()
	var s Switch
	look := func(after, bound time.Duration) Order {
		f := good(Dual, 2, at.Add(after))
		f.Nodes[2].Bound = bound
		return s.Decide(f)
	}
	f := good(Dual, 2, at)
	f.Nodes[1].Mode, f.Nodes[1].Epoch = GClock, 1 // and does not answer yet
	f.Nodes[2].Bound = 65 * time.Second
	if o := s.Decide(f); o.Mode != None || o.Blocked == "" {
		t.Fatalf("a node is missing: %+v", o)
	}
	recovery := DefaultPolicy().Recovery
	look(ms, ms) // all are in DUAL, and all clocks are good
	for d := 100 * ms; d < recovery+time.Second; d += 100 * ms {
		if look(d, ms).Mode == GClock {
			return
		}
	}
	t.Errorf("still in DUAL after %v: %+v", recovery+time.Second, look(recovery+time.Second, ms))
}
