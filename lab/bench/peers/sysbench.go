package peers

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"database/sql"

	"github.com/go-sql-driver/mysql"
)

//go:embed peers.lua
var peersLua []byte

// peerTools are the programs that the benchmark runs.
type peerTools struct{ self, sysbench, mariadbd, installDB, galera, etcd string }

// findSysbench finds what a benchmark of Godwit alone runs.
func findSysbench() (t *peerTools, err error) {
	t = new(peerTools)
	if t.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if t.sysbench, err = exec.LookPath("sysbench"); err != nil {
		err = errors.New("sysbench is missing (Debian: sysbench)")
	}
	return t, err
}

func findPeers() (*peerTools, error) {
	t, err := findSysbench()
	errs := []error{err}
	if t == nil {
		return nil, err
	}
	for _, f := range []struct {
		path       *string
		name, hint string
	}{{&t.mariadbd, "mariadbd", "Debian: mariadb-server"},
		{&t.installDB, "mariadb-install-db", "Debian: mariadb-server"}, {new(string), "rsync", "Debian: rsync"}} {
		if *f.path, err = exec.LookPath(f.name); err != nil {
			errs = append(errs, fmt.Errorf("%s is missing (%s)", f.name, f.hint))
		}
	}
	t.etcd = filepath.Join(filepath.Dir(t.self), "etcd")
	if _, err := os.Stat(t.etcd); err != nil {
		if t.etcd, err = exec.LookPath("etcd"); err != nil {
			errs = append(errs, errors.New("etcd is missing ('make etcd' builds it, or Debian: etcd-server)"))
		}
	}
	for _, glob := range []string{"/usr/lib/galera/libgalera_smm.so", "/usr/lib/*/galera*/libgalera_smm.so",
		"/usr/lib64/galera*/libgalera_smm.so"} {
		if found, _ := filepath.Glob(glob); len(found) > 0 && t.galera == "" {
			t.galera = found[0]
		}
	}
	if t.galera == "" {
		errs = append(errs, errors.New("libgalera_smm.so is missing (Debian: galera-4)"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("this benchmark needs more programs: %w", err)
	}
	return t, nil
}

// versions names the programs that are compared, with their versions.
func (t *peerTools) versions(ctx context.Context) string {
	var all []string
	for _, name := range []string{t.sysbench, t.mariadbd, t.etcd} {
		out, err := exec.CommandContext(ctx, name, "--version").Output()
		if err != nil {
			out = []byte(filepath.Base(name) + ": " + err.Error())
		}
		line, _, _ := strings.Cut(string(out), "\n")
		if _, v, ok := strings.Cut(line, "Ver "); ok {
			line = "MariaDB " + v
		}
		all = append(all, strings.TrimSpace(line))
	}
	return strings.Join(all, "; ")
}

// latencies are those of one region's clients.
type latencies struct {
	ms        []float64 // bounds of buckets, increasing
	n         []int
	mean      float64
	perSecond float64
	retries   int
}

// at is the latency that the share q of all statements does not exceed.
func (l *latencies) at(q float64) float64 {
	total, seen := 0, 0
	for _, n := range l.n {
		total += n
	}
	for i, n := range l.n {
		if seen += n; float64(seen) >= q*float64(total) {
			return l.ms[i]
		}
	}
	return 0
}

var (
	reBucket = regexp.MustCompile(`(?m)^\s*([\d.]+) \|\**\s+(\d+)\s*$`)
	reEvents = regexp.MustCompile(`transactions:\s+(\d+)\s+\(([\d.]+) per sec`)
	reMean   = regexp.MustCompile(`\n\s+avg:\s+([\d.]+)`)
)

// parseSysbench reads the report of a run with --histogram.
func parseSysbench(out string) (latencies, error) {
	var l latencies
	number := func(s string) float64 {
		v, _ := strconv.ParseFloat(s, 64) // the pattern is one of a number
		return v
	}
	for _, m := range reBucket.FindAllStringSubmatch(out, -1) {
		l.ms, l.n = append(l.ms, number(m[1])), append(l.n, int(number(m[2])))
	}
	events, mean := reEvents.FindStringSubmatch(out), reMean.FindStringSubmatch(out)
	if len(l.ms) == 0 || events == nil || mean == nil || !slices.IsSorted(l.ms) {
		return l, fmt.Errorf("sysbench's report has no latencies:\n%s", out)
	}
	l.perSecond, l.mean = number(events[2]), number(mean[1])
	if m := reIgnored.FindStringSubmatch(out); m != nil {
		l.retries = int(number(m[1]))
	}
	return l, nil
}

// mysqlPort is the port of the MySQL servers at all sites.
const mysqlPort = 7306

// sqlSites is one system that speaks MySQL's protocol, with a server at each site.
type sqlSites struct {
	*peers
	t    *peerTools
	port int
	// certs is a folder with the certificates of a client that uses TLS, under the names by which
	// sysbench finds them; empty: it uses none.
	certs string
}

// sysbench runs sysbench at a site against the site's own server.
func (b *sqlSites) sysbench(ctx context.Context, region int, script string, args ...string) (string, error) {
	all := []string{"--db-driver=mysql", "--mysql-host=127.0.0.1", fmt.Sprintf("--mysql-port=%d", b.port),
		"--mysql-user=root", "--mysql-db=sbtest"}
	if b.certs != "" {
		all = append(all, "--mysql-ssl=on")
	}
	cmd := exec.CommandContext(ctx, b.t.sysbench, append(append(all, script), args...)...)
	cmd.Dir = b.certs
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := b.site(region).Start(cmd); err != nil {
		return "", err
	}
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fmt.Errorf("sysbench at %s: %w\n%s", peerRegions[region], err, bytes.TrimSpace(out.Bytes()))
	}
	return out.String(), nil
}

// load makes sysbench's table through one region, as stock sysbench does.
func (b *sqlSites) load(ctx context.Context, region int) error {
	db, err := b.mysql(region, "")
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "CREATE DATABASE sbtest"); err != nil {
		return err
	}
	_, err = b.sysbench(ctx, region, "oltp_update_index", "--auto-inc=off", "--tables=1",
		fmt.Sprintf("--table-size=%d", b.rows*len(peerRegions)), "prepare")
	return err
}

// updates runs oltp_update_index with the region's range of rows.
func (b *sqlSites) updates(ctx context.Context, region, clients, seconds int, args ...string) (string, error) {
	return b.sysbench(ctx, region, b.script, append([]string{"--auto-inc=off", "--tables=1",
		fmt.Sprintf("--region=%d", region),
		fmt.Sprintf("--regions=%d", len(peerRegions)), fmt.Sprintf("--size=%d", b.rows), fmt.Sprintf("--threads=%d", clients),
		fmt.Sprintf("--time=%d", seconds), "run"}, args...)...)
}

// measured is the run function of a system.
func (b *sqlSites) measured(ctx context.Context, region, foreign int) (latencies, error) {
	out, err := b.updates(ctx, region, peerClients, int(b.measure.Seconds()), "--histogram",
		fmt.Sprintf("--foreign=%d", foreign))
	if err != nil {
		return latencies{}, err
	}
	return parseSysbench(out)
}

// mysql connects to a site's server from inside the site.
func (b *sqlSites) mysql(region int, db string) (*sql.DB, error) {
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.DBName = "root", "tcp", fmt.Sprintf("127.0.0.1:%d", b.port), db
	c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return b.site(region).Dial(ctx, network, addr)
	}
	conn, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(conn), nil
}

// pingMySQL returns nil if a site's server serves.
func (b *sqlSites) pingMySQL(ctx context.Context, region int) error {
	db, err := b.mysql(region, "")
	if err != nil {
		return err
	}
	defer db.Close()
	return db.PingContext(ctx)
}
