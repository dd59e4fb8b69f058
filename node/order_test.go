package node

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/base"
)

// TestTimestampOrderingSQL: what applications see of a cluster that orders by timestamps.
func TestTimestampOrderingSQL(t *testing.T) {
	for _, how := range []base.Concurrency{base.ByTimestamp, base.ByTimestampRelay} {
		t.Run(string(how), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				l := startLocalOf(t, 3, 1, how)
				a, b := openSQL(t, l.Nodes()[0], ""), openSQL(t, l.Nodes()[1], "")
				mustExec(t, a, "CREATE DATABASE d")
				mustExec(t, a, "CREATE TABLE d.t (id INT PRIMARY KEY, v INT, UNIQUE KEY (v))")
				mustExec(t, a, "SET CLUSTER SETTING home.mode = 'never'")
				mustExec(t, a, "INSERT INTO d.t VALUES (1, 10), (2, 20)")
				mustExec(t, b, "INSERT INTO d.t VALUES (101, 110)")
				orderConflicts(t, a, b)
				orderForUpdate(t, l, a, b)
				orderStatements(t, a, b)
				orderSettings(t, a, how)
			})
		})
	}
}

func codeOf(err error) uint16 {
	if e, ok := err.(*mysql.MySQLError); ok {
		return e.Number
	}
	return 0
}

func only(t *testing.T, c *sql.Conn, q string) string {
	t.Helper()
	return strings.Join(column(t, c, q), ";")
}

// orderConflicts: of two that read and change the same row one is told 1213, and is done when it is
// tried again; a write skew is none.
func orderConflicts(t *testing.T, a, b *sql.Conn) {
	t.Helper()
	for _, c := range []*sql.Conn{a, b} {
		mustExec(t, c, "BEGIN")
		if got := only(t, c, "SELECT v FROM d.t WHERE id = 1"); got != "10" {
			t.Fatalf("v=%s", got)
		}
	}
	add := func(c *sql.Conn, v int) error {
		if _, err := c.ExecContext(t.Context(), fmt.Sprintf("UPDATE d.t SET v = %d WHERE id = 1", v)); err != nil {
			return err
		}
		_, err := c.ExecContext(t.Context(), "COMMIT")
		return err
	}
	if err := add(b, 12); err != nil {
		t.Fatalf("the first of two: %v", err)
	}
	if err := add(a, 11); codeOf(err) != 1213 {
		t.Errorf("the second of two that have read the same: %v", err)
	}
	mustExec(t, a, "ROLLBACK")
	until(t, "the second, tried again", func() string {
		mustExec(t, a, "BEGIN")
		var v int
		err := a.QueryRowContext(t.Context(), "SELECT v FROM d.t WHERE id = 1").Scan(&v)
		if err == nil {
			err = add(a, v+1)
		}
		if err != nil {
			_, _ = a.ExecContext(t.Context(), "ROLLBACK")
			return err.Error()
		}
		return ""
	})
	if got := only(t, b, "SELECT v FROM d.t WHERE id = 1"); got != "13" {
		t.Errorf("12 + 1 = %s", got)
	}

	for _, c := range []*sql.Conn{a, b} {
		mustExec(t, c, "BEGIN")
		if got := only(t, c, "SELECT COUNT(*) FROM d.t WHERE v < 200"); got != "3" {
			t.Fatalf("%s rows", got)
		}
	}
	failed := 0
	for i, c := range []*sql.Conn{a, b} {
		_, err := c.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO d.t VALUES (%d, %d)", 10+100*i, 150+i))
		if err == nil {
			_, err = c.ExecContext(t.Context(), "COMMIT")
		}
		if err != nil {
			failed++
			if codeOf(err) != 1213 {
				t.Error(err)
			}
			mustExec(t, c, "ROLLBACK")
		}
	}
	if failed != 1 {
		t.Errorf("%d of two that have counted the same rows, and each added one, failed", failed)
	}
}

// orderForUpdate: rows read for update are queued for, and the queue can be seen.
func orderForUpdate(t *testing.T, l *Local, a, b *sql.Conn) {
	t.Helper()
	mustExec(t, a, "BEGIN")
	column(t, a, "SELECT v FROM d.t WHERE id = 2 FOR UPDATE")
	if got := only(t, a, "SELECT COUNT(*) > 0 FROM godwit.locks WHERE mode LIKE 'X%' AND granted"); got != "1" {
		t.Errorf("godwit.locks shows no lock: %s", got)
	}
	second := make(chan error, 1)
	go func() {
		_, err := b.ExecContext(t.Context(), "UPDATE d.t SET v = v + 1 WHERE id = 2")
		second <- err
	}()
	watch := openSQL(t, l.Nodes()[0], "")
	until(t, "somebody who waits", func() string {
		if got := only(t, watch, "SELECT COUNT(*) > 0 FROM godwit.locks WHERE NOT granted"); got != "1" {
			return "nobody in godwit.locks"
		}
		return ""
	})
	mustExec(t, a, "UPDATE d.t SET v = 30 WHERE id = 2")
	mustExec(t, a, "COMMIT")
	if err := <-second; err != nil {
		t.Errorf("who waited: %v", err)
	}
	if got := only(t, watch, "SELECT v FROM d.t WHERE id = 2"); got != "31" {
		t.Errorf("v=%s", got)
	}
	mustExec(t, a, "BEGIN")
	column(t, a, "SELECT v FROM d.t WHERE id = 2 FOR UPDATE")
	mustExec(t, b, "SET innodb_lock_wait_timeout = 1")
	if _, err := b.ExecContext(t.Context(), "UPDATE d.t SET v = 0 WHERE id = 2"); codeOf(err) != 1205 && codeOf(err) != 1213 {
		t.Errorf("a lock that is not given back: %v", err)
	}
	mustExec(t, a, "ROLLBACK")
}

// orderStatements: schema changes, unique keys, AUTO_INCREMENT, other isolation levels and the
// past.
func orderStatements(t *testing.T, a, b *sql.Conn) {
	t.Helper()
	mustExec(t, a, "CREATE TABLE d.u (id INT PRIMARY KEY AUTO_INCREMENT, k VARCHAR(10) UNIQUE, n INT)")
	for i, c := range []*sql.Conn{a, b, a, b} {
		mustExec(t, c, "INSERT INTO d.u (k, n) VALUES (?, ?)", fmt.Sprint("k", i), i)
	}
	if _, err := b.ExecContext(t.Context(), "INSERT INTO d.u (k) VALUES ('k0')"); codeOf(err) != 1062 {
		t.Errorf("a duplicate: %v", err)
	}
	mustExec(t, b, "CREATE INDEX n ON d.u (n)")
	if got := only(t, a, "SELECT k FROM d.u FORCE INDEX (n) WHERE n >= 2 ORDER BY n"); got != "k2;k3" {
		t.Errorf("by the new index: %s", got)
	}
	time.Sleep(time.Second)
	then := only(t, a, "SELECT NOW(6)")
	mustExec(t, a, "DELETE FROM d.u WHERE n = 3")
	if got := only(t, b, "SELECT COUNT(*) FROM d.u AS OF SYSTEM TIME '"+then+"'"); got != "4" {
		t.Errorf("before the DELETE: %s rows", got)
	}
	mustExec(t, a, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
	if got := column(t, a, "SHOW WARNINGS"); len(got) != 1 {
		t.Errorf("READ COMMITTED is SERIALIZABLE, and the warnings are %v", got)
	}
	mustExec(t, a, "BEGIN")
	before := only(t, a, "SELECT n FROM d.u WHERE k = 'k0'")
	mustExec(t, b, "UPDATE d.u SET n = 7 WHERE k = 'k0'")
	if after := only(t, a, "SELECT n FROM d.u WHERE k = 'k0'"); before != "0" || after != "0" {
		t.Errorf("n was %s, then %s", before, after)
	}
	mustExec(t, a, "COMMIT")
	mustExec(t, a, "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE")
	mustExec(t, b, "DROP TABLE d.u")
}

// orderSettings: what chooses between tiers of locks is refused, and the tables say what holds.
func orderSettings(t *testing.T, a *sql.Conn, how base.Concurrency) {
	t.Helper()
	for _, q := range []string{"SET transaction_consistency = 'relay'",
		"SET SESSION transaction_consistency = 'strict'", "SET CLUSTER SETTING transaction.tier = 'relay'",
		"SET CLUSTER SETTING transaction.tier_least = 7"} {
		if _, err := a.ExecContext(t.Context(), q); err == nil || !strings.Contains(err.Error(), string(how)) {
			t.Errorf("%s: %v", q, err)
		}
	}
	if got, want := only(t, a, "SELECT CONCAT(setting, ' ', mode) FROM godwit.consistency WHERE in_force"),
		string(how)+" "+string(how); got != want {
		t.Errorf("godwit.consistency: %s", got)
	}
}
