package server

import (
	"strings"
	"testing"

	"github.com/godwitdb/godwit/kv/memkv"
)

func TestProcedures(t *testing.T) {
	_, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY)")
	exec(t, c, "CREATE TABLE log (id INT PRIMARY KEY AUTO_INCREMENT, what INT)")
	exec(t, c, "CREATE PROCEDURE refill(n INT) BEGIN DELETE FROM t; INSERT INTO t VALUES (n), (n+1); END")
	exec(t, c, "CREATE PROCEDURE clear() BEGIN TRUNCATE t; END")
	for _, n := range []string{"1", "2", "2"} {
		exec(t, c, "CALL refill("+n+")")
	}
	expect(t, c, "SELECT * FROM t", "2", "3")
	k := conn(t, c)
	exec(t, k, "BEGIN")
	exec(t, k, "CALL refill(7)")
	expect(t, k, "SELECT * FROM t", "7", "8")
	exec(t, k, "ROLLBACK")
	expect(t, c, "SELECT * FROM t", "2", "3")
	// A procedure called by a trigger belongs to the statement.
	exec(t, c, "CREATE PROCEDURE note(n INT) BEGIN INSERT INTO log (what) VALUES (n); END")
	exec(t, c, "CREATE TRIGGER tr AFTER INSERT ON t FOR EACH ROW CALL note(new.id)")
	exec(t, c, "INSERT INTO t VALUES (10),(11)")
	expect(t, c, "SELECT what FROM log ORDER BY what", "10", "11")
	expectErr(t, c, 1062, "INSERT INTO t VALUES (12),(10)")
	expect(t, c, "SELECT what FROM log ORDER BY what", "10", "11")
	exec(t, c, "CALL clear()")
	expect(t, c, "SELECT COUNT(*) FROM t", "0")
}

// TestProcedureMemory: a client that takes one result of a CALL has the memory of one.
func TestProcedureMemory(t *testing.T) {
	s, db := startServer(t, memkv.New(2, "eu"), func(cfg *Config) { cfg.Memory = 4 << 20 })
	c := conn(t, db)
	exec(t, c, "CREATE PROCEDURE many(n INT) BEGIN DECLARE i INT DEFAULT 0; "+
		"WHILE i < n DO SET i = i + 1; SELECT REPEAT('x', 50000), i; END WHILE; END")
	exec(t, c, "CREATE PROCEDURE large() SELECT REPEAT('x', 900000), REPEAT('y', 900000)")
	expect(t, c, "CALL many(1)", strings.Repeat("x", 50000)+"|1")
	expect(t, c, "CALL many(100)", strings.Repeat("x", 50000)+"|100")
	refused(t, c, 1038, "CALL large()")
	if n := s.g.query.Memory().Used(); n != 0 {
		t.Fatalf("%d bytes are still taken", n)
	}
}
