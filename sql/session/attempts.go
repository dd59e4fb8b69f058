package session

import (
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// RetryFor bounds how long a statement that lost a conflict is tried again, and how long the client
// may take for that.
const RetryFor = 10 * time.Second

// TriesFor bounds how long a statement of the session is tried again: a client that does not wait
// for locks for long waits no longer for them in several attempts.
func (s *Session) TriesFor() time.Duration {
	if w := s.lockTimeout(); w > 0 {
		return min(w, RetryFor)
	}
	return RetryFor
}

// attempts is a series of transactions that try the same again. All have the age of the first one,
// so that a client that repeats its transaction grows older than its rivals instead of losing to
// them for ever.
type attempts struct {
	age     base.Timestamp // 0: there was none yet
	tries   int            // transactions begun with that age
	touched *kv.Touched    // by them; nil: none has begun
}

// keepsAge reports whether the next transaction is taken for another attempt of one that was just
// lost.
func (s *Session) keepsAge() bool { return !s.lostAt.IsZero() && time.Since(s.lostAt) < RetryFor }

// RetryAge is the age with which the next transaction begins, if it is another attempt; 0
// otherwise.
func (s *Session) RetryAge() base.Timestamp {
	if s.retrying || s.keepsAge() {
		return s.attempt.age
	}
	return 0
}

// BeginTry begins an attempt to execute the client's statement; again says that it is not the
// first.
func (s *Session) BeginTry(again bool) {
	s.aborted, s.retrying = false, again
	s.Return()
	if again {
		s.retries++
		s.restoreVariables()
	}
	s.before = nil
}

// Visit makes another database the current one until the client's statement ends.
func (s *Session) Visit(db string) {
	if s.home == nil {
		home := s.GetCurrentDatabase()
		s.home = &home
	}
	s.SetCurrentDatabase(db)
}

// Return ends a visit, if there is one.
func (s *Session) Return() {
	if s.home != nil {
		s.SetCurrentDatabase(*s.home)
		s.home = nil
	}
}

// Patience is that of the present statement with nodes that do not answer.
func (s *Session) Patience() *kv.Patience {
	if p := s.patience.Load(); p != nil {
		return p
	}
	return kv.NewPatience()
}

// BeginPatience begins the patience of the client's statement, which arrived at the time then.
func (s *Session) BeginPatience(then time.Time) { s.patience.Store(kv.PatienceSince(then)) }

// Lost reports whether the statement lost its transaction to a conflict.
func (s *Session) Lost() bool { return s.aborted }

// EndTries ends the attempts to execute the client's statement, and says whether the next
// transaction may be another attempt of the one that was lost.
func (s *Session) EndTries() {
	s.Return()
	if s.file != nil {
		s.forgetFile()
	}
	s.retrying = false
	s.patience.Store(nil)
	s.requests.Store(nil)
	if s.Txn() != nil {
		return
	}
	if s.aborted {
		s.lostAt = time.Now()
	} else if s.committed > 0 {
		s.lostAt = time.Time{}
	}
	if !s.keepsAge() {
		s.attempt = attempts{}
	}
}

// EndForwarded takes over what came of a statement that was executed elsewhere.
func (s *Session) EndForwarded(committed int, ts base.Timestamp, lost bool, age base.Timestamp) {
	s.committed += committed
	if committed > 0 {
		s.commitTS = ts
		s.Wrote(ts)
	}
	if lost {
		s.aborted = true
		if s.attempt.age != age {
			s.attempt = attempts{age: age}
		}
	}
}

// Wrote notes a commit of the session.
func (s *Session) Wrote(ts base.Timestamp) { s.wroteAt = max(s.wroteAt, ts) }

// TxnCost is what transactions cost on the WAN.
type TxnCost struct {
	Transactions    int   // committed
	Hops            int   // one-way crossings waited for
	Bytes, Messages int64 // caused, waited for or not
}

// Charge attributes what the session has spent since the last commit to the transactions that just
// committed; false if there is nothing to charge. The gateway that has forwarded a statement is
// charged for it.
func (s *Session) Charge() (cost TxnCost, ok bool) {
	if s.committed == 0 || s.Remote {
		return TxnCost{}, false
	}
	now := TxnCost{Hops: s.Trace.Hops(), Bytes: s.Trace.Bytes(), Messages: s.Trace.Messages()}
	cost = TxnCost{Transactions: s.committed, Hops: now.Hops - s.charged.Hops, Bytes: now.Bytes - s.charged.Bytes,
		Messages: now.Messages - s.charged.Messages}
	s.committed, s.charged = 0, now
	return cost, true
}
