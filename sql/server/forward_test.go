package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/wire"
)

// link carries statements between servers of one test, through bytes, as the network does.
type link struct {
	servers   map[base.NodeID]*Server
	forwarded atomic.Int64
	// before, if set, may fail a call before its execution, after, if set, behind it.
	before, after func() error
	// instead, if set, takes the place of the execution, and the answer is lost.
	instead func(q *wire.ForwardRequest) error
	// settle, if set, may fail the question for an outcome.
	settle func() error
	db     *memkv.DB
	named  atomic.Uint32
}

func (l *link) Settle(_ context.Context, q *wire.ForwardRequest, _ time.Time, _ error) (*wire.ForwardResponse, error) {
	if l.settle != nil {
		if err := l.settle(); err != nil {
			return nil, err
		}
	}
	got := l.db.Settle(base.TxnID(q.Id))
	if !got.Committed {
		return nil, nil
	}
	resp := new(wire.ForwardResponse)
	if err := resp.UnmarshalVT(got.Answer); err != nil {
		return nil, err
	}
	resp.Committed, resp.Ts = 1, uint64(got.TS)
	return resp, nil
}

func (l *link) Forward(ctx context.Context, to base.NodeID, _ base.Key, q *wire.ForwardRequest) (*wire.ForwardResponse, bool,
	error) {
	name := base.MakeTxnID(l.db.Clock(), 9, l.named.Add(1))
	q.Id = name[:]
	if l.before != nil {
		if err := l.before(); err != nil {
			return nil, false, err
		}
	}
	b, err := q.MarshalVT()
	if err != nil {
		return nil, false, err
	}
	req, resp := new(wire.ForwardRequest), new(wire.ForwardResponse)
	if err := req.UnmarshalVT(b); err != nil {
		return nil, false, err
	}
	if l.instead != nil {
		return nil, true, l.instead(req)
	}
	if b, err = l.servers[to].Execute(ctx, req).MarshalVT(); err != nil {
		return nil, true, err
	}
	if ctx.Err() != nil {
		return nil, true, ctx.Err()
	}
	if l.after != nil {
		if err := l.after(); err != nil {
			return nil, true, err
		}
	}
	if err := resp.UnmarshalVT(b); err != nil {
		return nil, true, err
	}
	if resp.Status == nil {
		l.forwarded.Add(1)
	}
	return resp, true, nil
}

// startPair is a cluster of two regions; clients c of the first and us of the second.
func startPair(t testing.TB, most int) (l *link, c, us *sql.DB, gs [2]*Server) {
	t.Helper()
	db := memkv.New(4, "eu", "us")
	l = &link{servers: map[base.NodeID]*Server{}, db: db}
	for i, d := range []*memkv.DB{db, db.Gateway(2)} {
		s, err := New(Config{DB: d, Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler), Forwarder: l,
			MaxForwarded: most})
		if err != nil {
			t.Fatal(err)
		}
		go s.Serve()
		t.Cleanup(func() { s.Close() })
		l.servers[d.Node()], gs[i] = s, s
	}
	exec(t, open(t, gs[1], ""), "CREATE DATABASE test")
	if _, err := gs[0].g.Catalog.Fresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l, open(t, gs[0], "test"), open(t, gs[1], "test"), gs
}

// outcome is all that a client sees of a statement.
func outcome(c execer, q string, args ...any) string {
	if strings.HasPrefix(q, "SELECT") {
		return found(c, q, args...)
	}
	r, err := c.ExecContext(context.Background(), q, args...)
	out := ""
	if err == nil {
		n, _ := r.RowsAffected()
		id, _ := r.LastInsertId()
		out = fmt.Sprintf("%d rows, id %d", n, id)
	} else {
		var me *mysql.MySQLError
		if errors.As(err, &me) {
			out = fmt.Sprintf("error %d (%s): %s", me.Number, me.SQLState, me.Message)
		} else {
			out = err.Error()
		}
	}
	w, _ := tryQuery(c, "SHOW WARNINGS")
	return out + fmt.Sprint(" ", w)
}

// found is all that a client sees of a query.
func found(c execer, q string, args ...any) string {
	out := ""
	rows, err := c.QueryContext(context.Background(), q, args...)
	if err == nil {
		types, _ := rows.ColumnTypes()
		for _, t := range types {
			null, _ := t.Nullable()
			digits, scale, _ := t.DecimalSize()
			out += fmt.Sprintf("%s %s null %v %d,%d %v;", t.Name(), t.DatabaseTypeName(), null, digits, scale, t.ScanType())
		}
		for rows.Next() {
			vals, ptrs := make([]any, len(types)), make([]any, len(types))
			for i := range vals {
				ptrs[i] = &vals[i]
			}
			if err = rows.Scan(ptrs...); err != nil {
				break
			}
			out += fmt.Sprintf(" %T%q", vals, vals)
		}
		err = errors.Join(err, rows.Err(), rows.Close())
	}
	if err != nil {
		out += " error " + err.Error()
	}
	w, _ := tryQuery(c, "SHOW WARNINGS")
	return out + fmt.Sprint(" ", w)
}

var forwardSchema = []string{
	"CREATE TABLE t (id INT PRIMARY KEY, a INT, s VARCHAR(5), u INT UNIQUE, CHECK (a < 1000))",
	"CREATE TABLE p (id INT PRIMARY KEY)",
	"CREATE TABLE f (id INT PRIMARY KEY, pid INT, g INT AS (pid * 2) STORED, ts TIMESTAMP NULL, FOREIGN KEY (pid) " +
		"REFERENCES p(id))",
	"CREATE TABLE two (x INT, y VARCHAR(10), n INT, d DATETIME, PRIMARY KEY (x, y))",
	"CREATE TABLE au (id INT PRIMARY KEY, n INT AUTO_INCREMENT, KEY (n))",
	"CREATE TABLE log (id INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(20))",
	"CREATE TABLE tr (id INT PRIMARY KEY, a INT)",
	"CREATE TRIGGER tr1 AFTER UPDATE ON tr FOR EACH ROW INSERT INTO log (what) VALUES (CONCAT('tr ', NEW.a))",
	"INSERT INTO t VALUES (1,10,'a',1),(2,20,'b',2),(3,30,'c',3),(4,40,'d',4),(5,50,'e',5)",
	"INSERT INTO p VALUES (1),(2)",
	"INSERT INTO f (id, pid, ts) VALUES (1,1,'2020-01-01 00:00:00')",
	"INSERT INTO two VALUES (1,'a',1,NULL),(1,'b',2,NULL),(2,'a',3,NULL)",
	"INSERT INTO au VALUES (1,7),(2,8)",
	"INSERT INTO tr VALUES (1,1)",
	"CREATE USER reader@'%'", "GRANT SELECT ON test.* TO reader@'%'",
	"CREATE USER writer@'%'", "GRANT SELECT, UPDATE ON test.t TO writer@'%'",
}

// forwardCases are statements on rows of another region; away says how many of the statements are
// forwarded.
var forwardCases = []struct {
	name, dsn string // user and options
	away      int
	set       []string
	run       []string
	args      []any // of the first statement of run
	look      string
}{
	{name: "update", away: 1, run: []string{"UPDATE t SET a = a + 1 WHERE id = 1"}, look: "SELECT * FROM t WHERE id = 1"},
	{name: "comments and quotes", away: 1, run: []string{`UPDATE /* x */ t SET s = "q" WHERE id = 1;`},
		look: "SELECT * FROM t WHERE id = 1"},
	{name: "nothing changes", away: 1, run: []string{"UPDATE t SET a = 10 WHERE id = 1"}},
	{name: "found rows", dsn: "clientFoundRows=true", away: 1, run: []string{"UPDATE t SET a = 10 WHERE id = 1"}},
	{name: "found rows, engine", dsn: "clientFoundRows=true", away: 1, run: []string{"UPDATE t SET a = 10 WHERE id IN (1, 2)"}},
	{name: "no row", run: []string{"UPDATE t SET a = 1 WHERE id = 77", "DELETE FROM t WHERE id = 77"}},
	{name: "delete", away: 1, run: []string{"DELETE FROM t WHERE id = 2"}, look: "SELECT id FROM t ORDER BY id"},
	{name: "prepared", away: 1, run: []string{"UPDATE t SET a = ?, s = ? WHERE id = ?"}, args: []any{5, "x", 1},
		look: "SELECT * FROM t WHERE id = 1"},
	{name: "prepared, engine", away: 1, run: []string{"UPDATE t SET a = a * ?, s = ? WHERE id IN (?, ?)"},
		args: []any{2, "x", 1, 3}, look: "SELECT * FROM t ORDER BY id"},
	{name: "prepared null", away: 1, run: []string{"UPDATE t SET s = ? WHERE id = ?"}, args: []any{nil, 1},
		look: "SELECT * FROM t WHERE id = 1"},
	{name: "range", away: 1, run: []string{"UPDATE t SET a = a + 1 WHERE id BETWEEN 2 AND 4 AND a > 20"},
		look: "SELECT * FROM t ORDER BY id"},
	{name: "list", away: 1, run: []string{"DELETE FROM t WHERE id IN (2, 4)"}, look: "SELECT id FROM t ORDER BY id"},
	{name: "order and limit", away: 1, run: []string{"UPDATE t SET a = 0 WHERE id IN (1,2,3) " +
		"ORDER BY id DESC LIMIT 1"}, look: "SELECT * FROM t ORDER BY id"},
	{name: "two columns", away: 2, run: []string{"UPDATE two AS x SET n = n + 10 WHERE x.x = 1 AND x.y IN ('a','b')",
		"DELETE FROM two WHERE y = 'a' AND x = 2"}, look: "SELECT x, y, n FROM two ORDER BY x, y"},
	{name: "another database", away: 1, set: []string{"USE mysql"},
		run: []string{"UPDATE test.t SET a = 1 WHERE id = 1"}, look: "SELECT a FROM test.t WHERE id = 1"},
	{name: "replace", away: 1, run: []string{"REPLACE INTO t VALUES (1, 2, 'r', 9)"}, look: "SELECT * FROM t WHERE id = 1"},
	{name: "upsert", away: 2, run: []string{"INSERT INTO t (s, id, a) VALUES ('z', 1, 3) " +
		"ON DUPLICATE KEY UPDATE a = a + VALUES(a)",
		"INSERT INTO au (id) VALUES (2) ON DUPLICATE KEY UPDATE n = n + 100"},
		look: "SELECT a FROM t WHERE id = 1 UNION ALL SELECT n FROM au WHERE id = 2"},
	{name: "not constant", run: []string{"UPDATE t SET a = 1 WHERE id = 1 + 0", "UPDATE t SET a = 2 WHERE a = 10",
		"DELETE FROM two WHERE x = 1"}, look: "SELECT * FROM t ORDER BY id"},
	{name: "session", set: []string{"SET @v = 5"},
		run:  []string{"UPDATE t SET a = @v WHERE id = 1", "UPDATE t SET a = LAST_INSERT_ID(8) WHERE id = 2"},
		look: "SELECT a, LAST_INSERT_ID() FROM t WHERE id < 3 ORDER BY id"},
	{name: "row count", away: 1, run: []string{"UPDATE t SET a = 3 WHERE id = 1"}, look: "SELECT ROW_COUNT()"},
	{name: "subquery", run: []string{"UPDATE t SET a = (SELECT COUNT(*) FROM p) WHERE id = 1"},
		look: "SELECT * FROM t WHERE id = 1"},
	{name: "key changes", run: []string{"UPDATE t SET id = 9 WHERE id = 1"}, look: "SELECT id FROM t ORDER BY id"},
	{name: "duplicate", away: 1, run: []string{"UPDATE t SET u = 2 WHERE id = 1"}},
	{name: "duplicate ignored", away: 1, run: []string{"UPDATE IGNORE t SET u = 2 WHERE id = 1"}},
	{name: "check", away: 1, run: []string{"UPDATE t SET a = 5000 WHERE id = 1"}},
	{name: "foreign key", away: 2, run: []string{"UPDATE f SET pid = 9 WHERE id = 1", "DELETE FROM p WHERE id = 1"},
		look: "SELECT * FROM p ORDER BY id"},
	{name: "foreign keys off", away: 1, set: []string{"SET foreign_key_checks = 0"},
		run: []string{"DELETE FROM p WHERE id = 1"}, look: "SELECT * FROM p ORDER BY id"},
	{name: "generated column", away: 1, run: []string{"UPDATE f SET pid = 2 WHERE id = 1"}, look: "SELECT id, pid, g FROM f"},
	{name: "too long", away: 1, run: []string{"UPDATE t SET s = 'abcdefgh' WHERE id = 1"}},
	{name: "sql_mode", away: 1, set: []string{"SET sql_mode = ''"},
		run: []string{"UPDATE t SET s = 'abcdefgh', a = 'x' WHERE id = 1"}, look: "SELECT s, a FROM t WHERE id = 1"},
	{name: "unknown column", away: 1, run: []string{"UPDATE t SET a = nosuch WHERE id = 1"}},
	{name: "unknown assigned column", run: []string{"UPDATE t SET nosuch = 1 WHERE id = 1",
		"UPDATE nosuch SET a = 1 WHERE id = 1"}},
	{name: "division by zero", away: 1, run: []string{"UPDATE t SET a = 1/0 WHERE id = 1"}, look: "SELECT a FROM t WHERE id = 1"},
	{name: "time zone", away: 1, set: []string{"SET time_zone = '+05:00'"},
		run:  []string{"UPDATE f SET ts = '2021-06-01 12:00:00' WHERE id = 1"},
		look: "SELECT CAST(ts AS CHAR) FROM f"},
	{name: "no privilege", dsn: "user=reader", run: []string{"UPDATE t SET a = 1 WHERE id = 1"}},
	{name: "privilege on the table", dsn: "user=writer", away: 1,
		run: []string{"UPDATE t SET a = 1 WHERE id = 1", "DELETE FROM t WHERE id = 1",
			"UPDATE p SET id = 1 WHERE id = 1"}},
	{name: "trigger", away: 1, run: []string{"UPDATE tr SET a = 5 WHERE id = 1"}, look: "SELECT what FROM log"},
	{name: "homes", away: 3, run: []string{"UPDATE t__homes SET pinned = 1 WHERE id IN (1, 2)",
		"UPDATE t__homes SET home_region = 'eu', pinned = 0 WHERE id = 1",
		"UPDATE t__homes SET home_region = 'nowhere' WHERE id = 2"},
		look: "SELECT id, home_region, pinned FROM t__homes WHERE id < 4 ORDER BY id"},
	{name: "homes, not forwarded", dsn: "user=writer", run: []string{"UPDATE t__homes SET pinned = 1 WHERE id = 1",
		"UPDATE t__homes SET id = 1 WHERE id = 2"}},
	{name: "lock", away: 4, run: []string{"SELECT * FROM t WHERE id = 1 FOR UPDATE",
		"SELECT * FROM t WHERE id = 1 FOR UPDATE",
		"SELECT s, a/3, NULL, 1e0 FROM t WHERE id IN (1, 2, 5) ORDER BY a DESC\n  LOCK IN SHARE MODE",
		"SELECT COUNT(*), SUM(a) AS sum FROM t AS x WHERE x.id BETWEEN 1 AND 3 FOR UPDATE OF x;"}},
	{name: "lock nothing", away: 1, run: []string{"SELECT a FROM t WHERE id = 2 AND a = 77 FOR UPDATE"},
		look: "SELECT FOUND_ROWS(), ROW_COUNT()"},
	{name: "lock, prepared", away: 1, run: []string{"SELECT id, a, s, u FROM t WHERE id BETWEEN ? AND ? FOR UPDATE"},
		args: []any{2, 4}, look: "SELECT FOUND_ROWS(), ROW_COUNT()"},
	{name: "lock, prepared, one row", away: 1, run: []string{"SELECT * FROM f WHERE id = ? FOR UPDATE"}, args: []any{1}},
	{name: "lock, times", away: 1, dsn: "parseTime=true", set: []string{"SET time_zone = '+05:00'"},
		run: []string{"SELECT ts, d FROM f, (SELECT 1 AS d) AS y WHERE f.id = 1 FOR UPDATE",
			"SELECT ts FROM f WHERE id = 1 FOR UPDATE"}},
	{name: "lock, error", away: 1, run: []string{"SELECT nosuch FROM t WHERE id = 1 FOR UPDATE"}},
	{name: "lock, no privilege", dsn: "user=writer", away: 1, run: []string{"SELECT a FROM t WHERE id = 1 FOR UPDATE",
		"SELECT * FROM p WHERE id = 1 FOR UPDATE"}},
	{name: "lock, elsewhere", run: []string{"SELECT a FROM t WHERE a = 10 FOR UPDATE",
		"SELECT a INTO @x FROM t WHERE id = 1 FOR UPDATE", "SELECT a FROM t WHERE id = (SELECT 1) FOR UPDATE",
		"SELECT t.a FROM t JOIN p ON p.id = t.id WHERE t.id = 1 FOR UPDATE", "SELECT a FROM t WHERE id = 1",
		"SELECT 'for update' FROM t WHERE id = 1"}},
	{name: "lock in a transaction", run: []string{"BEGIN", "SELECT a FROM t WHERE id = 1 FOR UPDATE", "ROLLBACK"}},
	{name: "transaction", run: []string{"BEGIN", "UPDATE t SET a = 5 WHERE id = 1", "ROLLBACK"},
		look: "SELECT a FROM t WHERE id = 1"},
	{name: "autocommit off", set: []string{"SET autocommit = 0"},
		run: []string{"UPDATE t SET a = 5 WHERE id = 1", "ROLLBACK"}, look: "SELECT a FROM t WHERE id = 1"},
}

// TestForwardedAsLocal runs the same statements forwarded and not, and forwarded with all answers
// lost, so that the outcomes have to be asked for; clients must not be able to tell.
func TestForwardedAsLocal(t *testing.T) {
	run := func(on, lost bool) []string {
		var out []string
		l, _, us, gs := startPair(t, 0)
		for _, q := range forwardSchema {
			exec(t, us, q)
		}
		if err := gs[0].g.users.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, k := range forwardCases {
			for _, tab := range []string{"f", "p", "t", "two", "au", "tr", "log"} {
				exec(t, us, "DELETE FROM "+tab)
			}
			for _, q := range forwardSchema {
				if strings.HasPrefix(q, "INSERT") {
					exec(t, us, q)
				}
			}
			user, opts := "root", k.dsn
			if u, ok := strings.CutPrefix(k.dsn, "user="); ok {
				user, opts = u, ""
			}
			ctx := context.Background()
			c, err := openDSN(t, fmt.Sprintf("%s@tcp(%s)/test?%s", user, gs[0].Addr(), opts)).Conn(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if !on {
				exec(t, c, "SET godwit_forward = OFF")
			}
			for _, q := range k.set {
				exec(t, c, q)
			}
			before := l.forwarded.Load()
			if lost {
				l.after = func() error { return errors.New("the answer is lost") }
			}
			args := k.args
			for _, q := range k.run {
				out = append(out, k.name+": "+outcome(c, q, args...))
				args = nil
			}
			l.after = nil
			away := int(l.forwarded.Load() - before)
			if on && !lost && away != k.away || (!on || lost) && away != 0 {
				t.Errorf("%s: %d statements were forwarded, want %d", k.name, away, k.away)
			}
			if k.look != "" {
				out = append(out, fmt.Sprint(k.name, ": ", query(t, c, k.look)))
			}
			c.Close()
		}
		return out
	}
	here, away, lost := run(false, false), run(true, false), run(true, true)
	for i := range here {
		if here[i] != away[i] {
			t.Errorf("forwarded:\n\t%s\nexecuted here:\n\t%s", away[i], here[i])
		}
		if here[i] != lost[i] {
			t.Errorf("forwarded, and the answer lost:\n\t%s\nexecuted here:\n\t%s", lost[i], here[i])
		}
	}
}

// TestForwardFallback: what certainly did not run elsewhere runs here. What may have is asked for:
// it is not run again if it has committed, nor if that cannot be found out.
func TestForwardFallback(t *testing.T) {
	l, c, us, _ := startPair(t, 1)
	for _, q := range forwardSchema[:9] {
		exec(t, us, q)
	}
	l.before = func() error { return errors.New("no way there") }
	exec(t, c, "UPDATE t SET a = a + 1 WHERE id = 1")
	expect(t, us, "SELECT a FROM t WHERE id = 1", "11")
	l.before = nil
	l.after = func() error { return errors.New("the link broke") }
	exec(t, c, "UPDATE t SET a = a + 1 WHERE id = 1")
	expect(t, us, "SELECT a FROM t WHERE id = 1", "12")
	l.settle = func() error { return errors.New("nobody knows") }
	expectErr(t, c, 1105, "UPDATE t SET a = a + 1 WHERE id = 1")
	expect(t, us, "SELECT a FROM t WHERE id = 1", "13")
	l.after, l.settle = nil, nil
	l.servers[2].remotes.slots <- struct{}{} // full
	exec(t, c, "UPDATE t SET a = a + 1 WHERE id = 1")
	<-l.servers[2].remotes.slots
	if n := l.forwarded.Load(); n != 0 {
		t.Errorf("%d statements were forwarded to a full node", n)
	}
	exec(t, c, "UPDATE t SET a = a + 1 WHERE id = 1")
	expect(t, us, "SELECT a FROM t WHERE id = 1", "15")
	if n := l.forwarded.Load(); n != 1 {
		t.Errorf("%d statements were forwarded", n)
	}
	l.servers[2].closeRemotes()
	exec(t, c, "UPDATE t SET a = a + 1 WHERE id = 1")
	expect(t, c, "SELECT a FROM t WHERE id = 1", "16")
}

// TestForwardedWaits: a forwarded statement goes on at its executor while a lock is held, and ends
// with its client's KILL.
func TestForwardedWaits(t *testing.T) {
	l, c, us, _ := startPair(t, 0)
	for _, q := range forwardSchema[:9] {
		exec(t, us, q)
	}
	tx, err := us.Begin()
	if err != nil {
		t.Fatal(err)
	}
	exec(t, tx, "UPDATE t SET a = 1 WHERE id = 1")
	ctx := context.Background()
	conn, err := c.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	id := query(t, conn, "SELECT CONNECTION_ID()")[0]
	failed := make(chan error, 1)
	go func() {
		_, err := conn.ExecContext(ctx, "UPDATE t SET a = a + 1 WHERE id = 1")
		failed <- err
	}()
	eventually(t, "the statement reaches its executor", func() bool {
		return len(l.servers[2].remotes.slots) == 1
	})
	exec(t, c, "KILL QUERY "+id)
	if n := mysqlCode(<-failed); n != 1317 {
		t.Errorf("the killed statement failed with %d", n)
	}
	eventually(t, "the statement ends at its executor", func() bool {
		return len(l.servers[2].remotes.slots) == 0
	})
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	expect(t, us, "SELECT a FROM t WHERE id = 1", "1")
}

// TestForwardedConflicts: many clients of both regions count in one row; every success counts once.
func TestForwardedConflicts(t *testing.T) {
	l, c, us, _ := startPair(t, 0)
	for _, q := range forwardSchema[:9] {
		exec(t, us, q)
	}
	var wg sync.WaitGroup
	var ok atomic.Int64
	for i := range 8 {
		db := c
		if i%2 == 0 {
			db = us
		}
		wg.Go(func() {
			for range 25 {
				_, err := db.Exec("UPDATE t SET a = a + 1, s = 'x' WHERE id IN (1, 2)")
				if err == nil {
					ok.Add(1)
				} else if n := mysqlCode(err); n != 1213 && n != 1205 {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	n := ok.Load()
	expect(t, us, "SELECT a FROM t WHERE id < 3 ORDER BY id", fmt.Sprint(10+n), fmt.Sprint(20+n))
	if l.forwarded.Load() == 0 {
		t.Error("nothing was forwarded")
	}
}

// TestForwardedSchema: the executor knows what the asker's session has just changed.
func TestForwardedSchema(t *testing.T) {
	l, c, us, gs := startPair(t, 0)
	for _, q := range forwardSchema[:9] {
		exec(t, us, q)
	}
	exec(t, c, "UPDATE t SET a = 5 WHERE id = 1")
	exec(t, c, "ALTER TABLE t ADD COLUMN z INT")
	exec(t, c, "UPDATE t SET z = 5 WHERE id = 1")
	expect(t, us, "SELECT z FROM t WHERE id = 1", "5")
	exec(t, c, "CREATE USER late@'%'")
	exec(t, c, "GRANT ALL ON *.* TO late@'%'")
	late := openDSN(t, fmt.Sprintf("late@tcp(%s)/test", gs[0].Addr()))
	exec(t, late, "UPDATE t SET a = 6 WHERE id = 1")
	if n := l.forwarded.Load(); n != 3 {
		t.Errorf("%d statements were forwarded, want 3", n)
	}
}

func TestExplainExecution(t *testing.T) {
	_, c, us, _ := startPair(t, 0)
	for _, q := range forwardSchema[:9] {
		exec(t, us, q)
	}
	exec(t, c, "INSERT INTO t VALUES (100, 1, 'x', 100)")
	conn, err := c.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, k := range []struct{ q, want string }{
		{"EXPLAIN PLAN UPDATE t SET a = 0 WHERE id = 1", "forwarded to region us"},
		{"EXPLAIN PLAN UPDATE t SET a = 0 WHERE id = 100", "local"},
		{"EXPLAIN PLAN DELETE FROM t WHERE id IN (1, 100)", "cross-region"},
		{"EXPLAIN PLAN UPDATE t SET a = 0 WHERE a = 1", "local or cross-region, by the rows that it finds"},
		{"EXPLAIN FORMAT=TREE REPLACE INTO t VALUES (1,1,'x',1)", "forwarded to region us"},
		{"EXPLAIN UPDATE t SET a = 0 WHERE id = 1", "forwarded to region us"},
		{"EXPLAIN DELETE FROM t WHERE id = 100", "local"},
		{"EXPLAIN PLAN SELECT * FROM t WHERE id = 1 FOR UPDATE", "forwarded to region us"},
		{"EXPLAIN SELECT * FROM t WHERE id IN (1, 2) LOCK IN SHARE MODE", "forwarded to region us"},
		{"EXPLAIN PLAN SELECT * FROM t WHERE id = 100 FOR UPDATE", "local"},
		{"EXPLAIN PLAN SELECT * FROM t WHERE id IN (1, 100) FOR UPDATE", "cross-region"},
		{"EXPLAIN PLAN SELECT * FROM t WHERE a = 1 FOR UPDATE", "local or cross-region, by the rows that it finds"},
	} {
		got := strings.Join(query(t, conn, k.q), "\n")
		if !strings.Contains(got+"\n", "Execution: "+k.want+"\n") {
			t.Errorf("%s:\n%s\nwant execution %s", k.q, got, k.want)
		}
	}
	expect(t, us, "SELECT a FROM t WHERE id = 1", "10")
	exec(t, conn, "SET godwit_forward = OFF")
	if got := strings.Join(query(t, conn, "EXPLAIN PLAN UPDATE t SET a = 0 WHERE id = 1"),
		"\n"); !strings.Contains(got, "Execution: cross-region") {
		t.Errorf("forwarding is off, but:\n%s", got)
	}
}

func mysqlCode(err error) uint16 {
	var me *mysql.MySQLError
	if errors.As(err, &me) {
		return me.Number
	}
	return 0
}

// BenchmarkLocalUpdate is an UPDATE of an own row with and without the look at where it should run.
func BenchmarkLocalUpdate(b *testing.B) {
	_, c, _, _ := startPair(b, 0)
	exec(b, c, "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
	exec(b, c, "INSERT INTO t VALUES (1, 0)")
	for _, mode := range []string{"ON", "OFF"} {
		b.Run("godwit_forward="+mode, func(b *testing.B) {
			conn, err := c.Conn(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			exec(b, conn, "SET godwit_forward = "+mode)
			b.ReportAllocs()
			for b.Loop() {
				exec(b, conn, "UPDATE t SET a = a + 1 WHERE id = 1")
			}
		})
	}
}

// BenchmarkForwardedUpdate is an UPDATE that another gateway executes, without a network.
func BenchmarkForwardedUpdate(b *testing.B) {
	_, c, us, _ := startPair(b, 0)
	exec(b, us, "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
	exec(b, us, "INSERT INTO t VALUES (1, 0)")
	b.ReportAllocs()
	for b.Loop() {
		exec(b, c, "UPDATE t SET a = a + 1 WHERE id = 1")
	}
}

// TestForwardSettledFirst: a statement whose gateway has asked for its outcome before it committed
// does not commit any more where it was sent, and runs at the gateway, once.
func TestForwardSettledFirst(t *testing.T) {
	l, c, us, _ := startPair(t, 0)
	exec(t, us, "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
	exec(t, us, "INSERT INTO t VALUES (1, 10)")
	ctx := context.Background()
	holder, err := us.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	exec(t, holder, "BEGIN")
	exec(t, holder, "UPDATE t SET a = a + 100 WHERE id = 1")
	late := make(chan *wire.ForwardResponse, 1)
	l.instead = func(q *wire.ForwardRequest) error {
		l.instead = nil
		go func() { late <- l.servers[2].Execute(ctx, q) }() // it waits for the lock
		return errors.New("the link broke")
	}
	done := make(chan error, 1)
	go func() {
		_, err := c.ExecContext(ctx, "UPDATE t SET a = a + 1 WHERE id = 1")
		done <- err
	}()
	for len(l.db.Settled()) == 0 {
		runtime.Gosched()
	}
	exec(t, holder, "COMMIT")
	if err := <-done; err != nil {
		t.Error(err)
	}
	if resp := <-late; resp.Error == 0 {
		t.Error("the executor has committed a statement that was settled")
	}
	expect(t, us, "SELECT a FROM t WHERE id = 1", "111")
}
