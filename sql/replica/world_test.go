package replica_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/server"
)

// world is a gateway over rows in memory.
type world struct {
	t   testing.TB
	db  kv.DB
	srv *server.Server
	c   *sql.DB // root
	log *logs
}

// logs are what a node writes.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func start(t testing.TB, db kv.DB) *world {
	t.Helper()
	w := &world{t: t, db: db, log: &logs{}}
	s, err := server.New(server.Config{DB: db, Listen: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(w.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve()
	t.Cleanup(func() { s.Close() })
	w.srv = s
	w.c = w.as("root", "")
	return w
}

// newWorld starts a cluster with a name of its own: it is another server to its replicas.
func newWorld(t testing.TB, name string) *world {
	t.Helper()
	db := memkv.New(4, "eu", "us")
	db.Topology().ClusterID = name
	return start(t, db)
}

// as is a connection of a user. There is one connection only, so that USE lasts.
func (w *world) as(user, password string) *sql.DB {
	w.t.Helper()
	c, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)/", user, password, w.srv.Addr()))
	if err != nil {
		w.t.Fatal(err)
	}
	c.SetMaxOpenConns(1)
	w.t.Cleanup(func() { c.Close() })
	return c
}

func (w *world) exec(qs ...string) {
	w.t.Helper()
	for _, q := range qs {
		if _, err := w.c.Exec(q); err != nil {
			w.t.Fatalf("%.200s: %v", q, err)
		}
	}
}

// query returns rows as texts, columns separated by "|".
func query(c *sql.DB, q string) (out []string, err error) {
	rows, err := c.QueryContext(context.Background(), q)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	cols, _ := rows.Columns()
	for rows.Next() {
		vals, ptrs := make([]sql.NullString, len(cols)), make([]any, len(cols))
		for i := range vals {
			ptrs[i] = &vals[i]
		}
		if err := rows.Scan(ptrs...); err != nil {
			return nil, err
		}
		var line []string
		for _, v := range vals {
			if !v.Valid {
				v.String = "NULL"
			}
			line = append(line, v.String)
		}
		out = append(out, strings.Join(line, "|"))
	}
	return out, rows.Err()
}

func (w *world) query(q string) []string {
	w.t.Helper()
	out, err := query(w.c, q)
	if err != nil {
		w.t.Fatalf("%.200s: %v", q, err)
	}
	return out
}

// status is the row of SHOW REPLICA STATUS, by the names of its columns; nil: there is none.
func (w *world) status(q string) map[string]string {
	w.t.Helper()
	rows, err := w.c.Query(q)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	cols, _ := rows.Columns()
	if !rows.Next() {
		return nil
	}
	vals, ptrs := make([]sql.NullString, len(cols)), make([]any, len(cols))
	for i := range vals {
		ptrs[i] = &vals[i]
	}
	if err := rows.Scan(ptrs...); err != nil {
		w.t.Fatal(err)
	}
	out := map[string]string{}
	for i, c := range cols {
		out[c] = vals[i].String
	}
	return out
}

func numberOf(err error) uint16 {
	var me *mysql.MySQLError
	if errors.As(err, &me) {
		return me.Number
	}
	return 0
}

// until waits for something that other goroutines do.
func (w *world) until(what string, done func() bool) {
	w.t.Helper()
	for begin := time.Now(); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			w.t.Fatalf("never: %s; the replica says %v\n%s", what, w.status("SHOW REPLICA STATUS"), w.log)
		}
	}
}

// follows says where the source is, and has the cluster follow it from now on.
func (w *world) follows(source *world) {
	w.t.Helper()
	w.exec(w.changeTo(source))
	w.exec("START REPLICA")
}

func (w *world) changeTo(source *world) string {
	w.t.Helper()
	at := strings.Split(source.query("SHOW MASTER STATUS")[0], "|")
	host, port, _ := net.SplitHostPort(source.srv.Addr().String())
	return fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_HOST = '%s', SOURCE_PORT = %s, SOURCE_USER = 'repl', SOURCE_PASSWORD = 'hush', "+
		"SOURCE_LOG_FILE = '%s', SOURCE_LOG_POS = %s, SOURCE_CONNECT_RETRY = 1", host, port, at[0], at[1])
}

// replUser makes the account by which a replica reads the log.
func (w *world) replUser() {
	w.t.Helper()
	w.exec("CREATE USER 'repl'@'%' IDENTIFIED WITH mysql_native_password BY 'hush'", "GRANT REPLICATION SLAVE ON *.* TO 'repl'@'%'")
}

// same waits until queries answer alike at both.
func (w *world) same(source *world, qs ...string) {
	w.t.Helper()
	for _, q := range qs {
		var here, there []string
		var err error
		w.until(q, func() bool {
			there = source.query(q)
			here, err = query(w.c, q)
			return err == nil && slices.Equal(here, there)
		})
	}
}
