package sqlfront

import (
	"context"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/obs"
)

// Session is one client connection.
type Session struct {
	*sql.BaseSession
	g     *gateway
	trace *obs.Trace
	// lostAt is when a transaction of the session was lost to a conflict; zero once one has committed.
	lostAt time.Time
	// committed counts kv transactions that OnTransaction was not told of, charged is what of trace it was told of.
	committed int
	charged   TxnCost
	dup       string // MySQL's wording of the last duplicate-key error

	// State of the statement; reset by beginStatement.
	snap        *snapshot
	built       bool // the root of the plan was seen
	writes      bool // the plan changes data or schema
	astLock     kv.LockMode
	blind       bool // a plain INSERT whose duplicates Commit may find
	perRow      bool // duplicates must be known row by row (IGNORE, REPLACE, ON DUPLICATE KEY)
	ahead       *aheadPlan
	keeps       int                    // that use what was read ahead
	change      sql.Node               // as it is executed
	after       []sql.Node             // the triggers after it
	rehearsal   *rehearsal             // the session is that of a rehearsal
	reserved    map[counterID][]uint64 // AUTO_INCREMENT values that rehearsals have used
	newKey      *newKey
	outer       *outerNode // the source of an UPDATE that is about to be built
	stable      bool       // the UPDATE does not change what its subqueries read
	hold        bool       // changes of the statement are sent to kv at its end only
	call        bool       // the statement is CALL
	truncate    bool       // the statement is TRUNCATE
	fresh       bool       // READ COMMITTED: the statement has its snapshot
	retrying    bool
	triggered   int      // depth of CALLs within a running statement
	inCall      bool     // the engine is about to set the transaction of a CALL aside
	explained   sql.Node // EXPLAIN ANALYZE being built
	create      tableOptions
	view        string      // definition of the view looked up last
	viewDB      string      // its database, if none is current
	missed      bool        // the catalog was refreshed for a name that was not found
	tries       int         // transactions begun with that age
	touched     *kv.Touched // by them
	age         base.Timestamp
	level       isolation   // of transactions to come
	strict      bool        // the session has asked for SERIALIZABLE, which is the default anyway, but for MULTI MASTER tables
	consistency consistency // of transactions to come
	nextLevel   isolation   // of the next one only
	aborted     bool        // the last statement lost its transaction
	lastCost    statementCost
	prepared    map[string]sqlparser.Statement
	stmt        sqlparser.Statement              // that is executed; nil if not known
	binds       map[string]*querypb.BindVariable // its parameters

	remoteState
	staleState
}

// statementCost is what the last statement cost on the WAN.
type statementCost struct {
	Hops     int
	Bytes    int64
	Messages int64
	Moves    int64 // rows
	Elapsed  time.Duration
	Kind     string
}

var (
	_ sql.TransactionSession    = (*Session)(nil)
	_ sql.LifecycleAwareSession = (*Session)(nil)
)

func newSession(b *sql.BaseSession, g *gateway) *Session {
	return &Session{BaseSession: b, g: g, trace: new(obs.Trace), prepared: map[string]sqlparser.Statement{}}
}

// sessionOf is the session of ctx; nil for contexts the engine makes for itself.
func sessionOf(ctx *sql.Context) *Session {
	if ctx == nil {
		return nil
	}
	s, _ := ctx.Session.(*Session)
	return s
}

// kvctx is the context for calls of kv: it counts into the session's trace.
func (s *Session) kvctx(ctx *sql.Context) context.Context {
	return obs.WithTrace(ctx, s.trace)
}

// CommandBegin implements sql.LifecycleAwareSession.
func (s *Session) CommandBegin() error {
	s.note(nil)
	s.triggered, s.keeps = 0, 0
	s.beginStatement()
	return nil
}

// CommandEnd implements sql.LifecycleAwareSession.
func (s *Session) CommandEnd() {}

// SessionEnd implements sql.LifecycleAwareSession: the client is gone.
func (s *Session) SessionEnd() {
	if t, ok := s.BaseSession.GetTransaction().(*Txn); ok {
		t.rollback()
		s.BaseSession.SetTransaction(nil)
	}
	s.g.sessions.Delete(s.ID())
}

// GetCurrentDatabase implements sql.Session. The engine binds a view in the view's database, but asks before for the current one, to put it
// back, and fails if there is none: SELECT * FROM db.view right after a client has connected. When a statement is executed there is none again,
// so DATABASE() is NULL.
func (s *Session) GetCurrentDatabase() string {
	name := s.BaseSession.GetCurrentDatabase()
	if name == "" && !s.built {
		return s.viewDB
	}
	return name
}

func (s *Session) beginStatement() {
	s.snap, s.built, s.writes, s.blind, s.perRow, s.missed, s.dup = nil, false, false, false, false, false, ""
	s.hold, s.inCall, s.fresh, s.stable = false, false, false, false
	s.ahead, s.newKey, s.outer = nil, nil, nil
	s.change, s.after = nil, nil
	s.create, s.view, s.viewDB = tableOptions{}, "", ""
	s.newest = 0
}

// ValidateSession is called by the engine before it plans a statement.
func (s *Session) ValidateSession(ctx *sql.Context) error {
	s.beginStatement()
	if t, _ := s.GetTransaction().(*Txn); t == nil && !s.retrying && !s.keepsAge() {
		s.age = 0
	}
	return s.BaseSession.ValidateSession(ctx)
}

// snapshot is the catalog as this statement sees it: with the changes of its own transaction.
func (s *Session) snapshot(ctx *sql.Context) (*snapshot, error) {
	if t := s.txn(); t != nil && t.snap != nil {
		return t.snap, nil
	}
	if s.snap == nil {
		snap, err := s.g.catalog.current(s.kvctx(ctx))
		if err != nil {
			return nil, clientError(err)
		}
		s.snap = snap
	}
	return s.snap, nil
}

// refresh asks once per statement for the catalog as of now, before a name is said not to exist.
func (s *Session) refresh(ctx *sql.Context) (*snapshot, error) {
	if t := s.txn(); s.missed || t != nil && t.snap != nil {
		return s.snapshot(ctx)
	}
	s.missed = true
	snap, err := s.g.catalog.fresh(s.kvctx(ctx))
	if err != nil {
		return nil, clientError(err)
	}
	s.snap = snap
	return snap, nil
}

// txn is the transaction of the session, nil if none.
func (s *Session) txn() *Txn {
	t, _ := s.BaseSession.GetTransaction().(*Txn)
	return t
}

// GetTransaction hides a transaction that is over, so that the engine begins a new one.
func (s *Session) GetTransaction() sql.Transaction {
	t := s.txn()
	if t == nil {
		return nil
	}
	if (t.over || t.discarded) && !s.GetIgnoreAutoCommit() {
		t.rollback()
		s.BaseSession.SetTransaction(nil)
		return nil
	}
	return t
}

// SetTransaction implements sql.Session. The engine drops the transaction of some failed
// statements without a word; its locks must not stay.
func (s *Session) SetTransaction(tx sql.Transaction) {
	if tx == nil && (s.inCall || s.triggered > 0) {
		// CALL would run in a transaction of its own; in MySQL it runs in the caller's.
		s.inCall = false
		return
	}
	if tx != nil && s.triggered > 0 && tx == s.BaseSession.GetTransaction() {
		s.triggered-- // the end of a CALL
		return
	}
	if nt, ok := tx.(*Txn); ok && nt.over {
		tx = s.BaseSession.GetTransaction() // the end of a CALL that committed it
	}
	if t := s.txn(); t != nil && tx != sql.Transaction(t) {
		t.rollback()
	}
	s.BaseSession.SetTransaction(tx)
}

// StartTransaction implements sql.TransactionSession. The kv transaction begins with its first use.
func (s *Session) StartTransaction(ctx *sql.Context, c sql.TransactionCharacteristic) (sql.Transaction, error) {
	t := &Txn{s: s, readOnly: c == sql.ReadOnly, asOf: s.nextAsOf}
	s.nextAsOf = 0
	return t, nil
}

// CommitTransaction implements sql.TransactionSession. After a failure the
// session is out of the transaction, as after MySQL's 1213; the engine alone
// would stay in it and leave later autocommit writes uncommitted.
func (s *Session) CommitTransaction(ctx *sql.Context, tx sql.Transaction) error {
	t, ok := tx.(*Txn)
	if !ok {
		return nil
	}
	if s.triggered > 0 {
		return nil // a statement of a procedure that a trigger calls is part of the outer one
	}
	err := t.commit(ctx)
	if err != nil {
		s.leave(ctx)
	}
	return err
}

// leave ends the transaction of the session, whatever its state.
func (s *Session) leave(ctx *sql.Context) {
	if t := s.txn(); t != nil {
		t.rollback()
	}
	ctx.SetTransaction(nil)
	ctx.SetIgnoreAutoCommit(false)
}

// Rollback implements sql.TransactionSession.
func (s *Session) Rollback(ctx *sql.Context, tx sql.Transaction) error {
	if t, ok := tx.(*Txn); ok {
		t.rollback()
	}
	return nil
}

// CreateSavepoint implements sql.TransactionSession.
func (s *Session) CreateSavepoint(ctx *sql.Context, tx sql.Transaction, name string) error {
	if t, ok := tx.(*Txn); ok {
		return t.createSavepoint(ctx, name)
	}
	return nil
}

// RollbackToSavepoint implements sql.TransactionSession.
func (s *Session) RollbackToSavepoint(ctx *sql.Context, tx sql.Transaction, name string) error {
	if t, ok := tx.(*Txn); ok {
		return t.rollbackTo(name)
	}
	return nil // it ended, with all its changes
}

// ReleaseSavepoint implements sql.TransactionSession.
func (s *Session) ReleaseSavepoint(ctx *sql.Context, tx sql.Transaction, name string) error {
	if t, ok := tx.(*Txn); ok {
		return t.release(name)
	}
	return nil
}

// PrepareQuery implements sql.Session; unlike the base session it can forget (see UnprepareQuery).
func (s *Session) PrepareQuery(query string, stmt sqlparser.Statement) { s.prepared[query] = stmt }

// UnprepareQuery implements sql.Session.
func (s *Session) UnprepareQuery(query string) { delete(s.prepared, query) }

// GetPreparedQuery implements sql.Session. The engine asks before it runs a
// statement, which is when the lock clause of a prepared one is noted.
func (s *Session) GetPreparedQuery(query string) (sqlparser.Statement, bool) {
	stmt, ok := s.prepared[query]
	if ok {
		x, _ := s.stmt.(*sqlparser.Execute)
		s.note(stmt)
		if x != nil && x.Name == query {
			s.stmt = x // has the parameters
		}
	}
	return stmt, ok
}

// note keeps what only the syntax tree of a statement tells.
func (s *Session) note(stmt sqlparser.Statement) {
	s.stmt, s.astLock = stmt, lockClause(stmt)
	d, ok := stmt.(*sqlparser.DDL)
	_, s.call = stmt.(*sqlparser.Call)
	s.truncate = ok && strings.EqualFold(d.Action, sqlparser.TruncateStr)
}

// explicit reports whether the client has opened the transaction itself.
func (s *Session) explicit(ctx *sql.Context) bool {
	if s.GetIgnoreAutoCommit() {
		return true
	}
	auto, err := plan.IsSessionAutocommit(ctx)
	return err == nil && !auto
}

// lockClause is the lock that the FOR UPDATE or FOR SHARE clause of a statement asks for.
func lockClause(stmt sqlparser.Statement) kv.LockMode {
	switch s := stmt.(type) {
	case *sqlparser.Select:
		if s.Lock != nil {
			return lockOfText(s.Lock.Type)
		}
	case *sqlparser.SetOp:
		if s.Lock != nil {
			return lockOfText(s.Lock.Type)
		}
	case *sqlparser.ParenSelect:
		return lockClause(s.Select)
	}
	return kv.LockNone
}

func lockOfText(t string) kv.LockMode {
	t = strings.ToLower(t)
	switch {
	case strings.Contains(t, "update"):
		return kv.LockExclusive
	case strings.Contains(t, "share"):
		return kv.LockShared
	}
	return kv.LockNone
}
