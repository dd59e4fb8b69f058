package sqlfront

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/kv"
)

// isolation is the isolation level of a transaction. It decides how plain SELECTs
// of an explicit transaction read; everything that writes or locks reads current rows
// under locks at every level.
type isolation uint8

const (
	isoDefault isolation = iota
	serializable
	repeatableRead // one snapshot a transaction
	readCommitted  // one snapshot a statement
)

const (
	isolationVar    = "transaction_isolation"
	oldIsolationVar = "tx_isolation" // before MySQL 8
)

// consistencyVar says how the session's transactions cross regions: STRICT locks at the owners, RELAY reads a snapshot
// that is validated at commit, so that nobody nearby waits for somebody far away. CLUSTER is whichever of them the
// cluster setting transaction.tier says, or the gateway chose by itself.
const consistencyVar = "transaction_consistency"

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
	v, err := s.BaseSession.GetSessionVariable(ctx, consistencyVar)
	if s.consistency = ofCluster; err == nil {
		s.consistency = consistencies[v]
	}
}

// crosses reports whether a transaction that begins now crosses regions in a tier of its own.
func (s *Session) crosses() bool {
	return s.consistency == relay || s.consistency == ofCluster && s.g.relay != nil && s.g.relay()
}

var isolationNames = map[string]isolation{
	"SERIALIZABLE": serializable, "REPEATABLE-READ": repeatableRead, "READ-COMMITTED": readCommitted,
	// There are no dirty reads: the next stronger level serves.
	"READ-UNCOMMITTED": readCommitted,
}

func isolationOf(v any) isolation {
	s, _ := v.(string)
	return isolationNames[strings.ToUpper(s)]
}

// setIsolation keeps the level of the session's next transactions.
func (s *Session) setIsolation(ctx *sql.Context, name string) error {
	v, err := s.BaseSession.GetSessionVariable(ctx, name)
	if err != nil {
		return err
	}
	s.level = isolationOf(v)
	if c := s.g.db.Topology().Concurrency; c.Ordered() && s.level != serializable {
		s.Warn(&sql.Warning{Level: "Warning", Code: 1105, Message: fmt.Sprintf("this cluster orders transactions by timestamps (concurrency control %s): all are SERIALIZABLE", c)})
	} else if v == "READ-UNCOMMITTED" {
		s.Warn(&sql.Warning{Level: "Warning", Code: 1105, Message: "there are no dirty reads: READ UNCOMMITTED is READ COMMITTED"})
	}
	return nil
}

// renameIsolation lets SET know the variable by its old name, too.
func renameIsolation(stmt sqlparser.Statement) {
	set, ok := stmt.(*sqlparser.Set)
	if !ok {
		return
	}
	for _, e := range set.Exprs {
		if n := e.Name.Name.String(); strings.HasSuffix(strings.ToLower(n), oldIsolationVar) {
			e.Name.Name = sqlparser.NewColIdent(n[:len(n)-len(oldIsolationVar)] + isolationVar)
		}
	}
}

var reNextLevel = regexp.MustCompile(`(?is)^SET\s+TRANSACTION\s+ISOLATION\s+LEVEL\s+(REPEATABLE\s+READ|READ\s+COMMITTED|READ\s+UNCOMMITTED|SERIALIZABLE)(?:\s*,\s*READ\s+WRITE)?$`)

// nextLevel parses SET TRANSACTION ISOLATION LEVEL without a scope: it is for the next transaction only.
func (p *parser) nextLevel(q string) sqlparser.Statement {
	m := reNextLevel.FindStringSubmatch(q)
	if m == nil {
		return nil
	}
	name := strings.ToUpper(strings.Join(strings.Fields(m[1]), "-"))
	return inject(ignoreAuth, &ownNode{g: p.g, name: "SET TRANSACTION", sch: types.OkResultSchema, run: func(ctx *sql.Context) ([]sql.Row, error) {
		if s := sessionOf(ctx); s != nil {
			if t := s.txn(); s.GetIgnoreAutoCommit() || t != nil && t.kv != nil {
				return nil, errInTransaction
			}
			s.nextLevel = isolationNames[name]
			if name == "READ-UNCOMMITTED" {
				ctx.Warn(1105, "there are no dirty reads: READ UNCOMMITTED is READ COMMITTED")
			}
		}
		return []sql.Row{{types.NewOkResult(0)}}, nil
	}})
}

// isolate fixes the level of a transaction that begins.
func (t *Txn) isolate() {
	if t.level != isoDefault {
		return
	}
	t.strict = t.s.strict
	if t.level = t.s.level; t.s.nextLevel != isoDefault {
		t.level, t.s.nextLevel = t.s.nextLevel, isoDefault
		t.strict = t.level == serializable
	}
	if t.level == isoDefault || t.s.g.db.Topology().Concurrency.Ordered() { // who orders by timestamps gains nothing by less
		t.level = serializable
	}
}

// lockFor is the lock of a read of a table.
func (t *Txn) lockFor(acc *access) kv.LockMode {
	if t.level == readCommitted && !t.s.fresh {
		t.s.fresh = true
		t.kv.NextSnapshot()
	}
	if t.snapshot {
		return kv.LockNone
	}
	m := max(acc.lock, t.s.astLock)
	if m == kv.LockNone && t.level != serializable && t.s.built && !t.s.writes && t.s.triggered == 0 {
		return kv.LockNone
	}
	return max(kv.LockShared, m)
}

var errInTransaction = mysql.NewSQLError(1568, "25001", "Transaction characteristics can't be changed while a transaction is in progress")
