package relay

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
)

// tally is what was measured of transactions of one kind.
type tally struct {
	done   []time.Duration // latencies of those that committed, with their retries; sorted by [loop.run]
	tries  int             // attempts that ended while transactions were counted
	aborts int             // how many of them failed
}

// aborted is the share of the attempts that were aborted, in percent.
func (t *tally) aborted() float64 { return 100 * float64(t.aborts) / float64(max(1, t.tries)) }

// ms is a quantile of the latencies in ms; 0 if nothing committed.
func (t *tally) ms(q float64) float64 {
	if len(t.done) == 0 {
		return 0
	}
	return t.done[min(len(t.done)-1, int(q*float64(len(t.done))))].Seconds() * 1e3
}

// mean is the mean latency in ms.
func (t *tally) mean() float64 {
	var sum time.Duration
	for _, d := range t.done {
		sum += d
	}
	return sum.Seconds() * 1e3 / float64(max(1, len(t.done)))
}

// loop is a set of clients that run one transaction after the other, in virtual time. Processors
// are free there, so the loop measures who waits for whom, and how often.
type loop struct {
	regions, clients int // clients of each region
	// A transaction counts if it ends within length after the warm-up.
	warm, length time.Duration
	seed         uint64 // of the clients' choices
}

// worker is one client of a loop.
type worker struct {
	region, number int
	rng            *rand.Rand
	// tried is called with every attempt of a transaction: nil, or its error.
	tried func(error)
}

// stagger is the time over which clients begin, so that they do not work in step.
const stagger = 50 * time.Millisecond

// run has the clients work. one draws a transaction, runs it until it commits or ctx ends, and
// returns its kind. The first error that is not due to the end of the time ends the run and is
// returned.
func (l loop) run(one func(ctx context.Context, c *worker) (kind int, err error)) (kinds [2]tally, err error) {
	var (
		mu sync.Mutex
		wg sync.WaitGroup
	)
	ctx, cancel := context.WithTimeout(context.Background(), l.warm+l.length)
	defer cancel()
	from := time.Now().Add(l.warm)
	counts := func() bool { return ctx.Err() == nil && !time.Now().Before(from) }
	work := func(c *worker) {
		var tries, aborts int // of the present transaction
		c.tried = func(err error) {
			if !counts() {
				return
			}
			tries++
			if err != nil {
				aborts++
			}
		}
		for ctx.Err() == nil {
			tries, aborts = 0, 0
			begin := time.Now()
			kind, failed := one(ctx, c)
			mu.Lock()
			k := &kinds[kind]
			k.tries, k.aborts = k.tries+tries, k.aborts+aborts
			switch {
			case failed == nil && counts():
				k.done = append(k.done, time.Since(begin))
			case failed != nil && ctx.Err() == nil:
				err = cmp.Or(err, failed)
				cancel()
			}
			mu.Unlock()
		}
	}
	for region := range l.regions {
		for n := range l.clients {
			c := &worker{region: region, number: n, rng: rand.New(rand.NewPCG(uint64(region)<<32|uint64(n), l.seed))}
			wg.Go(func() {
				time.Sleep(time.Duration(c.rng.Int64N(int64(stagger))))
				work(c)
			})
		}
	}
	wg.Wait()
	for i := range kinds {
		slices.Sort(kinds[i].done)
	}
	return kinds, err
}

// Pauses between the attempts of a transaction, as the database itself makes them.
const (
	pauseMin = time.Millisecond
	pauseMax = 500 * time.Millisecond
)

// retry repeats a transaction until it commits, fails for good, or ctx ends. pause says how long to
// wait after an error, by a bound that doubles with every attempt.
func (c *worker) retry(ctx context.Context, try func() error, pause func(err error, wait time.Duration) time.Duration) error {
	for wait := pauseMin; ; wait = min(2*wait, pauseMax) {
		err := try()
		c.tried(err)
		if err == nil || !base.Retryable(err) {
			return err
		}
		time.Sleep(pause(err, wait))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}
