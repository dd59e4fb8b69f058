package sim

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

// counting is a quiet cluster with a table t of AUTO_INCREMENT keys, an index beside its rows and a
// connection to each region.
type counting struct {
	*rtLab
	conns []*sql.Conn
	seen  map[int64]base.RegionID
}

func onCounting(t *testing.T, regions int, play func(c *counting)) {
	t.Helper()
	onStageTuned(t, regions, 1, func(cfg *Config) { cfg.Shards, cfg.SQL, cfg.Stay = 3, true, true }, func(s *stage) {
		c := &counting{rtLab: &rtLab{t: s.t, w: s.world}, seen: map[int64]base.RegionID{}}
		for r := 1; r <= regions; r++ {
			db, conn := c.sqlConn(base.RegionID(r), "")
			defer db.Close()
			defer conn.Close()
			if r == 1 {
				c.exec(conn, "CREATE DATABASE d")
				c.exec(conn, "CREATE TABLE d.t (id BIGINT AUTO_INCREMENT PRIMARY KEY, v INT, KEY (id, v))")
				time.Sleep(5 * time.Second)
			}
			c.conns = append(c.conns, conn)
		}
		play(c)
	})
}

// insert makes a row at a region; extra is whether it may cost more than the quorum.
func (c *counting) insert(r base.RegionID, extra bool) {
	c.t.Helper()
	conn := c.conns[r-1]
	began := time.Now()
	res, err := conn.ExecContext(context.Background(), "INSERT INTO d.t (v) VALUES (?)", r)
	took := time.Since(began)
	var rtts float64
	var id int64
	if err == nil {
		id, _ = res.LastInsertId()
		err = conn.QueryRowContext(context.Background(), "SELECT @@last_statement_wan_rtts").Scan(&rtts)
	}
	switch {
	case err != nil:
		c.t.Errorf("INSERT at region %d: %v", r, err)
	case c.seen[id] != 0:
		c.t.Errorf("value %d was given to regions %d and %d", id, c.seen[id], r)
	case !extra && (rtts > 1 || took > 120*time.Millisecond):
		c.t.Errorf("INSERT of %d at region %d cost %v round trips and %v, want the quorum: 1 and 100 ms", id, r, rtts, took)
	}
	c.seen[id] = r
}

// TestAutoIncrementTurns: regions that take turns inserting pay for no trip, fast or slowly.
func TestAutoIncrementTurns(t *testing.T) {
	for n := some(3, 2); n <= 3; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			onCounting(t, n, func(c *counting) {
				for r := range n {
					// the first value is leased while the statement waits
					c.insert(base.RegionID(r+1), true)
				}
				time.Sleep(2 * time.Second)
				for _, pause := range []time.Duration{3 * time.Second, 0, 90 * time.Second} {
					rounds := 40
					if pause > time.Minute {
						rounds = some(8, 40) // an hour of virtual time takes long even in real time
					}
					for i := range rounds {
						for r := range n {
							// A burst waits for larger blocks at its beginning: a lease is a commit
							// of the meta group, which lies ahead of now.
							c.insert(base.RegionID(r+1), pause == 0 && i < 8)
						}
						time.Sleep(pause)
					}
				}
			})
		})
	}
}

// TestAutoIncrementBurst: a region that inserts without a pause pays while its blocks grow, and
// then no more.
func TestAutoIncrementBurst(t *testing.T) {
	onCounting(t, 3, func(c *counting) {
		for i := range 300 {
			c.insert(2, i < 20)
			if i%50 == 49 {
				c.insert(3, true)
			}
		}
	})
}

// TestAutoIncrementGiven: a value that clients give is inserted once, whichever region it comes
// from, even within a block that another region has leased. Generated values lie above those given
// through the same node.
func TestAutoIncrementGiven(t *testing.T) {
	onCounting(t, 3, func(c *counting) {
		for i := range 6 {
			c.insert(base.RegionID(i%3+1), true)
			time.Sleep(2 * time.Second)
		}
		var top int64
		for id := range c.seen {
			top = max(top, id)
		}
		v := 1000 + top
		for i := range 40 {
			r := base.RegionID(i%3 + 1)
			for v++; c.seen[v] != 0; v++ { // skip values generated meanwhile
			}
			c.exec(c.conns[r-1], "INSERT INTO d.t VALUES (?, 0)", v)
			if _, err := c.conns[r%3].ExecContext(context.Background(), "INSERT INTO d.t VALUES (?, 0)", v); number(err) != 1062 {
				c.t.Errorf("value %d again: %v", v, err)
			}
			if i%7 == 0 {
				res, err := c.conns[r-1].ExecContext(context.Background(), "INSERT INTO d.t (v) VALUES (1)")
				if err != nil {
					c.t.Error(err)
					continue
				}
				if id, _ := res.LastInsertId(); id <= v {
					c.t.Errorf("after %d region %d is given %d", v, r, id)
				} else {
					c.seen[id] = r
				}
			}
		}
	})
}

// TestAutoIncrementRestart: a node that comes back leases new values. A region that is gone blocks
// no other region.
func TestAutoIncrementRestart(t *testing.T) {
	onCounting(t, 3, func(c *counting) {
		turns := func(n int, regions ...base.RegionID) {
			for range n {
				for _, r := range regions {
					c.insert(r, false)
				}
				time.Sleep(3 * time.Second)
			}
		}
		first := func(regions ...base.RegionID) {
			for _, r := range regions {
				c.insert(r, true)
			}
			time.Sleep(2 * time.Second)
		}
		first(1, 2, 3)
		turns(12, 1, 2, 3)
		c.w.hosts[1].crash()
		time.Sleep(10 * time.Second)
		// a block of theirs may begin in a gap of region 2, which has another leader now
		first(1, 3)
		turns(12, 1, 3)
		c.w.hosts[1].boot()
		time.Sleep(20 * time.Second)
		db, conn := c.sqlConn(2, "")
		defer db.Close()
		defer conn.Close()
		c.conns[1] = conn
		first(1, 2, 3)
		turns(12, 1, 2, 3)
	})
}
