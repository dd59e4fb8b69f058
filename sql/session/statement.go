package session

import (
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
)

// Statement holds the facts of one statement. It is made anew for each one, so nothing of the
// statement before can be left in it: by the beginning of the client's command, and again when the
// engine begins to plan, with the syntax that the parser has noted in between. A statement of a
// stored procedure has one of its own.
type Statement struct {
	Syntax
	// Snap is the catalog that the statement sees; nil until it is needed.
	Snap *schema.Snapshot
	// Planned: the root of the plan was seen.
	Planned bool
	// Writes: the plan changes data or schema. It is valid once Planned is set.
	Writes bool
	// Grants are what the statement has made of users and grants; nil: nothing.
	Grants Grants
	// Asked: the client was asked for a file.
	Asked bool
	// Locks: the plan locks some of the rows that it reads, though it changes none.
	Locks bool
	// Zone is the session's zone if rows come to editors with TIMESTAMPs as its clock shows them;
	// nil: they are in UTC.
	Zone *time.Location
	// Blind: a plain INSERT whose duplicates Commit may find.
	Blind bool
	// PerRow: duplicates must be known row by row (IGNORE, REPLACE, ON DUPLICATE KEY UPDATE).
	PerRow bool
	// Hold: changes are sent to kv at the end of the statement only, because it still reads the
	// table.
	Hold bool
	// inCall: the engine is about to set the transaction of a CALL aside.
	inCall bool
	// Create has the options of the table that the statement creates.
	Create TableOptions
	// CallOff takes back what the statement has committed and not shown yet, if it fails; nil:
	// there is nothing.
	CallOff func()
	// Place is that of the index of Shortened which was dropped last.
	Place int
	// Unpublished are the indexes that the statement has built, as the last things that it has
	// done: its commit is to show them.
	Unpublished []base.IndexID
	// View is the definition of the view looked up last, ViewDB its database, ViewDefiner the
	// account with whose rights it is read; nil: with those of the user.
	View, ViewDB string
	ViewDefiner  *schema.Account
	// Views counts the views that were looked up.
	Views int
	// Trigger: the bodies of triggers are being bound, or have been.
	Trigger bool
	// Triggers is the database whose triggers the engine has listed last; nil: none.
	Triggers *schema.Database
	// Firing are the triggers that the engine binds for a change, as long as it does; nil: it does
	// not. Body is the one whose text is being bound.
	Firing *Firing
	Body   *Trigger
	// Scope is what package rights keeps of the text of a view or trigger whose parts it judges.
	Scope any
	// Account is the definer in whose name the part of the statement judged last is done; nil: the
	// user.
	Account *schema.Account
	// Duplicate is MySQL's wording of the last duplicate-key error; empty if there was none.
	Duplicate string
	// Refusal is MySQL's wording of the last want of a privilege, RefusalOf the engine's text of
	// it.
	Refusal   error
	RefusalOf string
	// Explained is the plan node whose output the gateway completes (EXPLAIN, SHOW CREATE), while
	// the engine builds it.
	Explained sql.Node
	// Reserved are AUTO_INCREMENT values, by counter, that speculative execution has used for rows
	// in triggers. The statement uses them in the same order.
	Reserved map[schema.CounterID][]uint64
	// CheckKey reads the rows of a table for the check of the foreign key that the statement makes;
	// nil: it makes none.
	CheckKey func(id base.TableID, rows sql.RowIter) sql.RowIter
	// Answer is what the client will be told if the statement's transaction commits; nil: it is not
	// known yet.
	Answer *sqltypes.Result
	// Prefetch is what package prefetch keeps of the statement, Columns what package rights does of
	// the columns that it uses.
	Prefetch, Columns any

	// undo brings back the definitions of temporary tables as they were; nil: the statement has
	// changed none.
	undo func()
	// newest is the newest definition among the tables that the statement names.
	newest base.Timestamp
	// refreshed: the catalog was read again for a name that was not found.
	refreshed bool
	// fresh: at READ COMMITTED, the statement has its snapshot.
	fresh bool
}

// Syntax is what only the syntax tree of a statement tells.
type Syntax struct {
	// Tree is the statement that is executed; nil if it is not known.
	Tree sqlparser.Statement
	// Binds are its parameters.
	Binds map[string]*querypb.BindVariable
	// Lock is what the FOR UPDATE or FOR SHARE clause asks for.
	Lock kv.LockMode
	// Call and Truncate: the statement is CALL, or TRUNCATE.
	Call, Truncate bool
	// IndexNames are the names of indexes that an ALTER TABLE builds before they can have them, by
	// those that they have meanwhile. Shortened are those that lose columns: they keep their
	// places.
	IndexNames map[string]string
	Shortened  []string
}

// TableOptions are those of the table that a statement creates, as far as the engine does not pass
// them on.
type TableOptions struct {
	Comment  string
	Locality schema.Locality
	// Replication is what the statement says of it: SYNC, ASYNC or nothing.
	Replication string
	// Placement is the one that the statement names; empty: that of the database.
	Placement string
}

func syntaxOf(stmt sqlparser.Statement, binds map[string]*querypb.BindVariable) Syntax {
	d, ok := stmt.(*sqlparser.DDL)
	_, call := stmt.(*sqlparser.Call)
	return Syntax{Tree: stmt, Binds: binds, Lock: LockClause(stmt), Call: call,
		Truncate: ok && strings.EqualFold(d.Action, sqlparser.TruncateStr)}
}

// LockClause is the lock that the FOR UPDATE or FOR SHARE clause of a statement asks for.
func LockClause(stmt sqlparser.Statement) kv.LockMode {
	switch s := stmt.(type) {
	case *sqlparser.Select:
		if s.Lock != nil {
			return LockOfText(s.Lock.Type)
		}
	case *sqlparser.SetOp:
		if s.Lock != nil {
			return LockOfText(s.Lock.Type)
		}
	case *sqlparser.ParenSelect:
		return LockClause(s.Select)
	}
	return kv.LockNone
}

// LockOfText is the lock that the text of a locking clause asks for.
func LockOfText(t string) kv.LockMode {
	t = strings.ToLower(t)
	switch {
	case strings.Contains(t, "update"):
		return kv.LockExclusive
	case strings.Contains(t, "share"):
		return kv.LockShared
	}
	return kv.LockNone
}

// ErrSkipsLocks is the error for NOWAIT or SKIP LOCKED in a statement that go-mysql-server has to
// execute: it would wait for the locks. why is the reason that it has to.
func ErrSkipsLocks(why string) error {
	return mysql.NewSQLError(1235, "42000", "This version of Godwit doesn't yet support 'NOWAIT and SKIP LOCKED (%s)'", why)
}

// SkipsLocks reports whether NOWAIT or SKIP LOCKED stands anywhere in a statement.
func SkipsLocks(stmt sqlparser.Statement) (skips bool) {
	n, ok := stmt.(sqlparser.SQLNode)
	if !ok {
		return false
	}
	of := func(l *sqlparser.Lock) bool {
		if l == nil {
			return false
		}
		t := strings.ToLower(l.Type)
		return strings.HasSuffix(t, " nowait") || strings.HasSuffix(t, " skip locked")
	}
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		switch s := n.(type) {
		case *sqlparser.Select:
			skips = skips || of(s.Lock)
		case *sqlparser.SetOp:
			skips = skips || of(s.Lock)
		}
		return !skips, nil
	}, n)
	return skips
}
