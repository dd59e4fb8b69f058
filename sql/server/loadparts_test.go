package server

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
)

// losing has transactions of clients that write several rows lose conflicts: lose says of each of
// their commits, by its number from 1, whether it does.
type losing struct {
	lose          func(n int64) bool
	commits, lost int64
}

func (d *losing) loses(writes int) bool {
	if writes < 4 || d.lose == nil {
		return false
	}
	if d.commits++; !d.lose(d.commits) {
		return false
	}
	d.lost++
	return true
}

// newParts is a server whose transactions write so many rows and entries at most.
func newParts(t *testing.T, most int) (*losing, *sql.DB) {
	db := memkv.New(4, "eu", "us")
	if most > 0 {
		db.Most = kv.Volume{Bytes: 1 << 30, Writes: most}
	}
	d := &losing{}
	db.Lose = d.loses // under the store's mutex
	_, pool := startServer(t, db)
	exec(t, pool, "SET GLOBAL local_infile = 1")
	return d, pool
}

// warned are the warnings of a session's statement without the note of its transactions, and how
// many transactions it tells.
func warned(t *testing.T, c execer) (all []string, transactions int) {
	t.Helper()
	note := regexp.MustCompile(`^Note\|1105\|the file was committed in (\d+) transactions`)
	for _, w := range query(t, c, "SHOW WARNINGS") {
		if m := note.FindStringSubmatch(w); m != nil {
			transactions, _ = strconv.Atoi(m[1])
			continue
		}
		all = append(all, w)
	}
	return all, transactions
}

// TestLoadInParts: a file that is too large for one transaction gives what it would give in one,
// which is what MariaDB has: rows, counts, warnings, numbers, variables, what triggers and foreign
// keys do. So it does if parts lose conflicts.
func TestLoadInParts(t *testing.T) {
	const most = 640 // of a first part, and 2 of those behind it
	lines := func(n int, line func(i int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(line(i + 1))
		}
		return b.String()
	}
	plain := func(i int) string { return fmt.Sprintf("%d\t%d\tv%d\n", i, i%7, i) }
	for _, x := range []struct {
		name, tables, what, file string
		show                     []string
		number                   string // what LAST_INSERT_ID should be; then t is shown without numbers
	}{
		{"ignore", "CREATE TABLE t (id INT PRIMARY KEY, k INT, v VARCHAR(20), KEY (k))", "FILE INTO TABLE t",
			"head\n" + lines(500, plain) + lines(9, plain) + "510\tx\ty\n" + lines(5, plain) + "511\t1\n", nil, ""},
		{"skipped lines", "CREATE TABLE t (id INT PRIMARY KEY, k INT, v VARCHAR(20), KEY (k))", "FILE INTO TABLE t IGNORE 3 LINES",
			"head\nhead\nhead\n" + lines(500, plain), nil, ""},
		{"replace", "CREATE TABLE t (id INT PRIMARY KEY, k INT, v VARCHAR(20), UNIQUE KEY (v))", "FILE REPLACE INTO TABLE t",
			lines(500, plain) + lines(20, func(i int) string { return fmt.Sprintf("%d\t%d\tv%d\n", i, i+1000, i+1) }), nil, ""},
		{"numbers", "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, k INT, v VARCHAR(20), KEY (k)); INSERT INTO t (k) VALUES (1), (2)",
			"FILE INTO TABLE t (k, v)", lines(500, func(i int) string { return fmt.Sprintf("%d\tv\n", i) }), []string{"SELECT k, v FROM t ORDER BY k", "SELECT COUNT(*) FROM t WHERE id < LAST_INSERT_ID()"},
			"SELECT id FROM t WHERE k = 1 AND v = 'v'"},
		{"no key", "CREATE TABLE t (k INT, v VARCHAR(20))", "FILE INTO TABLE t (k, v)", lines(1000, func(i int) string { return fmt.Sprintf("%d\tv\n", i) }), nil, ""},
		{"variables", "CREATE TABLE t (id INT PRIMARY KEY, k INT DEFAULT 5, g INT AS (id * 2) STORED, h INT AS (k + 1), KEY (g)); SET @before = 'b'",
			"FILE INTO TABLE t (id, @x) SET k = @x + 1", lines(500, func(i int) string { return fmt.Sprintf("%d\t%d\n", i, i*3) }),
			[]string{"SELECT @x, @before"}, ""},
		{"triggers", "CREATE TABLE t (id INT PRIMARY KEY, k INT); CREATE TABLE log (id INT PRIMARY KEY, n INT); SET @n = 0;" +
			"CREATE TRIGGER b BEFORE INSERT ON t FOR EACH ROW SET NEW.k = NEW.k + 1, @n = @n + 1;" +
			"CREATE TRIGGER a AFTER INSERT ON t FOR EACH ROW INSERT INTO log VALUES (NEW.id, NEW.k)",
			"FILE INTO TABLE t", lines(500, func(i int) string { return fmt.Sprintf("%d\t%d\n", i, i%7) }), []string{"SELECT @n", "SELECT COUNT(*), SUM(id), SUM(n) FROM log"}, ""},
		{"references", "CREATE TABLE t (id INT PRIMARY KEY, up INT, KEY (up), FOREIGN KEY (up) REFERENCES t (id))",
			"FILE INTO TABLE t", lines(600, func(i int) string {
				if i%50 == 0 {
					return fmt.Sprintf("%d\t%d\n", i, i+10_000) // no such row
				}
				if i < 10 {
					return fmt.Sprintf("%d\t\\N\n", i)
				}
				return fmt.Sprintf("%d\t%d\n", i, i%9+1) // of the first part
			}), nil, ""},
		{"functions", "CREATE TABLE t (id INT PRIMARY KEY, k INT); CREATE FUNCTION twice(x INT) RETURNS INT DETERMINISTIC RETURN 2 * x",
			"FILE INTO TABLE t (id, @k) SET k = twice(@k)", lines(1000, func(i int) string { return fmt.Sprintf("%d\t%d\n", i, i) }), nil, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			load := func(most int, lose func(int64) bool) (got []string, transactions int, lost int64) {
				d, pool := newParts(t, most)
				c := conn(t, pool)
				for _, q := range strings.Split(x.tables, ";") {
					exec(t, c, q)
				}
				d.lose = lose
				r, err := loaded(t, c, x.file, x.what)
				if err != nil {
					t.Fatal(err)
				}
				d.lose = nil
				ws, transactions := warned(t, c)
				n, _ := r.RowsAffected()
				id, _ := r.LastInsertId()
				got = append(got, fmt.Sprintf("%d rows", n))
				first := int64(0) // numbers that were lost with a conflict are not given again
				if x.number != "" {
					first, _ = strconv.ParseInt(query(t, c, x.number)[0], 10, 64)
				}
				if id != first {
					t.Errorf("the client is told the number %d, the first row has %d", id, first)
				}
				slices.Sort(ws) // those of a piece that is written come together
				got = append(got, ws...)
				all := "SELECT * FROM t ORDER BY 1"
				if x.number != "" {
					all = "SELECT COUNT(*) FROM t"
				}
				for _, q := range append(slices.Clone(x.show), all, "CHECK TABLE t") {
					got = append(got, query(t, c, q)...)
				}
				return got, transactions, d.lost
			}
			want, n, _ := load(0, nil)
			if n != 0 {
				t.Errorf("one transaction is told as %d", n)
			}
			got, n, _ := load(most, nil)
			if !slices.Equal(got, want) {
				t.Errorf("in parts:\n got %.900q\nwant %.900q", got, want)
			}
			if n < 10 {
				t.Errorf("it was committed in %d transactions", n)
			}
			again, m, lost := load(most, func(n int64) bool { return n%3 == 1 }) // the first part, too
			if !slices.Equal(again, want) {
				t.Errorf("with lost conflicts:\n got %.900q\nwant %.900q", again, want)
			}
			if m != n || lost < 5 {
				t.Errorf("with lost conflicts it was committed in %d transactions, without in %d; %d were lost", m, n, lost)
			}
		})
	}
}

// loaded loads a text.
func loaded(t *testing.T, c execer, file, what string) (res sql.Result, err error) {
	t.Helper()
	mysql.RegisterReaderHandler("text", func() io.Reader { return strings.NewReader(file) })
	defer mysql.DeregisterReaderHandler("text")
	return c.ExecContext(t.Context(), strings.Replace(what, "FILE", "LOAD DATA LOCAL INFILE 'Reader::text'", 1))
}

// TestLoadInOnePart: a file that fits a transaction is one, and is told as nothing else. What fits
// none fails in a transaction of the client's, which goes on, and where parts are forbidden.
func TestLoadInOnePart(t *testing.T) {
	_, pool := newParts(t, 600)
	c := conn(t, pool)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, k INT, v VARCHAR(20), KEY (k))")
	load := func(n int) error {
		_, err := loaded(t, c, many(n, "x"), "FILE INTO TABLE t")
		return err
	}
	if err := load(300); err != nil { // 600 rows and entries
		t.Fatal(err)
	}
	if _, n := warned(t, c); n != 0 {
		t.Errorf("it was committed in %d transactions", n)
	}
	exec(t, c, "DELETE FROM t WHERE id <= 150")
	exec(t, c, "DELETE FROM t")
	refused := func(err error, out string) {
		t.Helper()
		var me *mysql.MySQLError
		if !errors.As(err, &me) || me.Number != 1105 || !strings.Contains(me.Message, "600 rows and entries of indexes") ||
			!strings.Contains(me.Message, out) || !strings.Contains(me.Message, "split the file") {
			t.Errorf("%v, want error 1105 that names %q", err, out)
		}
	}
	exec(t, c, "BEGIN")
	exec(t, c, "INSERT INTO t VALUES (1000, 1, 'mine')")
	refused(load(301), "autocommit = 1")
	exec(t, c, "INSERT INTO t VALUES (1001, 1, 'mine')")
	exec(t, c, "COMMIT")
	expect(t, c, "SELECT id FROM t ORDER BY id", "1000", "1001")
	exec(t, c, "SET autocommit = 0")
	refused(load(400), "autocommit = 1")
	exec(t, c, "ROLLBACK")
	exec(t, c, "SET autocommit = 1")
	exec(t, c, "SET godwit_load_in_parts = OFF")
	refused(load(400), "SET godwit_load_in_parts = ON")
	expect(t, c, "SELECT id FROM t ORDER BY id", "1000", "1001")
	exec(t, c, "SET godwit_load_in_parts = DEFAULT")
	if err := load(400); err != nil {
		t.Fatal(err)
	}
	expect(t, c, "SELECT COUNT(*) FROM t", "402")
}

// TestLoadPartFails: an error in any part leaves those before it, and says how to load the rest. So
// do a KILL, and conflicts that last.
func TestLoadPartFails(t *testing.T) {
	d, pool := newParts(t, 640)
	c := conn(t, pool)
	said := regexp.MustCompile(`; (\d+) records, in (\d+) transactions, are committed: load the rest with IGNORE (\d+) LINES$`)
	table := "CREATE TABLE t (id INT PRIMARY KEY, k INT, v VARCHAR(20), KEY (k))"
	rest := func(err error, number uint16, good string) {
		t.Helper()
		var me *mysql.MySQLError
		if !errors.As(err, &me) || me.Number != number {
			t.Fatalf("%v, want error %d", err, number)
		}
		m := said.FindStringSubmatch(me.Message)
		if m == nil {
			t.Fatalf("%s: it does not say how to load the rest", me.Message)
		}
		expect(t, c, "SELECT COUNT(*), MAX(id) FROM t", m[1]+"|"+m[1])
		if _, err := loaded(t, c, good, "FILE REPLACE INTO TABLE t FIELDS OPTIONALLY ENCLOSED BY '\"' IGNORE "+m[3]+" LINES"); err != nil {
			t.Fatal(err)
		}
		expect(t, c, "SELECT COUNT(*), SUM(id), SUM(k), SUM(LENGTH(v)) FROM t", "400|80200|19800|1600")
		expect(t, c, "CHECK TABLE t", "test.t|check|status|OK")
		exec(t, c, "DROP TABLE t")
		exec(t, c, table)
	}
	exec(t, c, table)
	good := "the head\n" + many(400, "\"a\nb\"")
	good = strings.ReplaceAll(good, "\"a\nb\"", "\"a\nb\\\"\"") // four bytes, with ends of lines in quotes
	what := "FILE REPLACE INTO TABLE t FIELDS OPTIONALLY ENCLOSED BY '\"' IGNORE 1 LINES"
	for _, at := range []int{331, 350, 356, 399, 400} {
		bad := strings.Replace(good, fmt.Sprintf("\n%d\t", at), fmt.Sprintf("\n%dx\t", at), 1)
		_, err := loaded(t, c, bad, what)
		rest(err, 1265, good)
	}
	// An error in the first part leaves nothing.
	_, err := loaded(t, c, strings.Replace(good, "\n9\t", "\nx9\t", 1), what)
	if err == nil || strings.Contains(err.Error(), "committed") {
		t.Errorf("an error in the first part: %v", err)
	}
	expect(t, c, "SELECT COUNT(*) FROM t", "0")
	// Conflicts that last are told by a number with which nobody tries the whole again.
	exec(t, c, "SET innodb_lock_wait_timeout = 1")
	d.lose = func(n int64) bool { return n > 4 }
	_, err = loaded(t, c, good, what)
	d.lose = nil
	rest(err, 1105, good)
	exec(t, c, "SET innodb_lock_wait_timeout = DEFAULT")
	// KILL
	id := query(t, c, "SELECT CONNECTION_ID()")[0]
	begin, end, _ := strings.Cut(good, "\n390\t")
	file := &stopping{parts: []string{begin, "\n", "390\t" + end}, reached: make(chan struct{}), goOn: make(chan struct{})}
	done := make(chan error, 1)
	go func() { done <- loading(t, c, file, what) }()
	<-file.reached
	for query(t, pool, "SELECT COUNT(*) >= 340 FROM t")[0] == "0" {
		time.Sleep(time.Millisecond)
	}
	exec(t, pool, "KILL QUERY "+id)
	close(file.goOn)
	rest(<-done, 1317, good)
}
