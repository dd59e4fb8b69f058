package sim

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestXA prepares a transaction over rows of two regions, one of them GLOBAL, and takes its node
// away. Others wait for its locks, also who changes its tables, and read past it. A third region
// commits it.
func TestXA(t *testing.T) {
	onStageTuned(t, 3, 1, func(cfg *Config) { cfg.Shards, cfg.SQL, cfg.Stay = 2, true, true }, func(s *stage) {
		l := &rtLab{t: s.t, w: s.world}
		conn := func(i int) (c *sql.Conn, end func()) {
			db, c := l.connInto(s.hosts[i], "")
			return c, func() { c.Close(); db.Close() }
		}
		said := func(c *sql.Conn, q string) string {
			t.Helper()
			rows, err := c.QueryContext(context.Background(), q)
			if err != nil {
				if testing.Verbose() {
					t.Logf("%s: %v", q, err)
				}
				return fmt.Sprint("error ", number(err))
			}
			defer rows.Close()
			cols, _ := rows.Columns()
			var out []string
			for rows.Next() {
				vals := make([]any, len(cols))
				for i := range vals {
					vals[i] = new(sql.NullString)
				}
				if err := rows.Scan(vals...); err != nil {
					return err.Error()
				}
				for _, v := range vals {
					out = append(out, v.(*sql.NullString).String)
				}
			}
			if err := rows.Err(); err != nil {
				return fmt.Sprint("error ", number(err))
			}
			return strings.Join(out, " ")
		}
		expect := func(c *sql.Conn, q, want string) {
			t.Helper()
			if got := said(c, q); got != want {
				t.Errorf("%s: %q, not %q", q, got, want)
			}
		}
		one, end := conn(0)
		for _, q := range []string{"CREATE DATABASE d", "USE d", "CREATE TABLE a (id INT PRIMARY KEY, v INT, KEY (v))",
			"CREATE TABLE g (id INT PRIMARY KEY, v INT) LOCALITY GLOBAL", "CREATE TABLE other (id INT PRIMARY KEY)",
			"INSERT INTO a VALUES (1, 10), (2, 20), (3, 30)", "INSERT INTO g VALUES (1, 100)"} {
			l.exec(one, q)
		}
		time.Sleep(5 * time.Second)
		far, endFar := conn(1)
		l.exec(far, "USE d")
		l.exec(far, "INSERT INTO a VALUES (11, 110), (12, 120)")
		for _, q := range []string{"XA START 'move','1'", "UPDATE a SET v = v - 1 WHERE id = 1", "UPDATE a SET v = v + 1 WHERE id = 11",
			"INSERT INTO a VALUES (4, 40)", "DELETE FROM a WHERE id = 3", "SELECT v FROM a WHERE id = 2 FOR SHARE",
			"UPDATE g SET v = v + 1", "XA END 'move','1'", "XA PREPARE 'move','1'"} {
			if got := said(one, q); strings.HasPrefix(got, "error") {
				t.Errorf("%s: %s", q, got)
			}
		}
		end()
		s.hosts[0].crash()
		time.Sleep(20 * time.Second)
		l.exec(far, "SET innodb_lock_wait_timeout = 2")
		expect(far, "XA RECOVER", "1 4 1 move1")
		expect(far, "SELECT SUM(v), COUNT(*) FROM a", "290 5")
		expect(far, "SELECT v FROM g", "100")
		for _, q := range []string{"UPDATE a SET v = 0 WHERE id = 1", "UPDATE a SET v = 0 WHERE id = 11", "INSERT INTO a VALUES (4, 0)",
			"INSERT INTO a VALUES (3, 0)", "UPDATE a SET v = 0 WHERE id = 2", "UPDATE g SET v = 0", "ALTER TABLE a ADD COLUMN w INT",
			"DROP TABLE g", "XA START 'move','1'"} {
			want := "error 1205"
			switch {
			case strings.HasPrefix(q, "XA"):
				want = "error 1440"
			case strings.HasPrefix(q, "INSERT"): // a vote waits for a moment only
				want = "error 1213"
			}
			if got := said(far, q); got != want {
				t.Errorf("%s beside what is prepared: %q", q, got)
			}
		}
		expect(far, "SELECT v FROM a WHERE id = 2 LOCK IN SHARE MODE", "20")
		expect(far, "UPDATE a SET v = v WHERE id = 12", "")
		expect(far, "ALTER TABLE other ADD COLUMN w INT", "")
		third, endThird := conn(2)
		l.exec(third, "USE d")
		expect(third, "XA COMMIT 'move'", "error 1397")
		expect(third, "XA COMMIT 'move','1'", "")
		expect(third, "SELECT GROUP_CONCAT(v ORDER BY id) FROM a", "9,20,40,111,120")
		expect(third, "SELECT v FROM g", "101")
		expect(third, "XA RECOVER", "")
		s.hosts[0].boot()
		time.Sleep(20 * time.Second)
		one, end = conn(0)
		l.exec(one, "USE d")
		expect(one, "XA ROLLBACK 'move','1'", "error 1397")
		expect(one, "ALTER TABLE a ADD COLUMN w INT", "")
		expect(one, "CHECK TABLE a", "d.a check status OK")
		for _, e := range []func(){end, endFar, endThird} {
			e()
		}
	})
}
