package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/godwitdb/godwit/home"
)

func init() {
	Register(Bench{
		Name: "polybase", Title: "rows that come home, beside fixed homes, homes that follow every access, and a central site selector",
		Figures: []string{"polybase/10", "polybase/11", "polybase/12", "polybase/13", "polybase/14", "polybase/15", "polybase/16",
			"polybase/scan", "polybase/hotness", "polybase/correlation", "polybase/rehome"},
		Parts: true,
		Run:   runPolyBase,
	})
}

// The two groups of regions. The paper's Figure 9 is an image; these fit what its
// text says: R2 is the farthest of the first group, R4 the nearest of the second.
var (
	european         = []string{"eu-central-1", "eu-north-1", "eu-south-1"} // R1, R2, R3
	intercontinental = []string{"us-east-1", "eu-west-1", "ap-northeast-1"} // R4, R5, R6
)

// The switches of the system. Fixed homes are what systems have that place
// shards; the selector is in the second region of a group, as in the paper.
var (
	policy  = variant{name: "godwit", homes: home.Params{Mode: home.Hotness}}
	fixed   = variant{name: "fixed", homes: home.Params{Mode: home.Never}}
	always  = variant{name: "always", homes: home.Params{Mode: home.Always}}
	dynamas = variant{name: "dynamast", homes: home.Params{Mode: home.Never}, selector: 2}
)

// polybase is one run of the benchmark.
type polybase struct {
	Params
	mu sync.Mutex // one figure at a time is emitted
}

func runPolyBase(ctx context.Context, p Params) error {
	b := &polybase{Params: p}
	type figure struct {
		name string // of one, or of several that one run gives
		run  func(context.Context) ([]Line, error)
	}
	lanes := [][]figure{
		{{"10", b.affinity}, {"11", b.balancing}, {"12", b.mobility}, {"rehome", b.rehome}},
		{{"13", b.crash}, {"hotness", b.hotness}, {"correlation", b.correlation}, {"scan", b.scans}},
		{{"14, 15, 16", b.remote}},
	}
	if !p.Quick {
		lanes = [][]figure{slices.Concat(lanes...)} // one after the other: nothing disturbs
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(lanes))
	var wg sync.WaitGroup
	for i, lane := range lanes {
		wg.Go(func() {
			for _, f := range lane {
				if !slices.ContainsFunc(strings.Split(f.name, ", "), func(n string) bool { return p.wants("polybase/" + n) }) {
					continue
				}
				begin, cpu := time.Now(), cpuTime()
				lines, err := f.run(ctx)
				if err != nil {
					errs[i] = fmt.Errorf("figure %s: %w", f.name, err)
					cancel()
					return
				}
				wall := time.Since(begin)
				fmt.Fprintf(p.Log, "figure %s: %.1f s, %.2f cores busy\n", f.name, wall.Seconds(), (cpuTime()-cpu).Seconds()/wall.Seconds())
				if errs[i] = b.emit(lines); errs[i] != nil {
					cancel()
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (b *polybase) emit(lines []Line) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range lines {
		if !b.wants(l.Figure) {
			continue
		}
		if err := b.Emit(l); err != nil {
			return err
		}
	}
	return nil
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// pick is a duration or a count for quick and for full runs.
func pick[T any](p Params, quick, full T) T {
	if p.Quick {
		return quick
	}
	return full
}

// open starts a cluster for each variant, side by side.
func (b *polybase) open(ctx context.Context, regions []string, vs ...variant) ([]*geo, func() error, error) {
	gs := make([]*geo, len(vs))
	err := each(len(vs), func(i int) (err error) {
		gs[i], err = openGeo(ctx, b.Dir, regions, vs[i])
		return err
	})
	shut := func() error {
		return each(len(gs), func(i int) error {
			if gs[i] == nil {
				return nil
			}
			return gs[i].close()
		})
	}
	if err != nil {
		return nil, nil, errors.Join(err, shut())
	}
	return gs, shut, nil
}

// each runs f for 0..n-1 at once.
func each(n int, f func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// shifts are the same clients at work on several clusters at once.
type shifts []*shift

func start(ctx context.Context, gs []*geo, clients func(i int) []*client) shifts {
	out := make(shifts, len(gs))
	for i, g := range gs {
		out[i] = g.work(ctx, clients(i))
	}
	return out
}

// end stops them all.
func (s shifts) end() ([]outcomes, error) {
	all := make([]outcomes, len(s))
	return all, each(len(s), func(i int) (err error) {
		all[i], err = s[i].end()
		return err
	})
}

func line(figure, series string, x any, metric, unit, better string, value float64, baseline, paper *float64) Line {
	return Line{Figure: "polybase/" + figure, Series: series, X: x, Metric: metric, Unit: unit, Better: better, Value: value, Baseline: baseline, Paper: paper}
}
