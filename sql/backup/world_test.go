package backup_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/backup/place"
	"github.com/godwitdb/godwit/sql/server"
)

// world is a cluster whose backups lie in a directory.
type world struct {
	t   testing.TB
	db  kv.DB
	srv *server.Server
	c   *sql.DB // root, in database test if that exists
	dir string
	url string
}

// start starts a gateway over a kv; backups lie in dir.
func start(t testing.TB, db kv.DB, dir string) *world {
	t.Helper()
	return startAt(t, db, place.Policy{Dir: dir})
}

// startAt starts a gateway that may use the places of a policy.
func startAt(t testing.TB, db kv.DB, p place.Policy) *world {
	t.Helper()
	s, err := server.New(server.Config{DB: db, Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler), Backups: p})
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve()
	t.Cleanup(func() { s.Close() })
	w := &world{t: t, db: db, srv: s, dir: p.Dir, url: "file://" + filepath.ToSlash(p.Dir)}
	w.c = w.as("root", "")
	return w
}

func newWorld(t testing.TB, regions ...string) *world {
	t.Helper()
	w := start(t, memkv.New(4, regions...), t.TempDir())
	w.exec("CREATE DATABASE test")
	w.exec("USE test")
	return w
}

// as is a connection of a user. There is one connection only, so that USE and SET last.
func (w *world) as(user, db string) *sql.DB {
	w.t.Helper()
	c, err := sql.Open("mysql", fmt.Sprintf("%s@tcp(%s)/%s", user, w.srv.Addr(), db))
	if err != nil {
		w.t.Fatal(err)
	}
	c.SetMaxOpenConns(1)
	w.t.Cleanup(func() { c.Close() })
	return c
}

func (w *world) exec(q string, args ...any) {
	w.t.Helper()
	if _, err := w.c.Exec(q, args...); err != nil {
		w.t.Fatalf("%.200s: %v", q, err)
	}
}

func (w *world) query(q string, args ...any) []string {
	w.t.Helper()
	out, err := ask(w.c, q, args...)
	if err != nil {
		w.t.Fatalf("%.200s: %v", q, err)
	}
	return out
}

// ask returns rows as texts, columns separated by "|".
func ask(c *sql.DB, q string, args ...any) ([]string, error) {
	rows, err := c.QueryContext(context.Background(), q, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	cols, _ := rows.Columns()
	out := []string{}
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

func (w *world) expect(q string, want ...string) {
	w.t.Helper()
	if got := w.query(q); !slices.Equal(got, want) {
		w.t.Errorf("%s:\n got %q\nwant %q", q, got, want)
	}
}

// refused runs a statement that must fail, with a text in its error.
func (w *world) refused(want, q string) {
	w.t.Helper()
	refusedTo(w.t, w.c, want, q)
}

func refusedTo(t testing.TB, c *sql.DB, want, q string) {
	t.Helper()
	_, err := ask(c, q)
	var me *mysql.MySQLError
	if !errors.As(err, &me) || !strings.Contains(me.Message, want) {
		t.Errorf("%s: error %v, want %q in it", q, err, want)
	}
}

// backup takes a backup and returns its id and moment.
func (w *world) backup(what, options string) (id, moment string) {
	w.t.Helper()
	got := w.query("BACKUP " + what + " INTO '" + w.url + "'" + options)
	f := strings.Split(got[0], "|")
	return f[0], f[1]
}

// files are those of a backup, without its manifest.
func (w *world) files(id string) (names []string) {
	w.t.Helper()
	es, err := os.ReadDir(filepath.Join(w.dir, id))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range es {
		if e.Name() != "manifest" {
			names = append(names, e.Name())
		}
	}
	return names
}

// change writes a file anew.
func (w *world) change(file string, fn func([]byte) []byte) (undo func()) {
	w.t.Helper()
	name := filepath.Join(w.dir, filepath.FromSlash(file))
	old, err := os.ReadFile(name)
	if err != nil {
		w.t.Fatal(err)
	}
	write := func(b []byte) {
		w.t.Helper()
		if err := os.WriteFile(name, b, 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	write(fn(slices.Clone(old)))
	return func() { write(old) }
}

// empty reports whether a directory has no files.
func empty(t testing.TB, dir string) bool {
	t.Helper()
	n := 0
	if err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			n++
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n == 0
}
