package bulk_test

import (
	"database/sql"
	"errors"
	"fmt"
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

// world is a cluster whose files lie in a directory.
type world struct {
	t   testing.TB
	db  kv.DB
	srv *server.Server
	c   *sql.DB // root, in database test
	dir string
	url string
}

func start(t testing.TB, db kv.DB, p place.Policy) *world {
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
	w := start(t, memkv.New(4, regions...), place.Policy{Dir: t.TempDir()})
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

func (w *world) query(q string) []string {
	w.t.Helper()
	out, err := ask(w.c, q)
	if err != nil {
		w.t.Fatalf("%.200s: %v", q, err)
	}
	return out
}

// ask returns rows as texts, columns separated by "|".
func ask(c *sql.DB, q string) ([]string, error) {
	rows, err := c.Query(q)
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

func (w *world) file(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// imported imports files, and fails unless the answer behind the job's number is want.
func (w *world) imported(rest, want string) {
	w.t.Helper()
	got := w.query("IMPORT INTO " + strings.ReplaceAll(rest, "$", w.url))
	if _, after, _ := strings.Cut(got[0], "|"); len(got) != 1 || after != want {
		w.t.Errorf("IMPORT INTO %s: %q, want %q", rest, got, want)
	}
}

// exported exports rows, and returns the names of the files.
func (w *world) exported(kind, options, from string) (files []string) {
	w.t.Helper()
	for _, r := range w.query("EXPORT INTO " + kind + " '" + w.url + "' " + options + " FROM " + from) {
		files = append(files, strings.Split(r, "|")[0])
	}
	return files
}
