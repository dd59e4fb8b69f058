package sim

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

// TestSkylineOverSQL: a node without a replica reads at its neighbour. When the neighbour becomes
// slow or dies, reads of the past go to other nodes, as godwit.replicas shows. Later
// they come back.
func TestSkylineOverSQL(t *testing.T) {
	cfg := Config{Seed: 1, Regions: 3, NodesPerRegion: 2, Shards: 1, Delay: even(3, 20*time.Millisecond),
		LAN:        250 * time.Microsecond,
		ClockBound: 100 * time.Microsecond, GCAge: time.Hour, SQL: true, Stay: true}
	l := &rtLab{t: t}
	bubble(t, 1, func(*testing.T) {
		l.w = newWorld(cfg)
		defer l.w.close()
		for _, h := range l.w.hosts {
			h.boot()
		}
		time.Sleep(20 * time.Second) // leaders go home
		near, here := l.holder(1, true), l.holder(1, false)
		db, c := l.connTo(here)
		defer db.Close()
		defer c.Close()
		l.exec(c, "CREATE DATABASE d")
		l.exec(c, "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
		for r := base.RegionID(1); r <= 3; r++ {
			db, c := l.connTo(l.holder(r, true))
			l.exec(c, fmt.Sprintf("INSERT INTO d.t VALUES (%d, 1)", r))
			c.Close()
			db.Close()
		}
		time.Sleep(5 * time.Second)
		one := func(q string) (s string, took time.Duration) {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			began := time.Now()
			if err := c.QueryRowContext(ctx, q).Scan(&s); err != nil {
				t.Errorf("%s: %v", q, err)
			}
			return s, time.Since(began)
		}
		read := func(when, age string, atMost time.Duration) {
			if s, took := one("SELECT SUM(v) FROM d.t AS OF TIMESTAMP '-" + age + "'"); s != "3" || took > atMost {
				t.Errorf("%s: a read of %s ago shows %s after %v, want 3 after at most %v", when, age, s, took, atMost)
			}
		}
		shown := func(when, want string) {
			if got, _ := one(fmt.Sprintf("SELECT CONCAT(healthy, skyline, latency_ms > 100, staleness_ms > 1000) "+
				"FROM godwit.replicas WHERE node = %d", near.id)); got != want {
				all, _ := one("SELECT GROUP_CONCAT(CONCAT(node, ' ', healthy, ' ', skyline, ' ', latency_ms, ' ', " +
					"staleness_ms) SEPARATOR '; ') FROM godwit.replicas")
				t.Errorf("%s: the neighbour is %q (healthy, on the skyline, slow, stale), want %q: %s", when, got, want, all)
			}
		}
		const trip = 40*time.Millisecond + 5*time.Millisecond
		for range 5 {
			read("at first", "2s", 2*time.Millisecond)
		}
		shown("at first", "1100")

		near.slow.Store(int64(400 * time.Millisecond))
		time.Sleep(10 * time.Second)
		shown("slow", "1011") // what waits to be handled is stale, too
		read("slow", "3s", trip)
		near.slow.Store(0)
		time.Sleep(15 * time.Second)
		shown("fast again", "1100")
		read("fast again", "2s", 2*time.Millisecond)

		for _, h := range l.w.hosts { // the neighbour hears only this node
			if h != near && h != here {
				l.w.net.CutNodes(near.id, h.id)
			}
		}
		time.Sleep(20 * time.Second)
		read("cut off from all others", "1s", trip)
		shown("cut off from all others", "1100") // what it needs takes a detour over this node
		for _, h := range l.w.hosts {
			l.w.net.HealNodes(near.id, h.id)
		}
		time.Sleep(15 * time.Second)
		read("fresh again", "2s", 2*time.Millisecond)

		near.crash()
		time.Sleep(15 * time.Second)
		read("dead", "1s", trip)
		if got, _ := one(fmt.Sprintf("SELECT CONCAT(healthy, skyline) FROM godwit.replicas WHERE node = %d",
			near.id)); got != "00" {
			t.Errorf("a dead neighbour is %q (healthy, on the skyline)", got)
		}
		near.boot()
		time.Sleep(20 * time.Second)
		shown("back", "1100")
		read("back", "2s", 2*time.Millisecond)
	})
	if err := l.w.err(); err != nil {
		t.Error(err)
	}
}
