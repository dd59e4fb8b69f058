package server

import (
	"strings"
	"testing"
)

// definition is what SHOW CREATE TABLE says.
func definition(t *testing.T, c execer, table string) string {
	t.Helper()
	row := query(t, c, "SHOW CREATE TABLE "+table)[0]
	return row[strings.Index(row, "|")+1:]
}

// TestShowCreateTable: what it says makes the same table again, wherever it says everything.
func TestShowCreateTable(t *testing.T) {
	_, c := newServer(t)
	for clause, want := range map[string]string{
		"":                                       "REGIONAL BY ROW",
		"LOCALITY REGIONAL BY ROW":               "REGIONAL BY ROW",
		"COMMENT='c' LOCALITY GLOBAL":            "GLOBAL",
		"locality regional by table in \"us\" ;": "REGIONAL BY TABLE IN 'us'",
		"LOCALITY REGIONAL BY TABLE":             "REGIONAL BY TABLE IN 'eu'",
		"ENGINE=InnoDB /*!99999 LOCALITY REGIONAL BY TABLE IN 'us' */": "REGIONAL BY TABLE IN 'us'",
		"COMMENT='LOCALITY GLOBAL'":                                    "REGIONAL BY ROW",
	} {
		exec(t, c, `CREATE TABLE t (a INT, e ENUM('x','y''s') DEFAULT 'y''s', s SET('p','q','r') NOT NULL DEFAULT 'p,r', `+
			`f VARCHAR(20) DEFAULT 'it''s', PRIMARY KEY (a)) `+clause)
		expect(t, c, "SHOW LOCALITY FROM t", "t|"+want)
		exec(t, c, "INSERT INTO t (a) VALUES (1)")
		def := definition(t, c, "t")
		if named := strings.Contains(def, "/*!99999 LOCALITY "+want+" */"); named != (want != "REGIONAL BY ROW") {
			t.Errorf("%s:\n%s", clause, def)
		}
		exec(t, c, "DROP TABLE t")
		exec(t, c, def)
		exec(t, c, "INSERT INTO t (a) VALUES (1)")
		expect(t, c, "SELECT * FROM t", "1|y's|p,r|it's")
		expect(t, c, "SHOW LOCALITY FROM t", "t|"+want)
		if again := definition(t, c, "t"); again != def {
			t.Errorf("%s: made from\n%s\nis\n%s", clause, def, again)
		}
		if strings.Contains(clause, "COMMENT") != strings.Contains(def, "COMMENT=") {
			t.Errorf("%s: the comment is lost:\n%s", clause, def)
		}
		exec(t, c, "DROP TABLE t")
	}
	expectErr(t, c, 1105, "CREATE TABLE t (a INT PRIMARY KEY) LOCALITY REGIONAL BY TABLE IN 'moon'")
	expectErr(t, c, 1064, "CREATE TABLE t (a INT PRIMARY KEY) LOCALITY SOMEWHERE")
	exec(t, c, "CREATE TABLE t (a INT PRIMARY KEY)") // nothing is left of the failures
	expect(t, c, "SHOW LOCALITY FROM t", "t|REGIONAL BY ROW")
}

// TestMariaDBComments: what is for MariaDB alone is a comment.
func TestMariaDBComments(t *testing.T) {
	_, c := newServer(t)
	expect(t, c, "/*M!999999 enable the sandbox mode */ SELECT 1", "1")
	exec(t, c, "/*M!100616 SET @OLD_NOTE_VERBOSITY=@@NOTE_VERBOSITY, NOTE_VERBOSITY=0 */")
}

// TestViewsDoNotCommit: a statement that uses a view leaves the transaction open.
func TestViewsDoNotCommit(t *testing.T) {
	_, c := newServer(t)
	k := conn(t, c)
	exec(t, k, "CREATE TABLE t (a INT PRIMARY KEY)")
	exec(t, k, "CREATE VIEW v AS SELECT a FROM t")
	exec(t, k, "CREATE VIEW w AS SELECT a FROM v")
	for _, q := range []string{"SELECT * FROM v", "SELECT * FROM w JOIN v USING (a)", "SHOW CREATE TABLE v",
		"SHOW CREATE VIEW w", "SHOW FIELDS FROM v",
		"SELECT * FROM information_schema.views"} {
		exec(t, k, "START TRANSACTION")
		exec(t, k, "INSERT INTO t VALUES (1)")
		exec(t, k, "SAVEPOINT s")
		query(t, k, q)
		exec(t, k, "ROLLBACK TO SAVEPOINT s")
		exec(t, k, "ROLLBACK")
		if got := query(t, k, "SELECT COUNT(*) FROM t"); got[0] != "0" {
			t.Fatalf("%s has committed the transaction", q)
		}
	}
	// Making one does, as in MySQL.
	exec(t, k, "START TRANSACTION")
	exec(t, k, "INSERT INTO t VALUES (1)")
	exec(t, k, "CREATE VIEW x AS SELECT a FROM v")
	exec(t, k, "ROLLBACK")
	expect(t, k, "SELECT * FROM x", "1")
}

// TestViewOfNoDatabase: a view binds its tables in its own database, whether the session has one or
// another or none.
func TestViewOfNoDatabase(t *testing.T) {
	s, c := newServer(t)
	exec(t, c, "CREATE DATABASE d")
	exec(t, c, "CREATE TABLE d.t (a INT PRIMARY KEY)")
	exec(t, c, "INSERT INTO d.t VALUES (7)")
	exec(t, c, "CREATE TABLE t (a INT PRIMARY KEY)")
	k := conn(t, c)
	exec(t, k, "USE d")
	exec(t, k, "CREATE VIEW v AS SELECT a FROM t")
	exec(t, k, "CREATE VIEW w AS SELECT a + 1 AS b FROM v")
	none := open(t, s, "")
	for _, x := range []execer{c, k, none} {
		expect(t, x, "SELECT a FROM d.v", "7")
		expect(t, x, "SELECT b, a FROM d.w JOIN d.v ON b = a + 1", "8|7")
	}
	expect(t, none, "SELECT DATABASE() IS NULL FROM d.v", "1")
	expectErr(t, none, 1046, "SELECT * FROM t")
}
