package server

import (
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/session"
)

// sessionOf is the session of a connection.
func sessionOf(t *testing.T, s *Server, c *sql.Conn) (*session.Session, *presence) {
	t.Helper()
	id, err := strconv.ParseUint(query(t, c, "SELECT CONNECTION_ID()")[0], 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	v, ok := s.g.presences.Load(uint32(id))
	if !ok {
		t.Fatal("no such connection")
	}
	p := v.(*presence)
	return s.h.session(p.conn), p
}

// fill inserts n rows of about 1 KiB each.
func fill(t *testing.T, c *sql.Conn, table string, n int) {
	t.Helper()
	for i := range n {
		exec(t, c, fmt.Sprintf("INSERT INTO %s VALUES (%d, '%s')", table, i, strings.Repeat("x", 1000)))
	}
}

// TestTemporaryMemory: temporary tables take the memory of statements, up to a bound, give it back,
// and lose nothing over the bound.
func TestTemporaryMemory(t *testing.T) {
	s, db := startServer(t, memkv.New(2, "eu"), func(cfg *Config) { cfg.Memory = 4 << 20 })
	c := conn(t, db)
	used := func(least, most int64) {
		t.Helper()
		if n := s.g.query.Memory().Used(); n < least || n > most {
			t.Fatalf("%d bytes are taken, not between %d and %d", n, least, most)
		}
	}
	exec(t, c, "CREATE TEMPORARY TABLE t (id INT PRIMARY KEY, v VARCHAR(2000)) COLLATE utf8mb4_0900_bin")
	used(0, 0)
	fill(t, c, "t", 300)
	used(300_000, 400_000)

	// A quarter of all is the bound: 1 MiB.
	more := "INSERT INTO t SELECT id + 1000 * (SELECT COUNT(*) FROM t), v FROM t WHERE id < 300"
	exec(t, c, more)
	used(600_000, 800_000)
	refused(t, c, 1114, more)
	expect(t, c, "SELECT COUNT(*), MAX(id) FROM t", "600|300299")
	used(600_000, 800_000)
	exec(t, c, "BEGIN")
	exec(t, c, "UPDATE t SET v = 'short' WHERE id = 1")
	refused(t, c, 1114, more)
	expect(t, c, "SELECT v FROM t WHERE id = 1", "short")
	exec(t, c, "COMMIT")
	expect(t, c, "SELECT COUNT(*), MIN(LENGTH(v)) FROM t", "600|5")
	refused(t, c, 1114, "CREATE TEMPORARY TABLE u (id INT PRIMARY KEY, v VARCHAR(2000)) SELECT * FROM t WHERE id < 400000")
	refused(t, c, 1146, "SELECT * FROM u")
	refused(t, c, 1114, "ALTER TABLE t ADD COLUMN w INT, MODIFY COLUMN v TEXT")
	expect(t, c, "SELECT * FROM t WHERE id = 1", "1|short")
	exec(t, c, "DELETE FROM t WHERE id >= 300")
	used(300_000, 400_000)

	// What an UPDATE changes is kept until it commits, and not longer.
	exec(t, c, "UPDATE t SET v = REPEAT('y', 1001)")
	exec(t, c, "ALTER TABLE t ADD INDEX (v)")
	exec(t, c, "ALTER TABLE t DROP INDEX v")
	exec(t, c, "ALTER TABLE t MODIFY COLUMN v TEXT")
	used(300_000, 400_000)
	expect(t, c, "SELECT COUNT(*), MIN(v) = REPEAT('y', 1001) FROM t", "300|1")
	exec(t, c, "DELETE FROM t WHERE id >= 100")
	used(100_000, 140_000)
	exec(t, c, "TRUNCATE TABLE t")
	used(0, 0)
	fill(t, c, "t", 100)
	exec(t, c, "DROP TEMPORARY TABLE t")
	used(0, 0)
}

// TestTemporaryEnds: the tables of a session end with it, when its connection is handed on, or is
// closed within a transaction.
func TestTemporaryEnds(t *testing.T) {
	s, db := startServer(t, memkv.New(2, "eu"))
	c := conn(t, db)
	begin := func() (*session.Session, *presence) {
		exec(t, c, "USE test")
		exec(t, c, "CREATE TEMPORARY TABLE t (id INT PRIMARY KEY, v VARCHAR(2000))")
		fill(t, c, "t", 10)
		own, p := sessionOf(t, s, c)
		if own.TemporaryBytes() < 10_000 || s.g.query.Memory().Used() != own.TemporaryBytes() {
			t.Fatalf("%d bytes of ten rows, %d of all", own.TemporaryBytes(), s.g.query.Memory().Used())
		}
		return own, p
	}
	own, p := begin()
	if err := s.h.ComResetConnection(p.conn); err != nil {
		t.Fatal(err)
	}
	if n := s.g.query.Memory().Used(); n != 0 || own.HasTemporary() {
		t.Fatalf("reset: %d bytes are left", n)
	}
	refused(t, c, 1146, "SELECT * FROM test.t")
	own, _ = begin()
	exec(t, c, "BEGIN")
	exec(t, c, "DELETE FROM t WHERE id < 5")
	own.SessionEnd()
	if n := s.g.query.Memory().Used(); n != 0 || own.HasTemporary() {
		t.Fatalf("closed: %d bytes are left", n)
	}
}

// TestTemporaryFast: the fast path changes rows of temporary tables.
func TestTemporaryFast(t *testing.T) {
	s, db := startServer(t, memkv.New(2, "eu"))
	c := conn(t, db)
	exec(t, c, "CREATE TEMPORARY TABLE t (id INT PRIMARY KEY, v INT)")
	exec(t, c, "INSERT INTO t VALUES (1, 1), (2, 2)")
	own, p := sessionOf(t, s, c)
	for _, q := range []string{"UPDATE t SET v = v + 1 WHERE id = 1", "INSERT INTO t VALUES (3, 3)", "DELETE FROM t WHERE id = 2"} {
		var sent bool
		done, err := s.g.fast.Text(own, p.conn, q).Try(t.Context(), &sent, func(*sqltypes.Result) error { return nil })
		if !done || err != nil {
			t.Errorf("%s: done %v, %v", q, done, err)
		}
	}
	expect(t, c, "SELECT * FROM t ORDER BY id", "1|2", "3|3")
}
