package server

import (
	"fmt"
	"os"
	"slices"
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
	"CREATE TRIGGER a_cnt2 AFTER UPDATE ON a_cnt FOR EACH ROW BEGIN UPDATE cnt SET n = n - 1 WHERE id = OLD.v; " +
		"UPDATE cnt SET n = n + 1 WHERE id = NEW.v; END",
	"CREATE TRIGGER a_cnt3 AFTER DELETE ON a_cnt FOR EACH ROW DELETE FROM cnt WHERE id = OLD.v",
	"CREATE TABLE a_see (id INT PRIMARY KEY, v INT)",
	"CREATE TRIGGER a_see1 BEFORE INSERT ON a_see FOR EACH ROW SET NEW.v = (SELECT v FROM ref WHERE id = NEW.id)",
	"CREATE TRIGGER a_see2 BEFORE UPDATE ON a_see FOR EACH ROW BEGIN SELECT w INTO @w FROM ref WHERE id = NEW.id; " +
		"IF @w > 3 THEN SET NEW.v = (SELECT n FROM cnt WHERE id = @w); END IF; END",
	"CREATE TRIGGER a_see3 BEFORE DELETE ON a_see FOR EACH ROW BEGIN IF (SELECT COUNT(*) FROM ref WHERE w = OLD.id % 9) " +
		"= 0 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'kept'; END IF; END",
	"CREATE TABLE a_deep (id INT PRIMARY KEY, v INT)",
	"CREATE TRIGGER a_deep1 AFTER INSERT ON a_deep FOR EACH ROW INSERT INTO nest VALUES (NEW.id, NEW.v)",
	"CREATE TRIGGER a_deep2 AFTER DELETE ON a_deep FOR EACH ROW DELETE FROM ref WHERE id = OLD.id",
	"CREATE TRIGGER a_deep3 AFTER UPDATE ON a_deep FOR EACH ROW INSERT INTO uniq VALUES (NEW.id, NEW.v) " +
		"ON DUPLICATE KEY UPDATE u = u + 1000",
	"CREATE TABLE a_mix (id INT PRIMARY KEY, v INT, FOREIGN KEY (v) REFERENCES ref(id))",
	"CREATE TRIGGER a_mix1 BEFORE INSERT ON a_mix FOR EACH ROW INSERT INTO ref VALUES (NEW.v, 0, 0) " +
		"ON DUPLICATE KEY UPDATE v = v + 1",
	"CREATE TRIGGER a_mix2 AFTER INSERT ON a_mix FOR EACH ROW BEGIN SET @last = (SELECT n FROM one WHERE id = 1); " +
		"UPDATE one SET n = @last + 1 WHERE id = 1; INSERT INTO uniq VALUES (@last, NEW.id + 50000); END",
	"CREATE TRIGGER a_mix3 AFTER UPDATE ON a_mix FOR EACH ROW REPLACE INTO uniq VALUES (NEW.id, OLD.v)",
	"CREATE TABLE a_text (id INT PRIMARY KEY, v INT)",
	"CREATE TRIGGER a_text1 AFTER INSERT ON a_text FOR EACH ROW INSERT INTO words VALUES (NEW.id, " +
		"CONCAT('this is text', NEW.v, ' with some words'))",
	"CREATE TRIGGER a_text2 AFTER UPDATE ON a_text FOR EACH ROW UPDATE words SET body = CONCAT(body, ' changed') " +
		"WHERE id = NEW.id",
	"CREATE TABLE a_set (id INT PRIMARY KEY, v INT)",
	"CREATE TRIGGER a_set1 BEFORE INSERT ON a_set FOR EACH ROW BEGIN DECLARE x INT DEFAULT 0; SELECT v INTO x FROM " +
		"settings WHERE name = 'step'; SET NEW.v = NEW.v + x; INSERT INTO child VALUES (NEW.id, NEW.id); END",
	"CREATE TRIGGER a_set2 AFTER UPDATE ON a_set FOR EACH ROW INSERT INTO raw SELECT CONCAT(c.id, ' ', r.v) " +
		"FROM child c JOIN ref r ON r.id = c.pid WHERE c.id = NEW.id",
	"CREATE TRIGGER a_set3 AFTER DELETE ON a_set FOR EACH ROW INSERT INTO log (what) SELECT CONCAT(MAX(v), ' ', " +
		"MIN(OLD.id)) FROM settings",
	"CREATE TABLE a_key (id INT PRIMARY KEY, v INT, u INT UNIQUE)",
	"CREATE TRIGGER a_key1 BEFORE INSERT ON a_key FOR EACH ROW BEGIN SET NEW.u = (SELECT n FROM cnt WHERE id = NEW.v) " +
		"+ NEW.id * 100; SET NEW.id = NEW.id + 1; END",
	"CREATE TRIGGER a_key2 BEFORE INSERT ON a_key FOR EACH ROW SET NEW.v = (SELECT v FROM ref WHERE id = NEW.id - 1) * 2",
	"CREATE TRIGGER a_key3 BEFORE UPDATE ON a_key FOR EACH ROW SET NEW.id = OLD.id + 1000, " +
		"NEW.u = (SELECT n + OLD.id * 1000 FROM cnt WHERE id = OLD.id)",
	"CREATE TRIGGER a_key4 AFTER UPDATE ON a_key FOR EACH ROW INSERT INTO nest VALUES (NEW.id, OLD.id)",
	"CREATE TABLE a_loop (id INT PRIMARY KEY, v INT)",
	"CREATE TRIGGER a_loop1 AFTER INSERT ON a_loop FOR EACH ROW BEGIN DECLARE i INT DEFAULT 0; " +
		"WHILE i < 3 DO UPDATE cnt SET n = n + NEW.v WHERE id = NEW.id + i; SET i = i + 1; END WHILE; END",
	"CREATE TRIGGER a_loop2 BEFORE UPDATE ON a_loop FOR EACH ROW BEGIN DECLARE i INT DEFAULT 0; l: LOOP SET i = i + " +
		"1; IF i > 2 THEN LEAVE l; END IF; INSERT INTO log (what) SELECT CONCAT(v, i) FROM ref WHERE id = NEW.id; " +
		"END LOOP; SET NEW.v = i; END",
	"CREATE TRIGGER a_loop3 AFTER DELETE ON a_loop FOR EACH ROW BEGIN CASE OLD.id % 3 WHEN 0 THEN DELETE FROM uniq " +
		"WHERE id = OLD.id; WHEN 1 THEN UPDATE uniq SET u = u + 5000 WHERE id = OLD.id; ELSE REPLACE INTO uniq VALUES " +
		"(OLD.id, OLD.id + 3); END CASE; END",
	"CREATE TABLE a_sig (id INT PRIMARY KEY, v INT)",
	"CREATE TRIGGER a_sig1 BEFORE INSERT ON a_sig FOR EACH ROW BEGIN UPDATE cnt SET n = n + 1 WHERE id = NEW.v; " +
		"IF (SELECT v FROM ref WHERE id = NEW.v) IS NULL THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no such " +
		"ref'; END IF; END",
	"CREATE TRIGGER a_sig2 AFTER UPDATE ON a_sig FOR EACH ROW BEGIN UPDATE cnt SET n = n + 1 WHERE id = NEW.v; " +
		"IF (SELECT n FROM cnt WHERE id = NEW.v) > 9 THEN SIGNAL SQLSTATE '45001' SET MESSAGE_TEXT = 'too many', " +
		"MYSQL_ERRNO = 3999; END IF; END",
	"CREATE TABLE a_two (id INT PRIMARY KEY, v INT)",
	"CREATE TRIGGER a_two1 AFTER INSERT ON a_two FOR EACH ROW INSERT INTO a_deep VALUES (NEW.id + 3000, NEW.v)",
	"CREATE TRIGGER a_two2 AFTER UPDATE ON a_two FOR EACH ROW UPDATE a_cnt SET v = NEW.v WHERE id = NEW.id",
	"CREATE TRIGGER a_two3 AFTER DELETE ON a_two FOR EACH ROW DELETE FROM a_cnt WHERE id = OLD.id",
	"CREATE TABLE a_call (id INT PRIMARY KEY, v INT)",
	"CREATE PROCEDURE tally(k INT) UPDATE cnt SET n = n + 1 WHERE id = k",
	"CREATE TRIGGER a_call1 AFTER INSERT ON a_call FOR EACH ROW CALL tally(NEW.v)",
	"CREATE TABLE a_var (id INT PRIMARY KEY, v INT, FOREIGN KEY (v) REFERENCES ref(id))",
	"CREATE TRIGGER a_var1 AFTER UPDATE ON a_var FOR EACH ROW SET @w = (SELECT v + 1 FROM ref WHERE id = NEW.v)",
	"CREATE TRIGGER a_var2 AFTER DELETE ON a_var FOR EACH ROW SET @w = OLD.id + (SELECT COUNT(*) FROM ref WHERE id IN (1, 2))",
	"CREATE TRIGGER a_var3 BEFORE INSERT ON a_var FOR EACH ROW BEGIN IF NEW.id = 3 THEN SET @w = @w + 2; " +
		"ELSE SET @w = @w + 1; END IF; END",
	"CREATE TABLE a_auto (id INT AUTO_INCREMENT PRIMARY KEY, v INT)",
	"CREATE TRIGGER a_auto1 AFTER INSERT ON a_auto FOR EACH ROW INSERT INTO raw SELECT CONCAT(NEW.id, ' ', " +
		"LAST_INSERT_ID(), ' ', v) FROM ref WHERE id = NEW.v",
	"CREATE TRIGGER a_auto2 BEFORE INSERT ON a_auto FOR EACH ROW INSERT INTO log (what) SELECT v FROM ref WHERE id = NEW.v",
	"CREATE PROCEDURE fill(k INT) BEGIN INSERT INTO a_cnt SELECT id + k, v FROM src; UPDATE a_cnt SET v = v + 1 WHERE " +
		"id > k; DELETE FROM a_cnt WHERE id > k; END",
}

var trigTables = []string{
	"a_log", "a_cnt", "a_see", "a_deep", "a_mix", "a_text", "a_set", "a_key", "a_loop", "a_sig", "a_two", "a_call",
	"a_var", "a_auto", "child", "nest", "uniq", "words", "log", "raw", "cnt", "one", "settings", "ref", "src",
}

func trigRows(n int) []string {
	return []string{
		"INSERT INTO ref VALUES " + manyOf(n, "(#,#,%)"), "INSERT INTO cnt VALUES " + manyOf(n, "(#,#)"),
		"INSERT INTO settings VALUES ('step', 3), ('other', 4)", "INSERT INTO one VALUES (1, 5000)",
		// their counters have large blocks then
		"INSERT INTO log (what) VALUES " + manyOf(100, "('row #')"), "INSERT INTO a_auto (v) VALUES " + manyOf(100, "(NULL)"),
		"INSERT INTO uniq VALUES " + manyOf(n/2, "(#,#)"), "INSERT INTO src VALUES " + manyOf(n, "(1000+#,#)"),
		"INSERT INTO words VALUES " + manyOf(n, "(1000+#,'some text#')"),
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
	{"keys set", "INSERT INTO a_key (id, v) VALUES VALUES(#,#)"},
	{"keys changed", "UPDATE a_key SET v = 1"},
	{"a loop", "INSERT INTO a_loop VALUES VALUES(#,#)"},
	{"a loop that is left", "UPDATE a_loop SET v = 9"},
	{"cases", "DELETE FROM a_loop"},
	{"no signal", "INSERT INTO a_sig VALUES VALUES(#,#)"},
	{"two levels", "INSERT INTO a_two VALUES VALUES(#,#)"},
	{"a join", "UPDATE a_two JOIN ref ON ref.id = a_two.id SET a_two.v = ref.v + 2"},
	{"two levels of deletes", "DELETE FROM a_two"},
	{"a procedure", "CALL fill(100)"},
	{"values given out", "INSERT INTO a_auto (v) VALUES VALUES(#)"},
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
	counts := callCounts{}
	for _, n := range []int{20, 60} {
		db := memkv.New(4, "eu", "us")
		s, c := startServer(t, db)
		s.g.prefetch.SpeculateAll = true
		for _, q := range trigSchema {
			exec(t, c, q)
		}
		conn, err := c.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, explicit := range transactions() {
			trigReset(t, conn, n)
			for _, k := range trigStatements {
				counts.run(t, db, conn, k.name, aheadText(k.q, n), explicit)
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
	"INSERT INTO a_log VALUES (1,1),(2,2),(1,3)", "INSERT IGNORE INTO a_log VALUES (1,1),(2,2),(1,3),(NULL,4)",
	"INSERT INTO a_log (id, v) VALUES (1, (SELECT v FROM ref)), (2,2)",
	"INSERT INTO a_cnt VALUES (1,3),(2,3),(3,3),(4,99)", "INSERT INTO a_see VALUES (1,NULL),(2,NULL),(99,5)",
	"INSERT INTO a_see VALUES (1,1),(2,2),(1,3) ON DUPLICATE KEY UPDATE v = v + 100",
	"INSERT INTO a_see SELECT id, 0 FROM ref", "REPLACE INTO a_see SELECT id, v FROM src",
	"INSERT INTO a_deep VALUES (1,5),(2,6),(3,7)", "INSERT INTO a_deep SELECT v, id FROM src",
	"INSERT INTO a_mix VALUES (1,100),(2,100),(3,5)", "INSERT INTO a_mix VALUES (1,1),(2,2),(3,3)",
	"INSERT INTO a_text VALUES (1,1),(2,2),(1003,3)", "INSERT INTO a_set VALUES (1,1),(2,2),(99,3)",
	"INSERT INTO a_set VALUES (1,1),(2,2),(2,2),(3,3)", "INSERT INTO log (what) SELECT v FROM src",
	"UPDATE a_log SET v = v * 2 WHERE id > 3", "UPDATE a_log SET id = id + 1 ORDER BY id DESC",
	"UPDATE a_log SET id = 5 WHERE id IN (3, 4)", "UPDATE IGNORE a_log SET id = 5 WHERE id < 5",
	"UPDATE a_cnt SET v = 19 - v", "UPDATE a_see SET v = id, id = id + 0", "UPDATE a_deep SET v = 3",
	"UPDATE a_deep SET v = v + 50", "UPDATE a_mix SET v = v + 1 WHERE v < 15", "UPDATE a_text SET v = v + 1",
	"UPDATE a_set SET v = @w, id = id", "UPDATE a_log JOIN ref ON ref.id = a_log.id SET a_log.v = ref.w",
	"UPDATE a_log, a_cnt SET a_log.v = a_cnt.v + 1 WHERE a_cnt.id = a_log.id",
	"DELETE FROM a_log WHERE id > 4", "DELETE FROM a_cnt WHERE v IN (1, 2, 1)", "DELETE FROM a_see WHERE id < 6",
	"DELETE FROM a_see", "DELETE FROM a_deep WHERE id BETWEEN 3 AND 8", "DELETE FROM a_set ORDER BY v DESC LIMIT 4",
	"INSERT INTO a_key (id, v) VALUES (1,1),(2,2),(3,3)", "INSERT INTO a_key (id, v) VALUES (1,1),(2,2),(1,3)",
	"INSERT IGNORE INTO a_key (id, v) VALUES (1,1),(2,2),(1,3),(NULL,4)",
	"REPLACE INTO a_key (id, v) VALUES (20,1),(21,2),(20,3)",
	"INSERT INTO a_key (id, v) VALUES (1,1),(20,2),(1,3) ON DUPLICATE KEY UPDATE v = v + 50, u = u + 1",
	"INSERT INTO a_key (id, v) SELECT id, v FROM src", "UPDATE a_key SET v = 5",
	"UPDATE a_key SET v = v WHERE id < 30", "UPDATE IGNORE a_key SET u = 0",
	"UPDATE a_key JOIN ref ON ref.id + 20 = a_key.id SET a_key.v = ref.w",
	"UPDATE a_key, (SELECT 1 AS x FROM a_key) d SET v = 30",
	"UPDATE a_see JOIN (SELECT 1, 2 FROM ref) d SET a_see.v = 30",
	"INSERT INTO a_loop VALUES (1,1),(2,2),(3,NULL)", "INSERT INTO a_loop SELECT v, id FROM src",
	"UPDATE a_loop SET v = id", "UPDATE a_loop SET id = id + 7 ORDER BY id DESC", "DELETE FROM a_loop",
	"DELETE FROM a_loop WHERE id % 3 = 1",
	"INSERT INTO a_sig VALUES (1,1),(2,2),(3,99),(4,4)", "INSERT INTO a_sig VALUES (1,99)",
	"INSERT IGNORE INTO a_sig VALUES (1,1),(2,99),(3,3)", "UPDATE a_sig SET v = 1", "UPDATE a_sig SET v = v % 4",
	"UPDATE a_sig SET v = 2 LIMIT 3",
	"INSERT INTO a_two SELECT v, id FROM src", "INSERT INTO a_two VALUES (1,1),(2,2),(2,3)", "UPDATE a_two SET v = 4",
	"UPDATE a_two, a_cnt SET a_two.v = a_cnt.v + 2 WHERE a_cnt.id = a_two.id", "DELETE FROM a_two WHERE v > 3",
	"DELETE FROM a_two",
	"SET @w = 1", "UPDATE a_var SET v = @w", "SET @w = 1", "UPDATE a_var SET v = (SELECT @w)", "SET @w = 1",
	"UPDATE a_var SET v = @w + 1 ORDER BY id DESC", "SET @w = 20", "DELETE FROM a_var WHERE id = @w",
	"SET @w = 20", "DELETE FROM a_var WHERE id = (SELECT @w)",
	"SET @w = 0", "INSERT INTO a_var VALUES (1,@w),(2,@w),(3,@w),(4,@w),(5,@w)", "SET @w = 0",
	"INSERT INTO a_var SELECT id, (SELECT @w) FROM src WHERE id < 1005",
	"INSERT INTO a_auto (v) VALUES (1),(2),(3)", "INSERT INTO a_auto (v) SELECT v FROM src",
	"INSERT INTO a_call VALUES (1,1),(2,2),(3,1)", "CALL fill(100)", "CALL fill(20)",
	"PREPARE p FROM 'INSERT INTO a_cnt VALUES (?,?),(?,3) ON DUPLICATE KEY UPDATE v = ?'", "SET @a = 1",
	"EXECUTE p USING @a, @a, @w, @a", "EXECUTE p USING @a, @a, @a, @a", "DEALLOCATE PREPARE p",
	"SET @w = 4", "UPDATE a_see SET v = @w", "INSERT INTO a_mix VALUES (900, @last)", "INSERT INTO a_log VALUES (@w, " +
		"1), (@w + 1, 1)", "INSERT INTO a_log VALUES (LAST_INSERT_ID() + 500, 1), (LAST_INSERT_ID() + 501, 1)",
}

// trigPrepared are run with these parameters, by the binary protocol.
var trigPrepared = []struct {
	q    string
	args []any
}{
	{"INSERT INTO a_see VALUES (?,?),(?,?)", []any{1, 2, 3, 4}},
	{"INSERT INTO a_see VALUES (?,?),(?,?) ON DUPLICATE KEY UPDATE v = ?", []any{1, 2, 20, 4, 77}},
	{"UPDATE a_cnt SET v = v + ? WHERE id > ?", []any{2, 22}}, {"DELETE FROM a_cnt WHERE id IN (?, ?, ?)",
		[]any{20, 21, 99}}, {"INSERT INTO a_deep SELECT id + ?, v FROM src WHERE v < ?", []any{"100", 9.5}},
	{"UPDATE a_loop SET v = ? WHERE id < ?", []any{nil, 25}},
	{"UPDATE a_two JOIN ref ON ref.id + ? = a_two.id SET a_two.v = ref.v + ?", []any{20, 3}},
	{"CALL fill(?)", []any{70}},
}

// TestSpeculativeAsRowByRow runs statements with triggers with and without speculative execution;
// clients must not be able to tell.
func TestSpeculativeAsRowByRow(t *testing.T) {
	run := func(speculative bool) (out []string) {
		s, c := newServer(t)
		s.g.prefetch.Off, s.g.prefetch.SpeculateAll = !speculative, speculative
		s.g.Stats.Wait = true // relevance goes by the number of rows, which is taken at any time
		conn, err := c.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, q := range trigSchema {
			exec(t, conn, q)
		}
		for _, explicit := range transactions() {
			trigReset(t, conn, 12)
			exec(t, conn, "INSERT INTO ref VALUES "+manyOf(12, "(20+#,#,%)"))
			for _, tab := range []string{"a_log", "a_cnt", "a_see", "a_deep", "a_mix", "a_text", "a_set",
				"a_key (id, v)", "a_loop", "a_two", "a_var"} {
				exec(t, conn, "INSERT INTO "+tab+" VALUES "+manyOf(12, "(20+#,#)"))
			}
			cases := slices.Clone(trigPrepared)
			for _, q := range trigCases {
				cases = append(cases, struct {
					q    string
					args []any
				}{q, nil})
			}
			for i, k := range cases {
				q := k.q
				exec(t, conn, "BEGIN")
				if explicit {
					exec(t, conn, "DELETE FROM uniq WHERE id = 4")
					exec(t, conn, "UPDATE cnt SET n = 1000 WHERE id = 3")
				} else if i%2 == 0 {
					exec(t, conn, "COMMIT")
				}
				o := q + ": " + outcome(conn, q, k.args...) +
					fmt.Sprint(query(t, conn, "SELECT LAST_INSERT_ID(), @w, @last"), query(t, conn, "SHOW WARNINGS"))
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
			t.Errorf("speculative:\n%s\nrow by row:\n%s", got[i], want[i])
		}
	}
}

// TestIntegratorSuiteSpeculative runs what the integrator suite has about triggers, and about
// changes, with each of their rows executed speculatively.
func TestIntegratorSuiteSpeculative(t *testing.T) {
	if os.Getenv(suiteEnv) != "" {
		t.Skip("this process is one that it has made, and runs TestGMS")
	}
	if testing.Short() {
		t.Skip("-short: it takes half a minute")
	}
	groups := []string{"Triggers", "TriggersErrors", "Scripts", "StoredProcedures", "PreparedInsert",
		"PreparedStatements", "ForeignKeys", "GeneratedColumns", "InsertIgnoreInto", "LoadData"}
	res := runSuite(t, "speculative", func(group string) bool { return slices.Contains(groups, group) })
	judgeSuite(t, res, ordinaryFailures, "", "")
}
