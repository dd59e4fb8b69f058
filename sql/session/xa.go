package session

import (
	"context"
	"errors"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
)

// XA is the transaction of a session that XA START has begun (package xa), until it is prepared or
// ended.
type XA struct {
	kv.Preparation
	name   []byte
	idle   bool
	ending bool // what ends it is part of an XA statement
	lost   bool // a statement of it has ended it
}

// The states of a transaction of XA, in MySQL's words.
const (
	// XANone: the session is in none.
	XANone   = "NON-EXISTING"
	xaActive = "ACTIVE"
	xaIdle   = "IDLE"
	xaLost   = "ROLLBACK ONLY"
)

// MySQL's errors of XA.
var (
	ErrXANoName  = mysql.NewSQLError(1397, "XAE04", "XAER_NOTA: Unknown XID")
	ErrXAInvalid = mysql.NewSQLError(1398, "XAE05", "XAER_INVAL: Invalid arguments (or unsupported command)")
	ErrXAOutside = mysql.NewSQLError(1400, "XAE09", "XAER_OUTSIDE: Some work is done outside global transaction")
	ErrXANameUse = mysql.NewSQLError(1440, "XAE08", "XAER_DUPID: The XID already exists")
	errXALost    = mysql.NewSQLError(1402, "XA100", "XA_RBROLLBACK: Transaction branch was rolled back")
	errXATimeout = mysql.NewSQLError(1613, "XA106", "XA_RBTIMEOUT: Transaction branch was rolled back: took too long")
	errXADead    = mysql.NewSQLError(1614, "XA102", "XA_RBDEADLOCK: Transaction branch was rolled back: deadlock was detected")
)

// ErrXAState refuses what a transaction of XA in this state does not allow.
func ErrXAState(state string) error {
	return mysql.NewSQLError(1399, "XAE07", "XAER_RMFAIL: The command cannot be executed when global transaction is in the  %s state",
		state)
}

// errXAFails is the error of an end that may be tried again.
func errXAFails(why error) error {
	return mysql.NewSQLError(1399, "XAE07", "XAER_RMFAIL: %v; XA RECOVER tells whether the transaction stands: try again", why)
}

// XAState is the state of the session's transaction of XA.
func (s *Session) XAState() string {
	x := s.xa
	if x != nil && !x.lost {
		t := s.Txn()
		x.lost = t == nil || t.Over
	}
	switch {
	case x == nil:
		return XANone
	case x.lost:
		return xaLost
	case x.idle:
		return xaIdle
	}
	return xaActive
}

// XAAllows is why the state of the session's transaction of XA does not allow a statement that is
// none of XA, nil if it does. ends: the statement begins, commits or rolls back transactions; uses:
// it uses tables.
func (s *Session) XAAllows(ends, uses bool) error {
	switch state := s.XAState(); {
	case state == XANone, state == xaActive && !ends, !ends && !uses:
		return nil
	default:
		return ErrXAState(state)
	}
}

// xaKeeps is why the session's transaction cannot be ended by anything but statements of XA.
func (s *Session) xaKeeps() error {
	if s.xa == nil || s.xa.ending {
		return nil
	}
	return ErrXAState(s.XAState())
}

// XAStart begins a transaction of XA.
func (s *Session) XAStart(ctx *sql.Context, name []byte) error {
	if s.xa != nil {
		return ErrXAState(s.XAState())
	}
	if t := s.Txn(); s.tablesLocked || s.GetIgnoreAutoCommit() || t != nil && t.KV != nil {
		return ErrXAOutside
	}
	p, ok := s.env.DB.(kv.Preparer)
	if !ok {
		return schema.Invalid("XA needs a database that keeps prepared transactions, and this one does not")
	}
	all, err := p.Prepared(s.KVContext(ctx))
	if err != nil {
		return schema.ClientError(err)
	}
	for _, other := range all {
		if string(other.Name) == string(name) {
			return ErrXANameUse
		}
	}
	t, err := s.StartTransaction(ctx, sql.ReadWrite)
	if err != nil {
		return err
	}
	s.xa = &XA{name: name, Preparation: kv.Preparation{User: s.Client().User}}
	ctx.SetTransaction(t)
	ctx.SetIgnoreAutoCommit(true)
	return nil
}

// XAResume takes back that no more statements come.
func (s *Session) XAResume(name []byte) error {
	switch state := s.XAState(); {
	case state != xaIdle:
		return ErrXAInvalid
	case string(s.xa.name) != string(name):
		return ErrXANoName
	}
	s.xa.idle = false
	return nil
}

// XAEnd says that no more statements come.
func (s *Session) XAEnd(name []byte) error {
	switch state := s.XAState(); {
	case state != xaActive && state != xaLost:
		return ErrXAState(state)
	case string(s.xa.name) != string(name):
		return ErrXANoName
	case state == xaLost:
		return errXALost
	}
	s.xa.idle = true
	return nil
}

// XAPrepare prepares the session's transaction of XA, which stands by itself from then on. If it
// cannot be prepared it is rolled back.
func (s *Session) XAPrepare(ctx *sql.Context, name []byte) error {
	switch state := s.XAState(); {
	case state == xaLost:
		return errXALost
	case state != xaIdle:
		return ErrXAState(state)
	case string(s.xa.name) != string(name):
		return ErrXANoName
	}
	t := s.Txn()
	if err := t.mayPrepare(); err != nil {
		return err
	}
	if _, err := t.Begin(ctx); err != nil { // also one that has done nothing stands
		return s.xaFail(ctx, err)
	}
	s.xa.Preparation.Name = s.xa.name
	return s.xaCommit(ctx, t)
}

// mayPrepare is why the transaction cannot be prepared.
func (t *Txn) mayPrepare() error {
	switch {
	case len(t.declared) > 0:
		return schema.Invalid("XA prepares no transaction that changes MULTI MASTER tables: commit it with " +
			"XA COMMIT ... ONE PHASE")
	case t.Session.HasTemporary():
		return mysql.NewSQLError(3999, "HY000",
			"XA: Temporary tables cannot be accessed inside XA transactions when xa_detach_on_prepare=ON")
	}
	return nil
}

// xaCommit commits the session's transaction, or prepares it.
func (s *Session) xaCommit(ctx *sql.Context, t *Txn) error {
	s.xa.ending = true
	err := s.CommitTransaction(ctx, t)
	return s.xaFail(ctx, err)
}

// xaFail ends the session's transaction of XA with an error, nil if there is none.
func (s *Session) xaFail(ctx *sql.Context, err error) error {
	s.xa = nil
	s.Leave(ctx)
	var told *mysql.SQLError
	if !errors.As(err, &told) {
		return err
	}
	switch told.Num {
	case schema.ErrLockDeadlock:
		return errXADead
	case schema.ErrLockWaitTimeout:
		return errXATimeout
	}
	return err
}

// XACommit commits a transaction of XA: the session's own, in one phase, or one that stands
// prepared.
func (s *Session) XACommit(ctx *sql.Context, name []byte, onePhase bool) error {
	state := s.XAState()
	own := s.xa != nil && string(s.xa.name) == string(name)
	switch {
	case own && state == xaLost:
		return errXALost
	case own && state == xaIdle && onePhase:
		return s.xaCommit(ctx, s.Txn())
	case own:
		return ErrXAState(state)
	case onePhase && s.xa == nil:
		return ErrXAInvalid
	}
	return s.xaFinish(ctx, name, true)
}

// XARollback rolls back a transaction of XA: the session's own, or one that stands prepared.
func (s *Session) XARollback(ctx *sql.Context, name []byte) error {
	state := s.XAState()
	own := s.xa != nil && string(s.xa.name) == string(name)
	switch {
	case own && (state == xaIdle || state == xaLost):
		s.xa = nil
		s.Leave(ctx)
		return nil
	case own:
		return ErrXAState(state)
	}
	return s.xaFinish(ctx, name, false)
}

// xaFinish ends a transaction that stands prepared.
func (s *Session) xaFinish(ctx *sql.Context, name []byte, commit bool) error {
	if t := s.Txn(); s.GetIgnoreAutoCommit() || t != nil && t.KV != nil {
		return ErrXAState(s.XAState()) // as MySQL 8.0.29 and newer, also of a transaction that is none of XA
	}
	p, ok := s.env.DB.(kv.Preparer)
	if !ok {
		return ErrXANoName
	}
	found, err := p.EndPrepared(s.KVContext(ctx), name, commit)
	switch code := base.CodeOf(err); {
	case err == nil && !found:
		return ErrXANoName
	case code == base.CodeUnavailable, code == base.CodeAmbiguous, code == base.CodeLockTimeout, code == base.CodeOverloaded:
		return errXAFails(err)
	}
	return schema.ClientError(err)
}

// XAPrepared are the transactions that stand prepared.
func (s *Session) XAPrepared(ctx context.Context) ([]kv.Prepared, error) {
	p, ok := s.env.DB.(kv.Preparer)
	if !ok {
		return nil, nil
	}
	all, err := p.Prepared(ctx)
	return all, schema.ClientError(err)
}

// preparation is how a transaction of the session may be prepared; nil: it is none of XA.
func (s *Session) preparation() *kv.Preparation {
	if s.xa == nil {
		return nil
	}
	return &s.xa.Preparation
}

// isPrepared reports whether an error says that another transaction has the name already.
func isPrepared(err error) bool {
	var be *base.Error
	return errors.As(err, &be) && be.Key.Table() == base.PreparedTable
}
