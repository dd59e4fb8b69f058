package node

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/digest"
	"github.com/godwitdb/godwit/sql/server"
)

const (
	// maxDigestsShown is how many digests of each node godwit.statements shows, by total time.
	maxDigestsShown = 1000
	// maxDigestsMeasured is how many Prometheus gets, and maxLabel bounds their texts, in bytes.
	maxDigestsMeasured = 50
	maxLabel           = 120

	askStatements = "statements"
)

var statementTopics = []server.Topic{
	{Name: "statements", Comment: "what statements have cost since their gateways began, by node and digest", Columns: slices.Concat(
		columns(server.TopicInt, "node"), columns(server.TopicText, "region", "schema_name", "digest", "digest_text"),
		columns(server.TopicInt, "statements", "errors", "warnings", "rows_sent", "rows_affected"),
		columns(server.TopicFloat, "total_ms", "min_ms", "avg_ms", "max_ms", "p50_ms", "p95_ms", "p99_ms", "wan_round_trips"),
		columns(server.TopicInt, "crossed_wan", "in_transactions", "wan_bytes", "rows_moved", "retries"),
		columns(server.TopicFloat, "replica_wait_ms"),
		columns(server.TopicTime, "first_seen", "last_seen"), columns(server.TopicText, "sample"),
		columns(server.TopicTime, "sample_seen"), columns(server.TopicFloat, "sample_ms"), columns(server.TopicInt, "max_memory_bytes"))},
}

// nodeDigests are the digests of a node, in the form in which nodes send them.
type nodeDigests struct {
	Node base.NodeID  `json:"node"`
	Rows []digest.Row `json:"rows"`
}

// localDigests are those of this node that took the longest, and what has no digest.
func (n *Node) localDigests() nodeDigests {
	out := nodeDigests{Node: n.ID()}
	if srv, err := n.server(); err == nil {
		t := srv.Statements().Table
		out.Rows = t.Top(maxDigestsShown)
		if rest, ok := t.Rest(); ok {
			out.Rows = append(out.Rows, rest)
		}
	}
	return out
}

// statementRows are the digests of all nodes that answer, those that took the longest first.
func (n *Node) statementRows(ctx context.Context) (rows [][]any) {
	all := []nodeDigests{n.localDigests()}
	for _, b := range n.cluster.AskAll(ctx, askStatements, askStatements) {
		var more nodeDigests
		if json.Unmarshal(b, &more) == nil {
			all = append(all, more)
		}
	}
	slices.SortFunc(all, func(a, b nodeDigests) int { return cmp.Compare(a.Node, b.Node) })
	t := n.cluster.Topology()
	for _, of := range all {
		region := t.RegionName(t.RegionOf(of.Node))
		for _, r := range of.Rows {
			rows = append(rows, []any{of.Node, region, orNull(r.Schema), orNull(r.Digest()), orNull(r.Text),
				r.Count, r.Errors, r.Warnings, r.Sent, r.Affected,
				millis(r.Sum), millis(r.Min), millis(r.Mean()), millis(r.Max), millis(r.P50), millis(r.P95), millis(r.P99),
				float64(r.Hops) / 2, r.Crossed, r.Inside, r.Bytes, r.Moves, r.Retries, millis(r.Waited), r.First, r.Last, orNull(r.Sample),
				r.SampleAt, millis(r.SampleTook), r.Work.Memory})
		}
	}
	return rows
}

// digestCollector shows the digests of this node to Prometheus: all in sum, and those that took the
// longest one by one. A digest that leaves these has no series any more.
type digestCollector struct{ n *Node }

var (
	digestLabels = []string{"digest", "schema", "text"}
	digestCount  = prometheus.NewDesc("godwit_digest_statements_total",
		"Statements of a digest, of the 50 digests that took the most time.", digestLabels, nil)
	digestErrors = prometheus.NewDesc("godwit_digest_errors_total", "Statements of a digest that failed.", digestLabels, nil)
	digestTime   = prometheus.NewDesc("godwit_digest_seconds_total", "Time that statements of a digest took.", digestLabels, nil)
	digestHops   = prometheus.NewDesc("godwit_digest_wan_hops_total",
		"One-way WAN crossings that statements of a digest waited for (two are a round trip).", digestLabels, nil)
	digestBytes = prometheus.NewDesc("godwit_digest_wan_bytes_total", "WAN bytes that statements of a digest caused.",
		digestLabels, nil)
	digestsKept = prometheus.NewDesc("godwit_digests", "Digests of statements that this node keeps.", nil, nil)
	digestsRest = prometheus.NewDesc("godwit_digest_overflow_statements_total",
		"Statements without a digest, because the node keeps as many as it may.", nil, nil)
	digestsSlow = prometheus.NewDesc("godwit_slow_statements_total",
		"Statements that took longer than their session's long_query_time, logged or not.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c digestCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{digestCount, digestErrors, digestTime, digestHops, digestBytes, digestsKept,
		digestsRest, digestsSlow} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c digestCollector) Collect(ch chan<- prometheus.Metric) {
	srv, err := c.n.server()
	if err != nil {
		return // no statement was executed yet
	}
	collectDigests(ch, srv.Statements().Table)
	ch <- prometheus.MustNewConstMetric(digestsSlow, prometheus.CounterValue, float64(srv.Statements().Slow.Load()))
}

func collectDigests(ch chan<- prometheus.Metric, t *digest.Table) {
	kept, rest := t.Digests()
	ch <- prometheus.MustNewConstMetric(digestsKept, prometheus.GaugeValue, float64(kept))
	ch <- prometheus.MustNewConstMetric(digestsRest, prometheus.CounterValue, float64(rest))
	for _, r := range t.Top(maxDigestsMeasured) {
		text := r.Text
		if len(text) > maxLabel {
			text = text[:maxLabel-3] + "..."
		}
		labels := []string{r.Digest()[:16], strings.ToValidUTF8(r.Schema, "?"), strings.ToValidUTF8(text, "?")}
		for d, v := range map[*prometheus.Desc]float64{digestCount: float64(r.Count), digestErrors: float64(r.Errors),
			digestTime: r.Sum.Seconds(), digestHops: float64(r.Hops), digestBytes: float64(r.Bytes)} {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
		}
	}
}
