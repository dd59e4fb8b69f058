package statements

import (
	"fmt"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/digest"
	"github.com/godwitdb/godwit/sql/recording"
	"github.com/godwitdb/godwit/sql/session"
)

// keep keeps a statement that has ended, to be played again.
func (r *Recorder) keep(s *session.Session, b *Began, st *digest.Statement, err error) {
	if !r.Kept.Wants(st.End) {
		return
	}
	lost := false
	if err != nil {
		errno := numberOf(err)
		lost = errno == mysql.ERLockDeadlock || errno == mysql.ERLockWaitTimeout
	}
	r.Kept.Add(&recording.Note{Statement: *st, Session: uint64(s.ID()), Began: b.start, Binds: b.binds, Was: b.was, Goes: st.Inside,
		Lost: lost, Settings: (*settings)(s)})
}

// settings are those of a session.
type settings session.Session

// traitVars are what sessions set that decides what statements wait for.
var traitVars = []string{session.IsolationVar, session.ConsistencyVar, session.StalenessVar, "sql_mode"}

// Traits implements [recording.Settings].
func (x *settings) Traits() (out []string) {
	s := (*session.Session)(x)
	ctx := sql.NewEmptyContext()
	for _, name := range traitVars {
		v, err := s.BaseSession.GetSessionVariable(ctx, name)
		_, def, ok := sql.SystemVariables.GetGlobal(name)
		if text := fmt.Sprint(v); err == nil && ok && text != fmt.Sprint(def) {
			out = append(out, fmt.Sprintf("SET SESSION %s = %s", name, recording.Quote(text)))
		}
	}
	return out
}

// Left tells that the session of a client has ended.
func (r *Recorder) Left(s *session.Session) { r.Kept.Left(uint64(s.ID())) }
