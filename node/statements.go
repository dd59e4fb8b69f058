package node

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/node/adviser"
	"github.com/godwitdb/godwit/node/meter"
	"github.com/godwitdb/godwit/sql/digest"
	"github.com/godwitdb/godwit/sql/server"
)

const (
	// maxDigestsShown is how many digests of each node godwit.statements shows, by total time.
	maxDigestsShown = 1000

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

// elsewhereRows are what statements would cost if clients in other regions executed them.
func (n *Node) elsewhereRows(ctx context.Context) [][]any {
	f, known := n.adviceFacts(ctx)
	if !known {
		return nil
	}
	return adviser.Elsewhere(&f, presentOnly(n.cluster.Topology()), n.cluster.Leader)
}

// digestCollector shows the digests of this node to Prometheus.
type digestCollector struct{ n *Node }

// Describe implements prometheus.Collector.
func (c digestCollector) Describe(ch chan<- *prometheus.Desc) { meter.DescribeDigests(ch) }

// Collect implements prometheus.Collector.
func (c digestCollector) Collect(ch chan<- prometheus.Metric) {
	if srv, err := c.n.server(); err == nil { // else no statement was executed yet
		meter.CollectDigests(ch, srv.Statements().Table, srv.Statements().Slow.Load())
	}
}
