package backup_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/kv/memkv"
)

// TestBackupAndRestore: a database comes back under another name, with all that belongs to it.
func TestBackupAndRestore(t *testing.T) {
	w := newWorld(t, "eu", "us")
	w.exec("CREATE TABLE p (id INT PRIMARY KEY AUTO_INCREMENT, n VARCHAR(20), UNIQUE KEY (n))")
	w.exec("CREATE TABLE c (id INT PRIMARY KEY, p INT, v INT, w INT AS (v * 2) VIRTUAL, KEY (w), KEY (v), " +
		"CONSTRAINT fk FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE)")
	w.exec("CREATE TABLE nokey (v INT, CHECK (v < 1000))")
	w.exec("CREATE TABLE log (what VARCHAR(20), id INT)")
	w.exec("INSERT INTO p (n) VALUES ('a'), ('b'), ('c')")
	w.exec("INSERT INTO c (id, p, v) VALUES (1,1,10), (2,1,20), (3,2,30)")
	w.exec("INSERT INTO nokey VALUES (7), (7), (8)")
	w.exec("CREATE VIEW vw AS SELECT n, COUNT(*) AS k FROM p JOIN c ON c.p = p.id GROUP BY n")
	w.exec("CREATE TRIGGER tr AFTER INSERT ON c FOR EACH ROW INSERT INTO log VALUES ('insert', NEW.id)")
	w.exec("CREATE PROCEDURE pr(x INT) SELECT x + 1")
	w.exec("CREATE FUNCTION fu(x INT) RETURNS INT COMMENT 'kept' RETURN x + 2")
	w.exec("ALTER TABLE c ADD COLUMN late INT DEFAULT 5")
	id, moment := w.backup("DATABASE test", "")
	w.exec("DELETE FROM p WHERE id = 1")
	w.exec("INSERT INTO p (n) VALUES ('late')")

	got := w.query("RESTORE DATABASE test FROM '" + w.url + "' AS other")
	if want := fmt.Sprintf("%s|%s|4|9|", id, moment); len(got) != 1 || got[0] != want {
		t.Errorf("RESTORE says %q, want %q", got, want)
	}
	w.exec("USE other")
	w.expect("SELECT * FROM p ORDER BY id", "1|a", "2|b", "3|c")
	w.expect("SELECT * FROM c ORDER BY id", "1|1|10|20|5", "2|1|20|40|5", "3|2|30|60|5")
	w.expect("SELECT * FROM nokey ORDER BY v", "7", "7", "8")
	w.expect("SELECT id FROM c WHERE w = 40", "2") // by an index over a virtual column
	w.expect("SELECT id FROM c WHERE v = 30", "3")
	w.expect("SELECT id FROM p WHERE n = 'b'", "2")
	w.expect("SELECT * FROM vw ORDER BY n", "a|2", "b|1")
	w.expect("CALL pr(4)", "5")
	w.expect("SELECT fu(4)", "6")
	w.exec("INSERT INTO c (id, p, v) VALUES (9, 3, 90)")
	w.expect("SELECT * FROM log", "insert|9")
	w.refused("Foreign key", "INSERT INTO c (id, p, v) VALUES (10, 77, 90)")
	w.refused("constraint", "INSERT INTO nokey VALUES (2000)")
	w.refused("Duplicate", "INSERT INTO p (n) VALUES ('b')")
	w.exec("INSERT INTO p (n) VALUES ('d')")
	if got := w.query("SELECT id FROM p WHERE n = 'd'"); len(got) != 1 || len(got[0]) == 1 && got[0] <= "3" {
		t.Errorf("AUTO_INCREMENT goes on with %q", got)
	}
	w.exec("DELETE FROM p WHERE id = 1") // cascades
	w.expect("SELECT id FROM c ORDER BY id", "3", "9")
	w.expect("SELECT COUNT(*) FROM test.c", "1") // the other database stands alone
	if got := w.query("SHOW JOBS"); len(got) != 2 || !strings.Contains(got[0], "|RESTORE|DATABASE test|") ||
		!strings.Contains(got[1], "|BACKUP|DATABASE test|") || !strings.Contains(got[0], "|succeeded|9|9|100|") ||
		!strings.Contains(got[1], "|succeeded|9|9|100|") {
		t.Errorf("SHOW JOBS: %q", got)
	}
	if got := w.query("VERIFY BACKUP '" + w.url + "'"); len(got) != 1 || !strings.HasPrefix(got[0], id+"|ok|") {
		t.Errorf("VERIFY BACKUP: %q", got)
	}
}

// TestOtherCluster: a whole cluster comes back in one with other shards and regions, with users.
func TestOtherCluster(t *testing.T) {
	a := newWorld(t, "eu", "us", "asia")
	us := start(t, a.db.(*memkv.DB).Gateway(2), a.dir)
	asia := start(t, a.db.(*memkv.DB).Gateway(3), a.dir)
	a.exec("CREATE TABLE t (id INT PRIMARY KEY, v INT, KEY (v))")
	a.exec("CREATE TABLE g (id INT PRIMARY KEY, v INT, KEY (v)) LOCALITY GLOBAL")
	a.exec("CREATE TABLE r (id INT PRIMARY KEY) LOCALITY REGIONAL BY TABLE IN 'us'")
	for i, w := range []*world{a, us, asia} {
		w.exec("USE test")
		w.exec(fmt.Sprintf("INSERT INTO t VALUES (%d, %d), (%d, %d)", 2*i, 20*i, 2*i+1, 20*i+10))
	}
	a.exec("INSERT INTO g VALUES (1, 10), (2, 20)")
	a.exec("INSERT INTO r VALUES (1), (2)")
	a.exec("CREATE USER 'ann' IDENTIFIED BY 'secret'")
	a.exec("GRANT SELECT ON test.t TO 'ann'")
	a.exec("CREATE DATABASE spare")
	a.backup("", "")

	b := start(t, memkv.New(7, "us", "moon"), a.dir)
	got := b.query("RESTORE FROM '" + a.url + "'")
	if len(got) != 1 || !strings.Contains(got[0], `rows of region "eu", which does not exist here, are at home in us`) ||
		!strings.Contains(got[0], `region "asia"`) || strings.Contains(got[0], `"us"`) {
		t.Errorf("RESTORE says %q", got)
	}
	b.exec("USE test")
	b.expect("SELECT id FROM t WHERE v > 0 ORDER BY v", "1", "2", "3", "4", "5")
	b.expect("SELECT id, home_region FROM t__homes ORDER BY id", "0|us", "1|us", "2|us", "3|us", "4|us", "5|us")
	b.expect("SELECT id FROM g WHERE v = 20", "2")
	b.expect("SELECT * FROM r ORDER BY id", "1", "2")
	b.expect("SHOW LOCALITY FROM r", "r|REGIONAL BY TABLE IN 'us'")
	b.expect("SHOW DATABASES LIKE 'spare'", "spare")
	b.expect("SHOW GRANTS FOR 'ann'", "GRANT USAGE ON *.* TO `ann`@`%`", "GRANT SELECT ON `test`.`t` TO `ann`@`%`")
	b.refused("without databases", "RESTORE FROM '"+a.url+"'")

	// Regions have other names here, or become one.
	c := start(t, memkv.New(3, "north", "south"), a.dir)
	from := "RESTORE FROM '" + a.url + "' HOMES "
	c.refused("region 'moon', and the regions of the backup are eu, us, asia", from+"('moon' = 'north')")
	c.refused("to region 'eu', which does not exist here", from+"('us' = 'eu')")
	c.refused("region 'EU' has two homes", from+"('eu' = 'north', 'EU' = 'south')")
	if got := c.query(from + "('EU' = 'south', 'us' = 'north', 'asia' = 'south') WITH SKIP_MISSING_FOREIGN_KEYS"); strings.Contains(got[0], "does not exist") {
		t.Errorf("RESTORE says %q", got)
	}
	c.exec("USE test")
	c.expect("SELECT id, home_region FROM t__homes ORDER BY id", "0|south", "1|south", "2|north", "3|north", "4|south", "5|south")
	c.expect("SHOW LOCALITY FROM r", "r|REGIONAL BY TABLE IN 'north'")
}

// TestTables: single tables, under their own names and others, with what foreign keys and triggers
// ask for.
func TestTables(t *testing.T) {
	w := newWorld(t, "eu")
	w.exec("CREATE TABLE p (id INT PRIMARY KEY)")
	w.exec("CREATE TABLE c (id INT PRIMARY KEY, p INT, up INT, CONSTRAINT fk FOREIGN KEY (p) REFERENCES p (id), " +
		"CONSTRAINT self FOREIGN KEY (up) REFERENCES c (id))")
	w.exec("CREATE TABLE seen (id INT)")
	w.exec("CREATE TRIGGER tr AFTER INSERT ON p FOR EACH ROW INSERT INTO seen VALUES (NEW.id)")
	w.exec("INSERT INTO p VALUES (1), (2)")
	w.exec("INSERT INTO c VALUES (1, 1, NULL), (2, 2, 1)")
	w.exec("CREATE TABLE words (id INT PRIMARY KEY, t TEXT, FULLTEXT KEY ft (t))")
	w.exec("INSERT INTO words VALUES (1, 'hello world'), (2, 'good night')")
	w.backup("TABLE p, test.c, words", "")
	from := " FROM '" + w.url + "'"
	w.refused("table test.p exists", "RESTORE TABLE p"+from)
	w.refused("leads to table test.p, which is not restored", "RESTORE TABLE c"+from+" AS c2")
	got := w.query("RESTORE TABLE c" + from + " AS c2 WITH SKIP_MISSING_FOREIGN_KEYS")
	if len(got) != 1 || !strings.Contains(got[0], "foreign key fk of table c2 is left out: table test.p is not restored") {
		t.Errorf("RESTORE says %q", got)
	}
	w.expect("SELECT * FROM c2 ORDER BY id", "1|1|NULL", "2|2|1")
	w.exec("INSERT INTO c2 VALUES (3, 99, 2)")
	w.refused("Foreign key violation", "INSERT INTO c2 VALUES (4, 1, 77)")
	w.refused("is not in the backup", "RESTORE TABLE seen"+from)
	w.refused("not of the whole database", "RESTORE DATABASE test"+from)
	w.refused("not of a whole cluster", "RESTORE"+from)
	w.refused("names the table", "RESTORE TABLE p"+from+" AS p2")
	w.refused("a full-text index", "RESTORE TABLE words"+from+" AS words2")
	w.refused("database not found", "BACKUP DATABASE nowhere INTO '"+w.url+"'")
	w.refused("table not found", "BACKUP TABLE nothing INTO '"+w.url+"'")

	w.exec("SET foreign_key_checks = 0")
	w.exec("DROP TABLE p, words")
	w.exec("SET foreign_key_checks = 1")
	w.refused("of table test.c leads to table test.p", "RESTORE TABLE p"+from)
	w.exec("DROP TABLE c")
	w.exec("DROP TRIGGER IF EXISTS tr")
	w.query("RESTORE TABLE p, c, words" + from)
	w.expect("SELECT * FROM c ORDER BY id", "1|1|NULL", "2|2|1")
	w.refused("Foreign key violation", "INSERT INTO c VALUES (4, 99, 1)")
	w.exec("INSERT INTO p VALUES (9)")
	w.expect("SELECT id FROM seen ORDER BY id", "1", "2", "9")
	w.expect("SELECT id FROM words WHERE MATCH (t) AGAINST ('hello')", "1")
	w.exec("DROP DATABASE test")
	w.refused("database not found: test", "RESTORE TABLE test.p, test.c"+from)
}

// TestIncremental: what changed since the backup before, also deleted and moved rows, tables that
// were made, dropped, emptied and altered; and each moment comes back.
func TestIncremental(t *testing.T) {
	w := newWorld(t, "eu", "us")
	w.exec("CREATE TABLE t (id INT PRIMARY KEY, v INT, KEY (v))")
	w.exec("CREATE TABLE e (id INT PRIMARY KEY)")
	w.exec("CREATE TABLE gone (id INT PRIMARY KEY)")
	values := make([]string, 3000)
	for i := range values {
		values[i] = fmt.Sprintf("(%d, %d)", i, i)
	}
	w.exec("INSERT INTO t VALUES " + strings.Join(values, ","))
	w.exec("INSERT INTO e VALUES (1), (2)")
	w.refused("no complete backup in that place to build on", "BACKUP DATABASE test INTO '"+w.url+"' WITH INCREMENTAL")
	var moments, ids []string
	states := map[string][]string{}
	take := func(options string) string {
		t.Helper()
		id, m := w.backup("DATABASE test", options)
		moments, ids = append(moments, m), append(ids, id)
		states[m] = w.query("SELECT id, v FROM t AS OF SYSTEM TIME '" + m + "' ORDER BY id")
		return id
	}
	take("")
	w.exec("UPDATE t SET v = v + 10000 WHERE id < 10")
	w.exec("DELETE FROM t WHERE id >= 100 AND id < 110")
	w.exec("UPDATE t__homes SET home_region = 'us' WHERE id = 500")
	second := take(" WITH INCREMENTAL")
	w.exec("INSERT INTO t VALUES (100, 5), (-7, 7)")
	w.exec("DELETE FROM t WHERE id = 3")
	w.exec("ALTER TABLE t ADD COLUMN w INT DEFAULT 3")
	w.exec("CREATE INDEX w ON t (w)")
	w.exec("TRUNCATE TABLE e")
	w.exec("INSERT INTO e VALUES (9)")
	w.exec("DROP TABLE gone")
	w.exec("CREATE TABLE new (id INT PRIMARY KEY)")
	w.exec("INSERT INTO new VALUES (4)")
	take(" WITH INCREMENTAL")
	take(" WITH INCREMENTAL") // nothing has changed

	size := func(id string) string { // of a backup, as SHOW BACKUP says
		for _, l := range w.query("SHOW BACKUP FROM '" + w.url + "'") {
			if strings.HasPrefix(l, id) {
				return l
			}
		}
		t.Fatalf("backup %s is not shown", id)
		return ""
	}
	for i, want := range []string{"|complete|full|NULL|" + moments[0] + "|DATABASE test|3|3002|",
		"|complete|incremental|" + ids[0] + "|" + moments[1] + "|DATABASE test|3|2992|",
		"|complete|incremental|" + ids[1] + "|" + moments[2] + "|DATABASE test|3|2993|",
		"|complete|incremental|" + ids[2] + "|"} {
		if got := size(ids[i]); !strings.HasPrefix(got, ids[i]+want) {
			t.Errorf("SHOW BACKUP: %q, want %q", got, want)
		}
	}
	for i, want := range []string{"all rows", "changes", "changes", "changes"} {
		if got := size(ids[i]); !strings.HasSuffix(got, "|"+want) {
			t.Errorf("SHOW BACKUP: %q has read other than %s", got, want)
		}
	}
	records := map[string]int{} // rows and marks in a backup
	for _, l := range w.query("VERIFY BACKUP '" + w.url + "'") {
		f := strings.Split(l, "|")
		var n int
		fmt.Sscan(f[3], &n)
		records[f[0]] = n
	}
	if got := records[second]; got != 21 { // 10 changed, 10 gone, 1 moved
		t.Errorf("the second backup has %d rows, want 21", got)
	}
	if got := records[ids[3]]; got != 0 {
		t.Errorf("the last backup has %d rows, want none", got)
	}
	tables := w.query("VERIFY BACKUP '" + w.url + "' WITH TABLES")
	for i, want := range []string{ids[3] + "|test.e|ok|1|", ids[3] + "|test.new|ok|1|", ids[3] + "|test.t|ok|2991|"} {
		if len(tables) != 3 || !strings.HasPrefix(tables[i], want) {
			t.Errorf("VERIFY BACKUP WITH TABLES: %q, want %q", tables, want)
		}
	}
	for i, m := range moments {
		db := fmt.Sprintf("r%d", i)
		w.query("RESTORE DATABASE test FROM '" + w.url + "' AS OF SYSTEM TIME '" + m + "' AS " + db)
		if got := w.query("SELECT id, v FROM " + db + ".t ORDER BY id"); fmt.Sprint(got) != fmt.Sprint(states[m]) {
			t.Errorf("moment %s: %d rows, want %d", m, len(got), len(states[m]))
		}
		w.expect("SELECT COUNT(*) FROM "+db+".t WHERE v >= 10000", []string{"0", "10", "9", "9"}[i])
	}
	w.expect("SELECT home_region FROM r0.t__homes WHERE id = 500", "eu")
	w.expect("SELECT home_region FROM r1.t__homes WHERE id = 500", "us")
	w.expect("SELECT id FROM r1.e ORDER BY id", "1", "2")
	w.expect("SELECT id FROM r3.e ORDER BY id", "9")
	w.expect("SELECT COUNT(*) FROM r3.t WHERE w = 3", "2991")
	w.expect("SELECT id FROM r2.new", "4")
	w.expect("SHOW TABLES FROM r2", "e", "new", "t")
	w.query("RESTORE DATABASE test FROM '" + w.url + "' AS newest")
	w.expect("SELECT COUNT(*) FROM newest.t", "2991")
	w.refused("the newest are of '"+moments[3]+"'", "RESTORE DATABASE test FROM '"+w.url+"' AS OF SYSTEM TIME '-1s' AS x")
	w.refused("is of DATABASE test, this one would be of CLUSTER", "BACKUP INTO '"+w.url+"' WITH INCREMENTAL")
	w.refused("not before", "BACKUP DATABASE test INTO '"+w.url+"' AS OF SYSTEM TIME '"+moments[0]+"' WITH INCREMENTAL")
}
