package node

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// untilRTTs repeats a statement until it costs a number of WAN round trips: rows come home when
// they are used.
func untilRTTs(t *testing.T, c *sql.Conn, q string, want float64) {
	t.Helper()
	until(t, q, func() string {
		if _, err := c.ExecContext(t.Context(), q); err != nil {
			return err.Error()
		}
		var got float64
		if err := c.QueryRowContext(t.Context(), "SELECT @@last_statement_wan_rtts").Scan(&got); err != nil {
			return err.Error()
		}
		if got != want {
			return fmt.Sprintf("it takes %v round trips", got)
		}
		return ""
	})
}

// TestAsynchronousTables: what SQL says of them, commits without a WAN trip, rows that move,
// transactions with synchronous ones.
func TestAsynchronousTables(t *testing.T) {
	for _, tier := range []string{"strict", "auto"} {
		t.Run(tier, func(t *testing.T) { bubble(t, func(t *testing.T) { asynchronousTables(t, tier) }) })
	}
}

func asynchronousTables(t *testing.T, tier string) {
	t.Helper()
	l := startLocal(t, 3, 1)
	a, b := openSQL(t, l.Nodes()[0], ""), openSQL(t, l.Nodes()[1], "")
	mustExec(t, a, "SET CLUSTER SETTING transaction.tier = '"+tier+"'")
	mustExec(t, a, "CREATE DATABASE d")
	mustExec(t, a, "USE d")
	mustExec(t, b, "USE d")
	mustExec(t, a, "CREATE TABLE s (id INT PRIMARY KEY, v INT)")
	mustExec(t, a, "CREATE TABLE t (id INT PRIMARY KEY, v INT, KEY (v)) REPLICATION ASYNC")
	mustExec(t, a, "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (4, 4)")
	mustExec(t, a, "INSERT INTO s VALUES (1, 1)")
	untilRTTs(t, a, "UPDATE t SET v = v + 1 WHERE id = 1", 0)
	untilRTTs(t, a, "UPDATE t SET v = v + 1", 0) // several shards of the region
	untilRTTs(t, b, "UPDATE t SET v = v + 1 WHERE id = 2", 0)
	untilRTTs(t, a, "UPDATE s SET v = v + 1 WHERE id = 1", 1)
	if got := column(t, a, "SHOW CREATE TABLE t"); len(got) != 1 || !strings.HasSuffix(got[0], "/*!99999 REPLICATION ASYNC */") {
		t.Error(got)
	}
	// A transaction of both kinds, and of rows of two regions.
	for _, c := range []*sql.Conn{a, b} {
		for _, q := range []string{"START TRANSACTION", "UPDATE s SET v = 100 WHERE id = 1",
			"UPDATE t SET v = 100 WHERE id IN (1, 2)", "COMMIT"} {
			mustExec(t, c, q)
		}
	}
	for _, c := range []*sql.Conn{a, b} {
		if got := strings.Join(column(t, c, "SELECT v FROM t WHERE v = 100"), " ") + " " +
			strings.Join(column(t, c, "SELECT v FROM s"), " "); got != "100 100 100" {
			t.Errorf("after a transaction of both kinds: %s", got)
		}
	}
	// Clauses.
	mustExec(t, a, "CREATE TABLE x (id INT PRIMARY KEY) LOCALITY REGIONAL BY TABLE REPLICATION ASYNC")
	mustExec(t, a, "CREATE TABLE y (id INT PRIMARY KEY) /*!99999 LOCALITY REGIONAL BY ROW REPLICATION SYNC */")
	mustExec(t, a, "ALTER DATABASE d SET REPLICATION ASYNC")
	if got := column(t, a, "SHOW WARNINGS"); len(got) != 1 {
		t.Errorf("the tables that the database has: %q", got)
	}
	mustExec(t, a, "CREATE TABLE z (id INT PRIMARY KEY)")
	// A dump keeps what the database says.
	var name, create string
	if err := a.QueryRowContext(t.Context(), "SHOW CREATE DATABASE d").Scan(&name, &create); err != nil ||
		!strings.HasSuffix(create, " /*!99999 REPLICATION ASYNC */") {
		t.Errorf("%s (%v)", create, err)
	}
	for i, q := range []string{strings.Replace(create, "`d`", "d1", 1),
		"CREATE DATABASE IF NOT EXISTS d2 REPLICATION ASYNC", "CREATE DATABASE d3 REPLICATION SYNC"} {
		mustExec(t, a, q)
		if err := a.QueryRowContext(t.Context(), fmt.Sprintf("SHOW CREATE DATABASE d%d", i+1)).Scan(&name,
			&create); err != nil || strings.Contains(create, "ASYNC") != (i < 2) {
			t.Errorf("%s: %s (%v)", q, create, err)
		}
	}
	mustExec(t, a, "CREATE TABLE g (id INT PRIMARY KEY) LOCALITY GLOBAL")
	mustExec(t, a, "CREATE TABLE y2 (id INT PRIMARY KEY) REPLICATION SYNC")
	for table, want := range map[string]bool{"x": true, "y": false, "z": true, "g": false, "y2": false, "s": false} {
		if got := column(t, a, "SHOW CREATE TABLE "+table)[0]; strings.Contains(got, "REPLICATION ASYNC") != want {
			t.Error(got)
		}
	}
	for _, q := range []string{"CREATE TABLE no (id INT PRIMARY KEY) LOCALITY GLOBAL REPLICATION ASYNC",
		"ALTER TABLE g SET REPLICATION ASYNC"} {
		if _, err := a.ExecContext(t.Context(), q); err == nil || !strings.Contains(err.Error(), "GLOBAL") {
			t.Errorf("%s: %v", q, err)
		}
	}
	mustExec(t, a, "DROP TABLE t")
	// Nobody takes over from a region that is alive.
	for _, q := range []string{"ALTER CLUSTER PROMOTE REGION '" + l.Regions()[1] + "'",
		"ALTER CLUSTER PROMOTE REGION " + l.Regions()[1] + " IN '" + l.Regions()[2] + "' FORCE"} {
		if _, err := a.ExecContext(t.Context(), q); err == nil || !strings.Contains(err.Error(), "is not lost") {
			t.Errorf("%s: %v", q, err)
		}
	}
	if _, err := a.ExecContext(t.Context(), "ALTER CLUSTER RETURN REGION nowhere"); err == nil ||
		!strings.Contains(err.Error(), "no region") {
		t.Error(err)
	}
	if got := column(t, a, "SELECT COUNT(*) FROM godwit.promotions UNION ALL SELECT COUNT(*) "+
		"FROM godwit.losses"); len(got) != 2 || got[0] != "0" || got[1] != "0" {
		t.Error(got)
	}
}

// TestReplicationChangesUnderLoad: a table becomes asynchronous and synchronous again while two
// regions update it. No acknowledged update is lost.
func TestReplicationChangesUnderLoad(t *testing.T) { bubble(t, replicationChangesUnderLoad) }

func replicationChangesUnderLoad(t *testing.T) {
	t.Helper()
	l := startLocal(t, 3, 1)
	a := openSQL(t, l.Nodes()[0], "")
	mustExec(t, a, "CREATE DATABASE d")
	mustExec(t, a, "USE d")
	mustExec(t, a, "CREATE TABLE t (id INT PRIMARY KEY, k INT, v INT, KEY (k))")
	mustExec(t, a, "INSERT INTO t VALUES (1,10,0),(2,20,0)")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var acked [2]atomic.Int64
	var slowest [2]atomic.Int64
	done := make(chan struct{}, 2)
	for i := range acked {
		load := openSQL(t, l.Nodes()[i], "d")
		go func() {
			defer func() { done <- struct{}{} }()
			for ctx.Err() == nil {
				began := time.Now()
				if _, err := load.ExecContext(context.Background(), "UPDATE t SET v = v + 1, k = k + 1 WHERE id = ?",
					i+1); err == nil {
					acked[i].Add(1)
					slowest[i].Store(max(slowest[i].Load(), int64(time.Since(began))))
				} else if !strings.Contains(err.Error(), "1213") {
					t.Errorf("update: %v", err)
					return
				}
			}
		}()
	}
	more := func() {
		t.Helper()
		n := [2]int64{acked[0].Load(), acked[1].Load()}
		until(t, "updates to go on", func() string {
			if acked[0].Load() < n[0]+20 || acked[1].Load() < n[1]+20 {
				return "too few"
			}
			return ""
		})
	}
	for range 2 {
		for _, to := range []string{"ASYNC", "SYNC"} {
			more()
			began := time.Now()
			mustExec(t, a, "ALTER TABLE t SET REPLICATION "+to)
			t.Logf("to %s in %v; updates so far %d and %d, the slowest %v and %v", to,
				time.Since(began).Round(time.Millisecond), acked[0].Load(), acked[1].Load(),
				time.Duration(slowest[0].Swap(0)).Round(time.Millisecond),
				time.Duration(slowest[1].Swap(0)).Round(time.Millisecond))
		}
	}
	more()
	stop()
	<-done
	<-done
	for i := range acked {
		var v, k int64
		if err := a.QueryRowContext(t.Context(), "SELECT v, k FROM t WHERE id = ?", i+1).Scan(&v, &k); err != nil ||
			v != acked[i].Load() || k != v+int64(10*(i+1)) {
			t.Errorf("row %d is %d and %d (%v) after %d updates", i+1, v, k, err, acked[i].Load())
		}
	}
}

// TestStaleReadsOfAsynchronousTables: in another region, a client that reads from replicas there,
// at one node and then at another, sees asynchronous and synchronous tables as of one moment, never
// an older one.
func TestStaleReadsOfAsynchronousTables(t *testing.T) {
	bubble(t, staleReadsOfAsynchronousTables)
}

func staleReadsOfAsynchronousTables(t *testing.T) {
	t.Helper()
	l := startLocal(t, 3, 2)
	w := openSQL(t, l.Nodes()[0], "")
	mustExec(t, w, "CREATE DATABASE d")
	mustExec(t, w, "USE d")
	mustExec(t, w, "CREATE TABLE s (id INT PRIMARY KEY, v INT)")
	mustExec(t, w, "CREATE TABLE a (id INT PRIMARY KEY, v INT) REPLICATION ASYNC")
	mustExec(t, w, "CREATE TABLE b (id INT PRIMARY KEY, v INT) REPLICATION ASYNC")
	mustExec(t, w, "INSERT INTO s VALUES (1, 0)")
	mustExec(t, w, "INSERT INTO a VALUES (1, 0), (2, 0), (3, 0), (4, 0)")
	mustExec(t, w, "INSERT INTO b VALUES (1, 0)")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 2)
	run := func(c *sql.Conn, qs ...string) {
		for n := 1; ctx.Err() == nil; n++ {
			time.Sleep(5 * time.Millisecond)
			for _, q := range qs {
				if _, err := c.ExecContext(context.Background(),
					strings.ReplaceAll(q, "$", fmt.Sprint(n))); err != nil && !strings.Contains(err.Error(), "1213") {
					done <- fmt.Errorf("%s: %w", q, err)
					return
				}
			}
		}
		done <- nil
	}
	// Transactions of both kinds, and asynchronous ones of several shards.
	go run(w, "START TRANSACTION", "UPDATE s SET v = $", "UPDATE b SET v = $", "COMMIT")
	go run(openSQL(t, l.Nodes()[1], "d"), "UPDATE a SET v = $")
	var readers []*sql.Conn
	for _, n := range l.Nodes()[2:4] { // the second region
		c := openSQL(t, n, "d")
		mustExec(t, c, "SET read_staleness = '10s'")
		readers = append(readers, c)
	}
	var last [2]int64
	changed, reads, trips := 0, 0, 0
	for i := 0; changed < 30; i++ {
		time.Sleep(10 * time.Millisecond) // a local read takes no virtual time
		c := readers[i%2]
		var s, b, low, high int64
		if err := c.QueryRowContext(t.Context(), "SELECT s.v, b.v, (SELECT MIN(v) FROM a), (SELECT MAX(v) FROM a) "+
			"FROM s JOIN b USING (id)").Scan(&s, &b, &low, &high); err == sql.ErrNoRows && last[0] == 0 {
			continue // from before the rows were inserted
		} else if err != nil {
			t.Fatal(err)
		}
		if s != b || low != high {
			t.Fatalf("read %d at node %d is torn: s %d, b %d, a %d to %d", i, i%2, s, b, low, high)
		}
		if s < last[0] || low < last[1] {
			t.Fatalf("read %d at node %d goes back: %d after %d, %d after %d", i, i%2, s, last[0], low, last[1])
		}
		if s > last[0] && low > last[1] {
			changed++
		}
		last = [2]int64{s, low}
		var rtts float64
		if err := c.QueryRowContext(t.Context(), "SELECT @@last_statement_wan_rtts").Scan(&rtts); err != nil {
			t.Fatal(err)
		}
		reads++
		if rtts > 0 {
			trips++
		}
	}
	if t.Logf("%d of %d reads took a WAN trip", trips, reads); 20*trips > reads {
		t.Errorf("%d of %d reads were not answered in their region", trips, reads)
	}
	stop()
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
