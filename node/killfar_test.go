package node

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// farStatement is one that works across regions. $N is another number each time it runs.
type farStatement struct {
	name   string
	before []string // run by the same client before it
	run    string
	// done counts, by another client, what the statement has done; "": it does nothing that stays.
	done  string
	after []string // run by the same client after it
	long  bool     // with GODWIT_LONG only
	parts bool     // a part of it may stay
}

var farStatements = []farStatement{
	{name: "own row", run: "INSERT INTO t VALUES ($N, $N, 0)", done: "SELECT COUNT(*) FROM t WHERE id = $N"},
	{name: "own row, COMMIT", long: true, before: []string{"BEGIN", "INSERT INTO t VALUES ($N, $N, 0)"}, run: "COMMIT",
		done: "SELECT COUNT(*) FROM t WHERE id = $N"},
	{name: "foreign row", run: "UPDATE f SET n = $N WHERE id = 1", done: "SELECT COUNT(*) FROM f WHERE n = $N"},
	{name: "foreign row, COMMIT", long: true, before: []string{"BEGIN", "UPDATE f SET n = $N WHERE id = 1"}, run: "COMMIT",
		done: "SELECT COUNT(*) FROM f WHERE n = $N"},
	{name: "rows of two regions", run: "UPDATE f, t SET f.n = $N, t.n = $N WHERE f.id = 1 AND t.id = 1",
		done: "SELECT COUNT(*) FROM f WHERE n = $N"},
	{name: "rows of two regions, COMMIT", before: []string{"BEGIN", "UPDATE f SET n = $N WHERE id = 1",
		"UPDATE t SET n = $N WHERE id = 1"}, run: "COMMIT", done: "SELECT COUNT(*) FROM f WHERE n = $N"},
	{name: "GLOBAL", run: "INSERT INTO g VALUES ($N, 1)", done: "SELECT COUNT(*) FROM g WHERE id = $N"},
	{name: "MULTI MASTER", run: "INSERT INTO m VALUES ($N, 1)", done: "SELECT COUNT(*) FROM m WHERE id = $N"},
	{name: "ASYNC", long: true, run: "INSERT INTO a VALUES ($N, 1)", done: "SELECT COUNT(*) FROM a WHERE id = $N"},
	{name: "AUTO_INCREMENT", long: true, run: "INSERT INTO ai (n) VALUES ($N)", done: "SELECT COUNT(*) FROM ai WHERE n = $N"},
	{name: "LOAD DATA", run: "LOAD DATA LOCAL INFILE 'Reader::$N' INTO TABLE f", done: "SELECT COUNT(*) FROM f WHERE id = $N"},
	{name: "CALL", parts: true, run: "CALL twain($N)", done: "SELECT COUNT(*) FROM f WHERE n = $N"},
	{name: "SELECT", long: true, run: "SELECT SUM(n) FROM f"},
	{name: "SELECT FOR UPDATE", long: true, before: []string{"BEGIN"}, run: "SELECT * FROM f FOR UPDATE",
		after: []string{"ROLLBACK"}},
	{name: "CREATE TABLE", long: true, run: "CREATE TABLE c$N (id INT PRIMARY KEY)",
		done: "SELECT COUNT(*) FROM information_schema.tables WHERE table_name = 'c$N'"},
	{name: "CREATE TABLE SELECT", run: "CREATE TABLE cs$N (PRIMARY KEY (id)) SELECT * FROM f",
		done: "SELECT COUNT(*) FROM information_schema.tables WHERE table_name = 'cs$N'"},
	{name: "CREATE INDEX", run: "CREATE INDEX i$N ON f (n)",
		done: "SELECT COUNT(*) FROM information_schema.statistics WHERE index_name = 'i$N'"},
	{name: "ADD COLUMN", long: true, run: "ALTER TABLE f ADD COLUMN x$N INT",
		done: "SELECT COUNT(*) FROM information_schema.columns WHERE column_name = 'x$N'"},
	{name: "MODIFY COLUMN", before: []string{"CREATE TABLE w$N (id INT PRIMARY KEY, v INT)", "INSERT INTO w$N VALUES (1,1)"},
		run:  "ALTER TABLE w$N MODIFY v VARCHAR(20)",
		done: "SELECT COUNT(*) FROM information_schema.columns WHERE table_name = 'w$N' AND data_type = 'varchar'"},
	{name: "ADD PRIMARY KEY", long: true, before: []string{"CREATE TABLE p$N (id INT NOT NULL, v INT)", "INSERT INTO p$N VALUES (1,1)"},
		run:  "ALTER TABLE p$N ADD PRIMARY KEY (id)",
		done: "SELECT COUNT(*) FROM information_schema.statistics WHERE table_name = 'p$N'"},
	{name: "SET REPLICATION", long: true, before: []string{"CREATE TABLE r$N (id INT PRIMARY KEY)", "INSERT INTO r$N VALUES (1)"},
		run: "ALTER TABLE r$N SET REPLICATION ASYNC"},
	{name: "SET LOCALITY", before: []string{"CREATE TABLE l$N (id INT PRIMARY KEY)", "INSERT INTO l$N VALUES (1)"},
		run: "ALTER TABLE l$N SET LOCALITY GLOBAL"},
	{name: "SPLIT", long: true, before: []string{"CREATE TABLE sp$N (id INT PRIMARY KEY)", "INSERT INTO sp$N VALUES (1)"},
		run: "ALTER TABLE sp$N SPLIT INTO 2 SHARDS"},
	{name: "DROP TABLE", long: true, before: []string{"CREATE TABLE d$N (id INT PRIMARY KEY)"}, run: "DROP TABLE d$N",
		done: "SELECT COUNT(*) = 0 FROM information_schema.tables WHERE table_name = 'd$N'"},
	{name: "TRUNCATE", long: true, before: []string{"CREATE TABLE e$N (id INT PRIMARY KEY)", "INSERT INTO e$N VALUES (1)"},
		run: "TRUNCATE e$N", done: "SELECT COUNT(*) = 0 FROM e$N"},
	{name: "RENAME", long: true, before: []string{"CREATE TABLE n$N (id INT PRIMARY KEY)"}, run: "RENAME TABLE n$N TO o$N",
		done: "SELECT COUNT(*) FROM information_schema.tables WHERE table_name = 'o$N'"},
	{name: "CREATE VIEW", long: true, run: "CREATE VIEW v$N AS SELECT * FROM f",
		done: "SELECT COUNT(*) FROM information_schema.views WHERE table_name = 'v$N'"},
	{name: "CREATE DATABASE", long: true, run: "CREATE DATABASE db$N",
		done: "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = 'db$N'"},
	{name: "CREATE USER", run: "CREATE USER u$N", done: "SELECT COUNT(*) FROM mysql.user WHERE user = 'u$N'"},
	{name: "GRANT", long: true, before: []string{"CREATE USER gr$N"}, run: "GRANT SELECT ON d.* TO gr$N",
		done: "SELECT COUNT(*) FROM mysql.db WHERE user = 'gr$N'"},
	{name: "CREATE PROCEDURE", long: true, run: "CREATE PROCEDURE pr$N() SELECT 1",
		done: "SELECT COUNT(*) FROM information_schema.routines WHERE routine_name = 'pr$N'"},
	{name: "CREATE TRIGGER", long: true, run: "CREATE TRIGGER tr$N BEFORE INSERT ON ai FOR EACH ROW SET @x = 1",
		done: "SELECT COUNT(*) FROM information_schema.triggers WHERE trigger_name = 'tr$N'"},
	{name: "ANALYZE", long: true, run: "ANALYZE TABLE f"},
	{name: "CHECK TABLE", long: true, run: "CHECK TABLE f"},
	{name: "LOCK TABLES", long: true, run: "LOCK TABLES f WRITE", after: []string{"UNLOCK TABLES"}},
	{name: "GET_LOCK", long: true, run: "SELECT GET_LOCK('l$N', 10)"},
	{name: "SET GLOBAL", long: true, run: "SET GLOBAL max_connections = 500"},
	{name: "SET long_query_time", long: true, run: "SET GLOBAL long_query_time = 11"},
	{name: "SHOW GODWIT HEALTH", long: true, run: "SHOW GODWIT HEALTH"},
	{name: "SHOW PROCESSLIST", long: true, run: "SHOW PROCESSLIST"},
}

// TestKillFar: a client hears of KILL within 100 ms, also while its statement waits for other
// regions, for a commit that has been sent or for a definition that is taken back. What it hears is
// true: 1317 says that nothing was done, and where it is told that the outcome is unknown, its next
// statement knows. The times are virtual.
func TestKillFar(t *testing.T) {
	long := os.Getenv("GODWIT_LONG") != ""
	for _, far := range farStatements {
		if far.long && !long {
			continue
		}
		t.Run(far.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				steps := 3
				if long {
					steps = 25
				}
				startKillFar(t, far).kills(steps)
			})
		})
	}
}

// killFar kills one statement at many moments.
type killFar struct {
	farStatement
	t           *testing.T
	l           *Local
	root, other *sql.Conn
	n           int
}

func startKillFar(t *testing.T, far farStatement) *killFar {
	l := startLocal(t, 3, 1)
	k := &killFar{farStatement: far, t: t, l: l, root: openSQL(t, l.Nodes()[0], ""), other: openSQL(t, l.Nodes()[2], ""), n: 1000}
	mustExec(t, k.root, "CREATE DATABASE d")
	for _, q := range []string{"USE d", "SET GLOBAL local_infile = 1", "CREATE TABLE t (id INT PRIMARY KEY, v INT, n INT)",
		"CREATE TABLE ai (id INT PRIMARY KEY AUTO_INCREMENT, n INT)",
		"CREATE TABLE g (id INT PRIMARY KEY, n INT) LOCALITY GLOBAL",
		"CREATE TABLE m (id INT PRIMARY KEY, n INT) LOCALITY MULTI MASTER",
		"CREATE TABLE a (id INT PRIMARY KEY, n INT) REPLICATION ASYNC", "INSERT INTO t VALUES (1,1,0)"} {
		mustExec(t, k.root, q)
	}
	for _, q := range []string{"USE d", "CREATE TABLE f (id INT PRIMARY KEY, v INT, n INT) LOCALITY REGIONAL BY TABLE",
		"INSERT INTO f VALUES (1,1,0),(2,2,0),(3,3,0)",
		"CREATE PROCEDURE twain(v INT) BEGIN UPDATE f SET n = v WHERE id = 1; UPDATE t SET n = v WHERE id = 1; END"} {
		mustExec(t, k.other, q)
	}
	time.Sleep(10 * time.Second)
	return k
}

func (k *killFar) text(s string) string { return strings.ReplaceAll(s, "$N", strconv.Itoa(k.n)) }

// kills runs the statement to its end, and then as often as steps says, killed after another time.
func (k *killFar) kills(steps int) {
	var takes time.Duration
	for range 2 {
		took, _, err := k.once(0)
		if err != nil {
			k.t.Fatalf("%s: %v", k.text(k.run), err)
		}
		takes = max(took, takes)
	}
	var worst time.Duration
	said := map[string]int{}
	for i := range steps {
		kill := takes*time.Duration(2*i+1)/time.Duration(2*steps) + 1
		_, late, err := k.once(kill)
		worst = max(worst, late)
		if late > 100*time.Millisecond {
			k.t.Errorf("%s, killed after %v of %v: the client heard of it %v later: %v", k.text(k.run), kill, takes, late, err)
		}
		said[k.check(err)]++
	}
	k.t.Logf("takes %v, heard of KILL within %v: %v", takes, worst, said)
}

// once runs the statement, and kills it after a while unless that is 0. late is when its client
// heard of that.
func (k *killFar) once(after time.Duration) (took, late time.Duration, err error) {
	k.n++
	c := openSQL(k.t, k.l.Nodes()[0], "d")
	defer c.Close()
	id := column(k.t, c, "SELECT CONNECTION_ID()")[0]
	for _, s := range k.before {
		mustExec(k.t, c, k.text(s))
	}
	name := k.text("$N")
	mysql.RegisterReaderHandler(name, func() io.Reader { return strings.NewReader(name + "\t1\t1\n") })
	defer mysql.DeregisterReaderHandler(name)
	begin, ended := time.Now(), make(chan time.Time, 1)
	go func() {
		_, err = c.ExecContext(k.t.Context(), k.text(k.run))
		ended <- time.Now()
	}()
	if after > 0 {
		time.Sleep(after)
		mustExec(k.t, k.root, "KILL QUERY "+id)
	}
	killed := time.Now()
	end := <-ended
	for _, s := range k.after {
		mustExec(k.t, c, k.text(s))
	}
	if k.done != "" && (err == nil || strings.Contains(err.Error(), "next statement of this session")) {
		k.agree(c, err)
	}
	return end.Sub(begin), end.Sub(killed), err
}

// agree checks that the statement after the killed one sees what others see later.
func (k *killFar) agree(c *sql.Conn, told error) {
	k.t.Helper()
	mine := column(k.t, c, k.text(k.done))[0]
	time.Sleep(5 * time.Second)
	if theirs := column(k.t, k.other, k.text(k.done))[0]; mine != theirs {
		k.t.Errorf("%s (%v): the next statement sees %s, others %s", k.text(k.run), told, mine, theirs)
	}
}

// check says what the client was told, and checks that it is true.
func (k *killFar) check(err error) string {
	var me *mysql.MySQLError
	did := ""
	if k.done != "" && !k.parts {
		time.Sleep(5 * time.Second)
		did = column(k.t, k.other, k.text(k.done))[0]
	}
	switch {
	case err == nil:
		if did == "0" {
			k.t.Errorf("%s: OK, but it did nothing", k.text(k.run))
		}
		return "OK"
	case errors.As(err, &me) && me.Number == 1317:
		if did == "1" {
			k.t.Errorf("%s: %v, but it was done", k.text(k.run), err)
		}
		return "1317"
	case errors.As(err, &me) && strings.Contains(me.Message, "The outcome of the commit is unknown"):
		return fmt.Sprint("unknown, done: ", did)
	}
	k.t.Errorf("%s: %v", k.text(k.run), err)
	return err.Error()
}
