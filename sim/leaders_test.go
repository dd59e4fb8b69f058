package sim

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"runtime"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
)

// TestLeaderFollowsLoad: where no policy moves rows, the lead of a group goes to where its requests come from, after a window, and
// back when they do, and no transaction fails. In a dry run it is only said. Where rows may move, the lead stays at home.
func TestLeaderFollowsLoad(t *testing.T) {
	run := func(t *testing.T, never bool, mode string, check func(l *handoverLab, led func(base.NodeID, time.Duration) bool)) {
		cfg := Config{Seed: 1, Regions: 3, NodesPerRegion: 1, Shards: 1, LAN: 250 * time.Microsecond, ClockBound: 100 * time.Microsecond,
			Delay: handoverDelays(), GCAge: time.Hour, Stay: true, Never: never}
		cryptotest.SetGlobalRandom(t, 1)
		runtime.GC()
		runtime.GC()
		synctest.Test(t, func(*testing.T) {
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
	some := func(l *handoverLab, h *host, until chan struct{}) { // a few clients that wait for each answer
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
			if len(moves) != 1 || moves[0].Reason != "better" || moves[0].To != 3 || moves[0].Took == 0 || moves[0].Utilities["3"] < 50 {
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

// TestLeadersSQL: the policy is set, its view and its decisions are read, through SQL.
func TestLeadersSQL(t *testing.T) {
	cfg := Config{Seed: 1, Regions: 3, NodesPerRegion: 1, Shards: 1, LAN: 250 * time.Microsecond, ClockBound: 100 * time.Microsecond,
		Delay: handoverDelays(), GCAge: time.Hour, SQL: true}
	cryptotest.SetGlobalRandom(t, 1)
	runtime.GC()
	runtime.GC()
	synctest.Test(t, func(*testing.T) {
		w := newWorld(cfg)
		for _, h := range w.hosts {
			h.boot()
		}
		time.Sleep(20 * time.Second)
		ctx := context.Background()
		p := w.hosts[2].up()
		mc := mysql.NewConfig()
		mc.User, mc.Net, mc.Logger = "root", "tcp", &mysql.NopLogger{}
		mc.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) { return p.sql.dial(ctx) }
		connector, err := mysql.NewConnector(mc)
		if err != nil {
			t.Error(err)
			return
		}
		db := sql.OpenDB(connector)
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
		for _, bad := range []string{"leader.mode = 'maybe'", "leader.window = 0.5", "leader.pin = 'x'", "leader.commit = 'mean'"} {
			if _, err := db.ExecContext(ctx, "SET CLUSTER SETTING "+bad); err == nil {
				t.Errorf("%s was taken", bad)
			}
		}
		exec("CREATE DATABASE d")
		exec("CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
		exec("INSERT INTO d.t VALUES (1, 0)") // at home in region 3
		p = w.hosts[0].up()                   // further connections go there
		db.SetMaxIdleConns(0)
		for i := range 150 {
			exec(fmt.Sprintf("UPDATE d.t SET v = %d WHERE id = 1", i))
		}
		if got := text("SELECT CONCAT(from_node, '>', to_node, ' ', reason, ' ', dry_run, ' ', gain_ms > 0, ' ', JSON_EXTRACT(utilities_ms, '$.\"1\"') > 0) FROM godwit.leader_moves WHERE group_name = 's1@r3'"); got != "3>1 better 0 1 1" {
			t.Errorf("godwit.leader_moves: %s", got)
		}
		if got := text("SELECT CONCAT(leader, ' ', node, ' ', leads, ' ', candidate, ' ', follows_load) FROM godwit.leaders WHERE group_name = 's1@r3' AND leads"); got != "1 1 1 1 1" {
			t.Errorf("godwit.leaders: %s", got)
		}
		if got := text("SELECT COUNT(*) FROM godwit.leaders WHERE commit_ms > 0"); got == "0" {
			t.Errorf("%s standings with the time of a commit", got)
		}
		db.Close()
		if err := w.err(); err != nil {
			t.Error(err)
		}
		w.close()
	})
}
