package demo

import (
	"slices"
	"strings"
	"time"

	"github.com/godwitdb/godwit/obs"
)

// Cluster is what the demo needs to know of the cluster it shows.
type Cluster interface {
	// Regions in the order of the matrix.
	Regions() []string
	// SQLAddrs are the host:port of a region's nodes for MySQL clients.
	SQLAddrs(region string) []string
	// Counts returns every region's counts since its nodes started.
	Counts() map[string]Counts
}

// Kind are the cumulative counts of one kind of statement.
type Kind struct {
	Latency *obs.Snapshot // as the gateway saw it; nil is empty
	Errors  int64         // statements that failed, retryable errors included
}

// Counts are the cumulative counts of one region's gateways.
type Counts struct {
	Kinds        map[string]Kind // by statement kind: select, insert, update, ...
	Transactions int64           // finished, autocommit statements included
	WANHops      int64           // one-way crossings that the transactions waited for
	WANBytes     int64           // caused by them, waited for or not
	WANMessages  int64
	MovedIn      int64 // rows that moved to this region
}

// sub is what happened since older counts.
func (c Counts) sub(old Counts) Counts {
	d := Counts{Kinds: map[string]Kind{}, Transactions: c.Transactions - old.Transactions, WANHops: c.WANHops - old.WANHops,
		WANBytes: c.WANBytes - old.WANBytes, WANMessages: c.WANMessages - old.WANMessages,
		MovedIn: c.MovedIn - old.MovedIn}
	for name, k := range c.Kinds {
		if k.Latency == nil {
			k.Latency = &obs.Snapshot{}
		}
		o := old.Kinds[name]
		d.Kinds[name] = Kind{Latency: k.Latency.Sub(o.Latency), Errors: k.Errors - o.Errors}
	}
	return d
}

// add sums the counts of regions.
func (c *Counts) add(o Counts) {
	if c.Kinds == nil {
		c.Kinds = map[string]Kind{}
	}
	for name, k := range o.Kinds {
		sum := c.Kinds[name]
		if sum.Latency == nil {
			sum.Latency = &obs.Snapshot{}
		}
		if k.Latency != nil {
			sum.Latency.Merge(k.Latency)
		}
		sum.Errors += k.Errors
		c.Kinds[name] = sum
	}
	c.Transactions += o.Transactions
	c.WANHops += o.WANHops
	c.WANBytes += o.WANBytes
	c.WANMessages += o.WANMessages
	c.MovedIn += o.MovedIn
}

// KindFigures are the figures of one kind of statement over an interval.
type KindFigures struct {
	Kind   string  `json:"kind"`
	Count  uint64  `json:"count"`
	Rate   float64 `json:"per_second"`
	P50    float64 `json:"p50_ms"`
	P99    float64 `json:"p99_ms"`
	Errors int64   `json:"errors"`
}

// Figures are those of one region, or of all, over an interval. Latencies are
// the gateway's: from the statement's arrival to its answer. A WAN round trip
// counts only if a transaction waited for it.
type Figures struct {
	Region        string        `json:"region"`
	SQL           []string      `json:"sql_addrs,omitempty"`
	Statements    uint64        `json:"statements"`
	StatementRate float64       `json:"statements_per_second"`
	Transactions  int64         `json:"transactions"`
	TxnRate       float64       `json:"transactions_per_second"`
	RoundTrips    float64       `json:"wan_round_trips_per_transaction"`
	Bytes         float64       `json:"wan_bytes_per_transaction"`
	Messages      float64       `json:"wan_messages_per_transaction"`
	MovedIn       int64         `json:"rows_moved_in"`
	Kinds         []KindFigures `json:"kinds"`
}

// kindOrder is the order of kinds in tables. Other kinds follow by name.
var kindOrder = []string{"select", "insert", "update", "delete", "commit", "rollback", "ddl", "other"}

func compareKinds(a, b string) int {
	rank := func(k string) int {
		if i := slices.Index(kindOrder, k); i >= 0 {
			return i
		}
		return len(kindOrder)
	}
	if d := rank(a) - rank(b); d != 0 {
		return d
	}
	return strings.Compare(a, b)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// figures evaluates what was counted in an interval of length d.
func figures(region string, c Counts, d time.Duration) Figures {
	f := Figures{Region: region, Transactions: c.Transactions, MovedIn: c.MovedIn, Kinds: []KindFigures{}}
	seconds := max(d.Seconds(), 1e-9)
	for name, k := range c.Kinds {
		n := k.Latency.Count()
		if n == 0 && k.Errors == 0 {
			continue
		}
		f.Statements += n
		f.Kinds = append(f.Kinds, KindFigures{Kind: name, Count: n, Rate: float64(n) / seconds, Errors: k.Errors,
			P50: milliseconds(k.Latency.Quantile(0.5)), P99: milliseconds(k.Latency.Quantile(0.99))})
	}
	slices.SortFunc(f.Kinds, func(a, b KindFigures) int { return compareKinds(a.Kind, b.Kind) })
	f.StatementRate = float64(f.Statements) / seconds
	f.TxnRate = float64(c.Transactions) / seconds
	if n := float64(c.Transactions); n > 0 {
		f.RoundTrips = float64(c.WANHops) / 2 / n
		f.Bytes = float64(c.WANBytes) / n
		f.Messages = float64(c.WANMessages) / n
	}
	return f
}

// between evaluates every region, and all together as the last element.
func between(regions []string, from, to map[string]Counts, d time.Duration) []Figures {
	var out []Figures
	var all Counts
	for _, r := range regions {
		c := to[r].sub(from[r])
		all.add(c)
		out = append(out, figures(r, c, d))
	}
	return append(out, figures("all", all, d))
}
