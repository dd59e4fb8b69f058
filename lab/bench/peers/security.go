package peers

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/godwitdb/godwit/lab/bench/rig"
)

// Security measures what TLS and an encrypted store cost a cluster over three sites.
func Security() rig.Bench {
	return rig.Bench{
		Name: "security",
		Title: "three sites on an emulated WAN with TLS, with an encrypted store, with both, beside neither " +
			"(needs root and sysbench)",
		Figures: []string{"security/update_index"},
		Run:     runSecurity,
	}
}

// securityRounds is how often each cluster is measured, in alternating order.
const securityRounds = 5

func runSecurity(ctx context.Context, p rig.Params) (err error) {
	tools, err := findSysbench()
	if err != nil {
		return err
	}
	b, err := newPeers(p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.net.Close()) }()
	b.measure = rig.Pick(p, 3*time.Second, 10*time.Second)
	kinds, err := b.securityKinds()
	if err != nil {
		return err
	}
	var all []*godwitSites
	defer func() {
		for _, g := range all {
			killAll(g.procs)
		}
	}()
	for _, k := range kinds {
		g, err := b.open(ctx, tools, k)
		if err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		all = append(all, g)
	}
	runs := map[string][]secured{}
	for round := range rig.Pick(p, 1, securityRounds) {
		for _, foreign := range []int{0, 10} {
			for _, g := range all {
				s, err := g.secure(ctx, foreign)
				if err != nil {
					return fmt.Errorf("%s: %w", g.kind.name, err)
				}
				x := fmt.Sprintf("%d%%", foreign)
				runs[g.kind.name+x] = append(runs[g.kind.name+x], s)
				b.logf("%d: %s %s: p50 %.1f, p99 %.1f ms, %.0f/s, CPU %.0f us an update\n", round+1, g.kind.name, x, s[0], s[1],
					s[2], s[3])
			}
		}
		slices.Reverse(all)
	}
	for _, foreign := range []int{0, 10} {
		x := fmt.Sprintf("%d%%", foreign)
		for _, k := range kinds {
			if err := b.emitSecured(k.name, x, runs[k.name+x], runs[kinds[0].name+x]); err != nil {
				return err
			}
		}
	}
	return nil
}

// securityKinds are the clusters that are compared; the first has neither TLS nor encryption.
func (b *peers) securityKinds() ([]godwitKind, error) {
	key, certs := make([]byte, 32), filepath.Join(b.p.Dir, "certs")
	_, _ = rand.Read(key) // it never fails
	file := filepath.Join(b.p.Dir, "store.key")
	if err := errors.Join(os.WriteFile(file, []byte(hex.EncodeToString(key)), 0o600), os.Mkdir(certs, 0o700)); err != nil {
		return nil, err
	}
	return []godwitKind{
		{name: "neither", port: 7400},
		{name: "TLS", port: 7410, tls: true, certs: filepath.Join(certs, "tls")},
		{name: "encrypted store", port: 7420, encrypted: true, key: file},
		{name: "both", port: 7430, tls: true, certs: filepath.Join(certs, "both"), encrypted: true, key: file},
	}, nil
}

// secured is one run: p50 and p99 in ms, updates a second, and CPU time of the nodes in µs an
// update. The latencies are means over the regions.
type secured [4]float64

// secure measures a cluster once. The others rest meanwhile.
func (g *godwitSites) secure(ctx context.Context, foreign int) (s secured, err error) {
	before, err := g.cpu()
	if err != nil {
		return s, err
	}
	got, err := g.everywhere(ctx, func(ctx context.Context, region int) (latencies, error) {
		return g.measured(ctx, region, foreign)
	})
	if err != nil {
		return s, err
	}
	after, err := g.cpu()
	if err != nil {
		return s, err
	}
	n := float64(len(got))
	for _, l := range got {
		s[0] += l.at(0.5) / n
		s[1] += l.at(0.99) / n
		s[2] += l.perSecond
	}
	s[3] = float64((after - before).Microseconds()) / max(s[2]*g.measure.Seconds(), 1)
	return s, nil
}

// cpu is the time that the nodes have used.
func (g *godwitSites) cpu() (sum time.Duration, err error) {
	for _, pr := range g.procs {
		d, err := rig.CPUOf(pr.cmd.Process.Pid)
		if err != nil {
			return 0, fmt.Errorf("CPU time of %s: %w", g.kind.name, err)
		}
		sum += d
	}
	return sum, nil
}

// emitSecured reports the mean of the runs beside that without TLS and encryption, and the spread
// of the ratios of one round.
func (b *peers) emitSecured(name, x string, runs, plain []secured) error {
	metrics := [4]rig.Line{
		{Metric: "p50", Unit: "ms", Better: rig.Lower},
		{Metric: "p99", Unit: "ms", Better: rig.Lower},
		{Metric: "throughput", Unit: "updates/s", Better: rig.Higher},
		{Metric: "CPU of the nodes an update", Unit: "µs", Better: rig.Lower},
	}
	for i, line := range metrics {
		line.Figure, line.Series, line.X = "security/update_index", name, x
		base, least, most := 0.0, math.Inf(1), 0.0
		for j := range runs {
			line.Value += runs[j][i] / float64(len(runs))
			base += plain[j][i] / float64(len(runs))
			least, most = min(least, runs[j][i]/plain[j][i]), max(most, runs[j][i]/plain[j][i])
		}
		line.Baseline = rig.Float(base)
		if err := b.p.Emit(line); err != nil {
			return err
		}
		b.logf("%s %s, %s: %.3f of neither (%.3f to %.3f)\n", name, x, line.Metric, line.Value/base, least, most)
	}
	return nil
}
