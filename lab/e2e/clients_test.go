package e2e

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// tool finds an installed client, or skips.
func tool(t *testing.T, names ...string) string {
	t.Helper()
	for _, n := range names {
		if path, err := exec.LookPath(n); err == nil {
			return path
		}
	}
	t.Skipf("%s is not installed", strings.Join(names, " or "))
	return ""
}

// outputOf runs a client to its end.
func outputOf(t *testing.T, stdin, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Stdin = strings.NewReader(stdin)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out.String())
	}
	return out.String()
}

func TestMySQLCommandLine(t *testing.T) {
	client := tool(t, "mysql", "mariadb")
	c := shared.database(t, "shell")
	run := func(n *node, script string, flags ...string) string {
		host, port, _ := net.SplitHostPort(n.sql)
		return outputOf(t, script, client, append([]string{"-h", host, "-P", port, "-u", "root"}, flags...)...)
	}
	out := run(c.nodes[0], `
		USE shell;
		CREATE TABLE bird (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(40) NOT NULL, km DECIMAL(8,1), seen DATETIME,
			KEY by_name (name));
		INSERT INTO bird (name, km, seen) VALUES ('godwit', 13560.0, '2022-10-13 08:00:00'), ('tern', 96000.5, NULL),
			('Zugvögel', NULL, NULL);
		START TRANSACTION;
		UPDATE bird SET km = 0;
		ROLLBACK;
		SHOW TABLES;
		DESCRIBE bird;
		SELECT name, km, seen FROM bird ORDER BY id;
	`, "-t", "--default-character-set=utf8mb4")
	for _, want := range []string{"| bird", "| godwit", "13560.0", "2022-10-13 08:00:00", "96000.5", "NULL",
		"Zugvögel", "auto_increment"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	// The other regions see it at once.
	for _, n := range c.nodes[1:] {
		if got := strings.TrimSpace(run(n, "", "-N", "-B", "-e",
			"SELECT COUNT(*), SUM(km) FROM shell.bird")); got != "3\t109560.5" {
			t.Errorf("%s sees %q", n.region, got)
		}
	}
	if out := run(c.nodes[1], "", "-N", "-B", "-e", "SHOW DATABASES; SELECT table_name FROM information_schema.tables "+
		"WHERE table_schema='shell'"); !strings.Contains(out, "shell\n") || !strings.Contains(out, "bird") {
		t.Errorf("got\n%s", out)
	}
}

// A client's mistake is answered with MySQL's own error number.
func TestMySQLCommandLineErrors(t *testing.T) {
	client := tool(t, "mysql", "mariadb")
	c := shared.database(t, "mistakes")
	host, port, _ := net.SplitHostPort(c.nodes[0].sql)
	exec1(t, c.nodes[0].open(t, "mistakes"), "CREATE TABLE t (a INT PRIMARY KEY, b INT NOT NULL)")
	exec1(t, c.nodes[1].open(t, "mistakes"), "INSERT INTO t VALUES (1, 1)")
	for query, want := range map[string]string{
		"SELEC 1":                        "ERROR 1064",
		"SELECT * FROM nonesuch":         "ERROR 1146",
		"SELECT nonesuch FROM t":         "ERROR 1054",
		"INSERT INTO t VALUES (1, 2)":    "ERROR 1062",
		"INSERT INTO t VALUES (2, NULL)": "ERROR 1048",
		"USE nonesuch":                   "ERROR 1049",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		out, err := exec.CommandContext(ctx, client, "-h", host, "-P", port, "-u", "root", "mistakes", "-e",
			query).CombinedOutput()
		cancel()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: want %s, got %v\n%s", query, want, err, out)
		}
	}
}

func TestSysbench(t *testing.T) {
	bench := tool(t, "sysbench")
	if testing.Short() {
		t.Skip("-short: it takes a quarter of a minute")
	}
	c := shared.database(t, "sbtest")
	host, port, _ := net.SplitHostPort(c.nodes[0].sql)
	flags := []string{"--db-driver=mysql", "--mysql-host=" + host, "--mysql-port=" + port, "--mysql-user=root",
		"--mysql-db=sbtest",
		"--tables=2", "--table-size=1000", "--threads=2", "--time=2", "--report-interval=0"}
	ran := regexp.MustCompile(`transactions:\s+([1-9]\d*)`)
	for _, script := range []string{"oltp_read_write", "oltp_point_select", "oltp_update_index", "oltp_insert", "oltp_delete"} {
		t.Run(script, func(t *testing.T) {
			outputOf(t, "", bench, append(flags, script, "prepare")...)
			defer outputOf(t, "", bench, append(flags, script, "cleanup")...)
			out := outputOf(t, "", bench, append(flags, script, "run")...)
			m := ran.FindStringSubmatch(out)
			if m == nil {
				t.Fatalf("no transaction ran:\n%s", out)
			}
			t.Logf("%s transactions in 2 s", m[1])
		})
	}
}

func TestGoDriver(t *testing.T) {
	c := shared.database(t, "godriver")
	db, other := c.nodes[0].open(t, "godriver"), c.nodes[2].open(t, "godriver")
	exec1(t, db, `CREATE TABLE account (id BIGINT PRIMARY KEY AUTO_INCREMENT, owner VARCHAR(30) NOT NULL,
		balance DECIMAL(12,2) NOT NULL,
		note TEXT, raw BLOB, rate DOUBLE, at DATETIME(6), UNIQUE KEY (owner))`)
	insert, err := db.Prepare("INSERT INTO account (owner, balance, note, raw, rate, at) VALUES (?, ?, ?, ?, ?, ?)")
	if err != nil {
		t.Fatal(err)
	}
	defer insert.Close()
	at := time.Date(2024, 2, 29, 23, 59, 59, 123456000, time.UTC)
	raw := []byte{0, 1, 0xff, '\'', '\\', '\n'}
	r, err := insert.Exec("ada", "10.25", nil, raw, 0.1, at)
	if err != nil {
		t.Fatal(err)
	}
	id, err := r.LastInsertId()
	if n, _ := r.RowsAffected(); err != nil || id < 1 || n != 1 {
		t.Errorf("id %d, %d rows, %v", id, n, err)
	}
	if _, err := insert.Exec("bob", "5", "ünïcode ✓", []byte{}, -1e300, at); err != nil {
		t.Fatal(err)
	}
	var me *mysql.MySQLError
	if _, err := insert.Exec("ada", "1", nil, nil, nil, nil); !errors.As(err, &me) || me.Number != 1062 {
		t.Errorf("a taken unique key: got %v, want 1062", err)
	}

	var owner, balance, when string
	var note sql.NullString
	var gotRaw []byte
	var rate float64
	if err := other.QueryRow("SELECT owner, balance, note, raw, rate, at FROM account WHERE id = ?", id).Scan(&owner,
		&balance, &note, &gotRaw, &rate, &when); err != nil {
		t.Fatal(err)
	}
	if owner != "ada" || balance != "10.25" || note.Valid || !bytes.Equal(gotRaw, raw) || rate != 0.1 ||
		!strings.HasPrefix(when, "2024-02-29 23:59:59.123456") {
		t.Errorf("got %q %q %v %x %v %q", owner, balance, note, gotRaw, rate, when)
	}

	// A transaction that spans regions, committed and rolled back.
	for _, commit := range []bool{false, true} {
		tx, err := other.Begin()
		if err != nil {
			t.Fatal(err)
		}
		for who, by := range map[string]string{"ada": "-2.25", "bob": "2.25"} {
			if _, err := tx.Exec("UPDATE account SET balance = balance + CAST(? AS DECIMAL(12,2)) WHERE owner = ?",
				by, who); err != nil {
				t.Fatal(err)
			}
		}
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		scan1(t, db, &balance, "SELECT GROUP_CONCAT(balance ORDER BY owner) FROM account")
		if want := map[bool]string{false: "10.25,5.00", true: "8.00,7.25"}[commit]; balance != want {
			t.Errorf("commit %v: balances %s, want %s", commit, balance, want)
		}
	}

	rows, err := other.Query("SELECT id, owner FROM account WHERE owner IN (?, ?) ORDER BY owner DESC", "ada", "bob")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got []string
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id, &owner); err != nil {
			t.Fatal(err)
		}
		got = append(got, owner)
	}
	if err := rows.Err(); err != nil || fmt.Sprint(got) != "[bob ada]" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestPythonDriver(t *testing.T) {
	c := shared.database(t, "pydriver")
	// the distribution's python may have the package, even if another python lacks it
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import pymysql").Run() == nil {
			drive(t, c, python, "testdata/driver.py", "pydriver")
			return
		}
	}
	t.Skip("python3 with PyMySQL is not installed")
}

func TestNodeDriver(t *testing.T) {
	node := tool(t, "node")
	root := os.Getenv("NODE_PATH")
	if npm, err := exec.LookPath("npm"); err == nil && root == "" {
		out, err := exec.Command(npm, "root", "-g").Output()
		if err != nil {
			t.Skipf("npm does not say where its packages are: %v", err)
		}
		root = strings.TrimSpace(string(out))
	}
	t.Setenv("NODE_PATH", root)
	if err := exec.Command(node, "-e", "require('mysql2/promise')").Run(); err != nil {
		t.Skip("the package mysql2 of node is not installed (npm install -g mysql2)")
	}
	c := shared.database(t, "jsdriver")
	drive(t, c, node, "testdata/driver.mjs", "jsdriver")
}

// drive runs a script that takes two nodes' addresses and a database and ends with "ok".
func drive(t *testing.T, c *processes, interpreter, script, db string) {
	t.Helper()
	out := outputOf(t, "", interpreter, script, c.nodes[0].sql, c.nodes[1].sql, db)
	if !strings.HasSuffix(strings.TrimSpace(out), "ok") {
		t.Errorf("the script did not reach its end:\n%s", out)
	}
}

// TestLoadDataLocal: a stock client sends a file. Rows that exist already stay, or are replaced if
// the statement says so.
func TestLoadDataLocal(t *testing.T) {
	client := tool(t, "mysql", "mariadb")
	c := shared.database(t, "files")
	host, port, _ := net.SplitHostPort(c.nodes[1].sql)
	run := func(script string, flags ...string) string {
		args := append([]string{"-h", host, "-P", port, "-u", "root", "-N", "-B", "--local-infile=1"}, flags...)
		return outputOf(t, script, client, append(args, "files")...)
	}
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	run("SET GLOBAL local_infile = 1; CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20), x INT, KEY (x)); " +
		"INSERT INTO t VALUES (1, 'old', 5)")
	odd := file("odd.csv", "id,name,x\n1,\"a,b\",\\N\n2,\"q\\\"uote\",7\n3,plain,8\n3,again,9\n")
	const format = ` INTO TABLE t FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '"' IGNORE 1 LINES`
	for _, step := range []struct{ load, want string }{
		{"LOAD DATA LOCAL INFILE '" + odd + "'" + format, "1\told\t5\n2\tq\"uote\t7\n3\tplain\t8\n"},
		{"LOAD DATA LOCAL INFILE '" + odd + "' REPLACE" + format, "1\ta,b\tNULL\n2\tq\"uote\t7\n3\tagain\t9\n"},
		{"TRUNCATE t; LOAD DATA LOCAL INFILE '" + odd + "'" + format + " (id, @n, x) SET name = CONCAT('<', @n, '>')",
			"1\t<a,b>\tNULL\n2\t<q\"uote>\t7\n3\t<plain>\t8\n"},
		{"BEGIN; LOAD DATA LOCAL INFILE '" + odd + "' REPLACE" + format + "; ROLLBACK",
			"1\t<a,b>\tNULL\n2\t<q\"uote>\t7\n3\t<plain>\t8\n"},
	} {
		run(step.load)
		if got := run("SELECT * FROM t ORDER BY id"); got != step.want {
			t.Errorf("after %s\n%s\nwant\n%s", step.load, got, step.want)
		}
	}
	// Many rows, by the client's default format.
	var many strings.Builder
	for i := 10; i < 10_010; i++ {
		fmt.Fprintf(&many, "%d\tname %d\t%d\n", i, i, i%97)
	}
	run("LOAD DATA LOCAL INFILE '" + file("many", many.String()) + "' INTO TABLE t")
	db := c.nodes[0].open(t, "files")
	var n, sum, indexed int
	if err := db.QueryRow("SELECT COUNT(*), CAST(SUM(id) AS SIGNED), (SELECT COUNT(*) "+
		"FROM t WHERE x = 5) FROM t").Scan(&n, &sum, &indexed); err != nil {
		t.Fatal(err)
	}
	if n != 10_003 || sum != (10+10_009)*10_000/2+1+2+3 || indexed != 103 {
		t.Errorf("%d rows, sum %d, %d of x = 5", n, sum, indexed)
	}
	run("SET GLOBAL local_infile = 0")
}

// TestStockClientPrepares: PREPARE is answered by a message that is shorter than others.
func TestStockClientPrepares(t *testing.T) {
	client := tool(t, "mysql", "mariadb")
	c := shared.database(t, "prepares")
	host, port, _ := net.SplitHostPort(c.nodes[0].sql)
	out := outputOf(t, "PREPARE p FROM 'SELECT ? + 1'; SET @a = 41; EXECUTE p USING @a; DEALLOCATE PREPARE p", client,
		"-h", host, "-P", port, "-u", "root", "-N", "-B", "prepares")
	if strings.TrimSpace(out) != "42" {
		t.Errorf("got %q", out)
	}
}
