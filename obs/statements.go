package obs

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Statements aggregates what the statements of one node cost.
type Statements struct {
	mu    sync.RWMutex
	kinds map[string]*KindStats
	left  map[string]int64 // statements left to the old SQL engine, by reason
	whole map[string]int64 // transactions that were sent at once, by what became of them

	Transactions atomic.Int64 // committed
	WANHops      atomic.Int64 // one-way crossings that transactions waited for
	WANBytes     atomic.Int64
	WANMessages  atomic.Int64

	Forwarded atomic.Int64 // statements that another region executed for this gateway
	Executed  atomic.Int64 // statements executed here for gateways of other regions
}

// KindStats are the counts of one kind of statement (select, insert, commit, ...).
type KindStats struct {
	Latency Histogram
	Errors  atomic.Int64
}

// NewStatements counts nothing yet.
func NewStatements() *Statements {
	return &Statements{kinds: map[string]*KindStats{}, left: map[string]int64{}, whole: map[string]int64{}}
}

// Fallback counts a statement that was left to the old SQL engine.
func (s *Statements) Fallback(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left[reason]++
}

// Program counts a transaction that a client has sent at once: a program, or why it was none.
func (s *Statements) Program(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whole[reason]++
}

// Kind returns the counts of a kind, making them if needed.
func (s *Statements) Kind(name string) *KindStats {
	s.mu.RLock()
	k := s.kinds[name]
	s.mu.RUnlock()
	if k != nil {
		return k
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k = s.kinds[name]; k == nil {
		k = new(KindStats)
		s.kinds[name] = k
	}
	return k
}

// Done counts one statement.
func (s *Statements) Done(kind string, took time.Duration, failed bool) {
	k := s.Kind(kind)
	k.Latency.Observe(took)
	if failed {
		k.Errors.Add(1)
	}
}

// Cost adds what n committed transactions, autocommit statements included,
// cost on the WAN: one-way crossings they waited for, messages and bytes they caused.
func (s *Statements) Cost(n, hops int, msgs, bytes int64) {
	s.Transactions.Add(int64(n))
	s.WANHops.Add(int64(hops))
	s.WANMessages.Add(msgs)
	s.WANBytes.Add(bytes)
}

// Kinds are the names counted so far with a snapshot each.
func (s *Statements) Kinds() map[string]*Snapshot {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make(map[string]*Snapshot, len(s.kinds))
	for n, k := range s.kinds {
		out[n] = k.Latency.Snapshot()
	}
	return out
}

// Count is the number of statements of all kinds.
func (s *Statements) Count() int64 {
	n := uint64(0)
	for _, k := range s.Kinds() {
		n += k.Count()
	}
	return int64(n)
}

var (
	descStatements = prometheus.NewDesc("godwit_statement_seconds",
		"Statement latency as the client's gateway saw it.", []string{"kind"}, nil)
	descErrors = prometheus.NewDesc("godwit_statement_errors_total", "Statements that failed.", []string{"kind"}, nil)
	descTxns   = prometheus.NewDesc("godwit_transactions_total",
		"Finished transactions, autocommit statements included.", nil, nil)
	descHops = prometheus.NewDesc("godwit_transaction_wan_hops_total",
		"One-way WAN crossings on the critical path of transactions (two are a round trip).", nil, nil)
	descForwarded = prometheus.NewDesc("godwit_statements_forwarded_total",
		"Statements that another region executed for this gateway.", nil, nil)
	descExecuted = prometheus.NewDesc("godwit_statements_executed_for_others_total",
		"Statements executed here for gateways of other regions.", nil, nil)
	descFallback = prometheus.NewDesc("godwit_statement_fallbacks_total",
		"SELECTs that were left to the old SQL engine.", []string{"reason"}, nil)
	descProgram = prometheus.NewDesc("godwit_oneshot_transactions_total",
		"Transactions that clients sent at once: programs, and why others were none.", []string{"reason"}, nil)
	descBytes = prometheus.NewDesc("godwit_transaction_wan_bytes_total",
		"WAN bytes caused by transactions, replication aside.", nil, nil)
)

// Describe implements prometheus.Collector.
func (s *Statements) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descStatements, descErrors, descTxns, descHops, descBytes, descForwarded,
		descExecuted, descFallback, descProgram} {
		ch <- d
	}
}

// promBounds are the bucket bounds shown to Prometheus, in seconds.
var promBounds = []float64{50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3,
	500e-3, 1, 2.5, 5, 10}

// Collect implements prometheus.Collector.
func (s *Statements) Collect(ch chan<- prometheus.Metric) {
	for name, snap := range s.Kinds() {
		buckets := make(map[float64]uint64, len(promBounds))
		for b, c := range snap.Counts {
			for _, le := range promBounds {
				if upper(b).Seconds() <= le {
					buckets[le] += c
				}
			}
		}
		ch <- prometheus.MustNewConstHistogram(descStatements, snap.Count(), snap.Sum.Seconds(), buckets, name)
		ch <- prometheus.MustNewConstMetric(descErrors, prometheus.CounterValue, float64(s.Kind(name).Errors.Load()), name)
	}
	for d, v := range map[*prometheus.Desc]int64{descTxns: s.Transactions.Load(), descHops: s.WANHops.Load(),
		descBytes: s.WANBytes.Load(), descForwarded: s.Forwarded.Load(), descExecuted: s.Executed.Load()} {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v))
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for reason, n := range s.left {
		ch <- prometheus.MustNewConstMetric(descFallback, prometheus.CounterValue, float64(n), reason)
	}
	for reason, n := range s.whole {
		ch <- prometheus.MustNewConstMetric(descProgram, prometheus.CounterValue, float64(n), reason)
	}
}
