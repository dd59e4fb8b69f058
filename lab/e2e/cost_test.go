package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
)

// costLine is what the test reads of a line of the benchmark.
type costLine struct {
	Figure, Series, Metric string
	X                      any
	Value                  float64
}

// TestBenchCost runs the benchmark with a small table, real processes and real profiles: the stages
// of each budget add up to the process's time, next to nothing is of unknown functions, and what a
// write cannot do without is there. How much anything takes is not asserted.
func TestBenchCost(t *testing.T) {
	tool(t, "sysbench")
	if testing.Short() {
		t.Skip("-short: it takes half a minute")
	}
	status, out, errs := godwit(t, "bench", "cost", "--quick", "--rows", "20000", "--json",
		"--figure", "point_select,update_non_index,delete,floor")
	if status != 0 {
		t.Fatalf("it ended with %d:\n%s", status, errs)
	}
	values := map[string]float64{}
	for dec := json.NewDecoder(strings.NewReader(out)); dec.More(); {
		var l costLine
		if err := dec.Decode(&l); err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprintf("%s, %s, %v", strings.TrimPrefix(l.Figure, "cost/"), l.Series, l.X)
		if l.Figure == "cost/floor" {
			key += ", " + l.Metric
		}
		values[key] = l.Value
	}
	var all, unknown float64
	for _, kind := range []string{"point_select", "update_non_index", "delete"} {
		for _, threads := range []string{"1 threads", "8 threads"} {
			at := kind + ", " + threads + ", "
			sum := addsUp(t, values, at)
			all, unknown = all+sum, unknown+values[at+"other"]
			wanted := []string{"allocated", "objects allocated", "reads and writes", "goroutine switches", "throughput", "profile"}
			if kind != "point_select" {
				wanted = append(wanted, "written to the disk", "written by byte changed")
			}
			positive(t, values, at, wanted...)
		}
	}
	// Not each budget by itself: a busy machine gives few samples.
	if unknown > all/10 {
		t.Errorf("%.1f of %.1f µs are in functions that the table of stages does not know:\n%s", unknown, all, errs)
	}
	for _, step := range []string{"socket", "pebble commit", "raft entry in memory", "raft entry, synced"} {
		positive(t, values, "floor, "+step+", ", "1 at once, CPU each", "8 at once, CPU each")
	}
	if t.Failed() {
		t.Logf("it said:\n%s", errs)
	}
}

// addsUp checks that the stages of a budget come to its sum, and returns that.
func addsUp(t *testing.T, values map[string]float64, at string) (sum float64) {
	t.Helper()
	var total float64
	for _, stage := range []string{"receive", "recognise", "session", "plan", "coordinate", "lock", "evaluate", "raft append",
		"write", "sync", "apply", "reply", "tables", "upkeep", "garbage collection", "scheduler", "measuring", "other"} {
		v, ok := values[at+stage]
		if !ok {
			t.Errorf("%s%s is missing", at, stage)
		}
		total += v
	}
	sum = values[at+"sum"]
	if sum <= 0 || math.Abs(total-sum) > sum/1000 {
		t.Errorf("%sthe stages come to %v, the process's time to %v", at, total, sum)
	}
	return sum
}

func positive(t *testing.T, values map[string]float64, at string, names ...string) {
	t.Helper()
	for _, n := range names {
		if v := values[at+n]; v <= 0 {
			t.Errorf("%s%s is %v", at, n, v)
		}
	}
}
