package access

import (
	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

// Statement is what the reads of one statement share.
type Statement struct {
	ctx     *sql.Context
	waiting []*rows // started, and not yet asked for
	ahead   bool    // the transaction keeps rows that were read ahead
}

// New begins the reads of a statement.
func New(ctx *sql.Context) *Statement { return &Statement{ctx: ctx} }

// Table is a table of the engine as the statement reads it.
func (s *Statement) Table(t sql.Table) *Table {
	out := &Table{s: s, engine: t}
	if st, ok := t.(*table.Table); ok {
		out.st = st
		out.index()
	}
	out.columns()
	return out
}

// Close ends the reads of the statement.
func (s *Statement) Close() {
	for _, r := range s.waiting {
		_ = r.Close()
	}
	s.waiting = nil
	if sess := session.Of(s.ctx); s.ahead && sess != nil {
		s.ahead = false
		sess.ForgetAhead()
	}
}
