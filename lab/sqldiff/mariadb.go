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
	cmd *exec.Cmd
	dir string
	DSN string
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
	m := &Maria{dir: dir, DSN: "root@unix(" + sock + ")/"}
	args := []string{"--no-defaults", "--datadir=" + data, "--socket=" + sock, "--skip-networking", "--user=root",
		"--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync",
		"--innodb-doublewrite=0", "--pid-file=" + filepath.Join(dir, "pid"),
		"--character-set-server=utf8mb4"}
	m.cmd = exec.Command("mariadbd", append(args, options...)...)
	if err := m.cmd.Start(); err != nil {
		return nil, err
	}
	for range 300 {
		s, err := Dial(ctx, "mariadb", m.DSN)
		if err == nil {
			return m, s.Close()
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	m.Stop()
	return nil, fmt.Errorf("MariaDB does not answer at %s", sock)
}

// Stop ends the server and removes its data.
func (m *Maria) Stop() {
	_ = m.cmd.Process.Signal(os.Interrupt)
	done := make(chan struct{})
	go func() { _ = m.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		_ = m.cmd.Process.Kill()
		<-done
	}
	_ = os.RemoveAll(m.dir)
}
