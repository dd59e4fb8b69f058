package server

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gms "github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/schema"
)

// copyLab is a table t that gets a successor step by step, and a table u of which the same is
// expected.
type copyLab struct {
	t  *testing.T
	s  *Server
	c  *sql.DB
	id base.TableID // of the successor
}

func newCopyLab(t *testing.T, create string) *copyLab {
	// Two nodes of which the other one, as far as this one knows, is alive and copies.
	s, c := startServer(t, memkv.New(4, "eu", "us"), withCluster)
	l := &copyLab{t: t, s: s, c: c}
	for _, n := range []string{"t", "u"} {
		exec(t, c, strings.ReplaceAll(create, "$", n))
	}
	return l
}

// begin gives t a successor that nobody copies rows to.
func (l *copyLab) begin(loc schema.Locality) {
	l.t.Helper()
	ctx := context.Background()
	if _, err := l.s.g.Redefine(ctx, "test", "t", func(k kv.Txn, cur *schema.Table, d *schema.TableDesc) (err error) {
		if l.id, err = ddl.NextTableID(ctx, k, 1); err == nil {
			d.Next = &schema.SuccessorDesc{ID: l.id, Locality: loc, Shards: d.Shards, Kind: "SET LOCALITY", Node: 2,
				Since: time.Now()}
		}
		return err
	}); err != nil {
		l.t.Fatal(err)
	}
}

// both does the same to t and u.
func (l *copyLab) both(q string) {
	l.t.Helper()
	var got [2]string
	for i, n := range []string{"t", "u"} {
		r, err := l.c.ExecContext(context.Background(), strings.ReplaceAll(q, "$", n))
		if err == nil {
			n, _ := r.RowsAffected()
			got[i] = fmt.Sprint(n)
		} else {
			got[i] = strings.ReplaceAll(err.Error(), "'u.", "'t.")
		}
	}
	if got[0] != got[1] {
		l.t.Fatalf("%s: %q with a successor, %q without", q, got[0], got[1])
	}
}

// copySome copies rows of one shard only.
func (l *copyLab) copySome() {
	l.t.Helper()
	ctx := context.Background()
	snap, err := l.s.g.Catalog.Fresh(ctx)
	if err != nil {
		l.t.Fatal(err)
	}
	n := snap.ByID[l.id]
	c := &ddl.Copier{G: l.s.g.Env, ID: l.id, Job: l.s.g.Jobs.Begin(nil, "copy", n.Prev)}
	p := base.IndexPrefix(n.Prev.Shards()[1], n.Prev.Desc.ID, 0, 0)
	for start := p; start != nil; {
		if start, err = c.Page(ctx, n, base.Span{Start: start, End: p.PrefixEnd()}); err != nil {
			l.t.Fatal(err)
		}
	}
}

// check compares what is stored of a table with what its rows ask for, and returns the rows.
func (l *copyLab) check(t *schema.Table) map[string]string {
	l.t.Helper()
	ctx := context.Background()
	tx := l.s.g.DB.Begin(kv.Options{ReadOnly: true})
	defer tx.Rollback(ctx)
	stored := map[string]string{}
	rows := map[string]string{}
	want := map[string]string{}
	ids := []base.IndexID{0}
	for _, x := range t.Indexes {
		ids = append(ids, x.Desc.Key())
	}
	for _, shard := range append(t.Shards(), base.MetaShard) {
		for _, id := range ids {
			for home := range base.RegionID(3) {
				p := base.IndexPrefix(shard, t.Desc.ID, id, home)
				for req := (&kv.ScanRequest{Spans: []base.Span{{Start: p, End: p.PrefixEnd()}}}); req != nil; {
					res, err := tx.Scan(ctx, *req)
					if err != nil {
						l.t.Fatal(err)
					}
					for _, r := range res.Rows {
						stored[string(r.Key)] = string(r.Value)
						if id != 0 {
							continue
						}
						row := make(gms.Row, len(t.Cols))
						if err := t.DecodeRow(ctx, r.Value, row); err != nil {
							l.t.Fatal(err)
						}
						rows[string(schema.RefOfKey(r.Key).PK)] = fmt.Sprint(row)
						ws, err := t.RowWrites(ctx, row, r.Value, schema.RefOfKey(r.Key), r.Home)
						if err != nil {
							l.t.Fatal(err)
						}
						for _, w := range ws {
							want[string(w.Key)] = string(w.Value)
						}
					}
					req = res.Next
				}
			}
		}
	}
	for k, v := range want {
		if stored[k] != v {
			l.t.Fatalf("%v: entry %v is missing or wrong", t.Desc.ID, base.Key(k))
		}
	}
	for k := range stored {
		if _, ok := want[k]; !ok {
			l.t.Fatalf("%v: entry %v belongs to no row", t.Desc.ID, base.Key(k))
		}
	}
	return rows
}

// invariant: the successor has some of the rows, as they are, and exactly their index entries.
func (l *copyLab) invariant() {
	l.t.Helper()
	snap, err := l.s.g.Catalog.Fresh(context.Background())
	if err != nil {
		l.t.Fatal(err)
	}
	n := snap.ByID[l.id]
	all, some := l.check(n.Prev), l.check(n)
	for k, v := range some {
		if all[k] != v {
			l.t.Fatalf("the successor has row %x as %q, the table as %q", k, v, all[k])
		}
	}
}

func (l *copyLab) same() {
	l.t.Helper()
	for _, q := range []string{"SELECT * FROM $ ORDER BY a, b, c", "SELECT c FROM $ WHERE c > 5 ORDER BY c",
		"SELECT a, b FROM $ WHERE b BETWEEN 10 AND 400 ORDER BY a, b"} {
		got, want := query(l.t, l.c, strings.ReplaceAll(q, "$", "t")), query(l.t, l.c, strings.ReplaceAll(q, "$", "u"))
		if !slices.Equal(got, want) {
			l.t.Fatalf("%s: %q with a successor, %q without", q, got, want)
		}
	}
}

// TestWritersKeepTheSuccessor: whatever statements do to a table that is being copied, its
// successor has each row as the table has it, with its index entries; and then the copy ends and
// the table is what it would have been.
func TestWritersKeepTheSuccessor(t *testing.T) {
	for name, create := range map[string]string{
		"key":    "CREATE TABLE $ (a INT PRIMARY KEY, b INT, c INT, UNIQUE KEY cu (c), KEY bb (b), KEY ab (a, b))",
		"hidden": "CREATE TABLE $ (a INT, b INT, c INT, UNIQUE KEY cu (c), KEY bb (b))",
	} {
		for to, loc := range map[string]schema.Locality{"us": {Kind: schema.ByTable, Region: 2},
			"global": {Kind: schema.Global}, "row": {}, "async": {Async: true}} {
			t.Run(name+" to "+to, func(t *testing.T) {
				l := newCopyLab(t, create)
				r := rand.New(rand.NewPCG(1, uint64(len(name)+len(to))))
				step := func() {
					n := func(m int) int { return r.IntN(m) }
					l.both([]string{
						fmt.Sprintf("INSERT INTO $ VALUES (%d, %d, %d)", n(60), n(500), n(80)),
						fmt.Sprintf("INSERT IGNORE INTO $ VALUES (%d, %d, %d), (%d, %d, NULL), (%d, %d, %d)", n(60),
							n(500), n(80), n(60), n(500), n(60), n(500), n(80)),
						fmt.Sprintf("REPLACE INTO $ VALUES (%d, %d, %d), (%d, %d, %d)", n(60), n(500), n(80), n(60),
							n(500), n(80)),
						fmt.Sprintf("INSERT INTO $ VALUES (%d, %d, %d) ON DUPLICATE KEY UPDATE b = b + 1", n(60), n(500), n(80)),
						fmt.Sprintf("UPDATE $ SET b = %d WHERE a = %d", n(500), n(60)),
						fmt.Sprintf("UPDATE $ SET b = b + 1, c = NULL WHERE a BETWEEN %d AND %d", n(60), n(60)),
						fmt.Sprintf("UPDATE $ SET a = a + 60 WHERE a = %d", n(60)),
						fmt.Sprintf("UPDATE $ SET c = c + 1000 WHERE b > %d", n(500)),
						"UPDATE $ SET a = a - 60, c = c - 1000 WHERE a >= 60 AND c >= 1000",
						fmt.Sprintf("DELETE FROM $ WHERE a = %d", n(60)),
						fmt.Sprintf("DELETE FROM $ WHERE b BETWEEN %d AND %d", n(500), n(500)),
					}[n(11)])
				}
				for range 30 {
					step()
				}
				l.begin(loc)
				for i := range 40 {
					if i == 15 {
						l.copySome()
					}
					step()
					if i%5 == 0 || i > 12 && i < 20 {
						l.invariant()
					}
				}
				// A transaction that takes back part of what it did.
				k := conn(t, l.c)
				for _, q := range []string{"START TRANSACTION", "DELETE FROM t", "SAVEPOINT x",
					"INSERT INTO t VALUES (7, 7, 7777)", "ROLLBACK TO x", "INSERT INTO t VALUES (8, 8, 8888)", "COMMIT"} {
					exec(t, k, q)
				}
				exec(t, l.c, "DELETE FROM u")
				exec(t, l.c, "INSERT INTO u VALUES (8, 8, 8888)")
				l.invariant()
				for range 30 {
					step()
				}
				if _, err := l.s.g.Copying(context.Background(), nil, l.id); err != nil {
					t.Fatal(err)
				}
				l.same()
				for range 20 {
					step()
				}
				l.same()
				snap, err := l.s.g.Catalog.Fresh(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				tab := snap.Table("test", "t")
				if tab.Desc.ID != l.id || tab.Next != nil || !tab.Desc.Locality.Same(loc) {
					t.Errorf("the table is %+v", tab.Desc)
				}
				l.check(tab)
			})
		}
	}
}

// TestSuccessorsAndSchemaChanges: what may be done to a table that is being copied, and what is
// left afterwards.
func TestSuccessorsAndSchemaChanges(t *testing.T) {
	l := newCopyLab(t, "CREATE TABLE $ (a INT PRIMARY KEY, b INT, c INT)")
	l.both("INSERT INTO $ VALUES (1, 1, 1), (2, 2, 2)")
	l.begin(schema.Locality{Kind: schema.Global})
	for _, q := range []string{"ALTER TABLE t ADD COLUMN d INT", "CREATE INDEX b ON t (b)", "TRUNCATE TABLE t",
		"ALTER TABLE t SET LOCALITY REGIONAL BY TABLE IN 'us'",
		"ALTER TABLE t SET LOCALITY GLOBAL", "ALTER TABLE t MODIFY COLUMN b BIGINT"} {
		if _, err := l.c.ExecContext(t.Context(), q); err == nil || !strings.Contains(err.Error(), "under way (SHOW JOBS)") {
			t.Errorf("%s: %v", q, err)
		}
	}
	// It may get another name, and a table that refers to it.
	exec(t, l.c, "RENAME TABLE t TO t2")
	exec(t, l.c, "CREATE TABLE child (a INT PRIMARY KEY, FOREIGN KEY (a) REFERENCES t2 (a) ON DELETE CASCADE)")
	exec(t, l.c, "INSERT INTO child VALUES (1)")
	l.copySome()
	exec(t, l.c, "DELETE FROM t2 WHERE a = 1")
	l.invariant()
	// Called off, it is as it was, and can be begun again.
	exec(t, l.c, "ALTER TABLE t2 SET LOCALITY REGIONAL BY ROW")
	old := l.id
	expect(t, l.c, "SELECT a FROM t2", "2")
	expect(t, l.c, "SELECT COUNT(*) FROM child", "0")
	if _, err := l.s.g.Copying(t.Context(), nil, old); err == nil || !strings.Contains(err.Error(), "called off") {
		t.Errorf("copying what was called off: %v", err)
	}
	exec(t, l.c, "ALTER TABLE t2 ADD COLUMN d INT")
	exec(t, l.c, "RENAME TABLE t2 TO t")
	l.begin(schema.Locality{Kind: schema.ByTable, Region: 2})
	l.copySome()
	exec(t, l.c, "DROP TABLE child, t")
	// Nothing is left of any of them.
	for _, id := range []base.TableID{old, l.id} {
		eventually(t, fmt.Sprintf("no row of table %v is left", id), func() bool {
			l.s.g.GC.Kick()
			return l.stored(id) == 0
		})
	}
}

// stored is the number of rows under a table id.
func (l *copyLab) stored(id base.TableID) (n int) {
	tx := l.s.g.DB.Begin(kv.Options{ReadOnly: true})
	defer tx.Rollback(context.Background())
	for shard := range base.ShardID(9) {
		p := base.IndexPrefix(shard, id, 0, 0)
		res, err := tx.Scan(context.Background(), kv.ScanRequest{Spans: []base.Span{{Start: p, End: p.PrefixEnd()}}})
		if err != nil {
			l.t.Fatal(err)
		}
		n += len(res.Rows)
	}
	return n
}

// TestDroppedAsynchronousRowsGo: the collector removes the rows of an asynchronous table that was
// dropped.
func TestDroppedAsynchronousRowsGo(t *testing.T) {
	l := newCopyLab(t, "CREATE TABLE $ (a INT PRIMARY KEY)")
	exec(t, l.c, "INSERT INTO t VALUES (1), (2), (3)")
	l.begin(schema.Locality{Async: true})
	if _, err := l.s.g.Copying(t.Context(), nil, l.id); err != nil {
		t.Fatal(err)
	}
	exec(t, l.c, "DROP TABLE t")
	eventually(t, "no row of the dropped table is left", func() bool { return l.stored(l.id) == 0 })
}

// deadCluster hears of no other node.
type deadCluster struct{ someCluster }

func (deadCluster) Live(base.NodeID) bool { return false }

// TestCopyIsResumed: a copy that a dead node has begun is ended by another one, and shown as a job.
func TestCopyIsResumed(t *testing.T) {
	s, c := startServer(t, memkv.New(4, "eu", "us"), func(c *Config) { c.Cluster = deadCluster{} })
	l := &copyLab{t: t, s: s, c: c}
	exec(t, c, "CREATE TABLE t (a INT PRIMARY KEY)")
	exec(t, c, "INSERT INTO t VALUES (1), (2), (3)")
	l.begin(schema.Locality{Kind: schema.Global})
	eventually(t, "somebody goes on with the copy",
		func() bool { return strings.Contains(query(t, c, "SHOW LOCALITY FROM t")[0], "GLOBAL") })
	expect(t, c, "SELECT a FROM t ORDER BY a", "1", "2", "3")
	eventually(t, "the job is shown as ended", func() bool { return s.Jobs()[0].State == ddl.JobSucceeded })
	if jobs := s.Jobs(); len(jobs) != 1 || jobs[0].Kind != "SET LOCALITY" {
		t.Errorf("jobs: %+v", jobs)
	}
}
