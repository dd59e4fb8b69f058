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
	old := conn(t, c)
	exec(t, old, toEngine)
	for _, k := range []struct{ q, want string }{
		{"SELECT SPACE(1000000000)", "NULL"},
		{"SELECT LENGTH(REPEAT('ab', 1000000000))", "NULL"},
		{"SELECT LENGTH(LPAD('x', 2000000000, 'y'))", "NULL"},
		{"SELECT LENGTH(REPLACE(REPEAT('x', 1000000), 'x', REPEAT('y', 1000000)))", "NULL"},
		{"SELECT LENGTH(CONCAT(" + long("s, ", 999) + "s)) FROM (SELECT REPEAT('x', 1000000) AS s) q", "NULL"},
		{"SELECT LENGTH(CAST('x' AS BINARY(2000000000)))", "NULL"},
		{"SELECT CAST(REPEAT('1', 1000000) AS DATETIME)", "1111-11-11 11:11:11"},
		{"SELECT CASE CAST('2020-01-01' AS DATE) WHEN REPEAT('1', 1000000) THEN 1 ELSE 2 END", "2"},
		{"SELECT DAYNAME(REPEAT('x', 1000000))", "NULL"},
		{"SELECT -REPEAT('1', 1000000) IS NULL", "0"},
		{"SELECT LENGTH(QUOTE(REPEAT('x', 1000000)))", "1000002"},
		{"SELECT LENGTH(JSON_ARRAY(" + long("s, ", 99) + "s)) FROM (SELECT REPEAT('x', 1000000) AS s) q", "NULL"},
	} {
		expect(t, old, k.q, k.want)
	}
	exec(t, old, "CREATE TABLE days (d DATE)")
	exec(t, old, "INSERT INTO days VALUES ('2020-01-01')")
	exec(t, old, "UPDATE IGNORE days SET d = REPEAT('1', 1000000)")
	expect(t, old, "SELECT * FROM days", "0000-00-00")
	query(t, old, "SELECT REPEAT('a', 1000000) = 1")
	if w := query(t, old, "SHOW WARNINGS"); len(w) == 0 || len(w[0]) > 600 {
		t.Errorf("%d warnings, of which the first has %d bytes", len(w), len(w[0]))
	}
	expectErr(t, old, 1436, "SELECT "+long("1+", 20_000)+"1")
	expectErr(t, old, 1436, ctes+" SELECT COUNT(*) FROM c39")
	expectErr(t, old, 1117, "SELECT "+long("a, ", 1000)+"a FROM t")
	expectErr(t, old, 1117, "SELECT "+long("t.*, ", 16)+"t.* FROM t")
	expect(t, c, "SELECT a FROM t WHERE a < 2 ORDER BY "+long("a, ", 4095)+"a", "1")
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
		{"SELECT JSON_LENGTH(CONCAT('[', REPEAT('1,', 20000000), '1]'))", 1038},
		{"SELECT COUNT(*) FROM JSON_TABLE(CONCAT('[', REPEAT('1,', 20000000), '1]'), '$[*]' COLUMNS (x INT PATH '$')) j", 1038},
		{"SELECT 1 FROM " + long("t, ", 150_000) + "t", 1436},
		{"SELECT COUNT(*) FROM t t0" + joined(62), 1116},
		{"SET SESSION max_allowed_packet = 1073741824", 1621},
		{"SELECT " + long("a, ", 4096) + "a FROM t", 1117},
		{"SELECT COUNT(*) FROM t GROUP BY " + long("a+1, ", 4096) + "a", 1117},
		{"SELECT " + long("t.*, ", 64) + "t.* FROM t", 1117},
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

// TestManyUnions: a statement of 1,000 UNIONs is answered, within what a statement may keep, and
// ends when it is killed; go-mysql-server, which would analyze it for long, is not asked to.
func TestManyUnions(t *testing.T) {
	s, c := newGreedy(t)
	k, killer := conn(t, c), conn(t, c)
	texts := make([]string, 1000)
	for i := range texts {
		texts[i] = "SELECT " + strconv.Itoa(i%700)
	}
	for sep, want := range map[string]string{" UNION ": "700|244650", " UNION ALL ": "1000|289500"} {
		expect(t, k, "SELECT COUNT(*), SUM(n) FROM ("+strings.Replace(strings.Join(texts, sep), "SELECT 0", "SELECT 0 AS n", 1)+") q", want)
	}
	if n := len(query(t, k, strings.Join(texts, " UNION "))); n != 700 {
		t.Errorf("%d rows, want 700", n)
	}
	for i := range texts {
		texts[i] = "SELECT a, b, " + strconv.Itoa(i) + " FROM t WHERE a < 40" // more than it may keep
	}
	all := strings.Join(texts, " UNION ")
	expect(t, k, "SELECT COUNT(*) FROM ("+all+") q", "40000")
	if n := s.g.query.Memory().Used(); n != 0 {
		t.Errorf("%d bytes were not given back", n)
	}
	id := query(t, k, "SELECT CONNECTION_ID()")[0]
	ended := make(chan error, 1)
	go func() {
		_, err := tryQuery(k, "SELECT COUNT(*) FROM ("+all+") q, t x, t y WHERE x.a + y.a + q.a < 0")
		ended <- err
	}()
	eventually(t, "the statement begins", func() bool {
		return len(query(t, killer, "SELECT 1 FROM information_schema.processlist WHERE id = "+id+" AND info LIKE '%q.a < 0'")) == 1
	})
	exec(t, killer, "KILL QUERY "+id)
	if err := <-ended; err == nil || errNumber(t, err) != 1317 {
		t.Errorf("killed: %v, want 1317", err)
	}
	exec(t, k, toEngine)
	refused(t, k, 1235, all)
	refused(t, k, 1235, "INSERT INTO t (a, b) SELECT q.a, q.b FROM ("+all+") q")
	expect(t, k, "SELECT COUNT(*) FROM ("+strings.Join(texts[:100], " UNION ALL ")+") q", "4000")
}

// TestLongDocuments: a JSON document of an aggregate that is longer than max_allowed_packet is
// NULL, whichever engine makes it.
func TestLongDocuments(t *testing.T) {
	s, root := newServer(t)
	exec(t, root, "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(200))")
	rows := make([]string, 1000)
	for i := range rows {
		rows[i] = "(" + strconv.Itoa(1000+i) + ", REPEAT('\\\\', 98))"
	}
	exec(t, root, "INSERT INTO t VALUES "+strings.Join(rows, ", "))
	was := query(t, root, "SELECT @@GLOBAL.max_allowed_packet")[0]
	defer exec(t, root, "SET GLOBAL max_allowed_packet = "+was)
	for _, engine := range []string{"SELECT 1", toEngine} {
		for _, k := range []struct {
			kib     int // the array has 200,000 bytes, the object 208,000
			q, want string
		}{
			{196, "SELECT JSON_LENGTH(JSON_ARRAYAGG(b)) FROM t", "1000"},
			{195, "SELECT JSON_LENGTH(JSON_ARRAYAGG(b)) FROM t", "NULL"},
			{195, "SELECT SUM(j IS NULL) FROM (SELECT JSON_ARRAYAGG(b) AS j FROM t GROUP BY a > 1005) q", "0"},
			{204, "SELECT JSON_LENGTH(JSON_OBJECTAGG(a, b)) FROM t", "1000"},
			{203, "SELECT JSON_LENGTH(JSON_OBJECTAGG(a, b)) FROM t", "NULL"},
		} {
			exec(t, root, "SET GLOBAL max_allowed_packet = "+strconv.Itoa(k.kib<<10))
			c := conn(t, openDSN(t, "root@tcp("+s.Addr().String()+")/test"))
			exec(t, c, engine)
			expect(t, c, k.q, k.want)
			want := "0"
			if k.want == "NULL" {
				want = "1"
			}
			if n := query(t, c, "SHOW WARNINGS"); strconv.Itoa(len(n)) != want {
				t.Errorf("%s: %d warnings: %v", k.q, len(n), n)
			}
		}
	}
}

// TestGroupConcatLength: group_concat_max_len counts in both engines, also when it is set.
func TestGroupConcatLength(t *testing.T) {
	_, root := newServer(t)
	for _, engine := range []string{toOurs, toEngine} {
		c := conn(t, root)
		exec(t, c, engine)
		for _, k := range []struct{ set, want string }{
			{"SELECT 1", "1024"},
			{"SET group_concat_max_len = 1500", "1500"},
			{"SET group_concat_max_len = 18446744073709551615", "2000"},
			{"SET group_concat_max_len = DEFAULT", "1024"},
		} {
			exec(t, c, k.set)
			expect(t, c, "SELECT LENGTH(GROUP_CONCAT(x SEPARATOR '')) FROM (SELECT REPEAT('a', 1000) AS x UNION ALL SELECT REPEAT('b', 1000)) q",
				k.want)
		}
	}
}
