package query

import (
	"context"
	"errors"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/assign"
	"github.com/godwitdb/godwit/sql/program"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// What package assign says of values.
type (
	setter     = assign.Setter
	late       = assign.Late
	codedError = assign.Error
)

const (
	errNull       = assign.ErrNull
	errOutOfRange = assign.ErrOutOfRange
	errTruncated  = assign.ErrTruncated
	errIncorrect  = assign.ErrIncorrect
	errNoDefault  = assign.ErrNoDefault
	errNotOfType  = assign.ErrNotOfType
	errCheck      = assign.ErrCheck
	errViewCheck  = assign.ErrViewCheck
	errDivision   = assign.ErrDivision
)

// clientError is the error that a client gets.
func clientError(err error) error {
	var ce *codedError
	if errors.As(err, &ce) {
		return ce.Me
	}
	var pc *program.Condition
	if errors.As(err, &pc) {
		return pc.Unwrap()
	}
	return sql.CastSQLError(interrupted(err))
}

// interrupted gives the end of a statement's context the number that it has in MySQL.
func interrupted(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return schema.ClientError(err)
	}
	return err
}

// engineError is an error as the engine has it.
func engineError(err error) error {
	var ce *codedError
	if errors.As(err, &ce) && ce.Kind != nil {
		return ce.Kind
	}
	return err
}

// worded is an error in the words in which the handler would tell it to a client.
func worded(s *session.Session, err error) *mysql.SQLError {
	me, _ := clientError(err).(*mysql.SQLError)
	if me == nil {
		me = mysql.NewSQLError(schema.ErrUnknown, "HY000", "%v", err)
	}
	if me.Num == schema.ErrDupEntry && s.Stmt.Duplicate != "" {
		return mysql.NewSQLError(me.Num, "23000", "%s", s.Stmt.Duplicate)
	}
	return schema.Numbered(me)
}
