package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
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

// server is a database under test.
type server struct{ *rig.Server }

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
	node, err := rig.StartNode(ctx, p.Dir)
	if err != nil {
		return err
	}
	god := &server{node}
	defer func() { err = errors.Join(err, god.Stop()) }()
	maria, err := startMariaDB(ctx, p.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, maria.Stop()) }()
	for _, s := range []*server{god, maria} {
		begin := time.Now()
		if err := s.Prepare(ctx, "sbtest", rows); err != nil {
			return err
		}
		fmt.Fprintf(p.Log, "%s: loaded %d rows in %s, resident memory %d MiB\n", s.Name, rows,
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
	db, err := rig.OpenMySQL(s.Port, "")
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
			"%s %s, %d threads: %s%.0f queries/s, %.0f transactions/s, %.1f µs CPU a query, %d retries\n", s.Name,
			test, threads,
			strings.TrimPrefix(level+", ", ", "), r.qps, r.tps, r.cpu, r.ignored)
	}
	return r, err
}

// startMariaDB runs a private server with its default settings.
func startMariaDB(ctx context.Context, dir string) (*server, error) {
	port, err := rig.FreePort()
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
	s := &server{&rig.Server{Name: "mariadb", Port: port, Cmd: exec.Command("mariadbd", "--no-defaults", "--user="+who.Username,
		"--datadir="+data,
		fmt.Sprintf("--port=%d", port), "--bind-address=127.0.0.1", "--socket="+filepath.Join(dir,
			"mariadb.sock"), "--max-connections=200")}}
	if err := s.Cmd.Start(); err != nil {
		return nil, err
	}
	return s, s.Await(ctx, s.Ping)
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
	before, err := s.CPU()
	if err != nil {
		return result{}, err
	}
	out, err := s.Sysbench(ctx, "sbtest", test, fmt.Sprintf("--table-size=%d", rows), fmt.Sprintf("--threads=%d", threads),
		fmt.Sprintf("--time=%d", secs), "run")
	if err != nil {
		return result{}, err
	}
	after, err := s.CPU()
	if err != nil {
		return result{}, err
	}
	m := reQueries.FindStringSubmatch(out)
	if m == nil {
		return result{}, fmt.Errorf("%s: sysbench printed no count of queries:\n%s", s.Name, out)
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

var reRSS = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

// residentMB is the process's resident memory; 0 if unknown.
func (s *server) residentMB() int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Cmd.Process.Pid))
	if err != nil {
		return 0
	}
	if m := reRSS.FindSubmatch(b); m != nil {
		kb, _ := strconv.Atoi(string(m[1]))
		return kb >> 10
	}
	return 0
}
