package node

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/node/residency"
	"github.com/godwitdb/godwit/sql/schema"
)

// TestSplit: a table gets shards of its own and gives them back, beside a client that sees errors
// only that it may retry.
func TestSplit(t *testing.T) { bubble(t, split) }

func split(t *testing.T) {
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
