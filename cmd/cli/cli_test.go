package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/mechanism/ident"
	"github.com/godwitdb/godwit/node"
)

// godwit runs a command line and returns its status and what it wrote.
func godwit(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), args, strings.NewReader(""), &out, &errs)
	return status, out.String(), errs.String()
}

func TestExitStatus(t *testing.T) {
	for _, c := range []struct {
		args   string
		status int
		says   string // on standard error; on standard output if the status is 0
	}{
		{"", 0, "godwit init --addr"},
		{"--help", 0, "godwit demo"},
		{"statos", 2, "did you mean status?"},
		{"status --nonsense", 2, "unknown flag: --nonsense"},
		{"status extra", 2, `unknown command "extra"`},
		{"status --timeout soon", 2, "invalid argument \"soon\""},
		{"status --timeout 0s", 2, "--timeout: 0s is not positive"},
		{"status --addr here", 2, "not HOST:PORT"},
		{"init --shards 5000", 2, "outside 1 to 4096"},
		{"node", 0, "decommission"},
		{"node remove", 2, `no command "godwit node remove"`},
		{"workload run bnak --url x", 2, `no command "godwit workload run bnak": did you mean bank?`},
		{"workload run --nosuch", 2, "unknown flag: --nosuch"},
		{"node decommission", 2, "the id of one node"},
		{"node decommission zero", 2, "is no node id"},
		{"region drop", 2, "the name of a region"},
		{"region drop a b", 2, "the name of a region"},
		{"workload rnu", 2, "did you mean run?"},
		{"workload run tpcc --clients many", 2, "invalid argument"},
		{"workload run tpcc --clients -1 --url mysql://h/d", 2, "clients is -1"},
		{"workload init tpcc --scale 7 --url mysql://h/d", 2, "scale is 7"},
		{"workload run bank", 2, "no URL"},
		{"workload check bank --url http://h/d", 2, "the scheme is not mysql"},
		{"bench list", 0, ""},
		{"bench nonesuch", 2, "there is no benchmark"},
		{"version", 0, "godwit "},
	} {
		status, stdout, stderr := godwit(t, strings.Fields(c.args)...)
		text := stderr
		if c.status == 0 {
			text = stdout
		}
		if status != c.status || !strings.Contains(text, c.says) {
			t.Errorf("godwit %s: status %d, want %d with %q in\n%s", c.args, status, c.status, c.says, text)
		}
		if status == 2 && !strings.Contains(stderr, "--help' for what it takes") {
			t.Errorf("godwit %s does not point at the help:\n%s", c.args, stderr)
		}
	}
}

// TestEveryCommandExplainsItself: --help alone must be enough to use a command.
func TestEveryCommandExplainsItself(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Short == "" {
			t.Errorf("%s has no description", c.CommandPath())
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if len(f.Usage) < 8 {
				t.Errorf("%s --%s is not explained", c.CommandPath(), f.Name)
			}
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
}

func sampleStatus() *cluster.Status {
	return &cluster.Status{
		ClusterID: "c1", Asked: 1,
		Topology: base.Topology{Version: 3, Shards: 2, Regions: []base.Region{{ID: 1, Name: "eu"}, {ID: 2, Name: "us"}},
			Nodes: []base.Node{{ID: 1, Region: 1}, {ID: 2, Region: 2}, {ID: 3, Region: 2, Gone: true}}},
		Nodes: []cluster.NodeStatus{
			{ID: 1, Region: "eu", Addr: "a:1", SQL: "a:2", Live: true, Leads: 3, Replicas: 5, DiskBytes: 3 << 20,
				Uptime: time.Hour,
				Jobs: json.RawMessage(`[{"kind":"CREATE INDEX x","table":"d.t","state":"running","rows":30,"total":120},` +
					`{"kind":"CREATE INDEX y","table":"d.t","state":"succeeded"}]`)},
			{ID: 2, Region: "us", Addr: "b:1", SQL: "b:2", RTT: 81 * time.Millisecond, LastHeard: 12 * time.Second},
			{ID: 3, Region: "us", Addr: "c:1"}},
		Groups: []cluster.GroupStatus{
			{ID: 1, Name: "meta", Leader: 1, Term: 4, Voters: []base.NodeID{1, 2}, Serving: true, LogEntries: 900,
				LogBytes: 40 << 10,
				Lag: []cluster.ReplicaLag{{Node: 1, Active: true}, {Node: 2, Entries: 70, Active: true},
					{Node: 4, Entries: 9, Active: true, Snapshot: true}, {Node: 5}}},
			{ID: 2, Name: "shard 1 eu", Home: "eu", Learners: []base.NodeID{2}, ClosedLag: 1500 * time.Microsecond}},
		RTT: []cluster.RegionRTT{{From: "eu", To: "us", RTT: 81 * time.Millisecond},
			{From: "us", To: "eu", RTT: 80 * time.Millisecond}},
		Problems: []string{"node 2 (us) has not been heard of for 12 s"},
	}
}

func TestStatusTables(t *testing.T) {
	text := strings.Join(statusLines(sampleStatus()), "\n")
	for _, want := range []string{
		"cluster c1: 2 regions, 1 of 3 nodes live, 2 shards, concurrency control locking, cluster version 6, topology version 3",
		"PROBLEM  node 2 (us) has not been heard of for 12 s",
		"1     eu      live   a:1",
		"2     us      DOWN   b:1      b:2  12.0s  81.0ms",
		"3     us      gone",
		"meta        -     1       serving    4     1,2",
		"2:70 4:snapshot 5:SILENT",
		"900 (40 KiB)",
		"shard 1 eu  eu    NONE    NO LEADER",
		"CREATE INDEX x  d.t    1     30    120  25 ",
		"1.5ms",
		"rtt from \\ to  eu      us",
		"eu                     81.0ms",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(strings.Join(statusLines(&cluster.Status{}), "\n"), "rtt from") {
		t.Error("an empty matrix is shown")
	}
}

// fakeNode answers like a node's cluster port.
func fakeNode(t *testing.T, handlers map[string]http.HandlerFunc) string {
	mux := http.NewServeMux()
	for pattern, h := range handlers {
		mux.HandleFunc(pattern, h)
	}
	dir := t.TempDir()
	ca, err := ident.OpenCA(os.Getenv(node.CertsVar))
	if err == nil {
		err = ca.Create(dir, ident.Node, ident.Name{Role: ident.RoleNode, ID: "u1", Region: "eu"}, ident.NodeLife)
	}
	if err != nil {
		t.Fatal(err)
	}
	files, err := ident.Open(dir, ident.Node, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(mux)
	s.Listener = tls.NewListener(s.Listener, files.Server())
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// TestMain has the commands of all tests use one authority, and not that of the user.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "godwit-cli-")
	if err == nil {
		_, err = ident.CreateCA(filepath.Join(dir, "certs"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv(node.CertsVar, filepath.Join(dir, "certs"))
	code := m.Run()
	_ = os.RemoveAll(dir) // it is temporary
	os.Exit(code)
}

func answer(code int, v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(v)
	}
}

func TestStatusCommand(t *testing.T) {
	addr := fakeNode(t, map[string]http.HandlerFunc{"GET " + cluster.PathStatus: answer(200, sampleStatus())})
	if status, out, _ := godwit(t, "status", "--addr", addr); status != 0 || !strings.Contains(out, "PROBLEM") {
		t.Errorf("status %d:\n%s", status, out)
	}
	var s cluster.Status
	if status, out, _ := godwit(t, "status", "--addr", addr, "--json"); status != 0 ||
		json.Unmarshal([]byte(out), &s) != nil || len(s.Nodes) != 3 {
		t.Errorf("status %d:\n%s", status, out)
	}
	if status, out, _ := godwit(t, "node", "list", "--addr", addr); status != 0 || !strings.Contains(out, "DOWN") ||
		strings.Contains(out, "meta") {
		t.Errorf("status %d:\n%s", status, out)
	}
}

func TestWatchEndsCleanlyWhenInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	addr := fakeNode(t, map[string]http.HandlerFunc{"GET " + cluster.PathStatus: func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked == 3 {
			cancel()
		}
		answer(200, sampleStatus())(w, r)
	}})
	var out bytes.Buffer
	if status := run(ctx, []string{"status", "--watch", "--every", "1ms", "--addr", addr}, nil, &out, io.Discard); status != 0 {
		t.Errorf("status %d", status)
	}
	if n := strings.Count(out.String(), "cluster c1"); n < 2 {
		t.Errorf("%d looks, want at least 2", n)
	}
}

func TestInitCommand(t *testing.T) {
	var got join.InitRequest
	late := 0 // number of requests until the third node has asked to join
	addr := fakeNode(t, map[string]http.HandlerFunc{"POST " + join.PathInit: func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewDecoder(r.Body).Decode(&got)
		if got.Expect > 2 {
			if late--; late != 0 {
				answer(409, join.InitReply{Error: "2 of the expected 3 nodes have asked", Early: true})(w, r)
				return
			}
		}
		answer(200, join.InitReply{ClusterID: "c1", Topology: sampleStatus().Topology})(w, r)
	}})
	status, out, _ := godwit(t, "init", "--addr", addr, "--shards", "2", "--expect", "2")
	if status != 0 || got.Shards != 2 || !strings.Contains(out,
		"cluster c1: 3 nodes in 2 regions, 2 shards, concurrency control locking\nnodes by region: eu (1), us (2)") {
		t.Errorf("status %d, asked %+v:\n%s", status, got, out)
	}
	if status, _, errs := godwit(t, "init", "--addr", addr, "--expect", "3", "--wait", "300ms"); status != 1 ||
		!strings.Contains(errs, "refuses: 2 of the expected 3") {
		t.Errorf("status %d:\n%s", status, errs)
	}
	late = 2 // two terminals: the node is started while init waits
	if status, _, errs := godwit(t, "init", "--addr", addr, "--expect", "3"); status != 0 {
		t.Errorf("status %d:\n%s", status, errs)
	}
}

func TestDecommissionCommand(t *testing.T) {
	body := ""
	addr := fakeNode(t, map[string]http.HandlerFunc{"POST " +
		cluster.PathDecommission: func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		body = string(b)
		answer(200, struct{}{})(w, r)
	}})
	if status, _, errs := godwit(t, "node", "decommission", "7", "--addr", addr); status != 0 || body != `{"node":7}` {
		t.Errorf("status %d, sent %s:\n%s", status, body, errs)
	}
}

// TestEpochsCopy: a refusal of the node is reported.
func TestEpochsCopy(t *testing.T) {
	refusal := ""
	addr := fakeNode(t, map[string]http.HandlerFunc{"POST " +
		cluster.PathEpochsCopy: func(w http.ResponseWriter, r *http.Request) {
		if refusal != "" {
			answer(409, map[string]string{"error": refusal})(w, r)
			return
		}
		answer(200, struct{}{})(w, r)
	}})
	if status, out, errs := godwit(t, "epochs", "copy", "--addr", addr); status != 0 || !strings.Contains(out, "godwit.epochs") {
		t.Errorf("status %d:\n%s%s", status, out, errs)
	}
	refusal = "there is nothing to repair"
	if status, _, errs := godwit(t, "epochs", "copy", "--addr", addr); status != 1 || !strings.Contains(errs, refusal) {
		t.Errorf("status %d:\n%s", status, errs)
	}
}

// TestLeaderCommands: the request, the output, and for each mistake a message that says what to do.
func TestLeaderCommands(t *testing.T) {
	body, refusal := "", ""
	addr := fakeNode(t, map[string]http.HandlerFunc{"POST " + cluster.PathLeader: func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		body = string(b)
		if refusal != "" {
			answer(409, map[string]string{"error": refusal})(w, r)
			return
		}
		answer(200, struct{}{})(w, r)
	}})
	for _, c := range []struct{ args, sent, out string }{
		{"move s1@r2 5", `{"group":"s1@r2","node":5,"pin":false}`, "node 5 leads group s1@r2"},
		{"move meta 1", `{"group":"meta","node":1,"pin":false}`, "node 1 leads group meta"},
		{"pin s1@r2 5", `{"group":"s1@r2","node":5,"pin":true}`, "the lead of group s1@r2 is pinned to node 5"},
		{"pin s1@r2 none", `{"group":"s1@r2","node":0,"pin":true}`, "the lead of group s1@r2 is not pinned"},
	} {
		status, out, errs := godwit(t, append(append([]string{"leader"}, strings.Fields(c.args)...), "--addr", addr)...)
		if status != 0 || body != c.sent || !strings.Contains(out, c.out) {
			t.Errorf("%s: status %d, sent %s:\n%s%s", c.args, status, body, out, errs)
		}
	}
	for args, want := range map[string]string{
		"move":            "give a group and a node, like s1@r2 5",
		"move s1@r2":      "SELECT name FROM godwit.groups",
		"move s1@r2 none": `"none" is not the number of a node, like 5; godwit status lists them`,
		"move s1@r2 0":    "godwit status",
		"move eu 5":       `"eu" is not a group: meta, or like s1@r2 (SELECT name FROM godwit.groups)`,
		"pin s0@r1 5":     `"s0@r1" is not a group`,
		"pin s1@r99 5":    `"s1@r99" is not a group`,
		"pin s1@r1 x":     "is not the number of a node",
	} {
		if status, _, errs := godwit(t, append(append([]string{"leader"}, strings.Fields(args)...),
			"--addr", addr)...); status != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s: status %d, want 2 with %q:\n%s", args, status, want, errs)
		}
	}
	refusal = "there is no group s9@r3: SELECT name FROM godwit.groups lists them"
	if status, _, errs := godwit(t, "leader", "move", "s9@r3", "1", "--addr", addr); status != 1 ||
		!strings.Contains(errs, refusal) {
		t.Errorf("status %d:\n%s", status, errs)
	}
}

func TestPromoteCommand(t *testing.T) {
	body := ""
	addr := fakeNode(t, map[string]http.HandlerFunc{"POST " + cluster.PathPromote: func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		body = string(b)
		answer(200, cluster.PromoteReply{Promotions: []cluster.PromotionAccount{{ID: 1, Region: "eu", Lost: "eu",
			Seat: "us", Group: "s3@r1", Source: 4}}})(w, r)
	}})
	status, out, errs := godwit(t, "promote", "--lost", "eu", "--addr", addr)
	if status != 0 || body != `{"lost":"eu"}` || !strings.Contains(out, "group s3@r1 of region eu votes in us") ||
		!strings.Contains(out, "copy of node 4") {
		t.Errorf("status %d, sent %s:\n%s%s", status, body, out, errs)
	}
	if status, _, _ := godwit(t, "promote", "--return", "eu", "--addr", addr); status != 0 ||
		body != `{"lost":"eu","back":true}` {
		t.Errorf("status %d, sent %s", status, body)
	}
	if status, _, errs := godwit(t, "promote", "--addr", addr); status != 2 || !strings.Contains(errs, "--lost") {
		t.Errorf("status %d:\n%s", status, errs)
	}
}

// TestWhatIsWrongWithTheNode: each way in which a node fails to answer says what to do. Only the
// node that never answers is given a short --timeout; no other case depends on time.
func TestWhatIsWrongWithTheNode(t *testing.T) {
	mute := listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	// Three ways in which a client of HTTP may see a server that speaks first: the greeting before
	// the request, after it, and an end of the connection right behind it.
	greeting := []byte("J\x00\x00\x00\n5.7.9-godwit\x00 a MySQL greeting\r\n\r\n")
	greets := listen(t, func(c net.Conn) { _, _ = c.Write(greeting) })
	greetsAndReads := listen(t, func(c net.Conn) {
		_, _ = c.Write(greeting)
		_, _ = io.Copy(io.Discard, c)
	})
	resets := listen(t, func(c net.Conn) {
		_ = c.(*net.TCPConn).SetLinger(0)
		_, _ = c.Write(greeting)
	})
	hangsUp := listen(t, func(net.Conn) {})
	for _, c := range []struct{ addr, timeout, want string }{
		{mute, "50ms", "did not answer within"},
		{greets, "1m", "not its SQL port"},
		{greetsAndReads, "1m", "not its SQL port"},
		{hangsUp, "1m", "does not speak TLS"},
		{closedPort(t), "1m", "nothing listens at"},
		{fakeNode(t, nil), "1m", "belongs to no cluster yet"},
		{fakeNode(t, map[string]http.HandlerFunc{"/": answer(500,
			map[string]string{"error": "meta group has no leader"})}), "1m", "refuses: meta group has no leader"},
		{fakeNode(t, map[string]http.HandlerFunc{"/": answer(503, nil)}), "1m", "answers 503"},
		{fakeNode(t, map[string]http.HandlerFunc{"/": answer(200, "hello")}), "1m", "is not a Godwit node"},
	} {
		for range 20 {
			status, _, errs := godwit(t, "status", "--addr", c.addr, "--timeout", c.timeout)
			if status != 1 || !strings.Contains(errs, c.want) {
				t.Errorf("status %d, want 1 with %q:\n%s", status, c.want, errs)
				break
			}
		}
	}
	// A reset may discard what was sent, so that only the end of the connection is seen.
	if status, _, errs := godwit(t, "status", "--addr", resets, "--timeout", "1m"); status != 1 ||
		!strings.Contains(errs, "not its SQL port") && !strings.Contains(errs, "cannot be asked") &&
			!strings.Contains(errs, "does not speak TLS") {
		t.Errorf("status %d:\n%s", status, errs)
	}
}

// listen serves connections with serve, which need not close them, and returns the address.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return l.Addr().String()
}

// closedPort is an address at which nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// fileConfig stands for a command's configuration.
type fileConfig struct {
	Region string        `yaml:"region"`
	Join   []string      `yaml:"join"`
	Age    time.Duration `yaml:"gc-age"`
	Cache  int           `yaml:"cache-mb"`
}

func parse(t *testing.T, file string, args ...string) (*fileConfig, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "godwit.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	var cfg fileConfig
	f := pflag.NewFlagSet("x", pflag.ContinueOnError)
	f.StringVar(&cfg.Region, "region", "", "")
	f.StringSliceVar(&cfg.Join, "join", nil, "")
	f.DurationVar(&cfg.Age, "gc-age", time.Hour, "")
	f.IntVar(&cfg.Cache, "cache-mb", 64, "")
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &cfg, fileUnderFlags(path, &cfg, f)
}

func TestFlagsWinOverTheFile(t *testing.T) {
	cfg, err := parse(t, "region: eu\njoin: [a:1, b:1]\ngc-age: 5m\n", "--region", "us", "--join", "c:1,d:1")
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Region != "us" || strings.Join(cfg.Join, " ") != "c:1 d:1" || cfg.Age != 5*time.Minute || cfg.Cache != 64 {
		t.Errorf("got %+v", cfg)
	}
	if cfg, err = parse(t, "", "--region", "us"); err != nil || cfg.Region != "us" {
		t.Errorf("an empty file: %+v, %v", cfg, err)
	}
}

func TestBadFilesNameTheLine(t *testing.T) {
	for file, want := range map[string]string{
		"region: eu\nregoin: us\n":   `line 2: unknown key "regoin"`,
		"cache-mb: lots\n":           `line 1: expected a whole number, not "lots"`,
		"gc-age: 5\n":                `line 1: expected a duration such as 500us or 10m, not "5"`,
		"region: [eu\n":              "line 1",
		"region: eu\nregion: us\n":   "line 2",
		"region: eu\n---\nx: 1\n":    "second YAML document",
		"join: {a: 1}\nregion: eu\n": "line 1: expected a list of texts, not a map",
	} {
		_, err := parse(t, file)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "godwit.yaml") {
			t.Errorf("%q: got %v, want %q", file, err, want)
		}
	}
	if err := readYAML(filepath.Join(t.TempDir(), "none.yaml"), &fileConfig{}); err == nil ||
		!strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("got %v", err)
	}
}

// traced is an error that prints more than its text when asked to.
type traced struct{}

func (traced) Error() string                   { return "boom" }
func (t traced) Format(f fmt.State, verb rune) { _, _ = io.WriteString(f, "boom and a stack trace") }

func TestLogsHaveNoStackTraces(t *testing.T) {
	var out bytes.Buffer
	log, err := logger(&out, "info")
	if err != nil {
		t.Fatal(err)
	}
	log.Info("it failed", "err", traced{})
	if got := out.String(); !strings.HasSuffix(got, `msg="it failed" err=boom`+"\n") {
		t.Errorf("got %q", got)
	}
	if _, err := logger(&out, "loud"); err == nil {
		t.Error("an unknown level was accepted")
	}
}
