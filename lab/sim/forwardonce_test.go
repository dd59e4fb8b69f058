package sim

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

// forwardedOnce is a run in which clients of regions 1 and 3 change rows of region 2, each rows of
// its own, while region 2 and the ways to it break. Whatever breaks, two regions reach each other.
type forwardedOnce struct {
	*stage
	l    *rtLab
	stop chan struct{}

	mu      sync.Mutex
	done    int            // statements that have succeeded
	asked   int            // of these, outcomes that had to be asked for, and of others
	unknown []string       // answers that leave the client in doubt
	errs    map[string]int // answers that say that nothing was done
	wrong   []string
	longest time.Duration
}

// changes are what a client does to its rows a and b, which are in different shards. Each adds one
// to both or to the first.
var changes = []struct {
	text string
	both bool
	rows int64 // that the client is told
}{
	{"UPDATE f SET v = v + 1 WHERE id = %[1]d", false, 1},
	{"UPDATE f SET v = v + 1 WHERE id IN (%[1]d, %[2]d)", true, 2},
	{"INSERT INTO f VALUES (%[1]d, 0) ON DUPLICATE KEY UPDATE v = v + 1", false, 2},
}

// Seeds are of clusters that lock, of such with sessions that cross regions without locks, and of
// both kinds that order by timestamps, in turn.

// client changes its rows until the end, and then compares them with what it was told.
func (f *forwardedOnce) client(region base.RegionID, a, b int) {
	db, c := f.l.sqlConn(region, "d")
	defer db.Close()
	defer c.Close()
	if f.cfg.Seed%4 == 1 {
		f.l.exec(c, "SET transaction_consistency = 'relay'")
	}
	r := rand.New(rand.NewPCG(f.cfg.Seed, uint64(a)))
	least, most := map[int]int{}, map[int]int{}
	for over := false; !over; {
		k := changes[r.IntN(len(changes))]
		q := fmt.Sprintf(k.text, a, b)
		began := time.Now()
		res, err := c.ExecContext(context.Background(), q)
		took := time.Since(began)
		rows := []int{a}
		if k.both {
			rows = append(rows, b)
		}
		if err != nil || took > 3*time.Second {
			f.log.printf("client %d: %s took %v: %v", a/5, q, took, err)
		}
		f.mu.Lock()
		f.longest = max(f.longest, took)
		switch n := number(err); {
		case err == nil:
			f.done++
			if got, _ := res.RowsAffected(); got != k.rows {
				f.wrong = append(f.wrong, fmt.Sprintf("%s at %v: %d rows, want %d", q, f.now(), got, k.rows))
			}
			for _, id := range rows {
				least[id]++
				most[id]++
			}
		case n == 1213 || n == 1205:
			f.errs[err.Error()]++
		default:
			f.unknown = append(f.unknown, fmt.Sprintf("%s at %v, after %v: %v", q, f.now(), took, err))
			for _, id := range rows {
				most[id]++
			}
		}
		f.mu.Unlock()
		select {
		case <-f.stop:
			over = true
		case <-time.After(time.Duration(r.IntN(20)) * time.Millisecond):
		}
	}
	for _, id := range []int{a, b} {
		if v := f.l.value(region, id); v < least[id] || v > most[id] {
			f.mu.Lock()
			f.wrong = append(f.wrong, fmt.Sprintf("v of row %d is %d; statements that certainly took effect: %d, "+
				"that may have: %d", id, v, least[id], most[id]))
			f.mu.Unlock()
		}
	}
}

// breakOnce breaks something for a while.
func (f *forwardedOnce) breakOnce(r *rand.Rand) {
	h := f.hosts[1]
	long := 300*time.Millisecond + time.Duration(r.IntN(6000))*time.Millisecond
	what, undo := "", func() {}
	switch other := base.RegionID(1 + 2*r.IntN(2)); r.IntN(9) {
	case 0, 1:
		what = "node 2 dies"
		h.crash()
		undo = h.boot
	case 2:
		what = "node 2 is silent"
		f.net.Isolate(2)
		undo = func() { f.net.Rejoin(2) }
	case 3:
		what = fmt.Sprintf("2 and %d are cut off from each other", other)
		f.net.Cut(2, other)
		undo = func() { f.net.Heal(2, other) }
	case 4:
		what = fmt.Sprintf("nothing goes from 2 to %d", other)
		f.net.CutOneWay(2, other)
		undo = func() { f.net.Heal(2, other) }
	case 5:
		what = fmt.Sprintf("nothing goes from %d to 2", other)
		f.net.CutOneWay(other, 2)
		undo = func() { f.net.Heal(2, other) }
	case 6:
		what = "the disk of node 2 stands still"
		h.freeze(long)
	case 7:
		what = "node 2 is slow"
		h.slow.Store(int64(200 * time.Millisecond))
		undo = func() { h.slow.Store(0) }
	case 8:
		what = "the leads of region 2 go to node 3"
		for s := range f.cfg.Shards {
			if from, to := f.hand(base.DataGroup(base.ShardID(s+1), 2)); from != nil {
				what += fmt.Sprintf("; shard %d: %d to %d", s+1, from.id, to.id)
			}
		}
	}
	f.log.printf("fault: %s, for %v", what, long)
	time.Sleep(long)
	undo()
	f.log.printf("fault over: %s", what)
}

// forwardOnce runs a seed.
func forwardOnce(t *testing.T, seed uint64, faults int, broken Break) *forwardedOnce {
	t.Helper()
	var f *forwardedOnce
	cfg := stageConfig(3)
	cfg.Seed, cfg.SQL, cfg.Stay, cfg.Shards, cfg.Break = seed, true, true, 2, broken
	cfg.Concurrency = []base.Concurrency{base.Locking, base.Locking, base.ByTimestamp, base.ByTimestampRelay}[seed%4]
	onWorld(t, cfg, func(s *stage) {
		time.Sleep(15 * time.Second) // leaders go home
		f = &forwardedOnce{stage: s, l: &rtLab{t: t, w: s.world}, stop: make(chan struct{}), errs: map[string]int{}}
		db, c := f.l.sqlConn(2, "")
		f.l.exec(c, "CREATE DATABASE d")
		f.l.exec(c, "CREATE TABLE d.f (id INT PRIMARY KEY, v INT)")
		for i := range 40 {
			f.l.exec(c, "INSERT INTO d.f VALUES (?, 0)", i)
		}
		c.Close()
		db.Close()
		time.Sleep(5 * time.Second)
		var clients sync.WaitGroup
		for i := range 8 {
			clients.Go(func() { f.client(base.RegionID(1+2*(i%2)), 5*i, 5*i+1) })
		}
		r := rand.New(rand.NewPCG(seed, 9))
		for range faults {
			time.Sleep(time.Second + time.Duration(r.IntN(4000))*time.Millisecond)
			f.breakOnce(r)
		}
		time.Sleep(15 * time.Second)
		close(f.stop)
		clients.Wait()
		for _, h := range s.hosts {
			f.asked += int(h.up().node.Commits().Ambiguous.Load())
		}
	})
	t.Logf("seed %d: %d statements, %d outcomes asked for, %d unknown, longest %v, errors %v", seed, f.done, f.asked,
		len(f.unknown), f.longest, f.errs)
	return f
}

// TestForwardedOnce: whatever breaks between a gateway and the region of the rows that a statement
// is about, the client is answered once, and what it is told is so: what succeeded took effect
// once, and what failed took none. It is never told that nobody knows, because two regions reach
// each other.
func TestForwardedOnce(t *testing.T) {
	if *flagDebug {
		LogLevel = slog.LevelDebug
	}
	asked := 0
	all := []uint64{3, 4, 13, 25, 34} // of which some statements took up to 6.6 s once
	if long() {
		all = nil
		for seed := range uint64(60) {
			all = append(all, seed)
		}
	}
	for _, seed := range all {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			f := forwardOnce(t, seed, 6, Break{})
			for _, w := range append(f.wrong, f.unknown...) {
				t.Error(w)
			}
			// A node that is slow for a second is left, and its rows are served again by its
			// release (TIME-1b): 3.0 s at most. But a statement may meet two faults: one of seed
			// 3 takes up to 4.4 s in one run of ten, since its region's node dies half a second
			// after it got its leads back. No statement may take more than 5 s.
			if f.longest > 5*time.Second {
				t.Errorf("a statement took %v", f.longest)
			}
			if t.Failed() && testing.Verbose() {
				t.Log(f.log.text())
			}
			asked += f.asked
		})
	}
	if asked == 0 {
		t.Error("no outcome had to be asked for")
	}
}

// TestForwardedOnceBites: without the rules of forwarded statements a client sees that one took
// effect twice.
func TestForwardedOnceBites(t *testing.T) {
	for _, b := range []struct {
		name  string
		rule  Break
		first uint64 // seed
	}{
		{"FWD-1: the executor's commit does not have the statement's name", Break{NoNames: true}, 0},
		{"FWD-3: who is told that a statement has not committed has not made sure that it will not", Break{NoRefusal: true}, 6},
	} {
		t.Run(b.name, func(t *testing.T) {
			for seed := b.first; seed < b.first+biteSeeds; seed++ {
				if f := forwardOnce(t, seed, 6, b.rule); len(f.wrong) > 0 {
					t.Log(f.wrong[0])
					return
				}
			}
			t.Errorf("%d seeds pass", biteSeeds)
		})
	}
}
