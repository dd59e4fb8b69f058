package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
)

// startServer runs a server over a kv and returns a client of database "test".
func startServer(t testing.TB, db kv.DB, tune ...func(*Config)) (*Server, *sql.DB) {
	t.Helper()
	cfg := Config{DB: db, Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)}
	for _, f := range tune {
		f(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() }) // behind that of the clients: it waits for those who rest
	go s.Serve()
	root := open(t, s, "")
	if _, err := root.Exec("CREATE DATABASE IF NOT EXISTS test"); err != nil {
		t.Fatal(err)
	}
	c := open(t, s, "test")
	return s, c
}

func open(t testing.TB, s *Server, db string) *sql.DB {
	t.Helper()
	return openDSN(t, fmt.Sprintf("root@tcp(%s)/%s", s.Addr(), db))
}

func openDSN(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	c, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// toEngine has go-mysql-server run what follows in a session; toOurs ends that.
const (
	toEngine = "SET godwit_own_engine = OFF"
	toOurs   = "SET godwit_own_engine = ON"
)

func newServer(t testing.TB) (*Server, *sql.DB) { return startServer(t, memkv.New(4, "eu", "us")) }

type execer interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
}

func exec(t testing.TB, c execer, q string, args ...any) sql.Result {
	t.Helper()
	r, err := c.ExecContext(context.Background(), q, args...)
	if err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	return r
}

// query returns the rows as text, columns separated by "|".
func query(t testing.TB, c execer, q string, args ...any) []string {
	t.Helper()
	out, err := tryQuery(c, q, args...)
	if err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	return out
}

func tryQuery(c execer, q string, args ...any) ([]string, error) {
	rows, err := c.QueryContext(context.Background(), q, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	cols, _ := rows.Columns()
	out := []string{}
	for rows.Next() {
		vals := make([]sql.NullString, len(cols))
		ptrs := make([]any, len(cols))
		for i := range vals {
			ptrs[i] = &vals[i]
		}
		if err := rows.Scan(ptrs...); err != nil {
			return nil, err
		}
		line := ""
		for i, v := range vals {
			if i > 0 {
				line += "|"
			}
			if v.Valid {
				line += v.String
			} else {
				line += "NULL"
			}
		}
		out = append(out, line)
	}
	return out, rows.Err()
}

func expect(t testing.TB, c execer, q string, want ...string) {
	t.Helper()
	got := query(t, c, q)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s:\n got %q\nwant %q", q, got, want)
	}
}

// expectErr runs a statement that must fail with a MySQL error number.
func expectErr(t testing.TB, c execer, num uint16, q string, args ...any) {
	t.Helper()
	_, err := c.ExecContext(context.Background(), q, args...)
	var me *mysql.MySQLError
	if !errors.As(err, &me) || me.Number != num {
		t.Errorf("%s: error %v, want number %d", q, err, num)
	}
}

func conn(t testing.TB, c *sql.DB) *sql.Conn {
	t.Helper()
	k, err := c.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

func TestBasics(t *testing.T) {
	_, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), n INT, KEY (n), UNIQUE KEY (v))")
	exec(t, c, "INSERT INTO t VALUES (1,'a',10),(2,'b',20),(3,'c',30)")
	expect(t, c, "SELECT * FROM t ORDER BY id", "1|a|10", "2|b|20", "3|c|30")
	expect(t, c, "SELECT v FROM t WHERE id = 2", "b")
	expect(t, c, "SELECT id FROM t WHERE n = 30", "3")
	expect(t, c, "SELECT id FROM t WHERE v = 'a'", "1")
	expect(t, c, "SELECT id FROM t WHERE id IN (3,1,7) ORDER BY id DESC", "3", "1")
	expect(t, c, "SELECT id FROM t WHERE n > 10 AND n <= 30 ORDER BY n", "2", "3")
	exec(t, c, "UPDATE t SET n = n + 1 WHERE id >= 2")
	expect(t, c, "SELECT id, n FROM t WHERE n IN (21, 31) ORDER BY n DESC", "3|31", "2|21")
	exec(t, c, "DELETE FROM t WHERE v = 'b'")
	expect(t, c, "SELECT COUNT(*) FROM t", "2")
	expectErr(t, c, 1062, "INSERT INTO t VALUES (1,'z',1)")
	expectErr(t, c, 1062, "INSERT INTO t VALUES (9,'a',1)")
	exec(t, c, "UPDATE t SET id = id + 1 ORDER BY id DESC")
	expect(t, c, "SELECT id FROM t", "2", "4")
	exec(t, c, "DELETE FROM t")
	expect(t, c, "SELECT COUNT(*) FROM t", "0")
	expect(t, c, "SELECT @@version_comment LIKE '%Godwit%', @@godwit_region", "1|eu")
}

func TestTransactions(t *testing.T) {
	_, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, n INT)")
	k := conn(t, c)
	exec(t, k, "BEGIN")
	exec(t, k, "INSERT INTO t VALUES (1,1)")
	exec(t, k, "SAVEPOINT a")
	exec(t, k, "INSERT INTO t VALUES (2,2)")
	expect(t, k, "SELECT COUNT(*) FROM t", "2")
	expect(t, c, "SELECT COUNT(*) FROM t", "0")
	exec(t, k, "ROLLBACK TO a")
	expectErr(t, k, 1062, "INSERT INTO t VALUES (3,3),(1,9)")
	expect(t, k, "SELECT id FROM t", "1")
	exec(t, k, "COMMIT")
	expect(t, c, "SELECT id FROM t", "1")
	exec(t, k, "BEGIN")
	exec(t, k, "DELETE FROM t")
	exec(t, k, "ROLLBACK")
	expect(t, c, "SELECT id FROM t", "1")
	exec(t, k, "SET autocommit = 0")
	exec(t, k, "INSERT INTO t VALUES (5,5)")
	expect(t, c, "SELECT id FROM t", "1")
	exec(t, k, "COMMIT")
	expect(t, c, "SELECT id FROM t", "1", "5")
}

func TestConcurrentIncrements(t *testing.T) {
	_, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, n INT)")
	exec(t, c, "INSERT INTO t VALUES (1,0)")
	var wg sync.WaitGroup
	const workers, each = 8, 20
	for range workers {
		wg.Go(func() {
			for range each {
				if _, err := c.Exec("UPDATE t SET n = n + 1 WHERE id = 1"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	expect(t, c, "SELECT n FROM t", fmt.Sprint(workers*each))
}

// A range of an UPDATE or DELETE is one of the index, not a filter over the whole, locked table.
func TestWritesOfRangesUseTheIndex(t *testing.T) {
	_, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, k INT, v INT, KEY (k))")
	for _, q := range []string{"UPDATE t SET v = 1 WHERE id BETWEEN 2 AND 3",
		"DELETE FROM t WHERE v = 1 AND (id BETWEEN 2 AND 3)",
		"UPDATE t SET v = 1 WHERE k BETWEEN 2 AND 3", "UPDATE t__homes SET pinned = 1 WHERE id BETWEEN 2 AND 3"} {
		plan := strings.Join(query(t, c, "EXPLAIN FORMAT=tree "+q), "\n")
		if !strings.Contains(plan, "IndexedTableAccess") || !strings.Contains(plan, "[2, 3]") {
			t.Errorf("%s reads the whole table:\n%s", q, plan)
		}
	}
	exec(t, c, "INSERT INTO t VALUES (1,1,0), (2,2,0), (3,3,0), (4,4,0), (5,NULL,0)")
	exec(t, c, "UPDATE t SET v = 1 WHERE id BETWEEN 2 AND 3")
	exec(t, c, "UPDATE t SET v = 2 WHERE id NOT BETWEEN 2 AND 4")
	exec(t, c, "DELETE FROM t WHERE k BETWEEN 3 AND 3")
	expect(t, c, "SELECT id, v FROM t ORDER BY id", "1|2", "2|1", "4|0", "5|2")
}
