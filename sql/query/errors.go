package query

import (
	"context"
	"errors"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/program"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// codedError is an error of a change: for a client it has MySQL's number and words, for the engine
// it is one of its kinds.
type codedError struct {
	kind error
	me   *mysql.SQLError
}

// Error implements error.
func (e *codedError) Error() string { return e.me.Message }

// Unwrap is the error as the client is told.
func (e *codedError) Unwrap() error { return e.me }

// states are the SQLSTATEs of MySQL's numbers.
var states = map[int]string{
	errNull: "23000", errOutOfRange: "22003", errTruncated: "01000", errIncorrect: "22007", errNoDefault: "HY000",
	errNotOfType: "HY000", errTooLong: "22001", errCheck: "HY000", errDivision: "22012",
	1260: "HY000", 1411: "HY000", 1441: "22008", 3020: "2201E",
}

func coded(code int, kind error, format string, args ...any) error {
	return &codedError{kind, mysql.NewSQLError(code, states[code], format, args...)}
}

// clientError is an error as a client is told.
func clientError(err error) error {
	var ce *codedError
	if errors.As(err, &ce) {
		return ce.me
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
	if errors.As(err, &ce) && ce.kind != nil {
		return ce.kind
	}
	return err
}

// worded is an error as a client would be told it by the handler.
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
