package session

import (
	"fmt"
	"maps"
	"slices"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
)

// Speculate is a session that executes the statement of this one speculatively, in a transaction
// over k: it has all that the statement may ask of its session. own is the session, octx the
// context for it.
func (s *Session) Speculate(ctx *sql.Context, sp Speculation, k kv.Txn) (own *Session, octx *sql.Context, tx *Txn, err error) {
	o := New(sql.NewBaseSessionWithClientServer(s.Address(), s.Client(), s.ID()), s.env)
	o.Trace = s.Trace
	octx = ctx.WithContext(ctx.Context)
	octx.Session, octx.ProcessList = o, sql.EmptyProcessList{}
	mine := o.BaseSession.GetAllSessionVariables()
	for name, v := range s.BaseSession.GetAllSessionVariables() {
		if m, ok := mine[name]; !ok || fmt.Sprint(m) != fmt.Sprint(v) {
			if err := o.BaseSession.InitSessionVariable(octx, name, v); err != nil && !sql.ErrSystemVariableReadOnly.Is(err) {
				return nil, nil, nil, err
			}
		}
	}
	o.SetCurrentDatabase(s.GetCurrentDatabase())
	o.SetTransactionDatabase(s.GetTransactionDatabase())
	o.SetIgnoreAutoCommit(s.GetIgnoreAutoCommit())
	o.SetIndexRegistry(s.GetIndexRegistry())
	o.SetViewRegistry(s.GetViewRegistry())
	o.KeepPrivilegeSet(s.GetPrivilegeSet())
	o.roles, o.acting = s.roles, s.acting
	o.remoteState, o.staleState, o.prepared = s.remoteState, s.staleState, s.prepared
	o.Stmt, o.cmd.calls, o.level, o.strict = s.Stmt.speculative(), s.cmd.calls, s.level, s.strict
	o.Speculation = sp
	tx = NewTxnOver(o, k)
	o.BaseSession.SetTransaction(tx)
	return o, octx, tx, nil
}

// BeginSpeculative begins a speculative execution in a transaction of Speculate.
func (s *Session) BeginSpeculative(t *Txn) {
	t.Over, t.Discarded, t.editors = false, false, nil
	s.cmd.readers, s.Stmt = 0, s.Stmt.speculative()
	s.BaseSession.SetTransaction(t)
}

// speculative is the statement for one more speculative execution: it sees the same catalog, and
// has decided nothing else yet.
func (st *Statement) speculative() Statement {
	return Statement{Syntax: Syntax{Lock: st.Lock}, Snap: st.Snap, Writes: true, fresh: st.fresh}
}

// Resume gives the transaction of a speculative execution the state that another one is in.
func (t *Txn) Resume(tx *Txn) {
	t.level, t.strict, t.Schema, t.Made, t.top = tx.level, tx.strict, tx.Schema, tx.Made, tx.top
	t.homes, t.Advice, t.Located = tx.homes.clone(), maps.Clone(tx.Advice), maps.Clone(tx.Located)
	t.hidden = make(map[string][]schema.RowRef, len(tx.hidden))
	for k, refs := range tx.hidden {
		t.hidden[k] = slices.Clone(refs)
	}
}

// Undo drops what a speculative execution has done since a mark.
func (t *Txn) Undo(mark int) {
	t.editors, t.Over = nil, false
	t.RollbackToMark(mark)
}
