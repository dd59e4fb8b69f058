package query

import (
	"context"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/aside"
	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/token"
	"github.com/godwitdb/godwit/sql/weigh"
)

// Admit refuses a statement that would take too much to parse, whoever parses it, and takes the
// memory that this needs from the node's budget until done is called. A long one is among the
// processes meanwhile, so that it can be killed.
func (r *Runner) Admit(ctx context.Context, s *session.Session, c *mysql.Conn, query string) (done func(), err error) {
	if s.Weight, s.Listed = 0, 0; weigh.Short(query) { // as most are: they do not pay for what follows
		return func() {}, nil
	}
	ask, end, err := weigh.Listed(ctx, query, func() (*sql.Context, error) { return r.Sessions.NewContextWithQuery(ctx, c, query) },
		r.Engine.ProcessList)
	if err != nil {
		return nil, err
	}
	defer end()
	s.Weight, s.Listed, done, err = r.weigh(sql.NewContext(context.Background(), sql.WithSession(s)), query, ask, r.Memory)
	return done, err
}

// AdmitText does so for a text that no client has sent as it is, such as what PREPARE gets from a
// variable. No more may be taken than a statement may keep.
func (r *Runner) AdmitText(ctx *sql.Context, text string) (done func(), err error) {
	_, _, done, err = r.weigh(ctx, text, func() error { return context.Cause(ctx) }, r.Budget)
	return done, err
}

func (r *Runner) weigh(ctx *sql.Context, text string, ask func() error, mem func() *exec.Mem) (n, listed int64, done func(), err error) {
	return weigh.Admit(text, func() token.Mode { return token.ModeOf(sql.LoadSqlMode(ctx).String()) },
		func() error { return interrupted(ask()) }, func() weigh.Memory { return mem() }, func() int64 { return r.Budget().Limit() })
}

// asideBytes is how long a text is at least that is parsed aside. A shorter one takes a few
// milliseconds.
const asideBytes = 256 << 10

// Aside waits for f, which parses a text, for as long as the statement may go on.
func (r *Runner) Aside(ctx *sql.Context, text string, f func()) error {
	if len(text) < asideBytes {
		f()
		return nil
	}
	n := int64(len(text))
	if s := session.Of(ctx); s != nil {
		n = max(n, s.Weight)
	}
	return aside.Parsers.Run(ctx, func() (func(), error) { return r.held(n) }, f)
}

// held takes bytes of the node's budget until release is called, which may be after the statement.
func (r *Runner) held(n int64) (release func(), err error) {
	mem := r.Memory()
	return func() { mem.Shrink(n) }, mem.Grow(n)
}

// parsed is a statement's tree, or why there is none: it may have been told to end.
func (r *Runner) parsed(ctx *sql.Context, text string) (tree bind.Stmt, err error) {
	mode := bind.ModeOf(sql.LoadSqlMode(ctx).String())
	if gone := r.Aside(ctx, text, func() { tree, err = bind.Parse(text, mode) }); gone != nil {
		return nil, &bind.Refusal{Err: sql.CastSQLError(interrupted(gone))}
	}
	return tree, err
}
