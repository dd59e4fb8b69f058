package sim

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

// TestStrongReadTakesTheCheaper: a strong read of a row of another region has two ways. It asks the
// owner if a round trip is shorter than the wait for the local replica, which is a one-way delay
// and a heartbeat. Otherwise it waits for the replica. Both happen at the same time for the same
// row.
func TestStrongReadTakesTheCheaper(t *testing.T) {
	const near, far = 4 * time.Millisecond, 50 * time.Millisecond
	cfg := stageConfig(3)
	cfg.SQL, cfg.Stay = true, true
	cfg.Delay = even(3, far)
	cfg.Delay[0][1], cfg.Delay[1][0] = near, near
	onWorld(t, cfg, func(s *stage) {
		time.Sleep(15 * time.Second) // leaders go home
		l := &rtLab{t: t, w: s.world}
		owner, c := l.sqlConn(2, "")
		defer owner.Close()
		defer c.Close()
		l.exec(c, "CREATE DATABASE d")
		l.exec(c, "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
		l.exec(c, "INSERT INTO d.t VALUES (1, 0)")
		time.Sleep(5 * time.Second)
		for _, x := range []struct {
			at          base.RegionID
			rtts        float64
			least, most time.Duration
		}{
			{1, 1, 2 * near, 2*near + slack},
			{3, 0.5, far, far + heartbeat + 2*cfg.ClockBound + slack},
		} {
			db, r := l.sqlConn(x.at, "d")
			for range 4 { // in steady use: closed timestamps come every 10 ms
				l.exec(r, "SELECT v FROM t WHERE id = 1")
				time.Sleep(150 * time.Millisecond)
			}
			for n := range 20 {
				l.exec(c, "UPDATE d.t SET v = ? WHERE id = 1", n)
				var v int
				var rtts float64
				began := time.Now()
				err := r.QueryRowContext(context.Background(), "SELECT v FROM t WHERE id = 1").Scan(&v)
				took := time.Since(began)
				if err == nil {
					err = r.QueryRowContext(context.Background(), "SELECT @@last_statement_wan_rtts").Scan(&rtts)
				}
				if err != nil || v != n || rtts != x.rtts || took < x.least || took > x.most {
					t.Errorf("region %d reads %d, want %d, in %v and %v round trips, want %v to %v and %v (%v)", x.at,
						v, n, took, rtts, x.least, x.most, x.rtts, err)
				}
				time.Sleep(37 * time.Millisecond)
			}
			if plan := explain(t, r, "EXPLAIN PLAN SELECT v FROM t WHERE id = 1"); strings.Contains(plan,
				"from the local replica when it is complete") != (x.rtts < 1) {
				t.Errorf("region %d explains %s", x.at, plan)
			}
			r.Close()
			db.Close()
		}
	})
}

// explain is the text of a plan.
func explain(t *testing.T, c *sql.Conn, q string) string {
	rows, err := c.QueryContext(context.Background(), q)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer rows.Close()
	var lines []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Error(err)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
