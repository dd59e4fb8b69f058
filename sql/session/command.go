package session

import (
	"strings"

	"github.com/dolthub/vitess/go/mysql"
)

// command is what the client has sent: one statement, and those of the procedures and triggers that
// run within it. It is made anew for each command.
type command struct {
	// calls is the depth of CALLs within a running statement.
	calls int
	// procedure is the one that runs; nil: none does.
	procedure *procedure
	// readers counts the iterators that use what was read ahead.
	readers int
}

// procedure is one that runs, as database.name in lower case.
type procedure struct {
	name   string
	caller *procedure
}

// Nested reports whether a procedure runs that was called within a running statement.
func (s *Session) Nested() bool { return s.cmd.calls > 0 }

// BeginCall notes that CALL is executed, the engine's next step being to set the transaction aside;
// nested says that it is not the client's own statement.
func (s *Session) BeginCall(nested bool) {
	s.Stmt.inCall = true
	if nested {
		s.cmd.calls++
	}
}

// mostProcedures is how many procedures call each other at most.
const mostProcedures = 256

// EnterProcedure notes that a procedure of a database begins. It fails if the procedure calls
// itself more often than recursions says (1456), or if mostProcedures run (1436). The caller calls
// end when it has ended.
func (s *Session) EnterProcedure(db, name string, recursions int) (end func(), err error) {
	key := strings.ToLower(db + "." + name)
	caller := s.cmd.procedure
	all, same := 0, 0
	for p := caller; p != nil; p = p.caller {
		if all++; p.name == key {
			same++
		}
	}
	switch {
	case same > recursions:
		return nil, mysql.NewSQLError(1456, "HY000", "Recursive limit %d (as set by the max_sp_recursion_depth variable) was "+
			"exceeded for routine %s", recursions, name)
	case all >= mostProcedures:
		return nil, mysql.NewSQLError(1436, "HY000", "Thread stack overrun: procedures call each other more than %d deep",
			mostProcedures)
	}
	s.cmd.procedure = &procedure{key, caller}
	return func() { s.cmd.procedure = caller }, nil
}

// UseAhead notes one more reader of what is read ahead; ForgetAhead ends it.
func (s *Session) UseAhead() { s.cmd.readers++ }

// AloneAhead reports whether there is one reader only of what was read ahead.
func (s *Session) AloneAhead() bool { return s.cmd.readers == 1 }

// ForgetAhead drops what was read ahead when its last reader is done. Statements in triggers read
// ahead within others.
func (s *Session) ForgetAhead() {
	if s.cmd.readers--; s.cmd.readers <= 0 {
		s.cmd.readers = 0
		s.DropAhead()
	}
}

// DropAhead drops what was read ahead for rows that are done.
func (s *Session) DropAhead() {
	if tx := s.Txn(); tx != nil && tx.KV != nil {
		tx.KV.Forget()
	}
}
