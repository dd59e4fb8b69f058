package rig

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
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTick is USER_HZ, the unit of CPU times in /proc, which Linux fixes at 100.
const clockTick = 100

// Server is a database under test: a process, and its MySQL port on loopback.
type Server struct {
	Name string
	Cmd  *exec.Cmd
	Port int
	// Admin is HOST:PORT of a node's HTTP interface; "" if it has none.
	Admin string
}

// FreePort returns a TCP port of loopback that nobody listens on.
func FreePort() (int, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port, nil
}

// StartNode runs this very binary as a cluster of one node with one shard (more shards serve only
// clusters that grow), with more flags if wanted. Its store is in dir.
func StartNode(ctx context.Context, dir string, flags ...string) (*Server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	admin, err := FreePort()
	if err != nil {
		return nil, err
	}
	addr := fmt.Sprintf("127.0.0.1:%d", admin)
	args := append([]string{"start", "--insecure", "--region", "one", "--store", filepath.Join(dir, "godwit"),
		"--listen", addr, "--sql-listen", fmt.Sprintf("127.0.0.1:%d", port), "--log-level", "error"}, flags...)
	s := &Server{Name: "godwit", Port: port, Admin: addr, Cmd: exec.Command(self, args...)}
	if err := s.Cmd.Start(); err != nil {
		return nil, err
	}
	err = s.Await(ctx, func() error {
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
		return s.Ping()
	})
	return s, err
}

// Await calls ready until it succeeds; the server is stopped if it does not within half a minute.
func (s *Server) Await(ctx context.Context, ready func() error) error {
	var err error
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline) &&
		ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		if err = ready(); err == nil {
			return nil
		}
	}
	return errors.Join(fmt.Errorf("%s does not come up: %w", s.Name, err), s.Stop())
}

// Stop ends the process in order, and waits for it.
func (s *Server) Stop() error {
	_ = s.Cmd.Process.Signal(syscall.SIGTERM)
	var exit *exec.ExitError
	if err := s.Cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}

// Ping makes sysbench's database if it is not there; it fails while the server does not serve.
func (s *Server) Ping() error {
	db, err := OpenMySQL(s.Port, "")
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.Exec("CREATE DATABASE IF NOT EXISTS sbtest")
	return err
}

// Sysbench runs sysbench on one table of a database: test is the name of a script of sysbench's or
// the path of another. It returns what sysbench printed.
func (s *Server) Sysbench(ctx context.Context, db, test string, args ...string) (string, error) {
	args = append([]string{"--db-driver=mysql", "--mysql-host=127.0.0.1", fmt.Sprintf("--mysql-port=%d", s.Port),
		"--mysql-user=root",
		"--mysql-db=" + db, "--tables=1", test}, args...)
	out, err := exec.CommandContext(ctx, "sysbench", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: sysbench %s: %w\n%s", s.Name, test, err, bytes.TrimSpace(out))
	}
	return string(out), nil
}

// Prepare has sysbench fill a table of a database.
func (s *Server) Prepare(ctx context.Context, db string, rows int) error {
	_, err := s.Sysbench(ctx, db, "oltp_read_write", fmt.Sprintf("--table-size=%d", rows), "prepare")
	return err
}

// CPU is the user and system time the process has used.
func (s *Server) CPU() (time.Duration, error) {
	d, err := CPUOf(s.Cmd.Process.Pid)
	if err != nil {
		err = fmt.Errorf("CPU time of %s: %w (this benchmark needs Linux)", s.Name, err)
	}
	return d, err
}

// CPUOf is the user and system time a process has used, to 10 ms.
func CPUOf(pid int) (time.Duration, error) {
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
