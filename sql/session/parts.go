package session

import (
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// PartsVar says whether LOAD DATA may commit a file in several transactions that is too large for
// one.
const PartsVar = "godwit_load_in_parts"

// Written is what the transaction has written and the most that it may write, with what editors
// still gather. ok is false if it has not begun, or does not know.
func (t *Txn) Written(ctx *sql.Context) (now, most kv.Volume, ok bool, err error) {
	m, ok := t.KV.(kv.Measured)
	if !ok {
		return now, most, false, nil
	}
	if err := t.Flush(ctx, nil); err != nil {
		return now, most, false, err
	}
	now, most = m.Written()
	return now, most, true, nil
}

// Stretch lets the transaction write more than others, or no longer, if it knows how much that is
// (kv.Measured).
func (t *Txn) Stretch(on bool) {
	if m, ok := t.KV.(kv.Measured); ok {
		m.Stretch(on)
	}
}

// PartCommitted says that a part of the statement has been committed: it is not tried again as a
// whole. What follows is a transaction of its own.
func (s *Session) PartCommitted() {
	s.Stmt.Asked, s.retrying, s.attempt, s.lostAt = true, false, attempts{}, time.Time{}
	s.KeepVariables()
	if s.file != nil {
		s.forgetFile()
	}
	s.SetTransaction(NewTxn(s))
}

// PartAgain begins another attempt of what the statement did since the last part, which has lost a
// conflict.
func (s *Session) PartAgain() {
	s.aborted, s.retrying = false, true
	s.retries++
	s.restoreVariables()
	s.before = nil
	s.SetTransaction(NewTxn(s))
}

// LostFor is why the statement has lost its transaction.
func (s *Session) LostFor() base.Code {
	if t := s.Txn(); t != nil && t.Raw != nil {
		return base.CodeOf(t.Raw)
	}
	return base.CodeOf(s.forwarded.raw)
}
