package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/wire"
)

// TestPeerStartedAgain: a new process of a peer is told from the old one, so that round trips are
// measured with it at once and what the old one left behind is known to be over.
func TestPeerStartedAgain(t *testing.T) {
	now := time.Now()
	p := newPeers(1, func() time.Time { return now })
	const silent = time.Second
	old := now
	p.heard(&wire.Heartbeat{Node: 2, Seq: 500, SentNs: uint64(time.Hour)}, false)
	now = now.Add(100 * time.Millisecond)
	p.heard(&wire.Heartbeat{Node: 2, Seq: 503, SentNs: uint64(time.Hour + 100*time.Millisecond)}, false)
	if p.gone(2, old, silent) {
		t.Error("a peer that speaks is taken for dead")
	}
	now = now.Add(300 * time.Millisecond)
	between := now
	now = now.Add(100 * time.Millisecond)
	p.heard(&wire.Heartbeat{Node: 2, Seq: 7, SentNs: 20}, false)
	if !p.gone(2, between, silent) {
		t.Error("what the old process said before the new one spoke counts as alive")
	}
	now = now.Add(50 * time.Millisecond)
	if p.gone(2, now, silent) {
		t.Error("the new process is taken for dead")
	}
	var probe wire.Heartbeat
	if p.probe(2, &probe); probe.EchoNs != 20 || probe.EchoDelayNs != uint64(50*time.Millisecond) {
		t.Errorf("the probe echoes %d after %d ns, not the new process", probe.EchoNs, probe.EchoDelayNs)
	}
	if now = now.Add(silent); !p.gone(2, now, silent) {
		t.Error("a silent peer is not taken for dead")
	}
}

// TestRows: nodes tell their round trips to all others, in few bytes, and the leader of a group
// puts them together.
func TestRows(t *testing.T) {
	now := time.Now()
	p := newPeers(1, func() time.Time { return now })
	for id := base.NodeID(2); id <= 7; id++ {
		p.get(id).rtt.Add(time.Duration(id) * 40 * time.Millisecond)
	}
	var without, with wire.Heartbeat
	p.addRow(&with)
	if n := with.SizeVT() - without.SizeVT(); n > 6*6 {
		t.Errorf("6 round trips take %d bytes", n)
	}
	leader := newPeers(1, func() time.Time { return now })
	with.Node = 1
	leader.heard(&with, false)
	for id := base.NodeID(2); id <= 7; id++ {
		if d := leader.between(9, 1, id); d != time.Duration(id)*40*time.Millisecond {
			t.Errorf("from 1 to %d: %v", id, d)
		}
	}
	if d := leader.between(9, 2, 3); d >= 0 {
		t.Errorf("nobody has told, but it is %v", d)
	}
	if d := p.between(1, 1, 4); d != 160*time.Millisecond {
		t.Errorf("its own: %v", d)
	}
}

// TestDisbelievedLeads: of a sender whose clock disagrees with this node's nothing is taken that
// rests on the time, but where it leads (MODE-9).
func TestDisbelievedLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, topo(1, 1, 1, 1))
		defer w.close()
		time.Sleep(5 * time.Second)
		c := w.nodes[1].cluster
		const g = base.GroupID(77)
		for i, off := range []time.Duration{0, time.Second} {
			latest := base.FromTime(time.Now().Add(off))
			m := &wire.Heartbeat{Node: 3, Seq: 1 << 40, SentNs: 1 << 50, Now: uint64(latest),
				Leads: []*wire.GroupLead{{Group: uint32(g), Term: uint64(i + 1), Closed: uint64(latest)}},
				Clock: &wire.ClockReport{Mode: uint32(clock.GClock), Epoch: 1, Life: 9, RawEarliest: uint64(latest),
					RawLatest: uint64(latest), Earliest: uint64(latest), Latest: uint64(latest)}}
			body, err := m.MarshalVT()
			if err != nil {
				t.Fatal(err)
			}
			c.onHeartbeat(3, body)
			closed, _ := c.dir.Closed(g)
			if taken := closed == latest || w.nodes[1].closed == latest; taken != (off == 0) {
				t.Errorf("a sender that is %v ahead: closed timestamp taken: %v", off, taken)
			}
			if n := c.dir.Leader(g); n != 3 {
				t.Errorf("a sender that is %v ahead: it is not known to lead", off)
			}
			if c.clock.Seen() >= base.FromTime(time.Now().Add(500*time.Millisecond)) {
				t.Errorf("a sender that is %v ahead lifts this node's clock", off)
			}
		}
	})
}

// TestLost: a peer is lost when for a while its heartbeats do not come, or do not say that ours do;
// a node that has slept judges nobody for as long, and a path that varies is given more time.
func TestLost(t *testing.T) {
	const (
		every = 100 * time.Millisecond
		after = 1500 * time.Millisecond
		life  = 7
	)
	now := time.Now()
	p := newPeers(1, func() time.Time { return now })
	seq := uint64(0)
	// beats lets time pass; in: the peer's heartbeats come, out: they confirm ours.
	confirmed := uint64(0)
	beats := func(d time.Duration, in, out bool) {
		for end := now.Add(d); now.Before(end); {
			now = now.Add(every)
			p.awake(every)
			if out {
				confirmed = uint64(p.mono())
			}
			if in {
				seq++
				p.contacted(&wire.Heartbeat{Node: 2, Seq: seq,
					Clock: &wire.ClockReport{EchoLife: life, EchoSent: confirmed}}, life)
			}
		}
	}
	want := func(what string, want bool) {
		t.Helper()
		if got := p.lost(after)[2]; got != want {
			t.Errorf("%s: lost %v", what, got)
		}
	}
	beats(time.Minute, false, false)
	want("never heard of", false)
	beats(time.Minute, true, false)
	want("heard of, which has not heard of us yet", false)
	beats(time.Second, true, true)
	want("both ways", false)
	beats(after, false, false)
	want("silent for not too long", false)
	beats(every, false, false)
	want("silent", true)
	beats(every, true, true)
	want("back", false)
	beats(after+every, true, false)
	want("one way only", true)
	beats(every, true, true)
	want("back again", false)
	now = now.Add(time.Minute)
	p.awake(every)
	want("we were stopped", false)
	beats(after, false, false)
	want("we have listened for as long", false)
	beats(every, false, false)
	want("and heard nothing", true)
	beats(every, true, true)
	p.get(2).rtt.Var = 150 * time.Millisecond
	beats(after+500*time.Millisecond, false, false)
	want("a path that varies", false)
	p.get(2).rtt.Var = time.Hour
	beats(600*time.Millisecond, false, false)
	want("within bounds", true)
	// What the process before us has sent says nothing.
	p.contacted(&wire.Heartbeat{Node: 3, Seq: 1, EchoNs: uint64(time.Hour * 1000),
		Clock: &wire.ClockReport{EchoLife: life + 1, EchoSent: 5}}, life)
	if d := p.get(3).contact.confirmed; d != 0 {
		t.Errorf("a heartbeat of another process counts as confirmed: %v", d)
	}
}

// TestReachOverDetour: while messages make a detour, and nothing measures the direct path, requests
// take as long as confirmations say, not as long as the direct path once took.
func TestReachOverDetour(t *testing.T) {
	const life = 7
	now := time.Now()
	p := newPeers(1, func() time.Time { return now })
	x := p.get(2)
	x.rtt.Add(2 * time.Millisecond)
	beats := func(late time.Duration, measured bool) {
		for range 100 {
			now = now.Add(100 * time.Millisecond)
			if measured {
				x.sampled = now
			}
			p.contacted(&wire.Heartbeat{Node: 2, Clock: &wire.ClockReport{EchoLife: life,
				EchoSent: uint64(p.mono() - late)}}, life)
		}
	}
	want := func(what string, least, most time.Duration) {
		t.Helper()
		if got, ok := p.reach(2); !ok || got < least || got > most {
			t.Errorf("%s: %v (known: %v), want %v to %v", what, got, ok, least, most)
		}
		if got, _ := p.rtt(2); got != 2*time.Millisecond {
			t.Errorf("%s: the direct path takes %v", what, got)
		}
	}
	beats(50*time.Millisecond, true)
	want("direct", 2*time.Millisecond, 2*time.Millisecond)
	beats(800*time.Millisecond, false)
	want("over other nodes", 790*time.Millisecond, 800*time.Millisecond)
	beats(50*time.Millisecond, true)
	want("direct again", 2*time.Millisecond, 2*time.Millisecond)
}

// TestGrace: a node that no longer leads has as long to answer as the paths between it, its
// successor and this node take, and what they vary; of many seconds only one counts.
func TestGrace(t *testing.T) {
	const ms = time.Millisecond
	now := time.Now()
	p := newPeers(1, func() time.Time { return now })
	e := &env{peers: p, pace: Pace{HeartbeatEvery: 100 * ms}}
	for id, d := range map[base.NodeID]time.Duration{2: 30 * ms, 3: 90 * ms} {
		x := p.get(id)
		x.heard, x.sampled = now, now
		x.rtt.Add(d)
		x.rtt.Var = 0
	}
	want := func(id base.NodeID, again bool, want time.Duration) {
		t.Helper()
		if got := e.Grace(id, again); got != want {
			t.Errorf("node %d, again %v: %v, want %v", id, again, got, want)
		}
	}
	want(2, false, (200+90+30)*ms)
	want(3, false, (200+90+90)*ms)
	want(3, true, 200*ms)
	want(4, false, (200+90)*ms+mostJitter)
	p.get(2).rtt.Var = 20 * ms
	want(2, false, (200+90+30+80)*ms)
	p.get(2).rtt.Var = time.Hour
	want(2, false, (200+90+30)*ms+mostJitter)
}

// TestPathOfSlowNode: a node that handles late what arrives is as near as before, so that it makes
// leases little longer (TIME-1a). A path that has become longer for good is noticed.
func TestPathOfSlowNode(t *testing.T) {
	now := time.Unix(100, 0)
	p := newPeers(1, func() time.Time { return now })
	x := p.get(2)
	sample := func(n int, d time.Duration) {
		for range n {
			now = now.Add(100 * time.Millisecond)
			x.heard = now
			x.sampled = now
			x.rtt.Add(d)
		}
	}
	sample(50, 30*time.Millisecond)
	sample(50, time.Second)
	if path, round := p.longestPath(), p.longest(); path != 30*time.Millisecond || round < 900*time.Millisecond {
		t.Errorf("the path takes %v and a round trip %v, want 30ms and about 1s", path, round)
	}
	sample(300, time.Second)
	if path := p.longestPath(); path != time.Second {
		t.Errorf("the path takes %v, want 1s", path)
	}
}

// TestProbesThatACutHeldUp: what a path kept back while it was cut arrives afterwards. The probes
// among it say for how long the path was cut, and the round trip stays what it was. One that has
// become longer, without a pause in what arrives, is measured.
func TestProbesThatACutHeldUp(t *testing.T) {
	const trip = 30 * time.Millisecond
	for _, name := range []string{"cut", "cut from here only"} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(100, 0)
			p := newPeers(1, func() time.Time { return now })
			seq := uint64(0)
			beat := func(echo time.Duration) { // what node 2 sends; echo is how old the probe is that it returns
				seq++
				m := &wire.Heartbeat{Node: 2, Seq: seq, SentNs: uint64(p.mono())}
				if echo > 0 {
					m.EchoNs = uint64(p.mono() - echo)
				}
				p.heard(m, false)
			}
			for range 50 {
				now = now.Add(100 * time.Millisecond)
				beat(trip)
			}
			for range 60 { // six seconds
				now = now.Add(100 * time.Millisecond)
				if name == "cut from here only" {
					beat(0)
				}
			}
			for late := 6 * time.Second; late > trip; late -= 100 * time.Millisecond {
				beat(late) // all at once
			}
			for range 10 {
				now = now.Add(100 * time.Millisecond)
				beat(trip)
				if d, _ := p.rtt(2); d != trip {
					t.Fatalf("the round trip is %v, want %v", d, trip)
				}
			}
			for range 50 {
				now = now.Add(100 * time.Millisecond)
				beat(20 * trip)
			}
			if d, _ := p.rtt(2); d < 19*trip {
				t.Errorf("the round trip is %v, want %v: the path is longer now", d, 20*trip)
			}
		})
	}
}
