package session

import (
	"regexp"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

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

// Next is what SET TRANSACTION, without a scope, says of the next transaction.
type Next struct {
	level  string // empty: nothing
	access Access
}

var (
	reNext      = regexp.MustCompile(`(?is)^SET\s+TRANSACTION\s+((?:ISOLATION|READ)\s.*)$`)
	reNextLevel = regexp.MustCompile(`(?is)^ISOLATION\s+LEVEL\s+` +
		`(REPEATABLE\s+READ|READ\s+COMMITTED|READ\s+UNCOMMITTED|SERIALIZABLE)$`)
	reNextAccess = regexp.MustCompile(`(?is)^READ\s+(ONLY|WRITE)$`)
)

// ParseNext parses SET TRANSACTION without a scope; ok is false for other statements, and for what
// the engine words the error of.
func ParseNext(q string) (n Next, ok bool) {
	m := reNext.FindStringSubmatch(q)
	if m == nil {
		return n, false
	}
	for _, part := range strings.Split(m[1], ",") {
		part = strings.TrimSpace(part)
		l, a := reNextLevel.FindStringSubmatch(part), reNextAccess.FindStringSubmatch(part)
		switch {
		case l != nil && n.level == "":
			n.level = strings.ToUpper(strings.Join(strings.Fields(l[1]), "-"))
		case a != nil && n.access == SessionAccess && strings.EqualFold(a[1], "ONLY"):
			n.access = AccessReadOnly
		case a != nil && n.access == SessionAccess:
			n.access = AccessReadWrite
		default:
			return n, false
		}
	}
	return n, true
}

// Set notes it in the session.
func (n Next) Set(ctx *sql.Context) error {
	s := Of(ctx)
	if s == nil {
		return nil
	}
	if t := s.Txn(); s.GetIgnoreAutoCommit() || t != nil && t.KV != nil {
		return ErrInTransaction
	}
	if n.level != "" {
		s.NextLevel = IsolationNames[n.level]
	}
	if n.level == "READ-UNCOMMITTED" {
		ctx.Warn(1105, "there are no dirty reads: READ UNCOMMITTED is READ COMMITTED")
	}
	if n.access != SessionAccess {
		s.NextAccess = n.access
	}
	return nil
}
