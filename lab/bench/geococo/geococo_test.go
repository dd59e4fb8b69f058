package geococo

import (
	"context"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/policy/matrix"
	"github.com/godwitdb/godwit/policy/plan"
)

// TestGroupings executes every way of grouping to full delivery: none is faster than the shortest
// paths, and Godwit's is the fastest.
func TestGroupings(t *testing.T) {
	m, err := matrix.Open(matrix.AWS2022)
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(5) {
		f := draw(m, rand.New(rand.NewPCG(seed, 1)), 12)
		bound := plan.Bound(f)
		best := map[string]time.Duration{}
		for _, s := range strategies {
			v, err := s.run(f, rand.New(rand.NewPCG(seed, 2)))
			if err != nil {
				t.Fatal(err)
			}
			best[s.name] = v
			if !strings.Contains(s.name, "its own value") && v < bound {
				t.Errorf("%s: %v, below the bound %v", s.name, v, bound)
			}
		}
		for name, v := range best {
			if v < best["godwit, fastest"] && !strings.Contains(name, "its own value") {
				t.Errorf("%s: %v is faster than %v", name, v, best["godwit, fastest"])
			}
		}
	}
	// Two clear clusters.
	f := &plan.Facts{}
	for i := range 6 {
		row := make([]time.Duration, 6)
		for j := range row {
			if i != j {
				row[j] = time.Millisecond
				if i/3 != j/3 {
					row[j] = 100 * time.Millisecond
				}
			}
		}
		f.Latency = append(f.Latency, row)
	}
	for name, agg := range map[string][]int{"agglomerative": agglomerative(f, 2),
		"k-means": kMeans(f, rand.New(rand.NewPCG(1, 1)), 2)} {
		for i, a := range agg {
			if i/3 != a/3 {
				t.Errorf("%s: node %d is aggregated by %d", name, i, a)
			}
		}
	}
}

// TestMessagesOfRounds counts the messages of Figure 10's rounds: no node has more than in a flat
// round.
func TestMessagesOfRounds(t *testing.T) {
	b := &geococo{rig.Params{Quick: true, Log: io.Discard}}
	lines, err := b.messages(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		if name, _ := l.X.(string); strings.Contains(name, " > ") {
			continue // lines of the heat map
		}
		if l.Value > *l.Baseline {
			t.Errorf("%v: %v messages, flat %v", l.X, l.Value, *l.Baseline)
		}
	}
	if busiest := lines[len(lines)-2]; *busiest.Baseline != 12 {
		t.Errorf("a flat round of seven has %v messages a node", *busiest.Baseline)
	}
}

// TestEpochFigures runs loads on the epochs of real engines in virtual time: planned rounds and the
// filter send fewer bytes, all replicas end equal, and deterministic schedulers execute the same
// everywhere.
func TestEpochFigures(t *testing.T) {
	m, err := matrix.Default(3)
	if err != nil {
		t.Fatal(err)
	}
	at := newPlace(m, 0, 2, 2, 1)
	p, err := plan.Make(at.facts(10_000), plan.Params{NoShards: true, Groups: 3})
	if err != nil {
		t.Fatal(err)
	}
	ml := rig.NewMall(base.EpochShard, 4)
	c := epochRun{place: at, plan: p, interval: 300 * time.Millisecond, clients: 8, length: 1200 * time.Millisecond,
		statement: time.Millisecond,
		next:      func(node, client int, r *rand.Rand) rig.Job { return ml.Mixed(0, [5]int{50, 50, 0, 0, 0}, r) }}
	without, err := c.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.filtered = true
	with, err := c.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// so few commit that bytes for each of them are luck
	if with.aborted == 0 || with.writes == 0 || with.sent/with.submitted >= without.sent/without.submitted {
		t.Errorf("with the filter %+v, without %+v", *with, *without)
	}
	for _, slog := range []bool{false, true} {
		s := scheduler{place: at, slog: slog, clients: 3, rows: 20, writes: 4, value: 50, crossing: 50, length: time.Second}
		if err := rig.Virtual(s.run); err != nil {
			t.Errorf("slog %v: %v", slog, err)
		}
		if len(s.latencies) == 0 {
			t.Errorf("slog %v: nothing was executed", slog)
		}
	}
}
