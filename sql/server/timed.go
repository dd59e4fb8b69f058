package server

import (
	"context"
	"errors"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/bound"
)

// timed is a context that ends when a statement has taken as long as it may. over must be called
// with the statement's error, and gives the client's.
func (h *handler) timed(ctx context.Context, c *mysql.Conn, query string) (_ context.Context, over func(error) error) {
	s := h.session(c)
	if s == nil {
		return ctx, func(err error) error { return err }
	}
	limit := bound.MaxTime(s.MaxTime, query)
	if limit == 0 {
		return ctx, func(err error) error { return err }
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, bound.ErrTooSlow)
	return ctx, func(err error) error {
		if err != nil && errors.Is(context.Cause(ctx), bound.ErrTooSlow) {
			err = bound.ErrTooSlow
		}
		cancel()
		return err
	}
}
