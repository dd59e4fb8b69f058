package server

import (
	"context"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/bound"
)

// begun says that a statement of a client begins (kill.State.Begin).
func (h *handler) begun(ctx context.Context, c *mysql.Conn, query string) (_ context.Context, over func(error) error) {
	s := h.session(c)
	if s == nil {
		return ctx, func(err error) error { return err }
	}
	return s.State.Begin(ctx, bound.MaxTime(s.MaxTime, query), bound.ErrTooSlow)
}
