package server

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// TestHangUp: a statement whose client goes away ends, wherever it is: it computes, waits for
// a lock of a row or of a name, is parsed, or waits until it may begin. What it holds is let go.
func TestHangUp(t *testing.T) {
	s, c := newServer(t)
	exec(t, c, "CREATE TABLE t (a INT PRIMARY KEY, b INT)")
	exec(t, c, "INSERT INTO t VALUES (1, 1), (2, 1)")
	holder := conn(t, c)
	for _, q := range []string{"BEGIN", "UPDATE t SET b = 2 WHERE a = 1", "SELECT GET_LOCK('l', 0)", "DO 1"} {
		exec(t, holder, q)
	}
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr, cfg.DBName = "root", "tcp", s.Addr().String(), query(t, c, "SELECT DATABASE()")[0]
	cfg.InterpolateParams = true
	long := "SELECT COALESCE(" + strings.Repeat("1,", 3<<19) + "2)"
	for _, q := range []string{
		"SELECT SLEEP(10000)",
		toEngine + "; SELECT SLEEP(10000)",
		"UPDATE t SET b = 3 WHERE a = 1",
		"UPDATE t SET b = b + 1",
		"DELETE FROM t WHERE b > 0 AND SLEEP(0) = 0",
		"SELECT * FROM t WHERE a = 1 FOR UPDATE",
		"SELECT GET_LOCK('l', 10000)",
		long,
	} {
		connector, err := mysql.NewConnector(cfg)
		if err != nil {
			t.Fatal(err)
		}
		db := sql.OpenDB(connector)
		ctx, hangUp := context.WithCancel(t.Context())
		k, err := db.Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if first, rest, ok := strings.Cut(q, "; "); ok {
			exec(t, k, first)
			q = rest
		}
		exec(t, k, "SET innodb_lock_wait_timeout = 100000")
		n, err := strconv.ParseUint(query(t, k, "SELECT CONNECTION_ID()")[0], 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		id := uint32(n)
		ended := make(chan error, 1)
		go func() {
			_, err := k.ExecContext(ctx, q)
			ended <- err
		}()
		runs := func() bool {
			p, ok := s.g.presences.Load(id)
			return ok && p.(*presence).Runs()
		}
		eventually(t, "the statement begins", func() bool {
			select {
			case err := <-ended:
				t.Fatalf("%.40s has ended by itself: %v", q, err)
			default:
			}
			return runs()
		})
		hangUp()
		if err := <-ended; err == nil {
			t.Errorf("%.40s has an answer", q)
		}
		eventually(t, "the statement ends: "+q[:min(len(q), 60)], func() bool { return !runs() })
		db.Close()
	}
	exec(t, holder, "ROLLBACK")
	exec(t, holder, "UPDATE t SET b = 7")
	eventually(t, "all memory is given back", func() bool { return s.g.query.Memory().Used() == 0 })
}
