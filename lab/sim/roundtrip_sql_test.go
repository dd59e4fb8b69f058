package sim

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/base"
)

// sqlConn is one connection to the node of a region.
func (l *rtLab) sqlConn(r base.RegionID, database string) (*sql.DB, *sql.Conn) {
	for _, h := range l.w.hosts {
		if h.region == r {
			return l.connInto(h, database)
		}
	}
	l.t.Fatalf("no node in region %d", r)
	return nil, nil
}

// connTo is a connection to a node.
func (l *rtLab) connTo(h *host) (*sql.DB, *sql.Conn) { return l.connInto(h, "") }

func (l *rtLab) connInto(h *host, database string) (*sql.DB, *sql.Conn) {
	db := openSQL(h.up, func(cfg *mysql.Config) { cfg.DBName = database })
	c, err := db.Conn(context.Background())
	if err != nil {
		l.t.Fatal(err)
	}
	return db, c
}

func (l *rtLab) exec(c *sql.Conn, q string, args ...any) {
	if _, err := c.ExecContext(context.Background(), q, args...); err != nil {
		l.t.Errorf("%s: %v", q, err)
	}
}

// statement measures one autocommit statement, as the client sees it.
func (l *rtLab) statement(b budget, c *sql.Conn, q string, args ...any) {
	time.Sleep(time.Second)
	began := time.Now()
	res, err := c.ExecContext(context.Background(), q, args...)
	b.took = time.Since(began)
	if err == nil {
		var n int64
		if n, err = res.RowsAffected(); err == nil && n == 0 {
			err = fmt.Errorf("no row was changed")
		}
	}
	if err == nil {
		err = c.QueryRowContext(context.Background(), "SELECT @@last_statement_wan_rtts").Scan(&b.rtts)
	}
	l.check(b, err)
}

// query measures one autocommit query, which must return want rows.
func (l *rtLab) query(b budget, c *sql.Conn, want int, q string) {
	time.Sleep(time.Second)
	began := time.Now()
	rows, err := c.QueryContext(context.Background(), q)
	n := 0
	if err == nil {
		for rows.Next() {
			n++
		}
		err = rows.Err()
		rows.Close()
	}
	b.took = time.Since(began)
	if err == nil && n != want {
		err = fmt.Errorf("%d rows, want %d", n, want)
	}
	if err == nil {
		err = c.QueryRowContext(context.Background(), "SELECT @@last_statement_wan_rtts").Scan(&b.rtts)
	}
	l.check(b, err)
}

// runSQL measures statements on rows of the own region and of each other one.
func (l *rtLab) runSQL() {
	n := base.RegionID(len(l.m.Names))
	var dbs []*sql.DB
	var cs []*sql.Conn
	for r := base.RegionID(1); r <= n; r++ {
		if r == 1 {
			db, c := l.sqlConn(r, "")
			l.exec(c, "CREATE DATABASE d")
			l.exec(c, "CREATE TABLE d.t (id INT PRIMARY KEY, v INT, w VARCHAR(20), KEY (w))")
			l.exec(c, "CREATE TABLE d.a (id INT PRIMARY KEY, v INT, w VARCHAR(20), KEY (w)) REPLICATION ASYNC")
			l.exec(c, "CREATE TABLE d.f (id INT PRIMARY KEY, v INT, CHECK (v < 1000000))")
			c.Close()
			db.Close()
			time.Sleep(5 * time.Second)
		}
		db, c := l.sqlConn(r, "d")
		for i := range 40 {
			l.exec(c, "INSERT INTO t VALUES (?, 1, 'x')", 100*int(r)+i)
			l.exec(c, "INSERT INTO f VALUES (?, 1)", 100*int(r)+i)
			l.exec(c, "INSERT INTO a VALUES (?, 1, 'x')", 100*int(r)+i)
		}
		dbs, cs = append(dbs, db), append(cs, c)
	}
	time.Sleep(5 * time.Second)
	for r := base.RegionID(1); r <= n; r++ {
		c, own := cs[r-1], 100*int(r)
		l.statement(budget{op: "UPDATE by primary key, own-region row", at: r, exact: true, maxRTTs: 1,
			formula: "quorum", want: l.quorum(r)},
			c, fmt.Sprintf("UPDATE t SET v = v + 1 WHERE id = %d", own))
		async := func(op string) budget {
			return budget{op: op + ", asynchronous table", at: r, exact: true, formula: "0"}
		}
		l.statement(async("UPDATE by primary key, own-region row"), c, fmt.Sprintf("UPDATE a SET v = v + 1 WHERE id = %d", own))
		l.statement(async("UPDATE of an indexed column, own-region rows of several shards"), c,
			fmt.Sprintf("UPDATE a SET w = 'y' WHERE id IN (%d, %d, %d, %d)", own, own+1, own+2, own+3))
		l.statement(async("INSERT behind an own-region row"), c, fmt.Sprintf("INSERT INTO a VALUES (%d, 1, 'z')", own+60))
		for o := base.RegionID(1); o <= n; o++ {
			if o == r {
				continue
			}
			theirs := 100*int(o) + 10
			l.statement(budget{op: "UPDATE by primary key, row of another region (forwarded), asynchronous table",
				at: r, other: o, exact: true, maxRTTs: 1, formula: "RTT", want: l.rtt(r, o)},
				c, fmt.Sprintf("UPDATE a SET v = v + 1 WHERE id = %d", theirs))
			want := l.rtt(r, o) + l.quorum(o)
			away := func(op string) budget {
				return budget{op: op, at: r, other: o, exact: true, maxRTTs: 2, formula: "RTT + quorum there", want: want}
			}
			l.statement(away("UPDATE by primary key, row of another region (forwarded)"), c,
				fmt.Sprintf("UPDATE t SET v = v + 1 WHERE id = %d", theirs))
			l.statement(away("UPDATE of an indexed column, prepared, row of another region (forwarded)"), c,
				"UPDATE t SET w = ? WHERE id = ?", fmt.Sprint("w", r), theirs+1)
			l.statement(away("UPDATE with a CHECK, several rows of another region (forwarded)"), c,
				fmt.Sprintf("UPDATE f SET v = v * 2 WHERE id IN (%d, %d, %d)", theirs, theirs+1, theirs+2))
			l.statement(away("INSERT ... ON DUPLICATE KEY UPDATE, row of another region (forwarded)"), c,
				fmt.Sprintf("INSERT INTO f VALUES (%d, 1) ON DUPLICATE KEY UPDATE v = v + 1", theirs))
			l.statement(away("DELETE by primary key, row of another region (forwarded)"), c,
				fmt.Sprintf("DELETE FROM t WHERE id = %d", theirs+10+int(r)))
			lock := func(op string) budget {
				return budget{op: op, at: r, other: o, exact: true, maxRTTs: 1, formula: "RTT", want: l.rtt(r, o)}
			}
			l.query(lock("SELECT ... FOR UPDATE, row of another region (forwarded)"), c, 1,
				fmt.Sprintf("SELECT * FROM t WHERE id = %d FOR UPDATE", theirs))
			several := fmt.Sprintf("SELECT * FROM t WHERE id BETWEEN %d AND %d ORDER BY v FOR UPDATE", theirs, theirs+5)
			l.query(lock("SELECT ... FOR UPDATE, rows of another region in several shards (forwarded)"), c, 6, several)
			l.exec(c, "SET godwit_forward = OFF")
			l.query(budget{op: "SELECT ... FOR UPDATE, rows of another region in several shards " +
				"(godwit_forward = OFF)", at: r, other: o, exact: true, maxRTTs: 2,
				formula: "2 RTT", want: 2 * l.rtt(r, o)}, c, 6, several)
			l.exec(c, "BEGIN")
			l.query(lock("SELECT ... FOR UPDATE, rows of another region in several shards, in a transaction"), c, 6, several)
			l.exec(c, "ROLLBACK")
			l.statement(budget{op: "UPDATE by primary key, row of another region (godwit_forward = OFF)", at: r,
				other: o, exact: true, maxRTTs: 3,
				formula: "2 RTT + quorum there", want: 2*l.rtt(r, o) + l.quorum(o)}, c,
				fmt.Sprintf("UPDATE t SET v = v + 1 WHERE id = %d", theirs))
			l.exec(c, "SET godwit_forward = ON")
		}
	}
	for i := range cs {
		cs[i].Close()
		dbs[i].Close()
	}
}
