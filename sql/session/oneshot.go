package session

import (
	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// oneShot is what a session keeps of transactions that its client sends at once.
type oneShot struct {
	// Packet is what package oneshot keeps of the packet under way.
	Packet any
	// Program says of the command whether it was a program, or a part of one, and if not, why;
	// empty: no such question.
	Program string
	// PacketCost is what the program of a packet has cost, once its COMMIT is answered: it counts
	// for that statement, whichever has waited for it.
	PacketCost StatementCost
}

// ProgramOptions are those of a program of the session (kv.Programs).
func (s *Session) ProgramOptions() kv.Options {
	return kv.Options{Age: s.RetryAge(), Source: s.Home(), Trace: s.Trace, LockTimeout: s.lockTimeout()}
}

// Programs runs programs; nil if the store has none.
func (s *Session) Programs() kv.Programs {
	p, _ := s.env.DB.(kv.Programs)
	return p
}

// Fresh reports whether the transaction has done nothing, and is one as any: it is as if the
// session began it now.
func (t *Txn) Fresh() bool {
	s := t.Session
	return t.Untouched() && !t.ReadOnly && t.AsOf == 0 && t.Schema == nil && s.NextLevel == DefaultLevel &&
		s.NextAccess == SessionAccess && s.NextAsOf == 0
}

// Programmed notes that the transaction, in which nothing was done, has committed as a program.
func (t *Txn) Programmed(ts base.Timestamp) {
	t.Over = true
	s := t.Session
	s.committed++
	s.commitTS, s.wroteAt = ts, max(s.wroteAt, ts)
}
