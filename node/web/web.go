// Package web serves the HTTP interface of a node: who may ask for what, at which port, and what is
// written of it to the audit log.
package web

import (
	"bytes"
	"context"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/mechanism/ident"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/node/console"
	"github.com/godwitdb/godwit/obs/audit"
)

// PathEnrol gives a certificate to a node with a token.
const PathEnrol = "/cluster/enrol"

// Options of the interface.
type Options struct {
	Insecure    bool         // certificates are not asked for
	Pprof       bool         // profiles are served, to administrators
	OpenMetrics bool         // metrics are served to whoever asks
	Console     http.Handler // nil: there is none
	Audit       *audit.Log   // nil: nothing is written
	// Nodes is where others reach the node, Admins where administrators do if they have a port of
	// their own. Both are HOST:PORT.
	Nodes, Admins string
}

// right is what a request must prove.
type right uint8

const (
	// administrators are clients with a certificate. It is the right of all paths that are not
	// named below, also of those that do not exist.
	administrators right = iota
	members              // nodes and clients, each with a certificate
	nodes                // nodes with a certificate
	bearers              // whoever has a token, over TLS
	anybody
)

// rights by path, but for those of the console, which asks for users of the database.
func (c *Options) rights() map[string]right {
	m := map[string]right{
		"/health": anybody, "/ready": anybody, PathEnrol: bearers, join.PathJoin: nodes, cluster.PathStatus: members, "/metrics": members,
	}
	if c.OpenMetrics {
		m["/metrics"] = anybody
	}
	return m
}

const (
	// maxPost bounds the body of a request.
	maxPost = 1 << 20
	// postTimeout bounds the time in which it comes.
	postTimeout = 10 * time.Second
	idleTimeout = time.Minute
)

// connKey finds a request's connection in its context.
type connKey struct{}

// Server serves the node's HTTP interface. Every request passes the checks of this file.
func (c *Options) Server(mux http.Handler, at Port) *http.Server {
	return &http.Server{Handler: c.guard(mux, at), ReadHeaderTimeout: postTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: 64 << 10,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		}}
}

func (c *Options) guard(next http.Handler, at Port) http.Handler {
	guarded := c.guardNode(next, at)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.Console == nil || r.URL.Path != "/" && r.URL.Path != consoleRoot && !strings.HasPrefix(r.URL.Path, console.Path) {
			guarded.ServeHTTP(w, r)
			return
		}
		if at == NodesOnly {
			refuse(w, http.StatusForbidden, c.elsewhere())
			return
		}
		c.guardConsole(w, r)
	})
}

// consoleRoot is the address of the console as people write it.
var consoleRoot = strings.TrimSuffix(console.Path, "/")

// guardConsole serves the console. It never reaches what needs a certificate, and says by itself
// which pages may ask.
func (c *Options) guardConsole(w http.ResponseWriter, r *http.Request) {
	if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok {
		wan.Settled(conn)
	}
	w.Header().Set("Connection", "close") // the console keeps those of its users
	switch reads := r.Method == http.MethodGet || r.Method == http.MethodHead; {
	case !c.Insecure && r.TLS == nil && reads:
		http.Redirect(w, r, "https://"+r.Host+console.Path, http.StatusFound)
	case !c.Insecure && r.TLS == nil:
		refuse(w, http.StatusForbidden, base.Errorf(base.CodeInvalid, "this node speaks HTTPS only"))
	case !strings.HasPrefix(r.URL.Path, console.Path):
		if reads {
			http.Redirect(w, r, console.Path, http.StatusFound)
			return
		}
		http.NotFound(w, r)
	default:
		c.Console.ServeHTTP(w, r)
	}
}

// guardNode is the guard of all but the console.
func (c *Options) guardNode(next http.Handler, at Port) http.Handler {
	rights := c.rights()
	next = c.audited(next)
	return noBrowsers(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok {
			wan.Settled(conn)
		}
		if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
			// Connections of strangers are not kept.
			w.Header().Set("Connection", "close")
		}
		err := c.wrongPort(at, rights[r.URL.Path], r)
		if err == nil && !c.Insecure {
			err = may(rights[r.URL.Path], r)
		}
		if err != nil {
			c.Audit.Write(Event(r, err))
			refuse(w, http.StatusForbidden, err)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/debug/pprof") && !c.Pprof {
			refuse(w, http.StatusNotFound, base.Errorf(base.CodeInvalid, "profiles are off: start the node with --pprof"))
			return
		}
		next.ServeHTTP(w, r)
	}))
}

// may is why a request may not do what needs a right.
func may(need right, r *http.Request) error {
	if need == anybody {
		return nil
	}
	if r.TLS == nil {
		return base.Errorf(base.CodeInvalid, "this node speaks HTTPS only: leave out --insecure, and use https")
	}
	if need == bearers {
		return nil
	}
	n, err := ident.Peer(r.TLS)
	switch {
	case err != nil:
		return base.Errorf(base.CodeInvalid, "%s needs a certificate of this cluster: --certs names the folder that has it, "+
			"`godwit cert create-client` makes one", r.URL.Path)
	case need == nodes && n.Role != ident.RoleNode:
		return base.Errorf(base.CodeInvalid, "%s is for nodes, and this is the certificate of a %s", r.URL.Path, n.Role)
	case need == administrators && n.Role != ident.RoleClient:
		return base.Errorf(base.CodeInvalid, "%s is for administrators, and this is the certificate of a %s", r.URL.Path, n.Role)
	}
	return nil
}

// noBrowsers refuses what a browser sends for a page, also for a page of the console: pages have no
// business here. It also bounds bodies, and the time in which they come.
func noBrowsers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site := r.Header.Get("Sec-Fetch-Site")
		if r.Header.Get("Origin") != "" || site != "" && site != "none" {
			refuse(w, http.StatusForbidden, base.Errorf(base.CodeInvalid, "requests of web pages are not answered"))
			return
		}
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
			refuse(w, http.StatusUnsupportedMediaType, base.Errorf(base.CodeInvalid,
				"send JSON, with the header Content-Type: application/json"))
			return
		}
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(time.Now().Add(postTimeout)) // not every writer of a test can
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPost))
		if err != nil {
			refuse(w, http.StatusRequestEntityTooLarge, base.Errorf(base.CodeInvalid, "the request did not come: %v", err))
			return
		}
		_ = control.SetReadDeadline(time.Time{})
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// refusal has the fields of all answers that say no.
type refusal struct {
	Error string `json:"error"`
	Final bool   `json:"final"`
}

// refuse answers with an error that the commands show. Asking again will not help.
func refuse(w http.ResponseWriter, status int, err error) {
	join.Reply(w, status, refusal{Error: err.(*base.Error).Msg, Final: true})
}
