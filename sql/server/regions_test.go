package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/schema"
)

func TestRegionStatements(t *testing.T) {
	db := memkv.New(4, "eu", "us")
	_, c := startServer(t, db)
	expect(t, c, "SHOW REGIONS", "eu|1|active", "us|1|active")
	expect(t, c, "SHOW REGIONS FROM CLUSTER", "eu|1|active", "us|1|active")
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, v INT, KEY (v))")
	exec(t, c, "INSERT INTO t VALUES (1,10),(2,20),(3,30)")
	expect(t, c, "SHOW LOCALITY FROM t", "t|REGIONAL BY ROW")
	for _, l := range []string{"REGIONAL BY TABLE IN 'us'", "GLOBAL", "REGIONAL BY ROW"} {
		exec(t, c, "ALTER TABLE t SET LOCALITY "+l)
		expect(t, c, "SHOW LOCALITY FROM t", "t|"+l)
		expect(t, c, "SELECT * FROM t", "1|10", "2|20", "3|30")
		expect(t, c, "SELECT id FROM t WHERE v = 20", "2")
	}
	expectErr(t, c, 1105, "ALTER TABLE t SET LOCALITY REGIONAL BY TABLE IN 'moon'")
	expectErr(t, c, 1105, "ALTER TABLE t SET LOCALITY SOMEWHERE")
	expectErr(t, c, 1105, "SHOW GODWIT NONSENSE")
	if got := query(t, c, "SHOW GODWIT STATEMENT COST"); len(got) != 1 {
		t.Errorf("cost: %q", got)
	}
}

// TestHomes checks that rows of a table homed as a whole, their index entries and its table id
// carry the region.
func TestHomes(t *testing.T) {
	db := memkv.New(2, "eu", "us")
	s, c := startServer(t, db)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, v INT, KEY (v))")
	exec(t, c, "ALTER TABLE t SET LOCALITY REGIONAL BY TABLE IN 'us'")
	exec(t, c, "INSERT INTO t VALUES (1,10),(2,20)")
	s.g.Catalog.Loaded()
	tab := s.g.Catalog.Loaded().Table("test", "t")
	if tab.Desc.ID.Region() != 2 {
		t.Errorf("the table id names region %d, want 2", tab.Desc.ID.Region())
	}
	for _, r := range allRows(t, db, tab) {
		if r.Home != 2 {
			t.Errorf("row %s is at home in region %d, want 2", r.Key, r.Home)
		}
		if r.Key.Index()&base.ByHome != 0 && r.Key[base.IndexPrefixLen] != 2 {
			t.Errorf("entry %s is keyed by another home than 2", r.Key)
		}
	}
	// A row keeps its home when another region updates it, and so do its entries.
	_, us := startServer(t, db.Gateway(2))
	exec(t, c, "ALTER TABLE t SET LOCALITY REGIONAL BY ROW")
	exec(t, c, "UPDATE t SET v = v + 1")
	exec(t, us, "INSERT INTO t VALUES (3,31)")
	exec(t, c, "INSERT INTO t VALUES (4,41)")
	exec(t, us, "UPDATE t SET v = v + 1")
	expect(t, us, "SELECT id FROM t WHERE v > 0 ORDER BY v", "1", "2", "3", "4")
	want := map[string]base.RegionID{"1": 2, "2": 2, "3": 2, "4": 1}
	tab = s.g.Catalog.Loaded().Table("test", "t")
	entries := 0
	for _, r := range allRows(t, db, tab) {
		if r.Key.Index()&base.ByHome != 0 {
			entries++
			ref, err := tab.Indexes[0].EntryRef(r.Key, r.Value)
			if err != nil {
				t.Fatal(err)
			}
			id, _, _ := base.TakeInt64(ref.PK)
			if h := base.RegionID(r.Key[base.IndexPrefixLen]); h != want[fmt.Sprint(id)] {
				t.Errorf("the entry of row %d is keyed by home %d, want %d", id, h, want[fmt.Sprint(id)])
			}
		}
	}
	if entries != 4 {
		t.Errorf("%d entries, want 4", entries)
	}
}

// allRows are the kv rows of a table and its indexes.
func allRows(t *testing.T, db kv.DB, tab *schema.Table) (out []kv.Row) {
	t.Helper()
	k := db.Begin(kv.Options{ReadOnly: true})
	var spans []base.Span
	for s := range db.Topology().Shards {
		for _, ix := range ddl.GarbageOf(tab).All {
			homes := []base.RegionID{0}
			if ix&base.ByHome != 0 {
				homes = []base.RegionID{1, 2}
			}
			for _, h := range homes {
				p := base.IndexPrefix(base.ShardID(s+1), tab.Desc.ID, ix, h)
				spans = append(spans, base.Span{Start: p, End: p.PrefixEnd()})
			}
		}
	}
	res, err := k.Scan(t.Context(), kv.ScanRequest{Spans: spans})
	if err != nil {
		t.Fatal(err)
	}
	return res.Rows
}

func TestAsOf(t *testing.T) {
	db := memkv.New(2)
	_, c := startServer(t, db)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
	exec(t, c, "INSERT INTO t VALUES (1,10)")
	before := db.Clock()
	exec(t, c, "UPDATE t SET v = 11")
	exec(t, c, "ALTER TABLE t ADD COLUMN w INT DEFAULT 7")
	at := fmt.Sprintf("'%s'", before.Time().Format("2006-01-02 15:04:05.999999999"))
	expect(t, c, "SELECT * FROM t AS OF "+at, "1|10")
	expect(t, c, fmt.Sprintf("SELECT * FROM t AS OF SYSTEM TIME %d.%09d", uint64(before)/1e9, uint64(before)%1e9), "1|10")
	expect(t, c, "SELECT * FROM t", "1|11|7")
	if _, err := tryQuery(c, "SELECT * FROM t AS OF 'yesterday-ish'"); err == nil ||
		!strings.Contains(err.Error(), "not a time") {
		t.Errorf("bad time: %v", err)
	}
	_ = time.Now
}

func TestExplainAnalyze(t *testing.T) {
	s, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
	got := query(t, c, "EXPLAIN ANALYZE SELECT * FROM t WHERE id = 1")
	if len(got) == 0 || !strings.HasPrefix(got[len(got)-1], "WAN: 0.0 round trips") {
		t.Errorf("EXPLAIN ANALYZE: %q", got)
	}
	exec(t, c, "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
	s.g.query.Off = false
	got = query(t, c, "EXPLAIN ANALYZE SELECT a.v FROM t a WHERE a.v > (SELECT COUNT(*) FROM t b WHERE b.v < a.v * 2) - 2")
	if text := strings.Join(got, "\n"); !strings.Contains(text, "rows=3 loops=1") || strings.Contains(text, "never executed") {
		t.Errorf("EXPLAIN ANALYZE: %s", text)
	}
	expect(t, c, "SELECT @@last_statement_wan_rtts, @@last_statement_wan_bytes", "0|0")
}

// TestHomesTable: t__homes shows where rows live; updating it moves them with their index entries.
func TestHomesTable(t *testing.T) {
	db := memkv.New(2, "eu", "us")
	s, c := startServer(t, db)
	_, us := startServer(t, db.Gateway(2))
	exec(t, c, "CREATE TABLE t (a INT, b VARCHAR(10), v INT, u INT, PRIMARY KEY (b, a), KEY (v), UNIQUE (u))")
	exec(t, c, "INSERT INTO t VALUES (1,'x',10,100),(2,'y',20,200)")
	exec(t, us, "INSERT INTO t VALUES (3,'z',30,300)")
	homes := func(want ...string) {
		t.Helper()
		expect(t, c, "SELECT a, b, home_region, pinned FROM t__homes ORDER BY a", want...)
	}
	homes("1|x|eu|0", "2|y|eu|0", "3|z|us|0")
	expect(t, c, "SELECT home_region FROM t__homes WHERE b = 'z' AND a = 3", "us")
	expect(t, c, "SELECT t.v, h.home_region FROM t JOIN t__homes h ON t.a = h.a AND t.b = h.b WHERE t.u >= 200 "+
		"ORDER BY t.v", "20|eu", "30|us")
	expect(t, c, "SELECT home_region, COUNT(*) FROM t__homes GROUP BY home_region ORDER BY 1", "eu|2", "us|1")
	exec(t, c, "UPDATE t__homes SET home_region = 'us' WHERE b = 'x' AND a = 1")
	homes("1|x|us|0", "2|y|eu|0", "3|z|us|0")
	exec(t, us, "UPDATE t__homes SET home_region = 'eu' WHERE home_region = 'us'")
	homes("1|x|eu|0", "2|y|eu|0", "3|z|eu|0")
	exec(t, c, "BEGIN")
	exec(t, c, "UPDATE t SET v = v + 1")
	exec(t, c, "UPDATE t__homes SET home_region = 'us'")
	exec(t, c, "COMMIT")
	homes("1|x|us|0", "2|y|us|0", "3|z|us|0")
	expect(t, c, "SELECT a FROM t WHERE v > 10 ORDER BY v", "1", "2", "3")
	tab := s.g.Catalog.Loaded().Table("test", "t")
	for _, r := range allRows(t, db, tab) {
		if r.Home != 2 || r.Key.Index()&base.ByHome != 0 && r.Key[base.IndexPrefixLen] != 2 {
			t.Errorf("key %v is at home in region %d, want all in 2", r.Key, r.Home)
		}
	}
	expectErr(t, c, 1105, "UPDATE t__homes SET home_region = 'moon'")
	expectErr(t, c, 1105, "UPDATE t__homes SET a = 7")
	for _, q := range []string{"INSERT INTO t__homes VALUES (1,'q','eu',0,0,NOW())", "DELETE FROM t__homes",
		"DROP TABLE t__homes", "ALTER TABLE t__homes ADD COLUMN q INT", "TRUNCATE t__homes"} {
		if _, err := c.Exec(q); err == nil {
			t.Errorf("%s succeeded", q)
		}
	}
	expect(t, c, "SELECT COUNT(*) FROM t", "3")
	exec(t, c, "CREATE TABLE n (v INT)")
	exec(t, us, "INSERT INTO n VALUES (1),(1)")
	expect(t, c, "SELECT home_region FROM n__homes", "us", "us")
	exec(t, c, "UPDATE n__homes SET home_region = 'eu' LIMIT 1")
	expect(t, c, "SELECT home_region, COUNT(*) FROM n__homes GROUP BY 1 ORDER BY 1", "eu|1", "us|1")
}
