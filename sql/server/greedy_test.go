package server

import (
	"strconv"
	"strings"
	"testing"
)

// What would take too much is refused, or NULL with a warning, before it takes it; and what is only
// long is executed.
func TestGreedyStatements(t *testing.T) {
	_, c := newServer(t)
	exec(t, c, "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(20))")
	exec(t, c, "INSERT INTO t VALUES (1, 'x'), (2, 'y')")
	long := func(s string, n int) string { return strings.Repeat(s, n) }
	ctes := "WITH c0 AS (SELECT x.a FROM t x, t y WHERE x.a = 1 AND y.a = 1)"
	for i := 1; i < 40; i++ {
		ctes += strings.NewReplacer("N", strconv.Itoa(i), "P", strconv.Itoa(i-1)).Replace(", cN AS (SELECT x.a FROM cP x, cP y WHERE x.a = y.a)")
	}
	for _, k := range []struct{ q, want string }{
		{"SELECT SPACE(1000000000)", "NULL"},
		{"SELECT LENGTH(REPEAT('ab', 1000000000))", "NULL"},
		{"SELECT LENGTH(REPEAT('x', 67108864))", "67108864"},
		{"SELECT LENGTH(LPAD('x', 2000000000, 'y'))", "NULL"},
		{"SELECT LENGTH(REPLACE(REPEAT('x', 1000000), 'x', REPEAT('y', 1000000)))", "NULL"},
		{"SELECT LENGTH(REGEXP_REPLACE(REPEAT('x', 1000000), 'x', REPEAT('y', 1000000)))", "NULL"},
		{"SELECT LENGTH(REGEXP_REPLACE(REPEAT('x', 100000), 'y', REPEAT('y', 100000)))", "100000"},
		{"SELECT LENGTH(CONCAT(" + long("s, ", 999) + "s)) FROM (SELECT REPEAT('x', 1000000) AS s) q", "NULL"},
		{"SELECT LENGTH(CONCAT_WS(',', " + long("s, ", 999) + "s)) FROM (SELECT REPEAT('x', 1000000) AS s) q", "NULL"},
		{"SELECT LENGTH(UNCOMPRESS(CONCAT(UNHEX('FFFFFF7F'), 'abc')))", "NULL"},
		{"SELECT " + long("1+", 20000) + "1", "20001"},
		{"SELECT COUNT(*) FROM t WHERE a IN (" + long("7, ", 200000) + "1)", "1"},
		{"SELECT COUNT(*) FROM t WHERE " + long("a = 7 AND b = 'y' OR ", 5000) + "a = 1", "1"},
		{ctes + " SELECT COUNT(*) FROM c39", "1"},
	} {
		expect(t, c, k.q, k.want)
	}
	expect(t, c, "SELECT COUNT(*) FROM t t0"+joined(61), "2")
	for _, k := range []struct {
		q    string
		code uint16
	}{
		{"SELECT " + long("1+", 150_000) + "1", 1436},
		{"SELECT " + long("(", 150_000) + "1" + long(")", 150_000), 1436},
		{"SELECT * FROM " + long("(SELECT * FROM ", 60_000) + "t" + long(") q", 60_000), 1436},
		{"SELECT SUM(LENGTH(s)) FROM (SELECT " + "REPEAT('x', 60000000) AS s, " +
			"REPEAT('y', 60000000) AS u, REPEAT('z', 60000000) AS v, REPEAT('w', 60000000) AS w, REPEAT('q', 60000000) AS k) q " +
			"GROUP BY s, u, v, w, k", 1038},
		{"SELECT 1 FROM " + long("t, ", 150_000) + "t", 1436},
		{"SELECT COUNT(*) FROM t t0" + joined(62), 1116},
		{"SET SESSION max_allowed_packet = 1073741824", 1621},
	} {
		expectErr(t, c, k.code, k.q)
	}
	expect(t, c, "SELECT COUNT(*) FROM t", "2")
}

// joined are the tables behind the first one of a join of n.
func joined(n int) string {
	var b strings.Builder
	for i := 1; i < n; i++ {
		b.WriteString(" JOIN t t" + strconv.Itoa(i) + " USING (a)")
	}
	return b.String()
}
