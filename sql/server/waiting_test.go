package server

import (
	"fmt"
	"testing"

	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/exec/budget"
)

// TestChangesBeyondMemory: changes that keep their rows until the first one is written, and those
// of a client's transaction, change more rows than their statement may keep in memory.
func TestChangesBeyondMemory(t *testing.T) {
	s, db := startServer(t, memkv.New(2, "eu"), func(cfg *Config) { cfg.Memory = 4 << 20 })
	c := conn(t, db)
	const n = 1000 // of some 2 KiB, of which a statement may keep 1 MiB
	exec(t, c, "SET cte_max_recursion_depth = 100000")
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, k INT NOT NULL, u INT UNIQUE, d DECIMAL(20,3), s VARCHAR(40), pad VARCHAR(2100), g INT AS (k + 1) STORED, INDEX (k), CHECK (k < 1000000))")
	exec(t, c, "CREATE TABLE src LIKE t")
	exec(t, c, fmt.Sprintf("INSERT INTO src (id, k, u, d, s, pad) WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < %d) "+
		"SELECT i, i %% 100, i, i / 8, 'x', REPEAT('x', 2000) FROM r", n))
	exec(t, c, "CREATE TABLE child (id INT PRIMARY KEY, p INT, pad VARCHAR(1000), FOREIGN KEY (p) REFERENCES t (id) ON DELETE CASCADE ON UPDATE CASCADE)")
	exec(t, c, "CREATE TABLE log (id INT PRIMARY KEY, was INT)")
	fill := func() {
		t.Helper()
		exec(t, c, "DELETE FROM t")
		exec(t, c, "INSERT INTO t (id, k, u, d, s, pad) SELECT id, k, u, d, s, pad FROM src")
	}
	sum := func(want ...string) {
		t.Helper()
		expect(t, c, "SELECT COUNT(*), SUM(id), SUM(k), SUM(u), SUM(d), SUM(g), SUM(LENGTH(s)) + SUM(LENGTH(pad)) FROM t", want...)
		expect(t, c, "SELECT COUNT(*) FROM t FORCE INDEX (k) WHERE k > -1", want[0][:len("1000")])
	}
	before := budget.Spilled.Load()
	fill()
	of := "1000|500500|49500|500500|62562.500|50500|2001000"
	sum(of)
	files := func(what string) {
		t.Helper()
		if now := budget.Spilled.Load(); now == before {
			t.Errorf("%s wrote no file", what)
		} else {
			before = now
		}
		if used := s.g.query.Memory().Used(); used != 0 {
			t.Errorf("%s: %d bytes are still taken", what, used)
		}
	}

	exec(t, c, "UPDATE t SET id = id + 10000, u = u + 10000, d = d + 0.5")
	files("an UPDATE of keys")
	sum("1000|10500500|49500|10500500|63062.500|50500|2001000")
	exec(t, c, "UPDATE t SET id = id - 10000, u = u - 10000, d = d - 0.5 ORDER BY id")
	files("an UPDATE in an order")
	sum(of)
	exec(t, c, "UPDATE IGNORE t SET k = IF(id % 2, 7000000, k), s = CONCAT(s, 'y')")
	files("an UPDATE IGNORE")
	expect(t, c, "SELECT COUNT(*) FROM t WHERE s LIKE '%y'", "500")
	exec(t, c, "REPLACE INTO t (id, k, u, d, s, pad) SELECT id, k, u, d, s, pad FROM t WHERE id > 0")
	files("a REPLACE of the same table")
	exec(t, c, "INSERT INTO t (id, k, u, d, s, pad) SELECT id, k, u, d, s, pad FROM src ON DUPLICATE KEY UPDATE s = VALUES(s)")
	files("an INSERT with ON DUPLICATE KEY UPDATE")
	sum(of)
	exec(t, c, "UPDATE t JOIN src USING (id) SET t.s = CONCAT(src.s, 'z'), t.k = src.k + 1")
	files("an UPDATE of a join")
	sum("1000|500500|50500|500500|62562.500|51500|2002000")

	// In a transaction of the client nothing but its buffer holds the rows.
	exec(t, c, "BEGIN")
	exec(t, c, "UPDATE t SET s = CONCAT(s, 'abc'), k = k + 1")
	exec(t, c, "UPDATE t SET s = CONCAT(s, 'def'), k = k - 1")
	sum("1000|500500|50500|500500|62562.500|51500|2008000")
	refused(t, c, 3819, "UPDATE t SET k = IF(id = 999, 2000000, k + 5), s = 'lost'")
	sum("1000|500500|50500|500500|62562.500|51500|2008000")
	exec(t, c, "DELETE FROM t WHERE id > 500")
	exec(t, c, "ROLLBACK")
	sum("1000|500500|50500|500500|62562.500|51500|2002000")
	exec(t, c, "BEGIN")
	exec(t, c, "UPDATE t SET s = CONCAT(s, 'abc'), k = k - 1")
	exec(t, c, "COMMIT")
	sum("1000|500500|49500|500500|62562.500|50500|2005000")

	exec(t, c, "INSERT INTO child SELECT id, id, REPEAT('c', 900) FROM src")
	exec(t, c, "CREATE TRIGGER tr AFTER DELETE ON t FOR EACH ROW INSERT INTO log VALUES (OLD.id, OLD.k)")
	before = budget.Spilled.Load()
	exec(t, c, "DELETE FROM t")
	files("a DELETE with a trigger and a foreign key")
	expect(t, c, "SELECT (SELECT COUNT(*) FROM t), (SELECT COUNT(*) FROM child), COUNT(*), SUM(was) FROM log", "0|0|1000|49500")
}
