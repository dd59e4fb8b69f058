package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// Partial partitions: each node reaches some of the others only. Whoever reaches a majority,
// directly or over others, must serve.

// What a partial partition may cost: how long rows may go without service, how long a statement may
// take, and how soon latency returns.
const (
	cutPause  = 3 * time.Second
	cutHang   = 5 * time.Second
	cutReturn = 10 * time.Second
)

// cutWork is what clients of one node do all the time with rows of one region.
type cutWork struct {
	at      int
	home    base.RegionID
	longest time.Duration // that a statement took
	pause   time.Duration // between two successes
	last    time.Time
	err     error
}

func (w *cutWork) String() string {
	return fmt.Sprintf("node %d, rows of region %d: pause %v, longest %v", w.at, w.home,
		w.pause.Round(time.Millisecond), w.longest.Round(time.Millisecond))
}

// cutLoad has each node write rows of its own region, and of the next one, until stop is called.
type cutLoad struct {
	mu   sync.Mutex
	all  []*cutWork
	stop func()
}

func (s *stage) cutLoad() *cutLoad {
	l := &cutLoad{}
	done, working := make(chan struct{}), new(sync.WaitGroup)
	l.stop = func() { close(done); working.Wait() }
	for _, h := range s.hosts {
		for _, home := range []base.RegionID{h.region, h.region%base.RegionID(len(s.hosts)) + 1} {
			w := &cutWork{at: int(h.id), home: home, last: time.Now()}
			l.all = append(l.all, w)
			working.Go(func() {
				k := s.key(home, 100+w.at)
				for {
					began := time.Now()
					ctx, cancel := context.WithTimeout(context.Background(), 2*cutHang)
					err := s.writeUnderSchema(kv.WithPatience(ctx, kv.NewPatience()), w.at, k)
					cancel()
					l.mu.Lock()
					w.longest, w.pause = max(w.longest, time.Since(began)), max(w.pause, time.Since(w.last))
					if err == nil {
						w.last = time.Now()
					} else {
						w.err = err
					}
					l.mu.Unlock()
					select {
					case <-done:
						return
					case <-time.After(50 * time.Millisecond):
					}
				}
			})
		}
	}
	return l
}

// during are the works while something goes on; what is still under way at its end counts.
func (l *cutLoad) during(fn func()) (out []cutWork) {
	l.mu.Lock()
	for _, w := range l.all {
		w.longest, w.pause, w.err = 0, 0, nil
	}
	l.mu.Unlock()
	fn()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.all {
		x := *w
		x.pause = max(x.pause, time.Since(x.last))
		out = append(out, x)
	}
	return out
}

// graph is the pairs of regions whose path is cut; with oneWay only from the first to the second.
// Those of first are cut three seconds before the others.
type graph struct {
	first, cut [][2]base.RegionID
	oneWay     bool
}

func (g graph) String() string {
	if g.oneWay {
		return fmt.Sprint("one way ", g.cut)
	}
	return fmt.Sprint(g.cut)
}

func (s *stage) play(g graph) {
	for _, c := range g.cut {
		if s.net.CutOneWay(c[0], c[1]); !g.oneWay {
			s.net.CutOneWay(c[1], c[0])
		}
	}
}

// reach is the regions that a region reaches over others, itself among them. A path that works in
// one direction only is none: on real networks nothing is acknowledged there.
func (g graph) reach(from base.RegionID, regions int) map[base.RegionID]bool {
	seen, next := map[base.RegionID]bool{from: true}, []base.RegionID{from}
	for len(next) > 0 {
		a := next[0]
		next = next[1:]
		for b := base.RegionID(1); int(b) <= regions; b++ {
			if !seen[b] && !slices.Contains(g.cut, [2]base.RegionID{a, b}) && !slices.Contains(g.cut, [2]base.RegionID{b, a}) {
				seen[b], next = true, append(next, b)
			}
		}
	}
	return seen
}

// judge plays cuts under load, and expects that regions of the majority go on; bad: that they do
// not.
func (s *stage) judge(l *cutLoad, g graph, bad bool) {
	s.t.Helper()
	regions := len(s.hosts)
	s.play(graph{cut: g.first})
	if len(g.first) > 0 {
		time.Sleep(3 * time.Second)
	}
	rights := map[int]time.Duration{}
	during := l.during(func() { s.play(g); rights = s.rights(12 * time.Second) })
	l.during(func() { s.net.HealAll(); time.Sleep(cutReturn) })
	hang := cutHang
	if bad { // a commit under way is never given up, and here it may have to wait for an election
		hang += 2 * time.Second
	}
	worst, slow := time.Duration(0), time.Duration(0)
	for _, w := range during {
		in := g.reach(base.RegionID(w.at), regions)
		if slow = max(slow, w.longest); w.longest > hang {
			s.t.Errorf("%v: %v: a statement hung", g, &w)
		}
		if 2*len(in) <= regions || !in[w.home] {
			continue
		}
		if w.pause > time.Second && s.verbose() {
			s.t.Logf("%v: %v (%v)", g, &w, w.err)
		}
		if worst = max(worst, w.pause); w.pause > cutPause && !bad {
			s.t.Errorf("%v: %v: no service (%v)", g, &w, w.err)
		}
	}
	least := time.Hour
	for n, left := range rights {
		if 2*len(g.reach(base.RegionID(n), regions)) > regions {
			least = min(least, left)
		}
	}
	s.t.Logf("%v: pause %v, longest statement %v, right %v", g, worst.Round(time.Millisecond),
		slow.Round(time.Millisecond), least.Round(time.Millisecond))
	if least <= 0 && !bad {
		s.t.Errorf("%v: a node that reaches a majority had no right to issue for %v", g, -least)
	}
	if bad && worst <= cutPause {
		s.t.Errorf("%v: without detours nobody pauses for more than %v", g, worst)
	}
}

// rights is for how long each node might still have issued, at least, while time goes by.
func (s *stage) rights(d time.Duration) map[int]time.Duration {
	least := map[int]time.Duration{}
	for _, h := range s.hosts {
		least[int(h.id)] = time.Hour
	}
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		for _, h := range s.hosts {
			least[int(h.id)] = min(least[int(h.id)], h.up().node.Cluster().Clock().Right)
		}
	}
	return least
}

// cutStage plays on regions of one node each, the meta group led by node 1, with latencies measured
// before and after.
func cutStage(t *testing.T, regions int, tune func(*Config), play func(s *stage, l *cutLoad)) {
	onStageTuned(t, regions, 1, func(cfg *Config) {
		cfg.Stay = true
		if tune != nil {
			tune(cfg)
		}
	}, func(s *stage) {
		for _, h := range s.hosts {
			for at := 1; at <= regions; at++ {
				s.put(int(h.id), s.key(h.region, 100+at), "new")
			}
			s.put(int(h.id), s.key(h.region, 99), "new")
		}
		s.move(base.MetaGroup, 1)
		time.Sleep(5 * time.Second)
		before := map[int]time.Duration{}
		for n := 1; n <= regions; n++ {
			before[n] = s.steady(n, s.key(base.RegionID(n), 99))
		}
		l := s.cutLoad()
		time.Sleep(2 * time.Second)
		play(s, l)
		l.stop()
		for _, n := range slices.Sorted(maps.Keys(before)) {
			if d := s.steady(n, s.key(base.RegionID(n), 99)); d > before[n]+before[n]/10+2*time.Millisecond {
				t.Errorf("node %d: a commit of own rows takes %v, where it took %v before the cuts", n, d, before[n])
			}
		}
	})
}

// TestOneLinkCut cuts one link of three regions while the third one reaches both ends, one way or
// both: rows of all regions go on.
func TestOneLinkCut(t *testing.T) {
	cutStage(t, 3, nil, func(s *stage, l *cutLoad) {
		for _, c := range [][2]base.RegionID{{1, 3}, {1, 2}, {2, 3}} {
			s.judge(l, graph{cut: [][2]base.RegionID{c}}, false)
		}
		for _, c := range [][2]base.RegionID{{1, 3}, {3, 1}, {2, 3}} {
			s.judge(l, graph{cut: [][2]base.RegionID{c}, oneWay: true}, false)
		}
	})
}

// star is the cuts that leave each region only the path to a hub; without leaves out others.
func star(regions int, hub base.RegionID, without ...base.RegionID) (cut [][2]base.RegionID) {
	for a := base.RegionID(1); int(a) <= regions; a++ {
		for b := a + 1; int(b) <= regions; b++ {
			if a != hub && b != hub || slices.Contains(without, a) || slices.Contains(without, b) {
				cut = append(cut, [2]base.RegionID{a, b})
			}
		}
	}
	return cut
}

// TestPartialPartitions plays the three partial partitions at which consensus protocols fail
// (Omni-Paxos, section 2). Region 1 leads the meta group. Quorum loss: the leader and all others
// reach the hub only. Constrained election: the hub loses the leader first, then all lose the
// leader and reach the hub only. Chained: the leader is at one end.
func TestPartialPartitions(t *testing.T) {
	pairs := func(x ...[2]base.RegionID) [][2]base.RegionID { return x }
	for _, c := range []struct {
		name    string
		regions int
		graph   graph
	}{
		{"quorum loss", 5, graph{cut: star(5, 3)}},
		{"constrained election", 5, graph{first: pairs([2]base.RegionID{1, 3}), cut: star(5, 3, 1)}},
		{"chained", 3, graph{cut: pairs([2]base.RegionID{1, 3})}},
		{"chained, five", 5, graph{cut: pairs([2]base.RegionID{1, 3}, [2]base.RegionID{1, 4}, [2]base.RegionID{1, 5},
			[2]base.RegionID{2, 4},
			[2]base.RegionID{2, 5}, [2]base.RegionID{3, 5})}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cutStage(t, c.regions, nil, func(s *stage, l *cutLoad) { s.judge(l, c.graph, false) })
		})
		if c.name != "constrained election" { // whose hub has the complete log here without detours, too
			t.Run(c.name+", no detours", func(t *testing.T) {
				cutStage(t, c.regions, func(cfg *Config) { cfg.Network.Direct = true },
					func(s *stage, l *cutLoad) { s.judge(l, c.graph, true) })
			})
		}
	}
}

func (s *stage) verbose() bool { return testing.Verbose() && long() }

// partialCuts are all graphs of cut links between regions that leave a majority connected, one of
// each shape: region 1, which leads the meta group, keeps its place in it.
func partialCuts(regions int) (out []graph) {
	var links [][2]base.RegionID
	for a := 1; a <= regions; a++ {
		for b := a + 1; b <= regions; b++ {
			links = append(links, [2]base.RegionID{base.RegionID(a), base.RegionID(b)})
		}
	}
	seen := map[string]bool{}
	for n := 1; n < 1<<len(links); n++ {
		g := graph{}
		for i, l := range links {
			if n>>i&1 != 0 {
				g.cut = append(g.cut, l)
			}
		}
		if name := g.shape(regions); g.majority(regions) && !seen[name] {
			seen[name] = true
			out = append(out, g)
		}
	}
	return out
}

// shape is the same for graphs that differ only in the numbers of the regions but the first.
func (g graph) shape(regions int) (least string) {
	to := make([]base.RegionID, regions+1)
	var place func(n int, free []base.RegionID)
	place = func(n int, free []base.RegionID) {
		if n > regions {
			var cut []string
			for _, c := range g.cut {
				a, b := to[c[0]], to[c[1]]
				if !g.oneWay {
					a, b = min(a, b), max(a, b)
				}
				cut = append(cut, fmt.Sprint(a, "-", b))
			}
			slices.Sort(cut)
			if s := fmt.Sprint(cut); least == "" || s < least {
				least = s
			}
			return
		}
		for i, r := range free {
			to[n] = r
			place(n+1, slices.Delete(slices.Clone(free), i, i+1))
		}
	}
	to[1] = 1
	rest := make([]base.RegionID, 0, regions-1)
	for r := 2; r <= regions; r++ {
		rest = append(rest, base.RegionID(r))
	}
	place(2, rest)
	return least
}

// TestPartialCuts plays all partial cuts of four and five regions, some of them in 'make test'.
func TestPartialCuts(t *testing.T) {
	for _, regions := range []int{4, 5} {
		all := partialCuts(regions)
		t.Logf("%d graphs of %d regions", len(all), regions)
		together := some(4, 8)
		for i, part := range slices.Collect(slices.Chunk(all, together)) {
			if !long() && i != len(all)/together/2 {
				continue
			}
			t.Run(fmt.Sprint(regions, " regions, ", i), func(t *testing.T) {
				cutStage(t, regions, nil, func(s *stage, l *cutLoad) {
					for _, g := range part {
						s.judge(l, g, false)
					}
				})
			})
		}
	}
}

// TestReleaseOnCutPath: the message that gives a lock back is lost on a path that was just cut. It
// is sent again on the detour; the gateway lives, so the owner would keep the lock for ten seconds.
func TestReleaseOnCutPath(t *testing.T) {
	onStage(t, 3, time.Hour, func(s *stage) {
		k := s.key(2, 1)
		s.put(2, k, "old")
		x := s.db(1).Begin(kv.Options{})
		if _, err := x.Get(context.Background(), []base.Key{k}, kv.LockExclusive); err != nil {
			t.Fatal(err)
		}
		s.net.Cut(1, 2)
		x.Rollback(context.Background())
		began := time.Now()
		s.put(3, k, "new")
		if d := time.Since(began); d > cutPause {
			t.Errorf("the row was locked for %v", d)
		}
		s.net.HealAll()
		time.Sleep(5 * time.Second)
	})
}
