package sqlfront

import (
	"io"

	"github.com/dolthub/go-mysql-server/sql"
)

// The engine checks foreign keys and looks for duplicates row by row, which would be trips for
// each. So the rows that a statement is going to change are read ahead, and what their
// changes will ask for is locked and read in a few steps before the first of them
// (aheadplan.go says who reads ahead, forecast.go what). It is a forecast only: the engine does its work as ever, finds most answers at
// hand ([kv.Txn.Ahead]), own writes on top of them, and asks the owners for the others.

const (
	aheadRows  = 1000 // rows read ahead
	aheadBytes = 4 << 20
)

// aheadPlan is what a statement is going to do with the rows of one of its nodes.
type aheadPlan struct {
	node  sql.Node
	blind bool // rows are inserted without a look at their keys
	// forecast says what becomes of a row; may be nil.
	forecast  func(ctx *sql.Context, row sql.Row) []aheadTask
	rehearsal *rehearsalPlan // nil: there are no triggers
}

// readAhead builds the node of a plan of which it is known what becomes of its rows.
func (b *builder) readAhead(ctx *sql.Context, s *Session, p *aheadPlan, row sql.Row) (sql.RowIter, error) {
	it, err := b.base.ExecBuilder.Build(ctx, p.node, row)
	if err != nil {
		return nil, err
	}
	return &aheadIter{RowIter: it, s: s, p: p}, nil
}

// aheadIter reads rows ahead and has what their changes need fetched.
type aheadIter struct {
	sql.RowIter
	s    *Session
	p    *aheadPlan
	rows []sql.Row
	end  error
	used bool
	// Of statements with triggers:
	out   bool // a row is under way
	hops  int  // when it began
	times int  // rehearsed
	wait  int  // rows before the next rehearsal
}

// Next implements sql.RowIter.
func (a *aheadIter) Next(ctx *sql.Context) (sql.Row, error) {
	if len(a.rows) == 0 && a.end == nil {
		if err := a.fill(ctx); err != nil {
			return nil, err
		}
	}
	if a.p.rehearsal != nil {
		if err := a.rehearse(ctx); err != nil {
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

// rehearse looks what the triggers will read if the row before has cost trips, or those of the statement before have.
func (a *aheadIter) rehearse(ctx *sql.Context) error {
	p := a.p.rehearsal
	paid := a.out && a.s.trace.Hops() > a.hops || a.s.g.rehearseAll
	if paid {
		a.s.g.far.Store(p.table, true)
	} else if a.times == 0 && !a.out {
		_, paid = a.s.g.far.Load(p.table)
	}
	a.wait--
	if paid && a.wait <= 0 {
		if err := a.read(ctx, nil); err != nil {
			return err
		}
		if len(a.rows) > 0 && (a.out || len(a.rows) > 1 || a.s.g.rehearseAll) {
			before := a.s.trace.Hops()
			a.use()
			if err := a.s.rehearse(ctx, p, a.rows); err != nil {
				return err
			}
			if a.s.trace.Hops() == before {
				a.s.g.far.Delete(p.table)
			}
			// If it was of no use, it will not often be tried.
			a.wait = 1 << min(a.times, 16)
			a.times++
		}
	}
	a.out, a.hops = true, a.s.trace.Hops()
	return nil
}

// use notes that the statement uses what is read ahead.
func (a *aheadIter) use() {
	if !a.used {
		a.used = true
		a.s.keeps++
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
		if each(row); a.p.forecast == nil {
			break // one is enough for now
		}
	}
	return nil
}

func (a *aheadIter) fill(ctx *sql.Context) error {
	if a.used && a.s.keeps == 1 {
		a.s.dropAhead() // of the rows before
	}
	var tasks []aheadTask
	if err := a.read(ctx, func(row sql.Row) {
		if a.p.forecast != nil {
			tasks = append(tasks, a.p.forecast(ctx, row)...)
		}
	}); err != nil {
		return err
	}
	tx := a.s.txn()
	if len(tasks) == 0 || tx == nil || len(tasks) == 1 && tasks[0].fk == nil {
		return nil // of one row, the editor reads everything together itself
	}
	if _, err := tx.begun(ctx); err != nil {
		return err
	}
	a.use()
	f := forecast{tx: tx, regions: a.s.g.db.Topology().Regions, seen: map[string]bool{}, blind: a.p.blind}
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
		a.s.forget()
	}
	if a.times > 0 && len(a.s.reserved) > 0 {
		a.s.g.counters.giveBack(a.s.reserved)
		a.s.reserved = nil
	}
	a.rows = nil
	return a.RowIter.Close(ctx)
}

// forget drops what was read ahead when the last one that reads ahead is done: statements in triggers do so within others.
func (s *Session) forget() {
	if s.keeps--; s.keeps <= 0 {
		s.keeps = 0
		s.dropAhead()
	}
}

func (s *Session) dropAhead() {
	if tx := s.txn(); tx != nil && tx.kv != nil {
		tx.kv.Forget()
	}
}
