package node

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godwitdb/godwit/mechanism/clock"
)

func sqlPool(t *testing.T, n *Node) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn(n, ""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// inMode waits until all nodes are in a mode.
func inMode(t *testing.T, l *Local, want clock.Mode) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for _, n := range l.Nodes() {
		for {
			if c := n.Cluster().Clock(); c.Mode == want.String() {
				break
			} else if time.Now().After(deadline) {
				t.Fatalf("node %d: %+v, want mode %v", n.ID(), c, want)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// TestSwitchUnderLoad changes the clock mode back and forth by SQL while every region reads, counts
// and moves money: no statement fails, and no count or coin is lost.
func TestSwitchUnderLoad(t *testing.T) { bubble(t, switchUnderLoad) }

func switchUnderLoad(t *testing.T) {
	t.Helper()
	l := startLocal(t, 3, 1)
	var dbs []*sql.DB
	for _, n := range l.Nodes() {
		dbs = append(dbs, sqlPool(t, n))
	}
	for _, q := range []string{"CREATE DATABASE d", "CREATE TABLE d.c (id INT PRIMARY KEY, v BIGINT NOT NULL)",
		"CREATE TABLE d.a (id INT PRIMARY KEY, v BIGINT NOT NULL)"} {
		mustExec(t, dbs[0], q)
	}
	for i, db := range dbs {
		mustExec(t, db, fmt.Sprintf("INSERT INTO d.c VALUES (%d, 0)", i))
		mustExec(t, db, fmt.Sprintf("INSERT INTO d.a VALUES (%d, 100), (%d, 100)", 2*i, 2*i+1))
	}
	ctx, cancel := context.WithCancel(t.Context())
	// Clients without a pause can keep the bubble's time from going on.
	think := func() { time.Sleep(time.Millisecond) }
	var wg sync.WaitGroup
	counts := make([]atomic.Int64, len(dbs))
	for i, db := range dbs {
		fail := func(what string, err error) {
			if ctx.Err() == nil {
				t.Errorf("region %d: %s: %v", i+1, what, err)
				cancel()
			}
		}
		wg.Go(func() { // counts
			for ; ctx.Err() == nil; think() {
				if _, err := db.Exec("UPDATE d.c SET v = v + 1 WHERE id = ?", i); err != nil {
					fail("count", err)
					return
				}
				n := counts[i].Add(1)
				var v int64
				if err := db.QueryRow("SELECT v FROM d.c WHERE id = ?", i).Scan(&v); err != nil || v != n {
					fail("read of what was just written", fmt.Errorf("%d, want %d: %v", v, n, err))
					return
				}
			}
		})
		wg.Go(func() { // moves money between two rows of its own, which nobody else writes
			for n := 0; ctx.Err() == nil; n++ {
				think()
				tx, err := db.Begin()
				if err == nil {
					_, err = tx.Exec("UPDATE d.a SET v = v - 1 WHERE id = ?", 2*i+n%2)
				}
				if err == nil {
					_, err = tx.Exec("UPDATE d.a SET v = v + 1 WHERE id = ?", 2*i+1-n%2)
				}
				if err == nil {
					err = tx.Commit()
				}
				if err != nil {
					fail("transfer", err)
					return
				}
			}
		})
		wg.Go(func() { // sees a whole state, from any region
			for ; ctx.Err() == nil; think() {
				var sum int64
				if err := db.QueryRow("SELECT SUM(v) FROM d.a").Scan(&sum); err != nil || sum != int64(200*len(dbs)) {
					fail("sum", fmt.Errorf("%d: %v", sum, err))
					return
				}
			}
		})
	}
	// counted waits until every region has counted again.
	counted := func() {
		for i := range dbs {
			n := counts[i].Load()
			until(t, fmt.Sprintf("region %d to count on", i+1), func() string {
				if counts[i].Load() == n {
					return fmt.Sprintf("still %d", n)
				}
				return ""
			})
		}
	}
	for _, m := range []struct {
		set  string
		want clock.Mode
	}{{"gtm", clock.GTM}, {"gclock", clock.GClock}, {"gtm", clock.GTM}, {"auto", clock.GClock}} {
		counted()
		mustExec(t, dbs[1], "SET CLUSTER SETTING clock.recovery = '1s'")
		mustExec(t, dbs[1], fmt.Sprintf("SET CLUSTER SETTING clock.mode = '%s'", m.set))
		inMode(t, l, m.want)
	}
	counted()
	cancel()
	wg.Wait()
	for i := range dbs {
		var v int64
		if err := dbs[0].QueryRow("SELECT v FROM d.c WHERE id = ?", i).Scan(&v); err != nil || v != counts[i].Load() || v == 0 {
			t.Errorf("region %d counted %d, the row says %d: %v", i+1, counts[i].Load(), v, err)
		}
	}
	var steps int
	if err := dbs[2].QueryRow("SELECT COUNT(*) FROM godwit.clock_history WHERE " +
		"to_mode = 'dual'").Scan(&steps); err != nil || steps != 4 {
		t.Errorf("godwit.clock_history has %d switches: %v", steps, err)
	}
	var nodes, fenced int
	if err := dbs[2].QueryRow("SELECT COUNT(*), SUM(fenced) FROM godwit.clock WHERE mode = 'gclock' AND bound_ms < "+
		"250 AND right_left_s > 0").Scan(&nodes, &fenced); err != nil || nodes != 3 || fenced != 0 {
		t.Errorf("godwit.clock shows %d nodes in order, %d fenced: %v", nodes, fenced, err)
	}
	for _, bad := range []string{"clock.mode = 'sundial'", "clock.max_bound = '1h'", "clock.recovery = '-1s'"} {
		if _, err := dbs[0].Exec("SET CLUSTER SETTING " + bad); err == nil {
			t.Errorf("SET CLUSTER SETTING %s is taken", bad)
		}
	}
}
