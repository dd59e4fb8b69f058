package plan

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// highs solves a mixed-integer program in LP format and returns the objective.
func highs(t *testing.T, bin, lp string) float64 {
	t.Helper()
	dir := t.TempDir()
	model, solution := filepath.Join(dir, "m.lp"), filepath.Join(dir, "m.sol")
	if err := os.WriteFile(model, []byte(lp), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "--solution_file", solution, "--parallel", "off", model)
	cmd.Dir = dir // it writes a log where it runs
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("highs: %v\n%s", err, out)
	}
	sol, err := os.ReadFile(solution)
	if err != nil || !bytes.Contains(sol, []byte("Optimal")) {
		t.Fatalf("highs found no optimum: %v\n%s", err, out)
	}
	for l := range strings.Lines(string(sol)) {
		if f := strings.Fields(l); len(f) == 2 && f[0] == "Objective" {
			v, err := strconv.ParseFloat(f[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("no objective in\n%s", sol)
	return 0
}

func solver(t *testing.T) string {
	t.Helper()
	bin := os.Getenv("GODWIT_HIGHS")
	if bin == "" {
		var err error
		if bin, err = exec.LookPath("highs"); err != nil {
			t.Skip("no MILP solver: put HiGHS's program on the PATH as highs, or its path into GODWIT_HIGHS (pip " +
				"install highsbox has it; its libraries must be found, by LD_LIBRARY_PATH)")
		}
	}
	return bin
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// assignment writes that each node has one aggregator, which aggregates for itself.
func assignment(b *strings.Builder, n int) {
	for i := range n {
		for c := range n {
			fmt.Fprintf(b, " + x%d_%d", i, c)
		}
		b.WriteString(" = 1\n")
		for c := range n {
			if i != c {
				fmt.Fprintf(b, " x%d_%d - x%d_%d <= 0\n", i, c, c, c)
			}
		}
	}
}

func binaries(b *strings.Builder, n int) {
	b.WriteString("Binary\n")
	for i := range n {
		for c := range n {
			fmt.Fprintf(b, " x%d_%d\n", i, c)
		}
	}
	b.WriteString("End\n")
}

// Equations 1 to 3 as a mixed-integer program, on every matrix.
func TestPaperFormulaAgainstMILP(t *testing.T) {
	bin := solver(t)
	for _, n := range []int{5, 12, 15} {
		for name, lat := range networks(t, n, 1) {
			var b strings.Builder
			b.WriteString("Minimize\n obj: r + d\nSubject To\n")
			assignment(&b, n)
			for i := range n {
				b.WriteString(" r")
				for c := range n {
					if i != c {
						fmt.Fprintf(&b, " - %v x%d_%d", ms(max(lat[i][c], lat[c][i])), i, c)
					}
				}
				b.WriteString(" >= 0\n")
				for c := range i {
					w := ms(max(lat[i][c], lat[c][i]))
					fmt.Fprintf(&b, " d - %v x%d_%d - %v x%d_%d >= -%v\n", w, i, i, w, c, c, w)
				}
			}
			binaries(&b, n)
			begin := time.Now()
			want := highs(t, bin, b.String())
			took := time.Since(begin)
			begin = time.Now()
			_, got := Paper(lat, 0)
			ours := time.Since(begin)
			t.Logf("%s n=%d: %.3f ms; HiGHS %v, ours %v", name, n, want, took.Round(time.Millisecond), ours)
			if d := ms(got) - want; d > 1e-3 || d < -1e-3 {
				t.Errorf("%s n=%d: %.4f ms, the solver finds %.4f", name, n, ms(got), want)
			}
		}
	}
}

// The fewest groups within the makespan that the planner allows itself, by
// latencies, on every matrix: the fewest groups are the fewest messages.
func TestFewestMessagesAgainstMILP(t *testing.T) {
	bin := solver(t)
	for _, n := range []int{5, 12, 15} {
		for name, lat := range networks(t, n, 1) {
			p := Params{RelayGain: -1, Slack: 0.05}
			begin := time.Now()
			got, err := Make(&Facts{Latency: lat}, p)
			if err != nil {
				t.Fatal(err)
			}
			ours := time.Since(begin)
			if !got.Exact {
				t.Errorf("%s n=%d: not exact", name, n)
				continue
			}
			if got.Fastest-got.Bound > time.Microsecond || got.Bound-got.Fastest > time.Microsecond {
				t.Errorf("%s n=%d: without bytes, relays reach the shortest paths: %v, bound %v", name, n, got.Fastest, got.Bound)
			}
			limit := min(float64(got.Fastest)*1.05, float64(got.Flat))/1e6 + 1e-6
			sp := ShortestPaths(lat)
			var b strings.Builder
			b.WriteString("Minimize\n obj:")
			for c := range n {
				fmt.Fprintf(&b, " + x%d_%d", c, c)
			}
			b.WriteString("\nSubject To\n")
			assignment(&b, n)
			for c := range n {
				for i := range n {
					if i != c {
						fmt.Fprintf(&b, " u%d - %v x%d_%d >= 0\n d%d - %v x%d_%d >= 0\n", c, ms(sp[i][c]), i, c, c,
							ms(sp[c][i]), i, c)
					}
				}
				fmt.Fprintf(&b, " u%d + d%d <= %v\n", c, c, limit)
				for o := range n {
					if o != c { // binds only if both aggregate
						w := ms(sp[c][o])
						fmt.Fprintf(&b, " u%d + d%d + %v x%d_%d + %v x%d_%d <= %v\n", c, o, w, c, c, w, o, o, limit+w)
					}
				}
			}
			binaries(&b, n)
			begin = time.Now()
			want := highs(t, bin, b.String())
			t.Logf("%s n=%d: %v groups; HiGHS %v, ours %v", name, n, want, time.Since(begin).Round(time.Millisecond), ours)
			// one group and two send as many
			if g := float64(len(got.Groups)); g != want && !(want <= 2 && g <= 2) {
				t.Errorf("%s n=%d: %v groups, the solver finds %v", name, n, g, want)
			}
		}
	}
}
