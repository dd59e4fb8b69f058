package meter

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/godwitdb/godwit/sql/digest"
)

// maxDigestsMeasured is how many digests Prometheus gets, and maxLabel bounds their texts, in
// bytes.
const (
	maxDigestsMeasured = 50
	maxLabel           = 120
)

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

// DescribeDigests describes what [CollectDigests] shows.
func DescribeDigests(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{digestCount, digestErrors, digestTime, digestHops, digestBytes, digestsKept,
		digestsRest, digestsSlow} {
		ch <- d
	}
}

// CollectDigests shows the digests of a node, and how many of its statements were slow: all in sum,
// and those that took the longest one by one. A digest that leaves these has no series any more.
func CollectDigests(ch chan<- prometheus.Metric, t *digest.Table, slow int64) {
	kept, rest := t.Digests()
	ch <- prometheus.MustNewConstMetric(digestsKept, prometheus.GaugeValue, float64(kept))
	ch <- prometheus.MustNewConstMetric(digestsRest, prometheus.CounterValue, float64(rest))
	ch <- prometheus.MustNewConstMetric(digestsSlow, prometheus.CounterValue, float64(slow))
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
