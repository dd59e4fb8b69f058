package etcdleader

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/policy/leader"
)

const metricsText = `# TYPE grpc_server_handled_total counter
grpc_server_handled_total{grpc_code="OK",grpc_method="Range",grpc_service="etcdserverpb.KV",grpc_type="unary"} 40
grpc_server_handled_total{grpc_code="OK",grpc_method="Put",grpc_service="etcdserverpb.KV",grpc_type="unary"} 7
grpc_server_handled_total{grpc_code="Unavailable",grpc_method="Put",grpc_service="etcdserverpb.KV",grpc_type="unary"} 1
grpc_server_handled_total{grpc_code="OK",grpc_method="Txn",grpc_service="etcdserverpb.KV",grpc_type="unary"} 2
grpc_server_handled_total{grpc_code="OK",grpc_method="Status",grpc_service="etcdserverpb.Maintenance",grpc_type="unary"} 900
# TYPE etcd_network_peer_round_trip_time_seconds histogram
etcd_network_peer_round_trip_time_seconds_bucket{To="e95bc7ec48513e75",le="+Inf"} 4
etcd_network_peer_round_trip_time_seconds_sum{To="e95bc7ec48513e75"} 0.2
etcd_network_peer_round_trip_time_seconds_count{To="e95bc7ec48513e75"} 4
`

func TestParseMetrics(t *testing.T) {
	c, err := parseMetrics([]byte(metricsText))
	if err != nil || c.reads != 40 || c.writes != 10 {
		t.Fatalf("%+v, %v", c, err)
	}
	trip := c.trips[0xe95bc7ec48513e75]
	if d, ok := trip.mean(tripSum{}); !ok || d != 50*time.Millisecond {
		t.Errorf("%v, %v", d, ok)
	}
	if d, ok := trip.mean(tripSum{n: 2, sum: .04}); !ok || d != 80*time.Millisecond {
		t.Errorf("of the last two: %v, %v", d, ok)
	}
	if _, ok := trip.mean(trip); ok {
		t.Error("nothing was added")
	}
	if d, ok := trip.mean(tripSum{n: 9, sum: 9}); !ok || d != 50*time.Millisecond {
		t.Errorf("the member has restarted: %v, %v", d, ok)
	}
	if _, err := parseMetrics([]byte("process_cpu_seconds_total 3\n")); err == nil ||
		!strings.Contains(err.Error(), "is missing") {
		t.Error(err)
	}
	if since(5, 7) != 2 || since(7, 3) != 3 {
		t.Error("a counter that starts again counts from 0")
	}
}

// TestFacts: unknown facts are not invented, and a member that does not answer, a learner, and a
// member that lags may not lead.
func TestFacts(t *testing.T) {
	a := &Agent{members: []member{{id: 10, name: "a"}, {id: 11, name: "b"}, {id: 12, name: "c"},
		{id: 13, name: "d", learner: true}, {id: 14, name: "e"}},
		seen: map[id]*seen{}, opts: Options{Candidates: []string{"a", "c", "d", "e"}}}
	ok := func(writes float64, trips map[id]time.Duration) look {
		return look{status: &status{Leader: 11, Term: 4, Index: 5000, Applied: 5000},
			counts: &counters{writes: writes}, trips: trips}
	}
	trips := map[id]time.Duration{10: 5 * time.Millisecond, 11: 6 * time.Millisecond, 12: 7 * time.Millisecond,
		14: 8 * time.Millisecond}
	looks := []look{ok(100, trips), ok(100, nil), ok(100, nil), ok(0, nil), {err: context.DeadlineExceeded}}
	looks[2].status.Applied = 3000
	// has not heard of the new term
	looks[0].status = &status{Leader: 10, Term: 3, Index: 9, Applied: 5000}
	a.facts(looks, 1)
	looks[0].counts, looks[2].counts = &counters{writes: 150}, &counters{writes: 20}
	f := a.facts(looks, 1)
	if f.Leader != 2 {
		t.Errorf("node %d leads", f.Leader)
	}
	for i, want := range []struct{ able, voter bool }{{true, true}, {true, true}, {false, true}, {false, false}, {false, true}} {
		if n := f.Nodes[i]; n.Able != want.able || n.Voter != want.voter {
			t.Errorf("%s: %+v", a.members[i].name, n)
		}
	}
	if f.RTT[0][1] != 6*time.Millisecond || f.RTT[0][4] != leader.Unknown || f.RTT[1][0] != leader.Unknown {
		t.Errorf("round trips %v", f.RTT)
	}
	if r := f.Nodes[0].Requests / f.Nodes[2].Requests; r < 2.4 || r > 2.6 || f.Nodes[1].Requests != 0 || len(f.MayLead) != 4 {
		t.Errorf("requests %+v, may lead %v", f.Nodes, f.MayLead)
	}
}

// gateway is a server that answers as etcd's gateway does.
func gateway(t *testing.T, h func(path string, ask map[string]string) (int, string)) (*client, string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var ask map[string]string
		_ = json.NewDecoder(r.Body).Decode(&ask)
		code, text := h(strings.TrimPrefix(r.URL.Path, "/v3/")+" "+r.Header.Get("Authorization"), ask)
		w.WriteHeader(code)
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(s.Close)
	a := Access{Endpoints: []string{s.URL}, User: "root:secret"}
	c, err := a.open()
	if err != nil {
		t.Fatal(err)
	}
	return c, s.URL
}

func TestLogsInAgainWhenTheTokenIsOld(t *testing.T) {
	token := "one"
	logins := 0
	c, url := gateway(t, func(path string, ask map[string]string) (int, string) {
		switch path {
		case "auth/authenticate ", "auth/authenticate one":
			logins++
			if ask["name"] != "root" || ask["password"] != "secret" {
				return 400, `{"code":3,"message":"etcdserver: authentication failed, invalid user ID or password"}`
			}
			return 200, `{"token":"` + token + `"}`
		case "maintenance/status " + token:
			return 200, `{"header":{"member_id":"12"},"leader":"12","raftTerm":"3"}`
		}
		return 401, `{"code":16,"message":"etcdserver: invalid auth token"}`
	})
	for _, now := range []string{"one", "two"} {
		token = now
		if s, err := c.status(t.Context(), url); err != nil || s.Leader != 12 || s.Term != 3 {
			t.Fatalf("%+v, %v", s, err)
		}
	}
	if logins != 2 {
		t.Errorf("%d logins", logins)
	}
	c.user = ""
	c.token = ""
	if _, err := c.status(t.Context(), url); err == nil || !strings.Contains(err.Error(), "give --user") {
		t.Error(err)
	}
}

func TestNotEtcd(t *testing.T) {
	c, url := gateway(t, func(string, map[string]string) (int, string) { return 404, "404 page not found" })
	if _, err := c.status(t.Context(), url); err == nil || !strings.Contains(err.Error(), "no /v3 gateway") {
		t.Error(err)
	}
	c, url = gateway(t, func(string, map[string]string) (int, string) { return 200, "<html>" })
	if _, err := c.status(t.Context(), url); err == nil || !strings.Contains(err.Error(), "did not answer as etcd does") {
		t.Error(err)
	}
}
