package workload

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// txn is one transaction with all its inputs drawn.
type txn struct {
	kind int
	// single marks a transaction of one statement, sent without START TRANSACTION and COMMIT.
	single bool
	// run sends the statements. It may be called several times.
	run func(ctx context.Context, s *session) error
	// done, if set, is called once when no further attempt will be made.
	done func()
	// idle marks that there was nothing to do: only thinking counts.
	idle bool
	// roundTrips, if set, asks after a success how many WAN round trips it has waited for. It is no
	// part of the latency.
	roundTrips func(ctx context.Context, s *session) (float64, error)
	// keying and thinking are the waits before and after (TPC-C 5.2.5), zero unless asked for.
	keying, thinking time.Duration
}

// runner is the Workload around a scenario.
type runner struct {
	name     string
	opts     Options
	scenario scenario
	// dial is openTargets except in tests.
	dial func([]Target, Options) ([]*pool, error)
}

func (w *runner) Name() string    { return w.name }
func (w *runner) Kinds() []string { return w.scenario.kinds() }

// run is the state of one Run.
type run struct {
	opts  RunOptions
	pools []*pool
	seed  uint64
	rec   atomic.Pointer[recorder]
	// soft is done when no new transaction may start, hard when those in flight must stop.
	soft, hard context.Context
	// ends soft; the cause is the run's error, errEnded if there is none
	stop context.CancelCauseFunc
}

var errEnded = errors.New("the run is over")

func (w *runner) Run(ctx context.Context, targets []Target, opts RunOptions) (*Report, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	pools, err := w.dial(targets, w.opts)
	if err != nil {
		return nil, err
	}
	defer closePools(pools)
	server, err := w.open(ctx, pools)
	if err != nil {
		return nil, err
	}

	r := &run{opts: opts, pools: pools, seed: w.opts.Seed}
	var stopHard context.CancelFunc
	r.hard, stopHard = context.WithCancel(context.WithoutCancel(ctx))
	defer stopHard()
	r.soft, r.stop = context.WithCancelCause(ctx)
	defer r.stop(errEnded)
	regions := make([]string, len(pools))
	for i, p := range pools {
		regions[i] = p.region
	}
	r.rec.Store(newRecorder(regions, w.scenario.kinds()))

	report := &Report{Workload: w.name, Server: server, Seed: w.opts.Seed}
	var clients sync.WaitGroup
	for region, p := range pools {
		n := w.clients(region, len(pools), opts)
		report.Clients += n
		for i := range n {
			c, s := w.scenario.client(region, i, n), p.session(i)
			clients.Go(func() { r.client(region, i, c, s) })
		}
	}
	if opts.Warmup > 0 {
		r.watch(opts.Warmup, true)
		if r.soft.Err() == nil {
			r.rec.Store(newRecorder(regions, w.scenario.kinds()))
		}
	}
	begin := time.Now()
	r.watch(opts.Duration, false)
	// What commits during the grace period belongs to the run, so the elapsed time includes it.
	r.stop(errEnded)
	grace := time.AfterFunc(opts.Grace, stopHard)
	clients.Wait()
	grace.Stop()
	report.Elapsed = time.Since(begin)

	rec := r.rec.Load()
	report.Total, report.Kinds, report.Regions = rec.summary(nil, rec.read(), report.Elapsed)
	report.Errors = rec.errorList()
	if w.name == "tpcc" {
		report.TpmC = report.Kinds[kindNewOrder].Rate * 60
	}
	if err := w.finish(ctx, pools, report); err != nil {
		return report, err
	}
	if cause := context.Cause(r.soft); !errors.Is(cause, errEnded) && ctx.Err() == nil {
		return report, cause
	}
	return report, nil
}

// open lets the scenario read the tables and asks the server what it is.
func (w *runner) open(ctx context.Context, pools []*pool) (string, error) {
	s, err := pools[0].connected(ctx)
	if err != nil {
		return "", err
	}
	defer s.reset()
	server, err := serverName(ctx, s)
	if err != nil {
		return "", err
	}
	err = w.scenario.open(ctx, s, len(pools))
	for range 20 {
		if !Retryable(err) || !sleep(ctx, maxBackoff) {
			break
		}
		err = w.scenario.open(ctx, s, len(pools))
	}
	if isUnknownTable(err) {
		return "", fmt.Errorf("%w: load the tables with `godwit workload init %s` first", err, w.name)
	}
	return server, err
}

// clients is the number of connections of a region.
func (w *runner) clients(region, regions int, opts RunOptions) int {
	if opts.ClientsPerTarget > 0 {
		return opts.ClientsPerTarget
	}
	if t, ok := w.scenario.(*tpcc); ok && t.opts.Wait {
		return tpccDistricts * len(t.warehousesOf(region, regions))
	}
	return 1
}

// watch waits until the run ends, for at most d (0 for no limit), and calls Progress.
func (r *run) watch(d time.Duration, warmup bool) {
	begin := time.Now()
	var end <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		end = t.C
	}
	tick := time.NewTicker(r.opts.Interval)
	defer tick.Stop()
	rec := r.rec.Load()
	last, lastAt := rec.read(), begin
	for {
		select {
		case <-r.soft.Done():
			return
		case <-end:
			return
		case <-tick.C:
			if r.opts.Progress == nil {
				continue
			}
			now, cur := time.Now(), rec.read()
			s := Snapshot{Elapsed: now.Sub(begin), Warmup: warmup, Interval: now.Sub(lastAt)}
			s.Total, s.Kinds, s.Regions = rec.summary(last, cur, s.Interval)
			last, lastAt = cur, now
			r.opts.Progress(s)
		}
	}
}

// client runs transactions until the run ends.
func (r *run) client(region, i int, c client, s *session) {
	defer s.reset()
	rng := newRand(r.seed, 0xbac0ff, uint64(region), uint64(i))
	for failures := 0; r.soft.Err() == nil; {
		t := c.next()
		if t.idle {
			sleep(r.soft, t.thinking)
			continue
		}
		if !sleep(r.soft, t.keying) {
			return
		}
		lost := r.attempt(region, t, s, rng)
		if t.done != nil {
			t.done()
		}
		if lost == nil {
			failures = 0
			sleep(r.soft, t.thinking)
			continue
		}
		if !r.opts.TolerateErrors {
			r.stop(fmt.Errorf("region %s lost a connection (with --tolerate-errors clients would reconnect): %w",
				s.pool.region, lost))
			return
		}
		s.reset()
		sleep(r.soft, backoff(failures, rng))
		failures++
	}
}

// attempt runs a transaction until it succeeds, fails for good or the run ends. It returns an error
// if the connection was lost; other errors are recorded and leave the session usable.
func (r *run) attempt(region int, t txn, s *session, rng *rand.Rand) error {
	begin := time.Now()
	for try := 0; ; try++ {
		var err error
		if t.single {
			err = t.run(r.hard, s)
		} else {
			err = s.transact(r.hard, func() error { return t.run(r.hard, s) })
		}
		// Warm-up and measurement have recorders of their own: what ends now is recorded now.
		rec := r.rec.Load()
		cell := rec.cells[region][t.kind]
		switch {
		case err == nil:
			cell.commits.Add(1)
			cell.latency.record(time.Since(begin))
			return r.countTrips(t, s, cell)
		case errors.Is(err, errRollback):
			cell.rollbacks.Add(1)
			cell.latency.record(time.Since(begin))
			return nil
		case r.hard.Err() != nil:
			return nil // cut off by the end of the run
		case Retryable(err) && try < r.opts.MaxRetries:
			if !sleep(r.soft, backoff(try, rng)) {
				return nil // the run ended; the attempt was rolled back
			}
			cell.retries.Add(1)
			if r.opts.Retried != nil {
				r.opts.Retried(err)
			}
			continue
		case Retryable(err):
			err = fmt.Errorf("gave up after %d retries: %w", try, err)
		}
		rec.fail(region, t.kind, err)
		if connectionLost(err) {
			return err
		}
		return nil
	}
}

// countTrips asks how many round trips a transaction waited for. A missing answer matters only if
// the connection is lost.
func (r *run) countTrips(t txn, s *session, cell *counters) error {
	if t.roundTrips == nil {
		return nil
	}
	n, err := t.roundTrips(r.hard, s)
	if err == nil {
		cell.measured.Add(1)
		cell.halfTrips.Add(uint64(2*n + 0.5))
	} else if r.hard.Err() == nil && connectionLost(err) {
		return err
	}
	return nil
}

// finish lets the scenario end a run.
func (w *runner) finish(ctx context.Context, pools []*pool, report *Report) error {
	f, ok := w.scenario.(finisher)
	if !ok {
		return nil
	}
	// An interrupt ends the run, but what it acknowledged must still be written down.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	s, err := pools[0].connected(ctx)
	if err != nil {
		return err
	}
	defer s.reset()
	if err := f.finish(ctx, s, w.opts.Seed); err != nil {
		return err
	}
	if t, ok := w.scenario.(*travel); ok {
		report.Moved = t.moved
	}
	return nil
}

// Check implements Workload.
func (w *runner) Check(ctx context.Context, target Target) ([]CheckResult, error) {
	pools, err := w.dial([]Target{target}, w.opts)
	if err != nil {
		return nil, err
	}
	defer closePools(pools)
	s, err := pools[0].connected(ctx)
	if err != nil {
		return nil, err
	}
	defer s.reset()
	res, err := w.scenario.check(ctx, s)
	if isUnknownTable(err) {
		err = fmt.Errorf("%w: load the tables with `godwit workload init %s` first", err, w.name)
	}
	return res, err
}

// inTransaction evaluates a check in one transaction, and repeats it after a retryable error. The
// transaction is read-only, so that servers with snapshots lock no whole tables.
func inTransaction(ctx context.Context, s *session, f func() error) error {
	rng := newRand(0)
	for try := 0; ; try++ {
		err := s.between(ctx, "START TRANSACTION READ ONLY", f)
		if !Retryable(err) || try == 100 || !sleep(ctx, backoff(try, rng)) {
			return err
		}
	}
}

// serverName asks the server for its version and product.
func serverName(ctx context.Context, s *session) (string, error) {
	var version, comment sql.NullString
	if err := s.row(ctx, []any{&version}, "SELECT VERSION()"); err != nil {
		return "", fmt.Errorf("asking for the server's version: %w", err)
	}
	// Not every server has the variable. Without it only the name is unknown.
	if err := s.row(ctx, []any{&comment}, "SELECT @@version_comment"); err != nil && connectionLost(err) {
		return "", err
	}
	return strings.TrimSpace(version.String + " " + comment.String), nil
}
