package bulk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/job"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/backup/place"
	"github.com/godwitdb/godwit/sql/bulk"
	"github.com/godwitdb/godwit/sql/bulk/share"
)

// nearby is a gateway in the first region: nodes of one region share a job.
type nearby struct{ *memkv.DB }

func (nearby) Region() base.RegionID { return 1 }

// three gateways of one region; the first one is asked.
func three(t *testing.T) (ws []*world) {
	t.Helper()
	a := newWorld(t, "eu", "two", "three")
	ws = []*world{a}
	for i := 2; i <= 3; i++ {
		ws = append(ws, start(t, nearby{a.db.(*memkv.DB).Gateway(base.RegionID(i))}, place.Policy{Dir: a.dir}))
	}
	return ws
}

// change changes a row of the meta shard, if it is there.
func change(ctx context.Context, db kv.DB, key base.Key, fn func(map[string]any)) error {
	_, err := kv.Run(ctx, db, kv.Options{}, func(k kv.Txn) error {
		rows, err := k.Get(ctx, []base.Key{key}, kv.LockExclusive)
		if err != nil || rows[0].Value == nil {
			return err
		}
		d, m := json.NewDecoder(strings.NewReader(string(rows[0].Value))), map[string]any{}
		d.UseNumber()
		if err := d.Decode(&m); err != nil {
			return err
		}
		fn(m)
		v, err := json.Marshal(m)
		k.Put(key, v, 0)
		return err
	})
	return err
}

// dead makes all nodes that work for a job ones that others believe dead: leases are over, and what
// they write from now on must not count.
func dead(ctx context.Context, db kv.DB, id uint64) error {
	err := change(ctx, db, base.AppendUint64(job.Span().Start.Clone(), id), func(m map[string]any) {
		n, _ := m["term"].(json.Number).Int64()
		m["until"], m["term"] = 0, n+1
	})
	if err != nil {
		return err
	}
	var keys []base.Key
	from := base.Key(base.AppendUint64(share.Span(id).Start.Clone(), math.MaxUint64))
	if _, err := kv.Run(ctx, db, kv.Options{ReadOnly: true}, func(t kv.Txn) error {
		res, err := t.Scan(ctx, kv.ScanRequest{Spans: []base.Span{{Start: from, End: share.Span(id).End}}})
		keys = nil
		for _, r := range res.Rows {
			keys = append(keys, slices.Clone(r.Key))
		}
		return err
	}); err != nil {
		return err
	}
	for _, k := range keys {
		if err := change(ctx, db, k, func(m map[string]any) { m["until"], m["gone"] = 0, true }); err != nil {
			return err
		}
	}
	return nil
}

// exportSteps are the points at which a node may die that exports.
var exportSteps = []string{"joined", "marked", "claimed", "made", "written", "noted", "unit", "exported", "swept", "unmarked"}

// TestExportGoesOn: the node dies at each step of an export, and comes back when all is over. What
// is there then is each row once, as it was when the export began.
func TestExportGoesOn(t *testing.T) {
	for k, kind := range []string{"TABLE k", "SELECT id, v, id * 3 AS n FROM k ORDER BY v", "SELECT id, v, RAND() AS n FROM k"} {
		for i, at := range exportSteps {
			if kind[0] == 'S' && i%3 != 1 && at != "noted" {
				continue
			}
			t.Run(fmt.Sprint(k, at), func(t *testing.T) { exportGoesOn(t, kind, at) })
		}
	}
}

func exportGoesOn(t *testing.T, from, at string) {
	const n = 3000
	defer bulk.Units(400, 1<<20)()
	over, died := make(chan struct{}), make(chan uint64, 1)
	var once atomic.Bool
	var seen atomic.Int64
	var db kv.DB
	early := slices.Index([]string{"joined", "marked", "exported", "swept", "unmarked"}, at) >= 0
	defer bulk.Steps(func(id uint64, step string) {
		if seen.Add(1); step != at || seen.Load() < 10 && !early || once.Swap(true) {
			return
		}
		if err := dead(t.Context(), db, id); err != nil {
			t.Error(err)
		}
		died <- id
		<-over
	})()
	a, b := twoGateways(t)
	db = a.db
	a.exec("SET cte_max_recursion_depth = 10000")
	a.exec("CREATE TABLE k (id INT PRIMARY KEY, v VARCHAR(40), n INT)")
	a.exec("INSERT INTO k WITH RECURSIVE x AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM x WHERE i < " + fmt.Sprint(n) + ") SELECT i, CONCAT('row ', i * 7919 % 1000, ',\"', i), i * 3 FROM x")
	want := a.query("SELECT id, v FROM k ORDER BY id")
	failed := make(chan error, 1)
	go func() {
		_, err := ask(a.c, "EXPORT INTO '"+a.url+"/out' WITH chunk_rows = 100 FROM "+from)
		failed <- err
	}()
	var id uint64
	select {
	case id = <-died:
	case err := <-failed:
		t.Fatalf("the export was over before its node died: %v", err)
	}
	b.exec("USE test")
	b.exec("UPDATE k SET v = 'changed'") // what goes on must not see it
	b.exec("DELETE FROM k WHERE id % 2 = 0")
	if got := b.until(id); got != "succeeded" {
		t.Fatal(got)
	}
	files := func() (names []string) {
		es, err := os.ReadDir(filepath.Join(a.dir, "out"))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range es {
			names = append(names, e.Name())
		}
		return names
	}
	before := files()
	close(over) // the first node is back
	<-failed
	a.srv.Close()
	if after := files(); !slices.Equal(before, after) {
		t.Errorf("the node that was believed dead has changed the files:\n%q\n%q", before, after)
	}
	for _, f := range before {
		if !strings.HasSuffix(f, ".csv") {
			t.Errorf("a file %s is left", f)
		}
	}
	b.exec("CREATE TABLE back (id INT, v VARCHAR(40), n DOUBLE)")
	if _, err := ask(b.c, "IMPORT INTO test.back FROM '"+a.url+"/out/*.csv'"); err != nil {
		t.Fatal(err)
	}
	if got := b.query("SELECT id, v FROM back ORDER BY id"); !slices.Equal(got, want) {
		t.Errorf("%d rows were exported, want %d", len(got), len(want))
	}
	if n := b.records(); n != 0 {
		t.Errorf("%d records are left", n)
	}
}

// TestExportShared: several nodes write the files of a table, and one of them dies.
func TestExportShared(t *testing.T) {
	defer bulk.Units(300, 1<<20)()
	defer bulk.Steps(func(_ uint64, step string) {
		if step == "written" {
			time.Sleep(20 * time.Millisecond)
		}
	})()
	ws := three(t)
	a := ws[0]
	a.exec("SET cte_max_recursion_depth = 10000")
	a.exec("CREATE TABLE k (id BIGINT PRIMARY KEY, v VARCHAR(40))")
	a.exec("INSERT INTO k WITH RECURSIVE x AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM x WHERE i < 9000) SELECT i * i - 4000000, CONCAT('v', i) FROM x")
	want := a.query("SELECT * FROM k ORDER BY id")
	got := make(chan []string, 1)
	go func() {
		rows, err := ask(a.c, "EXPORT INTO '"+a.url+"/out' WITH chunk_rows = 50 FROM TABLE k")
		if err != nil {
			t.Error(err)
		}
		got <- rows
	}()
	nodes := map[string]bool{}
	for len(nodes) < 3 {
		select {
		case rows := <-got:
			t.Fatalf("the export is over, and %d nodes have worked for it: %d files", len(nodes), len(rows))
		case <-time.After(10 * time.Millisecond):
		}
		for n := range workersOf(t, a.db) {
			nodes[n] = true
		}
	}
	ws[2].srv.Close()
	rows := <-got
	sum := 0
	for _, r := range rows {
		var n int
		_, _ = fmt.Sscan(strings.Split(r, "|")[1], &n)
		sum += n
	}
	if sum != 9000 {
		t.Errorf("the answer counts %d rows", sum)
	}
	a.exec("CREATE TABLE back (id BIGINT, v VARCHAR(40))")
	a.exec("IMPORT INTO back FROM '" + a.url + "/out/*.csv'")
	if back := a.query("SELECT * FROM back ORDER BY id"); !slices.Equal(back, want) {
		t.Errorf("%d rows, want %d", len(back), len(want))
	}
	if n := a.records(); n != 0 {
		t.Errorf("%d records are left", n)
	}
}

// workersOf are the nodes that work for jobs.
func workersOf(t *testing.T, db kv.DB) map[string]bool {
	t.Helper()
	nodes := map[string]bool{}
	p := base.Key(base.IndexPrefix(base.MetaShard, base.MakeTableID(12, 0), 0, 0))
	if _, err := kv.Run(t.Context(), db, kv.Options{ReadOnly: true}, func(k kv.Txn) error {
		for req := (&kv.ScanRequest{Spans: []base.Span{{Start: p, End: p.PrefixEnd()}}}); req != nil; {
			res, err := k.Scan(t.Context(), *req)
			if err != nil {
				return err
			}
			for _, r := range res.Rows {
				var w struct {
					Node json.Number `json:"node"`
				}
				if json.Unmarshal(r.Value, &w) == nil && w.Node != "" {
					nodes[w.Node.String()] = true
				}
			}
			req = res.Next
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return nodes
}

// TestImportShared: several nodes load the files of an import; one stops, and all are believed dead
// in the middle. Each row is there once.
func TestImportShared(t *testing.T) {
	defer bulk.Steps(nil)()
	ws := three(t)
	a := ws[0]
	a.exec("CREATE TABLE t (id INT, v VARCHAR(20), KEY (id))")
	const files = 24
	for f := range files {
		a.file(fmt.Sprintf("%02d.csv", f), lines(f*goesOnRows/files, (f+1)*goesOnRows/files))
	}
	var mu sync.Mutex
	chunks := 0
	all := make(chan uint64, 1)
	defer bulk.Small(25, func(id uint64, _ int64) {
		mu.Lock()
		chunks++
		n := chunks
		mu.Unlock()
		switch {
		case n == 40:
			all <- id
		case n == 120:
			if err := dead(t.Context(), a.db, id); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(50 * time.Millisecond)
	})()
	rows := a.query("IMPORT INTO t FROM '" + a.url + "/*.csv' WITH detached, threads = 2")
	id := <-all
	if rows[0] != fmt.Sprint(id) {
		t.Errorf("job %d, want %s", id, rows[0])
	}
	if got := workersOf(t, a.db); len(got) != 3 {
		t.Errorf("nodes at work: %v", got)
	}
	ws[1].srv.Close()
	if got := a.until(id); got != "succeeded" {
		t.Fatal(got)
	}
	a.complete()
	r, err := job.Find(t.Context(), a.db, id)
	if err != nil || r.Done < goesOnRows {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestImportSharedErrors: rows that are wrong are counted over all nodes, and what one node meets
// ends the job.
func TestImportSharedErrors(t *testing.T) {
	defer bulk.Steps(nil)()
	ws := three(t)
	a := ws[0]
	a.exec("CREATE TABLE t (id INT, v VARCHAR(20))")
	for f := range 12 {
		a.file(fmt.Sprintf("%02d.csv", f), lines(f*100, f*100+100)+"wrong,x\n"+lines(2000+f*100, 2100+f*100))
	}
	defer bulk.Small(20, func(uint64, int64) { time.Sleep(20 * time.Millisecond) })()
	a.imported("t FROM '$/*.csv' WITH max_errors = 12, threads = 2", "12|2400|0|12|"+fmt.Sprint(size(t, a.dir)))
	a.expect("SELECT COUNT(*), COUNT(DISTINCT id) FROM t", "2400|2400")
	a.exec("TRUNCATE t")
	a.refused("Incorrect integer value", "IMPORT INTO t FROM '"+a.url+"/*.csv' WITH max_errors = 11, threads = 2")
	if n := a.records(); n != 0 {
		t.Errorf("%d records are left", n)
	}
}

func size(t *testing.T, dir string) (n int64) {
	t.Helper()
	es, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range es {
		st, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		n += st.Size()
	}
	return n
}

// TestImportParquetParts: groups of rows of a Parquet file are units of their own.
func TestImportParquetParts(t *testing.T) {
	defer bulk.Steps(nil)()
	ws := three(t)
	a := ws[0]
	a.exec("CREATE TABLE t (id INT, v VARCHAR(20))")
	type row struct {
		ID int64  `parquet:"id"`
		V  string `parquet:"v"`
	}
	for f := range 2 {
		var b bytes.Buffer
		w := parquet.NewGenericWriter[row](&b, parquet.MaxRowsPerRowGroup(177))
		for i := f * goesOnRows / 2; i < (f+1)*goesOnRows/2; i++ {
			if _, err := w.Write([]row{{int64(i), fmt.Sprintf("row %d", i*i)}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		a.file(fmt.Sprintf("%d.parquet", f), b.String())
	}
	defer bulk.Units(1<<40, 10_000)()
	defer bulk.Small(100, func(uint64, int64) { time.Sleep(5 * time.Millisecond) })()
	a.exec("IMPORT INTO t FROM '" + a.url + "/*.parquet'")
	a.complete()
}
