package cli

import (
	"archive/zip"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	_ "github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/node"
)

// gate is a port before that of a node. Shut, it takes connections and passes nothing on: who asks
// there gets no answer, while the connections that there were go on.
type gate struct {
	net.Listener
	to   atomic.Pointer[string]
	shut atomic.Bool
}

func newGate(t *testing.T) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{Listener: l}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	keep := func(c net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		open = append(open, c)
	}
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			keep(c)
			to := g.to.Load()
			if to == nil || g.shut.Load() {
				continue
			}
			d, err := net.Dial("tcp", *to)
			if err != nil {
				_ = c.Close()
				continue
			}
			keep(d)
			for _, p := range [][2]net.Conn{{c, d}, {d, c}} {
				wg.Go(func() {
					_, _ = io.Copy(p[0], p[1])
					_ = p[0].Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return g
}

// startNode starts a node with the log that its configuration says.
func startNode(t *testing.T, cfg node.Config) *node.Node {
	t.Helper()
	cfg.Store = t.TempDir()
	cfg.Listen, cfg.SQLListen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Fill()
	log, file, err := nodeLogger(io.Discard, &cfg)
	if err != nil {
		t.Fatal(err)
	}
	n, err := node.Start(t.Context(), cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = n.Close(context.Background()) // it may be closed
		_ = file.Close()
	})
	return n
}

func openDB(t *testing.T, n *node.Node, user string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", user+"@tcp("+n.SQLAddr()+")/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// unzip reads a file of files.
func unzip(t *testing.T, file string) map[string]string {
	t.Helper()
	z, err := zip.OpenReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	out := map[string]string{}
	for _, f := range z.File {
		if _, twice := out[f.Name]; twice {
			t.Errorf("%s is there twice", f.Name)
		}
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out[f.Name] = string(b)
	}
	return out
}

// planted are what must not be in a bundle. Each is put where it could get into one.
const (
	plantedRoot, plantedPassword           = "planted-root-password", "planted-password"
	plantedLiteral, plantedRow, plantedKey = "planted-literal", "planted-row-value", "planted-key-value"
	plantedDefault, plantedView            = "planted-default", "planted-view-literal"
	plantedProcedure, plantedComment       = "planted-procedure-literal", "planted-comment"
	plantedNumber, plantedCheck            = "8675309", "8675310"
)

// filesOfNode are those that a node with certificates and a file for its log gives.
var filesOfNode = []string{"version.json", "config.json", "ready.txt", "log.jsonl", "metrics.txt", "topology.json", "status.json",
	"settings.json", "nodes.json", "groups.json", "health.json", "problems.json", "clock.json", "replicas.json", "links.json",
	"round_trips.json", "epochs.json", "jobs.json", "decisions/moves.json", "decisions/heat.json", "decisions/leader_moves.json",
	"decisions/leaders.json", "decisions/clock_history.json", "decisions/consistency.json", "decisions/promotions.json", "decisions/splits.json",
	"decisions/health_history.json", "decisions/plan_history.json", "decisions/advice.json", "decisions/transactions.json", "decisions/locks.json", "schema.sql", "log-files.txt",
	"profiles/heap.pprof", "profiles/goroutines.txt", "profiles/cpu.pprof"}

// TestDebugZip: of three nodes one is dead and one does not answer. All of the third is there, the
// others are noted, and nothing that is secret is in it.
func TestDebugZip(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for a node that does not answer")
	}
	status, out, errs := godwit(t, "token", "create", "--region", "eu")
	token := strings.Fields(out)
	if status != 0 || len(token) == 0 {
		t.Fatalf("status %d:\n%s%s", status, out, errs)
	}
	logFile := filepath.Join(t.TempDir(), "godwit.log")
	slow := newGate(t)
	us := startNode(t, node.Config{Region: "us", Advertise: slow.Addr().String()})
	to := us.Addr()
	slow.to.Store(&to)
	eu := startNode(t, node.Config{Region: "eu", LogFile: logFile, Token: token[0], Join: []string{us.Addr()}})
	asia := startNode(t, node.Config{Region: "asia", Join: []string{us.Addr()}})
	t.Setenv(rootPasswordVar, plantedRoot)
	if status, out, errs := godwit(t, "init", "--addr", us.Addr(), "--expect", "3"); status != 0 {
		t.Fatalf("status %d:\n%s%s", status, out, errs)
	}
	for _, n := range []*node.Node{eu, us, asia} {
		<-n.Ready()
	}
	plant(t, eu, logFile)
	if err := asia.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	slow.shut.Store(true)

	file := filepath.Join(t.TempDir(), "fault.zip")
	status, out, errs = godwit(t, "debug", "zip", file, "--addr", eu.Addr(), "--profile", "100ms", "--timeout", "9s")
	if status != 0 || !strings.Contains(out, "1 of 3 nodes") {
		t.Fatalf("status %d:\n%s%s", status, out, errs)
	}
	if s, err := os.Stat(file); err != nil || s.Mode() != 0o600 {
		t.Errorf("%v %v", s.Mode(), err)
	}
	leftNothing(t, file)
	got := unzip(t, file)
	ids := map[string]string{}
	for _, n := range []*node.Node{eu, us, asia} {
		ids[map[*node.Node]string{eu: "eu", us: "us", asia: "asia"}[n]] = fmt.Sprintf("nodes/%d/", n.ID())
	}
	want := []string{"manifest.json", "errors.txt", ids["us"] + "errors.txt", ids["asia"] + "errors.txt"}
	for _, f := range filesOfNode {
		want = append(want, ids["eu"]+f)
	}
	var have []string
	for name, text := range got {
		have = append(have, name)
		if strings.HasSuffix(name, ".json") && !json.Valid([]byte(text)) {
			t.Errorf("%s is not JSON:\n%s", name, text)
		}
		for _, secret := range []string{plantedRoot, plantedPassword, token[0], plantedLiteral, plantedRow, plantedKey, plantedDefault,
			plantedView, plantedProcedure, plantedComment, plantedNumber, plantedCheck} {
			if at := strings.Index(text, secret); at >= 0 {
				t.Errorf("%s has %q: ...%s...", name, secret, text[max(0, at-80):min(len(text), at+80)])
			}
		}
	}
	slices.Sort(want)
	slices.Sort(have)
	if !slices.Equal(want, have) {
		t.Errorf("files\n%s\nwant\n%s\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"), errs)
	}
	for name, says := range map[string][]string{
		"errors.txt":                             {"(us, ", "did not answer within 9s", "(asia, ", "nothing listens"},
		ids["us"] + "errors.txt":                 {"did not answer within 9s"},
		ids["asia"] + "errors.txt":               {"nothing listens"},
		"manifest.json":                          {`"answered": true`, `"live"`},
		ids["eu"] + "schema.sql":                 {"CREATE DATABASE `shop`", "`name` varchar(40)", "enum('small','large')", "CREATE VIEW `v`", "PROCEDURE", "TRIGGER", "REGIONAL BY ROW"},
		ids["eu"] + "metrics.txt":                {"godwit_statement_seconds", "go_goroutines"},
		ids["eu"] + "log.jsonl":                  {`"msg":"slow statement"`, `"statement":"(removed)"`},
		ids["eu"] + "log-files.txt":              {`msg="slow statement"`, `statement="(removed)"`},
		ids["eu"] + "settings.json":              {`"sql.long_query_time"`},
		ids["eu"] + "config.json":                {`"token": "(removed)"`},
		ids["eu"] + "decisions/heat.json":        {`"table_name": "shop.carts"`, `"row_name": "(removed)"`},
		ids["eu"] + "jobs.json":                  {`"job_type"`},
		ids["eu"] + "profiles/goroutines.txt":    {"goroutine "},
		ids["eu"] + "ready.txt":                  {"ready"},
		ids["eu"] + "topology.json":              {`"asia"`},
		ids["eu"] + "version.json":               {`"go"`},
		ids["eu"] + "decisions/leaders.json":     {`"utility_ms"`},
		ids["eu"] + "decisions/locks.json":       {"["},
		ids["eu"] + "profiles/cpu.pprof":         {""},
		ids["eu"] + "decisions/consistency.json": {"["},
	} {
		for _, s := range says {
			if !strings.Contains(got[name], s) {
				t.Errorf("%s lacks %q:\n%.2000s", name, s, got[name])
			}
		}
	}
}

// plant puts secrets where they could get into a bundle.
func plant(t *testing.T, n *node.Node, logFile string) {
	t.Helper()
	first := openDB(t, n, "root:"+plantedRoot)
	for _, q := range []string{"sql.statement_literals = on", "sql.slow_query_log = on", "sql.long_query_time = 0"} {
		if _, err := first.Exec("SET CLUSTER SETTING " + q); err != nil {
			t.Fatal(err)
		}
	}
	db := openDB(t, n, "root:"+plantedRoot) // sessions take settings over when they begin
	db.SetMaxOpenConns(1)                   // for USE
	for _, q := range []string{
		"CREATE USER ann IDENTIFIED BY '" + plantedPassword + "'",
		"CREATE DATABASE shop", "USE shop",
		"CREATE TABLE shop.carts (name VARCHAR(40) COLLATE utf8mb4_bin PRIMARY KEY, size ENUM('small','large'), note VARCHAR(40) DEFAULT '" +
			plantedDefault + "' COMMENT '" + plantedComment + "', n INT, CHECK (n <> " + plantedCheck + "))",
		"INSERT INTO shop.carts (name, note, n) VALUES ('" + plantedKey + "', '" + plantedRow + "', " + plantedNumber + ")",
		"UPDATE shop.carts SET n = n + 2 WHERE name = '" + plantedKey + "' AND note <> '" + plantedLiteral + "'",
		"CREATE VIEW shop.v AS SELECT name FROM shop.carts WHERE note = '" + plantedView + "' AND n < " + plantedNumber,
		"CREATE PROCEDURE shop.p() BEGIN /* " + plantedComment + " */ SELECT '" + plantedProcedure + "'; END",
		"CREATE TRIGGER shop.tr BEFORE INSERT ON shop.carts FOR EACH ROW SET NEW.note = '" + plantedProcedure + "'",
		"ALTER TABLE shop.carts ADD COLUMN more VARCHAR(40) NOT NULL DEFAULT '" + plantedLiteral + "'",
		"CREATE INDEX by_note ON shop.carts (note)",
	} {
		if _, err := db.Exec(q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	// An error that has a value in it.
	if _, err := db.Exec("INSERT INTO shop.carts (name) VALUES ('" + plantedKey + "')"); err == nil {
		t.Error("a row was inserted twice")
	}
	var names string
	if err := db.QueryRow("SELECT GROUP_CONCAT(row_name) FROM godwit.heat").Scan(&names); err != nil ||
		!strings.Contains(names, plantedKey) {
		t.Errorf("heat has no planted row: %q, %v", names, err)
	}
	if b, err := os.ReadFile(logFile); err != nil || !bytes.Contains(b, []byte(plantedLiteral)) {
		t.Errorf("the log has no planted literal: %v", err)
	}
}

// leftNothing: beside the file is nothing else.
func leftNothing(t *testing.T, file string) {
	t.Helper()
	all, err := os.ReadDir(filepath.Dir(file))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if e.Name() != filepath.Base(file) {
			t.Errorf("%s was left", e.Name())
		}
	}
}

// TestDebugZipOfOneNode: a node without a cluster tells what it knows, with --insecure no profiles
// unless it runs with --pprof, and where nobody answers there is no file.
func TestDebugZipOfOneNode(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	plainNode := startNode(t, node.Config{Region: "eu", Insecure: true})
	status, out, errs := godwit(t, "debug", "zip", file("a"), "--addr", plainNode.Addr(), "--insecure", "--profile", "0")
	if status != 0 {
		t.Fatalf("status %d:\n%s%s", status, out, errs)
	}
	got := unzip(t, file("a"))
	for _, f := range []string{"nodes/asked/version.json", "nodes/asked/config.json", "nodes/asked/log.jsonl", "manifest.json"} {
		if got[f] == "" {
			t.Errorf("%s is missing", f)
		}
	}
	for name, want := range map[string]string{"nodes/asked/ready.txt": "starting", "errors.txt": "the list of the nodes: ",
		"nodes/asked/errors.txt": "profiles/heap.pprof: a node with --insecure gives profiles with --pprof only"} {
		if !strings.Contains(got[name], want) {
			t.Errorf("%s: %s", name, got[name])
		}
	}
	if got["nodes/asked/profiles/heap.pprof"] != "" {
		t.Error("an insecure node gives profiles")
	}
	open := startNode(t, node.Config{Region: "eu", Insecure: true, Pprof: true})
	if status, out, errs := godwit(t, "debug", "zip", file("b"), "--addr", open.Addr(), "--insecure", "--profile", "0"); status != 0 {
		t.Fatalf("status %d:\n%s%s", status, out, errs)
	}
	if got := unzip(t, file("b")); got["nodes/asked/profiles/heap.pprof"] == "" {
		t.Errorf("a node with --pprof gives no profiles: %s", got["nodes/asked/errors.txt"])
	}
	for args, want := range map[string]string{
		"debug zip " + file("a") + " --addr " + open.Addr() + " --insecure": "exists: name a new file",
		"debug zip " + file("c") + " --addr " + closedPort(t):               "no node has answered",
		"debug zip " + file("c") + " --addr " + open.Addr():                 "does not speak TLS",
		"debug zip": "the name of the file",
		"debug zip " + file("c") + " --profile 20s":                                       "more than half of --timeout",
		"debug zip " + file("c") + " --profile 1m":                                        "outside 0 to 30s",
		"debug zip " + file("c") + " --max-mb 0":                                          "--max-mb",
		"debug zip " + file("no/where") + " --insecure --profile 0 --addr " + open.Addr(): "no such file",
	} {
		if status, _, errs := godwit(t, strings.Fields(args)...); status == 0 || !strings.Contains(errs, want) {
			t.Errorf("%s: status %d, want %q:\n%s", args, status, want, errs)
		}
	}
	for _, f := range []string{"a", "b"} {
		_ = os.Remove(file(f))
	}
	leftNothing(t, file("a"))
}
