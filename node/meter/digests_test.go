package meter

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/godwitdb/godwit/sql/digest"
)

// TestDigestSeries: Prometheus gets series of the digests that took the longest, and of no more.
func TestDigestSeries(t *testing.T) {
	tab := digest.New(200, nil)
	for i := range 300 {
		tab.Record(&digest.Statement{Schema: "d\xff", Text: fmt.Sprintf("SELECT %s%d FROM t", strings.Repeat("é", i), i),
			Elapsed: time.Duration(i+1) * time.Millisecond, Hops: 2, Failed: i%2 == 0})
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(tableCollector{tab})
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]*dto.Metric{}
	for _, f := range families {
		got[f.GetName()] = f.GetMetric()
	}
	for name, want := range map[string]int{"godwit_digest_statements_total": 50, "godwit_digest_seconds_total": 50,
		"godwit_digest_errors_total": 50, "godwit_digest_wan_hops_total": 50, "godwit_digest_wan_bytes_total": 50,
		"godwit_slow_statements_total": 1, "godwit_digests": 1, "godwit_digest_overflow_statements_total": 1} {
		if len(got[name]) != want {
			t.Errorf("%d series of %s, want %d", len(got[name]), name, want)
		}
	}
	if n := got["godwit_digests"][0].GetGauge().GetValue(); n != 200 {
		t.Errorf("%v digests", n)
	}
	if n := got["godwit_digest_overflow_statements_total"][0].GetCounter().GetValue(); n != 100 {
		t.Errorf("%v statements without a digest", n)
	}
	for _, m := range got["godwit_digest_seconds_total"] {
		if v := m.GetCounter().GetValue(); v < 0.151 || v > 0.2 {
			t.Errorf("a digest that took %v s is among the 50 longest of 200", v)
		}
		for _, l := range m.GetLabel() {
			if len(l.GetValue()) > maxLabel {
				t.Errorf("label %s has %d bytes", l.GetName(), len(l.GetValue()))
			}
		}
	}
}

type tableCollector struct{ *digest.Table }

func (c tableCollector) Describe(ch chan<- *prometheus.Desc) { DescribeDigests(ch) }

func (c tableCollector) Collect(ch chan<- prometheus.Metric) { CollectDigests(ch, c.Table, 7) }
