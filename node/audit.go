package node

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/mechanism/ident"
	"github.com/godwitdb/godwit/node/knobs"
	"github.com/godwitdb/godwit/obs/audit"
)

// This file has the audit log of a real node: its settings, and what is done over HTTP.

// auditParams are the settings of the audit log.
type auditParams struct {
	Enabled bool   `json:"enabled"`
	Tables  string `json:"tables"`
	FileMB  int64  `json:"file_mb"`
	Files   int    `json:"files"`
}

func (n *Node) auditSettings() knobs.Group {
	read := func(data []byte) (p auditParams, err error) {
		if err := json.Unmarshal(data, &p); err != nil {
			return p, err
		}
		if p.FileMB < 1 || p.FileMB > 4096 || p.Files < 2 || p.Files > 10_000 {
			return p, base.Errorf(base.CodeInvalid, "audit.file_mb is 1 to 4096, audit.files 2 to 10000")
		}
		if _, err := audit.ParseTables(p.Tables); err != nil {
			return p, base.Errorf(base.CodeInvalid, "audit.tables: %v", err)
		}
		return p, nil
	}
	return knobs.Of("audit.", auditParams{Enabled: true, FileMB: 64, Files: 16}, map[string]string{
		"enabled": "each node writes logins, accounts, DDL, settings and administration to its audit log",
		"tables":  "statements that name or reach these tables are written, too: DATABASE.TABLE, ..., where either may be *",
		"file_mb": "size after which a new file of the audit log begins",
		"files":   "files of the audit log that each node keeps",
	}, read, func(p auditParams) error {
		tables, err := audit.ParseTables(p.Tables)
		if err != nil {
			return err
		}
		n.audit.Set(audit.Params{Off: !p.Enabled, FileSize: p.FileMB << 20, Files: p.Files, Tables: tables})
		return nil
	})
}

// auditCollector counts what the audit log lacks.
func auditCollector(l *audit.Log) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "godwit_audit_lost_total",
		Help: "Events that could not be written to the audit log."}, func() float64 { return float64(l.Lost()) })
}

// maxDetail bounds what is written of a request.
const maxDetail = 1 << 10

// audited writes requests that need an administrator and change something to the audit log.
func (c *Config) audited(next http.Handler) http.Handler {
	rights := c.rights()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.audit == nil || r.Method == http.MethodGet || r.Method == http.MethodHead || rights[r.URL.Path] != administrators {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body) // it is bounded, and in memory
		if err != nil {
			refuse(w, http.StatusBadRequest, err)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		e := requestEvent(r, nil)
		if r.URL.Path != join.PathInit && r.URL.Path != cluster.PathResetRoot { // these have the hash of root's password
			e.Detail = string(body[:min(len(body), maxDetail)])
		}
		s := &statusWriter{ResponseWriter: w, code: http.StatusOK}
		next.ServeHTTP(s, r)
		if s.code >= http.StatusBadRequest {
			e.Error = http.StatusText(s.code)
		}
		c.audit.Write(e)
	})
}

// requestEvent is the event of a request; err is why it is refused.
func requestEvent(r *http.Request, err error) audit.Event {
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
