package node

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/cluster"
)

// proc is a real node on loopback within the test's process.
type proc struct {
	cfg Config
	n   *Node
}

func (p *proc) start(t *testing.T) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})).With("region", p.cfg.Region)
	n, err := Start(t.Context(), p.cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	p.n = n
	p.cfg.Listen, p.cfg.SQLListen = n.Addr(), n.SQLAddr() // a restart keeps its ports
}

func (p *proc) ready(t *testing.T) {
	t.Helper()
	select {
	case <-p.n.Ready():
	case err := <-p.n.Failed():
		t.Fatal(err)
	case <-time.After(60 * time.Second):
		t.Fatal("node is not ready after a minute")
	}
}

func (p *proc) stop(t *testing.T) {
	t.Helper()
	if err := p.n.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func (p *proc) sql(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", "root@tcp("+p.n.SQLAddr()+")/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func newProcs(t *testing.T, regions ...string) []*proc {
	t.Helper()
	var out []*proc
	var join []string
	for _, r := range regions {
		p := &proc{cfg: Config{Region: r, Store: t.TempDir(), Listen: "127.0.0.1:0", SQLListen: "127.0.0.1:0", Join: join}}
		p.start(t)
		out = append(out, p)
		join = append(join, p.n.Addr())
	}
	return out
}

func initCluster(t *testing.T, addr string, nodes int) {
	t.Helper()
	for {
		body := fmt.Sprintf(`{"expect":%d}`, nodes)
		res, err := http.Post("http://"+addr+cluster.PathInit, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		var r cluster.InitReply
		err = json.NewDecoder(res.Body).Decode(&r)
		res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if r.Error == "" {
			return
		}
		if !strings.Contains(r.Error, "of the expected") {
			t.Fatal(r.Error)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func TestRealNodesSurviveRestart(t *testing.T) {
	procs := newProcs(t, "eu", "us", "asia")
	initCluster(t, procs[0].n.Addr(), 3)
	for _, p := range procs {
		p.ready(t)
	}
	db := procs[1].sql(t)
	for _, q := range []string{"CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)", "INSERT INTO d.t VALUES (1,10),(2,20)"} {
		if _, err := db.Exec(q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	for _, p := range procs {
		p.stop(t)
	}
	for _, p := range procs {
		p.start(t)
	}
	for _, p := range procs {
		p.ready(t)
		var n, sum int
		if err := p.sql(t).QueryRow("SELECT COUNT(*), SUM(v) FROM d.t").Scan(&n, &sum); err != nil || n != 2 || sum != 30 {
			t.Errorf("%s after the restart: %d rows, sum %d, %v", p.cfg.Region, n, sum, err)
		}
	}
	for _, p := range procs {
		p.stop(t)
	}
}
