package node

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/node/residency"
)

// TestVoters: tables in a placement of five regions, in which three vote for each row and one has
// read replicas, used from all of them.
func TestVoters(t *testing.T) { bubble(t, votersOfFive) }

func votersOfFive(t *testing.T) {
	t.Helper()
	l := startLocal(t, 5, 1)
	names := l.Regions()
	var cs []*sql.Conn
	for i, n := range l.Nodes() {
		cs = append(cs, openSQL(t, n, ""))
		if i == 0 {
			mustExec(t, cs[0], "CREATE DATABASE d")
		}
		mustExec(t, cs[i], "USE d")
	}
	quoted := "('" + strings.Join(names, "', '") + "')"
	for q, why := range map[string]string{
		"VOTERS 2":                               "3 are the fewest",
		"VOTERS 4":                               "no more than VOTERS 3",
		"VOTERS 7":                               "has 5 regions",
		"VOTERS 0":                               "3 or more",
		"VOTERS 3 SURVIVE 2 REGIONS":             "that takes VOTERS 5",
		"SURVIVE 3 REGIONS":                      "takes 7 that vote",
		"SURVIVE 0 REGIONS":                      "from 1 on",
		"SURVIVE NODE":                           "needs three nodes",
		"READ REPLICAS IN ('" + names[0] + "')":  "all regions of placement",
		"VOTERS 3 READ REPLICAS IN ('atlantis')": "there is no region",
		"VOTERS 3 READ REPLICAS IN ('a' 'b')":    "takes names of regions",
		"VOTERS three":                           "CREATE PLACEMENT name REGIONS",
		"SURVIVE ZONE":                           "CREATE PLACEMENT name REGIONS",
		"READ REPLICAS IN ('" + names[0] + "') VOTERS 3": "CREATE PLACEMENT name REGIONS",
	} {
		refused(t, cs[0], "CREATE PLACEMENT world REGIONS "+quoted+" "+q, why)
	}
	mustExec(t, cs[3], "CREATE PLACEMENT world REGIONS "+quoted+" VOTERS 3 READ REPLICAS IN ('"+names[4]+"') SURVIVE REGION")
	refused(t, cs[0], "CREATE PLACEMENT world REGIONS "+quoted+" VOTERS 3", "already")
	create := column(t, cs[1], "SHOW CREATE PLACEMENT World")[0]
	if want := "world|CREATE PLACEMENT `world` REGIONS " + quoted + " VOTERS 3 READ REPLICAS IN ('" + names[4] + "')"; create != want {
		t.Errorf("SHOW CREATE PLACEMENT: %s, want %s", create, want)
	}
	refused(t, cs[0], "SHOW CREATE PLACEMENT nothing", "there is no placement")
	topo := l.Nodes()[0].Cluster().Topology()
	sets := topo.CopySets(topo.PlacementByName("world").ID)

	mustExec(t, cs[0], "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(60), n INT, UNIQUE (v), KEY (n)) PLACEMENT world")
	for i := range 6 {
		for j, c := range cs {
			mustExec(t, c, "INSERT INTO t (v, n) VALUES (?, ?)", fmt.Sprint(i, "-", j), i)
		}
	}
	same := func(c *sql.Conn, q, want string) {
		t.Helper()
		if got := strings.Join(column(t, c, q), "; "); got != want {
			t.Errorf("%s: %s, want %s", q, got, want)
		}
	}
	for _, c := range cs {
		same(c, "SELECT COUNT(*), SUM(n), COUNT(DISTINCT v) FROM t", "30|75|30")
		same(c, "SELECT n FROM t WHERE v = '3-1'", "3")
		same(c, "SELECT v FROM t WHERE n = 2 ORDER BY v", "2-0; 2-1; 2-2; 2-3; 2-4")
		refused(t, c, "INSERT INTO t (v, n) VALUES ('4-4', 1)", "Duplicate")
	}
	// Rows move between the regions that vote for them, and to no others.
	moved, stayed := 0, 0
	for _, id := range column(t, cs[0], "SELECT id FROM t ORDER BY id LIMIT 6") {
		for _, to := range names {
			_, err := cs[2].ExecContext(t.Context(), "UPDATE t__homes SET home_region = '"+to+"' WHERE id = "+id)
			switch {
			case err == nil:
				moved++
				same(cs[1], "SELECT home_region FROM t__homes WHERE id = "+id, to)
			case strings.Contains(err.Error(), "is not in the placement of the row"):
				stayed++
			default:
				t.Errorf("row %s to %s: %v", id, to, err)
			}
		}
	}
	if moved != 6*3 || stayed != 6*2 {
		t.Errorf("%d moves were made and %d refused", moved, stayed)
	}
	// A table whose rows are all at home in one region has its copies there and nearby.
	mustExec(t, cs[0], "CREATE TABLE single (id INT PRIMARY KEY, v TEXT, KEY (v(20))) PLACEMENT world LOCALITY REGIONAL BY TABLE IN '"+names[1]+"'")
	mustExec(t, cs[4], "INSERT INTO single VALUES (1, '"+canary+"'), (2, '"+canary+"')")
	mustExec(t, cs[0], "UPDATE single SET v = CONCAT(v, '+') WHERE id = 1")
	for _, c := range cs {
		same(c, "SELECT id FROM single WHERE v = '"+canary+"+'", "1")
	}
	for i, n := range l.Nodes() {
		if got, want := storeHas(t, n, canary), sets[1].Holds(base.RegionID(i+1)); got != want {
			t.Errorf("region %d, of %v with readers %v, has rows of %s: %v", i+1, sets[1].Regions, sets[1].Readers, names[1], got)
		}
	}
	// Rows of a table are where a column says.
	by := "PLACEMENT BY (country) (('DE', 'FR') IN world AT '" + names[2] + "', (\"US\") IN world AT '" + names[0] + "', DEFAULT IN NONE)"
	for q, why := range map[string]string{
		"(country) (('DE') IN world)":               "AT 'region' says",
		"(country) (('DE') IN world AT 'atlantis')": "is not in placement world",
		"(country) (('DE') IN NONE AT 'a')":         "not all regions vote",
		"(country) (('DE') IN world AT)":            "name of a region",
	} {
		refused(t, cs[0], "CREATE TABLE x (id INT, country CHAR(2), PRIMARY KEY (id, country)) PLACEMENT BY "+q, why)
	}
	mustExec(t, cs[0], "CREATE TABLE c (id INT, country CHAR(2), v TEXT, PRIMARY KEY (id, country)) "+by)
	mustExec(t, cs[4], "INSERT INTO c VALUES (1, 'DE', 'grackle-in-DE'), (2, 'US', 'grackle-in-US'), (3, 'JP', '')")
	for country, at := range map[string]int{"DE": 2, "US": 0} {
		for i, n := range l.Nodes() {
			if got, want := storeHas(t, n, "grackle-in-"+country), sets[at].Holds(base.RegionID(i+1)); got != want {
				t.Errorf("region %d has rows of %s: %v", i+1, country, got)
			}
		}
	}
	if got := strings.Split(column(t, cs[0], "EXPLAIN SELECT * FROM c WHERE country = 'US'")[0], "|")[3]; got != "world AT "+names[0] {
		t.Errorf("EXPLAIN has partitions %s", got)
	}
	// What the definitions say can be said again.
	for _, name := range []string{"t", "single", "c"} {
		_, text, _ := strings.Cut(column(t, cs[3], "SHOW CREATE TABLE "+name)[0], "|")
		if !strings.Contains(text, "PLACEMENT") {
			t.Error(text)
		}
		mustExec(t, cs[0], strings.Replace(text, "`"+name+"`", "`again`", 1))
		_, again, _ := strings.Cut(column(t, cs[3], "SHOW CREATE TABLE again")[0], "|")
		if again = strings.Replace(again, "`again`", "`"+name+"`", 1); again != text {
			t.Errorf("%s became %s", text, again)
		}
		mustExec(t, cs[0], "DROP TABLE again")
	}
	// Foreign keys within the placement, and none out of it.
	mustExec(t, cs[0], "CREATE TABLE child (id INT PRIMARY KEY, r INT, FOREIGN KEY (r) REFERENCES t (id)) PLACEMENT world LOCALITY "+
		"REGIONAL BY TABLE IN '"+names[3]+"'")
	mustExec(t, cs[4], "INSERT INTO child SELECT id, id FROM t LIMIT 3")
	refused(t, cs[2], "INSERT INTO child VALUES (1000000, 1000000)", "child_ibfk_1")
	refused(t, cs[0], "CREATE TABLE x (id INT PRIMARY KEY, r INT, FOREIGN KEY (r) REFERENCES t (id))", "different placements")
	var row [7]string
	if err := cs[4].QueryRowContext(t.Context(), "SHOW PLACEMENTS").Scan(&row[0], &row[1], &row[2], &row[3], &row[4], &row[5], &row[6]); err != nil ||
		fmt.Sprint(row) != fmt.Sprint([]string{"world", strings.Join(names, ", "), "4", "ready", "3", names[4], "a region"}) {
		t.Errorf("SHOW PLACEMENTS: %q (%v)", row, err)
	}
	refused(t, cs[0], "DROP PLACEMENT world", "lies in placement world")
	refused(t, cs[0], "FLASHBACK TABLE c TO TIMESTAMP '-1s'", "has PLACEMENT BY")
	refused(t, cs[0], "FLASHBACK TABLE t TO TIMESTAMP '-1s'", "not all regions vote")
	// Tables come into it, change within it and leave it.
	mustExec(t, cs[0], "CREATE TABLE free (id INT PRIMARY KEY, n INT, KEY (n))")
	mustExec(t, cs[0], "INSERT INTO free VALUES (1, 1), (2, 2), (3, 3), (4, 4)")
	for i, q := range []string{"SET PLACEMENT world", "SET LOCALITY REGIONAL BY TABLE IN '" + names[2] + "'", "SET LOCALITY REGIONAL BY ROW",
		"SET LOCALITY REGIONAL BY TABLE IN '" + names[0] + "'", "SET PLACEMENT NONE", "SET LOCALITY REGIONAL BY ROW"} {
		mustExec(t, cs[i%5], "ALTER TABLE free "+q)
		mustExec(t, cs[4-i%5], "UPDATE free SET n = n + 1 WHERE id <> 2")
		same(cs[3], "SELECT n FROM free ORDER BY id", fmt.Sprintf("%d; 2; %d; %d", 2+i, 4+i, 5+i))
		same(cs[1], fmt.Sprintf("SELECT id FROM free FORCE INDEX (n) WHERE n = %d", 5+i), "4")
	}
	alike(t, cs, rand.New(rand.NewPCG(1, 1)), 300, "PLACEMENT world")
	checkVoters(t, l)
	mustExec(t, cs[0], "ALTER DATABASE d SET PLACEMENT world")
	mustExec(t, cs[0], "CREATE TABLE z (id INT PRIMARY KEY)")
	same(cs[1], "SELECT COUNT(*) FROM z", "0")
	mustExec(t, cs[0], "DROP DATABASE d")
	mustExec(t, cs[0], "DROP PLACEMENT world")
	refused(t, cs[0], "CREATE TABLE x.t (id INT PRIMARY KEY) PLACEMENT world", "")
	mustExec(t, cs[0], strings.SplitN(create, "|", 2)[1])
	if n := len(l.Nodes()[0].Cluster().Topology().Placements); n != 5 {
		t.Errorf("the groups of the placement that was dropped are not used again: there are %d", n)
	}
}

// checkVoters has the stores of all nodes read.
func checkVoters(t *testing.T, l *Local) {
	t.Helper()
	topo, all := l.Nodes()[0].Cluster().Topology(), 0
	for i, n := range l.Nodes() {
		r, err := residency.Audit(t.Context(), n.store, topo, n.ident.Node, residency.Request{})
		if err != nil || len(r.Findings) > 0 {
			t.Errorf("node %d: %v (%v)", i+1, r, err)
		}
		var held []base.ShardID
		for _, g := range n.reps.Held() {
			if p := topo.PlacementOf(g.Shard()); p != nil {
				if held = append(held, g.Shard()); !p.Holds(topo.RegionOf(n.ident.Node)) {
					t.Errorf("node %d has a replica of %v", i+1, g)
				}
			}
		}
		slices.Sort(held)
		all += len(slices.Compact(held))
	}
	// Three copies in each set, and a fourth in a read replica where it does not vote.
	want := 0
	for i := range topo.Placements {
		want += topo.Shards * (len(topo.Placements[i].Regions) + len(topo.Placements[i].Readers))
	}
	if all != want || want >= 5*topo.Shards*len(topo.Placements) {
		t.Errorf("there are %d copies of shards, want %d", all, want)
	}
}

// TestSurviveNode: the three copies of a row are in its home region, and go on when a node there
// dies.
func TestSurviveNode(t *testing.T) { bubble(t, surviveNode) }

func surviveNode(t *testing.T) {
	t.Helper()
	l := startLocal(t, 2, 3)
	names := l.Regions()
	c, far := openSQL(t, l.Nodes()[0], ""), openSQL(t, l.Nodes()[3], "")
	mustExec(t, c, "CREATE PLACEMENT p REGIONS ('"+names[0]+"', '"+names[1]+"') SURVIVE NODE")
	if got := column(t, c, "SHOW CREATE PLACEMENT p")[0]; !strings.HasSuffix(got, "SURVIVE NODE") {
		t.Error(got)
	}
	mustExec(t, c, "CREATE DATABASE d")
	mustExec(t, c, "CREATE TABLE d.one (id INT PRIMARY KEY, v TEXT) PLACEMENT p LOCALITY REGIONAL BY TABLE IN '"+names[0]+"'")
	mustExec(t, c, "CREATE TABLE d.all (id INT PRIMARY KEY, v TEXT) PLACEMENT p")
	mustExec(t, far, "INSERT INTO d.one VALUES (1, '"+canary+"')")
	mustExec(t, far, "INSERT INTO d.all VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
	for i, n := range l.Nodes() {
		if got := storeHas(t, n, canary); got != (i < 3) {
			t.Errorf("node %d has a row of the first region: %v", i+1, got)
		}
	}
	var row [7]string
	if err := c.QueryRowContext(t.Context(), "SHOW PLACEMENTS").Scan(&row[0], &row[1], &row[2], &row[3], &row[4], &row[5], &row[6]); err != nil ||
		row[4] != "3" || row[6] != "a node" {
		t.Errorf("SHOW PLACEMENTS: %q (%v)", row, err)
	}
	if err := l.Nodes()[1].Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*sql.Conn{c, far} {
		mustExec(t, c, "UPDATE d.one SET v = CONCAT(v, '+')")
		mustExec(t, c, "UPDATE d.all SET v = CONCAT(v, '+')")
		if got := strings.Join(column(t, c, "SELECT v FROM d.one"), " ") + strings.Join(column(t, c, "SELECT COUNT(*) FROM d.all"), ""); !strings.HasSuffix(got, "+4") {
			t.Error(got)
		}
	}
}
