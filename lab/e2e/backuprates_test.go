package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/lab/workload"
)

// needFigures skips a test that only measures. docs/figures/backup.md has what it printed.
func needFigures(t *testing.T) {
	t.Helper()
	if os.Getenv("GODWIT_FIGURES") == "" {
		t.Skip("it measures, and asserts little: GODWIT_FIGURES=1")
	}
}

// arrival is one transaction of a client, from when it was due.
type arrival struct {
	due    time.Time
	took   time.Duration
	write  bool
	failed bool
}

// TestClientsDuringBackup: in five regions clients arrive at a fixed rate, whatever they wait for.
// Times with full backups, one after the other, alternate with times without. It prints how much
// longer the slowest hundredth of the transactions waits.
//
// GODWIT_ROWS, GODWIT_PAIRS and GODWIT_RATE say how many rows a region has, how many times of
// either kind there are, and how many transactions a second of either kind arrive in each region.
func TestClientsDuringBackup(t *testing.T) {
	needFigures(t)
	rows, pairs, rate := number(t, "GODWIT_ROWS", 40_000), number(t, "GODWIT_PAIRS", 8), number(t, "GODWIT_RATE", 5)
	const length = 15 * time.Second
	o := startOceans(t, 5)
	c := o.cluster(t, t.TempDir(), 5, 2)
	c.logOnFailure(t)
	db := patient(c.nodes[0], "")
	defer db.Close()
	exec1(t, db, "CREATE DATABASE busy")
	exec1(t, db, "CREATE TABLE busy.t (id INT PRIMARY KEY, n INT NOT NULL, v VARCHAR(200) NOT NULL, KEY (n))")
	exec1(t, db, "CREATE TABLE busy.entries (id BIGINT PRIMARY KEY, item INT NOT NULL)")
	var fill sync.WaitGroup
	for i, n := range c.nodes {
		fill.Go(func() {
			own := patient(n, "busy")
			defer own.Close()
			rng := rand.New(rand.NewPCG(23, uint64(i)))
			for k := 0; k < rows; k += 500 {
				var all []string
				for j := k; j < min(k+500, rows); j++ {
					all = append(all, fmt.Sprintf("(%d, %d, '%s')", i*rows+j, rng.IntN(1000), randomText(rng, 180)))
				}
				if _, err := own.Exec("INSERT INTO t VALUES " + strings.Join(all, ", ")); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	fill.Wait()
	var mu sync.Mutex
	var seen []arrival
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var work sync.WaitGroup
	for i, n := range c.nodes {
		own := client(n.sql, "busy")
		own.SetMaxIdleConns(64)
		defer own.Close()
		for _, write := range []bool{false, true} {
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			work.Go(func() {
				for due, k := time.Now(), int64(0); ctx.Err() == nil; k++ {
					due = due.Add(time.Duration(rng.ExpFloat64() * float64(time.Second) / float64(rate)))
					pause(ctx, time.Until(due))
					id, at := i*rows+rng.IntN(rows), due
					work.Go(func() {
						err := busyTransaction(ctx, own, id, k*int64(len(c.nodes))+int64(i), write)
						a := arrival{due: at, took: time.Since(at), write: write, failed: err != nil}
						mu.Lock()
						defer mu.Unlock()
						if ctx.Err() == nil {
							seen = append(seen, a)
						}
					})
				}
			})
		}
	}
	type window struct {
		from, to time.Time
		with     bool
	}
	var windows []window
	var backups []time.Duration
	var bytes, read int64
	time.Sleep(length) // leaders and caches settle
	for p := range 2 * pairs {
		w := window{from: time.Now(), with: (p%2 == 0) == (p/2%2 == 0)} // with, without, without, with
		for w.with && time.Since(w.from) < length {
			begin := time.Now()
			var id, at, skipped string
			var tables, n, files, size int64
			if err := db.QueryRowContext(ctx, fmt.Sprintf("BACKUP DATABASE busy INTO 's3://acme/b%d-%d'", p, len(backups))).Scan(&id, &at,
				&tables, &n, &files, &size, &skipped); err != nil {
				t.Fatal(err)
			}
			backups, bytes, read = append(backups, time.Since(begin)), bytes+size, read+n
		}
		if !w.with {
			time.Sleep(length)
		}
		w.to = time.Now()
		windows = append(windows, w)
		time.Sleep(2 * time.Second)
	}
	stop()
	work.Wait()
	slices.Sort(backups)
	t.Logf("%d full backups of %d rows a region in %d regions; median %.1f s; all together %d rows and %.1f MiB of files", len(backups),
		rows, len(c.nodes), backups[len(backups)/2].Seconds(), read, float64(bytes)/(1<<20))
	for _, write := range []bool{false, true} {
		in := map[bool][][]time.Duration{}
		failed := map[bool]int{}
		for _, w := range windows {
			var took []time.Duration
			for _, a := range seen {
				if a.write != write || a.due.Before(w.from) || a.due.After(w.to) {
					continue
				}
				if a.failed {
					failed[w.with]++
					continue
				}
				took = append(took, a.took)
			}
			in[w.with] = append(in[w.with], took)
		}
		kind := map[bool]string{false: "reads of a row", true: "transactions of an update and an insert"}[write]
		for _, p := range []float64{0.5, 0.95, 0.99} {
			lo, hi := spread(in, p)
			t.Logf("%s, p%.0f: %.1f ms with backups, %.1f ms without, ratio %.2f (90 %% of resampled windows: %.2f to %.2f); %d and %d "+
				"transactions, %d and %d failed", kind, 100*p, ms(of(in[true], p)), ms(of(in[false], p)),
				float64(of(in[true], p))/float64(of(in[false], p)), lo, hi, size(in[true]), size(in[false]), failed[true], failed[false])
		}
	}
}

func busyTransaction(ctx context.Context, db *sql.DB, id int, entry int64, write bool) error {
	if !write {
		var v string
		return db.QueryRowContext(ctx, "SELECT v FROM t WHERE id = ?", id).Scan(&v)
	}
	for {
		err := func() error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }() // after a commit there is nothing to roll back
			if _, err := tx.ExecContext(ctx, "UPDATE t SET n = n + 1 WHERE id = ?", id); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "INSERT INTO entries VALUES (?, ?)", entry, id); err != nil {
				return err
			}
			return tx.Commit()
		}()
		if !workload.Retryable(err) {
			return err
		}
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func size(windows [][]time.Duration) (n int) {
	for _, w := range windows {
		n += len(w)
	}
	return n
}

// of is a quantile over all windows.
func of(windows [][]time.Duration, p float64) time.Duration {
	all := slices.Concat(windows...)
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(int(p*float64(len(all))), len(all)-1)]
}

// spread is the range of the ratio that 90 % of random choices of windows come to.
func spread(in map[bool][][]time.Duration, p float64) (lo, hi float64) {
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func(w [][]time.Duration) float64 {
		var some [][]time.Duration
		for range w {
			some = append(some, w[rng.IntN(len(w))])
		}
		return float64(of(some, p))
	}
	var ratios []float64
	for range 500 {
		ratios = append(ratios, draw(in[true])/draw(in[false]))
	}
	slices.Sort(ratios)
	return ratios[25], ratios[474]
}

func randomText(rng *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[rng.IntN(36)]
	}
	return string(b)
}

// saved is what a backup or a restore took.
type saved struct {
	took, cpu time.Duration
	bytes     int64
}

// saver is a system whose backups are measured. The table is bench.t.
type saver struct {
	name                       string
	db                         *sql.DB
	full, incremental, restore func(round int) saved
}

// TestBackupRates: backups and restores of sysbench's rows, of one node, of three nodes in three
// regions, and of MariaDB with mariadb-backup, in turn. Before an incremental backup a hundredth of
// the rows changes. GODWIT_ROWS says how many rows there are.
func TestBackupRates(t *testing.T) {
	needFigures(t)
	rows, rounds := number(t, "GODWIT_ROWS", 1_000_000), number(t, "GODWIT_ROUNDS", 3)
	dir := t.TempDir()
	one := alone(t, "--backup-dir", dir, "--cache-mb", "128")
	three := &processes{}
	for i := range 3 {
		n := &node{region: fmt.Sprintf("region-%c", 'a'+i), dir: filepath.Join(t.TempDir(), "n"), addr: port(t), sql: port(t),
			args: []string{"--backup-dir", dir, "--cache-mb", "128"}}
		three.nodes, three.regions = append(three.nodes, n), append(three.regions, n.region)
	}
	t.Cleanup(three.kill)
	for _, n := range three.nodes {
		n.join = three.nodes[0].addr
		n.start(t)
	}
	for _, n := range three.nodes {
		n.awaitLine(t, "listens at")
	}
	three.init(t)
	for _, n := range three.nodes {
		n.awaitSQL(t)
	}
	systems := []*saver{newMariaSaver(t), godwitSaver(t, "one node", dir, one), godwitSaver(t, "three nodes", dir, three.nodes...)}
	mysql.RegisterReaderHandler("bench", func() io.Reader { return sysbenchRows(rows) })
	defer mysql.DeregisterReaderHandler("bench")
	for _, s := range systems {
		for _, q := range []string{"SET GLOBAL local_infile = 1", "CREATE DATABASE bench",
			"CREATE TABLE bench.t (id INT NOT NULL PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL, KEY (k))",
			"LOAD DATA LOCAL INFILE 'Reader::bench' INTO TABLE bench.t"} {
			if _, err := s.db.ExecContext(t.Context(), q); err != nil {
				t.Fatalf("%s: %s: %v", s.name, q, err)
			}
		}
	}
	time.Sleep(10 * time.Second) // what they tidy up behind a load
	type figures struct{ full, incremental, restore []saved }
	got := map[string]*figures{}
	for round := range rounds {
		for i := range systems {
			s := systems[(i+round)%len(systems)]
			f := got[s.name]
			if f == nil {
				f = &figures{}
				got[s.name] = f
			}
			f.full = append(f.full, s.full(round))
			part := rows / 100
			if _, err := s.db.ExecContext(t.Context(), "UPDATE bench.t SET k = k + 1, pad = REVERSE(pad) WHERE id > ? AND id <= ?",
				(round+1)*part, (round+2)*part); err != nil {
				t.Fatal(err)
			}
			f.incremental = append(f.incremental, s.incremental(round))
			f.restore = append(f.restore, s.restore(round))
			time.Sleep(3 * time.Second)
		}
	}
	raw := float64(rows) * 190 / (1 << 20)
	for _, s := range systems {
		f := got[s.name]
		for _, x := range []struct {
			what string
			all  []saved
		}{{"full backup", f.full}, {"incremental backup", f.incremental}, {"restore", f.restore}} {
			var took, cpu, size []float64
			for _, v := range x.all {
				took, cpu, size = append(took, v.took.Seconds()), append(cpu, v.cpu.Seconds()), append(size, float64(v.bytes)/(1<<20))
			}
			m := median(took)
			t.Logf("%s, %s of %d rows: median %.2f s (%.2f), CPU %.2f s, %.1f MiB of files; %.0f rows/s, %.1f MiB/s of rows", s.name,
				x.what, rows, m, took, median(cpu), median(size), float64(rows)/m, raw/m)
		}
	}
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// sysbenchRows are rows as sysbench makes them, about 190 bytes each.
func sysbenchRows(rows int) io.Reader {
	out, in := io.Pipe()
	go func() {
		rng := rand.New(rand.NewPCG(5, 5))
		digits := func(groups int) string {
			var b strings.Builder
			for i := range groups {
				if i > 0 {
					b.WriteByte('-')
				}
				fmt.Fprintf(&b, "%011d", rng.Int64N(100_000_000_000))
			}
			return b.String()
		}
		var err error
		for i := 1; i <= rows && err == nil; i++ {
			_, err = fmt.Fprintf(in, "%d\t%d\t%s\t%s\n", i, 1+rng.IntN(rows), digits(10), digits(5))
		}
		in.CloseWithError(err)
	}()
	return out
}

// godwitSaver measures Godwit's statements through the first node.
func godwitSaver(t *testing.T, name, dir string, nodes ...*node) *saver {
	s := &saver{name: name, db: patient(nodes[0], "")}
	t.Cleanup(func() { _ = s.db.Close() })
	s.db.SetMaxOpenConns(1)
	cpu := func() (all time.Duration) {
		for _, n := range nodes {
			d, err := rig.CPUOf(n.cmd.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			all += d
		}
		return all
	}
	place := func(round int) string {
		return fmt.Sprintf("file://%s/%s-%d", dir, strings.ReplaceAll(name, " ", "-"), round)
	}
	take := func(round int, with string) saved {
		var id, at, skipped string
		var tables, n, files, size int64
		before, begin := cpu(), time.Now()
		if err := s.db.QueryRowContext(t.Context(), "BACKUP DATABASE bench INTO '"+place(round)+"'"+with).Scan(&id, &at, &tables, &n,
			&files, &size, &skipped); err != nil {
			t.Fatal(err)
		}
		return saved{time.Since(begin), cpu() - before, size}
	}
	s.full = func(round int) saved { return take(round, "") }
	s.incremental = func(round int) saved { return take(round, " WITH INCREMENTAL") }
	s.restore = func(round int) saved {
		before, begin := cpu(), time.Now()
		if _, err := s.db.ExecContext(t.Context(), "RESTORE DATABASE bench FROM '"+place(round)+"' AS again"); err != nil {
			t.Fatal(err)
		}
		out := saved{took: time.Since(begin), cpu: cpu() - before}
		same(t, s.db, "bench.t", s.db, "again.t")
		exec1(t, s.db, "DROP DATABASE again")
		return out
	}
	return s
}

// same compares the sums of two tables.
func same(t *testing.T, a *sql.DB, one string, b *sql.DB, other string) {
	t.Helper()
	var was, is string
	q := "SELECT CONCAT(COUNT(*), ' ', SUM(id), ' ', SUM(k), ' ', SUM(CRC32(CONCAT(c, pad)))) FROM "
	for _, x := range []struct {
		db   *sql.DB
		from string
		to   *string
	}{{a, one, &was}, {b, other, &is}} {
		if err := x.db.QueryRowContext(t.Context(), q+x.from).Scan(x.to); err != nil {
			t.Fatal(err)
		}
	}
	if was != is {
		t.Errorf("restored is %s, and was %s", is, was)
	}
}

// mariaSaver is a MariaDB server with its data, and with mariadb-backup.
type mariaSaver struct {
	t              *testing.T
	dir, data      string
	server, backup string
	user           string
}

func newMariaSaver(t *testing.T) *saver {
	m := &mariaSaver{t: t, dir: t.TempDir(), server: tool(t, "mariadbd"), backup: tool(t, "mariadb-backup")}
	who, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	m.user, m.data = who.Username, filepath.Join(m.dir, "data")
	if out, err := exec.Command(tool(t, "mariadb-install-db"), "--no-defaults", "--user="+m.user, "--datadir="+m.data,
		"--auth-root-authentication-method=normal").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	addr := port(t)
	_, number, _ := net.SplitHostPort(addr)
	end := m.start(m.data, addr)
	t.Cleanup(end)
	s := &saver{name: "mariadb-backup", db: patient(&node{sql: addr}, "")}
	t.Cleanup(func() { _ = s.db.Close() })
	at := func(round int, what string) string { return filepath.Join(m.dir, fmt.Sprintf("%s-%d", what, round)) }
	take := func(to string, more ...string) saved {
		begin := time.Now()
		cpu := m.run(append([]string{"--backup", "--host=127.0.0.1", "--port=" + number, "--user=root", "--datadir=" + m.data,
			"--target-dir=" + to}, more...)...)
		return saved{time.Since(begin), cpu, m.bytes(to)}
	}
	s.full = func(round int) saved { return take(at(round, "full")) }
	s.incremental = func(round int) saved { return take(at(round, "more"), "--incremental-basedir="+at(round, "full")) }
	s.restore = func(round int) saved {
		begin := time.Now()
		cpu := m.run("--prepare", "--target-dir="+at(round, "full"))
		cpu += m.run("--prepare", "--target-dir="+at(round, "full"), "--incremental-dir="+at(round, "more"))
		again := at(round, "again")
		cpu += m.run("--copy-back", "--target-dir="+at(round, "full"), "--datadir="+again)
		other := port(t)
		end := m.start(again, other)
		out := saved{took: time.Since(begin), cpu: cpu}
		db := patient(&node{sql: other}, "")
		same(t, s.db, "bench.t", db, "bench.t")
		_ = db.Close() // nothing is pending
		end()
		for _, d := range []string{again, at(round, "full"), at(round, "more")} {
			if err := os.RemoveAll(d); err != nil {
				t.Fatal(err)
			}
		}
		return out
	}
	return s
}

// start starts a server, and waits until it serves.
func (m *mariaSaver) start(data, addr string) (end func()) {
	m.t.Helper()
	_, number, _ := net.SplitHostPort(addr)
	cmd := exec.Command(m.server, "--no-defaults", "--user="+m.user, "--datadir="+data, "--port="+number, "--bind-address=127.0.0.1",
		"--socket="+data+".sock", "--character-set-server=utf8mb4")
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	db := client(addr, "")
	defer db.Close()
	for deadline := time.Now().Add(patience); db.Ping() != nil; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			m.t.Fatal("MariaDB does not come up")
		}
	}
	return sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = cmd.Wait()
	})
}

// run runs mariadb-backup, and returns the CPU time that it took.
func (m *mariaSaver) run(args ...string) time.Duration {
	m.t.Helper()
	cmd := exec.Command(m.backup, append([]string{"--no-defaults"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		m.t.Fatalf("%v: %v: %s", args, err, out)
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

func (m *mariaSaver) bytes(dir string) (n int64) {
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		i, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		n += i.Size()
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return n
}
