package server

import (
	"database/sql"
	"strings"
	"testing"
)

// at begins a transaction of each of two clients at a level.
func at(t *testing.T, level string, c ...*sql.Conn) {
	for _, k := range c {
		exec(t, k, "SET SESSION TRANSACTION ISOLATION LEVEL "+level)
		exec(t, k, "BEGIN")
	}
}

// lost reports whether a statement or a later COMMIT of the transaction fails.
func lost(t *testing.T, c *sql.Conn, statements ...string) bool {
	for _, q := range append(statements, "COMMIT") {
		if _, err := c.ExecContext(t.Context(), q); err != nil {
			return true
		}
	}
	return false
}

// Write skew: each of two transactions reads both rows and changes another one.
func TestWriteSkew(t *testing.T) {
	_, c := newServer(t)
	exec(t, c, "CREATE TABLE oncall (id INT PRIMARY KEY, on_call INT)")
	for level, allowed := range map[string]bool{"SERIALIZABLE": false, "REPEATABLE READ": true, "READ COMMITTED": true} {
		exec(t, c, "REPLACE INTO oncall VALUES (1,1), (2,1)")
		a, b := conn(t, c), conn(t, c)
		at(t, level, a, b)
		expect(t, a, "SELECT SUM(on_call) FROM oncall", "2")
		expect(t, b, "SELECT SUM(on_call) FROM oncall", "2")
		done := make(chan bool, 1)
		go func() { done <- lost(t, a, "UPDATE oncall SET on_call = 0 WHERE id = 1") }()
		second := lost(t, b, "UPDATE oncall SET on_call = 0 WHERE id = 2")
		if skew := !<-done && !second; skew != allowed {
			t.Errorf("%s: write skew %v", level, skew)
		}
	}
}

// What UPDATE reads is current and locked at every level: no update is lost.
func TestNoLostUpdate(t *testing.T) {
	_, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, n INT)")
	for _, level := range []string{"SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED"} {
		exec(t, c, "REPLACE INTO t VALUES (1,0)")
		a, b := conn(t, c), conn(t, c)
		at(t, level, a, b)
		if level != "SERIALIZABLE" {
			expect(t, b, "SELECT n FROM t", "0") // a snapshot before the other's change
		}
		exec(t, a, "UPDATE t SET n = n + 1")
		exec(t, a, "COMMIT")
		exec(t, b, "UPDATE t SET n = n + 1 WHERE id = 1")
		expect(t, b, "SELECT n FROM t", "2") // own writes are seen
		exec(t, b, "COMMIT")
		expect(t, c, "SELECT n FROM t", "2")
	}
}

func TestSnapshots(t *testing.T) {
	_, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, n INT)")
	exec(t, c, "INSERT INTO t VALUES (1,0)")
	for level, seen := range map[string]string{"REPEATABLE READ": "0", "READ COMMITTED": "1", "READ UNCOMMITTED": "1"} {
		exec(t, c, "UPDATE t SET n = 0")
		a := conn(t, c)
		at(t, level, a)
		expect(t, a, "SELECT n FROM t WHERE id = 1", "0")
		expect(t, a, "SELECT n FROM t", "0")
		exec(t, c, "UPDATE t SET n = 1")
		expect(t, a, "SELECT n FROM t WHERE id = 1", seen)
		expect(t, a, "SELECT n FROM t", seen)
		expect(t, a, "SELECT n FROM t LOCK IN SHARE MODE", "1")
		expect(t, a, "SELECT n FROM t WHERE id = 1 FOR UPDATE", "1")
		exec(t, a, "COMMIT")
	}
}

func TestIsolationVariables(t *testing.T) {
	_, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, n INT)")
	exec(t, c, "INSERT INTO t VALUES (1,0)")
	expect(t, c, "SELECT @@transaction_isolation", "SERIALIZABLE")
	a := conn(t, c)
	exec(t, a, "SET tx_isolation = 'READ-COMMITTED'")
	expect(t, a, "SELECT @@session.transaction_isolation", "READ-COMMITTED")
	expect(t, a, "SELECT @@tx_isolation", "READ-COMMITTED")
	exec(t, a, "SET SESSION transaction_isolation = 'SERIALIZABLE'")
	exec(t, c, "SET GLOBAL transaction_isolation = 'REPEATABLE-READ'")
	defer exec(t, c, "SET GLOBAL transaction_isolation = 'SERIALIZABLE'")
	old := conn(t, c) // of the pool
	expect(t, old, "SELECT @@transaction_isolation", "SERIALIZABLE")
	expect(t, conn(t, c), "SELECT @@transaction_isolation", "REPEATABLE-READ")
	exec(t, a, "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
	expect(t, a, "SELECT COUNT(*) FROM t", "1")

	// Without a scope it is for the next transaction only.
	exec(t, a, "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE")
	exec(t, a, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
	expect(t, a, "SELECT @@transaction_isolation", "SERIALIZABLE")
	exec(t, a, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
	exec(t, a, "BEGIN")
	expectErr(t, a, 1568, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
	expect(t, a, "SELECT n FROM t", "0")
	exec(t, c, "UPDATE t SET n = 5") // waits for nobody
	expect(t, a, "SELECT n FROM t", "0")
	exec(t, a, "COMMIT")
	exec(t, a, "BEGIN")
	expect(t, a, "SELECT n FROM t", "5")
	done := make(chan struct{})
	go func() {
		defer close(done)
		exec(t, c, "UPDATE t SET n = 6")
	}()
	expect(t, a, "SELECT n FROM t", "5")
	exec(t, a, "COMMIT")
	<-done
}

// TestLocksInProcedures: FOR UPDATE locks in a stored procedure, too, at every level. Two
// transactions that each hold a row and ask for the other one's are a deadlock, whoever asks first.
func TestLocksInProcedures(t *testing.T) {
	_, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
	exec(t, c, "INSERT INTO t VALUES (1,0),(2,0)")
	exec(t, c, "CREATE PROCEDURE take(n INT) BEGIN SELECT v FROM t WHERE id = n FOR UPDATE; END")
	for _, level := range []string{"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"} {
		a, b := conn(t, c), conn(t, c)
		at(t, level, a, b)
		exec(t, a, "CALL take(1)")
		exec(t, b, "CALL take(2)")
		failed := make(chan bool, 2)
		go func() { failed <- lost(t, a, "SELECT v FROM t WHERE id = 2 FOR UPDATE") }()
		go func() { failed <- lost(t, b, "SELECT v FROM t WHERE id = 1 FOR UPDATE") }()
		if one, other := <-failed, <-failed; one == other {
			t.Errorf("%s: both transactions failed: %v, want one of them", level, one)
		}
	}
}

// TestLockWaitTimeout: a statement waits for a lock as long as its session says, whether it waits
// once or loses conflicts and is tried again.
func TestLockWaitTimeout(t *testing.T) {
	_, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
	exec(t, c, "INSERT INTO t VALUES (1,0), (2,0)")
	older, holder, younger := conn(t, c), conn(t, c), conn(t, c)
	expect(t, older, "SELECT @@innodb_lock_wait_timeout", "10")
	exec(t, older, "SET innodb_lock_wait_timeout = 1")
	exec(t, younger, "SET innodb_lock_wait_timeout = 1")
	exec(t, older, "BEGIN")
	exec(t, older, "UPDATE t SET v = 1 WHERE id = 2")
	exec(t, holder, "BEGIN")
	exec(t, holder, "UPDATE t SET v = 1 WHERE id = 1")
	for k, want := range map[*sql.Conn]uint16{older: 1205, younger: 1213} {
		_, err := k.ExecContext(t.Context(), "UPDATE t SET v = 2 WHERE id = 1")
		if got := errNumber(t, err); got != want || want == 1205 && !strings.Contains(err.Error(), "within 1s") {
			t.Errorf("%v, want %d", err, want)
		}
	}
	exec(t, holder, "ROLLBACK")
	exec(t, younger, "UPDATE t SET v = 3")
	expect(t, c, "SELECT v FROM t WHERE id = 1", "3")
}

// TestDDLEndsTransaction: what follows a statement that commits by itself is committed by itself,
// too, unless autocommit is off.
func TestDDLEndsTransaction(t *testing.T) {
	_, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY)")
	for i, ddl := range []string{"CREATE TABLE n (id INT)", "ALTER TABLE n ADD COLUMN a INT", "CREATE DATABASE other",
		"DROP TABLE n", "TRUNCATE TABLE gone"} {
		for _, off := range []bool{false, true} {
			if i == 0 || i == 3 {
				exec(t, c, "DROP TABLE IF EXISTS n")
			}
			if i == 1 || i == 3 {
				exec(t, c, "CREATE TABLE IF NOT EXISTS n (id INT)")
			}
			exec(t, c, "DROP DATABASE IF EXISTS other")
			exec(t, c, "CREATE TABLE IF NOT EXISTS gone (id INT)")
			exec(t, c, "DELETE FROM t")
			conn, err := c.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			begin, want := "START TRANSACTION", "2"
			if off {
				begin, want = "SET autocommit = 0", "1"
			}
			for _, q := range []string{begin, "INSERT INTO t VALUES (1)", ddl, "INSERT INTO t VALUES (2)", "ROLLBACK",
				"SET autocommit = 1"} {
				exec(t, conn, q)
			}
			expect(t, c, "SELECT COUNT(*) FROM t", want)
			conn.Close()
			if i == 1 {
				exec(t, c, "DROP TABLE n")
			}
		}
	}
}
