package server

import (
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/kv/memkv"
)

// manyOf is f of 0 to n-1 with commas between.
func manyOf(n int, f string) string {
	var out []string
	for i := range n {
		out = append(out, strings.NewReplacer("#", fmt.Sprint(i), "@", fmt.Sprint((i+1)%n), "%", fmt.Sprint(i/2)).Replace(f))
	}
	return strings.Join(out, ",")
}

var aheadSchema = []string{
	"CREATE TABLE p (id INT PRIMARY KEY, a INT, code VARCHAR(10), UNIQUE KEY (code))",
	"CREATE TABLE q (id INT PRIMARY KEY, n INT, KEY (n))",
	"CREATE TABLE f (id INT PRIMARY KEY, pid INT, qn INT, code VARCHAR(10), FOREIGN KEY (pid) REFERENCES p(id)," +
		" FOREIGN KEY (qn) REFERENCES q(n), FOREIGN KEY (code) REFERENCES p(code))",
	"CREATE TABLE c (id INT PRIMARY KEY, pid INT, u INT UNIQUE, FOREIGN KEY (pid) REFERENCES p(id) " +
		"ON DELETE CASCADE ON UPDATE CASCADE)",
	"CREATE TABLE g (id INT PRIMARY KEY, cid INT, FOREIGN KEY (cid) REFERENCES c(id) ON DELETE CASCADE)",
	"CREATE TABLE sn (id INT PRIMARY KEY, pid INT, FOREIGN KEY (pid) REFERENCES p(id) ON DELETE SET NULL ON UPDATE SET NULL)",
	"CREATE TABLE tree (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES tree(id) ON DELETE CASCADE)",
	"CREATE TABLE t (id INT PRIMARY KEY, u INT, v INT, UNIQUE KEY (u), KEY (v))",
	"CREATE TABLE h (u INT UNIQUE, v INT)",
	"CREATE TABLE src (id INT PRIMARY KEY, v INT)",
	"CREATE TABLE doc (id INT PRIMARY KEY, pid INT, body VARCHAR(200), FULLTEXT KEY (body), FOREIGN KEY (pid) " +
		"REFERENCES p(id) ON DELETE CASCADE ON UPDATE CASCADE)",
	"CREATE TABLE memo (a VARCHAR(20), body TEXT, FULLTEXT KEY (a), FULLTEXT KEY (body, a))",
}

var aheadTables = []string{"g", "c", "sn", "f", "tree", "p", "q", "t", "h", "src"}

func aheadRowsOf(n int) []string {
	return []string{
		"INSERT INTO p VALUES " + manyOf(n, "(#,#,'c#')"), "INSERT INTO q VALUES " + manyOf(n, "(#,#)"),
		"INSERT INTO c VALUES " + manyOf(n, "(#,%,#)"), "INSERT INTO g VALUES " + manyOf(n, "(#,#)"),
		"INSERT INTO sn VALUES " + manyOf(n, "(#,#)"),
		"SET foreign_key_checks = 0", "INSERT INTO tree VALUES " + manyOf(n, "(#,%)"),
		"UPDATE tree SET up = NULL WHERE id = 0", "SET foreign_key_checks = 1",
		"INSERT INTO t VALUES " + manyOf(n, "(#,#,#)"), "INSERT INTO h VALUES " + manyOf(n, "(#,#)"),
		"INSERT INTO src VALUES " + manyOf(n, "(#,#)"),
	}
}

// docRows are those of tables with full-text indexes; it takes long to fill them.
func docRows(n int) []string {
	return []string{
		"DELETE FROM doc", "DELETE FROM memo",
		"INSERT INTO doc VALUES " + manyOf(n, "(#,%,'an ocean of wave# and wave@')"),
		"INSERT INTO memo VALUES " + manyOf(n, "('note%','the same text')"),
	}
}

// aheadStatements change n rows each.
var aheadStatements = []struct{ name, q string }{
	{"child rows", "INSERT INTO f VALUES VALUES(#,#,#,'c#')"},
	{"child rows from a table", "INSERT INTO f SELECT id, id, id, CONCAT('c', id) FROM src"},
	{"child rows that have a parent before them", "INSERT INTO tree VALUES VALUES(1000+#,1000+%)"},
	{"ignored and new", "INSERT IGNORE INTO t VALUES VALUES(1000+%,#,1)"},
	{"all ignored", "INSERT IGNORE INTO t VALUES VALUES(#,@,1)"},
	{"replaced by primary key", "REPLACE INTO t VALUES VALUES(#,10000+#,1)"},
	{"replaced by unique key", "REPLACE INTO t VALUES VALUES(10000+#,#,1)"},
	{"replaced by both", "REPLACE INTO t VALUES VALUES(#,@,1)"},
	{"replaced, no primary key", "REPLACE INTO h VALUES VALUES(#,5)"},
	{"replaced from a table", "REPLACE INTO t SELECT id, v, 7 FROM src"},
	{"replaced parents", "REPLACE INTO c VALUES VALUES(#,%,#)"},
	{"updated duplicates", "INSERT INTO t VALUES VALUES(#,#,1) ON DUPLICATE KEY UPDATE v = v + VALUES(v)"},
	{"duplicates updated twice", "INSERT INTO t VALUES VALUES(%,10000+#,1) ON DUPLICATE KEY UPDATE v = v + 1, u = u + 100000"},
	{"duplicates that get another parent", "INSERT INTO c VALUES VALUES(#,%,#) ON DUPLICATE KEY UPDATE pid = id"},
	{"another parent", "UPDATE c SET pid = id"},
	{"another unique key, ignored", "UPDATE IGNORE t SET u = u + 5"},
	{"another unique key", "UPDATE t SET u = u + 100000"},
	{"another primary key", "UPDATE t SET id = id + 100000"},
	{"another key of parents", "UPDATE p SET id = id + 100000"},
	{"another unique key of parents", "UPDATE p SET code = CONCAT('x', code)"},
	{"update by join", "UPDATE c JOIN src ON src.id = c.id SET c.pid = src.v"},
	{"parents", "DELETE FROM p"},
	{"parents by join", "DELETE p, src FROM p JOIN src ON src.id = p.id"},
	{"the root", "DELETE FROM tree"},
	{"restricted", "DELETE FROM q"},
	{"documents", "INSERT INTO doc VALUES VALUES(1000+#,#,'Wave# after wave@, and the Ocean')"},
	{"documents that replace others", "REPLACE INTO doc VALUES VALUES(#,%,'one more wave#')"},
	{"other documents", "UPDATE doc SET body = CONCAT(body, ' and foam', id)"},
	{"no documents", "DELETE FROM doc"},
	{"documents of parents", "DELETE FROM p /* and doc */"},
	{"documents with two indexes", "UPDATE memo SET a = 'other'"},
	{"documents alike", "DELETE FROM memo"},
}

func usesDocs(q string) bool { return strings.Contains(q, " doc") || strings.Contains(q, " memo") }

func aheadText(q string, n int) string {
	a, b, ok := strings.Cut(q, "VALUES VALUES")
	if !ok {
		return q
	}
	v, rest, _ := strings.Cut(b, " ON ")
	if rest != "" {
		rest = " ON " + rest
	}
	return a + "VALUES " + manyOf(n, v) + rest
}

// transactions says whether statements run in a transaction of the client: without, and in soaks
// with one, too.
func transactions() []bool {
	if os.Getenv("GODWIT_LONG") == "" {
		return []bool{false}
	}
	return []bool{false, true}
}

// TestChangesByBatch counts kv calls: many changed rows take as many as few.
func TestChangesByBatch(t *testing.T) {
	counts := callCounts{}
	for _, n := range []int{30, 120} {
		db := memkv.New(4, "eu", "us")
		_, c := startServer(t, db)
		for _, q := range aheadSchema {
			exec(t, c, q)
		}
		conn, err := c.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, explicit := range transactions() {
			for _, k := range aheadStatements {
				for _, tab := range aheadTables {
					exec(t, conn, "SET foreign_key_checks = 0")
					exec(t, conn, "DELETE FROM "+tab)
				}
				n := n
				if usesDocs(k.q) {
					n /= 3
				}
				rows := aheadRowsOf(n)
				if usesDocs(k.q) {
					rows = append(rows, docRows(n)...)
				}
				for _, q := range rows {
					exec(t, conn, q)
				}
				counts.run(t, db, conn, k.name, aheadText(k.q, n), explicit)
			}
		}
	}
	for name, k := range counts {
		if len(k) != 2 || k[1] > k[0]+3 || k[1] > 40 {
			t.Errorf("%s: %v kv calls for 30 and 120 rows", name, k)
		}
	}
}

// callCounts are the kv calls that statements make, by the statement's name, for few rows and many.
type callCounts map[string][]int64

// run counts the calls of a statement, by itself or in an explicit transaction.
func (c callCounts) run(t *testing.T, db *memkv.DB, conn *sql.Conn, name, q string, explicit bool) {
	t.Helper()
	if explicit {
		exec(t, conn, "BEGIN")
	}
	calls := db.Traced()
	r, err := conn.ExecContext(t.Context(), q)
	if err != nil {
		t.Errorf("%s: %v", q, err)
		return
	}
	affected, _ := r.RowsAffected()
	name = fmt.Sprintf("%s (explicit %v)", name, explicit)
	c[name] = append(c[name], db.Traced()-calls)
	if len(c[name]) == 2 {
		t.Logf("%s: %d rows, calls %v", name, affected, c[name])
	}
	if explicit {
		exec(t, conn, "COMMIT")
	}
}

// aheadCases are statements whose rows have to do with each other, or fail.
var aheadCases = []string{
	"INSERT IGNORE INTO t VALUES (100,100,1),(100,101,2),(101,100,3),(102,102,4),(3,103,5),(104,4,6)",
	"REPLACE INTO t VALUES (100,100,1),(100,101,2),(101,101,3),(3,4,5),(4,3,6),(3,3,7)",
	"INSERT INTO t VALUES (100,100,1),(100,101,2),(3,103,5),(104,4,6),(3,100,7) ON DUPLICATE KEY UPDATE v = v + " +
		"VALUES(v), u = u + 50",
	"INSERT INTO t VALUES (100,100,1),(3,103,5),(4,103,5) ON DUPLICATE KEY UPDATE u = VALUES(u)",
	"INSERT INTO t (id, u) VALUES (100,100),(3,103) ON DUPLICATE KEY UPDATE v = LAST_INSERT_ID(v + 70)",
	"INSERT INTO t SELECT id + 5, v, v FROM src ON DUPLICATE KEY UPDATE t.v = src.v * 3",
	"INSERT IGNORE INTO t SELECT * FROM t WHERE id = (SELECT id + 10 FROM src WHERE id > 1)",
	"INSERT IGNORE INTO t VALUES (NULL,100,1),('x',101,2),(102,NULL,'y'),('103',103,3)",
	"INSERT INTO t VALUES (100,100,1),(101,3,2)",
	"INSERT INTO t VALUES (100,100,1),(101,1/0,2),(102,(SELECT id FROM src),3)",
	"INSERT IGNORE INTO c VALUES (100,1,100),(101,999,101),(102,NULL,102),(3,2,103),(100,2,104),(105,3,3)",
	"INSERT INTO c VALUES (100,1,100),(101,999,101)",
	"INSERT INTO c VALUES (100,1,100),(1,5,1),(1,6,1) ON DUPLICATE KEY UPDATE pid = VALUES(pid), u = c.u + 200",
	"INSERT INTO c VALUES (1,5,1) ON DUPLICATE KEY UPDATE pid = 999",
	"REPLACE INTO c VALUES (1,5,1),(2,3,3),(100,4,4)",
	"REPLACE INTO c VALUES (1,5,1),(2,999,3)",
	"REPLACE INTO p VALUES (1,5,'c2'),(2,3,'c3')",
	"INSERT INTO f VALUES (1,1,1,'c1'),(2,2,2,'C2'),(3,NULL,3,NULL),(4,4,NULL,'c4'),(5,1,1,'c1')",
	"INSERT INTO f VALUES (1,1,1,'c1'),(2,2,2,'nosuch')",
	"INSERT INTO f VALUES (1,1,99,'c1')",
	"INSERT INTO tree VALUES (100,101),(101,100)",
	"INSERT INTO tree VALUES (100,100),(101,100),(102,101),(103,NULL)",
	"INSERT IGNORE INTO tree VALUES (100,101),(101,101),(102,101),(103,104)",
	"REPLACE INTO tree VALUES (1,NULL),(100,1)",
	"DELETE FROM tree WHERE id = 0", "DELETE FROM tree WHERE id IN (1,3,7)", "UPDATE tree SET up = id",
	"UPDATE tree SET id = id + 100 WHERE id > 15", "UPDATE tree SET up = 999 WHERE id > 5",
	"DELETE FROM p WHERE id > 3", "DELETE FROM p ORDER BY id DESC LIMIT 3", "DELETE FROM p WHERE a > 1 ORDER BY a LIMIT 5",
	"DELETE FROM q WHERE id = 5", "DELETE p, t FROM p JOIN t ON t.id = p.id WHERE t.v < 9",
	"DELETE c FROM c JOIN src ON src.id = c.id WHERE src.v < 9",
	"UPDATE p SET id = id + 100", "UPDATE p SET id = 100 - id, a = 4", "UPDATE p SET id = id + 1 ORDER BY id DESC",
	"UPDATE p SET id = 3 WHERE id = 2",
	"UPDATE c SET pid = 19 - pid", "UPDATE c SET pid = 999 WHERE id = 7", "UPDATE IGNORE c SET pid = id * 2",
	"UPDATE IGNORE t SET u = u + 3", "UPDATE IGNORE t SET id = 9",
	"UPDATE c JOIN src ON src.id = c.id SET c.pid = src.v + 1 WHERE src.v < 8",
	"UPDATE c, p SET c.pid = 3, p.a = 7 WHERE p.id = c.pid",
	"UPDATE c SET u = u + 1 ORDER BY u DESC", "UPDATE c SET u = u + 1",
	"UPDATE c SET pid = (SELECT MAX(v) FROM src WHERE src.id < c.id)",
	"INSERT INTO au (v) VALUES (1),(2),(3)", "REPLACE INTO au VALUES (2,5),(NULL,6),(1,7),(NULL,8)",
	"INSERT IGNORE INTO au VALUES (2,5),(NULL,6),(1,7),(NULL,8)",
	"INSERT INTO au VALUES (NULL,6),(1,7),(30,8),(NULL,9) ON DUPLICATE KEY UPDATE v = VALUES(v) + 1",
	"INSERT INTO tr VALUES (1,1),(2,2),(3,77),(1,3) ON DUPLICATE KEY UPDATE pid = VALUES(pid)",
	"INSERT INTO tr VALUES (1,1),(2,500)", "UPDATE tr SET pid = pid + 1",
	"DELETE FROM tr", "REPLACE INTO tr VALUES (7,1),(8,2),(7,3)",
	"INSERT INTO h VALUES (1,100),(1,101),(NULL,102),(50,103) ON DUPLICATE KEY UPDATE v = h.v + " +
		"VALUES(v), u = u + 30", "REPLACE INTO h VALUES (1,5),(NULL,6),(1,7)",
	"INSERT INTO doc VALUES (100,1,'ocean, OCEAN'),(101,2,NULL),(102,3,''),(103,NULL,'it''s wave1''s foam')",
	"INSERT INTO doc VALUES (100,1,'ocean'),(1,2,'foam')",
	"INSERT IGNORE INTO doc VALUES (100,1,'ocean'),(1,2,'foam'),(101,999,'wave3'),(100,3,'salt')",
	"REPLACE INTO doc VALUES (1,2,'foam'),(100,1,'foam'),(100,2,'wave3 salt')",
	"INSERT INTO doc VALUES (1,1,'foam'),(100,1,'foam'),(1,3,'salt') ON DUPLICATE KEY UPDATE body = CONCAT(doc.body, " +
		"' ', VALUES(body))",
	"UPDATE doc SET body = CONCAT('foam ', body) WHERE id < 9", "UPDATE doc SET id = id + 100 WHERE id > 15",
	"UPDATE doc SET body = 'ocean'", "DELETE FROM doc WHERE id < 9",
	"DELETE doc FROM doc JOIN src ON src.id = doc.id WHERE src.v < 9",
	"INSERT INTO memo VALUES ('note1','the same text'),('note1','the same text'),('x','wave1 text')",
	"DELETE FROM p WHERE id < 6 /* and doc */", "UPDATE p SET id = id + 100 /* and doc */",
	"UPDATE memo SET body = 'the other text' WHERE a = 'note3'", "DELETE FROM memo WHERE a IN ('note3','note4')",
	"UPDATE doc JOIN src ON src.id = doc.id SET doc.body = 'foam' WHERE src.v > 15",
	"INSERT INTO ch VALUES (1,'5'),(2,' 5'),(3,'x')", "INSERT IGNORE INTO ch VALUES (1,5.4),(2,300),(3,-1)",
}

var aheadMore = []string{
	"CREATE TABLE au (id INT AUTO_INCREMENT PRIMARY KEY, v INT)",
	"CREATE TABLE tr (id INT PRIMARY KEY, pid INT, FOREIGN KEY (pid) REFERENCES p(id))",
	"CREATE TABLE log (id INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(40))",
	"CREATE TABLE ch (id TINYINT PRIMARY KEY, pid INT, FOREIGN KEY (pid) REFERENCES p(id))",
	"CREATE TRIGGER tr1 BEFORE INSERT ON tr FOR EACH ROW INSERT INTO p VALUES (NEW.pid, NEW.id, NULL) " +
		"ON DUPLICATE KEY UPDATE a = a + 1",
	"CREATE TRIGGER tr2 BEFORE UPDATE ON tr FOR EACH ROW SET NEW.pid = NEW.pid + 1",
	"CREATE TRIGGER tr3 AFTER DELETE ON tr FOR EACH ROW INSERT INTO log (what) SELECT CONCAT(OLD.id, ' ', COUNT(*)) FROM tr",
	"CREATE TRIGGER tr4 AFTER UPDATE ON c FOR EACH ROW INSERT INTO log (what) VALUES (CONCAT(OLD.pid, ' ', NEW.pid))",
}

// TestAheadAsRowByRow runs statements with and without reading ahead; clients must not be able to
// tell.
func TestAheadAsRowByRow(t *testing.T) {
	run := func(off bool) (out []string) {
		s, c := newServer(t)
		s.g.prefetch.Off = off
		s.g.Stats.Wait = true // relevance goes by the number of rows, which is taken at any time
		conn, err := c.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, q := range append(append([]string{}, aheadSchema...), aheadMore...) {
			exec(t, conn, q)
		}
		tables := append([]string{"au", "tr", "log", "ch"}, aheadTables...)
		for _, explicit := range transactions() {
			for i, q := range aheadCases {
				docs := usesDocs(q)
				if i == 0 || !explicit || docs {
					exec(t, conn, "SET foreign_key_checks = 0")
					for _, tab := range tables {
						exec(t, conn, "TRUNCATE TABLE "+tab)
					}
					rows := aheadRowsOf(20)
					if docs {
						rows = append(rows, docRows(10)...)
					}
					for _, q := range rows {
						exec(t, conn, q)
					}
					exec(t, conn, "INSERT INTO tr VALUES (8,8),(9,9)")
					exec(t, conn, "DELETE FROM log")
				}
				if explicit {
					exec(t, conn, "BEGIN")
					exec(t, conn, "DELETE FROM t WHERE id = 4")
					exec(t, conn, "UPDATE c SET u = 1000 WHERE id = 3")
					exec(t, conn, "DELETE FROM f WHERE id = 5")
				}
				o := q + ": " + outcome(conn, q) + fmt.Sprint(query(t, conn, "SELECT LAST_INSERT_ID()"))
				for _, tab := range tables {
					o += fmt.Sprintf("\n\t%s %v", tab, query(t, conn, "SELECT * FROM "+tab+" ORDER BY 1, 2"))
				}
				var words []string
				if docs {
					words = []string{"ocean", "wave1", "foam", "text", "note1", "other"}
				}
				for _, word := range words {
					o += fmt.Sprintf("\n\t%s %v", word,
						query(t, conn, fmt.Sprintf("SELECT id, MATCH(body) AGAINST ('%s') FROM doc WHERE MATCH(body) "+
							"AGAINST ('%[1]s') ORDER BY 1", word)))
					o += fmt.Sprint(query(t, conn,
						fmt.Sprintf("SELECT a, body, MATCH(body, a) AGAINST ('%s'), MATCH(a) AGAINST ('%[1]s') "+
							"FROM memo ORDER BY 1, 2", word)))
				}
				if explicit {
					exec(t, conn, "ROLLBACK")
				}
				out = append(out, o)
			}
		}
		return out
	}
	want, got := run(true), run(false)
	for i := range want {
		if want[i] != got[i] {
			t.Errorf("read ahead:\n%s\nrow by row:\n%s", got[i], want[i])
		}
	}
}

// TestFailedCascade: of a statement that fails at its end, nothing is left in any table.
func TestFailedCascade(t *testing.T) {
	_, c := newServer(t)
	for _, q := range append(append([]string{}, aheadSchema...), aheadRowsOf(5)...) {
		exec(t, c, q)
	}
	tx, err := c.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	for range 20 { // the engine completes the tables in random order
		expectErr(t, tx, 1062, "UPDATE p SET id = 3 WHERE id = 2")
		expect(t, tx, "SELECT pid FROM sn WHERE id = 2", "2")
		expect(t, tx, "SELECT pid FROM c WHERE id IN (4, 5)", "2")
	}
}
