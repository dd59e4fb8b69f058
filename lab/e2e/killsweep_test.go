package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// sweepVar has TestKillSweep run: its value is how often each statement is ended in each way. It
// needs a machine on which nothing else runs.
const sweepVar = "GODWIT_KILL_SWEEP"

// tooLateEnd is the bound of the sweep.
const tooLateEnd = 100 * time.Millisecond

// swept are statements that take long, or much. Those with "old:" are run by go-mysql-server.
func swept() map[string]string {
	times := func(n int, sep, format string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = strings.ReplaceAll(format, "#", strconv.Itoa(i))
		}
		return strings.Join(parts, sep)
	}
	all := map[string]string{
		"join of 14":         "SELECT COUNT(*) FROM t t0 " + times(14, " ", "JOIN t u# USING (a)"),
		"join of 60":         "SELECT COUNT(*) FROM t t0 " + times(60, " ", "JOIN t u# USING (a)"),
		"join of 14, free":   "SELECT COUNT(*) FROM t t0 " + times(13, " ", "JOIN t u#") + " WHERE " + times(13, " AND ", "t0.b < u#.b"),
		"star of 14":         "SELECT COUNT(*) FROM big f " + times(13, " ", "JOIN t u# ON u#.a = f.c"),
		"1,000 UNIONs":       "SELECT COUNT(*) FROM (" + times(1000, " UNION ", "SELECT # AS n, b FROM t WHERE a < 40") + ") q, t x, t y WHERE x.a + y.a < 0",
		"1,000 UNIONs, text": "SELECT COUNT(*) FROM (" + times(1000, " UNION ", "SELECT # AS n") + ") q",
		"20,000 terms":       "SELECT " + times(20_000, "+", "1"),
		"5,000 ORs":          "SELECT COUNT(*) FROM big WHERE " + times(5000, " OR ", "a = # AND c < 7"),
		"200,000 in IN":      "SELECT COUNT(*) FROM big WHERE a IN (" + times(200_000, ",", "#") + ")",
		"20 CTEs":            "WITH c0 AS (SELECT a FROM t)" + times(18, "", ", d# AS (SELECT 1)") + times(12, "", ", e# AS (SELECT x.a FROM t x, t y WHERE x.a = y.a)") + " SELECT COUNT(*) FROM e1, e2, e3",

		"MAX of long":       "SELECT MAX(CONCAT(x.s, y.s)) FROM longs x, longs y, t z",
		"sort of long":      "SELECT x.n FROM longs x, t y ORDER BY CONCAT(y.b, x.s) LIMIT 100000, 1",
		"group of long":     "SELECT COUNT(*) FROM (SELECT CONCAT(x.s, y.a) AS k FROM longs x, t y GROUP BY k) q",
		"UNION of long":     "SELECT COUNT(*) FROM (SELECT CONCAT(x.s, y.a) AS k FROM longs x, t y UNION SELECT CONCAT(x.s, y.b) FROM longs x, t y) q",
		"DISTINCT of long":  "SELECT COUNT(DISTINCT x.s, y.a) FROM longs x, t y",
		"join of long":      "SELECT COUNT(*) FROM longs x JOIN longs y ON CONCAT(x.s, '1') = CONCAT(y.s, '1') JOIN t z",
		"LIKE of long":      "SELECT COUNT(*) FROM longs x, t y WHERE x.s LIKE CONCAT('%', y.b, '%z%')",
		"REGEXP of long":    "SELECT COUNT(*) FROM longs x, t y WHERE REGEXP_LIKE(x.s, CONCAT('v[0-9]+q', y.a))",
		"REPLACE of long":   "SELECT SUM(LENGTH(REPLACE(x.s, 'v', y.b))) FROM longs x, t y",
		"window of long":    "SELECT SUM(r) FROM (SELECT RANK() OVER (ORDER BY CONCAT(x.s, y.b)) AS r FROM longs x, t y) q",
		"MAX window":        "SELECT COUNT(m) FROM (SELECT MAX(CONCAT(x.s, y.b)) OVER (ORDER BY x.n, y.a ROWS BETWEEN 7 PRECEDING AND CURRENT ROW) AS m FROM longs x, t y) q",
		"GROUP_CONCAT":      "SELECT LENGTH(GROUP_CONCAT(x.s, y.b ORDER BY y.b, x.s)) FROM longs x, t y",
		"JSON_ARRAYAGG":     "SELECT LENGTH(JSON_ARRAYAGG(x.s)) FROM longs x, t y",
		"JSON_TABLE":        "SELECT COUNT(*) FROM JSON_TABLE(CONCAT('[', REPEAT('1,', 1000000), '1]'), '$[*]' COLUMNS (x INT PATH '$')) j, t",
		"JSON_SEARCH":       "SELECT COUNT(JSON_SEARCH(d.j, 'all', '%9%7%')) FROM docs d, t",
		"JSON_EXTRACT":      "SELECT COUNT(*) FROM docs d, t WHERE JSON_EXTRACT(d.j, CONCAT('$[', t.a, ']')) > t.a",
		"long literal":      "SELECT COUNT(*) FROM t x, t y, t z WHERE x.b <> '" + strings.Repeat("w", 4<<20) + "'",
		"spilled sort":      "SELECT a FROM (SELECT x.a, CONCAT(x.b, y.b, z.b) AS s FROM t x, t y, t z) q ORDER BY s LIMIT 10000000, 5",
		"spilled sort, big": "SELECT x.a FROM big x, t y ORDER BY x.d, y.b LIMIT 20000000, 1",
		"spilled join":      "SELECT COUNT(*) FROM (SELECT x.a, y.b FROM big x, t y) p JOIN (SELECT x.a, y.b FROM big x, t y) q ON p.b = q.b AND p.a = q.a",
		"spilled groups":    "SELECT COUNT(*) FROM (SELECT x.d, y.a, COUNT(*) FROM big x, t y GROUP BY x.d, y.a) q",
		"groups":            "SELECT c, COUNT(*), SUM(big.a), MIN(d), MAX(d) FROM big, t GROUP BY c",
		"window":            "SELECT SUM(r) FROM (SELECT SUM(x.a) OVER (PARTITION BY x.c ORDER BY x.d, y.b) AS r FROM big x, t y) q",
		"recursion":         "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 900) SELECT COUNT(*) FROM r, r s, r t, r u",
		"correlated":        "SELECT COUNT(*) FROM big x WHERE x.c < (SELECT COUNT(*) FROM big y WHERE y.c + 0 = x.c AND y.d > x.d)",
		"result":            "SELECT x.b, y.b, z.b FROM t x, t y, t z",
		"INSERT SELECT":     "INSERT INTO u SELECT x.a * 1000000 + y.a * 1000 + z.a, REPEAT('x', 1000) FROM t x, t y, t z",
		"UPDATE":            "UPDATE big SET d = CONCAT(d, '') WHERE SLEEP(0) = 0",
		"DELETE":            "DELETE x FROM big x JOIN big y ON x.c = y.c JOIN t z WHERE x.d > y.d AND z.a > 1000",
		"lock":              "SELECT * FROM locked WHERE a = 1 FOR UPDATE",
		"update of locked":  "UPDATE locked SET a = 2 WHERE a = 1",
		"SLEEP":             "SELECT SLEEP(100) FROM t",
		"SHA2":              "SELECT COUNT(SHA2(x.s, 512)) FROM longs x, t y, t z",
		"COMPRESS":          "SELECT COUNT(COMPRESS(x.s)) FROM longs x, t y, t z",
		"procedure":         "CALL looping()",
		"information":       "SELECT COUNT(*) FROM information_schema.columns x, information_schema.columns y, information_schema.columns z",
	}
	for name, q := range map[string]string{
		"join of 8":     "SELECT COUNT(*) FROM t t0 " + times(7, " ", "JOIN t u# ON t0.b < u#.b"),
		"join of 14":    "SELECT COUNT(*) FROM t t0 " + times(13, " ", "JOIN t u# ON t0.b < u#.b"),
		"100 UNIONs":    "SELECT COUNT(*) FROM (" + times(100, " UNION ", "SELECT #, x.b FROM t x, t y") + ") q",
		"sort":          "SELECT x.b FROM t x, t y, t z ORDER BY x.b, y.b, z.b",
		"DISTINCT":      "SELECT COUNT(DISTINCT x.a, y.a, z.a) FROM t x, t y, t z",
		"GROUP_CONCAT":  "SELECT LENGTH(GROUP_CONCAT(x.b, y.b, z.b)) FROM t x, t y, t z",
		"JSON_ARRAYAGG": "SELECT LENGTH(JSON_ARRAYAGG(CONCAT(x.b, y.b, z.b))) FROM t x, t y, t z",
		"IN":            "SELECT COUNT(*) FROM t WHERE b IN (SELECT CONCAT(x.b, y.b) FROM t x, t y, t z)",
		"window":        "SELECT SUM(r) FROM (SELECT ROW_NUMBER() OVER (ORDER BY x.b, y.b, z.b) AS r FROM t x, t y, t z) q",
		"groups":        "SELECT COUNT(*) FROM information_schema.columns x, information_schema.columns y, information_schema.columns z GROUP BY x.column_name, y.column_name, z.column_name",
		"MAX of long":   "SELECT MAX(CONCAT(x.s, y.s)) FROM longs x, longs y, t z",
		"sort of long":  "SELECT x.n FROM longs x, t y ORDER BY CONCAT(y.b, x.s)",
		"REGEXP":        "SELECT COUNT(*) FROM longs x, t y WHERE REGEXP_LIKE(x.s, CONCAT('v[0-9]+q', y.a))",
		"LIKE of long":  "SELECT COUNT(*) FROM longs x, t y WHERE x.s LIKE CONCAT('%', y.b, '%z%')",
		"result":        "SELECT x.b, y.b, z.b FROM t x, t y, t z",
		"39,000 in IN":  "SELECT COUNT(*) FROM big WHERE a IN (" + times(39_000, ",", "#") + ")",
	} {
		all["old: "+name] = q
	}
	return all
}

// sweptTables makes what the statements read.
func sweptTables(t *testing.T, n *node) {
	t.Helper()
	hungryTables(t, n)
	db := n.open(t, "a")
	for _, q := range []string{
		"CREATE TABLE longs (n INT PRIMARY KEY, s LONGTEXT)", "CREATE TABLE docs (n INT PRIMARY KEY, j JSON)",
		"CREATE TABLE big (a INT PRIMARY KEY, c INT, d VARCHAR(100))", "CREATE TABLE locked (a INT PRIMARY KEY)",
		"INSERT INTO locked VALUES (1)",
		"INSERT INTO longs SELECT a, REPEAT(CONCAT('v', a, 'abc'), 30000) FROM t WHERE a < 60",
		"INSERT INTO docs SELECT a, CONCAT('[', REPEAT('123,\"some text\",', 20000), '7]') FROM t WHERE a < 5",
		"INSERT INTO big SELECT x.a * 400 + y.a, x.a, CONCAT(SHA1(x.a * 400 + y.a), x.b) FROM t x, t y WHERE x.a < 100",
		"CREATE PROCEDURE looping() BEGIN DECLARE i INT DEFAULT 0; WHILE i >= 0 DO SET i = (SELECT COUNT(*) FROM t x, t y WHERE x.b < y.b); END WHILE; END",
	} {
		q = strings.Replace(q, "CONCAT(SHA1(x.a * 400 + y.a), x.b)", "SUBSTR(CONCAT(SHA1(x.a * 400 + y.a), x.b), 1, 100)", 1)
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
}

// ended is how a statement was ended, and how long that took.
type ended struct {
	name, how string
	after     time.Duration // since it began
	took      time.Duration
}

// TestKillSweep ends statements at random moments by KILL, by max_execution_time and by the end of
// their clients, and says how long it took until the client had the error, or the node had no such
// thread any more.
func TestKillSweep(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv(sweepVar))
	if err != nil {
		t.Skip("it measures: " + sweepVar + " is how often each statement is ended in each way")
	}
	c := startCluster(t, t.TempDir(), 1, 1)
	t.Cleanup(c.kill)
	c.logOnFailure(t)
	n := c.nodes[0]
	sweptTables(t, n)
	holder, err := n.open(t, "a").Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{"BEGIN", "UPDATE locked SET a = 1 WHERE a = 1", "SELECT * FROM locked FOR UPDATE"} {
		if _, err := holder.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	killer := n.open(t, "")
	killer.SetMaxOpenConns(1)
	var all []ended
	only := os.Getenv(sweepVar + "_ONLY")
	for name, q := range swept() {
		if !strings.Contains(name, only) {
			continue
		}
		old := strings.HasPrefix(name, "old: ")
		for range rounds {
			for _, how := range []string{"KILL", "max_execution_time", "the client's end"} {
				if e, ok := endStatement(t, n, killer, q, how, old); ok {
					e.name = name
					all = append(all, e)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b ended) int { return int(b.took - a.took) })
	if len(all) == 0 {
		t.Fatal("no statement was ended")
	}
	for _, how := range []string{"KILL", "max_execution_time", "the client's end"} {
		var l latencies
		for _, e := range all {
			if e.how == how {
				l = append(l, e.took)
			}
		}
		slices.Sort(l)
		t.Logf("%s: %d times, p50 %v, p90 %v, p99 %v, max %v", how, len(l), l.at(50), l.at(90), l.at(99), l.at(100))
	}
	for i, e := range all {
		if i < 25 {
			t.Logf("%s, by %s, after %v: %v", e.name, e.how, e.after.Round(time.Millisecond), e.took.Round(100*time.Microsecond))
		}
		if e.took > tooLateEnd {
			t.Errorf("%s, by %s: %v", e.name, e.how, e.took)
		}
	}
}

// endStatement begins a statement and ends it; ok is false if it had ended before.
func endStatement(t *testing.T, n *node, killer *sql.DB, q, how string, old bool) (e ended, ok bool) {
	t.Helper()
	db := client(n.sql, "a")
	defer db.Close()
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	k, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var id int
	if err := k.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		t.Fatal(err)
	}
	after := time.Duration(float64(time.Second) * min(1.5, 0.01+rand.ExpFloat64()/3))
	settings := []string{}
	if old {
		settings = append(settings, "SET godwit_own_engine = OFF")
	}
	if how == "max_execution_time" {
		settings = append(settings, fmt.Sprintf("SET max_execution_time = %d", after.Milliseconds()))
		after = after.Truncate(time.Millisecond)
		if !strings.HasPrefix(q, "SELECT") && !strings.HasPrefix(q, "WITH") {
			return e, false
		}
	}
	for _, s := range settings {
		if _, err := k.ExecContext(ctx, s); err != nil {
			t.Fatal(err)
		}
	}
	// Who writes a long text to the node is not yet answered: the clock begins with its end.
	begin := time.Now()
	result := make(chan time.Time, 1)
	var said error
	go func() {
		rows, err := k.QueryContext(ctx, q)
		if err == nil {
			for rows.Next() {
			}
			err = rows.Err()
			_ = rows.Close()
		}
		said = err
		result <- time.Now()
	}()
	at := begin.Add(after)
	switch how {
	case "KILL":
		time.Sleep(time.Until(at))
		at = time.Now()
		if _, err := killer.ExecContext(t.Context(), "KILL QUERY "+strconv.Itoa(id)); err != nil {
			t.Fatal(err)
		}
	case "the client's end":
		time.Sleep(time.Until(at))
		at = time.Now()
		hangUp()
		for {
			var left int
			if err := killer.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.processlist WHERE id = ? AND "+
				"command <> 'Sleep'", id).Scan(&left); err != nil {
				t.Fatal(err)
			}
			if left == 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		took := time.Since(at)
		<-result
		return ended{how: how, after: after, took: took}, errors.Is(said, context.Canceled)
	}
	end := <-result
	var me *mysql.MySQLError
	if !errors.As(said, &me) || me.Number != 1317 && me.Number != 3024 {
		if said != nil && (!errors.As(said, &me) || me.Number != 1038) {
			t.Logf("%.60s, by %s: %v", q, how, said)
		}
		return e, false
	}
	return ended{how: how, after: after, took: end.Sub(at)}, true
}
