package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/godwitdb/godwit/lab/workload"
)

// Options of a run.
type Options struct {
	Workload string           // a name that workload.New knows
	Work     workload.Options // its parameters
	Beside   string           // another one, which one client in each region runs; empty: none
	Clients  int              // connections a region
	Duration time.Duration    // 0 runs until the context is cancelled
	Warmup   time.Duration    // run before, not measured
	Interval time.Duration    // between two tables, default 1 s on a terminal and 5 s elsewhere
	// CheckTimeout bounds the checks at the end, default 10 minutes.
	CheckTimeout time.Duration
	// Screen shows the live table.
	Screen *Screen
}

func (o *Options) fill() {
	if o.Interval == 0 {
		if o.Interval = 5 * time.Second; o.Screen.Terminal() {
			o.Interval = time.Second
		}
	}
	if o.CheckTimeout == 0 {
		o.CheckTimeout = 10 * time.Minute
	}
}

// Database is the name of the database a workload lives in.
func Database(name string) string { return strings.ReplaceAll(name, "-", "_") }

// targets are the regions for the workload, in the order of the cluster.
func targets(c Cluster, name string) []workload.Target {
	var out []workload.Target
	for _, r := range c.Regions() {
		t := workload.Target{Region: r}
		for _, addr := range c.SQLAddrs(r) {
			t.URLs = append(t.URLs, "mysql://root@"+addr+"/"+Database(name))
		}
		out = append(out, t)
	}
	return out
}

// Load creates the tables of a workload and loads every region's part through
// that region's nodes. It reports a line a second on the screen and returns how long it took.
func Load(ctx context.Context, c Cluster, name string, o Options) (time.Duration, error) {
	o.fill()
	o.Work.LoadProgress = o.Screen
	w, err := workload.New(name, o.Work)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := w.Init(ctx, targets(c, name)); err != nil {
		return 0, fmt.Errorf("load %s: %w", name, err)
	}
	return time.Since(begin), nil
}

// Run drives a loaded workload, then checks it. The report is valid unless an
// error says that the run could not start; what went wrong in it, or in the
// checks, is in Report.Failures.
func Run(ctx context.Context, c Cluster, o Options) (*Report, error) {
	o.fill()
	w, err := workload.New(o.Workload, o.Work)
	if err != nil {
		return nil, err
	}
	to := targets(c, o.Workload)
	live := newLive(c, o)
	ro := workload.RunOptions{Duration: o.Duration, Warmup: o.Warmup, ClientsPerTarget: o.Clients, Interval: o.Interval,
		Progress: func(s workload.Snapshot) { live.tick(&s) }}
	live.begin()
	also, err := startBeside(ctx, c, &o)
	if err != nil {
		return nil, err
	}
	run, runErr := w.Run(ctx, to, ro)
	rows := live.whole()
	also.stop()
	o.Screen.Leave()
	if run == nil {
		return nil, runErr
	}
	r := &Report{Workload: o.Workload, Elapsed: run.Elapsed.Seconds(), Run: run, Regions: rows[:len(rows)-1],
		All: rows[len(rows)-1]}
	for i := range r.Regions {
		r.Regions[i].SQL = c.SQLAddrs(r.Regions[i].Region)
	}
	if runErr != nil {
		r.fail("the run ended early: %v", runErr)
	}
	// An interrupt ends the run, not the checks that judge it.
	checking, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.CheckTimeout)
	defer cancel()
	_, _ = fmt.Fprintf(o.Screen, "checking %s\n", o.Workload) // failing to print a note is no error
	begin := time.Now()
	checks, err := w.Check(checking, to[0])
	r.judge(checks, err)
	also.check(checking, r)
	r.CheckSeconds = time.Since(begin).Seconds()
	return r, nil
}

// Watch shows the table until the context is cancelled or the duration is over.
func Watch(ctx context.Context, c Cluster, o Options) *Report {
	o.fill()
	if o.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Duration)
		defer cancel()
	}
	live := newLive(c, o)
	live.begin()
	tick := time.NewTicker(o.Interval)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			live.tick(nil)
		}
	}
	rows := live.whole()
	o.Screen.Leave()
	r := &Report{Workload: "none", Elapsed: time.Since(live.start).Seconds(), Regions: rows[:len(rows)-1], All: rows[len(rows)-1]}
	for i := range r.Regions {
		r.Regions[i].SQL = c.SQLAddrs(r.Regions[i].Region)
	}
	r.OK = true
	return r
}

// live is the table while it runs.
type live struct {
	c       Cluster
	o       Options
	start   time.Time
	first   map[string]Counts
	last    map[string]Counts
	lastAt  time.Time
	kinds   []string // columns so far
	warming bool
}

func newLive(c Cluster, o Options) *live { return &live{c: c, o: o} }

func (l *live) begin() {
	l.start = time.Now()
	l.first = l.c.Counts()
	l.last, l.lastAt = l.first, l.start
	l.warming = l.o.Warmup > 0
}

// tick draws what happened since the last tick. s is what the clients saw; nil if the demo runs
// none.
func (l *live) tick(s *workload.Snapshot) {
	now, cur := time.Now(), l.c.Counts()
	rows := between(l.c.Regions(), l.last, cur, now.Sub(l.lastAt))
	if l.warming && s != nil && !s.Warmup {
		// The report starts at the last reading of the warm-up.
		l.warming, l.first, l.start = false, l.last, l.lastAt
	}
	l.last, l.lastAt = cur, now
	l.kinds = occurring(l.kinds, rows)
	table := Table(rows, l.kinds)
	if s != nil && l.o.Workload == "travel" {
		// The table shows the interval, but the count of arrived rows is a total: a reader cannot
		// add up tables.
		table = TravelTable(s.Regions, movedIn(l.whole()))
	}
	l.o.Screen.Draw(append([]string{"", l.title(now, s)}, table...))
}

func (l *live) title(now time.Time, s *workload.Snapshot) string {
	at := fmt.Sprintf("%.0f s", now.Sub(l.start).Seconds())
	if l.o.Duration > 0 {
		at += fmt.Sprintf(" of %.0f s", l.o.Duration.Seconds())
	}
	if s == nil {
		return at + ", latencies p50/p99; Ctrl-C ends"
	}
	if s.Warmup {
		at = "warm-up " + at
	}
	text := fmt.Sprintf("%s %s: %s txn/s, p50 %s p99 %s ms, %d retries, %d errors", l.o.Workload, at, number(s.Total.Rate),
		number(milliseconds(s.Total.P50)), number(milliseconds(s.Total.P99)), s.Total.Retries, s.Total.Errors)
	if l.o.Beside == "travel" {
		rows := l.whole()
		text += fmt.Sprintf("; %d rows have moved to their users", rows[len(rows)-1].MovedIn)
	}
	return text
}

// whole evaluates everything since the end of the warm-up.
func (l *live) whole() []Figures {
	return between(l.c.Regions(), l.first, l.c.Counts(), time.Since(l.start))
}

// Interrupted tells whether an error of Load only says that its context was cancelled.
func Interrupted(ctx context.Context, err error) bool {
	return err != nil && errors.Is(ctx.Err(), context.Canceled)
}

var _ io.Writer = (*Screen)(nil)
