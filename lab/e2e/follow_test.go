package e2e

import (
	"context"
	"database/sql"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// replicaStatus is SHOW REPLICA STATUS of the channel without a name.
func replicaStatus(t *testing.T, db *sql.DB) map[string]string {
	t.Helper()
	return statusOf(t, db, "SHOW REPLICA STATUS")
}

// TestStartReplica: a dump of a MariaDB server that is written to, with the position in it, is
// loaded by the stock client, and START REPLICA follows the server from there, over the deaths of
// its node and of all nodes, a source that stands still, and STOP REPLICA. The tables of both are
// equal then.
func TestStartReplica(t *testing.T) {
	if os.Getenv("GODWIT_LONG") == "" {
		t.Skip("it takes a minute or more: GODWIT_LONG=1, as make e2e sets")
	}
	dump, load := tool(t, "mariadb-dump", "mysqldump"), tool(t, "mariadb", "mysql")
	m := startMaria(t)
	c := startCluster(t, t.TempDir(), 3, 1)
	t.Cleanup(c.kill)
	c.logOnFailure(t)
	source := client(m.addr, "")
	defer source.Close()
	fillSource(t, source)
	exec1(t, source, "ALTER TABLE shop.kinds DROP COLUMN z") // mariadb-dump gives generated columns values, which MySQL refuses
	exec1(t, source, "CREATE TABLE shop.odd (a INT PRIMARY KEY AUTO_INCREMENT)")
	for _, q := range []string{"CREATE USER w@localhost", "GRANT ALL ON shop.* TO w@localhost", "CREATE USER repl@localhost IDENTIFIED BY 'hush'",
		"GRANT REPLICATION SLAVE ON *.* TO repl@localhost"} {
		exec1(t, source, q)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var clients sync.WaitGroup
	total := make([]int, 2)
	for i := range total {
		cfg := mysql.NewConfig()
		cfg.User, cfg.Net, cfg.Addr, cfg.DBName = "w", "tcp", m.addr, "shop"
		conn, err := mysql.NewConnector(cfg)
		if err != nil {
			t.Fatal(err)
		}
		db := sql.OpenDB(conn)
		defer db.Close()
		clients.Go(func() {
			var err error
			if total[i], err = shopClient(ctx, db, uint64(i)); err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		})
	}
	host, number, _ := net.SplitHostPort(m.addr)
	db := c.nodes[0].open(t, "")
	exec1(t, db, "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '"+host+"', SOURCE_PORT = "+number+
		", SOURCE_USER = 'repl', SOURCE_PASSWORD = 'hush', SOURCE_CONNECT_RETRY = 1")
	text, err := exec.CommandContext(ctx, dump, "--no-defaults", "-h", host, "-P", number, "-u", "root", "--single-transaction", "--master-data=1",
		"--routines", "--databases", "shop").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\nCHANGE MASTER TO MASTER_LOG_FILE=") {
		t.Fatal("the dump tells no position")
	}
	host, number, _ = net.SplitHostPort(c.nodes[0].sql)
	into := exec.CommandContext(ctx, load, "--no-defaults", "-h", host, "-P", number, "-u", "root")
	into.Stdin = strings.NewReader(string(text))
	if out, err := into.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	exec1(t, db, "START REPLICA")
	runs := func(what string) {
		t.Helper()
		s := map[string]string{}
		for deadline := time.Now().Add(patience); s["Replica_IO_Running"] != "Yes" || s["Replica_SQL_Running"] != "Yes"; time.Sleep(100 * time.Millisecond) {
			if time.Now().After(deadline) || s["Last_SQL_Error"] != "" {
				t.Fatalf("it does not follow %s: %v", what, s)
			}
			s = replicaStatus(t, db)
		}
		t.Logf("it follows %s: %s:%s, %s s behind", what, s["Relay_Source_Log_File"], s["Exec_Source_Log_Pos"], s["Seconds_Behind_Source"])
	}
	runs("at first")
	time.Sleep(4 * time.Second)
	c.nodes[0].kill()
	db = c.nodes[1].open(t, "")
	time.Sleep(6 * time.Second)
	runs("without the node that began it")
	c.nodes[0].start(t)
	time.Sleep(2 * time.Second)
	for _, n := range c.nodes {
		n.kill()
	}
	for _, n := range c.nodes {
		n.start(t)
	}
	c.nodes[1].awaitSQL(t)
	runs("after the death of all")
	m.hold(t, 5*time.Second)
	runs("after its source stood still")
	exec1(t, db, "STOP REPLICA")
	time.Sleep(time.Second)
	exec1(t, db, "START REPLICA")
	time.Sleep(2 * time.Second)
	exec1(t, source, "SET GLOBAL read_only = 1")
	clients.Wait()

	var file, skip string
	var end int
	if err := source.QueryRowContext(ctx, "SHOW MASTER STATUS").Scan(&file, &end, &skip, &skip); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * patience); ; time.Sleep(100 * time.Millisecond) {
		s := replicaStatus(t, db)
		at, _ := strconv.Atoi(s["Exec_Source_Log_Pos"])
		if s["Relay_Source_Log_File"] == file && at >= end {
			break
		}
		if time.Now().After(deadline) || s["Last_SQL_Error"] != "" {
			t.Fatalf("it does not come to %s:%d: %v", file, end, s)
		}
	}
	t.Logf("%v transactions of clients", total)
	for _, table := range append(sourceTables, "odd", "copied", "t4") {
		want, got := rowsOf(t, source, "shop."+table), rowsOf(t, db, "shop."+table)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d rows, the source has %d; rows that one of them lacks: %s", table, len(got), len(want), firstDifference(got, want))
		}
	}
	var n int
	if scan1(t, db, &n, "SELECT COUNT(*) FROM shop.third"); n != 2 {
		t.Errorf("the view that was made while it was followed has %d rows", n)
	}
}

// firstDifference is the first row of each of two sorted lists that the other one lacks.
func firstDifference(a, b []string) string {
	lacks := func(a, b []string) string {
		for _, x := range a {
			if !slices.Contains(b, x) {
				return x
			}
		}
		return "none"
	}
	return lacks(a, b) + " / " + lacks(b, a)
}
