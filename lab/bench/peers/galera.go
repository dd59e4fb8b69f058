package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// startGalera runs MariaDB with Galera at all sites, with its default settings, which sync every
// commit to disk.
func (b *peers) startGalera(ctx context.Context, t *peerTools) (*peerSystem, error) {
	// Not as root: rsync's daemon would drop its privileges and could not write.
	who, err := user.Lookup("mysql")
	if err != nil {
		return nil, fmt.Errorf("galera: %w (Debian's mariadb-server makes it)", err)
	}
	uid, err1 := strconv.Atoi(who.Uid)
	gid, err2 := strconv.Atoi(who.Gid)
	if err := errors.Join(err1, err2, os.Chmod(b.p.Dir, 0o711)); err != nil {
		return nil, err
	}
	var addrs []string
	for i := range peerRegions {
		addrs = append(addrs, b.site(i).IP)
	}
	// The state transfer takes hundreds of round trips that are not measured.
	if err := b.distances(false); err != nil {
		return nil, err
	}
	var procs []*peerProc
	g := &sqlSites{peers: b, t: t, port: mysqlPort}
	for i, r := range peerRegions {
		err := func() error {
			data := filepath.Join(b.p.Dir, "galera-"+r)
			// The first node creates the cluster. The others get its data, except for the
			// directory.
			if i == 0 {
				if out, err := exec.CommandContext(ctx, t.installDB, "--no-defaults", "--user="+who.Username, "--datadir="+data,
					"--auth-root-authentication-method=normal", "--skip-test-db").CombinedOutput(); err != nil {
					return fmt.Errorf("mariadb-install-db: %w\n%s", err, out)
				}
			} else if err := errors.Join(os.Mkdir(data, 0o700), os.Chown(data, uid, gid)); err != nil {
				return err
			}
			args := []string{"--no-defaults", "--datadir=" + data, fmt.Sprintf("--port=%d", mysqlPort),
				"--bind-address=127.0.0.1", "--socket=" + filepath.Join(data, "sock"), "--max-connections=200",
				"--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--innodb-log-file-size=16M",
				"--wsrep-on=ON", "--wsrep-provider=" + t.galera, "--wsrep-cluster-name=peers",
				"--wsrep-sst-method=rsync", "--wsrep-slave-threads=4",
				"--wsrep-provider-options=evs.send_window=512;evs.user_send_window=512",
				"--wsrep-node-name=" + r, "--wsrep-node-address=" + addrs[i],
				"--wsrep-cluster-address=gcomm://" + strings.Join(addrs, ",")}
			if i == 0 {
				args = append(args, "--wsrep-new-cluster")
			}
			pr, err := b.start(i, &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, t.mariadbd, args...)
			if err != nil {
				return err
			}
			procs = append(procs, pr)
			if err := pr.await(ctx, func(ctx context.Context) error { return g.synced(ctx, i) }); err != nil {
				return err
			}
			if i == 0 {
				return g.load(ctx, 0)
			}
			return nil
		}()
		if err != nil {
			killAll(procs)
			return nil, fmt.Errorf("galera: %w", err)
		}
	}
	if err := b.distances(true); err != nil {
		killAll(procs)
		return nil, err
	}
	return &peerSystem{name: "galera", run: g.measured, stop: func() { killAll(procs) }}, nil
}

// synced returns nil if a node is a full member of the cluster.
func (g *sqlSites) synced(ctx context.Context, region int) error {
	db, err := g.mysql(region, "")
	if err != nil {
		return err
	}
	defer db.Close()
	var name, state string
	if err := db.QueryRowContext(ctx, "SHOW STATUS LIKE 'wsrep_local_state_comment'").Scan(&name, &state); err != nil {
		return err
	}
	if state != "Synced" {
		return fmt.Errorf("its state is %q", state)
	}
	return nil
}
