package session

// command is what the client has sent: one statement, and those of the procedures and triggers that
// run within it. It is made anew for each command.
type command struct {
	// calls is the depth of CALLs within a running statement.
	calls int
	// readers counts the iterators that use what was read ahead.
	readers int
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
