package e2e

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// debeziumVar names a directory with the libraries of lab/suites/debezium/pom.xml; without it Maven
// fetches them.
const debeziumVar = "GODWIT_DEBEZIUM"

// debezium is Debezium's embedded engine, and what tables hold by its events.
type debezium struct {
	t                  *testing.T
	java, classes, dir string
	cmd                *exec.Cmd
	errs               output
	gone               chan struct{}

	mu     sync.Mutex
	events int
	// tables have rows by key, as JSON; those of tables without a key are counted by themselves.
	// Names are those of database and table, with a point between.
	tables map[string]map[string]map[string]any
	counts map[string]map[string]int
}

// newDebezium fetches and compiles what is needed.
func newDebezium(t *testing.T) *debezium {
	t.Helper()
	d := &debezium{t: t, java: tool(t, "java"), dir: t.TempDir(), tables: map[string]map[string]map[string]any{}, counts: map[string]map[string]int{}}
	javac := tool(t, "javac")
	libs := os.Getenv(debeziumVar)
	if libs == "" {
		libs = t.TempDir()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if out, err := exec.CommandContext(ctx, tool(t, "mvn"), "-q", "-B", "-f", "../suites/debezium/pom.xml", "dependency:copy-dependencies",
			"-DoutputDirectory="+libs).CombinedOutput(); err != nil {
			t.Skipf("Debezium cannot be had: %v\n%s", err, out)
		}
	}
	classes := t.TempDir()
	d.classes = classes + string(os.PathListSeparator) + filepath.Join(libs, "*")
	if out, err := exec.CommandContext(t.Context(), javac, "-cp", filepath.Join(libs, "*"), "-d", classes, "../suites/debezium/Follow.java").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return d
}

// start follows a node, from where it was.
func (d *debezium) start(n *node) {
	d.t.Helper()
	d.cmd = exec.Command(d.java, "-Xmx512m", "-cp", d.classes, "Follow", n.sql, d.dir)
	d.cmd.Stderr = &d.errs
	out, err := d.cmd.StdoutPipe()
	if err == nil {
		err = d.cmd.Start()
	}
	if err != nil {
		d.t.Fatal(err)
	}
	gone := make(chan struct{})
	d.gone = gone
	go func() {
		defer close(gone)
		in := bufio.NewScanner(out)
		in.Buffer(nil, 16<<20)
		for in.Scan() {
			d.take(in.Text())
		}
	}()
}

func (d *debezium) kill() {
	if d.cmd != nil {
		_ = d.cmd.Process.Kill()
		<-d.gone
		_ = d.cmd.Wait()
	}
}

// take takes an event.
func (d *debezium) take(line string) {
	f := strings.SplitN(line, "\t", 3)
	if len(f) != 3 || strings.Count(f[0], ".") != 2 {
		return
	}
	var e struct {
		Op            string
		Before, After map[string]any
	}
	in := json.NewDecoder(strings.NewReader(f[2]))
	in.UseNumber()
	if err := in.Decode(&e); err != nil {
		d.t.Errorf("%s: %v", line, err)
		return
	}
	table := strings.TrimPrefix(f[0], "g.")
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events++
	rows, counts := d.tables[table], d.counts[table]
	if rows == nil || e.Op == "t" {
		rows, counts = map[string]map[string]any{}, map[string]int{}
		d.tables[table], d.counts[table] = rows, counts
	}
	if f[1] != "null" {
		if e.After == nil {
			delete(rows, f[1])
		} else {
			rows[f[1]] = e.After
		}
		return
	}
	for delta, row := range map[int]map[string]any{-1: e.Before, 1: e.After} {
		if row != nil {
			b, _ := json.Marshal(row)
			counts[string(b)] += delta
			rows[string(b)] = row
		}
	}
}

// await waits until a mark that is written now has arrived.
func (d *debezium) await(source *sql.DB, mark int) {
	d.t.Helper()
	exec1(d.t, source, "INSERT INTO follow.marks VALUES (?)", mark)
	begin := time.Now()
	for {
		d.mu.Lock()
		_, ok := d.tables["follow.marks"][fmt.Sprintf(`{"id":%d}`, mark)]
		d.mu.Unlock()
		if ok {
			d.t.Logf("mark %d arrived after %s", mark, time.Since(begin).Round(time.Millisecond))
			return
		}
		// An engine that was started anew applies all definitions again first: a second each, and
		// more on a busy machine.
		if time.Since(begin) > 4*patience {
			d.t.Fatalf("mark %d has not arrived:\n%s", mark, d.why())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// why is what it says of errors, the last ones, or what it has said last.
func (d *debezium) why() string {
	var out, all []string
	for line := range strings.Lines(d.errs.String()) {
		if strings.Contains(line, "ERROR") || strings.Contains(line, "Caused by") || strings.Contains(line, "Exception") {
			out = append(out, line)
		}
		all = append(all, line)
	}
	if len(out) == 0 {
		return strings.Join(all[max(0, len(all)-30):], "")
	}
	return strings.Join(out[max(0, len(out)-12):], "")
}

// column is a column of a table, by its type.
type column struct {
	name, kind string
	precision  int
}

// text is a value of an event as a client sees it.
func (c column) text(v any) string {
	if v == nil {
		return "NULL"
	}
	s := fmt.Sprint(v)
	n, _ := strconv.ParseInt(s, 10, 64)
	switch c.kind {
	case "date":
		return time.Unix(n*86400, 0).UTC().Format(time.DateOnly)
	case "datetime":
		t := time.UnixMilli(n).UTC()
		if c.precision > 3 {
			t = time.UnixMicro(n).UTC()
		}
		return t.Format("2006-01-02 15:04:05.000000")
	case "timestamp":
		t, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return s
		}
		return t.UTC().Format("2006-01-02 15:04:05.000000")
	case "time":
		sign := ""
		if n < 0 {
			sign, n = "-", -n
		}
		return fmt.Sprintf("%s%02d:%02d:%02d.%06d", sign, n/3600e6, n/60e6%60, n/1e6%60, n%1e6)
	case "bigint unsigned": // Debezium's default is a long
		return strconv.FormatUint(uint64(n), 10)
	case "float", "double":
		f, _ := strconv.ParseFloat(s, 64)
		return strconv.FormatFloat(f, 'g', 6, 64)
	case "json":
		var x any
		_ = json.Unmarshal([]byte(s), &x)
		b, _ := json.Marshal(x)
		return string(b)
	}
	return s
}

// expr is what a client asks for to see the same text.
func (c column) expr() string {
	q := "`" + c.name + "`"
	switch c.kind {
	case "datetime", "timestamp":
		return "DATE_FORMAT(" + q + ", '%Y-%m-%d %H:%i:%s.%f')"
	case "time":
		return "CAST(" + q + " AS TIME(6))"
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		return "LOWER(HEX(" + q + "))"
	}
	return q
}

// compare demands that all tables of a database hold what the events say. BITs are left out, which
// Debezium has as bytes.
func (d *debezium) compare(source *sql.DB, database string) {
	d.t.Helper()
	cols := map[string][]column{}
	rows, err := source.Query("SELECT c.table_name, c.column_name, IF(c.column_type = 'bigint unsigned', c.column_type, c.data_type), COALESCE(c.datetime_precision, 0) FROM information_schema.columns c "+
		"JOIN information_schema.tables t USING (table_schema, table_name) WHERE c.table_schema = ? AND t.table_type = 'BASE TABLE' ORDER BY 1, c.ordinal_position", database)
	if err != nil {
		d.t.Fatal(err)
	}
	for rows.Next() {
		var table string
		var c column
		if err := rows.Scan(&table, &c.name, &c.kind, &c.precision); err != nil {
			d.t.Fatal(err)
		}
		if c.kind != "bit" {
			cols[database+"."+table] = append(cols[database+"."+table], c)
		}
	}
	if err := rows.Err(); err != nil {
		d.t.Fatal(err)
	}
	exec1(d.t, source, "SET time_zone = '+00:00'")
	d.mu.Lock()
	defer d.mu.Unlock()
	total := 0
	for table, cs := range cols {
		want := d.rows(source, table, cs)
		var got []string
		for key, row := range d.tables[table] {
			var fs []string
			for _, c := range cs {
				fs = append(fs, c.text(row[c.name]))
			}
			n := 1
			if count, ok := d.counts[table][key]; ok {
				n = count
			}
			for range n {
				got = append(got, strings.Join(fs, "|"))
			}
		}
		slices.Sort(got)
		total += len(want)
		if !slices.Equal(got, want) {
			d.t.Errorf("%s: %d rows, want %d", table, len(got), len(want))
			for i, shown := 0, 0; i < min(len(got), len(want)) && shown < 3; i++ {
				if got[i] != want[i] {
					shown++
					d.t.Errorf("%s:\nhas  %s\nwant %s", table, got[i], want[i])
				}
			}
		}
	}
	if !d.t.Failed() {
		d.t.Logf("%s: %d tables agree, with %d rows, after %d events", database, len(cols), total, d.events)
	}
}

// rows are those of the source.
func (d *debezium) rows(source *sql.DB, table string, cs []column) (out []string) {
	var list []string
	for _, c := range cs {
		list = append(list, c.expr())
	}
	rows, err := source.Query("SELECT " + strings.Join(list, ", ") + " FROM " + table)
	if err != nil {
		d.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		vals, to := make([]sql.NullString, len(cs)), make([]any, len(cs))
		for i := range vals {
			to[i] = &vals[i]
		}
		if err := rows.Scan(to...); err != nil {
			d.t.Fatal(err)
		}
		var fs []string
		for i, v := range vals {
			switch s := v.String; {
			case !v.Valid:
				s = "NULL"
				fallthrough
			default:
				if k := cs[i].kind; v.Valid && (k == "float" || k == "double" || k == "json") {
					s = cs[i].text(s)
				}
				fs = append(fs, s)
			}
		}
		out = append(out, strings.Join(fs, "|"))
	}
	if err := rows.Err(); err != nil {
		d.t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

// debeziumDefinitions are executed once each, in this order. Columns that come and go have their
// rows told anew, since events alone do not tell what a new column holds.
var debeziumDefinitions = []string{
	"ALTER TABLE follow.orders ADD COLUMN extra VARCHAR(10) DEFAULT 'e' AFTER cust, ADD INDEX (total)",
	"UPDATE follow.orders SET extra = CONCAT('u', id % 10)",
	"CREATE TABLE follow.t3 (a INT PRIMARY KEY, n INT)", "INSERT INTO follow.t3 VALUES (1, 1), (2, 2)",
	"ALTER TABLE follow.t3 DROP COLUMN n",
	"CREATE TABLE follow.copied (id BIGINT PRIMARY KEY, total DECIMAL(20,6)) AS SELECT id, total FROM follow.orders LIMIT 10",
	"CREATE VIEW follow.spent AS SELECT cust, SUM(total) AS s FROM follow.orders GROUP BY cust",
	"CREATE TABLE follow.gone (a INT)", "INSERT INTO follow.gone VALUES (1)", "TRUNCATE TABLE follow.gone", "DROP TABLE follow.gone",
	"ALTER TABLE follow.uniques RENAME COLUMN u TO uu", "DELETE FROM follow.uniques", "INSERT INTO follow.uniques VALUES (70, 70)",
	"TRUNCATE TABLE follow.copied", "INSERT INTO follow.copied VALUES (7, 8)",
	"ALTER TABLE follow.orders DROP COLUMN extra",
}

// TestDebezium: Debezium's embedded engine follows through random statements and new definitions,
// while the gateway that it reads from is killed, twice; then it is killed itself, and goes on at
// another gateway. What tables hold by its events is what they hold.
func TestDebezium(t *testing.T) {
	needTime(t)
	d := newDebezium(t)
	t.Cleanup(d.kill)
	c := startCluster(t, t.TempDir(), 3, 1)
	t.Cleanup(c.kill)
	c.logOnFailure(t)
	source := c.nodes[0].open(t, "")
	exec1(t, source, "CREATE USER 'repl'@'%' IDENTIFIED WITH mysql_native_password BY 'p'")
	exec1(t, source, "GRANT REPLICATION SLAVE, REPLICATION CLIENT, RELOAD, SELECT ON *.* TO 'repl'@'%'")
	exec1(t, source, "CREATE DATABASE follow")
	exec1(t, source, "CREATE TABLE follow.marks (id INT PRIMARY KEY)")
	d.start(c.nodes[2])
	d.begin(source)
	for _, q := range followSchema[2:] {
		exec1(t, source, q)
	}
	d.await(source, 1)
	source = c.nodes[0].open(t, "follow")
	source.SetMaxOpenConns(1)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	var mu sync.Mutex
	done, failed := 0, 0
	for i, n := range c.nodes[:2] {
		db := n.open(t, "")
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 6))
			for ctx.Err() == nil {
				_, err := db.ExecContext(ctx, followStatements[rng.IntN(len(followStatements))](rng))
				mu.Lock()
				if done++; err != nil {
					failed++
				}
				mu.Unlock()
			}
		})
	}
	third := len(debeziumDefinitions) / 3
	for i := range 3 {
		end := (i + 1) * third
		if i == 2 {
			end = len(debeziumDefinitions)
		}
		for _, q := range debeziumDefinitions[i*third : end] {
			if !executed(t, source, q) {
				return
			}
		}
		d.await(source, 10+i)
		if i == 2 {
			break
		}
		c.nodes[2].kill()
		time.Sleep(time.Second) // statements that it has to catch up with
		c.nodes[2].start(t)
		c.nodes[2].awaitSQL(t)
		d.await(source, 20+i)
	}
	stop()
	wg.Wait()
	d.await(source, 30)
	time.Sleep(2 * time.Second) // its position is written
	d.kill()
	exec1(t, source, "INSERT INTO follow.uniques VALUES (71, 71)")
	d.start(c.nodes[1])
	d.await(source, 40)
	t.Logf("%d statements, of which %d failed", done, failed)
	if done-failed < 100 {
		t.Errorf("only %d statements succeeded", done-failed)
	}
	d.compare(source, "follow")
}

// marks are those that have arrived.
func (d *debezium) marks() map[string]map[string]any {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tables["follow.marks"]
}
