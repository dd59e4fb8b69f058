package relay

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/policy/matrix"
)

// TestTierWorld checks the world of benchmark relay: latencies follow from the distances alone, and
// transactions cross in tiers only if asked to.
func TestTierWorld(t *testing.T) {
	m, err := matrix.Open(matrix.Relay)
	if err == nil {
		m, err = m.Pick("Ohio", "Paris")
	}
	if err != nil {
		t.Fatal(err)
	}
	var alone, strict, relay *tierResult
	if err := rig.Virtual(func() error {
		w, err := openTiers(context.Background(), m, 1000)
		if err != nil {
			return err
		}
		l := tierLoad{policy: kv.WaitDie, clients: 1, theta: .3, warm: time.Second, length: 4 * time.Second}
		for _, x := range []struct {
			res   **tierResult
			relay bool
			cross float64
		}{{&alone, true, 0}, {&strict, false, 1}, {&relay, true, 1}} {
			l.relay, l.cross = x.relay, x.cross
			if *x.res, err = w.run(l); err != nil {
				return errors.Join(err, w.Close())
			}
		}
		return w.Close()
	}); err != nil {
		t.Fatal(err)
	}
	if n := len(alone.kinds[1].done); n != 0 || len(strict.kinds[0].done) != 0 {
		t.Errorf("%d of no transactions cross", n)
	}
	// Ten statements, a COMMIT, and the log: twelve round trips of 1.48 ms.
	if got := alone.kinds[0].ms(0); got < 17 || got > 18.5 {
		t.Errorf("a transaction in Ohio takes %.2f ms", got)
	}
	// Five statements and a round of the commit over 92 ms, or a snapshot and one round: votes are
	// seen in the copies here.
	if s, r := strict.kinds[1].ms(.5), relay.kinds[1].ms(.5); s < 6*90 || r < 1.5*90 || r > .7*s {
		t.Errorf("a crossing transaction takes %.0f ms with locks, %.0f ms in a tier of its own", s, r)
	}
}

func TestTierDraw(t *testing.T) {
	w := &tierWorld{rows: 100, DBs: make([]kv.DB, 3), zipfs: map[float64]func(*rand.Rand) int{}}
	rng := rand.New(rand.NewPCG(1, 2))
	crossed := 0
	for range 1000 {
		kind, ops := w.next(rng, 1, .3, w.zipf(.75))
		crossed += kind
		seen, regions, writes := map[string]bool{}, map[string]int{}, 0
		for _, o := range ops {
			seen[string(o.key)] = true
			regions[string(o.key[:len(w.key(0, 0))-8])]++
			if o.write {
				writes++
			}
		}
		if len(seen) != tierOps || writes != tierOps/2 || len(regions) != kind+1 {
			t.Fatalf("kind %d: %d rows, %d writes, %d regions", kind, len(seen), writes, len(regions))
		}
	}
	if crossed < 250 || crossed > 350 {
		t.Errorf("%d of 1000 transactions cross", crossed)
	}
}
