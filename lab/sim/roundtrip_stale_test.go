package sim

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

// stale measures bounded-stale reads, and the cost of statements at a node without a replica of the
// row's shard. Its cluster has one shard and two nodes a region, of which one holds the shard.
func (l *rtLab) stale(cfg Config) {
	cfg.SQL, cfg.NodesPerRegion, cfg.Shards = true, 2, 1
	bubble(l.t, cfg.Seed, func(*testing.T) {
		l.w = newWorld(cfg)
		for _, h := range l.w.hosts {
			h.boot()
		}
		time.Sleep(20 * time.Second) // leaders go home
		l.runStale()
		l.w.close()
	})
	if err := l.w.err(); err != nil {
		l.t.Error(err)
	}
}

// holder is the node of a region that holds the shard, or the one that does not.
func (l *rtLab) holder(r base.RegionID, holds bool) *host {
	for _, h := range l.w.hosts {
		if h.region == r && h.up().node.Owners().Holds(1) == holds {
			return h
		}
	}
	l.t.Fatalf("region %d has no node that holds the shard: %v", r, holds)
	return nil
}

func (l *rtLab) runStale() {
	n := base.RegionID(len(l.m.Names))
	first, c := l.connTo(l.holder(1, true))
	l.exec(c, "CREATE DATABASE d")
	l.exec(c, "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
	c.Close()
	first.Close()
	time.Sleep(5 * time.Second)
	for r := base.RegionID(1); r <= n; r++ {
		db, c := l.connTo(l.holder(r, true))
		l.exec(c, fmt.Sprintf("INSERT INTO d.t VALUES (%d, 1), (%d, 1)", 100*int(r), 100*int(r)+1))
		c.Close()
		db.Close()
	}
	time.Sleep(5 * time.Second)
	for r := base.RegionID(1); r <= n; r++ {
		for _, holds := range []bool{true, false} {
			where := ""
			if !holds {
				where = ", at a node without a replica"
			}
			db, c := l.connTo(l.holder(r, holds))
			o := r%n + 1
			local := func(op string) budget {
				return budget{op: op + where, at: r, other: o, exact: true, formula: "0"}
			}
			// In steady use: closed timestamps come every 10 ms, and the definitions of the tables
			// are known.
			l.exec(c, "SET read_staleness = '5s'")
			for range 4 {
				l.exec(c, "SELECT SUM(v) FROM d.t")
				time.Sleep(300 * time.Millisecond)
			}
			l.selectOne(local("bounded-stale read (read_staleness = '5s'), row of another region"), c,
				fmt.Sprintf("SELECT v FROM d.t WHERE id = %d", 100*int(o)))
			l.selectOne(local("bounded-stale join of the rows of all regions"), c,
				"SELECT COUNT(*) FROM d.t a JOIN d.t b ON a.id = b.id + 1")
			l.exec(c, "SET read_staleness = ''")
			l.selectOne(local("read AS OF 3 s ago, rows of all regions"), c,
				"SELECT SUM(v) FROM d.t AS OF TIMESTAMP NOW(6) - INTERVAL 3 SECOND")
			l.selectOne(local("SELECT by primary key, own-region row"), c,
				fmt.Sprintf("SELECT v FROM d.t WHERE id = %d", 100*int(r)))
			row := fmt.Sprintf("SELECT v FROM d.t WHERE id = %d", 100*int(o))
			for range 3 { // so that reads of this kind are in steady use
				l.exec(c, row)
				time.Sleep(l.rtt(r, o) + 50*time.Millisecond)
			}
			b := budget{op: "strong SELECT of a row of another region" + where, at: r, other: o, maxRTTs: 0.5,
				formula: "half an RTT + heartbeat", want: l.rtt(r, o)/2 + heartbeat}
			l.selectOne(b, c, row)
			if !holds {
				// Its neighbour owns the row. It does not know the owner of a row of another
				// region, so it cannot forward the statement.
				l.statement(budget{op: "UPDATE by primary key, own-region row" + where, at: r, exact: true,
					maxRTTs: 1, formula: "quorum, and 2 trips to the neighbour",
					want: l.quorum(r) + 4*l.w.cfg.LAN}, c, fmt.Sprintf("UPDATE d.t SET v = v + 1 WHERE id = %d", 100*int(r)))
				l.statement(budget{op: "UPDATE by primary key, row of another region" + where, at: r, other: o,
					exact: true, maxRTTs: 3, formula: "2 RTT + quorum there",
					want: 2*l.rtt(r, o) + l.quorum(o)}, c, fmt.Sprintf("UPDATE d.t SET v = v + 1 WHERE id = %d", 100*int(o)+1))
			}
			c.Close()
			db.Close()
		}
	}
}

// selectOne measures a SELECT of one row.
func (l *rtLab) selectOne(b budget, c *sql.Conn, q string) {
	time.Sleep(100 * time.Millisecond)
	var v sql.NullString
	began := time.Now()
	err := c.QueryRowContext(context.Background(), q).Scan(&v)
	b.took = time.Since(began)
	if err == nil && !v.Valid {
		err = fmt.Errorf("%s returns NULL", q)
	}
	if err == nil {
		err = c.QueryRowContext(context.Background(), "SELECT @@last_statement_wan_rtts").Scan(&b.rtts)
	}
	l.check(b, err)
}
