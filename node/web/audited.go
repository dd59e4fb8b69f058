package web

import (
	"bytes"
	"io"
	"net/http"

	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/mechanism/ident"
	"github.com/godwitdb/godwit/obs/audit"
)

// maxDetail bounds what is written of a request.
const maxDetail = 1 << 10

// audited writes requests that need an administrator and change something to the audit log.
func (c *Options) audited(next http.Handler) http.Handler {
	rights := c.rights()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.Audit == nil || r.Method == http.MethodGet || r.Method == http.MethodHead || rights[r.URL.Path] != administrators {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body) // it is bounded, and in memory
		if err != nil {
			refuse(w, http.StatusBadRequest, err)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		e := Event(r, nil)
		if r.URL.Path != join.PathInit && r.URL.Path != cluster.PathResetRoot { // these have the hash of root's password
			e.Detail = string(body[:min(len(body), maxDetail)])
		}
		s := &statusWriter{ResponseWriter: w, code: http.StatusOK}
		next.ServeHTTP(s, r)
		if s.code >= http.StatusBadRequest {
			e.Error = http.StatusText(s.code)
		}
		c.Audit.Write(e)
	})
}

// Event is the event of a request; err is why it is refused.
func Event(r *http.Request, err error) audit.Event {
	e := audit.Event{Kind: audit.Admin, Address: r.RemoteAddr, Action: r.Method + " " + r.URL.Path}
	if name, err := ident.Peer(r.TLS); err == nil {
		e.User = name.String()
	}
	if err != nil {
		e.Error = err.Error()
	}
	return e
}

// statusWriter notes the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(code int) {
	w.code = code
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap is what http.ResponseController asks for.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
