package node

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
)

// sent is a span as a collector gets it.
type sent struct {
	TraceID, SpanID, ParentSpanID, Name string
	Kind                                ptrace.SpanKind
	attrs                               map[string]string
	region                              string // of the node that sent it
}

// collector decodes what nodes send by the package with which OpenTelemetry's own collector does.
func collector(t *testing.T) (addr string, spans <-chan sent) {
	t.Helper()
	out := make(chan sent, 10_000)
	flat := func(as pcommon.Map) map[string]string {
		m := map[string]string{}
		for k, v := range as.All() {
			m[k] = v.AsString()
		}
		return m
	}
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		q := ptraceotlp.NewExportRequest()
		if err := errors.Join(err, q.UnmarshalJSON(body)); err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %v", r.URL, r.Header, err)
			return
		}
		for _, rs := range q.Traces().ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, s := range ss.Spans().All() {
					if s.EndTimestamp() < s.StartTimestamp() || s.TraceID().IsEmpty() || s.SpanID().IsEmpty() {
						t.Errorf("span %s of %v is from %v to %v", s.Name(), s.TraceID(), s.StartTimestamp(), s.EndTimestamp())
					}
					out <- sent{s.TraceID().String(), s.SpanID().String(), s.ParentSpanID().String(), s.Name(), s.Kind(), flat(s.Attributes()),
						flat(rs.Resource().Attributes())["godwit.region"]}
				}
			}
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL, out
}

// TestTraces: a statement that another region executes is one trace, with a span for each crossing,
// below the span of the client. A client that says so is not watched.
func TestTraces(t *testing.T) {
	t.Parallel() // it waits, most of the time
	addr, spans := collector(t)
	procs := traced(t, addr)
	eu, us := procs[0].sql(t), procs[1].sql(t)
	for _, q := range []string{"CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)", "INSERT INTO d.t VALUES (1, 1)"} {
		if _, err := eu.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	const client = "b7ad6b7169203331"
	comment := func(n int, flags string) string {
		return fmt.Sprintf("/*traceparent='00-%032x-%s-%s'*/", n, client, flags)
	}
	for _, q := range []string{
		"UPDATE d.t SET v = 4711 WHERE id = 1 " + comment(1, "00"), "UPDATE d.t SET v = v + 1 WHERE id = 1",
		"UPDATE d.t SET v = v + 4711 WHERE id = 1 " + comment(2, "01"),
	} {
		if _, err := us.Exec(q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	var gateway, executor sent
	var requests, steps []sent
	hops := func(s sent) int {
		n, _ := strconv.Atoi(s.attrs["godwit.wan_hops"])
		return n
	}
	// The hops of the gateway are those of its requests, and those that the other region has waited
	// for.
	for deadline := time.After(patience); gateway.SpanID == "" || executor.SpanID == "" ||
		2*len(requests) < hops(gateway)-hops(executor); {
		select {
		case s := <-spans:
			if s.TraceID != fmt.Sprintf("%032x", 2) {
				t.Errorf("a span of another trace: %+v", s)
			}
			switch {
			case s.Kind == ptrace.SpanKindServer && s.region == "us" && !strings.HasPrefix(s.Name, "serve "):
				gateway = s
			case s.Kind == ptrace.SpanKindServer && s.attrs["godwit.forwarded"] == "true":
				executor = s
			case s.attrs["godwit.crosses_regions"] == "true" && s.region == "us":
				requests = append(requests, s)
			case s.Name == "log entry":
				steps = append(steps, s)
			}
		case <-deadline:
			t.Fatalf("gateway %+v\nexecutor %+v\nrequests %+v", gateway, executor, requests)
		}
	}
	if gateway.ParentSpanID != client || executor.ParentSpanID != gateway.SpanID || len(requests) == 0 ||
		2*len(requests) != hops(gateway)-hops(executor) || gateway.Name != "update" {
		t.Errorf("gateway %+v\nexecutor %+v", gateway, executor)
	}
	if len(steps) != 1 || steps[0].ParentSpanID != executor.SpanID || steps[0].Kind != ptrace.SpanKindInternal || steps[0].region != "eu" {
		t.Errorf("the executor is %+v, and the steps are %+v", executor, steps)
	}
	for _, r := range requests {
		if r.ParentSpanID != gateway.SpanID || r.attrs["godwit.from_region"] != "us" || r.attrs["godwit.to_region"] != "eu" {
			t.Errorf("request %+v", r)
		}
	}
	if text := gateway.attrs["db.statement"]; !strings.Contains(text, "UPDATE `d` . `t`") || strings.Contains(text, "4711") {
		t.Errorf("the text is %s", text)
	}
}

// TestTracesOfOwners: what an owner in another region does for a request is a span below the
// request, and planning one below the statement.
func TestTracesOfOwners(t *testing.T) {
	t.Parallel() // it waits, most of the time
	addr, spans := collector(t)
	procs := traced(t, addr)
	eu, us := procs[0].sql(t), procs[1].sql(t)
	for _, q := range []string{"CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)", "INSERT INTO d.t VALUES (1, 1)"} {
		if _, err := eu.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	tx, err := us.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	const trace = "0af7651916cd43dd8448eb211c80319c"
	var n int
	if err := tx.QueryRow("SELECT SUM(v) FROM d.t WHERE v > 0 FOR UPDATE /*traceparent='00-" + trace + "-b7ad6b7169203331-01'*/").Scan(&n); err != nil {
		t.Fatal(err)
	}
	var all []sent
	find := func(name, region, parent string) *sent {
		for i := range all {
			if x := &all[i]; x.Name == name && x.region == region && x.ParentSpanID == parent {
				return x
			}
		}
		return nil
	}
	// complete reports whether each span is there, below the one that it is part of.
	complete := func() bool {
		statement := find("select", "us", "b7ad6b7169203331")
		if statement == nil {
			return false
		}
		for _, read := range all {
			if read.Name != "read" || read.Kind != ptrace.SpanKindClient || read.ParentSpanID != statement.SpanID {
				continue
			}
			served, plan := find("serve read", "eu", read.SpanID), find("plan", "us", statement.SpanID)
			if served != nil && served.Kind == ptrace.SpanKindServer && plan != nil && plan.Kind == ptrace.SpanKindInternal {
				return true
			}
		}
		return false
	}
	for deadline := time.After(patience); !complete(); {
		select {
		case s := <-spans:
			if s.TraceID != trace {
				t.Errorf("a span of another trace: %+v", s)
			}
			all = append(all, s)
		case <-deadline:
			t.Fatalf("%+v", all)
		}
	}
}

// traced are two nodes in two regions that send traces.
func traced(t *testing.T, addr string) (procs []*proc) {
	t.Helper()
	var join []string
	for _, r := range []string{"eu", "us"} {
		p := &proc{cfg: Config{Region: r, Store: t.TempDir(), Listen: "127.0.0.1:0", SQLListen: "127.0.0.1:0", Join: join,
			OTLPEndpoint: addr}}
		p.start(t)
		t.Cleanup(func() { p.stop(t) })
		procs, join = append(procs, p), append(join, p.n.Addr())
	}
	initCluster(t, procs[0].n.Addr(), 2)
	for _, p := range procs {
		p.ready(t)
	}
	return procs
}
