package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// The node that changes how a large table replicates is killed in the middle, under load. Another
// node completes the change, and no update is lost.
func TestKillTheNodeThatCopiesATable(t *testing.T) {
	needTime(t)
	c := startCluster(t, t.TempDir(), 3, 1)
	t.Cleanup(c.kill)
	c.logOnFailure(t)
	const rows = 30_000
	db := c.nodes[0].open(t, "")
	exec1(t, db, "CREATE DATABASE d")
	exec1(t, db, "CREATE TABLE d.big (id INT PRIMARY KEY, k INT NOT NULL, v INT NOT NULL, KEY (k))")
	for i := 0; i < rows; {
		var values []string
		for ; i < rows && len(values) < 1000; i++ {
			values = append(values, fmt.Sprintf("(%d, %d, 0)", i, i))
		}
		exec1(t, db, "INSERT INTO d.big VALUES "+strings.Join(values, ","))
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var wg sync.WaitGroup
	var acked, unsure atomic.Int64
	for i, n := range c.nodes {
		pool := n.open(t, "d")
		wg.Go(func() {
			for id := i; ctx.Err() == nil; id = (id + 7919) % rows {
				_, err := pool.ExecContext(context.Background(), "UPDATE big SET v = v + 1, k = k + 1 WHERE id = ?", id)
				var me *mysql.MySQLError
				switch {
				case err == nil:
					acked.Add(1)
				case !errors.As(err, &me) || me.Number != 1213 && me.Number != 1205:
					unsure.Add(1)
					pause(ctx, 20*time.Millisecond)
				}
			}
		})
	}
	victim := c.nodes[1]
	// strike kills the node in the middle of a statement, and starts it again before or after
	// another node has completed what it began.
	strike := func(change, done string, startFirst bool) {
		t.Helper()
		alter := make(chan error, 1)
		pool := victim.open(t, "d")
		go func() {
			_, err := pool.Exec("ALTER TABLE big " + change)
			alter <- err
		}()
		for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			var n int64
			var status string
			_ = victim.open(t, "").QueryRow("SELECT rows_done, status FROM godwit.jobs WHERE job_type = ? AND node = "+
				"@@godwit_node", change).Scan(&n, &status)
			if n > 0 {
				if status != "running" {
					t.Fatalf("%s: %s before the node is killed", change, status)
				}
				t.Logf("%s: %s is killed after %d of %d rows", change, victim.region, n, rows)
				break
			}
			if time.Since(begin) > patience {
				t.Fatalf("%s: no row was copied", change)
			}
		}
		victim.kill()
		begin := time.Now()
		if err := <-alter; err == nil {
			t.Errorf("%s: the statement of the killed node succeeded", change)
		}
		if startFirst {
			pause(ctx, 3*time.Second)
			victim.start(t)
		}
		for _, n := range []*node{c.nodes[0], c.nodes[2]} {
			pool := n.open(t, "d")
			for {
				var table, create string
				err := pool.QueryRow("SHOW CREATE TABLE big").Scan(&table, &create)
				if err == nil && strings.Contains(create, done) {
					break
				}
				if time.Since(begin) > patience {
					t.Fatalf("%s: nobody went on: %s (%v)", change, create, err)
				}
				time.Sleep(50 * time.Millisecond)
			}
		}
		t.Logf("%s: ended by another node after %s", change, time.Since(begin).Round(10*time.Millisecond))
		if !startFirst {
			victim.start(t)
		}
		victim.awaitSQL(t)
	}
	strike("SET LOCALITY REGIONAL BY TABLE IN 'region-c'", "REGIONAL BY TABLE", false)
	// Asynchronous rows have to have a copy in each region, so the region has to come back.
	strike("SET REPLICATION ASYNC", "REPLICATION ASYNC", true)
	pause(ctx, 2*time.Second)
	stop()
	wg.Wait()
	if acked.Load() == 0 {
		t.Error("no update was acknowledged")
	}
	for _, n := range c.nodes {
		var count int64
		var s, k float64 // as the engine adds up
		if err := n.open(t, "d").QueryRow("SELECT COUNT(*), SUM(v), SUM(k) FROM big").Scan(&count, &s, &k); err != nil {
			t.Fatal(err)
		}
		sum, keys := int64(s), int64(k)
		if count != rows || sum < acked.Load() || sum > acked.Load()+unsure.Load() || keys != sum+rows*(rows-1)/2 {
			t.Errorf("through %s: %d rows, %d updates of which %d were acknowledged and %d may have been made",
				n.region, count, sum, acked.Load(), unsure.Load())
		}
		var byIndex int64
		if err := n.open(t, "d").QueryRow("SELECT COUNT(*) FROM big FORCE INDEX (k) " +
			"WHERE k >= 0").Scan(&byIndex); err != nil || byIndex != rows {
			t.Errorf("through %s: %d rows by the index (%v)", n.region, byIndex, err)
		}
	}
	t.Logf("%d updates acknowledged, %d without a clear answer", acked.Load(), unsure.Load())
}
