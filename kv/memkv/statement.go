package memkv

import (
	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

var errSettled = base.Errorf(base.CodeInvalid, "the statement has been settled by its gateway")

// Settle says how a statement has ended (kv.Forwarded). If it has not committed, it never will.
func (s *store) Settle(name base.TxnID) kv.Settled {
	s.mu.Lock()
	defer s.mu.Unlock()
	got, ok := s.statements[name]
	if !ok {
		s.endStatement(name, kv.Settled{})
	}
	return got
}

// endStatement notes how a statement has ended; the mutex is held.
func (s *store) endStatement(name base.TxnID, got kv.Settled) {
	if s.statements == nil {
		s.statements = map[base.TxnID]kv.Settled{}
	}
	s.statements[name] = got
}

// mayEnd reports whether the transaction may commit what it executes for another gateway.
func (t *txn) mayEnd() error {
	if st := t.opts.Statement; st != nil {
		if _, over := t.db.statements[st.Name]; over {
			return errSettled
		}
	}
	return nil
}

// Settled are the statements that have been settled.
func (s *store) Settled() (out []base.TxnID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.statements {
		out = append(out, name)
	}
	return out
}
