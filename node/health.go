package node

import (
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/godwitdb/godwit/node/decided"
	"github.com/godwitdb/godwit/sql/server"
)

var healthTopics = []server.Topic{
	{Name: "health", Comment: "what each node finds of its disk, store, process, clock and links", Columns: slices.Concat(
		columns(server.TopicInt, "node"), columns(server.TopicText, "region", "organ", "state"),
		columns(server.TopicFloat, "for_s"),
		columns(server.TopicText, "why", "what_to_do"), columns(server.TopicBool, "leads_leave"),
		columns(server.TopicFloat, "patience_s", "sync_ms", "sync_age_ms"))},
	{Name: "problems", Comment: "what somebody should look at, the worst first, and what to do; the same as in godwit status",
		Columns: columns(server.TopicText, "problem")},
}

func (n *Node) problemRows(ctx context.Context) (rows [][]any) {
	for _, p := range n.cluster.Status(ctx).Problems {
		rows = append(rows, []any{p})
	}
	return rows
}

func (n *Node) healthRows(ctx context.Context) (rows [][]any) {
	t := n.cluster.Topology()
	for _, h := range n.cluster.AllHealth(ctx) {
		for _, o := range h.Organs {
			rows = append(rows, []any{h.Node, t.RegionName(t.RegionOf(h.Node)), o.Organ, o.State, seconds(o.For),
				orNull(o.Why), orNull(o.Advice), o.Leaves, seconds(o.Patience), millis(h.Sync), millis(h.SyncAge)})
		}
	}
	return rows
}

// healthHistoryRows are the rows of godwit.health_history.
func (n *Node) healthHistoryRows(ctx context.Context) [][]any {
	return decided.Health(n.cluster.Topology(), n.cluster.AllHealth(ctx))
}

// healthCollector shows the node's health to Prometheus.
type healthCollector struct{ n *Node }

var (
	healthOrgan = prometheus.NewDesc("godwit_health_sick",
		"1 while an organ of this node is sick or has not been well for long enough.", []string{"organ"}, nil)
	healthSyncAge = prometheus.NewDesc("godwit_health_sync_age_seconds",
		"How long the oldest sync under way has taken so far.", nil, nil)
	healthSync = prometheus.NewDesc("godwit_health_sync_seconds",
		"How long syncs took in the last second, on average.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c healthCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{healthOrgan, healthSyncAge, healthSync} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c healthCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.n.cluster.Health()
	for _, o := range s.Organs {
		sick := 0.0
		if o.State != "well" {
			sick = 1
		}
		ch <- prometheus.MustNewConstMetric(healthOrgan, prometheus.GaugeValue, sick, o.Organ)
	}
	ch <- prometheus.MustNewConstMetric(healthSyncAge, prometheus.GaugeValue, s.SyncAge.Seconds())
	ch <- prometheus.MustNewConstMetric(healthSync, prometheus.GaugeValue, s.Sync.Seconds())
}
