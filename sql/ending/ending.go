// Package ending ends transactions as COMMIT and ROLLBACK say with AND CHAIN and RELEASE, which the
// parser of go-mysql-server takes and drops, and as completion_type says where they do not.
package ending

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/token"
)

// End is a COMMIT or ROLLBACK.
type End struct {
	Rollback bool
	// Chain: another transaction begins at once, with the isolation level and the access mode of
	// the one that ends. Release: the connection ends with the answer. Where the statement says
	// neither, completion_type does when it runs.
	Chain, Release Said
}

// Said is what a statement says of CHAIN or RELEASE.
type Said uint8

// What it says: nothing, that it is to be, or NO.
const (
	Nothing Said = iota
	Yes
	No
)

func (s Said) or(def bool) bool { return s == Yes || s == Nothing && def }

// Of reads what a statement says, whose text is given; nil if it is another one.
func Of(stmt sqlparser.Statement, text string) *End {
	e := &End{}
	switch stmt.(type) {
	case *sqlparser.Commit:
	case *sqlparser.Rollback:
		e.Rollback = true
	default:
		return nil
	}
	ts := token.Scan(text, token.Mode{})
	for i, t := range ts[1:] {
		said := Yes
		if ts[i].Is("no") {
			said = No
		}
		if t.Is("chain") {
			e.Chain = said
		} else if t.Is("release") {
			e.Release = said
		}
	}
	return e
}

// Run executes the statement. Errors: those of a commit, after which the session is in no
// transaction, as in MySQL, and 1399 within an XA transaction.
func (e *End) Run(ctx *sql.Context) ([]sql.Row, error) {
	s := session.Of(ctx)
	if s == nil {
		return nil, nil
	}
	chain, release := s.Completion()
	chain, release = e.Chain.or(chain), e.Release.or(release)
	t := s.Txn()
	if t != nil {
		end := s.CommitTransaction
		if e.Rollback {
			end = s.Rollback
		}
		if err := end(ctx, t); err != nil {
			return nil, err
		}
	}
	s.Leave(ctx)
	s.Released = s.Released || release
	if chain {
		next, err := s.StartTransaction(ctx, sql.ReadWrite)
		if err != nil {
			return nil, err
		}
		if t != nil {
			next = t.Again()
		}
		ctx.SetTransaction(next)
		ctx.SetIgnoreAutoCommit(true)
	}
	return []sql.Row{{types.NewOkResult(0)}}, nil
}
