package follow

import (
	"context"
	"errors"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/dolthub/vitess/go/mysql"
)

// Numbers of MySQL's errors that are looked at.
const (
	errDeadlock  = 1213
	errLockWait  = 1205
	errNoSuchVar = 1193
	errShutdown  = 1053
	errFull      = 1040
	errUnknown   = 1105
)

// Refused is an answer of the source that will not change.
type Refused struct{ error }

func (e Refused) Unwrap() error { return e.error }

// Unknown is an event that cannot be followed, or another failure that trying again does not help.
type Unknown struct{ error }

func (e Unknown) Unwrap() error { return e.error }

// Lost is a failure of the connection to the source. It is no error of the target, so it has no
// number there: Why has what the source said.
type Lost struct{ Why error }

func (e Lost) Error() string { return e.Why.Error() }

// NumberOf is the number of a server's error, 0 of others.
func NumberOf(err error) uint16 {
	var e *driver.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	var x *mysql.SQLError
	if errors.As(err, &x) {
		return uint16(x.Num)
	}
	return 0
}

// Passing reports whether an error of a server may go away by itself: deadlocks, waits, a server
// that ends or is full, and a COMMIT of which Godwit does not know whether it happened.
func Passing(err error) bool {
	switch NumberOf(err) {
	case errDeadlock, errLockWait, errShutdown, errFull:
		return true
	}
	return OutcomeOpen(err)
}

// OutcomeOpen reports whether a statement may have been committed.
func OutcomeOpen(err error) bool {
	text := ""
	var e *driver.MySQLError
	var x *mysql.SQLError
	switch {
	case errors.As(err, &e):
		text = e.Message
	case errors.As(err, &x):
		text = x.Message
	}
	return NumberOf(err) == errUnknown && strings.HasPrefix(text, "The outcome of the commit is unknown")
}

// Pause waits, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
