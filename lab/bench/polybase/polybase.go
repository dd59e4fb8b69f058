package polybase

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/policy/home"
)

// Bench regenerates the figures of PolyBase.
func Bench() rig.Bench {
	return rig.Bench{
		Name:  "polybase",
		Title: "rows that come home, beside fixed homes, homes that follow every access, and a central site selector",
		Figures: []string{"polybase/10", "polybase/11", "polybase/12", "polybase/13", "polybase/14", "polybase/15", "polybase/16",
			"polybase/scan", "polybase/hotness", "polybase/correlation", "polybase/rehome"},
		Parts: true,
		Run:   runPolyBase,
	}
}

// The two groups of regions. The paper's Figure 9 is an image; these regions fit its text: R2 is
// the farthest of the first group, R4 the nearest of the second.
var (
	european         = []string{"eu-central-1", "eu-north-1", "eu-south-1"} // R1, R2, R3
	intercontinental = []string{"us-east-1", "eu-west-1", "ap-northeast-1"} // R4, R5, R6
)

// The systems that are compared. Systems that place whole shards have fixed homes. The selector is
// in the second region of a group, as in the paper.
var (
	policy  = system{Variant: rig.Variant{Name: "godwit", Homes: home.Params{Mode: home.Hotness}}}
	fixed   = system{Variant: rig.Variant{Name: "fixed", Homes: home.Params{Mode: home.Never}}}
	always  = system{Variant: rig.Variant{Name: "always", Homes: home.Params{Mode: home.Always}}}
	dynamas = system{Variant: rig.Variant{Name: "dynamast", Homes: home.Params{Mode: home.Never}}, selector: 2}
)

// system is a variant of the program.
type system struct {
	rig.Variant
	selector int // region (from 1) of a central site selector; 0: transactions run in the client's region
}

// sited is a cluster, with a site of DynaMast in each region if its system has a selector.
type sited struct {
	*rig.Cluster
	all []*site
}

// close closes the sites and their cluster.
func (g *sited) close() error {
	var errs []error
	for _, s := range g.all {
		errs = append(errs, s.trans.Close())
	}
	return errors.Join(append(errs, g.Cluster.Close())...)
}

// load makes rows whose home is a region. Call it in key order for neighbouring ranges.
func (g *sited) load(ctx context.Context, region int, ks []base.Key) error {
	if err := g.Cluster.Load(ctx, region, ks); err != nil {
		return err
	}
	for _, s := range g.all {
		s.know(ks, base.RegionID(region+1))
	}
	return nil
}

// polybase is one run of the benchmark.
type polybase struct {
	rig.Params
	mu sync.Mutex // held while a figure is emitted
}

func runPolyBase(ctx context.Context, p rig.Params) error {
	b := &polybase{Params: p}
	type figure struct {
		name string // of a figure, or of several that one run measures
		run  func(context.Context) ([]rig.Line, error)
	}
	lanes := [][]figure{
		{{"10", b.affinity}, {"11", b.balancing}, {"12", b.mobility}, {"rehome", b.rehome}},
		{{"13", b.crash}, {"hotness", b.hotness}, {"correlation", b.correlation}, {"scan", b.scans}},
		{{"14, 15, 16", b.remote}},
	}
	if !p.Quick {
		lanes = [][]figure{slices.Concat(lanes...)} // one after the other, so that none disturbs another
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(lanes))
	var wg sync.WaitGroup
	for i, lane := range lanes {
		wg.Go(func() {
			for _, f := range lane {
				if !slices.ContainsFunc(strings.Split(f.name, ", "), func(n string) bool { return p.Wants("polybase/" + n) }) {
					continue
				}
				begin, cpu := time.Now(), rig.CPUTime()
				lines, err := f.run(ctx)
				if err != nil {
					errs[i] = fmt.Errorf("figure %s: %w", f.name, err)
					cancel()
					return
				}
				wall := time.Since(begin)
				fmt.Fprintf(p.Log, "figure %s: %.1f s, %.2f cores busy\n", f.name, wall.Seconds(),
					(rig.CPUTime()-cpu).Seconds()/wall.Seconds())
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

func (b *polybase) emit(lines []rig.Line) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range lines {
		if !b.Wants(l.Figure) {
			continue
		}
		if err := b.Emit(l); err != nil {
			return err
		}
	}
	return nil
}

// open starts a cluster for each variant, side by side.
func (b *polybase) open(ctx context.Context, regions []string, vs ...system) ([]*sited, func() error, error) {
	gs := make([]*sited, len(vs))
	err := rig.Each(len(vs), func(i int) error {
		g, err := rig.Open(ctx, b.Dir, regions, vs[i].Variant)
		if err != nil {
			return err
		}
		gs[i] = &sited{Cluster: g}
		if vs[i].selector != 0 {
			return gs[i].addSites(vs[i].selector)
		}
		return nil
	})
	shut := func() error {
		return rig.Each(len(gs), func(i int) error {
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

// shifts has the same clients work on several clusters at once.
type shifts []*rig.Shift

func start(ctx context.Context, gs []*sited, clients func(i int) []*rig.Client) shifts {
	out := make(shifts, len(gs))
	for i, g := range gs {
		out[i] = g.Work(ctx, clients(i))
	}
	return out
}

// end stops them all.
func (s shifts) end() ([]rig.Outcomes, error) {
	all := make([]rig.Outcomes, len(s))
	return all, rig.Each(len(s), func(i int) (err error) {
		all[i], err = s[i].End()
		return err
	})
}

func line(figure, series string, x any, metric, unit, better string, value float64, baseline, paper *float64) rig.Line {
	return rig.Line{Figure: "polybase/" + figure, Series: series, X: x, Metric: metric, Unit: unit, Better: better,
		Value: value, Baseline: baseline, Paper: paper}
}
