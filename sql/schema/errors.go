package schema

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/base"
)

// MySQL error numbers that have no name in the protocol library.
const (
	ErrDupEntry        = 1062
	ErrUnknown         = 1105
	ErrLockWaitTimeout = 1205
	ErrLockDeadlock    = 1213
)

// ClientError turns an error of the layers below into what a MySQL client
// expects; others pass unchanged.
func ClientError(err error) error {
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
		return mysql.NewSQLError(ErrLockDeadlock, "40001", "Transaction aborted: %s; try restarting transaction", be.Msg)
	case base.CodeSchemaChanged:
		return mysql.NewSQLError(ErrLockDeadlock, "40001",
			"Transaction aborted because of a schema change: %s; try restarting transaction", be.Msg)
	case base.CodeOverloaded:
		return mysql.NewSQLError(ErrLockDeadlock, "40001",
			"Server overloaded: %s; nothing was done, try restarting transaction", be.Msg)
	case base.CodeUnavailable:
		return mysql.NewSQLError(ErrLockDeadlock, "40001",
			"Data temporarily unavailable: %s; nothing was done, try restarting transaction", be.Msg)
	case base.CodeLockTimeout:
		return mysql.NewSQLError(ErrLockWaitTimeout, "HY000",
			"Lock wait timeout exceeded: %s; the transaction was rolled back, try restarting transaction", be.Msg)
	case base.CodeLocked:
		return mysql.NewSQLError(3572, "HY000",
			"Statement aborted because lock(s) could not be acquired immediately and NOWAIT is set.")
	case base.CodeAmbiguous:
		return mysql.NewSQLError(ErrUnknown, "HY000",
			"The outcome of the commit is unknown: %s. Check the data before you repeat the transaction", be.Msg)
	case base.CodeTooOld:
		return mysql.NewSQLError(ErrUnknown, "HY000",
			"The time asked for is no longer kept: %s. Ask for a later AS OF time or raise the "+
				"garbage-collection age", be.Msg)
	case base.CodeCanceled:
		return mysql.NewSQLError(1317, "70100", "Query execution was interrupted: %s", be.Msg)
	case base.CodeExists:
		return mysql.NewSQLError(ErrDupEntry, "23000", "Duplicate entry: %s", be.Msg)
	case base.CodeInvalid:
		return mysql.NewSQLError(ErrUnknown, "HY000", "%s", be.Msg)
	}
	return mysql.NewSQLError(ErrUnknown, "HY000", "%s", be.Error())
}

// EndsTxn reports whether the transaction is over after an error from kv. A statement that was
// killed is taken back alone, as in MySQL.
func EndsTxn(err error) bool {
	switch base.CodeOf(err) {
	case base.CodeAborted, base.CodeLockTimeout, base.CodeUnavailable, base.CodeSchemaChanged, base.CodeOverloaded,
		base.CodeAmbiguous:
		return true
	}
	return false
}

// DuplicateKey is the error of a duplicate key as the engine wants it: with the existing row, which
// REPLACE and ON DUPLICATE KEY UPDATE need. text is MySQL's wording of it for the client. A nil x
// is the primary key.
func DuplicateKey(t *Table, x *Index, row, existing sql.Row) (text string, err error) {
	pos := t.PK
	name := "PRIMARY"
	if x != nil {
		pos, name = nil, x.Desc.Name
		for _, c := range x.Cols {
			pos = append(pos, c.Pos)
		}
	}
	values, entry := "", ""
	for i, p := range pos {
		if i > 0 {
			entry += "-"
		}
		values += fmt.Sprint(row[p])
		entry += entryText(t.Cols[p], row[p])
	}
	text = fmt.Sprintf("Duplicate entry '%s' for key '%s.%s'", entry, t.Desc.Name, name)
	return text, sql.NewUniqueKeyErr("["+values+"]", x == nil, existing)
}

func entryText(c *Column, v any) string {
	switch b := v.(type) {
	case []byte:
		return string(b)
	case time.Time:
		if c.Type.Type() == sqltypes.Date {
			return b.Format(time.DateOnly)
		}
		layout := time.DateTime
		if d, ok := c.Type.(sql.DatetimeType); ok && d.Precision() > 0 {
			layout += "." + strings.Repeat("0", d.Precision())
		}
		return b.Format(layout)
	case nil:
		return "NULL"
	}
	return fmt.Sprint(v)
}

// Invalid is the error of a statement that asks for what cannot be done.
func Invalid(msg string) error { return ClientError(base.Errorf(base.CodeInvalid, "%s", msg)) }
