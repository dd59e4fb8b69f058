package otlp

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/obs"
)

func TestEndpoint(t *testing.T) {
	for in, want := range map[string]string{
		"http://127.0.0.1:4318":   "http://127.0.0.1:4318/v1/traces",
		"https://c/":              "https://c/v1/traces",
		"https://c:1/otlp/traces": "https://c:1/otlp/traces",
		"127.0.0.1:4318":          "", "collector": "", "ftp://c": "", "http://": "", "http://u:p@c": "", "http://c?x=1": "",
	} {
		if got, err := Endpoint(in); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
}

// TestExport: a collector gets the JSON of OTLP; what it refuses is dropped and counted, and what
// comes later is sent again.
func TestExport(t *testing.T) {
	got := make(chan string, 8)
	status := http.StatusServiceUnavailable
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/v1/traces" || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %s", r.Method, r.URL, r.Header)
		}
		w.WriteHeader(status)
		status = http.StatusOK
		got <- string(b)
	}))
	defer srv.Close()
	to, err := Endpoint(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	tracer := obs.NewTracer(1, 8)
	tracer.Region = func(id uint32) string { return []string{"", "eu", "us"}[id] }
	e := &Exporter{Endpoint: to, Tracer: tracer, Log: slog.New(slog.DiscardHandler),
		Resource: []obs.Attr{{Key: "service.name", Value: "godwit"}}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); e.Run(ctx) }()
	defer func() { cancel(); <-done }()

	tracer.Statement("SELECT 1", time.Unix(1, 0)).Finish("select", false)
	<-got
	s := tracer.Statement("SELECT 1 /*traceparent='00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'*/", time.Unix(1, 5))
	s.Finish("select", true, obs.Attr{Key: "n", Value: int64(7)})
	s.Request("read", 2, 1, 2, time.Unix(1, 6), false)
	var m map[string]any
	text := <-got
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"godwit"}}]}`,
		`"traceId":"0af7651916cd43dd8448eb211c80319c"`, `"parentSpanId":"b7ad6b7169203331","name":"select","kind":2,` +
			`"startTimeUnixNano":"1000000005"`, `{"key":"n","value":{"intValue":"7"}}`, `"status":{"code":2}`, `"name":"read","kind":3`,
		`{"key":"godwit.from_region","value":{"stringValue":"eu"}}`, `{"key":"godwit.crosses_regions","value":{"boolValue":true}}`} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %s in\n%s", want, text)
		}
	}
	tracer.Statement("SELECT 1", time.Unix(1, 0)).Finish("the last", false)
	cancel()
	<-done
	select {
	case text := <-got:
		if !strings.Contains(text, `"name":"the last"`) {
			t.Errorf("at the end comes %s", text)
		}
	default:
		t.Error("what waited at the end was not sent")
	}
	if tracer.Dropped() != 1 {
		t.Errorf("%d spans were dropped, want the one that was refused", tracer.Dropped())
	}
}
