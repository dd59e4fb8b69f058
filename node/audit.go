package node

import (
	"encoding/json"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/godwitdb/godwit/base"
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
