package query

import (
	"context"
	"fmt"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/token"
	"github.com/godwitdb/godwit/sql/weigh"
)

// Admit refuses a statement that would take too much to parse, whoever parses it, and takes the
// memory that this needs from the node's budget until done is called.
func (r *Runner) Admit(s *session.Session, query string) (done func(), err error) {
	s.Weight, done, err = weigh.Admit(query, func() token.Mode {
		mode, _ := s.GetSessionVariable(sql.NewContext(context.Background(), sql.WithSession(s)), sql.SqlModeSessionVar)
		return token.ModeOf(fmt.Sprint(mode))
	}, func() weigh.Memory { return r.Memory() })
	return done, err
}

// AdmitText does so for a text that no client has sent as it is, such as what PREPARE gets from a
// variable. No more may be taken than a statement may keep.
func (r *Runner) AdmitText(ctx *sql.Context, text string) (done func(), err error) {
	_, done, err = weigh.Admit(text, func() token.Mode { return token.ModeOf(sql.LoadSqlMode(ctx).String()) },
		func() weigh.Memory { return r.Budget() })
	return done, err
}

// Aside waits for f, which parses a text, for as long as the statement may go on.
func (r *Runner) Aside(ctx *sql.Context, text string, f func()) error {
	n := int64(len(text))
	if s := session.Of(ctx); s != nil {
		n = max(n, s.Weight)
	}
	mem := r.Memory()
	return r.lanes.Parse(ctx, len(text), func() (func(), error) { return func() { mem.Shrink(n) }, mem.Grow(n) }, f)
}

// parsed is a statement's tree, or why there is none: it may have been told to end.
func (r *Runner) parsed(ctx *sql.Context, text string) (tree bind.Stmt, err error) {
	mode := bind.ModeOf(sql.LoadSqlMode(ctx).String())
	if gone := r.Aside(ctx, text, func() { tree, err = bind.Parse(text, mode) }); gone != nil {
		return nil, &bind.Refusal{Err: sql.CastSQLError(interrupted(gone))}
	}
	return tree, err
}
