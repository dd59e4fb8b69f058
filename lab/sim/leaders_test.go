package sim

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
)

// TestLeaderFollowsLoad: if no policy moves rows, the lead of a group moves to the region of its
// requests, after a window, and back when they move back. No transaction fails. A dry run only
// reports the decision. If rows may move, the lead stays at home.
func TestLeaderFollowsLoad(t *testing.T) {
	run := func(t *testing.T, never bool, mode string, check func(l *handoverLab, led func(base.NodeID, time.Duration) bool)) {
		cfg := Config{Seed: 1, Regions: 3, NodesPerRegion: 1, Shards: 1, LAN: 250 * time.Microsecond,
			ClockBound: 100 * time.Microsecond,
			Delay:      handoverDelays(), GCAge: time.Hour, Stay: true, Never: never}
		bubble(t, 1, func(*testing.T) {
			l := newHandoverLab(cfg)
			for _, h := range l.w.hosts {
				p := cluster.DefaultLeaderParams()
				p.Mode = mode
				if err := h.up().node.Cluster().SetLeaderParams(p); err != nil {
					t.Error(err)
				}
			}
			if !l.settle() {
				t.Error("the group is not led from home")
			}
			time.Sleep(5 * time.Second) // all nodes know the clock mode
			check(l, func(n base.NodeID, within time.Duration) bool {
				for range int(within / (100 * time.Millisecond)) {
					if h := l.leader(); h != nil && h.id == n {
						return true
					}
					time.Sleep(100 * time.Millisecond)
				}
				return false
			})
			close(l.stop)
			l.wg.Wait()
			l.noFailures()
			l.check()
			if err := l.w.err(); err != nil {
				t.Error(err)
			}
			l.w.close()
		})
	}
	// a few clients that wait for each answer
	some := func(l *handoverLab, h *host, until chan struct{}) {
		for i := range 6 {
			l.wg.Go(func() {
				for {
					select {
					case <-until:
						return
					case <-l.stop:
						return
					default:
						l.increment(h, labKey("own", int(h.id)*1000+i), 0)
						time.Sleep(20 * time.Millisecond)
					}
				}
			})
		}
	}
	t.Run("on", func(t *testing.T) {
		run(t, true, "on", func(l *handoverLab, led func(base.NodeID, time.Duration) bool) {
			there, here := make(chan struct{}), make(chan struct{})
			began := l.w.now()
			some(l, l.w.hosts[2], there)
			if !led(3, 20*time.Second) {
				t.Errorf("the lead does not follow the load: %+v", l.w.hosts[0].up().node.Cluster().LeaderRows())
			} else if took := l.w.now() - began; took < 40*200*time.Millisecond {
				t.Errorf("it moved after %v: before the window had ended", took)
			}
			time.Sleep(time.Second)
			moves := l.w.hosts[0].up().node.Cluster().LeaderMoves()
			if len(moves) != 1 || moves[0].Reason != "better" || moves[0].To != 3 || moves[0].Took == 0 ||
				moves[0].Utilities["3"] < 50 {
				t.Errorf("moves: %+v", moves)
			}
			close(there)
			some(l, l.w.hosts[0], here)
			if !led(1, 60*time.Second) {
				t.Errorf("the lead does not come back: %+v", l.w.hosts[2].up().node.Cluster().LeaderRows())
			}
			time.Sleep(time.Second)
		})
	})
	t.Run("dry run", func(t *testing.T) {
		run(t, true, "dry_run", func(l *handoverLab, led func(base.NodeID, time.Duration) bool) {
			some(l, l.w.hosts[2], nil)
			if led(3, 20*time.Second) {
				t.Error("a dry run moved the lead")
			}
			if moves := l.w.hosts[0].up().node.Cluster().LeaderMoves(); len(moves) == 0 || !moves[0].Dry || moves[0].To != 3 {
				t.Errorf("moves: %+v", moves)
			}
		})
	})
	t.Run("homes", func(t *testing.T) {
		run(t, false, "on", func(l *handoverLab, led func(base.NodeID, time.Duration) bool) {
			some(l, l.w.hosts[2], nil)
			if led(3, 20*time.Second) {
				t.Error("the lead left the home of its rows")
			}
		})
	})
	t.Run("pin and order", func(t *testing.T) {
		run(t, false, "off", func(l *handoverLab, led func(base.NodeID, time.Duration) bool) {
			c := l.w.hosts[1].up().node.Cluster()
			if err := c.MoveLeader(context.Background(), l.group, 2); err != nil {
				t.Error(err)
			}
			if !led(2, time.Second) || !led(1, 20*time.Second) {
				t.Error("the lead was not moved there, or did not go home")
			}
			p := cluster.DefaultLeaderParams()
			p.Pin = "s1@r1=3"
			for _, h := range l.w.hosts {
				if err := h.up().node.Cluster().SetLeaderParams(p); err != nil {
					t.Error(err)
				}
			}
			if !led(3, 20*time.Second) || led(1, 20*time.Second) {
				t.Error("the lead does not stay where it is pinned")
			}
			if err := c.MoveLeader(context.Background(), base.DataGroup(9, 9), 2); base.CodeOf(err) != base.CodeInvalid {
				t.Errorf("no such group: %v", err)
			}
		})
	})
}

// leaderLab runs f with a cluster whose groups are led from home, and then checks that no
// transaction has failed.
func leaderLab(t *testing.T, cfg Config, f func(l *handoverLab)) {
	t.Helper()
	bubble(t, 1, func(*testing.T) {
		l := newHandoverLab(cfg)
		for range 600 {
			if h := l.leader(); h != nil && h.region == 1 {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		f(l)
		close(l.stop)
		l.wg.Wait()
		l.check()
		if err := l.w.err(); err != nil {
			t.Error(err)
		}
		l.w.close()
	})
}

// led waits until a group is led by a node, or by one of those.
func (l *handoverLab) led(within time.Duration, by ...base.NodeID) bool {
	for range int(within / (100 * time.Millisecond)) {
		if h := l.leader(); h != nil && slices.Contains(by, h.id) {
			return true
		}
		time.Sleep(100 * time.Millisecond)
	}
	return false
}

// clients ask through a node and wait for each answer.
func (l *handoverLab) clients(h *host, n int) {
	for i := range n {
		l.wg.Go(func() {
			for !l.stopped() {
				l.increment(h, labKey("own", int(h.id)*1000+i), 0)
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
}

// TestStandInByUtility: when the home region of a group is lost, the node in the region with the
// most requests finally leads, whichever node was elected. When the home is back, so is the lead.
func TestStandInByUtility(t *testing.T) {
	for stand, want := range map[int]base.NodeID{1: 2, 2: 3} {
		t.Run(fmt.Sprintf("load from region %d", want), func(t *testing.T) {
			const ms = time.Millisecond
			delay := [][]time.Duration{{0, 40 * ms, 45 * ms, 50 * ms}, {40 * ms, 0, 60 * ms, 60 * ms},
				{45 * ms, 60 * ms, 0, 60 * ms}, {50 * ms, 60 * ms, 60 * ms, 0}}
			cfg := Config{Seed: 1, Regions: 4, NodesPerRegion: 1, Shards: 1, LAN: 250 * time.Microsecond,
				ClockBound: 100 * time.Microsecond,
				Delay:      delay, GCAge: time.Hour, Stay: true}
			leaderLab(t, cfg, func(l *handoverLab) {
				l.clients(l.w.hosts[stand], 6)
				time.Sleep(5 * time.Second)
				if h := l.leader(); h == nil || h.id != 1 {
					t.Errorf("the group is not led from home: %+v", h)
				}
				l.w.net.Isolate(1)
				if !l.led(40*time.Second, want) {
					t.Errorf("region %d does not stand in", want)
				}
				time.Sleep(20 * time.Second)
				if h := l.leader(); h == nil || h.id != want {
					t.Errorf("the stand-in does not stay: %+v", h)
				}
				l.mu.Lock()
				clear(l.failures) // of the region that was lost
				l.mu.Unlock()
				l.w.net.HealAll()
				if !l.led(30*time.Second, 1) {
					t.Error("the lead does not return home")
				}
				time.Sleep(20 * time.Second)
				if h := l.leader(); h == nil || h.id != 1 {
					t.Errorf("the lead does not stay at home: %+v", h)
				}
				l.mu.Lock()
				l.noFailures()
				l.mu.Unlock()
			})
		})
	}
}

// TestLeaderAmongHomeNodes: of several nodes in the home region, the one leads at which requests
// take least, if there is a difference. If it dies, another node of the home takes over, and never
// a node of another region, wherever the load comes from.
func TestLeaderAmongHomeNodes(t *testing.T) {
	const far = 40 * time.Millisecond
	cfg := Config{Seed: 1, Regions: 2, NodesPerRegion: 3, Shards: 1, LAN: 6 * time.Millisecond,
		ClockBound: 100 * time.Microsecond,
		// two of the three replicas are in region 1
		Delay: [][]time.Duration{{0, far}, {far, 0}}, GCAge: time.Hour, Stay: true}
	leaderLab(t, cfg, func(l *handoverLab) {
		reps := l.w.hosts[0].up().node.Cluster().Replicas(l.group)
		var home []base.NodeID
		for _, h := range l.w.hosts {
			if h.region == 1 && slices.Contains(reps, h.id) {
				home = append(home, h.id)
			}
		}
		if len(home) < 2 {
			t.Errorf("replicas %v: too few at home to choose from", reps)
			return
		}
		first := l.leader().id
		i := slices.IndexFunc(home, func(n base.NodeID) bool { return n != first })
		l.clients(l.w.hosts[home[i]-1], 6)
		if !l.led(40*time.Second, home[i]) {
			t.Errorf("node %d does not lead: %+v", home[i], l.w.hosts[first-1].up().node.Cluster().LeaderRows())
		}
		for _, h := range l.w.hosts {
			if h.region == 2 {
				l.clients(h, 10) // far away, and most of the load
			}
		}
		for range 200 {
			time.Sleep(100 * time.Millisecond)
			if h := l.leader(); h != nil && h.region != 1 {
				t.Errorf("the lead left the home region, for node %d", h.id)
				return
			}
		}
		at := l.leader().id
		l.w.net.Isolate(at)
		rest := slices.DeleteFunc(slices.Clone(home), func(n base.NodeID) bool { return n == at })
		if !l.led(30*time.Second, rest...) {
			t.Errorf("none of %v took over from node %d", rest, at)
		}
		l.w.net.HealAll()
		time.Sleep(10 * time.Second)
		if h := l.leader(); h == nil || h.region != 1 {
			t.Errorf("the lead is not at home: %+v", h)
		}
	})
}

// TestMayLead: a home region that may not lead does not lead, and the lead does not swing between
// the home and the regions that may.
func TestMayLead(t *testing.T) {
	cfg := Config{Seed: 1, Regions: 3, NodesPerRegion: 1, Shards: 1, LAN: 250 * time.Microsecond,
		ClockBound: 100 * time.Microsecond,
		Delay:      handoverDelays(), GCAge: time.Hour, Stay: true}
	leaderLab(t, cfg, func(l *handoverLab) {
		p := cluster.DefaultLeaderParams()
		p.MayLead = "r3, r2"
		for _, h := range l.w.hosts {
			if err := h.up().node.Cluster().SetLeaderParams(p); err != nil {
				t.Error(err)
			}
		}
		if !l.led(20*time.Second, 2, 3) {
			t.Error("the lead does not leave the region that may not lead")
		}
		for range 300 {
			time.Sleep(100 * time.Millisecond)
			if h := l.leader(); h != nil && h.region == 1 {
				t.Error("the lead went back to the region that may not lead")
				return
			}
		}
		l.noFailures()
	})
}

// TestWholeTableFollowsLoad: rows may move, and all requests of a group are for tables that are
// homed as a whole. Then the lead follows the load. It returns home when other tables are used.
func TestWholeTableFollowsLoad(t *testing.T) {
	cfg := Config{Seed: 1, Regions: 3, NodesPerRegion: 1, Shards: 1, LAN: 250 * time.Microsecond,
		ClockBound: 100 * time.Microsecond,
		Delay:      handoverDelays(), GCAge: time.Hour, SQL: true}
	onWorld(t, cfg, func(s *stage) {
		time.Sleep(20 * time.Second)
		ctx := context.Background()
		home, away := openSQL(s.hosts[0].up), openSQL(s.hosts[2].up)
		defer home.Close()
		defer away.Close()
		exec := func(db *sql.DB, q string) {
			t.Helper()
			if _, err := db.ExecContext(ctx, q); err != nil {
				t.Errorf("%s: %v", q, err)
			}
		}
		exec(home, "SET CLUSTER SETTING leader.window = 20")
		exec(home, "CREATE DATABASE d")
		exec(home, "CREATE TABLE d.whole (id INT PRIMARY KEY, v INT) LOCALITY REGIONAL BY TABLE IN 'r1'")
		exec(home, "CREATE TABLE d.rows (id INT PRIMARY KEY, v INT)")
		exec(home, "INSERT INTO d.whole VALUES (1, 0)")
		exec(home, "INSERT INTO d.rows VALUES (1, 0), (2, 0), (3, 0)")
		g := base.DataGroup(1, 1)
		leads := func() base.NodeID {
			if h := s.leaderOf(g); h != nil {
				return h.id
			}
			return 0
		}
		if n := leads(); n != 1 {
			t.Errorf("node %d leads, not the home", n)
		}
		for i := 0; i < 400 && leads() != 3; i++ {
			exec(away, fmt.Sprintf("UPDATE d.whole SET v = %d WHERE id = 1", i))
		}
		if n := leads(); n != 3 {
			t.Errorf("node %d leads: the group does not follow the load on its table", n)
		}
		for i := range 400 { // with the leader near this takes little time
			exec(away, fmt.Sprintf("UPDATE d.whole SET v = %d WHERE id = 1", i))
			time.Sleep(25 * time.Millisecond)
			if n := leads(); n != 3 {
				t.Errorf("the lead does not stay where the load is, but is at node %d", n)
				break
			}
		}
		var free bool
		if err := away.QueryRowContext(ctx, "SELECT follows_load FROM godwit.leaders WHERE group_name = "+
			"'s1@r1' AND leads").Scan(&free); err != nil || !free {
			t.Errorf("godwit.leaders.follows_load: %v, %v", free, err)
		}
		for i := 0; i < 200 && leads() != 1; i++ { // rows that may move are asked for as well
			exec(away, fmt.Sprintf("UPDATE d.whole SET v = %d WHERE id = 1", i))
			exec(home, fmt.Sprintf("UPDATE d.rows SET v = %d WHERE id = %d", i, 1+i%3))
		}
		if n := leads(); n != 1 {
			t.Errorf("node %d leads: the group with rows that may move does not go home", n)
		}
	})
}

// TestLeadersSQL sets the policy of leaders through SQL, and reads its facts and decisions.
func TestLeadersSQL(t *testing.T) {
	cfg := Config{Seed: 1, Regions: 3, NodesPerRegion: 1, Shards: 1, LAN: 250 * time.Microsecond,
		ClockBound: 100 * time.Microsecond,
		Delay:      handoverDelays(), GCAge: time.Hour, SQL: true}
	onWorld(t, cfg, func(s *stage) {
		time.Sleep(20 * time.Second)
		ctx := context.Background()
		at := s.hosts[2]
		db := openSQL(func() *life { return at.up() })
		defer db.Close()
		exec := func(q string) {
			t.Helper()
			if _, err := db.ExecContext(ctx, q); err != nil {
				t.Errorf("%s: %v", q, err)
			}
		}
		text := func(q string) (s string) {
			t.Helper()
			if err := db.QueryRowContext(ctx, q).Scan(&s); err != nil {
				t.Errorf("%s: %v", q, err)
			}
			return s
		}
		exec("SET CLUSTER SETTING leader.window = 20")
		exec("SET CLUSTER SETTING home.mode = 'never'")
		for _, bad := range []string{"leader.mode = 'maybe'", "leader.window = 0.5", "leader.pin = 'x'",
			"leader.commit = 'mean'"} {
			if _, err := db.ExecContext(ctx, "SET CLUSTER SETTING "+bad); err == nil {
				t.Errorf("%s was taken", bad)
			}
		}
		exec("CREATE DATABASE d")
		exec("CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
		exec("INSERT INTO d.t VALUES (1, 0)") // at home in region 3
		at = s.hosts[0]                       // further connections go there
		db.SetMaxIdleConns(0)
		for i := range 150 {
			exec(fmt.Sprintf("UPDATE d.t SET v = %d WHERE id = 1", i))
		}
		if got := text("SELECT CONCAT(from_node, '>', to_node, ' ', reason, ' ', dry_run, ' ', gain_ms > 0, ' ', " +
			"JSON_EXTRACT(utilities_ms, '$.\"1\"') > 0) FROM godwit.leader_moves WHERE " +
			"group_name = 's1@r3'"); got != "3>1 better 0 1 1" {
			t.Errorf("godwit.leader_moves: %s", got)
		}
		if got := text("SELECT CONCAT(leader, ' ', node, ' ', leads, ' ', candidate, ' ', follows_load) " +
			"FROM godwit.leaders WHERE group_name = 's1@r3' AND leads"); got != "1 1 1 1 1" {
			t.Errorf("godwit.leaders: %s", got)
		}
		if got := text("SELECT COUNT(*) FROM godwit.leaders WHERE commit_ms > 0"); got == "0" {
			t.Errorf("%s standings with the time of a commit", got)
		}
	})
}
