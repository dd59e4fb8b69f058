package e2e

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/cmd/cli"
	"github.com/godwitdb/godwit/lab/workload"
	"github.com/godwitdb/godwit/mechanism/wan/wanemu"
	gonode "github.com/godwitdb/godwit/node"
)

// asGodwit names the variable that makes the test binary run the command line instead.
const asGodwit = "GODWIT_E2E_COMMAND"

// serversVar may list the SQL addresses of three servers that run already; the
// tests of stock clients then use those, to compare with another MySQL-compatible server.
const serversVar = "GODWIT_E2E_SERVERS"

// patience is how long a test waits for an event that should take a few seconds. It only ends tests
// that would hang; tests log the real time.
const patience = 90 * time.Second

func TestMain(m *testing.M) {
	if cluster, at, ok := strings.Cut(os.Getenv(asAttacker), " "); ok {
		os.Exit(attackNode(cluster, at))
	}
	if os.Getenv(asGodwit) != "" || len(os.Args) > 1 && os.Args[1] == wanemu.RouterArg {
		os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	// All clusters of the tests have one authority, and not that of the user.
	certs, err := os.MkdirTemp("", "godwit-e2e-certs-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv(gonode.CertsVar, certs)
	code := m.Run()
	shared.stop()
	_ = os.RemoveAll(certs) // it is temporary
	os.Exit(code)
}

// command prepares a godwit process.
func command(args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), asGodwit+"=1")
	return c
}

// godwit runs a command to its end.
func godwit(t testing.TB, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	c := command(args...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), out.String(), errs.String()
}

// output collects what a process writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// node is one `godwit start`.
type node struct {
	region, dir, addr, sql string
	join                   string
	args                   []string // more of them
	program                string   // another build; empty: this one
	// apart: in a session of its own, so that clients share the processors with the node, and not
	// with each of its threads.
	apart bool
	// site is where the process runs; nil: on this machine's loopback.
	site *wanemu.Inside

	cmd         *exec.Cmd
	out, errs   *output
	gone        chan struct{} // closed when the process has ended
	stoppedWith error
}

func (n *node) start(t testing.TB) {
	t.Helper()
	n.out, n.errs, n.gone = &output{}, &output{}, make(chan struct{})
	n.cmd = command("start", "--region", n.region, "--store", n.dir, "--listen", n.addr, "--sql-listen", n.sql,
		"--join", n.join, "--cache-mb", "32", "--log-level", "info")
	n.cmd.Args = append(n.cmd.Args, n.args...)
	if n.program != "" {
		n.cmd.Path = n.program
	}
	n.cmd.Stdout, n.cmd.Stderr = n.out, n.errs
	if n.apart {
		n.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}
	begin := n.cmd.Start
	if n.site != nil {
		begin = func() error { return n.site.Start(n.cmd) }
	}
	if err := begin(); err != nil {
		t.Fatal(err)
	}
	cmd, gone := n.cmd, n.gone
	go func() {
		n.stoppedWith = cmd.Wait()
		close(gone)
	}()
}

// awaitLine waits until the process has written text to its standard output.
func (n *node) awaitLine(t testing.TB, text string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !strings.Contains(n.out.String(), text) {
		select {
		case <-n.gone:
			t.Fatalf("node of %s ended with %v before %q:\n%s", n.region, n.stoppedWith, text, n.log())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("node of %s did not say %q within %s:\n%s", n.region, text, patience, n.log())
		}
	}
}

func (n *node) awaitSQL(t testing.TB) { t.Helper(); n.awaitLine(t, "serves SQL") }

// log is the end of what the process wrote.
func (n *node) log() string {
	s := n.out.String() + n.errs.String()
	return s[max(0, len(s)-6000):]
}

// kill is kill -9.
func (n *node) kill() {
	if n.cmd != nil {
		_ = n.cmd.Process.Kill() // it may have ended already
		<-n.gone
	}
}

// end asks the process to end and returns its exit status.
func (n *node) end(t testing.TB) int {
	t.Helper()
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-n.gone:
	case <-time.After(patience):
		n.kill()
		t.Fatalf("node of %s did not end within %s after SIGTERM:\n%s", n.region, patience, n.log())
	}
	return n.cmd.ProcessState.ExitCode()
}

// url is that of a database through this node.
func (n *node) url(db string) string { return "mysql://root@" + n.sql + "/" + db }

// open makes a pool of connections to this node.
func (n *node) open(t testing.TB, db string) *sql.DB {
	t.Helper()
	pool := client(n.sql, db)
	t.Cleanup(func() { _ = pool.Close() })
	return pool
}

// client makes a pool of connections to a node's SQL address.
func client(addr, db string) *sql.DB {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.DBName = "root", "tcp", addr, db
	cfg.Timeout, cfg.ReadTimeout, cfg.WriteTimeout = 5*time.Second, 30*time.Second, 30*time.Second
	cfg.Logger = &mysql.NopLogger{}
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		panic(err) // it judges the configuration alone, which is always the same
	}
	return sql.OpenDB(c)
}

// processes is a cluster of processes on loopback.
type processes struct {
	nodes   []*node
	regions []string
}

var ports struct {
	sync.Mutex
	given map[string]bool
}

// port finds a free address on loopback that this process has not given out before.
func port(t testing.TB) string {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	if ports.given == nil {
		ports.given = map[string]bool{}
	}
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().String()
		_ = l.Close() // the node listens there soon
		if !ports.given[addr] {
			ports.given[addr] = true
			return addr
		}
	}
	t.Fatal("no free port")
	return ""
}

// alone starts a node that is a cluster of its own; args are more arguments of godwit start.
func alone(t *testing.T, args ...string) *node {
	t.Helper()
	n := &node{region: "here", dir: filepath.Join(t.TempDir(), "n"), addr: port(t), sql: port(t), args: args}
	n.join = n.addr
	c := &processes{regions: []string{n.region}, nodes: []*node{n}}
	n.start(t)
	t.Cleanup(c.kill)
	n.awaitLine(t, "listens at")
	c.init(t)
	n.awaitSQL(t)
	return n
}

// startCluster starts regions x perRegion processes and makes a cluster of them; init are more
// arguments of godwit init.
func startCluster(t testing.TB, dir string, regions, perRegion int, init ...string) *processes {
	t.Helper()
	return startBuild(t, "", dir, regions, perRegion, init...)
}

// startBuild is startCluster with another build; empty: this one.
func startBuild(t testing.TB, program, dir string, regions, perRegion int, init ...string) *processes {
	t.Helper()
	c := &processes{}
	for r := range regions {
		name := fmt.Sprintf("region-%c", 'a'+r)
		c.regions = append(c.regions, name)
		for i := range perRegion {
			c.nodes = append(c.nodes, &node{region: name, dir: filepath.Join(dir, fmt.Sprintf("%s-%d", name, i)),
				addr: port(t), sql: port(t), program: program})
		}
	}
	for _, n := range c.nodes {
		n.join = c.nodes[0].addr
		n.start(t)
	}
	for _, n := range c.nodes {
		n.awaitLine(t, "listens at")
	}
	c.nodes[0].awaitLine(t, "listens at")
	c.init(t, init...)
	for _, n := range c.nodes {
		n.awaitSQL(t)
	}
	return c
}

// init makes the cluster once all nodes have asked the first one.
func (c *processes) init(t testing.TB, args ...string) {
	t.Helper()
	status, out, errs := godwit(t, append([]string{"init", "--addr", c.nodes[0].addr,
		"--no-root-password", "--expect", fmt.Sprint(len(c.nodes)), "--wait", patience.String()}, args...)...)
	if status != 0 {
		t.Fatalf("init: status %d: %s", status, errs)
	}
	t.Logf("init: %s", strings.TrimSpace(out))
}

// of lists the nodes of a region.
func (c *processes) of(region string) []*node {
	var out []*node
	for _, n := range c.nodes {
		if n.region == region {
			out = append(out, n)
		}
	}
	return out
}

// targets are those of the workloads, one for each region.
func (c *processes) targets(db string) []workload.Target {
	var out []workload.Target
	for _, r := range c.regions {
		to := workload.Target{Region: r}
		for _, n := range c.of(r) {
			to.URLs = append(to.URLs, n.url(db))
		}
		out = append(out, to)
	}
	return out
}

func (c *processes) kill() {
	for _, n := range c.nodes {
		n.kill()
	}
}

// status is the output of `godwit status`, for the log of a failed test.
func (c *processes) status(t testing.TB) string {
	for _, n := range c.nodes {
		if n.addr == "" {
			continue // not started by the test
		}
		if code, out, _ := godwit(t, "status", "--addr", n.addr, "--timeout", "5s"); code == 0 {
			return out
		}
	}
	return "no node answers"
}

// logOnFailure shows the state of the cluster if the test fails.
func (c *processes) logOnFailure(t testing.TB) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		t.Logf("%s", c.status(t))
		for _, n := range c.nodes {
			t.Logf("--- node of %s at %s\n%s", n.region, n.addr, n.log())
		}
	})
}

// sharedCluster is one cluster of three processes for all tests that only use it.
type sharedCluster struct {
	once sync.Once
	dir  string
	c    *processes
}

var shared sharedCluster

func (s *sharedCluster) get(t testing.TB) *processes {
	t.Helper()
	s.once.Do(func() {
		if servers := os.Getenv(serversVar); servers != "" {
			s.c = &processes{}
			for i, addr := range strings.Split(servers, ",") {
				s.c.nodes = append(s.c.nodes, &node{region: fmt.Sprintf("server %d", i+1), sql: addr, out: &output{},
					errs: &output{}})
			}
			return
		}
		dir, err := os.MkdirTemp("", "godwit-e2e-")
		if err != nil {
			t.Fatal(err)
		}
		s.dir = dir
		s.c = startCluster(t, dir, 3, 1)
	})
	if s.c == nil {
		t.Skip("the shared cluster did not start, see the first test that wanted it")
	}
	s.c.logOnFailure(t)
	return s.c
}

func (s *sharedCluster) stop() {
	if s.c != nil {
		s.c.kill()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir) // it is temporary
	}
}

// database makes an empty database of that name.
func (s *sharedCluster) database(t testing.TB, name string) *processes {
	t.Helper()
	c := s.get(t)
	db := c.nodes[0].open(t, "")
	exec1(t, db, "DROP DATABASE IF EXISTS "+name)
	exec1(t, db, "CREATE DATABASE "+name)
	return c
}

func exec1(t testing.TB, db *sql.DB, query string, args ...any) sql.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := db.ExecContext(ctx, query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return r
}

func scan1(t testing.TB, db *sql.DB, to any, query string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := db.QueryRowContext(ctx, query, args...).Scan(to); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}
