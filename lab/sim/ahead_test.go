package sim

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

// aheadTables are filled with rows of several regions. All rows of r2 live in region 2; of the
// other tables every other row lives in region 3.
var aheadTables = []string{
	"CREATE TABLE r2 (id INT PRIMARY KEY, v INT)",
	"CREATE TABLE p (id INT PRIMARY KEY, v INT)",
	"CREATE TABLE solo (id INT PRIMARY KEY, v INT)",
	"CREATE TABLE t (id INT PRIMARY KEY, u INT UNIQUE, v INT)",
	"CREATE TABLE c2 (id INT PRIMARY KEY, pid INT, FOREIGN KEY (pid) REFERENCES r2(id))",
	"CREATE TABLE c (id INT PRIMARY KEY, pid INT, FOREIGN KEY (pid) REFERENCES p(id) ON DELETE CASCADE)",
	"CREATE TABLE n (id INT PRIMARY KEY, pid INT, FOREIGN KEY (pid) REFERENCES p(id) ON DELETE SET NULL)",
	"CREATE TABLE rs (id INT PRIMARY KEY, pid INT, FOREIGN KEY (pid) REFERENCES solo(id))",
	"CREATE TABLE twin (id INT PRIMARY KEY, u INT UNIQUE, v INT)",
	// All triggers of tr read rows of n2, and of tp and its children tc, in other regions.
	"CREATE TABLE n2 (id INT PRIMARY KEY, v INT)",
	"CREATE TABLE tp (id INT PRIMARY KEY, v INT)",
	"CREATE TABLE tc (id INT PRIMARY KEY, pid INT, FOREIGN KEY (pid) REFERENCES tp(id) ON DELETE CASCADE)",
	"CREATE TABLE log (id INT PRIMARY KEY, v INT)",
	"CREATE TABLE tr (id INT PRIMARY KEY, v INT)",
	"CREATE TRIGGER tr1 BEFORE INSERT ON tr FOR EACH ROW SET NEW.v = (SELECT v FROM n2 WHERE id = NEW.v)",
	"CREATE TRIGGER tr2 AFTER INSERT ON tr FOR EACH ROW UPDATE n2 SET v = v + 1 WHERE id = NEW.v",
	"CREATE TRIGGER tr3 BEFORE UPDATE ON tr FOR EACH ROW BEGIN IF NEW.v = 0 THEN SET NEW.v = (SELECT v FROM n2 WHERE " +
		"id = NEW.id); END IF; END",
	"CREATE TRIGGER tr4 AFTER UPDATE ON tr FOR EACH ROW REPLACE INTO log VALUES (20000 + NEW.id, OLD.v)",
	"CREATE TRIGGER tr5 BEFORE DELETE ON tr FOR EACH ROW INSERT INTO log SELECT OLD.id, v FROM n2 WHERE id = OLD.id",
	"CREATE TRIGGER tr6 AFTER DELETE ON tr FOR EACH ROW DELETE FROM tp WHERE id = OLD.id",
	"CREATE TRIGGER log1 AFTER INSERT ON log FOR EACH ROW UPDATE tp SET v = v + 1 WHERE id = NEW.id",
	"CREATE PROCEDURE more(k INT) INSERT INTO tr SELECT id + k, id FROM n",
	"CREATE TABLE doc (id INT PRIMARY KEY, body VARCHAR(200), FULLTEXT KEY (body))",
}

// many repeats f for the numbers up to n that a region has, with the number in place of #. Part 0
// is all of them.
func many(n, part int, f string) string {
	var out []string
	for i := range n {
		if part == 0 || i%2 == part-1 {
			out = append(out, strings.ReplaceAll(f, "#", fmt.Sprint(i)))
		}
	}
	return strings.Join(out, ",")
}

// aheadStatements run at region 1. most is how many round trips each may take with its commit,
// however many rows it uses.
var aheadStatements = []struct {
	q    string // ROWS(x) is x for each row
	most float64
	code uint16
}{
	{q: "INSERT INTO c2 VALUES ROWS(#,#)", most: 3},
	{q: "INSERT INTO c VALUES ROWS(1000+#,#)", most: 3},
	{q: "UPDATE c SET pid = 0 WHERE id >= 1000", most: 4},
	{q: "UPDATE c SET pid = id - 1000 WHERE id >= 1000", most: 4},
	{q: "INSERT IGNORE INTO t VALUES ROWS(500+#,#,1),(99999,99999,1)", most: 4},
	{q: "INSERT INTO t VALUES ROWS(#,10000+#,1) ON DUPLICATE KEY UPDATE v = v + 1", most: 3},
	{q: "INSERT INTO t VALUES ROWS(#,10000+#,1) ON DUPLICATE KEY UPDATE u = VALUES(u)", most: 3},
	{q: "REPLACE INTO t VALUES ROWS(#,20000+#,1)", most: 3},
	{q: "REPLACE INTO t VALUES ROWS(1000+#,20000+#,1)", most: 4},
	{q: "UPDATE t SET u = u + 50000", most: 3},
	{q: "UPDATE IGNORE t SET u = u + 50000", most: 3},
	{q: "INSERT INTO twin SELECT * FROM t", most: 3},
	{q: "REPLACE INTO twin SELECT id, u, 7 FROM t", most: 3},
	{q: "UPDATE r2 SET v = (SELECT COUNT(*) FROM c WHERE c.id < 3)", most: 4},
	{q: "DELETE twin FROM twin JOIN t ON t.id = twin.id", most: 3},
	{q: "DELETE FROM r2", most: 2, code: 1451},
	{q: "DELETE FROM solo", most: 4},
	{q: "DELETE FROM p", most: 5},
	{q: "INSERT INTO doc VALUES ROWS(2000+#,'a storm at sea: wave# after wave#, and calm again')", most: 3},
	{q: "UPDATE doc SET body = CONCAT('many an old storm ', id)", most: 4},
	{q: "DELETE FROM doc", most: 4},
	{q: "INSERT INTO tr VALUES ROWS(#,#)", most: 6},
	{q: "CALL more(5000)", most: 6},
	{q: "UPDATE tr SET v = 0 WHERE id < 5000", most: 6},
	{q: "UPDATE tr JOIN n2 ON n2.id = tr.id SET tr.v = n2.v + 1", most: 6},
	{q: "DELETE FROM tr", most: 8},
}

func TestManyRowsFewTrips(t *testing.T) {
	trips := map[string][]float64{}
	for _, n := range []int{10, 100} {
		onStageTuned(t, 3, 1, func(cfg *Config) { cfg.Shards, cfg.SQL, cfg.Stay = 2, true, true }, func(s *stage) {
			l := &rtLab{t: s.t, w: s.world}
			fill := func(r base.RegionID, part int, tables ...string) {
				db, c := l.sqlConn(r, "d")
				defer db.Close()
				defer c.Close()
				for _, k := range tables {
					f := "(#,#)"
					switch k {
					case "t":
						f = "(#,#,#)"
					case "doc":
						f = "(#,'an ocean with wave# and storm#, salt and foam')"
					}
					l.exec(c, "INSERT INTO "+k+" VALUES "+many(n, part, f))
				}
			}
			db, c := l.sqlConn(1, "")
			l.exec(c, "CREATE DATABASE d")
			l.exec(c, "USE d")
			for _, q := range aheadTables {
				l.exec(c, q)
			}
			c.Close()
			db.Close()
			time.Sleep(5 * time.Second)
			fill(2, 0, "r2")
			fill(2, 1, "p", "solo", "t", "doc", "n2", "tp")
			fill(3, 2, "p", "solo", "t", "doc", "n2", "tp")
			fill(2, 2, "c", "n", "tc")
			fill(3, 1, "c", "n", "tc")
			time.Sleep(5 * time.Second)
			db, c = l.sqlConn(1, "d")
			defer db.Close()
			defer c.Close()
			l.exec(c, "SET godwit_forward = OFF")
			for _, k := range aheadStatements {
				time.Sleep(time.Second)
				q := k.q
				if a, b, ok := strings.Cut(q, "ROWS"); ok {
					f, rest, _ := strings.Cut(b, ")")
					q = a + many(n, 0, f+")") + rest
				}
				if err := aheadRun(c, q); number(err) != k.code {
					t.Errorf("%s: %v", k.q, err)
				}
				var rtts float64
				if err := c.QueryRowContext(context.Background(), "SELECT @@last_statement_wan_rtts").Scan(&rtts); err != nil {
					t.Error(err)
				}
				trips[k.q] = append(trips[k.q], rtts)
			}
		})
	}
	for _, k := range aheadStatements {
		got := trips[k.q]
		t.Logf("%v round trips: %s", got, k.q)
		if len(got) != 2 || got[0] > k.most || got[1] > k.most {
			t.Errorf("%s: %v round trips for 10 and 100 rows, at most %v are allowed", k.q, got, k.most)
		}
	}
}

func aheadRun(c *sql.Conn, q string) error {
	_, err := c.ExecContext(context.Background(), q)
	return err
}
