package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
)

// dying is a file that ends with its client's connection, not with the packet that the protocol
// has behind the last byte.
type dying struct {
	io.Reader
	die func()
}

// Read implements io.Reader.
func (d *dying) Read(b []byte) (int, error) {
	n, err := d.Reader.Read(b)
	if err == io.EOF {
		d.die()
		err = net.ErrClosed
	}
	return n, err
}

// TestLoadClientLost: a file whose client is lost while it sends is not whole, also if the
// connection ends between two packets, in a line or behind one. What is in no part that was
// committed before is not loaded.
func TestLoadClientLost(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate
	defer web.Close()
	for _, x := range []struct {
		name string
		most int // rows and entries of a transaction
		rows int
		rest string // of a line
		keep int    // rows, at least
		how  string
		tls  bool
	}{
		{"one transaction", 0, 9000, "", 0, "close", false},
		{"in a line", 0, 9000, "9001\t1\tcu", 0, "close", false},
		{"a short file", 0, 10, "11\t1\tcu", 0, "close", false},
		{"TLS", 0, 10, "11\t1\tcu", 0, "close", true},
		{"reset", 0, 9000, "", 0, "reset", false},
		{"parts", 640, 405, "406\t1\tcu", 320, "close", false},
		{"parts, reset", 640, 403, "", 320, "reset", false},
	} {
		t.Run(x.name, func(t *testing.T) {
			db := memkv.New(4, "eu", "us")
			if x.most > 0 {
				db.Most = kv.Volume{Bytes: 1 << 30, Writes: x.most}
			}
			s, pool := startServer(t, db, func(cfg *Config) { cfg.TLS = &tls.Config{Certificates: web.TLS.Certificates} })
			exec(t, pool, "SET GLOBAL local_infile = 1")
			exec(t, pool, "CREATE TABLE t (id INT PRIMARY KEY, k INT, v VARCHAR(20), KEY (k))")
			var wire net.Conn
			mysql.RegisterDialContext("dying", func(ctx context.Context, addr string) (net.Conn, error) {
				c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
				wire = c
				return c, err
			})
			c := conn(t, openDSN(t, fmt.Sprintf("root@dying(%s)/test?tls=%s", s.Addr(), map[bool]string{true: "skip-verify", false: "false"}[x.tls])))
			id := query(t, c, "SELECT CONNECTION_ID()")[0]
			file := &dying{strings.NewReader(many(x.rows, "x") + x.rest), func() {
				for x.keep > 0 && query(t, pool, fmt.Sprintf("SELECT COUNT(*) >= %d FROM t", x.keep))[0] == "0" {
					time.Sleep(time.Millisecond)
				}
				if x.how == "reset" {
					_ = wire.(*net.TCPConn).SetLinger(0)
				}
				wire.Close()
			}}
			if err := loading(t, c, file, "FILE INTO TABLE t"); err == nil {
				t.Error("the client is told that all is well")
			}
			for len(query(t, pool, "SELECT 1 FROM information_schema.processlist WHERE id = "+id)) > 0 {
				time.Sleep(time.Millisecond)
			}
			n := query(t, pool, "SELECT COUNT(*) FROM t")[0]
			if x.keep == 0 && n != "0" {
				t.Fatalf("%s rows of a file are loaded that never ended", n)
			}
			if x.keep > 0 {
				var rows int
				fmt.Sscan(n, &rows)
				if rows < x.keep || rows > x.rows || rows == x.rows && x.rest == "" {
					t.Errorf("%d of %d rows are loaded", rows, x.rows)
				}
				expect(t, pool, "SELECT MAX(id), CAST(SUM(id) AS SIGNED) FROM t", fmt.Sprintf("%d|%d", rows, rows*(rows+1)/2))
				// as docs/sql.md says how to go on
				if err := loading(t, pool, strings.NewReader(many(x.rows, "x")), "FILE INTO TABLE t IGNORE "+n+" LINES"); err != nil {
					t.Fatal(err)
				}
				expect(t, pool, "SELECT COUNT(*), CAST(SUM(id) AS SIGNED) FROM t", fmt.Sprintf("%d|%d", x.rows, x.rows*(x.rows+1)/2))
			}
			expect(t, pool, "CHECK TABLE t", "test.t|check|status|OK")
		})
	}
}
