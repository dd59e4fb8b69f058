package perfschema

import (
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
)

// Locks are those of the groups that this node leads, as SHOW GODWIT LOCKS shows them.
var lockTables = []live{
	{name: "data_locks", columns: "ENGINE varchar(32)!, ENGINE_LOCK_ID varchar(128)!, ENGINE_TRANSACTION_ID u64, THREAD_ID u64, EVENT_ID u64, " +
		"OBJECT_SCHEMA varchar(64), OBJECT_NAME varchar(64), PARTITION_NAME varchar(64), SUBPARTITION_NAME varchar(64), INDEX_NAME varchar(64), " +
		"OBJECT_INSTANCE_BEGIN u64!, LOCK_TYPE varchar(32)!, LOCK_MODE varchar(32)!, LOCK_STATUS varchar(32)!, LOCK_DATA varchar(8192)",
		rows: func(e *Env, ctx *sql.Context) (out []sql.Row, err error) {
			for _, l := range e.locks(ctx) {
				status := "WAITING"
				if l.granted {
					status = "GRANTED"
				}
				db, table, _ := strings.Cut(l.table, ".")
				out = append(out, sql.Row{"INNODB", l.id(l.txn), number(l.txn), nil, nil, orNull(db), orNull(table), nil, nil, nil, uint64(0), "RECORD",
					l.mode, status, orNull(l.span)})
			}
			return out, nil
		}},
	{name: "data_lock_waits", columns: "ENGINE varchar(32)!, REQUESTING_ENGINE_LOCK_ID varchar(128)!, REQUESTING_ENGINE_TRANSACTION_ID u64, " +
		"REQUESTING_THREAD_ID u64, REQUESTING_EVENT_ID u64, REQUESTING_OBJECT_INSTANCE_BEGIN u64!, BLOCKING_ENGINE_LOCK_ID varchar(128)!, " +
		"BLOCKING_ENGINE_TRANSACTION_ID u64, BLOCKING_THREAD_ID u64, BLOCKING_EVENT_ID u64, BLOCKING_OBJECT_INSTANCE_BEGIN u64!",
		rows: func(e *Env, ctx *sql.Context) (out []sql.Row, err error) {
			all := e.locks(ctx)
			for _, w := range all {
				for _, txn := range w.waitsFor {
					for _, h := range all {
						if h.txn == txn && h.granted && h.group == w.group {
							out = append(out, sql.Row{"INNODB", w.id(w.txn), number(w.txn), nil, nil, uint64(0), h.id(txn), number(txn), nil, nil, uint64(0)})
							break
						}
					}
				}
			}
			return out, nil
		}},
}

// lock is one that a transaction has, or waits for.
type lock struct {
	group, span, mode, txn string
	table                  string
	granted                bool
	waitsFor               []string // transactions
}

// id names the lock of a transaction.
func (l *lock) id(txn string) string {
	name := txn + ":" + l.group + ":" + l.span
	return name[:min(len(name), 128)]
}

// number is the number in the name of a transaction: the time at which it began.
func number(txn string) any {
	hex, _, _ := strings.Cut(txn, ".")
	n, err := strconv.ParseUint(hex, 16, 64)
	if err != nil {
		return nil
	}
	return n
}

// Columns of SHOW GODWIT LOCKS.
const lockGroup, lockSpan, lockMode, lockTxn, lockGranted, lockTable, lockWaits, lockColumns = 0, 1, 2, 3, 5, 7, 8, 9

func (e *Env) locks(ctx *sql.Context) (out []lock) {
	if e.Cluster == nil {
		return nil
	}
	for _, r := range e.Cluster.Status(ctx, "locks") {
		if len(r) != lockColumns {
			continue
		}
		l := lock{}
		for at, to := range map[int]*string{lockGroup: &l.group, lockSpan: &l.span, lockMode: &l.mode, lockTxn: &l.txn, lockTable: &l.table} {
			*to, _ = r[at].(string)
		}
		l.granted, _ = r[lockGranted].(bool)
		if waits, _ := r[lockWaits].(string); waits != "" {
			l.waitsFor = strings.Split(waits, ", ")
		}
		switch {
		case strings.HasPrefix(l.mode, "X") || strings.HasPrefix(l.mode, "exclusive"):
			l.mode = "X"
		case strings.HasPrefix(l.mode, "S") || strings.HasPrefix(l.mode, "shared"):
			l.mode = "S"
		}
		out = append(out, l)
	}
	return out
}
