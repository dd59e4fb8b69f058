package node

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/txn"
)

// proc is a real node on loopback within the test's process.
type proc struct {
	cfg Config
	n   *Node

	mu      sync.Mutex
	running bool
	ctx     context.Context // ends with running
	end     context.CancelFunc
}

// cfgs is what all nodes of a test have in common.
type cfgs struct {
	tune func(*group.HostOptions, *owner.Config, *txn.Config)
}

// db is the node as a gateway; nil while it is down.
func (p *proc) db() kv.DB {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running {
		return nil
	}
	return p.n.DB()
}

func (p *proc) up() bool { return p.db() != nil }

func (p *proc) set(running bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running = running; running {
		p.ctx, p.end = context.WithCancel(context.Background())
	} else if p.end != nil {
		p.end()
	}
}

// life ends when the node is stopped.
func (p *proc) life() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ctx
}

// kill stops the node abruptly.
func (p *proc) kill(t *testing.T) {
	t.Helper()
	p.set(false)
	if err := p.n.Kill(); err != nil {
		t.Error(err)
	}
}

func (p *proc) start(t *testing.T) {
	t.Helper()
	var level slog.Level
	if err := level.UnmarshalText([]byte(cmp.Or(os.Getenv("GODWIT_TEST_LOG"), "warn"))); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: level})).With("region", p.cfg.Region)
	n, err := Start(t.Context(), p.cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.n = n
	p.mu.Unlock()
	p.cfg.Listen, p.cfg.SQLListen = n.Addr(), n.SQLAddr() // a restart keeps its ports
}

func (p *proc) ready(t *testing.T) {
	t.Helper()
	select {
	case <-p.n.Ready():
	case err := <-p.n.Failed():
		t.Fatal(err)
	case <-time.After(patience):
		t.Fatalf("node is not ready after %v", patience)
	}
	p.set(true)
}

func (p *proc) stop(t *testing.T) {
	t.Helper()
	p.set(false)
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
	return newProcsOf(t, cfgs{}, regions...)
}

func newProcsOf(t *testing.T, c cfgs, regions ...string) []*proc {
	t.Helper()
	var out []*proc
	var join []string
	for _, r := range regions {
		p := &proc{cfg: Config{Region: r, Store: t.TempDir(), Listen: "127.0.0.1:0", SQLListen: "127.0.0.1:0",
			Join: join, tune: c.tune}}
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
		res, err := admin(t).Post("https://"+addr+join.PathInit, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		var r join.InitReply
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
	t.Parallel() // it waits, most of the time
	procs := newProcs(t, "eu", "us", "asia")
	initCluster(t, procs[0].n.Addr(), 3)
	for _, p := range procs {
		p.ready(t)
	}
	db := procs[1].sql(t)
	for _, q := range []string{"CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)",
		"INSERT INTO d.t VALUES (1,10),(2,20)"} {
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
