package otlp

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
)

// Collector is where traces are sent to, and how this node shows who it is.
type Collector struct {
	// Endpoint is its address, as [Endpoint] takes it; empty: nothing is sent.
	Endpoint string
	// Headers is a file with headers of each request, as NAME: VALUE, a line each. They may be
	// secrets, so they are in a file.
	Headers string
	// CA is a file with the certificates that its certificate must come from; empty: those of the
	// machine. Cert and Key are files with a certificate of this node for it; empty: none.
	CA, Cert, Key string
}

// Check says what is wrong with a collector, and with the share of statements that are traced.
func (c *Collector) Check(ratio float64) error {
	if ratio < 0 || ratio > 1 {
		return fmt.Errorf("otlp-ratio: %v is outside 0 to 1", ratio)
	}
	if c.Endpoint == "" {
		if *c != (Collector{}) {
			return errors.New("otlp-headers, otlp-ca, otlp-cert and otlp-key need otlp-endpoint")
		}
		return nil
	}
	to, err := Endpoint(c.Endpoint)
	switch {
	case err != nil:
		return fmt.Errorf("otlp-endpoint: %w", err)
	case (c.Cert == "") != (c.Key == ""):
		return errors.New("otlp-cert and otlp-key: give both, or neither")
	case c.CA+c.Cert != "" && !strings.HasPrefix(to, "https:"):
		return errors.New("otlp-ca and otlp-cert: the endpoint is not https://")
	}
	_, err = c.headers()
	if err == nil {
		_, err = c.security()
	}
	return err
}

// headers reads the file with them.
func (c *Collector) headers() (http.Header, error) {
	h := http.Header{}
	if c.Headers == "" {
		return h, nil
	}
	f, err := os.Open(c.Headers)
	if err != nil {
		return nil, fmt.Errorf("otlp-headers: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !ok || name == "" || strings.ContainsAny(name, " \t\"(),/;<=>?@[\\]{}") {
			return nil, fmt.Errorf("otlp-headers: line %d of %s is not NAME: VALUE", n, c.Headers) // it may be a secret
		}
		h.Add(name, strings.TrimSpace(value))
	}
	return h, lines.Err()
}

// security reads the certificates.
func (c *Collector) security() (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		b, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("otlp-ca: %w", err)
		}
		if t.RootCAs = x509.NewCertPool(); !t.RootCAs.AppendCertsFromPEM(b) {
			return nil, fmt.Errorf("otlp-ca: there is no certificate in %s", c.CA)
		}
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, fmt.Errorf("otlp-cert: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}
