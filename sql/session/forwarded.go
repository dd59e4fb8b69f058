package session

import (
	"time"

	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/wire"
)

// forwarded is the statement of another gateway that a session executes.
type forwarded struct {
	// statement names it to kv; nil: the session executes none, or one that has no name.
	statement *kv.Forwarded
	// raw is the error of its last commit as kv had it.
	raw error
}

// BeginForwarded begins a statement that another gateway has forwarded.
func (s *Session) BeginForwarded(q *wire.ForwardRequest) {
	s.attempt, s.lostAt, s.committed, s.commitTS = attempts{age: base.Timestamp(q.Age)}, time.Time{}, 0, 0
	if q.Age != 0 {
		s.lostAt = time.Now()
	}
	s.forwarded = forwarded{}
	if len(q.Id) == len(base.TxnID{}) {
		s.forwarded.statement = &kv.Forwarded{Name: base.TxnID(q.Id), Group: base.GroupID(q.Group), Answer: s.answer}
	}
}

// Forwarded tells in resp what came of the forwarded statement, which ends with err: how many
// transactions have committed, when the last one did, whether an outcome could not be found out,
// and with what age one was lost to a conflict. strayed: nothing was committed, and the statement
// has to run at its gateway.
func (s *Session) Forwarded(resp *wire.ForwardResponse, err error) (strayed bool) {
	resp.Ts, resp.Committed = uint64(s.commitTS), uint32(s.committed)
	resp.Unknown = s.Answers() && base.CodeOf(s.forwarded.raw) == base.CodeAmbiguous
	if err != nil && s.aborted {
		resp.Aborted, resp.Age = true, uint64(s.attempt.age)
	}
	strayed = s.forwarded.raw == kv.ErrStrayed
	s.forwarded = forwarded{}
	return strayed
}

// answerBytes is how long an answer may be that is kept with a commit. Warnings beyond are left out
// of it.
const answerBytes = 2 << 10

// answer is what the client of the forwarded statement is to be told, if nobody but the
// transaction's record can tell it.
func (s *Session) answer() []byte {
	info := s.GetLastQueryInfo()
	resp := &wire.ForwardResponse{LastInsertId: info.LastInsertId.Load(), RowCount: info.RowCount.Load(), Reached: s.Reached()}
	if r := s.Stmt.Answer; r != nil {
		resp.Affected, resp.InsertId, resp.Info, resp.RowCount = r.RowsAffected, r.InsertID, r.Info, int64(r.RowsAffected)
	} else { // the engine ran it, and has counted
		resp.Affected, resp.InsertId = uint64(max(resp.RowCount, 0)), uint64(resp.LastInsertId)
	}
	size := resp.SizeVT()
	for _, w := range s.Warnings() {
		m := &wire.ForwardWarning{Level: w.Level, Code: uint32(w.Code), Message: w.Message}
		if size += m.SizeVT(); size > answerBytes {
			break
		}
		resp.Warnings = append(resp.Warnings, m)
	}
	b, err := resp.MarshalVT()
	if err != nil {
		s.env.Log.Error("the answer to a forwarded statement cannot be kept", "err", err)
	}
	return b
}

// Answers reports whether what the client is told has to be known before its transaction commits.
func (s *Session) Answers() bool { return s.forwarded.statement != nil }

// NoteAnswer notes what the statement's client will be told if its transaction commits.
func (s *Session) NoteAnswer(r *sqltypes.Result) { s.Stmt.Answer = r }
