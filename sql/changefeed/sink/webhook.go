package sink

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

const (
	// lanes are how many requests a webhook gets at once. A key has one lane.
	lanes = 4
	// mostOfRequest bounds the bytes of the messages of a request, mostMessages their number.
	mostOfRequest = 1 << 20
	mostMessages  = 1000
	// mostAnswer is how much of an answer is read.
	mostAnswer = 4 << 10

	defaultTimeout = 10 * time.Second
)

// webhook posts {"payload":[message, ...],"length":n}, and {"resolved":"..."}, as CockroachDB does.
type webhook struct {
	c    *http.Client
	a    *Address
	s    Settings
	host string
}

func openWebhook(a *Address, s Settings) (Sink, error) {
	c, err := a.tls()
	if err != nil {
		return nil, &PermanentError{err.Error()}
	}
	if s.Timeout == 0 {
		s.Timeout = defaultTimeout
	}
	return &webhook{a: a, s: s, host: a.Hosts[0], c: client(c, s.Timeout)}, nil
}

func client(c *tls.Config, most time.Duration) *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig, t.MaxIdleConnsPerHost = c, lanes
	return &http.Client{Transport: t, Timeout: most,
		// Who is allowed must not send the node to who is not.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Registry is the schema registry that a statement names, if statements may: it is allowed as
// webhooks are.
func (p *Policy) Registry(a *Address) (*Registry, error) {
	if a.Kind != Webhook {
		return nil, &PermanentError{"a schema registry is named https://[USER:PASSWORD@]HOST[:PORT][/PATH]"}
	}
	if err := p.permits(a); err != nil {
		return nil, &PermanentError{err.Error()}
	}
	c, err := a.tls()
	if err != nil {
		return nil, &PermanentError{err.Error()}
	}
	r := &Registry{C: client(c, defaultTimeout), URL: a.url}
	if a.user != nil {
		r.User = a.user.Username()
		r.Password, _ = a.user.Password()
	}
	return r, nil
}

func (*webhook) Linger() time.Duration { return 0 }

func (*webhook) Reached(uint64) {}

func (w *webhook) Close() error { w.c.CloseIdleConnections(); return nil }

// Emit implements Sink. Each lane stops at its first failure.
func (w *webhook) Emit(ctx context.Context, batch []Message) error {
	var of [lanes][]Message
	for _, m := range batch {
		h := fnv.New32a()
		_, _ = io.WriteString(h, m.Topic)
		_, _ = h.Write(m.Key)
		n := h.Sum32() % lanes
		of[n] = append(of[n], m)
	}
	var wg sync.WaitGroup
	var errs [lanes]error
	for i := range of {
		if len(of[i]) > 0 {
			wg.Go(func() { errs[i] = w.lane(ctx, of[i]) })
		}
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

func (w *webhook) lane(ctx context.Context, ms []Message) error {
	for len(ms) > 0 {
		n, size := 0, 0
		for n < len(ms) && n < mostMessages && (n == 0 || size+ms[n].size() <= mostOfRequest) {
			size += ms[n].size()
			n++
		}
		if err := w.some(ctx, ms[:n]); err != nil {
			return err
		}
		ms = ms[n:]
	}
	return nil
}

// errTooLarge: the other side takes no request of that size.
var errTooLarge = errors.New("it is too large")

// some posts messages, in parts if they are too much at once.
func (w *webhook) some(ctx context.Context, ms []Message) error {
	b := []byte(`{"payload":[`)
	for i, m := range ms {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, m.Value...)
	}
	b = fmt.Appendf(b, `],"length":%d}`, len(ms))
	err := w.post(ctx, b)
	if errors.Is(err, errTooLarge) {
		if len(ms) == 1 {
			return &PermanentError{fmt.Sprintf("the webhook at %s refuses a message of %d bytes as too large (413)", w.host, len(b))}
		}
		if err = w.some(ctx, ms[:len(ms)/2]); err == nil {
			err = w.some(ctx, ms[len(ms)/2:])
		}
	}
	return err
}

// Mark implements Sink.
func (w *webhook) Mark(ctx context.Context, _ []string, m Mark) error { return w.post(ctx, m.Value) }

func (w *webhook) post(ctx context.Context, body []byte) error {
	coding := w.s.Compression
	body, err := compress(body, coding)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.a.url.String(), bytes.NewReader(body))
	if err != nil {
		return &PermanentError{"the address of the webhook cannot be used"}
	}
	r.Header.Set("Content-Type", "application/json")
	if coding != "" {
		r.Header.Set("Content-Encoding", coding)
	}
	if u := w.a.user; u != nil {
		p, _ := u.Password()
		r.SetBasicAuth(u.Username(), p)
	}
	if w.s.AuthHeader != "" {
		r.Header.Set("Authorization", w.s.AuthHeader)
	}
	res, err := w.c.Do(r)
	if err != nil {
		var u *url.Error // it repeats the address
		if errors.As(err, &u) {
			err = u.Err
		}
		return fmt.Errorf("the webhook at %s: %w", w.host, err)
	}
	defer res.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(res.Body, mostAnswer))
	switch {
	case res.StatusCode >= 200 && res.StatusCode < 300:
		return nil
	case res.StatusCode == http.StatusRequestEntityTooLarge:
		return fmt.Errorf("the webhook at %s: %w", w.host, errTooLarge)
	}
	return fmt.Errorf("the webhook at %s answers %s: %q", w.host, res.Status, clip(answer, 200))
}

// clip is the beginning of an answer, which may be anything.
func clip(b []byte, most int) string {
	if len(b) > most {
		return string(b[:most]) + "..."
	}
	return string(b)
}

// compress returns b in a coding; empty: as it is.
func compress(b []byte, coding string) ([]byte, error) {
	var out bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&out)
	case "zstd":
		var err error
		if w, err = zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1)); err != nil {
			return nil, err
		}
	default:
		return b, nil
	}
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
