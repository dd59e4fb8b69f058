package server

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/bound"
)

// TestMaxTime: which statements are bounded, and by what.
func TestMaxTime(t *testing.T) {
	for _, x := range []struct {
		variable int64
		query    string
		want     int
	}{
		{0, "SELECT 1", 0},
		{70, "SELECT 1", 70},
		{70, " (SELECT 1)", 70},
		{70, "WITH x AS (SELECT 1) SELECT * FROM x", 70},
		{70, "UPDATE t SET id = 1", 0},
		{70, "INSERT INTO t SELECT 1", 0},
		{70, "SELECT /*+ MAX_EXECUTION_TIME(9) */ 1", 9},
		{0, "select /*+ BKA(t) max_execution_time( 9 ) */ 1", 9},
		{70, "SELECT /*+ MAX_EXECUTION_TIME(0) */ 1", 0},
		{0, "SELECT 'MAX_EXECUTION_TIME(9)'", 0},
		{0, "DELETE /*+ MAX_EXECUTION_TIME(9) */ FROM t", 0},
		{0, "SELECT 1 FROM t" + strings.Repeat(" ", 9999) + "/*+ MAX_EXECUTION_TIME(9) */", 0},
	} {
		if got := bound.MaxTime(x.variable, x.query); got != time.Duration(x.want)*time.Millisecond {
			t.Errorf("%d: %s: %v, want %d ms", x.variable, x.query, got, x.want)
		}
	}
}

// endless is a SELECT that our own engine runs for years.
const endless = "SELECT COUNT(*) FROM t a, t b, t c, t d, t e WHERE a.id + b.id + c.id + d.id + e.id < 0"

// TestEndlessSelects: a SELECT that takes too long ends by itself, or when somebody says so.
func TestEndlessSelects(t *testing.T) {
	var left []string
	s, c := startServer(t, memkv.New(4, "eu", "us"), func(c *Config) {
		c.OnFallback = func(why string) { left = append(left, why) }
	})
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY)")
	var rows []string
	for i := range 1000 {
		rows = append(rows, fmt.Sprintf("(%d)", i))
	}
	exec(t, c, "INSERT INTO t VALUES "+strings.Join(rows, ","))
	k := conn(t, c)
	exec(t, k, "SET max_execution_time = 50")
	expect(t, k, "SHOW WARNINGS")
	left = nil
	expectErr(t, k, 3024, endless)
	if len(left) > 0 {
		t.Errorf("another engine ran the statement: %q", left)
	}
	expectErr(t, k, 3024, "SELECT SLEEP(600)")
	expect(t, k, "SELECT COUNT(*) FROM t", "1000")
	exec(t, k, "BEGIN")
	exec(t, k, "INSERT INTO t VALUES (-1)")
	expectErr(t, k, 3024, "SELECT SLEEP(600)")
	exec(t, k, "ROLLBACK")
	exec(t, k, "SET max_execution_time = 0")
	expectErr(t, k, 3024, strings.Replace(endless, "SELECT", "SELECT /*+ MAX_EXECUTION_TIME(50) */", 1))

	for _, q := range []string{endless, "SELECT SLEEP(600)"} {
		id := query(t, k, "SELECT CONNECTION_ID()")[0]
		done := make(chan error, 1)
		go func() {
			_, err := k.ExecContext(context.Background(), q)
			done <- err
		}()
		eventually(t, "the statement begins", func() bool {
			for _, p := range s.g.engine.ProcessList.Processes() {
				if p.Query == q {
					return true
				}
			}
			return false
		})
		exec(t, c, "KILL QUERY "+id)
		if got := errNumber(t, <-done); got != 1317 && q == endless {
			t.Errorf("%s was killed: error %d, want 1317", q, got)
		}
		expect(t, k, "SELECT COUNT(*) FROM t", "1000")
	}
}
