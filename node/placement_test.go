package node

import (
	"bytes"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/node/residency"
)

// canary is part of each value of a placed table in these tests.
const canary = "canary-7f3a"

// TestPlacement: a table whose rows lie in three of five regions, used from all of them.
func TestPlacement(t *testing.T) {
	for _, tier := range []string{"strict", "auto"} {
		t.Run(tier, func(t *testing.T) { bubble(t, func(t *testing.T) { placementOfThree(t, tier) }) })
	}
}

func placementOfThree(t *testing.T, tier string) {
	t.Helper()
	l := startLocal(t, 5, 1)
	names := l.Regions()
	in, out := openSQL(t, l.Nodes()[2], ""), openSQL(t, l.Nodes()[4], "")
	mustExec(t, in, "SET CLUSTER SETTING transaction.tier = '"+tier+"'")
	mustExec(t, in, "CREATE DATABASE d")
	for _, c := range []*sql.Conn{in, out} {
		mustExec(t, c, "USE d")
	}
	refused := func(c *sql.Conn, q, why string) {
		t.Helper()
		if _, err := c.ExecContext(t.Context(), q); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", q, err, why)
		}
	}
	regions := fmt.Sprintf("('%s', \"%s\", %s)", names[1], names[2], names[3])
	refused(in, "CREATE PLACEMENT eu REGIONS ('nowhere')", "there is no region")
	refused(in, "CREATE PLACEMENT eu REGIONS ('"+names[1]+"', '"+names[1]+"')", "named twice")
	refused(in, "CREATE PLACEMENT eu REGIONS ('"+names[1]+"') VOTERS 3", "has 1 regions")
	refused(in, "CREATE TABLE t (id INT PRIMARY KEY) PLACEMENT eu", "there is no placement eu")
	mustExec(t, out, "CREATE PLACEMENT eu REGIONS "+regions)
	refused(in, "CREATE PLACEMENT EU REGIONS "+regions, "already")
	mustExec(t, in, "CREATE PLACEMENT IF NOT EXISTS eu REGIONS "+regions)
	refused(in, "ALTER PLACEMENT eu REGIONS ('"+names[1]+"')", "make another")

	mustExec(t, out, "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(60), n INT, UNIQUE (v), KEY (n)) PLACEMENT eu")
	for i := range 4 {
		for _, c := range []*sql.Conn{in, out} {
			mustExec(t, c, "INSERT INTO t (v, n) VALUES (?, ?)", fmt.Sprintf("%s-%d-%p", canary, i, c), i)
		}
	}
	for _, c := range []*sql.Conn{in, out} {
		mustExec(t, c, "UPDATE t SET n = n + 10 WHERE n = 1")
		mustExec(t, c, "UPDATE t SET n = n + 10 WHERE id = 1")
		mustExec(t, c, "DELETE FROM t WHERE n = 3 LIMIT 1")
		for _, q := range []string{"START TRANSACTION", "SELECT * FROM t WHERE id = 2 FOR UPDATE",
			"UPDATE t SET v = CONCAT(v, '+') WHERE id IN (1, 2, 3)", "COMMIT", "ANALYZE TABLE t"} {
			mustExec(t, c, q)
		}
		if got := column(t, c, "SELECT COUNT(*) FROM t WHERE v LIKE '"+canary+"%'"); len(got) != 1 {
			t.Error(got)
		}
	}
	for _, c := range []*sql.Conn{in, out} {
		if got := strings.Join(column(t, c, "SELECT n FROM t ORDER BY n"), " "); got != "0 2 2 11 11 20" {
			t.Errorf("the table holds %s", got)
		}
		if a, b := column(t, c, "SELECT id FROM t FORCE INDEX (n) WHERE n = 2 ORDER BY id"),
			column(t, c, "SELECT id FROM t WHERE n + 0 = 2 ORDER BY id"); len(a) != 2 || fmt.Sprint(a) != fmt.Sprint(b) {
			t.Errorf("by the index there are %v, else %v", a, b)
		}
	}
	// Homes are inside, whoever writes.
	for _, r := range column(t, out, "SELECT DISTINCT home_region FROM t__homes") {
		if r == names[0] || r == names[4] {
			t.Errorf("a row is at home in %s", r)
		}
	}
	there := column(t, in, "SELECT MAX(id) FROM t")[0] // which rows are gone depends on how values were leased
	refused(in, "UPDATE t__homes SET home_region = '"+names[4]+"' WHERE id = "+there, "is not in the placement")
	mustExec(t, in, "UPDATE t__homes SET home_region = '"+names[3]+"' WHERE id = "+there)
	// What the definitions say.
	if got := column(t, in, "SHOW CREATE TABLE t"); len(got) != 1 || !strings.HasSuffix(got[0], "/*!99999 PLACEMENT `eu` */") {
		t.Error(got)
	} else {
		_, text, _ := strings.Cut(got[0], "|")
		mustExec(t, in, strings.Replace(text, "`t`", "`t2`", 1))
	}
	mustExec(t, in, "CREATE TABLE one (id INT PRIMARY KEY, v TEXT) PLACEMENT eu LOCALITY REGIONAL BY TABLE IN '"+names[3]+"'")
	mustExec(t, out, "INSERT INTO one VALUES (1, ?)", canary)
	mustExec(t, in, "CREATE TABLE free (id INT PRIMARY KEY, r INT)")
	mustExec(t, in, "CREATE TABLE loose (id INT PRIMARY KEY, r INT, KEY (r))")
	for q, why := range map[string]string{
		"CREATE TABLE x (id INT PRIMARY KEY) PLACEMENT eu LOCALITY GLOBAL":                                  "lie in all regions",
		"CREATE TABLE x (id INT PRIMARY KEY) PLACEMENT eu REPLICATION ASYNC":                                "replicate synchronously",
		"CREATE TABLE x (id INT PRIMARY KEY) PLACEMENT eu LOCALITY REGIONAL BY TABLE IN '" + names[0] + "'": "not in the placement",
		"ALTER TABLE t SET LOCALITY GLOBAL":                                                                 "lie in all regions",
		"ALTER TABLE t SET REPLICATION ASYNC":                                                               "replicate synchronously",
		"CREATE TABLE x (id INT PRIMARY KEY, r INT, FOREIGN KEY (r) REFERENCES t (id))":                     "different placements",
		"ALTER TABLE loose ADD FOREIGN KEY (r) REFERENCES t (id)":                                           "different placements",
		"CREATE TABLE x (id INT PRIMARY KEY, r INT, FOREIGN KEY (r) REFERENCES free (id)) PLACEMENT eu":     "different placements",
		"CREATE TABLE x (id INT PRIMARY KEY, v TEXT, FULLTEXT (v)) PLACEMENT eu":                            "full-text",
		"DROP PLACEMENT eu": "lies in placement eu",
		"DROP PLACEMENT us": "there is no placement us",
	} {
		refused(in, q, why)
	}
	mustExec(t, in, "CREATE TABLE child (id INT PRIMARY KEY, r INT, FOREIGN KEY (r) REFERENCES t (id)) PLACEMENT eu")
	mustExec(t, out, "INSERT INTO child VALUES (1, "+there+")")
	refused(in, "ALTER TABLE child SET PLACEMENT NONE", "different placements")
	refused(in, "ALTER TABLE t SET PLACEMENT NONE", "different placements")
	refused(out, "INSERT INTO child VALUES (2, 2000000)", "child_ibfk_1")
	var p, rs, state, voters, readers, survives string
	var tables int
	if err := in.QueryRowContext(t.Context(), "SHOW PLACEMENTS").Scan(&p, &rs, &tables, &state, &voters, &readers, &survives); err != nil || p != "eu" ||
		rs != strings.Join(names[1:4], ", ") || tables != 4 || state != "ready" || voters != "3" ||
		readers != "" || survives != "a region" {
		t.Errorf("SHOW PLACEMENTS: %s, %s, %d tables, %s (%v)", p, rs, tables, state, err)
	}
	// A database's default.
	mustExec(t, in, "ALTER DATABASE d SET PLACEMENT eu")
	mustExec(t, in, "CREATE TABLE y (id INT PRIMARY KEY, v TEXT)")
	mustExec(t, out, "INSERT INTO y VALUES (1, ?)", canary)
	refused(in, "CREATE TABLE x (id INT PRIMARY KEY) REPLICATION ASYNC", "replicate synchronously")
	mustExec(t, in, "CREATE TABLE everywhere (id INT PRIMARY KEY) PLACEMENT NONE")
	mustExec(t, in, "ALTER DATABASE d SET PLACEMENT NONE")
	// A table comes into the placement and leaves it.
	mustExec(t, in, "INSERT INTO free VALUES (1, 1), (2, 2)")
	for _, to := range []string{"eu", "NONE"} {
		mustExec(t, in, "ALTER TABLE free SET PLACEMENT "+to)
		if got := strings.Join(column(t, out, "SELECT r FROM free ORDER BY id"), " "); got != "1 2" {
			t.Errorf("in placement %s the table holds %s", to, got)
		}
		if got := column(t, in, "SHOW CREATE TABLE free")[0]; strings.Contains(got, "PLACEMENT") != (to == "eu") {
			t.Error(got)
		}
		mustExec(t, out, "UPDATE free SET r = r WHERE id = 1")
	}
	// What lies where.
	topo := l.Nodes()[0].Cluster().Topology()
	for i, n := range l.Nodes() {
		inside := i >= 1 && i <= 3
		if got := storeHas(t, n, canary); got != inside {
			t.Errorf("node %d, in %s, has values of the table: %v", i+1, names[i], got)
		}
		for _, g := range n.reps.Held() {
			if !topo.MayHold(g.Shard(), n.ident.Node) {
				t.Errorf("node %d has a replica of %v", i+1, g)
			}
		}
	}
	// Without tables it goes, and the next one of the same regions takes its groups.
	mustExec(t, in, "DROP DATABASE d")
	mustExec(t, out, "DROP PLACEMENT eu")
	mustExec(t, out, "DROP PLACEMENT IF EXISTS eu")
	mustExec(t, in, "CREATE PLACEMENT again REGIONS "+regions)
	if got := l.Nodes()[0].Cluster().Topology(); len(got.Placements) != 1 {
		t.Errorf("there are %d placements", len(got.Placements))
	}
	mustExec(t, in, "CREATE DATABASE e")
	mustExec(t, in, "CREATE TABLE e.t (id INT PRIMARY KEY) PLACEMENT again")
	mustExec(t, out, "INSERT INTO e.t VALUES (1)")
}

// storeHas reports whether any record of a node's store has a text.
func storeHas(t *testing.T, n *Node, text string) (has bool) {
	t.Helper()
	if err := n.store.Walk(func(r store.Record) error {
		has = has || bytes.Contains(r.Key, []byte(text)) || bytes.Contains(r.Value, []byte(text))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return has
}

// TestPlacementBackups: a backup reads a table with a placement at a node in its regions only, a
// restore puts it into a placement of the same regions, and nothing else reads it.
func TestPlacementBackups(t *testing.T) { bubble(t, placementBackups) }

func placementBackups(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	l, cs := startBackups(t, 4, dir)
	names := l.Regions()
	to := " 'file://" + dir + "'"
	mustExec(t, cs[0], "CREATE PLACEMENT p REGIONS ('"+names[1]+"', '"+names[2]+"')")
	mustExec(t, cs[0], "CREATE DATABASE d")
	mustExec(t, cs[0], "CREATE TABLE d.t (id INT PRIMARY KEY, v INT, KEY (v)) PLACEMENT p")
	mustExec(t, cs[0], "CREATE TABLE d.u (id INT PRIMARY KEY)")
	mustExec(t, cs[3], "INSERT INTO d.t VALUES (1, 10), (2, 20), (3, 30)")
	refused(t, cs[0], "BACKUP DATABASE d INTO"+to, "d.t (with a placement)")
	refused(t, cs[1], "CREATE CHANGEFEED FOR TABLE d.t INTO"+to, "one of a placement")
	if got := one(t, cs[0], "BACKUP DATABASE d INTO"+to+" WITH SKIP_MULTI_MASTER"); got[2] != "1" {
		t.Errorf("BACKUP says %q", got)
	}
	if got := one(t, cs[2], "BACKUP DATABASE d INTO"+to); got[2] != "2" || got[3] != "3" {
		t.Errorf("BACKUP says %q", got)
	}
	// A table whose rows have placements of their own is read at a node that is in all of them.
	mustExec(t, cs[1], "CREATE DATABASE e")
	mustExec(t, cs[1], "CREATE TABLE e.r (id INT, c INT, PRIMARY KEY (id, c)) PLACEMENT BY (c) ((1) IN p, DEFAULT IN NONE)")
	mustExec(t, cs[1], "INSERT INTO e.r VALUES (1, 1), (2, 2)")
	refused(t, cs[0], "BACKUP DATABASE e INTO 'file://"+dir+"/e'", "e.r (with PLACEMENT BY)")
	if got := one(t, cs[1], "BACKUP DATABASE e INTO 'file://"+dir+"/e'"); got[3] != "2" {
		t.Errorf("BACKUP says %q", got)
	}
	one(t, cs[0], "RESTORE DATABASE e FROM 'file://"+dir+"/e' AS f")
	if got := strings.Join(column(t, cs[3], "SELECT c FROM f.r ORDER BY id"), " "); got != "1 2" {
		t.Errorf("the restored table holds %s", got)
	}
	refused(t, cs[1], "CREATE CHANGEFEED FOR TABLE e.r INTO"+to, "one of a placement")
	refused(t, cs[1], "FLASHBACK TABLE e.r TO TIMESTAMP '-1s'", "has PLACEMENT BY")
	mustExec(t, cs[1], "DROP TABLE e.r")
	refused(t, cs[1], "UNDROP TABLE e.r", "PLACEMENT BY")
	// A log without places of regions has no rows of such a table: behind the backup it is gone.
	mustExec(t, cs[1], "CREATE DATABASE g")
	mustExec(t, cs[1], "CREATE TABLE g.t (id INT PRIMARY KEY) PLACEMENT p")
	mustExec(t, cs[1], "CREATE TABLE g.u (id INT PRIMARY KEY)")
	at := " 'file://" + dir + "/g'"
	one(t, cs[0], "BACKUP LOG DATABASE g INTO"+at+" WITH SKIP_MULTI_MASTER")
	time.Sleep(10 * time.Second)
	if got := one(t, cs[1], "BACKUP DATABASE g INTO"+at); got[2] != "2" {
		t.Errorf("BACKUP says %q", got)
	}
	mustExec(t, cs[1], "INSERT INTO g.t VALUES (1)")
	mustExec(t, cs[1], "INSERT INTO g.u VALUES (1)")
	time.Sleep(10 * time.Second)
	if got := strings.Join(one(t, cs[1], "RESTORE DATABASE g FROM"+at+" AS h"), " "); !strings.Contains(got, "g.t (with a placement)") {
		t.Errorf("RESTORE says %q", got)
	}
	if got := strings.Join(column(t, cs[1], "SHOW TABLES FROM h"), " "); got != "u" {
		t.Errorf("tables of the restored database: %s", got)
	}
	if got := strings.Join(column(t, cs[1], "SELECT id FROM h.u"), " "); got != "1" {
		t.Errorf("the restored table holds %q", got)
	}
	other, oc := startBackups(t, 3, dir)
	refused(t, oc[0], "RESTORE DATABASE d FROM"+to, "CREATE PLACEMENT of them first")
	mustExec(t, oc[0], "CREATE PLACEMENT q REGIONS ('"+names[2]+"', '"+names[1]+"')")
	one(t, oc[0], "RESTORE DATABASE d FROM"+to)
	if got := strings.Join(column(t, oc[0], "SELECT v FROM d.t ORDER BY v"), " "); got != "10 20 30" {
		t.Errorf("the restored table holds %s", got)
	}
	if got := column(t, oc[0], "SHOW CREATE TABLE d.t")[0]; !strings.Contains(got, "PLACEMENT `q`") {
		t.Error(got)
	}
	for i, n := range other.Nodes() {
		r, err := residency.Audit(t.Context(), n.store, n.Cluster().Topology(), n.ident.Node, residency.Request{})
		if err != nil || len(r.Findings) > 0 {
			t.Errorf("node %d: %v (%v)", i+1, r, err)
		}
	}
}
