package etcdleader

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// counters are the figures of one member's /metrics.
type counters struct {
	reads, writes float64 // requests of its own clients since it started
	trips         map[id]tripSum
}

// tripSum is a histogram of round trips to one peer.
type tripSum struct {
	n   float64
	sum float64 // seconds
}

var writing = []string{"Put", "Txn", "DeleteRange", "Compact", "LeaseGrant", "LeaseRevoke"}

func (c *client) metrics(ctx context.Context, endpoint string) (*counters, error) {
	text, err := c.do(ctx, http.MethodGet, endpoint+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	return parseMetrics(text)
}

func parseMetrics(text []byte) (*counters, error) {
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("metrics of etcd: %w", err)
	}
	handled := families["grpc_server_handled_total"]
	if handled == nil {
		return nil, fmt.Errorf("metrics of etcd: grpc_server_handled_total is missing: is this address a client URL of etcd?")
	}
	out := &counters{trips: map[id]tripSum{}}
	for _, m := range handled.GetMetric() {
		switch method := label(m, "grpc_method"); {
		case method == "Range":
			out.reads += m.GetCounter().GetValue()
		case slices.Contains(writing, method):
			out.writes += m.GetCounter().GetValue()
		}
	}
	for _, m := range families["etcd_network_peer_round_trip_time_seconds"].GetMetric() {
		to, err := strconv.ParseUint(label(m, "To"), 16, 64)
		if err != nil {
			return nil, fmt.Errorf("metrics of etcd: round trip to %q: %w", label(m, "To"), err)
		}
		h := m.GetHistogram()
		out.trips[id(to)] = tripSum{n: float64(h.GetSampleCount()), sum: h.GetSampleSum()}
	}
	return out, nil
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// since is the increase of a counter that starts at 0 with its process.
func since(old, now float64) float64 {
	if now < old {
		return now
	}
	return now - old
}

// mean is the mean of the samples that were added to the histogram since an older look; ok is false
// if there were none.
func (t tripSum) mean(old tripSum) (time.Duration, bool) {
	if t.n < old.n {
		old = tripSum{}
	}
	d := (t.sum - old.sum) / (t.n - old.n)
	if t.n == old.n || math.IsNaN(d) || d <= 0 {
		return 0, false
	}
	return time.Duration(d * float64(time.Second)), true
}
