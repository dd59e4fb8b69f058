package server

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/kv/memkv"
)

// greedyOld are statements that keep more than they may, as go-mysql-server runs them.
var greedyOld = []string{
	"SELECT x.a FROM t x, t y ORDER BY x.b, y.b, x.a + y.a LIMIT 999999, 1",
	"SELECT * FROM (SELECT x.a, y.b FROM t x, t y ORDER BY x.b, y.b) q ORDER BY 1 LIMIT 5",
	"SELECT a FROM t UNION ALL SELECT a FROM t ORDER BY a LIMIT 1000000000000",
	"SELECT COUNT(*) FROM (SELECT x.a, y.a AS ya, COUNT(*) FROM t x, t y GROUP BY x.a, y.a) q",
	"SELECT COUNT(*) FROM (SELECT x.a + 1000 * y.a FROM t x, t y GROUP BY x.a + 1000 * y.a) q",
	"SELECT LENGTH(GROUP_CONCAT(x.b, y.b)) FROM t x, t y",
	"SELECT LENGTH(JSON_ARRAYAGG(CONCAT(x.b, y.b))) FROM t x, t y",
	"SELECT LENGTH(JSON_OBJECTAGG(CONCAT(x.a, '-', y.a), x.b)) FROM t x, t y",
	"SELECT COUNT(DISTINCT x.a, y.a) FROM t x, t y",
	"SELECT COUNT(*) FROM (SELECT DISTINCT x.a, y.a AS ya FROM t x, t y) q",
	"SELECT SUM(r) FROM (SELECT ROW_NUMBER() OVER (ORDER BY x.b, y.b) AS r FROM t x, t y) q",
	"SELECT COUNT(*) FROM (SELECT x.a, y.a AS ya FROM t x, t y UNION SELECT x.a, y.b FROM t x, t y) q",
	"SELECT COUNT(*) FROM (SELECT x.b, y.a FROM t x, t y INTERSECT SELECT x.b, y.a FROM t x, t y) q",
	"SELECT COUNT(*) FROM (SELECT x.b, y.a FROM t x, t y EXCEPT SELECT x.b, 1 FROM t x, t y) q",
	"SELECT COUNT(*) FROM t WHERE b IN (SELECT CONCAT(x.b, y.b) FROM t x, t y)",
	"SELECT COUNT(*) FROM t z WHERE b IN (SELECT CONCAT(x.b, y.b, z.a) FROM t x, t y)",
	"SELECT COUNT(*) FROM t z JOIN (SELECT CONCAT(x.b, y.b) AS k FROM t x, t y) q ON z.b = q.k",
	"WITH RECURSIVE r AS (SELECT 1 AS n, REPEAT('x', 1000) AS s UNION SELECT n + 1, CONCAT(s, 'x') FROM r WHERE n < 900) " +
		"SELECT COUNT(*) FROM r, t x, t y GROUP BY r.s, x.a, y.a",
	"WITH RECURSIVE r AS (SELECT a FROM t UNION ALL SELECT r.a FROM r, t WHERE t.a < 60) SELECT COUNT(*) FROM r",
	"SELECT x.b, y.b FROM t x, t y INTO @p, @q",
	"CALL greedy()",
	"CALL selects()",
	"SELECT COUNT(*) FROM information_schema.columns x, information_schema.columns y GROUP BY x.column_name, y.column_name, " +
		"x.table_name, y.table_name",
	// Rows on their way to the client, and a row of many values.
	"SELECT REPEAT('a', 100000) FROM t",
	"SELECT REPEAT('a', 1000000) FROM information_schema.columns",
	"SELECT " + strings.Repeat("CONCAT(REPEAT('a', 100000), 'b'), ", 100) + "1",
	"SELECT " + strings.Repeat("UPPER(REPEAT('a', 100000)), ", 100) + "1",
}

// newGreedy makes a server whose statements may keep 4 MiB, with a table of 400 rows.
func newGreedy(t *testing.T) (*Server, *sql.DB) {
	s, c := startServer(t, memkv.New(4, "eu", "us"), func(cfg *Config) { cfg.Memory = 16 << 20 })
	exec(t, c, "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(300))")
	rows := make([]string, 400)
	for i := range rows {
		rows[i] = fmt.Sprintf("(%d, '%s')", i, strings.Repeat(fmt.Sprintf("v%d", i), 30))
	}
	exec(t, c, "INSERT INTO t VALUES "+strings.Join(rows, ", "))
	exec(t, c, "CREATE PROCEDURE greedy() SELECT x.b, y.b FROM t x, t y ORDER BY x.b, y.b")
	exec(t, c, "CREATE PROCEDURE selects() BEGIN SELECT x.b, y.b FROM t x, t y; END")
	return s, c
}

// TestEngineMemory: no operator of go-mysql-server keeps more than a statement may, and what it
// kept is given back.
func TestEngineMemory(t *testing.T) {
	s, c := newGreedy(t)
	k := conn(t, c)
	exec(t, k, toEngine)
	exec(t, k, "SET cte_max_recursion_depth = 1000")
	exec(t, k, "SET group_concat_max_len = 1000000")
	for _, q := range greedyOld {
		out, err := tryQuery(k, q)
		var e *mysql.MySQLError
		if !errors.As(err, &e) || e.Number != 1038 {
			t.Errorf("%s: %.80q, %v; want 1038", q, out, err)
		}
		if n := s.g.query.Memory().Used(); n != 0 {
			t.Errorf("%s: %d bytes were not given back", q, n)
		}
	}
	// A statement that keeps little, many times over, is none of them.
	if out := query(t, k, "SELECT COUNT(*) FROM t z WHERE EXISTS (SELECT DISTINCT x.b FROM t x WHERE x.a <> z.a ORDER BY x.b LIMIT 1)"); out[0] != "400" {
		t.Errorf("correlated: %v", out)
	}
	if out := query(t, k, "SELECT COUNT(*) FROM t z WHERE z.a IN (SELECT x.a FROM t x WHERE x.a <= z.a)"); out[0] != "400" {
		t.Errorf("correlated IN: %v", out)
	}
	if out := query(t, k, "SELECT COUNT(*) FROM t x, t y WHERE x.a + y.a > 0"); out[0] != "159999" {
		t.Errorf("join: %v", out)
	}
	if out := query(t, k, "SELECT a FROM t ORDER BY b LIMIT 100000, 1"); len(out) != 0 {
		t.Errorf("large limit: %v", out)
	}
	if out := query(t, k, "SELECT a FROM t ORDER BY a DESC LIMIT 2, 100000"); len(out) != 398 || out[0] != "397" {
		t.Errorf("large limit: %d rows", len(out))
	}
	if out := query(t, k, "SELECT a FROM t ORDER BY b LIMIT 1000000000000"); len(out) != 400 {
		t.Errorf("huge limit: %d rows", len(out))
	}
	if out := query(t, k, "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 1000) SELECT SUM(n) FROM r"); out[0] != "500500" {
		t.Errorf("recursion: %v", out)
	}
	// What is buffered until a result ends. The client is in the middle of reading.
	if n, number := drained(t, k, "SELECT x.b, y.b FROM t x, t y"); number != 1038 || n == 0 {
		t.Errorf("a result of 38 MB was buffered: error %d after %d rows", number, n)
	}
	if n := s.g.query.Memory().Used(); n != 0 {
		t.Errorf("%d bytes of a buffered result were not given back", n)
	}
}

// TestEngineInterrupted: what go-mysql-server executes ends when it is killed, whatever it is at.
// Each of these would take hours.
func TestEngineInterrupted(t *testing.T) {
	_, c := newGreedy(t)
	k, killer := conn(t, c), conn(t, c)
	exec(t, k, toEngine)
	id := query(t, k, "SELECT CONNECTION_ID()")[0]
	for _, q := range []string{
		"SELECT COUNT(*) FROM t v, t w, t x, t y, t z WHERE v.a + w.a + x.a + y.a + z.a < 0",
		"SELECT COUNT(*) FROM t v, t w, t x, t y, t z GROUP BY v.a",
		"SELECT v.a FROM t v, t w, t x, t y, t z ORDER BY v.b, w.b LIMIT 3",
		"SELECT COUNT(*) FROM (SELECT DISTINCT v.a FROM t v, t w, t x, t y, t z) q",
		"SELECT COUNT(*) FROM t WHERE a IN (SELECT 1000 + COUNT(*) FROM t v, t w, t x, t y, t z)",
	} {
		ended := make(chan error, 1)
		go func() {
			_, err := tryQuery(k, q)
			ended <- err
		}()
		eventually(t, "the statement begins", func() bool {
			return len(query(t, killer, "SELECT 1 FROM information_schema.processlist WHERE id = "+id+" AND info = '"+q+"'")) == 1
		})
		exec(t, killer, "KILL QUERY "+id)
		var e *mysql.MySQLError
		if err := <-ended; !errors.As(err, &e) || e.Number != 1317 {
			t.Errorf("%s: %v, want 1317", q, err)
		}
	}
}

// TestManyTables: go-mysql-server does not try all orders of a join of many tables, which would
// take minutes from 13 on, and its answers are those of our own engine.
func TestManyTables(t *testing.T) {
	_, c := newGreedy(t)
	old, own := conn(t, c), conn(t, c)
	exec(t, old, toEngine)
	exec(t, own, "CREATE TABLE r (a INT PRIMARY KEY, n INT)")
	for n := 8; n <= 16; n++ {
		inner, outer, comma := "SELECT COUNT(*), SUM(t0.a) FROM t t0", "SELECT COUNT(*), SUM(t0.a) FROM t t0", []string{"t t0"}
		var where []string
		for i := 1; i < n; i++ {
			inner += fmt.Sprintf(" JOIN t t%d USING (a)", i)
			outer += fmt.Sprintf(" LEFT JOIN t t%d ON t%d.a = t%d.a", i, i, i-1)
			comma = append(comma, fmt.Sprintf("t t%d", i))
			where = append(where, fmt.Sprintf("t%d.a = t%d.a", i, i-1))
		}
		for _, q := range []string{inner, outer, outer + " WHERE t3.a > 100", "SELECT COUNT(*), SUM(t0.a) FROM " +
			strings.Join(comma, ", ") + " WHERE " + strings.Join(where, " AND ")} {
			if got, want := query(t, old, q), query(t, own, q); got[0] != want[0] {
				t.Errorf("%s: %v, want %v", q, got, want)
			}
		}
		// An UPDATE takes its columns from all tables. Hints do not matter to what is tried.
		exec(t, own, "REPLACE INTO r SELECT a, 0 FROM t")
		exec(t, old, fmt.Sprintf("UPDATE /*+ JOIN_ORDER(t1, r) */ r JOIN %s SET r.n = t1.a + %d WHERE r.a = t0.a AND %s",
			strings.Join(comma, " JOIN "), n, strings.Join(where, " AND ")))
		if got, want := query(t, own, "SELECT COUNT(*), SUM(n - a) FROM r"), fmt.Sprintf("400|%d", 400*n); got[0] != want {
			t.Errorf("UPDATE of %d tables: %v, want %s", n+1, got, want)
		}
	}
}

// TestListMemory: the list of an IN counts to what a statement may keep, with what else it keeps,
// whichever engine runs it.
func TestListMemory(t *testing.T) {
	s, c := newGreedy(t)
	k := conn(t, c)
	limit := s.g.query.Budget().Limit()
	list := func(n int64) string { return "(" + strings.Repeat("00000000000000001234567, ", int(n)-1) + "1)" }
	fits, over := limit/768*9/10, limit/768*11/10 // values
	for _, q := range []string{"SELECT COUNT(*) FROM t WHERE a IN ", "DELETE FROM t WHERE a + 1000 IN "} {
		if _, err := k.ExecContext(t.Context(), q+list(fits)); err != nil {
			t.Errorf("%s%d values: %v", q, fits, err)
		}
		if _, err := k.ExecContext(t.Context(), q+list(over)); errNumber(t, err) != 1038 {
			t.Errorf("%s%d values: %v, want 1038", q, over, err)
		}
	}
	kept := "SELECT LENGTH(JSON_ARRAYAGG(x.b)) FROM t x, t y WHERE y.a < 20"
	query(t, k, kept)
	if _, err := k.ExecContext(t.Context(), kept+" AND x.a NOT IN "+list(fits)); errNumber(t, err) != 1038 {
		t.Errorf("what a statement keeps beside a list: %v, want 1038", err)
	}
	if n := s.g.query.Memory().Used(); n != 0 {
		t.Errorf("%d bytes were not given back", n)
	}
}
