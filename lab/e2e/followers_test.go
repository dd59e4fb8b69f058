package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/lab/workload"
)

// followMinutes names how long TestFollowers follows, in minutes.
const followMinutes = "GODWIT_FOLLOW_MINUTES"

// TestFollowers: a MariaDB and Debezium's engine follow through TPC-C, YCSB, random statements and
// definitions, while something dies each half minute: a gateway that is followed, another node, all
// nodes, MariaDB, Debezium; or MariaDB stands still. In the end both have what the tables hold.
//
// MariaDB asks by file and position here, as of any MySQL, and does not write its own position in
// the transactions that it applies. After kill -9 it meets changes that it has; it is told to take
// them (slave_exec_mode), so rows without a key, which it could not know again, are not changed
// meanwhile.
func TestFollowers(t *testing.T) {
	needTime(t)
	minutes := 3
	if s := os.Getenv(followMinutes); s != "" {
		var err error
		if minutes, err = strconv.Atoi(s); err != nil || minutes < 1 {
			t.Fatalf("%s is %q: it wants a number of minutes", followMinutes, s)
		}
	}
	d := newDebezium(t)
	t.Cleanup(d.kill)
	server := startMaria(t, "--slave-exec-mode=IDEMPOTENT", "--relay-log-recovery=1", "--sync-relay-log-info=1", "--sync-master-info=1")
	m := &mariaReplica{t: t, db: client(server.addr, "")}
	t.Cleanup(func() { m.db.Close() })
	c := startCluster(t, t.TempDir(), 3, 1)
	t.Cleanup(c.kill)
	c.logOnFailure(t)
	source := c.nodes[0].open(t, "")
	exec1(t, source, "CREATE USER 'repl'@'%' IDENTIFIED WITH mysql_native_password BY 'p'")
	exec1(t, source, "GRANT REPLICATION SLAVE, REPLICATION CLIENT, RELOAD, SELECT ON *.* TO 'repl'@'%'")
	at := statusOf(t, source, "SHOW MASTER STATUS")
	m.follow(c.nodes[2], at["File"], at["Position"])
	exec1(t, source, followSchema[0])
	exec1(t, source, followSchema[1])
	d.start(c.nodes[2])
	d.begin(source)
	m.await(source, 0)
	for _, q := range followSchema[2:] {
		exec1(t, source, q)
	}
	loads := []*follower{startFollowed(t, c, "tpcc"), startFollowed(t, c, "ycsb")}
	m.await(source, 1)
	d.await(source, 2)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var clients sync.WaitGroup
	var done, failed [2]int
	for i, n := range c.nodes[:2] {
		db := n.open(t, "")
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 8))
			for ctx.Err() == nil {
				q := followStatements[rng.IntN(len(followStatements))](rng)
				if strings.Contains(q, "keyless") {
					continue
				}
				if _, err := db.ExecContext(ctx, q); err != nil {
					failed[i]++
				}
				done[i]++
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	restart := func(n *node) {
		n.kill()
		time.Sleep(2 * time.Second) // changes that followers have to catch up with
		n.start(t)
		n.awaitSQL(t)
	}
	debeziumAt := 2
	faults := []struct {
		name string
		make func()
	}{
		{"kill the node that is followed", func() { restart(c.nodes[2]) }},
		{"kill Debezium, which goes on at another node", func() {
			d.kill()
			debeziumAt = (debeziumAt + 1) % 3
			d.start(c.nodes[debeziumAt])
		}},
		{"kill MariaDB", func() {
			if err := server.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = server.cmd.Wait()
			time.Sleep(2 * time.Second)
			server.start(t)
		}},
		{"kill another node", func() { restart(c.nodes[1]) }},
		{"MariaDB stands still", func() { server.hold(t, 5*time.Second) }},
		{"kill all nodes", func() {
			for _, n := range c.nodes {
				n.kill()
			}
			for _, n := range c.nodes {
				n.start(t)
			}
			for _, n := range c.nodes {
				n.awaitSQL(t)
			}
		}},
	}
	begin, mark := time.Now(), 10
	for round := 0; time.Since(begin) < time.Duration(minutes)*time.Minute; round++ {
		next := time.Now().Add(30 * time.Second)
		if round%4 == 0 { // Debezium applies all definitions again when it is started anew
			for _, q := range roundDefinitions(round / 4) {
				if !executed(t, source, q) {
					return
				}
			}
		}
		m.await(source, mark) // definitions that MariaDB applies do not know that they were applied
		d.await(source, mark+1)
		mark += 2
		f := faults[round%len(faults)]
		t.Logf("after %s: %s", time.Since(begin).Round(time.Second), f.name)
		f.make()
		time.Sleep(time.Until(next))
	}
	stop()
	clients.Wait()
	for _, l := range loads {
		l.end(t)
	}
	m.await(source, mark)
	d.await(source, mark+1)
	t.Logf("%d statements, of which %d failed", done[0]+done[1], failed[0]+failed[1])
	if done[0]+done[1]-failed[0]-failed[1] < 100 {
		t.Errorf("only %d statements succeeded", done[0]+done[1]-failed[0]-failed[1])
	}
	one := c.nodes[0].open(t, "follow")
	one.SetMaxOpenConns(1) // the comparison sets variables of its session
	for _, name := range []string{"follow", "tpcc", "ycsb"} {
		m.compare(source, name)
		d.compare(one, name)
	}
}

// roundDefinitions change definitions, a few at a time: tables come, get and lose columns and
// indexes, lose all rows, and go. New columns have their rows written, since events alone do not
// tell what a new column holds.
func roundDefinitions(i int) []string {
	table := func(age int) string { return fmt.Sprintf("follow.round%d", i-age) }
	out := []string{
		"CREATE TABLE " + table(0) + " (id INT PRIMARY KEY, v VARCHAR(20), n INT, KEY (n))",
		"INSERT INTO " + table(0) + " SELECT o_id + 1000 * o_d_id, CONCAT('é', MAX(o_ol_cnt)), COUNT(*) FROM tpcc.orders WHERE o_d_id < 3 GROUP BY o_id, o_d_id LIMIT 200",
	}
	if i >= 1 {
		out = append(out, fmt.Sprintf("ALTER TABLE %s ADD COLUMN w DECIMAL(8,2) DEFAULT %d.5 AFTER v, ADD INDEX (w)", table(1), i),
			"UPDATE "+table(1)+" SET w = w + n")
	}
	if i >= 2 {
		out = append(out, "ALTER TABLE "+table(2)+" DROP COLUMN n", "ALTER TABLE "+table(2)+" MODIFY COLUMN v VARCHAR(60) NOT NULL")
	}
	if i >= 3 {
		out = append(out, "TRUNCATE TABLE "+table(3), "INSERT INTO "+table(3)+" (id, v) VALUES (1, 'again')")
	}
	if i >= 4 {
		out = append(out, "DROP TABLE "+table(4))
	}
	if i%2 == 0 {
		return append(out, "ALTER TABLE tpcc.customer ADD INDEX by_balance (c_balance)")
	}
	return append(out, "ALTER TABLE tpcc.customer DROP INDEX by_balance")
}

// follower is a workload whose tables are followed.
type follower struct {
	stop func()
	done chan struct{}
	name string
	err  error
	// of transactions
	committed, failed uint64
}

// startFollowed loads a small workload, whose tables have keys, and runs it: TPC-C with the keying
// and think times of its terminals, the other one for 3 s out of 10, so that followers that have
// died can catch up on a machine of two processors.
func startFollowed(t *testing.T, c *processes, name string) *follower {
	t.Helper()
	o := workload.DefaultOptions()
	o.Loaders = 1
	o.TPCC.Warehouses, o.TPCC.Scale, o.TPCC.HistoryKey, o.TPCC.Wait = len(c.regions), 0.01, true, true
	o.YCSB.Records, o.YCSB.Mix, o.YCSB.Remote = 3000, "A", 0.1
	w, err := workload.New(name, o)
	if err != nil {
		t.Fatal(err)
	}
	targets := c.targets(name)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := w.Init(ctx, targets); err != nil {
		t.Fatalf("load %s: %v", name, err)
	}
	l := &follower{name: name, done: make(chan struct{})}
	run, stop := context.WithCancel(t.Context())
	l.stop = stop
	go func() {
		defer close(l.done)
		for run.Err() == nil {
			opts := workload.RunOptions{TolerateErrors: true}
			if name != "tpcc" {
				opts.ClientsPerTarget, opts.Duration = 1, 3*time.Second
			}
			var rep *workload.Report
			if rep, l.err = w.Run(run, targets, opts); rep != nil {
				l.committed, l.failed = l.committed+rep.Total.Count, l.failed+rep.Total.Errors
			}
			pause(run, 7*time.Second) // also when it could not begin, since a node was dead
		}
	}()
	t.Cleanup(func() { stop(); <-l.done })
	return l
}

// end ends the clients.
func (l *follower) end(t *testing.T) {
	t.Helper()
	l.stop()
	<-l.done
	if l.err != nil || l.committed == 0 {
		t.Errorf("%s ended after %d transactions with %v", l.name, l.committed, l.err)
	}
	t.Logf("%s: %d transactions, %d errors", l.name, l.committed, l.failed)
}

// begin waits until Debezium tells marks: those before its first look are not told.
func (d *debezium) begin(source *sql.DB) {
	d.t.Helper()
	first := time.Now()
	for mark := 1000; len(d.marks()) == 0; mark++ {
		exec1(d.t, source, "INSERT INTO follow.marks VALUES (?)", mark)
		exec1(d.t, source, "DELETE FROM follow.marks WHERE id < ?", mark-5)
		time.Sleep(500 * time.Millisecond)
		if time.Since(first) > patience {
			d.t.Fatalf("Debezium tells nothing:\n%s", d.why())
		}
	}
	exec1(d.t, source, "DELETE FROM follow.marks")
}
