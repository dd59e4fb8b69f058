package peers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/mechanism/wan/wanemu"
)

// Bench compares three sites with Galera and etcd.
func Bench() rig.Bench {
	return rig.Bench{
		Name: "peers",
		Title: "three sites on an emulated WAN beside Galera and etcd, unmodified programs (needs root, sysbench, " +
			"mariadbd, galera-4, etcd)",
		Figures: []string{"peers/update_index", "peers/goal", "peers/wan"},
		Run:     runPeers,
	}
}

// peerRegions are the sites; round trips between them in ms.
var (
	peerRegions = []string{"A", "B", "C"}
	peerRTT     = map[string]map[string]float64{"A": {"B": 30, "C": 90}, "B": {"C": 60}}
)

const (
	peerClients = 8 // of each region
	// Every kernel has reno, and without loss it changes nothing. bbr, to measure the round trip,
	// sends next to nothing for 0.2 s of every 10 s. That adds up to one round trip to the slowest
	// 2 % of the statements of all three systems.
	peerCongestion = "reno"
	// peerGoal is how far above the round trip to the nearest other region Godwit's median may lie,
	// in ms.
	peerGoal = 3
)

// peers is a run of the benchmark: a network, and one system on it at a time.
type peers struct {
	p       rig.Params
	net     *wanemu.Net
	rows    int           // of each region
	measure time.Duration // each point
	settle  time.Duration // time limit of the home policy
	script  string
}

// peerSystem is a system under test, up at all sites with its rows.
type peerSystem struct {
	name string
	run  func(ctx context.Context, region, foreign int) (latencies, error)
	stop func()
}

// newPeers makes the network; nothing runs on it yet.
func newPeers(p rig.Params) (b *peers, err error) {
	if err := wanemu.Check(); err != nil {
		return nil, err
	}
	b = &peers{p: p, rows: 1000, measure: 30 * time.Second, settle: time.Minute,
		script: filepath.Join(p.Dir, "update_index.lua")}
	if p.Quick {
		b.rows, b.measure, b.settle = 300, 3*time.Second, 8*time.Second
	}
	if err := os.WriteFile(b.script, peersLua, 0o644); err != nil {
		return nil, err
	}
	c := wanemu.Config{RTT: peerRTT, Seed: 7, Congestion: peerCongestion}
	for i, r := range peerRegions {
		c.Sites = append(c.Sites, wanemu.Site{Name: r, Region: r, IP: fmt.Sprintf("10.77.%d.1", i+1)})
	}
	b.net, err = wanemu.Start(c)
	return b, err
}

func runPeers(ctx context.Context, p rig.Params) error {
	tools, err := findPeers()
	if err != nil {
		return err
	}
	b, err := newPeers(p)
	if err != nil {
		return err
	}
	return errors.Join(b.compare(ctx, tools), b.net.Close())
}

// compare measures one system after the other.
func (b *peers) compare(ctx context.Context, tools *peerTools) error {
	b.logf("round trips A-B 30, B-C 60, A-C 90 ms; %d clients and %d rows a region; TCP %s; %s\n", peerClients,
		b.rows, peerCongestion, tools.versions(ctx))

	base := map[string]latencies{} // Galera's, by x
	for _, start := range []func(context.Context, *peerTools) (*peerSystem, error){b.startGalera, b.startEtcd, b.startGodwit} {
		if err := b.system(ctx, tools, start, base); err != nil {
			return err
		}
	}
	stats, err := b.net.Stats()
	if err != nil {
		return err
	}
	b.logf("%s\n", stats[strings.Index(stats, "write_errors"):])
	return nil
}

// system measures one system, with a region's own rows and with some of other regions.
func (b *peers) system(ctx context.Context, tools *peerTools,
	start func(context.Context, *peerTools) (*peerSystem, error), base map[string]latencies) error {
	begin := time.Now()
	s, err := start(ctx, tools)
	if err != nil {
		return err
	}
	defer s.stop()
	b.logf("%s: ready after %.1f s\n", s.name, time.Since(begin).Seconds())
	var goal, wan []rig.Line // emitted after the latencies, as figures of their own
	for _, foreign := range []int{0, 10} {
		before, err := b.carried()
		if err != nil {
			return err
		}
		got, err := b.everywhere(ctx, func(ctx context.Context, region int) (latencies,
			error) {
			return s.run(ctx, region, foreign)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		for i, l := range got {
			if err := b.emit(s.name, i, foreign, l, base); err != nil {
				return err
			}
			if s.name == "godwit" && foreign == 0 {
				goal = append(goal, b.goal(i, l))
			}
		}
		after, err := b.carried()
		if err != nil {
			return err
		}
		updates := 0.0
		for _, l := range got {
			updates += l.perSecond * b.measure.Seconds()
		}
		packets, bytes := float64(after[0]-before[0])/updates, float64(after[1]-before[1])/updates
		b.logf("%s %d%%: %.1f packets and %.0f bytes cross the WAN for each update\n", s.name, foreign, packets, bytes)
		wan = append(wan, rig.Line{Figure: "peers/wan", Series: s.name, X: fmt.Sprintf("%d%%", foreign),
			Metric: "WAN packets an update", Unit: "packets", Value: packets, Better: rig.Lower},
			rig.Line{Figure: "peers/wan", Series: s.name, X: fmt.Sprintf("%d%%", foreign),
				Metric: "WAN bytes an update", Unit: "bytes", Value: bytes, Better: rig.Lower})
	}
	for _, l := range append(goal, wan...) {
		if err := b.p.Emit(l); err != nil {
			return err
		}
	}
	return nil
}

// everywhere calls f for all regions at once.
func (b *peers) everywhere(ctx context.Context, f func(context.Context, int) (latencies, error)) ([]latencies, error) {
	got, errs := make([]latencies, len(peerRegions)), make([]error, len(peerRegions))
	var wg sync.WaitGroup
	for i := range peerRegions {
		wg.Go(func() { got[i], errs[i] = f(ctx, i) })
	}
	wg.Wait()
	return got, errors.Join(errs...)
}

// emit reports one point, Godwit's beside Galera's.
func (b *peers) emit(system string, region, foreign int, l latencies, base map[string]latencies) error {
	r := peerRegions[region]
	x := fmt.Sprintf("%s/%d%%", r, foreign)
	b.logf("%s %s: p50 %.1f, p99 %.1f, mean %.1f ms, %.0f/s, %d retries\n", system, x, l.at(0.5), l.at(0.99), l.mean,
		l.perSecond, l.retries)
	if system == "galera" {
		base[x] = l
	}
	lines := []rig.Line{
		{Metric: "p50", Unit: "ms", Value: l.at(0.5), Better: rig.Lower},
		{Metric: "p99", Unit: "ms", Value: l.at(0.99), Better: rig.Lower},
		{Metric: "throughput", Unit: "updates/s", Value: l.perSecond, Better: rig.Higher},
	}
	if g, ok := base[x]; ok && system == "godwit" {
		lines[0].Baseline, lines[1].Baseline, lines[2].Baseline = rig.Float(g.at(0.5)), rig.Float(g.at(0.99)),
			rig.Float(g.perSecond)
	}
	for _, line := range lines {
		line.Figure, line.Series, line.X = "peers/update_index", system, x
		if err := b.p.Emit(line); err != nil {
			return err
		}
	}
	return nil
}

// carried counts the packets and bytes that have crossed between regions.
func (b *peers) carried() (sum [2]int64, err error) {
	stats, err := b.net.Stats()
	for _, m := range rePipe.FindAllStringSubmatch(stats, -1) {
		for i := range sum {
			n, _ := strconv.ParseInt(m[3+i], 10, 64) // the pattern is one of a number
			if m[1] != m[2] {
				sum[i] += n
			}
		}
	}
	return sum, err
}

var rePipe = regexp.MustCompile(`(?m)^(\w+)>(\w+) pkts=(\d+) bytes=(\d+)`)

// goal compares Godwit's median with the round trip that no quorum can beat.
func (b *peers) goal(region int, l latencies) rig.Line {
	r := peerRegions[region]
	quorum := nearest(r)
	over, verdict := l.at(0.5)-quorum, "within"
	if over > peerGoal {
		verdict = "NOT within"
	}
	b.logf("godwit %s: the median is %.1f ms above the nearest quorum's round trip of %.0f ms, %s the goal of %d ms\n",
		r, over, quorum, verdict, peerGoal)
	return rig.Line{Figure: "peers/goal", Series: "godwit", X: r,
		Metric: "p50 above the nearest quorum, beside the goal", Unit: "ms",
		Value: over, Baseline: rig.Float(peerGoal), Better: rig.Lower}
}

// nearest is the round trip that a majority of three costs a region.
func nearest(region string) float64 {
	best := math.Inf(1)
	for a, row := range peerRTT {
		for z, ms := range row {
			if a == region || z == region {
				best = min(best, ms)
			}
		}
	}
	return best
}

func (b *peers) logf(format string, args ...any) { fmt.Fprintf(b.p.Log, format, args...) }

func (b *peers) site(region int) *wanemu.Inside { return b.net.Site(peerRegions[region]) }

// http is a client inside a site.
func (b *peers) http(region int) *http.Client {
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DialContext: b.site(region).Dial,
		MaxIdleConnsPerHost: 2 * peerClients}}
}

// peerProc is a server at a site.
type peerProc struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

// start runs a server at a site, as another user if as is set. Its output goes to a file.
func (b *peers) start(region int, as *syscall.Credential, name string, args ...string) (*peerProc, error) {
	pr := &peerProc{cmd: exec.Command(name, args...), done: make(chan struct{})}
	out, err := os.CreateTemp(b.p.Dir, fmt.Sprintf("%s-%s-*.log", filepath.Base(name), peerRegions[region]))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	pr.log = out.Name()
	pr.cmd.Stdout, pr.cmd.Stderr = out, out
	pr.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	if err := b.site(region).Start(pr.cmd); err != nil {
		return nil, err
	}
	go func() {
		defer close(pr.done)
		_ = pr.cmd.Wait() // its log says how it ended
	}()
	return pr, nil
}

// await calls ready until it succeeds, the process ends or the time is up.
func (pr *peerProc) await(parent context.Context, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(parent, time.Minute)
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
			continue
		case <-pr.done:
			err = errors.New("it ended")
		case <-ctx.Done():
			if parent.Err() != nil {
				return parent.Err()
			}
		}
		text, _ := os.ReadFile(pr.log)
		return fmt.Errorf("%s does not come up: %w\n%s", filepath.Base(pr.cmd.Path), err, text[max(0, len(text)-2000):])
	}
}

// killAll kills processes and all their children. Their data is thrown away, so they need no
// orderly end.
func killAll(procs []*peerProc) {
	for _, pr := range procs {
		_ = syscall.Kill(-pr.cmd.Process.Pid, syscall.SIGKILL) // its process group; it may be gone
	}
	for _, pr := range procs {
		<-pr.done
	}
}

// distances sets the round trips between the regions to those of the benchmark, or to 0.
func (b *peers) distances(on bool) error {
	var errs []error
	for x, row := range peerRTT {
		for y, ms := range row {
			if !on {
				ms = 0
			}
			errs = append(errs, b.net.Control(fmt.Sprintf("set %s %s delay=%s", x, y,
				time.Duration(ms/2*float64(time.Millisecond)))))
		}
	}
	return errors.Join(errs...)
}
