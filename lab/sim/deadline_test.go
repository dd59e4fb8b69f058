package sim

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

// patient is a client with one connection that repeats a statement.
type patient struct {
	what    string
	run     func(c *sql.Conn) error
	longest time.Duration // that it waited for an answer
	gap     time.Duration // the longest time between two successes
	errs    map[string]int
}

// repeat runs the statement until stop is closed.
func (p *patient) repeat(c *sql.Conn, stop <-chan struct{}) {
	last := time.Now()
	for {
		began := time.Now()
		err := p.run(c)
		p.longest = max(p.longest, time.Since(began))
		p.gap = max(p.gap, time.Since(last))
		if err == nil {
			last = time.Now()
		} else {
			p.errs[err.Error()]++
		}
		select {
		case <-stop:
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// outage plays a fault for 20 s while clients of region 1 use rows of regions 1, 2 and 3, each with
// one connection, and returns what they saw by kind of statement.
func outage(t *testing.T, fault func(s *stage)) (seen map[string]*patient) {
	seen = map[string]*patient{}
	forwardStage(t, func(s *stage, l *rtLab, c *sql.Conn) {
		for i, region := range []base.RegionID{1, 3} {
			db, c := l.sqlConn(region, "d")
			for j := range 9 {
				l.exec(c, "INSERT INTO f VALUES (?, 0)", 100*(i+1)+j)
			}
			c.Close()
			db.Close()
		}
		ctx := context.Background()
		exec := func(qs ...string) func(c *sql.Conn) error {
			return func(c *sql.Conn) error {
				for _, q := range qs {
					if _, err := c.ExecContext(ctx, q); err != nil {
						_, _ = c.ExecContext(ctx, "ROLLBACK")
						return fmt.Errorf("%.20s: %w", q, err)
					}
				}
				return nil
			}
		}
		query := func(q string) func(c *sql.Conn) error {
			return func(c *sql.Conn) error {
				var v int
				return c.QueryRowContext(ctx, q).Scan(&v)
			}
		}
		for what, run := range map[string]func(c *sql.Conn) error{
			"own row written":         exec("UPDATE f SET v = v + 1 WHERE id = 100"),
			"own row read":            query("SELECT v FROM f WHERE id = 101"),
			"foreign row forwarded":   exec("UPDATE f SET v = v + 1 WHERE id = 1"),
			"foreign row read":        query("SELECT v FROM f WHERE id = 2"),
			"foreign row transaction": exec("BEGIN", "UPDATE f SET v = v + 1 WHERE id = 3", "COMMIT"),
			"foreign row locked":      exec("BEGIN", "SELECT v FROM f WHERE id = 4 FOR UPDATE", "COMMIT"),
			"rows of two regions": exec("BEGIN", "UPDATE f SET v = v + 1 WHERE id = 5",
				"UPDATE f SET v = v + 1 WHERE id = 104", "COMMIT"),
			"third region forwarded": exec("UPDATE f SET v = v + 1 WHERE id = 200"),
		} {
			seen[what] = &patient{what: what, run: run, errs: map[string]int{}}
		}
		stop, done := make(chan struct{}), new(sync.WaitGroup)
		var ends []func() error
		for _, p := range seen {
			db, c := l.sqlConn(1, "d")
			ends = append(ends, c.Close, db.Close)
			done.Go(func() { p.repeat(c, stop) })
		}
		time.Sleep(3 * time.Second)
		fault(s)
		time.Sleep(20 * time.Second)
		s.net.HealAll()
		time.Sleep(10 * time.Second)
		close(stop)
		done.Wait()
		for _, f := range ends {
			_ = f()
		}
	})
	return seen
}

// TestNoStatementHangs: whatever makes a region silent, without a reset, no statement of a client
// of another one waits longer than five seconds for its answer; and where another node can take
// over, the client is served again.
func TestNoStatementHangs(t *testing.T) {
	const hang = 5 * time.Second
	for _, f := range []struct {
		name    string
		fault   func(s *stage)
		reaches bool // the others make a majority that reaches each other, and region 1 is one of them
	}{
		{"node 2 stopped", func(s *stage) { s.net.Isolate(2) }, true},
		{"region 2 cut off", func(s *stage) { s.net.Cut(1, 2); s.net.Cut(3, 2) }, true},
		{"one way to region 2", func(s *stage) { s.net.CutOneWay(1, 2) }, false},
		{"one way from region 2", func(s *stage) { s.net.CutOneWay(2, 1) }, false},
		{"region 1 cut off", func(s *stage) { s.net.Cut(1, 2); s.net.Cut(1, 3) }, false},
	} {
		t.Run(f.name, func(t *testing.T) {
			for _, p := range outage(t, f.fault) {
				t.Logf("%s, %s: longest %v, gap %v, errors %v", f.name, p.what, p.longest.Round(time.Millisecond),
					p.gap.Round(time.Millisecond), p.errs)
				if p.longest > hang {
					t.Errorf("%s: %s hung for %v", f.name, p.what, p.longest)
				}
				if f.reaches && p.gap > hang {
					t.Errorf("%s: %s was not served for %v", f.name, p.what, p.gap)
				}
			}
		})
	}
}
