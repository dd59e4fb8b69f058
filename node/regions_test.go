package node

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/cluster"
)

// exec runs statements, of which each must succeed.
func (p *proc) exec(t *testing.T, qs ...string) {
	t.Helper()
	db := p.sql(t)
	defer db.Close()
	for _, q := range qs {
		mustExec(t, db, q)
	}
}

// A region joins a cluster under load: its node serves SQL, its clients' rows are at home there,
// and rows move there. Then another region is dropped: its rows, pinned ones too, move to the
// region that takes them over, and its node ends. Clients elsewhere see neither.
func TestRegionComesAndGoes(t *testing.T) {
	t.Parallel() // it waits, most of the time
	w := newWorld(t, cfgs{}, "eu", "us", "asia")
	w.procs[0].settled(t)
	us := w.proc(t, "us")
	us.exec(t, "CREATE DATABASE d",
		"CREATE TABLE d.t (id INT PRIMARY KEY, n INT, s VARCHAR(20) NOT NULL, UNIQUE u (s), KEY k (n))",
		"CREATE TABLE d.bound (id INT PRIMARY KEY) LOCALITY REGIONAL BY TABLE IN 'us'",
		"INSERT INTO d.bound VALUES (1), (2)")
	for i := range 60 {
		us.exec(t, fmt.Sprintf("INSERT INTO d.t VALUES (%d, %d, 's%d')", 2*i, i%7, 2*i))
	}
	us.exec(t, "UPDATE d.t__homes SET pinned = TRUE WHERE id < 20")
	l := startLoad(t, w, 1)

	africa := w.add(t, "africa")
	homes := func(p *proc, where string) []string {
		return rowsOf(t, p.sql(t), "SELECT home_region, pinned, COUNT(*) FROM d.t__homes WHERE "+where+
			" GROUP BY home_region, pinned ORDER BY home_region, pinned")
	}
	is := func(what string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	is("regions", rowsOf(t, africa.sql(t), "SHOW REGIONS"), "asia|1|active", "eu|1|active", "us|1|active", "africa|1|active")
	for i := range 30 {
		africa.exec(t, fmt.Sprintf("INSERT INTO d.t VALUES (%d, %d, 's%d')", 2*i+1, i%7, 2*i+1))
	}
	is("rows inserted in africa", homes(africa, "id % 2 = 1"), "africa|0|30")
	us.exec(t, "UPDATE d.t__homes SET home_region = 'africa' WHERE id = 40 OR id = 42")
	is("rows moved to africa", homes(us, "id IN (40, 42)"), "africa|0|2")
	l.progress(t)
	w.procs[0].settled(t)

	drop := func(q string) error { return w.procs[0].post(t, cluster.PathDropRegion, q) }
	refused := func(q, why string) {
		t.Helper()
		if err := drop(q); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", q, err, why)
		}
	}
	refused(`{"region":"mars"}`, "there is no region")
	refused(`{"region":"us"}`, "the rows of d.bound live in region us")
	us.exec(t, "ALTER TABLE d.bound SET LOCALITY REGIONAL BY TABLE IN 'asia'")
	refused(`{"region":"us","into":"us"}`, "cannot take over")
	refused(`{"region":"us","into":"mars"}`, "cannot take over")
	// In SQL it is the same.
	mere := w.procs[0].sql(t)
	mustExec(t, mere, "CREATE USER mere IDENTIFIED BY 'x'")
	for q, why := range map[string]string{
		"ALTER CLUSTER DROP REGION mars":        "there is no region",
		"ALTER CLUSTER DROP REGION us INTO us":  "cannot take over",
		"ALTER CLUSTER DROP REGION us, asia":    "what can be changed so",
		"ALTER CLUSTER ADD REGION venus":        "a region is added by a node",
		"ALTER CLUSTER DROP REGION IF EXISTS 7": "",
	} {
		if _, err := mere.Exec(q); why == "" && err != nil || why != "" && (err == nil || !strings.Contains(err.Error(), why)) {
			t.Errorf("%s: %v, want %q", q, err, why)
		}
	}
	poor, err := sql.Open("mysql", "mere:x@tcp("+w.procs[0].n.SQLAddr()+")/")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := poor.Exec("ALTER CLUSTER DROP REGION us"); err == nil || !strings.Contains(err.Error(), "1227") {
		t.Errorf("without SUPER: %v", err)
	}
	poor.Close()
	mustExec(t, mere, "ALTER CLUSTER DROP REGION 'us' INTO `asia`")
	refused(`{"region":"us"}`, "is being dropped already")
	us.ends(t, "was decommissioned and holds no replica any more")
	w.procs[0].settled(t)
	is("regions", rowsOf(t, africa.sql(t), "SHOW REGIONS"), "asia|1|active", "eu|1|active", "africa|1|active")
	for _, p := range []*proc{w.procs[0], africa} {
		is("rows of us", homes(p, "id % 2 = 0"), "africa|0|2", "asia|0|48", "asia|1|10")
		is("by the index", rowsOf(t, p.sql(t), "SELECT COUNT(*), SUM(id) FROM d.t FORCE INDEX (k) WHERE n BETWEEN 0 AND 6"), "90|4440")
		is("by the unique index", rowsOf(t, p.sql(t), "SELECT id FROM d.t WHERE s = 's38'"), "38")
		is("the other table", rowsOf(t, p.sql(t), "SELECT COUNT(*) FROM d.bound"), "2")
	}
	africa.exec(t, "INSERT INTO d.t VALUES (1000, 1, 's1000'), (51, 1, 'new51') ON DUPLICATE KEY UPDATE n = 100",
		"DELETE FROM d.t WHERE id = 0", "INSERT INTO d.t VALUES (0, 0, 'again')")
	l.progress(t)
	l.finish(t)

	late := &proc{cfg: Config{Region: "us", Store: t.TempDir(), Listen: "127.0.0.1:0", SQLListen: "127.0.0.1:0",
		Join: []string{w.procs[0].n.Addr()}}}
	late.start(t)
	late.ends(t, "region us was dropped, and no node joins it any more")
}
