package otlp

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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
	s.Start("read").Answered(2, 1, 2, false)
	s.Step("log entry").Done(false)
	var m map[string]any
	text := <-got
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"godwit"}}]}`,
		`"traceId":"0af7651916cd43dd8448eb211c80319c"`, `"parentSpanId":"b7ad6b7169203331","name":"select","kind":2,` +
			`"startTimeUnixNano":"1000000005"`, `{"key":"n","value":{"intValue":"7"}}`, `"status":{"code":2}`, `"name":"read","kind":3`, `"name":"log entry","kind":1`,
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

// TestCollectorWithTLS: a collector that asks for a header and a certificate gets both, and one
// whose authority is unknown gets nothing.
func TestCollectorWithTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := selfSigned(t, dir)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 8)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("Authorization") + " " + strings.Join(r.Header["X-Tenant"], "+") + " " + r.TLS.PeerCertificates[0].Subject.CommonName
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert}
	srv.StartTLS()
	defer srv.Close()
	headers := filepath.Join(dir, "headers")
	write(t, headers, "# of the collector\nAuthorization: Bearer abc:d\n\nx-tenant: a\nX-Tenant: b\n")
	for ca, want := range map[string]string{cert: "Bearer abc:d a+b collector", "": ""} {
		c := Collector{Endpoint: srv.URL, Headers: headers, CA: ca, Cert: cert, Key: key}
		if err := c.Check(0.5); err != nil {
			t.Fatal(err)
		}
		tracer, stop, err := Start(c, 1, nil, slog.New(slog.DiscardHandler), nil)
		if err != nil {
			t.Fatal(err)
		}
		tracer.Statement("SELECT 1", time.Unix(1, 0)).Finish("select", false)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		text := ""
		select {
		case text = <-got:
		default:
		}
		if text != want || (tracer.Dropped() == 0) != (want != "") {
			t.Errorf("with the authority %q the collector got %q, and %d spans were dropped", ca, text, tracer.Dropped())
		}
	}
}

// TestCheck: what cannot work is said at the start, and no line of the file of headers is shown.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	cert, key := selfSigned(t, dir)
	bad := filepath.Join(dir, "bad")
	write(t, bad, "Good: x\nsecret without a colon\n")
	for _, c := range []struct {
		Collector
		ratio float64
		want  string
	}{
		{Collector{}, 0, ""},
		{Collector{}, 1.5, "otlp-ratio"},
		{Collector{Endpoint: "collector"}, 0, "otlp-endpoint"},
		{Collector{Headers: bad}, 0, "need otlp-endpoint"},
		{Collector{Endpoint: "https://c", Headers: bad}, 0, "line 2 of " + bad + " is not NAME: VALUE"},
		{Collector{Endpoint: "https://c", Headers: bad + "x"}, 0, "otlp-headers"},
		{Collector{Endpoint: "https://c", Cert: cert}, 0, "give both"},
		{Collector{Endpoint: "http://c", CA: cert}, 0, "not https"},
		{Collector{Endpoint: "https://c", CA: key}, 0, "no certificate in"},
		{Collector{Endpoint: "https://c", Cert: cert, Key: bad}, 0, "otlp-cert"},
		{Collector{Endpoint: "https://c", CA: cert, Cert: cert, Key: key}, 1, ""},
	} {
		err := c.Check(c.ratio)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%+v: %v, want %q", c.Collector, err, c.want)
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// selfSigned makes a certificate for 127.0.0.1.
func selfSigned(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "collector"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	return cert, key
}
