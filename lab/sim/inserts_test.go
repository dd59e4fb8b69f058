package sim

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

// insertPauses kills the node that leads the meta group while each other region inserts rows with a
// statement, given the region and a number that the region has not used, and tells for how long
// none was inserted, and how many were.
func insertPauses(t *testing.T, seed uint64, silent bool, columns, insert string) (pause time.Duration, rows int) {
	tune := func(cfg *Config) {
		cfg.Seed, cfg.Shards, cfg.SQL, cfg.Stay = seed, 3, true, true
		ab, bc, ac := 15*time.Millisecond, 30*time.Millisecond, 45*time.Millisecond
		cfg.Delay = [][]time.Duration{{0, ab, ac}, {ab, 0, bc}, {ac, bc, 0}}
	}
	onStageTuned(t, 3, 1, tune, func(s *stage) {
		l := &rtLab{t: t, w: s.world}
		db, c := l.sqlConn(1, "")
		l.exec(c, "CREATE DATABASE d")
		l.exec(c, "CREATE TABLE d.t ("+columns+")")
		c.Close()
		db.Close()
		meta := s.metaLeader()
		time.Sleep(5 * time.Second) // the catalog's hold is back
		stop := make(chan struct{})
		var mu sync.Mutex
		var done sync.WaitGroup
		var killed time.Time
		for _, h := range s.hosts {
			done.Go(func() {
				db, c := l.sqlConn(h.region, "d")
				defer db.Close()
				defer c.Close()
				last := time.Now()
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					case <-time.After(40 * time.Millisecond):
					}
					if h == meta && h.up() == nil {
						return
					}
					_, err := c.ExecContext(context.Background(), fmt.Sprintf(insert, h.region, n))
					mu.Lock()
					if !killed.IsZero() && h != meta {
						pause = max(pause, time.Since(last))
					}
					if err == nil {
						last = time.Now()
						rows++
					}
					mu.Unlock()
				}
			})
		}
		time.Sleep(2500*time.Millisecond + time.Duration(seed)*130*time.Millisecond)
		mu.Lock()
		killed = time.Now()
		mu.Unlock()
		s.killHost(meta, silent)
		time.Sleep(10 * time.Second)
		close(stop)
		done.Wait()
	})
	return pause, rows
}

// TestInsertsOutliveAnotherRegion: regions that insert keys which no other region comes between go
// on when the node of another one dies, which also leads the meta group: values of AUTO_INCREMENT,
// UUID(), and keys that begin with the region. They have inserted for a few seconds only, and
// blocks of
// AUTO_INCREMENT values, which the dead node's groups give away, are large enough by then. Keys
// that lie between those of the dead node belong
// to it (HOME-5a), and wait for its leases.
func TestInsertsOutliveAnotherRegion(t *testing.T) {
	const own, foreign = 500 * time.Millisecond, 3 * time.Second
	for _, c := range []struct {
		name, columns, insert string
		most                  time.Duration
	}{
		{"AUTO_INCREMENT", "id BIGINT AUTO_INCREMENT PRIMARY KEY, r INT, n INT", "INSERT INTO t (r, n) VALUES (%d, %d)", own},
		{"UUID()", "id VARCHAR(36) PRIMARY KEY, r INT, n INT", "INSERT INTO t VALUES (UUID(), %d, %d)", own},
		{"a prefix of the region", "r INT, n INT, PRIMARY KEY (r, n)", "INSERT INTO t VALUES (%d, %d)", own},
		{"keys in turn", "id BIGINT PRIMARY KEY, r INT, n INT", "INSERT INTO t VALUES (%[2]d * 3 + %[1]d, %[1]d, %[2]d)", foreign},
	} {
		for _, silent := range []bool{false, true} {
			for seed := range uint64(some(1, 12)) {
				pause, rows := insertPauses(t, seed+1, silent, c.columns, c.insert)
				t.Logf("%s, silent %v, seed %d: others pause for %v, %d rows", c.name, silent, seed+1, pause, rows)
				if pause > c.most || rows < 200 {
					t.Errorf("%s, silent %v, seed %d: %d rows; others pause for %v, at most %v is right", c.name, silent,
						seed+1, rows, pause, c.most)
				}
			}
		}
	}
}
