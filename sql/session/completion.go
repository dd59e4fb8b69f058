package session

import "github.com/dolthub/go-mysql-server/sql"

// completionVar says what COMMIT and ROLLBACK do that say nothing of it themselves: CHAIN begins
// another transaction, RELEASE ends the connection. What ends a transaction implicitly, and XA, do
// not ask for it, as in MySQL.
const completionVar = "completion_type"

// The values of completion_type that do more than to end a transaction.
const (
	completionChain   = "CHAIN"
	completionRelease = "RELEASE"
)

func (s *Session) readCompletion(ctx *sql.Context) {
	if v, err := s.BaseSession.GetSessionVariable(ctx, completionVar); err == nil {
		s.completion, _ = v.(string)
	}
}

// Completion says what a COMMIT or ROLLBACK does that does not say it itself.
func (s *Session) Completion() (chain, release bool) {
	return s.completion == completionChain, s.completion == completionRelease
}

// EndsPlainly reports whether a COMMIT or ROLLBACK without a word does no more than to end the
// transaction.
func (s *Session) EndsPlainly() bool {
	chain, release := s.Completion()
	return !chain && !release
}
