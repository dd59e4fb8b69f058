package cost

import (
	"bytes"
	"compress/gzip"
	"math"
	"os"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/lab/bench/rig"
)

// TestReadProfile: what runtime/pprof writes is read with its functions and its time.
func TestReadProfile(t *testing.T) {
	var zipped bytes.Buffer
	if err := pprof.StartCPUProfile(&zipped); err != nil {
		t.Fatal(err)
	}
	// As long as it takes to be seen: a busy machine gives no processor time for a while.
	busy := 0
	for cpu := rig.CPUTime(); rig.CPUTime()-cpu < 200*time.Millisecond; {
		busy += burn()
	}
	pprof.StopCPUProfile()
	samples, err := readProfile(zipped.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	var burnt time.Duration
	for _, s := range samples {
		if strings.Contains(strings.Join(s.stack, " "), "cost.burn") {
			burnt += s.cpu
		}
	}
	if burnt == 0 {
		t.Errorf("none of %d samples is of the function that ran (%d)", len(samples), busy)
	}
}

//go:noinline
func burn() (n int) {
	for i := range 1 << 20 {
		n += i * i
	}
	return n
}

// TestReadProfileOf refuses what is none.
func TestReadProfileOf(t *testing.T) {
	zip := func(data ...byte) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for name, data := range map[string][]byte{
		"no gzip":                []byte("profile"),
		"a field without an end": zip(profileSample<<3|2, 100, 1),
		"a sample without time":  zip(profileSample<<3|2, 2, sampleValues<<3, 1),
	} {
		if s, err := readProfile(data); err == nil {
			t.Errorf("%s: got %v", name, s)
		}
	}
}

// TestRecordedProfile: of a real profile of sysbench's tests (made as cmd/godwit/pgo.sh makes its
// own) every sample has a stage, next to none the one of the others, and those that statements have
// to pay are all there.
func TestRecordedProfile(t *testing.T) {
	zipped, err := os.ReadFile("testdata/mixed.pprof")
	if err != nil {
		t.Fatal(err)
	}
	samples, err := readProfile(zipped)
	if err != nil {
		t.Fatal(err)
	}
	var all time.Duration
	for _, s := range samples {
		all += s.cpu
	}
	b := divide(samples)
	if b.total() != all || all == 0 {
		t.Errorf("the stages have %v of %v", b.total(), all)
	}
	if share := float64(b.by[other]) / float64(all); share > mostOther {
		t.Errorf("%.1f %% of the time is in functions that the table does not know", 100*share)
	}
	for s := range stages {
		// Nobody asked for metrics, and heartbeats are few.
		if b.by[s] == 0 && s != other && s != measuring && s != upkeep {
			t.Errorf("%s has nothing", s)
		}
	}
}

func TestParseMetrics(t *testing.T) {
	const text = `# HELP go_memstats_alloc_bytes_total Total
# TYPE go_memstats_alloc_bytes_total counter
go_memstats_alloc_bytes_total 1.5e+09
go_sched_latencies_seconds_bucket{le="+Inf"} 7
go_sched_latencies_seconds_count 12
`
	m, err := parseMetrics([]byte(text), metricAllocated, metricTurns)
	if err != nil || m[metricAllocated] != 1.5e9 || m[metricTurns] != 12 {
		t.Errorf("got %v, %v", m, err)
	}
	if _, err := parseMetrics([]byte(text), metricObjects); err == nil || !strings.Contains(err.Error(), metricObjects) {
		t.Errorf("a metric that is missing: %v", err)
	}
}

func TestParseIO(t *testing.T) {
	const text = "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\ncancelled_write_bytes: 7\n"
	r, w, written, err := parseIO([]byte(text))
	if err != nil || r != 3 || w != 4 || written != 6 {
		t.Errorf("got %v, %v, %v, %v", r, w, written, err)
	}
	if _, _, _, err := parseIO([]byte("rchar: 1\n")); err == nil {
		t.Error("counts that are missing were found")
	}
}

func TestParseQueries(t *testing.T) {
	n, rate, err := parseQueries("    queries:                             57360  (5735.12 per sec.)\n")
	if err != nil || n != 57360 || rate != 5735.12 {
		t.Errorf("got %v, %v, %v", n, rate, err)
	}
	if _, _, err := parseQueries("FATAL: unable to connect"); err == nil || !strings.Contains(err.Error(), "FATAL") {
		t.Errorf("a report without queries: %v", err)
	}
}

// TestWithin: a budget whose samples miss more than a tenth of the process's time is told.
func TestWithin(t *testing.T) {
	for _, c := range []struct {
		samples, process time.Duration
		within           bool
	}{
		{950 * time.Millisecond, time.Second, true}, {1090 * time.Millisecond, time.Second, true},
		{890 * time.Millisecond, time.Second, false}, {1110 * time.Millisecond, time.Second, false},
	} {
		pt := &point{threads: 8, budget: divide([]sample{{nil, c.samples}}), window: c.process}
		if pt.within() != c.within {
			t.Errorf("%v of %v: within is %v", c.samples, c.process, pt.within())
		}
		var log bytes.Buffer
		b := &bench{}
		b.p.Log = &log
		b.warn(kinds[0], pt)
		if told := strings.Contains(log.String(), "NOT within"); told == c.within {
			t.Errorf("%v of %v: it says %q", c.samples, c.process, log.String())
		}
		if !strings.Contains(log.String(), "the table of stages misses functions") {
			t.Errorf("a sample of no known function: it says %q", log.String())
		}
	}
}

// TestTable: the stages add up to the process's CPU time, whatever the samples came to.
func TestTable(t *testing.T) {
	pt := point{threads: 1, queries: 1000, rate: 500, calls: math.NaN(), window: 100 * time.Millisecond,
		used: counters{cpu: 90 * time.Millisecond, allocated: 4e6, written: 240e3},
		budget: divide([]sample{
			{[]string{module + "txn.(*Txn).Commit"}, 25 * time.Millisecond}, {[]string{"runtime.mcall"}, 75 * time.Millisecond},
		})}
	got := table(kinds[1], []point{pt})
	for _, want := range []string{"| coordinate | 22.5 |", "| scheduler | 67.5 |", "**90.0** |", "| system calls, calls | - |",
		"| allocated, bytes | 4000 |", "| written by byte changed, bytes | 2.00 |", "| throughput, queries/s | 500 |"} {
		if !strings.Contains(got, want) {
			t.Errorf("the table has no %q:\n%s", want, got)
		}
	}
}
