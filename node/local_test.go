package node

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/policy/matrix"
)

// startReal starts a cluster on disk, whose clients come over sockets.
func startReal(t *testing.T, regions int) *Local {
	t.Helper()
	m, err := matrix.Default(regions)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	l, err := StartLocal(t.Context(), LocalConfig{Matrix: m, NodesPerRegion: 1, Dir: t.TempDir()}, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return l
}

func key(table base.TableID, shard base.ShardID, n int) base.Key {
	return base.AppendInt64(base.IndexPrefix(shard, table, 0, 0), int64(n))
}

// TestLocalKV: rows are at home where they were inserted, every region sees all of them, and a
// region reads its own without a round trip.
func TestLocalKV(t *testing.T) { bubble(t, localKV) }

func localKV(t *testing.T) {
	t.Helper()
	l := startLocal(t, 3, 1)
	ctx := t.Context()
	table := base.MakeTableID(500, 1)
	for i, n := range l.Nodes() {
		for j := range 3 {
			tr := new(obs.Trace)
			begin := time.Now()
			_, err := kv.Run(ctx, n.DB(), kv.Options{Trace: tr}, func(x kv.Txn) error {
				return x.Insert(key(table, 1, 10*i+j), []byte(fmt.Sprint("v", i, j)), 0)
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("region %d insert %d: %v RTT, %v", i+1, j, tr.RTTs(), time.Since(begin).Round(time.Millisecond))
		}
	}
	for i, n := range l.Nodes() {
		tr := new(obs.Trace)
		begin := time.Now()
		x := n.DB().Begin(kv.Options{Trace: tr})
		res, err := x.Scan(ctx, kv.ScanRequest{Spans: []base.Span{{Start: base.IndexPrefix(1, table, 0, 0),
			End: base.IndexPrefix(1, table, 0, 0).PrefixEnd()}}})
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Rows) != 9 || res.Next != nil {
			t.Fatalf("region %d sees %d rows", i+1, len(res.Rows))
		}
		t.Logf("region %d scan: %v RTT, %v", i+1, tr.RTTs(), time.Since(begin).Round(time.Millisecond))
		tr.Reset()
		x = n.DB().Begin(kv.Options{Trace: tr})
		rows, err := x.Get(ctx, []base.Key{key(table, 1, 10*i)}, kv.LockNone)
		if err != nil || string(rows[0].Value) != fmt.Sprint("v", i, 0) || rows[0].Home != n.DB().Region() {
			t.Fatalf("%+v, %v", rows, err)
		}
		if tr.Hops() != 0 {
			t.Errorf("region %d reads its own row in %v round trips", i+1, tr.RTTs())
		}
	}
}

func TestLocalSQL(t *testing.T) {
	l := startReal(t, 3)
	db, err := sql.Open("mysql", "root@tcp("+l.SQLAddrs(l.Regions()[1])[0]+")/")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, q := range []string{"CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20), KEY (v))",
		"INSERT INTO d.t VALUES (1,'a'),(2,'b'),(3,'c')",
		"UPDATE d.t SET v='x' WHERE id=2", "DELETE FROM d.t WHERE id=3"} {
		begin := time.Now()
		if _, err := db.Exec(q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
		t.Logf("%v %s", time.Since(begin).Round(time.Millisecond), q)
	}
	rows, err := db.Query("SHOW GODWIT GROUPS")
	if err != nil {
		t.Fatal(err)
	}
	groups := 0
	for rows.Next() {
		groups++
	}
	if err := rows.Err(); err != nil || groups != len(l.Nodes()[0].Cluster().Topology().Groups()) {
		t.Errorf("SHOW GODWIT GROUPS lists %d, %v", groups, err)
	}
	for _, r := range l.Regions() {
		other, err := sql.Open("mysql", "root@tcp("+l.SQLAddrs(r)[0]+")/d")
		if err != nil {
			t.Fatal(err)
		}
		var n int
		var v string
		begin := time.Now()
		if err := other.QueryRow("SELECT COUNT(*), MAX(v) FROM t").Scan(&n, &v); err != nil || n != 2 || v != "x" {
			t.Fatalf("%s: %d rows, %q, %v", r, n, v, err)
		}
		t.Logf("%s reads in %v", r, time.Since(begin).Round(time.Millisecond))
		other.Close()
	}
}
