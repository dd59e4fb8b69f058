package session

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/schema"
)

// Reads of the past:
//
//	SET read_staleness = '5s' (autocommit SELECTs and READ ONLY transactions may be so old; '' is
//	   not at all)
//	START TRANSACTION READ ONLY AS OF TIMESTAMP time
//	SET TRANSACTION READ ONLY AS OF TIMESTAMP time      (of the next transaction or statement)
//	SELECT @@godwit_session_timestamp         (of the newest that the session has written or seen)
//	SET godwit_session_timestamp = '...' (what another session has seen: reads of this one show no
//	   less)

// Reads chooses snapshots for reads that may be old.
type Reads interface {
	// ReadPoint is a timestamp at which this region's replicas are complete, at least atLeast; a
	// later read at any node of the region gets no smaller one. It waits for at most so long.
	ReadPoint(ctx context.Context, atLeast base.Timestamp, wait time.Duration) (base.Timestamp, bool)
	// PointWait is how long it is worth waiting for one.
	PointWait() time.Duration
	// Plan tells how a strong read of a key of another region would be answered now: from the local
	// replica after about wait, if local, else by its owner after about rtt.
	Plan(key base.Key) (local bool, wait, rtt time.Duration)
}

const (
	StalenessVar    = "read_staleness"
	oldStalenessVar = "tidb_read_staleness"
	tokenVar        = "godwit_session_timestamp"
	// What LAST_INSERT_ID() returns.
	insertIDVar, identityVar = "last_insert_id", "identity"
	// NextAsOfVar and StartAsOfVar are what the statements above are rewritten to; not for clients.
	NextAsOfVar  = "godwit_next_as_of"
	StartAsOfVar = "godwit_start_as_of" // see NextAsOfVar

	AnyStaleness = time.Duration(1<<63 - 1) // 'max'
	// noticed is a wait that counts as half a round trip: within a region one takes less.
	noticed = 2 * time.Millisecond
)

// staleState is what a session keeps of reads of the past.
type staleState struct {
	Staleness time.Duration  // bound of what may be read; 0: nothing old
	floor     base.Timestamp // a token that the client gave
	wroteAt   base.Timestamp // newest commit of the session
	readAt    base.Timestamp // newest snapshot shown
	NextAsOf  base.Timestamp // of the next transaction
}

// token is the newest that the session has written or seen.
func (s *Session) token() base.Timestamp { return max(s.floor, s.wroteAt, s.readAt) }

// NoteTable notes that the statement names a table: snapshots show no older definition of it.
func (s *Session) NoteTable(t *schema.Table) {
	if t != nil {
		s.Stmt.newest = max(s.Stmt.newest, t.TS)
	}
}

// parseStaleness reads '5s', '500ms', a number of seconds, TiDB's negative seconds, or 'max'.
func parseStaleness(v any) (time.Duration, error) {
	text := ""
	switch x := v.(type) {
	case nil:
	case string:
		text = strings.ToLower(strings.TrimSpace(x))
	case []byte:
		text = strings.ToLower(strings.TrimSpace(string(x)))
	default:
		text = fmt.Sprint(x)
	}
	switch text {
	case "", "0", "off", "default":
		return 0, nil
	case "max":
		return AnyStaleness, nil
	}
	text = strings.TrimPrefix(text, "-")
	if d, err := decimal.NewFromString(text); err == nil {
		if d.GreaterThan(decimal.NewFromInt(1e9)) {
			return AnyStaleness, nil
		}
		return time.Duration(d.Shift(9).IntPart()), nil
	}
	d, err := time.ParseDuration(strings.ReplaceAll(text, " ", ""))
	if err != nil || d < 0 {
		return 0, mysql.NewSQLError(1231, "42000", "Variable 'read_staleness' can't be set to the value of '%v': "+
			"give a duration such as '5s' or '500ms', a number of seconds, '' (none) or 'max'", v)
	}
	return d, nil
}

// setStale takes an assignment to one of the variables above; done is false if it is none.
func (s *Session) setStale(ctx *sql.Context, name string, v any) (done bool, err error) {
	v, err = sql.UnwrapAny(ctx, v)
	if err != nil {
		return true, err
	}
	switch strings.ToLower(name) {
	case StalenessVar, oldStalenessVar:
		return true, s.setStaleness(ctx, v)
	case tokenVar:
		return true, s.setToken(v)
	case NextAsOfVar:
		return true, s.setNextAsOf(ctx, v)
	case StartAsOfVar:
		return true, s.startAsOf(ctx, v)
	}
	return false, nil
}

// setStaleness bounds how old the reads of the session may be.
func (s *Session) setStaleness(ctx *sql.Context, v any) error {
	d, err := parseStaleness(v)
	if err != nil {
		return err
	}
	s.Staleness = d
	text := ""
	switch {
	case d == AnyStaleness:
		text = "max"
	case d > 0:
		text = d.String()
	}
	s.state = nil
	return s.BaseSession.SetSessionVariable(ctx, StalenessVar, text)
}

// setToken has the session's reads show no less than another session has seen. What the session has
// seen itself stays seen.
func (s *Session) setToken(v any) error {
	text := strings.TrimSpace(fmt.Sprint(v))
	if b, ok := v.([]byte); ok {
		text = string(b)
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if text == "" || v == nil {
		n, err = 0, nil
	}
	if now := s.env.DB.Clock(); err != nil || base.Timestamp(n) > now.Add(maxToken) {
		return mysql.NewSQLError(1231, "42000", "Variable '%s' can't be set to the value of '%v': "+
			"it is no value of @@%s of a session of this cluster", tokenVar, text, tokenVar)
	}
	s.floor = max(s.floor, base.Timestamp(n))
	return nil
}

// PastTime is the operand of AS OF, which must not lie in the future.
func (s *Session) PastTime(ctx *sql.Context, v any) (base.Timestamp, error) {
	ts, err := s.env.asOfTime(ctx, v)
	if err != nil {
		return 0, err
	}
	if now := s.env.DB.Clock(); ts > now {
		return 0, fmt.Errorf("AS OF lies in the future by %v", ts.Sub(now))
	}
	return ts, nil
}

// setNextAsOf has the next transaction, or autocommit statement, read at a time of the past.
func (s *Session) setNextAsOf(ctx *sql.Context, v any) error {
	ts, err := s.PastTime(ctx, v)
	if err != nil {
		return err
	}
	if s.GetIgnoreAutoCommit() {
		return ErrInTransaction
	}
	s.NextAsOf = ts
	return nil
}

// startAsOf begins a transaction that reads at a time of the past. As every START TRANSACTION it
// commits the one before.
func (s *Session) startAsOf(ctx *sql.Context, v any) error {
	ts, err := s.PastTime(ctx, v)
	if err != nil {
		return err
	}
	if t := s.Txn(); t != nil && s.GetIgnoreAutoCommit() {
		if err := s.CommitTransaction(ctx, t); err != nil {
			return err
		}
	}
	ctx.SetTransaction(&Txn{Session: s, ReadOnly: true, AsOf: ts})
	ctx.SetIgnoreAutoCommit(true)
	return nil
}

// maxToken is how far ahead of this node's clock another node's may be.
const maxToken = 5 * time.Second

// snapshotFor is the timestamp at which a read-only transaction that begins reads; 0: now.
func (s *Session) snapshotFor(ctx *sql.Context) base.Timestamp {
	db := s.env.DB
	if s.Staleness > 0 && s.env.Reads != nil {
		least := max(s.floor, s.wroteAt, s.Stmt.newest)
		if s.Staleness != AnyStaleness {
			least = max(least, db.Time().Add(-s.Staleness))
		}
		began := time.Now()
		ts, ok := s.env.Reads.ReadPoint(s.KVContext(ctx), least, s.env.Reads.PointWait())
		if time.Since(began) >= noticed {
			s.Trace.AddHops(1)
		}
		if ok {
			return ts
		}
	}
	if s.floor > db.Clock() {
		return s.floor // of a node whose clock is ahead of this one's
	}
	return 0
}
