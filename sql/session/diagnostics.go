package session

import (
	"errors"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
)

// What the statement before has left behind: the diagnostics area of MySQL.

// The variables that count it.
const (
	warningCountVar = "warning_count"
	errorCountVar   = "error_count"
)

// levelError is the level of an error among warnings and notes.
const levelError = "Error"

// diagnostics are those of a session.
type diagnostics struct {
	left    []*sql.Warning // when the present statement began, the oldest first
	cleared bool           // the present statement has emptied the list
	// state is the SQLSTATE of the error that has ended the statement before, ending that of the
	// present one.
	state, ending string
}

// BeginDiagnostics keeps what the statement before has left. The executors empty the list as soon
// as the next one runs, and some of them before it is asked.
func (s *Session) BeginDiagnostics() {
	s.diagnostics = diagnostics{left: s.Warnings(), state: s.diagnostics.ending}
}

// EndedWith is the SQLSTATE of the error that has ended the statement before; empty: it had none.
func (s *Session) EndedWith() string { return s.diagnostics.state }

// Diagnostics are what the statement before has left: errors alone, or warnings and notes, too.
func (s *Session) Diagnostics(errorsOnly bool) (out []*sql.Warning) {
	for _, w := range s.diagnostics.left {
		if !errorsOnly || w.Level == levelError {
			out = append(out, w)
		}
	}
	return out
}

// KeepDiagnostics leaves the list as it was before the present statement, which only shows it.
func (s *Session) KeepDiagnostics() {
	s.BaseSession.ClearWarnings()
	for _, w := range s.diagnostics.left {
		s.BaseSession.Warn(w)
	}
	s.ClearWarningCount() // they are not of this statement
	s.diagnostics.cleared, s.diagnostics.ending = true, s.diagnostics.state
}

// ClearWarnings implements sql.Session.
func (s *Session) ClearWarnings() {
	s.diagnostics.cleared = true
	s.BaseSession.ClearWarnings()
}

// NoteError puts the error that ends a client's statement into the list.
func (s *Session) NoteError(err error) {
	if !s.diagnostics.cleared {
		s.ClearWarnings() // it failed before anybody came to that
	}
	var me *mysql.SQLError
	if !errors.As(err, &me) {
		me = sql.CastSQLError(err)
	}
	s.diagnostics.ending = me.State
	s.Warn(&sql.Warning{Level: levelError, Code: me.Num, Message: me.Message})
}
