package prefetch

import (
	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

// RowsAhead has what the rows of a change will ask for, with their triggers, read ahead: they are
// executed speculatively, as speculate.go says, by whoever runs the change.
type RowsAhead struct {
	pl    *Planner
	s     *session.Session
	table base.TableID
	out   bool // a row is under way
	hops  int  // when it began
	times int  // speculated
	wait  int  // rows before the next speculative execution
}

// RowsAhead is for the rows of a table; nil: nothing is read ahead.
func (pl *Planner) RowsAhead(s *session.Session, t *table.Table) *RowsAhead {
	if pl == nil || pl.Off || s.Speculation != nil || s.HasTemporary() || len(pl.env.DB.Topology().Regions) == 1 {
		return nil
	}
	return &RowsAhead{pl: pl, s: s, table: t.Def.Desc.ID}
}

// Next begins the next row, of n that are left, and may read ahead. run executes one of them, by
// its number from the next one on, in a session of its own.
func (a *RowsAhead) Next(ctx *sql.Context, n int, run func(ctx *sql.Context, s *session.Session, row int) error) error {
	if a == nil {
		return nil
	}
	paid := a.out && a.s.Trace.Hops() > a.hops || a.pl.SpeculateAll
	if paid {
		a.pl.far.Store(a.table, true)
	} else if a.times == 0 && !a.out {
		paid = a.pl.paysFrom(a.s, a.table)
	}
	a.wait--
	n = min(n, aheadRows)
	if paid && a.wait <= 0 && (a.out || n > 1 || a.pl.SpeculateAll) {
		before := a.s.Trace.Hops()
		if err := speculateRows(ctx, a.pl.env, a.s, n, run); err != nil {
			return err
		}
		if a.s.Trace.Hops() == before {
			a.pl.far.Delete(a.table)
		}
		a.wait = 1 << min(a.times, 16) // if it was of no use, it will not often be tried
		a.times++
	}
	a.out, a.hops = true, a.s.Trace.Hops()
	return nil
}

// End ends the rows: AUTO_INCREMENT values that none of them took go back.
func (a *RowsAhead) End() {
	if a != nil && a.times > 0 {
		a.pl.env.Counters.GiveBack(a.s.Stmt.Reserved)
		a.s.Stmt.Reserved = nil
	}
}

// speculateRows executes rows speculatively until nothing is missing.
func speculateRows(ctx *sql.Context, env *table.Env, s *session.Session, n int,
	run func(ctx *sql.Context, s *session.Session, row int) error) error {
	tx := s.Txn()
	if tx == nil {
		return nil
	}
	if _, err := tx.Begin(ctx); err != nil {
		return err
	}
	if err := tx.Flush(ctx, nil); err != nil {
		return err
	}
	r, err := newSpeculation(ctx, env, s, tx)
	if err != nil {
		return nil // without one, then
	}
	mark := tx.Mark()
	defer r.tx.EndPast()
	for range maxRounds {
		r.begin(tx)
		n, err = r.rows(ctx, n, run)
		tx.KV.RollbackTo(mark)
		if err != nil {
			return err
		}
		if done, err := r.fetch(ctx, tx); done || err != nil {
			return err
		}
	}
	return nil
}

// rows runs rows once. It returns how many the next round is about: the statement is going to fail
// at the last one of them if they are fewer.
func (r *speculation) rows(ctx *sql.Context, n int, run func(*sql.Context, *session.Session, int) error) (int, error) {
	for i := range n {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		t := r.tx
		r.own.BeginSpeculative(t)
		r.kv.missed = false
		mark := t.Mark()
		err := run(r.ctx, r.own, i)
		if err != nil || r.kv.missed {
			t.Undo(mark)
		}
		if err != nil && !r.kv.missed {
			return i + 1, nil
		}
	}
	return n, nil
}
