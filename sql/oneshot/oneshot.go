// Package oneshot runs transactions that a client sends as a whole as programs (kv.Program): BEGIN,
// statements and COMMIT in one packet, a CALL of a procedure that is nothing else, an UPDATE of
// rows of several regions. A program crosses regions in one step: it locks no row, and is never
// told to try again because somebody else was there before it (docs/protocol.md, REL-12).
//
// It is found out before anything is done whether a transaction qualifies. What does not
// runs statement by statement, as if this package were not there. So does a program that the owners
// refuse, because an update of it finds no row, changes nothing, or is an error: whoever runs it
// then words the answers. So a program has one kind of answers only: each UPDATE has changed the
// rows that it names, and each SELECT has the row that it names.
//
// The answers are known before the first statement of the transaction is answered. The statements
// are then answered one by one (packet.go, call.go): each is counted, audited and shown as any.
package oneshot

import (
	"context"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/fast"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/tally"
)

// Runner runs transactions as programs. There is one for each gateway.
type Runner struct {
	Fast *fast.Runner
	// Tally counts programs (Ran) and refusals by reason.
	Tally tally.Tally
}

// Ran is the entry of Tally that counts the programs.
const Ran = "program"

// Yes is what the session says of a program.
const Yes = "yes: it read and wrote at one slot, and locked nothing"

// Why transactions are no programs, besides what packages fast and kv say.
const (
	whyMany    = "it has more statements than a program may have"
	whyEnd     = "the packet does not end the transaction with COMMIT"
	whyText    = "comments, escapes or double quotes are in its text"
	whyLater   = "a transaction is open, READ ONLY, or has a level of its own"
	whyBody    = "in the procedure, between START TRANSACTION and COMMIT, is more than statements and IFs that compare ROW_COUNT()"
	whyLost    = "the owners of its rows refused it: an update or a delete finds no row, changes nothing, would fail, or met another one"
	whyThere   = "a row that it inserts, or its value of a unique index, is there already"
	whyRow     = "a row that it inserts is an error"
	whyNewly   = "a table was made or changed a moment ago"
	whyNoStore = "the store has no programs"
)

// most is how many statements a program has at most.
const most = 256

// tries is how often a program is tried before it is left to run statement by statement: an update
// that is not defined over its row is not so next time.
const tries = 3

// refuse notes why something is no program.
func (r *Runner) refuse(s *session.Session, why string) {
	s.Program = "no: " + why
	r.Tally.Add(why)
}

// whole is a transaction that qualifies.
type whole struct {
	pieces []*fast.Piece
	reads  []int // by piece: its row among the program's reads; -1: it is a change
	p      kv.Program

	ts  base.Timestamp
	res []*sqltypes.Result
	err error // that it may have committed; nil: it has
}

// add takes one more statement in; why is why not.
func (w *whole) add(ctx *sql.Context, s *session.Session, call *fast.Call) (why string) {
	x, why := call.Piece(ctx)
	if why != "" {
		return why
	}
	if len(w.pieces) >= most || len(w.p.Updates)+len(w.p.Deletes)+len(x.Keys) > most {
		return whyMany
	}
	if why := w.pin(ctx, s, x.Table); why != "" {
		return why
	}
	w.pieces = append(w.pieces, x)
	w.reads = append(w.reads, -1)
	switch x.Kind() {
	case fast.Select:
		w.reads[len(w.reads)-1] = w.read(x.Keys[0])
	case fast.Update:
		for _, k := range x.Keys {
			w.p.Updates = append(w.p.Updates, kv.ProgramUpdate{Key: k, Patch: x.Patch})
		}
	case fast.Delete:
		w.p.Deletes = append(w.p.Deletes, x.Deletes(ctx)...)
	}
	return ""
}

// rows makes the rows to insert, once it is known that nothing else keeps the transaction from
// being a program: values of counters are not taken twice.
func (w *whole) rows(ctx *sql.Context, r *Runner) (why string) {
	if _, once := w.p.Written(); !once {
		return string(kv.ProgramTwice)
	}
	counts := false
	var keys []base.Key
	for _, x := range w.pieces {
		counts, keys = counts || x.Kind() == fast.Insert && x.Counts(), append(keys, x.Keys...)
	}
	if counts && !r.far(keys) {
		return string(kv.ProgramLocal)
	}
	for _, x := range w.pieces {
		if x.Kind() != fast.Insert {
			continue
		}
		ws, err := x.Row(ctx)
		if err != nil {
			return whyRow
		}
		w.p.Writes = append(w.p.Writes, ws...)
	}
	return ""
}

// pin holds the definition of a table.
func (w *whole) pin(ctx *sql.Context, s *session.Session, t *schema.Table) (why string) {
	snap, err := s.Snapshot(ctx)
	if err != nil || t.TS == 0 {
		return whyNewly
	}
	for _, p := range w.p.Pins {
		if p.Key.Compare(t.Key) == 0 {
			return ""
		}
	}
	w.p.Pins = append(w.p.Pins, kv.ProgramPin{Key: t.Key, TS: max(t.TS, snap.At)})
	return ""
}

// read is where a row is among the program's reads.
func (w *whole) read(k base.Key) int {
	for i, o := range w.p.Reads {
		if o.Compare(k) == 0 {
			return i
		}
	}
	w.p.Reads = append(w.p.Reads, k)
	return len(w.p.Reads) - 1
}

// run runs the transaction; why is why it did not, in which case nothing was done. Else w.err is
// for the client.
func (w *whole) run(ctx *sql.Context, s *session.Session, r *Runner) (why string) {
	db := s.Programs()
	if db == nil {
		return whyNoStore
	}
	if why := w.rows(ctx, r); why != "" {
		return why
	}
	if w.err = s.State.Commits(); w.err != nil {
		return ""
	}
	kctx, wait := s.KVContext(ctx), 2*time.Millisecond
	for try := 1; ; try++ {
		got, err := db.Program(kctx, s.ProgramOptions(), w.p)
		if why, ok := kv.ProgramRefused(err); ok {
			return string(why)
		}
		switch {
		case err == nil:
			w.ts = got.TS
			w.answer(ctx, got.Rows)
			return ""
		case base.CodeOf(err) == base.CodeExists:
			return whyThere
		case !base.Retryable(err):
			w.err = schema.ClientError(err)
			return ""
		case try == tries || s.Patience().Over() || ctx.Err() != nil || base.CodeOf(err) == base.CodeSchemaChanged:
			return whyLost
		}
		if !pause(ctx, kv.Pause(err, wait, base.FromTime(time.Now()))) {
			return whyLost
		}
		wait *= 2
	}
}

// pause waits; false: the statement has ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// answer makes the results of the statements. A SELECT sees what stands before it.
func (w *whole) answer(ctx *sql.Context, rows []kv.Row) {
	w.res = make([]*sqltypes.Result, len(w.pieces))
	for i, x := range w.pieces {
		at := w.reads[i]
		if at >= 0 {
			if w.res[i], w.err = x.Answer(ctx, rows[at]); w.err != nil {
				return
			}
			continue
		}
		w.res[i] = x.Changed()
		for _, k := range x.Keys {
			for j := range rows {
				if w.p.Reads[j].Compare(k) == 0 {
					rows[j].Value = x.Made(rows[j].Value)
				}
			}
		}
	}
}

// Single runs an UPDATE of a list of rows, which is a transaction of its own, if it crosses
// regions. p is nil for text.
func (r *Runner) Single(ctx context.Context, s *session.Session, c *mysql.Conn, query string, p *mysql.PrepareData, sent *bool,
	send func(*sqltypes.Result) error) (done bool, err error) {
	if !s.Crosses() || s.Remote || len(query) < 12 || query[0]|0x20 != 'u' {
		return false, nil
	}
	call := r.Fast.Whole(s, c, query, p)
	if call == nil || !call.Many() {
		return false, nil
	}
	sctx, err := call.Context(ctx)
	if err != nil || s.Explicit(sctx) {
		return false, nil
	}
	_ = s.CommandBegin()
	t := s.Txn()
	if t == nil {
		t = session.NewTxnOver(s, nil)
	}
	if !t.Fresh() {
		return false, nil
	}
	w := &whole{}
	why := w.add(sctx, s, call)
	if why == "" {
		why = w.run(sctx, s, r)
	}
	if why != "" {
		r.refuse(s, why)
		return false, nil
	}
	s.SetTransaction(nil)
	s.Program = Yes
	*sent = true
	r.Tally.Add(Ran)
	if w.err != nil {
		return true, w.err
	}
	t.Programmed(w.ts)
	return true, w.pieces[0].Tell(sctx, w.res[0], send)
}
