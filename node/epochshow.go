package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/node/decided"
	"github.com/godwitdb/godwit/sql/server"
	"github.com/godwitdb/godwit/txn/multimaster"
)

const askEpochs = "epochs"

// epochStatus is the progress of a node in the epochs of MULTI MASTER tables.
type epochStatus struct {
	Node   base.NodeID        `json:"node"`
	Status multimaster.Status `json:"status"`
}

var epochTopics = []server.Topic{
	{Name: "epochs", Comment: "where each node stands in the epochs of MULTI MASTER tables, " +
		"and how rounds travel from there", Columns: slices.Concat(
		columns(server.TopicInt, "node"), columns(server.TopicText, "region", "state"),
		columns(server.TopicInt, "view_number"), columns(server.TopicText, "members"),
		columns(server.TopicInt, "sealed_epoch", "complete_epoch", "applied_epoch", "lag_epochs", "submitted",
			"committed", "conflicts", "resubmitted", "views", "messages", "bytes", "wants"),
		columns(server.TopicText, "round_plan"), columns(server.TopicFloat, "planned_ms", "flat_ms"),
		columns(server.TopicText, "why"))},
}

// epochStatuses are where the nodes stand that answer.
func (n *Node) epochStatuses(ctx context.Context) map[base.NodeID]*multimaster.Status {
	own := n.epochs.Status()
	all := map[base.NodeID]*multimaster.Status{n.ID(): &own}
	for _, s := range askAll[epochStatus](ctx, n, askEpochs) {
		if s.Node != 0 {
			all[s.Node] = &s.Status
		}
	}
	return all
}

// planRows are the rows of godwit.plan_history.
func (n *Node) planRows(ctx context.Context) [][]any { return decided.Plans(n.epochStatuses(ctx)) }

// epochRows are the rows of godwit.epochs. The numbers of a node that does not answer are NULL.
func (n *Node) epochRows(ctx context.Context) (rows [][]any) {
	all := n.epochStatuses(ctx)
	newest := uint64(0)
	for _, s := range all {
		newest = max(newest, s.Applied)
	}
	t := n.cluster.Topology()
	for _, x := range t.Nodes {
		if x.Gone {
			continue
		}
		row := make([]any, len(epochTopics[0].Columns))
		row[0], row[1], row[2] = x.ID, t.RegionName(x.Region), "silent"
		if s := all[x.ID]; s != nil {
			copy(row[2:], []any{s.State, s.View, fmt.Sprint(s.Members), s.Begun, s.Held, s.Applied, newest - s.Applied,
				s.Submitted, s.Committed, s.Aborted,
				s.Resubmitted, s.Views, s.Messages, s.Bytes, s.Wants, orNull(s.Plan), nil, nil, orNull(s.Why)})
			if s.Flat > 0 {
				row[19], row[20] = millis(s.Planned), millis(s.Flat)
			}
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b []any) int { return cmp.Compare(a[0].(base.NodeID), b[0].(base.NodeID)) })
	return rows
}

// epochCollector shows this node's part in the epochs to Prometheus.
type epochCollector struct{ n *Node }

type epochMetric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*multimaster.Status) float64
}

var epochMetrics = func() (out []epochMetric) {
	add := func(name, help string, kind prometheus.ValueType, of func(*multimaster.Status) float64) {
		out = append(out, epochMetric{prometheus.NewDesc("godwit_epochs_"+name, help, nil, nil), kind, of})
	}
	counter := func(name, help string, of func(*multimaster.Status) uint64) {
		add(name+"_total", help, prometheus.CounterValue, func(s *multimaster.Status) float64 { return float64(of(s)) })
	}
	gauge := func(name, help string, of func(*multimaster.Status) float64) {
		add(name, help, prometheus.GaugeValue, of)
	}
	gauge("member", "1 while this node takes part in the epochs of MULTI MASTER tables.", func(s *multimaster.Status) float64 {
		if s.Active {
			return 1
		}
		return 0
	})
	gauge("view", "Number of the view that this node knows.", func(s *multimaster.Status) float64 { return float64(s.View) })
	gauge("sealed", "Last epoch whose batch this node has closed and sent.",
		func(s *multimaster.Status) float64 { return float64(s.Begun) })
	gauge("complete", "Last epoch all of whose batches are here and on disk.",
		func(s *multimaster.Status) float64 { return float64(s.Held) })
	gauge("applied", "Last epoch that changed something and that reads here see.",
		func(s *multimaster.Status) float64 { return float64(s.Applied) })
	gauge("planned_seconds", "Predicted time of a round by the plan in force; 0 if not known.",
		func(s *multimaster.Status) float64 { return s.Planned.Seconds() })
	counter("complete", "Epochs that were complete here.", func(s *multimaster.Status) uint64 { return s.Epochs })
	counter("empty", "Epochs to which nobody had submitted anything.", func(s *multimaster.Status) uint64 { return s.Empty })
	counter("views", "Views that this node has installed.", func(s *multimaster.Status) uint64 { return s.Views })
	counter("submitted", "Transactions of this node's sessions that were submitted to epochs.",
		func(s *multimaster.Status) uint64 { return s.Submitted })
	counter("committed", "Those that have committed.", func(s *multimaster.Status) uint64 { return s.Committed })
	counter("conflicts", "Those that have lost a conflict.", func(s *multimaster.Status) uint64 { return s.Aborted })
	counter("resubmitted", "Those whose epoch a view change has discarded, so that they were submitted again.",
		func(s *multimaster.Status) uint64 { return s.Resubmitted })
	counter("messages", "Messages of rounds that this node has sent.", func(s *multimaster.Status) uint64 { return s.Messages })
	counter("bytes", "Their bytes.", func(s *multimaster.Status) uint64 { return s.Bytes })
	counter("wants", "Requests for batches that did not come in time.", func(s *multimaster.Status) uint64 { return s.Wants })
	return out
}()

// Describe implements prometheus.Collector.
func (epochCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range epochMetrics {
		ch <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c epochCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.n.epochs.Status()
	for _, m := range epochMetrics {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.of(&s))
	}
}
