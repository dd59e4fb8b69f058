package workload

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// KindStats are the figures of one kind, or of several together.
type KindStats struct {
	// Kind is the transaction type, "total" for all together.
	Kind string
	// Count is the number of transactions that committed.
	Count uint64
	// Rate is Count per second.
	Rate float64
	// Rollbacks were intended, Retries are repeated attempts, Errors ended a transaction without
	// success.
	Rollbacks, Retries, Errors uint64
	// Latencies of committed and of intentionally rolled-back transactions.
	Mean, P50, P90, P99, Max time.Duration
	// RoundTrips is the mean number of WAN round trips that a transaction waited for, over the
	// Measured transactions. Both are 0 if the server does not count round trips or the workload
	// does not ask.
	RoundTrips float64
	Measured   uint64
}

// MarshalJSON gives latencies in milliseconds.
func (k KindStats) MarshalJSON() ([]byte, error) {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	var trips *float64
	if k.Measured > 0 {
		trips = &k.RoundTrips
	}
	return json.Marshal(struct {
		Kind      string  `json:"kind"`
		Count     uint64  `json:"count"`
		Rate      float64 `json:"per_second"`
		Mean      float64 `json:"mean_ms"`
		P50       float64 `json:"p50_ms"`
		P90       float64 `json:"p90_ms"`
		P99       float64 `json:"p99_ms"`
		Max       float64 `json:"max_ms"`
		Retries   uint64  `json:"retries"`
		Rollbacks uint64  `json:"rollbacks"`
		Errors    uint64  `json:"errors"`
		// of the transactions whose round trips were counted
		RoundTrips *float64 `json:"wan_round_trips,omitempty"`
	}{k.Kind, k.Count, k.Rate, ms(k.Mean), ms(k.P50), ms(k.P90), ms(k.P99), ms(k.Max), k.Retries, k.Rollbacks, k.Errors, trips})
}

// RegionStats are the figures of one region.
type RegionStats struct {
	Region string      `json:"region"`
	Total  KindStats   `json:"total"`
	Kinds  []KindStats `json:"kinds"`
}

// Snapshot says what happened in an interval.
type Snapshot struct {
	// Elapsed is the time since the start of the measurement, or of the warm-up while Warmup is
	// true.
	Elapsed time.Duration
	Warmup  bool
	// Interval is the time that the figures cover.
	Interval time.Duration
	Total    KindStats
	Kinds    []KindStats
	Regions  []RegionStats
}

// ErrorCount is an error that clients saw, and how often. Texts that differ only in numbers count
// together, under the first one.
type ErrorCount struct {
	Text  string `json:"text"`
	Count uint64 `json:"count"`
}

// Report is the outcome of a run.
type Report struct {
	Workload string
	// Server is what the server says about itself.
	Server  string
	Seed    uint64
	Elapsed time.Duration
	Clients int
	Total   KindStats
	Kinds   []KindStats
	Regions []RegionStats
	// Errors lists at most maxErrorTexts texts, the most frequent first.
	Errors []ErrorCount
	// TpmC is the number of committed New-Order transactions a minute, without those rolled back
	// intentionally; 0 for other workloads. Without Wait it is not the specification's metric of
	// that name.
	TpmC float64
	// Moved is how often rows have moved to another region; nil if the workload does not ask or the
	// server does not count.
	Moved *int64
}

// MarshalJSON gives the elapsed time in seconds.
func (r *Report) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Workload string        `json:"workload"`
		Server   string        `json:"server"`
		Seed     uint64        `json:"seed"`
		Elapsed  float64       `json:"elapsed_s"`
		Clients  int           `json:"clients"`
		TpmC     float64       `json:"tpmc,omitempty"`
		Total    KindStats     `json:"total"`
		Kinds    []KindStats   `json:"kinds"`
		Regions  []RegionStats `json:"regions"`
		Errors   []ErrorCount  `json:"errors"`
		Moved    *int64        `json:"rows_moved,omitempty"`
	}{r.Workload, r.Server, r.Seed, r.Elapsed.Seconds(), r.Clients, r.TpmC, r.Total, r.Kinds, r.Regions, r.Errors, r.Moved})
}

// maxErrorTexts bounds the list of error texts.
const maxErrorTexts = 50

// counters are the live figures of one kind in one region.
type counters struct {
	latency                               histogram
	commits, rollbacks, retries, failures atomic.Uint64
	halfTrips, measured                   atomic.Uint64
}

// reading is a copy of counters.
type reading struct {
	latency                               *distribution
	commits, rollbacks, retries, failures uint64
	halfTrips, measured                   uint64
}

func (c *counters) read() reading {
	return reading{c.latency.read(), c.commits.Load(), c.rollbacks.Load(), c.retries.Load(), c.failures.Load(),
		c.halfTrips.Load(), c.measured.Load()}
}

func (r *reading) add(o reading) {
	r.latency.add(o.latency)
	r.commits += o.commits
	r.rollbacks += o.rollbacks
	r.retries += o.retries
	r.failures += o.failures
	r.halfTrips += o.halfTrips
	r.measured += o.measured
}

func (r reading) since(o reading) reading {
	return reading{r.latency.since(o.latency), r.commits - o.commits, r.rollbacks - o.rollbacks, r.retries - o.retries,
		r.failures - o.failures, r.halfTrips - o.halfTrips, r.measured - o.measured}
}

func (r reading) stats(kind string, d time.Duration) KindStats {
	k := KindStats{Kind: kind, Count: r.commits, Rollbacks: r.rollbacks, Retries: r.retries, Errors: r.failures,
		Mean: r.latency.mean(), P50: r.latency.percentile(50), P90: r.latency.percentile(90),
		P99: r.latency.percentile(99), Max: time.Duration(r.latency.max) * time.Microsecond}
	if d > 0 {
		k.Rate = float64(r.commits) / d.Seconds()
	}
	if k.Measured = r.measured; k.Measured > 0 {
		k.RoundTrips = float64(r.halfTrips) / 2 / float64(r.measured)
	}
	return k
}

// recorder collects the figures of a run.
type recorder struct {
	kinds   []string
	regions []string
	cells   [][]*counters // by region, kind

	mu     sync.Mutex
	errors map[string]*ErrorCount
}

func newRecorder(regions, kinds []string) *recorder {
	r := &recorder{kinds: kinds, regions: regions, errors: map[string]*ErrorCount{}}
	for range regions {
		row := make([]*counters, len(kinds))
		for i := range row {
			row[i] = &counters{}
		}
		r.cells = append(r.cells, row)
	}
	return r
}

var numbers = regexp.MustCompile(`[0-9]+`)

// fail counts a client-visible error.
func (r *recorder) fail(region, kind int, err error) {
	r.cells[region][kind].failures.Add(1)
	text := r.kinds[kind] + ": " + err.Error()
	key := numbers.ReplaceAllString(text, "#")
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.errors[key]
	if e == nil {
		if len(r.errors) >= maxErrorTexts {
			key, text = "", "other errors"
			e = r.errors[key]
		}
		if e == nil {
			e = &ErrorCount{Text: text}
			r.errors[key] = e
		}
	}
	e.Count++
}

func (r *recorder) errorList() []ErrorCount {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := []ErrorCount{} // not nil: JSON shows []
	for _, e := range r.errors {
		list = append(list, *e)
	}
	slices.SortFunc(list, func(a, b ErrorCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Text, b.Text))
	})
	return list
}

// read copies all cells.
func (r *recorder) read() [][]reading {
	out := make([][]reading, len(r.cells))
	for i, row := range r.cells {
		for _, c := range row {
			out[i] = append(out[i], c.read())
		}
	}
	return out
}

// summary computes the figures of the time from one reading (nil for the start) to another.
func (r *recorder) summary(from, to [][]reading, d time.Duration) (total KindStats, kinds []KindStats, regions []RegionStats) {
	all := reading{latency: &distribution{}}
	perKind := make([]reading, len(r.kinds))
	for k := range perKind {
		perKind[k].latency = &distribution{}
	}
	for i, row := range to {
		sum := reading{latency: &distribution{}}
		rs := RegionStats{Region: r.regions[i]}
		for k, c := range row {
			if from != nil {
				c = c.since(from[i][k])
			}
			sum.add(c)
			perKind[k].add(c)
			rs.Kinds = append(rs.Kinds, c.stats(r.kinds[k], d))
		}
		all.add(sum)
		rs.Total = sum.stats("total", d)
		regions = append(regions, rs)
	}
	for k, c := range perKind {
		kinds = append(kinds, c.stats(r.kinds[k], d))
	}
	return all.stats("total", d), kinds, regions
}
