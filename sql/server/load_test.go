package server

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// loading loads a file by a statement, in which FILE stands for its beginning.
func loading(t *testing.T, c execer, file io.Reader, what string) error {
	t.Helper()
	mysql.RegisterReaderHandler("load", func() io.Reader { return file })
	defer mysql.DeregisterReaderHandler("load")
	_, err := c.ExecContext(t.Context(), strings.Replace(what, "FILE", "LOAD DATA LOCAL INFILE 'Reader::load'", 1))
	return err
}

// TestLoadDataValues: MariaDB 10.11 has the same rows, warnings and errors.
func TestLoadDataValues(t *testing.T) {
	_, pool := newServer(t)
	c := conn(t, pool)
	exec(t, c, "SET GLOBAL local_infile = 1")
	exec(t, c, "CREATE TABLE names (id INT PRIMARY KEY, name VARCHAR(9))")
	exec(t, c, "INSERT INTO names VALUES (1, 'one'), (2, 'two'), (3, 'three')")
	exec(t, c, "SET @n = 0")
	for _, x := range []struct {
		columns, file, what string
		want                uint16 // the error; then the rows are those of before
		rows, warnings      []string
	}{
		{"a INT, b VARCHAR(4)", "1\tx\n2\ty\n", "FILE INTO TABLE t", 0, []string{"1|x", "2|y"}, nil},
		{"a INT, b INT NOT NULL, c INT DEFAULT 5", "1\n2\t3\t4\t5\n", "FILE INTO TABLE t", 0, []string{"1|0|0", "2|3|4"},
			[]string{"1261|Row 1 doesn't contain data for all columns", "1261|Row 1 doesn't contain data for all columns",
				"1262|Row 2 was truncated; it contained more data than there were input columns"}},
		{"a INT, b INT NOT NULL, c INT DEFAULT 5", "1\n", "FILE REPLACE INTO TABLE t", 1261, nil, nil},
		{"a INT, b INT NOT NULL", "1\t2\t3\n4\t5\n", "FILE REPLACE INTO TABLE t", 1262, nil, nil},
		{"a INT, b INT NOT NULL", "1\t\\N\n", "FILE INTO TABLE t", 0, []string{"1|0"},
			[]string{"1263|Column set to default value; NULL supplied to NOT NULL column 'b' at row 1"}},
		{"a INT, b INT NOT NULL", "1\t\\N\n", "FILE REPLACE INTO TABLE t", 1263, nil, nil},
		{"a INT, b TINYINT", "1\t\n2\t300\n3\t4x\n4\tx\n", "FILE INTO TABLE t", 0, []string{"1|0", "2|127", "3|4", "4|0"},
			[]string{"1366|Incorrect integer value: '' for column 'b' at row 1", "1264|Out of range value for column 'b' at row 2",
				"1265|Data truncated for column 'b' at row 3", "1366|Incorrect integer value: 'x' for column 'b' at row 4"}},
		{"a INT, b TINYINT", "1\t5\n2\t300\n", "FILE REPLACE INTO TABLE t", 1264, nil, nil},
		{"a INT, b YEAR", "1\t\n2\t7\n", "FILE INTO TABLE t", 0, []string{"1|0", "2|2007"},
			[]string{"1366|Incorrect integer value: '' for column 'b' at row 1"}},
		{"a INT PRIMARY KEY, b INT", "1\t1\n2\t2\n1\t3\n", "FILE INTO TABLE t", 0, []string{"1|1", "2|2"},
			[]string{"1062|Duplicate entry '1' for key 't.PRIMARY'"}},
		{"a INT PRIMARY KEY, b INT", "1\t1\n2\t2\n1\t3\n", "FILE REPLACE INTO TABLE t", 0, []string{"1|3", "2|2"}, nil},
		{"a INT, b INT", "1\t5\n2\t\\N\n", "FILE INTO TABLE t (a, @x) SET b = @x * 2", 0, []string{"1|10", "2|NULL"}, nil},
		{"a INT, b INT, c BIGINT", "1\t5\n2\t6\n", "FILE INTO TABLE t (a, b) SET c = a * 9007199254740993 + b", 0,
			[]string{"1|5|9007199254740998", "2|6|18014398509481992"}, nil},
		{"a INT, d DATE, c INT, e VARCHAR(9)", "1\t2024-02-29\n", "FILE INTO TABLE t (a, d) SET c = YEAR(d) + t.a, e = CONCAT(c, 'x')", 0,
			[]string{"1|2024-02-29|2025|2025x"}, nil},
		{"a INT, b INT, c INT", "7\n8\n", "FILE INTO TABLE t (a) SET b = (@n := @n + 1), c = @n * 10", 0, []string{"7|1|10", "8|2|20"}, nil},
		{"a INT, b INT, c INT", "1\tone\n2\ttwo\n3\tfour\n", "FILE INTO TABLE t (a, @name) SET b = (SELECT id FROM names WHERE name = @name), " +
			"c = (SELECT COUNT(*) FROM names WHERE names.id <= t.a)", 0, []string{"1|1|1", "2|2|2", "3|NULL|3"}, nil},
		{"a INT, b INT", "1\n", "FILE INTO TABLE t (a) SET b = (SELECT MAX(a) FROM t)", 1093, nil, nil},
		{"a INT, b VARCHAR(9)", "1,x\nNULL,\"NULL\"\n", "FILE INTO TABLE t FIELDS TERMINATED BY ',' ENCLOSED BY '\"'", 0,
			[]string{"NULL|NULL", "1|x"}, nil},
		{"a INT, b VARCHAR(9)", "1\tNULL\n", "FILE INTO TABLE t", 0, []string{"1|NULL"}, nil},
		{"a INT, b VARCHAR(9)", "a,b\n1,\"x\ny\"\n", "FILE INTO TABLE t FIELDS TERMINATED BY ',' ENCLOSED BY '\"' ESCAPED BY '\"' IGNORE 1 LINES", 0,
			[]string{"1|x\ny"}, nil},
		{"a INT, b VARCHAR(9)", "no\n: 1\tx\nsee: 2\ty\n", "FILE INTO TABLE t LINES STARTING BY ': '", 0, []string{"1|x", "2|y"}, nil},
		{"a INT, b VARCHAR(2)", "1\tx\xff\n2\té\n", "FILE INTO TABLE t", 0, []string{"1|x", "2|é"},
			[]string{`1366|Incorrect string value: '\xFF' for column 'b' at row 1`}},
		{"a INT, b INT DEFAULT 7, c INT AS (a + b) STORED, CHECK (a < 3)", "1\n2\n3\n", "FILE INTO TABLE t (a)", 0, []string{"1|7|8", "2|7|9"},
			[]string{"3819|Check constraint 't_chk_1' is violated."}},
	} {
		exec(t, c, "DROP TABLE IF EXISTS t")
		exec(t, c, "CREATE TABLE t ("+x.columns+")")
		err := loading(t, c, strings.NewReader(x.file), x.what)
		if x.want != 0 {
			if err == nil || errNumber(t, err) != x.want {
				t.Errorf("%s of %q: %v, want error %d", x.what, x.file, err, x.want)
			}
		} else if err != nil {
			t.Errorf("%s of %q: %v", x.what, x.file, err)
		}
		if x.want == 0 {
			var got []string
			for _, w := range query(t, c, "SHOW WARNINGS") {
				got = append(got, w[strings.Index(w, "|")+1:])
			}
			if fmt.Sprint(got) != fmt.Sprint(x.warnings) {
				t.Errorf("%s of %q:\n got %q\nwant %q", x.what, x.file, got, x.warnings)
			}
		}
		expect(t, c, "SELECT * FROM t ORDER BY a", x.rows...)
	}
	exec(t, c, "CREATE TABLE v (a INT)")
	err := loading(t, c, strings.NewReader("1x\n"), "FILE INTO TABLE v FIELDS TERMINATED BY ''")
	if err == nil || errNumber(t, err) != 1235 {
		t.Errorf("fields of fixed length: %v, want error 1235", err)
	}
	if err := loading(t, c, strings.NewReader("1\tx\n2\ty\n"), "FILE INTO TABLE v (a, @last)"); err != nil {
		t.Fatal(err)
	}
	expect(t, c, "SELECT @last", "y")
}

// many are lines of numbers from 1, with a text.
func many(n int, text string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d\t%d\t%s\n", i+1, i%100, text)
	}
	return b.String()
}

// TestLoadDataPieces: a file is written while it is read, all of it or nothing; what it kept is
// given back.
func TestLoadDataPieces(t *testing.T) {
	s, pool := newServer(t)
	c := conn(t, pool)
	exec(t, c, "SET GLOBAL local_infile = 1")
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, k INT, v VARCHAR(20), KEY (k))")
	const rows = 9000 // more than are written at once
	file := many(rows, "first") + many(10, "again")
	if err := loading(t, c, strings.NewReader(file), "FILE INTO TABLE t"); err != nil {
		t.Fatal(err)
	}
	if n := len(query(t, c, "SHOW WARNINGS")); n != 10 {
		t.Errorf("%d warnings, want 10", n)
	}
	expect(t, c, "SELECT COUNT(*), SUM(id), SUM(k), MIN(v) FROM t", fmt.Sprintf("%d|%d|%d|first", rows, rows*(rows+1)/2, rows/100*4950))
	expect(t, c, "SELECT COUNT(*) FROM t WHERE k = 7", fmt.Sprint(rows/100))
	// An error in the last line, in a transaction: what was before stays.
	exec(t, c, "BEGIN")
	exec(t, c, "UPDATE t SET v = 'before' WHERE id = 5")
	err := loading(t, c, strings.NewReader(many(rows, "second")+"x\t1\ty\n"), "FILE REPLACE INTO TABLE t")
	if err == nil || errNumber(t, err) != 1366 {
		t.Fatalf("%v, want error 1366", err)
	}
	expect(t, c, "SELECT v, COUNT(*) FROM t GROUP BY v ORDER BY v", "before|1", fmt.Sprintf("first|%d", rows-1))
	exec(t, c, "COMMIT")
	expect(t, c, "SELECT v, COUNT(*) FROM t GROUP BY v ORDER BY v", "before|1", fmt.Sprintf("first|%d", rows-1))
	// And in a transaction of its own.
	err = loading(t, c, strings.NewReader(many(rows, "third")+"x\t1\ty\n"), "FILE REPLACE INTO TABLE t")
	if err == nil || errNumber(t, err) != 1366 {
		t.Fatalf("%v, want error 1366", err)
	}
	expect(t, pool, "SELECT COUNT(*) FROM t WHERE v = 'third'", "0")
	exec(t, pool, "UPDATE t SET v = 'free' WHERE id = 1") // nobody holds a lock
	if n := s.g.query.Memory().Used(); n != 0 {
		t.Errorf("%d bytes are kept", n)
	}
}

// stopping reads a file, and stops in the middle until it may go on.
type stopping struct {
	parts   []string
	reached chan struct{}
	goOn    chan struct{}
}

// Read implements io.Reader.
func (r *stopping) Read(p []byte) (int, error) {
	if len(r.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.parts[0])
	if r.parts[0] = r.parts[0][n:]; r.parts[0] == "" {
		if r.parts = r.parts[1:]; len(r.parts) == 1 {
			close(r.reached)
			<-r.goOn
		}
	}
	return n, nil
}

// TestLoadDataKilled: KILL ends a LOAD DATA while its client is silent: it holds nothing any more.
// The client is told once it has sent the rest of the file, as the protocol asks.
func TestLoadDataKilled(t *testing.T) {
	_, pool := newServer(t)
	c := conn(t, pool)
	exec(t, c, "SET GLOBAL local_infile = 1")
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, k INT, v VARCHAR(20))")
	id := query(t, c, "SELECT CONNECTION_ID()")[0]
	file := &stopping{parts: []string{many(9000, "x"), "30000\t1\tend\n"}, reached: make(chan struct{}), goOn: make(chan struct{})}
	done := make(chan error, 1)
	go func() { done <- loading(t, c, file, "FILE INTO TABLE t") }()
	<-file.reached
	other := conn(t, pool)
	for {
		if _, err := other.ExecContext(t.Context(), "SELECT * FROM t WHERE id = 1 FOR UPDATE NOWAIT"); err != nil {
			break // what came has been written, and is locked
		}
		time.Sleep(time.Millisecond)
	}
	exec(t, other, "KILL QUERY "+id)
	exec(t, other, "INSERT INTO t VALUES (1, 1, 'free')")
	close(file.goOn)
	select {
	case err := <-done:
		if err == nil || errNumber(t, err) != 1317 {
			t.Errorf("%v, want error 1317", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
	expect(t, c, "SELECT id, v FROM t", "1|free")
}

// TestLoadDataIsTriedAgain: a LOAD DATA that loses conflicts asks for its file once, and is tried
// again if the file is short. Without strict timing: the holder may also be gone before it begins.
func TestLoadDataIsTriedAgain(t *testing.T) {
	_, pool := newServer(t)
	holder, c := conn(t, pool), conn(t, pool)
	exec(t, c, "SET GLOBAL local_infile = 1")
	exec(t, c, "CREATE TABLE own (id INT PRIMARY KEY, v INT)")
	exec(t, c, "CREATE TABLE engine (id INT PRIMARY KEY, v INT, g GEOMETRY)") // go-mysql-server loads into it
	asked, text := 0, "1\t2\n"
	mysql.RegisterReaderHandler("once", func() io.Reader {
		asked++
		return strings.NewReader(text)
	})
	defer mysql.DeregisterReaderHandler("once")
	load := func(table string) error {
		exec(t, c, "REPLACE INTO "+table+" (id, v) VALUES (1, 0)")
		exec(t, holder, "BEGIN")
		exec(t, holder, "UPDATE "+table+" SET v = v + 1 WHERE id = 1")
		asked = 0
		_, err := c.ExecContext(t.Context(), "LOAD DATA LOCAL INFILE 'Reader::once' REPLACE INTO TABLE "+table+" (id, v)")
		return err
	}
	for _, table := range []string{"own", "engine"} {
		time.AfterFunc(700*time.Millisecond, func() { _, _ = holder.ExecContext(t.Context(), "COMMIT") })
		if err := load(table); err != nil || asked != 1 {
			t.Errorf("%s: %v, and the file was asked for %d times; want it to be tried again, and once", table, err, asked)
		}
		expect(t, c, "SELECT id, v FROM "+table, "1|2")
	}
	exec(t, c, "SET innodb_lock_wait_timeout = 1")
	text = strings.Repeat("1\t3\n", 5<<20/4)
	if err := load("own"); err == nil || errNumber(t, err) != 1213 || asked != 1 {
		t.Errorf("%v, and the file was asked for %d times; want error 1213, and once", err, asked)
	}
	exec(t, holder, "COMMIT")
	expect(t, c, "SELECT * FROM own", "1|1")
	expect(t, c, "SHOW SESSION STATUS LIKE 'Com_load'", "Com_load|1")
}
