package assign

import "github.com/dolthub/vitess/go/mysql"

// Error is an error of a change: for a client it has MySQL's number and words, for the engine
// it is one of its kinds.
type Error struct {
	Kind error
	Me   *mysql.SQLError
}

// Error implements error.
func (e *Error) Error() string { return e.Me.Message }

// Unwrap is the error that the client gets.
func (e *Error) Unwrap() error { return e.Me }

// States are the SQLSTATEs of MySQL's numbers.
var States = map[int]string{
	ErrNull: "23000", ErrOutOfRange: "22003", ErrTruncated: "01000", ErrIncorrect: "22007", ErrNoDefault: "HY000",
	ErrNotOfType: "HY000", ErrTooLong: "22001", ErrCheck: "HY000", ErrDivision: "22012",
	1260: "HY000", 1411: "HY000", 1441: "22008", 3020: "2201E",
}

// Coded is the Error of one of MySQL's numbers.
func Coded(code int, kind error, format string, args ...any) error {
	return &Error{kind, mysql.NewSQLError(code, States[code], format, args...)}
}
