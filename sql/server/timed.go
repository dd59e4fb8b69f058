package server

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"time"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/base"
)

// errTooSlow is what a client is told whose SELECT took longer than it was to.
var errTooSlow = mysql.NewSQLError(3024, "HY000",
	"Query execution was interrupted, maximum statement execution time exceeded")

var reMaxTime = regexp.MustCompile(`(?is)^[\s(]*select\s*/\*\+[^*]*\bmax_execution_time\s*\(\s*(\d+)\s*\)`)

// mostHint is how much of a statement is looked at for a hint.
const mostHint = 512

// maxTime is how long a statement may take, 0 without a bound: for a SELECT it is what its hint
// says, or the session's max_execution_time in ms. As in MySQL, other statements have no bound.
func maxTime(ms int64, query string) time.Duration {
	if len(query) > mostHint {
		query = query[:mostHint]
	}
	if ms == 0 && !base.ContainsFold(query, "max_execution_time") {
		return 0
	}
	switch statementKind(query) {
	case "select", "with", "table", "values":
	default:
		return 0
	}
	if m := reMaxTime.FindStringSubmatch(query); m != nil {
		if n, err := strconv.ParseUint(m[1], 10, 32); err == nil {
			ms = int64(n)
		}
	}
	return time.Duration(ms) * time.Millisecond
}

// timed is a context that ends when a statement has taken as long as it may. over must be called
// with the statement's error, and gives the client's.
func (h *handler) timed(ctx context.Context, c *mysql.Conn, query string) (_ context.Context, over func(error) error) {
	s := h.session(c)
	if s == nil {
		return ctx, func(err error) error { return err }
	}
	limit := maxTime(s.MaxTime, query)
	if limit == 0 {
		return ctx, func(err error) error { return err }
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTooSlow)
	return ctx, func(err error) error {
		if err != nil && errors.Is(context.Cause(ctx), errTooSlow) {
			err = errTooSlow
		}
		cancel()
		return err
	}
}
