package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// drained is how many rows of a result came, and the number of the error behind them.
func drained(t *testing.T, k *sql.Conn, q string, args ...any) (n int, number uint16) {
	t.Helper()
	rows, err := k.QueryContext(t.Context(), q, args...)
	if err == nil {
		for rows.Next() {
			n++
		}
		err = rows.Err()
		rows.Close()
	}
	var e *mysql.MySQLError
	if err != nil && !errors.As(err, &e) {
		t.Errorf("%s: %v", q, err)
		return n, 1
	}
	if e == nil {
		return n, 0
	}
	return n, e.Number
}

// TestErrorsBetweenRows: an error that comes after some rows is told, and the session goes on with
// its transaction, in both engines, with TLS and without, as text and prepared.
func TestErrorsBetweenRows(t *testing.T) {
	s, c := tlsServer(t)
	exec(t, c, "CREATE TABLE t (k INT PRIMARY KEY, s VARCHAR(100))")
	exec(t, c, "INSERT INTO t WITH RECURSIVE r AS (SELECT 0 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 899) SELECT n, REPEAT('x', 100) FROM r")
	exec(t, c, "INSERT INTO t SELECT k + 900, s FROM t")
	exec(t, c, "INSERT INTO t SELECT k + 1800, s FROM t")
	exec(t, c, "INSERT INTO t SELECT k + 3600, s FROM t")
	for _, way := range []string{"", "tls=skip-verify", "interpolateParams=true", "multiStatements=true&interpolateParams=true"} {
		for _, engine := range []string{toOurs, toEngine} {
			k, err := openDSN(t, fmt.Sprintf("root@tcp(%s)/test?%s", s.Addr(), way)).Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			do := func(q string) {
				t.Helper()
				if _, err := k.ExecContext(t.Context(), q); err != nil {
					t.Fatalf("%s: %v", q, err)
				}
			}
			id := query(t, k, "SELECT CONNECTION_ID()")
			do(engine)
			do("SET @x = 7")
			do("BEGIN")
			do("UPDATE t SET s = 'y' WHERE k = 1")
			const over = "SELECT s, 9223372036854770000 + k FROM t ORDER BY k + 0"
			for _, q := range []string{"SELECT s, 9223372036854770000 + k FROM t", "SELECT s, 9223372036854770000 + k FROM t WHERE k >= ?"} {
				var args []any
				if strings.Contains(q, "?") {
					args = append(args, 0)
				}
				n, number := drained(t, k, q, args...)
				if number != 1690 {
					t.Errorf("%s, %s: %s: error %d after %d rows, want 1690", way, engine, q, number, n)
				}
				if engine == toOurs && n < 1000 {
					t.Errorf("%s: only %d rows came before the error", way, n)
				}
			}
			if strings.Contains(way, "multi") {
				if n, number := drained(t, k, over+"; SET @x = 8"); number != 1690 {
					t.Errorf("two statements: error %d after %d rows", number, n)
				}
			}
			if got := query(t, k, "SELECT CONNECTION_ID(), @x, s FROM t WHERE k = 1"); got[0] != id[0]+"|7|y" {
				t.Errorf("%s, %s: the session is %q", way, engine, got)
			}
			do("ROLLBACK")
			k.Close()
		}
	}
}

// TestKilledBetweenRows: KILL QUERY of a statement whose client has read some rows is error 1317,
// and max_execution_time is 3024.
func TestKilledBetweenRows(t *testing.T) {
	_, c := newGreedy(t)
	k, killer := conn(t, c), conn(t, c)
	id := query(t, k, "SELECT CONNECTION_ID()")[0]
	const q = "SELECT x.b, y.b FROM t x, t y, t z"
	rows, err := k.QueryContext(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if !rows.Next() {
			t.Fatal(rows.Err())
		}
	}
	exec(t, killer, "KILL QUERY "+id)
	for rows.Next() {
		continue
	}
	if n := errNumber(t, rows.Err()); n != 1317 {
		t.Errorf("error %d behind rows, want 1317", n)
	}
	rows.Close()
	if n, number := drained(t, k, strings.Replace(q, "SELECT", "SELECT /*+ MAX_EXECUTION_TIME(200) */", 1)); number != 3024 || n == 0 {
		t.Errorf("error %d behind %d rows, want 3024", number, n)
	}
	if got := query(t, k, "SELECT CONNECTION_ID()"); got[0] != id {
		t.Errorf("the connection is %v, was %s", got, id)
	}
}
