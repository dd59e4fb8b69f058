package server

import (
	"context"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/bound"
	"github.com/godwitdb/godwit/sql/kill"
	"github.com/godwitdb/godwit/sql/late"
)

// begun says that a statement of a client begins (kill.State.Begin).
func (h *handler) begun(ctx context.Context, c *mysql.Conn, query string) (context.Context, kill.Statement) {
	word := bound.Kind(query)
	k := kill.Kind{Late: bound.ErrTooSlow, Gated: gated[word], Waits: word != "load"} // that sends a file first
	if s := h.session(c); s != nil {
		k.Limit = bound.MaxTime(s.MaxTime, query)
	}
	return h.begins(ctx, c, k)
}

func (h *handler) begins(ctx context.Context, c *mysql.Conn, k kill.Kind) (context.Context, kill.Statement) {
	s := h.session(c)
	if s == nil {
		return ctx, kill.Statement{}
	}
	if !s.State.Tellable() {
		if t := late.TellerOf(c); t != nil {
			s.State.TellBy(t)
		}
	}
	return s.State.Begin(ctx, k)
}

// gated are statements that commit by the transaction of their session only.
var gated = map[string]bool{"select": true, "show": true, "explain": true, "desc": true, "describe": true, "with": true,
	"table": true, "values": true, "insert": true, "update": true, "delete": true, "replace": true, "load": true, "do": true,
	"call": true, "commit": true, "begin": true, "start": true, "rollback": true, "savepoint": true, "release": true,
	"use": true, "check": true, "checksum": true, "kill": true}
