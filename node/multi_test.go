package node

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

func mysqlCode(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// refused checks that a statement fails, and says why.
func refused(t *testing.T, c *sql.Conn, q, why string) {
	t.Helper()
	if _, err := c.ExecContext(t.Context(), q); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("%s: %v, which should say %q", q, err, why)
	}
}

// startLocalSQL starts a node in each of some regions, with a connection to each, to database d.
func startLocalSQL(t *testing.T, regions int) (cs []*sql.Conn) {
	t.Helper()
	for _, n := range startLocal(t, regions, 1).Nodes() {
		cs = append(cs, openSQL(t, n, ""))
	}
	mustExec(t, cs[0], "CREATE DATABASE d")
	for _, c := range cs {
		mustExec(t, c, "USE d")
	}
	return cs
}

func TestMultiMaster(t *testing.T) { bubble(t, multiMaster) }

func multiMaster(t *testing.T) {
	t.Helper()
	cs := startLocalSQL(t, 3)
	mustExec(t, cs[0], "CREATE TABLE a (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20) UNIQUE, v INT, KEY (v))")
	mustExec(t, cs[0], "INSERT INTO a (name, v) VALUES ('x', 1), ('y', 2), ('z', 3)")
	mustExec(t, cs[0], "ALTER TABLE a SET LOCALITY MULTI MASTER")
	for _, c := range cs {
		if got := strings.Join(column(t, c, "SELECT name, v FROM a ORDER BY id"), " "); got != "x|1 y|2 z|3" {
			t.Errorf("rows after the change: %s", got)
		}
	}
	if got := column(t, cs[1], "SHOW LOCALITY FROM a"); len(got) != 1 || !strings.Contains(got[0], "MULTI MASTER") {
		t.Errorf("the locality is %q", got)
	}
	if got := strings.Join(column(t, cs[1], "SHOW CREATE TABLE a"), ""); !strings.Contains(got, "LOCALITY MULTI MASTER") {
		t.Errorf("the definition does not tell the locality: %s", got)
	}
	mustExec(t, cs[1], "CREATE TABLE b (id INT PRIMARY KEY, v INT) LOCALITY MULTI MASTER")
	mustExec(t, cs[2], "INSERT INTO b VALUES (1, 0)")
	if got := column(t, cs[2], "SHOW GODWIT STATEMENT COST"); len(got) != 1 || !strings.HasPrefix(got[0], "insert|1|") {
		t.Errorf("the cost of a commit is %q, want one round trip", got)
	}
	mustExec(t, cs[0], "CREATE TABLE plain (id INT PRIMARY KEY, v INT)")

	// Every region writes, by all kinds of statements.
	for i, c := range cs {
		mustExec(t, c, fmt.Sprintf("INSERT INTO a (name, v) VALUES ('n%d', %d)", i, 10+i))
		mustExec(t, c, fmt.Sprintf("UPDATE a SET v = v + 100 WHERE name = 'n%d'", i))
	}
	mustExec(t, cs[0], "DELETE FROM a WHERE v = 3")
	mustExec(t, cs[1], "INSERT INTO a (name, v) VALUES ('n0', 1) ON DUPLICATE KEY UPDATE v = v + 1")
	mustExec(t, cs[2], "INSERT IGNORE INTO a (name, v) VALUES ('n1', 1), ('w', 5)")
	if _, err := cs[0].ExecContext(t.Context(), "INSERT INTO a (name, v) VALUES ('n2', 0)"); mysqlCode(err) != 1062 {
		t.Errorf("a duplicate: %v", err)
	}
	want := "n0|111 n1|111 n2|112 w|5 x|1 y|2"
	for i, c := range cs {
		until(t, "the rows to be everywhere", func() string {
			if got := strings.Join(column(t, c, "SELECT name, v FROM a ORDER BY name"), " "); got != want {
				return fmt.Sprintf("region %d has %s", i+1, got)
			}
			return ""
		})
		if got := strings.Join(column(t, c, "SELECT name FROM a WHERE v BETWEEN 100 AND 200 ORDER BY v "+
			"DESC, name DESC"), " "); got != "n2 n1 n0" {
			t.Errorf("by the index: %s", got)
		}
	}

	// Of two transactions that change a row, one loses.
	for _, c := range cs[:2] {
		mustExec(t, c, "BEGIN")
		mustExec(t, c, "UPDATE a SET v = v + 1 WHERE name = 'x'")
	}
	codes := map[uint16]int{}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, c := range cs[:2] {
		wg.Go(func() {
			_, err := c.ExecContext(t.Context(), "COMMIT")
			mu.Lock()
			defer mu.Unlock()
			codes[mysqlCode(err)]++
		})
	}
	wg.Wait()
	if codes[0] != 1 || codes[1213] != 1 {
		t.Errorf("two conflicting commits: %v", codes)
	}

	// Write skew is what snapshot isolation allows, and serializability does not; nor do locking
	// reads.
	crossed := func(level, suffix string, want map[uint16]int) {
		t.Helper()
		mustExec(t, cs[0], "REPLACE INTO b VALUES (8, 1), (9, 1)")
		for _, c := range cs[:2] {
			until(t, "the rows to be there", func() string {
				if got := strings.Join(column(t, c, "SELECT v FROM b WHERE id IN (8, 9)"), " "); got != "1 1" {
					return got
				}
				return ""
			})
			if level != "" {
				mustExec(t, c, "SET TRANSACTION ISOLATION LEVEL "+level)
			}
			mustExec(t, c, "BEGIN")
		}
		for i, c := range cs[:2] {
			column(t, c, "SELECT SUM(v) FROM b WHERE id BETWEEN 8 AND 9"+suffix)
			mustExec(t, c, fmt.Sprintf("UPDATE b SET v = 0 WHERE id = %d", 8+i))
		}
		got := map[uint16]int{}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for _, c := range cs[:2] {
			wg.Go(func() {
				_, err := c.ExecContext(t.Context(), "COMMIT")
				mu.Lock()
				defer mu.Unlock()
				got[mysqlCode(err)]++
			})
		}
		wg.Wait()
		if !maps.Equal(got, want) {
			t.Errorf("write skew, %q %q: %v, want %v", level, suffix, got, want)
		}
	}
	crossed("", "", map[uint16]int{0: 2})
	crossed("SERIALIZABLE", "", map[uint16]int{0: 1, 1213: 1})
	crossed("", " FOR UPDATE", map[uint16]int{0: 1, 1213: 1})

	// Foreign keys hold, whoever comes first.
	mustExec(t, cs[0], "CREATE TABLE p (id INT PRIMARY KEY) LOCALITY MULTI MASTER")
	mustExec(t, cs[0], "CREATE TABLE k (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id)) LOCALITY MULTI MASTER")
	mustExec(t, cs[0], "INSERT INTO p VALUES (1), (2)")
	mustExec(t, cs[0], "INSERT INTO k VALUES (1, 1)")
	if _, err := cs[0].ExecContext(t.Context(), "INSERT INTO k VALUES (2, 3)"); mysqlCode(err) != 1452 {
		t.Errorf("a child without a parent: %v", err)
	}
	if _, err := cs[0].ExecContext(t.Context(), "DELETE FROM p WHERE id = 1"); mysqlCode(err) != 1451 {
		t.Errorf("a parent with a child: %v", err)
	}
	for i, q := range []string{"DELETE FROM p WHERE id = 2", "INSERT INTO k VALUES (3, 2)"} {
		mustExec(t, cs[i], "BEGIN")
		mustExec(t, cs[i], q)
	}
	results := make([]error, 2)
	for i := range results {
		wg.Go(func() { _, results[i] = cs[i].ExecContext(t.Context(), "COMMIT") })
	}
	wg.Wait()
	if a, b := mysqlCode(results[0]), mysqlCode(results[1]); a+b != 1213 || a*b != 0 {
		t.Errorf("a parent goes while a child comes: %v, %v", results[0], results[1])
	}

	// Own writes are seen before the commit, and savepoints undo them.
	mustExec(t, cs[2], "BEGIN")
	mustExec(t, cs[2], "UPDATE a SET v = 50 WHERE name = 'y'")
	mustExec(t, cs[2], "SAVEPOINT s")
	mustExec(t, cs[2], "INSERT INTO a (name, v) VALUES ('gone', 51)")
	if got := strings.Join(column(t, cs[2], "SELECT name FROM a WHERE v IN (50, 51) ORDER BY v"), " "); got != "y gone" {
		t.Errorf("own writes: %s", got)
	}
	mustExec(t, cs[2], "ROLLBACK TO s")
	if got := strings.Join(column(t, cs[2], "SELECT name FROM a WHERE v IN (50, 51) ORDER BY v"), " "); got != "y" {
		t.Errorf("own writes after ROLLBACK TO: %s", got)
	}
	mustExec(t, cs[2], "COMMIT")

	// What cannot be had.
	mustExec(t, cs[0], "BEGIN")
	mustExec(t, cs[0], "INSERT INTO plain VALUES (1, 1)")
	refused(t, cs[0], "UPDATE a SET v = 0 WHERE name = 'w'", "cannot write MULTI MASTER tables and others")
	mustExec(t, cs[0], "ROLLBACK")
	mustExec(t, cs[0], "BEGIN")
	mustExec(t, cs[0], "UPDATE a SET v = 0 WHERE name = 'w'")
	refused(t, cs[0], "INSERT INTO plain VALUES (1, 1)", "cannot write MULTI MASTER tables and others")
	mustExec(t, cs[0], "ROLLBACK")
	refused(t, cs[0], "ALTER TABLE a SET LOCALITY GLOBAL", "make a new table")
	refused(t, cs[0], "ALTER TABLE a MODIFY COLUMN v VARCHAR(20)", "make a new table")
	refused(t, cs[0], "ALTER TABLE a SET REPLICATION ASYNC", "replicated by epochs")
	refused(t, cs[0], "ALTER TABLE plain ADD FOREIGN KEY (v) REFERENCES b (id)", "but b is MULTI MASTER and plain is not")
	refused(t, cs[0], "CREATE TABLE c (id INT PRIMARY KEY, s TEXT, FULLTEXT KEY (s)) "+
		"/*!99999 LOCALITY MULTI MASTER */", "ordinary and unique indexes only")
	refused(t, cs[0], "SELECT * FROM a AS OF TIMESTAMP NOW()", "AS OF")
	mustExec(t, cs[0], "INSERT INTO plain SELECT id, v FROM a")
	mustExec(t, cs[0], "ALTER TABLE b ADD COLUMN w INT DEFAULT 4")
	mustExec(t, cs[2], "ALTER TABLE b ADD CONSTRAINT CHECK (w < 9)")
	mustExec(t, cs[1], "UPDATE b SET w = 5 WHERE id = 1")
	refused(t, cs[2], "UPDATE b SET w = 10 WHERE id = 1", "chk")

	mustExec(t, cs[1], "TRUNCATE TABLE a")
	for _, c := range cs {
		if got := column(t, c, "SELECT id FROM a"); len(got) != 0 {
			t.Errorf("after TRUNCATE there are rows %q", got)
		}
	}
	mustExec(t, cs[2], "INSERT INTO a (name, v) VALUES ('again', 1)")
	mustExec(t, cs[0], "DROP TABLE a")
	refused(t, cs[1], "SELECT * FROM a", "doesn't exist")
}

// Transfers by all regions while indexes come and go: the sum stays, and the indexes agree with the
// rows.
func TestMultiMasterUnderLoad(t *testing.T) { bubble(t, multiMasterUnderLoad) }

func multiMasterUnderLoad(t *testing.T) {
	t.Helper()
	l := startLocal(t, 3, 1)
	admin := openSQL(t, l.Nodes()[0], "")
	mustExec(t, admin, "CREATE DATABASE d")
	mustExec(t, admin, "USE d")
	mustExec(t, admin, "CREATE TABLE acct (id INT PRIMARY KEY, v INT, n INT) /*!99999 LOCALITY MULTI MASTER */")
	const accounts = 60
	for i := range accounts {
		mustExec(t, admin, fmt.Sprintf("INSERT INTO acct VALUES (%d, 100, 0)", i))
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	var moved, lost, fewer atomic.Int64
	for i, n := range l.Nodes() {
		c := openSQL(t, n, "d")
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		wg.Go(func() {
			for ctx.Err() == nil {
				a, b := rng.IntN(accounts), rng.IntN(accounts)
				if a == b {
					continue
				}
				err := func() error {
					for _, q := range []string{"BEGIN",
						fmt.Sprintf("UPDATE acct SET v = v - 1, n = n + 1 WHERE id = %d", a),
						fmt.Sprintf("UPDATE acct SET v = v + 1, n = n + 1 WHERE id = %d", b), "COMMIT"} {
						if _, err := c.ExecContext(context.Background(), q); err != nil {
							return err
						}
					}
					return nil
				}()
				switch code := mysqlCode(err); {
				case err == nil:
					moved.Add(1)
				case code == 1213 || code == 1205:
					lost.Add(1)
					_, _ = c.ExecContext(context.Background(), "ROLLBACK")
				default:
					t.Errorf("transfer: %v", err)
					return
				}
				var sum int
				if err := c.QueryRowContext(context.Background(), "SELECT SUM(v) FROM acct").Scan(&sum); err != nil &&
					mysqlCode(err) != 1213 {
					t.Errorf("sum: %v", err)
					return
				} else if err == nil && sum != 100*accounts {
					fewer.Add(1)
				}
			}
		})
	}
	for range 2 {
		time.Sleep(time.Second)
		mustExec(t, admin, "ALTER TABLE acct ADD INDEX by_n (n), ADD INDEX by_v (v, n)")
		time.Sleep(time.Second)
		mustExec(t, admin, "ALTER TABLE acct DROP INDEX by_v")
		mustExec(t, admin, "ALTER TABLE acct DROP INDEX by_n")
	}
	mustExec(t, admin, "ALTER TABLE acct ADD INDEX by_n (n), ADD UNIQUE INDEX u (id, v)")
	time.Sleep(time.Second)
	stop()
	wg.Wait()
	t.Logf("%d transfers, %d lost conflicts", moved.Load(), lost.Load())
	if fewer.Load() > 0 {
		t.Errorf("%d snapshots in which the sum was wrong", fewer.Load())
	}
	if moved.Load() == 0 {
		t.Error("nothing has moved")
	}
	for _, n := range l.Nodes() {
		c := openSQL(t, n, "d")
		until(t, "the transfers to be everywhere", func() string {
			var v, k, byIndex, unique int64
			if err := c.QueryRowContext(t.Context(), "SELECT SUM(v), SUM(n) FROM acct").Scan(&v, &k); err != nil {
				return err.Error()
			}
			if err := c.QueryRowContext(t.Context(), "SELECT SUM(n) FROM acct WHERE n >= 0").Scan(&byIndex); err != nil {
				return err.Error()
			}
			if err := c.QueryRowContext(t.Context(),
				"SELECT COUNT(*) FROM acct FORCE INDEX (u) WHERE id >= 0 AND v > -1000000").Scan(&unique); err != nil {
				return err.Error()
			}
			if v != 100*accounts || k != 2*moved.Load() || byIndex != k || unique != accounts {
				return fmt.Sprintf("sum %d, %d changes (%d by the index), %d accounts in the index; %d transfers", v,
					k, byIndex, unique, moved.Load())
			}
			return ""
		})
	}
}

// A region dies and comes back, a node joins, all nodes restart: nothing acknowledged is lost, all
// have the same rows.
func TestMultiMasterNodesComeAndGo(t *testing.T) {
	t.Parallel() // it waits, most of the time
	w := newWorld(t, cfgs{}, "eu", "us", "asia")
	c := openSQL(t, w.procs[0].n, "")
	mustExec(t, c, "CREATE DATABASE d")
	mustExec(t, c, "CREATE TABLE d.t (id INT PRIMARY KEY, who VARCHAR(10)) LOCALITY MULTI MASTER")
	next, acked := 0, 0
	insert := func(p *proc, n int) {
		t.Helper()
		c := openSQL(t, p.n, "d")
		for range n {
			next++
			id := next
			until(t, "an insert", func() string {
				_, err := c.ExecContext(t.Context(), "INSERT INTO t VALUES (?, ?)", id, p.cfg.Region)
				// 1062: it was of unknown outcome, and has committed
				if err != nil && mysqlCode(err) != 1062 {
					return err.Error()
				}
				return ""
			})
			acked++
		}
	}
	same := func() {
		t.Helper()
		for _, p := range w.procs {
			if !p.up() {
				continue
			}
			c := openSQL(t, p.n, "d")
			until(t, "the rows to be on node "+p.cfg.Region, func() string {
				var n int
				if err := c.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM t").Scan(&n); err != nil {
					return err.Error()
				}
				if n != acked {
					return fmt.Sprintf("%d rows of %d", n, acked)
				}
				return ""
			})
		}
	}
	for _, p := range w.procs {
		insert(p, 3)
	}
	same()
	w.procs[2].kill(t)
	insert(w.procs[0], 3)
	insert(w.procs[1], 3)
	same()
	w.procs[2].start(t)
	w.procs[2].ready(t)
	insert(w.procs[2], 3)
	same()
	added := w.add(t, "us")
	insert(added, 3)
	insert(w.procs[0], 3)
	same()
	for _, p := range w.procs {
		p.kill(t)
	}
	for _, p := range w.procs {
		p.start(t)
	}
	for _, p := range w.procs {
		p.ready(t)
	}
	for _, p := range w.procs {
		insert(p, 2)
	}
	same()
	res, err := admin(t).Get("https://" + w.procs[1].n.Addr() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"godwit_epochs_member 1\n", "godwit_epochs_submitted_total ",
		"godwit_epochs_conflicts_total ", "godwit_epochs_bytes_total "} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the metrics lack %q", want)
		}
	}
}

// A foreign key may be declared before its parent is there. It holds from then on that it is; a
// parent of another kind is refused.
func TestMultiMasterKeyBeforeParent(t *testing.T) { bubble(t, multiMasterKeyBeforeParent) }

func multiMasterKeyBeforeParent(t *testing.T) {
	t.Helper()
	cs := startLocalSQL(t, 2)
	mustExec(t, cs[0], "SET foreign_key_checks = 0")
	for _, q := range []string{
		"CREATE TABLE k (id INT PRIMARY KEY, p INT, CONSTRAINT early FOREIGN KEY (P) REFERENCES p (ID) " +
			"ON DELETE CASCADE) LOCALITY MULTI MASTER",
		"CREATE TABLE k2 (id INT PRIMARY KEY, p INT, CONSTRAINT typed FOREIGN KEY (p) REFERENCES p2 (id)) LOCALITY MULTI MASTER",
		"CREATE TABLE k3 (id INT PRIMARY KEY, p INT, CONSTRAINT mixed FOREIGN KEY (p) REFERENCES p3 (id)) LOCALITY MULTI MASTER",
		"CREATE TABLE k4 (id INT PRIMARY KEY, p INT, CONSTRAINT mixed4 FOREIGN KEY (p) REFERENCES p4 (id))",
		"INSERT INTO k VALUES (9, 9)", // not checked, now or later
	} {
		mustExec(t, cs[0], q)
	}
	mustExec(t, cs[0], "SET foreign_key_checks = 1")
	refused(t, cs[0], "INSERT INTO k VALUES (1, 1)", "foreign key")
	mustExec(t, cs[0], "CREATE TABLE p (id INT PRIMARY KEY, v INT) LOCALITY MULTI MASTER")
	mustExec(t, cs[0], "INSERT INTO p VALUES (1, 0), (2, 0)")
	mustExec(t, cs[0], "INSERT INTO k VALUES (1, 1)")
	until(t, "the rows to be everywhere", func() string {
		return strings.Replace(strings.Join(column(t, cs[1], "SELECT id FROM k"), " "), "1 9", "", 1)
	})
	mustExec(t, cs[1], "INSERT INTO k VALUES (2, 2)")
	for _, c := range cs {
		if _, err := c.ExecContext(t.Context(), "INSERT INTO k VALUES (3, 3)"); mysqlCode(err) != 1452 {
			t.Errorf("a child without a parent: %v", err)
		}
	}
	mustExec(t, cs[1], "BEGIN")
	mustExec(t, cs[1], "INSERT INTO p VALUES (4, 0)")
	mustExec(t, cs[1], "INSERT INTO k VALUES (4, 4)")
	mustExec(t, cs[1], "DELETE FROM p WHERE id = 2")
	mustExec(t, cs[1], "COMMIT")
	if got := strings.Join(column(t, cs[1], "SELECT id FROM k ORDER BY id"), " "); got != "1 4 9" {
		t.Errorf("after the cascade: %s", got)
	}

	mustExec(t, cs[0], "CREATE TABLE p2 (id VARCHAR(10) PRIMARY KEY) LOCALITY MULTI MASTER")
	refused(t, cs[0], "INSERT INTO k2 VALUES (1, 1)", "foreign key")
	refused(t, cs[0], "CREATE TABLE p3 (id INT PRIMARY KEY)",
		"foreign key mixed leads from table k3 to table p3, but k3 is MULTI MASTER and p3 is not")
	refused(t, cs[0], "CREATE TABLE p4 (id INT PRIMARY KEY) LOCALITY MULTI MASTER",
		"foreign key mixed4 leads from table k4 to table p4, but p4 is MULTI MASTER and k4 is not")
	mustExec(t, cs[0], "CREATE TABLE other (id INT PRIMARY KEY)")
	refused(t, cs[0], "RENAME TABLE other TO p3", "but k3 is MULTI MASTER and p3 is not")
	mustExec(t, cs[0], "CREATE TABLE p4 (id INT PRIMARY KEY)")
	mustExec(t, cs[0], "INSERT INTO p4 VALUES (1)")
	mustExec(t, cs[0], "INSERT INTO k4 VALUES (1, 1)")
	mustExec(t, cs[0], "ALTER TABLE k3 DROP FOREIGN KEY mixed")
	mustExec(t, cs[0], "CREATE TABLE p3 (id INT PRIMARY KEY)")
	mustExec(t, cs[0], "INSERT INTO k3 VALUES (1, 1)")
}
