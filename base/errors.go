package base

import (
	"errors"
	"fmt"
)

// Code is the kind of an error. There are few kinds, and they survive the network. Callers test
// them with [CodeOf] or [Retryable].
type Code uint8

const (
	// CodeOther is any error without a kind of its own; not retryable.
	CodeOther Code = iota
	// CodeAborted: the transaction lost a conflict (WAIT_DIE, NO_WAIT, lost
	// locks, failed validation). Retry the transaction. MySQL 1213.
	CodeAborted
	// CodeLockTimeout: a lock was not granted in time. Retry. MySQL 1205.
	CodeLockTimeout
	// CodeExists: an Insert found its key present. Not retryable. MySQL 1062.
	CodeExists
	// CodeOverloaded: a bounded queue was full; nothing was done. Retry later.
	CodeOverloaded
	// CodeUnavailable: no owner could be reached in time; nothing was done. Retry later.
	CodeUnavailable
	// CodeAmbiguous: a commit was sent and its outcome could not be learnt.
	CodeAmbiguous
	// CodeSchemaChanged: a descriptor the transaction used has changed. Retry.
	CodeSchemaChanged
	// CodeNotLeader: internal; ask the hinted node.
	CodeNotLeader
	// CodeWrongOwner: internal; another group owns the key.
	CodeWrongOwner
	// CodeTooLate: internal; the commit timestamp interval is empty; refresh and try again.
	CodeTooLate
	// CodeInvalid: a malformed request or message.
	CodeInvalid
	// CodeCorrupt: stored bytes failed a check.
	CodeCorrupt
	// CodeTooOld: a read timestamp lies below the garbage-collection threshold.
	CodeTooOld
	// CodeCanceled: the client or its deadline ended the request.
	CodeCanceled
	// CodeLocked: another transaction holds a lock, and the read does not wait for locks. The
	// transaction goes on. MySQL 3572.
	CodeLocked
)

var codeNames = [...]string{"error", "aborted", "lock timeout", "exists", "overloaded", "unavailable", "ambiguous",
	"schema changed", "not leader", "wrong owner", "too late", "invalid", "corrupt", "too old", "canceled", "locked"}

// String is the name of the code, as [Error.Error] puts it before the message.
func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("code %d", c)
}

// Error is an error with a kind. Node is the hinted leader for CodeNotLeader; Key is the key for
// CodeExists, and the one that others have changed for CodeAborted, if it is known ([Changed]).
type Error struct {
	Code Code
	Msg  string
	Node NodeID
	Key  Key
	// After is when the cause of an abort will be over, if that is known: a retry before then would
	// fail again.
	After Timestamp
}

// Error is the name of the code and the message.
func (e *Error) Error() string { return e.Code.String() + ": " + e.Msg }

// Errorf makes an error of a kind. The message says what happened and, where
// the user can do something, what.
func Errorf(c Code, format string, args ...any) *Error {
	return &Error{Code: c, Msg: fmt.Sprintf(format, args...)}
}

// Changed is the error of a transaction that has relied on a row which others have changed since;
// how says what it did with it ("read", "updates").
func Changed(txn any, how string, key Key) *Error {
	return &Error{Code: CodeAborted, Key: key,
		Msg: fmt.Sprintf("transaction %v %s %v, which has been changed since: retry", txn, how, key)}
}

// KeyOf is the key that err or an error it wraps names; nil if there is none.
func KeyOf(err error) Key {
	var e *Error
	if errors.As(err, &e) {
		return e.Key
	}
	return nil
}

// CodeOf is the kind of err or of an error it wraps; CodeOther if it has none.
func CodeOf(err error) Code {
	if err == nil {
		return CodeOther
	}
	if e, ok := err.(*Error); ok { // the usual case, without an allocation
		return e.Code
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeOther
}

// Retryable reports whether running the whole transaction again may succeed
// and the failed attempt certainly had no effect.
func Retryable(err error) bool {
	switch CodeOf(err) {
	case CodeAborted, CodeLockTimeout, CodeOverloaded, CodeUnavailable, CodeSchemaChanged:
		return true
	}
	return false
}
