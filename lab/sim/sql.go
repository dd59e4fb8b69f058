package sim

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/lab/history"
)

// sqlWork is the workload through SQL: rows with a unique and an ordinary index, transfers, and
// from time to time a concurrent schema change. The history has the primary key and one column.
type sqlWork struct {
	*client
	keys int
	dbs  map[*life]*sql.DB
	ddl  int
	tally
}

const sqlAccounts = 6

var sqlSchema = []string{
	"CREATE DATABASE d",
	"CREATE TABLE d.q (id INT PRIMARY KEY, v VARCHAR(40), n INT, KEY by_v (v), UNIQUE KEY by_n (n))",
	"CREATE TABLE d.acct (id INT PRIMARY KEY, bal INT)",
	"CREATE TABLE d.cnt (id INT PRIMARY KEY, v INT)",
	"INSERT INTO d.acct VALUES (1,100),(2,100),(3,100),(4,100),(5,100),(6,100)",
}

// PickSQL draws a configuration for the workload through SQL.
func PickSQL(seed uint64) Config {
	c := Pick(seed)
	c.Workload, c.SQL, c.Clients, c.Keys = "sql", true, 1+int(seed%2), 4+int(seed%5)
	c.Duration, c.Think = 15*time.Second, 20*time.Millisecond
	return c
}

func qkey(id int) string { return fmt.Sprintf("q.%03d", id) }

// db returns the connections to a process, and makes them at the first call.
func (s *sqlWork) db(l *life) *sql.DB {
	if d := s.dbs[l]; d != nil {
		return d
	}
	d := openSQL(func() *life { return l }, func(cfg *mysql.Config) {
		cfg.DBName, cfg.ClientFoundRows = "d", true
		cfg.InterpolateParams = s.rng.IntN(2) == 0 // else prepared statements
	})
	s.dbs[l] = d
	return d
}

// openSQL is a pool of connections. Each new one goes to the process that to returns.
func openSQL(to func() *life, tune ...func(*mysql.Config)) *sql.DB {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Logger = "root", "tcp", &mysql.NopLogger{}
	cfg.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) { return to().sql.Dial(ctx) }
	for _, f := range tune {
		f(cfg)
	}
	con, err := mysql.NewConnector(cfg)
	if err != nil {
		panic(err) // the configuration is fixed
	}
	return sql.OpenDB(con)
}

func (s *sqlWork) close() {
	for _, d := range s.dbs {
		d.Close()
	}
}

// stx is one attempt of a transaction, autocommit or not.
type stx struct {
	ctx    context.Context
	conn   *sql.Conn
	rec    *history.Active
	n      int
	counts int // the counter that it increments
}

func (t *stx) value() string {
	t.n++
	return fmt.Sprintf("%d.%d", t.rec.ID(), t.n)
}

// query runs a SELECT of id and v.
func (t *stx) query(q string, args ...any) ([]history.KV, error) {
	rows, err := t.conn.QueryContext(t.ctx, q, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []history.KV
	for rows.Next() {
		var id int
		var v string
		if err := rows.Scan(&id, &v); err != nil {
			return nil, err
		}
		out = append(out, history.KV{Key: qkey(id), Value: v})
	}
	return out, rows.Err()
}

// read is a SELECT of one row.
func (t *stx) read(id int, suffix string) (string, error) {
	rows, err := t.query("SELECT id, v FROM q WHERE id = ?"+suffix, id)
	if err != nil {
		return "", err
	}
	v := ""
	if len(rows) > 0 {
		v = rows[0].Value
	}
	t.rec.Read(qkey(id), v)
	return v, nil
}

func (t *stx) scan(lo, hi int) error {
	rows, err := t.query("SELECT id, v FROM q WHERE id >= ? AND id < ?", lo, hi)
	if err == nil {
		t.rec.Scan(qkey(lo), qkey(hi), rows)
	}
	return err
}

func (t *stx) exec(q string, args ...any) (int64, error) {
	res, err := t.conn.ExecContext(t.ctx, q, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// update records the effect of a blind UPDATE: a write, or a read of an absent row.
func (t *stx) update(id int) error {
	v := t.value()
	n, err := t.exec("UPDATE q SET v = ? WHERE id = ?", v, id)
	if err == nil && n == 0 {
		t.rec.Read(qkey(id), "")
	} else {
		t.rec.Write(qkey(id), v)
	}
	return err
}

func (t *stx) insert(id, n int) error {
	v := t.value()
	_, err := t.exec("INSERT INTO q (id, v, n) VALUES (?, ?, ?)", id, v, n)
	t.rec.Read(qkey(id), "")
	t.rec.Write(qkey(id), v)
	return err
}

func (t *stx) del(id int) error {
	n, err := t.exec("DELETE FROM q WHERE id = ?", id)
	if err == nil && n == 0 {
		t.rec.Read(qkey(id), "")
	} else {
		t.rec.Delete(qkey(id))
	}
	return err
}

// certain reports whether an error guarantees that nothing was done.
func certain(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && (e.Number == 1213 || e.Number == 1205 || e.Number == 1062)
}

// run runs a transaction. fn sends its statements, without BEGIN and COMMIT. An autocommit
// transaction is one statement.
func (s *sqlWork) run(kind string, explicit bool, fn func(t *stx) error) {
	for range 10 {
		l := s.gateway()
		if l == nil || !s.attempt(l, kind, explicit, fn) {
			return
		}
		sleep(context.Background(), time.Duration(s.rng.Int64N(int64(200*time.Millisecond))))
	}
}

func (s *sqlWork) attempt(l *life, kind string, explicit bool, fn func(t *stx) error) (again bool) {
	ctx, cancel := context.WithTimeout(l.ctx, clientTimeout)
	defer cancel()
	t := &stx{ctx: ctx}
	var err error
	if t.conn, err = s.db(l).Conn(ctx); err != nil {
		return false
	}
	defer t.conn.Close()
	t.rec = s.rec.Begin(s.id, fmt.Sprint("r", s.region))
	s.via(t.rec.ID(), l)
	committing := !explicit
	if explicit {
		_, err = t.exec("BEGIN")
	}
	if err == nil {
		err = fn(t)
	}
	if err == nil && explicit {
		committing = true
		_, err = t.exec("COMMIT")
	}
	if l.dead.Load() && err == nil {
		err = errors.New("the answer came too late")
	}
	switch {
	case err == nil:
		t.rec.Commit(0)
		s.noteCount(t, true)
		s.count(kind, 0, nil)
		return false
	case !committing, certain(err):
		t.rec.Abort()
		if explicit {
			_, _ = t.conn.ExecContext(ctx, "ROLLBACK")
		}
		s.count(kind, 1, nil)
		s.note(kind, err)
		return true
	}
	t.rec.Unknown(0)
	s.noteCount(t, false)
	s.count(kind, 2, nil)
	s.note(kind, err)
	s.renew()
	return false
}

func (s *sqlWork) note(kind string, err error) {
	if !certain(err) {
		s.w.log.printf("%s: %v", kind, err)
	}
}

// one runs one transaction.
func (s *sqlWork) one() {
	id, other := s.rng.IntN(s.keys), s.rng.IntN(s.keys)
	n := s.rng.IntN(3 * s.keys)
	if s.w.cfg.Epochs && s.rng.IntN(2) == 0 {
		s.onEpochs()
		return
	}
	switch k := s.rng.IntN(120); {
	case k >= 100:
		s.increment()
	case k < 15:
		s.run("insert", false, func(t *stx) error { return t.insert(id, n) })
	case k < 25:
		s.run("update", false, func(t *stx) error { return t.update(id) })
	case k < 32:
		s.run("delete", false, func(t *stx) error { return t.del(id) })
	case k < 44:
		s.run("select", false, func(t *stx) error { _, err := t.read(id, ""); return err })
	case k < 52:
		s.run("select range", false, func(t *stx) error { return t.scan(min(id, other), max(id, other)+1) })
	case k < 66:
		s.run("transaction", true, func(t *stx) error { return s.transaction(t, id, other) })
	case k < 72:
		s.run("read-only transaction", true, func(t *stx) error {
			if _, err := t.read(id, ""); err != nil {
				return err
			}
			return t.scan(min(id, other), max(id, other)+1)
		})
	case k < 78:
		s.byIndex(id)
	case k < 90:
		s.transfer()
	case k < 98:
		s.total(s.rng.IntN(2) == 0)
	default:
		s.change()
	}
}

func (s *sqlWork) transaction(t *stx, id, other int) error {
	suffix := ""
	if s.rng.IntN(2) == 0 {
		suffix = " FOR UPDATE"
	}
	v, err := t.read(id, suffix)
	if err != nil {
		return err
	}
	if s.rng.IntN(2) == 0 && other != id {
		if _, err := t.read(other, ""); err != nil {
			return err
		}
	}
	switch {
	case v == "":
		err = t.insert(id, s.rng.IntN(3*s.keys))
	case s.rng.IntN(4) == 0:
		err = t.del(id)
	default:
		err = t.update(id)
	}
	if err == nil && other != id && s.rng.IntN(2) == 0 {
		err = t.update(other)
	}
	return err
}

// byIndex looks for a row by a value seen a moment before. If it finds one, it must be that row.
func (s *sqlWork) byIndex(id int) {
	s.run("select by index", true, func(t *stx) error {
		v, err := t.read(id, "")
		if err != nil || v == "" {
			return err
		}
		rows, err := t.query("SELECT id, v FROM q WHERE v = ?", v)
		if err != nil {
			return err
		}
		if len(rows) != 1 || rows[0].Key != qkey(id) || rows[0].Value != v {
			s.w.fail("transaction T%d saw %s=%s by primary key and %v by index", t.rec.ID(), qkey(id), v, rows)
		}
		return nil
	})
}

func (s *sqlWork) transfer() {
	from, to, amount := 1+s.rng.IntN(sqlAccounts), 1+s.rng.IntN(sqlAccounts), s.rng.IntN(10)
	if from == to {
		return
	}
	s.run("transfer", true, func(t *stx) error {
		if _, err := t.exec("UPDATE acct SET bal = bal - ? WHERE id = ?", amount, from); err != nil {
			return err
		}
		_, err := t.exec("UPDATE acct SET bal = bal + ? WHERE id = ?", amount, to)
		return err
	})
}

func (s *sqlWork) total(explicit bool) {
	s.run("total", explicit, func(t *stx) error {
		var sum float64
		if err := t.conn.QueryRowContext(t.ctx, "SELECT SUM(bal) FROM acct").Scan(&sum); err != nil {
			return err
		}
		if sum != 100*sqlAccounts {
			s.w.fail("T%d saw a total of %v, want %d", t.rec.ID(), sum, 100*sqlAccounts)
		}
		return nil
	})
}

// change changes the schema to and fro.
func (s *sqlWork) change() {
	all := []string{
		"ALTER TABLE q SPLIT INTO 3 SHARDS", fmt.Sprintf("CREATE INDEX i%d ON q (v, n)", s.id), "ALTER TABLE q UNSPLIT",
		fmt.Sprintf("DROP INDEX i%d ON q", s.id), fmt.Sprintf("ALTER TABLE q DROP COLUMN c%d", s.id), fmt.Sprintf("ALTER TABLE q ADD COLUMN c%d INT DEFAULT 7", s.id),
	}
	l := s.gateway()
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, clientTimeout)
	defer cancel()
	q := all[(s.ddl+int(s.w.cfg.Seed))%len(all)]
	s.ddl++
	_, err := s.db(l).ExecContext(ctx, q)
	s.w.log.printf("%s: %v", q, err)
	if err == nil {
		s.count("schema change", 0, nil)
	} else {
		s.count("schema change", 1, nil)
	}
}

// found creates a cluster's schema and first rows.
func found(s *sqlWork) {
	l := s.gateway()
	db := openSQL(func() *life { return l })
	defer db.Close()
	schema := sqlSchema
	if s.w.cfg.Epochs {
		schema = slices.Concat(sqlSchema, epochSchema)
	}
	for _, q := range schema {
		if _, err := db.Exec(q); err != nil {
			s.w.fail("%s: %w", q, err)
		}
	}
	foundCounters(s)
}

// final reads the rows through every gateway, by primary key and by index.
func (s *sqlWork) final() map[string]string {
	var first map[string]string
	for _, h := range s.w.hosts {
		l := h.up()
		if l == nil {
			continue
		}
		for _, q := range []string{"SELECT id, v FROM q", "SELECT id, v FROM q WHERE v > ''",
			"SELECT id, v FROM q WHERE n >= 0"} {
			ctx, cancel := context.WithTimeout(l.ctx, liveBound)
			conn, err := s.db(l).Conn(ctx)
			if err == nil {
				var rows []history.KV
				if rows, err = (&stx{ctx: ctx, conn: conn}).query(q); err == nil {
					state := map[string]string{}
					for _, r := range rows {
						if old, dup := state[r.Key]; dup {
							s.w.fail("%s through node %d shows %s twice: %s and %s", q, h.id, r.Key, old, r.Value)
						}
						state[r.Key] = r.Value
					}
					if first == nil {
						first = state
					}
					for i := range s.keys {
						if k := qkey(i); first[k] != state[k] {
							s.w.fail("%s through node %d shows %s=%q, another way %q", q, h.id, k, state[k], first[k])
						}
					}
				}
				conn.Close()
			}
			cancel()
			if err != nil {
				s.w.fail("the final state cannot be read through node %d: %s: %w", h.id, q, err)
			}
		}
	}
	return first
}
