package faults

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
	"syscall"
	"time"
)

// galera is MariaDB with Galera at all sites, with its default settings, which sync every commit to
// disk, or with shorter times until a silent node counts as dead. Reads wait for what was committed
// before (wsrep_sync_wait), as those of the others do.
type galera struct {
	bed *Bed
	// as its figures call it, and the settings by which it takes a silent node for dead; empty: its
	// defaults
	called, evs string

	counters counters
	as       *syscall.Credential
	user     string
	made     bool // the first node has made the cluster
}

// quickEVS has Galera suspect a node after a second of silence, as Godwit and etcd do, instead of
// five, and leave it out after three at most, instead of fifteen.
const quickEVS = ";evs.keepalive_period=PT0.3S;evs.inactive_check_period=PT0.2S;evs.suspect_timeout=PT1S;" +
	"evs.inactive_timeout=PT3S;evs.install_timeout=PT3S"

// galeraLimit is how long a node may take to come up: it may need a copy of all data.
const galeraLimit = 2 * time.Minute

func (g *galera) name() string { return g.called }

// mysqlUser is the account that Debian's package makes. Not root: rsync's daemon would drop its
// privileges and could not write.
func (g *galera) mysqlUser() error {
	who, err := user.Lookup("mysql")
	if err != nil {
		return fmt.Errorf("%w (Debian's mariadb-server makes it)", err)
	}
	uid, err1 := strconv.Atoi(who.Uid)
	gid, err2 := strconv.Atoi(who.Gid)
	g.user, g.as = who.Username, &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return errors.Join(err1, err2)
}

func (g *galera) args(s *site) []string {
	data := s.disk.path(Galera)
	return []string{"--no-defaults", "--datadir=" + data, "--tmpdir=" + data, fmt.Sprintf("--port=%d", mysqlPort),
		"--bind-address=127.0.0.1",
		"--socket=" + s.disk.path("galera/sock"), "--innodb-log-file-size=16M", "--innodb-buffer-pool-size=32M",
		"--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--wsrep-sync-wait=1",
		"--wsrep-on=ON", "--wsrep-provider=" + g.bed.o.Galera, "--wsrep-cluster-name=faults",
		"--wsrep-sst-method=rsync", "--wsrep-slave-threads=4",
		"--wsrep-provider-options=evs.send_window=512;evs.user_send_window=512;gcache.size=32M" + g.evs,
		"--wsrep-node-name=" + s.name, "--wsrep-node-address=" + s.in.IP}
}

var recovered = regexp.MustCompile(`Recovered position:\s*([0-9a-f-]+:-?\d+)`)

func (g *galera) start(ctx context.Context, s *site) error {
	args := g.args(s)
	var members []string
	for _, o := range g.bed.sites {
		members = append(members, o.in.IP)
	}
	if g.made && s.process() != nil {
		// Where it was, as Debian's service finds out before each start.
		cmd := exec.CommandContext(ctx, g.bed.o.MariaDB, append(args, "--wsrep-recover", "--wsrep-cluster-address=gcomm://")...)
		out, err := os.CreateTemp(g.bed.o.Dir, "recover-*.log")
		if err != nil {
			return err
		}
		defer out.Close()
		cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = out, out, &syscall.SysProcAttr{Credential: g.as}
		if err := s.in.Start(cmd); err != nil {
			return err
		}
		_ = cmd.Wait() // what it has found counts
		text, err := os.ReadFile(out.Name())
		if err != nil {
			return err
		}
		if m := recovered.FindSubmatch(text); m != nil {
			args = append(args, "--wsrep-start-position="+string(m[1]))
		}
	}
	args = append(args, "--wsrep-cluster-address=gcomm://"+strings.Join(members, ","))
	if !g.made {
		args = append(args, "--wsrep-new-cluster")
		g.made = true
	}
	return s.run(exec.Command(g.bed.o.MariaDB, args...), g.as)
}

// ready returns nil if a node is a full member of the cluster.
func (g *galera) ready(ctx context.Context, s *site) error {
	db, err := s.open("")
	if err != nil {
		return err
	}
	defer db.Close()
	for name, want := range map[string]string{"wsrep_local_state_comment": "Synced", "wsrep_ready": "ON"} {
		var state string
		if err := db.QueryRowContext(ctx, "SHOW STATUS LIKE '"+name+"'").Scan(&name, &state); err != nil {
			return err
		}
		if state != want {
			return fmt.Errorf("%s is %q", name, state)
		}
	}
	return nil
}

func (g *galera) prepare(ctx context.Context) error {
	g.counters.bed = g.bed
	if err := g.mysqlUser(); err != nil {
		return err
	}
	// It has to pass through the directories above its disk.
	for _, dir := range []string{g.bed.o.Dir, filepath.Dir(g.bed.o.Dir)} {
		if err := os.Chmod(dir, 0o711); err != nil {
			return err
		}
	}
	// The state transfer takes hundreds of round trips that are not measured.
	if err := g.bed.distances(false); err != nil {
		return err
	}
	for i, s := range g.bed.sites {
		if err := g.directory(s, i == 0); err != nil {
			return err
		}
		if err := g.start(ctx, s); err != nil {
			return err
		}
		if err := s.await(ctx, galeraLimit, func(ctx context.Context) error { return g.ready(ctx, s) }); err != nil {
			return err
		}
	}
	q := []string{"CREATE TABLE own (id INT PRIMARY KEY, n BIGINT NOT NULL) ENGINE=InnoDB"}
	for i := range Regions {
		q = append(q, fmt.Sprintf("INSERT INTO own VALUES (%d, 0)", rowID(i, i)))
	}
	return errors.Join(g.bed.sites[0].exec(ctx, "", "CREATE DATABASE faults"), g.bed.sites[0].exec(ctx, "faults", q...),
		g.bed.distances(true))
}

// directory makes the data directory; all but the first get theirs from another node.
func (g *galera) directory(s *site, first bool) error {
	data := s.disk.path(Galera)
	owner := fmt.Sprintf("--owner=%s", g.user)
	if err := s.tool("install", "-d", owner, "-m", "700", data); err != nil || !first {
		return err
	}
	return s.tool(g.bed.o.InstallDB, "--no-defaults", "--user="+g.user, "--datadir="+data, "--tmpdir="+data,
		"--auth-root-authentication-method=normal", "--skip-test-db")
}

func (g *galera) settled(ctx context.Context) error {
	for _, s := range g.bed.sites {
		if err := g.ready(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func (g *galera) streams() []*stream {
	var out []*stream
	for i, s := range g.bed.sites {
		st, err := g.counters.clients(s, Own, "", "own", rowID(i, i), true)
		if err != nil {
			panic(err) // the address is a constant
		}
		out = append(out, st...)
	}
	return out
}

func (g *galera) lost(ctx context.Context) error { return g.counters.lost(ctx) }
