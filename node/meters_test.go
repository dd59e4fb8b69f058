package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"gopkg.in/yaml.v3"
)

// TestMetrics: what a node exports is named by Prometheus' conventions, tells of what happened, and
// has all metrics, with all labels, that the dashboard and the alert rules of deploy/ name.
func TestMetrics(t *testing.T) { bubble(t, metrics) }

func metrics(t *testing.T) {
	l := startLocal(t, 3, 1)
	c := openSQL(t, l.Nodes()[0], "")
	mustExec(t, c, "CREATE DATABASE d")
	mustExec(t, c, "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
	mustExec(t, c, "INSERT INTO d.t VALUES (1, 0)")
	column(t, c, "SELECT * FROM d.t WHERE id = 1")
	mux := http.NewServeMux()
	l.Nodes()[0].Register(mux)
	l.Nodes()[0].registerHealth(mux)
	text := get(t, mux, "/metrics", http.StatusOK)
	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "godwit_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for name, least := range map[string]float64{"godwit_ready": 1, "godwit_raft_leads": 1, "godwit_raft_leads_serving": 1,
		"godwit_raft_replicas": 3, "godwit_sql_sessions": 1, "godwit_sql_commits_total": 1, "godwit_sql_memory_limit_bytes": 1 << 20,
		"godwit_store_syncs_total": 1, "godwit_store_wal_written_bytes_total": 1000, "godwit_raft_log_entries": 1,
		"godwit_snapshot_reads_total": 1, "godwit_build_info": 1, "godwit_queue_limit": 1000} {
		if got := sumOf(families[name]); got < least {
			t.Errorf("%s is %v, less than %v", name, got, least)
		}
	}
	for file, exprs := range expressions(t) {
		for _, e := range exprs {
			for _, why := range unknown(e, families) {
				t.Errorf("%s: %s, in %s", file, why, e)
			}
		}
	}
	// Names that do not exist are found.
	if len(unknown("rate(godwit_none_total[5m]) / sum by (nowhere) (godwit_digests)", families)) != 2 {
		t.Error("a metric and a label that do not exist pass")
	}
	if got := string(get(t, mux, "/ready", http.StatusOK)); got != "ready\n" {
		t.Errorf("/ready says %q", got)
	}
	l.Nodes()[0].leaving.Store(true)
	if got := string(get(t, mux, "/ready", http.StatusServiceUnavailable)); got != "ending\n" {
		t.Errorf("/ready of a node that ends says %q", got)
	}
	get(t, mux, "/health", http.StatusOK) // it still serves
}

func get(t *testing.T, h http.Handler, path string, status int) []byte {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	if w.Code != status {
		t.Fatalf("%s: status %d, want %d: %s", path, w.Code, status, w.Body)
	}
	return w.Body.Bytes()
}

func sumOf(f *dto.MetricFamily) (sum float64) {
	for _, m := range f.GetMetric() {
		sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
	}
	return sum
}

// expressions are those of the dashboards and alert rules, by file.
func expressions(t *testing.T) map[string][]string {
	out := map[string][]string{}
	dashboards, _ := filepath.Glob("../deploy/grafana/*.json")
	rules, _ := filepath.Glob("../deploy/prometheus/*.yaml")
	if len(dashboards) == 0 || len(rules) == 0 {
		t.Fatal("deploy/ has no dashboard, or no rules")
	}
	for _, file := range dashboards {
		var d struct {
			Title, UID string
			Panels     []struct {
				Title, Type string
				ID          int
				GridPos     struct{ W, H int }
				Targets     []struct{ Expr string }
			}
		}
		read(t, file, json.Unmarshal, &d)
		ids := map[int]bool{}
		for _, p := range d.Panels {
			if p.Title == "" || p.GridPos.W < 1 || p.GridPos.W > 24 || ids[p.ID] {
				t.Errorf("%s: panel %d %q has no title, no place, or the id of another one", file, p.ID, p.Title)
			}
			ids[p.ID] = true
			if p.Type != "row" && len(p.Targets) == 0 {
				t.Errorf("%s: panel %q asks for nothing", file, p.Title)
			}
			for _, x := range p.Targets {
				out[file] = append(out[file], x.Expr)
			}
		}
		if d.Title == "" || d.UID == "" || len(d.Panels) < 10 {
			t.Errorf("%s: %d panels under the title %q", file, len(d.Panels), d.Title)
		}
	}
	for _, file := range rules {
		var r struct {
			Groups []struct {
				Name  string
				Rules []struct {
					Alert, Expr, For    string
					Labels, Annotations map[string]string
				}
			}
		}
		read(t, file, yaml.Unmarshal, &r)
		for _, g := range r.Groups {
			for _, x := range g.Rules {
				if x.Alert == "" || x.Annotations["summary"] == "" || x.Annotations["description"] == "" ||
					!slices.Contains([]string{"warning", "critical"}, x.Labels["severity"]) {
					t.Errorf("%s: rule %q says too little", file, x.Alert)
				}
				if _, err := model.ParseDuration(x.For); err != nil {
					t.Errorf("%s: rule %q: %v", file, x.Alert, err)
				}
				out[file] = append(out[file], x.Expr)
			}
		}
	}
	return out
}

func read(t *testing.T, file string, decode func([]byte, any) error, into any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := decode(b, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

var (
	metricName = regexp.MustCompile(`\b(godwit|go|process)_[a-z0-9_]+`)
	grouping   = regexp.MustCompile(`\b(?:by|without)\s*\(([^)]*)\)`)
	matcher    = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)\s*"`)
)

// unknown is what of an expression no node exports: metrics, and labels that none of its metrics
// has. Prometheus itself adds job and instance.
func unknown(expr string, families map[string]*dto.MetricFamily) (out []string) {
	labels := map[string]bool{"job": true, "instance": true, "le": true}
	for _, name := range metricName.FindAllString(expr, -1) {
		f := families[name]
		if f == nil {
			base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
			if f = families[base]; f.GetType() != dto.MetricType_HISTOGRAM {
				out = append(out, fmt.Sprintf("no node exports %s", name))
				continue
			}
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = true
			}
		}
	}
	var used []string
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		used = append(used, strings.Split(g[1], ",")...)
	}
	for _, m := range matcher.FindAllStringSubmatch(expr, -1) {
		used = append(used, m[1])
	}
	for _, u := range used {
		if u = strings.TrimSpace(u); u != "" && !labels[u] {
			out = append(out, "none of its metrics has the label "+u)
		}
	}
	if strings.Count(expr, "(") != strings.Count(expr, ")") || strings.Count(expr, "[") != strings.Count(expr, "]") {
		out = append(out, "its brackets do not close")
	}
	return out
}
