package session

import (
	"fmt"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/kv"
)

// Isolation is the isolation level of a transaction. It decides how plain SELECTs
// of an explicit transaction read; everything that writes or locks reads current rows
// under locks at every level.
type Isolation uint8

// The isolation levels.
const (
	DefaultLevel Isolation = iota
	Serializable
	RepeatableRead // one snapshot a transaction
	ReadCommitted  // one snapshot a statement
)

// The variable of the isolation level, and its name before MySQL 8.
const (
	IsolationVar    = "transaction_isolation"
	OldIsolationVar = "tx_isolation" // before MySQL 8
)

// ConsistencyVar says how the session's transactions cross regions: STRICT locks at the owners,
// RELAY reads a snapshot that is validated at commit, so that a transaction nearby does not wait
// for one far away. CLUSTER is whichever of them the cluster setting transaction.tier says, or the
// gateway chose by itself.
const ConsistencyVar = "transaction_consistency"

// consistency is how a session's transactions cross regions.
type consistency uint8

const (
	ofCluster consistency = iota
	strict
	relay
)

var consistencies = map[any]consistency{"STRICT": strict, "RELAY": relay}

// readConsistency keeps how the session's next transactions cross regions.
func (s *Session) readConsistency(ctx *sql.Context) {
	v, err := s.BaseSession.GetSessionVariable(ctx, ConsistencyVar)
	if s.consistency = ofCluster; err == nil {
		s.consistency = consistencies[v]
	}
}

// Crosses reports whether a transaction that begins now crosses regions in a tier of its own.
func (s *Session) Crosses() bool {
	relay, _ := s.crosses()
	return relay
}

// crosses is that, and whether somebody has asked for it.
func (s *Session) crosses() (relays, asked bool) {
	if s.consistency != ofCluster || s.env.Relay == nil {
		return s.consistency == relay, true
	}
	return s.env.Relay()
}

// IsolationNames are the levels by the values of the variable.
var IsolationNames = map[string]Isolation{
	"SERIALIZABLE": Serializable, "REPEATABLE-READ": RepeatableRead, "READ-COMMITTED": ReadCommitted,
	// There are no dirty reads: the next stronger level serves.
	"READ-UNCOMMITTED": ReadCommitted,
}

func isolationOf(v any) Isolation {
	s, _ := v.(string)
	return IsolationNames[strings.ToUpper(s)]
}

// setIsolation keeps the level of the session's next transactions.
func (s *Session) setIsolation(ctx *sql.Context, name string) error {
	v, err := s.BaseSession.GetSessionVariable(ctx, name)
	if err != nil {
		return err
	}
	s.level = isolationOf(v)
	if c := s.env.DB.Topology().Concurrency; c.Ordered() && s.level != Serializable {
		s.Warn(&sql.Warning{Level: "Warning", Code: 1105,
			Message: fmt.Sprintf("this cluster orders transactions by timestamps (concurrency control %s): "+
				"all are SERIALIZABLE", c)})
	} else if v == "READ-UNCOMMITTED" {
		s.Warn(&sql.Warning{Level: "Warning", Code: 1105,
			Message: "there are no dirty reads: READ UNCOMMITTED is READ COMMITTED"})
	}
	return nil
}

// isolate fixes the level of a transaction that begins.
func (t *Txn) isolate() {
	if t.level != DefaultLevel {
		return
	}
	t.strict = t.Session.strict
	if t.level = t.Session.level; t.Session.NextLevel != DefaultLevel {
		t.level, t.Session.NextLevel = t.Session.NextLevel, DefaultLevel
		t.strict = t.level == Serializable
	}
	// Transactions that are ordered by timestamps gain nothing by a lower level.
	if t.level == DefaultLevel || t.Session.env.DB.Topology().Concurrency.Ordered() {
		t.level = Serializable
	}
}

// LockFor is the lock of a read of a table for which a lock is asked.
func (t *Txn) LockFor(asked kv.LockMode) kv.LockMode {
	if t.level == ReadCommitted && !t.Session.Stmt.fresh {
		t.Session.Stmt.fresh = true
		t.KV.NextSnapshot()
	}
	if t.Snapshot {
		return kv.LockNone
	}
	m := max(asked, t.Session.Stmt.Lock)
	if m == kv.LockNone && t.level != Serializable && t.Session.Stmt.Planned && !t.Session.Stmt.Writes &&
		t.Session.cmd.calls == 0 {
		return kv.LockNone
	}
	return max(kv.LockShared, m)
}

// ErrInTransaction refuses what can only be set between transactions.
var ErrInTransaction = mysql.NewSQLError(1568, "25001",
	"Transaction characteristics can't be changed while a transaction is in progress")
