package access

import (
	"encoding/binary"
	"unsafe"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
	"github.com/godwitdb/godwit/sql/work"
)

// Statement is what the reads of one statement share.
type Statement struct {
	ctx     *sql.Context
	waiting []*rows // started, and not yet asked for
	ahead   bool    // the transaction keeps rows that were read ahead
	work    *work.Done
}

// New begins the reads of a statement.
func New(ctx *sql.Context) *Statement {
	s := &Statement{ctx: ctx}
	if sess := session.Of(ctx); sess != nil {
		s.work = &sess.Work
	} else {
		s.work = new(work.Done)
	}
	return s
}

// Table is a table of the engine as the statement reads it.
func (s *Statement) Table(t sql.Table) *Table {
	out := &Table{s: s, engine: t}
	if st, ok := t.(*table.Table); ok {
		out.st = st
		out.index()
	}
	out.columns()
	for i := range out.idx {
		if !out.idx[i].Primary {
			out.idx[i].Covers = out.covered(out.byIdx[i])
		}
	}
	return out
}

// Target is a stored table whose rows the statement may change.
func (s *Statement) Target(t *table.Table) *Table {
	out := s.Table(t)
	out.target = true
	for i := range out.idx { // their rows are needed
		if !out.idx[i].Primary {
			out.idx[i].Covers = []int{}
		}
	}
	row := expr.TypeBinary
	row.NotNull = true
	out.cols = append(out.cols, algebra.Column{Name: rowColumn, Type: row, Invisible: true})
	return out
}

// StoredRow takes a value of the column of stored rows apart. What it returns must not be changed.
func StoredRow(v string) (row kv.Row, ok bool) {
	b := unsafe.Slice(unsafe.StringData(v), len(v))
	n, k := binary.Uvarint(b)
	if k <= 0 || uint64(len(b)-k) < n+1 {
		return kv.Row{}, false
	}
	home := base.RegionID(b[k])
	b = b[k+1:]
	return kv.Row{Key: base.Key(b[:n:n]), Value: b[n:], Home: home}, true
}

// Close ends the reads of the statement.
func (s *Statement) Close() {
	for _, r := range s.waiting {
		_ = r.Close()
	}
	s.waiting = nil
	if sess := session.Of(s.ctx); s.ahead && sess != nil {
		s.ahead = false
		sess.ForgetAhead()
	}
}
