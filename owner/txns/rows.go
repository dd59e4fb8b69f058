package txns

import (
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/lock"
)

// TxnRow is one transaction at its owner, for people to look at.
type TxnRow struct {
	ID       base.TxnID
	Age      base.Timestamp
	Phase    string
	Locks    int
	Waiting  int
	Idle     time.Duration
	TS       base.Timestamp // assigned or voted, else 0
	Prepared time.Duration  // how long ago
}

// LockRow is one granted or waiting lock, for people to look at.
type LockRow struct {
	lock.Row
	Age base.Timestamp // of its transaction: the smaller, the higher its priority in conflicts
	CRT bool           // in the tier that orders transactions which cross regions ([TierOf])
}

// LockRows lists the locks, at most limit (0: all).
func (t *Table) LockRows(limit int) []LockRow {
	rows := t.LockTable.Rows(limit)
	out := make([]LockRow, len(rows))
	for i, l := range rows {
		out[i].Row = l
		out[i].Span, out[i].CRT = TierOf(l.Span)
		if x := t.ByID[l.Txn]; x != nil {
			out[i].Age = x.shownAge()
		}
	}
	return out
}

// TxnRows lists the transactions.
func (t *Table) TxnRows(now time.Time) []TxnRow {
	rows := make([]TxnRow, 0, len(t.ByID))
	for id, x := range t.ByID {
		row := TxnRow{ID: id, Age: x.shownAge(), Phase: x.shownPhase(), Locks: t.LockTable.Count(id),
			Waiting: len(x.Waits), Idle: now.Sub(x.Last), TS: x.TS}
		if x.Phase == Prepared {
			row.Prepared = now.Sub(x.Since)
		}
		rows = append(rows, row)
	}
	return rows
}

// shownAge is the age of a transaction, and for one that stands when it was prepared.
func (x *Txn) shownAge() base.Timestamp {
	if x.Stands {
		return x.ID.Start()
	}
	return x.Age
}

func (x *Txn) shownPhase() string {
	if x.Stands {
		return "prepared by XA"
	}
	return x.Phase.String()
}
