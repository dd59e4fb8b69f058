package bind

import (
	"context"
	"errors"
	"fmt"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
)

// Unsupported says why go-mysql-server has to run a statement. Reasons are few and stable: they are
// counted.
type Unsupported struct{ Reason string }

// Error implements error.
func (u *Unsupported) Error() string { return "not supported by the binder: " + u.Reason }

// Reason is why a statement is left to go-mysql-server; ok is false for other errors.
func Reason(err error) (reason string, ok bool) {
	var u *Unsupported
	if errors.As(err, &u) {
		return u.Reason, true
	}
	return "", false
}

func unsupported(format string, args ...any) error {
	return &Unsupported{fmt.Sprintf(format, args...)}
}

func fail(code int, state, format string, args ...any) error {
	return mysql.NewSQLError(code, state, format, args...)
}

// Refusal is the error of a statement that is wrong in a way that go-mysql-server does not see.
type Refusal struct {
	Err error
	// Kind is the error as a kind of go-mysql-server; nil: it has none.
	Kind error
}

// Error implements error.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap is the error that the client is told.
func (r *Refusal) Unwrap() error { return r.Err }

func refuse(code int, state, format string, args ...any) error {
	return &Refusal{Err: fail(code, state, format, args...)}
}

func unknownColumn(name, clause string) error {
	return fail(1054, "42S22", "Unknown column '%s' in '%s'", name, clause)
}

// ambiguous is error 1052, which go-mysql-server does not see everywhere.
func ambiguous(name, clause string) *Refusal {
	return &Refusal{fail(1052, "23000", "Column '%s' in %s is ambiguous", name, clause),
		sql.ErrAmbiguousColumnName.New(name, clause)}
}

// Interrupted is the error of a statement whose context ends while it is bound or planned; nil if
// it has not ended.
func Interrupted(ctx context.Context) error {
	if ctx == nil {
		return nil
	}
	err := ctx.Err()
	if err == nil {
		return nil
	}
	var me *mysql.SQLError
	if errors.As(err, &me) {
		return &Refusal{Err: me}
	}
	return refuse(1317, "70100", "Query execution was interrupted")
}
