package session

import "github.com/dolthub/vitess/go/vt/sqlparser"

// Access is whether a transaction may write.
type Access uint8

// What SET TRANSACTION READ ONLY and READ WRITE say; before, the session decides.
const (
	SessionAccess Access = iota
	AccessReadOnly
	AccessReadWrite
)

// ReadsOnly reports whether the next transaction is READ ONLY unless it says otherwise. An
// autocommit statement is one, too.
func (s *Session) ReadsOnly() bool {
	return s.NextAccess == AccessReadOnly || s.NextAccess == SessionAccess && s.readOnly != 0
}

// nextReadOnly is the same for the transaction that begins.
func (s *Session) nextReadOnly() bool {
	is := s.ReadsOnly()
	s.NextAccess = SessionAccess
	return is
}

// saysReadWrite reports whether the statement is START TRANSACTION READ WRITE.
func (s *Session) saysReadWrite() bool {
	b, ok := s.Stmt.Tree.(*sqlparser.Begin)
	return ok && b.TransactionCharacteristic == sqlparser.TxReadWrite
}
