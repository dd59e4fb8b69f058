package console

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"
)

// Path is where the console is; what lies below is the console's, too.
const Path = "/console/"

// Options of a [Console].
type Options struct {
	// Dial connects to the node's SQL server, for which the client is at the address from.
	// Required.
	Dial func(ctx context.Context, from net.Addr) (net.Conn, error)
	// Hosts are names by which the node may be asked without TLS, besides localhost and
	// addresses. With any other name, a foreign page could be at a name that leads to this node,
	// and would count as one of its own (DNS rebinding).
	Hosts []string
	// Logger gets what is worth a line; nil: nobody.
	Logger *slog.Logger
}

// Console answers what is asked below [Path]. It implements http.Handler.
type Console struct {
	opt      Options
	mux      *http.ServeMux
	sessions *sessions
	shared   shared
	strikes  *strikes
	logins   chan struct{} // logins under way
	running  chan struct{} // statements of the box under way, of all sessions
}

// The bounds of all sessions together.
const (
	maxLogins     = 8
	maxStatements = 8
)

// New makes a console.
func New(opt Options) *Console {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Console{opt: opt, mux: http.NewServeMux(), sessions: newSessions(), strikes: newStrikes(),
		logins: make(chan struct{}, maxLogins), running: make(chan struct{}, maxStatements)}
	c.mux.HandleFunc("GET "+Path+"{$}", serveAsset("index.html"))
	for name := range assets {
		if name != "index.html" {
			c.mux.HandleFunc("GET "+Path+name, serveAsset(name))
		}
	}
	c.mux.HandleFunc("POST "+Path+"api/login", c.login)
	c.mux.HandleFunc("GET "+Path+"api/session", c.within(c.session))
	c.mux.HandleFunc("GET "+Path+"api/panel/{panel}", c.within(c.panel))
	c.mux.HandleFunc("POST "+Path+"api/logout", c.within(c.logout))
	c.mux.HandleFunc("POST "+Path+"api/sql", c.within(c.sql))
	c.mux.HandleFunc("POST "+Path+"api/stop", c.within(c.stop))
	c.mux.HandleFunc(Path, func(w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusNotFound, "the console has no such page")
	})
	return c
}

// Close ends all sessions; there will be no others.
func (c *Console) Close() error {
	c.sessions.close()
	return nil
}

const (
	// answerTimeout bounds the time that a client takes to read an answer, beside the time in
	// which it is made.
	answerTimeout = 30 * time.Second
	// bodyTimeout bounds the time in which a body comes.
	bodyTimeout = 10 * time.Second
	// maxBody bounds a body: a statement and what is around it.
	maxBody = 128 << 10
)

// policy is the Content-Security-Policy: nothing but files of this origin, no scripts or styles
// in the page, no markup from strings, and no page of others around it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	for name, v := range map[string]string{
		"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
		"Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
		"Permissions-Policy": "camera=(), geolocation=(), microphone=()",
	} {
		h.Set(name, v)
	}
	// Not every writer of a test has deadlines.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(statementTimeout + graceTimeout + answerTimeout))
	if why := c.foreign(r); why != "" {
		fail(w, http.StatusForbidden, why)
		return
	}
	if p := r.URL.Path; path.Clean(p) != strings.TrimSuffix(p, "/") {
		fail(w, http.StatusNotFound, "the console has no such page")
		return
	}
	c.mux.ServeHTTP(w, r)
}

// foreign is why a request is taken to be one of somebody else's page; empty: it is not.
func (c *Console) foreign(r *http.Request) string {
	if !c.host(r) {
		return "this node is not known by the name in the address: use its IP address, localhost, or the name that " +
			"--advertise has"
	}
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	if o := r.Header.Get("Origin"); o != "" && !strings.EqualFold(o, scheme+r.Host) {
		return "requests of other web pages are not answered"
	}
	reading := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin":
		return ""
	case "none": // typed by the user
		if reading {
			return ""
		}
	default: // a link on another page leads here
		if reading && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" &&
			r.URL.Path == Path {
			return ""
		}
	}
	return "requests of other web pages are not answered"
}

// host reports whether the name by which the node is asked may be one of its own. With TLS the
// browser has compared it with the certificate.
func (c *Console) host(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	name := hostname(r.Host)
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return strings.EqualFold(name, "localhost") ||
		slices.ContainsFunc(c.opt.Hosts, func(h string) bool { return h != "" && strings.EqualFold(h, name) })
}

// hostname is what is before the port in HOST or HOST:PORT.
func hostname(s string) string {
	if h, _, err := net.SplitHostPort(s); err == nil {
		return h
	}
	return strings.Trim(s, "[]")
}

// problem is an answer that says no.
type problem struct {
	Error string `json:"error"`
	Code  int    `json:"code,omitempty"` // of SQL
}

func fail(w http.ResponseWriter, status int, text string) { answer(w, status, problem{Error: text}) }

// answer writes JSON. Its strings may be anybody's, so it escapes what is markup in HTML.
func answer(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be encoded"}`)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b) // a client that has gone does not read it
}

// receive decodes the body of a request, or answers why not.
func receive(w http.ResponseWriter, r *http.Request, into any) bool {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		fail(w, http.StatusUnsupportedMediaType, "send JSON, with the header Content-Type: application/json")
		return false
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout)) // not every writer of a test can
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	_ = control.SetReadDeadline(time.Time{})
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		fail(w, http.StatusRequestEntityTooLarge, "the request is longer than 128 KiB")
		return false
	case err != nil:
		fail(w, http.StatusBadRequest, "the request did not come")
		return false
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil || d.More() {
		fail(w, http.StatusBadRequest, "the request is not the JSON that is expected here")
		return false
	}
	return true
}

//go:embed assets
var files embed.FS

// asset is a file of the console.
type asset struct {
	kind, tag     string
	plain, packed []byte
}

// assets are all files, by name. A request finds nothing else: no path leads to a file system.
var assets = readAssets()

func readAssets() map[string]*asset {
	kinds := map[string]string{".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
		".css": "text/css; charset=utf-8", ".json": "application/json; charset=utf-8", ".svg": "image/svg+xml"}
	out := map[string]*asset{}
	list, err := files.ReadDir("assets")
	if err != nil {
		panic(err) // they are part of the binary
	}
	for _, f := range list {
		b, err := files.ReadFile("assets/" + f.Name())
		if err != nil {
			panic(err)
		}
		var z bytes.Buffer
		g := gzip.NewWriter(&z)
		_, _ = g.Write(b) // a buffer takes everything
		_ = g.Close()
		sum := sha256.Sum256(b)
		out[f.Name()] = &asset{kind: kinds[path.Ext(f.Name())], tag: `"` + hex.EncodeToString(sum[:12]) + `"`, plain: b,
			packed: z.Bytes()}
	}
	return out
}

func serveAsset(name string) http.HandlerFunc {
	a := assets[name]
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", a.kind)
		h.Set("Cache-Control", "no-cache") // it is asked for each time, and seldom sent
		h.Set("ETag", a.tag)
		h.Set("Vary", "Accept-Encoding")
		if r.Header.Get("If-None-Match") == a.tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		body := a.plain
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			h.Set("Content-Encoding", "gzip")
			body = a.packed
		}
		_, _ = w.Write(body) // a client that has gone does not read it
	}
}
