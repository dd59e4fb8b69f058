package demo

import (
	"context"

	"github.com/godwitdb/godwit/lab/workload"
)

// beside is a workload that runs beside another one; nil: none does.
type beside struct {
	name   string
	w      workload.Workload
	to     []workload.Target
	cancel context.CancelFunc
	done   chan struct{}
	run    *workload.Report
	err    error
}

// startBeside starts the workload of Options.Beside.
func startBeside(ctx context.Context, c Cluster, o *Options) (*beside, error) {
	if o.Beside == "" {
		return nil, nil
	}
	w, err := workload.New(o.Beside, o.Work)
	if err != nil {
		return nil, err
	}
	b := &beside{name: o.Beside, w: w, to: targets(c, o.Beside), done: make(chan struct{})}
	ctx, b.cancel = context.WithCancel(ctx)
	go func() {
		defer close(b.done)
		b.run, b.err = w.Run(ctx, b.to, workload.RunOptions{ClientsPerTarget: 1, Interval: o.Interval})
	}()
	return b, nil
}

// stop ends it.
func (b *beside) stop() {
	if b != nil {
		b.cancel()
		<-b.done
	}
}

// check adds what its clients saw, and its invariants, to a report that has been judged.
func (b *beside) check(ctx context.Context, r *Report) {
	if b == nil {
		return
	}
	if b.err != nil {
		r.fail("%s: the run ended early: %v", b.name, b.err)
	}
	if b.run != nil {
		r.Beside = b.run
		if n := b.run.Total.Errors; n > 0 {
			r.fail("%s: clients saw %d errors", b.name, n)
		}
	}
	checks, err := b.w.Check(ctx, b.to[0])
	if err != nil {
		r.fail("%s: the checks could not be evaluated: %v", b.name, err)
	}
	for _, c := range checks {
		c.Name = b.name + " " + c.Name
		r.Checks = append(r.Checks, c)
		if !c.OK {
			r.fail("check %s failed: %s", c.Name, c.Detail)
		}
	}
	r.ChecksPassed = r.ChecksPassed && err == nil && workload.Failed(checks) == 0
	r.OK = len(r.Failures) == 0
}
