package sqlfront

import (
	"fmt"
	"testing"

	"github.com/godwitdb/godwit/kv/memkv"
)

// trigSchema has a table for each kind of trigger, so that what each costs can be told.
var trigSchema = []string{
	"CREATE TABLE ref (id INT PRIMARY KEY, v INT, w INT, KEY (w))",
	"CREATE TABLE cnt (id INT PRIMARY KEY, n INT)", "CREATE TABLE one (id INT PRIMARY KEY, n INT)",
	"CREATE TABLE log (id INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(60))",
	"CREATE TABLE raw (what VARCHAR(60))",
	"CREATE TABLE uniq (id INT PRIMARY KEY, u INT UNIQUE)",
	"CREATE TABLE settings (name VARCHAR(10), v INT)",
	"CREATE TABLE words (id INT PRIMARY KEY, body VARCHAR(100), FULLTEXT KEY (body))",
	"CREATE TABLE child (id INT PRIMARY KEY, pid INT, FOREIGN KEY (pid) REFERENCES ref(id) ON DELETE CASCADE)",
	"CREATE TABLE nest (id INT PRIMARY KEY, v INT)",
	"CREATE TABLE src (id INT PRIMARY KEY, v INT)",
	"CREATE TRIGGER nest1 AFTER INSERT ON nest FOR EACH ROW UPDATE cnt SET n = n + NEW.v WHERE id = NEW.id",
	"CREATE TABLE a_log (id INT PRIMARY KEY, v INT)",
	"CREATE TRIGGER a_log1 AFTER INSERT ON a_log FOR EACH ROW INSERT INTO log (what) VALUES (CONCAT('new ', NEW.id))",
	"CREATE TRIGGER a_log2 AFTER UPDATE ON a_log FOR EACH ROW INSERT INTO log (what) VALUES (CONCAT(OLD.v, ' to ', NEW.v))",
	"CREATE TRIGGER a_log3 BEFORE DELETE ON a_log FOR EACH ROW INSERT INTO raw VALUES (CONCAT('old ', OLD.id))",
	"CREATE TABLE a_cnt (id INT PRIMARY KEY, v INT)",
	"CREATE TRIGGER a_cnt1 AFTER INSERT ON a_cnt FOR EACH ROW UPDATE cnt SET n = n + 1 WHERE id = NEW.v",
	"CREATE TRIGGER a_cnt2 AFTER UPDATE ON a_cnt FOR EACH ROW BEGIN UPDATE cnt SET n = n - 1 WHERE id = OLD.v; UPDATE cnt SET n = n + 1 WHERE id = NEW.v; END",
	"CREATE TRIGGER a_cnt3 AFTER DELETE ON a_cnt FOR EACH ROW DELETE FROM cnt WHERE id = OLD.v",
	"CREATE TABLE a_see (id INT PRIMARY KEY, v INT)",
	"CREATE TRIGGER a_see1 BEFORE INSERT ON a_see FOR EACH ROW SET NEW.v = (SELECT v FROM ref WHERE id = NEW.id)",
	"CREATE TRIGGER a_see2 BEFORE UPDATE ON a_see FOR EACH ROW BEGIN SELECT w INTO @w FROM ref WHERE id = NEW.id; IF @w > 3 THEN SET NEW.v = (SELECT n FROM cnt WHERE id = @w); END IF; END",
	"CREATE TRIGGER a_see3 BEFORE DELETE ON a_see FOR EACH ROW BEGIN IF (SELECT COUNT(*) FROM ref WHERE w = OLD.id) = 0 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'kept'; END IF; END",
	"CREATE TABLE a_deep (id INT PRIMARY KEY, v INT)",
	"CREATE TRIGGER a_deep1 AFTER INSERT ON a_deep FOR EACH ROW INSERT INTO nest VALUES (NEW.id, NEW.v)",
	"CREATE TRIGGER a_deep2 AFTER DELETE ON a_deep FOR EACH ROW DELETE FROM ref WHERE id = OLD.id",
	"CREATE TRIGGER a_deep3 AFTER UPDATE ON a_deep FOR EACH ROW INSERT INTO uniq VALUES (NEW.id, NEW.v) ON DUPLICATE KEY UPDATE u = u + 1000",
	"CREATE TABLE a_mix (id INT PRIMARY KEY, v INT, FOREIGN KEY (v) REFERENCES ref(id))",
	"CREATE TRIGGER a_mix1 BEFORE INSERT ON a_mix FOR EACH ROW INSERT INTO ref VALUES (NEW.v, 0, 0) ON DUPLICATE KEY UPDATE v = v + 1",
	"CREATE TRIGGER a_mix2 AFTER INSERT ON a_mix FOR EACH ROW BEGIN SET @last = (SELECT n FROM one WHERE id = 1); UPDATE one SET n = @last + 1 WHERE id = 1; INSERT INTO uniq VALUES (@last, NEW.id + 50000); END",
	"CREATE TRIGGER a_mix3 AFTER UPDATE ON a_mix FOR EACH ROW REPLACE INTO uniq VALUES (NEW.id, OLD.v)",
	"CREATE TABLE a_text (id INT PRIMARY KEY, v INT)",
	"CREATE TRIGGER a_text1 AFTER INSERT ON a_text FOR EACH ROW INSERT INTO words VALUES (NEW.id, CONCAT('this is text', NEW.v, ' with some words'))",
	"CREATE TRIGGER a_text2 AFTER UPDATE ON a_text FOR EACH ROW UPDATE words SET body = CONCAT(body, ' changed') WHERE id = NEW.id",
	"CREATE TABLE a_set (id INT PRIMARY KEY, v INT)",
	"CREATE TRIGGER a_set1 BEFORE INSERT ON a_set FOR EACH ROW BEGIN DECLARE x INT DEFAULT 0; SELECT v INTO x FROM settings WHERE name = 'step'; SET NEW.v = NEW.v + x; INSERT INTO child VALUES (NEW.id, NEW.id); END",
	"CREATE TRIGGER a_set2 AFTER UPDATE ON a_set FOR EACH ROW INSERT INTO raw SELECT CONCAT(c.id, ' ', r.v) FROM child c JOIN ref r ON r.id = c.pid WHERE c.id = NEW.id",
	"CREATE TRIGGER a_set3 AFTER DELETE ON a_set FOR EACH ROW INSERT INTO log (what) SELECT CONCAT(MAX(v), ' ', MIN(OLD.id)) FROM settings",
}

var trigTables = []string{
	"a_log", "a_cnt", "a_see", "a_deep", "a_mix", "a_text", "a_set", "child", "nest", "uniq", "words", "log", "raw", "cnt", "one", "settings", "ref", "src",
}

func trigRows(n int) []string {
	return []string{
		"INSERT INTO ref VALUES " + manyOf(n, "(#,#,%)"), "INSERT INTO cnt VALUES " + manyOf(n, "(#,#)"), "INSERT INTO settings VALUES ('step', 3), ('other', 4)", "INSERT INTO one VALUES (1, 5000)",
		"INSERT INTO log (what) VALUES " + manyOf(100, "('row #')"),
		"INSERT INTO uniq VALUES " + manyOf(n/2, "(#,#)"), "INSERT INTO src VALUES " + manyOf(n, "(1000+#,#)"), "INSERT INTO words VALUES " + manyOf(n, "(1000+#,'some text#')"),
	}
}

// trigStatements change n rows each.
var trigStatements = []struct{ name, q string }{
	{"log inserts", "INSERT INTO a_log VALUES VALUES(#,#)"},
	{"log updates", "UPDATE a_log SET v = v + 5"},
	{"log deletes", "DELETE FROM a_log"},
	{"log inserts from a table", "INSERT INTO a_log SELECT id, v FROM src"},
	{"count inserts", "INSERT INTO a_cnt VALUES VALUES(#,#)"},
	{"count updates", "UPDATE a_cnt SET v = v + 1"},
	{"count deletes", "DELETE FROM a_cnt"},
	{"look at inserts", "INSERT INTO a_see VALUES VALUES(#,#)"},
	{"look at replaced", "REPLACE INTO a_see VALUES VALUES(#,#)"},
	{"look at duplicates", "INSERT INTO a_see VALUES VALUES(#,#) ON DUPLICATE KEY UPDATE v = v + 1"},
	{"look at updates", "UPDATE a_see SET v = 7"},
	{"look at deletes", "DELETE FROM a_see WHERE id < 10"},
	{"nested inserts", "INSERT INTO a_deep VALUES VALUES(#,#)"},
	{"duplicates in a trigger", "UPDATE a_deep SET v = v + 1"},
	{"cascades in a trigger", "DELETE FROM a_deep"},
	{"parents made by a trigger", "INSERT INTO a_mix VALUES VALUES(#,10000+#)"},
	{"a chain", "INSERT IGNORE INTO a_mix VALUES VALUES(1000+#,#)"},
	{"replaced in a trigger", "UPDATE a_mix SET v = 3"},
	{"text inserts", "INSERT INTO a_text VALUES VALUES(#,%)"},
	{"text updates", "UPDATE a_text SET v = 0"},
	{"settings", "INSERT INTO a_set VALUES VALUES(#,#)"},
	{"a small table", "DELETE FROM a_set"},
}

func trigReset(t *testing.T, c execer, n int) {
	exec(t, c, "SET foreign_key_checks = 0")
	for _, tab := range trigTables {
		exec(t, c, "TRUNCATE TABLE "+tab)
	}
	exec(t, c, "SET foreign_key_checks = 1")
	for _, q := range trigRows(n) {
		exec(t, c, q)
	}
}

// TestTriggersByBatch counts kv calls: triggers on many rows take as many as on few.
func TestTriggersByBatch(t *testing.T) {
	counts := map[string][]int64{}
	for _, n := range []int{20, 60} {
		db := memkv.New(4, "eu", "us")
		s, c := startServer(t, db)
		s.g.rehearseAll = true
		for _, q := range trigSchema {
			exec(t, c, q)
		}
		conn, err := c.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, explicit := range []bool{false, true} {
			trigReset(t, conn, n)
			for _, k := range trigStatements {
				if explicit {
					exec(t, conn, "BEGIN")
				}
				calls := db.Calls()
				r, err := conn.ExecContext(t.Context(), aheadText(k.q, n))
				if err != nil {
					t.Errorf("%s: %v", k.q, err)
					continue
				}
				affected, _ := r.RowsAffected()
				name := fmt.Sprintf("%s (explicit %v)", k.name, explicit)
				counts[name] = append(counts[name], db.Calls()-calls)
				if len(counts[name]) == 2 {
					t.Logf("%s: %d rows, calls %v", name, affected, counts[name])
				}
				if explicit {
					exec(t, conn, "COMMIT")
				}
			}
		}
	}
	for name, k := range counts {
		if len(k) != 2 || k[1] > k[0]+3 || k[1] > 20 {
			t.Errorf("%s: %v kv calls for 20 and 60 rows", name, k)
		}
	}
}

// trigCases are statements whose rows have to do with each other, or fail.
var trigCases = []string{
	"INSERT INTO a_log VALUES (1,1),(2,2),(1,3)", "INSERT IGNORE INTO a_log VALUES (1,1),(2,2),(1,3),(NULL,4)", "INSERT INTO a_log (id, v) VALUES (1, (SELECT v FROM ref)), (2,2)",
	"INSERT INTO a_cnt VALUES (1,3),(2,3),(3,3),(4,99)", "INSERT INTO a_see VALUES (1,NULL),(2,NULL),(99,5)", "INSERT INTO a_see VALUES (1,1),(2,2),(1,3) ON DUPLICATE KEY UPDATE v = v + 100",
	"INSERT INTO a_see SELECT id, 0 FROM ref", "REPLACE INTO a_see SELECT id, v FROM src", "INSERT INTO a_deep VALUES (1,5),(2,6),(3,7)", "INSERT INTO a_deep SELECT v, id FROM src",
	"INSERT INTO a_mix VALUES (1,100),(2,100),(3,5)", "INSERT INTO a_mix VALUES (1,1),(2,2),(3,3)", "INSERT INTO a_text VALUES (1,1),(2,2),(1003,3)", "INSERT INTO a_set VALUES (1,1),(2,2),(99,3)",
	"INSERT INTO a_set VALUES (1,1),(2,2),(2,2),(3,3)", "INSERT INTO log (what) SELECT v FROM src",
	"UPDATE a_log SET v = v * 2 WHERE id > 3", "UPDATE a_log SET id = id + 1 ORDER BY id DESC", "UPDATE a_log SET id = 5 WHERE id IN (3, 4)", "UPDATE IGNORE a_log SET id = 5 WHERE id < 5",
	"UPDATE a_cnt SET v = 19 - v", "UPDATE a_see SET v = id, id = id + 0", "UPDATE a_deep SET v = 3", "UPDATE a_deep SET v = v + 50", "UPDATE a_mix SET v = v + 1 WHERE v < 15", "UPDATE a_text SET v = v + 1",
	"UPDATE a_set SET v = @w, id = id", "UPDATE a_log JOIN ref ON ref.id = a_log.id SET a_log.v = ref.w", "UPDATE a_log, a_cnt SET a_log.v = a_cnt.v + 1 WHERE a_cnt.id = a_log.id",
	"DELETE FROM a_log WHERE id > 4", "DELETE FROM a_cnt WHERE v IN (1, 2, 1)", "DELETE FROM a_see WHERE id < 6", "DELETE FROM a_see", "DELETE FROM a_deep WHERE id BETWEEN 3 AND 8", "DELETE FROM a_set ORDER BY v DESC LIMIT 4",
	"SET @w = 4", "UPDATE a_see SET v = @w", "INSERT INTO a_mix VALUES (900, @last)", "INSERT INTO a_log VALUES (@w, 1), (@w + 1, 1)", "INSERT INTO a_log VALUES (LAST_INSERT_ID() + 500, 1), (LAST_INSERT_ID() + 501, 1)",
}

// TestRehearsedAsRowByRow runs statements with triggers with and without a rehearsal; clients must not be able to tell.
func TestRehearsedAsRowByRow(t *testing.T) {
	run := func(rehearsed bool) (out []string) {
		s, c := newServer(t)
		s.g.noAhead, s.g.rehearseAll = !rehearsed, rehearsed
		conn, err := c.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, q := range trigSchema {
			exec(t, conn, q)
		}
		for _, explicit := range []bool{false, true} {
			trigReset(t, conn, 12)
			for _, tab := range []string{"a_log", "a_cnt", "a_see", "a_deep", "a_mix", "a_text", "a_set"} {
				exec(t, conn, "INSERT INTO "+tab+" VALUES "+manyOf(12, "(20+#,#)"))
			}
			for i, q := range trigCases {
				exec(t, conn, "BEGIN")
				if explicit {
					exec(t, conn, "DELETE FROM uniq WHERE id = 4")
					exec(t, conn, "UPDATE cnt SET n = 1000 WHERE id = 3")
				} else if i%2 == 0 {
					exec(t, conn, "COMMIT")
				}
				o := q + ": " + outcome(conn, q) + fmt.Sprint(query(t, conn, "SELECT LAST_INSERT_ID(), @w, @last"), query(t, conn, "SHOW WARNINGS"))
				for _, tab := range trigTables {
					o += fmt.Sprintf("\n\t%s %v", tab, query(t, conn, "SELECT * FROM "+tab+" ORDER BY 1"))
				}
				o += fmt.Sprint(query(t, conn, "SELECT id, MATCH(body) AGAINST ('text1 changed') FROM words ORDER BY 1"))
				if explicit {
					exec(t, conn, "ROLLBACK")
				} else {
					exec(t, conn, "COMMIT")
				}
				out = append(out, o)
			}
		}
		return out
	}
	want, got := run(false), run(true)
	for i := range want {
		if want[i] != got[i] {
			t.Errorf("rehearsed:\n%s\nrow by row:\n%s", got[i], want[i])
		}
	}
}
