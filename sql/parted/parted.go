// Package parted commits a LOAD DATA in parts whose file is too large for one transaction.
//
// The first part is as large as a transaction may be: a file that fits one is one. Those behind it
// are a 256th of that, so that their locks are held, and readers wait for their rows, for a shorter
// time; see docs/figures/load-in-parts.md. Each part is a transaction of its own. What has come of
// the file since the last part is kept (infile.File), so a part that loses a conflict is tried
// again by itself, and the first one too.
//
// A LOAD DATA in a transaction of the client's, and one that may not be committed in parts
// (session.PartsVar), fails where its first part would be committed.
package parted

import (
	"fmt"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/given"
	"github.com/godwitdb/godwit/sql/infile"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// share is what part of a transaction's bounds the parts behind the first one have.
const share = 256

// Load is a LOAD DATA that may be committed in parts. A nil Load is another statement.
type Load struct {
	s        *session.Session
	file     *infile.File
	explicit bool // it stands in a transaction of the client's
	off      bool // it may not be committed in parts
	count    int  // parts that are committed
	rows     int  // records in them
	place    infile.Place

	rowsWait int // how many rows may wait to be written; 0: as many as usual
	// warnings are those of the parts that are committed, and of before.
	warnings []*sql.Warning
	// since is when the part under way has lost a conflict for the first time.
	since time.Time
	tries int
}

// New begins one. explicit: it stands in a transaction of the client's. The error is that of the
// transaction.
func New(ctx *sql.Context, s *session.Session, file *infile.File, explicit bool) (*Load, error) {
	l := &Load{s: s, file: file, explicit: explicit, off: given.IntVar(ctx, session.PartsVar) == 0, warnings: s.Warnings()}
	file.Keep = !explicit
	if _, err := s.Txn().Begin(ctx); err != nil {
		return nil, err
	}
	_, most, ok, err := s.Txn().Written(ctx)
	if !ok || err != nil {
		return l, err
	}
	l.rowsWait = max(1, most.Writes/share)
	file.Batch = max(1, min(file.Batch, l.rowsWait/batches))
	return l, nil
}

// batches is how many batches of the file make rowsWait.
const batches = 8

// MayWait is how many rows may wait to be written, of the number that may usually.
func (l *Load) MayWait(usually int) int {
	if l == nil || l.rowsWait == 0 {
		return usually
	}
	return min(usually, l.rowsWait)
}

// Begun is called when the transaction of a part has begun.
func (l *Load) Begun() {
	if l != nil {
		l.s.Txn().Stretch(true)
	}
}

// Full reports whether the part is to be committed now. The error is that of a statement that must
// not do so.
func (l *Load) Full(ctx *sql.Context) (bool, error) {
	if l == nil {
		return false, nil
	}
	now, most, ok, err := l.s.Txn().Written(ctx)
	if !ok || err != nil {
		return false, err
	}
	bound := most
	if l.count > 0 {
		bound = kv.Volume{Bytes: most.Bytes / share, Writes: most.Writes / share}
	}
	if !now.Over(bound) {
		return false, nil
	}
	if l.explicit || l.off {
		return false, l.refusal(most)
	}
	return true, nil
}

// refusal is the error of a file that is too large for one transaction.
func (l *Load) refusal(most kv.Volume) error {
	out := "load it outside of a transaction with autocommit = 1, which commits it in parts"
	if !l.explicit {
		out = "SET " + session.PartsVar + " = ON, which has it committed in parts"
	}
	return mysql.NewSQLError(schema.ErrUnknown, "HY000", "the file makes more than %d MiB or %d rows and entries of indexes, "+
		"which is the most that one transaction writes: %s, or split the file", most.Bytes>>20, most.Writes, out)
}

// Commit commits a part, which ends with the batch at hand, and begins another transaction. rows
// are the records so far.
func (l *Load) Commit(ctx *sql.Context, rows int) error {
	if err := l.s.Txn().Commit(ctx); err != nil {
		return err
	}
	l.s.PartCommitted()
	l.count, l.rows, l.place = l.count+1, rows, l.file.Place()
	l.since, l.tries, l.warnings = time.Time{}, 0, l.s.Warnings()
	l.file.Kept()
	return nil
}

// Pauses between two attempts of a part.
const (
	firstPause = 2 * time.Millisecond
	mostPause  = 250 * time.Millisecond
)

// Again reports whether what the statement has done since the last part is to be done again: it
// has lost that to a conflict, and a new transaction has begun. Warnings and user variables are
// those of before.
func (l *Load) Again(ctx *sql.Context) bool {
	if l == nil || l.explicit || !l.s.Lost() || ctx.Err() != nil || l.s.Patience().Over() {
		return false
	}
	if l.s.LostFor() == base.CodeSchemaChanged {
		return false // it would be lost again: the statement knows the table as it was
	}
	if l.since.IsZero() {
		l.since = time.Now()
	}
	if time.Since(l.since) >= l.s.TriesFor() {
		return false
	}
	if l.count == 0 {
		l.s.State.Again()
	}
	pause := min(firstPause<<min(l.tries, 10), mostPause)
	l.tries++
	l.s.SetTransaction(nil)
	if l.s.State.Wait(ctx, pause) != nil {
		return false
	}
	l.s.PartAgain()
	ctx.ClearWarnings()
	for _, w := range l.warnings {
		l.s.Warn(w)
	}
	return true
}

// Note tells the client that the file is committed in several transactions, if it is. rows are all
// records.
func (l *Load) Note(rows int) {
	if l == nil || l.count == 0 {
		return
	}
	n := l.count
	if rows > l.rows {
		n++
	} else if n == 1 {
		return
	}
	// also where there are too many warnings to keep another one
	l.s.BaseSession.Warn(&sql.Warning{Level: "Note", Code: schema.ErrUnknown,
		Message: fmt.Sprintf("the file was committed in %d transactions: it is too large for one", n)})
}

// Told is the error of the statement as its client is told it, with what is committed, and how to
// load the rest. me is the error in words, nil: there is none.
func (l *Load) Told(err error, worded func(error) *mysql.SQLError) error {
	if l == nil || err == nil || l.count == 0 {
		return err
	}
	me := worded(err)
	number, state := me.Num, me.State
	if state == "40001" || number == schema.ErrLockWaitTimeout {
		// Who tries the statement again would load the first lines twice.
		number, state = schema.ErrUnknown, "HY000"
	}
	l.s.Stmt.Duplicate = "" // the message has it
	return mysql.NewSQLError(number, state, "%s; %s", me.Message, l.in())
}

// in says what is committed, and how to load the rest.
func (l *Load) in() string {
	what := fmt.Sprintf("%d records, in %d transactions, are committed", l.rows, l.count)
	rest := fmt.Sprintf("they are the first %d bytes of the file: load what is behind them (tail -c +%d)", l.place.Bytes, l.place.Bytes+1)
	if name := l.file.Set.Name(); name != "" {
		rest = fmt.Sprintf("they are the first %d bytes of the file in UTF-8: convert it from %s (iconv), and load what is behind them "+
			"(tail -c +%d) with CHARACTER SET utf8mb4", l.place.Bytes, name, l.place.Bytes+1)
	}
	if l.place.Lines >= 0 {
		rest = fmt.Sprintf("load the rest with IGNORE %d LINES", l.place.Lines)
	}
	return what + ": " + rest
}
