package session

import (
	"time"

	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/sql/work"
)

// StatementCost is what a statement cost.
type StatementCost struct {
	Hops     int // one-way crossings of the WAN that it waited for
	Bytes    int64
	Messages int64
	Moves    int64         // rows
	Waited   time.Duration // for replicas to be complete
	Retries  int
	Elapsed  time.Duration
	Kind     string
	// Program says whether the statement was a program, or a part of one, and if not, why; empty:
	// no such question.
	Program string
}

// BeginCommand begins the counts of a command of the client.
func (s *Session) BeginCommand() {
	s.Sent, s.Affected, s.retries, s.Program = 0, 0, 0, ""
	s.PacketCost, s.Work = StatementCost{}, work.Done{}
}

// Spent is what all statements of the session have cost; Retries is of the present command alone.
func (s *Session) Spent() StatementCost {
	return StatementCost{Hops: s.Trace.Hops(), Bytes: s.Trace.Bytes(), Messages: s.Trace.Messages(), Moves: s.Trace.Moves(),
		Waited: s.Trace.Waited(), Retries: s.retries}
}

// Since is what was spent since an earlier moment, before the present command began.
func (c StatementCost) Since(before StatementCost) StatementCost {
	c.Hops -= before.Hops
	c.Bytes -= before.Bytes
	c.Messages -= before.Messages
	c.Moves -= before.Moves
	c.Waited -= before.Waited
	return c
}

// Plus is the sum of two costs, of which the first one says what the statement was.
func (c StatementCost) Plus(o StatementCost) StatementCost {
	c.Hops += o.Hops
	c.Bytes += o.Bytes
	c.Messages += o.Messages
	c.Moves += o.Moves
	c.Waited += o.Waited
	c.Elapsed += o.Elapsed
	return c
}

// Answered counts the rows of a result, or of a part of one, that the client gets.
func (s *Session) Answered(r *sqltypes.Result) {
	s.Sent += uint64(len(r.Rows))
	if len(r.Fields) == 0 && len(r.Rows) == 0 {
		s.Affected += r.RowsAffected
	}
}
