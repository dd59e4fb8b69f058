package sim

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"
)

// ownDisk freezes the disk of region 3's node for 12 s, while clients of that region, each with one
// connection, repeat statements there, and returns what they saw.
func ownDisk(t *testing.T) (seen []*patient) {
	cfg := stageConfig(3)
	cfg.SQL, cfg.Stay = true, true
	onWorld(t, cfg, func(s *stage) {
		time.Sleep(15 * time.Second) // leaders go home
		l := &rtLab{t: t, w: s.world}
		db, c := l.sqlConn(3, "")
		l.exec(c, "CREATE DATABASE d")
		for _, q := range []string{"own (id INT PRIMARY KEY, v INT)", "lone (id INT PRIMARY KEY, v INT) REPLICATION ASYNC"} {
			l.exec(c, "CREATE TABLE d."+q)
		}
		for i := range 20 {
			l.exec(c, "INSERT INTO d.own VALUES (?, 0)", i)
			l.exec(c, "INSERT INTO d.lone VALUES (?, 0)", i)
		}
		c.Close()
		db.Close()
		time.Sleep(5 * time.Second)
		ctx := context.Background()
		n := 0
		for _, table := range []string{"own", "lone"} {
			for what, q := range map[string][]string{
				"read":        {"SELECT v FROM %s WHERE id = %d"},
				"write":       {"UPDATE %s SET v = v + 1 WHERE id = %d"},
				"transaction": {"BEGIN", "UPDATE %s SET v = v + 1 WHERE id = %d", "COMMIT"},
				"locking":     {"BEGIN", "SELECT v FROM %s WHERE id = %d FOR UPDATE", "COMMIT"},
			} {
				n++
				p := &patient{what: what + " of " + table, errs: map[string]int{}}
				row := n
				p.run = func(c *sql.Conn) error {
					for _, q := range q {
						if len(q) > 6 {
							q = fmt.Sprintf(q, table, row)
						}
						if _, err := c.ExecContext(ctx, q); err != nil {
							_, _ = c.ExecContext(ctx, "ROLLBACK")
							return fmt.Errorf("%.20s: %w", q, err)
						}
					}
					return nil
				}
				seen = append(seen, p)
			}
		}
		stop, done := make(chan struct{}), new(sync.WaitGroup)
		for _, p := range seen {
			db, c := l.sqlConn(3, "d")
			defer db.Close()
			defer c.Close()
			done.Go(func() { p.repeat(c, stop) })
		}
		time.Sleep(3 * time.Second)
		s.hosts[2].freeze(12 * time.Second)
		time.Sleep(20 * time.Second)
		close(stop)
		done.Wait()
	})
	return seen
}

// TestOwnDiskStalls: the disk of a node takes nothing. No statement of its own clients waits longer
// than five seconds for its answer, be it on rows that it serves alone.
func TestOwnDiskStalls(t *testing.T) {
	for _, p := range ownDisk(t) {
		t.Logf("%s: longest %v, gap %v, errors %v", p.what, p.longest.Round(time.Millisecond), p.gap.Round(time.Millisecond),
			p.errs)
		if p.longest > 5*time.Second {
			t.Errorf("%s hung for %v", p.what, p.longest)
		}
	}
}
