package sim

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/placed"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/wire"
)

// TestSplitWaits: a table gets no shards of its own while a node is down, which may come back
// without knowing of them (SPLIT-1). A cluster that does not ask is noticed.
func TestSplitWaits(t *testing.T) {
	for _, hasty := range []bool{false, true} {
		t.Run(fmt.Sprintf("hasty %v", hasty), func(t *testing.T) {
			cfg := stageConfig(4)
			cfg.Break.HastyRegions = hasty
			onWorld(t, cfg, func(s *stage) {
				time.Sleep(20 * time.Second)
				make := func(within time.Duration) (map[base.PlacementID]int, error) {
					ctx, cancel := context.WithTimeout(context.Background(), within)
					defer cancel()
					return placed.OwnShards(ctx, s.hosts[0].up().node.Cluster(), []base.PlacementID{0}, 2, func(int) bool { return false })
				}
				down := s.hosts[3]
				down.crash()
				got, err := make(10 * time.Second)
				if (err == nil) != hasty {
					t.Errorf("while a node is down a table gets shards %v (%v)", got, err)
				}
				if hasty {
					return
				}
				if !strings.Contains(fmt.Sprint(err), "waits for node 4") {
					t.Errorf("it is not said for whom the shards wait: %v", err)
				}
				down.boot()
				if got, err = make(30 * time.Second); err != nil {
					t.Error(err)
				}
				if own := s.topology().Own; len(own) != 1 || own[0].Opening || got[0] != own[0].Before {
					t.Errorf("there are the sets %+v, and the table gets %v", own, got)
				}
			})
		})
	}
}

// splitStride is how many messages apart the steps are at which a node dies, where not all are
// played.
const splitStride = 61

// TestCrashAtEveryStepOfASplit: a node dies as any message of a split is sent, whether it makes the
// split, or holds the table. The split is made or not, or is ended by another node; no row is lost,
// none comes twice, and clients elsewhere see errors only that they may retry.
func TestCrashAtEveryStepOfASplit(t *testing.T) {
	steps := func(first, stride int) {
		for victim, role := range []string{"the node that splits", "another node"} {
			t.Run(role+" dies", func(t *testing.T) {
				made, not, step := 0, 0, 1
				for step = first + victim; !t.Failed(); step += stride {
					crashed, split := false, false
					cfg := stageConfig(3)
					cfg.Seed, cfg.SQL, cfg.Stay = uint64(step), true, true
					onWorld(t, cfg, func(s *stage) { crashed, split = s.crashInSplit(victim, step) })
					if !crashed {
						break
					}
					if split {
						made++
					} else {
						not++
					}
				}
				t.Logf("%d steps: after %d the table was split, after %d it was not", step-1, made, not)
				if made == 0 || step < 100 {
					t.Errorf("%d steps, %d splits were made and %d were not", step-1, made, not)
				}
			})
		}
	}
	if long() {
		steps(1, 1)
		return
	}
	steps(1, splitStride)
}

const splitRows = 9

// crashInSplit splits a table, while a host dies as the step-th message is sent. crashed is false
// if there were fewer messages; split says whether the table has shards of its own in the end.
func (s *stage) crashInSplit(victim, step int) (crashed, split bool) {
	say := func(format string, args ...any) {
		s.t.Helper()
		s.t.Errorf("step %d: %s", step, fmt.Sprintf(format, args...))
	}
	time.Sleep(20 * time.Second)
	pools := make([]*sql.DB, len(s.hosts))
	for i, h := range s.hosts {
		pools[i] = openSQL(h.up)
		defer pools[i].Close()
	}
	must := func(at int, q string) {
		s.t.Helper()
		if _, err := pools[at].Exec(q); err != nil {
			say("%s: %v", q, err)
		}
	}
	must(0, "CREATE DATABASE d")
	must(0, "CREATE TABLE d.t (id INT PRIMARY KEY, n INT, u INT, KEY (n), UNIQUE (u))")
	for i := range splitRows {
		must(i%3, fmt.Sprintf("INSERT INTO d.t VALUES (%d, 0, %d)", i, i))
	}
	time.Sleep(time.Second)
	var added writes
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { added.run(say, pools[2], stop) })

	var seen atomic.Int64
	died := make(chan struct{})
	s.net.Tap(func(m wan.Tapped) {
		if m.Kind != wire.KindHeartbeat && seen.Add(1) == int64(step) {
			go func() {
				s.hosts[victim].crash()
				close(died)
			}()
		}
	})
	answered := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), liveBound)
		defer cancel()
		_, err := pools[0].ExecContext(ctx, "ALTER TABLE d.t SPLIT INTO 2 SHARDS")
		answered <- err
	}()
	var err error
	waiting := true
	select {
	case <-died:
	case err = <-answered:
		waiting = false
	}
	s.net.Tap(nil)
	if seen.Load() >= int64(step) { // its answer may have come as it died
		<-died
		crashed = true
		time.Sleep(3 * time.Second)
		s.hosts[victim].boot()
		if waiting && victim != 0 {
			<-answered
		}
	} else if err != nil {
		say("the split fails without a crash: %v", err)
	}
	split = s.splitEnds(say, pools[2])
	if !split { // the next attempt makes it
		must(2, "ALTER TABLE d.t SPLIT INTO 2 SHARDS")
		if !s.splitEnds(say, pools[2]) {
			say("the split that is tried again is not made")
		}
	}
	close(stop)
	wg.Wait()
	for i := range pools {
		added.check(say, pools[i], i+1)
	}
	return crashed, split
}

// splitEnds waits until a table has no successor, and reports whether it has shards of its own.
func (s *stage) splitEnds(say func(string, ...any), db *sql.DB) bool {
	var err error
	for range 600 {
		var name, text string
		if s.noSuccessor() {
			if err = db.QueryRow("SHOW CREATE TABLE d.t").Scan(&name, &text); err == nil {
				return strings.Contains(text, "SPLIT INTO 2 SHARDS")
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
	say("the split does not end: %v", err)
	return false
}

// noSuccessor reports whether the table is not being moved, as the last host knows.
func (s *stage) noSuccessor() bool {
	snap, err := schema.LoadSnapshot(context.Background(), s.db(3), nil, 0)
	return err == nil && snap.Table("d", "t") != nil && snap.Table("d", "t").Next == nil
}

// writes are increments of rows, and what is known of them.
type writes struct {
	done, unknown [splitRows]int
}

// run increments rows one after the other. An error that a client may retry is.
func (w *writes) run(say func(string, ...any), db *sql.DB, stop chan struct{}) {
	for i := 0; ; i = (i + 1) % splitRows {
		select {
		case <-stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
		_, err := db.Exec("UPDATE d.t SET n = n + 1 WHERE id = ?", i)
		var e *mysql.MySQLError
		switch {
		case err == nil:
			w.done[i]++
		case certain(err) || errors.As(err, &e) && e.Number == 1412:
		case errors.As(err, &e) && (e.Number == 1105 || e.Number == 3024 || e.Number == 1317):
			w.unknown[i]++ // the owner is down: the client is told that it cannot be known
		default:
			say("a client that a crash does not concern is told: %v", err)
			w.unknown[i]++
		}
	}
}

// check compares the rows at a node, by the primary key and by two indexes.
func (w *writes) check(say func(string, ...any), db *sql.DB, node int) {
	for _, q := range []string{"SELECT id, n FROM d.t", "SELECT id, n FROM d.t FORCE INDEX (n) WHERE n >= 0", "SELECT id, n FROM d.t FORCE INDEX (u) WHERE u >= 0"} {
		rows, err := db.Query(q)
		if err != nil {
			say("node %d: %s: %v", node, q, err)
			continue
		}
		found := map[int]int{}
		for rows.Next() {
			var id, n int
			if err := rows.Scan(&id, &n); err != nil {
				say("%v", err)
			}
			if _, twice := found[id]; twice {
				say("node %d: %s has row %d twice", node, q, id)
			}
			found[id] = n
		}
		rows.Close()
		for id := range splitRows {
			if n, ok := found[id]; !ok || n < w.done[id] || n > w.done[id]+w.unknown[id] {
				say("node %d: %s: row %d was incremented %d times, and perhaps %d times more, and has %d (%v)", node, q, id, w.done[id],
					w.unknown[id], n, ok)
			}
		}
	}
}

// TestSplitAndRegions: a region that comes has its groups in a table's own shards, and rows are at
// home there. While it comes no table gets any (SPLIT-3); where that is done all the same, the new
// shards have a group that nobody founds.
func TestSplitAndRegions(t *testing.T) {
	for _, bare := range []bool{false, true} {
		t.Run(fmt.Sprintf("without SPLIT-3 %v", bare), func(t *testing.T) {
			cfg := stageConfig(4)
			cfg.Late, cfg.SyncAll = 1, true
			onWorld(t, cfg, func(s *stage) { s.splitAndRegions(bare) })
		})
	}
}

func (s *stage) splitAndRegions(bare bool) {
	t := s.t
	time.Sleep(10 * time.Second)
	c := s.hosts[0].up().node.Cluster()
	make := func(used int) (map[base.PlacementID]int, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		return placed.OwnShards(ctx, c, []base.PlacementID{0}, 2, func(b int) bool { return b == used })
	}
	first, err := make(0)
	if err != nil {
		t.Error(err)
		return
	}
	s.hosts[2].crash() // so that the region waits
	s.joinLate()
	time.Sleep(5 * time.Second)
	if bare { // as AddOwn would without the rule
		if _, err = c.Change(context.Background(), func(t *base.Topology) error {
			t.Own = append(t.Own, base.OwnShards{Before: t.NextOwn(), Shards: 1, Opening: true})
			return nil
		}); err != nil {
			t.Error(err)
		}
	} else if _, err := make(first[0]); err == nil || !strings.Contains(err.Error(), "is being added") {
		t.Errorf("while a region comes: %v", err)
	}
	s.hosts[2].boot()
	if bare {
		time.Sleep(time.Minute)
		g := base.DataGroup(base.ShardID(s.topology().NextOwn()), 4)
		for _, h := range s.hosts {
			if _, leads := h.up().node.Owners().Replica(g).Serving(); leads {
				t.Errorf("group %v is led: SPLIT-3 is not needed", g)
			}
		}
		return
	}
	s.awaitRegions()
	if _, err := make(first[0]); err != nil {
		t.Error(err)
	}
	for n, before := range []int{first[0], s.topology().Own[1].Before} {
		k := base.AppendInt64(base.IndexPrefix(base.ShardID(before+1), base.MakeTableID(3000, 1), 0, 0), int64(n))
		s.put(4, k, "here")
		if _, err := kv.Run(context.Background(), s.db(4), kv.Options{}, func(x kv.Txn) error {
			_, err := x.Get(context.Background(), []base.Key{k}, kv.LockExclusive)
			x.Move(k, 4, kv.MoveOptions{})
			return err
		}); err != nil {
			t.Error(err)
		}
		s.put(1, k, "there")
		s.hosts[3].crash()
		s.hosts[3].boot()
		time.Sleep(20 * time.Second)
		rows, err := s.db(4).Begin(kv.Options{ReadOnly: true}).Get(context.Background(), []base.Key{k}, kv.LockNone)
		if err != nil || string(rows[0].Value) != "there" || rows[0].Home != 4 {
			t.Errorf("set %d: %+v (%v)", n, rows, err)
		}
	}
}
