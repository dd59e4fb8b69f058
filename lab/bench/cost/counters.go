package cost

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/godwitdb/godwit/lab/bench/rig"
)

// counters are what a process has used since its start.
type counters struct {
	cpu       time.Duration
	allocated float64 // bytes
	objects   float64 // allocated
	switches  float64 // times that a goroutine began to run
	readCalls float64 // read system calls and their like, which the kernel counts for each process
	callsOut  float64 // write system calls and their like
	written   float64 // bytes that go to the disk
}

// less is what was used since before.
func (c counters) less(b counters) counters {
	return counters{c.cpu - b.cpu, c.allocated - b.allocated, c.objects - b.objects, c.switches - b.switches,
		c.readCalls - b.readCalls, c.callsOut - b.callsOut, c.written - b.written}
}

// schedulingPeriod: Go notes how long a goroutine waited for its turn at one in so many of its
// turns.
const schedulingPeriod = 8

// The node's metrics that are read.
const (
	metricAllocated = "go_memstats_alloc_bytes_total"
	metricObjects   = "go_memstats_mallocs_total"
	metricTurns     = "go_sched_latencies_seconds_count"
)

// readCounters asks the kernel and the node's metrics.
func readCounters(ctx context.Context, s *rig.Server) (c counters, err error) {
	text, err := get(ctx, s, "/metrics")
	if err != nil {
		return c, err
	}
	m, err := parseMetrics(text, metricAllocated, metricObjects, metricTurns)
	if err != nil {
		return c, err
	}
	c.allocated, c.objects, c.switches = m[metricAllocated], m[metricObjects], schedulingPeriod*m[metricTurns]
	if c.cpu, err = s.CPU(); err != nil {
		return c, err
	}
	text, err = os.ReadFile(fmt.Sprintf("/proc/%d/io", s.Cmd.Process.Pid))
	if err != nil {
		return c, fmt.Errorf("what the server reads and writes: %w (this benchmark needs Linux)", err)
	}
	c.readCalls, c.callsOut, c.written, err = parseIO(text)
	return c, err
}

// get asks the node's HTTP interface.
func get(ctx context.Context, s *rig.Server, path string) (text []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Admin+path, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	text, err = io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %.200s", path, res.Status, text)
	}
	return text, err
}

// parseMetrics returns the metrics without labels of these names, in Prometheus' text format.
func parseMetrics(text []byte, names ...string) (map[string]float64, error) {
	got := map[string]float64{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			got[name] = v
		}
	}
	for _, n := range names {
		if _, ok := got[n]; !ok {
			return nil, fmt.Errorf("the node has no metric %s", n)
		}
	}
	return got, nil
}

// parseIO reads /proc/PID/io.
func parseIO(text []byte) (readCalls, callsOut, written float64, err error) {
	var found int
	for _, f := range []struct {
		name string
		to   *float64
	}{{"syscr: ", &readCalls}, {"syscw: ", &callsOut}, {"\nwrite_bytes: ", &written}} {
		if _, rest, ok := strings.Cut(string(text), f.name); ok {
			number, _, _ := strings.Cut(rest, "\n")
			if *f.to, err = strconv.ParseFloat(number, 64); err != nil {
				return 0, 0, 0, err
			}
			found++
		}
	}
	if found < 3 {
		return 0, 0, 0, fmt.Errorf("/proc has no counts of system calls and bytes: %q", text)
	}
	return readCalls, callsOut, written, nil
}
