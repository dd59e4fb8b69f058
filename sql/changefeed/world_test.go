package changefeed_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"encoding/base64"
	"encoding/pem"
	"net/url"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/backup/place"
	"github.com/godwitdb/godwit/sql/server"
)

// world is a gateway over rows in memory.
type world struct {
	t   testing.TB
	db  kv.DB
	srv *server.Server
	c   *sql.DB // root
	dir string
}

func start(t testing.TB, db kv.DB, dir string, sinks ...string) *world {
	t.Helper()
	s, err := server.New(server.Config{DB: db, Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
		Backups: place.Policy{Dir: dir}, Sinks: sinks})
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve()
	t.Cleanup(func() { s.Close() })
	w := &world{t: t, db: db, srv: s, dir: dir}
	w.c = w.as("root")
	return w
}

func newWorld(t testing.TB, sinks ...string) *world {
	t.Helper()
	w := start(t, memkv.New(4, "eu", "us"), t.TempDir(), sinks...)
	w.exec("CREATE DATABASE test", "USE test")
	return w
}

// as is a connection of a user. There is one connection only, so that USE lasts.
func (w *world) as(user string) *sql.DB {
	w.t.Helper()
	c, err := sql.Open("mysql", fmt.Sprintf("%s@tcp(%s)/", user, w.srv.Addr()))
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

// create makes a feed and returns the number of its job.
func (w *world) create(q string) string {
	w.t.Helper()
	got := w.query("CREATE CHANGEFEED FOR " + q)
	if len(got) != 1 {
		w.t.Fatalf("CREATE CHANGEFEED says %q", got)
	}
	return got[0]
}

func refused(t testing.TB, c *sql.DB, want, q string) {
	t.Helper()
	_, err := query(c, q)
	var me *mysql.MySQLError
	if !errors.As(err, &me) || !strings.Contains(me.Message, want) {
		t.Errorf("%s: error %v, want %q in it", q, err, want)
	}
}

// shown is a feed as SHOW CHANGEFEEDS has it, by the names of the columns.
func (w *world) shown(id string) map[string]string {
	w.t.Helper()
	rows, err := w.c.Query("SHOW CHANGEFEED JOB " + id)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	cols, _ := rows.Columns()
	out := map[string]string{}
	for rows.Next() {
		vals, ptrs := make([]sql.NullString, len(cols)), make([]any, len(cols))
		for i := range vals {
			ptrs[i] = &vals[i]
		}
		if err := rows.Scan(ptrs...); err != nil {
			w.t.Fatal(err)
		}
		for i, c := range cols {
			out[c] = vals[i].String
		}
	}
	return out
}

// until waits for something that other goroutines do.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for begin := time.Now(); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("never: %s", what)
		}
	}
}

// message is one that has arrived.
type message struct {
	After    map[string]any `json:"after"`
	Before   map[string]any `json:"before"`
	Key      []any          `json:"key"`
	Topic    string         `json:"topic"`
	Updated  string         `json:"updated"`
	Resolved string         `json:"resolved"`
}

func moment(t testing.TB, s string) uint64 {
	t.Helper()
	whole, logical, _ := strings.Cut(s, ".")
	n, err := strconv.ParseUint(whole, 10, 64)
	if err != nil || logical != "0000000000" {
		t.Errorf("%q is no timestamp", s)
	}
	return n
}

// judge reads what a feed sends as a consumer does, and checks what feeds promise.
type judge struct {
	t  testing.TB
	mu sync.Mutex
	// rows are the newest known, by topic and key, and at their timestamps.
	rows map[string]map[string]any
	at   map[string]uint64
	// seen are all timestamps of a key that have arrived.
	seen                   map[string]map[uint64]bool
	mark                   uint64
	marks, messages, again int
	// at each mark the state of each key that it promises.
	history map[string][]version
}

type version struct {
	ts  uint64
	row map[string]any
}

func newJudge(t testing.TB) *judge {
	return &judge{t: t, rows: map[string]map[string]any{}, at: map[string]uint64{}, seen: map[string]map[uint64]bool{},
		history: map[string][]version{}}
}

// take takes a message.
func (j *judge) take(raw []byte) {
	var m message
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	if err := d.Decode(&m); err != nil {
		j.t.Errorf("%s: %v", raw, err)
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if m.Resolved != "" {
		j.marks++
		j.mark = max(j.mark, moment(j.t, m.Resolved))
		return
	}
	j.messages++
	k := m.Topic + fmt.Sprint(m.Key)
	ts := moment(j.t, m.Updated)
	switch {
	case j.seen[k][ts]:
		j.again++
		return
	case ts <= j.mark:
		j.t.Errorf("%s arrives for the first time behind the mark %d", raw, j.mark)
	case ts < j.at[k]:
		j.t.Errorf("%s arrives for the first time behind a newer one of its key", raw)
	}
	if j.seen[k] == nil {
		j.seen[k] = map[uint64]bool{}
	}
	j.seen[k][ts] = true
	j.rows[k], j.at[k] = m.After, ts
	j.history[k] = append(j.history[k], version{ts, m.After})
}

// lines are the rows of a topic as of a moment, as a consumer has them that has folded messages.
func (j *judge) lines(topic string, asOf uint64, cols ...string) (out []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for k, versions := range j.history {
		if !strings.HasPrefix(k, topic+"[") {
			continue
		}
		var row map[string]any
		for _, v := range versions {
			if v.ts <= asOf {
				row = v.row
			}
		}
		if row == nil {
			continue
		}
		var line []string
		for _, c := range cols {
			v := row[c]
			if v == nil {
				v = "NULL"
			}
			line = append(line, fmt.Sprint(v))
		}
		out = append(out, strings.Join(line, "|"))
	}
	slices.Sort(out)
	return out
}

func (j *judge) reached() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mark
}

// agree waits for a mark from now on, and compares what the messages say with the table as of it.
func (j *judge) agree(w *world, table string, cols ...string) {
	j.t.Helper()
	j.agreeAs(w, table, table, cols...)
}

// agreeAs is agree for a table whose topic has another name.
func (j *judge) agreeAs(w *world, topic, table string, cols ...string) {
	j.t.Helper()
	now := uint64(w.db.Clock())
	until(j.t, "a mark behind "+strconv.FormatUint(now, 10), func() bool { return j.reached() >= now })
	at := j.reached()
	want := w.query(fmt.Sprintf("SELECT %s FROM %s AS OF SYSTEM TIME '%s'", strings.Join(cols, ", "), table,
		time.Unix(0, int64(at)).UTC().Format("2006-01-02 15:04:05.000000000")))
	slices.Sort(want)
	if got := j.lines(topic, at, cols...); !slices.Equal(got, want) {
		j.t.Errorf("as of %d the messages say\n%q, and the table has\n%q", at, got, want)
	}
}

// hook is a webhook that fails when it is told to.
type hook struct {
	*httptest.Server
	j    *judge
	mu   sync.Mutex
	fail func(n int) int // the status of the request with a number; 0: it succeeds
	n    int
	auth map[string]int
}

func newHook(t testing.TB, fail func(n int) int) *hook {
	h := &hook{j: newJudge(t), fail: fail, auth: map[string]int{}}
	h.Server = httptest.NewTLSServer(http.HandlerFunc(h.serve))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) serve(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n++
	h.auth[r.Header.Get("Authorization")]++
	status := 0
	if h.fail != nil {
		status = h.fail(h.n)
	}
	if status != 0 && h.n%2 == 0 {
		w.WriteHeader(status) // before anything was taken
		return
	}
	var body struct {
		Payload  []json.RawMessage
		Length   int
		Resolved string
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		h.j.t.Error(err)
	}
	if len(body.Payload) != body.Length {
		h.j.t.Errorf("%d messages, and the length says %d", len(body.Payload), body.Length)
	}
	for _, m := range body.Payload {
		h.j.take(m)
	}
	if body.Resolved != "" {
		h.j.take([]byte(`{"resolved":"` + body.Resolved + `"}`))
	}
	if status != 0 {
		w.WriteHeader(status) // what it has taken is not acknowledged
	}
}

// address is that of the webhook, with its authority.
func (h *hook) address(path string) string {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})
	return h.URL + path + "?ca_cert=" + url.QueryEscape(base64.StdEncoding.EncodeToString(ca))
}
