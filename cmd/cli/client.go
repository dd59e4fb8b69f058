package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/godwitdb/godwit/mechanism/ident"
	"github.com/godwitdb/godwit/node"
)

// maxAnswer bounds what is read of a node's answer, in bytes.
const maxAnswer = 64 << 20

// errEarly marks an error of an attempt that may succeed a little later. It adds no text.
var errEarly = errors.New("")

// errRefused marks an error by which a node says that it did nothing. It adds no text.
var errRefused = errors.New("")

// endpoint is a node that an administrative command talks to.
type endpoint struct {
	addr     string
	certs    string
	insecure bool
	timeout  time.Duration
}

func (e *endpoint) flags(f *pflag.FlagSet) {
	f.StringVar(&e.addr, "addr", "127.0.0.1:7400",
		"HOST:PORT of any node of the cluster (its --listen or --advertise address, not the SQL port)")
	f.StringVar(&e.certs, "certs", node.DefaultCerts(), "folder with client.crt, client.key and ca.crt (default $"+
		node.CertsVar+" or ~/.godwit)")
	f.Lookup("certs").DefValue = ""
	f.BoolVar(&e.insecure, "insecure", false, "the node runs with --insecure: speak without TLS")
	f.DurationVar(&e.timeout, "timeout", 15*time.Second, "how long to wait for the answer")
}

// validate reports a bad --addr or --timeout.
func (e *endpoint) validate() error {
	if _, port, err := net.SplitHostPort(e.addr); err != nil || port == "" {
		return usagef("--addr: %q is not HOST:PORT", e.addr)
	}
	if e.timeout <= 0 {
		return usagef("--timeout: %s is not positive", e.timeout)
	}
	return nil
}

// talks is the body of a command that talks to the node, once its flags are validated.
func (e *endpoint) talks(run func(c *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if err := e.validate(); err != nil {
			return err
		}
		return run(c, args)
	}
}

// oneArg demands one argument.
func oneArg(give string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef("give %s", give)
		}
		return nil
	}
}

// call sends in (nil for a GET) and decodes the answer into out.
func (e *endpoint) call(ctx context.Context, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	res, err := e.send(ctx, path, in)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return e.read(ctx, path, res, out)
}

// send sends in (nil for a GET). Who calls closes the body of the answer.
func (e *endpoint) send(ctx context.Context, path string, in any) (*http.Response, error) {
	method, body := http.MethodGet, io.Reader(nil)
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		method, body = http.MethodPost, bytes.NewReader(b)
	}
	scheme, tlsConfig, err := e.security()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, scheme+"://"+e.addr+path, body)
	if err != nil {
		return nil, usagef("--addr: %q is not HOST:PORT: %v", e.addr, err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	// Not the default client: it would use the proxy of the environment.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: tlsConfig}}
	res, err := client.Do(req)
	if err != nil {
		return nil, e.explain(ctx, err)
	}
	return res, nil
}

// read decodes an answer into out, or says why there is none.
func (e *endpoint) read(ctx context.Context, path string, res *http.Response, out any) error {
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return e.explain(ctx, err)
	}
	var refusal struct {
		Error string `json:"error"`
		Early bool   `json:"early"`
	}
	if json.Unmarshal(text, &refusal) == nil && refusal.Error != "" {
		err := fmt.Errorf("the node at %s refuses: %s%w", e.addr, refusal.Error, errRefused)
		if refusal.Early {
			err = fmt.Errorf("%w%w", err, errEarly)
		}
		return err
	}
	switch {
	case res.StatusCode == http.StatusNotFound:
		return fmt.Errorf("the node at %s does not answer %s: either it belongs to no cluster yet (run 'godwit init "+
			"--addr %s') or this is not a Godwit node's --listen address",
			e.addr, path, e.addr)
	case res.StatusCode/100 != 2:
		return fmt.Errorf("the node at %s answers %s: %s", e.addr, res.Status, firstLine(text))
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return e.stranger(err)
	}
	return nil
}

// security is how the node is spoken to.
func (e *endpoint) security() (scheme string, cfg *tls.Config, err error) {
	if e.insecure {
		return "http", nil, nil
	}
	if !ident.HasClient(e.certs) {
		return "", nil, fmt.Errorf("there is no client's certificate in %s: run this where the cluster's first node was started, "+
			"name the folder that has one by --certs, or say --insecure if the nodes run so%w", e.certs, errEarly)
	}
	f, err := ident.Open(e.certs, ident.Client, nil)
	if err != nil {
		return "", nil, err
	}
	return "https", f.Client(ident.ProtoHTTP), nil
}

// stranger is the error that an answer does not look like a node's.
func (e *endpoint) stranger(err error) error {
	return fmt.Errorf("what answers at %s is not a Godwit node, or one of another version: %w", e.addr, err)
}

// explain says in words why a request failed, and what to do about it. The text depends on what
// listens at the address, not on which part of the exchange failed first.
func (e *endpoint) explain(ctx context.Context, err error) error {
	var dns *net.DNSError
	var network net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens at %s: is the node started, and is this its --listen address?%w", e.addr, errEarly)
	case errors.As(err, &dns):
		return fmt.Errorf("the host of %s is unknown: %w", e.addr, dns)
	case errors.Is(ctx.Err(), context.Canceled):
		return errInterrupted
	case ctx.Err() != nil, errors.As(err, &network) && network.Timeout():
		return fmt.Errorf("the node at %s did not answer within %s; try another node, or a longer --timeout", e.addr, e.timeout)
	case !e.insecure && strings.Contains(err.Error(), "authority"):
		return fmt.Errorf("the node at %s is not of the cluster whose certificates are in %s: --certs names the right folder (%w)",
			e.addr, e.certs, err)
	case strings.Contains(err.Error(), "malformed HTTP"), e.speaksFirst(ctx):
		return fmt.Errorf("what listens at %s does not speak HTTP: give a node's --listen address, not its SQL port", e.addr)
	}
	if !e.insecure && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) ||
		strings.Contains(err.Error(), "first record does not look like") || strings.Contains(err.Error(), "HTTPS client")) {
		return fmt.Errorf("the node at %s does not speak TLS: if it runs with --insecure, say so here as well (%w)", e.addr, err)
	}
	return fmt.Errorf("the node at %s cannot be asked: %w", e.addr, err)
}

// greetingWait bounds the wait for a first byte in speaksFirst.
const greetingWait = 2 * time.Second

// speaksFirst reports whether the server at the address sends something before it is asked, as a
// MySQL server does. An HTTP client may see such a server as a malformed answer, a reset connection
// or an idle connection that was closed, whichever comes first; a connection on which nothing is
// sent sees the greeting always.
func (e *endpoint) speaksFirst(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, greetingWait)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", e.addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Now()) })()
	n, _ := conn.Read(make([]byte, 1)) // an error without a byte: the server sent nothing
	return n > 0
}

func firstLine(b []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return line[:min(len(line), 300)]
}
