package e2e

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// longTexts are what expressions get in TestKillTexts, 2 MB each.
var longTexts = []string{"REPEAT('1', 2000000)", "REPEAT('aB1\u00e9', 400000)", "CONCAT('[', REPEAT('1,', 1000000), '1]')",
	"CONCAT(REPEAT(' ', 2000000), '2020-01-01')", "CONCAT('2020-01-01 ', REPEAT('1', 2000000))", "REPEAT('1-', 1000000)",
	"REPEAT('%', 2000000)", "CONCAT('0.', REPEAT('0', 2000000), '1')", "CONCAT('POLYGON((', REPEAT('0 0,', 500000), '0 0))')"}

// ofTexts are expressions of a text, which stands for #.
func ofTexts() []string {
	var out []string
	for _, f := range strings.Fields(`ABS ASCII BIN BIT_COUNT BIT_LENGTH CEIL CHAR CHAR_LENGTH COMPRESS COS CRC32 DATE DAY DAYNAME
		DAYOFMONTH DAYOFWEEK DAYOFYEAR EXP FLOOR FROM_BASE64 FROM_DAYS FROM_UNIXTIME HEX HOUR INET6_ATON INET_ATON IS_IPV4 IS_UUID
		JSON_DEPTH JSON_KEYS JSON_LENGTH JSON_PRETTY JSON_QUOTE JSON_TYPE JSON_UNQUOTE JSON_VALID LAST_DAY LCASE LENGTH LN LOG
		LOWER LTRIM MD5 MICROSECOND MINUTE MONTH MONTHNAME OCT ORD QUARTER QUOTE RAND REVERSE ROUND RTRIM SECOND SEC_TO_TIME
		SHA1 SIGN SIN SOUNDEX SPACE SQRT ST_GEOMFROMGEOJSON ST_GEOMFROMTEXT TIME TIMESTAMP TIME_TO_SEC TO_BASE64 TO_DAYS
		TO_SECONDS TRIM UCASE UNCOMPRESS UNHEX UNIX_TIMESTAMP UPPER UUID_TO_BIN WEEK WEEKDAY YEAR YEARWEEK`) {
		out = append(out, f+"(#)")
	}
	for _, t := range []string{"SIGNED", "UNSIGNED", "DATE", "DATETIME(6)", "TIME", "YEAR", "DOUBLE", "DECIMAL(30, 5)", "JSON", "BINARY", "CHAR(10)"} {
		out = append(out, "CAST(# AS "+t+")")
	}
	for _, c := range []string{"d", "dt", "tm", "i", "n", "f", "j", "v"} {
		out = append(out, c+" = #", c+" < #", c+" <=> #", c+" IN (#, 1)", c+" BETWEEN # AND 5", "CASE "+c+" WHEN # THEN 1 ELSE 2 END",
			"GREATEST("+c+", #)", "COALESCE("+c+", #)")
	}
	return append(out, "# + 3", "# * 3", "# DIV 3", "# % 3", "# & 3", "# AND 1", "# XOR 1", "-#", "NOT #", "# = #", "# < CONCAT(#, 'x')", "# IN ('a', #)",
		"# COLLATE utf8mb4_bin = #", "BINARY # = #", "# LIKE '%1%1%1%1zz'", "# REGEXP '(1*)*zz$'", "CONVERT(# USING latin1)", "CONVERT(# USING utf16)",
		"DATE_ADD(#, INTERVAL 1 DAY)", "DATE_ADD('2020-01-01', INTERVAL # DAY)", "DATE_ADD('2020-01-01', INTERVAL # DAY_SECOND)", "DATEDIFF(#, '2020-01-01')",
		"TIMEDIFF(#, '10:00')", "ADDTIME(#, '10:00')", "ADDTIME('10:00', #)", "TIMESTAMPDIFF(DAY, #, '2020-01-01')", "TIMESTAMPADD(DAY, 1, #)",
		"EXTRACT(YEAR FROM #)", "EXTRACT(DAY_SECOND FROM #)", "DATE_FORMAT(#, '%Y')", "TIME_FORMAT(#, '%H')", "STR_TO_DATE(#, '%Y-%m-%d')",
		"CONVERT_TZ(#, '+00:00', '+01:00')", "MAKETIME(#, 1, 1)", "MAKEDATE(2020, #)", "POW(#, 2)", "MOD(#, 7)", "ROUND(#, 2)", "TRUNCATE(#, 2)",
		"FORMAT(#, 2)", "CONV(#, 36, 2)", "LEFT(#, 5)", "RIGHT(#, 5)", "SUBSTR(#, 5, 7)", "SUBSTRING_INDEX(#, '1', 5)", "SUBSTRING_INDEX(#, '1', -5)",
		"LPAD(#, 5000000, 'x')", "INSTR(#, 'zz')", "LOCATE('zz', #)", "LOCATE(#, #)", "REPLACE(#, '1', '22')", "INSERT(#, 5, 5, 'x')",
		"FIND_IN_SET('x', #)", "FIELD('x', #, #)", "ELT(1, #)", "MAKE_SET(3, #, 'b')", "STRCMP(#, #)", "TRIM(BOTH '1' FROM #)", "SHA2(#, 256)",
		"CONCAT_WS(#, 'a', 'b')", "JSON_EXTRACT(#, '$[0]')", "JSON_CONTAINS(#, '1')", "JSON_SEARCH(#, 'one', 'zz')", "JSON_SET(#, '$[0]', 1)",
		"JSON_MERGE_PRESERVE(#, #)", "JSON_MERGE_PATCH(#, #)", "JSON_OVERLAPS(#, #)", "JSON_VALUE(#, '$[0]')", "JSON_ARRAY_APPEND(#, '$', 1)",
		"JSON_REMOVE(#, '$[0]')", "JSON_CONTAINS_PATH(#, 'one', '$[0]')", "IF(#, 1, 2)", "GROUP_CONCAT(#)", "SUM(#)", "MAX(#)", "AVG(#)",
		"COUNT(DISTINCT #)", "JSON_ARRAYAGG(#)", "STD(#)")
}

// wideTexts are 20 MB long.
var wideTexts = []string{"REPEAT('a', 20000000)", "REPEAT('1', 20000000)", "REPEAT('\u00e9', 10000000)"}

// ofKeys are statements that compare texts of rows with each other.
var ofKeys = []string{"SELECT COUNT(*) FROM p JOIN p q USING (a)", "SELECT COUNT(*) FROM p JOIN p q ON p.a < q.a AND p.k <= q.k",
	"SELECT COUNT(*) FROM p LEFT JOIN p q ON p.a = q.a AND p.k <> q.k", "SELECT COUNT(*) FROM p RIGHT JOIN p q ON p.a <=> q.a",
	"SELECT COUNT(*) FROM p JOIN p q ON p.a = q.a AND p.k = q.k", "SELECT COUNT(*) FROM p, p q WHERE p.a BETWEEN q.a AND q.a",
	"SELECT COUNT(*) FROM p WHERE EXISTS (SELECT 1 FROM p q WHERE q.a = p.a AND q.k > p.k)", "SELECT COUNT(*) FROM p WHERE a IN (SELECT a FROM p q)",
	"SELECT COUNT(*) FROM p WHERE a NOT IN (SELECT CONCAT(a, 'x') FROM p q)", "SELECT a IN (SELECT a FROM p q WHERE q.k >= p.k) FROM p",
	"SELECT COUNT(*) FROM p WHERE a = (SELECT a FROM p q LIMIT 1)", "SELECT COUNT(*) FROM p GROUP BY a", "SELECT COUNT(*) FROM p GROUP BY a, k",
	"SELECT COUNT(*) FROM (SELECT DISTINCT a FROM p) r", "SELECT COUNT(*) FROM (SELECT a FROM p UNION SELECT a FROM p) r",
	"SELECT COUNT(*) FROM (SELECT a FROM p INTERSECT SELECT a FROM p) r", "SELECT COUNT(*) FROM (SELECT a FROM p EXCEPT SELECT a FROM p) r",
	"SELECT k FROM p ORDER BY a", "SELECT k FROM p ORDER BY a DESC LIMIT 1", "SELECT LENGTH(MIN(a)) FROM p", "SELECT k, LENGTH(MAX(a)) FROM p GROUP BY k",
	"SELECT COUNT(DISTINCT a) FROM p", "SELECT LENGTH(GROUP_CONCAT(DISTINCT k ORDER BY a)) FROM p", "SELECT COUNT(*) OVER (PARTITION BY a) FROM p",
	"SELECT RANK() OVER (ORDER BY a) FROM p", "SELECT LENGTH(MAX(a) OVER (ORDER BY k)) FROM p", "SELECT COUNT(*) FROM p GROUP BY a HAVING MAX(a) > 'a'",
	"SELECT COUNT(*) FROM (WITH RECURSIVE r AS (SELECT a, 1 AS n FROM p UNION SELECT a, n + 1 FROM r WHERE n < 3) SELECT * FROM r) s"}

// TestKillTexts kills statements with one expression of a long text, or with long texts as keys, in
// both engines: each ends soon, be it by itself. What takes time that grows with the square of a
// text's length does not.
func TestKillTexts(t *testing.T) {
	needTime(t)
	if os.Getenv(sweepVar) == "" {
		t.Skip("set " + sweepVar + " to 1, on a machine on which nothing else runs")
	}
	n := &node{region: "eu", dir: t.TempDir(), addr: port(t), sql: port(t)}
	n.join = n.addr
	n.start(t)
	c := &processes{nodes: []*node{n}, regions: []string{"eu"}}
	t.Cleanup(c.kill)
	c.logOnFailure(t)
	n.awaitLine(t, "listens at")
	c.init(t)
	n.awaitSQL(t)
	killer := n.open(t, "")
	for _, q := range []string{"CREATE DATABASE a", "CREATE TABLE a.t (id INT PRIMARY KEY, d DATE, dt DATETIME(3), tm TIME, i INT, n DECIMAL(20, 5), " +
		"f DOUBLE, j JSON, v VARCHAR(50))", "INSERT INTO a.t VALUES (1, '2020-01-01', '2020-01-01 10:00', '10:00', 1, 1.5, 1.5, '[1]', 'abc')"} {
		if _, err := killer.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	var took latencies
	only := os.Getenv(sweepVar + "_ONLY")
	for _, old := range []bool{false, true} {
		s := &sweeper{n: n, killer: killer, old: old}
		statements := []string{}
		for _, e := range ofTexts() {
			statements = append(statements, "SELECT LENGTH("+e+") FROM t")
		}
		for _, col := range []string{"d", "dt", "tm", "i", "n", "f", "v"} {
			statements = append(statements, "UPDATE IGNORE t SET "+col+" = #", "INSERT IGNORE INTO t (id, "+col+") SELECT 1, #")
		}
		run := func(q string, texts []string) {
			if !strings.Contains(q, only) {
				return
			}
			for _, text := range texts {
				q := strings.ReplaceAll(q, "#", text)
				if d, killed := s.end(t, q); killed {
					if took = append(took, d); d > tooLateEnd {
						t.Errorf("%.200s, old engine %v: ended %v after KILL", q, old, d)
					}
				}
			}
		}
		for _, q := range statements {
			run(q, longTexts)
			run(q, wideTexts)
		}
		for _, q := range ofKeys {
			run("WITH p AS (SELECT 1 AS k, # AS a UNION ALL SELECT 2, # UNION ALL SELECT 3, 'a') "+q, wideTexts)
			run(strings.ReplaceAll(strings.ReplaceAll(q, " p q", " (SELECT 2 AS k, # AS a) q"), " p", " (SELECT 1 AS k, # AS a) p"), wideTexts)
		}
	}
	slices.Sort(took)
	t.Logf("%d statements were killed: p50 %v, p90 %v, p99 %v, max %v", len(took), took.at(50), took.at(90), took.at(99), took.at(100))
}

// sweeper ends statements of one connection after the other's.
type sweeper struct {
	n      *node
	killer *sql.DB
	old    bool
	conn   *sql.Conn
	id     int
}

// end runs a statement and kills it after a tenth of a second, if it has not ended by itself. It
// returns how long that took.
func (s *sweeper) end(t *testing.T, q string) (took time.Duration, killed bool) {
	t.Helper()
	if s.conn == nil {
		db := s.n.open(t, "a")
		var err error
		if s.conn, err = db.Conn(t.Context()); err == nil && s.old {
			_, err = s.conn.ExecContext(t.Context(), "SET godwit_own_engine = OFF")
		}
		if err == nil {
			err = s.conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&s.id)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	k := s.conn
	done := make(chan error, 1)
	go func() {
		rows, err := k.QueryContext(context.Background(), q)
		if err == nil {
			for rows.Next() {
			}
			err = rows.Err()
			_ = rows.Close()
		}
		done <- err
	}()
	var err error
	select {
	case err = <-done:
	case <-time.After(100 * time.Millisecond):
		at := time.Now()
		if _, err := s.killer.ExecContext(t.Context(), "KILL QUERY "+strconv.Itoa(s.id)); err != nil {
			t.Fatal(err)
		}
		select {
		case err = <-done:
			took, killed = time.Since(at), true
		case <-time.After(5 * time.Second):
			s.conn = nil // it goes on
			return time.Since(at), true
		}
	}
	var me *mysql.MySQLError
	if err != nil && !errors.As(err, &me) {
		t.Errorf("%.200s, old engine %v: %v", q, s.old, err) // the connection has ended
		s.conn = nil
	}
	return took, killed
}
