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
	node     sql.Node
	blind    bool // rows are inserted without a look at their keys
	forecast func(ctx *sql.Context, row sql.Row) []aheadTask
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
}

// Next implements sql.RowIter.
func (a *aheadIter) Next(ctx *sql.Context) (sql.Row, error) {
	if len(a.rows) == 0 && a.end == nil {
		if err := a.fill(ctx); err != nil {
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

func (a *aheadIter) fill(ctx *sql.Context) error {
	if a.used && a.s.keeps == 1 {
		a.s.dropAhead() // of the rows before
	}
	var tasks []aheadTask
	for size := 0; len(a.rows) < aheadRows && size < aheadBytes; {
		row, err := a.RowIter.Next(ctx)
		if err != nil {
			a.end = err // comes after the rows before it
			break
		}
		a.rows = append(a.rows, row)
		size += sizeOf(row)
		tasks = append(tasks, a.p.forecast(ctx, row)...)
	}
	tx := a.s.txn()
	if len(tasks) == 0 || tx == nil || len(tasks) == 1 && tasks[0].fk == nil {
		return nil // of one row, the editor reads everything together itself
	}
	if _, err := tx.begun(ctx); err != nil {
		return err
	}
	if !a.used {
		a.used = true
		a.s.keeps++
	}
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
