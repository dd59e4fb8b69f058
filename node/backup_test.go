package node

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/hold"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/policy/matrix"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/txn"
)

// one is the only row of a statement, columns separated by "|".
func one(t *testing.T, c *sql.Conn, q string) []string {
	t.Helper()
	got := rowsOf(t, c, q)
	if len(got) != 1 {
		t.Fatalf("%s: %q", q, got)
	}
	return strings.Split(got[0], "|")
}

// rowsOf are the rows of a statement.
func rowsOf(t *testing.T, c interface {
	QueryContext(ctx context.Context, q string, args ...any) (*sql.Rows, error)
}, q string) (out []string) {
	t.Helper()
	rows, err := c.QueryContext(t.Context(), q)
	if err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	defer rows.Close()
	cols, _ := rows.Columns()
	for rows.Next() {
		vals, ptrs := make([]sql.NullString, len(cols)), make([]any, len(cols))
		for i := range vals {
			ptrs[i] = &vals[i]
		}
		if err := rows.Scan(ptrs...); err != nil {
			t.Fatal(err)
		}
		line := make([]string, len(cols))
		for i, v := range vals {
			line[i] = v.String
		}
		out = append(out, strings.Join(line, "|"))
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	return out
}

const (
	accounts = 120
	deposit  = 1000
)

// bank is accounts in all regions, between which clients of all regions transfer money and open and
// close accounts without any.
type bank struct {
	stop context.CancelFunc
	wg   sync.WaitGroup
	done atomic.Int64
}

func openBank(t *testing.T, l *Local, cs []*sql.Conn) *bank {
	t.Helper()
	mustExec(t, cs[0], "CREATE DATABASE bank")
	mustExec(t, cs[0], "CREATE TABLE bank.acct (id INT PRIMARY KEY, v INT, note VARCHAR(20), KEY (v), UNIQUE KEY (note))")
	for i := range accounts {
		mustExec(t, cs[i%len(cs)], "INSERT INTO bank.acct VALUES (?, ?, ?)", i, deposit, fmt.Sprint("n", i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	b := &bank{stop: cancel}
	for i, n := range l.Nodes() {
		c := openSQL(t, n, "bank")
		b.wg.Go(func() { b.teller(ctx, c, rand.New(rand.NewPCG(7, uint64(i))), i) })
	}
	return b
}

func (b *bank) teller(ctx context.Context, c *sql.Conn, r *rand.Rand, who int) {
	for n := 0; ctx.Err() == nil; n++ {
		tx, err := c.BeginTx(ctx, nil)
		if err != nil { // the node may have died
			time.Sleep(50 * time.Millisecond)
			continue
		}
		from, to, sum := r.IntN(accounts), r.IntN(accounts), r.IntN(50)
		extra := accounts + 1000*who + n%7 // one that comes and goes
		for _, q := range []string{
			fmt.Sprintf("UPDATE acct SET v = v - %d WHERE id = %d", sum, from),
			fmt.Sprintf("UPDATE acct SET v = v + %d WHERE id = %d", sum, to),
			fmt.Sprintf("DELETE FROM acct WHERE id = %d", extra),
		} {
			if err == nil {
				_, err = tx.ExecContext(ctx, q)
			}
		}
		if err == nil && n%2 == 0 {
			_, err = tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO acct VALUES (%d, 0, NULL)", extra))
		}
		if err != nil {
			tx.Rollback()
			continue
		}
		if tx.Commit() == nil {
			b.done.Add(1)
		}
	}
}

func (b *bank) close() { b.stop(); b.wg.Wait() }

// TestBackupUnderTransfers: full and incremental backups of a bank that goes on working, each taken
// by another region. Restored into the same cluster and into another one, every moment is what
// reads AS OF it show, row for row, and nothing is lost or made of the sum.
func TestBackupUnderTransfers(t *testing.T) {
	for _, how := range []base.Concurrency{base.Locking, base.ByTimestamp} {
		t.Run("concurrency "+string(how), func(t *testing.T) { bubble(t, func(t *testing.T) { backupUnderTransfers(t, how) }) })
	}
}

func backupUnderTransfers(t *testing.T, how base.Concurrency) {
	t.Helper()
	m, err := matrix.Default(3)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	l := startVirtual(t, LocalConfig{Matrix: m, NodesPerRegion: 1, Concurrency: how, BackupDir: dir})
	var cs []*sql.Conn
	for _, n := range l.Nodes() {
		cs = append(cs, openSQL(t, n, ""))
	}
	b := openBank(t, l, cs)
	mustExec(t, cs[1], "UPDATE bank.acct__homes SET pinned = TRUE WHERE id = 5")
	const all = "SELECT id, v, note FROM bank.acct"
	want, homes := map[string][]string{}, map[string][]string{}
	var moments []string
	for i := range 4 {
		time.Sleep(5 * time.Second)
		before := b.done.Load()
		options := ""
		if i > 0 {
			options = " WITH INCREMENTAL"
		}
		c := cs[i%len(cs)]
		begin := time.Now()
		got := one(t, c, "BACKUP DATABASE bank INTO 'file://"+dir+"/b'"+options)
		t.Logf("backup %s: %d transfers meanwhile, %s", strings.Join(got, " "), b.done.Load()-before,
			time.Since(begin).Round(time.Millisecond))
		moments = append(moments, got[1])
		want[got[1]] = rowsOf(t, cs[2], all+" AS OF SYSTEM TIME '"+got[1]+"' ORDER BY id")
		homes[got[1]] = nil
	}
	b.close()
	if b.done.Load() < 100 {
		t.Errorf("only %d transfers were made", b.done.Load())
	}
	now := one(t, cs[0], "BACKUP DATABASE bank INTO 'file://"+dir+"/b' WITH INCREMENTAL")[1]
	want[now] = rowsOf(t, cs[0], all+" ORDER BY id")
	moments = append(moments, now)
	wantHomes := rowsOf(t, cs[0], "SELECT id, home_region, pinned FROM bank.acct__homes ORDER BY id")

	readChanges(t, cs[1], "bank", "file://"+dir+"/b", "file://"+dir+"/whole", now, "all rows", "changes", "changes", "changes", "changes")

	m2, err := matrix.Default(2)
	if err != nil {
		t.Fatal(err)
	}
	other := startVirtual(t, LocalConfig{Matrix: m2, NodesPerRegion: 2, Shards: 5, Concurrency: how, BackupDir: dir})
	oc := openSQL(t, other.Nodes()[1], "")
	for i, moment := range moments {
		for _, c := range []*sql.Conn{cs[(i+1)%len(cs)], oc} {
			db := fmt.Sprintf("r%d", i)
			one(t, c, "RESTORE DATABASE bank FROM 'file://"+dir+"/b' AS OF SYSTEM TIME '"+moment+"' AS "+db)
			got := rowsOf(t, c, "SELECT id, v, note FROM "+db+".acct ORDER BY id")
			if !slices.Equal(got, want[moment]) {
				t.Errorf("moment %s: the restored rows differ from those AS OF it: %d and %d rows", moment, len(got), len(want[moment]))
			}
			if sum := one(t, c, "SELECT SUM(v) FROM "+db+".acct")[0]; sum != fmt.Sprint(accounts*deposit) {
				t.Errorf("moment %s: the sum is %s", moment, sum)
			}
			checkIndexes(t, c, db)
		}
	}
	last := fmt.Sprintf("r%d", len(moments)-1)
	if got := rowsOf(t, cs[0], "SELECT id, home_region, pinned FROM "+last+".acct__homes ORDER BY id"); !slices.Equal(got, wantHomes) {
		t.Errorf("homes of restored rows:\n got %q\nwant %q", got, wantHomes)
	}
	if regions := one(t, oc, "SELECT COUNT(DISTINCT home_region) FROM "+last+".acct__homes")[0]; regions != "2" {
		t.Errorf("in the cluster of two regions rows are at home in %s", regions)
	}
	for i, n := range l.Nodes() {
		if f, err := hold.Oldest(t.Context(), n.db); f.Oldest != 0 || len(f.Ended) > 0 || err != nil {
			t.Errorf("node %d: a hold is left: %+v, %v", i+1, f, err)
		}
	}
}

// checkIndexes reads the rows by each index.
func checkIndexes(t *testing.T, c *sql.Conn, db string) {
	t.Helper()
	n := one(t, c, "SELECT COUNT(*), COUNT(note) FROM "+db+".acct")
	if got := one(t, c, "SELECT COUNT(*) FROM "+db+".acct FORCE INDEX (v) WHERE v > -1000000")[0]; got != n[0] {
		t.Errorf("%s: %s rows by the index of v, %s in the table", db, got, n[0])
	}
	if got := one(t, c, "SELECT COUNT(*) FROM "+db+".acct FORCE INDEX (note) WHERE note > ''")[0]; got != n[1] {
		t.Errorf("%s: %s rows by the unique index, %s in the table", db, got, n[1])
	}
	if _, err := c.ExecContext(t.Context(), "INSERT INTO "+db+".acct VALUES (-1, 0, 'n7')"); err == nil ||
		!strings.Contains(err.Error(), "1062") {
		t.Errorf("%s: a second 'n7': %v", db, err)
	}
}

// TestHoldKeepsVersions: what a hold keeps can be read for as long as it lasts, at every node,
// although versions are kept for a moment only, and is collected after it has ended.
func TestHoldKeepsVersions(t *testing.T) { bubble(t, holdKeepsVersions) }

func holdKeepsVersions(t *testing.T) {
	t.Helper()
	m, err := matrix.Default(3)
	if err != nil {
		t.Fatal(err)
	}
	l := startVirtual(t, LocalConfig{Matrix: m, NodesPerRegion: 1, GCAge: 4 * time.Second,
		Tune: func(_ *group.HostOptions, o *owner.Config, _ *txn.Config) { o.GCInterval = 500 * time.Millisecond }})
	ctx := t.Context()
	tab := base.MakeTableID(500, 1)
	put := func(v string) base.Timestamp {
		ts, err := kv.Run(ctx, l.Nodes()[0].DB(), kv.Options{}, func(x kv.Txn) error {
			x.Put(key(tab, 1, 1), []byte(v), 0)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return ts
	}
	read := func(n *Node, at base.Timestamp) (string, error) {
		x := n.DB().Begin(kv.Options{ReadOnly: true, ReadTS: at})
		defer x.Rollback(ctx)
		rows, err := x.Get(ctx, []base.Key{key(tab, 1, 1)}, kv.LockNone)
		if err != nil {
			return "", err
		}
		return string(rows[0].Value), nil
	}
	ts := put("old")
	h, err := hold.Take(ctx, l.Nodes()[1].DB(), ts, "test")
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		put("new")
		time.Sleep(3 * time.Second)
	}
	for _, n := range l.Nodes() {
		if v, err := read(n, ts); v != "old" || err != nil {
			t.Errorf("node %d reads %q, %v while the hold lasts", n.ID(), v, err)
		}
	}
	if err := h.Release(ctx); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Second)
	for _, n := range l.Nodes() {
		if v, err := read(n, ts); base.CodeOf(err) != base.CodeTooOld {
			t.Errorf("node %d reads %q, %v after the hold has ended", n.ID(), v, err)
		}
	}
	// One that nobody renews ends by itself.
	ts = put("old")
	if _, err := hold.Take(ctx, l.Nodes()[1].DB(), ts, "test"); err != nil {
		t.Fatal(err)
	}
	put("new")
	time.Sleep(hold.Lasts + 2*holdsEvery + 20*time.Second)
	if v, err := read(l.Nodes()[2], ts); base.CodeOf(err) != base.CodeTooOld {
		t.Errorf("%q, %v is read after a hold has ended by itself", v, err)
	}
}

// startBackups starts a cluster whose backups lie in dir, with a connection to each node.
func startBackups(t *testing.T, regions int, dir string) (*Local, []*sql.Conn) {
	t.Helper()
	m, err := matrix.Default(regions)
	if err != nil {
		t.Fatal(err)
	}
	l := startVirtual(t, LocalConfig{Matrix: m, NodesPerRegion: 1, BackupDir: dir})
	var cs []*sql.Conn
	for _, n := range l.Nodes() {
		cs = append(cs, openSQL(t, n, ""))
	}
	return l, cs
}

// TestBackupOfAllLocalities: tables of every locality, in a whole cluster that is restored into one
// of fewer regions.
func TestBackupOfAllLocalities(t *testing.T) { bubble(t, backupOfAllLocalities) }

func backupOfAllLocalities(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	l, cs := startBackups(t, 3, dir)
	region := l.Regions()[2]
	mustExec(t, cs[0], "CREATE DATABASE d")
	tables := map[string]string{"r": "", "g": " LOCALITY GLOBAL", "b": " LOCALITY REGIONAL BY TABLE IN '" + region + "'",
		"a": " REPLICATION ASYNC", "m": " LOCALITY MULTI MASTER"}
	for name, l := range tables {
		mustExec(t, cs[0], "CREATE TABLE d."+name+" (id INT PRIMARY KEY AUTO_INCREMENT, v INT, KEY (v))"+l)
		for i, c := range cs {
			mustExec(t, c, "INSERT INTO d."+name+" (id, v) VALUES (?, ?)", 10+i, 10*i)
		}
	}
	to := " '" + "file://" + dir + "'"
	refused(t, cs[1], "BACKUP INTO"+to, "MULTI MASTER tables have no reads of the past, and so no backup: d.m")
	got := one(t, cs[1], "BACKUP INTO"+to+" WITH SKIP_MULTI_MASTER")
	if got[2] != "4" || got[3] != "12" || got[6] != "d.m" {
		t.Errorf("BACKUP says %q", got)
	}
	other, oc := startBackups(t, 2, dir)
	got = one(t, oc[1], "RESTORE FROM"+to)
	if !strings.Contains(got[4], "not in the backup: d.m") || !strings.Contains(got[4], fmt.Sprintf("region %q, which does not exist", region)) {
		t.Errorf("RESTORE says %q", got)
	}
	for _, c := range oc {
		for name := range tables {
			if name == "m" {
				refused(t, c, "SELECT * FROM d.m", "doesn't exist")
				continue
			}
			if got := rowsOf(t, c, "SELECT id FROM d."+name+" WHERE v >= 0 ORDER BY v"); !slices.Equal(got, []string{"10", "11", "12"}) {
				t.Errorf("table %s has %q", name, got)
			}
		}
	}
	for name, want := range map[string]string{"r": "REGIONAL BY ROW", "g": "GLOBAL", "a": "REGIONAL BY ROW",
		"b": "REGIONAL BY TABLE IN '" + other.Regions()[1] + "'"} {
		if got := one(t, oc[0], "SHOW LOCALITY FROM d."+name)[1]; got != want {
			t.Errorf("table %s is %s, want %s", name, got, want)
		}
		made := func(c *sql.Conn) string { // a gateway shows the counter of its own block
			return regexp.MustCompile(`AUTO_INCREMENT=\d+`).ReplaceAllString(one(t, c, "SHOW CREATE TABLE d."+name)[1], "")
		}
		if was, is := made(cs[0]), made(oc[0]); name != "b" && was != is {
			t.Errorf("table %s was %q, and is %q", name, was, is)
		}
		mustExec(t, oc[0], "INSERT INTO d."+name+" (v) VALUES (99)")
		if id := one(t, oc[0], "SELECT id FROM d."+name+" WHERE v = 99")[0]; len(id) < 2 || id <= "12" {
			t.Errorf("AUTO_INCREMENT of table %s goes on with %s", name, id)
		}
	}
}

// TestFailedRestore: a restore that finds damage late leaves neither a definition nor a row, and
// the rows of one that succeeds stay.
func TestFailedRestore(t *testing.T) { bubble(t, failedRestore) }

func failedRestore(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	l, cs := startBackups(t, 2, dir)
	mustExec(t, cs[0], "CREATE DATABASE d")
	mustExec(t, cs[0], "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(1000), KEY (v))")
	const rows = 10_000 // two pieces a shard
	for i := 0; i < rows; i += 500 {
		var values []string
		for j := i; j < i+500; j++ {
			values = append(values, fmt.Sprintf("(%d, '%1000d')", j, j))
		}
		mustExec(t, cs[i/500%2], "INSERT INTO d.t VALUES "+strings.Join(values, ","))
	}
	id := one(t, cs[0], "BACKUP INTO 'file://"+dir+"'")[0]
	es, err := os.ReadDir(filepath.Join(dir, id))
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	for _, e := range es {
		if strings.HasSuffix(e.Name(), ".rows") {
			last = e.Name()
		}
	}
	file := filepath.Join(dir, id, last)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, whole[:len(whole)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, cs[1], "RESTORE DATABASE d FROM 'file://"+dir+"' AS e", id+"/"+last)
	refused(t, cs[1], "SELECT * FROM e.t", "database not found")
	if got := rowsOf(t, cs[0], "SHOW DATABASES LIKE 'e'"); len(got) != 0 {
		t.Errorf("databases: %q", got)
	}
	if n := orphans(t, l.Nodes()[0]); n == 0 {
		t.Error("nothing was written before the damage was found: the test shows nothing")
	}
	time.Sleep(5 * time.Minute) // the collector comes by
	if n := orphans(t, l.Nodes()[0]); n != 0 {
		t.Errorf("%d rows of the restore that failed are left", n)
	}
	if err := os.WriteFile(file, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	one(t, cs[1], "RESTORE DATABASE d FROM 'file://"+dir+"' AS e")
	if got := one(t, cs[0], "SELECT COUNT(*) FROM e.t")[0]; got != fmt.Sprint(rows) {
		t.Errorf("%s rows", got)
	}
	time.Sleep(5 * time.Minute)
	if got := one(t, cs[0], "SELECT COUNT(*), COUNT(v) FROM e.t WHERE v >= ''")[0]; got != fmt.Sprint(rows) {
		t.Errorf("%s rows after the collector came by", got)
	}
}

// orphans counts rows, and entries of the first index, of all tables but the first one.
func orphans(t *testing.T, n *Node) (found int) {
	t.Helper()
	ctx := t.Context()
	x := n.both.Begin(kv.Options{ReadOnly: true})
	defer x.Rollback(ctx)
	for seq := uint64(schema.FirstTableSeq + 1); seq < schema.FirstTableSeq+10; seq++ {
		for _, r := range n.DB().Topology().Regions {
			id := base.MakeTableID(seq, r.ID)
			for shard := 1; shard <= n.DB().Topology().Shards; shard++ {
				spans := []base.Key{base.IndexPrefix(base.ShardID(shard), id, 0, 0)}
				for _, home := range n.DB().Topology().Regions {
					spans = append(spans, base.IndexPrefix(base.ShardID(shard), id, 1|base.ByHome, home.ID))
				}
				for _, p := range spans {
					res, err := x.Scan(ctx, kv.ScanRequest{Spans: []base.Span{{Start: p, End: p.PrefixEnd()}}})
					if err != nil {
						t.Fatal(err)
					}
					found += len(res.Rows)
				}
			}
		}
	}
	return found
}
