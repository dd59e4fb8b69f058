package feed_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/feed"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/server"
)

// world is a gateway over rows in memory.
type world struct {
	t  testing.TB
	db kv.DB
	c  *sql.DB
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, db: memkv.New(4, "eu", "us")}
	s, err := server.New(server.Config{DB: w.db, Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve()
	t.Cleanup(func() { s.Close() })
	if w.c, err = sql.Open("mysql", fmt.Sprintf("root@tcp(%s)/", s.Addr())); err != nil {
		t.Fatal(err)
	}
	w.c.SetMaxOpenConns(1)
	t.Cleanup(func() { w.c.Close() })
	w.exec("CREATE DATABASE test")
	w.exec("USE test")
	return w
}

func (w *world) exec(qs ...string) {
	w.t.Helper()
	for _, q := range qs {
		if _, err := w.c.Exec(q); err != nil {
			w.t.Fatalf("%.300s: %v", q, err)
		}
	}
}

// async changes what the definition of a table says of its replication, and nothing else.
func (w *world) async(name string, async bool) {
	w.t.Helper()
	snap, err := schema.LoadSnapshot(w.t.Context(), w.db, nil, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	d := snap.Table("test", name).Desc.Clone()
	d.Locality.Async = async
	_, err = kv.Run(w.t.Context(), w.db, kv.Options{}, func(k kv.Txn) error {
		k.Put(schema.TableKey("test", name), schema.Marshal(d), 0)
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// rows are those of a table, in the order of their texts.
func (w *world) rows(name string) []string {
	w.t.Helper()
	rows, err := w.c.Query("SELECT * FROM " + name)
	if err != nil {
		w.t.Fatalf("%s: %v", name, err)
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
			w.t.Fatal(err)
		}
		var line []string
		for _, v := range vals {
			if !v.Valid {
				v.String = "<nil>"
			}
			line = append(line, v.String)
		}
		out = append(out, strings.Join(line, "|"))
	}
	slices.Sort(out)
	return out
}

// follower keeps what a feed has delivered.
type follower struct {
	w      *world
	o      feed.Options
	r      *feed.Reader
	tables map[string]map[string]string // rows by table and key
	ts     base.Timestamp               // of the newest part
	open   bool                         // it is not the last of its transaction
	at     base.Timestamp               // the resolved mark
	log    []string
}

func (w *world) follow(o feed.Options) *follower {
	w.t.Helper()
	f := &follower{w: w, o: o, tables: map[string]map[string]string{}}
	f.reopen()
	f.at, f.ts = o.Since, o.Since
	w.t.Cleanup(func() { f.r.Close() })
	return f
}

func (f *follower) reopen() {
	f.w.t.Helper()
	if f.r != nil {
		f.r.Close()
		f.o.Since, f.open = f.at, false
	}
	var err error
	if f.r, err = feed.Open(f.w.t.Context(), feed.Env{DB: f.w.db}, f.o); err != nil {
		f.w.t.Fatal(err)
	}
}

func text(row []any) string {
	out := make([]string, len(row))
	for i, v := range row {
		out[i] = fmt.Sprint(v)
	}
	return strings.Join(out, "|")
}

func (f *follower) note(format string, args ...any) {
	f.log = append(f.log, fmt.Sprintf(format, args...))
}

// once delivers what one Next returns. What is not resolved may come again, so it is applied as it
// is: the same transactions at the same timestamps.
func (f *follower) once() {
	t := f.w.t
	t.Helper()
	txs, resolved, err := f.r.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tx := range txs {
		switch {
		case f.open && tx.TS != f.ts:
			t.Fatalf("a part of %s has no end before %s", f.ts, tx.TS)
		case !f.open && tx.TS <= f.ts && tx.TS <= f.at:
			t.Fatalf("%s comes behind %s", tx.TS, f.ts)
		}
		f.ts, f.open = tx.TS, tx.More
		was := maps.Clone(f.tables) // tables may change their names in a ring
		for _, d := range tx.Definitions {
			f.define(d, was)
		}
		for _, c := range tx.Changes {
			f.change(c)
		}
	}
	if resolved < f.at || len(txs) > 0 && tx0(txs) <= f.at || f.open && resolved >= f.ts {
		t.Fatalf("resolved is %s behind %s with %s, open: %v", resolved, f.at, f.ts, f.open)
	}
	f.at = resolved
}

func tx0(txs []feed.Tx) base.Timestamp { return txs[0].TS }

func (f *follower) define(d feed.Definition, was map[string]map[string]string) {
	name := func(t *schema.Table) string { return t.Desc.DB + "." + t.Desc.Name }
	switch d.Kind {
	case feed.Created:
		f.note("create %s", name(d.New))
		f.tables[name(d.New)] = map[string]string{}
	case feed.Dropped:
		f.note("drop %s", name(d.Old))
		delete(f.tables, name(d.Old))
	case feed.Truncated:
		f.note("truncate %s", name(d.Old))
		f.tables[name(d.New)] = map[string]string{}
	case feed.Renamed:
		f.note("rename %s %s", name(d.Old), name(d.New))
		if rows := was[name(d.Old)]; fmt.Sprint(f.tables[name(d.Old)]) == fmt.Sprint(rows) {
			delete(f.tables, name(d.Old))
		}
		f.tables[name(d.New)] = was[name(d.Old)]
	case feed.Altered:
		f.note("alter %s", name(d.New))
	case feed.Rewritten:
		f.note("rewrite %s", name(d.New))
		f.tables[name(d.New)] = map[string]string{}
	case feed.ViewCreated:
		f.note("view %s", d.View.Name)
	case feed.ViewDropped:
		f.note("drop view %s", d.View.Name)
	case feed.DatabaseCreated, feed.DatabaseAltered:
		f.note("database %s", d.DB)
	case feed.DatabaseDropped:
		f.note("drop database %s", d.DB)
	}
}

func (f *follower) change(c feed.Change) {
	f.w.t.Helper()
	name := c.Table.Desc.DB + "." + c.Table.Desc.Name
	rows, key := f.tables[name], string(c.Key)
	if rows == nil {
		f.w.t.Fatalf("a row of %s, which the feed does not have", name)
	}
	if c.Before == nil && c.After == nil {
		f.w.t.Fatalf("a change of %s is none", name)
	}
	delete(rows, key)
	if c.After != nil {
		rows[key] = text(c.After)
	}
}

// upTo delivers all that is committed now.
func (f *follower) upTo() {
	f.w.t.Helper()
	for now := f.w.db.Clock(); f.at < now; {
		f.once()
	}
}

// agree compares all tables with what reads show. Columns that were added, and not written since,
// are not compared: alter says so.
func (f *follower) agree(names ...string) {
	f.w.t.Helper()
	f.upTo()
	for _, n := range names {
		got := slices.Sorted(maps.Values(f.tables[n]))
		if want := f.w.rows(n); !slices.Equal(got, want) {
			f.w.t.Errorf("%s:\n got %q\nwant %q", n, got, want)
		}
	}
}

func (f *follower) logged(want ...string) {
	f.w.t.Helper()
	f.upTo()
	if !slices.Equal(f.log, want) {
		f.w.t.Errorf("definitions:\n got %q\nwant %q", f.log, want)
	}
	f.log = nil
}

// TestFollow: what a feed delivers is what was committed, in small parts and with restarts.
func TestFollow(t *testing.T) {
	feed.Little(t)
	w := newWorld(t)
	w.exec("CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR(50), u INT UNIQUE)", "CREATE TABLE b (v INT)")
	f := w.follow(feed.Options{})
	f.tables["test.a"], f.tables["test.b"] = map[string]string{}, map[string]string{}
	rnd := rand.New(rand.NewPCG(1, 2))
	u := 0
	for range 300 {
		id := rnd.IntN(60)
		switch rnd.IntN(12) {
		case 0, 1, 2, 3:
			u++
			w.exec(fmt.Sprintf("REPLACE INTO a VALUES (%d, '%s', %d)", id, strings.Repeat("x", rnd.IntN(50)), u))
		case 4, 5:
			w.exec(fmt.Sprintf("UPDATE a SET v = CONCAT(LEFT(v, 40), 'y') WHERE id BETWEEN %d AND %d", id, id+rnd.IntN(30)))
		case 6:
			w.exec(fmt.Sprintf("DELETE FROM a WHERE id = %d", id))
		case 7:
			w.exec("BEGIN", fmt.Sprintf("INSERT INTO b VALUES (%d), (%d)", id, id), fmt.Sprintf("DELETE FROM a WHERE id = %d", id), "COMMIT")
		case 8:
			w.exec(fmt.Sprintf("UPDATE b SET v = v + 1 WHERE v < %d", id))
		case 9:
			w.exec(fmt.Sprintf("UPDATE IGNORE a SET id = id + 1000 WHERE id < %d", id/4), "UPDATE IGNORE a SET id = id - 950 WHERE id > 1010")
		case 10:
			f.once()
		case 11:
			f.once()
			if !f.open || f.at == f.ts {
				f.reopen()
			}
		}
	}
	f.agree("test.a", "test.b")
	if len(f.tables["test.a"]) == 0 || len(f.tables["test.b"]) == 0 {
		t.Error("nothing was left to compare")
	}
}

// TestImages: changes have the row before and after, and what only moved is no change.
func TestImages(t *testing.T) {
	w := newWorld(t)
	w.exec("CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT DEFAULT 3)", "INSERT INTO t (id, v) VALUES (1, 1), (2, 2)")
	r, err := feed.Open(t.Context(), feed.Env{DB: w.db}, feed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w.exec("BEGIN", "UPDATE t SET v = 10 WHERE id = 1", "DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (3, NULL, 4)", "COMMIT",
		"UPDATE t__homes SET home_region = 'us' WHERE id = 3", "UPDATE t SET v = v WHERE id = 3", "UPDATE t SET v = 11 WHERE id = 1")
	var got []string
	for now := w.db.Clock(); ; {
		txs, resolved, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, tx := range txs {
			var of []string
			for _, c := range tx.Changes {
				of = append(of, text(c.Before)+">"+text(c.After))
			}
			slices.Sort(of)
			got = append(got, strings.Join(of, " "))
		}
		if resolved >= now {
			break
		}
	}
	want := []string{"1|1|3>1|10|3 2|2|3> >3|<nil>|4", "1|10|3>1|11|3"}
	slices.Sort(strings.Fields(want[0]))
	if len(got) != 2 || !slices.Equal(set(got[0]), set(want[0])) || got[1] != want[1] {
		t.Errorf("got %q, want %q", got, want)
	}
}

func set(s string) []string { f := strings.Fields(s); slices.Sort(f); return f }

// TestDefinitions: each statement that changes definitions is told as what it did.
func TestDefinitions(t *testing.T) {
	feed.Little(t)
	w := newWorld(t)
	f := w.follow(feed.Options{Since: 0, Again: func(feed.Definition) bool { return true }})
	w.exec("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
	f.agree("test.t")
	f.logged("create test.t")
	w.exec("CREATE TABLE twin AS SELECT * FROM t")
	f.agree("test.twin")
	f.logged("create test.twin")
	w.exec("INSERT INTO t VALUES (3, 3)", "ALTER TABLE t ADD COLUMN w INT DEFAULT 7", "INSERT INTO t (id, v) VALUES (4, 4)", "UPDATE t SET v = v + 1")
	f.agree("test.t")
	f.logged("alter test.t")
	w.exec("INSERT INTO t VALUES (5, 5, 5)", "ALTER TABLE t MODIFY v VARCHAR(10)", "INSERT INTO t VALUES (6, 'six', 6)")
	f.agree("test.t")
	f.logged("rewrite test.t")
	w.exec("ALTER TABLE t DROP COLUMN w", "UPDATE t SET v = CONCAT(v, '!')")
	f.agree("test.t")
	f.logged("alter test.t")
	w.exec("TRUNCATE TABLE twin", "INSERT INTO twin VALUES (9, 9)")
	f.agree("test.twin")
	f.logged("truncate test.twin")
	w.exec("RENAME TABLE t TO x, twin TO t, x TO twin", "INSERT INTO twin VALUES (7, 'x')", "INSERT INTO t VALUES (7, 7)")
	f.agree("test.t", "test.twin")
	f.log = nil
	w.exec("CREATE VIEW vw AS SELECT 1", "DROP VIEW vw")
	f.logged("view vw", "drop view vw")
	w.exec("CREATE DATABASE d", "CREATE TABLE d.x (a INT)", "DROP DATABASE d")
	f.logged("database d", "create d.x", "drop d.x", "drop database d")
	w.exec("DROP TABLE t", "CREATE TABLE t (a INT)", "INSERT INTO t VALUES (1)")
	f.agree("test.t")
	f.logged("drop test.t", "create test.t")
	w.exec("ALTER TABLE t SET LOCALITY GLOBAL", "INSERT INTO t VALUES (2)")
	f.upTo()
	if n := len(f.tables["test.t"]); n != 2 {
		t.Errorf("a table with another locality has %d rows, not 2", n)
	}
}

// TestFilter: a table that gets a name of the filter begins to exist with its rows, and one that is
// renamed out of it ends; what cannot be followed is refused or named.
func TestFilter(t *testing.T) {
	w := newWorld(t)
	w.exec("CREATE DATABASE other", "CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE other.x (id INT PRIMARY KEY)",
		"INSERT INTO t VALUES (1), (2)", "CREATE TABLE slow (id INT PRIMARY KEY)")
	w.async("slow", true)
	f := w.follow(feed.Options{Databases: []string{"test"}})
	f.tables["test.t"] = map[string]string{}
	if got := f.r.Skipped(); got[feed.Name{DB: "test", Table: "slow"}] != "REPLICATION ASYNC" || len(got) != 1 {
		t.Errorf("skipped: %v", got)
	}
	one := w.follow(feed.Options{Tables: []feed.Name{{DB: "test", Table: "t"}}})
	w.exec("INSERT INTO other.x VALUES (3)", "RENAME TABLE t TO u", "INSERT INTO u VALUES (3)", "RENAME TABLE u TO t",
		"CREATE TABLE more (a INT)", "INSERT INTO t VALUES (4)")
	one.agree("test.t")
	one.logged("drop test.t", "create test.t")
	f.logged("rename test.t test.u", "rename test.u test.t", "create test.more")
	w.async("slow", false)
	w.exec("INSERT INTO slow VALUES (2)")
	f.agree("test.slow")
	w.async("slow", true)
	f.logged("create test.slow", "drop test.slow")
	for _, o := range []feed.Options{{Databases: []string{"no"}}, {Tables: []feed.Name{{DB: "test", Table: "no"}}},
		{Tables: []feed.Name{{DB: "test", Table: "slow"}}}, {Since: w.db.Clock().Add(1e12)}} {
		if r, err := feed.Open(t.Context(), feed.Env{DB: w.db}, o); base.CodeOf(err) != base.CodeInvalid {
			t.Errorf("%+v: %v", o, err)
			r.Close()
		}
	}
	if _, err := feed.Open(t.Context(), feed.Env{DB: w.db}, feed.Options{Since: 1}); base.CodeOf(err) != base.CodeTooOld {
		t.Errorf("since 1: %v", err)
	}
}

// TestNextEnds: a context ends a Next that waits.
func TestNextEnds(t *testing.T) {
	w := newWorld(t)
	r, err := feed.Open(t.Context(), feed.Env{DB: w.db}, feed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for err == nil {
		_, _, err = r.Next(ctx)
	}
	if err != context.Canceled {
		t.Error(err)
	}
}
