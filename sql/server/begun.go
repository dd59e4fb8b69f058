package server

import (
	"context"
	"errors"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/bound"
)

// begun is the context of a statement of a client: it ends when the statement is killed, or has
// taken as long as it may. over must be called with the statement's error, and gives the client's.
func (h *handler) begun(ctx context.Context, c *mysql.Conn, query string) (_ context.Context, over func(error) error) {
	s := h.session(c)
	if s == nil {
		return ctx, func(err error) error { return err }
	}
	ctx, end := h.g.kills.Begin(ctx, s.ID(), bound.MaxTime(s.MaxTime, query), bound.ErrTooSlow)
	return ctx, func(err error) error {
		if err != nil && errors.Is(context.Cause(ctx), bound.ErrTooSlow) {
			err = bound.ErrTooSlow
		}
		end()
		return err
	}
}
