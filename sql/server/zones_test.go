package server

import (
	"io"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// TestZonesOfFiles: LOAD DATA reads TIMESTAMPs as times of the session's clock. MariaDB 10.11 has
// the same rows.
func TestZonesOfFiles(t *testing.T) {
	_, c := newServer(t)
	k, utc := conn(t, c), conn(t, c)
	exec(t, k, "SET GLOBAL local_infile = 1")
	exec(t, k, "SET time_zone = 'Europe/Berlin'")
	exec(t, utc, "SET time_zone = '+00:00'")
	exec(t, k, "CREATE TABLE f (id INT PRIMARY KEY, ts TIMESTAMP NULL, dt DATETIME, made TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP, KEY (ts))")
	load := func(what string) error {
		t.Helper()
		mysql.RegisterReaderHandler("zones", func() io.Reader {
			return strings.NewReader("1,2024-07-01 12:00:00,2024-07-01 12:00:00\n2,\\N,2024-01-01 12:00:00\n3,2024-01-01 12:00:00,\\N\n")
		})
		defer mysql.DeregisterReaderHandler("zones")
		_, err := k.ExecContext(t.Context(), "LOAD DATA LOCAL INFILE 'Reader::zones' "+what)
		return err
	}
	if err := load("INTO TABLE f FIELDS TERMINATED BY ',' (id, ts, dt)"); err != nil {
		t.Fatal(err)
	}
	expect(t, utc, "SELECT id, ts, dt, ABS(TIMESTAMPDIFF(SECOND, made, NOW())) < 60 FROM f ORDER BY id",
		"1|2024-07-01 10:00:00|2024-07-01 12:00:00|1", "2|NULL|2024-01-01 12:00:00|1", "3|2024-01-01 11:00:00|NULL|1")
	expect(t, utc, "SELECT id FROM f WHERE ts = '2024-07-01 10:00:00'", "1")
	if err := load("REPLACE INTO TABLE f FIELDS TERMINATED BY ',' (id, ts, dt) SET made = '2024-07-02 12:00:00'"); err != nil {
		t.Fatal(err)
	}
	expect(t, utc, "SELECT id, ts, made FROM f ORDER BY id", "1|2024-07-01 10:00:00|2024-07-02 10:00:00",
		"2|NULL|2024-07-02 10:00:00", "3|2024-01-01 11:00:00|2024-07-02 10:00:00")
	exec(t, k, "CREATE TABLE g (id INT PRIMARY KEY, ts TIMESTAMP NULL, dt DATETIME, CHECK (ts > '2000-01-01'))")
	if err := load("INTO TABLE g FIELDS TERMINATED BY ','"); err != nil {
		t.Fatal(err)
	}
	expect(t, utc, "SELECT id, ts FROM g ORDER BY id", "1|2024-07-01 10:00:00", "2|NULL", "3|2024-01-01 11:00:00")
}

// TestZonesOfDefinitions: what changes columns does so by the session's clock, or is refused.
func TestZonesOfDefinitions(t *testing.T) {
	_, c := newServer(t)
	k, utc := conn(t, c), conn(t, c)
	exec(t, k, "SET time_zone = 'Europe/Berlin'")
	exec(t, utc, "SET time_zone = '+00:00'")
	exec(t, k, "CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP(6) NULL, d DATE AS (DATE(ts)) STORED, KEY (d))")
	exec(t, k, "INSERT INTO t (id, ts) VALUES (1, '2024-07-01 01:00:00.5')")
	expect(t, k, "SELECT ts, d FROM t", "2024-07-01 01:00:00.500000|2024-06-30") // computed in UTC: see sql.md
	expect(t, utc, "SELECT ts, d FROM t", "2024-06-30 23:00:00.500000|2024-06-30")
	expectErr(t, k, 1235, "UPDATE t SET ts = '2024-07-02 01:00:00'")
	// The letters of the TIMESTAMP's name are in that of a function.
	exec(t, k, "CREATE TABLE named (id INT PRIMARY KEY, at TIMESTAMP NULL, s VARCHAR(9) AS (CONCAT(id, 'x')) STORED)")
	exec(t, k, "INSERT INTO named (id, at) VALUES (1, '2024-07-01 01:00:00')")
	exec(t, k, "UPDATE named SET id = 2")
	expect(t, utc, "SELECT id, at, s FROM named", "2|2024-06-30 23:00:00|2x")
	exec(t, k, "ALTER TABLE t ADD COLUMN a TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP, "+
		"ADD COLUMN b TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, ADD COLUMN e TIMESTAMP NULL DEFAULT '2024-07-01 12:00:00'")
	expect(t, utc, "SELECT ABS(TIMESTAMPDIFF(SECOND, a, NOW())) < 60, ABS(TIMESTAMPDIFF(SECOND, b, NOW())) < 60, e FROM t",
		"1|1|2024-07-01 10:00:00")
	exec(t, k, "ALTER TABLE t MODIFY a TIMESTAMP(3) NULL, ADD KEY (a)")
	for _, q := range []string{"ALTER TABLE t MODIFY ts DATETIME(6)", "ALTER TABLE t ADD COLUMN g INT AS (HOUR(ts)) STORED"} {
		expectErr(t, k, 1235, q)
	}
	expect(t, k, "INSERT INTO t (id) VALUES (7) RETURNING id, e", "7|2024-07-01 12:00:00")
	expect(t, utc, "DELETE FROM t WHERE id = 7 RETURNING e", "2024-07-01 10:00:00")
	exec(t, k, "ALTER TABLE t ALTER COLUMN e SET DEFAULT '2024-01-01'")
	exec(t, k, "INSERT INTO t (id) VALUES (8)")
	exec(t, k, "CREATE TABLE u AS SELECT id, e FROM t")
	exec(t, k, "DELETE FROM t WHERE id = 8")
	expect(t, utc, "SELECT * FROM u ORDER BY id", "1|2024-07-01 10:00:00", "8|2023-12-31 23:00:00")
	exec(t, utc, "ALTER TABLE t ALTER COLUMN e SET DEFAULT '2024-01-01'")
	exec(t, utc, "ALTER TABLE t MODIFY ts DATETIME(6)")
	expect(t, k, "SELECT ts FROM t", "2024-06-30 23:00:00.500000")
}

// TestTimestampKeys: conditions on TIMESTAMPs are ranges of an index.
func TestTimestampKeys(t *testing.T) {
	s, c := newServer(t)
	s.g.query.Off = false
	k := conn(t, c)
	exec(t, k, "SET time_zone = '-05:00'")
	exec(t, k, "CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP NULL, KEY (ts))")
	exec(t, k, "INSERT INTO t SELECT n, '2024-01-01' + INTERVAL n HOUR FROM (WITH RECURSIVE r AS (SELECT 1 n UNION ALL "+
		"SELECT n + 1 FROM r WHERE n < 500) SELECT n FROM r) x")
	for cond, want := range map[string]string{
		"ts = '2024-01-02 01:00:00'": "25", "ts > '2024-01-21 19:00:00'": "500",
		"ts BETWEEN '2024-01-02 01:00:00' AND '2024-01-02 01:30:00'": "25", "ts IN ('2024-01-02 01:00:00')": "25",
		"ts < '2024-01-01 02:00:00'": "1",
	} {
		expect(t, k, "SELECT id FROM t WHERE "+cond, want)
		plan := query(t, k, "EXPLAIN SELECT id FROM t WHERE "+cond)
		if len(plan) == 0 || !strings.Contains(plan[0], "|ts|") {
			t.Errorf("%s is not read by the index: %q", cond, plan)
		}
	}
}
