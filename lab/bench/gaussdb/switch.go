package gaussdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/lab/workload"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/node"
	"github.com/godwitdb/godwit/policy/matrix"
)

// Switch changes the clock mode under load.
func Switch() rig.Bench {
	return rig.Bench{
		Name: "gaussdb-switch", Title: "TPC-C over SQL while the clock mode changes back and forth: what fails, what waits",
		Figures: []string{"gaussdb/switch"},
		Run:     runSwitch,
	}
}

// switchRun is a cluster of three cities with TPC-C on it. Every terminal stays in a warehouse of
// its own, so that transactions are retried only if a change of the clock mode breaks them.
type switchRun struct {
	rig.Params
	local   *node.Local
	db      *sql.DB
	work    workload.Workload
	targets []workload.Target
	clients int // of a region
}

// switchPhase is what the terminals saw in all phases of one kind.
type switchPhase struct {
	done, failed, retried uint64
	longest, p99          time.Duration
	took                  []time.Duration // from the order to change the mode until all nodes have
}

func runSwitch(ctx context.Context, p rig.Params) (err error) {
	m, err := matrix.Open(matrix.ThreeCity)
	if err != nil {
		return err
	}
	s := &switchRun{Params: p, clients: 2}
	s.local, err = node.StartLocal(ctx, node.LocalConfig{Matrix: m, Shards: 2, Dir: filepath.Join(p.Dir, "data"),
		CacheMB: 64}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.local.Close(context.WithoutCancel(ctx))) }()
	for _, r := range s.local.Regions() {
		t := workload.Target{Region: r}
		for _, a := range s.local.SQLAddrs(r) {
			t.URLs = append(t.URLs, "mysql://root@"+a+"/tpcc")
		}
		s.targets = append(s.targets, t)
	}
	if s.db, err = sql.Open("mysql", "root@tcp("+s.local.SQLAddrs(s.local.Regions()[0])[0]+")/"); err != nil {
		return err
	}
	defer s.db.Close()
	o := workload.DefaultOptions()
	o.TPCC = workload.TPCCOptions{Warehouses: s.clients * len(s.targets), Scale: 0.01}
	if s.work, err = workload.New("tpcc", o); err != nil {
		return err
	}
	if err := s.work.Init(ctx, s.targets); err != nil {
		return err
	}
	if err := s.set(ctx, clock.WantGClock); err != nil {
		return err
	}
	if _, err := s.run(ctx, rig.Pick(p, 2*time.Second, 4*time.Second), nil); err != nil { // caches fill
		return err
	}
	const toGTM, toGClock = "gclock to gtm", "gtm to gclock"
	kinds := []string{"gclock, no change", "gtm, no change", toGTM, toGClock}
	got := map[string]*switchPhase{}
	for _, k := range kinds {
		got[k] = &switchPhase{}
	}
	phase := func(kind string, to clock.Setting) error {
		x := got[kind]
		began := time.Now()
		var change func() error
		if to != "" {
			change = func() error {
				began = time.Now()
				if err := s.set(ctx, to); err != nil {
					return err
				}
				x.took = append(x.took, time.Since(began))
				return nil
			}
		}
		r, err := s.run(ctx, rig.Pick(p, 2500*time.Millisecond, 3500*time.Millisecond), change)
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		x.done += r.Total.Count
		x.failed += r.Total.Errors
		x.retried += r.Total.Retries
		x.longest, x.p99 = max(x.longest, r.Total.Max), max(x.p99, r.Total.P99)
		for _, e := range r.Errors {
			fmt.Fprintf(p.Log, "%s: %+v\n", kind, e)
		}
		return nil
	}
	for range rig.Pick(p, 2, 4) {
		for _, f := range []func() error{
			func() error { return phase(kinds[0], "") }, func() error { return phase(toGTM, clock.WantGTM) },
			func() error { return phase(kinds[1], "") }, func() error { return phase(toGClock, clock.WantGClock) },
		} {
			if err := f(); err != nil {
				return err
			}
		}
	}
	for _, k := range kinds {
		if err := s.emit(k, got[k], got[kinds[0]], got[kinds[1]]); err != nil {
			return err
		}
	}
	return s.check(ctx)
}

// run has the terminals work, and calls change after a quarter of the time.
func (s *switchRun) run(ctx context.Context, d time.Duration, change func() error) (*workload.Report, error) {
	done := make(chan error, 1)
	if change != nil {
		go func() { done <- errors.Join(rig.Pause(ctx, d/4), change()) }()
	} else {
		done <- nil
	}
	r, err := s.work.Run(ctx, s.targets, workload.RunOptions{Duration: d, ClientsPerTarget: s.clients, Retried: func(err error) {
		fmt.Fprintf(s.Log, "repeated: %v\n", err)
	}})
	return r, errors.Join(err, <-done)
}

// set orders a clock mode as an operator does, and waits until all nodes are in it.
func (s *switchRun) set(ctx context.Context, to clock.Setting) error {
	if _, err := s.db.ExecContext(ctx, fmt.Sprintf("SET CLUSTER SETTING clock.mode = '%s'", to)); err != nil {
		return err
	}
	for deadline := time.Now().Add(rig.Patience); ; {
		left := ""
		for _, n := range s.local.Nodes() {
			if c := n.Cluster().Clock(); c.Mode != string(to) {
				left = fmt.Sprintf("node %d is in clock mode %s, not %s (%s)", n.ID(), c.Mode, to, c.Blocked)
			}
		}
		if left == "" {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New(left)
		}
		if err := rig.Pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

func (s *switchRun) emit(kind string, x, gclock, gtm *switchPhase) error {
	line := func(metric, unit, better string, v float64, baseline *float64) error {
		return s.Emit(rig.Line{Figure: "gaussdb/switch", Series: "TPC-C over SQL", X: kind, Metric: metric,
			Unit: unit, Better: better, Value: v, Baseline: baseline})
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
	var longest, p99 *float64
	if x.took != nil {
		longest, p99 = rig.Float(ms(max(gclock.longest, gtm.longest))), rig.Float(ms(max(gclock.p99, gtm.p99)))
	}
	errs := []error{
		line("transactions", "committed", rig.Higher, float64(x.done), nil),
		line("failed transactions", "of them", rig.Lower, float64(x.failed), nil),
		line("repeated attempts", "of them", rig.Lower, float64(x.retried), nil),
		line("longest transaction", "ms", rig.Lower, ms(x.longest), longest),
		line("p99", "ms", rig.Lower, ms(x.p99), p99),
	}
	if x.took != nil {
		sum := time.Duration(0)
		for _, d := range x.took {
			sum += d
		}
		errs = append(errs, line("mean time until all nodes are in the other mode", "ms", rig.Lower,
			ms(sum)/float64(len(x.took)), nil))
	}
	return errors.Join(errs...)
}

// check evaluates TPC-C's consistency conditions, which broken isolation would violate.
func (s *switchRun) check(ctx context.Context) error {
	results, err := s.work.Check(ctx, s.targets[0])
	if err != nil {
		return err
	}
	bad := 0
	for _, r := range results {
		if !r.OK {
			bad++
			fmt.Fprintf(s.Log, "%s: %s: %s\n", r.Name, r.Description, r.Detail)
		}
	}
	return s.Emit(rig.Line{Figure: "gaussdb/switch", Series: "TPC-C over SQL", X: "at the end",
		Metric: "violated consistency conditions", Unit: fmt.Sprintf("of %d", len(results)), Better: rig.Lower,
		Value: float64(bad)})
}
