package server

import (
	"context"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/bound"
	"github.com/godwitdb/godwit/sql/kill"
)

// begun says that a statement of a client begins (kill.State.Begin).
func (h *handler) begun(ctx context.Context, c *mysql.Conn, query string) (context.Context, kill.Statement) {
	s := h.session(c)
	if s == nil {
		return ctx, kill.Statement{}
	}
	return s.State.Begin(ctx, bound.MaxTime(s.MaxTime, query), bound.ErrTooSlow)
}
