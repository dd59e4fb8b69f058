package bench

import (
	"context"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/matrix"
	"github.com/godwitdb/godwit/plan"
)

// Every way of grouping is executed to full delivery: none is faster than the
// shortest paths, and Godwit's is the fastest.
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
	for name, agg := range map[string][]int{"agglomerative": agglomerative(f, 2), "k-means": kMeans(f, rand.New(rand.NewPCG(1, 1)), 2)} {
		for i, a := range agg {
			if i/3 != a/3 {
				t.Errorf("%s: node %d is aggregated by %d", name, i, a)
			}
		}
	}
}

// The rounds of Figure 10 are real ones: no node has more messages than in a flat round.
func TestMessagesOfRounds(t *testing.T) {
	b := &geococo{Params{Quick: true, Log: io.Discard}}
	lines, err := b.messages(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		if l.Value > *l.Baseline {
			t.Errorf("%v: %v messages, flat %v", l.X, l.Value, *l.Baseline)
		}
	}
	if busiest := lines[len(lines)-2]; *busiest.Baseline != 12 {
		t.Errorf("a flat round of seven has %v messages a node", *busiest.Baseline)
	}
}
