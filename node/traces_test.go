package node

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

// sent is a span as a collector gets it.
type sent struct {
	TraceID, SpanID, ParentSpanID, Name string
	Kind                                int
	attrs                               map[string]string
	region                              string // of the node that sent it
}

// collector decodes what nodes send.
func collector(t *testing.T) (addr string, spans <-chan sent) {
	t.Helper()
	out := make(chan sent, 10_000)
	type attrs []struct {
		Key   string
		Value map[string]any
	}
	flat := func(as attrs) map[string]string {
		m := map[string]string{}
		for _, a := range as {
			for _, v := range a.Value {
				m[a.Key] = fmt.Sprint(v)
			}
		}
		return m
	}
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var q struct {
			ResourceSpans []struct {
				Resource   struct{ Attributes attrs }
				ScopeSpans []struct {
					Spans []struct {
						sent
						Attributes attrs
					}
				}
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Errorf("%s: %v", r.URL, err)
			return
		}
		for _, rs := range q.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					s.attrs, s.region = flat(s.Attributes), flat(rs.Resource.Attributes)["godwit.region"]
					out <- s.sent
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
	var procs []*proc
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
	var requests []sent
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
			case s.Kind == 2 && s.region == "us":
				gateway = s
			case s.Kind == 2:
				executor = s
			case s.attrs["godwit.crosses_regions"] == "true" && s.region == "us":
				requests = append(requests, s)
			}
		case <-deadline:
			t.Fatalf("gateway %+v\nexecutor %+v\nrequests %+v", gateway, executor, requests)
		}
	}
	if gateway.ParentSpanID != client || executor.ParentSpanID != gateway.SpanID || len(requests) == 0 ||
		2*len(requests) != hops(gateway)-hops(executor) || gateway.Name != "update" {
		t.Errorf("gateway %+v\nexecutor %+v", gateway, executor)
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
