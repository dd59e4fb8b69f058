package session

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/types"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/sql/charset"
	"github.com/godwitdb/godwit/sql/kill"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/work"
)

// Session is one client connection.
type Session struct {
	*sql.BaseSession
	env   *Env
	Trace *obs.Trace
	home  *string // the current database, while the statement visits another one
	// Stmt has the facts of the statement that is executed. It is replaced as a whole.
	Stmt        Statement
	diagnostics diagnostics
	// Binds are the parameters of the prepared statement that the client executes; nil for text.
	Binds map[string]*querypb.BindVariable
	// Speculation is what the session was made for; nil for the sessions of clients.
	Speculation Speculation

	// Fill gives the table that the statement makes its rows, in the same transaction; nil: it gets
	// none.
	Fill func(ctx *sql.Context) (types.OkResult, error)

	// FirstContext is that of the connection's first statement on the fast path; nil before.
	FirstContext *sql.Context

	cmd command
	kill.State
	// lostAt is when a transaction of the session was lost to a conflict; zero once one has
	// committed.
	lostAt time.Time
	// committed counts kv transactions that OnTransaction was not told of, charged is what of Trace
	// it was told of.
	committed int
	charged   TxnCost
	retrying  bool
	attempt   attempts
	forwarded
	patience atomic.Pointer[kv.Patience]  // of the statement under way; nil between two
	requests atomic.Pointer[kv.Statement] // the newest context of kv, which most requests share
	level    Isolation                    // of transactions to come
	// strict: the session has asked for SERIALIZABLE, which is the default anyway, but for MULTI
	// MASTER tables.
	strict      bool
	consistency consistency // of transactions to come
	NextLevel   Isolation   // of the next one only
	aborted     bool        // the last statement lost its transaction
	LastCost    StatementCost
	prepared    map[string]sqlparser.Statement
	texts       map[string]string // of those that PREPARE has named
	// Released: the connection ends with the answer of the statement (RELEASE).
	Released   bool
	completion string // completion_type
	// WaitTimeout is how long the client may be silent, in seconds.
	WaitTimeout int64
	// LongQuery is how long a statement takes at most that is not slow.
	LongQuery time.Duration
	// After, if there is one, is called by Settle. It waits for the client.
	After func()
	// Sent and Affected are rows: those that the client's command has sent, and has changed.
	Sent, Affected uint64
	retries        int // of the client's command
	// Work is what the client's command has had the executor do.
	Work work.Done
	// Activity is what package statements keeps of the session's client.
	Activity any
	// reads and answers are the character sets of the client; greeted: it has said its first.
	reads, answers *charset.Set
	greeted        bool
	undone         charset.Undone
	// LeavesAll: our own engine leaves all statements to go-mysql-server.
	LeavesAll bool
	// Replicates: what it executes was executed at another server before, with all that followed
	// from it. Triggers do not fire.
	Replicates bool
	workers    int // see Workers
	// ansiQuotes, noEscapes and truncates are of sql_mode.
	ansiQuotes, noEscapes, truncates bool
	// MaxTime is how long a SELECT may take, in ms; 0: as long as it takes.
	MaxTime int64
	// lockWait is how long its transactions wait for a lock, in s.
	lockWait int64
	// Weight is about how many bytes the text of the client's command takes once it is parsed, 0
	// if it is short.
	Weight int64
	// Listed is how many bytes of its statement's memory the lists of its INs take.
	Listed int64
	// Slots counts the turns that statements of this session have had among those that compute.
	Slots atomic.Int64
	// Calling is the CALL that the engine builds with the rights of a definer.
	Calling *plan.Call
	// Triggers are those that statements of the client's command fire, by their keys.
	Triggers map[string]*Trigger
	// Running is the body of a trigger that the engine builds with the rights of its definer.
	Running sql.Node
	// reached are the tables that the command has read or changed; nil: they are not noted.
	reached map[[2]string]bool
	// NextAccess is what SET TRANSACTION says of the next transaction.
	NextAccess Access
	readOnly   int64 // 1: transactions are READ ONLY unless they say otherwise

	remoteState
	staleState
	roles activeRoles
	// acting are the rights of the definer in whose name something is executed; nil: the user's.
	acting *mysql_db.PrivilegeSet
	temp   *temporaries // nil: the session never had any
	xa     *XA          // nil: it is in no transaction of XA
	// tableLocks holds the WRITE locks of LOCK TABLES; nil: there are none. tablesLocked says that
	// LOCK TABLES is in effect.
	tableLocks   kv.Txn
	tablesLocked bool
	lockedTables []TableLock
	kept         kept
	// Infile is where files of LOAD DATA come from; nil: from the client.
	Infile *Infile
	file   *clientFile // that the client was asked for; nil: there is none, or it is not kept
	results
	oneShot
	// before are the user variables that the statement has assigned, as they were.
	before map[string]userVariable
}

var (
	_ sql.TransactionSession    = (*Session)(nil)
	_ sql.LifecycleAwareSession = (*Session)(nil)
)

// New makes a session of a gateway.
func New(b *sql.BaseSession, env *Env) *Session {
	return &Session{BaseSession: b, env: env, Trace: new(obs.Trace), prepared: map[string]sqlparser.Statement{}}
}

// Of is the session of ctx; nil for contexts the engine makes for itself.
func Of(ctx *sql.Context) *Session {
	if ctx == nil {
		return nil
	}
	s, _ := ctx.Session.(*Session)
	return s
}

// KVContext is the context for calls of kv: it counts into the session's trace.
func (s *Session) KVContext(ctx *sql.Context) context.Context {
	p, last, asked := s.Patience(), s.requests.Load(), s.Stmt.Lock != kv.LockNone
	if last.Made(ctx, p, asked) {
		return last
	}
	made := kv.WithStatement(ctx, s.Trace, p, asked)
	s.requests.Store(made)
	return made
}

// Settle is called once a statement has ended and holds nothing any more, and before its client is
// told.
func (s *Session) Settle() {
	if f := s.After; f != nil {
		s.After = nil
		f()
	}
}

// CommandBegin implements sql.LifecycleAwareSession.
func (s *Session) CommandBegin() error {
	s.cmd, s.Stmt, s.Triggers = command{}, Statement{}, nil
	return nil
}

// CommandEnd implements sql.LifecycleAwareSession.
func (s *Session) CommandEnd() {}

// SessionEnd implements sql.LifecycleAwareSession: the client is gone.
func (s *Session) SessionEnd() {
	if t, ok := s.BaseSession.GetTransaction().(*Txn); ok {
		t.Rollback()
		s.BaseSession.SetTransaction(nil)
	}
	s.UnlockTables()
	s.endTemporary()
	s.kept.release()
	if s.env.Ended != nil {
		s.env.Ended(s)
	}
}

// GetCurrentDatabase implements sql.Session. The engine binds a view in the view's database, but
// asks before for the current one, to put it back, and fails if there is none: SELECT * FROM
// db.view right after a client has connected. When a statement is executed there is none again, so
// DATABASE() is NULL.
func (s *Session) GetCurrentDatabase() string {
	name := s.BaseSession.GetCurrentDatabase()
	if name == "" && !s.Stmt.Planned {
		return s.Stmt.ViewDB
	}
	return name
}

// ValidateSession is called by the engine before it plans a statement.
func (s *Session) ValidateSession(ctx *sql.Context) error {
	s.Stmt = Statement{Syntax: s.Stmt.Syntax}
	if t, _ := s.GetTransaction().(*Txn); t == nil && !s.retrying && !s.keepsAge() {
		s.attempt = attempts{}
	}
	return s.BaseSession.ValidateSession(ctx)
}

// Snapshot is the catalog as this statement sees it: with the changes of its own transaction, and
// with the temporary tables of the session.
func (s *Session) Snapshot(ctx *sql.Context) (*schema.Snapshot, error) {
	return s.laid(s.Stored(ctx))
}

// Refresh asks once per statement for the catalog as of now, before a name is said not to exist.
func (s *Session) Refresh(ctx *sql.Context) (*schema.Snapshot, error) {
	if t := s.Txn(); s.Stmt.refreshed || t != nil && t.Schema != nil {
		return s.Snapshot(ctx)
	}
	s.Stmt.refreshed = true
	snap, err := s.env.Catalog.Fresh(s.KVContext(ctx))
	if err != nil {
		return nil, schema.ClientError(err)
	}
	s.Stmt.Snap = snap
	return s.laid(snap, nil)
}

// Txn is the transaction of the session, nil if none.
func (s *Session) Txn() *Txn {
	t, _ := s.BaseSession.GetTransaction().(*Txn)
	return t
}

// GetTransaction hides a transaction that is over, so that the engine begins a new one.
func (s *Session) GetTransaction() sql.Transaction {
	t := s.Txn()
	if t == nil {
		return nil
	}
	if (t.Over || t.Discarded) && !s.GetIgnoreAutoCommit() {
		t.Rollback()
		s.BaseSession.SetTransaction(nil)
		return nil
	}
	return t
}

// SetTransaction implements sql.Session. The engine drops the transaction of some failed
// statements without a word; its locks must not stay.
func (s *Session) SetTransaction(tx sql.Transaction) {
	if tx == nil && (s.Stmt.inCall || s.cmd.calls > 0) {
		// CALL would run in a transaction of its own; in MySQL it runs in the caller's.
		s.Stmt.inCall = false
		return
	}
	if tx != nil && s.cmd.calls > 0 && tx == s.BaseSession.GetTransaction() {
		s.cmd.calls-- // the end of a CALL
		return
	}
	if nt, ok := tx.(*Txn); ok && nt.Over {
		tx = s.BaseSession.GetTransaction() // the end of a CALL that committed it
	}
	if t := s.Txn(); t != nil && tx != sql.Transaction(t) {
		t.Rollback()
	}
	s.BaseSession.SetTransaction(tx)
}

// StartTransaction implements sql.TransactionSession. The kv transaction begins with its first use.
func (s *Session) StartTransaction(ctx *sql.Context, c sql.TransactionCharacteristic) (sql.Transaction, error) {
	t := &Txn{Session: s, ReadOnly: s.nextReadOnly() && !s.saysReadWrite() || c == sql.ReadOnly, AsOf: s.NextAsOf}
	s.NextAsOf = 0
	return t, nil
}

// Started is the transaction of the session, which is made if there is none.
func (s *Session) Started(ctx *sql.Context) (*Txn, error) {
	if t := s.Txn(); t != nil {
		return t, nil
	}
	t, err := s.StartTransaction(ctx, sql.ReadWrite)
	if err != nil {
		return nil, err
	}
	ctx.SetTransaction(t)
	return t.(*Txn), nil
}

// CommitTransaction implements sql.TransactionSession. After a failure the
// session is out of the transaction, as after MySQL's 1213; the engine alone
// would stay in it and leave later autocommit writes uncommitted.
func (s *Session) CommitTransaction(ctx *sql.Context, tx sql.Transaction) error {
	t, ok := tx.(*Txn)
	if !ok {
		return nil
	}
	if s.cmd.calls > 0 {
		return nil // a statement of a procedure that a trigger calls is part of the outer one
	}
	if err := s.xaKeeps(); err != nil {
		return err
	}
	if err := t.Commit(ctx); err != nil {
		s.Leave(ctx)
		return err
	}
	// DDL ends the transaction that it stands in. The engine would go on as if one were open, and
	// not commit what follows.
	ctx.SetIgnoreAutoCommit(false)
	return nil
}

// Leave ends the transaction of the session, whatever its state.
func (s *Session) Leave(ctx *sql.Context) {
	if t := s.Txn(); t != nil {
		t.Rollback()
	}
	ctx.SetTransaction(nil)
	ctx.SetIgnoreAutoCommit(false)
}

// Rollback implements sql.TransactionSession.
func (s *Session) Rollback(ctx *sql.Context, tx sql.Transaction) error {
	if err := s.xaKeeps(); err != nil {
		return err
	}
	if t, ok := tx.(*Txn); ok {
		t.Rollback()
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
// The caller has asked MayPrepare before.
func (s *Session) PrepareQuery(query string, stmt sqlparser.Statement) {
	s.prepared[query] = stmt
	s.keepPrepared(query, stmt)
}

// Prepared is the statement that the client has prepared under a name; nil if there is none.
func (s *Session) Prepared(name string) sqlparser.Statement { return s.prepared[name] }

// UnprepareQuery implements sql.Session.
func (s *Session) UnprepareQuery(query string) {
	delete(s.prepared, query)
	delete(s.texts, query)
	s.kept.shrink("prepared "+query, s.kept.of["prepared "+query])
}

// GetPreparedQuery implements sql.Session. The engine asks before it runs a
// statement, which is when the lock clause of a prepared one is noted.
func (s *Session) GetPreparedQuery(query string) (sqlparser.Statement, bool) {
	stmt, ok := s.prepared[query]
	if ok {
		x, _ := s.Stmt.Tree.(*sqlparser.Execute)
		s.Note(stmt)
		if x != nil && x.Name == query {
			s.Stmt.Tree = x // has the parameters
		}
	}
	return stmt, ok
}

// Note keeps what only the syntax tree of a statement tells.
func (s *Session) Note(stmt sqlparser.Statement) {
	names, shortened := s.Stmt.IndexNames, s.Stmt.Shortened // of what was made of the same tree
	s.Stmt.Syntax = syntaxOf(stmt, s.Binds)
	s.Stmt.IndexNames, s.Stmt.Shortened = names, shortened
}

// Explicit reports whether the client has opened the transaction itself.
func (s *Session) Explicit(ctx *sql.Context) bool {
	if s.GetIgnoreAutoCommit() {
		return true
	}
	auto, err := plan.IsSessionAutocommit(ctx)
	return err == nil && !auto
}

// Autocommit is the variable of the session.
func (s *Session) Autocommit() bool {
	ctx := sql.NewContext(context.Background(), sql.WithSession(s))
	v, err := s.GetSessionVariable(ctx, sql.AutoCommitSessionVar)
	if err != nil {
		return true
	}
	on, err := sql.ConvertToBool(ctx, v)
	return err != nil || on
}

// Restart commits a transaction and makes it usable again, empty.
func (s *Session) Restart(ctx *sql.Context, t *Txn) error {
	if err := t.Commit(ctx); err != nil {
		s.Leave(ctx)
		return err
	}
	t.Reset()
	return nil
}

// GetUserVariable implements sql.Session.
func (s *Session) GetUserVariable(ctx *sql.Context, name string) (sql.Type, any, error) {
	if sp := s.Speculation; sp != nil {
		if typ, v, ok := sp.UserVariable(name); ok {
			return typ, v, nil
		}
		return sp.Session().BaseSession.GetUserVariable(ctx, name)
	}
	return s.BaseSession.GetUserVariable(ctx, name)
}

// SetUserVariable implements sql.Session.
func (s *Session) SetUserVariable(ctx *sql.Context, name string, v any, typ sql.Type) error {
	if sp := s.Speculation; sp != nil {
		sp.SetUserVariable(name, typ, v)
		return nil
	}
	if err := s.keep("@"+strings.ToLower(name), sizeOfValue(ctx, v), false); err != nil {
		return err
	}
	if name := strings.ToLower(name); !s.keeps(name) {
		if t, old, err := s.BaseSession.GetUserVariable(ctx, name); err == nil {
			if s.before == nil {
				s.before = map[string]userVariable{}
			}
			s.before[name] = userVariable{t, old}
		}
	}
	return s.BaseSession.SetUserVariable(ctx, name, v, typ)
}

// mostWarnings is how many warnings of a statement are kept: MySQL's default of max_error_count.
const mostWarnings = 1024

// DuplicateIndex is the warning that an index has the columns of another one. The engine gives it
// for any two indexes with as many columns, so package ddl gives it, by BaseSession.
const DuplicateIndex = 1831

// Warn implements sql.Session.
func (s *Session) Warn(w *sql.Warning) {
	if w.Code == DuplicateIndex {
		return
	}
	if s.BaseSession.WarningCount() < mostWarnings {
		if len(w.Message) > warningBytes {
			short := *w
			short.Message = strings.Clone(strings.ToValidUTF8(w.Message[:warningBytes], ""))
			w = &short
		}
		s.BaseSession.Warn(w)
	}
}

// warningBytes is how long a warning is at most, as in MySQL. Those of the engine have the whole
// value in them that is wrong.
const warningBytes = 512

func (s *Session) keeps(name string) bool {
	_, ok := s.before[name]
	return ok
}

// userVariable is one as it was before the statement.
type userVariable struct {
	typ sql.Type
	val any
}

// KeepVariables lets user variables keep their present values if what follows is tried again.
func (s *Session) KeepVariables() { s.before = nil }

// restoreVariables brings the user variables back that an attempt to execute a statement has
// assigned.
func (s *Session) restoreVariables() {
	for name, v := range s.before {
		_ = s.BaseSession.SetUserVariable(sql.NewContext(context.Background(), sql.WithSession(s)), name, v.val, v.typ)
	}
}

// Warnings implements sql.Session: those of the last statement, the oldest first. The engine's are
// the other way round.
func (s *Session) Warnings() []*sql.Warning {
	out := s.BaseSession.Warnings()
	slices.Reverse(out)
	return out
}
