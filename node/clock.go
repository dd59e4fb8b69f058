package node

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/node/knobs"
	"github.com/godwitdb/godwit/policy/home"
)

// clockParams are clock.Policy as cluster settings.
type clockParams struct {
	Mode     clock.Setting `json:"mode"`
	MaxBound home.Duration `json:"max_bound"`
	Recovery home.Duration `json:"recovery"`
}

func (p clockParams) policy() clock.Policy {
	return clock.Policy{Mode: p.Mode, MaxBound: time.Duration(p.MaxBound), Recovery: time.Duration(p.Recovery)}
}

// clockSettings are the operator's settings of the clock mode.
func (n *Node) clockSettings() knobs.Group {
	def := clock.DefaultPolicy()
	read := func(data []byte) (clock.Policy, error) {
		var p clockParams
		if err := json.Unmarshal(data, &p); err != nil {
			return clock.Policy{}, err
		}
		return p.policy(), p.policy().Validate()
	}
	return knobs.Of("clock.", clockParams{def.Mode, home.Duration(def.MaxBound), home.Duration(def.Recovery)},
		map[string]string{
			"mode": "where timestamps come from: gclock (local clocks and commit wait), gtm (the oracle), " +
				"auto (gclock while all clocks are good)",
			"max_bound": "a node whose clock may be off by more does not issue by it",
			"recovery":  "with auto: how long all clocks must have been good before gclock is taken up again",
		}, read, func(p clock.Policy) error {
			n.cluster.SetClockPolicy(p)
			return nil
		})
}

// clockRows are the rows of godwit.clock.
func (n *Node) clockRows(ctx context.Context) (rows [][]any) {
	for _, x := range n.cluster.Status(ctx).Nodes {
		c := x.Clock
		if c == nil {
			rows = append(rows, []any{x.ID, x.Region, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil})
			continue
		}
		bound := millis(c.Bound)
		rows = append(rows, []any{x.ID, x.Region, c.Mode, c.Epoch, c.Source, bound, -bound, bound, c.Verdict,
			millis(c.Off), c.Fenced, millis(c.Ahead),
			seconds(min(c.Right, time.Hour)), orNull(c.Blocked)})
	}
	return rows
}

// clockHistoryRows are the rows of godwit.clock_history.
func (n *Node) clockHistoryRows(context.Context) (rows [][]any) {
	for _, s := range n.cluster.ClockHistory() {
		rows = append(rows, []any{s.At.UTC(), s.Epoch, s.From, s.To, s.Target, s.Reason, s.By, millis(s.After)})
	}
	return rows
}

// serveClockMode answers POST cluster.PathClock {"mode": "gtm"}: it sets the cluster setting
// clock.mode.
func (n *Node) serveClockMode(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Mode string `json:"mode"`
	}
	if !decode(w, r, &q) {
		return
	}
	srv, err := n.server()
	if err != nil {
		answer(w, http.StatusServiceUnavailable, err)
		return
	}
	if err := srv.SetClusterSetting(r.Context(), "clock.mode", q.Mode); err != nil {
		answer(w, http.StatusConflict, err)
		return
	}
	answer(w, http.StatusOK, nil)
}

// clockCollector shows the clock to Prometheus.
type clockCollector struct{ n *Node }

var (
	clockMode = prometheus.NewDesc("godwit_clock_mode",
		"Clock mode in force at this node: 1 for the one, 0 for the others.", []string{"mode"}, nil)
	clockEpoch  = prometheus.NewDesc("godwit_clock_epoch", "Number of the clock mode's last change taken over.", nil, nil)
	clockBound  = prometheus.NewDesc("godwit_clock_bound_seconds", "How far this node's clock may be off true time.", nil, nil)
	clockFenced = prometheus.NewDesc("godwit_clock_fenced",
		"1 while this node's clock is not used, because it was found wrong.", nil, nil)
	clockRight = prometheus.NewDesc("godwit_clock_right_seconds",
		"How long this node may go on in its clock mode without word from the meta group's leader.", nil, nil)
	clockAhead = prometheus.NewDesc("godwit_clock_oracle_ahead_seconds",
		"How far the timestamp oracle is ahead of this node's clock.", nil, nil)
	clockSamples = prometheus.NewDesc("godwit_clock_timeserver_answers_total",
		"Answers of the time server, by what became of them.", []string{"result"}, nil)
)

// Describe implements prometheus.Collector.
func (c clockCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{clockMode, clockEpoch, clockBound, clockFenced, clockRight, clockAhead, clockSamples} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c clockCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.n.cluster.Clock()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	is := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	for m := clock.GClock; m <= clock.GTM; m++ {
		gauge(clockMode, is(s.Mode == m.String()), m.String())
	}
	gauge(clockEpoch, float64(s.Epoch))
	gauge(clockBound, s.Bound.Seconds())
	gauge(clockFenced, is(s.Fenced))
	gauge(clockRight, s.Right.Seconds())
	gauge(clockAhead, s.Ahead.Seconds())
	if c.n.samples != nil {
		for result, v := range c.n.samples() {
			ch <- prometheus.MustNewConstMetric(clockSamples, prometheus.CounterValue, float64(v), result)
		}
	}
}
