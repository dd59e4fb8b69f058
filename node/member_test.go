package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/txn"
)

// holds reports what a node has of a shard: open replicas, and rows in its store.
func (p *proc) holds(t *testing.T, s base.ShardID) (groups, rows int) {
	t.Helper()
	for _, g := range p.n.reps.Held() {
		if g.Shard() == s {
			groups++
		}
	}
	rd := p.n.store.NewReader()
	defer rd.Close()
	prefix := base.IndexPrefix(s, 0, 0, 0)[:base.ShardPrefixLen]
	it := rd.Iter(base.Span{Start: prefix, End: prefix.PrefixEnd()}, base.MaxTimestamp, store.IterOptions{KeysOnly: true})
	defer it.Close()
	for it.Next() {
		rows++
	}
	if it.Err() != nil {
		t.Fatal(it.Err())
	}
	return groups, rows
}

// moved waits until a node holds exactly the shards that the topology gives it, and the data of no
// other.
func (p *proc) moved(t *testing.T, top *base.Topology) {
	t.Helper()
	until(t, fmt.Sprintf("node %d", p.n.ID()), func() string {
		for s := 1; s <= top.Shards; s++ {
			groups, rows := p.holds(t, base.ShardID(s))
			if slices.Contains(top.Replicas[s-1], p.n.ID()) {
				if groups != len(top.Regions) || rows == 0 {
					return fmt.Sprintf("shard %d should be here: %d groups, %d rows", s, groups, rows)
				}
			} else if groups+rows > 0 {
				return fmt.Sprintf("shard %d should be gone: %d groups, %d rows", s, groups, rows)
			}
		}
		return ""
	})
}

// spread waits until nothing is wrong, every group is led from home, and every node leads some.
func (p *proc) spread(t *testing.T) (s *cluster.Status) {
	t.Helper()
	until(t, "the leads to be spread", func() string {
		s = p.status(t)
		return strings.Join(append(s.Problems, astray(s)...), "\n")
	})
	return s
}

// astray says what is led from the wrong place.
func astray(s *cluster.Status) (why []string) {
	for _, g := range s.Groups {
		if g.Home != "" && s.Topology.RegionName(s.Topology.RegionOf(g.Leader)) != g.Home {
			why = append(why, fmt.Sprintf("group %s is led by node %d, away from %s", g.Name, g.Leader, g.Home))
		}
	}
	for _, n := range s.Nodes {
		if shardsAt(s, n.ID) > 0 && n.Leads == 0 {
			why = append(why, fmt.Sprintf("node %d holds %d shards and leads nothing", n.ID, shardsAt(s, n.ID)))
		}
	}
	return why
}

// metaIs checks who votes and who learns in the meta group.
func metaIs(t *testing.T, s *cluster.Status, voters, learners []base.NodeID) {
	t.Helper()
	g := s.Groups[0]
	if !slices.Equal(slices.Sorted(slices.Values(g.Voters)), voters) ||
		!slices.Equal(slices.Sorted(slices.Values(g.Learners)), learners) {
		t.Errorf("the meta group has voters %v and learners %v, want %v and %v", g.Voters, g.Learners, voters, learners)
	}
}

// A node joins a region and is given a shard; taken out again, it gives it
// back to where it came from. Another one joins, and the region's first node is taken out.
func TestAddAndDecommission(t *testing.T) {
	t.Parallel() // it waits, most of the time
	w := newWorld(t, cfgs{}, "eu", "us", "asia")
	w.procs[0].settled(t)
	l := startLoad(t, w, 1)
	first := w.proc(t, "us")
	for _, leaver := range []*proc{nil, first} {
		added := w.add(t, "us")
		until(t, "the new node to be given one shard of two", func() string {
			if s := w.procs[0].status(t); shardsAt(s, added.n.ID()) != 1 {
				return fmt.Sprint(s.Topology.Replicas)
			}
			return ""
		})
		s := w.procs[0].spread(t)
		metaIs(t, s, []base.NodeID{1, 2, 3}, []base.NodeID{added.n.ID()})
		for _, p := range w.procs {
			if p.up() {
				p.moved(t, &s.Topology)
			}
		}
		l.progress(t)

		stays := first
		if leaver == nil {
			leaver = added
		} else {
			stays = added
		}
		if err := w.procs[0].decommission(t, leaver.n.ID()); err != nil {
			t.Fatal(err)
		}
		leaver.ends(t, "was decommissioned and holds no replica any more")
		s = w.procs[0].spread(t)
		metaIs(t, s, slices.Sorted(slices.Values(s.Topology.MetaVoters)), nil)
		if slices.Contains(s.Topology.MetaVoters, leaver.n.ID()) || len(s.Topology.MetaVoters) != 3 {
			t.Errorf("meta voters are %v", s.Topology.MetaVoters)
		}
		stays.moved(t, &s.Topology)
		l.progress(t)

		leaver.start(t) // it comes back, but for its store it is over
		leaver.ends(t, "was decommissioned")
		if err := w.procs[0].decommission(t, leaver.n.ID()); err == nil || !strings.Contains(err.Error(), "already") {
			t.Errorf("a second decommission: %v", err)
		}
	}
	l.finish(t)
}

// ends waits until a node has given up by itself, and stops what is left.
func (p *proc) ends(t *testing.T, want string) {
	t.Helper()
	select {
	case err := <-p.n.Failed():
		if !strings.Contains(err.Error(), want) {
			t.Errorf("node %d ended with %v, want %q", p.n.ID(), err, want)
		}
	case <-time.After(patience):
		t.Fatalf("node %d does not end; it holds %v", p.n.ID(), p.n.reps.Held())
	}
	p.stop(t)
}

// proc is the first node of a region.
func (w *world) proc(t *testing.T, region string) *proc {
	t.Helper()
	for _, p := range w.procs {
		if p.cfg.Region == region {
			return p
		}
	}
	t.Fatalf("no node in %s", region)
	return nil
}

// The only node of a region dies for good: others lead its groups until a new one has joined and
// the dead one is taken out.
func TestReplaceDeadNode(t *testing.T) {
	t.Parallel() // it waits, most of the time
	w := newWorld(t, cfgs{}, "eu", "us", "asia")
	w.procs[0].settled(t)
	l := startLoad(t, w, 1)
	dead := w.proc(t, "asia")
	id := dead.n.ID()
	dead.kill(t)
	t.Logf("service for all again %v after the death", l.progress(t).Round(10*time.Millisecond))
	until(t, "status says what is wrong", func() string {
		all := strings.Join(w.procs[0].status(t).Problems, "\n")
		for _, want := range []string{fmt.Sprintf("node %d in asia", id), "region asia is down",
			"led by a stand-in outside of home asia"} {
			if !strings.Contains(all, want) {
				return fmt.Sprintf("no %q in\n%s", want, all)
			}
		}
		return ""
	})
	if err := w.procs[0].decommission(t, id); err == nil || !strings.Contains(err.Error(), "last of region asia") {
		t.Errorf("decommissioning the last node of a region: %v", err)
	}
	added := w.add(t, "asia")
	if err := w.procs[0].decommission(t, id); err != nil {
		t.Fatal(err)
	}
	s := w.procs[0].spread(t)
	added.moved(t, &s.Topology)
	metaIs(t, s, slices.Sorted(slices.Values(s.Topology.MetaVoters)), nil)

	// The dead rises: its replicas were removed while it was away.
	dead.start(t)
	dead.ends(t, "was decommissioned")
	l.progress(t)
	l.finish(t)
}

// One of two nodes of a region dies for good: its shard goes to the other.
func TestDecommissionDeadNode(t *testing.T) {
	t.Parallel() // it waits, most of the time
	w := newWorld(t, cfgs{}, "eu", "us", "us", "asia")
	w.procs[0].spread(t)
	l := startLoad(t, w, 1)
	dead := w.procs[1]
	dead.kill(t)
	t.Logf("service for all again %v after the death", l.progress(t).Round(10*time.Millisecond))
	until(t, "decommission", func() string { // refused until the groups have new leaders
		if err := w.procs[0].decommission(t, dead.n.ID()); err != nil {
			return err.Error()
		}
		return ""
	})
	s := w.procs[0].spread(t)
	w.procs[2].moved(t, &s.Topology)
	if err := w.procs[0].decommission(t, w.procs[2].n.ID()); err == nil || !strings.Contains(err.Error(), "last of region us") {
		t.Errorf("decommissioning the last node of a region: %v", err)
	}
	l.progress(t)
	l.finish(t)
}

// All nodes are restarted one after the other, one of them at another address; then all at once,
// all at other addresses.
func TestRestarts(t *testing.T) {
	t.Parallel() // it waits, most of the time
	w := newWorld(t, cfgs{}, "eu", "us", "asia")
	w.procs[0].settled(t)
	l := startLoad(t, w, 1)
	for i, p := range w.procs {
		p.stop(t)
		l.progress(t)
		if i == 1 {
			p.cfg.Listen, p.cfg.SQLListen = "127.0.0.1:0", "127.0.0.1:0"
		}
		p.start(t)
		p.ready(t)
		w.procs[(i+1)%3].spread(t)
		until(t, "the others know where it is", func() string { // it tells them once it can write
			if n := w.procs[(i+1)%3].settled(t).Topology.Node(p.n.ID()); n.Addr != p.n.Addr() || n.SQL != p.n.SQLAddr() {
				return fmt.Sprintf("node %d is known at %s and %s, but is at %s and %s", n.ID, n.Addr, n.SQL,
					p.n.Addr(), p.n.SQLAddr())
			}
			return ""
		})
	}
	l.progress(t)
	for _, p := range w.procs {
		p.kill(t)
	}
	for i, p := range w.procs {
		p.cfg.Listen, p.cfg.SQLListen = "127.0.0.1:0", "127.0.0.1:0"
		if p.cfg.Join = nil; i > 0 {
			p.cfg.Join = []string{w.procs[i-1].n.Addr()}
		}
		p.start(t)
	}
	for _, p := range w.procs {
		p.ready(t)
	}
	w.procs[0].spread(t)
	l.progress(t)
	l.finish(t)
}

// A node that was away while the others truncated their logs gets the whole shard.
func TestLaggardGetsSnapshot(t *testing.T) {
	t.Parallel() // it waits, most of the time
	w := newWorld(t, cfgs{tune: func(h *group.HostOptions, _ *owner.Config, _ *txn.Config) {
		h.LogKeepEntries, h.LogKeepBytes = 16, 64<<10
	}}, "eu", "us", "asia")
	w.procs[0].settled(t)
	l := startLoad(t, w, 1)
	lag := w.procs[2]
	lag.kill(t)
	g := base.DataGroup(1, w.procs[0].db().Region())
	at := w.procs[0].n.host.Group(g).Status().Last
	until(t, "the log is truncated", func() string {
		for _, p := range w.procs[:2] {
			if st := p.n.host.Group(g).Status(); st.First <= at+1 {
				return "it still reaches back"
			}
		}
		return ""
	})
	lag.start(t)
	lag.ready(t)
	w.procs[0].settled(t)
	if n := lag.n.host.Stats().SnapshotsReceived; n == 0 {
		t.Error("the laggard received no snapshot")
	}
	l.progress(t)
	l.finish(t)
}

// All nodes of a region vanish at once: the others go on, led by stand-ins, until the region is
// back.
func TestRegionLoss(t *testing.T) {
	t.Parallel() // it waits, most of the time
	w := newWorld(t, cfgs{}, "eu", "us", "us", "asia")
	s := w.procs[0].settled(t)
	l := startLoad(t, w, 1)
	begin := time.Now()
	for _, p := range w.procs[1:3] {
		p.kill(t)
	}
	took := l.progress(t)
	t.Logf("service for all again %v after the loss (leases last 3 s)", took.Round(10*time.Millisecond))
	until(t, "stand-ins", func() string {
		s = w.procs[0].status(t)
		if len(s.Groups) != 1+s.Topology.Shards*3 || slices.ContainsFunc(s.Groups,
			func(g cluster.GroupStatus) bool { return !g.Serving }) {
			return strings.Join(s.Problems, "\n")
		}
		return ""
	})
	t.Logf("every group is served again %v after the loss", time.Since(begin).Round(10*time.Millisecond))
	if err := w.procs[0].decommission(t, w.procs[1].n.ID()); err == nil ||
		!strings.Contains(err.Error(), "no other node of region us is alive") {
		t.Errorf("decommissioning one of two dead nodes of a region: %v", err)
	}
	for _, p := range w.procs[1:3] {
		p.start(t)
	}
	for _, p := range w.procs[1:3] {
		p.ready(t)
	}
	w.procs[0].spread(t)
	l.progress(t)
	l.finish(t)
}

// What cannot work says so at once.
func TestRefusals(t *testing.T) {
	w := newWorld(t, cfgs{}, "eu")
	other := newWorld(t, cfgs{}, "eu")
	fails := func(name string, cfg Config, want string) {
		t.Helper()
		cfg.Store = t.TempDir()
		p := &proc{cfg: cfg}
		p.start(t)
		defer p.stop(t)
		select {
		case err := <-p.n.Failed():
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", name, err)
			}
		case <-p.n.Ready():
			t.Errorf("%s: it started", name)
		case <-time.After(patience):
			t.Errorf("%s: it neither started nor failed", name)
		}
	}
	home := w.procs[0]
	fails("address of a living node", Config{Region: "eu", Listen: "127.0.0.1:0", SQLListen: "127.0.0.1:0",
		Advertise: home.n.Addr(), Join: []string{"localhost:" + port(home.n.Addr())}}, "already advertises")
	for _, c := range []Config{{Listen: home.n.Addr(), SQLListen: "127.0.0.1:0"},
		{Listen: "127.0.0.1:0", SQLListen: home.n.SQLAddr()}} {
		c.Region, c.Store = "eu", t.TempDir()
		if _, err := Start(t.Context(), c, home.n.log); err == nil || !strings.Contains(err.Error(), "address already in use") {
			t.Errorf("address in use: %v", err)
		}
	}
	// A member that is sent to another cluster.
	stray := other.procs[0]
	stray.stop(t)
	stray.cfg.Join = []string{home.n.Addr()}
	stray.start(t)
	select {
	case err := <-stray.n.Failed():
		if !strings.Contains(err.Error(), "correct its --join or its --store") {
			t.Errorf("wrong cluster: %v", err)
		}
	case <-time.After(patience):
		t.Error("a member of another cluster was not refused")
	}
	if err := home.decommission(t, 1); err == nil || !strings.Contains(err.Error(), "last of region") {
		t.Errorf("decommissioning the only node: %v", err)
	}
	if err := home.decommission(t, 77); err == nil || !strings.Contains(err.Error(), "no node 77") {
		t.Errorf("decommissioning nobody: %v", err)
	}
}

func port(addr string) string { return addr[strings.LastIndex(addr, ":")+1:] }
