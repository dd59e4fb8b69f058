package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/fast"
)

// fastCases are run by the engine alone and with the fast path; all answers must be the same.
// $ stands for a constant that is sent as text or bound.
var fastCases = []struct {
	q    string
	args []any
}{
	{"INSERT INTO a VALUES (?,?,?,?,?)", []any{1, "one", 1.5, 10, "x"}},
	{"INSERT INTO a (id, name) VALUES (?,?)", []any{2, "two"}},
	{"INSERT INTO a (name, id, n) VALUES (?,?,?)", []any{"three", 3, nil}},
	{"INSERT INTO a (id, name) VALUES (?,?)", []any{2, "again"}},
	{"INSERT INTO a (id, name, u) VALUES (?,?,?)", []any{9, "dup", "x"}},
	{"INSERT INTO a (id, name) VALUES (?,?)", []any{4, nil}},
	{"INSERT INTO a (id, name) VALUES (?,?)", []any{"5", "text number"}},
	{"INSERT INTO a (id, name) VALUES (?,?)", []any{6, "much too long for the column"}},
	{"INSERT INTO a (id, name, n) VALUES (?,?,?)", []any{7, "n", 300}},
	{"SELECT * FROM a WHERE id = ?", []any{1}},
	{"SELECT name, n FROM a WHERE id = ?", []any{2}},
	{"SELECT name AS nm FROM a WHERE id = ?", []any{99}},
	{"SELECT name FROM a WHERE id = ?", []any{"1"}},
	{"SELECT name FROM a WHERE id = ? FOR UPDATE", []any{3}},
	{"SELECT d FROM a WHERE a.id = ?", []any{1}},
	{"SELECT nosuch FROM a WHERE id = ?", []any{1}},
	{"UPDATE a SET n = n + ? WHERE id = ?", []any{5, 1}},
	{"UPDATE a SET n = n - ?, name = ? WHERE id = ?", []any{1, "uno", 1}},
	{"UPDATE a SET d = d + ? WHERE id = ?", []any{2, 1}},
	{"UPDATE a SET n = n + ? WHERE id = ?", []any{200, 1}},
	{"UPDATE a SET n = ? WHERE id = ?", []any{14, 1}},
	{"UPDATE a SET n = ? WHERE id = ?", []any{14, 99}},
	{"UPDATE a SET name = ? WHERE id = ?", []any{nil, 1}},
	{"UPDATE a SET u = ? WHERE id = ?", []any{"x", 2}},
	{"UPDATE a SET id = ? WHERE id = ?", []any{50, 2}},
	{"SELECT * FROM a WHERE id = ?", []any{1}},
	{"DELETE FROM a WHERE id = ?", []any{3}},
	{"DELETE FROM a WHERE id = ?", []any{3}},
	{"SELECT * FROM a WHERE id = ?", []any{3}},
	{"INSERT INTO b (v) VALUES (?)", []any{"first"}},
	{"INSERT INTO b (v) VALUES (?)", []any{"second"}},
	{"SELECT * FROM b WHERE id = ?", []any{2}},
	{"INSERT INTO c VALUES (?,?,?)", []any{"Key", 1, "v"}},
	{"SELECT v FROM c WHERE k = ? AND n = ?", []any{"kEY", 1}},
	{"SELECT v FROM c WHERE n = ? AND k = ?", []any{1, "other"}},
	{"SELECT v FROM c WHERE k = ?", []any{"Key"}},
	{"UPDATE c SET v = ? WHERE k = ? AND n = ?", []any{"w", "KEY", 1}},
	{"SELECT * FROM c WHERE k = ? AND n = ?", []any{"key", 1}},
	{"INSERT INTO trig VALUES (?,?)", []any{1, 1}},
	{"SELECT * FROM trig WHERE id = ?", []any{1}},
	{"UPDATE a SET n = n+1 WHERE id = ?", []any{2}},
	{"UPDATE a SET n = n+1, name = ? WHERE id = 1", []any{"fixed"}},
	{"SELECT id, n FROM a WHERE id = 1", nil},
	{"INSERT INTO b (id, v) VALUES (?,?)", []any{40, "given"}},
	{"INSERT INTO b (id, v) VALUES (?,?)", []any{40, "given twice"}},
	{"INSERT INTO b (id, v) VALUES (?,?)", []any{0, "zero"}},
	{"INSERT INTO b (id, v) VALUES (?,?)", []any{-5, "negative"}},
	{"INSERT INTO b (id, v) VALUES (?,?)", []any{nil, "null"}},
	{"INSERT INTO b VALUES (?,?)", []any{0, "all of it"}},
	{"SELECT v FROM b WHERE id = LAST_INSERT_ID()", nil},
	{"SET sql_mode = 'STRICT_TRANS_TABLES,NO_AUTO_VALUE_ON_ZERO'", nil},
	{"INSERT INTO b (id, v) VALUES (?,?)", []any{0, "a zero"}},
	{"INSERT INTO b (id, v) VALUES (?,?)", []any{nil, "null again"}},
	{"SET sql_mode = DEFAULT", nil},
	{"INSERT INTO b VALUES (?,?)", []any{60, "all"}},
	{"INSERT INTO b (v) VALUES (?)", []any{"after"}},
	{"DELETE FROM b WHERE id = ?", []any{60}},
	{"INSERT INTO b VALUES (?,?)", []any{60, "again"}},
	{"SELECT v FROM r WHERE id BETWEEN ? AND ?", []any{-3, 20}},
	{"SELECT * FROM r WHERE id BETWEEN ? AND ?", []any{5, 5}},
	{"SELECT * FROM r WHERE id BETWEEN ? AND ?", []any{9, 5}},
	{"SELECT v FROM r WHERE id BETWEEN 3 AND ?", []any{8}},
	{"SELECT v, id FROM r WHERE r.id BETWEEN ? AND ?", []any{1, "8"}},
	{"SELECT v FROM r WHERE id NOT BETWEEN ? AND ?", []any{1, 28}},
	{"SELECT id FROM r WHERE id BETWEEN ? AND ? FOR UPDATE", []any{4, 6}},
	{"SELECT SUM(n) FROM r WHERE id BETWEEN ? AND ?", []any{1, 20}},
	{"SELECT sum(r.n) FROM r WHERE id BETWEEN ? AND ?", []any{5, 5}},
	{"SELECT SUM(n) FROM r WHERE id BETWEEN ? AND ?", []any{70, 80}},
	{"SELECT SUM(n) AS total FROM r WHERE id BETWEEN ? AND ?", []any{1, 30}},
	{"SELECT SUM(big) FROM r WHERE id BETWEEN ? AND ?", []any{1, 30}},
	{"SELECT SUM(u) FROM r WHERE id BETWEEN ? AND ?", []any{1, 30}},
	{"SELECT SUM(d) FROM r WHERE id BETWEEN ? AND ?", []any{1, 30}},
	{"SELECT SUM(v) FROM r WHERE id BETWEEN ? AND ?", []any{1, 30}},
	{"SELECT SUM(DISTINCT n) FROM r WHERE id BETWEEN ? AND ?", []any{1, 30}},
	{"SELECT v FROM r WHERE id BETWEEN ? AND ? ORDER BY v", []any{1, 30}},
	{"SELECT v FROM r WHERE id BETWEEN ? AND ? ORDER BY v DESC", []any{1, 30}},
	{"SELECT b FROM r WHERE id BETWEEN ? AND ? ORDER BY b", []any{1, 30}},
	{"SELECT id FROM r WHERE id BETWEEN ? AND ? ORDER BY id DESC", []any{1, 30}},
	{"SELECT n, id FROM r WHERE id BETWEEN ? AND ? ORDER BY n", []any{1, 30}},
	{"SELECT v AS n FROM r WHERE id BETWEEN ? AND ? ORDER BY n", []any{1, 30}},
	{"SELECT id FROM r WHERE id BETWEEN ? AND ? ORDER BY 1", []any{1, 30}},
	{"SELECT id FROM r WHERE id BETWEEN ? AND ? ORDER BY big", []any{1, 30}},
	{"SELECT DISTINCT b FROM r WHERE id BETWEEN ? AND ? ORDER BY b", []any{1, 30}},
	{"SELECT DISTINCT n FROM r WHERE id BETWEEN ? AND ? ORDER BY n DESC", []any{1, 30}},
	{"SELECT DISTINCT v FROM r WHERE id BETWEEN ? AND ? ORDER BY v", []any{1, 30}},
	{"SELECT DISTINCT ai FROM r WHERE id BETWEEN ? AND ? ORDER BY ai", []any{1, 30}},
	{"SELECT ai FROM r WHERE id BETWEEN ? AND ? ORDER BY ai", []any{1, 30}},
	{"SELECT DISTINCT b FROM r WHERE id BETWEEN ? AND ?", []any{1, 30}},
	{"SELECT DISTINCT n, b FROM r WHERE id BETWEEN ? AND ? ORDER BY n", []any{1, 30}},
	{"SELECT DISTINCT b FROM r WHERE id BETWEEN ? AND ? ORDER BY id", []any{1, 30}},
	{"UPDATE r SET n = n + ? WHERE id = ?", []any{7, 4}},
	{"DELETE FROM r WHERE id = ?", []any{11}},
	{"SELECT id, n FROM r WHERE id BETWEEN ? AND ?", []any{3, 12}},
	{"SELECT COUNT(*) FROM r WHERE id BETWEEN ? AND ?", []any{1, 30}},
	{"SELECT z FROM w WHERE id = ?", []any{1}},
	{"SELECT tm, z FROM w WHERE id = ?", []any{1}},
	{"SELECT f, j FROM w WHERE id BETWEEN ? AND ?", []any{0, 3}},
	{"SELECT z, late FROM w WHERE id BETWEEN ? AND ?", []any{0, 3}},
	{"SELECT id FROM ru WHERE id BETWEEN ? AND ?", []any{1, 30}},
	{"SELECT id FROM ru WHERE id BETWEEN ? AND ?", []any{-1, 3}},
	{"SELECT n FROM c WHERE k BETWEEN ? AND ?", []any{"a", "z"}},
	{"SELECT id FROM r WHERE id BETWEEN ? AND ?", []any{1, 2000000}},
}

// zonedCases are statements on tables with TIMESTAMPs, in a session of any time zone.
var zonedCases = []struct {
	q    string
	args []any
}{
	{"SET timestamp = 1698541200.654321", nil}, // 02:00 in Berlin, the second time
	{"INSERT INTO ts (v) VALUES (?)", []any{"defaults"}},
	{"INSERT INTO ts (v, at, dt) VALUES (?,?,?)", []any{"given", "2024-07-01 12:00:00.126", "2024-07-01 12:00:00.126"}},
	{"INSERT INTO ts (v, at) VALUES (?,?)", []any{"twice", "2024-07-01 12:00:00.126"}},
	{"INSERT INTO ts (v, at) VALUES (?,?)", []any{"shown twice", "2023-10-29 02:30:00"}},
	{"INSERT INTO ts (v, at) VALUES (?,?)", []any{"skipped", "2024-03-31 02:30:00"}},
	{"INSERT INTO ts (v, at) VALUES (?,?)", []any{"last", "2038-01-19 03:14:07"}},
	{"INSERT INTO ts (v, at) VALUES (?,?)", []any{"too late?", "2038-01-19 04:14:07"}},
	{"INSERT INTO ts (v, at) VALUES (?,?)", []any{"too early?", "1970-01-01 00:30:00"}},
	{"INSERT INTO ts (v, at) VALUES (?,?)", []any{"too early", "1960-01-01 00:30:00"}},
	{"INSERT INTO ts (v, at) VALUES (?,?)", []any{"no day", "2024-02-30 00:30:00"}},
	{"INSERT INTO ts (v, at) VALUES (?,?)", []any{"zero", "0000-00-00 00:00:00"}},
	{"INSERT INTO ts (v, at) VALUES (?,?)", []any{"a date", "2024-07-02"}},
	{"INSERT INTO ts (v, at) VALUES (?,?)", []any{"null", nil}},
	{"INSERT INTO ts (v, created) VALUES (?,?)", []any{"null where none is", nil}},
	{"INSERT INTO ts (v, at, seen) VALUES (?, NOW(), CURRENT_TIMESTAMP)", []any{"now"}},
	{"INSERT INTO ts (v, seen, updated) VALUES (?, NOW(), LOCALTIME())", []any{"now"}},
	{"INSERT INTO ts (v, n) VALUES (?, NOW())", []any{"a number"}},
	{"INSERT INTO byts VALUES (?,?)", []any{"2024-07-01 12:00:00", 1}},
	{"INSERT INTO byts VALUES (?,?)", []any{"2024-07-01 12:00:00", 2}},
	{"SELECT v FROM byts WHERE at = ?", []any{"2024-07-01 12:00:00"}},
	{"SELECT v FROM byts WHERE at = NOW()", nil},
	{"SELECT * FROM ts WHERE id = ?", []any{1}},
	{"SET timestamp = 1700000000.5", nil},
	{"UPDATE ts SET v = ? WHERE id = ?", []any{"changed", 1}},
	{"SET timestamp = 1700000100.5", nil},
	{"UPDATE ts SET v = ? WHERE id = ?", []any{"changed", 1}},
	{"UPDATE ts SET n = n + ?, updated = ? WHERE id = ?", []any{1, "2024-07-01 11:00:00.123456", 1}},
	{"UPDATE ts SET v = ?, at = NOW() WHERE id = ?", []any{"now", 2}},
	{"UPDATE ts SET at = ? WHERE id = ?", []any{"2024-12-01 11:00:00", 2}},
	{"UPDATE ts SET at = ? WHERE id = ?", []any{"2024-03-31 02:30:00", 2}},
	{"UPDATE ts SET n = n + ? WHERE id = ?", []any{1, 3}},
	{"SELECT at, v, created FROM ts WHERE id = ?", []any{2}},
	{"SELECT id, dt, at, lit, created, updated, seen FROM ts WHERE id BETWEEN ? AND ?", []any{1, 90}},
	{"SELECT at FROM ts WHERE id BETWEEN ? AND ? ORDER BY at", []any{1, 90}},
	{"SELECT DISTINCT created FROM ts WHERE id BETWEEN ? AND ? ORDER BY created", []any{1, 90}},
	{"DELETE FROM ts WHERE id = ?", []any{3}},
	{"SET timestamp = DEFAULT", nil},
}

func TestFastPathAgrees(t *testing.T) {
	run := func(noFast, text bool) (out []string) {
		db := memkv.New(4, "eu", "us")
		s, c := startServer(t, db)
		s.g.fast.Off = noFast
		if text {
			c = openDSN(t, fmt.Sprintf("root@tcp(%s)/test?interpolateParams=true", s.Addr()))
		}
		c.SetMaxOpenConns(1)
		exec(t, c, "CREATE TABLE a (id INT PRIMARY KEY, name VARCHAR(10) NOT NULL, d DECIMAL(8,2), n TINYINT, "+
			"u VARCHAR(5), UNIQUE KEY (u), KEY (n))")
		exec(t, c, "CREATE TABLE b (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(20))")
		exec(t, c, "CREATE TABLE c (k VARCHAR(10) COLLATE utf8mb4_general_ci, n INT, v VARCHAR(10), PRIMARY KEY (k, n))")
		exec(t, c, "CREATE DATABASE other")
		exec(t, c, "CREATE TABLE trig (id INT PRIMARY KEY, v INT CHECK (v > 0))")
		exec(t, c, "CREATE TABLE r (id INT PRIMARY KEY, n INT, big BIGINT, u BIGINT UNSIGNED, d DECIMAL(8,2), "+
			"v VARCHAR(20), b CHAR(9), ai VARCHAR(9) COLLATE utf8mb4_0900_ai_ci, KEY (n))")
		exec(t, c, "CREATE TABLE w (id INT PRIMARY KEY, f DOUBLE, g FLOAT, gone DOUBLE, dt DATETIME(6), tm TIME, "+
			"j JSON, bl BLOB, e ENUM('p','q'), z VARCHAR(5))")
		exec(t, c, "INSERT INTO w VALUES (1, 1.5, 2.5, 3.5, '2024-01-02 03:04:05.6', '11:12:13', '{\"a\": 1}', "+
			"'blob', 'q', 'end'), (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)")
		exec(t, c, "ALTER TABLE w DROP COLUMN gone")
		exec(t, c, "ALTER TABLE w ADD COLUMN late INT DEFAULT 7")
		exec(t, c, "CREATE TABLE ts (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20) NOT NULL DEFAULT 'it is', "+
			"n INT DEFAULT '3', ok TINYINT(1) DEFAULT false, d DECIMAL(5,2) DEFAULT 1.5, dt DATETIME(3) DEFAULT NOW(3), "+
			"at TIMESTAMP(2) NULL, lit TIMESTAMP DEFAULT '2020-01-01 00:00:00', created TIMESTAMP NOT NULL DEFAULT "+
			"CURRENT_TIMESTAMP, updated TIMESTAMP(6) NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP(6), "+
			"seen DATETIME NULL ON UPDATE CURRENT_TIMESTAMP, KEY (created), UNIQUE KEY (at))")
		exec(t, c, "CREATE TABLE byts (at TIMESTAMP PRIMARY KEY, v INT)")
		exec(t, c, "CREATE TABLE ru (id INT UNSIGNED PRIMARY KEY)")
		for i := range 30 {
			exec(t, c, "INSERT INTO r VALUES (?,?,?,?,?,?,?,?)", i, i*7%5, int64(i)<<56, uint64(i)<<59, float64(i)/4,
				fmt.Sprint("v", 40-i),
				[]any{"b", "B", "é", "e ", nil}[i%5], []any{"e", "E", "é", "f", "e "}[i%5])
			exec(t, c, "INSERT INTO ru VALUES (?)", i)
		}
		cases := slices.Clone(fastCases)
		for _, name := range []string{"UTC", "Europe/Berlin", "+14:00", "America/New_York"} {
			cases = append(cases, struct {
				q    string
				args []any
			}{q: "SET time_zone = '" + name + "'"})
			cases = append(cases, zonedCases...)
		}
		for round := range 2 {
			if round == 1 {
				exec(t, c, "BEGIN")
			}
			for _, k := range cases {
				r := ""
				if k.q[0] == 'S' {
					rows, err := tryQuery(c, k.q, k.args...)
					r = fmt.Sprint(rows, errText(err))
					rows, err = tryQuery(c, k.q, k.args...) // the first one teaches the fast path
					r += fmt.Sprint(rows, errText(err))
				} else {
					res, err := c.Exec(k.q, k.args...)
					r = errText(err)
					if err == nil {
						n, _ := res.RowsAffected()
						id, _ := res.LastInsertId()
						r = fmt.Sprint(n, " rows, id ", id)
					}
				}
				after := query(t, c, "SELECT ROW_COUNT(), LAST_INSERT_ID()")
				if strings.HasPrefix(r, "error") {
					after = nil // the engine counts rows that it then takes back
				}
				out = append(out, fmt.Sprintf("%s %v: %s %s", k.q, k.args, r, after))
			}
			if round == 1 {
				exec(t, c, "ROLLBACK")
			}
		}
		for _, q := range []string{
			"BEGIN", "INSERT INTO ru VALUES (100)", "COMMIT", "ROLLBACK", "START TRANSACTION;",
			"INSERT INTO ru VALUES (101)", "begin",
			"INSERT INTO ru VALUES (102)", "rollback ;", "commit", "INSERT INTO ru VALUES (103)",
			"SET autocommit = 0", "INSERT INTO ru VALUES (104)",
			"ROLLBACK", "INSERT INTO ru VALUES (105)", "COMMIT", "INSERT INTO ru VALUES (106)", "BEGIN", "ROLLBACK",
			"INSERT INTO ru VALUES (107)",
			"SET autocommit = 1", "START TRANSACTION READ ONLY", "INSERT INTO ru VALUES (108)", "COMMIT", "BEGIN",
			"CREATE TABLE ddl (id INT PRIMARY KEY)",
			"INSERT INTO ru VALUES (109)", "ROLLBACK",
		} {
			res, err := c.Exec(q)
			r := errText(err)
			if err == nil {
				n, _ := res.RowsAffected()
				r = fmt.Sprint(n)
			}
			out = append(out, fmt.Sprintf("%s: %s %s", q, r, query(t, c, "SELECT ROW_COUNT(), @@autocommit")))
		}
		for _, q := range []string{"SET time_zone = '+00:00'", "SELECT * FROM ts", "SELECT id FROM ts WHERE created < NOW()",
			"SELECT * FROM byts", "SELECT * FROM r", "SELECT id FROM r WHERE n > 3", "SELECT * FROM ru",
			"SELECT * FROM a", "SELECT id FROM a WHERE n > 0", "SELECT id FROM a WHERE u = 'x'", "SELECT * FROM b",
			"SELECT * FROM c"} {
			out = append(out, fmt.Sprint(q, query(t, c, q)))
		}
		if !noFast {
			n := s.g.fast.Recognised()
			if n < 60 {
				t.Errorf("only %d statements were recognised", n)
			}
		}
		return out
	}
	for _, text := range []bool{false, true} {
		want, got := run(true, text), run(false, text)
		for i := range want {
			if want[i] != got[i] {
				t.Errorf("text=%v:\nengine %s\nfast   %s", text, want[i], got[i])
			}
		}
	}
}

func errText(err error) string {
	var me *mysql.MySQLError
	if errors.As(err, &me) {
		return fmt.Sprintf("error %d %s", me.Number, me.Message)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func TestFastPathPrivileges(t *testing.T) {
	s, c := newServer(t)
	exec(t, c, "CREATE TABLE p (id INT PRIMARY KEY, v INT)")
	exec(t, c, "INSERT INTO p VALUES (1,1)")
	exec(t, c, "CREATE USER joe@'%' IDENTIFIED BY 'secret'")
	exec(t, c, "GRANT SELECT ON test.p TO joe@'%'")
	j := openDSN(t, fmt.Sprintf("joe:secret@tcp(%s)/test", s.Addr()))
	for range 3 {
		if got, err := tryQuery(j, "SELECT v FROM p WHERE id = 1"); err != nil || len(got) != 1 {
			t.Errorf("select: %q %v", got, err)
		}
		if _, err := j.Exec("UPDATE p SET v = 2 WHERE id = 1"); err == nil {
			t.Error("joe may update")
		}
		exec(t, c, "UPDATE p SET v = 3 WHERE id = 1")
	}
	exec(t, c, "REVOKE SELECT ON test.p FROM joe@'%'")
	if got, err := tryQuery(j, "SELECT v FROM p WHERE id = 1"); err == nil {
		t.Errorf("select after revoke: %q", got)
	}
}

func TestNormalize(t *testing.T) {
	for _, tt := range []struct {
		q, want string
		args    int
	}{
		{"SELECT c FROM sbtest1 WHERE id=5", "SELECT c FROM sbtest1 WHERE id=?", 1},
		{" update t set c='a b', k=-3 where id = 7 ; ", "update t set c=?, k=? where id = ?", 3},
		{"insert into t values (null,'x',1.5)", "insert into t values (?,?,?)", 3},
		{"SELECT a FROM t WHERE id = 1 -- x", "", 0},
		{"SELECT a FROM t WHERE id = 'it''s'", "", 0},
		{`SELECT a FROM t WHERE id = 'a\'b'`, "", 0},
		{`SELECT "a" FROM t`, "", 0},
		{"SELECT a FROM t WHERE id = 1e3", "", 0},
		{"SELECT a FROM t WHERE id = 0x10", "", 0},
		{"SELECT a FROM t WHERE id = 1; DROP TABLE t", "", 0},
		{"SELECT a FROM t WHERE id = date'2020-01-01'", "", 0},
		{"SELECT k-1 FROM t WHERE id = 3", "SELECT k-? FROM t WHERE id = ?", 2},
	} {
		got, args, ok := fast.Normalize(tt.q)
		if got != tt.want || len(args) != tt.args || ok != (tt.want != "") {
			t.Errorf("normalize(%q) = %q, %d args, %v", tt.q, got, len(args), ok)
		}
	}
}

func BenchmarkPointSelect(b *testing.B) {
	for _, noFast := range []bool{false, true} {
		b.Run(fmt.Sprintf("engine=%v", noFast), func(b *testing.B) {
			s, c := newServer(b)
			s.g.fast.Off = noFast
			exec(b, c, "CREATE TABLE t (id INT PRIMARY KEY, c CHAR(120))")
			exec(b, c, "INSERT INTO t VALUES (1,'x')")
			st, err := c.Prepare("SELECT c FROM t WHERE id = ?")
			if err != nil {
				b.Fatal(err)
			}
			var v string
			b.ReportAllocs()
			for b.Loop() {
				if err := st.QueryRow(1).Scan(&v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkTimestamps is what statements on one row with TIMESTAMPs cost.
func BenchmarkTimestamps(b *testing.B) {
	for _, name := range []string{"+00:00", "Europe/Berlin"} {
		for _, noFast := range []bool{false, true} {
			s, c := newServer(b)
			s.g.fast.Off = noFast
			c.SetMaxOpenConns(1)
			exec(b, c, "SET time_zone = '"+name+"'")
			exec(b, c, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, c CHAR(120), n INT NOT NULL DEFAULT 0, "+
				"created TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated TIMESTAMP DEFAULT CURRENT_TIMESTAMP ON UPDATE "+
				"CURRENT_TIMESTAMP)")
			exec(b, c, "INSERT INTO t (c) VALUES ('x')")
			for _, q := range []string{"SELECT * FROM t WHERE id = 1", "UPDATE t SET n = n + 1 WHERE id = 1",
				"INSERT INTO t (c) VALUES ('y')"} {
				b.Run(fmt.Sprintf("%s/engine=%v/%s", q[:6], noFast, name), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if q[0] == 'S' {
							query(b, c, q)
						} else {
							exec(b, c, q)
						}
					}
				})
			}
		}
	}
}

// BenchmarkEngine is what statements cost that take no short way of ours.
func BenchmarkEngine(b *testing.B) {
	s, c := newServer(b)
	s.g.fast.Off = true
	exec(b, c, "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
	exec(b, c, "CREATE TABLE i (id INT AUTO_INCREMENT PRIMARY KEY, a INT)")
	exec(b, c, "INSERT INTO t VALUES "+manyOf(100, "(#,#)"))
	for _, q := range []string{
		"SELECT a FROM t WHERE id = 1", "SELECT * FROM t", "INSERT INTO i (a) VALUES (1)",
		"INSERT INTO i (a) VALUES (1),(2),(3),(4)", "UPDATE t SET a = a + 1 WHERE id = 1", "UPDATE t SET a = a + 1",
		"DELETE FROM t WHERE id = 1000",
	} {
		b.Run(q, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if q[0] == 'S' {
					query(b, c, q)
				} else {
					exec(b, c, q)
				}
			}
		})
	}
}

// TestTimeDigits: TIME has the digits that are declared, whichever way it is read, also in the
// binary protocol, where the driver goes by the description of the column.
func TestTimeDigits(t *testing.T) {
	for _, off := range []struct{ fast, own, text bool }{{}, {fast: true}, {fast: true, own: true}, {text: true},
		{fast: true, own: true, text: true}} {
		s, c := startServer(t, memkv.New(1, "eu"))
		s.g.fast.Off, s.g.query.Off = off.fast, off.own
		if off.text {
			c = openDSN(t, fmt.Sprintf("root@tcp(%s)/test?interpolateParams=true", s.Addr()))
		}
		c.SetMaxOpenConns(1)
		exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, a TIME, b TIME(3), c TIME(6))")
		exec(t, c, "INSERT INTO t VALUES (1, '11:12:13', '11:12:13', '11:12:13'), (2, '-11:12:13.5', '11:12:13.4567', "+
			"'11:12:13.4567')")
		for range 2 { // the first one teaches the fast path
			for id, want := range []string{"11:12:13|11:12:13.000|11:12:13.000000", "-11:12:14|11:12:13.457|11:12:13.456700"} {
				rows, err := tryQuery(c, "SELECT a, b, c FROM t WHERE id = ?", id+1)
				if err != nil || len(rows) != 1 || fmt.Sprint(rows[0]) != want {
					t.Errorf("%+v: row %d is %v (%v), not %s", off, id+1, rows, err, want)
				}
			}
		}
		if n := s.g.fast.Recognised(); !off.fast && n == 0 {
			t.Error("the fast path was not taken")
		}
	}
}
