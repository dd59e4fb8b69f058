package node

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestStaleReads: read_staleness, transactions in the past, and a session's timestamp carried to
// other nodes.
func TestStaleReads(t *testing.T) { bubble(t, staleReads) }

func staleReads(t *testing.T) {
	t.Helper()
	l := startLocal(t, 3, 2)
	ctx := context.Background()
	a, b, c := openSQL(t, l.Nodes()[0], ""), openSQL(t, l.Nodes()[2], ""), openSQL(t, l.Nodes()[3], "")
	mustExec(t, a, "CREATE DATABASE d")
	mustExec(t, a, "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
	mustExec(t, a, "INSERT INTO d.t VALUES (1,0),(2,0),(3,0),(4,0)")
	for _, v := range []struct{ set, get string }{{"'5s'", "5s"}, {"'500ms'", "500ms"}, {"3", "3s"}, {"-1.5", "1.5s"},
		{"'-2'", "2s"}, {"''", ""}, {"0", ""}, {"'max'", "max"}, {"DEFAULT", ""}} {
		mustExec(t, b, "SET read_staleness = "+v.set)
		if got := column(t, b, "SELECT @@read_staleness"); got[0] != v.get {
			t.Errorf("read_staleness = %s is shown as %q", v.set, got)
		}
	}
	if _, err := b.ExecContext(ctx, "SET read_staleness = 'soon'"); err == nil {
		t.Error("read_staleness = 'soon' was accepted")
	}
	until(t, "a consistency point", func() string {
		for _, n := range l.Nodes() {
			if p := n.Cluster().Point(); !p.Certified || p.Usable == 0 {
				return fmt.Sprintf("node %d: %+v", n.ID(), p)
			}
		}
		return ""
	})
	mustExec(t, a, "SET CLUSTER SETTING reads.heartbeat_ms = 5")
	if _, err := a.ExecContext(ctx, "SET CLUSTER SETTING reads.heartbeat_ms = 0"); err == nil {
		t.Error("a heartbeat of 0 was accepted")
	}
	mustExec(t, a, "SET CLUSTER SETTING reads.heartbeat_ms = DEFAULT")
	// Stale reads cost no round trip, and see what lies longer back than their bound.
	conn, far := b, c
	one := func(q string) string {
		t.Helper()
		var s string
		if err := conn.QueryRowContext(ctx, q).Scan(&s); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
		return s
	}
	exec := func(q string) {
		t.Helper()
		if _, err := conn.ExecContext(ctx, q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	exec("SET godwit_session_timestamp = '" + column(t, a, "SELECT @@godwit_session_timestamp")[0] + "'")
	exec("SET read_staleness = '5s'")
	one("SELECT SUM(v) FROM d.t")
	time.Sleep(300 * time.Millisecond)
	for range 10 {
		if got := one("SELECT COUNT(*) FROM d.t"); got != "4" {
			t.Errorf("a stale read sees %s rows, want 4", got)
		}
		if got := one("SELECT @@last_statement_wan_rtts"); got != "0" {
			t.Errorf("a stale read took %s round trips", got)
		}
	}
	if got := column(t, conn, "SELECT COUNT(*), SUM(skyline) > 0, SUM(healthy), SUM(member), SUM(collector) "+
		"FROM godwit.replicas"); got[0] != "6|1|6|2|1" {
		t.Errorf("godwit.replicas: %s", got)
	}
	// Read-your-writes within a session, and of another one whose timestamp it was told.
	for i := range 5 {
		exec(fmt.Sprintf("UPDATE d.t SET v = %d WHERE id = 2", i+1))
		if got := one("SELECT v FROM d.t WHERE id = 2"); got != fmt.Sprint(i+1) {
			t.Errorf("a session reads %s after it wrote %d", got, i+1)
		}
	}
	token := one("SELECT @@godwit_session_timestamp")
	if n, err := strconv.ParseUint(token, 10, 64); err != nil || n == 0 {
		t.Errorf("the session's timestamp is %q", token)
	}
	var v string
	for _, q := range []string{"SET read_staleness = 'max'", "SET godwit_session_timestamp = '" + token + "'"} {
		if _, err := far.ExecContext(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	if err := far.QueryRowContext(ctx, "SELECT v FROM d.t WHERE id = 2").Scan(&v); err != nil || v != "5" {
		t.Errorf("another session that was told the timestamp reads %s, %v; want 5", v, err)
	}
	if _, err := far.ExecContext(ctx, "SET godwit_session_timestamp = 'x'"); err == nil {
		t.Error("a bad timestamp was accepted")
	}
	// A change of the schema is in effect for stale reads that follow it.
	exec("ALTER TABLE d.t ADD COLUMN w INT DEFAULT 7")
	if got := one("SELECT w FROM d.t WHERE id = 1"); got != "7" {
		t.Errorf("the new column is %s", got)
	}
	// Transactions in the past.
	exec("SET read_staleness = ''")
	time.Sleep(time.Second)
	before := one("SELECT NOW(6)")
	time.Sleep(100 * time.Millisecond)
	exec("UPDATE d.t SET v = 100 WHERE id IN (2, 3)")
	exec("START TRANSACTION READ ONLY AS OF TIMESTAMP '" + before + "'")
	if got := one("SELECT CONCAT(SUM(x.v), '/', COUNT(*)) FROM d.t x JOIN d.t y ON x.id = y.id"); got != "5/4" {
		t.Errorf("in the past there are %s", got)
	}
	if got := one("SELECT v FROM d.t WHERE id = 2"); got != "5" {
		t.Errorf("in the past v is %s", got)
	}
	if _, err := conn.ExecContext(ctx, "UPDATE d.t SET v = 1 WHERE id = 2"); err == nil {
		t.Error("the past was changed")
	}
	exec("ROLLBACK")
	if got := one("SELECT v FROM d.t WHERE id = 2"); got != "100" {
		t.Errorf("in the present v is %s", got)
	}
	exec("SET TRANSACTION READ ONLY AS OF TIMESTAMP NOW(6)")
	if got := one("SELECT v FROM d.t WHERE id = 2"); got != "100" {
		t.Errorf("a moment ago v is %s", got)
	}
	exec("SET TRANSACTION READ ONLY AS OF TIMESTAMP '" + before + "'")
	if got := one("SELECT v FROM d.t WHERE id = 2"); got != "5" {
		t.Errorf("the next statement does not read the past: %s", got)
	}
	if got := one("SELECT v FROM d.t WHERE id = 2"); got != "100" {
		t.Errorf("the one after it reads the past: %s", got)
	}
	time.Sleep(time.Second)
	if got := one("SELECT v FROM d.t AS OF TIMESTAMP '" + before + "' WHERE id = 2"); got != "5" {
		t.Errorf("AS OF TIMESTAMP: %s", got)
	}
	for _, at := range []string{"NOW(6) - INTERVAL 10 MICROSECOND", "(NOW(6) - INTERVAL 10 MICROSECOND)", "NOW(6)",
		"-1", "(-1)", "'-10ms'"} {
		if got := one("SELECT v FROM d.t AS OF TIMESTAMP " + at + " WHERE id = 2"); got != "100" {
			t.Errorf("AS OF TIMESTAMP %s: %s", at, got)
		}
	}
	if _, err := conn.ExecContext(ctx, "START TRANSACTION READ ONLY AS OF TIMESTAMP NOW() "+
		"+ INTERVAL 1 HOUR"); err == nil || !strings.Contains(err.Error(), "future") {
		t.Errorf("the future can be read: %v", err)
	}
}
