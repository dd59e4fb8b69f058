package server

import (
	"bytes"
	"context"
	"database/sql"
	"net"
	"runtime"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/sql/late"
)

// TestDrain: when the server ends, a transaction that has begun goes on to its end, its connection
// is told to go at the next statement, which is not executed, and one at rest is told at once.
func TestDrain(t *testing.T) {
	s, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY)")
	busy := conn(t, c)
	exec(t, busy, "BEGIN")
	exec(t, busy, "INSERT INTO t VALUES (1)")

	var wire net.Conn
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.DBName = "root", "tcp", s.Addr().String(), "test"
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		var err error
		wire, err = new(net.Dialer).DialContext(ctx, network, addr)
		return wire, err
	}
	dial, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	pool := sql.OpenDB(dial)
	t.Cleanup(func() { pool.Close() })
	rest := conn(t, pool)
	expect(t, rest, "SELECT 1", "1")

	ended := make(chan error)
	go func() { ended <- s.Close() }()
	for !s.g.draining.Load() {
		runtime.Gosched()
	}
	exec(t, busy, "INSERT INTO t VALUES (2)")
	expect(t, busy, "SELECT COUNT(*) FROM t", "2")
	exec(t, busy, "COMMIT")
	expectErr(t, busy, 1053, "INSERT INTO t VALUES (3)")
	if err := <-ended; err != nil {
		t.Error(err)
	}
	said := make([]byte, 4096)
	n, err := wire.Read(said)
	if !bytes.Equal(said[:n], late.Packet(errShutdown, 0)) {
		t.Errorf("the connection at rest was told %q, %v", said[:n], err)
	}
	if _, err := net.Dial("tcp", s.Addr().String()); err == nil {
		t.Error("the server still listens")
	}
}
