package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/godwitdb/godwit/lab/bench/rig"
)

// MariaDB compares one node with MariaDB.
func MariaDB() rig.Bench {
	return rig.Bench{
		Name: "mariadb", Title: "one node beside MariaDB, durable commits, same sysbench runs (needs sysbench and mariadbd)",
		Figures: mariaFigures(),
		Parts:   true,
		Run:     runMariaDB,
	}
}

// clockTick is USER_HZ, the unit of CPU times in /proc, which Linux fixes at 100.
const clockTick = 100

// server is a database under test: a process and its MySQL port on loopback.
type server struct {
	name string
	cmd  *exec.Cmd
	port int
}

func runMariaDB(ctx context.Context, p rig.Params) (err error) {
	for _, tool := range []string{"sysbench", "mariadbd", "mariadb-install-db"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("this benchmark needs %s (Debian: apt-get install mariadb-server sysbench): %w", tool, err)
		}
	}
	rows, secs, threads := 1_000_000, 10, []int{1, 8, 32}
	if p.Quick {
		rows, secs, threads = 20_000, 2, []int{1, 8}
	}
	god, err := startGodwit(ctx, p.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, god.stop()) }()
	maria, err := startMariaDB(ctx, p.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, maria.stop()) }()
	for _, s := range []*server{god, maria} {
		begin := time.Now()
		if err := s.prepare(ctx, rows); err != nil {
			return err
		}
		fmt.Fprintf(p.Log, "%s: loaded %d rows in %s, resident memory %d MiB\n", s.name, rows,
			time.Since(begin).Round(time.Millisecond), s.residentMB())
	}
	for _, test := range mariaTests {
		if !p.Wants("mariadb/" + test) {
			continue
		}
		if test == mariaBulk {
			if err := runBulk(ctx, p, god, maria, rows); err != nil {
				return err
			}
			continue
		}
		run := runSingle
		if test == mariaMix {
			run = runMix
		}
		if err := run(ctx, p, "oltp_"+test, god, maria, threads, rows, secs); err != nil {
			return err
		}
	}
	return nil
}

// mariaMix is sysbench's test of transactions; the others are of single statements.
const mariaMix = "read_write"

// mariaTests are sysbench's tests without their prefix, and the changes of many rows; each is a
// figure.
var mariaTests = []string{"point_select", "update_index", "update_non_index", "insert", mariaMix, mariaBulk}

func mariaFigures() []string {
	var figures []string
	for _, t := range mariaTests {
		figures = append(figures, "mariadb/"+t)
	}
	return figures
}

// emitBeside emits the results of a test with so many threads, and the CPU time and memory that it
// cost the two servers.
func emitBeside(p rig.Params, test, series string, threads int, metric, unit string, god, maria float64, g, m result) error {
	figure, x := "mariadb/"+strings.TrimPrefix(test, "oltp_"), fmt.Sprintf("%d threads", threads)
	return errors.Join(
		p.Emit(rig.Line{Figure: figure, Series: series, X: x, Metric: metric, Unit: unit, Value: god,
			Baseline: rig.Float(maria), Better: rig.Higher}),
		p.Emit(rig.Line{Figure: figure, Series: series, X: x, Metric: "server CPU a query", Unit: "µs", Value: g.cpu,
			Baseline: rig.Float(m.cpu), Better: rig.Lower}))
}

func runSingle(ctx context.Context, p rig.Params, test string, god, maria *server, threads []int, rows, secs int) error {
	for _, n := range threads {
		g, err := god.report(ctx, p, test, "", n, rows, secs)
		if err != nil {
			return err
		}
		m, err := maria.report(ctx, p, test, "", n, rows, secs)
		if err != nil {
			return err
		}
		if err := emitBeside(p, test, "defaults", n, "throughput", "queries/s", g.qps, m.qps, g, m); err != nil {
			return err
		}
	}
	return nil
}

// The isolation levels that the mix is run at; the first is Godwit's default, the second MariaDB's.
const (
	isoSerializable = "SERIALIZABLE"
	isoRepeatable   = "REPEATABLE-READ"
)

// runMix compares the read-write mix at the default isolation levels, and at equal ones. It counts
// committed transactions, as queries of aborted ones are wasted work.
func runMix(ctx context.Context, p rig.Params, test string, god, maria *server, threads []int, rows, secs int) (err error) {
	for _, n := range threads {
		got := map[*server]map[string]result{god: {}, maria: {}}
		for _, level := range []string{isoSerializable, isoRepeatable} {
			for _, s := range []*server{god, maria} {
				if got[s][level], err = s.report(ctx, p, test, level, n, rows, secs); err != nil {
					return err
				}
			}
		}
		for _, c := range []struct{ series, god, maria string }{
			{"defaults: godwit SERIALIZABLE, mariadb REPEATABLE READ", isoSerializable, isoRepeatable},
			{"both SERIALIZABLE", isoSerializable, isoSerializable},
			{"both REPEATABLE READ", isoRepeatable, isoRepeatable},
		} {
			g, m := got[god][c.god], got[maria][c.maria]
			if err := emitBeside(p, test, c.series, n, "transactions", "transactions/s", g.tps, m.tps, g, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// isolate sets the isolation level of future sessions.
func (s *server) isolate(level string) error {
	db, err := rig.OpenMySQL(s.port, "")
	if err != nil {
		return err
	}
	defer db.Close()
	// MariaDB before 11.1 knows the variable by its old name only; Godwit knows both.
	_, err = db.Exec("SET GLOBAL tx_isolation = '" + level + "'")
	return err
}

// report runs a test, at an isolation level if one is given, and logs the result.
func (s *server) report(ctx context.Context, p rig.Params, test, level string, threads, rows, secs int) (result, error) {
	if level != "" {
		if err := s.isolate(level); err != nil {
			return result{}, err
		}
	}
	r, err := s.run(ctx, test, threads, rows, secs)
	if err == nil {
		fmt.Fprintf(p.Log,
			"%s %s, %d threads: %s%.0f queries/s, %.0f transactions/s, %.1f µs CPU a query, %d retries\n", s.name,
			test, threads,
			strings.TrimPrefix(level+", ", ", "), r.qps, r.tps, r.cpu, r.ignored)
	}
	return r, err
}

func freePort() (int, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port, nil
}

// startGodwit runs this very binary as a cluster of one node with one shard: more shards serve only
// clusters that grow.
func startGodwit(ctx context.Context, dir string) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	admin, err := freePort()
	if err != nil {
		return nil, err
	}
	addr := fmt.Sprintf("127.0.0.1:%d", admin)
	s := &server{name: "godwit", port: port, cmd: exec.Command(self, "start", "--insecure", "--region", "one", "--store",
		filepath.Join(dir, "godwit"),
		"--listen", addr, "--sql-listen", fmt.Sprintf("127.0.0.1:%d", port), "--log-level", "error")}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	err = s.await(ctx, func() error {
		res, err := http.Post("http://"+addr+"/cluster/init", "application/json", strings.NewReader(`{"shards":1}`))
		if err != nil {
			return err
		}
		defer res.Body.Close()
		var r struct{ Error string }
		if err := json.NewDecoder(res.Body).Decode(&r); err != nil {
			return err
		}
		if r.Error != "" && !strings.Contains(r.Error, "already belongs") {
			return errors.New(r.Error)
		}
		return s.ping()
	})
	return s, err
}

// startMariaDB runs a private server with its default settings.
func startMariaDB(ctx context.Context, dir string) (*server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "mariadb")
	who, err := user.Current()
	if err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(ctx, "mariadb-install-db", "--no-defaults", "--user="+who.Username, "--datadir="+data,
		"--auth-root-authentication-method=normal", "--skip-test-db").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mariadb-install-db: %w\n%s", err, out)
	}
	s := &server{name: "mariadb", port: port, cmd: exec.Command("mariadbd", "--no-defaults", "--user="+who.Username,
		"--datadir="+data,
		fmt.Sprintf("--port=%d", port), "--bind-address=127.0.0.1", "--socket="+filepath.Join(dir,
			"mariadb.sock"), "--max-connections=200")}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	return s, s.await(ctx, s.ping)
}

// await calls ready until it succeeds; the server is stopped if it does not.
func (s *server) await(ctx context.Context, ready func() error) error {
	var err error
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline) &&
		ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		if err = ready(); err == nil {
			return nil
		}
	}
	return errors.Join(fmt.Errorf("%s does not come up: %w", s.name, err), s.stop())
}

func (s *server) stop() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	var exit *exec.ExitError
	if err := s.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}

func (s *server) sysbench(ctx context.Context, test string, args ...string) (string, error) {
	return s.sysbenchIn(ctx, "sbtest", test, args...)
}

func (s *server) sysbenchIn(ctx context.Context, db, test string, args ...string) (string, error) {
	args = append([]string{"--db-driver=mysql", "--mysql-host=127.0.0.1", fmt.Sprintf("--mysql-port=%d", s.port),
		"--mysql-user=root",
		"--mysql-db=" + db, "--tables=1", test}, args...)
	out, err := exec.CommandContext(ctx, "sysbench", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: sysbench %s: %w\n%s", s.name, test, err, bytes.TrimSpace(out))
	}
	return string(out), nil
}

func (s *server) ping() error {
	db, err := rig.OpenMySQL(s.port, "")
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.Exec("CREATE DATABASE IF NOT EXISTS sbtest")
	return err
}

func (s *server) prepare(ctx context.Context, rows int) error {
	return s.prepareIn(ctx, "sbtest", rows)
}

// prepareIn has sysbench fill a table of a database.
func (s *server) prepareIn(ctx context.Context, db string, rows int) error {
	_, err := s.sysbenchIn(ctx, db, "oltp_read_write", fmt.Sprintf("--table-size=%d", rows), "prepare")
	return err
}

type result struct {
	qps, tps, cpu float64
	ignored       int
}

var (
	reQueries      = regexp.MustCompile(`queries:\s+(\d+)\s+\(([\d.]+) per sec`)
	reTransactions = regexp.MustCompile(`transactions:\s+\d+\s+\(([\d.]+) per sec`)
	reIgnored      = regexp.MustCompile(`ignored errors:\s+(\d+)`)
)

func (s *server) run(ctx context.Context, test string, threads, rows, secs int) (result, error) {
	before, err := s.cpu()
	if err != nil {
		return result{}, err
	}
	out, err := s.sysbench(ctx, test, fmt.Sprintf("--table-size=%d", rows), fmt.Sprintf("--threads=%d", threads),
		fmt.Sprintf("--time=%d", secs), "run")
	if err != nil {
		return result{}, err
	}
	after, err := s.cpu()
	if err != nil {
		return result{}, err
	}
	m := reQueries.FindStringSubmatch(out)
	if m == nil {
		return result{}, fmt.Errorf("%s: sysbench printed no count of queries:\n%s", s.name, out)
	}
	n, _ := strconv.ParseFloat(m[1], 64)
	qps, _ := strconv.ParseFloat(m[2], 64)
	r := result{qps: qps, cpu: float64((after - before).Microseconds()) / max(n, 1)}
	if m := reTransactions.FindStringSubmatch(out); m != nil {
		r.tps, _ = strconv.ParseFloat(m[1], 64)
	}
	if m := reIgnored.FindStringSubmatch(out); m != nil {
		r.ignored, _ = strconv.Atoi(m[1])
	}
	return r, nil
}

// cpu is the user and system time the process has used.
func (s *server) cpu() (time.Duration, error) {
	d, err := cpuOf(s.cmd.Process.Pid)
	if err != nil {
		err = fmt.Errorf("CPU time of %s: %w (this benchmark needs Linux)", s.name, err)
	}
	return d, err
}

// cpuOf is the user and system time a process has used.
func cpuOf(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 13 {
		return 0, errors.New("malformed stat")
	}
	user, err1 := strconv.Atoi(f[11])
	sys, err2 := strconv.Atoi(f[12])
	return time.Duration(user+sys) * time.Second / clockTick, errors.Join(err1, err2)
}

var reRSS = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

// residentMB is the process's resident memory; 0 if unknown.
func (s *server) residentMB() int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	if m := reRSS.FindSubmatch(b); m != nil {
		kb, _ := strconv.Atoi(string(m[1]))
		return kb >> 10
	}
	return 0
}
