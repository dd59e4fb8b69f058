package sim

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

// TestTwoVoters: rows that may lie in two regions only have no majority when one of these dies. No
// statement on them waits longer than five seconds for its error, wherever it comes from, and
// whether connections break or not, also if it waits for a lock at a leader that loses its
// majority.
func TestTwoVoters(t *testing.T) {
	const hang = 5 * time.Second
	if testing.Short() {
		t.Skip("it takes 10 seconds")
	}
	ctx := context.Background()
	for _, silent := range []bool{false, true} {
		for seed := range uint64(some(2, 20)) {
			cfg := stageConfig(3)
			cfg.Seed, cfg.SQL, cfg.Stay = seed+1, true, true
			onWorld(t, cfg, func(s *stage) {
				time.Sleep(15 * time.Second)
				l := &rtLab{t: t, w: s.world}
				db, c := l.sqlConn(1, "")
				l.exec(c, "CREATE DATABASE d")
				l.exec(c, "CREATE PLACEMENT p REGIONS ('r1', 'r2')")
				l.exec(c, "CREATE TABLE d.f (id INT PRIMARY KEY, v INT) PLACEMENT p")
				l.exec(c, "CREATE TABLE d.g (id INT PRIMARY KEY, v INT)")
				c.Close()
				db.Close()
				for r := base.RegionID(1); r <= 3; r++ {
					db, c := l.sqlConn(r, "d")
					for i := range 40 {
						l.exec(c, "INSERT INTO f VALUES (?, 0)", 100*int(r)+i)
						l.exec(c, "INSERT INTO g VALUES (?, 0)", 100*int(r)+i)
					}
					c.Close()
					db.Close()
				}
				time.Sleep(5 * time.Second)
				var killed time.Time
				exec := func(c *sql.Conn, q string) {
					began := time.Now()
					_, err := c.ExecContext(ctx, q)
					if took := time.Since(began); took > hang {
						t.Errorf("silent %v, seed %d, %v after the death: %s took %v: %v", silent, seed+1,
							began.Sub(killed), q, took, err)
					}
				}
				stop, done := make(chan struct{}), new(sync.WaitGroup)
				for _, from := range []int{1, 3} {
					for of := 1; of <= 3; of++ {
						// f and g are a row of either table that nobody else uses.
						for n, q := range []string{
							"UPDATE f SET v = v + 1 WHERE id = $f",
							"SELECT v FROM f WHERE id = $f",
							"SELECT SUM(v) FROM f",
							"BEGIN; UPDATE f SET v = v + 1 WHERE id = $f; UPDATE g SET v = v + 1 WHERE id = $g; COMMIT",
							"BEGIN; UPDATE g SET v = v + 1 WHERE id = $g; UPDATE f SET v = v + 1 WHERE id = $f; COMMIT",
							"BEGIN; SELECT v FROM f WHERE id = $f FOR UPDATE; COMMIT",
							"REPLACE INTO f VALUES (1$f, 1)",
						} {
							f, g := 100*of+10*from+n, 100*from+10*of+n
							q = strings.NewReplacer("$f", fmt.Sprint(f), "$g", fmt.Sprint(g)).Replace(q)
							db, c := l.sqlConn(base.RegionID(from), "d")
							done.Go(func() {
								defer db.Close()
								defer c.Close()
								for {
									for q := range strings.SplitSeq(q, "; ") {
										exec(c, q)
									}
									select {
									case <-stop:
										return
									case <-time.After(50 * time.Millisecond):
									}
								}
							})
						}
					}
				}
				time.Sleep(2*time.Second + time.Duration(seed)*130*time.Millisecond)
				killed = time.Now()
				s.killHost(s.hosts[1], silent)
				time.Sleep(20 * time.Second)
				s.hosts[1].boot()
				time.Sleep(15 * time.Second)
				close(stop)
				done.Wait()
			})
		}
	}
}
