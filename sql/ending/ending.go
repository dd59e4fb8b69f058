// Package ending ends transactions as COMMIT and ROLLBACK say with AND CHAIN and RELEASE, which the
// parser of go-mysql-server takes and drops.
package ending

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/token"
)

// End is a COMMIT or ROLLBACK that does more than to end the transaction.
type End struct {
	Rollback bool
	// Chain: another transaction begins at once, with the isolation level and the access mode of
	// the one that ends. Release: the connection ends with the answer.
	Chain, Release bool
}

// Of reads what a statement says, whose text is given; nil if it is another one, or a plain COMMIT
// or ROLLBACK.
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
		said := !ts[i].Is("no")
		e.Chain = e.Chain || said && t.Is("chain")
		e.Release = e.Release || said && t.Is("release")
	}
	if !e.Chain && !e.Release {
		return nil
	}
	return e
}

// Run executes the statement. Errors: those of a commit, after which the session is in no
// transaction, as in MySQL.
func (e *End) Run(ctx *sql.Context) ([]sql.Row, error) {
	s := session.Of(ctx)
	if s == nil {
		return nil, nil
	}
	t := s.Txn()
	if t != nil && e.Rollback {
		t.Rollback()
	} else if t != nil {
		if err := s.CommitTransaction(ctx, t); err != nil {
			return nil, err
		}
	}
	s.Leave(ctx)
	s.Released = s.Released || e.Release
	if e.Chain {
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
