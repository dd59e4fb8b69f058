package prefetch

import (
	"io"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/session"
)

// The rows that a statement is going to change are read ahead, and what their changes will ask for
// is locked and read in a few steps before the first of them: readplan.go says of which rows,
// prediction.go what they lead to.

const (
	aheadRows  = 1000 // rows read ahead
	aheadBytes = 4 << 20
)

// readPlan is what a statement is going to do with the rows of one of its nodes.
type readPlan struct {
	node  sql.Node
	blind bool // rows are inserted without a look at their keys
	// predict says what becomes of a row; may be nil.
	predict     func(ctx *sql.Context, row sql.Row) []rowTask
	speculation *speculationPlan // nil: there are no triggers
}

// aheadState is what reading ahead keeps of a statement.
type aheadState struct {
	change sql.Node   // as it is executed
	after  []sql.Node // the triggers after it
	ahead  *readPlan
	outer  *outerNode // the source of an UPDATE that is about to be built
	stable bool       // the statement does not change what its subqueries read
}

func aheadOf(s *session.Session) *aheadState {
	st, ok := s.Stmt.Prefetch.(*aheadState)
	if !ok {
		st = &aheadState{}
		s.Stmt.Prefetch = st
	}
	return st
}

// readAhead builds the node of a plan of which it is known what becomes of its rows.
func (pl *Planner) readAhead(ctx *sql.Context, s *session.Session, p *readPlan, row sql.Row) (sql.RowIter, error) {
	it, err := pl.base.ExecBuilder.Build(ctx, p.node, row)
	if err != nil {
		return nil, err
	}
	return &aheadIter{RowIter: it, pl: pl, s: s, p: p}, nil
}

// aheadIter reads rows ahead and has what their changes need fetched.
type aheadIter struct {
	sql.RowIter
	pl   *Planner
	s    *session.Session
	p    *readPlan
	rows []sql.Row
	end  error
	used bool
	// Of statements with triggers:
	out   bool // a row is under way
	hops  int  // when it began
	times int  // speculated
	wait  int  // rows before the next speculative execution
}

// Next implements sql.RowIter.
func (a *aheadIter) Next(ctx *sql.Context) (sql.Row, error) {
	if len(a.rows) == 0 && a.end == nil {
		if err := a.fill(ctx); err != nil {
			return nil, err
		}
	}
	if a.p.speculation != nil {
		if err := a.speculate(ctx); err != nil {
			return nil, err
		}
	}
	if len(a.rows) == 0 {
		err := a.end
		if err != io.EOF {
			a.end = nil // INSERT IGNORE goes on after an error
		}
		return nil, err
	}
	row := a.rows[0]
	a.rows[0] = nil
	a.rows = a.rows[1:]
	return row, nil
}

// speculate executes the triggers of the next rows speculatively if the row before has cost trips,
// or if the first row is likely to.
func (a *aheadIter) speculate(ctx *sql.Context) error {
	p := a.p.speculation
	paid := a.out && a.s.Trace.Hops() > a.hops || a.pl.SpeculateAll
	if paid {
		a.pl.far.Store(p.table, true)
	} else if a.times == 0 && !a.out {
		paid = a.pl.paysFrom(a.s, p.table)
	}
	a.wait--
	if paid && a.wait <= 0 {
		if err := a.read(ctx, nil); err != nil {
			return err
		}
		if len(a.rows) > 0 && (a.out || len(a.rows) > 1 || a.pl.SpeculateAll) {
			before := a.s.Trace.Hops()
			a.use()
			if err := speculate(ctx, a.s, p, a.rows); err != nil {
				return err
			}
			if a.s.Trace.Hops() == before {
				a.pl.far.Delete(p.table)
			}
			// If it was of no use, it will not often be tried.
			a.wait = 1 << min(a.times, 16)
			a.times++
		}
	}
	a.out, a.hops = true, a.s.Trace.Hops()
	return nil
}

// paysFrom reports whether the first row of a change is likely to cost trips: those of an earlier
// statement on the table have, or the statement has paid for what it is made of. Earlier statements
// may have read at snapshots, in copies here, where this one locks (docs/protocol.md, REL-16).
func (pl *Planner) paysFrom(s *session.Session, t base.TableID) bool {
	_, far := pl.far.Load(t)
	return far || s.Trace.Hops() > 0
}

// use notes that the statement uses what is read ahead.
func (a *aheadIter) use() {
	if !a.used {
		a.used = true
		a.s.UseAhead()
	}
}

// read reads rows ahead.
func (a *aheadIter) read(ctx *sql.Context, each func(sql.Row)) error {
	for size := 0; len(a.rows) < aheadRows && size < aheadBytes && a.end == nil; {
		row, err := a.RowIter.Next(ctx)
		if err != nil {
			a.end = err // comes after the rows before it
			break
		}
		a.rows = append(a.rows, row)
		size += sizeOf(row)
		if each == nil {
			continue
		}
		if each(row); a.p.predict == nil {
			break // one is enough for now
		}
	}
	return nil
}

func (a *aheadIter) fill(ctx *sql.Context) error {
	if a.used && a.s.AloneAhead() {
		a.s.DropAhead() // of the rows before
	}
	var tasks []rowTask
	if err := a.read(ctx, func(row sql.Row) {
		if a.p.predict != nil {
			tasks = append(tasks, a.p.predict(ctx, row)...)
		}
	}); err != nil {
		return err
	}
	tx := a.s.Txn()
	if len(tasks) == 0 || tx == nil || len(tasks) == 1 && tasks[0].fk == nil {
		return nil // of one row, the editor reads everything together itself
	}
	if _, err := tx.Begin(ctx); err != nil {
		return err
	}
	a.use()
	f := prediction{tx: tx, regions: a.pl.env.DB.Topology().Regions, seen: map[string]bool{}, blind: a.p.blind}
	return f.run(ctx, tasks)
}

// sizeOf is about how much memory a row takes.
func sizeOf(row sql.Row) int {
	n := 16 * len(row)
	for _, v := range row {
		switch v := v.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		}
	}
	return n
}

// Close implements sql.Closer.
func (a *aheadIter) Close(ctx *sql.Context) error {
	if a.used {
		a.used = false
		a.s.ForgetAhead()
	}
	if a.times > 0 && len(a.s.Stmt.Reserved) > 0 {
		a.pl.env.Counters.GiveBack(a.s.Stmt.Reserved)
		a.s.Stmt.Reserved = nil
	}
	a.rows = nil
	return a.RowIter.Close(ctx)
}
