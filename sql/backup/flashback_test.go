package backup_test

import "testing"

// TestFlashback: a table is again what it was, under its own name or beside itself, and one that
// was dropped is there again; with indexes, triggers and homes.
func TestFlashback(t *testing.T) {
	w := newWorld(t, "eu", "us")
	w.exec("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT, UNIQUE KEY (v))")
	w.exec("CREATE TABLE log (id INT)")
	w.exec("CREATE TRIGGER tr AFTER INSERT ON t FOR EACH ROW INSERT INTO log VALUES (NEW.id)")
	w.exec("INSERT INTO t (v) VALUES (10), (20), (30)")
	w.exec("UPDATE t__homes SET home_region = 'us' WHERE id = 2")
	m1 := w.query("SELECT NOW(6)")[0]
	w.exec("DELETE FROM t WHERE id = 1")
	w.exec("UPDATE t SET v = v + 1")
	w.exec("ALTER TABLE t ADD COLUMN late INT DEFAULT 5")
	m2 := w.query("SELECT NOW(6)")[0]
	w.refused("table test.log exists", "FLASHBACK TABLE t TO TIMESTAMP '"+m1+"' AS log")
	w.query("FLASHBACK TABLE t TO TIMESTAMP '" + m1 + "' AS was WITH SKIP_MISSING_FOREIGN_KEYS")
	w.expect("SELECT * FROM was ORDER BY id", "1|10", "2|20", "3|30")
	w.expect("SELECT * FROM t ORDER BY id", "2|21|5", "3|31|5")
	w.query("FLASHBACK TABLE test.t TO TIMESTAMP '" + m1 + "'")
	w.expect("SELECT * FROM t ORDER BY id", "1|10", "2|20", "3|30")
	w.expect("SELECT id FROM t WHERE v = 20", "2")
	w.expect("SELECT home_region FROM t__homes ORDER BY id", "eu", "us", "eu")
	w.refused("Duplicate", "INSERT INTO t (v) VALUES (30)")
	w.exec("INSERT INTO t (v) VALUES (40)")
	w.expect("SELECT COUNT(*) FROM log", "4")
	w.query("FLASHBACK TABLE t TO TIMESTAMP '" + m2 + "'") // and forward again
	w.expect("SELECT * FROM t ORDER BY id", "2|21|5", "3|31|5")
	w.refused("exists: FLASHBACK TABLE shows what it was", "UNDROP TABLE t")
	w.exec("DROP TABLE t")
	w.query("UNDROP TABLE t")
	w.expect("SELECT * FROM t ORDER BY id", "2|21|5", "3|31|5")
	w.exec("INSERT INTO t (v) VALUES (50)")
	w.expect("SELECT COUNT(*) FROM log", "5") // its triggers are there again, too
	w.exec("DROP TABLE t")
	w.query("UNDROP TABLE t AS other WITH SKIP_MISSING_FOREIGN_KEYS")
	w.refused("table not found", "UNDROP TABLE nothing")
	w.refused("is of one table", "UNDROP TABLE a, b")
	w.refused("database not found", "FLASHBACK TABLE t TO TIMESTAMP '2020-01-01 00:00:00'")
	w.exec("CREATE TABLE p (id INT PRIMARY KEY)")
	w.exec("CREATE TABLE c (id INT PRIMARY KEY, CONSTRAINT fk FOREIGN KEY (id) REFERENCES p (id))")
	m3 := w.query("SELECT NOW(6)")[0]
	w.refused("leads to table test.p", "FLASHBACK TABLE p TO TIMESTAMP '"+m3+"'")
	if got := w.query("SHOW JOBS"); len(got) == 0 {
		t.Error("SHOW JOBS shows no flashback")
	}
}
