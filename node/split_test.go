package node

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/node/residency"
	"github.com/godwitdb/godwit/sql/schema"
)

// TestSplit: a table gets shards of its own and gives them back, beside a client that sees errors
// only that it may retry.
func TestSplit(t *testing.T) { bubble(t, splitTable) }

func splitTable(t *testing.T) {
	t.Helper()
	l := startLocal(t, 3, 2)
	a, b := openSQL(t, l.Nodes()[0], ""), openSQL(t, l.Nodes()[3], "")
	mustExec(t, a, "CREATE DATABASE d")
	for _, c := range []*sql.Conn{a, b} {
		mustExec(t, c, "USE d")
	}
	mustExec(t, a, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40), n INT, UNIQUE (v), KEY (n), KEY (id, n))")
	for i := range 40 {
		mustExec(t, a, "INSERT INTO t VALUES (?, ?, ?)", i, fmt.Sprint("v", i), i%4)
	}
	for q, why := range map[string]string{
		"ALTER TABLE t SPLIT INTO 0 SHARDS":                                         "1 shard of its own or more",
		"ALTER TABLE t SPLIT INTO 2000 SHARDS":                                      "1 to 1024 shards",
		"ALTER TABLE nothere SPLIT INTO 2 SHARDS":                                   "table not found",
		"CREATE TABLE x (id INT PRIMARY KEY) LOCALITY GLOBAL SPLIT INTO 2 SHARDS":   "GLOBAL and MULTI MASTER",
		"CREATE TABLE x (id INT PRIMARY KEY) REPLICATION ASYNC SPLIT INTO 2 SHARDS": "asynchronously",
	} {
		refused(t, a, q, why)
	}
	stop, done := make(chan struct{}), make(chan error, 1)
	written := 0
	c := openSQL(t, l.Nodes()[2], "d")
	go func() { done <- keepWriting(t, c, stop, &written) }()
	shardsOf := func() (out []base.ShardID) {
		def := tableDef(t, l.Nodes()[0], "d", "t")
		return def.Shards()
	}
	check := func(step, clause string) {
		t.Helper()
		for _, q := range []string{"SELECT COUNT(*) FROM t WHERE id < 1000", "SELECT COUNT(*) FROM t FORCE INDEX (n) WHERE n BETWEEN 0 AND 3 AND id < 1000",
			"SELECT COUNT(*) FROM t FORCE INDEX (v) WHERE v LIKE 'v%'"} {
			if got := column(t, b, q)[0]; got != "40" {
				t.Errorf("%s: %s gives %s", step, q, got)
			}
		}
		if got := column(t, a, "SHOW CREATE TABLE t")[0]; strings.Contains(got, "SPLIT INTO") != (clause != "") || !strings.Contains(got, clause) {
			t.Errorf("%s: %s", step, got)
		}
	}
	mustExec(t, a, "ALTER TABLE t SPLIT INTO 4 SHARDS")
	check("split", "SPLIT INTO 4 SHARDS */")
	first := shardsOf()
	if len(first) != 4 || l.Nodes()[0].Cluster().Topology().OwnOf(first[0]) == nil {
		t.Errorf("it lies in shards %v", first)
	}
	mustExec(t, b, "ALTER TABLE t SPLIT INTO 4 SHARDS") // it is
	if again := shardsOf(); !slices.Equal(first, again) {
		t.Errorf("it moved from %v to %v", first, again)
	}
	mustExec(t, b, "ALTER TABLE t SPLIT INTO 2 TABLETS")
	check("merged", "SPLIT INTO 2 SHARDS */")
	mustExec(t, b, "ALTER TABLE t SET LOCALITY REGIONAL BY TABLE IN '"+l.Regions()[1]+"'")
	check("by table", "LOCALITY REGIONAL BY TABLE IN '"+l.Regions()[1]+"' SPLIT INTO 2 SHARDS */")
	mustExec(t, b, "ALTER TABLE t SET LOCALITY REGIONAL BY ROW")
	mustExec(t, b, "ALTER TABLE t UNSPLIT ALL")
	check("unsplit", "")
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := column(t, b, "SELECT COUNT(*) FROM t WHERE id >= 1000")[0]; got != fmt.Sprint(written) || written == 0 {
		t.Errorf("%d rows were written beside, and there are %s", written, got)
	}
	// The next one that asks for as many gets what is free.
	sets := len(l.Nodes()[0].Cluster().Topology().Own)
	mustExec(t, a, "CREATE TABLE u (id INT PRIMARY KEY) SPLIT INTO 4 SHARDS")
	mustExec(t, a, "INSERT INTO u VALUES (1), (2), (3)")
	mustExec(t, a, "TRUNCATE TABLE u")
	mustExec(t, a, "INSERT INTO u VALUES (4)")
	mustExec(t, a, "ALTER TABLE u MODIFY id BIGINT")
	if def := tableDef(t, l.Nodes()[0], "d", "u"); !slices.Equal(def.Shards(), first) || len(l.Nodes()[0].Cluster().Topology().Own) != sets {
		t.Errorf("it lies in %v, and %v were free", def.Shards(), first)
	}
	if got := column(t, b, "SELECT id FROM u"); len(got) != 1 || got[0] != "4" {
		t.Error(got)
	}
	mustExec(t, a, "ANALYZE TABLE u")
	showsShards(t, l, a)
	for _, q := range []string{"ALTER TABLE u SET LOCALITY GLOBAL", "ALTER TABLE u SET LOCALITY REGIONAL BY ROW"} {
		mustExec(t, a, q)
		if got := column(t, a, "SHOW CREATE TABLE u")[0]; strings.Contains(got, "SPLIT") {
			t.Errorf("after %s: %s", q, got)
		}
	}
	mustExec(t, a, "ALTER TABLE u SPLIT INTO 1 SHARDS")
	mustExec(t, a, "ALTER TABLE u SET REPLICATION ASYNC")
	refused(t, a, "ALTER TABLE u SPLIT INTO 2 SHARDS", "asynchronously")
	if got := column(t, b, "SELECT id FROM u"); len(got) != 1 || got[0] != "4" {
		t.Error(got)
	}
}

// showsShards looks at SHOW SHARDS and EXPLAIN: table u has four shards of its own and one row.
func showsShards(t *testing.T, l *Local, c *sql.Conn) {
	t.Helper()
	topo := l.Nodes()[0].Cluster().Topology()
	all := rowsOf(t, c, "SHOW SHARDS")
	if want := len(topo.DataShards()); len(all) != want {
		t.Errorf("SHOW SHARDS has %d rows, want %d", len(all), want)
	}
	states := map[string]int{}
	for _, r := range all {
		states[strings.Split(r, "|")[3]]++
	}
	if states["shared"] != topo.Shards || states["own"] != 4 || states["free"] != len(topo.DataShards())-topo.Shards-4 {
		t.Errorf("there are shards %v", states)
	}
	of := rowsOf(t, c, "SHOW SHARDS FROM TABLE u")
	for i, r := range of {
		f := strings.Split(r, "|")
		s := tableDef(t, l.Nodes()[0], "d", "u").Shards()[i]
		if f[0] != fmt.Sprint(s) || f[1] != "d.u" || f[3] != "own" || strings.Count(f[4], "@") != 3 || strings.Contains(f[5], "none") ||
			f[6] != strings.Trim(strings.ReplaceAll(fmt.Sprint(topo.ShardReplicas(s)), " ", ", "), "[]") || f[8] == "" {
			t.Errorf("shard %d is shown as %q", s, r)
		}
	}
	if len(of) != 4 {
		t.Errorf("table u has the shards %q", of)
	}
	if got := one(t, c, "EXPLAIN ALTER TABLE u SPLIT INTO 8 SHARDS"); got[0] != "d.u" || got[3] != "4" || got[4] != "8" || got[7] != "3" {
		t.Errorf("EXPLAIN says %q", got)
	}
	if got := one(t, c, "EXPLAIN ALTER TABLE u SPLIT INTO 4 SHARDS"); got[5] != "0" || !strings.Contains(got[8], "nothing is written") {
		t.Errorf("EXPLAIN says %q", got)
	}
	if n := len(topo.Own); n != len(l.Nodes()[0].Cluster().Topology().Own) {
		t.Error("EXPLAIN makes shards")
	}
	mustExec(t, c, "CREATE USER other")
	mustExec(t, c, "GRANT SELECT ON d.u TO other")
	defer mustExec(t, c, "DROP USER other")
	as := openAs(t, l.Nodes()[0], "other")
	if _, err := as.ExecContext(t.Context(), "SHOW SHARDS FROM d.u"); err != nil {
		t.Error(err)
	}
	refused(t, as, "SHOW SHARDS", "denied")
	refused(t, as, "SHOW SHARDS FROM d.t", "denied")
	refused(t, as, "ALTER TABLE d.u SPLIT INTO 2 SHARDS", "denied")
	refused(t, as, "EXPLAIN ALTER TABLE d.u SPLIT INTO 2 SHARDS", "denied")
}

// TestSplitBackups: a backup of a table with shards of its own restores it with as many, in the
// same cluster and in another one.
func TestSplitBackups(t *testing.T) { bubble(t, splitBackups) }

func splitBackups(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	l, cs := startBackups(t, 3, dir)
	to := " 'file://" + dir + "'"
	mustExec(t, cs[0], "CREATE DATABASE d")
	mustExec(t, cs[0], "CREATE TABLE d.t (id INT PRIMARY KEY, v INT, KEY (v), UNIQUE (v)) SPLIT INTO 3 SHARDS")
	mustExec(t, cs[0], "INSERT INTO d.t VALUES (1, 10), (2, 20), (3, 30), (4, 40), (5, 50)")
	mustExec(t, cs[0], "BACKUP DATABASE d INTO"+to)
	was := tableDef(t, l.Nodes()[0], "d", "t").Shards()
	check := func(l *Local, c *sql.Conn, name, rows string) []base.ShardID {
		t.Helper()
		if got := strings.Join(column(t, c, "SELECT v FROM "+name+" ORDER BY v"), " "); got != rows {
			t.Errorf("%s holds %s", name, got)
		}
		if got := column(t, c, "SHOW CREATE TABLE "+name)[0]; !strings.Contains(got, "SPLIT INTO 3 SHARDS") {
			t.Error(got)
		}
		db, table, _ := strings.Cut(name, ".")
		return tableDef(t, l.Nodes()[0], db, table).Shards()
	}
	mustExec(t, cs[1], "DELETE FROM d.t WHERE id > 3")
	mustExec(t, cs[1], "RESTORE TABLE d.t FROM"+to+" AS d.u")
	if got := check(l, cs[2], "d.u", "10 20 30 40 50"); slices.Equal(got, was) {
		t.Errorf("two tables have the shards %v", got)
	}
	mustExec(t, cs[1], "DROP TABLE d.t")
	mustExec(t, cs[1], "UNDROP TABLE d.t")
	check(l, cs[0], "d.t", "10 20 30")
	other, oc := startBackups(t, 3, dir)
	mustExec(t, oc[0], "RESTORE DATABASE d FROM"+to)
	check(other, oc[1], "d.t", "10 20 30 40 50")
}

// keepWriting inserts rows, updates and deletes until it is stopped. Errors that a client may retry
// are.
func keepWriting(t *testing.T, c *sql.Conn, stop chan struct{}, written *int) error {
	for i := 1000; ; i++ {
		select {
		case <-stop:
			return nil
		default:
		}
		for _, q := range []string{"INSERT INTO t VALUES (?, CONCAT('w', ?), 7)", "UPDATE t SET n = 8 WHERE id = ? AND id = ?"} {
			for {
				_, err := c.ExecContext(t.Context(), q, i, i)
				var e *mysql.MySQLError
				if err != nil && errors.As(err, &e) && (e.Number == 1213 || e.Number == 1205 || e.Number == 1412) {
					continue
				}
				if err != nil {
					return fmt.Errorf("%s with %d: %w", q, i, err)
				}
				break
			}
		}
		*written++
	}
}

// TestSplitPlacement: tables with a placement, by row too, have shards of their own inside.
func TestSplitPlacement(t *testing.T) { bubble(t, splitPlacement) }

func splitPlacement(t *testing.T) {
	t.Helper()
	l := startLocal(t, 5, 1)
	names := l.Regions()
	in, out := openSQL(t, l.Nodes()[1], ""), openSQL(t, l.Nodes()[4], "")
	mustExec(t, in, "CREATE DATABASE d")
	mustExec(t, in, "USE d")
	mustExec(t, out, "USE d")
	mustExec(t, in, "CREATE PLACEMENT eu REGIONS ('"+names[1]+"', '"+names[2]+"')")
	mustExec(t, in, "CREATE PLACEMENT wide REGIONS ('"+names[0]+"', '"+names[1]+"', '"+names[2]+"', '"+names[3]+"') VOTERS 3")
	mustExec(t, in, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(60), KEY (v)) PLACEMENT eu SPLIT INTO 3 SHARDS")
	mustExec(t, in, "CREATE TABLE r (id INT, c CHAR(2), v VARCHAR(60), PRIMARY KEY (id, c), KEY (v)) PLACEMENT BY (c) (('DE') IN eu, DEFAULT IN NONE)")
	mustExec(t, in, "CREATE TABLE w (id INT PRIMARY KEY, v VARCHAR(60), UNIQUE (v)) PLACEMENT wide")
	for i := range 12 {
		for _, c := range []*sql.Conn{in, out} {
			id := 2*i + map[*sql.Conn]int{in: 0, out: 1}[c]
			mustExec(t, c, "INSERT INTO t VALUES (?, ?)", id, fmt.Sprint(canary, id))
			mustExec(t, c, "INSERT INTO r VALUES (?, 'DE', ?), (?, 'JP', 'anywhere')", id, fmt.Sprint(canary, id), id)
			mustExec(t, c, "INSERT INTO w VALUES (?, ?)", id, fmt.Sprint("w", id))
		}
	}
	same := func(want map[string]string) {
		t.Helper()
		for _, c := range []*sql.Conn{in, out} {
			for q, n := range want {
				if got := column(t, c, q)[0]; got != n {
					t.Errorf("%s: %s, want %s", q, got, n)
				}
			}
		}
	}
	rows := map[string]string{"SELECT COUNT(*) FROM t": "24", "SELECT COUNT(*) FROM t FORCE INDEX (v) WHERE v LIKE 'c%'": "24",
		"SELECT COUNT(*) FROM r": "48", "SELECT COUNT(*) FROM r WHERE c = 'DE'": "24", "SELECT COUNT(*) FROM w FORCE INDEX (v) WHERE v LIKE 'w%'": "24"}
	same(rows)
	mustExec(t, out, "ALTER TABLE r SPLIT INTO 2 SHARDS")
	mustExec(t, out, "ALTER TABLE w SPLIT INTO 2 SHARDS")
	same(rows)
	if got := len(tableDef(t, l.Nodes()[0], "d", "r").Shards()); got != 4 {
		t.Errorf("r has %d shards", got)
	}
	if got := len(tableDef(t, l.Nodes()[0], "d", "w").Shards()); got != 8 {
		t.Errorf("w has %d shards", got)
	}
	mustExec(t, out, "ALTER TABLE w SET PLACEMENT eu")
	same(rows)
	if got := column(t, in, "SHOW CREATE TABLE w")[0]; !strings.HasSuffix(got, "/*!99999 PLACEMENT `eu` SPLIT INTO 2 SHARDS */") {
		t.Error(got)
	}
	if got := column(t, in, "SHOW CREATE TABLE r")[0]; !strings.HasSuffix(got, "(('DE') IN `eu`, DEFAULT IN NONE) SPLIT INTO 2 SHARDS */") {
		t.Error(got)
	}
	refused(t, in, "DROP PLACEMENT eu", "lies in placement eu")
	for i, n := range l.Nodes() {
		inside := i == 1 || i == 2
		if got := storeHas(t, n, canary); got != inside {
			t.Errorf("node %d, in %s, has values of the table: %v", i+1, names[i], got)
		}
		r, err := residency.Audit(t.Context(), n.store, n.Cluster().Topology(), n.ident.Node, residency.Request{})
		if err != nil || len(r.Findings) > 0 {
			t.Errorf("node %d: %v (%v)", i+1, r, err)
		}
	}
}

// tableDef is a table as a node's catalog has it.
func tableDef(t *testing.T, n *Node, db, name string) *schema.Table {
	t.Helper()
	srv, err := n.server()
	if err != nil {
		t.Fatal(err)
	}
	snap, err := srv.Catalog().Fresh(t.Context())
	if err != nil || snap.Table(db, name) == nil {
		t.Fatalf("table %s.%s: %v", db, name, err)
	}
	return snap.Table(db, name)
}

// openAs is a connection of another user.
func openAs(t *testing.T, n *Node, user string) *sql.Conn {
	t.Helper()
	db, err := sql.Open("mysql", strings.Replace(dsn(n, ""), "root@", user+"@", 1))
	if err != nil {
		t.Fatal(err)
	}
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); db.Close() })
	return c
}

// TestSplitByItself: a table whose one shard carries the load of a node gets another one, while a
// second node of the region is idle, and not again.
func TestSplitByItself(t *testing.T) { bubble(t, splitByItself) }

func splitByItself(t *testing.T) {
	t.Helper()
	l := startLocal(t, 2, 2)
	c := openSQL(t, l.Nodes()[0], "")
	mustExec(t, c, "CREATE DATABASE d")
	mustExec(t, c, "CREATE TABLE d.t (id INT PRIMARY KEY, n INT) SPLIT INTO 1 SHARDS")
	for i := range 20 {
		mustExec(t, c, "INSERT INTO d.t VALUES (?, 0)", i)
	}
	for _, q := range []string{"mode = 'dry_run'", "node_requests_per_s = 2", "after = '1m'", "pause = '4m'"} {
		mustExec(t, c, "SET CLUSTER SETTING split."+q)
	}
	load := func(d time.Duration) {
		for end := time.Now().Add(d); time.Now().Before(end); {
			mustExec(t, c, "UPDATE d.t SET n = n + 1 WHERE id = ?", time.Now().UnixMilli()/200%20)
			time.Sleep(200 * time.Millisecond)
		}
	}
	shards := func() int { return len(tableDef(t, l.Nodes()[0], "d", "t").Shards()) }
	load(4 * time.Minute)
	if got := rowsOf(t, c, "SELECT table_name, from_shards, to_shards, reason, dry_run FROM godwit.splits"); len(got) != 1 ||
		got[0] != "d.t|1|2|load|1" || shards() != 1 {
		t.Errorf("in a dry run there are the decisions %q, and %d shards", got, shards())
	}
	mustExec(t, c, "SET CLUSTER SETTING split.mode = 'auto'")
	load(6 * time.Minute)
	if got := rowsOf(t, c, "SELECT to_shards, dry_run, error, JSON_EXTRACT(why_json, '$.table_share') > 0.5 FROM godwit.splits ORDER BY at DESC LIMIT 1"); len(got) != 1 || got[0] != "2|0||1" {
		t.Errorf("the decision is %q: %q", got, rowsOf(t, c, "SELECT * FROM godwit.splits"))
	}
	if shards() != 2 {
		t.Errorf("there are %d shards", shards())
	}
	load(7 * time.Minute)
	if got := column(t, c, "SELECT COUNT(*) FROM godwit.splits"); got[0] != "2" || shards() != 2 {
		t.Errorf("there are %s decisions, and %d shards", got, shards())
	}
}
