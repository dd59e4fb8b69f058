package node

import (
	"encoding/json"
	"sync"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/node/knobs"
	"github.com/godwitdb/godwit/sql/server"
)

// sqlParams are MySQL's variables of connections, for all nodes and beyond a restart; SET GLOBAL
// changes them at one node until it ends.
type sqlParams struct {
	Secure         bool    `json:"require_secure_transport"`
	Connections    int64   `json:"max_connections"`
	OfUser         int64   `json:"max_user_connections"`
	ConnectTimeout int64   `json:"connect_timeout"`
	WaitTimeout    int64   `json:"wait_timeout"`
	SlowLog        bool    `json:"slow_query_log"`
	LongQuery      float64 `json:"long_query_time"`
	Literals       bool    `json:"statement_literals"`
	Events         bool    `json:"event_scheduler"`
	Recording      bool    `json:"statement_recording"`
}

func (p sqlParams) variables() map[string]any {
	flag := func(on bool) int8 {
		if on {
			return 1
		}
		return 0
	}
	return map[string]any{"require_secure_transport": flag(p.Secure), "max_connections": p.Connections,
		"max_user_connections": p.OfUser, "connect_timeout": p.ConnectTimeout, "wait_timeout": p.WaitTimeout,
		"event_scheduler": map[bool]string{true: "ON", false: "OFF"}[p.Events], "slow_query_log": flag(p.SlowLog), "long_query_time": p.LongQuery, "godwit_statement_literals": flag(p.Literals)}
}

func (n *Node) sqlSettings() knobs.Group {
	def := sqlParams{Connections: server.MaxConnections, ConnectTimeout: 10, WaitTimeout: 28800, LongQuery: 10, Events: true, Recording: true}
	read := func(data []byte) (p sqlParams, err error) {
		if err := json.Unmarshal(data, &p); err != nil {
			return p, err
		}
		if p.Connections < 1 || p.Connections > 100_000 || p.OfUser < 0 || p.OfUser > 100_000 || p.ConnectTimeout < 2 ||
			p.ConnectTimeout > 31536000 || p.WaitTimeout < 1 || p.WaitTimeout > 31536000 ||
			!(p.LongQuery >= 0 && p.LongQuery <= 31536000) {
			return p, base.Errorf(base.CodeInvalid, "sql.max_connections is 1 to 100000, sql.max_user_connections 0 to 100000, "+
				"sql.connect_timeout 2 to 31536000 s, sql.wait_timeout 1 to 31536000 s, sql.long_query_time 0 to 31536000 s")
		}
		return p, nil
	}
	var mu sync.Mutex
	last := def
	return knobs.Of("sql.", def, map[string]string{
		"require_secure_transport": "MySQL's variable: clients without TLS are refused",
		"max_connections":          "MySQL's variable: connections of clients to one node; one more is for administrators",
		"max_user_connections":     "MySQL's variable: connections of one account to one node; 0: no bound",
		"connect_timeout":          "MySQL's variable: seconds within which a client has to log in",
		"wait_timeout":             "MySQL's variable: seconds that a client of a new connection may be silent",
		"slow_query_log":           "MySQL's variable: statements that take longer than long_query_time are logged",
		"long_query_time":          "MySQL's variable: seconds after which a statement of a new connection is slow",
		"event_scheduler":          "MySQL's variable: events are run",
		"statement_recording":      "the newest statements are kept in memory, for godwit whatif",
		"statement_literals":       "the slow log and samples of statements show literals, which may be personal data",
	}, read, func(p sqlParams) error {
		if srv, err := n.server(); err == nil {
			srv.Statements().Kept.Keep(p.Recording)
		}
		mu.Lock()
		defer mu.Unlock()
		if p == last {
			return nil // another setting has changed: SET GLOBAL stands
		}
		last = p
		return server.SetVariables(p.variables())
	})
}
