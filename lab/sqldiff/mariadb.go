package sqldiff

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Maria is a private server of MariaDB: a data directory and a socket of its own.
type Maria struct {
	dir  string
	args []string
	DSN  string

	stop chan struct{} // closed: it is to end
	over chan struct{} // closed: it has ended
	died chan error    // that it cannot be started
}

// Installed reports whether MariaDB's server is there.
func Installed() bool {
	_, err := exec.LookPath("mariadbd")
	return err == nil
}

// StartMaria starts a server in a new directory below dir, with further options if there are any.
func StartMaria(ctx context.Context, dir string, options ...string) (*Maria, error) {
	dir, err := os.MkdirTemp(dir, "maria")
	if err != nil {
		return nil, err
	}
	data, sock := filepath.Join(dir, "data"), filepath.Join(dir, "sock")
	install := exec.CommandContext(ctx, "mariadb-install-db", "--no-defaults", "--datadir="+data,
		"--auth-root-authentication-method=normal", "--skip-test-db", "--user=root")
	if out, err := install.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mariadb-install-db: %w: %s", err, out)
	}
	m := &Maria{dir: dir, DSN: "root@unix(" + sock + ")/", stop: make(chan struct{}), over: make(chan struct{}),
		died: make(chan error, 1)}
	m.args = append([]string{"--no-defaults", "--datadir=" + data, "--socket=" + sock, "--skip-networking", "--user=root",
		"--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync",
		"--innodb-doublewrite=0", "--pid-file=" + filepath.Join(dir, "pid"),
		"--character-set-server=utf8mb4"}, options...)
	go m.keep()
	for range 300 {
		s, err := Dial(ctx, "mariadb", m.DSN)
		if err == nil {
			return m, s.Close()
		}
		select {
		case err := <-m.died:
			return nil, err
		case <-ctx.Done():
			m.Stop()
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	m.Stop()
	return nil, fmt.Errorf("MariaDB does not answer at %s", sock)
}

// keep starts the server, and again when it has died: some statements are fatal to it. What they
// are is not judged then.
func (m *Maria) keep() {
	defer close(m.over)
	for {
		cmd := exec.Command("mariadbd", m.args...)
		if err := cmd.Start(); err != nil {
			m.died <- err
			return
		}
		gone := make(chan struct{})
		go func() { _ = cmd.Wait(); close(gone) }()
		select {
		case <-gone:
		case <-m.stop:
			_ = cmd.Process.Signal(os.Interrupt)
			select {
			case <-gone:
			case <-time.After(5 * time.Second):
				_ = cmd.Process.Kill()
				<-gone
			}
			return
		}
		select {
		case <-m.stop:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Stop ends the server and removes its data.
func (m *Maria) Stop() {
	close(m.stop)
	<-m.over
	_ = os.RemoveAll(m.dir)
}
