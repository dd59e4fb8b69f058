package sqlfront

import (
	"context"
	"errors"
	"fmt"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/base"
)

// MySQL error numbers that have no name in the protocol library.
const (
	erDupEntry        = 1062
	erUnknown         = 1105
	erLockWaitTimeout = 1205
	erLockDeadlock    = 1213
)

// clientError turns an error of the layers below into what a MySQL client
// expects; others pass unchanged.
func clientError(err error) error {
	if err == nil {
		return nil
	}
	var be *base.Error
	if !errors.As(err, &be) {
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			return mysql.NewSQLError(1317, "70100", "Query execution was interrupted")
		}
		return err
	}
	switch be.Code {
	case base.CodeAborted:
		return mysql.NewSQLError(erLockDeadlock, "40001", "Transaction aborted: %s; try restarting transaction", be.Msg)
	case base.CodeSchemaChanged:
		return mysql.NewSQLError(erLockDeadlock, "40001", "Transaction aborted because of a schema change: %s; try restarting transaction", be.Msg)
	case base.CodeOverloaded:
		return mysql.NewSQLError(erLockDeadlock, "40001", "Server overloaded: %s; nothing was done, try restarting transaction", be.Msg)
	case base.CodeUnavailable:
		return mysql.NewSQLError(erLockDeadlock, "40001", "Data temporarily unavailable: %s; nothing was done, try restarting transaction", be.Msg)
	case base.CodeLockTimeout:
		return mysql.NewSQLError(erLockWaitTimeout, "HY000", "Lock wait timeout exceeded: %s; the transaction was rolled back, try restarting transaction", be.Msg)
	case base.CodeAmbiguous:
		return mysql.NewSQLError(erUnknown, "HY000", "The outcome of the commit is unknown: %s. Check the data before you repeat the transaction", be.Msg)
	case base.CodeTooOld:
		return mysql.NewSQLError(erUnknown, "HY000", "The time asked for is no longer kept: %s. Ask for a later AS OF time or raise the garbage-collection age", be.Msg)
	case base.CodeCanceled:
		return mysql.NewSQLError(1317, "70100", "Query execution was interrupted: %s", be.Msg)
	case base.CodeExists:
		return mysql.NewSQLError(erDupEntry, "23000", "Duplicate entry: %s", be.Msg)
	case base.CodeInvalid:
		return mysql.NewSQLError(erUnknown, "HY000", "%s", be.Msg)
	}
	return mysql.NewSQLError(erUnknown, "HY000", "%s", be.Error())
}

// endsTxn reports whether the transaction is over after an error from kv.
func endsTxn(err error) bool {
	switch base.CodeOf(err) {
	case base.CodeAborted, base.CodeLockTimeout, base.CodeUnavailable, base.CodeSchemaChanged, base.CodeOverloaded,
		base.CodeAmbiguous, base.CodeCanceled:
		return true
	}
	return false
}

// dupError reports a duplicate key to the engine, which needs the existing
// row for REPLACE and ON DUPLICATE KEY; the session keeps MySQL's wording for the client.
func dupError(s *Session, t *table, x *index, row, existing sql.Row) error {
	pos := t.pk
	name := "PRIMARY"
	if x != nil {
		pos, name = nil, x.desc.Name
		for _, c := range x.cols {
			pos = append(pos, c.pos)
		}
	}
	text, entry := "", ""
	for i, p := range pos {
		if i > 0 {
			entry += "-"
		}
		text += fmt.Sprint(row[p])
		entry += entryText(row[p])
	}
	if s != nil {
		s.dup = fmt.Sprintf("Duplicate entry '%s' for key '%s.%s'", entry, t.desc.Name, name)
	}
	return sql.NewUniqueKeyErr("["+text+"]", x == nil, existing)
}

func entryText(v any) string {
	switch b := v.(type) {
	case []byte:
		return string(b)
	case nil:
		return "NULL"
	}
	return fmt.Sprint(v)
}
