// Package otlp sends spans to a collector of OpenTelemetry, as OTLP in JSON over HTTP. It sends
// whole batches, one at a time: while the collector is slow or away spans gather in the queue of
// the tracer, which drops what it has no room for. What a collector does not take is dropped, too.
package otlp

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/godwitdb/godwit/obs"
)

const (
	batch    = 512             // spans that are sent at a time
	every    = time.Second     // how long a span may wait for others
	patience = 5 * time.Second // with the collector
	last     = time.Second     // with the collector, when the node ends
	quiet    = time.Minute     // between two lines of the log about a collector
)

// Endpoint is the address that traces are sent to: that of a collector, as http://HOST:4318, or a
// whole one. The error says what is wrong with it.
func Endpoint(s string) (string, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return "", err
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "", errors.New("it is not http://HOST:PORT or https://HOST:PORT, like http://127.0.0.1:4318")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("it has a user, a query or a fragment")
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}

// queue is how many spans wait for the collector. One more, and it is dropped.
const queue = 8192

// Start makes a tracer for a share of the statements whose spans are sent, until stop is called.
// region names a region by its number, and resource says who sends.
func Start(c Collector, ratio float64, region func(uint32) string, log *slog.Logger, resource []obs.Attr) (t *obs.Tracer,
	stop func() error, err error) {
	to, err := Endpoint(c.Endpoint)
	if err != nil {
		return nil, nil, err
	}
	headers, err := c.headers()
	if err != nil {
		return nil, nil, err
	}
	security, err := c.security()
	if err != nil {
		return nil, nil, err
	}
	t = obs.NewTracer(ratio, queue)
	t.Region = region
	e := &Exporter{Endpoint: to, Headers: headers, TLS: security, Tracer: t, Log: log, Resource: resource}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Run(ctx)
	}()
	return t, func() error {
		cancel()
		<-done
		return nil
	}, nil
}

// Exporter sends the spans of a tracer.
type Exporter struct {
	// Endpoint is where to, as [Endpoint] gives it.
	Endpoint string
	// Headers are those of each request besides, and TLS says whom to trust; both may be nil.
	Headers http.Header
	TLS     *tls.Config
	Tracer  *obs.Tracer
	// Resource says who sends.
	Resource []obs.Attr
	Log      *slog.Logger

	client http.Client
	warned time.Time
}

// Run sends spans until ctx ends, and then a last batch of those that wait.
func (e *Exporter) Run(ctx context.Context) {
	// no proxy of the environment
	e.client.Transport = &http.Transport{MaxIdleConnsPerHost: 1, TLSClientConfig: e.TLS}
	defer e.client.CloseIdleConnections()
	for ended := false; !ended; {
		ended = ctx.Err() != nil
		spans := e.gather(ctx)
		if len(spans) == 0 {
			continue
		}
		if err := e.send(ctx, spans); err != nil {
			e.Tracer.Drop(len(spans))
			if ctx.Err() == nil && time.Since(e.warned) > quiet {
				e.warned = time.Now()
				e.Log.Warn("spans were not taken by the collector", "endpoint", e.Endpoint, "spans", len(spans), "err", err)
			}
		}
	}
}

// gather waits for a span and then a while for more, or for the end of ctx.
func (e *Exporter) gather(ctx context.Context) (spans []*obs.Span) {
	select {
	case s := <-e.Tracer.Spans():
		spans = append(spans, s)
	case <-ctx.Done():
	}
	t := time.NewTimer(every)
	defer t.Stop()
	for len(spans) < batch {
		select {
		case s := <-e.Tracer.Spans():
			spans = append(spans, s)
		case <-t.C:
			return spans
		case <-ctx.Done():
			return e.waiting(spans)
		}
	}
	return spans
}

// waiting adds spans that are there already.
func (e *Exporter) waiting(spans []*obs.Span) []*obs.Span {
	for len(spans) < batch {
		select {
		case s := <-e.Tracer.Spans():
			spans = append(spans, s)
		default:
			return spans
		}
	}
	return spans
}

// send sends spans. Once ctx has ended it takes no longer than last.
func (e *Exporter) send(parent context.Context, spans []*obs.Span) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(parent), patience)
	defer cancel()
	defer context.AfterFunc(parent, func() { time.AfterFunc(last, cancel) })()
	body, err := json.Marshal(e.message(spans))
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.Endpoint, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, values := range e.Headers {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := e.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<16)) // the connection is used again
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("it answers %s", res.Status)
	}
	return err
}

// The messages, as far as they are used: opentelemetry/proto/collector/trace/v1.
type (
	request struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource struct {
			Attributes []attribute `json:"attributes"`
		} `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	scopeSpans struct {
		Scope struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		} `json:"scope"`
		Spans []span `json:"spans"`
	}
	span struct {
		TraceID    string      `json:"traceId"`
		SpanID     string      `json:"spanId"`
		Parent     string      `json:"parentSpanId,omitempty"`
		Name       string      `json:"name"`
		Kind       int         `json:"kind"`
		Start      string      `json:"startTimeUnixNano"`
		End        string      `json:"endTimeUnixNano"`
		Attributes []attribute `json:"attributes,omitempty"`
		Status     *status     `json:"status,omitempty"`
	}
	status struct {
		Code int `json:"code"`
	}
	attribute struct {
		Key   string         `json:"key"`
		Value map[string]any `json:"value"`
	}
)

// Numbers of OTLP.
const (
	kindInternal, kindServer, kindClient = 1, 2, 3
	statusError                          = 2
)

func (e *Exporter) message(spans []*obs.Span) request {
	var r resourceSpans
	r.Resource.Attributes = attributes(e.Resource)
	var s scopeSpans
	s.Scope.Name, s.Scope.Version = "godwit", obs.Version()
	for _, x := range spans {
		o := span{TraceID: hex.EncodeToString(x.Trace[:]), SpanID: hex.EncodeToString(x.SpanContext.Span[:]), Name: x.Name,
			Kind: kindServer, Start: strconv.FormatInt(x.Begin.UnixNano(), 10), End: strconv.FormatInt(x.End.UnixNano(), 10),
			Attributes: attributes(x.Attrs)}
		if x.Parent != [8]byte{} {
			o.Parent = hex.EncodeToString(x.Parent[:])
		}
		switch x.Role {
		case obs.Client:
			o.Kind = kindClient
		case obs.Part:
			o.Kind = kindInternal
		}
		if x.Failed {
			o.Status = &status{statusError}
		}
		s.Spans = append(s.Spans, o)
	}
	r.ScopeSpans = []scopeSpans{s}
	return request{[]resourceSpans{r}}
}

func attributes(all []obs.Attr) (out []attribute) {
	for _, a := range all {
		v := map[string]any{}
		switch x := a.Value.(type) {
		case int64:
			v["intValue"] = strconv.FormatInt(x, 10)
		case bool:
			v["boolValue"] = x
		default:
			v["stringValue"] = fmt.Sprint(x)
		}
		out = append(out, attribute{a.Key, v})
	}
	return out
}
