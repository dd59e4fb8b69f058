package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const alertsFile = "../../deploy/prometheus/alerts.yaml"

// needPrometheus is where a program of Debian's package prometheus is.
func needPrometheus(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no %s is installed (apt-get install prometheus): the alert rules are not loaded into Prometheus", name)
	}
	return path
}

// TestAlertRules: promtool takes the rules, and they fire when they are meant to
// (testdata/alerts.test.yaml).
func TestAlertRules(t *testing.T) {
	tool := needPrometheus(t, "promtool")
	for _, args := range [][]string{{"check", "rules", alertsFile}, {"test", "rules", "testdata/alerts.test.yaml"}} {
		out, err := exec.Command(tool, args...).CombinedOutput()
		if err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// prometheus is a real one that scrapes a node.
type prometheus struct {
	t    *testing.T
	addr string
}

func startPrometheus(t *testing.T, target string) *prometheus {
	t.Helper()
	program := needPrometheus(t, "prometheus")
	p := &prometheus{t: t, addr: port(t)}
	rules, err := filepath.Abs(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\n"+
		"scrape_configs: [{job_name: godwit, static_configs: [{targets: [%q]}]}]\n", rules, target)
	if err := os.WriteFile(filepath.Join(dir, "p.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, "--config.file", filepath.Join(dir, "p.yaml"), "--storage.tsdb.path", filepath.Join(dir, "data"),
		"--web.listen-address", p.addr)
	log := &output{}
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return p
}

// get asks the API. It reports false while Prometheus does not answer.
func (p *prometheus) get(path string, data any) bool {
	p.t.Helper()
	res, err := http.Get("http://" + p.addr + "/api/v1/" + path)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusServiceUnavailable { // it listens before it is ready
		return false
	}
	var r struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(res.Body).Decode(&r); err != nil || r.Status != "success" {
		p.t.Errorf("%s: %v %s", path, err, r.Error)
		return false
	}
	if err := json.Unmarshal(r.Data, data); err != nil {
		p.t.Fatal(err)
	}
	return true
}

// until polls what Prometheus says.
func (p *prometheus) until(what string, ok func() bool) {
	p.t.Helper()
	for begin := time.Now(); !ok(); time.Sleep(200 * time.Millisecond) {
		if p.t.Failed() || time.Since(begin) > patience {
			p.t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

type ruleState struct{ Name, Health, LastError, State string }

// rules are the alerts that were evaluated.
func (p *prometheus) rules() (out []ruleState) {
	var r struct {
		Groups []struct{ Rules []ruleState }
	}
	if p.get("rules", &r) {
		for _, g := range r.Groups {
			out = append(out, g.Rules...)
		}
	}
	return out
}

// TestPrometheus: a real Prometheus loads the alert rules and scrapes a node. Each rule can be
// evaluated and is silent, each panel of the dashboard can be drawn, and most of them show
// something. When the node ends, the first alert is pending.
func TestPrometheus(t *testing.T) {
	needPrometheus(t, "prometheus")
	n := alone(t, "--open-metrics")
	db := n.open(t, "")
	exec1(t, db, "CREATE DATABASE d")
	exec1(t, db, "CREATE TABLE d.t (id INT PRIMARY KEY)")
	checkMetrics(t, n.addr)
	p := startPrometheus(t, n.addr)
	row := 0
	p.until("the rules are evaluated, and the node is scraped", func() bool {
		row++
		exec1(t, db, "INSERT INTO d.t VALUES (?)", row)
		var up struct{ Result []struct{ Value [2]any } }
		if !p.get("query?query="+url.QueryEscape(`count_over_time(up{job="godwit"}[1h]) > 5`), &up) || len(up.Result) == 0 {
			return false
		}
		rules := p.rules()
		return len(rules) > 10 && !slices.ContainsFunc(rules, func(r ruleState) bool { return r.Health == "unknown" })
	})
	for _, r := range p.rules() {
		if r.Health != "ok" || r.State == "firing" {
			t.Errorf("%s is %s and %s: %s", r.Name, r.Health, r.State, r.LastError)
		}
	}
	p.dashboard()
	n.kill()
	p.until("the alert of a node that does not serve", func() bool {
		return slices.ContainsFunc(p.rules(), func(r ruleState) bool { return r.Name == "GodwitNodeDoesNotServe" && r.State != "inactive" })
	})
}

// checkMetrics has promtool judge what a node exports.
func checkMetrics(t *testing.T, addr string) {
	t.Helper()
	res, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	c := exec.Command(needPrometheus(t, "promtool"), "check", "metrics")
	c.Stdin = res.Body
	if out, err := c.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// dashboard evaluates what the panels show.
func (p *prometheus) dashboard() {
	p.t.Helper()
	text, err := os.ReadFile("../../deploy/grafana/godwit.json")
	if err != nil {
		p.t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&d); err != nil {
		p.t.Fatal(err)
	}
	all, empty := 0, []string{}
	for _, panel := range d.Panels {
		for _, x := range panel.Targets {
			all++
			q := strings.NewReplacer("$__rate_interval", "10s", "$__interval", "10s", "$__range", "1m").Replace(x.Expr)
			var r struct{ Result []any }
			if p.get("query?query="+url.QueryEscape(q), &r) && len(r.Result) == 0 {
				empty = append(empty, panel.Title)
			}
		}
	}
	p.t.Logf("%d expressions of the dashboard; nothing to show for %q", all, empty)
	if all == 0 || len(empty) > all/3 {
		p.t.Errorf("%d of %d expressions of the dashboard show nothing", len(empty), all)
	}
}
