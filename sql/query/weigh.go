package query

import (
	"context"
	"fmt"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/token"
	"github.com/godwitdb/godwit/sql/weigh"
)

// Admit refuses a statement that would take too much to parse, whoever parses it, and takes the
// memory that this needs from the node's budget until done is called.
func (r *Runner) Admit(s *session.Session, query string) (done func(), err error) {
	if len(query) < weigh.Least {
		return func() {}, nil
	}
	mode, _ := s.GetSessionVariable(sql.NewContext(context.Background(), sql.WithSession(s)), sql.SqlModeSessionVar)
	w := weigh.Of(query, token.ModeOf(fmt.Sprint(mode)))
	if err := w.Refused(); err != nil {
		return nil, err
	}
	mem, n := r.Memory(), int64(w.Tokens)*weigh.TokenBytes
	if err := mem.Grow(n); err != nil {
		return nil, err
	}
	return func() { mem.Shrink(n) }, nil
}

// AdmitText does so for a text that no client has sent as it is, such as what PREPARE gets from a
// variable. No more may be taken than a statement may keep.
func (r *Runner) AdmitText(ctx *sql.Context, text string) (done func(), err error) {
	if len(text) < weigh.Least {
		return func() {}, nil
	}
	w := weigh.Of(text, token.ModeOf(sql.LoadSqlMode(ctx).String()))
	if err := w.Refused(); err != nil {
		return nil, err
	}
	mem := r.Budget()
	if err := mem.Grow(int64(w.Tokens) * weigh.TokenBytes); err != nil {
		return nil, err
	}
	return mem.Release, nil
}
